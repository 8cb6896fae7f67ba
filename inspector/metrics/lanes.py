"""LDS banks and cache lines that the lanes of each access touch, by their addresses."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import unforeseen
from ..model import Function, LaneUse, Machine
from .argument_words import known_arguments
from .scratch_use import spilled_dwords
from .subject import LaunchedCode

if TYPE_CHECKING:
    from ..lanes.addresses import Located, Places
    from ..lanes.unknowns import Arguments

FROM_MEMORY = "its addresses come from values in memory, or from which way was taken"
ON_ARGUMENTS = (
    "it depends on sizes and strides that the launch passes, on the workgroup or on the iteration"
)
AT_EDGE = "with large sizes no lane takes part"
NOT_REACHED = "no way to it was taken with what is known"
TOO_LARGE = "the kernel is too large for working out where its lanes lie"
SHAPE = "it depends on the workgroup's shape, which is not known; pass --workgroup X,Y,Z"
WAVES = "its waves differ, and their number is not known; pass --waves or --workgroup"

_BY_MASKS: Final = frozenset((ON_ARGUMENTS, FROM_MEMORY, NOT_REACHED, WAVES, AT_EDGE))
"""Reasons that may lie in which lanes take part, as far as sizes decide on that."""

LDS_ACCESSES: Final = frozenset(("lds_read", "lds_write", "lds_atomic"))
GLOBAL_ACCESSES: Final = frozenset(("global_load", "global_store"))


def lane_uses(
    function: Function,
    machine: Machine,
    threads: tuple[int, int, int],
    arguments: Arguments | None = None,
    *,
    largest: bool = False,
) -> dict[int, LaneUse]:
    """The uses of one wave's execution of each access, by index of the instruction.

    `threads`: work-items of the workgroup in x, y, z; `arguments`: the known arguments; `largest`:
    the launch may have fewer waves than that.

    Returns:
        The uses; nothing where the kernel does not state the start of its waves.
    """
    if function.resources.wave_start is None:
        return {}
    return _located_uses(function, machine, threads, arguments, largest=largest)[0]


def _located_uses(
    function: Function,
    machine: Machine,
    threads: tuple[int, int, int],
    arguments: Arguments | None,
    *,
    largest: bool,
) -> tuple[dict[int, LaneUse], Located | None, Located | None]:
    """The uses of accesses, and where the lanes lie: by their masks, and where all take part.

    The latter is None where all masks are known.
    """
    from ..lanes.addresses import places_of

    spills = spilled_dwords(function)
    located = places_of(function, machine, threads, arguments, spills)
    known: dict[_Pattern, LaneUse] = {}
    uses = uses_at(function, located, machine, largest=largest, known=known)
    whole: Located | None = None
    if any(use.unknown in _BY_MASKS for use in uses.values()):
        whole = places_of(
            function,
            machine,
            threads,
            arguments,
            spills,
            whole_waves=True,
            code=located.code if located is not None else None,
        )
        wanted = _undecided(function, uses)
        of_whole = uses_at(function, whole, machine, largest=largest, known=known, wanted=wanted)
        uses = _completed(uses, of_whole)
    return uses, located, whole


def _undecided(function: Function, uses: Mapping[int, LaneUse]) -> set[int] | None:
    """The accesses of which whole waves may tell more; None: all, as arrays in LDS are involved."""
    undecided = {site for site, use in uses.items() if use.unknown in _BY_MASKS}
    in_lds = {inst.index for inst in function.instructions if inst.cls in LDS_ACCESSES}
    lacks_remedy = any(use.conflicts and use.remedy is None for use in uses.values())
    return None if lacks_remedy or not undecided.isdisjoint(in_lds) else undecided


def by_site(located: Located | None) -> dict[int, list[Places]]:
    """The places of each instruction's accesses, by its index."""
    parts: dict[int, list[Places]] = {}
    for places in located.places if located is not None else ():
        parts.setdefault(places.site, []).append(places)
    return parts


