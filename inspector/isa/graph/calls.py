"""Makes functions of the model from raw ones: padding cut, branches, blocks, loops, and the
functions that each calls.

A call names no symbol: `s_swappc_b64 s[30:31], s[16:17]` jumps to what `s_getpc_b64`, an addition
of `f@rel32@lo+4` (or a load through `f@gotpcrel32@lo+4`) and moves have left in the pair, often in
another block. A forward dataflow over the blocks keeps, per register pair, the symbols it may hold.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType

from msgspec import Struct
from msgspec.structs import replace

from ...base.printable import printable_line
from ...model import Block, Function, Instruction, Resources, Unread, UnreadKind
from ..asm.rawcode import CLS, LINE, OP, OPERANDS, RawFunction
from ..mnemonics import FLOW_CLASSES, Flow, flow_of
from . import cfg
from .branches import PAIR, Branches, add_to_pair
from .cfg import abridged

_DESTINATION = re.compile(r"s(?:\[(\d{1,9}):(\d{1,9})\]|(\d{1,9})\b)")
_RELOCATED = re.compile(r"([\w.$]+)@(gotpcrel32|rel32|gotpcrel|rel64)(@(?:lo|hi))?")
_LOADS = frozenset({"s_load_dwordx2", "s_load_b64"})
_MOVES = frozenset({"s_mov_b64"})
_EXTENSIONS = frozenset({"s_sext_i32_i16"})
# Each block is visited a few times until nothing changes; this stops damaged input.
_MAX_VISITS = 20

_Value = tuple[str, str | int]
"""A value that a register pair may hold: ("pc", address after s_getpc or -1), ("address", symbol),
("slot", symbol whose address is in memory there), ("number", address)."""
_State = dict[int, frozenset[_Value]]


class Calls(Struct, frozen=True):
    """The functions that a function calls.

    Args:
        sites: called symbol -> the lines of its calls, in order of first use.
        unresolved: the lines of calls that could not be followed.
    """

    sites: Mapping[str, tuple[int, ...]]
    unresolved: tuple[int, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        """The called symbols."""
        return tuple(self.sites)


def find_calls(
    instructions: Sequence[Instruction],
    blocks: Sequence[Block],
    direct: Mapping[int, str],
    entry_points: Mapping[int, str],
) -> Calls:
    """Finds the functions that one function calls.

    Args:
        instructions: the function's instructions.
        blocks: its basic blocks.
        direct: instruction index -> symbol of calls and tail calls known from their operands.
        entry_points: address -> function, for disassemblies.
    """
    indirect = {
        instruction.index
        for instruction in instructions
        if instruction.op.cls in FLOW_CLASSES
        and instruction.index not in direct
        and flow_of(instruction.op, instruction.operands) is Flow.CALL
    }
    targets: dict[int, list[str]] = {i: [symbol] for i, symbol in direct.items()}
    unresolved: set[int] = set()
    if indirect:
        states = _states(instructions, blocks)
        for block in blocks:
            state = dict(states.get(block.index, {}))
            for i in range(block.start, block.stop):
                instruction = instructions[i]
                if i in indirect:
                    symbols = _targets(instruction, state, entry_points)
                    if symbols:
                        targets[i] = symbols
                    else:
                        unresolved.add(instruction.line)
                _step(state, instructions, i)
    sites: dict[str, tuple[int, ...]] = {}
    for i in sorted(targets):
        for symbol in targets[i]:
            sites[symbol] = (*sites.get(symbol, ()), instructions[i].line)
    return Calls(MappingProxyType(sites), tuple(sorted(unresolved)))


def _states(instructions: Sequence[Instruction], blocks: Sequence[Block]) -> dict[int, _State]:
    """The state at the start of each block that control reaches, by the dataflow's fixed point."""
    states: dict[int, _State] = {0: {}}
    visits = [0] * len(blocks)
    work = [0]
    while work:
        index = work.pop()
        visits[index] += 1
        state = dict(states[index])
        for i in range(blocks[index].start, blocks[index].stop):
            _step(state, instructions, i)
        for following in blocks[index].successors:
            known_state = states.get(following)
            merged = state if known_state is None else _merge(known_state, state)
            if known_state is None or merged != known_state:
                # Past the limit nothing is claimed rather than a value half computed.
                is_over_limit = visits[following] >= _MAX_VISITS
                states[following] = {} if is_over_limit else dict(merged)
                if not is_over_limit or known_state:
                    work.append(following)
    return states


def _merge(a: _State, b: _State) -> _State:
    return {pair: a[pair] | b[pair] for pair in a.keys() & b.keys()}


