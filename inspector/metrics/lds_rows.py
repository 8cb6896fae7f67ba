"""Padding or swizzles that would free an array in LDS of bank conflicts, tried on its accesses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..emulator.access_figures import DWORD, data_cycles, phases_of
from ..model import LdsRemedy

if TYPE_CHECKING:
    from ..lanes.addresses import Places

Array = np.ndarray[Any, Any]

MOST_ACCESSES: Final = 24
"""Limit on an array's distinct patterns of lanes; larger arrays get no remedy."""
MOST_PITCHES: Final = 8
BANK_ROW: Final = 128
"""Bytes of 32 banks side by side, a pitch that is tried for arrays without rows as well."""
MOST_PADDING: Final = 64
"""Bytes, half the width of all banks: larger paddings only repeat smaller shifts."""
MOST_SHARE: Final = 0.25
"""Share of a row that padding should not exceed."""


class _Access(Struct, frozen=True):
    """A pattern of lanes: accesses that differ only by a step.

    Args:
        places: the first of them.
        where: addresses of its lanes in one draw, int64 [wave, lane].
        active: the lanes that take part, bool of the same shape; None for all.
        times: number of accesses with the pattern.
    """

    places: Places
    where: Array
    active: Array | None
    times: int


def remedies(
    accesses: Mapping[int, Sequence[Places]], conflicting: Sequence[int], arch: str
) -> dict[int, LdsRemedy]:
    """The remedy for the array of each instruction with conflicts.

    `accesses`: accesses of LDS by instruction, where the figures are known; `conflicting`: the
    instructions with conflicts.
    """
    spans = {site: _span(site_accesses) for site, site_accesses in accesses.items()}
    widest = max(
        4, *(access.size for site_accesses in accesses.values() for access in site_accesses)
    )
    remedy_of: dict[int, LdsRemedy] = {}
    for group in _groups(spans):
        with_conflicts = [site for site in conflicting if site in group]
        if not with_conflicts:
            continue
        patterns = _patterns([access for site in sorted(group) for access in accesses[site]])
        if len(patterns) > MOST_ACCESSES:
            continue
        remedy = _best(patterns, min(spans[site][0] for site in group), widest, arch)
        remedy_of.update(dict.fromkeys(with_conflicts, remedy))
    return remedy_of


def _span(accesses: Sequence[Places]) -> tuple[int, int]:
    """First byte and end of the bytes that an instruction touches, in one draw."""
    draws = [_representative_draw(access) for access in accesses]
    sizes = [access.size for access in accesses]
    addresses = [where if active is None else where[active] for where, active in draws]
    return (
        min(int(where.min()) for where in addresses),
        max(int(where.max()) + size for where, size in zip(addresses, sizes, strict=True)),
    )


def _representative_draw(access: Places) -> tuple[Array, Array | None]:
    """Addresses and active lanes of the draw with most active lanes."""
    draw = 0 if access.active is None else int(access.active.sum((1, 2)).argmax())
    return access.where[draw], None if access.active is None else access.active[draw]


def _groups(spans: Mapping[int, tuple[int, int]]) -> list[set[int]]:
    """Instructions whose bytes overlap, directly or through others."""
    groups: list[set[int]] = []
    end = -1
    for site, (start, stop) in sorted(spans.items(), key=lambda item: item[1]):
        if start >= end:
            groups.append(set())
        groups[-1].add(site)
        end = max(end, stop)
    return groups


def _patterns(accesses: Sequence[Places]) -> list[_Access]:
    """The patterns of lanes among accesses of one size and direction."""
    counted: dict[tuple[int, bool, bytes, bytes], list[_Access]] = {}
    for access in accesses:
        where, active = _representative_draw(access)
        relative = where - where[:1, :1]
        key = (
            access.size,
            access.writes,
            relative.tobytes(),
            b"" if active is None else active.tobytes(),
        )
        counted.setdefault(key, []).append(_Access(access, where, active, 1))
    return [
        _Access(
            pattern_accesses[0].places,
            pattern_accesses[0].where,
            pattern_accesses[0].active,
            len(pattern_accesses),
        )
        for pattern_accesses in counted.values()
    ]


_Layout = Callable[[Array], Array]