def uses_at(
    function: Function,
    located: Located | None,
    machine: Machine,
    *,
    largest: bool = False,
    known: dict[_Pattern, LaneUse] | None = None,
    wanted: Container[int] | None = None,
) -> dict[int, LaneUse]:
    """The uses of accesses, by index of the instruction.

    `located`: where the lanes lie; `largest`: as for `lane_uses`; `known`: the uses of patterns on
    the same target that are known; others are added; `wanted`: indices of the instructions that are
    asked about, none of them of LDS; None: all.
    """
    if located is None:
        return dict.fromkeys(_sites(function), LaneUse(unknown=TOO_LARGE))
    accesses_at = by_site(located)
    if wanted is not None:
        accesses_at = {site: places for site, places in accesses_at.items() if site in wanted}
    cache = {} if known is None else known
    uses = {site: LaneUse(unknown=NOT_REACHED) for site in _sites(function)}
    for site, reason in located.uncovered.items():
        uses[site] = LaneUse(unknown=f"the emulator does not cover it: {reason}")
    for site, accesses in accesses_at.items():
        uses[site] = _use(accesses, machine, cache)
        if largest and not uses[site].unknown and not all(map(_waves_alike, accesses)):
            wave_uses = [
                _use(wave_accesses, machine, cache) for wave_accesses in _by_wave(accesses)
            ]
            if any(use != wave_uses[0] for use in wave_uses):
                uses[site] = _best_of(wave_uses, accesses[0].where.shape[2])
    conflicting = [site for site, use in uses.items() if use.conflicts]
    # An access with unknown addresses may be of the same array, and need its alignment.
    decided = not any(
        uses[inst.index].unknown for inst in function.instructions if inst.cls in LDS_ACCESSES
    )
    if conflicting and decided:
        from .lds_rows import remedies

        in_lds = {
            site: accesses
            for site, accesses in accesses_at.items()
            if uses[site].cycles is not None and uses[site].lines is None
        }
        for site, remedy in remedies(in_lds, conflicting, machine.arch).items():
            uses[site] = replace(uses[site], remedy=remedy)
    return uses


def _best_of(uses: Sequence[LaneUse], lanes: int) -> LaneUse:
    """The use of the wave that takes least, of those with all lanes where there are such.

    How many waves there are, and so how much of a check such as `i < 1000` is passed, is not
    known. Waves that begin elsewhere in a line differ in a line or two, whichever there are.
    """
    whole = [use for use in uses if use.lanes is not None and use.lanes == lanes]
    alike = whole or uses
    first = alike[0]
    if not whole and any(
        use.lines is None or use.bytes != first.bytes or use.lanes != first.lanes for use in alike
    ):
        return LaneUse(unknown=WAVES)
    best = min(alike, key=lambda use: use.lines if use.lines is not None else use.cycles or 0.0)
    return replace(
        best,
        apart=all(use.apart for use in alike),
        addresses=best.addresses if all(u.addresses == first.addresses for u in alike) else None,
        origin="estimated",
        whole_waves=best.whole_waves or 0 < len(whole) < len(uses),
    )


def _sites(function: Function) -> Iterator[int]:
    return (
        inst.index
        for inst in function.instructions
        if inst.cls in LDS_ACCESSES or inst.cls in GLOBAL_ACCESSES
    )


def _by_wave(accesses: Sequence[Places]) -> Iterator[list[Places]]:
    """The accesses of each wave by itself."""
    for wave in range(accesses[0].where.shape[1]):
        yield [
            replace(
                places,
                where=places.where[:, wave : wave + 1],
                active=None if places.active is None else places.active[:, wave : wave + 1],
            )
            for places in accesses
        ]


def _waves_alike(places: Places) -> bool:
    """Whether all waves' lanes take part like the first one's, at addresses that differ
    by a step.
    """
    relative = places.where - places.where[:, :, :1]
    if places.active is not None:
        if (places.active != places.active[:, :1]).any():
            return False
        relative = relative * places.active
    return bool((relative == relative[:, :1]).all())


_Pattern = tuple[str, int, bool, bytes, bytes]
"""(memory, bytes of each lane, whether it writes, addresses from the first lane, active lanes)."""


