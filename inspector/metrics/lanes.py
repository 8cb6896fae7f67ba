"""What the lanes of each access touch: LDS banks and cache lines, from their addresses.

`emulator.addresses` says where the lanes lie; what is the same in all its draws is a figure of the
code, anything else stays unknown, with the reason.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..model import Function, LaneUse, Machine

if TYPE_CHECKING:
    from ..emulator.addresses import Arguments, Places

FROM_MEMORY = "its addresses come from values in memory, or from which way was taken"
ON_ARGUMENTS = "it depends on sizes and strides that the launch passes"
NO_WAVES = "needs the number of waves of a workgroup (--waves)"


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
    from ..emulator.addresses import Arguments

    words: dict[int, int] = {}
    pointers: set[int] = set()
    loose: set[int] = set()
    offset = 0
    for name, kind in signature.items():
        if kind == "constexpr":
            continue
        size = 8 if kind.startswith("*") else _SIZES.get(kind)
        if size is None:  # what follows lies nobody knows where
            return Arguments(words, None, frozenset(loose))
        offset = -(-offset // size) * size
        if kind.startswith("*"):
            pointers.add(offset)
        elif size >= 4 and kind[0] in "iu":
            if name in values:
                words[offset] = values[name]
                if size == 8:
                    words[offset + 4] = values[name] >> 32
            elif attributes.get(name, {}).get("tt.divisibility") != 16:
                loose.add(offset)
        offset += size
    return Arguments(words, frozenset(pointers), frozenset(loose))


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
        Nothing where NumPy is missing, or the kernel does not say how its waves begin.
    """
    if importlib.util.find_spec("numpy") is None:
        return {}
    from ..emulator.addresses import places_of

    parts: dict[int, list[Places]] = {}
    for places in places_of(function, machine, waves, arguments) or ():
        parts.setdefault(places.site, []).append(places)
    return {site: _use(accesses, machine) for site, accesses in parts.items()}


def _use(accesses: Sequence[Places], machine: Machine) -> LaneUse:
    """One instruction's: the accesses of its parts add up."""
    uses = [_of_part(places, machine) for places in accesses]
    if len(uses) == 1:
        return uses[0]
    first = uses[0]
    for other in uses[1:]:
        unknown = first.unknown or other.unknown
        estimated = "estimated" in (first.origin, other.origin)
        first = LaneUse(
            first.lanes,
            _sum(first.cycles, other.cycles),
            _sum(first.cycles_ideal, other.cycles_ideal),
            _sum(first.lines, other.lines),
            _sum(first.lines_ideal, other.lines_ideal),
            _sum(first.bytes, other.bytes),
            "estimated" if estimated else "derived",
            unknown,
        )
    return first


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _of_part(places: Places, machine: Machine) -> LaneUse:
    import numpy as np
    from msgspec.structs import replace

    if places.scattered:
        return LaneUse(unknown=FROM_MEMORY)
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
        return _in_lds(places, machine, lanes, np)
    return _in_lines(places, machine, lanes)


def _in_lds(places: Places, machine: Machine, lanes: float, np: Any) -> LaneUse:
    from ..emulator.banks import conflict_cycles, data_cycles, phases_of

    phases = phases_of(machine.arch, places.size, places.where.shape[2], writes=places.writes)
    draws, waves, count = places.where.shape
    rows = places.where.reshape(draws * waves, count)
    if places.active is None:
        # Banks do not change when all addresses move by whole rows of them.
        moved = rows - rows[:, :1] // 256 * 256
        if (moved == moved[0]).all():
            moved = moved[:1]
        cycles, ideal = data_cycles(phases, moved, places.size)
        if len(moved) > 1:
            of_draw = cycles.reshape(draws, waves).sum(1), ideal.reshape(draws, waves).sum(1)
        else:
            of_draw = cycles * waves, ideal * waves
    else:
        active = places.active.reshape(draws * waves, count)
        extra = np.array(
            [
                conflict_cycles(phases, row, lane, places.size)
                for row, lane in zip(rows, active, strict=True)
            ]
        )
        least = np.array(
            [sum(bool(lane[list(group)].any()) for group in phases.groups) for lane in active]
        )
        of_draw = (
            (extra + least).reshape(draws, waves).sum(1),
            least.reshape(draws, waves).sum(1),
        )
    if not all((figure == figure[0]).all() for figure in of_draw):
        return LaneUse(unknown=ON_ARGUMENTS)
    return LaneUse(
        lanes,
        float(of_draw[0][0]) / waves,
        float(of_draw[1][0]) / waves,
        origin=phases.origin,
    )


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
    if len(set(figures)) > 1:
        return LaneUse(unknown=ON_ARGUMENTS)
    lines, least, distinct = figures[0]
    return LaneUse(lanes, None, None, lines / waves, least / waves, distinct / waves)
