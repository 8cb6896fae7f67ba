"""Imports recorded kernels by their path: for traces that the user trusts.

A file is loaded as a module, not as `__main__`. Launches while it loads do nothing, and loading
stops as soon as all its recorded kernels are defined: the rest of a script would repeat the run
that was recorded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from ..launches.stand_in_kernel import StandInKernel
from ..loading import LoadError, load
from ..missing_modules import install_hint
from ..parsed.building import RECORDED_PREFIX
from ..records import HintedError
from .kernel_source import source_hash

INSTALLED = (f"{os.sep}lib{os.sep}python", "site-packages", "dist-packages")
"""Entries of a recorded sys.path that hold another interpreter's modules."""


class MissingKernelError(HintedError):
    """A kernel that is missing or has changed."""


class CompleteError(BaseException):
    """All recorded kernels of a file are defined. No Exception, which a script might swallow."""


class ImportedKernels:
    """The jitted functions that this process defines.

    `running`: returns a context manager in which the user's code may run.
    `folders`: where to look for files that have moved since the recording.
    """

    def __init__(
        self,
        running: Callable[[], AbstractContextManager[None]],
        folders: Iterable[str],
        scratch: str,
    ) -> None:
        self._running = running
        self._folders = list(folders)
        self._scratch = scratch
        self._kernels: dict[str, list[Any]] = {}
        self._siblings: Mapping[tuple[str, str], str] = {}
        self._failures: dict[str, Exception | None] = {}

    def install(self, driver: Any) -> None:
        """Watches `triton.jit`, makes launches do nothing, and keeps `driver` the active one."""
        _make_driver_active(driver)
        jit_function = importlib.import_module("triton.runtime.jit").JITFunction
        original_init = jit_function.__init__

        def init(kernel: Any, fn: Any, *args: Any, **kwargs: Any) -> None:
            original_init(kernel, fn, *args, **kwargs)
            if fn.__code__.co_filename.startswith(RECORDED_PREFIX):
                return
            self._kernels.setdefault(fn.__qualname__, []).append(kernel)

        def run(kernel: Any, *args: Any, **kwargs: Any) -> StandInKernel:
            self._stop_if_complete()
            return StandInKernel(kernel.fn.__name__, _ignore_launch, _not_compiled)

        jit_function.__init__ = init
        jit_function.run = run

    def load(self, kernels: Iterable[Mapping[str, Any]]) -> None:
        """Loads the files of recorded kernels; errors are kept for `find` to raise."""
        kernels = list(kernels)
        for kernel in kernels:
            file = str(kernel["file"])
            if file in self._failures:
                continue
            siblings = [k for k in kernels if k["file"] == file]
            self._siblings = {(k["qualname"], k["sha256"]): k["module"] for k in siblings}
            try:
                self._load(kernel)
                self._failures[file] = None
            except Exception as failure:
                self._failures[file] = failure
            finally:
                self._siblings = {}

    def find(self, kernel: Mapping[str, Any]) -> Any:
        """The JITFunction of a recorded kernel.

        `kernel`: a trace's `kernel`: `module`, `qualname`, `file`, `line`, `sha256`.

        Raises:
            MissingKernelError: it is not defined, or its source has changed.
        """
        candidates = self._kernels.get(str(kernel["qualname"]), [])
        for function in reversed(candidates):
            if source_hash(function) == kernel["sha256"]:
                return function
        raise self._missing(kernel, candidates)

    def _missing(self, kernel: Mapping[str, Any], candidates: Sequence[Any]) -> MissingKernelError:
        qualname, file = str(kernel["qualname"]), str(kernel["file"])
        in_file = [
            f for f in candidates if _same_file(f.fn.__code__.co_filename, self._located(file))
        ]
        if in_file:
            line = in_file[-1].starting_line_number
            path = os.path.abspath(in_file[-1].fn.__code__.co_filename)
            return MissingKernelError(
                f"{path}:{line}: kernel {qualname}, or one it calls, has changed since it was "
                "recorded",
                "record it again, or go back to the version that was recorded",
            )
        failure = self._failures.get(file)
        if isinstance(failure, (LoadError, MissingKernelError)):
            return MissingKernelError(f"kernel {qualname}: {failure.message}", failure.hint)
        if failure is not None:
            text = " ".join(str(failure).split())
            return MissingKernelError(
                f"kernel {qualname}: {kernel['module']} cannot be imported: "
                f"{type(failure).__name__}: {text}",
                "it must import without a GPU; name the interpreter that has it with --python",
            )
        hint = "record it again, or go back to the version that was recorded"
        if "<locals>" in qualname:
            hint = (
                "it is made by a function that importing the file does not call: analyze the "
                "script itself, or define the kernel at the top of a module"
            )
        return MissingKernelError(f"{file}: no kernel {qualname} in it", hint)

    def object(self, path: Mapping[str, Any]) -> Any:
        """The function, class or kernel at the path of a recorded value (`values.py`).

        Raises:
            MissingKernelError: nothing is defined there.
        """
        module, qualname, file = path["module"], str(path["qualname"]), path.get("file")
        kernels = self._kernels.get(qualname)
        if kernels:
            located = self._located(file) if file else None
            in_file = [f for f in kernels if _same_file(f.fn.__code__.co_filename, located)]
            return (in_file or kernels)[-1]
        target: Any = None
        if module != "__main__":
            with contextlib.suppress(ImportError):
                target = importlib.import_module(module)
        elif file is not None:
            located = self._located(file)
            target = next((m for m in _modules() if _same_file(m.__file__, located)), None)
        for name in qualname.split("."):
            target = getattr(target, name, None)
        if target is None:
            raise MissingKernelError(
                f"{module}.{qualname}, which a kernel is specialised on, cannot be found",
                "name the interpreter that has it with --python",
            )
        return target

    def _write_copy(self, kernel: Mapping[str, Any]) -> str | None:
        """Writes the file of a kernel from the trace; its path, None where the trace lacks it."""
        text = kernel.get("text")
        if text is None:
            return None
        path = os.path.join(self._scratch, os.path.basename(str(kernel["file"])))
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def _load(self, kernel: Mapping[str, Any]) -> None:
        name, file = str(kernel["module"]), str(kernel["file"])
        with self._running(), contextlib.suppress(CompleteError):
            if name != "__main__":
                try:
                    module = importlib.import_module(name)
                    if _same_file(getattr(module, "__file__", None), file):
                        return
                    if not os.path.exists(file):
                        return
                except ImportError as failure:
                    located = self._located(file) or self._write_copy(kernel)
                    if located is None:
                        raise MissingKernelError(
                            f"{name} cannot be imported: {failure}, and {file} is not there",
                            f"run where it can be imported; {install_hint(failure, name)}",
                        ) from failure
            located = self._located(file) or self._write_copy(kernel)
            if located is None:
                raise MissingKernelError(
                    f"{file} is not there",
                    "copy it beside the trace, or run where it is",
                )
            try:
                load(located)
            except LoadError as failure:
                if isinstance(failure.__cause__, CompleteError):
                    return
                raise

    def _located(self, file: str) -> str | None:
        return located(file, self._folders)

    def _stop_if_complete(self) -> None:
        if self._siblings and all(
            any(source_hash(f) == sha256 for f in self._kernels.get(qualname, ()))
            for qualname, sha256 in self._siblings
        ):
            raise CompleteError


