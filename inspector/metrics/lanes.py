"""What the lanes of each access touch: LDS banks and cache lines, from their addresses.

`emulator.addresses` says where the lanes lie; what is the same in all its draws is a figure of the
code, anything else stays unknown, with the reason.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from ..errors import unforeseen
from ..model import Function, Instruction, LaneUse, Machine, Metric, MetricSpec, Scalar
from .subject import Subject, Tally, source_line

if TYPE_CHECKING:
    from ..emulator.addresses import Places
    from ..emulator.unknowns import Arguments

FROM_MEMORY = "its addresses come from values in memory, or from which way was taken"
ON_ARGUMENTS = (
    "it depends on sizes and strides that the launch passes, on the workgroup or on the iteration"
)
NO_LDS, NO_GLOBAL = "no access of LDS", "no access of global memory"
NOT_LOOKED_AT = "where its lanes lie was not looked at"

SPECS = (
    MetricSpec(
        "lds.conflict_cycles",
        "cycles",
        "derived",
        "both",
        "Cycles that LDS bank conflicts add to one wave's accesses; unknown if one of them is",
    ),
    MetricSpec(
        "lds.data_cycles",
        "cycles",
        "derived",
        "both",
        "Cycles for which the LDS serves one wave's accesses, conflicts included",
    ),
    MetricSpec(
        "lds.conflicts",
        "mapping",
        "derived",
        "both",
        "The access of LDS with most cycles of conflicts: its `cycles`, `ideal` without, `ways` "
        "(the one over the other), `instruction`, `at` which line, `writes`; `accesses` with "
        "conflicts, of `of`, of which `unknown`; `origin` of the phases",
    ),
    MetricSpec(
        "cache.lines",
        "lines",
        "derived",
        "both",
        "Cache lines that one wave's accesses of global memory touch; unknown if one of them is",
    ),
    MetricSpec(
        "cache.line_use",
        "%",
        "derived",
        "both",
        "Share of those lines' bytes that the accesses use",
    ),
    MetricSpec(
        "cache.waste",
        "mapping",
        "derived",
        "both",
        "The access of global memory that touches most lines for nothing: its `lines`, `ideal`, "
        "`bytes` used of each line (`line` bytes), `instruction`, `at` which line, `writes`; "
        "`accesses` with more lines than they need, of `of`, of which `unknown`; `origin`: "
        "`estimated` where it depends on sizes that are not known",
    ),
)

LANE_FIGURES: Final = frozenset(spec.name for spec in SPECS)


def arguments_of(
    signature: Mapping[str, str],
    values: Mapping[str, int],
    attributes: Mapping[str, Mapping[str, Any]],
) -> Arguments:
    """What is known of a Triton kernel's arguments; each is aligned to its own size.

    Args:
        signature: name -> Triton type.
        values: whole numbers that a launch passed.
        attributes: name -> what Triton notes of an argument (`tt.divisibility`).
    """
    from ..emulator.unknowns import Arguments

    words: dict[int, int] = {}
    pointers: set[int] = set()
    loose: set[int] = set()
    for name, offset in argument_offsets(signature).items():
        kind = signature[name]
        if offset is None:  # it lies nobody knows where
            return Arguments(words, None, frozenset(loose))
        size = size_of(kind) or 0
        if kind.startswith("*"):
            pointers.add(offset)
        elif size >= 4 and kind[0] in "iu":
            if name in values:
                words[offset] = values[name]
                if size == 8:
                    words[offset + 4] = values[name] >> 32
            elif attributes.get(name, {}).get("tt.divisibility") != 16:
                loose.add(offset)
    return Arguments(words, frozenset(pointers), frozenset(loose))


def argument_offsets(signature: Mapping[str, str]) -> dict[str, int | None]:
    """By name where a Triton kernel's arguments lie in its segment; None: behind an odd one."""
    offsets: dict[str, int | None] = {}
    offset: int | None = 0
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        size = size_of(kind)
        if size is None or offset is None:
            offsets[name] = offset = None
            continue
        offset = -(-offset // size) * size
        offsets[name] = offset
        offset += size
    return offsets


def size_of(kind: str) -> int | None:
    """Bytes of an argument of a Triton type; None for one that is not known."""
    return 8 if kind.startswith("*") else _SIZES.get(kind)


_SIZES: Final = {
    "i1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "fp16": 2, "bf16": 2, "i32": 4, "u32": 4,
    "fp32": 4, "i64": 8, "u64": 8, "fp64": 8,
}  # fmt: skip


def lane_uses(
    function: Function, machine: Machine, waves: int, arguments: Arguments | None = None
) -> dict[int, LaneUse]:
    """By index of the instruction what one wave's execution of it touches.

    Args:
        function: the kernel.
        machine: the target.
        waves: of the workgroup.
        arguments: what is known of them.

    Returns:
        Nothing where the kernel does not say how its waves begin.
    """
    return uses_at(places_by_site(function, machine, waves, arguments), machine)


def places_by_site(
    function: Function, machine: Machine, waves: int, arguments: Arguments | None = None
) -> dict[int, list[Places]]:
    """By index of the instruction where its accesses lie; arguments as for `lane_uses`."""
    from ..emulator.addresses import places_of

    parts: dict[int, list[Places]] = {}
    for places in places_of(function, machine, waves, arguments) or ():
        parts.setdefault(places.site, []).append(places)
    return parts


def uses_at(places: Mapping[int, Sequence[Places]], machine: Machine) -> dict[int, LaneUse]:
    """What accesses touch, by index of the instruction."""
    known: dict[_Pattern, LaneUse] = {}
    return {site: _use(accesses, machine, known) for site, accesses in places.items()}


_Pattern = tuple[str, int, bool, bytes, bytes]
"""Memory, bytes of each lane, whether it writes, the lanes' places from the first, active lanes."""


def _use(accesses: Sequence[Places], machine: Machine, known: dict[_Pattern, LaneUse]) -> LaneUse:
    """One instruction's: the accesses of its parts add up, those of each memory by themselves."""
    uses = [_of_pattern(places, machine, known) for places in accesses]
    unknown = next((use for use in uses if use.unknown), None)
    if unknown is not None or len(uses) == 1:
        return unknown or uses[0]
    in_lds = [use for use in uses if use.cycles is not None]
    in_lines = [use for use in uses if use.lines is not None]
    return LaneUse(
        lanes=uses[0].lanes,
        cycles=_sum(use.cycles for use in in_lds),
        cycles_ideal=_sum(use.cycles_ideal for use in in_lds),
        conflicts=_sum(use.conflicts for use in in_lds),
        lines=_sum(use.lines for use in in_lines),
        lines_ideal=_sum(use.lines_ideal for use in in_lines),
        bytes=_sum(use.bytes for use in in_lines),
        origin=_origin(uses),
    )


def _origin(uses: Iterable[LaneUse]) -> Literal["derived", "estimated"]:
    """That of a figure which rests on all of them."""
    return "estimated" if any(use.origin == "estimated" for use in uses) else "derived"


def _sum(figures: Iterable[float | None]) -> float | None:
    """Of all of them; None where one is unknown, or there is none."""
    total: float | None = None
    for figure in figures:
        if figure is None:
            return None
        total = figure if total is None else total + figure
    return total


def _of_pattern(places: Places, machine: Machine, known: dict[_Pattern, LaneUse]) -> LaneUse:
    """As `_of_part`, once for accesses whose lanes lie alike: most of a kernel's do."""
    if places.scattered:
        return LaneUse(unknown=FROM_MEMORY)
    # Neither banks nor lines change when all addresses of a wave move by whole rows of either.
    moved = places.where - (places.where[:, :, :1] & ~(_ROW - 1))
    active = b"" if places.active is None else places.active.tobytes()
    key = places.space, places.size, places.writes, moved.tobytes(), active
    if key not in known:
        known[key] = _of_part(places, machine)
    return known[key]


_ROW: Final = 256


def _of_part(places: Places, machine: Machine) -> LaneUse:
    import numpy as np
    from msgspec.structs import replace

    lanes = float(places.where.shape[2])
    if places.active is not None:
        # Of tiles at the edge some lanes are masked: others tell what the code does.
        counts = places.active.sum((1, 2))
        most = np.flatnonzero(counts == counts.max())
        if len(most) < 2 or not counts.max():
            return LaneUse(unknown=ON_ARGUMENTS)
        places = replace(places, where=places.where[most], active=places.active[most])
        lanes = float(counts.max()) / places.where.shape[1]
    if places.space == "lds":
        return _in_lds(places, machine, lanes)
    return _in_lines(places, machine, lanes)


def _in_lds(places: Places, machine: Machine, lanes: float) -> LaneUse:
    from ..emulator.banks import data_cycles, phases_of

    draws, waves, count = places.where.shape
    phases = phases_of(machine.arch, places.size, count, writes=places.writes)
    active = None if places.active is None else places.active.reshape(draws * waves, count)
    figures = data_cycles(phases, places.where.reshape(draws * waves, count), places.size, active)
    of_draws = [figure.reshape(draws, waves).sum(1) for figure in figures]
    if not all((figure == figure[0]).all() for figure in of_draws):
        return LaneUse(unknown=ON_ARGUMENTS)
    cycles, ideal = (float(figure[0]) / waves for figure in of_draws)
    return LaneUse(lanes, cycles, ideal, cycles - ideal, origin=phases.origin)


def _in_lines(places: Places, machine: Machine, lanes: float) -> LaneUse:
    import numpy as np

    from ..emulator.counts import lines_of_rows
    from ..emulator.footprint import spans_of_rows

    line = machine.cache_line_bytes
    if line is None:
        return LaneUse(unknown=f"the cache lines of {machine.arch} are not known")
    waves, count = places.where.shape[1:]
    figures = []
    for draw, where in enumerate(places.where):
        active = np.ones((waves, count), bool) if places.active is None else places.active[draw]
        spans, row_of = spans_of_rows(where, active, places.size)
        lines, least = lines_of_rows(spans, row_of, waves, line)
        figures.append((lines, least, int((spans[1] - spans[0]).sum())))
    # Rows whose pitch is not known: of those that were drawn the one that suits best.
    lines, least, distinct = min(figures)
    gaps = places.where - places.where[:, :, :1]
    if places.active is not None:
        gaps = np.where(places.active, gaps, 0)
    exact = len(set(figures)) == 1 and bool((gaps == gaps[0]).all())
    return LaneUse(
        lanes,
        lines=lines / waves,
        lines_ideal=least / waves,
        bytes=distinct / waves,
        origin="derived" if exact else "estimated",
    )


def uses_of(subject: Subject) -> tuple[dict[int, LaneUse], dict[int, list[Places]]]:
    """Those of a kernel, where enough is known of how it is launched, and where the lanes lie."""
    machine, demand = subject.machine, subject.demand
    waves = demand.waves_per_workgroup if demand is not None else None
    accesses = [i for i in subject.function.instructions if i.cls in _LDS | _GLOBAL]
    if not (subject.facts.lanes_wanted and accesses and machine is not None and waves):
        return {}, {}
    if importlib.util.find_spec("numpy") is None:
        return {}, {}
    try:
        places = places_by_site(subject.function, machine, waves, known_arguments(subject))
        return uses_at(places, machine), places
    except Exception as error:
        # A bug in the emulator's steps must not take the report with it.
        failed = LaneUse(unknown=unforeseen(error).message)
        return dict.fromkeys((access.index for access in accesses), failed), {}


def known_arguments(subject: Subject) -> Arguments | None:
    """What is known of a kernel's arguments; None: nothing."""
    facts, pointers = subject.facts, subject.function.resources.pointers
    if facts.signature:
        return arguments_of(facts.signature, facts.values or {}, facts.attributes)
    if pointers is None:
        return None
    from ..emulator.unknowns import Arguments

    return Arguments(pointers=frozenset(pointers))


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The figures of a region: each instruction once."""
    code = subject.function.instructions
    accesses = [code[index] for index in region.indices if code[index].cls in _LDS | _GLOBAL]
    in_lds = [inst for inst in accesses if inst.cls in _LDS]
    in_global = [inst for inst in accesses if inst.cls in _GLOBAL]
    yield from _lds_metrics(subject, in_lds)
    yield from _global_metrics(subject, in_global)


_LDS: Final = frozenset(("lds_read", "lds_write", "lds_atomic"))
_GLOBAL: Final = frozenset(("global_load", "global_store"))


def _lds_metrics(subject: Subject, accesses: Sequence[Instruction]) -> Iterator[Metric]:
    known = _known(subject, accesses, "cycles")
    note = _why(subject, accesses, len(known), NO_LDS)
    complete = bool(accesses) and len(known) == len(accesses)
    origin = _origin(use for _, use in known)
    for name, field in (("conflict_cycles", "conflicts"), ("data_cycles", "cycles")):
        total = _sum(getattr(use, field) for _, use in known) if complete else None
        yield Metric(f"lds.{name}", _rounded(total), "cycles", origin, note)
    if not known:
        yield Metric("lds.conflicts", None, "mapping", "derived", note)
        return
    inst, worst = max(known, key=lambda item: item[1].conflicts or 0.0)
    conflicting = sum(bool(use.conflicts) for _, use in known)
    value: dict[str, Scalar] = {
        "accesses": conflicting,
        "of": len(accesses),
        "unknown": len(accesses) - len(known),
        "cycles": _rounded(worst.cycles) if conflicting else None,
        "ideal": _rounded(worst.cycles_ideal) if conflicting else None,
        "ways": _ratio(worst.cycles, worst.cycles_ideal) if conflicting else None,
        "instruction": inst.mnemonic if conflicting else None,
        "at": source_line(inst.loc) if conflicting else None,
        "writes": inst.cls == "lds_write" if conflicting else None,
        "origin": worst.origin,
    }
    yield Metric("lds.conflicts", value, "mapping", origin)


def _global_metrics(subject: Subject, accesses: Sequence[Instruction]) -> Iterator[Metric]:
    known = _known(subject, accesses, "lines")
    note = _why(subject, accesses, len(known), NO_GLOBAL)
    complete = bool(accesses) and len(known) == len(accesses)
    lines = _sum(use.lines for _, use in known) if complete else None
    touched = _sum(use.bytes for _, use in known) if complete else None
    line = subject.machine.cache_line_bytes if subject.machine is not None else None
    origin = _origin(use for _, use in known)
    yield Metric("cache.lines", _rounded(lines), "lines", origin, note)
    use = 100 * touched / (lines * line) if touched is not None and lines and line else None
    yield Metric("cache.line_use", _rounded(use), "%", origin, note if use is None else "")
    if not known:
        yield Metric("cache.waste", None, "mapping", "derived", note)
        return
    inst, worst = max(known, key=lambda item: (item[1].lines or 0) - (item[1].lines_ideal or 0))
    wasting = sum((use.lines or 0) > (use.lines_ideal or 0) for _, use in known)
    value: dict[str, Scalar] = {
        "accesses": wasting,
        "of": len(accesses),
        "unknown": len(accesses) - len(known),
        "lines": _rounded(worst.lines) if wasting else None,
        "ideal": _rounded(worst.lines_ideal) if wasting else None,
        "bytes": _ratio(worst.bytes, worst.lines) if wasting else None,
        "line": line,
        "instruction": inst.mnemonic if wasting else None,
        "at": source_line(inst.loc) if wasting else None,
        "writes": inst.cls == "global_store" if wasting else None,
        "origin": worst.origin,
    }
    yield Metric("cache.waste", value, "mapping", origin)


def _known(
    subject: Subject, accesses: Sequence[Instruction], figure: str
) -> list[tuple[Instruction, LaneUse]]:
    """The accesses of which a figure is known."""
    uses = ((inst, subject.uses.get(inst.index)) for inst in accesses)
    return [
        (inst, use) for inst, use in uses if use is not None and getattr(use, figure) is not None
    ]


def _why(subject: Subject, accesses: Sequence[Instruction], known: int, none: str) -> str:
    """Why a sum over accesses is unknown; empty where it is known."""
    if not accesses:
        return none
    if known == len(accesses):
        return ""
    reasons = [subject.uses[inst.index].unknown for inst in accesses if inst.index in subject.uses]
    reason = next((reason for reason in reasons if reason), NOT_LOOKED_AT)
    return f"{len(accesses) - known} of {len(accesses)} accesses: {reason}"


def _rounded(figure: float | None) -> float | None:
    if figure is None:
        return None
    return int(figure) if figure == int(figure) else round(figure, 2)


def _ratio(one: float | None, other: float | None) -> float | None:
    return _rounded(one / other) if one is not None and other else None
