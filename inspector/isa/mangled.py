"""The plain names of mangled C++ functions (Itanium ABI): namespaces and name, no arguments."""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

_MARK = "_Z"
_NAMELESS = "{anonymous}"
_ANONYMOUS = re.compile(r"_GLOBAL__N_\d+$")
_LENGTH = re.compile(r"[0-9]{1,6}")
_SKIPPED = re.compile(r"S[0-9A-Z]*_|S[a-z]|T[0-9]*_|DF[0-9]+[_b]|Dv[0-9]+_|A[0-9]*_|D[a-z]|[a-zU]")
"""Parts of types whose digits are no lengths of names, and types of one letter."""
_LITERAL = re.compile(r"[a-z]n?[0-9a-f]*E")
_OPENS = "NIJXFL"


def plain_name(symbol: str) -> str | None:
    """The name that a symbol stands for, `ns::f` of `_ZN2ns1fIiEEvT_`; None if it is not mangled.

    Names of operators, of functions in functions and of another form are not read either.
    """
    if not symbol.startswith(_MARK):
        return None
    reader = _Reader(symbol, len(_MARK))
    parts = reader.nested() if reader.takes("N") else [reader.name()]
    return None if not parts or None in parts else "::".join(filter(None, parts))


def written_name(symbol: str) -> str | None:
    """The same with template arguments, as far as they are numbers and plain types.

    `gemm<128, float, ...>` of a symbol whose third argument is another type. None if it is not
    mangled, or of another form.
    """
    if not symbol.startswith(_MARK) or plain_name(symbol) is None:
        return None
    reader = _Reader(symbol, len(_MARK), [])
    if reader.takes("N"):
        parts = reader.nested(written=True)
    else:
        name = reader.name()
        reader.known.append(name or LEFT_OUT)
        parts = [f"{name}{reader.arguments()}" if reader.takes("I") else name]
    return "::".join(part for part in parts if part and part != _NAMELESS)


_TYPES: Final = {
    "i": "int", "j": "unsigned", "f": "float", "d": "double", "b": "bool", "c": "char",
    "a": "signed char", "h": "unsigned char", "s": "short", "t": "unsigned short", "l": "long",
    "m": "unsigned long", "x": "long long", "y": "unsigned long long", "v": "void",
    "DF16_": "_Float16", "DF16b": "__bf16", "Dh": "half",
}  # fmt: skip
_NUMBER: Final = re.compile(r"L(?P<type>[a-z])(?P<sign>n?)(?P<digits>\d+)E")
_PLAIN: Final = re.compile("|".join(sorted(_TYPES, key=len, reverse=True)))
_MOST_ARGUMENTS: Final = 12
_MOST_NESTED: Final = 3
LEFT_OUT: Final = "..."
"""In place of a template argument that cannot be written."""
_REPEATED: Final = re.compile(r"S(?P<number>[0-9A-Z]*)_")


class _Reader(Struct):
    text: str
    at: int
    known: list[str] = []  # what stands behind S_, S0_ ...; kept for written names alone

    def takes(self, letter: str) -> bool:
        """Goes past a letter, if it stands here."""
        found = self.text.startswith(letter, self.at)
        self.at += found
        return found

    def name(self) -> str | None:
        """Reads a name with its length in front; an `L` before it says that it is of its file."""
        if self.text[self.at + 1 : self.at + 2].isdecimal():
            self.takes("L")
        length = _LENGTH.match(self.text, self.at)
        if length is None:
            return None
        start = length.end()
        self.at = start + int(length[0])
        name = self.text[start : self.at]
        if len(name) < int(length[0]):
            return None
        return _NAMELESS if _ANONYMOUS.match(name) else name

    def arguments(self, depth: int = 0) -> str:
        """Reads template arguments behind their `I`, up to their end: `<128, float, ...>`."""
        told: list[str] = []
        while self.at < len(self.text) and not self.takes("E"):
            argument = self._argument(depth) if len(told) < _MOST_ARGUMENTS else None
            if argument is None:
                told.append(LEFT_OUT)
                self.skip()
                break
            told.append(argument)
        return f"<{', '.join(told)}>" if told else ""

    def _argument(self, depth: int) -> str | None:
        """Reads a number, a plain type, a class or one that was there before; None for others."""
        for pattern, read in ((_NUMBER, _literal), (_PLAIN, _plain), (_REPEATED, self._repeated)):
            found = pattern.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return read(found)
        begin = self.at
        named = self._class()
        if named is not None and self.takes("I"):
            named = named + self.arguments(depth + 1) if depth < _MOST_NESTED else None
            self.known.append(named or LEFT_OUT)
        if named is None:
            self.at = begin
        return named

    def _class(self) -> str | None:
        """Reads the name of a class: `3Add`, or `N2ns3AddE` with its namespaces."""
        if not self.takes("N"):
            named = self.name() if self.text[self.at : self.at + 1].isdecimal() else None
            self.known += [] if named is None else [named]
            return named
        parts: list[str] = []
        while not self.takes("E"):
            former = _REPEATED.match(self.text, self.at)
            if former is not None and not parts:
                self.at = former.end()
                part = self._repeated(former)
            else:
                part = self.name()
            if part is None:
                return None
            parts.append(part)
            if former is None:
                self.known.append("::".join(parts))
        return "::".join(parts)

    def _repeated(self, found: re.Match[str]) -> str | None:
        number = int(found["number"], 36) + 1 if found["number"] else 0
        return self.known[number] if number < len(self.known) else None

    def nested(self, *, written: bool = False) -> list[str | None]:
        """Reads the names up to the end of a nested one.

        `written`: whether template arguments are told; else they are left out.
        """
        parts: list[str | None] = []
        while self.at < len(self.text) and not self.takes("E"):
            if self.takes("I"):
                if written and parts:
                    self.known += [
                        "::".join(filter(None, parts[: n + 1])) for n in range(len(parts))
                    ]
                    parts[-1] = f"{parts[-1]}{self.arguments()}"
                else:
                    self.skip()
            elif self.takes("St"):
                parts.append("std")
            elif not parts and self.text[self.at] in "rVK":
                self.at += 1
            else:
                parts.append(self.name())
                if parts[-1] is None:
                    break
        return parts

    def skip(self) -> None:
        """Goes past the end of what was opened, whatever is nested in it."""
        depth = 1
        while depth and self.at < len(self.text):
            if self.text[self.at].isdecimal():
                self.name()
            elif self.takes("E"):
                depth -= 1
            elif self.takes("L"):
                if (value := _LITERAL.match(self.text, self.at)) is not None:
                    self.at = value.end()
                else:  # of an enumeration: its value's digits are followed by the end
                    depth += 1
                    self.enumeration()
            elif self.text[self.at] in _OPENS:
                self.at += 1
                depth += 1
            elif (skipped := _SKIPPED.match(self.text, self.at)) is not None:
                self.at = skipped.end()
            else:
                self.at += 1

    def enumeration(self) -> None:
        """Goes past the type and the digits of a literal of an enumeration."""
        if self.takes("N"):
            self.skip()
        else:
            self.name()
        self.takes("n")
        while self.text[self.at : self.at + 1].isdecimal():
            self.at += 1


def _plain(found: re.Match[str]) -> str:
    return _TYPES[found[0]]


def _literal(number: re.Match[str]) -> str:
    if number["type"] == "b":
        return "false" if number["digits"] == "0" else "true"
    return ("-" if number["sign"] else "") + number["digits"]
