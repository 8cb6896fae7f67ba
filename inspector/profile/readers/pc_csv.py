"""PC sampling of rocprofv3 as CSV, host-trap and stochastic.

Its rows have no address: a sample's place is the instruction's text, with the source position where
the program has line information. Rows of one place are added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from ...recording import Part, Place, Samples
from ..builder import Builder
from ..reading import FileGroup
from .csv_processes import names_of, parts_of, prefix_of, process_of, results_file_read
from .json_samples import reason
from .rows import Block, Table, folded, integer

FORMAT = "rocprofv3 PC sampling CSV"

_COLUMNS = frozenset({"sampletimestamp", "execmask", "dispatchid", "instruction"})
_METHODS: tuple[Literal["host_trap", "stochastic"], ...] = ("host_trap", "stochastic")
_CELLS = ("number", "instruction", "comment", "mask", "issued", "reason")

_Key = tuple["int | None", str, str]  # shape, instruction, comment


class _Sum(Struct):
    count: int = 0
    issued: int = 0
    lanes: int = 0
    masked: int = 0  # samples whose mask is known
    reasons: dict[str, int] = field(default_factory=dict)

    def samples(self, place: Place, method: Literal["host_trap", "stochastic"]) -> Samples:
        """Returns the sums as the samples of a place."""
        return Samples(
            place=place,
            method=method,
            count=self.count,
            issued=self.issued if method == "stochastic" else None,
            reasons=dict(sorted(self.reasons.items(), key=lambda pair: -pair[1])),
            lanes=self.lanes / self.masked if self.masked else None,
        )


def find(files: Sequence[Path]) -> list[FileGroup]:
    """Returns a group per file: one method in one process."""
    sampled = [file for file in files if file.suffix.lower() == ".csv" and folded(file) >= _COLUMNS]
    names = names_of((file.parent, file.stem) for file in sampled)
    return [FileGroup(names[file.parent, file.stem], (file,)) for file in sampled]


def read(group: FileGroup, builder: Builder) -> None:
    """Adds the samples of a file."""
    for file in group.files:
        twin = results_file_read(file.parent, prefix_of(file), builder)
        if twin is not None and builder.samples:
            builder.note(f"{file.name}: the same samples were read from {twin}; not added")
            continue
        table = Table.open(file)
        shapes = _shapes(file, builder)
        process = process_of(prefix_of(file))
        builder.tool.setdefault("name", "rocprofv3")
        builder.begin(Part(group.name, str(file), FORMAT))
        sums: dict[_Key, _Sum] = {}
        table.select_columns(_CELLS, ())
        for block in table.blocks():
            _add(table, block, shapes, sums)
        table.report(builder)
        method = _METHODS["issued" in table.columns]
        for (shape, text, comment), total in sums.items():
            place = Place(
                shape=shape,
                process=process,
                code_object=None,
                offset=None,
                text=text or None,
                comment=comment or None,
            )
            builder.samples.append(total.samples(place, method))
        if sums and not shapes:
            builder.note(
                f"{file.name}: no kernel trace beside it: samples are of no known kernel; "
                "profile with --kernel-trace too, or with --output-format json"
            )


def _add(table: Table, block: Block, shapes: dict[int, int], sums: dict[_Key, _Sum]) -> None:
    """Adds the rows of a block to the sums; damaged rows are counted by the table."""
    blank = ("",) * len(block)
    cells = [block.column(name) or blank for name in _CELLS]
    # Many rows have the same cells: equal ones are counted first, then parsed once.
    for row, count in Counter(zip(*cells, strict=True)).items():
        number, text, comment, mask, issued, why = row
        try:
            dispatch = integer(number)
            lanes = integer(mask)
            was_issued = bool(integer(issued)) if issued else False
        except (ValueError, OverflowError):
            for line, other in zip(block.lines, zip(*cells, strict=True), strict=True):
                if other == row:
                    table.damage(line, "a mask or number is not a number")
            continue
        shape = None if dispatch is None else shapes.get(dispatch)
        total = sums.setdefault((shape, text.strip(), comment.strip()), _Sum())
        total.count += count
        if lanes is not None and lanes >= 0:
            total.lanes += bin(lanes).count("1") * count
            total.masked += count
        if "issued" in table.columns:
            total.issued += was_issued * count
            if not was_issued and why:
                word = reason(why)
                total.reasons[word] = total.reasons.get(word, 0) + count


def _shapes(file: Path, builder: Builder) -> dict[int, int]:
    """Returns dispatch id -> shape, of the same process's other files in the folder."""
    parts = set(parts_of(file.parent, prefix_of(file), builder))
    table = builder.dispatches
    return {
        number: shape
        for number, shape, part in zip(table.number, table.shape, table.part, strict=True)
        if part in parts
    }
