"""MLIR source locations: the `#loc` table and its resolution to `SourceLoc`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from ..model import SourceLoc
from .attrs import number, unquote
from .lexer import MAX_DEPTH, Cursor
from .lines import LocationLine

MAX_FRAMES = 64
"""Limit on an inlined-at chain; hostile tables can double its length line by line."""

# A compiler's own files. Recompiling saved TTIR yields positions inside that file: not source.
_NOT_SOURCE_RE = re.compile(r"(?:\.(?:ttir|ttgir|mlir|llir|ll|gluon)|<[^>]*>|-)\Z")


class FileLoc(Struct, frozen=True):
    """`loc("file":line:column)`."""

    file: str
    line: int
    column: int


class CallSiteLoc(Struct, frozen=True):
    """`loc(callsite(callee at caller))`."""

    callee: Loc
    caller: Loc


class Fused(Struct, frozen=True):
    """`loc(fused[a, b])`."""

    parts: tuple[Loc, ...]


class Alias(Struct, frozen=True):
    """`#loc12`, to be looked up once the whole table is read."""

    name: str


Loc = FileLoc | CallSiteLoc | Fused | Alias | None
"""A parsed location; a named one (`loc("x"(#loc3))`) is its child, an unknown one None."""


def parse_loc(cursor: Cursor, depth: int = 0) -> Loc:
    """Parse `loc(...)`, the keyword included.

    Raises:
        KinspectError: on malformed or too deeply nested text.
    """
    token = cursor.take()
    if len(token) > 3 and token.startswith("loc("):  # one token: `loc(#l2)`, `loc("name"(#l2))`
        return Alias(token[4:-1] if token[4] == "#" else token[token.rindex("#") : -2])
    if token != "loc":
        cursor.i -= 1
        cursor.fail(f"`{token[:40]}` is not a location")
    cursor.expect("(")
    result = _inner(cursor, depth + 1)
    cursor.expect(")")
    return result


def _inner(cursor: Cursor, depth: int) -> Loc:
    """Parses what stands between the parentheses of `loc(...)`."""
    if depth > MAX_DEPTH:
        cursor.fail(f"locations nest deeper than {MAX_DEPTH}")
    token = cursor.peek()
    if token == "loc" or token.startswith("loc("):
        return parse_loc(cursor, depth)
    cursor.take()
    if token[0] == "#":
        if cursor.peek() == "<":  # an attribute of a debug-info dialect in place of a location
            cursor.skip_balanced("<", ">")
            return None
        return Alias(token)
    if token[0] == '"':
        return _named_or_file(cursor, unquote(token), depth)
    if token == "callsite":
        cursor.expect("(")
        callee = _inner(cursor, depth + 1)
        cursor.expect("at")
        caller = _inner(cursor, depth + 1)
        cursor.expect(")")
        return CallSiteLoc(callee, caller)
    if token == "fused":
        if cursor.peek() == "<":
            cursor.skip_balanced("<", ">")
        cursor.expect("[")
        parts: list[Loc] = []
        while not cursor.accept("]"):
            parts.append(_inner(cursor, depth + 1))
            if not cursor.accept(",") and cursor.peek() != "]":
                cursor.fail(f"expected `,` or `]`, found `{cursor.peek()[:40]}`")
        return Fused(tuple(parts))
    if token == "unknown":
        return None
    cursor.i -= 1
    return cursor.fail(f"`{token[:40]}` is not a location")


def _named_or_file(cursor: Cursor, text: str, depth: int) -> Loc:
    """Parses the rest of `"name"(...)` or `"file":line:column`; `text` is the string."""
    if cursor.accept("("):
        child = _inner(cursor, depth + 1)
        cursor.expect(")")
        return child
    if not cursor.accept(":"):
        return None  # a name without a position
    line = _natural(cursor)
    column = _natural(cursor) if cursor.accept(":") else 0
    if cursor.accept("to"):  # a range `to :line:column` or `to :column`: its end is ignored
        while cursor.accept(":"):
            _natural(cursor)
    return FileLoc(text, line, column)


def _natural(cursor: Cursor) -> int:
    value = number(cursor.take())
    if not isinstance(value, int) or value < 0:
        cursor.i -= 1
        cursor.fail(f"`{cursor.peek()[:40]}` is not a line or column number")
    return value


class LocTable:
    """The file's `#loc` aliases, resolved on demand, each once."""

    __slots__ = ("_aliases", "_lines", "_resolved")

    def __init__(self, aliases: dict[str, Loc], lines: Mapping[str | None, LocationLine]) -> None:
        self._aliases = aliases
        self._lines = lines
        self._resolved: dict[str, SourceLoc | None] = {}

    def resolve(self, loc: Loc) -> SourceLoc | None:
        """The source position of a location, None where it has none.

        Unknown locations, line 0 and positions in a compiler's intermediate file have none, nor has
        an alias where its own definition leads back to it. A call site is the callee's position
        with `inlined_at` the caller's; a fused location is its first part that has a position.
        The result does not depend on earlier calls.
        """
        if isinstance(loc, Alias):
            if loc.name not in self._resolved and not self._resolve_at_once(loc.name):
                self._resolve_aliases(loc.name)
            return self._resolved[loc.name]
        for name in _alias_names(loc):
            self.resolve(Alias(name))
        return self._position(loc)

    def _resolve_at_once(self, name: str) -> bool:
        """Resolves an alias that refers to resolved ones only; returns False for others."""
        for reference in self._references(name):
            if reference not in self._resolved:
                return False
        self._resolved[name] = self._definition(name)
        return True

    def _resolve_aliases(self, root: str) -> None:
        """Resolves an alias and all aliases that it depends on, these first.

        Aliases that depend on one another (a strongly connected component, by Tarjan) see each
        other as without a position. Not recursive, since chains may exceed Python's stack.
        """
        resolved = self._resolved
        order: dict[str, int] = {}
        lowest: dict[str, int] = {}
        component_stack: list[str] = []
        path: list[tuple[str, Iterator[str]]] = []

        def enter(name: str) -> None:
            order[name] = lowest[name] = len(order)
            component_stack.append(name)
            path.append((name, iter(self._references(name))))

        enter(root)
        while path:
            name, references = path[-1]
            for reference in references:
                if reference in resolved:
                    continue
                if reference not in order:
                    if self._resolve_at_once(reference):
                        continue
                    enter(reference)
                    break
                lowest[name] = min(lowest[name], order[reference])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    lowest[parent] = min(lowest[parent], lowest[name])
                if lowest[name] == order[name]:
                    start = component_stack.index(name) if component_stack[-1] != name else -1
                    members = component_stack[start:]
                    del component_stack[start:]
                    resolved.update(dict.fromkeys(members))
                    resolved.update([(member, self._definition(member)) for member in members])

    def _references(self, name: str) -> Iterable[str]:
        """The aliases that the definition of an alias names."""
        line = self._lines.get(name)
        if line is None:
            return _alias_names(self._aliases.get(name))
        child, callee, caller = line[4:]
        if child is not None:
            return (child,)
        return (callee, caller) if callee is not None and caller is not None else ()

    def _definition(self, name: str) -> SourceLoc | None:
        """The position of an alias whose references are resolved."""
        line = self._lines.get(name)
        if line is None:
            return self._position(self._aliases.get(name))
        _, file, number, column, child, callee, caller = line
        if file is not None and number is not None and column is not None:
            return _position(file, int(number), int(column))
        if child is not None:
            return self._resolved[child]
        if callee is not None and caller is not None:
            return _inline(self._resolved[callee], self._resolved[caller])
        return None

    def _position(self, loc: Loc) -> SourceLoc | None:
        """The position of a location whose aliases are resolved."""
        if isinstance(loc, Alias):
            return self._resolved[loc.name]
        if isinstance(loc, FileLoc):
            return _position(loc.file, loc.line, loc.column)
        if isinstance(loc, CallSiteLoc):
            return _inline(self._position(loc.callee), self._position(loc.caller))
        if isinstance(loc, Fused):
            for part in loc.parts:
                source_loc = self._position(part)
                if source_loc is not None:
                    return source_loc
        return None


def _alias_names(loc: Loc) -> Iterator[str]:
    """The aliases in a location."""
    if isinstance(loc, Alias):
        yield loc.name
    elif isinstance(loc, CallSiteLoc):
        yield from _alias_names(loc.callee)
        yield from _alias_names(loc.caller)
    elif isinstance(loc, Fused):
        for part in loc.parts:
            yield from _alias_names(part)


def _position(file: str, line: int, column: int) -> SourceLoc | None:
    if line == 0 or _NOT_SOURCE_RE.search(file):
        return None
    return SourceLoc(file, line, column or None)


def _inline(callee: SourceLoc | None, caller: SourceLoc | None) -> SourceLoc | None:
    """The callee's position with the caller's at the end of its inlined-at chain."""
    if callee is None or caller is None:
        return callee or caller
    frames: list[SourceLoc] = []
    for chain in (callee, caller):
        frame_loc: SourceLoc | None = chain
        while frame_loc is not None and len(frames) < MAX_FRAMES:
            frames.append(frame_loc)
            frame_loc = frame_loc.inlined_at
    result: SourceLoc | None = None
    for frame in reversed(frames):
        result = SourceLoc(frame.file, frame.line, frame.column, result)
    return result
