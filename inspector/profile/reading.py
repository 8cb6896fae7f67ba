"""From a run folder or file, made here or elsewhere, to a `Recording`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from ..base import limits
from ..base.errors import KinspectError, unforeseen
from ..base.named_files import PACKAGES, is_of_folder
from ..base.status import doing
from ..model.recording import MANIFEST, Recording
from .builder import RecordingBuilder

_MOST_FILES = 20_000
"""A folder with more was not meant."""

READERS: tuple[str, ...] = (
    "att",
    "results_json",
    "rocpd",
    "csv_v3",
    "pc_csv",
    "compute",
    "compute_analysis",
    "csv_legacy",
    "proton",
    "torch_trace",
)
"""Modules of `readers`, in the order in which they are asked: each file goes to the first."""


class FileGroup(Struct, frozen=True):
    """Files that one reader reads together: those of one process, pass or trace."""

    name: str  # of the part that it becomes, such as "pass_1/1234"
    files: tuple[Path, ...]

    @classmethod
    def of_file(cls, file: Path) -> FileGroup:
        """Returns the group of a file that is read by itself, named with its folder."""
        return cls("/".join(filter(None, (file.parent.name, file.name))), (file,))


class RecordingReader(Protocol):
    """The interface of the modules in `readers`."""

    FORMAT: str

    def find(self, files: Sequence[Path]) -> list[FileGroup]:
        """Returns the files that it reads, by their names and as little of them as it takes."""
        ...

    def read(self, group: FileGroup, builder: RecordingBuilder) -> None:
        """Reads files into the builder: `begin`s a part, then adds rows.

        Damage is reported by `builder.fail` (what, where, what to do); what is sound is read.
        """
        ...


_SOLID_BYTES = 16 << 20
"""Files up to here are read whatever they hold."""
_BLOCK = 512  # bytes of `st_blocks`: stat(2)
_MOST_HOLE = 256
"""How often a file's size may be what it takes on the disk."""


def read(path: Path, names: Sequence[str] = READERS) -> Recording:
    """Reads everything that a profiler has written to a path.

    Args:
        path: a file, or a folder: all that is below it.
        names: modules of the readers, in order of precedence.

    Raises:
        KinspectError: it does not exist, or nothing in it is of a known format.
    """
    builder = RecordingBuilder(path)
    files = list(_solid(_files(path), builder))
    claimed: set[Path] = set()
    recognised = False
    for name in names:
        reader = _reader(name)
        for group in _groups(reader, [file for file in files if file not in claimed], builder):
            claimed.update(group.files)
            recognised = True
            doing(f"reading {reader.FORMAT}: {group.name}")
            _read(reader, group, builder)
    if not recognised and not builder.errors:
        raise KinspectError(
            f"{path}: no recording of a known format in it",
            "known are rocprofv3 (CSV, JSON, rocpd, ATT, PC sampling), rocprof and rocprofv2 CSV, "
            "rocprof-compute workloads and analyses, Proton's trees, and PyTorch profiler traces",
        )
    return builder.finish()


def knows(path: Path) -> bool:
    """Tells whether any reader would take a file there; reads no more than that takes.

    What lies in a run of `kinspect profile` below a folder is that run's, not the folder's.

    Raises:
        KinspectError: there is no such path, or it holds too many files.
    """
    files = _files(path)
    runs = _runs(files)
    files = [file for file in files if runs.isdisjoint(file.parents)]
    return any(_groups(_reader(name), files, RecordingBuilder(path)) for name in READERS)


def run_below(path: Path) -> Path | None:
    """The folder of a run of `kinspect profile` below a folder; None where there is none.

    Raises:
        KinspectError: as `knows`.
    """
    return min(_runs(_files(path)), default=None)


def _runs(files: Sequence[Path]) -> set[Path]:
    return {file.parent for file in files if file.name == MANIFEST}


