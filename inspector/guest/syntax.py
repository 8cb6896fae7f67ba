"""Python's own parser, kept from what it needs gigabytes for."""

from __future__ import annotations

import ast
import re

LONGEST_NAME = 1000
"""Parts of a dotted name. The memory that CPython's parser takes for `import a.b.c` goes up with
their square (3.11: 149 MB for 5,000 parts, 4 GB for 20,000, where the statement is wrong)."""

_PARTS = rf"(?:\.[\s\\]*\w+[\s\\]*){{{LONGEST_NAME}}}"
_IN_TEXT, _IN_BYTES = re.compile(_PARTS), re.compile(_PARTS.encode())


def parse(source: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """The syntax tree of a module.

    Raises:
        SyntaxError: it is not Python, or has a dotted name of LONGEST_NAME parts and more.
        ValueError, RecursionError, MemoryError: as `ast.parse`, for NULs and deep nesting.
    """
    if isinstance(source, bytes):
        place = _IN_BYTES.search(source)
        before = 0 if place is None else source[: place.start()].count(b"\n")
        found = place is not None
    else:
        at = _IN_TEXT.search(source)
        before = 0 if at is None else source[: at.start()].count("\n")
        found = at is not None
    if found:
        message = f"a dotted name of {LONGEST_NAME} parts or more"
        raise SyntaxError(message, (filename, before + 1, None, None))
    return ast.parse(source, filename)
