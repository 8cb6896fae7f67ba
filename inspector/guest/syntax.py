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
    match = _IN_BYTES.search(source) if isinstance(source, bytes) else _IN_TEXT.search(source)
    if match is not None:
        line = len(source[: match.start()].splitlines())
        message = f"a dotted name of {LONGEST_NAME} parts or more"
        raise SyntaxError(message, (filename, line, None, None))
    return ast.parse(source, filename)
