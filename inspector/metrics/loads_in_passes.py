"""Loops that load what another loop has loaded before.

A kernel that goes over its rows twice, for a statistic and for the output, fetches them twice. The
addresses of both loops' first iterations tell that, and those of their second ones, which would
differ where the second loop begins behind the end of the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..isa.graph.cfg import innermost_loops
from ..isa.graph.longest_way import acyclic
from ..isa.mnemonics import access_bits
from ..model import Instruction, Loop, Metric, MetricSpec, Scalar
from .access_spans import Access, GlobalAccesses, unknown_reason
from .load_paths import LOADS, load_paths
from .loop_shape import position_of
from .source_trips import most_iterations
from .subject import Place, Subject, own_instructions, source_line
from .written_tensors import WRITES

if TYPE_CHECKING:
    from ..emulator.footprint import Spans

PASSES: Final = "loads.passes"

SPECS: Final = (
    MetricSpec(
        PASSES,
        "mapping",
        "derived",
        "kernel",
        "Loops that load what another loop of the kernel has loaded before, neither "
        "of them in the other. Of the one that loads most bytes again: `loads` that do, of the "
        "`of` in the `loop`, the `bytes` that they bring a workgroup in an iteration, of how "
        "many in all (`loop_bytes`), the first `at` which line, `first_at` which line it was "
        "loaded before, `loops` that load the same, `row_bytes` that a workgroup loads of it in"
        " all of the loop's iterations, by TTGIR and the launch, whether it `fits` a "
        "workgroup's registers (at most 128 KiB; in other code, whether lanes share a row), "
        "`uniform` other loads of the loop that bring one address to all lanes. None where "
        "instructions have no source positions",
    ),
)


def kernel_metrics(subject: Subject, accesses: GlobalAccesses) -> Iterator[Metric]:
    """The metric of `SPECS`.

    Args:
        subject: the kernel.
        accesses: those that it makes of global memory.
    """
    note = unknown_reason(subject)
    yield Metric(PASSES, None, "mapping", "derived", note) if note else _passes(subject, accesses)


class _Group(Struct):
    """The accesses of one position in the source.

    Args:
        accesses: those in a loop, without copies of its first iterations outside of it; all, where
            none is in one.
        loop: the innermost loop around them; None where there is none.
        writes: whether they are stores.
        spans: the bytes that they touch, by draw.
        pattern: the same bytes, to compare them all at once.
    """

    accesses: list[Access]
    loop: Loop | None
    writes: bool
    spans: tuple[Spans, ...]
    pattern: bytes


def _passes(subject: Subject, every_access: GlobalAccesses) -> Metric:
    """The metric of the loop that loads most bytes again."""
    function = subject.function
    if len(function.loops) < 2:
        return Metric(PASSES, None, "mapping", "derived", "it has no two loops")
    accesses = every_access.of(None, None)
    if not accesses:
        note = "the addresses of its lanes are not known"
        return Metric(PASSES, None, "mapping", "derived", note)
    groups = _groups(subject, accesses)
    if groups is None:
        return Metric(PASSES, None, "mapping", "derived", "no source positions")
    # Some paths end within a loop, which is cut where it goes round.
    ways = load_paths(function, 0, None)
    paths = [set(way) for way in ways if not function.blocks[way[-1]].successors]
    behind = _blocks_behind(subject)
    own_code = own_instructions(function)
    blocks = {loop.id: frozenset(loop.blocks) for loop in function.loops}
    comparison = _Comparison()
    loaded: dict[str, Scalar] = {"loads": 0}
    for loop in function.loops:
        own = [group for group in groups if group.loop is not None and group.loop.id == loop.id]
        loads = [group for group in own if not group.writes]
        pairs: list[tuple[_Group, list[_Group]]] = []
        for group in loads:
            earlier = [
                other
                for other in groups
                if other.loop is not None
                and other.loop.id != loop.id
                and blocks[other.loop.id].isdisjoint(loop.blocks)
                and behind[other.loop.header] >> loop.header & 1
                and (not paths or any({loop.header, other.loop.header} <= p for p in paths))
                and comparison.brings(group, other)
            ]
            if earlier:
                pairs.append((group, earlier))
        # The nearest before counts: what was stored is not what was loaded before that.
        again = [(group, earlier) for group, earlier in pairs if not earlier[-1].writes]
        unknown = _unknown_loads(own_code[loop.id], accesses)
        size = sum(_bytes_in(group) for group, _ in again)
        if size > int(loaded.get("bytes") or 0):
            group, earlier = again[0]
            row_bytes = _row_bytes(subject, [group for group, _ in again])
            others = [group for group in loads if all(group is not known for known, _ in again)]
            loaded = {
                "loads": sum(len(group.accesses) for group, _ in again),
                "of": sum(len(group.accesses) for group in loads) + len(unknown),
                "bytes": size,
                "loop_bytes": sum(_bytes_in(group) for group in loads) + sum(unknown),
                "at": _line(group),
                "first_at": _line(earlier[-1]),
                "loops": 1 + len({other.loop.id for other in earlier if other.loop is not None}),
                "loop": loop.id,
                "row_bytes": row_bytes,
                "fits": _fits(subject, row_bytes),
                "uniform": sum(len(group.accesses) for group in others if _is_uniform(group)),
            }
    return Metric(PASSES, loaded, "mapping", "derived" if subject.places else "estimated")


def _line(group: _Group) -> str | None:
    return source_line(group.accesses[0].inst.loc)


def _groups(subject: Subject, accesses: Mapping[int, Access]) -> list[_Group] | None:
    """The accesses by position, in the order of the code; None where none has a position."""
    from ..emulator.footprint import united

    function = subject.function
    owner = innermost_loops(function)
    loop_of = {
        index: owner[block.index]
        for block in function.blocks
        if block.index in owner
        for index in range(block.start, block.stop)
    }
    at: dict[tuple[Place, bool], list[Access]] = {}
    for index in sorted(accesses):
        access = accesses[index]
        if access.inst.loc is not None:
            key = position_of(access.inst.loc), access.inst.cls in WRITES
            at.setdefault(key, []).append(access)
    if not at:
        return None
    groups = []
    for (_, writes), own in at.items():
        loops = [loop_of[a.inst.index] for a in own if a.inst.index in loop_of]
        # Of a loop and what remains for a second one behind it the first one counts.
        loop = max(loops, key=lambda loop: (loop.depth, -loop.header), default=None)
        if loop is not None:
            own = [access for access in own if loop_of.get(access.inst.index) is loop]
        spans = tuple(
            [united(access.spans[draw] for access in own) for draw in range(len(own[0].spans))]
        )
        pattern = b"/".join(part.tobytes() for draw in spans for part in draw)
        groups.append(_Group(own, loop, writes, spans, pattern))
    return groups


def _bytes_in(group: _Group) -> int:
    """The bytes that a group brings a workgroup in an iteration."""
    from ..emulator.footprint import size_of

    return size_of(group.spans[0])


def _is_uniform(group: _Group) -> bool:
    """Whether each access of a group brings one address to the whole workgroup."""
    return all(access.sizes[0] <= access.places[0].size for access in group.accesses)


class _Comparison:
    """Compares the bytes of groups, those of equal ones once: loops over a tensor have the same."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes], bool] = {}

    def brings(self, group: _Group, other: _Group) -> bool:
        """Whether half of what a group loads, or more, is what another one accesses, in every draw.

        In a draw in which neither of them has any lanes both are equal.
        """
        key = group.pattern, other.pattern
        if key not in self._known:
            self._known[key] = _brings(group, other)
        return self._known[key]


def _brings(group: _Group, other: _Group) -> bool:
    from ..emulator.footprint import size_of, united

    for own, others in zip(group.spans, other.spans, strict=True):
        if not len(own[0]) and not len(others[0]):
            continue
        if not len(own[0]) or not len(others[0]):
            return False
        if own[0][0] >= others[1][-1] or others[0][0] >= own[1][-1]:
            return False
        common = size_of(own) + size_of(others) - size_of(united((own, others)))
        if 2 * common < size_of(own):
            return False
    return True


def _unknown_loads(code: Sequence[Instruction], accesses: Mapping[int, Access]) -> list[int]:
    """The bytes that a loop's loads with unknown addresses bring a workgroup, each if no two lanes
    load the same.
    """
    _, waves, lanes = next(iter(accesses.values())).places[0].where.shape
    return [
        (access_bits(inst.op, inst.operands) or 0) // 8 * waves * lanes
        for inst in code
        if inst.cls in LOADS and inst.index not in accesses
    ]


def _blocks_behind(subject: Subject) -> dict[int, int]:
    """Block -> the blocks that may follow it without going round a loop, as bits."""
    function = subject.function
    order, before = acyclic(function.blocks, 0, frozenset(range(len(function.blocks))))
    ahead = dict.fromkeys(range(len(function.blocks)), 0)
    for number in reversed(order):
        for origin in before.get(number, ()):
            ahead[origin] |= ahead[number] | 1 << number
    return ahead


_HELD_BYTES: Final = 1 << 17
"""Of a row that a workgroup holds: 32 registers of 1024 lanes."""
_LEAST_BYTES: Final = 512
_MEETING: Final = frozenset(("barrier", "cross_lane"))
"""Classes of instructions by which lanes make one value of what each has."""


def _fits(subject: Subject, row_bytes: int | None) -> bool:
    """Whether a workgroup can hold what two loops load.

    In other code than Triton's, rows of unknown length that all lanes share count as such, which
    have a part each; not those of each lane's own.
    """
    if subject.ttgir is not None:
        return row_bytes is not None and _LEAST_BYTES <= row_bytes <= _HELD_BYTES
    return any(inst.cls in _MEETING for inst in subject.function.instructions)


def _row_bytes(subject: Subject, groups: Sequence[_Group]) -> int | None:
    """The bytes that groups of loads bring a workgroup in all iterations of their loop."""
    module = subject.ttgir
    if module is None:
        return None
    # Only Triton kernels need it.
    from ..ttgir import queries
    from ..ttgir.conversions import tile_bytes

    runs = most_iterations(subject)
    known = {
        position_of(access.inst.loc): group
        for group in groups
        for access in group.accesses
        if access.inst.loc is not None
    }
    total = 0.0
    for op in queries.loads(module):
        position = position_of(op.loc) if op.loc is not None else None
        group = known.get(position) if position is not None else None
        if group is None or not op.result_types:
            continue
        loop, size = queries.loop_above(op, module), tile_bytes(op.result_types[0])
        if size is None or (loop is not None and loop not in runs):
            return None
        # Outside of loops stands what pipelining loads ahead: the first iterations' tiles.
        loaded = min(size * _active_share(group), _bytes_in(group))
        total += (runs[loop] if loop is not None else 1) * loaded
    return round(total) or None


def _active_share(group: _Group) -> float:
    """The part of a workgroup's lanes that take part in accesses: masks leave some out."""
    lanes = active = 0
    for access in group.accesses:
        for place in access.places:
            lanes += place.where[0].size
            active += place.where[0].size if place.active is None else int(place.active[0].sum())
    return active / lanes if lanes else 1.0
