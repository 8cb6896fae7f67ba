"""The patterns that select kernels: of a name, of a case, or of both as `name[case]`.

`capture/kernel_patterns.py` has the same outside of the user's interpreter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
