"""Explains why a script stopped early: a one-line message for each cause, and a hint."""

from __future__ import annotations

from typing import Any

from ..checkout import PROTECTED
from ..kernel_patterns import command
from ..missing_modules import install_hint, is_module, missing_module, stub_note
from ..records import error, one_line
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
