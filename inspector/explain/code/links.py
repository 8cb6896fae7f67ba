"""Which lines of one text stem from the same source as a line of another.

A position may have been inlined: `tl.max(x)` in the kernel leads into Triton's own files. The
position that counts is the innermost one that the user wrote; the calls around it, up to the
kernel, count for the source, so that a call's line leads to all that it became.

Positions in LLVM IR are read with patterns, not with a parser: one `!dbg !7` at most stands on a
line, and the metadata that it leads to is one node per line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from ...model import SourceLoc

REACH = 12
"""Lines that a neighbour may be away to stand in for a line that has no position of its own."""
_GAP = 24
"""Lines of other origin within what still is one stretch of a statement's code."""

_Place = tuple[int, int]
"""The number of a file, and a line in it."""


class Links:
    """Lines that belong together. All lines count from 0.

    Args:
        positions: kind of text -> line -> what it stems from.
        source: the file that is shown as source; None where none is.
        length: how many lines that file has.
    """

    def __init__(
        self,
        positions: Mapping[str, Mapping[int, SourceLoc]],
        source: str | None = None,
        length: int = 0,
    ) -> None:
        self._length = length
        files = _Files(positions, source)
        self._source = files.number(source) if source is not None else -1
        places: dict[int, tuple[_Place, ...]] = {}  # id of a position -> its frames by the user
        self._frames: dict[str, dict[int, tuple[_Place, ...]]] = {}
        self._columns: dict[str, dict[int, int | None]] = {}
        self._exact: dict[str, dict[tuple[_Place, int], list[int]]] = {}
        self._lines: dict[str, dict[_Place, list[int]]] = {}
        self._all: dict[str, dict[_Place, list[int]]] = {}
        self._placed_lines: dict[str, list[int]] = {}
        for kind, by_line in positions.items():
            frames = self._frames[kind] = {}
            columns = self._columns[kind] = {}
            exact = self._exact[kind] = {}
            own = self._lines[kind] = {}
            every = self._all[kind] = {}
            for line in sorted(by_line):
                at = by_line[line]
                chain = places.get(id(at))
                if chain is None:
                    chain = places[id(at)] = files.frames(at)
                frames[line] = chain
                column = columns[line] = at.in_user_code.column
                own.setdefault(chain[0], []).append(line)
                if column is not None:
                    exact.setdefault((chain[0], column), []).append(line)
                for place in chain:
                    every.setdefault(place, []).append(line)
            self._placed_lines[kind] = sorted(by_line)

    def related(self, kind: str, line: int, target: str) -> tuple[int, ...]:
        """The lines of another text that stem from the same source as a line of this one.

        Between the source and another text these are all that have its line among their frames, in
        the source the innermost first. Otherwise they are those of the same statement: of the very
        expression where both texts state columns and one has it.

        Args:
            kind: which text the line is in.
            line: the line, from 0.
            target: which text to look in.

        Returns:
            Its lines; none where the line has no position, or the other text nothing of it.
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
            lines = (place[1] - 1 for place in chain if place[0] == self._source)
            return tuple(dict.fromkeys(at for at in lines if 0 <= at < self._length))
        column = self._columns[kind][line]
        if column is not None:
            same_expression = self._exact.get(target, {}).get((chain[0], column))
            if same_expression:
                return tuple(same_expression)
        return tuple(self._lines.get(target, {}).get(chain[0], ()))

    def nearest(self, kind: str, line: int, target: str) -> int | None:
        """The line of another text that a reader of this line wants to see.

        Where a statement has become many lines it is the first of where most of them stand. A line
        without a position of its own (a directive, a comment) takes that of the nearest line that
        has one, the following before the preceding.

        Args:
            kind: which text the line is in.
            line: the line, from 0.
            target: which text to look in.
        """
        if kind == target:
            return line
        for candidate in self._around(kind, line):
            related_lines = self.related(kind, candidate, target)
            if related_lines:
                if target == "source":
                    return related_lines[0]
                own = self._of_its_own(kind, candidate, target)
                return _thickest(own or related_lines)
        return None

    def place(self, kind: str, line: int) -> bool:
        """Whether a line has a position of its own."""
        return kind == "source" or line in self._frames.get(kind, {})

    def _of_its_own(self, kind: str, line: int, target: str) -> Sequence[int]:
        """From the source: what stems from the line itself rather than from what it calls."""
        if kind != "source":
            return ()
        return self._lines.get(target, {}).get((self._source, line + 1), ())

    def _around(self, kind: str, line: int) -> list[int]:
        """The line, then others near it that have a position, the nearest first."""
        if kind == "source":
            near = range(max(0, line - REACH), line + REACH + 1)
        else:
            placed_lines = self._placed_lines.get(kind, [])
            first = bisect_left(placed_lines, line - REACH)
            nearby_lines = placed_lines[first : bisect_left(placed_lines, line + REACH + 1)]
            return sorted(nearby_lines, key=lambda at: (abs(at - line), at < line))
        return sorted(near, key=lambda at: (abs(at - line), at < line))


def _thickest(lines: Sequence[int]) -> int:
    """The first line of the stretch that holds most of these lines."""
    best, most = lines[0], 0
    start, count, last = lines[0], 0, lines[0]
    for line in lines:
        if line - last > _GAP:
            start, count = line, 0
        count += 1
        last = line
        if count > most:
            best, most = start, count
    return best


class _Files:
    """Numbers for files: texts may name one file by paths of different lengths."""

    def __init__(
        self, positions: Mapping[str, Mapping[int, SourceLoc]], source: str | None
    ) -> None:
        names: dict[str, None] = {} if source is None else {source: None}
        visited: set[int] = set()
        for by_line in positions.values():
            for at in by_line.values():
                frame: SourceLoc | None = at
                while frame is not None and id(frame) not in visited:
                    visited.add(id(frame))
                    names[frame.file] = None
                    frame = frame.inlined_at
        self._numbers: dict[str, int] = {}
        by_base: dict[str, list[PurePath]] = {}
        for name in sorted(names, key=lambda n: -len(PurePath(n).parts)):  # the fullest first
            path = PurePath(name)
            alike = by_base.setdefault(path.name, [])
            longer = [
                candidate
                for candidate in alike
                if candidate.parts[-len(path.parts) :] == path.parts
            ]
            if len(longer) == 1:
                self._numbers[name] = self._numbers[str(longer[0])]
                continue
            self._numbers[str(path)] = self._numbers[name] = len(self._numbers)
            alike.append(path)

    def number(self, name: str) -> int:
        """The file's number."""
        return self._numbers[name]

    def frames(self, at: SourceLoc) -> tuple[_Place, ...]:
        """The lines by the user that a position goes through, the innermost first."""
        frame: SourceLoc | None = at.in_user_code
        places: dict[_Place, None] = {}
        while frame is not None:
            if not frame.in_library or not places:
                places[self._numbers[frame.file], frame.line] = None
            frame = frame.inlined_at
        return tuple(places)


