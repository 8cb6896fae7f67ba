"""Selects among the launched kernels, by the patterns on the command line."""

from __future__ import annotations

from collections.abc import Sequence

from ..kernel_patterns import matches, names_only


class KernelFilter:
    """Selects kernels by pattern, and lists the others that were launched.

    `patterns`: for the kernel's name or qualified name; the host selects among its cases.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._of_names = names_only(patterns)
        self.other_kernels: dict[str, None] = {}
        """Names of kernels that no pattern selects, in the order of their first launches."""
        self.muted = False
        """Whether nothing is selected, while a file is loaded only for its definitions."""

    def selects(self, name: str, qualname: str) -> bool:
        """Whether every pattern matches the kernel; never while `muted`."""
        if self.muted:
            return False
        if matches(self._of_names, (name, qualname)):
            return True
        self.other_kernels[name] = None
        return False
