"""What was recorded of code that is not at hand, as blocks of a document."""

from __future__ import annotations

from collections.abc import Sequence

from ..explain import view
from ..explain.quantities import scaled
from ..explain.recording_view import UnplacedStall
from .document import Column, Table, table


def unplaced_table(stalls: Sequence[UnplacedStall]) -> Table:
    """The traced instructions that stalled most, of kernels whose code is not known."""
    return table(
        (
            (Column("% of stalls", right=True), lambda stall: f"{stall.share:.1f}"),
            (Column("cycles", right=True), lambda stall: scaled(stall.cycles)),
            (Column("hits", right=True, rank=1), lambda stall: scaled(stall.hits)),
            (Column("at", rank=1), lambda stall: stall.address),
            (Column("instruction", shrinks=True), lambda stall: stall.instruction),
            (Column("source", shrinks=True), lambda stall: view.file_name(stall.comment)),
            (Column("kernel", rank=2, shrinks=True), lambda stall: stall.kernel),
        ),
        stalls,
    )
