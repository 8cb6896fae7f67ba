"""Which bytes of global memory a launch touched, each counted once.

A wave's accesses are kept as a pattern of spans and the places where it lay; most instructions
repeat theirs, so that what is sorted at the end are places of waves and not addresses of lanes.
The functions at the end make spans of addresses, and count the cache lines that these lie in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np
from msgspec import Struct

Array = np.ndarray[Any, Any]
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
