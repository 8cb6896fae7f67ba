"""The constants that an assembly text defines beside its code: tables and strings in `.rodata`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from msgspec import Struct, field

from ...base.limits import MOST_CONSTANTS, LimitError

_LABEL: Final = re.compile(r"\s*([A-Za-z_.$][\w.$@]*):")
_DIRECTIVE: Final = re.compile(r"\s*(\.\w+)\s*(.*)")
_WIDTHS: Final = {
    ".byte": 1, ".short": 2, ".2byte": 2, ".hword": 2, ".long": 4, ".4byte": 4, ".int": 4,
    ".quad": 8, ".8byte": 8,
}  # fmt: skip
_WIDEST: Final = 8
"""The widest value that `.fill` repeats, in bytes."""
_STRINGS: Final = {".ascii": b"", ".asciz": b"\0", ".string": b"\0"}
_ESCAPE: Final = re.compile(rb'\\([0-7]{1,3}|x[0-9A-Fa-f]+|[btnfr"\\])')
_ESCAPED: Final = {b"b": 8, b"t": 9, b"n": 10, b"f": 12, b"r": 13, b'"': 34, b"\\": 92}


class Constants(Struct, frozen=True):
    """Data of a text, laid out as the linker would: sections in the order of the file.

    Args:
        data: the bytes.
        symbols: name -> offset of its first byte.
    """

    data: bytes = b""
    symbols: dict[str, int] = field(default_factory=dict)


def read_constants(text: str, name: str) -> Constants:
    """Reads the constants in the data sections of assembly as LLVM prints it.

    A symbol whose value is an expression (a jump table) is left out.

    Args:
        text: the assembly.
        name: name of its file, for messages.

    Raises:
        LimitError: the constants take more than `limits.MOST_CONSTANTS`.
    """
    image = bytearray()
    symbols: dict[str, int] = {}
    names: list[str] = []
    in_data = False
    for line in text.splitlines():
        code = line.partition(";")[0] if '"' not in line else line
        label = _LABEL.match(code)
        if label is not None:
            if in_data:
                names = [label[1]]
                symbols[label[1]] = len(image)
            code = code[label.end() :]
        directive = _DIRECTIVE.match(code)
        if directive is None:
            continue
        word, operands = directive[1], directive[2].strip()
        if word in (".section", ".text", ".data", ".rodata"):
            section = operands.partition(",")[0].strip() if word == ".section" else word
            in_data = section.startswith((".rodata", ".data", ".bss"))
        elif word == ".amdhsa_kernel":
            in_data = False  # a kernel descriptor is no constant of the program
        elif word == ".end_amdhsa_kernel":
            in_data = True
        elif in_data and not _append(image, word, operands, name):
            for symbol in names:
                symbols.pop(symbol, None)
    return Constants(bytes(image), symbols)


def _append(image: bytearray, word: str, operands: str, name: str) -> bool:
    """Adds a directive's bytes. Returns False where its values are not plain numbers."""
    try:
        if word in _WIDTHS:
            width = _WIDTHS[word]
            for item in operands.split(","):
                number = int(item, 0) & ((1 << 8 * width) - 1)
                image += number.to_bytes(width, "little")
        elif word in _STRINGS:
            raw = operands[operands.index('"') + 1 : operands.rindex('"')].encode()
            image += _ESCAPE.sub(_unescaped, raw) + _STRINGS[word]
        elif word == ".fill":
            return _append_fill(image, [int(item, 0) for item in operands.split(",")], name)
        elif word in (".zero", ".skip", ".space"):
            count, *value = (int(item, 0) for item in operands.split(","))
            _check_room(image, count, name)
            image += bytes([value[0] if value else 0]) * count
        elif word == ".p2align":
            padding = -len(image) % (1 << min(int(operands.partition(",")[0], 0), _WIDEST * 8))
            _check_room(image, padding, name)
            image += b"\0" * padding
    except ValueError:
        return False
    return True


def _append_fill(image: bytearray, numbers: Sequence[int], name: str) -> bool:
    """Adds the bytes of `.fill count, size, value`. Returns False for an impossible size."""
    count, size, value = (*numbers, 1, 0)[:3] if len(numbers) < 3 else numbers[:3]
    if not 0 <= size <= _WIDEST:
        return False
    _check_room(image, count * size, name)
    image += count * (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return True


def _check_room(image: bytearray, added: int, name: str) -> None:
    if len(image) + added > MOST_CONSTANTS:
        raise LimitError(
            f"{name}: its constants take more than {MOST_CONSTANTS >> 20} MiB",
            "remove the directive (.zero, .fill, .p2align) that asks for them",
        )


def _unescaped(match: re.Match[bytes]) -> bytes:
    escape = match[1]
    if escape in _ESCAPED:
        return bytes([_ESCAPED[escape]])
    return bytes([(int(escape[1:], 16) if escape[:1] == b"x" else int(escape, 8)) & 0xFF])
