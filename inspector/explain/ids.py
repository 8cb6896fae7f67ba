"""The ids by which a report for agents names what it lists, and `kinspect show` opens it again.

A finding's is the beginning of its fingerprint, a kernel's that of a digest of its own id: neither
changes when lines move. Of a kernel's parts a loop is `KERNEL.L0`, a memory access `KERNEL.M41`,
the number being its line in the assembly.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

SHORTEST = 6
_DIGITS = 16
"""Hexadecimal digits of a whole key, as of a fingerprint."""
_ID = re.compile(rf"([0-9a-f]{{{SHORTEST},{_DIGITS}}})(?:\.(L\d+)|\.M(\d+))?")


class ItemId(Struct, frozen=True):
    """An id in its parts.

    Args:
        key: the beginning of a fingerprint or of a kernel's key.
        line: of the assembly, from 1, of an access; None where it names none.
    """

    key: str
    loop: str | None = None
    line: int | None = None


def parsed(text: str) -> ItemId | None:
    """The parts of an id; None if the text does not have the form of one."""
    match = _ID.fullmatch(text)
    if match is None:
        return None
    return ItemId(match[1], match[2], int(match[3]) if match[3] else None)


def kernel_key(kernel: str) -> str:
    """The whole key of a kernel, from its id in reports."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(kernel.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGITS]


def shortened(keys: Iterable[str]) -> dict[str, str]:
    """Key -> its shortest beginning that no other of them has; all of the same length."""
    distinct = sorted(set(keys))
    length = SHORTEST
    while len({key[:length] for key in distinct}) < len(distinct):
        length += 1
    return {key: key[:length] for key in distinct}


def loop_id(kernel: str, loop: str) -> str:
    """The id of a loop, from its kernel's shortened key and its own name there."""
    return f"{kernel}.{loop}"


def access_id(kernel: str, line: int) -> str:
    """The id of a memory access, from its kernel's shortened key and its line of the assembly."""
    return f"{kernel}.M{line}"
