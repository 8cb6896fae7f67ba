"""Destinations of branches: labels of assembly, addresses of a disassembly, addresses that code
computes from `s_getpc_b64` for long branches.

A long branch is `s_getpc_b64 s[4:5]; s_add_u32 s4, s4, distance; s_addc_u32 s5, s5, 0; s_setpc_b64
s[4:5]`, as LLVM writes it, or has the distance added up in a register of its own, as Tensile does.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct, field

from ..asm.expr import parse_int
from ..asm.rawcode import ADDRESS, COMMENT, MNEMONIC, OP, OPERANDS, RawFunction, Row
from ..dataflow.operands import operand_texts
from ..mnemonics import Flow, flow_of
from ..twos_complement import signed

_SYMBOL = re.compile(r"(?<![\w.$])[A-Za-z_.$][\w.$]*")
_LAST_OPERAND = re.compile(r"([^\s,]+)\s*$")
_NUMBERED = re.compile(r"(\d{1,18})([bf])$")
_ENCODING = re.compile(r"[0-9A-Fa-f]{8}")
# Registers and relocation suffixes are no labels.
_NOT_A_LABEL = re.compile(r"(?:s|v|a|ttmp)\d+$|(?:vcc|exec|flat_scratch|xnack_mask)(?:_lo|_hi)?$")
RETURN_REGISTERS = "s[30:31]"
"""The return address in the AMDGPU calling convention (AMDGPUUsage)."""


class Branches(Struct):
    """The jumps and calls of a function, by the row they stand on.

    Args:
        targets: row of a jump or branch -> row that it goes to.
        leaves: row -> symbols outside the function that it goes to (tail calls).
        calls: row of a direct call -> symbol.
        unknown: rows of jumps that could go anywhere in the function.
        numeric: rows of branches with a bare byte offset that no address resolves.
    """

    targets: dict[int, int] = field(default_factory=dict)
    leaves: dict[int, str] = field(default_factory=dict)
    calls: dict[int, str] = field(default_factory=dict)
    unknown: list[int] = field(default_factory=list)
    numeric: list[int] = field(default_factory=list)

    def renumbered(self, new_index: Sequence[int]) -> Branches:
        """The same branches after rows were removed; `new_index` has a new number for each row."""
        return Branches(
            targets={new_index[i]: new_index[target] for i, target in self.targets.items()},
            leaves={new_index[i]: symbol for i, symbol in self.leaves.items()},
            calls={new_index[i]: symbol for i, symbol in self.calls.items()},
            unknown=[new_index[i] for i in self.unknown],
            numeric=[new_index[i] for i in self.numeric],
        )


def resolve_labels(function: RawFunction) -> Branches:
    """Resolves the branches of an assembly text by its labels."""
    branches = Branches()
    for i in function.flow_rows:
        row = function.rows[i]
        operands = row[OPERANDS]
        if i in function.targets:
            branches.targets[i] = function.targets[i]
            continue
        flow = flow_of(row[OP], operands)
        if flow is Flow.INDIRECT:
            _resolve_register_jump(function, i, branches)
            continue
        if flow not in (Flow.JUMP, Flow.CONDITIONAL, Flow.CALL):
            continue
        last = _LAST_OPERAND.search(operands)
        if last is None or PAIR.match(last[1]) or SINGLE.match(last[1]):
            if flow is not Flow.CALL:
                branches.unknown.append(i)
            continue
        name = last[1].strip('"')
        target = function.labels.get(name)
        if target is None:
            target = _numbered_target(function, name, i)
        if flow is Flow.CALL:
            branches.calls[i] = name
        elif target is not None and target < len(function.rows):
            branches.targets[i] = target
        elif target is None and not _SYMBOL.match(name):
            branches.numeric.append(i)
        elif target is None:
            branches.leaves[i] = name
    return branches


def _numbered_target(function: RawFunction, name: str, row_index: int) -> int | None:
    """The row that a reference to a local label (`1b`, `1f`) goes to; None without one."""
    match = _NUMBERED.match(name)
    if match is None:
        return None
    positions = function.numbered.get(match[1], [])
    k = bisect_right(positions, row_index)
    if match[2] == "b":
        return positions[k - 1] if k else None
    return positions[k] if k < len(positions) else None


def _resolve_register_jump(function: RawFunction, row_index: int, branches: Branches) -> None:
    """Finds the label that `s_getpc_b64; s_add_u32 ..., label...; s_setpc_b64` computes."""
    row = function.rows[row_index]
    names: list[str] = []
    if PAIR.search(row[OPERANDS]) is None:  # s_add_pc_i64 takes the distance itself
        names = _SYMBOL.findall(row[OPERANDS])
        base: int | None = row_index
    else:
        base = getpc_row(function, row_index)
        if base is not None:
            for between in function.rows[base + 1 : row_index]:
                names.extend(_SYMBOL.findall(between[OPERANDS].partition(",")[2]))
    if base is None:
        if not row[OPERANDS].strip().startswith(RETURN_REGISTERS):
            branches.unknown.append(row_index)
        return
    local = {
        function.labels[name]
        for name in names
        # The label right after s_getpc is what the distance is counted from.
        if name in function.labels and function.labels[name] != base + 1
    }
    local.discard(len(function.rows))
    if len(local) == 1:
        branches.targets[row_index] = local.pop()
        return
    outside = [
        name for name in names if name not in function.labels and not _NOT_A_LABEL.match(name)
    ]
    outside = [name for name in outside if name not in ("rel32", "gotpcrel32", "lo", "hi")]
    if not local and len(set(outside)) == 1:
        branches.leaves[row_index] = outside[0]
    else:
        branches.unknown.append(row_index)


def branch_destination(address: int, operands: str, comment: str) -> int | None:
    """The address that a relative branch of a disassembly goes to.

    Args:
        address: the branch's own.
        operands: `56` or `s[30:31], 65480`: the 16-bit distance, in words, from the next word.
        comment: what follows the address in the listing: encoding words and `<symbol+offset>`.
    """
    last = _LAST_OPERAND.search(operands)
    distance = parse_int(last[1]) if last is not None else None
    if distance is None:
        word = _ENCODING.match(comment.strip())
        if word is None:
            return None
        distance = int(word[0], 16)
    distance &= 0xFFFF
    return address + 4 + 4 * (distance - 0x10000 if distance & 0x8000 else distance)


def resolve_addresses(function: RawFunction, row_at: Mapping[int, int]) -> Branches:
    """Resolves the branches of a disassembly by address.

    Args:
        function: the rows.
        row_at: address -> row, for the rows of this function.
    """
    branches = Branches()
    first_address, last_address = min(row_at, default=None), max(row_at, default=0)
    for i in function.flow_rows:
        row = function.rows[i]
        flow = flow_of(row[OP], row[OPERANDS])
        if flow is Flow.CALL:
            has_target = len(PAIR.findall(row[OPERANDS])) == 1
            destination = _relative_destination(row) if has_target else None
            if destination is not None:
                branches.calls[i] = f"0x{destination:x}"
            continue
        if flow is Flow.INDIRECT:
            destination = register_jump_destination(function, i)
            if destination is None and row[OPERANDS].strip().startswith(RETURN_REGISTERS):
                continue
        elif flow in (Flow.JUMP, Flow.CONDITIONAL):
            label = _LAST_OPERAND.search(row[OPERANDS])
            if label is not None and label[1] in function.labels:  # --symbolize-operands
                branches.targets[i] = function.labels[label[1]]
                continue
            destination = None if PAIR.search(row[OPERANDS]) else _relative_destination(row)
        else:
            continue
        target = row_at.get(destination) if destination is not None else None
        if target is not None:
            branches.targets[i] = target
        elif destination is None:
            branches.unknown.append(i)
        elif first_address is not None and first_address <= destination <= last_address:
            branches.unknown.append(i)  # into the middle of an instruction: decoded wrongly
        else:
            branches.leaves[i] = f"0x{destination:x}"
    return branches


def _relative_destination(row: Row) -> int | None:
    address = row[ADDRESS]
    return None if address is None else branch_destination(address, row[OPERANDS], row[COMMENT])


PAIR = re.compile(r"s\[(\d{1,9}):(\d{1,9})\]")
"""A pair of scalar registers."""
SINGLE = re.compile(r"s(\d{1,9})$|s\[(\d{1,9})\]$")
"""One scalar register."""
_EXPLICIT_LITERAL = re.compile(r"lit(?:64)?\(([^()]*)\)$")
_WINDOW = 16
"""Instructions searched backwards from a long branch for its s_getpc; LLVM emits two to four."""

# Scalar additions that build an address: their sign, and the half of the pair they work on.
_ADDITIONS: Mapping[str, tuple[int, str]] = MappingProxyType(
    {
        "s_add_u32": (1, "low"),
        "s_add_i32": (1, "low"),
        "s_add_co_u32": (1, "low"),
        "s_add_co_i32": (1, "low"),
        "s_sub_u32": (-1, "low"),
        "s_sub_co_u32": (-1, "low"),
        "s_addc_u32": (1, "high"),
        "s_add_co_ci_u32": (1, "high"),
        "s_subb_u32": (-1, "high"),
        "s_sub_co_ci_u32": (-1, "high"),
        "s_add_nc_u64": (1, "both"),
        "s_add_u64": (1, "both"),
        "s_sub_nc_u64": (-1, "both"),
        "s_sub_u64": (-1, "both"),
    }
)


def getpc_row(function: RawFunction, row_index: int) -> int | None:
    """The row of the s_getpc_b64 that a jump's register pair comes from, if it is near."""
    pair = PAIR.search(function.rows[row_index][OPERANDS])
    for i in range(row_index - 1, max(row_index - _WINDOW, -1), -1):
        row = function.rows[i]
        if row[MNEMONIC].startswith(("s_getpc", "s_get_pc")):
            return i if pair is not None and pair[0] in row[OPERANDS] else None
        if not flow_of(row[OP], row[OPERANDS]).falls_through:
            return None
    return None


