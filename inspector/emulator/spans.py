"""Bytes of memory as spans, and the cache lines that they lie in."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]
Spans = tuple[Array, Array]
"""First bytes and ends (the byte behind the last one), int64 [span]."""
_LAST: Final = (1 << 62) - 1
"""Stands behind all addresses."""


def spans_of(addresses: Array, size: int) -> Spans:
    """The bytes that lanes touch: `size` bytes at each of their addresses."""
    distinct = np.unique(addresses)
    if not len(distinct):
        return distinct, distinct
    gap = distinct[1:] - distinct[:-1] > size
    first, last = np.concatenate([[True], gap]), np.concatenate([gap, [True]])
    return distinct[first], distinct[last] + size


def spans_of_rows(addresses: Array, active: Array, size: int) -> tuple[Spans, Array]:
    """The spans of every wave, those of each in ascending order, and the wave of each span.

    Args:
        addresses: int64 [wave, lane].
        active: which lanes take part, bool [wave, lane].
        size: bytes of each lane.
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

    Args:
        spans: spans of all waves, those of each in ascending order.
        row_of: the wave of each span.
        rows: how many waves.
        line: bytes of a line.
    """
    starts, ends = spans
    first, last = starts // line, (ends - 1) // line
    same = row_of[1:] == row_of[:-1]
    shared = int(np.count_nonzero(same & (first[1:] == last[:-1])))
    covered = np.bincount(row_of, ends - starts, rows).astype(np.int64)
    return int((last - first).sum()) + len(starts) - shared, int((-(-covered // line)).sum())


def lines_touched(spans: Spans, line: int) -> tuple[int, int]:
    """Cache lines that lanes touch, and the least that as many bytes need.

    Args:
        spans: bytes that active lanes touch, disjoint and ascending.
        line: bytes of a line.
    """
    starts, ends = spans
    if not len(starts):
        return 0, 0
    first, last = starts // line, (ends - 1) // line
    lines = int((last - first).sum()) + len(starts)
    shared = int(np.count_nonzero(first[1:] == last[:-1]))
    return lines - shared, -(-int((ends - starts).sum()) // line)
