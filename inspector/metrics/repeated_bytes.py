"""Bytes of global memory that a kernel loads by one access after another.

`lane_metrics` compares the lanes of one access; here different accesses are compared, by where
their lanes lie. A stencil loads what neighbouring lanes load, too, once for each of its points; a
kernel that goes over its rows twice, in two loops, fetches them twice.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ..model import Function, Instruction, Loop, Metric, MetricSpec, Scalar
from .launch import MOST_WORKGROUPS
from .load_paths import LOADS, code_of, load_paths
from .longest_way import acyclic
from .loop_shape import position_of
from .subject import Place, Subject, innermost_loops, source_line
from .written_tensors import WRITES

if TYPE_CHECKING:
    from ..emulator.address_sweep import Places
    from ..emulator.footprint import Spans

OVERLAP: Final = "loads.overlap"
PASSES: Final = "loads.passes"

SPECS: Final = (
    MetricSpec(
        OVERLAP,
        "mapping",
        "derived",
        "kernel",
        "Bytes that different loads of a workgroup bring more than once, in a kernel without "
        "loops or in an iteration of the hot `loop` with most of them: `loads` that share "
        "bytes, the `of` on the path with most loads, the bytes that `lanes` of them (all, or "
        "the first where the workgroup's size is not known) have `asked` for, those at the same"
        " address once, and the `distinct` ones among these, in a loop those that the iteration"
        " before has not loaded; the same for single waves (`wave_asked`, `wave_distinct`); "
        "`alike`: loads of the same tensors whose lanes lie like theirs; the first `at` which "
        "line, another one at `second`; `bits` of its access; `bytes` of all loads of the path "
        "and `stored` ones of its stores; instructions of the `path`; what is `assumed` of the "
        "workgroup",
    ),
    MetricSpec(
        PASSES,
        "mapping",
        "derived",
        "kernel",
        "Loops that load what another loop of the kernel has loaded or stored before, neither "
        "of them in the other. Of the one that loads most bytes again: `loads` that do, of the "
        "`of` in the `loop`, the `bytes` that they bring a workgroup in an iteration, of how "
        "many in all (`loop_bytes`), the first `at` which line, `first_at` which line it was "
        "loaded before, `loops` that load the same, `row_bytes` that a workgroup loads of it in"
        " all of the loop's iterations, by TTGIR and the launch, whether it `fits` a "
        "workgroup's registers (at most 128 KiB; in other code, whether lanes share a row). Of "
        "the one that loads most bytes that a loop has stored: how many are `stored`, of the "
        "`stored_of` in `back_loop`, their `stored_bytes`, the first `back_at` which line, "
        "`stored_at` which line it was stored. None where instructions have no source positions",
    ),
)

_COHERENT: Final = re.compile(r"\b(?:sc0|sc1|glc|slc|dlc|scope:\w+)\b")
"""Bits by which a load asks for what others have stored: of volatile and atomic loads."""
_MOST_ACCESSES: Final = 512
"""Accesses of a region; more are not compared."""
_TENSOR_BITS: Final = 42
"""Tensors are drawn at multiples of 2^44 bytes (`emulator.unknowns`), their parts nearby."""
_ROWS_OF_WAVES: Final = "where a row of the workgroup is as long as a wave: its shape is not known"

_Tensor = tuple[int, ...]
"""Where a tensor was drawn, by draw."""


class _Access(Struct, frozen=True):
    """An access of global memory.

    Args:
        inst: the instruction.
        places: where its lanes lie.
        spans: the bytes that a workgroup's lanes touch, by draw.
        sizes: bytes that the lanes ask for, by draw: those at the same address once.
        tensor: where its tensor was drawn.
    """

    inst: Instruction
    places: Sequence[Places]
    spans: Sequence[Spans]
    sizes: Sequence[int]
    tensor: _Tensor


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metrics of `SPECS`.

    Args:
        subject: the kernel.
        hot: ids of its hot loops.
    """
    note = _unknown_reason(subject)
    if note:
        for spec in SPECS:
            yield Metric(spec.name, None, "mapping", "derived", note)
        return
    yield _overlap(subject, _accesses(subject, *_known_part(subject)), hot)
    yield _passes(subject)


