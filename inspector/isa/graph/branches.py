"""Destinations of branches, by the labels of assembly or the addresses of a disassembly."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ..asm.expr import parse_int
from ..asm.rawcode import ADDRESS, COMMENT, OP, OPERANDS, RawFunction, Row
from ..mnemonics import Flow, flow_of
from .long_branches import PAIR, SINGLE, getpc_row, register_jump_destination

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
