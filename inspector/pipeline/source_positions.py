"""The positions in the user's sources that a kernel's code came from."""

from __future__ import annotations

from collections.abc import Iterator

from ..model import KernelReport, SourceLoc


def source_positions(report: KernelReport) -> Iterator[SourceLoc]:
    """Yields the places that a kernel's code came from, outside of libraries.

    Of inlined code that is each call on the way to it as well.
    """
    locations = [op.source for op in report.memory_ops] + [wait.source for wait in report.waits]
    locations += [report.source, *(place for loop in report.loops for place in loop.source)]
    for location in {id(place): place for place in locations}.values():  # many share a position
        position = location
        while position is not None:
            if not position.in_library:
                yield position
            position = position.inlined_at