def _unknown_reason(subject: Subject) -> str:
    function = subject.function
    if function.calls or function.unread:
        return "not all of the code is known"
    if not subject.facts.analyse_lanes:
        return "not looked for"
    if importlib.util.find_spec("numpy") is None:
        return "needs numpy"
    if not subject.likely_places:
        return "where its lanes lie is not known"
    return ""


def _accesses(subject: Subject, waves: int | None, lanes: int | None) -> dict[int, _Access]:
    """The accesses of global memory whose lanes' addresses are known, by index.

    Args:
        subject: the kernel.
        waves: how many of a workgroup's first waves; None for all.
        lanes: how many of each wave's first lanes; None for all.
    """
    accesses = {}
    for index, places in subject.likely_places.items():
        inst = subject.function.instructions[index]
        if inst.cls not in LOADS and inst.cls not in WRITES:
            continue
        if any(part.space != "global" or part.scattered for part in places):
            continue
        if inst.cls in LOADS and _COHERENT.search(inst.operands):
            continue
        access = _access(inst, [_in_part(part, waves, lanes) for part in places])
        if access is not None:
            accesses[index] = access
    return accesses


def _known_part(subject: Subject) -> tuple[int | None, int | None]:
    """The waves and the lanes of each that any workgroup has; None for all of them.

    Where only the largest workgroup is known, accesses of lanes that it does not have may be those
    that others make instead, as with a step of the workgroup's size that is a constant. Rows side
    by side are there in any workgroup of several, or in the next one.
    """
    if not subject.places:
        return _ASSUMED_ROWS, _ASSUMED_COLUMNS
    demand = subject.demand
    if demand is None or demand.waves_from == "largest":
        return 1, _ASSUMED_LANES
    return None, None


def _in_part(places: Places, waves: int | None, lanes: int | None) -> Places:
    """An access of some of a workgroup's waves and lanes."""
    if waves is None:
        return places
    return replace(
        places,
        where=places.where[:, :waves, :lanes],
        active=None if places.active is None else places.active[:, :waves, :lanes],
    )


_ASSUMED_ROWS: Final = 4
_ASSUMED_LANES: Final = 32
_ASSUMED_COLUMNS: Final = 8


def _access(inst: Instruction, places: Sequence[Places]) -> _Access | None:
    import numpy as np

    from ..emulator.footprint import spans_of, united

    spans: list[Spans] = []
    sizes: list[int] = []
    for draw in range(len(places[0].where)):
        where = [
            np.unique(
                part.where[draw] if part.active is None else part.where[draw][part.active[draw]]
            )
            for part in places
        ]
        touched = united(spans_of(at, part.size) for at, part in zip(where, places, strict=True))
        spans.append(touched)
        sizes.append(sum(len(at) * part.size for at, part in zip(where, places, strict=True)))
    # No lane takes part behind the last iteration of a loop, in the draw that is one further on.
    if not all(len(starts) for starts, _ in spans[:-1]):
        return None
    tensor = tuple(
        (int(starts[0]) + (1 << _TENSOR_BITS - 1)) >> _TENSOR_BITS for starts, _ in spans[:-1]
    )
    return _Access(inst, places, spans, sizes, tensor)


# --------------------------------------------------------------------------- in one pass


def _overlap(subject: Subject, accesses: Mapping[int, _Access], hot: Set[str]) -> Metric:
    """The metric of a kernel without loops, or of its worst hot loop."""
    function = subject.function
    regions: list[Loop | None] = [loop for loop in function.loops if loop.id in hot]
    if not function.loops:
        regions = [None]
    # Of the copies of a loop, as of one for a stride of 1, that one counts which repeats least.
    copies: dict[frozenset[Place], dict[str, Scalar]] = {}
    for loop in regions:
        if loop is not None and loop.irreducible:
            continue
        path = _path(function, loop)
        value = _region_overlap(subject, accesses, loop, path)
        positions = frozenset(
            position_of(inst.loc)
            for number in path
            for inst in code_of(function, number)
            if inst.cls in LOADS and inst.loc is not None
        )
        known = copies.get(positions)
        if known is None or not positions or _excess(value) < _excess(known):
            copies[positions] = value
    if not copies:
        return Metric(OVERLAP, None, "mapping", "derived", "no hot loop with one entry")
    best = max(copies.values(), key=_excess)
    origin = "estimated" if best["assumed"] is not None else "derived"
    return Metric(OVERLAP, best, "mapping", origin)


