"""Which functions a function calls: follows code addresses through scalar registers.

A call names no symbol: `s_swappc_b64 s[30:31], s[16:17]` jumps to what `s_getpc_b64`, an addition
of `f@rel32@lo+4` (or a load through `f@gotpcrel32@lo+4`) and moves have left in the pair, often in
another block. A forward dataflow over the blocks keeps, per register pair, the symbols it may hold.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ...model import Block, Instruction
from ..flow import FLOW_CLASSES, Flow, flow_of
from .branches import add_to_pair

_DESTINATION = re.compile(r"s(?:\[(\d{1,9}):(\d{1,9})\]|(\d{1,9})\b)")
_PAIRS = re.compile(r"s\[(\d{1,9}):(\d{1,9})\]")
_RELOCATED = re.compile(r"([\w.$]+)@(gotpcrel32|rel32|gotpcrel|rel64)(@(?:lo|hi))?")
_LOADS = frozenset({"s_load_dwordx2", "s_load_b64"})
_MOVES = frozenset({"s_mov_b64"})
_EXTENSIONS = frozenset({"s_sext_i32_i16"})
# Each block is visited a few times until nothing changes; this stops damaged input.
_MAX_VISITS = 20

_Value = tuple[str, str | int]
"""What a register pair holds: ("pc", address after s_getpc or -1), ("address", symbol),
("slot", symbol whose address is in memory there), ("number", address)."""
_State = dict[int, frozenset[_Value]]


class Calls(Struct, frozen=True):
    """What the calls of a function go to.

    Args:
        sites: called symbol -> the lines of its calls, in order of first use.
        unresolved: the lines of calls that could not be followed.
    """

    sites: Mapping[str, tuple[int, ...]]
    unresolved: tuple[int, ...]

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self.sites)


def find_calls(
    instructions: Sequence[Instruction],
    blocks: Sequence[Block],
    direct: Mapping[int, str],
    entry_points: Mapping[int, str],
) -> Calls:
    """Finds what the calls of one function go to.

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
                # Past the limit nothing is claimed rather than something half computed.
                over = visits[following] >= _MAX_VISITS
                states[following] = {} if over else dict(merged)
                if not over or known_state:
                    work.append(following)
    return states


def _merge(a: _State, b: _State) -> _State:
    return {pair: a[pair] | b[pair] for pair in a.keys() & b.keys()}


def _step(state: _State, instructions: Sequence[Instruction], i: int) -> None:
    """Applies one instruction to what the register pairs hold."""
    instruction = instructions[i]
    mnemonic, operands = instruction.mnemonic, instruction.operands
    first, _, source_operands = operands.partition(",")
    if mnemonic.startswith(("s_getpc", "s_get_pc")):
        pair = _PAIRS.match(first)
        if pair is not None:
            next_address = instructions[i + 1].address if i + 1 < len(instructions) else None
            _forget(state, int(pair[1]), int(pair[2]))
            state[int(pair[1])] = frozenset({("pc", -1 if next_address is None else next_address)})
        return
    destination = _DESTINATION.match(first)
    if destination is None or (not state and mnemonic not in _MOVES):
        return
    low = int(destination[1] or destination[3])
    high = int(destination[2] or destination[3])
    if mnemonic in _MOVES or mnemonic in _LOADS:
        source = _PAIRS.search(source_operands)
        held = state.get(int(source[1])) if source is not None else None
        if held is not None and mnemonic in _LOADS:
            held = frozenset(("address", value) for kind, value in held if kind == "slot")
        _forget(state, low, high)
        if held:
            state[low] = held
        return
    if not state:
        return
    # An address is built in place: the low half's entry stands for the pair.
    base = low if low in state else low - 1 if low == high else low
    held = state.get(base)
    symbol = _RELOCATED.search(source_operands)
    if held is not None and symbol is not None and any(kind == "pc" for kind, _ in held):
        kind = "slot" if symbol[2].startswith("gotpcrel") else "address"
        state[base] = frozenset({(kind, symbol[1])})
        return
    if held is not None and (symbol is not None or mnemonic in _EXTENSIONS):
        return  # the high half of what the low half said
    if held is not None:
        moved = {
            (
                "number",
                add_to_pair(int(value), base, mnemonic, operands)
                if kind in ("pc", "number") and value != -1
                else None,
            )
            for kind, value in held
        }
        if all(value is not None for _, value in moved):
            state[base] = frozenset((kind, value) for kind, value in moved if value is not None)
            return
    _forget(state, low, high)


def _forget(state: _State, low: int, high: int) -> None:
    # The pair that begins one below `low` loses its high half.
    for register in range(low - 1, high + 1):
        state.pop(register, None)


def _targets(instruction: Instruction, state: _State, entry_points: Mapping[int, str]) -> list[str]:
    pairs = _PAIRS.findall(instruction.operands)
    held = state.get(int(pairs[-1][0])) if pairs else None
    if not held:
        return []
    symbols = []
    for kind, value in held:
        if kind == "address":
            symbols.append(str(value))
        elif kind == "number" and value in entry_points:
            symbols.append(entry_points[int(value)])
        else:
            return []
    return sorted(symbols)
