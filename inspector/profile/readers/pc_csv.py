"""PC sampling of rocprofv3 as CSV, host-trap and stochastic.

Its rows have no address: a sample's place is the instruction's text, with the source position where
the program has line information. Rows of one place are added up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ...model.recording import Part
from ..builder import RecordingBuilder
from ..reading import FileGroup
from .csv_table import CsvTable, DamagedRowError, folded, integer
from .pc_samples import Method, ProcessSamples
from .recorded_files import names_of, parts_of, prefix_of, process_of, results_file_read

FORMAT = "rocprofv3 PC sampling CSV"

_COLUMNS = frozenset({"sampletimestamp", "execmask", "dispatchid", "instruction"})


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
        builder.tool.setdefault("name", "rocprofv3")
        builder.begin(Part(group.name, str(file), FORMAT, profiler="rocprofv3"))
        if not _read(file, _shapes(file, builder), builder):
            builder.note(
                f"{file.name}: no kernel trace beside it: samples are of no known kernel; "
                "profile with --kernel-trace too, or with --output-format json"
            )


def _read(file: Path, shapes: Mapping[int, int], builder: RecordingBuilder) -> bool:
    """Adds the samples of a file; returns False if it has some, and there are no shapes."""
    table = CsvTable.open(file)
    method: Method = "stochastic" if "issued" in table.columns else "host_trap"
    samples = ProcessSamples(process_of(prefix_of(file)), {})

    def add(cells: list[str]) -> None:
        try:
            mask, dispatch, issued = (
                integer(table.cell(cells, name)) for name in ("mask", "number", "issued")
            )
        except (ValueError, OverflowError):
            raise DamagedRowError("a mask or number is not a number") from None
        samples.at(
            method,
            None if dispatch is None else shapes.get(dispatch),
            code_object=0,
            offset=0,
            text=table.cell(cells, "instruction").strip(),
            comment=table.cell(cells, "comment").strip(),
        ).add(
            mask if mask is not None and mask >= 0 else None,
            bool(issued) if method == "stochastic" else None,
            table.cell(cells, "reason") or None,
        )

    table.each(add)
    table.report(builder)
    sums = samples.samples()
    builder.samples.extend(sums)
    return bool(shapes) or not sums


def _shapes(file: Path, builder: RecordingBuilder) -> dict[int, int]:
    """Returns dispatch id -> shape, of the same process's other files in the folder."""
    parts = set(parts_of(file.parent, prefix_of(file), builder))
    table = builder.dispatches
    return {
        number: shape
        for number, shape, part in zip(table.number, table.shape, table.part, strict=True)
        if part in parts
    }