def _excess(value: Mapping[str, Scalar]) -> int:
    return int(value["asked"] or 0) - int(value["distinct"] or 0)


def _path(function: Function, loop: Loop | None) -> list[int]:
    """The blocks of the path with most loads, without those of nested loops."""
    owner = innermost_loops(function)
    paths = (
        load_paths(function, 0, None)
        if loop is None
        else load_paths(function, loop.header, frozenset(loop.blocks))
    )
    return max(
        (
            [number for number in path if loop is None or owner[number].id == loop.id]
            for path in paths
        ),
        key=lambda path: _loads_in(function, path),
    )


def _region_overlap(
    subject: Subject,
    accesses: Mapping[int, _Access],
    loop: Loop | None,
    path: Sequence[int],
) -> dict[str, Scalar]:
    """The metric's value for an iteration of a loop, or for a kernel without loops."""
    function = subject.function
    code = [
        inst
        for number in path
        for inst in code_of(function, number)
        if inst.cls in LOADS or inst.cls in WRITES
    ]
    value: dict[str, Scalar] = {
        "loads": 0,
        "of": sum(inst.cls in LOADS for inst in code),
        "asked": 0,
        "distinct": 0,
        "wave_asked": 0,
        "wave_distinct": 0,
        "alike": 0,
        "bytes": 0,
        "at": None,
        "second": None,
        "bits": None,
        "stored": 0,
        "lanes": None,
        "path": sum(len(code_of(function, number)) for number in path),
        "loop": loop.id if loop is not None else None,
        "assumed": None if subject.places else _ROWS_OF_WAVES,
    }
    if len(code) > _MOST_ACCESSES:
        return value
    steps: Mapping[int, int] = {}
    if loop is not None and subject.machine is not None:
        from .loop_steps import load_steps  # as late as what imports NumPy

        steps = load_steps(function, subject.machine, path, loop.blocks)
    shared: list[_Access] = []
    for group in _between_stores(code, accesses):
        if subject.ttgir is not None:
            group = _by_operation(group)
        asked, distinct, sharing = _shared_bytes(group, steps)
        if asked == distinct:
            continue
        shared += sharing
        of_waves = _of_waves(group)
        for name, figure in zip(
            ("asked", "distinct", "wave_asked", "wave_distinct", "alike"),
            (asked, distinct, *of_waves, _alike(group, sharing)),
            strict=True,
        ):
            value[name] = int(value[name] or 0) + figure
    if shared:
        first = shared[0]
        places = [source_line(access.inst.loc) for access in shared]
        value["loads"] = sum(len(access.places) for access in shared)
        value["at"] = places[0]
        value["second"] = next((at for at in places if at != places[0]), None)
        value["lanes"] = first.places[0].where.shape[1] * first.places[0].where.shape[2]
        value["bits"] = 8 * sum(part.size for part in first.places)
        value["bytes"] = sum(
            accesses[inst.index].sizes[0]
            for inst in code
            if inst.cls in LOADS and inst.index in accesses
        )
        value["stored"] = sum(
            _size(accesses[inst.index], 0)
            for inst in code
            if inst.cls in WRITES and inst.index in accesses
        )
    return value


def _loads_in(function: Function, blocks: Sequence[int]) -> int:
    return sum(inst.cls in LOADS for number in blocks for inst in code_of(function, number))


def _size(access: _Access, draw: int) -> int:
    from ..emulator.footprint import size_of

    return size_of(access.spans[draw])


