"""The kernels of a trace, made of what it holds: nothing that it names is imported.

Traces of version 2 hold the sources of their kernels. For those of version 1 the files that they
name are parsed, and a kernel counts as found if its source has the hash that was recorded.
"""

from __future__ import annotations

import collections
import enum
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..parsed import library
from ..parsed.building import Builder
from ..parsed.guard import Guard
from ..parsed.modules import Module, Modules
from ..parsed.refusals import RefusedError, Unavailable
from .contents import content_hash, is_library, is_source
from .definitions import INSTALLED, MissingKernelError, located
from .sources import source_hash
from .values import UnknownValueError, decode

RECORD_AGAIN = "record it again, or go back to the version that was recorded"
MOST_FILE_BYTES = 16 << 20
MOST_MEMBERS = 1000


class Kernels:
    """Makes the kernels of one trace.

    Args:
        sources: id -> functions, as the trace holds them.
        processes: as the trace holds them.
        folders: where to look for files that are no longer where they were recorded.
    """

    def __init__(
        self,
        sources: Mapping[str, Any],
        processes: Sequence[Mapping[str, Any]],
        folders: Sequence[str],
    ) -> None:
        self._sources = sources
        self._folders = folders
        self._guard = Guard()
        self._guard.install()
        self._builder = Builder(self._guard, self._decoded)
        self._modules = Modules(_importable(processes))
        self._outcomes: dict[str, list[Any] | RefusedError | MissingKernelError] = {}
        self._classes: dict[str, Any] = {}

    def of(self, kernel: Mapping[str, Any]) -> list[Any]:
        """The JITFunctions of a recorded kernel, which is the first of them.

        Args:
            kernel: a trace's `kernel`.

        Raises:
            MissingKernelError: it is not there, or its source has not the recorded hash.
            RefusedError: something would have to run to have it.
        """
        handle = json.dumps([kernel.get("source"), kernel["qualname"], kernel["sha256"]])
        if handle not in self._outcomes:
            try:
                self._outcomes[handle] = self._make(kernel)
            except (RefusedError, MissingKernelError) as failure:
                self._outcomes[handle] = failure
        outcome = self._outcomes[handle]
        if isinstance(outcome, list):
            return outcome
        raise outcome

    def resolver(self, kernels: Sequence[Any]) -> Any:
        """Finds what a specialisation's values name: one of its functions, or a library's.

        Args:
            kernels: what `of` gave.
        """

        def resolve(path: Mapping[str, Any]) -> Any:
            module, qualname = str(path["module"]), str(path["qualname"])
            for kernel in kernels:
                if (kernel.fn.__module__, kernel.fn.__qualname__) == (module, qualname):
                    return kernel
            return self._resolved(path)

        return resolve

    def changed_files(self, kernel: Mapping[str, Any]) -> list[str]:
        """The files, among those that are still there, that no longer hold what was recorded."""
        changed = []
        for function in self._sources.get(str(kernel.get("source"))) or ():
            file = function["file"]
            if _is_source_file(file) and file not in changed:
                with open(file, encoding="utf-8", errors="replace") as stream:
                    if function["text"].rstrip("\n") not in stream.read():
                        changed.append(file)
        return changed

    def _make(self, kernel: Mapping[str, Any]) -> list[Any]:
        qualname = str(kernel["qualname"])
        name = kernel.get("source")
        functions: Any = self._sources.get(str(name)) if name is not None else self._read(kernel)
        if not is_source(functions) or (name is not None and content_hash(functions) != name):
            raise MissingKernelError(
                f"kernel {qualname}: its source in the trace has not the recorded hash",
                "the trace was changed or damaged: record it again",
            )
        try:
            kernels = self._builder.build(functions)
        except SyntaxError as error:
            hint = "name an interpreter of the Python that recorded it with --python"
            raise MissingKernelError(f"kernel {qualname}: {error.msg}", hint) from None
        kernel_function = functions[0]
        if kernel_function["qualname"] != qualname or source_hash(kernels[0]) != kernel["sha256"]:
            host = next(_hosts(functions), None) if name is None else None
            if host is not None:  # what cannot be read may be what was hashed
                raise RefusedError(host)
            raise MissingKernelError(
                f"{kernel_function['file']}:{kernel_function['line']}: kernel {qualname}, "
                "or one it calls, has changed since it was recorded",
                RECORD_AGAIN,
            )
        return kernels

    def _read(self, kernel: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What a kernel of a trace of version 1 is made of, by its file's text."""
        qualname, file, name = (str(kernel[n]) for n in ("qualname", "file", "module"))
        if kernel.get("text") is not None:
            try:
                module = Module(self._modules, name, file, str(kernel["text"]))
            except (SyntaxError, ValueError, RecursionError):
                raise MissingKernelError(f"{file}: not Python", "record it again") from None
            return module.source(qualname)
        path = located(file, self._folders)
        if path is None:
            raise MissingKernelError(
                f"kernel {qualname}: {file} is not there",
                "copy it beside the trace, or run where it is",
            )
        beside = Modules([os.path.dirname(path), *self._modules.folders])
        in_file = beside.of_file(path, name) if _is_source_file(path) else None
        if in_file is None:
            raise MissingKernelError(f"kernel {qualname}: {path} is not Python", RECORD_AGAIN)
        if in_file.function(qualname) is None:
            raise MissingKernelError(f"{path}: no kernel {qualname} in it", RECORD_AGAIN)
        return in_file.source(qualname)

    def _decoded(self, data: Any) -> Any:
        """A value of a source; an `Unavailable` where it cannot be made."""
        try:
            return decode(data, self._resolved)
        except (RefusedError, UnknownValueError) as failure:
            return Unavailable(str(failure))
        except Exception as failure:
            return Unavailable(f"a damaged value ({type(failure).__name__})")

    def _resolved(self, path: Mapping[str, Any]) -> Any:
        module, qualname = str(path["module"]), str(path["qualname"])
        if "fields" in path or "members" in path:
            handle = json.dumps(path, sort_keys=True)
            if handle not in self._classes:
                self._classes[handle] = self._class(path)
            return self._classes[handle]
        if is_library(module):
            value = library.member(module, qualname)
            self._guard.language.check(value)
            return value
        place = path.get("file") or module
        raise RefusedError(f"{place}: {qualname}")

    def _class(self, path: Mapping[str, Any]) -> Any:
        """A class of named tuples or an enumeration, made again of its names and values."""
        name = str(path["qualname"]).rpartition(".")[2]
        if "fields" in path:
            return collections.namedtuple(name, [str(f) for f in path["fields"]])
        members = [(str(n), decode(v, self._resolved)) for n, v in path["members"]]
        mixin = {"int": int, "str": str}.get(str(path.get("mixin")))
        return enum.Enum(name, members[:MOST_MEMBERS], type=mixin)


def _hosts(functions: Sequence[Mapping[str, Any]]) -> Any:
    for function in functions:
        for value in function["names"].values():  # defaults are no part of the hash
            if "host" in value:
                yield str(value["host"])


def _importable(processes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Folders in which the recorded processes found modules, besides installed packages."""
    entries = [str(entry) for process in processes for entry in process.get("sys_path", ())]
    return [
        entry
        for entry in dict.fromkeys(entries)
        if not any(part in entry for part in INSTALLED) and os.path.isdir(entry)
    ]


def _is_source_file(path: str) -> bool:
    return (
        path.endswith(".py") and os.path.isfile(path) and os.path.getsize(path) <= MOST_FILE_BYTES
    )
