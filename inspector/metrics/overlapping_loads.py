"""Bytes of global memory that different loads bring in one pass."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final, NamedTuple

from ..isa.graph.cfg import innermost_loops
from ..isa.mnemonics import access_bits
from ..model import Function, Instruction, Loop, Metric, Scalar
from .access_spans import (
    WRITES,
    Access,
    GlobalAccesses,
    Tensor,
    known_part,
    size_in,
    united_spans,
    unknown_reason,
)
from .entries import of_kernels
from .load_paths import LOADS, code_of, load_paths
from .loop_shape import position_of
from .loop_steps import access_steps
from .subject import LineName, Place, Subject

if TYPE_CHECKING:
    from ..emulator.access_figures import Spans

OVERLAP: Final = "loads.overlap"

SPECS: Final = of_kernels(
    {
        OVERLAP: "Bytes that different loads of a workgroup bring more than once, in a kernel "
        "without loops or in an iteration of the hot loop with most of them: `loads` that share "
        "bytes, the `of` on the path with most loads, the bytes that `lanes` of them (all, or the "
        "first where the workgroup's size is not known) have `asked` for, those at the same "
        "address once, and the `distinct` ones among these, in a loop those that the iteration "
        "before has not loaded; the first `at` which line; `bytes` of all loads of the path. "
        "Estimated where the workgroup's shape is not known, which is taken as 4 rows of 8 "
        "work-items then",
    }
)

_MOST_ACCESSES: Final = 512
"""Accesses of a region; more are not compared."""


def kernel_metrics(subject: Subject, accesses: GlobalAccesses, hot: Set[str]) -> Iterator[Metric]:
    """The metric of a kernel without loops, or of its worst hot loop.

    `accesses`: those that it makes of global memory.
    """
    function = subject.function
    loops = [loop for loop in function.loops if loop.id in hot and not loop.irreducible]
    regions = loops if function.loops else [None]
    note = unknown_reason(subject) or ("" if regions else "no hot loop with one entry")
    if note:
        yield Metric(OVERLAP, None, "mapping", "derived", note)
        return
    known = accesses.of(*known_part(subject))
    copies: dict[frozenset[Place], list[dict[str, Scalar]]] = {}
    for loop in regions:
        path = _path(function, loop)
        loads = [inst for inst in code_of(function, *path) if inst.cls in LOADS]
        places = frozenset(position_of(inst.loc) for inst in loads if inst.loc is not None)
        alike = copies.setdefault(places, [])
        if not places:
            alike.clear()
        alike.append(_overlap(subject, known, loop, path))
    # Of the copies of a loop, as of one for a stride of 1, that one counts which repeats least;
    # where there are no positions, the last loop.
    value = max((min(alike, key=_excess) for alike in copies.values()), key=_excess)
    yield Metric(OVERLAP, value, "mapping", "derived" if subject.places else "estimated")


def _excess(value: Mapping[str, Scalar]) -> int:
    return int(value["asked"] or 0) - int(value["distinct"] or 0)


def _path(function: Function, loop: Loop | None) -> Sequence[int]:
    """The blocks of the path with most loads, without those of nested loops."""
    paths = load_paths(function, loop)
    if loop is not None:
        owner = innermost_loops(function)
        paths = [[number for number in path if owner[number].id == loop.id] for path in paths]
    return max(paths, key=lambda path: sum(i.cls in LOADS for i in code_of(function, *path)))


def _overlap(
    subject: Subject, accesses: Mapping[int, Access], loop: Loop | None, path: Sequence[int]
) -> dict[str, Scalar]:
    """The metric's value for an iteration of a loop, or for a kernel without loops."""
    function = subject.function
    code = [i for i in code_of(function, *path) if i.cls in LOADS or i.cls in WRITES]
    loads = [inst for inst in code if inst.cls in LOADS]
    groups, steps = [], dict[int, int]()
    if len(code) <= _MOST_ACCESSES:
        groups = _between_stores(code, accesses)
        if loop is not None:
            steps = access_steps(function, path, loop.blocks)
    if subject.ttgir is not None:
        groups = [_by_operation(group) for group in groups]
    found = [_shared_bytes(group, steps) for group in groups]
    shared = [access for _, _, sharing in found for access in sharing]
    lanes = shared[0].places[0].where[0].size if shared else None
    # Of loads whose lanes' addresses are not known, as many as lanes are.
    sizes = [
        accesses[inst.index].sizes[0]
        if inst.index in accesses
        else (lanes or 0) * (access_bits(inst.op, inst.operands) or 32) // 8
        for inst in loads
    ]
    return {
        "loads": sum(len(access.places) for access in shared),
        "of": len(loads),
        "asked": sum(asked for asked, _, _ in found),
        "distinct": sum(distinct for _, distinct, _ in found),
        "bytes": sum(sizes) if shared else 0,
        "at": LineName.of([access.inst for access in shared]),
        "lanes": lanes,
    }