def _between_stores(
    code: Sequence[Instruction], accesses: Mapping[int, _Access]
) -> list[list[_Access]]:
    """Loads of one tensor, between the stores to it; those of different tensors by themselves.

    A load of what each lane has in another one is left out: behind conditions what was added to
    an address is not known.
    """
    groups: list[list[_Access]] = []
    open_groups: dict[_Tensor, list[_Access]] = {}
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
            group = open_groups[access.tensor]
            if not any(_is_within(access, other) for other in group):
                group[:] = [other for other in group if not _is_within(other, access)]
                group.append(access)
    return groups


def _by_operation(group: Sequence[_Access]) -> list[_Access]:
    """Loads of Triton's code, those of one operation as a single one.

    Triton makes a load once more in another layout where that is cheaper than an exchange.
    """
    from ..emulator.footprint import size_of, united

    at: dict[Place | int, list[_Access]] = {}
    for access in group:
        loc = access.inst.loc
        at.setdefault(position_of(loc) if loc is not None else access.inst.index, []).append(access)
    operations = []
    for own in at.values():
        spans = [united(access.spans[draw] for access in own) for draw in range(len(own[0].spans))]
        places = [part for access in own for part in access.places]
        sizes = [size_of(touched) for touched in spans]
        operations.append(_Access(own[0].inst, places, spans, sizes, own[0].tensor))
    return operations


def _differs_by_lane(access: _Access) -> bool:
    """Whether an access is not of a few addresses for all lanes, as one of a scale or an index.

    With small sizes these may be more than with the large ones that are drawn.
    """
    lanes = access.places[0].where.shape[2]
    bytes_each = sum(part.size for part in access.places)
    return 4 * _size(access, 0) >= lanes * bytes_each


def _is_within(access: _Access, other: _Access) -> bool:
    """Whether each lane has what it loads in another access."""
    if len(access.places) != 1 or len(other.places) != 1:
        return False
    own, others = access.places[0], other.places[0]
    gap = int(own.where[0, 0, 0] - others.where[0, 0, 0])
    return 0 <= gap <= others.size - own.size and bool((own.where - others.where == gap).all())


def _shared_bytes(
    group: Sequence[_Access], steps: Mapping[int, int]
) -> tuple[int, int, list[_Access]]:
    """Bytes that loads ask for, the distinct ones, and the loads that share some with others.

    Loads share bytes that do so in every draw; of the draws that one counts in which they share
    least.

    Args:
        group: the loads.
        steps: by index, bytes that a load moves in an iteration.
    """
    from ..emulator.footprint import size_of, united

    sharing = list(group)
    draws = _draws_with_lanes(group)
    for draw in draws:
        sharing = _sharing(sharing, draw, steps)
        if not sharing:
            return 0, 0, []
    figures = []
    for draw in draws:
        before = united(_loaded_before(sharing, draw, steps))
        distinct = united((*(access.spans[draw] for access in sharing), before))
        asked = sum(access.sizes[draw] for access in sharing)
        figures.append((asked, size_of(distinct) - size_of(before)))
    return (*min(figures, key=lambda pair: pair[0] - pair[1]), sharing)


def _draws_with_lanes(accesses: Sequence[_Access]) -> list[int]:
    """The draws in which lanes take part in all of some accesses."""
    return [
        draw
        for draw in range(len(accesses[0].spans))
        if all(len(access.spans[draw][0]) for access in accesses)
    ]


def _loaded_before(
    accesses: Sequence[_Access], draw: int, steps: Mapping[int, int]
) -> Iterator[Spans]:
    """What loads that move by an element or less have brought in the last iterations.

    Where a tile moves by its rows' length, as in a matrix product, the next row need not be what
    it finds there: rows can be as short as a tile.
    """
    for access in accesses:
        step = steps.get(access.inst.index, 0)
        starts, ends = access.spans[draw]
        if 0 < abs(step) <= max(part.size for part in access.places):
            yield starts - step, ends - step


