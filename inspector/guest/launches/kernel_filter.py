"""Which of the launched kernels were asked for, by the patterns on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


class KernelFilter:
    """Selects kernels by pattern, and remembers the others that were launched.

    Args:
        patterns: over the kernel's name or qualified name; what stands in brackets chooses among
            its specialisations, which is the host's business.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self.other_kernels: dict[str, None] = {}
        """Names of kernels that no pattern selects, in the order of their first launches."""
        self.muted = False
        """Whether nothing is selected for now: a file is loaded only for what it defines."""

    def selects(self, name: str, qualname: str) -> bool:
        """Whether every pattern matches the kernel; never while `muted`."""
        if self.muted:
            return False
        for pattern in self.patterns:
            bare = pattern.partition("[")[0]
            globs = {pattern, bare} if bare else {pattern, "*"}
            if not any(fnmatchcase(n, glob) for n in (name, qualname) for glob in globs):
                self.other_kernels[name] = None
                return False
        return True