def register_jump_destination(function: RawFunction, row_index: int) -> int | None:
    """The address that a long branch of a disassembly computes from s_getpc_b64."""
    rows = function.rows
    if PAIR.search(rows[row_index][OPERANDS]) is None:
        distance = _literal(rows[row_index][OPERANDS].strip())
        next_address = _address_after(function, row_index)
        return None if distance is None or next_address is None else next_address + distance
    base = getpc_row(function, row_index)
    if base is None:
        return None
    value = _address_after(function, base)
    pair = PAIR.search(rows[row_index][OPERANDS])
    if value is None or pair is None:
        return None
    constants: dict[int, int] = {}
    for row in rows[base + 1 : row_index]:
        value = add_to_pair(value, int(pair[1]), row[MNEMONIC], row[OPERANDS], constants)
        if value is None:
            return None
        _follow_constant(constants, row[MNEMONIC], row[OPERANDS])
    return value


def _follow_constant(constants: dict[int, int], mnemonic: str, operands: str) -> None:
    """Updates the known values of single scalar registers: Tensile adds up a distance in one."""
    texts = operand_texts(operands)
    single = SINGLE.match(texts[0])
    if single is None:
        pair = PAIR.match(texts[0])
        if pair is not None:
            for register in range(int(pair[1]), int(pair[2]) + 1):
                constants.pop(register, None)
        return
    register = int(single[1] or single[2])
    values = [_constant_value(text, constants) for text in texts[1:]]
    compute = _CONSTANTS.get(mnemonic)
    if compute is None or None in values or len(values) != compute[0]:
        constants.pop(register, None)
    else:
        constants[register] = compute[1](*(v or 0 for v in values)) & 0xFFFFFFFF


