"""Tables in a profiler's CSV files that hold no dispatches: statistics of kernels, and copies."""

from __future__ import annotations

from ...model.recording import TopKernel
from ..builder import RecordingBuilder
from .csv_columns import instant, integer, real
from .csv_table import CsvTable

STATISTICS = "kernel statistics"
_KERNEL_DOMAIN = "KERNEL_DISPATCH"


def read_stats(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of kernels with calls and durations to the summary.

    A table of all that was traced has a column `domain`; its rows of kernels alone are read.
    """
    domain = table.columns.get("domain")
    for block in table.blocks():
        for cells, line in zip(block.all_rows(), block.lines, strict=True):
            if domain is not None and cells[domain].strip() != _KERNEL_DOMAIN:
                continue
            try:
                kernel = _top_kernel(table, cells)
            except (ValueError, OverflowError):
                table.damage(line, "calls or durations are not numbers")
                continue
            builder.summary.append(kernel)
    table.report(builder)


def _top_kernel(table: CsvTable, cells: list[str]) -> TopKernel:
    """A row as a kernel."""
    columns = table.columns

    def number(name: str) -> int | None:
        return integer(cells[columns[name]]) if name in columns else None

    calls, total = number("calls"), number("total_ns")
    mean = cells[columns["mean_ns"]].strip() if "mean_ns" in columns else ""
    if calls is None or total is None:
        raise ValueError("no calls or no total")
    return TopKernel(
        name=cells[columns["label"]],
        calls=calls,
        total_ns=total,
        mean_ns=real(mean) if mean else None,
        min_ns=number("min_ns"),
        max_ns=number("max_ns"),
    )


def read_copies(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of one row per copy to the recording's transfers."""
    columns = [table.columns[name] for name in ("direction", "start", "end")]
    for block in table.blocks():
        for cells, line in zip(block.all_rows(), block.lines, strict=True):
            direction, *times = (cells[column] for column in columns)
            try:
                start, end = map(instant, times)
            except (ValueError, OverflowError):
                start = end = None
            if start is None or end is None or end < start:
                table.damage(line, "begin or end is not a time")
                continue
            builder.transfer(direction.strip(), end - start)
    table.report(builder)


def read_copy_statistics(table: CsvTable, builder: RecordingBuilder) -> None:
    """Adds a table of copies with calls and durations to the recording's transfers.

    A database beside it, if one was read, has the same copies.
    """
    if any(part.path.endswith(".db") for part in builder.parts):
        return
    label, calls_at, total_at = (table.columns[name] for name in ("label", "calls", "total_ns"))
    for block in table.blocks():
        for cells, line in zip(block.all_rows(), block.lines, strict=True):
            try:
                calls, total = integer(cells[calls_at]), integer(cells[total_at])
                if calls is None or total is None:
                    raise ValueError
            except (ValueError, OverflowError):
                table.damage(line, "calls or durations are not numbers")
                continue
            builder.transfer(cells[label], total, calls)
    table.report(builder)