def _use(accesses: Sequence[Places], machine: Machine, cache: dict[_Pattern, LaneUse]) -> LaneUse:
    """The use of one instruction: the sum over its accesses, for each memory."""
    uses = [_of_pattern(places, machine, cache) for places in accesses]
    unknown = next((use for use in uses if use.unknown), None)
    if unknown is not None or len(uses) == 1:
        return unknown or uses[0]
    in_lds = [use for use in uses if use.cycles is not None]
    in_lines = [use for use in uses if use.lines is not None]
    return LaneUse(
        lanes=uses[0].lanes,
        cycles=sum_of(use.cycles for use in in_lds),
        cycles_ideal=sum_of(use.cycles_ideal for use in in_lds),
        conflicts=sum_of(use.conflicts for use in in_lds),
        lines=sum_of(use.lines for use in in_lines),
        lines_ideal=sum_of(use.lines_ideal for use in in_lines),
        bytes=sum_of(use.bytes for use in in_lines),
        waste=in_lines[0].waste if len(in_lines) == 1 else None,
        addresses=sum_of(use.addresses for use in uses),
        apart=any(use.apart for use in uses),
        origin=origin_of(uses),
    )


def origin_of(uses: Iterable[LaneUse]) -> Literal["derived", "estimated"]:
    """The origin of a figure that depends on all of the uses."""
    return "estimated" if any(use.origin == "estimated" for use in uses) else "derived"


def sum_of(figures: Iterable[float | None]) -> float | None:
    """The sum of figures; None where one is unknown, or there is none."""
    total: float | None = None
    for figure in figures:
        if figure is None:
            return None
        total = figure if total is None else total + figure
    return total


def _of_pattern(places: Places, machine: Machine, cache: dict[_Pattern, LaneUse]) -> LaneUse:
    """The use of an access, computed once for each pattern of lanes."""
    if places.scattered:
        return LaneUse(unknown=FROM_MEMORY)
    # Banks and lines do not change when all addresses of a wave move by a multiple of their rows.
    relative = places.where - (places.where[:, :, :1] & ~(_ROW - 1))
    active = b"" if places.active is None else places.active.tobytes()
    key = places.space, places.size, places.writes, relative.tobytes(), active
    if key not in cache:
        cache[key] = _of_access(places, machine)
    return cache[key]


_ROW: Final = 256


def _of_access(places: Places, machine: Machine) -> LaneUse:
    """The use of one access."""
    import numpy as np

    lanes = float(places.where.shape[2])
    full_draws: Sequence[int] = range(len(places.where))
    count = len(full_draws)
    if places.active is not None:
        # Tiles at the edge mask some lanes: only draws with most active lanes count.
        counts = places.active.sum((1, 2))
        full_draws = np.flatnonzero(counts == counts.max()).tolist()
        if not counts.max():
            return LaneUse(unknown=AT_EDGE)
        if len(full_draws) < 2:
            return LaneUse(unknown=ON_ARGUMENTS)
        places = replace(places, where=places.where[full_draws], active=places.active[full_draws])
        lanes = float(counts.max()) / places.where.shape[1]
    if places.space == "lds":
        return _in_lds(places, machine, lanes)
    use = _in_lines(places, machine, lanes)
    if use.origin == "derived" or use.unknown:
        return use
    return replace(use, steps=_steps(places, full_draws, count))


def _in_lds(places: Places, machine: Machine, lanes: float) -> LaneUse:
    """The use of an access of LDS."""
    from ..emulator.access_figures import data_cycles, phases_of

    draws, waves, count = places.where.shape
    phases = phases_of(machine.arch, places.size, count, writes=places.writes)
    active = None if places.active is None else places.active.reshape(draws * waves, count)
    figures = data_cycles(phases, places.where.reshape(draws * waves, count), places.size, active)
    of_draws = [figure.reshape(draws, waves).sum(1) for figure in figures]
    if not all((figure == figure[0]).all() for figure in of_draws):
        return LaneUse(unknown=ON_ARGUMENTS)
    cycles, ideal = (float(figure[0]) / waves for figure in of_draws)
    return LaneUse(
        lanes, cycles, ideal, cycles - ideal,
        addresses=_addresses(places),
        origin=phases.origin,
    )  # fmt: skip


