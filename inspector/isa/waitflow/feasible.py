"""Which registers touched too early are so on a path that the code can take.

Hand-written kernels test the same condition at several places: loads of C and, further on, more of
them are skipped where beta is 0, and what waits for them counts on both or none. A dataflow over
all paths sees the path that skips one of the two, which no wave takes. Here the outcome of a scalar
comparison is remembered for as long as its registers keep their values, as a range of values where
it was with a number, and an edge that contradicts it is not followed. What is far away is left out:
hand-written code counts loads in registers there, which no comparison tells.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from ...model import Function, Instruction
from ..mnemonics import Flow, flow_of
from . import ranges
from .pending import Ages, Outstanding, ceilings, join, through
from .ranges import Ranges
from .registers import named
from .steps import Steps

MOST_STATES = 48
"""Sets of assumptions that one block is looked at under; beyond that nothing is assumed there."""
MOST_BLOCKS = 32
"""Blocks between an operation and what touches its registers, on the shortest way."""
_PATIENCE = 4

_COMPARE = re.compile(r"s_cmpk?_(eq|lg|lt|ge|gt|le)_([iuf]\d+)$")
_OPPOSITE = {"lg": "eq", "ge": "lt", "gt": "le"}
"""Each comparison is told as the one that it is the opposite of: SOPC in the ISA documents."""
_BRANCHES = {"s_cbranch_scc0": False, "s_cbranch_scc1": True}
# Scalar operations that leave SCC alone (ISA documents: no "SCC = ..." stands with them).
_KEEPS_SCC = re.compile(
    r"s_(mov|cmov|movk|cselect|mul_i32|mul_hi|pack|getpc|load|buffer_load|waitcnt|wait|nop|barrier|"
    r"setprio|sleep|brev|ff1|flbit|sext|bitset|getreg|setreg|delay|clause|mulk|memtime|inst_prefetch)"
)

Condition = tuple[str, str]
"""Comparison and operands: `("eq", "s41, s42")`."""
Assumed = tuple[frozenset[tuple[Condition, bool]], Ranges]
"""Conditions that held or not, and the values that scalar registers may have."""


class _Ending(Struct, frozen=True):
    """How a block ends: under which condition which successor is next.

    `among` is set for a comparison with a number: the register, and its values where it holds.
    """

    condition: Condition
    when_true: int
    when_false: int
    among: tuple[int, ranges.Values] | None = None


def confirmed(
    function: Function, steps: Steps, maxima: Mapping[str, int], pending: Outstanding
) -> set[tuple[int, int]]:
    """Those of `pending.early` that remain where contradictions are left out.

    Args:
        function: the code.
        steps: the same for the dataflow.
        maxima: the machine's counters -> largest value.
        pending: what the dataflow over all paths says.
    """
    near = _near(function, steps, pending)
    endings = _endings(function)
    if not endings or not near:
        return near
    conditions = {ending.condition for ending in endings.values()}
    code = [function.instructions[b.start : b.stop] for b in function.blocks]
    lost = [_lost(block_code, conditions) for block_code in code]
    compared = {ending.among[0] for ending in endings.values() if ending.among is not None}
    effects = ranges.effects(code, compared)
    at = {index: ending.among[0] for index, ending in endings.items() if ending.among is not None}
    live = ranges.live(effects, at, [block.successors for block in function.blocks])
    most = ceilings(steps, maxima)
    start: Assumed = (frozenset(), frozenset())
    entry_ages: dict[tuple[int, Assumed], Ages] = {(0, start): {}}
    states: dict[int, set[Assumed]] = {0: {start}}
    early: dict[tuple[int, Assumed], Outstanding] = {}
    visits: dict[tuple[int, Assumed], int] = {}
    waiting = [(0, start)]
    while waiting:
        node = waiting.pop()
        index, assumed = node
        visits[node] = visits.get(node, 0) + 1
        early[node] = Outstanding()
        exit_ages = through(steps, steps.blocks[index], entry_ages[node], most, early[node])
        still = (
            frozenset(pair for pair in assumed[0] if pair[0] not in lost[index]),
            ranges.after(effects[index], assumed[1]),
        )
        for successor, assumption in _onwards(
            function.blocks[index].successors, endings.get(index), still
        ):
            assumption = (
                assumption[0],
                frozenset(pair for pair in assumption[1] if pair[0] in live[successor]),
            )
            assumptions = states.setdefault(successor, set())
            if assumption not in assumptions and len(assumptions) >= MOST_STATES:
                assumption = start
            assumptions.add(assumption)
            next_node = (successor, assumption)
            joined = join(
                entry_ages.get(next_node), exit_ages, visits.get(next_node, 0) > _PATIENCE
            )
            if joined != entry_ages.get(next_node):
                entry_ages[next_node] = joined
                if next_node not in waiting:
                    waiting.append(next_node)
    return {place for record in early.values() for place in record.early} & near


def _near(function: Function, steps: Steps, pending: Outstanding) -> set[tuple[int, int]]:
    """What is touched too early within MOST_BLOCKS of the operation."""
    block_of = {i: b.index for b in function.blocks for i in range(b.start, b.stop)}
    reached: dict[int, set[int]] = {}
    near = set()
    for index, number in pending.early:
        start = block_of[steps.producers[number]]
        if start not in reached:
            reached[start] = edge = {start}
            for _ in range(MOST_BLOCKS):
                edge = {n for b in edge for n in function.blocks[b].successors} - reached[start]
                reached[start] |= edge
        if block_of[index] in reached[start]:
            near.add((index, number))
    return near


def _onwards(
    successors: Sequence[int], ending: _Ending | None, assumed: Assumed
) -> list[tuple[int, Assumed]]:
    if ending is None:
        return [(successor, assumed) for successor in successors]
    conditions, values = assumed
    exits: list[tuple[int, Assumed]] = []
    for outcome, successor in ((True, ending.when_true), (False, ending.when_false)):
        if ending.among is not None:
            left = ranges.narrowed(values, *ending.among, outcome)
            if left is not None:
                exits.append((successor, (conditions, left)))
        elif dict(conditions).get(ending.condition, outcome) == outcome:
            exits.append((successor, (conditions | {(ending.condition, outcome)}, values)))
    return exits


def _endings(function: Function) -> dict[int, _Ending]:
    """Blocks that end in a branch on a comparison with a number, or one that another ends in."""
    endings: dict[int, _Ending] = {}
    for block in function.blocks:
        code = function.instructions[block.start : block.stop]
        ending = _ending(code, block.index, block.successors)
        if ending is not None:
            endings[block.index] = ending
    times = Counter(ending.condition for ending in endings.values())
    return {
        i: ending
        for i, ending in endings.items()
        if ending.among is not None or times[ending.condition] > 1
    }


def _ending(code: Sequence[Instruction], index: int, successors: Sequence[int]) -> _Ending | None:
    taken_when = _BRANCHES.get(code[-1].op.name) if code else None
    targets = [successor for successor in successors if successor != index + 1]
    if taken_when is None or len(targets) != 1 or index + 1 not in successors:
        return None
    for inst in reversed(code[:-1]):
        name = inst.op.name
        match = _COMPARE.match(name)
        if match is not None:
            kind = _OPPOSITE.get(match[1], match[1])
            operands = " ".join(inst.operands.replace(",", ", ").split())
            later_code = code[inst.index - code[0].index + 1 :]
            if not _written_registers(later_code).isdisjoint(named(operands)) or not named(
                operands
            ):
                return None
            typed = kind if kind == "eq" and match[2][0] != "f" else f"{kind}_{match[2]}"
            holds = taken_when == (kind == match[1])  # the branch is taken where `kind` holds
            target, next_ = targets[0], index + 1
            return _Ending(
                (typed, operands),
                *((target, next_) if holds else (next_, target)),
                among=ranges.compared(kind, match[2], operands),
            )
        if name.startswith("s_") and not _KEEPS_SCC.match(name):
            return None
    return None


def _lost(code: Sequence[Instruction], conditions: set[Condition]) -> frozenset[Condition]:
    """The conditions of which nothing is known any more behind some code."""
    if any(flow_of(inst.op, inst.operands) is Flow.CALL for inst in code):
        return frozenset(conditions)
    registers = _written_registers(code)
    return frozenset(
        condition for condition in conditions if not registers.isdisjoint(named(condition[1]))
    )


def _written_registers(code: Sequence[Instruction]) -> frozenset[int]:
    """Registers that instructions may write."""
    writing = (inst for inst in code if not _COMPARE.match(inst.op.name))
    return frozenset(register for inst in writing for register in ranges.written_registers(inst))
