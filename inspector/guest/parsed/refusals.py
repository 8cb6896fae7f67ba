"""The reasons why a kernel cannot be made from data alone."""

from __future__ import annotations

import sys


class RefusedError(BaseException):
    """Code that compiling a kernel would run, or a value that this interpreter lacks.

    No Exception, since Triton's code generator turns every Exception into a compile error.

    `subject`: the code or the value, in one line.
    `missing`: whether the interpreter lacks a value, and no code would run.
    """

    def __init__(self, subject: str, missing: bool = False) -> None:
        super().__init__(subject)
        self.subject = subject
        self.missing = missing


REFUSED = "kernel {name} is not compiled, since that would run more than Triton's language: {what}"
MISSING = "kernel {name} needs {what}, of the libraries of {executable}"


def message_of(failure: RefusedError, name: str) -> str:
    """The reason why a kernel cannot be made, in one line."""
    text = MISSING if failure.missing else REFUSED
    return text.format(name=name, what=failure.subject, executable=sys.executable)


class Unavailable:
    """Takes the place of a value that is missing, or that only running code would give."""

    def __init__(self, subject: str, missing: bool = False) -> None:
        self.subject = subject
        self.missing = missing

    def refusal(self) -> RefusedError:
        """The error to raise where the value is used."""
        return RefusedError(self.subject, self.missing)
