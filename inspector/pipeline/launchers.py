"""Files of a folder that define kernels and launch none, and the files that launch these."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ..capture.folders import launching_target
from ..capture.records import CaptureEnd
from ..capture.targets import Target

_MOST_TRIED = 2
"""Of the files that may launch a library's kernels."""


class Library(Struct, frozen=True):
    """A file of a folder that launched nothing.

    Args:
        launchers: files of the folder that use its kernels, scripts before tests.
    """

    index: int
    target: Target
    end: CaptureEnd
    launchers: tuple[Target, ...]

    @property
    def file(self) -> str:
        """Its path, as kernels name their source."""
        return os.path.realpath(self.target.path)


def library_of(index: int, target: Target, end: CaptureEnd) -> Library | None:
    """The library that a target is; None where it launched something or nothing launches it."""
    if end.variants or target.folder is None:
        return None
    found = [launching_target(file, target) for file in end.launchers]
    launchers = sorted(filter(None, found), key=lambda launcher: _is_test(launcher.path))
    return Library(index, target, end, tuple(launchers)) if launchers else None


def next_launcher(
    libraries: Iterable[Library], tried: Collection[Path], every: Sequence[Library]
) -> Target | None:
    """The file that launches most of some libraries, a script before a test; None without one.

    Args:
        every: all libraries: of copies of a package each has its own launchers.
    """
    counts: dict[Path, int] = {}
    targets: dict[Path, Target] = {}
    for library in libraries:
        launchers = [one for one in library.launchers if _is_of(one.path, library, every)]
        if sum(launcher.path in tried for launcher in launchers) < _MOST_TRIED:
            for launcher in launchers:
                if launcher.path not in tried:
                    counts[launcher.path] = counts.get(launcher.path, 0) + 1
                    targets[launcher.path] = launcher
    best = min(counts, key=lambda path: (_is_test(path), -counts[path]), default=None)
    return targets[best] if best is not None else None


def _is_of(launcher: Path, library: Library, every: Sequence[Library]) -> bool:
    """Whether no copy of a library's file is nearer to a launcher."""

    def shared(one: Library) -> int:
        return len(Path(os.path.commonpath((os.path.realpath(launcher), one.file))).parts)

    copies = (other for other in every if Path(other.file).name == Path(library.file).name)
    return all(shared(other) <= shared(library) for other in copies)


def _is_test(path: Path) -> bool:
    return path.name.startswith("test_") or path.name.endswith("_test.py")
