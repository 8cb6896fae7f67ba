"""Which bytes of global memory a launch touched, each counted once.

A wave's accesses are kept as a pattern of spans and the places where it lay; most instructions
repeat theirs, so that what is sorted at the end are places of waves and not addresses of lanes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from .spans import Array, Spans, size_of, united

MOST_PENDING = 1 << 15
"""Accesses that are kept before they are put together."""
MOST_LOOSE = 1 << 20
"""Spans that are kept before they are put together."""


class Footprint(Struct, frozen=True):
    """Distinct bytes that active lanes read and wrote."""

    read: int
    written: int


class Touched:
    """The bytes that each instruction touched since the last `take`."""

    def __init__(self) -> None:
        self._spans: dict[tuple[int, int], Spans] = {}
        self._places: dict[tuple[int, int], list[Array]] = {}
        self._pending = 0
        self._loose = 0
        self._folded: dict[int, list[Spans]] = {}

    def add(self, site: int, pattern: int, spans: Spans, places: Array) -> None:
        """Spans that lie at each of some places.

        Args:
            site: index of the instruction.
            pattern: a number for the spans: the same one always has the same.
            spans: in bytes from a place.
            places: addresses, int64 [place].
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
        """Returns the bytes touched since the last call, and forgets them.

        Args:
            reads: whether an instruction, by its index, reads memory.
            writes: whether it writes.
        """
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
            where = np.unique(np.concatenate(places))
            laid = (where + starts[:, None]).reshape(-1), (where + ends[:, None]).reshape(-1)
            self._folded.setdefault(site, []).append(laid)
        for site, parts in self._folded.items():
            if len(parts) > 1:
                self._folded[site] = [united(parts)]
        self._spans, self._places, self._pending, self._loose = {}, {}, 0, 0