# --------------------------------------------------------------------------- LLVM IR

_USE = re.compile(r"!dbg !(\d+)")
_RECORD = re.compile(r"^\s*#dbg_\w+\(.*, !(\d+)\)\s*$")
_NODE = re.compile(
    r"!(\d+) = (?:distinct )?!(DILocation|DISubprogram|DILexicalBlock\w*|DIFile)\((.*)\)\s*$"
)
_FIELD = re.compile(
    r'\b(line|column|scope|inlinedAt|file|filename|directory): (?:!?(\d+)|"((?:[^"\\]|\\.)*)")'
)
_MOST_FRAMES = 64

_Node = tuple[str, Mapping[str, str]]


def llir_positions(lines: Sequence[str]) -> dict[int, SourceLoc]:
    """Line -> the position that it stems from; lines without one are left out.

    Lines count from 0. A function's first line stands for where it is defined.
    """
    nodes = _nodes(lines)
    if not nodes:
        return {}
    table = _Table(nodes)
    positions_by_line: dict[int, SourceLoc] = {}
    for number, line in enumerate(lines):
        match = _USE.search(line) if "!dbg" in line else None
        if match is None and "#dbg_" in line:
            match = _RECORD.match(line)
        if match is not None and not line.startswith("!"):
            at = table.at(match[1])
            if at is not None:
                positions_by_line[number] = at
    return positions_by_line


def _nodes(lines: Iterable[str]) -> dict[str, _Node]:
    nodes: dict[str, _Node] = {}
    for line in lines:
        if line.startswith("!") and "!DI" in line:
            match = _NODE.match(line)
            if match is not None:
                fields = {name: text or number for name, number, text in _FIELD.findall(match[3])}
                nodes[match[1]] = (match[2], fields)
    return nodes


class _Table:
    def __init__(self, nodes: Mapping[str, _Node]) -> None:
        self._nodes = nodes
        self._files: dict[str, str | None] = {}
        self._locations: dict[str, SourceLoc | None] = {}

    def at(self, number: str) -> SourceLoc | None:
        """The position that a node states; of a function, where it is defined."""
        if number not in self._locations:
            self._locations[number] = self._location(number)
        return self._locations[number]

    def _location(self, number: str) -> SourceLoc | None:
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
                return None  # line 0: made by the compiler
            node = fields.get("inlinedAt")
        position: SourceLoc | None = None
        for file, line, column in reversed(frames):
            position = SourceLoc(file, line, column, position)
        return position

    def _file(self, scope: str) -> str | None:
        """The file that a scope lies in."""
        if scope in self._files:
            return self._files[scope]
        self._files[scope] = None  # what a scope within itself sees
        kind, fields = self._nodes.get(scope, ("", {}))
        if kind == "DIFile":
            name, folder = fields.get("filename", ""), fields.get("directory", "")
            path = name if name.startswith("/") or not folder else f"{folder}/{name}"
            self._files[scope] = path or None
        else:
            inner = fields.get("file") or fields.get("scope")
            self._files[scope] = self._file(inner) if inner is not None else None
        return self._files[scope]
