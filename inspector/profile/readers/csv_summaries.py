"""Tables in a profiler's CSV files that hold no dispatches: statistics of kernels, and copies."""

from __future__ import annotations

from ...model.recording import TopKernel
from ..builder import RecordingBuilder
from .csv_columns import real
from .csv_table import CsvTable, DamagedRowError

STATISTICS = "kernel statistics"
_KERNEL_DOMAIN = "KERNEL_DISPATCH"


def _calls_and_total(table: CsvTable, cells: list[str]) -> tuple[int, int]:
    calls, total = table.integer(cells, "calls"), table.integer(cells, "total_ns")
    if calls is None or total is None:
        raise DamagedRowError("calls or durations are not numbers")
    return calls, total


def read_stats(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of kernels with calls and durations to the summary.

    A table of all that was traced has a column `domain`; its rows of kernels alone are read.
    """

    def add(cells: list[str]) -> None:
        if "domain" in table.columns and table.cell(cells, "domain").strip() != _KERNEL_DOMAIN:
            return
        calls, total = _calls_and_total(table, cells)
        mean = table.cell(cells, "mean_ns").strip()
        try:
            mean_ns = real(mean) if mean else None
        except (ValueError, OverflowError):
            raise DamagedRowError("calls or durations are not numbers") from None
        builder.summary.append(
            TopKernel(
                name=table.cell(cells, "label"),
                calls=calls,
                total_ns=total,
                mean_ns=mean_ns,
                min_ns=table.integer(cells, "min_ns"),
                max_ns=table.integer(cells, "max_ns"),
            )
        )

    table.each(add)
    table.report(builder)


def read_copies(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of one row per copy to the recording's transfers."""

    def add(cells: list[str]) -> None:
        start, end = table.instant(cells, "start"), table.instant(cells, "end")
        if start is None or end is None or end < start:
            raise DamagedRowError("begin or end is not a time")
        builder.transfer(table.cell(cells, "direction").strip(), end - start)

    table.each(add)
    table.report(builder)


def read_copy_statistics(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of copies with calls and durations to the recording's transfers.

    A database beside it, if one was read, has the same copies.
    """
    if any(part.path.endswith(".db") for part in builder.parts):
        return

    def add(cells: list[str]) -> None:
        calls, total = _calls_and_total(table, cells)
        builder.transfer(table.cell(cells, "label"), total, calls)

    table.each(add)
    table.report(builder)
