"""Opens files, gzipped or not; of a damaged gzip file, everything before the damage is read.

The process that a profiler's file is of, and other files of the same process.

rocprofv3 writes the files of one process into one folder under one prefix, its id or a name that
the user chose: `1234_kernel_trace.csv`, `1234_counter_collection.csv`, `1234_results.db`.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from ...base import limits
from ...base.limits import InflationBudget, LimitError
from ...base.named_files import opened
from ..builder import RecordingBuilder


class ByteSource(Protocol):
    """A binary source: `read1` returns the bytes before a damaged place before it raises."""

    def read1(self, size: int, /) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        ...

    def seek(self, offset: int, /) -> int:
        """Goes to a byte."""
        ...


class _Counted:
    """A gzip file that inflates to no more than a file of its size may.

    Bytes that are read again after `seek` are inflated again, and count again.
    """

    def __init__(self, inside: gzip.GzipFile, budget: InflationBudget) -> None:
        self._inside = inside
        self._budget = budget

    def read1(self, size: int, /) -> bytes:
        """Reads some bytes, at most `size`; none at the end."""
        data = self._inside.read1(size)
        self._budget.take(len(data))
        return data

    def seek(self, offset: int, /) -> int:
        """Goes to a byte."""
        return self._inside.seek(offset)


@contextmanager
def open_plain(path: Path) -> Iterator[ByteSource]:
    """Opens a file for reading, unpacking it if it is gzip (by its first bytes)."""
    with opened(path) as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if packed:
            with gzip.GzipFile(fileobj=file) as inside:
                yield _Counted(inside, limits.budget(path.name, path.stat().st_size))
        else:
            yield file


def head(path: Path, size: int) -> bytes:
    """Returns the first bytes of a file, unpacked; empty if it cannot be read."""
    data = b""
    try:
        with open_plain(path) as file:
            while len(data) < size and (part := file.read1(size - len(data))):
                data += part
    except (OSError, EOFError, zlib.error, LimitError):
        pass
    return data.removeprefix(b"\xef\xbb\xbf")


_KIND_SUFFIX = re.compile(
    r"(?:^|_)(?P<kind>agent_info|counter_collection(?:_stats)?|domain_stats"
    r"|(?:kernel|hip|hsa|hip_api|hsa_api|hip_runtime|hip_compile(?:r)?|hip_runtime_api|hsa_core_api"
    r"|hip_compiler_api|marker|marker_api|memory_copy|memory_allocation|scratch_memory|rccl|rccl_api"
    r"|rocdecode_api|rocjpeg_api)_(?:trace|stats)"
    r"|pc_sampling_(?:host_trap|stochastic)(?:_stats)?)\.csv$"
)
_PROCESS_ID = re.compile(r"(?:^|_)(\d{1,9})$")
_RESULTS_SUFFIX = re.compile(r"_?results\.(json|db)$|\.(json|db)$")


def kind_named(path: Path) -> str | None:
    """The kind in a CSV file's name (`kernel_trace`); None in a name that is not rocprofv3's."""
    match = _KIND_SUFFIX.search(path.name)
    return match["kind"] if match else None


def prefix_of(path: Path) -> str:
    """The prefix of a CSV file's name before its kind: the process id, or the user's name."""
    match = _KIND_SUFFIX.search(path.name)
    return path.name[: match.start()] if match else path.stem


def process_of(prefix: str) -> int | None:
    """The process id in a prefix."""
    match = _PROCESS_ID.search(prefix)
    return int(match[1]) if match else None


def names_of(places: Iterable[tuple[Path, str]]) -> dict[tuple[Path, str], str]:
    """(folder, prefix) of each process -> the shortest name that tells it from the others."""
    places = list(dict.fromkeys(places))
    if not places:
        return {}
    common = Path(os.path.commonpath([str(folder) for folder, _ in places]))
    names = {}
    for folder, prefix in places:
        inner = folder.relative_to(common).as_posix()
        parts = [part for part in (inner, prefix) if part not in ("", ".")]
        names[folder, prefix] = "/".join(parts) or folder.name or "."
    return names


def parts_of(folder: Path, prefix: str, builder: RecordingBuilder) -> list[int]:
    """Numbers of the recording's parts that came from the files of a folder with a prefix."""
    numbers = []
    for number, part in enumerate(builder.parts):
        path = Path(part.path)
        prefixes = (prefix_of(path), _RESULTS_SUFFIX.sub("", path.name))
        if path.parent == folder and prefix in prefixes:
            numbers.append(number)
    return numbers


def results_file_read(folder: Path, prefix: str, builder: RecordingBuilder) -> str | None:
    """The name of the JSON file or database with all of a process, if it was read before."""
    for number in parts_of(folder, prefix, builder):
        name = Path(builder.parts[number].path).name
        if _RESULTS_SUFFIX.search(name):
            return name
    return None


def is_twin(path: Path, other: Path, builder: RecordingBuilder) -> bool:
    """Tells whether another file of the same run has been read.

    A profiler that is asked for several formats writes `4242_results.json` and `4242_results.db`
    of the same dispatches. If the first is damaged, the second is read as well, with a note that
    some dispatches are counted twice.
    """
    if str(other) not in {part.path for part in builder.parts}:
        return False
    if str(other) in {error.file for error in builder.errors}:
        builder.note(
            f"{path.name} holds the same run as {other.name}, which is damaged: dispatches that "
            "are in both count twice; import the better file alone"
        )
        return False
    builder.note(f"{path.name} holds the same run as {other.name}, which was read")
    return True
