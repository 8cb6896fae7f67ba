"""The patterns that select kernels: of a name, of a case, or of both as `name[case]`.

`capture/options.py` has the same outside of the user's interpreter.

Selects among the launched kernels, by the patterns on the command line.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

_NAME = re.compile(r"[\w.*?<>]*")


def matches(patterns: Sequence[str], names: Iterable[str]) -> bool:
    """Whether each pattern matches one of the names; brackets are literal, `*` and `?` not."""
    names = tuple(names)
    return all(any(fnmatchcase(n, p.replace("[", "[[]")) for n in names) for p in patterns)


def names_only(patterns: Sequence[str]) -> list[str]:
    """What patterns say of names, for kernels whose cases are not known yet; the host does those.

    A pattern such as `BLOCK=64` can match a case alone.
    """
    names = [pattern.partition("[")[0] for pattern in patterns]
    return [name for name in names if name and _NAME.fullmatch(name)]


def command(file: str, home: str | None, *options: str) -> str:
    """The command that analyses a file, which is named as from the user's folder."""
    shown = file.removeprefix(os.path.join(os.path.abspath(home or os.getcwd()), ""))
    return " ".join((f"`kinspect analyze {shlex.quote(shown)}", *options)) + "`"


def choosing(file: str, home: str | None, patterns: Sequence[str], names: Sequence[str]) -> str:
    """The command that selects the kernel whose name is most like a pattern that none matches."""
    near = [name for p in patterns for name in get_close_matches(p, names, n=1)]
    near += [name for name in names if all(p in name for p in patterns)] or names
    return command(file, home, "--kernel", shlex.quote(near[0]))


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
