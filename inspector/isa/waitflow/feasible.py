"""Which of the registers touched too early are so on a path that the code can take.

Hand-written kernels test the same condition at several places: they skip loads of C, and further
loads later, where beta is 0, and their waits count on both or none. A dataflow over all paths sees
the path that skips one of the two, which no wave takes. Here the outcome of a scalar comparison is
remembered for as long as its registers keep their values, as a range of values where it was with a
number, and edges that contradict it are not followed. Pairs that lie far apart are left out: there
hand-written code counts loads in registers, which no comparison reveals.
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
"""Sets of assumptions that one block is analysed under; beyond that nothing is assumed there."""
MOST_BLOCKS = 32
"""Blocks between an operation and the touching of its registers, on the shortest path."""
_PATIENCE = 4
"""Visits of a block after which a rising age goes to CAP at once."""

_COMPARE = re.compile(r"s_cmpk?_(eq|lg|lt|ge|gt|le)_([iuf]\d+)$")
_OPPOSITE = {"lg": "eq", "ge": "lt", "gt": "le"}
"""Comparison -> its negation, which stands for both (ISA documents, SOPC)."""
_BRANCHES = {"s_cbranch_scc0": False, "s_cbranch_scc1": True}
# Scalar operations that do not write SCC (ISA documents: no "SCC = ..." in their description).
_KEEPS_SCC = re.compile(
    r"s_(mov|cmov|movk|cselect|mul_i32|mul_hi|pack|getpc|load|buffer_load|waitcnt|wait|nop|barrier|"
    r"setprio|sleep|brev|ff1|flbit|sext|bitset|getreg|setreg|delay|clause|mulk|memtime|inst_prefetch)"
)

Condition = tuple[str, str]
"""Comparison and operands: `("eq", "s41, s42")`."""
Assumptions = tuple[frozenset[tuple[Condition, bool]], Ranges]
"""Conditions and their outcomes, and the values that scalar registers may have."""


class _Ending(Struct, frozen=True):
    """The conditional branch at the end of a block.

    Args:
        condition: what it depends on.
        when_true: the next block where the condition holds.
        when_false: the next block where it does not.
        compared: of a comparison with a number, the register and its values where it holds.
    """

    condition: Condition
    when_true: int
    when_false: int
    compared: tuple[int, ranges.Values] | None = None


def confirmed(
    function: Function, steps: Steps, maxima: Mapping[str, int], pending: Outstanding
) -> set[tuple[int, int]]:
    """The entries of `pending.early` that remain on paths without contradictions.

    Args:
        function: the code.
        steps: the function reduced for the dataflow.
        maxima: the machine's counters -> largest value.
        pending: the result of the dataflow over all paths.
    """
    near = _near(function, steps, pending)
    endings = _endings(function)
    if not endings or not near:
        return near
    code = [function.instructions[b.start : b.stop] for b in function.blocks]
    conditions = {ending.condition for ending in endings.values()}
    lost = [_lost(block_code, conditions) for block_code in code]
    compared_at = {
        index: ending.compared[0]
        for index, ending in endings.items()
        if ending.compared is not None
    }
    effects = ranges.effects(code, set(compared_at.values()))
    live = ranges.live(effects, compared_at, [block.successors for block in function.blocks])
    age_limits = ceilings(steps, maxima)
    start: Assumptions = (frozenset(), frozenset())
    entry_ages: dict[tuple[int, Assumptions], Ages] = {(0, start): {}}
    block_states: dict[int, set[Assumptions]] = {0: {start}}
    early: dict[tuple[int, Assumptions], Outstanding] = {}
    visits: dict[tuple[int, Assumptions], int] = {}
    work = [(0, start)]
    while work:
        node = work.pop()
        index, (outcomes, values) = node
        visits[node] = visits.get(node, 0) + 1
        early[node] = Outstanding()
        exit_ages = through(steps, steps.blocks[index], entry_ages[node], age_limits, early[node])
        exit_state = (
            frozenset(pair for pair in outcomes if pair[0] not in lost[index]),
            ranges.after(effects[index], values),
        )
        exits = _exits(function.blocks[index].successors, endings.get(index), exit_state)
        for successor, (outcomes, values) in exits:
            state = (outcomes, frozenset(pair for pair in values if pair[0] in live[successor]))
            states = block_states.setdefault(successor, set())
            if state not in states and len(states) >= MOST_STATES:
                state = start
            states.add(state)
            next_node = (successor, state)
            hurry = visits.get(next_node, 0) > _PATIENCE
            joined = join(entry_ages.get(next_node), exit_ages, hurry)
            if joined != entry_ages.get(next_node):
                entry_ages[next_node] = joined
                if next_node not in work:
                    work.append(next_node)
    return {key for record in early.values() for key in record.early} & near


def _near(function: Function, steps: Steps, pending: Outstanding) -> set[tuple[int, int]]:
    """The entries of `pending.early` within MOST_BLOCKS of the operation."""
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


def _exits(
    successors: Sequence[int], ending: _Ending | None, assumptions: Assumptions
) -> list[tuple[int, Assumptions]]:
    """The successors that the assumptions allow, with the assumptions on the way to each."""
    if ending is None:
        return [(successor, assumptions) for successor in successors]
    conditions, values = assumptions
    exits: list[tuple[int, Assumptions]] = []
    for outcome, successor in ((True, ending.when_true), (False, ending.when_false)):
        if ending.compared is not None:
            remaining = ranges.narrowed(values, *ending.compared, outcome)
            if remaining is not None:
                exits.append((successor, (conditions, remaining)))
        elif dict(conditions).get(ending.condition, outcome) == outcome:
            exits.append((successor, (conditions | {(ending.condition, outcome)}, values)))
    return exits


def _endings(function: Function) -> dict[int, _Ending]:
    """Branches on a comparison with a number, or on a condition that another branch has too."""
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
        if ending.compared is not None or times[ending.condition] > 1
    }


def _ending(code: Sequence[Instruction], index: int, successors: Sequence[int]) -> _Ending | None:
    """The ending of a block; None where its branch depends on no scalar comparison in it."""
    branch_outcome = _BRANCHES.get(code[-1].op.name) if code else None
    targets = [successor for successor in successors if successor != index + 1]
    if branch_outcome is None or len(targets) != 1 or index + 1 not in successors:
        return None
    for inst in reversed(code[:-1]):
        name = inst.op.name
        match = _COMPARE.match(name)
        if match is not None:
            comparison = _OPPOSITE.get(match[1], match[1])
            operands = " ".join(inst.operands.replace(",", ", ").split())
            later_code = code[inst.index - code[0].index + 1 :]
            if not _written_registers(later_code).isdisjoint(named(operands)) or not named(
                operands
            ):
                return None
            condition_name = (
                comparison
                if comparison == "eq" and match[2][0] != "f"
                else f"{comparison}_{match[2]}"
            )
            holds = branch_outcome == (
                comparison == match[1]
            )  # the branch is taken where `comparison` holds
            target, fallthrough = targets[0], index + 1
            return _Ending(
                (condition_name, operands),
                *((target, fallthrough) if holds else (fallthrough, target)),
                compared=ranges.compared(comparison, match[2], operands),
            )
        if name.startswith("s_") and not _KEEPS_SCC.match(name):
            return None
    return None


def _lost(code: Sequence[Instruction], conditions: set[Condition]) -> frozenset[Condition]:
    """The conditions whose outcome is not known any more after some code."""
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