def _between_stores(
    code: Sequence[Instruction], accesses: Mapping[int, Access]
) -> list[list[Access]]:
    """Loads of one tensor, between the stores to it; those of different tensors by themselves.

    A load of what each lane has in another one is left out: behind conditions what was added to
    an address is not known.
    """
    groups: list[list[_Span]] = []
    open_groups: dict[Tensor, list[_Span]] = {}
    for inst in code:
        access = accesses.get(inst.index)
        if inst.cls in WRITES:
            if access is None:
                open_groups.clear()  # it may store anywhere
            else:
                open_groups.pop(access.tensor, None)
        elif access is not None:
            if not _differs_by_lane(access):
                continue
            if access.tensor not in open_groups:
                groups.append([])
                open_groups[access.tensor] = groups[-1]
            group, span = open_groups[access.tensor], _Span.of(access)
            if not any(span.is_within(other) for other in group):
                group[:] = [other for other in group if not other.is_within(span)]
                group.append(span)
    return [[span.access for span in group] for group in groups]


def _by_operation(group: Sequence[Access]) -> list[Access]:
    """Loads of Triton's code, those of one operation as a single one.

    Triton makes a load once more in another layout where that is cheaper than an exchange.
    """
    from ..emulator.access_figures import size_of

    at: dict[Place | int, list[Access]] = {}
    for access in group:
        loc = access.inst.loc
        at.setdefault(position_of(loc) if loc is not None else access.inst.index, []).append(access)
    operations = []
    for own in at.values():
        spans, places = united_spans(own), [part for access in own for part in access.places]
        sizes = [size_of(touched) for touched in spans]
        operations.append(Access(own[0].inst, places, spans, sizes, own[0].tensor))
    return operations


def _differs_by_lane(access: Access) -> bool:
    """Whether an access is not of a few addresses for all lanes, as one of a scale or an index."""
    lanes = access.places[0].where.shape[2]
    bytes_each = sum(part.size for part in access.places)
    return bool(4 * size_in(access, 0) >= lanes * bytes_each)


class _Span(NamedTuple):
    """An access and the bytes of its first lane; none where it is of several places."""

    access: Access
    start: int
    end: int

    @classmethod
    def of(cls, access: Access) -> _Span:
        if len(access.places) != 1:
            return cls(access, 0, -1)
        (place,) = access.places
        start = int(place.where[0, 0, 0])
        return cls(access, start, start + place.size)

    def is_within(self, other: _Span) -> bool:
        """Whether each lane has what it loads in another access."""
        if not other.start <= self.start <= self.end <= other.end:
            return False
        own, others = self.access.places[0].where, other.access.places[0].where
        return bool((own - others == self.start - other.start).all())


def _shared_bytes(
    group: Sequence[Access], steps: Mapping[int, int]
) -> tuple[int, int, list[Access]]:
    """Bytes that loads ask for, the distinct ones, and the loads that share some with others."""
    from ..emulator.access_figures import size_of, united

    sharing = list(group)
    # Those in which lanes take part in all of them.
    draws = [
        draw
        for draw in range(len(group[0].spans))
        if all(len(access.spans[draw][0]) for access in group)
    ]
    for draw in draws:
        sharing = _sharing(sharing, draw, steps)
    figures = [(0, 0)] if not sharing or not draws else []
    for draw in draws if sharing else ():
        before = united(_loaded_before(sharing, draw, steps))
        distinct = united((*(access.spans[draw] for access in sharing), before))
        asked = sum(access.sizes[draw] for access in sharing)
        figures.append((asked, size_of(distinct) - size_of(before)))
    asked, distinct_bytes = min(figures, key=lambda pair: pair[0] - pair[1])
    return (asked, distinct_bytes, sharing) if asked > distinct_bytes else (0, 0, [])


def _loaded_before(
    accesses: Sequence[Access], draw: int, steps: Mapping[int, int]
) -> Iterator[Spans]:
    """What loads that move by an element or less have brought in the last iterations."""
    for access in accesses:
        step = steps.get(access.inst.index, 0)
        starts, ends = access.spans[draw]
        if 0 < abs(step) <= max(part.size for part in access.places):
            yield starts - step, ends - step


def _sharing(accesses: Sequence[Access], draw: int, steps: Mapping[int, int]) -> list[Access]:
    """Those of some accesses with bytes that others, or other lanes, have too, in their order."""
    import numpy as np

    spans = [*(access.spans[draw] for access in accesses), *_loaded_before(accesses, draw, steps)]
    if not spans:
        return []
    starts = np.concatenate([part[0] for part in spans])
    ends = np.concatenate([part[1] for part in spans])
    owners = np.repeat(np.arange(len(spans)), [len(part[0]) for part in spans])
    begun = np.searchsorted(np.sort(starts), ends, "left")
    ended = np.searchsorted(np.sort(ends), starts, "right")
    sharing = set(owners[begun - ended > 1].tolist())  # one of them is the span itself
    return [
        access
        for number, access in enumerate(accesses)
        if number in sharing or access.sizes[draw] > size_in(access, draw)
    ]
