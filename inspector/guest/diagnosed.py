"""What MLIR says on descriptor 2 while a kernel is taken to IR.

An operation that MLIR's verifier refuses ends in a RuntimeError without a reason: Gluon's layouts
above all, which a kernel states for one width of wave. Reason and line are on descriptor 2 alone.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from typing import NamedTuple

HEAD = re.compile(r"^(?P<file>.+?):(?P<line>\d+):\d+: error: (?P<text>.*)$")
CARET = re.compile(r"^\s*\^\s*$")
STDERR = 2
MOST_LINES = 4
"""Lines of one diagnostic that are kept."""


class MLIRError(Exception):
    """MLIR refused an operation.

    Args:
        reason: in its words.
        place: `file:line` of the operation.
    """

    def __init__(self, reason: str, place: str) -> None:
        super().__init__(reason)
        self.place = place


class _Diagnostic(NamedTuple):
    file: str
    line: int
    text: str


@contextlib.contextmanager
def diagnosed() -> Iterator[None]:
    """A failure inside that says neither reason nor line becomes an `MLIRError`.

    Raises:
        MLIRError: MLIR said more than the exception does.
    """
    try:
        sys.stderr.flush()
        captured = tempfile.TemporaryFile()  # noqa: SIM115  (closed below, with the other)
        really = os.fdopen(os.dup(STDERR), "wb", 0)
        os.dup2(captured.fileno(), STDERR)
    except Exception:  # a script that patches `os`: it is to lose no launch by that
        yield
        return
    with captured, really:
        try:
            yield
        except Exception as failure:
            has_cause = failure.__cause__ is not None or hasattr(failure, "node")
            diagnostic = None if has_cause else _first(_captured_text(captured.fileno()))
            if diagnostic is None:
                raise
            raise MLIRError(diagnostic.text, f"{diagnostic.file}:{diagnostic.line}") from None
        finally:
            sys.stderr.flush()
            os.dup2(really.fileno(), STDERR)
            really.write(_captured_text(captured.fileno()).encode(errors="replace"))


def _captured_text(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    return os.pread(descriptor, size, 0).decode(errors="replace")


def _first(text: str) -> _Diagnostic | None:
    """The first diagnostic of the user's own code; of Triton's library if there is no other."""
    spec = importlib.util.find_spec("triton")
    library = tuple(spec.submodule_search_locations or ()) if spec is not None else ()
    diagnostics = list(_diagnostics(text.splitlines()))
    user_diagnostics = (
        diagnostic for diagnostic in diagnostics if not diagnostic.file.startswith(library)
    )
    return next(user_diagnostics, diagnostics[0] if diagnostics else None)


def _diagnostics(lines: list[str]) -> Iterator[_Diagnostic]:
    """Each has a head, more lines of text, and at the end the line of code over a caret."""
    heads = [(number, HEAD.match(line)) for number, line in enumerate(lines)]
    for number, head in heads:
        if head is None:
            continue
        text = [head["text"]]
        for place in range(number + 1, min(number + MOST_LINES + 1, len(lines))):
            if CARET.match(lines[place]):
                text = text[: place - number - 1]  # the line above it is the code's
                break
            if heads[place][1] is not None:
                break
            text.append(lines[place])
        yield _Diagnostic(head["file"], int(head["line"]), " ".join(text))