def _sharing(accesses: Sequence[_Access], draw: int, steps: Mapping[int, int]) -> list[_Access]:
    """Those of some accesses with bytes that others, or other lanes, have too, in their order."""
    import numpy as np

    own = [access.spans[draw] for access in accesses]
    if not own:
        return []
    spans = [*own, *_loaded_before(accesses, draw, steps)]
    starts = np.concatenate([part[0] for part in spans])
    ends = np.concatenate([part[1] for part in spans])
    numbers = np.minimum(np.arange(len(spans)), len(own))
    owners = np.repeat(numbers, [len(part[0]) for part in spans])
    order = np.argsort(starts, kind="stable")
    starts, ends, owners = starts[order], ends[order], owners[order]
    reach = np.maximum.accumulate(ends)
    # The span that reaches furthest of those up to each one.
    furthest = np.maximum.accumulate(np.where(ends == reach, np.arange(len(ends)), 0))
    inside = np.flatnonzero(starts[1:] < reach[:-1])
    sharing = set(owners[inside + 1].tolist()) | set(owners[furthest[inside]].tolist())
    return [
        access
        for number, access in enumerate(accesses)
        if number in sharing or access.sizes[draw] > _size(access, draw)
    ]


def _of_waves(group: Sequence[_Access]) -> tuple[int, int]:
    """Bytes that loads ask for and the distinct ones, of each wave by itself, summed over waves."""
    import numpy as np

    from ..emulator.footprint import size_of, spans_of, united

    spans, asked = [], 0
    for access in group:
        parts = []
        for part in access.places:
            where = part.where[0]
            apart = where + (np.arange(len(where)) << _WAVES_APART_BITS)[:, None]
            at = np.unique(apart if part.active is None else apart[part.active[0]])
            asked += len(at) * part.size
            parts.append(spans_of(at, part.size))
        spans.append(united(parts))
    return asked, size_of(united(spans))


_WAVES_APART_BITS: Final = 50
"""Addresses have fewer bits."""


def _alike(group: Sequence[_Access], sharing: Sequence[_Access]) -> int:
    """Loads whose lanes lie like those of some that share bytes, these included."""
    patterns = {_pattern(access) for access in sharing}
    return sum(_pattern(access) in patterns for access in group)


def _pattern(access: _Access) -> bytes:
    """Where an access's lanes lie from the first one."""
    where = access.places[0].where[0]
    return (where - where[0, 0]).tobytes()


# --------------------------------------------------------------------------- in two passes


class _Group(Struct):
    """The accesses of one position in the source.

    Args:
        accesses: all of them, in loops and outside (copies of their first iterations).
        loop: the innermost loop around those in loops; None where there are none.
        writes: whether they are stores.
    """

    accesses: list[_Access]
    loop: Loop | None
    writes: bool

    def spans(self, draw: int) -> Spans:
        """The bytes that they touch, where they were carried out last."""
        from ..emulator.footprint import united

        return united(access.spans[draw] for access in self.accesses)


def _passes(subject: Subject) -> Metric:
    """The metric of the loop that loads most bytes again."""
    function = subject.function
    if len(function.loops) < 2:
        return Metric(PASSES, None, "mapping", "derived", "it has no two loops")
    accesses = _accesses(subject, None, None)
    groups = _groups(subject, accesses)
    if groups is None:
        return Metric(PASSES, None, "mapping", "derived", "no source positions")
    # Some paths end within a loop, which is cut where it goes round.
    ways = load_paths(function, 0, None)
    paths = [set(way) for way in ways if not function.blocks[way[-1]].successors]
    behind = _blocks_behind(subject)
    loaded: dict[str, Scalar] = {"loads": 0}
    stored: dict[str, Scalar] = {"stored": 0}
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
                and set(other.loop.blocks).isdisjoint(loop.blocks)
                and behind[other.loop.header] >> loop.header & 1
                and (not paths or any({loop.header, other.loop.header} <= p for p in paths))
                and _brings(group, other)
            ]
            if earlier:
                pairs.append((group, earlier))
        # The nearest before counts: what was stored is not what was loaded before that.
        again = [(group, earlier) for group, earlier in pairs if not earlier[-1].writes]
        back = [(group, earlier) for group, earlier in pairs if earlier[-1].writes]
        size = sum(_bytes_in(group, loop, function) for group, _ in again)
        if size > int(loaded.get("bytes") or 0):
            group, earlier = again[0]
            row_bytes = _row_bytes(subject, [group for group, _ in again])
            loaded = {
                "loads": sum(len(_in_loop(group, loop, function)) for group, _ in again),
                "of": sum(len(_in_loop(group, loop, function)) for group in loads),
                "bytes": size,
                "loop_bytes": sum(_bytes_in(group, loop, function) for group in loads),
                "at": _line(group),
                "first_at": _line(earlier[-1]),
                "loops": 1 + len({other.loop.id for other in earlier if other.loop is not None}),
                "loop": loop.id,
                "row_bytes": row_bytes,
                "fits": _fits(subject, row_bytes),
            }
        size = sum(_bytes_in(group, loop, function) for group, _ in back)
        if size > int(stored.get("stored_bytes") or 0):
            group, earlier = back[0]
            stored = {
                "stored": sum(len(_in_loop(group, loop, function)) for group, _ in back),
                "stored_of": sum(len(_in_loop(group, loop, function)) for group in loads),
                "stored_bytes": size,
                "stored_at": _line(earlier[-1]),
                "back_at": _line(group),
                "back_loop": loop.id,
            }
    origin = "derived" if subject.places else "estimated"
    return Metric(PASSES, {**loaded, **stored}, "mapping", origin)


