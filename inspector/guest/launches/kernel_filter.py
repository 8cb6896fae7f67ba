"""Selects among the launched kernels, by the patterns on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase


class KernelFilter:
    """Selects kernels by pattern, and lists the others that were launched.

    Args:
        patterns: for the kernel's name or qualified name; a part in brackets selects among its
            specialisations, which the host does.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self.other_kernels: dict[str, None] = {}
        """Names of kernels that no pattern selects, in the order of their first launches."""
        self.muted = False
        """Whether nothing is selected, while a file is loaded only for its definitions."""

    def selects(self, name: str, qualname: str) -> bool:
        """Whether every pattern matches the kernel; never while `muted`."""
        if self.muted:
            return False
        for pattern in self.patterns:
            name_pattern = pattern.partition("[")[0]
            globs = {pattern, name_pattern} if name_pattern else {pattern, "*"}
            if not any(fnmatchcase(n, glob) for n in (name, qualname) for glob in globs):
                self.other_kernels[name] = None
                return False
        return True
