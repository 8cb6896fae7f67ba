"""Loops that load what another loop has loaded before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ..isa.graph.cfg import loop_of
from ..isa.graph.longest_way import acyclic
from ..isa.mnemonics import access_bits
from ..model import Function, Loop, Metric, Scalar
from .access_spans import WRITES, Access, GlobalAccesses, united_spans, unknown_reason
from .entries import of_kernels
from .launch import most_iterations
from .load_paths import LOADS, blocks_ahead, load_paths
from .loop_shape import position_of
from .subject import LineName, Place, Subject, own_instructions

if TYPE_CHECKING:
    from ..emulator.access_figures import Spans

PASSES: Final = "loads.passes"

SPECS: Final = of_kernels(
    {
        PASSES: "Loops that load what another loop of the kernel has loaded before, neither of "
        "them in the other. Of the one that loads most bytes again: `loads` that do, of the `of` "
        "in the `loop`, the `bytes` that they bring a workgroup in an iteration, of how many in "
        "all (`loop_bytes`), the first `at` which line, `first_at` which line it was loaded "
        "before, whether what it loads again in all iterations `fits` a workgroup's registers "
        "(512 bytes to 128 KiB; in other code than Triton's, whether lanes share a row, and no "
        "other load of the loop brings one address to all lanes). None where instructions have no "
        "source positions",
    }
)

_LEAST_BYTES: Final = 512
_HELD_BYTES: Final = 1 << 17
"""Of a row that a workgroup holds: 32 registers of 1024 lanes."""
_MEETING: Final = frozenset(("barrier", "cross_lane"))
"""Classes of instructions by which lanes make one value of what each has."""


class _Group(Struct, frozen=True, eq=False):
    """The accesses of one position in the source.

    Args:
        writes: whether they are stores.
        accesses: those in a loop, without copies of its first iterations outside of it.
        loop: the innermost loop around them.
        spans: the bytes that they touch, by draw.
        pattern: the same bytes, to compare them all at once.
    """

    position: Place
    writes: bool
    accesses: Sequence[Access]
    loop: Loop
    spans: Sequence[Spans]
    pattern: bytes

    @property
    def size(self) -> int:
        """The bytes that they bring a workgroup in an iteration."""
        from ..emulator.access_figures import size_of

        return size_of(self.spans[0])

    @property
    def is_uniform(self) -> bool:
        """Whether each of them brings one address to the whole workgroup."""
        return all(access.sizes[0] <= access.places[0].size for access in self.accesses)


_Again = list[tuple[_Group, _Group]]
"""What a loop loads, and the latest accesses of the same before."""


def kernel_metrics(subject: Subject, accesses: GlobalAccesses) -> Iterator[Metric]:
    """The metric of the loop that loads most bytes again.

    `accesses`: those that it makes of global memory.
    """
    note = unknown_reason(subject)
    if not note and len(subject.function.loops) < 2:
        note = "it has no two loops"
    known = {} if note else accesses.of(None, None)
    if not note and not known:
        note = "the addresses of its lanes are not known"
    if not note and not any(access.inst.loc for access in known.values()):
        note = "no source positions"
    if note:
        yield Metric(PASSES, None, "mapping", "derived", note)
        return
    groups = _groups(subject.function, known)
    loops = _loaded_again(subject.function, groups)
    again = max(loops, key=lambda again: sum(group.size for group, _ in again))
    value = _value(subject, groups, again, known) if again else {"loads": 0}
    yield Metric(PASSES, value, "mapping", "derived" if subject.places else "estimated")


def _value(
    subject: Subject, groups: Sequence[_Group], again: _Again, accesses: Mapping[int, Access]
) -> dict[str, Scalar]:
    """The metric's value."""
    (first, before), row = again[0], [group for group, _ in again]
    loads = [group for group in groups if group.loop is first.loop and not group.writes]
    others = [group for group in loads if group not in row]
    # Of loads with unknown addresses no two lanes load the same.
    _, waves, lanes = first.accesses[0].places[0].where.shape
    unknown = [
        (access_bits(inst.op, inst.operands) or 0) // 8 * waves * lanes
        for inst in own_instructions(subject.function)[first.loop.id]
        if inst.cls in LOADS and inst.index not in accesses
    ]
    return {
        "loads": sum(len(group.accesses) for group in row),
        "of": sum(len(group.accesses) for group in loads) + len(unknown),
        "bytes": sum(group.size for group in row),
        "loop_bytes": sum(group.size for group in loads) + sum(unknown),
        "at": LineName.of([access.inst for group in row for access in group.accesses]),
        "first_at": LineName.of([access.inst for access in before.accesses]),
        "loop": first.loop.id,
        "fits": _fits(subject, row, others),
    }


def _groups(function: Function, accesses: Mapping[int, Access]) -> list[_Group]:
    """The accesses in loops by position, in the order of the code."""
    loop_at = loop_of(function)
    at: dict[tuple[Place, bool], list[Access]] = {}
    for index in sorted(accesses):
        inst = accesses[index].inst
        if inst.loc is not None:
            key = position_of(inst.loc), inst.cls in WRITES
            at.setdefault(key, []).append(accesses[index])
    groups = []
    for (position, writes), own in at.items():
        loops = [loop_at[a.inst.index] for a in own if a.inst.index in loop_at]
        if loops:
            # Of a loop and what remains for a second one behind it the first one counts.
            loop = max(loops, key=lambda loop: (loop.depth, -loop.header))
            own = [access for access in own if loop_at.get(access.inst.index) is loop]
            spans = united_spans(own)
            pattern = b"/".join(part.tobytes() for draw in spans for part in draw)
            groups.append(_Group(position, writes, own, loop, spans, pattern))
    return groups


def _loaded_again(function: Function, groups: Sequence[_Group]) -> list[_Again]:
    """What each loop loads again; what was stored is not what was loaded before that."""
    order, before = acyclic(function.blocks, 0, frozenset(range(len(function.blocks))))
    ahead = blocks_ahead(order, before)
    # Some paths end within a loop, which is cut where it goes round.
    ways = load_paths(function, None)
    paths = [set(way) for way in ways if not function.blocks[way[-1]].successors]
    known: dict[tuple[bytes, bytes], bool] = {}

    def brings(group: _Group, other: _Group) -> bool:
        key = group.pattern, other.pattern  # loops over a tensor have the same
        if key not in known:
            known[key] = _brings(group, other)
        return known[key]

    def is_before(one: Loop, loop: Loop) -> bool:
        return (
            set(one.blocks).isdisjoint(loop.blocks)
            and bool(ahead.get(one.header, 0) >> loop.header & 1)
            and (not paths or any({loop.header, one.header} <= path for path in paths))
        )

    found = []
    for loop in function.loops:
        earlier = {other.id for other in function.loops if is_before(other, loop)}
        others = [group for group in reversed(groups) if group.loop.id in earlier]
        found.append(
            [
                (group, latest)
                for group in groups
                if group.loop is loop
                and not group.writes
                and (latest := next((one for one in others if brings(group, one)), None))
                and not latest.writes
            ]
        )
    return found


def _brings(group: _Group, other: _Group) -> bool:
    """Whether half of what a group loads, or more, is what another one accesses, in every draw."""
    from ..emulator.access_figures import size_of, united

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


def _fits(subject: Subject, row: Sequence[_Group], others: Sequence[_Group]) -> bool:
    """Whether a workgroup can hold what a loop loads again, beside its other loads.

    In other code than Triton's, rows of unknown length that all lanes share count as such, which
    have a part each; not those of each lane's own.
    """
    if subject.ttgir is not None:
        return _LEAST_BYTES <= (_row_bytes(subject, row) or 0) <= _HELD_BYTES
    is_shared = any(inst.cls in _MEETING for inst in subject.function.instructions)
    return is_shared and not any(group.is_uniform for group in others)


def _row_bytes(subject: Subject, groups: Sequence[_Group]) -> float | None:
    """The bytes that groups of loads bring a workgroup in all iterations of their loop."""
    module = subject.ttgir
    if module is None:
        return None
    # Only Triton kernels need it.
    from ..ttgir import queries
    from ..ttgir.conversions import tile_bytes

    runs = most_iterations(subject)
    known = {group.position: group for group in groups}
    total = 0.0
    for op in queries.loads(module):
        group = known.get(position_of(op.loc)) if op.loc is not None else None
        if group is None or not op.result_types:
            continue
        loop, size = queries.loop_above(op, module), tile_bytes(op.result_types[0])
        if size is None or (loop is not None and loop not in runs):
            return None
        # Outside of loops stands what pipelining loads ahead: the first iterations' tiles.
        loaded = min(size * _active_share(group), group.size)
        total += (runs[loop] if loop is not None else 1) * loaded
    return round(total)


def _active_share(group: _Group) -> float:
    """The part of a workgroup's lanes that take part in accesses: masks leave some out."""
    places = [place for access in group.accesses for place in access.places]
    lanes = sum(place.where[0].size for place in places)
    idle = sum(int((~place.active[0]).sum()) for place in places if place.active is not None)
    return 1 - idle / lanes if lanes else 1.0
