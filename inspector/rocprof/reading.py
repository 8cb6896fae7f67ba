"""From a run folder or file, made here or elsewhere, to a `Recording`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Protocol

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.recording import Recording
from kinspect.inspector.rocprof.builder import Builder

_MOST_FILES = 20_000
"""A folder with more was not meant."""

READERS: tuple[str, ...] = (
    "att",
    "results_json",
    "rocpd",
    "csv_v3",
    "pc_csv",
    "compute",
    "csv_legacy",
    "torch_trace",
)
"""Modules of `readers`, in the order in which they are asked: each file goes to the first."""


@dataclass(frozen=True, slots=True)
class Group:
    """Files that one reader reads together: those of one process, pass or trace."""

    name: str  # of the part that it becomes, such as "pass_1/1234"
    files: tuple[Path, ...]


class Reader(Protocol):
    """What a module of `readers` provides."""

    FORMAT: str

    def find(self, files: Sequence[Path]) -> list[Group]:
        """Which of these files it reads, by their names and first bytes; opens few of them."""
        ...

    def read(self, group: Group, builder: Builder) -> None:
        """Reads them into the builder: `begin`s a part, adds what it finds.

        What is damaged is said by `builder.fail` (what, where, what to do) and the rest is read.
        """
        ...


Progress = Callable[[str], None]


def read(path: Path, progress: Progress | None = None, names: Sequence[str] = READERS) -> Recording:
    """Reads whatever a profiler left at a path.

    Args:
        path: a file, or a folder: all that is below it.
        progress: is told what is being read.
        names: the readers to ask.

    Raises:
        KinspectError: it does not exist, or nothing in it is of a known format.
    """
    files = _files(path)
    builder = Builder(path)
    taken: set[Path] = set()
    seen: Mapping[str, int] = {}
    for name in names:
        reader = _reader(name)
        for group in reader.find([file for file in files if file not in taken]):
            taken.update(group.files)
            if progress is not None:
                progress(f"reading {reader.FORMAT}: {group.name}")
            reader.read(group, builder)
            seen = {**seen, reader.FORMAT: seen.get(reader.FORMAT, 0) + 1}
    if not seen:
        raise KinspectError(
            f"{path}: no recording of a known format in it",
            "known are rocprofv3 (CSV, JSON, rocpd, ATT, PC sampling), rocprof and rocprofv2 CSV, "
            "rocprof-compute workloads, and PyTorch profiler traces",
        )
    return builder.finish()


def knows(path: Path, names: Sequence[str] = READERS) -> bool:
    """Whether any reader would take something there; nothing is read but first bytes."""
    files = _files(path)
    return any(_reader(name).find(files) for name in names)


def _reader(name: str) -> Reader:
    found: Reader = import_module(f"{__package__}.readers.{name}")
    return found


def _files(path: Path) -> list[Path]:
    if not path.exists():
        raise KinspectError(f"{path}: no such file or folder", "name a run folder or a file of one")
    if path.is_file():
        return [path]
    found = []
    for file in sorted(path.rglob("*")):
        if file.is_file():
            found.append(file)
            if len(found) > _MOST_FILES:
                raise KinspectError(
                    f"{path}: over {_MOST_FILES:,} files", "name the run folder itself"
                )
    return found
