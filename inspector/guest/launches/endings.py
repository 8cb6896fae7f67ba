"""Explains why a script stopped early: a one-line message for each cause, and a hint.

Decides with what changes another run of a script would get further: stubs, or a copied file.
"""

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
from ..kernel_patterns import command
from ..missing_modules import install_hint, is_module, missing_module, module_exists, stub_note
from ..records import error, one_line
from ..syntax import parse
from ..world.stubs import NotInstalledError
from .project import Project

MAX_MESSAGE_LENGTH = 300


class IdleError(BaseException):
    """Nothing new was launched for a long time. No Exception, since scripts catch those."""


class OutOfTimeError(BaseException):
    """The time limit is near: the rest of the time is needed to write out the records."""


def ending(
    failure: BaseException,
    path: str,
    home: str,
    project: Project,
    stubs: list[str],
    captured: int,
) -> dict[str, Any] | None:
    """The error record of a script's end; None for an end that is no failure."""
    if isinstance(failure, SystemExit) and failure.code in (None, 0):
        return None
    site = user_line(failure, project) or path
    if isinstance(failure, SyntaxError):
        site = f"{failure.filename or path}:{failure.lineno or 1}"
    progress = f" after {captured} specialisations" if captured else ""
    message_and_hint = _known_ending(failure, progress, command(path, home, "-- ARGS"))
    if message_and_hint is None:
        text = one_line(failure)[:MAX_MESSAGE_LENGTH] or "no message"
        message = f"the script ended{progress}: {type(failure).__name__}: {text}"
        message_and_hint = message, _general_hint(stubs, captured)
    return error("capture", *message_and_hint, place=site)


def _known_ending(
    failure: BaseException, progress: str, with_arguments: str
) -> tuple[str, str] | None:
    """Message and hint for an exception with a remedy of its own; None for any other."""
    if isinstance(failure, SystemExit):
        message = f"the script ended itself{progress}: sys.exit({failure.code!r})"
        return message, f"give it the arguments that it wants after --: {with_arguments}"
    if isinstance(failure, ImportError):
        missing = missing_module(failure) or failure.name or ""
        name = missing.partition(".")[0] if is_module(missing) else ""
        hint = install_hint(failure, name or "package")
        if name and name not in PROTECTED:
            hint = f"let a stand-in take its place (--stub {name}), or {hint}"
        return f"{type(failure).__name__}{progress}: {failure}", hint
    if isinstance(failure, EOFError):
        hint = "there is no stdin here: give it what it asks for as arguments, after --"
        return f"the script reads from stdin{progress}: {failure}", hint
    if isinstance(failure, MemoryError):
        hint = "raise --memory-limit, or give the script smaller shapes after --"
        return f"out of memory{progress}: {failure}", hint
    if isinstance(failure, SyntaxError):
        return f"{type(failure).__name__}: {failure.msg}", "mend the file"
    if isinstance(failure, NotInstalledError):
        hint = stub_note([failure.module]).partition("; ")[2]
        return f"the script ended{progress}: {failure}", hint
    return None


def _general_hint(stubs: list[str], captured: int) -> str:
    """The hint for an exception of the script's own; see `ending` for the arguments."""
    hint = "see its output below"
    if captured:
        hint += "; results are not real here: what depends on them may go astray"
    if stubs:
        hint = f"{', '.join(stubs)} is stood in for: install it, or use --python; {hint}"
    return hint


def user_line(failure: BaseException, project: Project) -> str | None:
    """`file:line` of the innermost frame that is the user's own."""
    site = None
    trace = failure.__traceback__
    while trace is not None:
        if project.owns_code(trace.tb_frame.f_code):
            site = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return site


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
