"""LDS bank conflicts of one wave's instruction, from its lanes' addresses.

A wave's instruction is served in phases: groups of lanes that meet in the banks together. In each
phase a bank gives one dword a cycle, to any number of lanes; every further dword of the same bank
costs a cycle. Sources of the phases: triton-lang PR 11365, measurements of pairs of lanes
by HipKittens (gfx950) and pyhip (gfx942), rocRoller's `LDSBankModel`, whose cycles a hardware test
asserts (gfx950); where they are silent or disagree the result is `estimated`.
"""

from __future__ import annotations

import functools
from typing import Any, Final, Literal

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]
Origin = Literal["derived", "estimated"]

DWORD: Final = 4
_READ_B128_CDNA3: Final = (
    (*range(4), *range(20, 24)),
    (*range(4, 8), *range(16, 20)),
    (*range(8, 12), *range(28, 32)),
    (*range(12, 16), *range(24, 28)),
)
_READ_B128_GFX950: Final = (
    (*range(4), *range(12, 16), *range(20, 28)),
    (*range(4, 12), *range(16, 20), *range(28, 32)),
)
_IDLE: Final = -(1 << 60)
"""Stands for the dword of a lane that takes no part; no address comes near it."""
_LANES_OF_A_PHASE: Final = {4: 32, 8: 16, 16: 8}
"""Bytes of each lane -> lanes that meet in the banks together, of consecutive ones."""


class Phases(Struct, frozen=True):
    """How an access is served.

    `origin`: `derived` where the phases were measured on the target.
    """

    groups: tuple[tuple[int, ...], ...]
    banks: int
    origin: Origin


def _contiguous(lanes: int, each: int) -> tuple[tuple[int, ...], ...]:
    """Returns the lanes in consecutive groups of `each`."""
    return tuple(tuple(range(start, start + each)) for start in range(0, lanes, each))


def _both_halves(groups: tuple[tuple[int, ...], ...], lanes: int) -> tuple[tuple[int, ...], ...]:
    """Repeats the groups of the first 32 lanes for every further 32."""
    return tuple(
        tuple(lane + base for lane in group) for base in range(0, lanes, 32) for group in groups
    )


@functools.lru_cache(maxsize=256)
def phases_of(arch: str, size: int, lanes: int, *, writes: bool) -> Phases:
    """The phases of a read or write of `size` bytes a lane."""
    width = 4 if size <= 4 else 8 if size <= 8 else 16
    contiguous = _contiguous(lanes, _LANES_OF_A_PHASE[width])
    wide_read = width == 16 and not writes
    if arch == "gfx950":
        if wide_read and size == 16:
            return Phases(_both_halves(_READ_B128_GFX950, lanes), 64, "derived")
        if wide_read:  # 96 bits
            return Phases(_both_halves(_READ_B128_CDNA3, lanes), 32, "derived")
        if width == 8 and not writes:
            return Phases(_contiguous(lanes, 32), 64, "derived")
        return Phases(contiguous, 32, "derived" if width > 4 else "estimated")
    banks = 64 if arch == "gfx1250" else 32
    if lanes == 32:  # RDNA
        if wide_read and not arch.startswith("gfx12"):
            return Phases(_READ_B128_CDNA3, banks, "estimated")
        return Phases(contiguous, banks, "derived" if banks == 32 else "estimated")
    if wide_read:
        known = arch in ("gfx940", "gfx941", "gfx942") and size == 16
        groups = _both_halves(_READ_B128_CDNA3, lanes)
        return Phases(groups, banks, "derived" if known else "estimated")
    return Phases(contiguous, banks, "derived")


def data_cycles(
    phases: Phases, addresses: Array, size: int, active: Array | None = None
) -> tuple[Array, Array]:
    """Cycles of the LDS for accesses of several waves.

    `addresses`: in bytes, int64 [wave, lane]. `active`: which lanes take part, bool [wave, lane];
    None for all. Returns cycles, and cycles with the same dwords spread evenly over the banks;
    int64 [wave] each.
    """
    first = addresses // DWORD
    # A step of all lanes turns the banks: nothing else changes.
    first -= first[:, :1]
    if active is not None:
        first = np.where(active, first, _IDLE)
    distinct: list[int] = []
    number_of: dict[bytes, int] = {}
    numbers = []
    for wave, row in enumerate(first):
        number = number_of.setdefault(row.tobytes(), len(distinct))
        if number == len(distinct):
            distinct.append(wave)
        numbers.append(number)
    if len(distinct) == len(first):
        return _cycles_of_rows(phases, first, size)
    cycles, ideal = _cycles_of_rows(phases, first[distinct], size)
    return cycles[numbers], ideal[numbers]


def _cycles_of_rows(phases: Phases, first: Array, size: int) -> tuple[Array, Array]:
    """What `data_cycles` returns for waves by their dwords, int64 [wave, lane]."""
    waves = len(first)
    # All phases of all waves side by side, a row each.
    start = first[:, _lanes_of(phases.groups)].reshape(waves * len(phases.groups), -1)
    rows = len(start)
    if size > DWORD:
        start = (start[..., None] + np.arange(size // DWORD)).reshape(rows, -1)
    dwords = np.sort(start, 1)
    distinct = dwords >= _IDLE // 2
    distinct[:, 1:] &= dwords[:, 1:] != dwords[:, :-1]
    bank_rows = (np.arange(rows)[:, None] * phases.banks + dwords % phases.banks)[distinct]
    filled = np.bincount(bank_rows, minlength=rows * phases.banks).reshape(rows, phases.banks)
    cycles = filled.max(1).reshape(waves, -1).sum(1)
    ideal = (-(-filled.sum(1) // phases.banks)).reshape(waves, -1).sum(1)
    return cycles, ideal


@functools.cache
def _lanes_of(groups: tuple[tuple[int, ...], ...]) -> Array:
    """The lanes of phases, int64 [phase, lane of the phase]: all phases have as many."""
    return np.array(groups)


def conflict_cycles(phases: Phases, addresses: Array, active: Array, size: int) -> int:
    """Cycles that bank conflicts add to one wave's instruction.

    `addresses`: of each lane, in bytes, int64 [lane]. `active`: which lanes take part, bool [lane].
    """
    cycles, ideal = data_cycles(phases, addresses[None], size, active[None])
    return int(cycles[0] - ideal[0])
