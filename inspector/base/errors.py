"""The one error type that reaches the user.

Raise `KinspectError` for anything the user can act on. It is printed once, in the command line's
`main`, as a line on stderr; everything else that escapes is a bug and says so.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from .long_names import shortened, with_short_names
from .printable import printable

_PACKAGE = Path(__file__).resolve().parents[2]
_COMMAND = re.compile(r"[:,;]? *`((?:kinspect|hipcc|\S+ -m pip) [^`\n]+)`$")
"""A command at the end of a hint."""
REPORT_IT = "please report it, with the file and what KINSPECT_TRACEBACK=1 adds"


class KinspectError(Exception):
    """An error for the user: the problem, its place, and the next step.

    Args:
        message: the problem, with the file, kernel or stage that has it.
        hint: the next step, as an imperative ("name the file itself"). A
            command at its end, in backquotes, is printed in a line of its own.
        exit_code: the process's exit status; 2 for usage, configuration, input and internal errors.
        meant: what was typed, and what may have been meant by it, the likeliest first: the command
            line is printed so.
    """

    def __init__(
        self,
        message: str,
        hint: str = "",
        exit_code: int = 2,
        *,
        meant: tuple[str, ...] | None = None,
    ) -> None:
        # Messages quote names of files and symbols, and other programs' output.
        message, hint = printable(message), printable(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.meant = meant

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[KinspectError], tuple[str, str, int]]:
        # Exceptions pickle by their args alone; a process-based Executor must not lose the hint.
        return (KinspectError, (self.message, self.hint, self.exit_code))


class FaultsError(KinspectError):
    """Several problems as one error, so that one run shows everything that is to be corrected.

    The command line prints a line for each of them.
    """

    def __init__(self, faults: Iterable[str], hint: str) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(self.faults), hint)

    def __reduce__(self) -> Any:
        return (FaultsError, (self.faults, self.hint))


_MOST_LINE = 4_000
"""Characters of an error that are printed: a name in it may be as long as a file."""


def in_lines(message: str, hint: str) -> str:
    """A message and its hint as they are printed: in a line, a command of the hint in another."""
    command = _COMMAND.search(hint)
    advice = hint if command is None else hint[: command.start()]
    line = " ".join((f"{message}; {advice}" if advice else message).split())
    line = shortened(with_short_names(line), _MOST_LINE)
    if command is None:
        return line
    return f"{line}{'' if line.endswith('?') else ':'}\n  {command[1]}"


def unforeseen(error: BaseException) -> KinspectError:
    """Wraps an unexpected exception, which is a bug of kinspect's, in a one-line error.

    It has the exception's type and text, and the innermost position: in kinspect, and below it if
    that is in a library. A name that is too long for a file is the user's, wherever it is met.
    """
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return too_long(str(error.filename))
    detail = " ".join(str(error).split())
    detail = f"{detail[:200]}…" if len(detail) > 200 else detail
    text = f"{type(error).__name__}: {detail}" if detail else type(error).__name__
    return KinspectError(f"internal error of kinspect: {text} ({_position(error)})", REPORT_IT)


def too_long(name: str) -> KinspectError:
    """The error of a name that is too long for a file."""
    return KinspectError(
        f"{name[:60]}…: a name of {len(name):,} characters", "no file's is so long"
    )


def _position(error: BaseException) -> str:
    """Returns where an error was raised, and the last line of kinspect on the way there."""
    own_position = last_position = None
    step: TracebackType | None = error.__traceback__
    while step is not None:
        path = Path(step.tb_frame.f_code.co_filename)
        last_position = f"{path.parent.name}/{path.name}:{step.tb_lineno}"
        if (
            path.is_relative_to(_PACKAGE)
            and "site-packages" not in path.relative_to(_PACKAGE).parts
        ):
            own_position = last_position = (
                f"{path.relative_to(_PACKAGE).as_posix()}:{step.tb_lineno}"
            )
        step = step.tb_next
    if last_position is None:
        return "place unknown"
    if own_position in (None, last_position):
        return last_position
    return f"{own_position}, in {last_position}"
