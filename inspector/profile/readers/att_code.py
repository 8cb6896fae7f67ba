"""The instructions of a thread trace: `code.json`, or the CSV that sums up the same."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ...base.named_files import opened
from ...model.recording import CodePlace, Samples
from ..builder import RecordingBuilder, brief, int64, is_int64
from .json_stream import DamagedError, JsonStream
from .pc_samples import REASONS, Method

_MARK = "; "
"""Begins the row that names the kernel whose code follows."""
_COLUMNS = 10
_OLDER_COLUMNS = 8
"""Columns of older decoders, which left out stall and idle time: the wave files have them."""
_LONGEST_NUMBER = 64
_AGAIN = "trace again, or copy the folder again: the rest of it was read"
_METHODS: Mapping[int, Method] = MappingProxyType({1: "host_trap", 2: "stochastic"})
"""Service types of rocprofiler-sdk's att-tool (`code_line_service_type_t`); 0 is a trace."""
_REASONS = tuple(map(str.upper, REASONS))


class CodeRow(Struct, frozen=True):
    """One instruction. `line` is its number in the trace's own files."""

    text: str
    line: int
    source: str
    code_object: int | None
    address: int | None
    hits: int
    latency: int
    stall: int
    idle: int | None
    kernel: str | None
    lacks_stalls: bool = False  # as of an older decoder
    method: Method | None = None  # of PC samples
    issued: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)

    @property
    def counted(self) -> bool:
        """Whether anything was measured at the instruction."""
        return bool(self.hits or self.latency or self.stall or self.idle)

    def summed(self, sums: Sequence[int] | None) -> CodeRow:
        """Returns the row with the hits, latency, stall and idle time of the wave files."""
        if sums is None:
            return self
        return replace(
            self, hits=sums[0], latency=sums[1], stall=sums[2], idle=sums[3], lacks_stalls=False
        )

    def samples(self, place: CodePlace) -> Samples:
        """Returns the PC samples of the row, in a folder of samples."""
        assert self.method is not None
        return Samples(
            place=place,
            method=self.method,
            count=self.hits,
            issued=self.issued,
            reasons=self.reasons,
        )


class Names(Struct):
    """The kernels whose code is in a trace, as the marks between its rows name them."""

    kernels: list[str] = field(default_factory=list)
    current: str | None = None

    def mark(self, text: str, demangled: str) -> None:
        symbol = text.removeprefix(_MARK).strip()
        # A demangler takes `f` for `float`: only what is mangled has a readable name.
        self.current = demangled if demangled and symbol.startswith("_Z") else symbol
        if self.current not in self.kernels:
            self.kernels.append(self.current)

    @property
    def only(self) -> str | None:
        """The kernel, if there is code of a single one; else None."""
        return self.kernels[0] if len(self.kernels) == 1 else None


def code_rows(path: Path, builder: RecordingBuilder) -> tuple[Names, list[CodeRow], bool]:
    """Reads `code.json`.

    Returns:
        The kernels, the instructions, and whether the file was read to its end.
    """
    rows, is_complete = _Rows(), True
    try:
        with opened(path) as file:
            stream = JsonStream(file)
            for key in stream.fields():
                if key != "code" or stream.peek() != "[":
                    stream.skip()
                    continue
                for item in stream.records(Any):
                    rows.add(item)
    except (DamagedError, OSError) as error:
        is_complete = False
        read = len(rows.rows)
        position = f"after {read} instructions" if read else "at its beginning"
        builder.fail(path, f"damaged or cut off {position} ({brief(error)})", _AGAIN)
    if rows.unknown:
        builder.fail(
            path, f"{rows.unknown} rows are of an unknown form", "the other rows were read"
        )
    if is_complete and not rows.rows and not rows.unknown:
        builder.note(f"{path}: it holds no code: the trace is empty, or no code object was saved")
    return rows.names, _methods(rows.rows), is_complete


