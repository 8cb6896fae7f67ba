"""Reads the diagnostics that MLIR prints to descriptor 2 while a kernel is taken to IR.

An operation that MLIR's verifier refuses becomes a RuntimeError without a reason, often for Gluon's
layouts, which a kernel states for one wave size. Only descriptor 2 gets the reason and the line.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, NamedTuple

_FIRST_LINE = re.compile(r"^(?P<file>.+?):(?P<line>\d+):\d+: error: (?P<text>.*)$")
_CARET = re.compile(r"^\s*\^\s*$")
_STDERR = 2
_MAX_LINES = 4
"""How many lines of one diagnostic are read."""


class MLIRError(Exception):
    """An operation that MLIR refuses.

    `location`: `file:line` of the operation.
    """

    def __init__(self, reason: str, location: str) -> None:
        super().__init__(reason)
        self.location = location


class _Diagnostic(NamedTuple):
    """One of MLIR's errors, at a line of a file."""

    file: str
    line: int
    text: str


@contextlib.contextmanager
def mlir_errors() -> Iterator[None]:
    """Turns an exception without a reason into an `MLIRError` with MLIR's own message.

    Raises:
        MLIRError: MLIR printed an error.
    """
    try:
        sys.stderr.flush()
        captured = _unnamed_file()
        original = os.fdopen(os.dup(_STDERR), "wb", 0)
        os.dup2(captured.fileno(), _STDERR)
    except Exception:  # a script may have patched `os`; its launches must work all the same
        yield
        return
    with captured, original:
        try:
            yield
        except Exception as failure:
            text = "" if _states_its_cause(failure) else _captured_text(captured.fileno())
            diagnostic = _first_diagnostic(text)
            if diagnostic is None:
                raise
            raise MLIRError(diagnostic.text, f"{diagnostic.file}:{diagnostic.line}") from None
        finally:
            sys.stderr.flush()
            os.dup2(original.fileno(), _STDERR)
            original.write(_captured_text(captured.fileno()).encode(errors="replace"))


def _unnamed_file() -> IO[bytes]:
    """A file in memory: where kernels are data, none can be made in a folder."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("diagnostics"), "w+b")
    return tempfile.TemporaryFile()


def _states_its_cause(failure: Exception) -> bool:
    """Whether an exception says itself what was wrong and where.

    Triton's CompilationError does, told by the `node` of the kernel's code at fault, which other
    exceptions lack; and so does an exception with another one as its cause.
    """
    return failure.__cause__ is not None or hasattr(failure, "node")


def _captured_text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")


def _first_diagnostic(text: str) -> _Diagnostic | None:
    """The first diagnostic of the user's own code; of Triton's library if there is no other."""
    spec = importlib.util.find_spec("triton")
    folders = (spec.submodule_search_locations or ()) if spec is not None else ()
    library = tuple(os.path.join(folder, "") for folder in folders)
    diagnostics = list(_diagnostics(text.splitlines()))
    user_diagnostics = (
        diagnostic for diagnostic in diagnostics if not diagnostic.file.startswith(library)
    )
    return next(user_diagnostics, diagnostics[0] if diagnostics else None)


def _diagnostics(lines: list[str]) -> Iterator[_Diagnostic]:
    """The diagnostics in MLIR's output."""
    first_lines = [(number, _FIRST_LINE.match(line)) for number, line in enumerate(lines)]
    for number, first_line in first_lines:
        if first_line is None:
            continue
        text = [first_line["text"]]
        for index in range(number + 1, min(number + _MAX_LINES + 1, len(lines))):
            if _CARET.match(lines[index]):
                text.pop()  # the line above the caret is code
                break
            if first_lines[index][1] is not None:
                break
            text.append(lines[index])
        yield _Diagnostic(first_line["file"], int(first_line["line"]), " ".join(text))