def _addresses(places: Places) -> float | None:
    """Distinct addresses of a wave's lanes, the mean; None where draws differ."""
    import numpy as np

    draws, waves, _ = places.where.shape
    where = places.where
    if places.active is not None:
        idle = np.iinfo(np.int64).min
        where = np.where(places.active, where, idle)
    ordered = np.sort(where, 2)
    distinct = 1 + np.count_nonzero(np.diff(ordered, axis=2), 2)
    if places.active is not None:
        distinct -= ~places.active.all(2)
    of_draws = distinct.reshape(draws, waves).sum(1)
    return float(of_draws[0]) / waves if (of_draws == of_draws[0]).all() else None


def _in_lines(places: Places, machine: Machine, lanes: float) -> LaneUse:
    """The use of an access of global memory."""
    import numpy as np

    from ..emulator.access_figures import lines_of_rows, spans_of_rows

    line = machine.cache_line_bytes
    if line is None:
        return LaneUse(unknown=f"the cache lines of {machine.arch} are not known")
    waves = places.where.shape[1]
    known: dict[tuple[bytes, bytes], tuple[int, int, int]] = {}
    figures = []
    all_active = np.ones(places.where.shape[1:], bool)
    for draw, where in enumerate(places.where):
        active = all_active if places.active is None else places.active[draw]
        # As for `_of_pattern`: draws mostly differ by such a step.
        relative = where - (where[:, :1] & -line)
        key = relative.tobytes(), active.tobytes()
        if key not in known:
            spans, row_of = spans_of_rows(where, active, places.size)
            lines, lines_ideal = lines_of_rows(spans, row_of, waves, line)
            known[key] = lines, lines_ideal, int((spans[1] - spans[0]).sum())
        figures.append(known[key])
    # Where the pitch of rows is unknown, the best of the draws counts.
    lines, lines_ideal, distinct = min(figures)
    gaps = places.where - places.where[:, :, :1]
    if places.active is not None:
        gaps = np.where(places.active, gaps, 0)
    exact = len(set(figures)) == 1 and bool((gaps == gaps[0]).all())
    return LaneUse(
        lanes,
        lines=lines / waves,
        lines_ideal=lines_ideal / waves,
        bytes=distinct / waves,
        waste=round(100 - 100 * distinct / (lines * line), 2) if lines else None,
        addresses=_addresses(places),
        apart=_are_apart(places),
        origin="derived" if exact else "estimated",
    )


def _steps(places: Places, draws: Sequence[int], count: int) -> tuple[int | None, ...] | None:
    """Bytes from each lane of the first wave to the next one in each draw, where all are equal."""
    import numpy as np

    steps = np.diff(places.where[:, 0], axis=1)
    if places.active is not None and not places.active[:, 0].all():
        return None
    if not (steps == steps[:, :1]).all():
        return None
    known = dict(zip(draws, steps[:, 0].tolist(), strict=True))
    return tuple(known.get(draw) for draw in range(count))


def _are_apart(places: Places) -> bool:
    """Whether most active lanes lie neither where the lane before does, nor right behind it."""
    import numpy as np

    steps = np.diff(places.where, axis=2)
    near = (steps == 0) | (steps == places.size)
    if places.active is None:
        return bool(2 * np.count_nonzero(near) < near.size)
    both = places.active[:, :, 1:] & places.active[:, :, :-1]
    return bool(2 * np.count_nonzero(near & both) < np.count_nonzero(both))


class KernelLanes(Struct, frozen=True):
    """What is known of the lanes of a kernel's accesses; all by index of the instruction.

    Args:
        uses: what they touch.
        places: where they lie; nothing where the workgroup's shape is not known.
        likely_places: where they lie if all take part where that is not known, in a workgroup whose
            rows are as long as a wave where its shape is not known.
    """

    uses: Mapping[int, LaneUse] = {}
    places: Mapping[int, Sequence[Places]] = {}
    likely_places: Mapping[int, Sequence[Places]] = {}