def stats_rows(path: Path, builder: RecordingBuilder) -> tuple[Names, list[CodeRow]]:
    """Reads `stats_ui_output_*.csv`, or `att_output.csv`: the sums of a trace, by address."""
    rows = _Rows()
    for row in _csv(path, builder):
        numbers = [_integer(row.get(name)) for name in ("Vaddr", "Hitcount", "Latency")]
        code_object, *measured = _integer(row.get("CodeObj")), *numbers
        item = [row.get("Instruction") or "", 0, len(rows.rows), row.get("Source"), code_object]
        item += measured
        if "Stall" in row:
            item += (_integer(row[name]) if name in row else None for name in ("Stall", "Idle"))
            item += (_integer(row.get(name)) for name in ("ServiceType", "Issued", "Stalled"))
        rows.add(item if item[0] else None)
    if rows.unknown:
        builder.fail(path, f"{rows.unknown} rows are cut off or of an unknown form", _AGAIN)
    return rows.names, _methods(rows.rows)


class _Rows(Struct):
    """The rows of a trace as they are read; `unknown` counts those of no known form."""

    names: Names = field(default_factory=Names)
    rows: list[CodeRow] = field(default_factory=list)
    unknown: int = 0

    def add(self, item: Any) -> None:
        """Parses a row: 10 columns; newer versions add those of PC sampling, in two forms."""
        if not isinstance(item, list) or not item or not isinstance(item[0], str):
            self.unknown += 1
            return
        lacks_stalls = len(item) == _OLDER_COLUMNS
        if lacks_stalls:
            item = [*item, 0, None]
        source = item[3] if len(item) > 3 and isinstance(item[3], str) else ""
        if item[0].startswith(_MARK):
            self.names.mark(item[0], source)
        elif len(item) < _COLUMNS or not all(is_int64(item[i]) for i in (2, 5, 6, 7, 8)):
            self.unknown += 1
        else:
            row = CodeRow(
                text=item[0],
                line=item[2],
                source=source,
                code_object=item[4] if is_int64(item[4]) else None,
                address=item[5],
                hits=item[6],
                latency=item[7],
                stall=item[8],
                idle=item[9] if is_int64(item[9]) else None,
                kernel=self.names.current,
                lacks_stalls=lacks_stalls,
            )
            self.rows.append(_sampled(row, item[_COLUMNS:]))


def _sampled(row: CodeRow, extra: Sequence[Any]) -> CodeRow:
    """Adds the columns behind those of a trace: (service type,) issued, stalled, reasons."""
    reasons = extra[-1] if extra and isinstance(extra[-1], list) else []
    numbers = [n for n in extra if is_int64(n)]
    if len(numbers) == 3 and numbers[0] in _METHODS:
        method = _METHODS[numbers[0]]
        issued = numbers[1] if method == "stochastic" else None
        return replace(row, method=method, issued=issued, reasons=_named(reasons, 1))
    if len(numbers) == 2 and any(numbers):  # the row has no hits, and does not name the method
        return replace(
            row,
            hits=sum(numbers),
            method="stochastic",
            issued=numbers[0],
            reasons=_named(reasons, 0),
        )
    return row


def _methods(rows: list[CodeRow]) -> list[CodeRow]:
    """Marks rows as host-trap samples if no row has anything else than issued samples."""
    sampled = [row for row in rows if row.method == "stochastic"]
    if any(row.reasons or row.issued != row.hits for row in sampled):
        return rows
    return [
        replace(row, method="host_trap", issued=None) if row.method == "stochastic" else row
        for row in rows
    ]


def _named(counts: Sequence[Any], first: int) -> dict[str, int]:
    """Returns reason -> count; `first` is the value of the reason of the first count."""
    pairs = zip(_REASONS[first:], counts, strict=False)
    return {name: n for name, n in pairs if is_int64(n) and n}


def _csv(path: Path, builder: RecordingBuilder) -> Iterator[dict[str, str]]:
    """Yields the rows of a CSV file that has the needed columns."""
    try:
        with opened(path) as data:
            stream = io.TextIOWrapper(data, encoding="utf-8", errors="replace", newline="")
            table = csv.DictReader(stream, skipinitialspace=True)
            present = {name.strip() for name in table.fieldnames or ()}
            missing = {"Vaddr", "Instruction", "Hitcount", "Latency"} - present
            if missing:
                builder.fail(path, f"no column {', '.join(sorted(missing))}", "trace again")
                return
            yield from table
    except (OSError, csv.Error) as error:
        builder.fail(path, f"cannot be read on ({brief(error)})", _AGAIN)


def _integer(text: str | None) -> int | None:
    try:
        return int64(int(text[:_LONGEST_NUMBER], 0)) if text is not None else None
    except ValueError:
        return None
