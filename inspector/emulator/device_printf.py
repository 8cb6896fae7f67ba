"""`printf` as device code sends it: a format string and arguments in 64-bit words.

What is sent: ROCm's clr, rocclr/device/devhcprintf.cpp. How it is written: as glibc's printf does.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Final

_SPECIFIER: Final = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXfFeEgGaAcspn]))"
)
_INTEGER_BITS: Final = {"hh": 8, "h": 16, None: 32}
"""Length in a specifier -> bits of the integer; others have 64."""
_WORD: Final = 8
_MOST_DIGITS: Final = 8
"""Digits that are read of a width or precision: more is beyond `_MOST_WIDTH` anyway."""
_MOST_WIDTH: Final = 4095
"""Width and precision that every C library can write (C11, 7.21.6.1)."""


def formatted(words: list[int]) -> str:
    """Returns the text that `printf` writes for a format string and arguments, as they were sent.

    `words`: 64 bits each: the format, zero-terminated, then each argument in a word of its own;
    strings take as many words as they need.
    """
    data = struct.pack(f"<{len(words)}Q", *words)
    format_text, offset = _string(data, 0)  # `offset`: where the next argument begins
    pieces, copied = [], 0
    for match in _SPECIFIER.finditer(format_text):
        pieces.append(format_text[copied : match.start()])
        copied = match.end()
        if match["kind"] is None:
            pieces.append("%")
            continue
        star_count = (match["width"], match["precision"]).count("*")
        if offset + _WORD * (star_count + 1) > len(data):
            return "".join(pieces)  # too few arguments: the runtime stops here
        sizes = [
            struct.unpack_from("<i", data, offset + _WORD * index)[0] for index in range(star_count)
        ]
        offset += _WORD * star_count
        layout = _layout(match, iter(sizes))
        if match["kind"] == "s":
            text, offset = _string(data, offset)
            pieces.append(f"%{layout}s" % text)
            continue
        (bits,) = struct.unpack_from("<Q", data, offset)
        pieces.append(_argument(match, layout, bits))
        offset += _WORD
    pieces.append(format_text[copied:])
    return "".join(pieces)


def _string(data: bytes, offset: int) -> tuple[str, int]:
    """A zero-terminated string, and where the word behind it begins."""
    end = data.find(b"\0", offset)
    end = len(data) if end < 0 else end
    words = (end - offset + _WORD) // _WORD  # with the zero that ends it
    return data[offset:end].decode(errors="replace"), offset + words * _WORD


def _layout(match: re.Match[str], sizes: Iterator[int]) -> str:
    """Flags, width and precision, with the arguments that stand for stars put in."""
    width = match["width"]
    if width:
        number = next(sizes) if width == "*" else int(width[:_MOST_DIGITS])
        width = str(max(-_MOST_WIDTH, min(number, _MOST_WIDTH)))
    if match["precision"] is None:
        return match["flags"] + width
    text = match["precision"]
    precision = min(next(sizes) if text == "*" else int(text[:_MOST_DIGITS] or 0), _MOST_WIDTH)
    return match["flags"] + width + (f".{precision}" if precision >= 0 else "")


def _argument(match: re.Match[str], layout: str, bits: int) -> str:
    """An argument that is a word, as its specifier writes it."""
    kind: str = match["kind"]
    if kind == "n":
        return ""
    if kind == "p":
        return f"%{layout}s" % (f"{bits:#x}" if bits else "(nil)")
    if kind == "c":
        return f"%{layout}s" % chr(bits & 0xFF)
    if kind in "diouxX":
        return _integer(kind, layout, bits, _INTEGER_BITS.get(match["length"], 64))
    return _float(match, layout, bits)


def _integer(kind: str, layout: str, bits: int, width: int) -> str:
    value = bits & ((1 << width) - 1)
    if kind in "di" and value >> (width - 1):
        value -= 1 << width
    if kind == "o" and "#" in layout:  # Python would write 0o17
        return f"%{layout.replace('#', '')}s" % (f"0{value:o}" if value else "0")
    return f"%{layout}{kind}" % value


def _float(match: re.Match[str], layout: str, bits: int) -> str:
    kind: str = match["kind"]
    (value,) = struct.unpack("<d", struct.pack("<Q", bits))
    if not math.isfinite(value):
        return _not_finite(match, layout, value, negative=bool(bits >> 63))
    if kind in "aA":
        text = _hexadecimal(value)
        return f"%{layout.partition('.')[0]}s" % (text.upper() if kind == "A" else text)
    return f"%{layout}{kind}" % value


def _not_finite(match: re.Match[str], layout: str, value: float, *, negative: bool) -> str:
    """`nan` or `inf`, to which no precision and no leading zeros apply."""
    text = ("-" if negative else "") + ("nan" if math.isnan(value) else "inf")
    sign = re.search("[+ ]", str(match["flags"]))
    if not negative and sign is not None:
        text = sign[0] + text
    width = re.match(r"[-+ #0]*(\d*)", layout)
    assert width is not None
    aligned = "%" + "-" * ("-" in match["flags"]) + width[1] + "s"
    return aligned % (text.upper() if match["kind"].isupper() else text)


def _hexadecimal(value: float) -> str:
    """Returns a float as glibc's `%a` writes it: no zeros at the end of the fraction."""
    mantissa, _, exponent = value.hex().partition("p")
    if not exponent:
        return mantissa
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent
