"""Text of strangers made harmless for whatever shows it: a terminal, Markdown, HTML, XML, a log.

Symbols, paths, messages and recordings may hold characters that steer what shows them: ESC opens
terminal commands (colours, titles, the clipboard), C1 controls do so in one byte, bidirectional
overrides and invisible characters make a line read as another, lone surrogates cannot be encoded.
Each is spelled the way JSON spells it: ESC becomes the six characters `\\u001b`. That can be seen
and searched for, reads the same everywhere, and inside of a JSON string it still means the very
character that was there, so that a JSON document passes through a cleaned stream without loss.

Where columns count (code with coloured spans), `printable_columns` puts one character for one.
"""

from __future__ import annotations

import re

# C0 but tab and line feed (a carriage return before one is part of the line's end), DEL and C1,
# the Arabic letter mark, zero-width space and direction marks, line and paragraph separators and
# bidirectional overrides, invisible operators and isolates, surrogates, byte order mark,
# annotation marks and non-characters, invisible tags.
_STEERING = (
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufdd0-\ufdef\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_UNSAFE = re.compile(rf"{_STEERING}|\r(?!\n)")
_UNSAFE_OR_BREAK = re.compile(rf"{_STEERING}|[\r\n\t]")
_HARMLESS = bytes([9, 10, *range(32, 127)])
_BREAKS = {"\n": " ", "\t": " ", "\r": " "}


def is_printable(text: str) -> bool:
    """Tells whether nothing in a text of any number of lines would be spelled out."""
    if text.isprintable():
        return True
    if text.isascii():  # what is left without the harmless: a fifth of what the pattern takes
        return not text.encode("ascii").translate(None, _HARMLESS) or _UNSAFE.search(text) is None
    return _UNSAFE.search(text) is None


def printable(text: str) -> str:
    """Spells out control characters, but for line feeds and tabs."""
    return text if is_printable(text) else _UNSAFE.sub(_spelled, text)


def printable_line(text: str) -> str:
    """Spells out control characters of a name or path; line ends and tabs become blanks."""
    return text if text.isprintable() else _UNSAFE_OR_BREAK.sub(_on_one_line, text)


def printable_columns(text: str) -> str:
    """Replaces control characters by U+FFFD, one for one, but for line feeds and tabs."""
    return text if is_printable(text) else _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)


def _spelled(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code > 0xFFFF:  # as JSON does: a pair of surrogates
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


def _on_one_line(match: re.Match[str]) -> str:
    return _BREAKS.get(match[0]) or _spelled(match)


def one_line(text: str) -> str:
    """Returns text on one line that every format can hold; U+FFFD replaces other characters."""
    return " ".join(printable_columns(text).split())


def spreadsheet_cell(value: object) -> object:
    """A cell of a CSV file, which a spreadsheet takes for no formula."""
    is_formula = isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r")
    return f"'{value}" if is_formula else value
