"""What stands in the way of making a kernel of data alone."""

from __future__ import annotations


class RefusedError(BaseException):
    """Something that compiling a kernel would run: what it is, in one line.

    Not an Exception: Triton's code generator makes a compile error of every one of those.
    """

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what


class Unavailable:
    """Stands for a value that cannot be had without running something.

    Args:
        what: what would run, or what is missing.
    """

    def __init__(self, what: str) -> None:
        self.what = what
