"""The patterns that select kernels: of a name, of a case, or of both as `name[case]`.

`guest/kernel_patterns.py` has the same in the user's interpreter.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

_NAME = re.compile(r"[\w.*?<>]*")


def matches(patterns: Sequence[str], names: Sequence[str]) -> bool:
    """Whether each pattern matches one of the names; brackets are literal, `*` and `?` not."""
    return all(any(fnmatchcase(n, p.replace("[", "[[]")) for n in names) for p in patterns)


def select_cases(patterns: Sequence[str]) -> bool:
    """Whether one selects among the cases of launches, which are known when all are: `k[BLOCK=64]`.

    Cases that a file states are known before, by any name.
    """
    return not all(map(_NAME.fullmatch, patterns))


def choosing(file: str, patterns: Sequence[str], names: Sequence[str]) -> str:
    """The command that selects the kernel whose name is most like a pattern that none matches."""
    near = [name for p in patterns for name in get_close_matches(p, names, n=1)]
    near += [name for name in names if all(p in name for p in patterns)] or names
    return f"`kinspect analyze {shlex.quote(file)} --kernel {shlex.quote(near[0])}`"
