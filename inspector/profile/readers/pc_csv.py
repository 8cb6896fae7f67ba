"""PC sampling of rocprofv3 as CSV, host-trap and stochastic.

Its rows have no address: a sample's place is the instruction's text, with the source position where
the program has line information. Rows of one place are added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ...model.recording import CodePlace, Part
from ..builder import RecordingBuilder
from ..reading import FileGroup
from .csv_columns import integer
from .csv_table import CsvTable, RowBlock, folded
from .pc_samples import Method, SampleSum
from .process_files import names_of, parts_of, prefix_of, process_of, results_file_read

FORMAT = "rocprofv3 PC sampling CSV"

_COLUMNS = frozenset({"sampletimestamp", "execmask", "dispatchid", "instruction"})
_CELLS = ("number", "instruction", "comment", "mask", "issued", "reason")


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns a group per file: one method in one process."""
    sampled = [file for file in files if file.suffix.lower() == ".csv" and folded(file) >= _COLUMNS]
    names = names_of((file.parent, file.stem) for file in sampled)
    return [FileGroup(names[file.parent, file.stem], (file,)) for file in sampled]


def read(group: FileGroup, builder: RecordingBuilder) -> None:
    """Adds the samples of a file."""
    for file in group.files:
        twin = results_file_read(file.parent, prefix_of(file), builder)
        if twin is not None and builder.samples:
            builder.note(f"{file.name}: the same samples were read from {twin}; not added")
            continue
        table = CsvTable.open(file)
        shapes = _shapes(file, builder)
        process = process_of(prefix_of(file))
        builder.tool.setdefault("name", "rocprofv3")
        builder.begin(Part(group.name, str(file), FORMAT, profiler="rocprofv3"))
        method: Method = "stochastic" if "issued" in table.columns else "host_trap"
        sums: dict[CodePlace, SampleSum] = {}
        table.select_columns(_CELLS, ())
        for block in table.blocks():
            for cells, count in _counted_rows(block).items():
                shape = shapes.get(cells.dispatch) if cells.dispatch is not None else None
                place = CodePlace(
                    shape=shape,
                    process=process,
                    code_object=None,
                    offset=None,
                    text=cells.text or None,
                    comment=cells.comment or None,
                )
                total = sums.setdefault(place, SampleSum(place, method))
                issued = cells.issued if method == "stochastic" else None
                total.add(cells.mask, issued, cells.reason or None, times=count)
        table.report(builder)
        builder.samples.extend(total.samples() for total in sums.values())
        if sums and not shapes:
            builder.note(
                f"{file.name}: no kernel trace beside it: samples are of no known kernel; "
                "profile with --kernel-trace too, or with --output-format json"
            )


class _SampleCells(Struct, frozen=True):
    """The cells of a row, parsed; None for what is empty."""

    dispatch: int | None
    text: str
    comment: str
    mask: int | None
    issued: bool
    reason: str


def _counted_rows(block: RowBlock) -> Mapping[_SampleCells, int]:
    """Returns the different rows of a block, and how often each is in it.

    Damaged rows are counted by the table.
    """
    blank = ("",) * len(block)
    columns = [block.column(name) or blank for name in _CELLS]
    counts: Counter[_SampleCells] = Counter()
    # Many rows have the same cells: equal ones are counted first, then parsed once.
    for row, count in Counter(zip(*columns, strict=True)).items():
        try:
            counts[_parsed(*row)] += count
        except (ValueError, OverflowError):
            for line, other in zip(block.lines, zip(*columns, strict=True), strict=True):
                if other == row:
                    block.table.damage(line, "a mask or number is not a number")
    return counts


def _parsed(
    number: str, text: str, comment: str, mask: str, issued: str, reason: str
) -> _SampleCells:
    """Parses the cells of `_CELLS`."""
    lanes = integer(mask)
    return _SampleCells(
        dispatch=integer(number),
        text=text.strip(),
        comment=comment.strip(),
        mask=lanes if lanes is not None and lanes >= 0 else None,
        issued=bool(integer(issued)) if issued else False,
        reason=reason,
    )


def _shapes(file: Path, builder: RecordingBuilder) -> dict[int, int]:
    """Returns dispatch id -> shape, of the same process's other files in the folder."""
    parts = set(parts_of(file.parent, prefix_of(file), builder))
    table = builder.dispatches
    return {
        number: shape
        for number, shape, part in zip(table.number, table.shape, table.part, strict=True)
        if part in parts
    }