def _step(state: _State, instructions: Sequence[Instruction], i: int) -> None:
    """Applies one instruction to the values of the register pairs."""
    instruction = instructions[i]
    mnemonic, operands = instruction.mnemonic, instruction.operands
    destination_text, _, source_operands = operands.partition(",")
    if mnemonic.startswith(("s_getpc", "s_get_pc")):
        pair = PAIR.match(destination_text)
        if pair is not None:
            next_address = instructions[i + 1].address if i + 1 < len(instructions) else None
            _forget(state, int(pair[1]), int(pair[2]))
            state[int(pair[1])] = frozenset({("pc", -1 if next_address is None else next_address)})
        return
    destination = _DESTINATION.match(destination_text)
    if destination is None or (not state and mnemonic not in _MOVES):
        return
    low = int(destination[1] or destination[3])
    high = int(destination[2] or destination[3])
    if mnemonic in _MOVES or mnemonic in _LOADS:
        values = _moved(state, mnemonic, source_operands)
        _forget(state, low, high)
        if values:
            state[low] = values
    elif state:
        _add(state, low, high, instruction)


def _moved(state: _State, mnemonic: str, source_operands: str) -> frozenset[_Value] | None:
    """The values that a move or a load leaves in its destination; None where they are unknown."""
    source = PAIR.search(source_operands)
    values = state.get(int(source[1])) if source is not None else None
    if values is not None and mnemonic in _LOADS:
        return frozenset(("address", value) for form, value in values if form == "slot")
    return values


def _add(state: _State, low: int, high: int, instruction: Instruction) -> None:
    """Applies an instruction that may build an address in place, in registers `low` to `high`."""
    mnemonic, operands = instruction.mnemonic, instruction.operands
    # The low half's entry stands for the pair.
    base = low if low in state else low - 1 if low == high else low
    values = state.get(base)
    if values is not None:
        symbol = _RELOCATED.search(operands.partition(",")[2])
        if symbol is not None and any(form == "pc" for form, _ in values):
            form = "slot" if symbol[2].startswith("gotpcrel") else "address"
            state[base] = frozenset({(form, symbol[1])})
            return
        if symbol is not None or mnemonic in _EXTENSIONS:
            return  # the high half of a pair that the low half stands for
        sums = [
            add_to_pair(int(value), base, mnemonic, operands)
            if form in ("pc", "number") and value != -1
            else None
            for form, value in values
        ]
        if None not in sums:
            state[base] = frozenset(("number", value) for value in sums if value is not None)
            return
    _forget(state, low, high)


def _forget(state: _State, low: int, high: int) -> None:
    # The pair that begins one below `low` loses its high half.
    for register in range(low - 1, high + 1):
        state.pop(register, None)


def _targets(instruction: Instruction, state: _State, entry_points: Mapping[int, str]) -> list[str]:
    """The symbols that a call through a register pair may go to; [] where one is unknown."""
    pairs = PAIR.findall(instruction.operands)
    values = state.get(int(pairs[-1][0])) if pairs else None
    if not values:
        return []
    symbols = []
    for form, value in values:
        if form == "address":
            symbols.append(str(value))
        elif form == "number" and value in entry_points:
            symbols.append(entry_points[int(value)])
        else:
            return []
    return sorted(symbols)


LEFT_OUT = "its registers, scratch and LDS are not in the figures"
"""The end of a note on a call to code that is not in the file."""

_DEBUG_LABEL = re.compile(r"\.L(?:tmp|func_begin|func_end|post_getpc|post_addpc|exception)\d*$")
"""Labels that serve debug information or address arithmetic alone."""
_MOST_LINES = 5
"""Lines that an `Unread` lists."""