def size_of(path: Path) -> int:
    """Returns the bytes of a file, or of all files below a folder, for limits; 0 if it is gone."""
    return sum(map(_size, _files(path))) if path.exists() else 0


def _groups(
    reader: RecordingReader, files: Sequence[Path], builder: RecordingBuilder
) -> Sequence[FileGroup]:
    """Returns the files that a reader takes; one that cannot be opened is an error and left out."""
    sizes = {file: _size(file) for file in files}
    try:
        with limits.reading(str(builder.path), sum(sizes.values())):
            return reader.find(files)
    except Exception:  # which file causes it is found by trying them one by one
        if _is_debugging():
            raise
    sound = []
    for file in files:
        try:
            with limits.reading(file.name, sizes[file]):
                reader.find([file])
        except Exception as error:
            _fail(file, error, builder)
        else:
            sound.append(file)
    try:
        with limits.reading(str(builder.path), sum(sizes[file] for file in sound)):
            return reader.find(sound)
    except Exception as error:
        _fail(builder.path, error, builder)
        return []


def _read(reader: RecordingReader, group: FileGroup, builder: RecordingBuilder) -> None:
    """Reads a group within its limits; a failure ends this group alone."""
    try:
        with limits.reading(group.name, sum(map(_size, group.files))):
            reader.read(group, builder)
    except Exception as error:
        if _is_debugging() and not isinstance(error, KinspectError):
            raise
        builder.truncate_to_whole_rows()
        _fail(group.files[0] if group.files else builder.path, error, builder)


def _fail(file: Path, error: Exception, builder: RecordingBuilder) -> None:
    if isinstance(error, OSError):
        name = Path(str(error.filename)).name if error.filename else file.name
        message = f"{name} cannot be read ({error.strerror or error})"
        error = KinspectError(message, "check the file and its permissions")
    failure = error if isinstance(error, KinspectError) else unforeseen(error)
    builder.fail(file, failure.message, failure.hint)


def _is_debugging() -> bool:
    return bool(os.environ.get("KINSPECT_TRACEBACK"))


def _solid(files: Iterable[Path], builder: RecordingBuilder) -> Iterator[Path]:
    """Yields all files but those of holes: bounds grow with the size, which costs these nothing.

    A file of holes is an error of the recording.
    """
    for file in files:
        with suppress(OSError):
            status = file.stat()
            if status.st_size > max(_SOLID_BYTES, status.st_blocks * _BLOCK * _MOST_HOLE):
                builder.fail(file, "a file of holes, which hold nothing", "record it again")
                continue
        yield file


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _reader(name: str) -> RecordingReader:
    reader: RecordingReader = import_module(f"{__package__}.readers.{name}")
    return reader


def _files(path: Path) -> list[Path]:
    """Returns a file, or all files below a folder, sorted.

    Those in hidden folders and installed packages, such as of an environment in a checkout, are
    left out where there are too many of them.
    """
    if not path.exists():
        raise KinspectError(f"{path}: no such file or folder", "name a run folder or a file of one")
    if path.is_file():
        return [path]
    aside: list[str] = []
    files = list(islice(_below(path, aside), _MOST_FILES + 1))
    if len(files) > _MOST_FILES:
        raise KinspectError(f"{path}: over {_MOST_FILES:,} files", "name the run folder itself")
    more = chain.from_iterable(_below(Path(folder), None) for folder in aside)
    further = list(islice(more, _MOST_FILES + 1 - len(files)))
    if len(files) + len(further) <= _MOST_FILES:
        files += further
    return sorted(files)


def _below(path: Path, aside: list[str] | None) -> Iterator[Path]:
    """Yields the files below a folder; hidden folders and packages go into `aside` if it is one."""
    for folder, folders, names in os.walk(path):
        if aside is not None:
            apart = [name for name in folders if name[:1] == "." or name in PACKAGES]
            aside += (os.path.join(folder, name) for name in apart)
            folders[:] = [name for name in folders if name not in apart]
        yield from filter(is_of_folder, (Path(folder, name) for name in names))
