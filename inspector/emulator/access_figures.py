"""LDS bank conflicts of one wave's instruction, from its lanes' addresses.

A wave's instruction is served in phases: groups of lanes that meet in the banks together. In each
phase a bank gives one dword a cycle, to any number of lanes; every further dword of the same bank
costs a cycle. Sources of the phases: triton-lang PR 11365, measurements of pairs of lanes
by HipKittens (gfx950) and pyhip (gfx942), rocRoller's `LDSBankModel`, whose cycles a hardware test
asserts (gfx950); where they are silent or disagree the result is `estimated`.

Which bytes of global memory a launch touched, each counted once.

A wave's accesses are kept as a pattern of spans and the places where it lay; most instructions
repeat theirs, so that what is sorted at the end are places of waves and not addresses of lanes.
The functions at the end make spans of addresses, and count the cache lines that these lie in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
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


Spans = tuple[Array, Array]
"""First bytes and ends (the byte behind the last one), int64 [span]."""
_LAST: Final = (1 << 62) - 1
"""Stands behind all addresses."""
MOST_PENDING: Final = 1 << 15
"""Accesses that are kept before they are put together."""
MOST_LOOSE: Final = 1 << 20
"""Spans that are kept before they are put together."""


class Footprint(Struct, frozen=True):
    """Distinct bytes that active lanes read and wrote."""

    read: int
    written: int


class TouchedBytes:
    """The bytes that each instruction touched since the last `take`."""

    def __init__(self) -> None:
        self._spans: dict[tuple[int, int], Spans] = {}
        self._places: dict[tuple[int, int], list[Array]] = {}
        self._pending = 0
        self._loose = 0
        self._folded: dict[int, list[Spans]] = {}

    def add(self, site: int, pattern: int, spans: Spans, places: Array) -> None:
        """Spans that lie at each of some places.

        `pattern`: a number for the spans: the same one always has the same. `spans`: in bytes from
        a place. `places`: addresses, int64 [place].
        """
        key = site, pattern
        self._spans[key] = spans
        self._places.setdefault(key, []).append(places)
        self._pending += 1
        if self._pending > MOST_PENDING:
            self._fold()

    def add_spans(self, site: int, spans: Spans) -> None:
        """Spans of addresses, which may overlap, in any order."""
        self._folded.setdefault(site, []).append(spans)
        self._loose += len(spans[0])
        if self._loose > MOST_LOOSE:
            self._fold()

    def folded(self) -> dict[int, list[Spans]]:
        """Returns the bytes that each instruction touched, as disjoint ascending spans."""
        self._fold()
        return self._folded

    def take(self, reads: Callable[[int], bool], writes: Callable[[int], bool]) -> Footprint:
        """Returns the bytes touched since the last call, and forgets them."""
        self._fold()
        read, written = (
            united(part for site, parts in self._folded.items() if does(site) for part in parts)
            for does in (reads, writes)
        )
        self._folded = {}
        return Footprint(size_of(read), size_of(written))

    def _fold(self) -> None:
        """Puts the accesses of each instruction together."""
        for (site, pattern), places in self._places.items():
            starts, ends = self._spans[site, pattern]
            where = distinct_of(np.concatenate(places))
            laid = (where + starts[:, None]).reshape(-1), (where + ends[:, None]).reshape(-1)
            self._folded.setdefault(site, []).append(laid)
        for site, parts in self._folded.items():
            if len(parts) > 1:
                self._folded[site] = [united(parts)]
        self._spans, self._places, self._pending, self._loose = {}, {}, 0, 0


def spans_of(addresses: Array, size: int) -> Spans:
    """The bytes that lanes touch: `size` bytes at each of their addresses."""
    return spans_at(distinct_of(addresses), size)


def distinct_of(addresses: Array) -> Array:
    """Addresses in ascending order, each once."""
    ordered = np.sort(addresses, axis=None)  # a third of the time that np.unique takes
    is_first = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def spans_at(distinct: Array, size: int) -> Spans:
    """The spans of `size` bytes at each of some addresses.

    `distinct`: ascending, each once.
    """
    if not len(distinct):
        return distinct, distinct
    first = np.ones(len(distinct), bool)
    np.greater(distinct[1:] - distinct[:-1], size, out=first[1:])
    last = np.ones(len(distinct), bool)
    last[:-1] = first[1:]
    return distinct[first], distinct[last] + size


def spans_of_rows(addresses: Array, active: Array, size: int) -> tuple[Spans, Array]:
    """The spans of every wave, those of each in ascending order, and the wave of each span.

    `addresses`: int64 [wave, lane]. `active`: which lanes take part, bool [wave, lane].
    """
    order = np.sort(np.where(active, addresses, _LAST), 1)
    inside = order != _LAST
    begins = inside.copy()
    begins[:, 1:] &= order[:, 1:] - order[:, :-1] > size
    ends = inside.copy()
    ends[:, :-1] &= begins[:, 1:] | ~inside[:, 1:]
    return (order[begins], order[ends] + size), np.nonzero(begins)[0]


def united(parts: Iterable[Spans]) -> Spans:
    """Disjoint spans in ascending order that cover the same bytes."""
    listed = list(parts)
    if not listed:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    starts = np.concatenate([part[0] for part in listed])
    ends = np.concatenate([part[1] for part in listed])
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, ends = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > ends[:-1]])
    last = np.concatenate([first[1:], [True]])
    return starts[first], ends[last]


def size_of(spans: Spans) -> int:
    """Returns the bytes that disjoint spans cover."""
    return int((spans[1] - spans[0]).sum())


def lines_of_rows(spans: Spans, row_of: Array, rows: int, line: int) -> tuple[int, int]:
    """`lines_touched`, summed over waves.

    `spans`: spans of all waves, those of each in ascending order. `row_of`: the wave of each span.
    """
    starts, ends = spans
    first, last = starts // line, (ends - 1) // line
    same = row_of[1:] == row_of[:-1]
    shared = int(np.count_nonzero(same & (first[1:] == last[:-1])))
    covered = np.bincount(row_of, ends - starts, rows).astype(np.int64)
    return int((last - first).sum()) + len(starts) - shared, int((-(-covered // line)).sum())


def lines_touched(spans: Spans, line: int) -> tuple[int, int]:
    """Cache lines that lanes touch, and the least that as many bytes need.

    `spans`: bytes that active lanes touch, disjoint and ascending.
    """
    starts, ends = spans
    if not len(starts):
        return 0, 0
    first, last = starts // line, (ends - 1) // line
    lines = int((last - first).sum()) + len(starts)
    shared = int(np.count_nonzero(first[1:] == last[:-1]))
    return lines - shared, -(-int((ends - starts).sum()) // line)
