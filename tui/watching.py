"""Sees when a file that the run rests on is saved.

A thread looks at the files twice a second; the UI asks it in passing. A change is told once the
files have been still from one look to the next, so that a half-written file is not analysed.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..inspector.capture.resolving import resolve
from ..inspector.capture.targets import SUFFIXES
from ..inspector.errors import KinspectError
from ..inspector.model import KernelReport, SourceLoc
from ..inspector.pipeline.jobs import Request

SECONDS = 0.5
Mark = tuple[object, ...] | None
"""What a file looks like from outside; None: it is not there."""


class Watcher:
    """Watches the files of a run, `request`.

    Args:
        request: the run.
        seconds: between two looks.
    """

    def __init__(self, request: Request, seconds: float = SECONDS) -> None:
        self.request = request
        self._seconds = seconds
        self._reports: tuple[KernelReport, ...] | None = ()
        self._marks: dict[Path, Mark] = {}
        self._changed: tuple[Path, ...] = ()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinspect watch", daemon=True)

    def start(self) -> None:
        """Begins to look."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread; does not wait for it."""
        self._stop.set()

    def rests_on(self, reports: Iterable[KernelReport]) -> None:
        """What the run has brought: the files that its kernels come from are watched too."""
        with self._lock:
            self._reports = tuple(reports)

    def changed(self) -> tuple[Path, ...]:
        """The files that were saved since the last call; empty: none."""
        with self._lock:
            changed, self._changed = self._changed, ()
        return changed

    @property
    def watched(self) -> frozenset[Path]:
        """The files that are watched now."""
        return frozenset(self._marks)

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        moving: dict[Path, Mark] = {}
        while True:
            with self._lock:
                reports, self._reports = self._reports, None
            if reports is not None:
                # What is known of a file stays: it may have been saved during the run.
                files = files_of(self.request, reports)
                self._marks = {path: self._marks.get(path, mark_of(path)) for path in files}
            marks = {path: mark_of(path) for path in self._marks}
            differing: dict[Path, Mark] = {
                p: m for p, m in marks.items() if m is not None and m != self._marks[p]
            }
            if differing and differing == moving:
                self._marks.update(differing)
                with self._lock:
                    self._changed = tuple(dict.fromkeys((*self._changed, *differing)))
                differing = {}
            moving = differing
            if self._stop.wait(self._seconds):
                return


def mark_of(path: Path) -> Mark:
    """What tells one state of a file from another; of a folder, the files in it by name."""
    try:
        if path.is_dir():
            return tuple(sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES))
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def files_of(request: Request, reports: Iterable[KernelReport]) -> set[Path]:
    """The files that a run rests on.

    Targets and what lies beside them, where kernels and what is inlined into them come from, and
    modules beside a script that it imports.
    """
    files: set[Path] = set()
    for text in request.targets:
        named = Path(text.partition("::")[0])
        files.add(named)
        try:
            for target in resolve(text, request.archs):
                files.update((target.path, *target.siblings.values()))
        except KinspectError:
            continue  # it may come back
    for name in {place.file for report in reports for place in _places(report)}:
        path = Path(name)
        if path.is_absolute() and path.is_file():
            files.add(path)
    for path in [file for file in files if file.suffix == ".py"]:
        _add_imported(path, files)
    return {path.absolute() for path in files}


def _places(report: KernelReport) -> Iterator[SourceLoc]:
    variant = report.variant
    for place in (report.source, variant.call_site if variant is not None else None):
        if place is not None:
            yield place
    for loop in report.loops:
        yield from (place for place in loop.source if not place.in_library)
    for operation in report.memory_ops:
        if operation.source is not None:
            yield operation.source.in_user_code


def _add_imported(path: Path, files: set[Path]) -> None:
    """Adds the modules that lie in the script's own folder, and what those import from there."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level < 2:
            module = node.module or ""
            names = [module, *(f"{module}.{a.name}".lstrip(".") for a in node.names)]
        for name in names:
            base = path.parent.joinpath(*name.split("."))
            for file in (base.with_suffix(".py"), base / "__init__.py"):
                if name and file not in files and file.is_file():
                    files.add(file)
                    _add_imported(file, files)
