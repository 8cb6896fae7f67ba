"""Where the expressions of Python sources end."""

from __future__ import annotations

import ast

from ..base.documents import python_tree
from ..base.named_files import named_text


class Expressions:
    """The expressions of source files, each of which is read once."""

    def __init__(self) -> None:
        self._files: dict[str, dict[tuple[int, int], tuple[int, int]]] = {}

    def width(self, file: str, line: int, column: int, text: str) -> int:
        """Characters of a line that belong to the longest expression or statement at a column.

        Lines and columns count from 1. It is 1 where none begins there, and where `text` is not
        that of the line, as of a source that has changed.
        """
        if not file.endswith(".py"):
            return 1
        if file not in self._files:
            self._files[file] = _ends(named_text(file) or "")
        data = text.encode("utf-8", "replace")
        start = len(text[: column - 1].encode("utf-8", "replace"))
        last_line, end = self._files[file].get((line, start), (line, start + 1))
        code = data[start:] if last_line > line else data[start:end]
        return max(1, len(code.decode("utf-8", "ignore").rstrip()))


def _ends(text: str) -> dict[tuple[int, int], tuple[int, int]]:
    """Line and offset in bytes of each expression and statement -> those of its end."""
    try:
        tree = python_tree(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    ends: dict[tuple[int, int], tuple[int, int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt):
            start = node.lineno, node.col_offset
            end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset + 1
            ends[start] = max(end, ends.get(start, end))
    return ends
