"""Reads the source position of each line of LLVM IR from its debug info.

This is done with regular expressions, not with a parser: a line has one `!dbg !7` at most, and each
metadata node stands on a line of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from ...model import SourceLoc

_USE = re.compile(r"!dbg !(\d+)")
_RECORD = re.compile(r"^\s*#dbg_\w+\(.*, !(\d+)\)\s*$")
_NODE = re.compile(
    r"!(\d+) = (?:distinct )?!(DILocation|DISubprogram|DILexicalBlock\w*|DIFile)\((.*)\)\s*$"
)
_FIELD = re.compile(
    r'\b(line|column|scope|inlinedAt|file|filename|directory): (?:!?(\d+)|"((?:[^"\\]|\\.)*)")'
)
_MOST_FRAMES = 64  # of inlining that are followed; a malformed file may chain them in a circle

_Node = tuple[str, Mapping[str, str]]
"""A metadata node: its class (`DILocation`) and its fields."""


def llir_positions(lines: Sequence[str]) -> dict[int, SourceLoc]:
    """Line of LLVM IR, from 0 -> the source position it stems from; lines without one are left out.

    A `define` line has the position of the function's definition.
    """
    nodes = _nodes(lines)
    if not nodes:
        return {}
    debug_info = _DebugInfo(nodes)
    positions_by_line: dict[int, SourceLoc] = {}
    for number, line in enumerate(lines):
        match = _USE.search(line) if "!dbg" in line else None
        if match is None and "#dbg_" in line:
            match = _RECORD.match(line)
        if match is not None and not line.startswith("!"):
            loc = debug_info.location(match[1])
            if loc is not None:
                positions_by_line[number] = loc
    return positions_by_line


def _nodes(lines: Iterable[str]) -> dict[str, _Node]:
    """Number -> debug-info node, for the classes of nodes that positions are made of."""
    nodes: dict[str, _Node] = {}
    for line in lines:
        if line.startswith("!") and "!DI" in line:
            match = _NODE.match(line)
            if match is not None:
                fields = {name: text or number for name, number, text in _FIELD.findall(match[3])}
                nodes[match[1]] = (match[2], fields)
    return nodes


class _DebugInfo:
    """Source positions of the metadata nodes, each worked out once."""

    def __init__(self, nodes: Mapping[str, _Node]) -> None:
        self._nodes = nodes
        self._files: dict[str, str | None] = {}
        self._locations: dict[str, SourceLoc | None] = {}

    def location(self, number: str) -> SourceLoc | None:
        """The position that a node states; of a function, where it is defined."""
        if number not in self._locations:
            self._locations[number] = self._read_location(number)
        return self._locations[number]

    def _read_location(self, number: str) -> SourceLoc | None:
        """Returns a node's position with the calls it was inlined at; None where it has no line."""
        kind, fields = self._nodes.get(number, ("", {}))
        if kind == "DISubprogram":
            file, line = self._file(number), int(fields.get("line", 0))
            return SourceLoc(file, line) if file is not None and line else None
        frames: list[tuple[str, int, int | None]] = []
        node: str | None = number
        while node is not None and len(frames) < _MOST_FRAMES:
            kind, fields = self._nodes.get(node, ("", {}))
            if kind != "DILocation":
                break
            file, line = self._file(fields.get("scope", "")), int(fields.get("line", 0))
            if file is not None and line:
                frames.append((file, line, int(fields.get("column", 0)) or None))
            elif not frames:
                return None  # line 0 marks code that the compiler made
            node = fields.get("inlinedAt")
        position: SourceLoc | None = None
        for file, line, column in reversed(frames):
            position = SourceLoc(file, line, column, position)
        return position

    def _file(self, scope: str) -> str | None:
        if scope in self._files:
            return self._files[scope]
        self._files[scope] = None  # ends the recursion should a scope lie within itself
        kind, fields = self._nodes.get(scope, ("", {}))
        if kind == "DIFile":
            name, folder = fields.get("filename", ""), fields.get("directory", "")
            path = name if name.startswith("/") or not folder else f"{folder}/{name}"
            self._files[scope] = path or None
        else:
            inner = fields.get("file") or fields.get("scope")
            self._files[scope] = self._file(inner) if inner is not None else None
        return self._files[scope]
