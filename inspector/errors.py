"""The one error type that reaches the user.

Raise `KinspectError` for anything the user can act on. It is printed once, in the command line's
`main`, as a single line on stderr; everything else that escapes is a bug and says so.
"""

from __future__ import annotations

from kinspect.inspector.printable import printable


class KinspectError(Exception):
    """What went wrong, where, and what to do next.

    Args:
        message: what happened, naming the file, kernel or stage it happened in.
        hint: the next step, as an imperative ("install kinspect[triton], or pass an .s file").
        exit_code: the process's exit status; 2 for usage, configuration, input and internal errors.
    """

    def __init__(self, message: str, hint: str = "", exit_code: int = 2) -> None:
        # Names of files and symbols, and what other programs said, stand in messages.
        message, hint = printable(message), printable(hint)
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[type[KinspectError], tuple[str, str, int]]:
        # Exceptions pickle by their args alone; a process-based Executor must not lose the hint.
        return (KinspectError, (self.message, self.hint, self.exit_code))
