"""Why a script stopped early: a one-line message for each cause, and a hint."""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..checkout import PROTECTED
from ..missing import install_hint, is_module, missing_module, stood_in
from ..records import error, one_line
from ..syntax import parse
from ..world.stubs import NotInstalledError
from .project import Project

MOST_TEXT = 300
CANNOT_IMPORT = re.compile(r"cannot import name '(\w+)'")


class IdleError(BaseException):
    """Nothing new was launched for a long while. Not an Exception: scripts catch those."""


class OutOfTimeError(BaseException):
    """The time limit is near; what was captured is written out before it comes."""


@dataclass(frozen=True)
class Retry:
    """What would let the script come further in another run.

    Args:
        stubs: modules to stand in for: such as are not installed, or a part of the user's own
            packages that is only there once they are built.
        copy: file to bring into the scratch folder, relative to where the user stands or to the
            script.
    """

    stubs: tuple[str, ...] = ()
    copy: str | None = None


def retry_after(failure: BaseException, project: Project, stubs: list[str]) -> Retry | None:
    """What another run should do differently; None where nothing would help."""
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ImportError):
            stub = _lacking(cause, project)
            if stub is not None and stub not in stubs:
                further = [
                    name for name in _other_missing(cause, project) if name not in (*stubs, stub)
                ]
                return Retry(stubs=(stub, *further))
        if isinstance(cause, FileNotFoundError) and isinstance(cause.filename, (str, os.PathLike)):
            name = os.fspath(cause.filename)
            if isinstance(name, str) and not os.path.isabs(name):
                return Retry(copy=name)
        # What was being handled when an exception came up is its reason only among imports.
        context = cause.__context__ if isinstance(cause, ImportError) else None
        cause = cause.__cause__ or (None if cause.__suppress_context__ else context)
    return None


def ending(
    failure: BaseException, path: str, project: Project, stubs: list[str], captured: int
) -> dict[str, Any] | None:
    """The record of what ended a script; None for an end that is no failure."""
    place = place_in(failure, project) or path
    so_far = f" after {captured} specialisations" if captured else ""
    if isinstance(failure, SystemExit):
        if failure.code in (None, 0):
            return None
        message = f"the script ended itself{so_far}: sys.exit({failure.code!r})"
        hint = "give it the arguments it wants after --, e.g. `kinspect analyze script.py -- ARGS`"
        return _record(message, hint, place)
    if isinstance(failure, (ModuleNotFoundError, ImportError)):
        missing = missing_module(failure) or failure.name or ""
        name = missing.partition(".")[0] if is_module(missing) else ""
        hint = install_hint(failure, name or "package")
        if name and name not in PROTECTED:
            hint += f", or let a stand-in take its place: --stub {name}"
        return _record(f"{type(failure).__name__}{so_far}: {failure}", hint, place)
    if isinstance(failure, EOFError):
        hint = "there is no stdin here: give it what it asks for as arguments, after --"
        return _record(f"the script reads from stdin{so_far}: {failure}", hint, place)
    if isinstance(failure, MemoryError):
        hint = "raise --memory-limit, or give the script smaller shapes after --"
        return _record(f"out of memory{so_far}: {failure}", hint, place)
    if isinstance(failure, SyntaxError):
        where = f"{failure.filename or path}:{failure.lineno or 1}"
        return _record(f"{type(failure).__name__}: {failure.msg}", "mend the file", where)
    if isinstance(failure, NotInstalledError):
        hint = stood_in([failure.module]).partition("; ")[2]
        return _record(f"the script ended{so_far}: {failure}", hint, place)
    text = one_line(failure)[:MOST_TEXT] or "no message"
    hint = "see its output below"
    if captured:
        hint += "; results are not real here: what depends on them may go astray"
    if stubs:
        hint = f"{', '.join(stubs)} is stood in for: install it, or use --python; {hint}"
    return _record(f"the script ended{so_far}: {type(failure).__name__}: {text}", hint, place)


def place_in(failure: BaseException, project: Project) -> str | None:
    """`file:line` of the innermost frame that is the user's own."""
    place = None
    trace = failure.__traceback__
    while trace is not None:
        if project.owns_code(trace.tb_frame.f_code):
            place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


BUILT = re.compile(
    r"(_[A-Z]\w*|\w*(_C|_cuda|_hip|_rocm|_ext|_ops|_kernels|_lib)|_?version|_version_\w+)"
)
"""Names of modules that a build makes: compiled extensions and generated files."""


def _lacking(failure: ImportError, project: Project) -> str | None:
    """The module that a failed import wants a stand-in for; None where none would be right.

    Of a package that is there, only what a build would have made is stood in for.
    """
    if not isinstance(failure, ModuleNotFoundError):
        name_from = getattr(failure, "name_from", None)  # Python 3.12; else as the message has it
        match = CANNOT_IMPORT.match(str(failure))
        name_from = name_from or (match[1] if match else None)
        package = failure.name
        if not name_from or not package or not BUILT.fullmatch(name_from):
            return None
        return f"{package}.{name_from}" if _is_own_package(package, project) else None
    name = failure.name or ""
    if isinstance(failure, importlib.metadata.PackageNotFoundError) or not is_module(name):
        return None
    top, *parts = name.split(".")
    if top in PROTECTED:
        return None
    if not _is_there(project.path, top):
        return top
    for part in parts:
        if not _is_own_package(top, project):
            return None  # another version of an installed package
        top = f"{top}.{part}"
        if not _is_there(project.path, top):
            return top
    return None


def _other_missing(failure: ImportError, project: Project) -> Iterator[str]:
    """Other missing modules among the imports of the user's files in the traceback."""
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
            for name in _imported(code.co_filename):
                if (
                    name not in visited
                    and name not in PROTECTED
                    and not _is_there(project.path, name)
                ):
                    visited.add(name)
                    yield name
        trace = trace.tb_next


def _imported(file: str) -> Iterator[str]:
    """Top-level names of the modules that a file imports unconditionally."""
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
    module = sys.modules.get(name)
    try:
        spec = getattr(module, "__spec__", None) or importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    folders: list[str] = list(getattr(spec, "submodule_search_locations", None) or ())
    return bool(folders) and all(project.owns(os.path.join(folder, "x.py")) for folder in folders)


def _is_there(path: str, name: str) -> bool:
    """Whether a module of that name can be found; if so, something inside it is missing."""
    stem = os.path.join(os.path.dirname(path), *name.split("."))
    if os.path.isdir(stem) or os.path.exists(stem + ".py") or name in sys.modules:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _record(message: str, hint: str, place: str) -> dict[str, Any]:
    return error("capture", message, hint, place=place)
