"""What stands in the way of making a kernel of data alone."""

from __future__ import annotations

import sys


class RefusedError(BaseException):
    """Something that compiling a kernel would run, or that this interpreter lacks.

    Args:
        subject: what it is, in one line.
        missing: nothing would run: the interpreter has none such.

    Not an Exception: Triton's code generator makes a compile error of every one of those.
    """

    def __init__(self, subject: str, missing: bool = False) -> None:
        super().__init__(subject)
        self.subject = subject
        self.missing = missing


REFUSED = "kernel {name} is not compiled, since that would run more than Triton's language: {what}"
MISSING = "kernel {name} needs {what}, of the libraries of {executable}"


def message_of(failure: RefusedError, name: str) -> str:
    """What stands in the way of a kernel, in one line."""
    text = MISSING if failure.missing else REFUSED
    return text.format(name=name, what=failure.subject, executable=sys.executable)


class Unavailable:
    """Stands for a value that cannot be had without running something.

    Args:
        subject: what would run, or what is missing.
        missing: see `RefusedError`.
    """

    def __init__(self, subject: str, missing: bool = False) -> None:
        self.subject = subject
        self.missing = missing

    def refusal(self) -> RefusedError:
        """What is raised where the value is used."""
        return RefusedError(self.subject, self.missing)