def kernel_lanes(subject: LaunchedCode) -> KernelLanes:
    """The lanes of a kernel's accesses, where enough of the launch is known."""
    machine, demand, resources = subject.machine, subject.demand, subject.function.resources
    waves = demand.waves_per_workgroup
    sites = list(_sites(subject.function))
    if not (subject.facts.analyse_lanes and sites and machine is not None and demand and waves):
        return KernelLanes()
    if resources.wave_start is None:
        return KernelLanes()
    shape = workgroup_shape(subject, waves)
    is_assumed = shape is None
    if shape is None:
        wave_size = demand.wave_size or machine.wave_sizes[0]
        shape = wave_size, waves, 1
    try:
        arguments = known_arguments(subject, shape)
        largest = demand.waves_from == "largest"
        function = subject.function
        uses, located, whole = _located_uses(function, machine, shape, arguments, largest=largest)
        parts = by_site(located)
        if shape[1] > 1:
            uses = _with_rows(uses, parts, shape)
        likely = _likely(parts, by_site(whole))
        if is_assumed:
            return KernelLanes(_of_wide_rows(uses), {}, likely)
        return KernelLanes(uses, parts, likely)
    except Exception as error:
        # A bug in the emulator must not cost the report.
        return KernelLanes(dict.fromkeys(sites, LaneUse(unknown=unforeseen(error).message)))


def _likely(
    parts: Mapping[int, list[Places]], whole: Mapping[int, list[Places]]
) -> dict[int, list[Places]]:
    """The places of accesses, of whole waves where masks leave lanes out."""
    return {
        site: whole[site]
        if site in whole and (site not in parts or any(map(_leaves_lanes_out, parts[site])))
        else parts[site]
        for site in parts.keys() | whole.keys()
    }


def _leaves_lanes_out(places: Places) -> bool:
    """Whether lanes are masked out of an access by what is not known."""
    if places.scattered or places.active is None:
        return False
    first = places.active[0]
    return not first.any() or bool((places.active[1] != first).any())


def _with_rows(
    uses: Mapping[int, LaneUse],
    parts: Mapping[int, Sequence[Places]],
    shape: tuple[int, int, int],
) -> dict[int, LaneUse]:
    """Uses, with the accesses of which work-items that differ by 1 in y lie side by side."""
    return {
        site: replace(use, across=True)
        if use.apart and site in parts and all(_lie_across(part, shape) for part in parts[site])
        else use
        for site, use in uses.items()
    }


def _lie_across(places: Places, shape: tuple[int, int, int]) -> bool:
    """Whether the bytes of most work-items follow those of the one before in y."""
    import numpy as np

    draws = len(places.where)
    where = places.where.reshape(draws, -1)[:, : shape[0] * shape[1]]
    step = where[:, shape[0] :] - where[:, : -shape[0]] == places.size
    return step.size > 0 and bool(2 * np.count_nonzero(step) > step.size)


def _of_wide_rows(uses: Mapping[int, LaneUse]) -> dict[int, LaneUse]:
    """Uses of a workgroup whose rows were taken to be as long as a wave."""
    return {
        site: LaneUse(unknown=use.unknown or SHAPE)
        if use.lines is None
        else replace(use, addresses=None, origin="estimated", wide_rows=True)
        for site, use in uses.items()
    }


def _completed(uses: dict[int, LaneUse], whole: Mapping[int, LaneUse]) -> dict[int, LaneUse]:
    """Uses, in place of unknown ones those of waves whose lanes all take part, where known."""
    completed = dict(uses)
    for site, use in uses.items():
        other = whole.get(site)
        if other is None:
            continue
        if use.unknown in _BY_MASKS and not other.unknown:
            completed[site] = replace(
                other,
                origin="estimated",
                whole_waves=True,
                at_edge=use.unknown == AT_EDGE,
            )
        elif use.conflicts and use.remedy is None and other.conflicts == use.conflicts:
            completed[site] = replace(use, remedy=other.remedy)
    return completed


def workgroup_shape(subject: LaunchedCode, waves: int) -> tuple[int, int, int] | None:
    """Work-items of a workgroup of some waves in x, y and z; None where the shape is not known.

    Triton numbers them in x alone, and so does code that asks for no other number.
    """
    resources, machine, demand = subject.function.resources, subject.machine, subject.demand
    stated = subject.facts.workgroup_shape or resources.reqd_workgroup_size
    if stated is not None or machine is None:
        return stated
    start, triton = resources.wave_start, bool(subject.facts.signature) or subject.ttgir is not None
    if start is not None and start.work_item_dims and not triton:
        return None
    wave_size = demand.wave_size or machine.wave_sizes[0]
    return waves * wave_size, 1, 1
