"""Links the lines of a kernel's texts (source, TTGIR, LLVM IR, ISA) that stem from one source line.

A position may have been inlined: `tl.max(x)` in the kernel leads into Triton's own files. Lines are
linked by the innermost frame in the user's code. The frames that call it, up to the kernel, link to
the source as well, so that the line of a call leads to all code that the call became.

The positions of lines of LLVM IR are read with regular expressions, not with a parser: a line has
one `!dbg !7` at most, and each metadata node stands on a line of its own.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from ...model import SourceLoc

REACH = 12
"""How many lines away a neighbour may be whose position is used for a line that has none."""
_GAP = 24
"""Two lines of a statement at most this far apart belong to one stretch of its code."""

_Position = tuple[int, int]
"""The number of a file, and a line in it, from 1."""


class Links:
    """Links between the lines of several texts. Lines are counted from 0.

    Args:
        positions: kind of text -> line -> the source position it stems from.
        length: how many lines that file has.
    """

    def __init__(
        self,
        positions: Mapping[str, Mapping[int, SourceLoc]],
        source: str | None = None,
        length: int = 0,
    ) -> None:
        self._length = length
        files = _FileNumbers(positions, source)
        self._source = files.number(source) if source is not None else -1
        places: dict[int, tuple[_Position, ...]] = {}  # id of a position -> its frames in user code
        self._frames: dict[str, dict[int, tuple[_Position, ...]]] = {}
        self._columns: dict[str, dict[int, int | None]] = {}
        self._exact: dict[str, dict[tuple[_Position, int], list[int]]] = {}
        self._lines: dict[str, dict[_Position, list[int]]] = {}
        self._all: dict[str, dict[_Position, list[int]]] = {}
        self._placed_lines: dict[str, list[int]] = {}
        for kind, by_line in positions.items():
            frames = self._frames[kind] = {}
            columns = self._columns[kind] = {}
            exact = self._exact[kind] = {}
            own = self._lines[kind] = {}
            every = self._all[kind] = {}
            for line in sorted(by_line):
                loc = by_line[line]
                chain = places.get(id(loc))
                if chain is None:
                    chain = places[id(loc)] = files.frames(loc)
                frames[line] = chain
                column = columns[line] = loc.in_user_code.column
                own.setdefault(chain[0], []).append(line)
                if column is not None:
                    exact.setdefault((chain[0], column), []).append(line)
                for position in chain:
                    every.setdefault(position, []).append(line)
            self._placed_lines[kind] = sorted(by_line)

    def related(self, kind: str, line: int, target: str) -> tuple[int, ...]:
        """The lines of another text that stem from the same source as a line, from 0, of this one.

        From a source line: all lines that have it among their frames. To the source: the line's
        frames, the innermost first. Between two other texts: the lines of the same expression, if
        both texts state columns and one matches, else of the same source line. Empty where the line
        has no position.
        """
        if kind == target:
            return ()
        if kind == "source":
            stemming: Iterable[int] = self._all.get(target, {}).get((self._source, line + 1), ())
            return tuple(stemming)
        chain = self._frames.get(kind, {}).get(line)
        if chain is None:
            return ()
        if target == "source":
            lines = (position[1] - 1 for position in chain if position[0] == self._source)
            return tuple(dict.fromkeys(number for number in lines if 0 <= number < self._length))
        column = self._columns[kind][line]
        if column is not None:
            same_expression = self._exact.get(target, {}).get((chain[0], column))
            if same_expression:
                return tuple(same_expression)
        return tuple(self._lines.get(target, {}).get(chain[0], ()))

    def nearest(self, kind: str, line: int, target: str) -> int | None:
        """The line of another text that a reader of this line, from 0, wants to see.

        Where a statement became many lines, it is the first line of the stretch that holds most of
        them. A line without a position (a directive, a comment) uses that of the nearest line that
        has one; of two equally near, the one below.
        """
        if kind == target:
            return line
        for candidate in self._around(kind, line):
            related_lines = self.related(kind, candidate, target)
            if related_lines:
                if target == "source":
                    return related_lines[0]
                own_lines = self._without_callees(kind, candidate, target)
                return _densest_stretch(own_lines or related_lines)
        return None

    def _without_callees(self, kind: str, line: int, target: str) -> Sequence[int]:
        """For a source line: the lines that stem from itself, not from a function it calls."""
        if kind != "source":
            return ()
        return self._lines.get(target, {}).get((self._source, line + 1), ())

    def _around(self, kind: str, line: int) -> list[int]:
        """The lines with a position within `REACH` of a line, itself included, nearest first."""
        nearby_lines: Sequence[int]
        if kind == "source":
            nearby_lines = range(max(0, line - REACH), line + REACH + 1)
        else:
            placed_lines = self._placed_lines.get(kind, [])
            first = bisect_left(placed_lines, line - REACH)
            nearby_lines = placed_lines[first : bisect_left(placed_lines, line + REACH + 1)]
        return sorted(nearby_lines, key=lambda nearby: (abs(nearby - line), nearby < line))


def _densest_stretch(lines: Sequence[int]) -> int:
    """The first line of the stretch (see `_GAP`) that holds most of these ascending lines."""
    best, best_count = lines[0], 0
    start, count, last = lines[0], 0, lines[0]
    for line in lines:
        if line - last > _GAP:
            start, count = line, 0
        count += 1
        last = line
        if count > best_count:
            best, best_count = start, count
    return best


class _FileNumbers:
    """Numbers files, giving one number to paths of which one is the tail of the other."""

    def __init__(
        self, positions: Mapping[str, Mapping[int, SourceLoc]], source: str | None
    ) -> None:
        names: dict[str, None] = {} if source is None else {source: None}
        visited: set[int] = set()
        for by_line in positions.values():
            for loc in by_line.values():
                frame: SourceLoc | None = loc
                while frame is not None and id(frame) not in visited:
                    visited.add(id(frame))
                    names[frame.file] = None
                    frame = frame.inlined_at
        self._numbers: dict[str, int] = {}
        by_base: dict[str, list[PurePath]] = {}
        # The longest first, so that a shorter path finds those that it may be the tail of.
        for name in sorted(names, key=lambda n: -len(PurePath(n).parts)):
            path = PurePath(name)
            same_base = by_base.setdefault(path.name, [])
            longer = [
                candidate
                for candidate in same_base
                if candidate.parts[-len(path.parts) :] == path.parts
            ]
            if len(longer) == 1:
                self._numbers[name] = self._numbers[str(longer[0])]
                continue
            self._numbers[str(path)] = self._numbers[name] = len(self._numbers)
            same_base.append(path)

    def number(self, name: str) -> int:
        """The file's number."""
        return self._numbers[name]

    def frames(self, loc: SourceLoc) -> tuple[_Position, ...]:
        """A position's frames in the user's code, the innermost first."""
        frame: SourceLoc | None = loc.in_user_code
        places: dict[_Position, None] = {}
        while frame is not None:
            if not frame.in_library or not places:
                places[self._numbers[frame.file], frame.line] = None
            frame = frame.inlined_at
        return tuple(places)


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