def _best(accesses: Sequence[_Access], base: int, widest: int, arch: str) -> LdsRemedy:
    """The padding and the swizzle with fewest cycles over all accesses."""
    ((now, ideal),) = _cycles(accesses, arch, [lambda where: where], DWORD)
    remedy = LdsRemedy(accesses=sum(a.times for a in accesses), cycles=now, cycles_ideal=ideal)
    paddings: list[tuple[float, bool, int, int]] = []
    swizzles: list[tuple[float, int]] = []
    for pitch in _pitches(accesses):
        # Longer rows count only where they take fewer cycles than shorter ones.
        pads = range(widest, MOST_PADDING + 1, widest)
        if any(cycles <= ideal and not is_large for cycles, is_large, _, _ in paddings):
            pads = range(0)
        layouts = [_with_padding(base, pitch, pad) for pad in pads]
        can_swizzle = (
            pitch & (pitch - 1) == 0
            and pitch > widest
            and not any(cycles <= ideal for cycles, _ in swizzles)
        )
        if can_swizzle:
            layouts.append(_with_swizzle(base, pitch, widest))
        if not layouts:
            continue
        # Waves that lie this far apart are laid out alike: swizzles repeat after some rows.
        period = pitch * (pitch // widest) if can_swizzle else pitch
        figures = _cycles(accesses, arch, layouts, period)
        for pad, (cycles, _) in zip(pads, figures, strict=False):
            paddings.append((cycles, pad > MOST_SHARE * pitch, pitch, pad))
            if cycles <= ideal:
                break
        if can_swizzle:
            swizzles.append((figures[-1][0], pitch))
    if paddings and min(paddings)[0] < now:
        padded, _, row, pad = min(paddings)
        remedy = replace(remedy, row=row, pad=pad, padded=padded)
    if swizzles and min(swizzles)[0] < now:
        swizzled, row = min(swizzles)
        remedy = replace(remedy, swizzle_row=row, swizzle=widest, swizzled=swizzled)
    return remedy


def _pitches(accesses: Sequence[_Access]) -> list[int]:
    """Distances that may be a row: between lanes of a wave that leave bytes between them."""
    rows: set[int] = set()
    for access in accesses:
        where = access.where[0]
        distances = [
            abs(int(where[1 << bit] - where[0])) for bit in range((len(where) - 1).bit_length())
        ]
        contiguous_bytes = access.places.size
        for distance in sorted(distances):
            if distance == contiguous_bytes:
                contiguous_bytes *= 2
            elif distance > contiguous_bytes and distance % 4 == 0:
                rows.add(distance)
    return sorted({BANK_ROW, *sorted(rows)[:MOST_PITCHES]})


def _with_padding(base: int, pitch: int, pad: int) -> _Layout:
    return lambda where: where + (where - base) // pitch * pad


def _with_swizzle(base: int, pitch: int, piece: int) -> _Layout:
    """A layout with each row's pieces reordered: their numbers XORed with the row's."""

    def swizzled(where: Array) -> Array:
        row, column = np.divmod(where - base, pitch)
        swizzled_piece = column // piece ^ row % (pitch // piece)
        address: Array = base + row * pitch + swizzled_piece * piece + column % piece
        return address

    return swizzled


def _cycles(
    accesses: Sequence[_Access], arch: str, layouts: Sequence[_Layout], period: int
) -> list[tuple[float, float]]:
    """For each layout the cycles of one execution of all accesses by a wave, and the least."""
    # Accesses that are served alike are served together: the arrays are small.
    served: dict[tuple[int, bool, int], list[int]] = {}
    for number, access in enumerate(accesses):
        key = access.places.size, access.places.writes, access.where.shape[1]
        served.setdefault(key, []).append(number)
    of_access: dict[int, tuple[Array, Array]] = {}
    for (size, writes, lanes), group in served.items():
        alike = [_alike(accesses[number], period) for number in group]
        where = [
            accesses[number].where[rows] for number, (rows, _) in zip(group, alike, strict=True)
        ]
        figures = data_cycles(
            phases_of(arch, size, lanes, writes=writes),
            np.concatenate([layout(part) for part in where for layout in layouts]),
            size,
            _active_rows([accesses[number] for number in group], alike, len(layouts)),
        )
        start = 0
        for number, (rows, numbers) in zip(group, alike, strict=True):
            stop = start + len(rows) * len(layouts)
            each, least = (
                figure[start:stop].reshape(-1, len(rows))[:, numbers].mean(1)
                * accesses[number].times
                for figure in figures
            )
            of_access[number] = each, least
            start = stop
    cycles, ideal = np.zeros(len(layouts)), np.zeros(len(layouts))
    for number in range(len(accesses)):
        cycles += of_access[number][0]
        ideal += of_access[number][1]
    return list(zip(cycles.tolist(), ideal.tolist(), strict=True))


def _active_rows(
    accesses: Sequence[_Access], alike: Sequence[tuple[list[int], list[int]]], times: int
) -> Array | None:
    """Which lanes take part in the rows of some accesses, each several times; None: all."""
    if all(access.active is None for access in accesses):
        return None
    parts = [
        np.ones((len(rows), access.where.shape[1]), bool)
        if access.active is None
        else access.active[rows]
        for access, (rows, _) in zip(accesses, alike, strict=True)
    ]
    return np.concatenate([np.tile(part, (times, 1)) for part in parts])


def _alike(access: _Access, period: int) -> tuple[list[int], list[int]]:
    """The waves of a pattern that differ by more than a multiple of a period, and for each wave
    which of them it is like.
    """
    relative = access.where - access.where[:, :1] // period * period
    distinct: list[int] = []
    number_of: dict[tuple[bytes, bytes], int] = {}
    numbers = []
    for wave, row in enumerate(relative):
        active = b"" if access.active is None else access.active[wave].tobytes()
        number = number_of.setdefault((row.tobytes(), active), len(distinct))
        if number == len(distinct):
            distinct.append(wave)
        numbers.append(number)
    return distinct, numbers