def _constant_value(text: str, constants: Mapping[int, int]) -> int | None:
    register = SINGLE.match(text)
    return constants.get(int(register[1] or register[2])) if register else _literal(text)


# Scalar instructions on one register: their number of source operands, and their function.
_CONSTANTS: Mapping[str, tuple[int, Callable[..., int]]] = MappingProxyType(
    {
        "s_mov_b32": (1, operator.pos),
        "s_abs_i32": (1, lambda v: abs(signed(v))),
        **dict.fromkeys(("s_add_i32", "s_add_u32", "s_add_co_i32"), (2, operator.add)),
        **dict.fromkeys(("s_sub_i32", "s_sub_u32", "s_sub_co_i32"), (2, operator.sub)),
    }
)


def add_to_pair(
    value: int,
    low_register: int,
    mnemonic: str,
    operands: str,
    constants: Mapping[int, int] = MappingProxyType({}),
) -> int | None:
    """Applies one instruction to the 64-bit address in a register pair.

    Args:
        value: the address.
        low_register: number of the pair's first register.
        mnemonic: the instruction's mnemonic.
        operands: the instruction's operands.
        constants: scalar registers whose value is known.

    Returns:
        The new value, the old one if the instruction does not touch the pair, None if it does
        something else to it.
    """
    texts = operand_texts(operands)
    match = PAIR.match(texts[0]) or SINGLE.match(texts[0])
    if match is None:
        return value
    first_register = int(next(g for g in match.groups() if g is not None))
    last_register = int(match[2]) if PAIR.match(texts[0]) else first_register
    if last_register < low_register or first_register > low_register + 1:
        return value
    if mnemonic.startswith("s_sext_i32_i16"):
        return value  # gfx12 sign-extends what s_getpc_b64 leaves in the high half
    addition = _ADDITIONS.get(mnemonic)
    literal = _constant_value(texts[2], constants) if len(texts) > 2 else None
    if addition is None or literal is None or texts[1] != texts[0]:
        return None
    sign, half = addition
    if half == "high":
        # The carry is in `value` already: the low half is added as a 64-bit number.
        return (value + (sign * literal << 32)) & ((1 << 64) - 1)
    if half == "low":
        literal &= 0xFFFFFFFF
    return (value + sign * literal) & ((1 << 64) - 1)


def _literal(text: str) -> int | None:
    # LLVM >= 22 writes lit(...) for a literal that an inline constant could express.
    explicit = _EXPLICIT_LITERAL.match(text)
    return parse_int(explicit[1] if explicit is not None else text)


def _address_after(function: RawFunction, row_index: int) -> int | None:
    rows = function.rows
    if row_index + 1 < len(rows):
        return rows[row_index + 1][ADDRESS]
    return None
