"""Notices when a file that the run was made from is saved or removed.

A thread checks the files twice a second. A change is reported once a file has
been the same for two checks in a row, so that a half-written file is not analysed, and one that
an editor replaces does not count as removed.
"""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from ..inspector.base.documents import python_tree
from ..inspector.base.errors import KinspectError
from ..inspector.base.named_files import named_bytes
from ..inspector.capture.resolving import resolve, split
from ..inspector.capture.targets import SUFFIXES
from ..inspector.model import KernelReport, SourceLoc
from ..inspector.pipeline.jobs import Request

INTERVAL_SECONDS = 0.5
Fingerprint = tuple[object, ...] | None
"""Differs between two states of a file; None: the file does not exist."""


class Watcher:
    """Watches the files of a run in a thread.

    Args:
        notify: called in the thread when files were saved, removed or came back.
    """

    def __init__(
        self,
        request: Request,
        notify: Callable[[], object] = lambda: None,
        seconds: float = INTERVAL_SECONDS,
    ) -> None:
        self.request = request
        self._notify = notify
        self._seconds = seconds
        self._fingerprints: dict[Path, Fingerprint] = {}  # of the watched files, as last reported
        self._changing: dict[Path, Fingerprint] = {}  # those that differed at the last check
        self._lock = threading.Lock()
        self._new_reports: tuple[KernelReport, ...] | None = ()  # guarded by the lock
        self._changed: tuple[Path, ...] = ()  # guarded by the lock
        self._absent: frozenset[Path] = frozenset()  # those that did not exist at the last check
        self._removed: frozenset[Path] = frozenset()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kinspect watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Tells the thread to end; does not wait for it."""
        self._stop.set()

    def watch_sources_of(self, reports: Iterable[KernelReport]) -> None:
        """Also watches the source files of these kernels, which a run has reported."""
        with self._lock:
            self._new_reports = tuple(reports)

    def changed(self) -> tuple[Path, ...]:
        """The files that were saved since the last call."""
        with self._lock:
            changed, self._changed = self._changed, ()
        return changed

    @property
    def removed(self) -> frozenset[Path]:
        """The watched files that were there and do not exist any more."""
        return self._removed

    @property
    def watched(self) -> frozenset[Path]:
        return frozenset(self._fingerprints)

    def _run(self) -> None:
        while True:
            self._update_watched()
            current = {path: fingerprint(path) for path in self._fingerprints}
            saved, was_removed = self._saved_files(current), self._removed
            self._update_removed(current)
            if saved:
                with self._lock:
                    self._changed = tuple(dict.fromkeys((*self._changed, *saved)))
            if saved or self._removed != was_removed:
                self._notify()
            if self._stop.wait(self._seconds):
                return

    def _update_watched(self) -> None:
        """Updates the set of watched files if a run has new reports."""
        with self._lock:
            reports, self._new_reports = self._new_reports, None
        if reports is None:
            return
        files = files_of(self.request, reports)
        # Removed files stay watched, since they may come back.
        files |= {path for path, state in self._fingerprints.items() if state and not path.exists()}
        # Old fingerprints stay valid: a file may have been saved during the run.
        self._fingerprints = {
            path: self._fingerprints.get(path, fingerprint(path)) for path in files
        }

    def _update_removed(self, current: Mapping[Path, Fingerprint]) -> None:
        """Updates the removed files: those that existed, but at neither of the last two checks."""
        absent = frozenset(
            path
            for path, state in current.items()
            if state is None and self._fingerprints[path] is not None
        )
        self._absent, self._removed = absent, absent & self._absent

    def _saved_files(self, current: Mapping[Path, Fingerprint]) -> list[Path]:
        """The files that changed since they were last reported; empty while any still changes."""
        differing: dict[Path, Fingerprint] = {
            path: state
            for path, state in current.items()
            if state is not None and state != self._fingerprints[path]
        }
        if not differing or differing != self._changing:
            self._changing = differing
            return []
        self._fingerprints.update(differing)
        self._changing = {}
        return list(differing)


def fingerprint(path: Path) -> Fingerprint:
    """Time, size and inode of a file; of a folder, the names of the targets in it."""
    try:
        if path.is_dir():
            return tuple(sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES))
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def files_of(request: Request, reports: Iterable[KernelReport]) -> set[Path]:
    """The files whose change would change a run's reports.

    These are the targets and the artifacts beside them, the sources of kernels and of what is
    inlined into them, and the modules in a script's own folder that it imports.
    """
    files: set[Path] = set()
    for text in request.targets:
        try:
            files.add(split(text)[0])
            for target in resolve(text, request.archs):
                files.update((target.path, *target.siblings.values()))
        except KinspectError:
            continue  # a target that is missing now may come back
    for name in {location.file for report in reports for location in _locations(report)}:
        path = Path(name)
        if path.is_absolute() and path.is_file():
            files.add(path)
    for path in [file for file in files if file.suffix == ".py"]:
        _add_imported(path, files)
    return {path.absolute() for path in files}


def _locations(report: KernelReport) -> Iterator[SourceLoc]:
    """Every place of the user's code that a report names."""
    variant = report.variant
    for location in (report.source, variant.call_site if variant is not None else None):
        if location is not None:
            yield location
    for loop in report.loops:
        yield from (location for location in loop.source if not location.in_library)
    for operation in report.memory_ops:
        if operation.source is not None:
            yield operation.source.in_user_code


def _add_imported(path: Path, files: set[Path]) -> None:
    """Adds the modules in a script's own folder that it imports, and what those import from it."""
    try:
        tree = python_tree(named_bytes(path) or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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