def _line(group: _Group) -> str | None:
    return source_line(group.accesses[0].inst.loc)


def _groups(subject: Subject, accesses: Mapping[int, _Access]) -> list[_Group] | None:
    """The accesses by position, in the order of the code; None where none has a position."""
    function = subject.function
    owner = innermost_loops(function)
    loop_of = {
        index: owner[block.index]
        for block in function.blocks
        if block.index in owner
        for index in range(block.start, block.stop)
    }
    at: dict[tuple[Place, bool], list[_Access]] = {}
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
        groups.append(_Group(own, loop, writes))
    return groups


def _in_loop(group: _Group, loop: Loop, function: Function) -> list[_Access]:
    """The accesses of a group that stand in a loop."""
    return [
        access
        for access in group.accesses
        if any(
            function.blocks[number].start <= access.inst.index < function.blocks[number].stop
            for number in loop.blocks
        )
    ]


def _bytes_in(group: _Group, loop: Loop, function: Function) -> int:
    """The bytes that a group brings a workgroup in an iteration."""
    from ..emulator.footprint import size_of, united

    return size_of(united(access.spans[0] for access in _in_loop(group, loop, function)))


def _brings(group: _Group, other: _Group) -> bool:
    """Whether half of what a group loads, or more, is what another one accesses, in every draw."""
    from ..emulator.footprint import size_of, united

    for draw in range(len(group.accesses[0].spans)):
        own, others = group.spans(draw), other.spans(draw)
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


_FIRST_WORKGROUPS: Final = 32


def _row_bytes(subject: Subject, groups: Sequence[_Group]) -> int | None:
    """The bytes that groups of loads bring a workgroup in all iterations of their loop."""
    module, grid = subject.ttgir, subject.facts.grid
    if module is None:
        return None
    # Only Triton kernels need it.
    from ..ttgir import queries
    from ..ttgir.conversions import tile_bytes
    from ..ttgir.executions import loop_runs

    if grid:
        # Of a large launch the first workgroups: those of the last ones may have less to do.
        if prod(grid) > MOST_WORKGROUPS:
            grid = tuple([min(extent, _FIRST_WORKGROUPS) for extent in grid])
        launch = loop_runs(module, subject.facts.values or {}, grid)
        runs = {run.op.index: int(run.iterations.max()) for run in launch}
    else:
        constants = queries.integer_constants(module)
        trips = {op.index: queries.constant_trips(op, constants) for op in module.ops}
        runs = {index: count for index, count in trips.items() if count is not None}
    positions = {
        position_of(access.inst.loc)
        for group in groups
        for access in group.accesses
        if access.inst.loc is not None
    }
    total = 0
    for op in queries.loads(module):
        if op.loc is None or position_of(op.loc) not in positions or not op.result_types:
            continue
        loop = queries.loop_above(op, module)
        if loop is None:
            continue  # what pipelining loads ahead
        size = tile_bytes(op.result_types[0])
        if loop not in runs or size is None:
            return None
        total += runs[loop] * size
    return total or None