def located(file: str, folders: Iterable[str]) -> str | None:
    """The present path of a recorded file: the same, or below one of `folders`; else None.

    Below a folder, ever shorter ends of the recorded path are tried.
    """
    if os.path.isfile(file):
        return file
    parts = file.split(os.sep)
    for start in range(1, len(parts)):
        for folder in folders:
            candidate = os.path.join(folder, *parts[start:])
            if os.path.isfile(candidate):
                return candidate
    return None


def extend_path(processes: Iterable[Mapping[str, Any]]) -> None:
    """Adds the recorded processes' entries of sys.path, without those of installed packages."""
    entries = [entry for process in processes for entry in process.get("sys_path", ())]
    for entry in reversed(list(dict.fromkeys(entries))):
        is_installed = any(part in entry for part in INSTALLED)
        if not is_installed and entry not in sys.path and os.path.isdir(entry):
            sys.path.insert(0, entry)


def _make_driver_active(driver: Any) -> None:
    """Makes Triton's search for the active driver return this one; Inductor's files search."""

    class ActiveDriver:
        @classmethod
        def is_active(cls) -> bool:
            return True

        def __new__(cls) -> Any:
            return driver

    backends = importlib.import_module("triton.backends").backends
    backends["amd"] = dataclasses.replace(backends["amd"], driver=ActiveDriver)


def _ignore_launch(grid: tuple[int, ...], values: Sequence[Any]) -> None:
    """Does nothing: the launch of a `StandInKernel`."""


def _not_compiled() -> Any:
    raise RuntimeError("a kernel's figures are not known while a trace is replayed")


def _modules() -> list[Any]:
    return [m for m in list(sys.modules.values()) if getattr(m, "__file__", None)]


def _same_file(path: str | None, other_path: str | None) -> bool:
    if not path or not other_path:
        return False
    return os.path.realpath(path) == os.path.realpath(other_path)
