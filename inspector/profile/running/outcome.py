"""Judges a pass that has ended: what it left, what the profiler said, and what is wrong with it.

Files of millions of rows are not read for that.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...base.documents import own_yaml
from ...base.named_files import opened
from .commands import PlannedPass
from .manifest import PassRecord
from .pass_launch import Ending

_COMPLAINTS = Path(__file__).with_name("complaints.yaml")
_GLANCE = 4 * 1024 * 1024
"""Bytes read of each file: the counters of a dispatch are in neighbouring rows, and repeat."""
_WITHOUT_TRACE = ("att", "pc-sampling", "compute")
"""Passes that leave no CSV of dispatches."""
_HINT = "check with `AMD_LOG_LEVEL=3` that it launches kernels on an AMD GPU"
_LIKELY: Mapping[str, str] = {  # kind of a pass -> the likely reason that it recorded nothing
    "trace": "the program launched no GPU kernel, or ran it in a process that does not inherit its"
    " environment or ends by os._exit or a kill, or HIP_VISIBLE_DEVICES hides the GPU",
    "counters": "no kernel matches --kernel",
    "att": "no kernel matches --kernel, or none was launched more often than --skip-warmup (1 by"
    " default), or no wave ran on the traced CU (--att-target-cu, --att-shader-engine-mask)",
    "pc": "the kernels were too short for the interval (--pc-interval)",
    "compute": "the program launched no GPU kernel",
}


def judge(
    record: PassRecord, item: PlannedPass, ending: Ending, *, first: bool, timeout: float | None
) -> tuple[PassRecord, str | None]:
    """Adds errors and notes to the record of a pass that has ended.

    `first`: whether it is the first pass; if that fails, the others would too.
    `timeout`: seconds that it was allowed to take; None for no limit.

    Returns:
        The record, and why the later passes must not run; None if they may.
    """
    messages = complaints(ending.log)
    fatal = next((complaint for complaint in messages if complaint.fatal), None)
    lesser = [f"{item.message}; {item.hint}" for item in messages if not item.fatal]
    record = replace(record, notes=(*record.notes, *lesser))
    if ending.interrupted:
        return _with_error(record, "interrupted", "what it had written is kept"), "interrupted"
    if ending.status in ("failed", "killed"):
        return _failed(record, ending, fatal), "the first pass failed" if first else None
    if ending.status == "timeout":
        text = f"took longer than {timeout:g} s and was ended"
        hint = "what it had written is kept; raise --timeout for all"
        return _with_error(record, text, hint), None
    record = _with_missing_counters(record, item)
    rows = item.name in _WITHOUT_TRACE or has_dispatches(item.folder)
    if rows and any(name.endswith(item.expects) for name in record.files):
        return record, None
    reason = fatal.message if fatal is not None else _LIKELY[item.name.partition("-")[0]]
    record = _with_error(
        record, f"0 dispatches recorded: {reason}", fatal.hint if fatal is not None else _HINT
    )
    return record, "nothing to measure" if first else None


def _failed(record: PassRecord, ending: Ending, fatal: Complaint | None) -> PassRecord:
    """Adds why a pass failed: by the profiler's fatal complaint, else by its exit status alone."""
    if fatal is None:
        description = f"ended with status {ending.exit_code}"
        return _with_error(record, description, "its own output says why")
    record = _with_error(record, fatal.message, fatal.hint)
    if fatal.profilers:
        # Not the program's failure: its exit code says nothing of the program.
        record = replace(record, status="failed", exit_code=None)
    return record


def _with_missing_counters(record: PassRecord, item: PlannedPass) -> PassRecord:
    missing = missing_counters(item.folder, item.counters)
    if not missing:
        return record
    return _with_error(
        replace(record, missing=missing),
        f"the profiler returned nothing for {', '.join(missing)}",
        "this GPU may not have them: `rocprofv3 -L` lists what it has",
    )


def _with_error(record: PassRecord, message: str, hint: str) -> PassRecord:
    return replace(record, errors=(*record.errors, (message, hint)))


def missing_counters(folder: Path, requested: Sequence[str]) -> tuple[str, ...]:
    """Returns the requested counters that are in none of a pass's files.

    `requested`: names, maybe with `[instance]` or `:device=N`.

    Returns:
        Those missing; none if there are no rows of counters at all (that is another failure).
    """
    if not requested:
        return ()
    recorded: set[str] = set()
    for path in sorted(folder.rglob("*counter_collection.csv")):
        rows = _rows(path)
        header = next(rows, [])
        if "Counter_Name" not in header:
            continue
        column = header.index("Counter_Name")
        recorded.update(row[column] for row in rows if len(row) > column)
    bare = {_bare(name) for name in recorded}
    return tuple(name for name in requested if _bare(name) not in bare) if recorded else ()


def has_dispatches(folder: Path) -> bool:
    """Tells whether a kernel trace, or a file that replaces it, has a row below its header."""
    for path in folder.rglob("*.csv"):
        if path.name.endswith(("agent_info.csv", "_stats.csv")):
            continue
        rows = _rows(path)
        if next(rows, None) is not None and next(rows, None) is not None:
            return True
    return False


def _rows(path: Path) -> Iterator[list[str]]:
    """Yields the first rows of a CSV file, header included; none if it cannot be read."""
    try:
        with opened(path) as stream:
            data = stream.read(_GLANCE)
    except OSError:
        return
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    if len(data) == _GLANCE:
        lines = lines[:-1]  # its last line may be cut
    try:
        yield from csv.reader(lines)
    except csv.Error:  # damage is reported by the readers
        return


def _bare(name: str) -> str:
    return re.sub(r"\[.*\]$|:.*$", "", name)


_NO_FAILURE = re.compile(r"^.*Opened result file:.*$", re.MULTILINE)
"""Logged as an error, but is none."""


class Complaint(Struct, frozen=True):
    """A problem that a profiler reported.

    `fatal`: ends the pass. `profilers`: the failure is the profiler's, not the program's.
    """

    message: str
    hint: str
    fatal: bool = True
    profilers: bool = True


class _ComplaintRule(Struct, frozen=True):
    """A pattern of error output, and the problem that it means."""

    pattern: re.Pattern[str]
    complaint: Complaint


@cache
def _rules() -> tuple[_ComplaintRule, ...]:
    """Reads the patterns of `complaints.yaml`."""
    rows = own_yaml(_COMPLAINTS)
    return tuple(
        _ComplaintRule(
            re.compile(row["pattern"], re.MULTILINE),
            Complaint(
                row["message"],
                row["hint"],
                row.get("fatal", True),
                row.get("by", "profiler") == "profiler",
            ),
        )
        for row in rows
    )


def complaints(text: str) -> tuple[Complaint, ...]:
    """Returns the problems that error output reports; of fatal ones only the first."""
    text = _NO_FAILURE.sub("", text)
    complained: list[Complaint] = []
    for rule in _rules():
        match = rule.pattern.search(text)
        if match is None:
            continue
        complaint = rule.complaint
        if complaint.fatal and any(former.fatal for former in complained):
            continue  # what follows from the first
        detail = next((word for word in match.groupdict().values() if word), None)
        message = f"{complaint.message}: {detail}" if detail else complaint.message
        complained.append(replace(complaint, message=message))
    return tuple(complained)
