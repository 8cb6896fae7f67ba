"""Builds the kernels of a trace from its own data: no module that it names is imported.

Traces of version 2 hold the sources of their kernels. Those of version 1 name files, which are
parsed; a kernel's source there has to have the recorded hash.
"""

from __future__ import annotations

import collections
import enum
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..parsed import library
from ..parsed.building import KernelBuilder
from ..parsed.guard import Guard
from ..parsed.library import RefusedError, Unavailable
from ..parsed.modules import Module, Modules
from ..readable_files import read_named
from .importing import INSTALLED, MissingKernelError, located
from .kernel_source import content_hash, is_library, is_source, source_hash
from .values import UnknownValueError, decode

RECORD_AGAIN = "record it again, or go back to the version that was recorded"
MAX_FILE_BYTES = 16 << 20
MAX_MEMBERS = 1000


class RebuiltKernels:
    """Builds the kernels of one trace, each once.

    `sources`: id -> functions (`kernel_source.py`), from the trace.
    `folders`: where to look for files that have moved since the recording.
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
        self._builder = KernelBuilder(self._guard, self._decoded)
        self._modules = Modules(_module_folders(processes))
        self._results: dict[str, list[Any] | RefusedError | MissingKernelError] = {}
        self._classes: dict[str, Any] = {}

    def of(self, kernel: Mapping[str, Any]) -> list[Any]:
        """The JITFunctions of a recorded kernel's source; the first is the kernel.

        Raises:
            MissingKernelError: its source is missing or does not have the recorded hash.
            RefusedError: a value that it uses is known only by running code; Triton was changed.
        """
        self._guard.verify()
        handle = json.dumps([kernel.get("source"), kernel["qualname"], kernel["sha256"]])
        if handle not in self._results:
            try:
                self._results[handle] = self._make(kernel)
            except (RefusedError, MissingKernelError) as failure:
                self._results[handle] = failure
        result = self._results[handle]
        if isinstance(result, list):
            return result
        raise result

    def resolver(self, kernels: Sequence[Any]) -> Any:
        """A function that returns what a path in a specialisation's values names.

        That is one of its functions, or a library's.
        """

        def resolve(path: Mapping[str, Any]) -> Any:
            module, qualname = str(path["module"]), str(path["qualname"])
            for kernel in kernels:
                if (kernel.fn.__module__, kernel.fn.__qualname__) == (module, qualname):
                    return kernel
            return self._resolve(path)

        return resolve

    def changed_files(self, kernel: Mapping[str, Any]) -> list[str]:
        """The existing files of a kernel's source that no longer hold the recorded text."""
        changed = []
        for function in self._sources.get(str(kernel.get("source"))) or ():
            file = function["file"]
            if _is_source_file(file) and file not in changed:
                try:
                    text = read_named(file, MAX_FILE_BYTES).decode("utf-8", "replace")
                except OSError:
                    continue  # not one of the user's: what it holds is nobody's business
                if function["text"].rstrip("\n") not in text.replace("\r\n", "\n"):
                    changed.append(file)
        return changed

    def _make(self, kernel: Mapping[str, Any]) -> list[Any]:
        qualname = str(kernel["qualname"])
        name = kernel.get("source")
        functions: Any = (
            self._sources.get(str(name)) if name is not None else self._source_from_file(kernel)
        )
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
            host = next(_host_values(functions), None) if name is None else None
            if host is not None:  # what cannot be read may be what was hashed
                raise RefusedError(host)
            raise MissingKernelError(
                f"{kernel_function['file']}:{kernel_function['line']}: kernel {qualname}, "
                "or one it calls, has changed since it was recorded",
                RECORD_AGAIN,
            )
        return kernels

    def _source_from_file(self, kernel: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The source of a kernel of a trace of version 1, parsed from its file's text."""
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
        """A value of a source; an `Unavailable` where it cannot be rebuilt."""
        try:
            return decode(data, self._resolve)
        except (RefusedError, UnknownValueError) as failure:
            return Unavailable(str(failure))
        except Exception as failure:
            return Unavailable(f"a damaged value ({type(failure).__name__})")

    def _resolve(self, path: Mapping[str, Any]) -> Any:
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
        raise RefusedError(f"{path.get('file') or module}: {qualname}")

    def _class(self, path: Mapping[str, Any]) -> Any:
        name = str(path["qualname"]).rpartition(".")[2]
        if "fields" in path:
            return collections.namedtuple(name, [str(f) for f in path["fields"]])
        members = [(str(n), decode(v, self._resolve)) for n, v in path["members"]]
        if any(member.startswith("_") for member, _ in members):  # Python itself would call it
            raise RefusedError(f"a member of {name}")
        mixin = {"int": int, "str": str}.get(str(path.get("mixin")))
        return enum.Enum(name, members[:MAX_MEMBERS], type=mixin)


def _host_values(functions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Descriptions of the values that are known only by running code."""
    for function in functions:
        for value in function["names"].values():  # defaults are no part of the hash
            if "host" in value:
                yield str(value["host"])


def _module_folders(processes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Existing folders from which the recorded processes imported modules of their own."""
    entries = [str(entry) for process in processes for entry in process.get("sys_path", ())]
    return [
        entry
        for entry in dict.fromkeys(entries)
        if not any(part in entry for part in INSTALLED) and os.path.isdir(entry)
    ]


def _is_source_file(path: str) -> bool:
    return path.endswith(".py") and os.path.isfile(path) and os.path.getsize(path) <= MAX_FILE_BYTES
