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
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from ...model import Function, Instruction
from ..mnemonics import Flow, flow_of
from . import ranges
from .pending import Ages, PendingEvents, ceilings, join, through
from .ranges import Ranges
from .registers import named
from .steps import CounterSteps

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
    function: Function, steps: CounterSteps, maxima: Mapping[str, int], pending: PendingEvents
) -> set[tuple[int, int]]:
    """The entries of `pending.early` that remain on paths without contradictions.

    `steps`: the function reduced for the dataflow; `maxima`: the machine's counters -> largest
    value; `pending`: the result of the dataflow over all paths.
    """
    near = _near(function, steps, pending)
    endings = _endings(function)
    if not endings or not near:
        return near
    return _FeasiblePaths(function, steps, maxima, endings).early() & near


class _PathNode(NamedTuple):
    """A block under some assumptions."""

    block: int
    assumptions: Assumptions


_NOTHING_ASSUMED: Assumptions = (frozenset(), frozenset())


class _FeasiblePaths:
    """The dataflow of outstanding operations over blocks with assumptions, in place of blocks."""

    def __init__(
        self,
        function: Function,
        steps: CounterSteps,
        maxima: Mapping[str, int],
        endings: Mapping[int, _Ending],
    ) -> None:
        self._blocks = function.blocks
        self._steps = steps
        self._endings = endings
        self._age_limits = ceilings(steps, maxima)
        code = [function.instructions[b.start : b.stop] for b in function.blocks]
        conditions = {ending.condition for ending in endings.values()}
        self._lost = [_lost(block_code, conditions) for block_code in code]
        compared_at = {
            index: ending.compared[0]
            for index, ending in endings.items()
            if ending.compared is not None
        }
        self._changes = ranges.changes_of(code, set(compared_at.values()))
        successors = [block.successors for block in function.blocks]
        self._live = ranges.live(self._changes, compared_at, successors)
        self._assumptions_of: dict[int, set[Assumptions]] = {0: {_NOTHING_ASSUMED}}

    def early(self) -> set[tuple[int, int]]:
        """(instruction's index, event id) where registers are touched too early on such a path."""
        start = _PathNode(0, _NOTHING_ASSUMED)
        entry_ages: dict[_PathNode, Ages] = {start: {}}
        records: dict[_PathNode, PendingEvents] = {}
        visits: Counter[_PathNode] = Counter()
        work = [start]
        while work:
            node = work.pop()
            visits[node] += 1
            record = records[node] = PendingEvents()
            exit_ages = through(
                self._steps,
                self._steps.blocks[node.block],
                entry_ages[node],
                self._age_limits,
                record,
            )
            for next_node in self._successors(node):
                hurry = visits[next_node] > _PATIENCE
                joined = join(entry_ages.get(next_node), exit_ages, hurry)
                if joined != entry_ages.get(next_node):
                    entry_ages[next_node] = joined
                    if next_node not in work:
                        work.append(next_node)
        return {key for record in records.values() for key in record.early}

    def _successors(self, node: _PathNode) -> Iterator[_PathNode]:
        """Yields the blocks that may follow, with what is assumed then."""
        block, (outcomes, values) = node
        exit_assumptions = (
            frozenset(pair for pair in outcomes if pair[0] not in self._lost[block]),
            ranges.after(self._changes[block], values),
        )
        exits = _exits(self._blocks[block].successors, self._endings.get(block), exit_assumptions)
        for successor, (outcomes, values) in exits:
            live = self._live[successor]
            assumptions = (outcomes, frozenset(pair for pair in values if pair[0] in live))
            known = self._assumptions_of.setdefault(successor, set())
            if assumptions not in known and len(known) >= MOST_STATES:
                assumptions = _NOTHING_ASSUMED
            known.add(assumptions)
            yield _PathNode(successor, assumptions)


def _near(function: Function, steps: CounterSteps, pending: PendingEvents) -> set[tuple[int, int]]:
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
    for position in reversed(range(len(code) - 1)):
        name = code[position].op.name
        match = _COMPARE.match(name)
        if match is not None:
            operands = " ".join(code[position].operands.replace(",", ", ").split())
            registers = named(operands)
            if not registers or not _written_registers(code[position + 1 :]).isdisjoint(registers):
                return None
            comparison = _OPPOSITE.get(match[1], match[1])
            is_exact = comparison == "eq" and match[2][0] != "f"
            condition = comparison if is_exact else f"{comparison}_{match[2]}"
            # Whether the branch is taken where `comparison` holds.
            taken_if_true = branch_outcome == (comparison == match[1])
            ways = (targets[0], index + 1) if taken_if_true else (index + 1, targets[0])
            compared = ranges.compared(comparison, match[2], operands)
            return _Ending((condition, operands), *ways, compared=compared)
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
