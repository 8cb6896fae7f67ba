"""Decides with what changes another run of a script would get further: stubs, or a copied file."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from ..checkout import PROTECTED
from ..missing_modules import is_module, module_exists
from ..syntax import parse
from .project import Project

CANNOT_IMPORT = re.compile(r"cannot import name '(\w+)'")
BUILD_PRODUCT = re.compile(
    r"(_[A-Z]\w*|\w*(_C|_cuda|_hip|_rocm|_ext|_ops|_kernels|_lib)|_?version|_version_\w+)"
)
"""Names of modules that a build makes: compiled extensions and generated files."""


@dataclass(frozen=True)
class Retry:
    """Changes with which another run of the script would get further.

    `stubs`: modules to replace by stubs: modules that are not installed, or parts of the user's own
    packages that only a build makes.
    `copy`: file to copy into the scratch folder; a path relative to the user's folder or to the
    script's.
    """

    stubs: tuple[str, ...] = ()
    copy: str | None = None


def retry_after(failure: BaseException, project: Project, stubs: list[str]) -> Retry | None:
    """The changes with which another run would get further; None where there are none."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ImportError):
            stub = _module_to_stub(cause, project)
            if stub is not None and stub not in stubs:
                further = [
                    name for name in _other_missing(cause, project) if name not in (*stubs, stub)
                ]
                return Retry(stubs=(stub, *further))
        if isinstance(cause, FileNotFoundError) and isinstance(cause.filename, (str, os.PathLike)):
            name = os.fspath(cause.filename)
            if isinstance(name, str) and not os.path.isabs(name):
                return Retry(copy=name)
        # The exception that was being handled is the reason for another one only among imports.
        context = cause.__context__ if isinstance(cause, ImportError) else None
        cause = cause.__cause__ or (None if cause.__suppress_context__ else context)
    return None


def _module_to_stub(failure: ImportError, project: Project) -> str | None:
    """The module to replace by a stub so that an import works; None where a stub is no remedy."""
    if not isinstance(failure, ModuleNotFoundError):
        name_from = getattr(failure, "name_from", None)  # Python 3.12; else as the message has it
        match = CANNOT_IMPORT.match(str(failure))
        name_from = name_from or (match[1] if match else None)
        package = failure.name
        if not name_from or not package or not BUILD_PRODUCT.fullmatch(name_from):
            return None
        return f"{package}.{name_from}" if _is_own_package(package, project) else None
    name = failure.name or ""
    if isinstance(failure, importlib.metadata.PackageNotFoundError) or not is_module(name):
        return None
    top, *parts = name.split(".")
    if top in PROTECTED:
        return None
    if not _exists(project.path, top):
        return top
    for part in parts:
        if not _is_own_package(top, project):
            return None  # another version of an installed package
        top = f"{top}.{part}"
        if not _exists(project.path, top):
            return top
    return None


def _other_missing(failure: ImportError, project: Project) -> Iterator[str]:
    visited: set[str] = set()
    trace = failure.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if (
            code.co_name == "<module>"
            and project.owns_code(code)
            and code.co_filename not in visited
        ):
            visited.add(code.co_filename)
            for name in _imports(code.co_filename):
                if (
                    name not in visited
                    and name not in PROTECTED
                    and not _exists(project.path, name)
                ):
                    visited.add(name)
                    yield name
        trace = trace.tb_next


def _imports(file: str) -> Iterator[str]:
    try:
        with open(file, "rb") as stream:
            body = parse(stream.read(), file).body
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def _is_own_package(name: str, project: Project) -> bool:
    """Whether all folders of a package belong to the user."""
    module = sys.modules.get(name)
    try:
        spec = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    folders: list[str] = list(getattr(spec, "submodule_search_locations", None) or ())
    return bool(folders) and all(project.owns(os.path.join(folder, "x.py")) for folder in folders)


def _exists(path: str, name: str) -> bool:
    stem = os.path.join(os.path.dirname(path), *name.split("."))
    return os.path.isdir(stem) or os.path.exists(stem + ".py") or module_exists(name)