def finish(
    raw: RawFunction,
    branches: Branches,
    resources: Resources,
    *,
    entry_points: Mapping[int, str],
    shown_name: str | None = None,
    defined: Callable[[str], bool] | None = None,
) -> Function:
    """Makes a `Function` of a raw one.

    Args:
        raw: the rows, padding included.
        branches: the destinations of its branches.
        resources: the resources that the text states.
        entry_points: address -> function, for disassemblies.
        shown_name: a readable name that the metadata gives, if it differs from the symbol.
        defined: whether the text holds a symbol's code; None where it holds all of them.
    """
    branches = replace(branches, unknown=_unfollowed_jumps(raw, branches))
    notes = [*raw.notes, *_reading_notes(raw, branches)]
    unread = _unread_code(raw, [*branches.numeric, *branches.unknown])
    raw, new_index = raw.without_padding((raw.real_entry, *branches.targets.values()))
    branches = branches.renumbered(new_index)
    # A row holds the fields of an instruction, but for the index, in their order.
    instructions = tuple([Instruction(index, *row) for index, row in enumerate(raw.rows)])
    flow = cfg.build(
        instructions,
        branches.targets,
        _labels(raw, set(branches.targets.values())),
        unknown_jumps=branches.unknown,
        real_entry=raw.real_entry,
    )
    named = {**branches.calls, **branches.leaves}
    direct = {i: _name(symbol, entry_points) for i, symbol in named.items()}
    calls = find_calls(instructions, flow.blocks, direct, entry_points)
    notes.extend((*flow.notes, *_call_notes(calls, defined)))
    if not instructions:
        note = "no instruction of it was read" if unread else "no instructions: the kernel is empty"
        notes.append(note)
    if resources.code_bytes is None and raw.code_bytes is not None:
        resources = replace(resources, code_bytes=raw.code_bytes)
    name = printable_line(shown_name or raw.name)
    return Function(
        name=name,
        is_kernel=raw.is_kernel,
        line_first=raw.line,
        line_last=max(raw.line_last, raw.line),
        instructions=instructions,
        blocks=flow.blocks,
        loops=flow.loops,
        resources=resources,
        calls=calls.symbols,
        notes=tuple(dict.fromkeys(notes)),
        symbol=raw.name if name != raw.name else None,
        unread=tuple(unread),
    )


def _unfollowed_jumps(raw: RawFunction, branches: Branches) -> list[int]:
    """The rows of jumps that could go anywhere; those of a device function are its returns."""
    if raw.is_kernel:
        return branches.unknown
    flows = {i: flow_of(raw.rows[i][OP], raw.rows[i][OPERANDS]) for i in branches.unknown}
    return [i for i in branches.unknown if flows[i] is not Flow.INDIRECT]


def _reading_notes(raw: RawFunction, branches: Branches) -> Iterator[str]:
    """Notes on branches, lines and words of a function that could not be read."""
    if branches.numeric:
        lines = abridged([raw.rows[i][LINE] for i in branches.numeric])
        yield f"the branch on line {lines} has a bare offset that is not followed"
    if raw.unrecognised:
        yield (
            f"{len(raw.unrecognised)} lines are not recognised as instructions "
            f"(unknown macros?): line {abridged(raw.unrecognised)}"
        )
    if raw.undecoded:
        yield f"{raw.undecoded} words of it are not decoded"


def _unread_code(raw: RawFunction, jumps: Sequence[int]) -> list[Unread]:
    """The code that could not be read, for the model; `jumps` are rows of jumps not followed."""
    unread = [
        *raw.unread,
        *_unread("lines", raw.unrecognised),
        *_unread("jump", [raw.rows[i][LINE] for i in jumps]),
    ]
    if raw.undecoded:
        words = [row[LINE] for row in raw.rows if row[CLS] == "unknown"]
        unread.append(Unread("words", raw.undecoded, tuple(words[:_MOST_LINES])))
    return unread


def _labels(raw: RawFunction, targets: AbstractSet[int]) -> dict[int, list[str]]:
    """Index -> labels; those made for debug information only at targets without another name."""
    labels: dict[int, list[str]] = {}
    debug_labels: list[tuple[str, int]] = []
    for name, index in raw.labels.items():
        if _DEBUG_LABEL.match(name):
            debug_labels.append((name, index))
        else:
            labels.setdefault(index, []).append(name)
    for name, index in debug_labels:
        if index in targets and index not in labels:
            labels[index] = [name]
    return labels


def _call_notes(calls: Calls, defined: Callable[[str], bool] | None) -> Iterator[str]:
    """Notes on calls of functions that are not in the file."""
    if calls.unresolved:
        lines = abridged(calls.unresolved)
        yield f"the call on line {lines} goes to an unknown function: {LEFT_OUT}"
    for symbol, sites in calls.sites.items():
        if defined is not None and not defined(symbol):
            lines = abridged(sites)
            yield f"the call on line {lines} goes to an unknown function ({symbol}): {LEFT_OUT}"


def _unread(kind: UnreadKind, lines: Sequence[int]) -> list[Unread]:
    return [Unread(kind, len(lines), tuple(lines[:_MOST_LINES]))] if lines else []


def _name(symbol: str, entry_points: Mapping[int, str]) -> str:
    if symbol.startswith("0x") and entry_points:
        return entry_points.get(int(symbol, 16), symbol)
    return symbol
