"""Which padding or swizzle would free an array in LDS of bank conflicts: tried on its accesses.

Rows are found from the lanes: where two whose numbers differ in one bit have bytes of others
between them, that may be the way from one row to the next. For each such pitch all accesses that
touch the same bytes are laid out anew, with some bytes more to each row or with the row's pieces in
another order, and their cycles are worked out again. Bytes of padding are multiples of the widest
access, which stays aligned then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ..emulator.banks import data_cycles, phases_of
from ..model import LdsRemedy

if TYPE_CHECKING:
    from ..emulator.addresses import Places

Array = np.ndarray[Any, Any]

MOST_ACCESSES: Final = 24
"""Of one array, that lie in different ways; of larger ones nothing is said."""
MOST_PITCHES: Final = 8
BANK_ROW: Final = 128
"""Bytes that 32 banks of 4 hold side by side: tried for arrays without rows, too."""
MOST_PADDING: Final = 64
"""Bytes: half of what all banks give in a cycle; a row moves past every bank by then, or never."""


MOST_SHARE: Final = 0.25
"""Of a row that padding should take."""


class _Access(Struct, frozen=True):
    """Accesses that lie alike but for a step: one of them, and how many there are.

    Args:
        places: of the first draw.
        where: addresses of its lanes that take part, int64 [wave, lane].
        active: which those are, bool of the same shape; None for all.
        times: how many.
    """

    places: Places
    where: Array
    active: Array | None
    times: int


def remedies(
    accesses: Mapping[int, Sequence[Places]], conflicting: Sequence[int], arch: str
) -> dict[int, LdsRemedy]:
    """By instruction with conflicts what would free the array that it touches.

    Args:
        accesses: of LDS, of each instruction whose figures are known.
        conflicting: those with conflicts.
        arch: gfx name.
    """
    spans = {site: _span(parts) for site, parts in accesses.items()}
    # The same array may be touched elsewhere than in the first draw: by the other of two buffers.
    widest = max(4, *(part.size for parts in accesses.values() for part in parts))
    found: dict[int, LdsRemedy] = {}
    for group in _groups(spans):
        wanted = [site for site in conflicting if site in group]
        if not wanted:
            continue
        alike = _alike([part for site in sorted(group) for part in accesses[site]])
        if len(alike) > MOST_ACCESSES:
            continue
        remedy = _best(alike, min(spans[site][0] for site in group), widest, arch)
        found.update(dict.fromkeys(wanted, remedy))
    return found


def _span(parts: Sequence[Places]) -> tuple[int, int]:
    """First byte and end of what an instruction touches, in the first draw."""
    touched = [_of_first_draw(part) for part in parts]
    sizes = [part.size for part in parts]
    picked = [where if active is None else where[active] for where, active in touched]
    return (
        min(int(where.min()) for where in picked),
        max(int(where.max()) + size for where, size in zip(picked, sizes, strict=True)),
    )


def _of_first_draw(part: Places) -> tuple[Array, Array | None]:
    draw = 0 if part.active is None else int(part.active.sum((1, 2)).argmax())
    return part.where[draw], None if part.active is None else part.active[draw]


def _groups(spans: Mapping[int, tuple[int, int]]) -> list[set[int]]:
    """Instructions whose bytes overlap, directly or through others."""
    groups: list[set[int]] = []
    end = -1
    for site, (first, behind) in sorted(spans.items(), key=lambda item: item[1]):
        if first >= end:
            groups.append(set())
        groups[-1].add(site)
        end = max(end, behind)
    return groups


def _alike(parts: Sequence[Places]) -> list[_Access]:
    """Accesses of one size and direction whose lanes differ by a step are one."""
    counted: dict[tuple[int, bool, bytes, bytes], list[_Access]] = {}
    for part in parts:
        where, active = _of_first_draw(part)
        moved = where - where[:1, :1]
        key = part.size, part.writes, moved.tobytes(), b"" if active is None else active.tobytes()
        counted.setdefault(key, []).append(_Access(part, where, active, 1))
    return [
        _Access(same[0].places, same[0].where, same[0].active, len(same))
        for same in counted.values()
    ]


_Layout = Callable[[Array], Array]


def _best(accesses: Sequence[_Access], base: int, widest: int, arch: str) -> LdsRemedy:
    """The padding and the swizzle with fewest cycles over all accesses.

    Of equal paddings the one that is not too large a share of the row, and the shortest row.

    Args:
        accesses: of the array.
        base: its first byte.
        widest: bytes of a lane in the kernel's widest access of LDS, which is to stay aligned.
        arch: gfx name.
    """
    now, ideal = _cycles(accesses, arch, lambda where: where)
    remedy = LdsRemedy(accesses=sum(a.times for a in accesses), cycles=now, cycles_ideal=ideal)
    paddings: list[tuple[float, bool, int, int]] = []
    swizzles: list[tuple[float, int]] = []
    for pitch in _pitches(accesses):
        for pad in range(widest, MOST_PADDING + 1, widest):
            cycles, _ = _cycles(accesses, arch, _with_padding(base, pitch, pad))
            paddings.append((cycles, pad > MOST_SHARE * pitch, pitch, pad))
            if cycles <= ideal:
                break
        if pitch & (pitch - 1) == 0 and pitch > widest:
            cycles, _ = _cycles(accesses, arch, _with_swizzle(base, pitch, widest))
            swizzles.append((cycles, pitch))
    if paddings and min(paddings)[0] < now:
        padded, _, row, pad = min(paddings)
        remedy = replace(remedy, row=row, pad=pad, padded=padded)
    if swizzles and min(swizzles)[0] < now:
        swizzled, row = min(swizzles)
        remedy = replace(remedy, swizzle_row=row, swizzle=widest, swizzled=swizzled)
    return remedy


def _pitches(accesses: Sequence[_Access]) -> list[int]:
    """What may be a row: ways from one lane of a wave to another that leave bytes between them."""
    rows: set[int] = set()
    for access in accesses:
        where = access.where[0]
        distances = [
            abs(int(where[1 << bit] - where[0])) for bit in range((len(where) - 1).bit_length())
        ]
        side_by_side = access.places.size
        for distance in sorted(distances):
            if distance == side_by_side:
                side_by_side *= 2
            elif distance > side_by_side and distance % 4 == 0:
                rows.add(distance)
    return sorted({BANK_ROW, *sorted(rows)[:MOST_PITCHES]})


def _with_padding(base: int, pitch: int, pad: int) -> _Layout:
    return lambda where: where + (where - base) // pitch * pad


def _with_swizzle(base: int, pitch: int, piece: int) -> _Layout:
    """Each row's pieces in an order of its own: their numbers XORed with the row's."""

    def moved(where: Array) -> Array:
        row, column = np.divmod(where - base, pitch)
        turned = column // piece ^ row % (pitch // piece)
        place: Array = base + row * pitch + turned * piece + column % piece
        return place

    return moved


def _cycles(accesses: Sequence[_Access], arch: str, layout: _Layout) -> tuple[float, float]:
    """Cycles of one execution of all accesses by a wave, and the least; the mean over waves."""
    cycles = ideal = 0.0
    for access in accesses:
        lanes = access.where.shape[1]
        phases = phases_of(arch, access.places.size, lanes, writes=access.places.writes)
        taken, least = data_cycles(phases, layout(access.where), access.places.size, access.active)
        cycles += float(taken.mean()) * access.times
        ideal += float(least.mean()) * access.times
    return cycles, ideal
