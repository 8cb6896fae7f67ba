"""Splits MLIR text into tokens.

Two token patterns share one grammar. The statement pattern takes a full shaped type
(`tensor<128x64xf16, #blocked>`) and a full `loc(#loc12)` or `loc("name"(#loc12))` as one token:
modules repeat a few dozen types thousands of times, so the parser reads each spelling once and
keeps the result. The atom pattern has no such shortcut and reads the inside of a type. A full line
can be one token too; see `lines.py`.
"""

from __future__ import annotations

import re
from typing import NoReturn

from ..base.errors import KinspectError
from .lines import NAME, SHAPED, LocationLine, Statement, location, statement

_CUT_HINT = "the file may be cut off or edited; write it again with TRITON_KERNEL_DUMP=1"

_LOC_ALIAS = r'loc\((?:\#\w+|"[^"\\\n]*"\(\#\w+\))\)'
# Alternatives with different first characters stand in order of frequency: it halves the time.
_COMMON = (NAME, r"[\n,={}()\[\]*]")
_ATOMS = (
    r"[A-Za-z_][\w$.]*",
    r"[\#!^][\w$.]+",
    r"->|::?",
    r"-?0x[0-9A-Fa-f]+",
    r"(?:(?:\d+|\?)x)+",
    r"-?\d+\.\d*(?:[eE][+-]?\d+)?",
    r"-?\d+",
    r'"(?:[^"\\\n]|\\.)*"',
    r'@(?:[\w$.\-]+|"(?:[^"\\\n]|\\.)*")?',
    r"//[^\n]*",
    r"[^\s]",
)


def _pattern(*alternatives: str) -> re.Pattern[str]:
    # Matching the blanks saves a failed attempt at each of them.
    return re.compile(rf"[^\S\n]*({'|'.join(alternatives)})", re.ASCII)


_STATEMENT_RE = _pattern(*_COMMON, _LOC_ALIAS, SHAPED, *_ATOMS)
_ATOM_RE = _pattern(*_COMMON, *_ATOMS)

MAX_DEPTH = 64
"""Limit on nested brackets and regions: real modules stay below 12, and the parsers recurse."""


class Cursor:
    """A position in a token list; past the end every token is the empty string.

    Attributes:
        text: the full text, from which the spelling of a token range can be cut.
        tokens, starts, lines: the tokens, their offsets in `text` and their lines (from 1).
        i: index of the next token.
        line_statements: token index -> its parts, for tokens that are a full line.
        locations: alias -> the line that defines it; such lines are no tokens.
        between: indexes of the tokens that follow directly on such lines.
    """

    __slots__ = (
        "between",
        "i",
        "line_statements",
        "lines",
        "locations",
        "name",
        "starts",
        "text",
        "tokens",
    )

    def __init__(
        self,
        text: str,
        name: str,
        *,
        atoms: bool = False,
        line: int = 1,
        whole_lines: bool = False,
    ) -> None:
        self.text = text
        self.name = name
        self.i = 0
        self.tokens: list[str] = []
        self.starts: list[int] = []
        self.lines: list[int] = []
        self.line_statements: dict[int, Statement] = {}
        self.locations: dict[str | None, LocationLine] = {}
        self.between: set[int] = set()
        if whole_lines:
            line = self._read_lines(line)
        else:
            line = self._tokenize(_ATOM_RE if atoms else _STATEMENT_RE, 0, text, line)
        # Look-ahead is at most three tokens: with sentinels it needs no bounds checks.
        self.tokens += ("", "", "", "")
        self.starts += (len(text),) * 4
        self.lines += (line + 1,) * 4

    def _read_lines(self, line: int) -> int:
        """Adds the tokens of the text, which begins at `line`."""
        first_line = line
        start = 0
        for line, text in enumerate(self.text.split("\n"), first_line):
            if text[-1:] == ")":
                if text[0] == "#":
                    location_line = location(text)
                    if location_line is not None:
                        self.locations[location_line[0]] = location_line
                        self.between.add(len(self.tokens))
                        start += len(text) + 1
                        continue
                parsed = statement(text)
            else:
                parsed = None
            if parsed is not None:
                self.line_statements[len(self.tokens)] = parsed
                self.tokens.append(text.lstrip())
                self.starts.append(start + len(text) - len(self.tokens[-1]))
                self.lines.append(line)
            elif text:
                self._tokenize(_STATEMENT_RE, start, text, line)
            start += len(text) + 1
        return line

    def _tokenize(self, pattern: re.Pattern[str], start: int, text: str, line: int) -> int:
        """Adds the tokens of a text that stands at `start`, on `line`."""
        tokens, starts, lines = self.tokens, self.starts, self.lines
        # Without blanks at the end: a run of them would be tried at every offset.
        for match in pattern.finditer(text.rstrip()):
            token = match[1]
            if token == "\n":
                line += 1
                continue
            if token[:2] == "//":
                continue
            if token == '"':  # fails at once: each quote would be tried again
                raise self._error(line, "a string without its closing quote")
            tokens.append(token)
            starts.append(start + match.start(1))
            lines.append(line)
        return line

    def peek(self) -> str:
        """The next token."""
        return self.tokens[self.i]

    def take(self) -> str:
        """Move over one token and return it; the end of the text is an error."""
        token = self.tokens[self.i]
        if not token:
            self.fail("unexpected end of the text")
        self.i += 1
        return token

    def accept(self, token: str) -> bool:
        """Move over `token` if it comes next."""
        if self.tokens[self.i] == token:
            self.i += 1
            return True
        return False

    def expect(self, token: str) -> None:
        """Move over `token`; anything else is an error."""
        actual = self.tokens[self.i]
        if actual != token:
            self.fail(f"expected `{token}`, found `{actual[:40]}`" if actual else f"no `{token}`")
        self.i += 1

    def spelling(self, start: int, stop: int) -> str:
        """The text of the tokens `start:stop`, as it stands in the file."""
        if stop <= start:
            return ""
        return self.text[self.starts[start] : self.starts[stop - 1] + len(self.tokens[stop - 1])]

    def adjacent(self) -> bool:
        """Whether no space stands between the token before and the one that comes next."""
        i = self.i
        return i > 0 and self.starts[i - 1] + len(self.tokens[i - 1]) == self.starts[i]

    def skip_balanced(self, opening: str, closing: str) -> None:
        """Move over a bracketed group, the opening bracket included."""
        self.expect(opening)
        depth = 1
        while depth:
            token = self.take()
            if token == opening:
                depth += 1
            elif token == closing:
                depth -= 1

    def fail(self, message: str) -> NoReturn:
        """Raise the error that names file and line."""
        raise self._error(self.lines[min(self.i, len(self.lines) - 1)], message)

    def _error(self, line: int, message: str) -> KinspectError:
        return KinspectError(f"{self.name}:{line}: cannot read the MLIR text: {message}", _CUT_HINT)
