"""The host's side of hostcalls, by which kernels print: `printf`, Triton's `print` and asserts.

Device code takes a packet from a stack of free ones, fills it, pushes it on the stack of ready
ones, rings a doorbell (a signal whose value it adds to) and spins until the host has cleared the
packet's ready flag. Here the host answers in the write to the doorbell itself.

Sources: the layout in memory and the protocol, ROCm's clr, rocclr/device/devhostcall.{hpp,cpp};
messages, devhcmessages.cpp; signals, `amd_signal_t` in ROCr's amd_hsa_signal.h.

`printf` as device code sends it: a format string and arguments in 64-bit words.

What is sent: ROCm's clr, rocclr/device/devhcprintf.cpp. How it is written: as glibc's printf does.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from .memory import PADDING, Array, Buffer, MemoryWords
from .registry import NotCoveredError

HOSTCALL_ADDRESS: Final = 0x7E02_0000_0000
_PACKETS: Final = 512
"""More than waves are ever resident, for each has at most one; a power of two."""
_LANES: Final = 64
_HEADER_BYTES: Final = 24
_SLOT_BYTES: Final = 64
_HEADERS: Final = 64
"""Where the headers begin: behind the buffer's own 6 words, which stand first."""
_PAYLOADS: Final = (_HEADERS + _PACKETS * _HEADER_BYTES + 63) & ~63
_SIGNAL: Final = _PAYLOADS + _PACKETS * _LANES * _SLOT_BYTES
"""Where the doorbell's signal lies; its value is the second word."""
_SIGNAL_BYTES: Final = 64
_MOST_PRINTED: Final = 1 << 24
"""Characters of one launch that are kept."""
_READY_STACK: Final = 32
_PRINTF: Final = 2
_BEGIN, _END = 1, 2


class Printed:
    """The text that a launch has printed so far.

    `parts`: whether to standard error, and the text; in the order in which it was printed.
    """

    def __init__(self) -> None:
        self.parts: list[tuple[bool, str]] = []
        self._left = _MOST_PRINTED

    def add(self, error: bool, text: str) -> None:
        """Adds a text, to the last part if that goes to the same stream; not without end."""
        if self._left <= 0:
            return
        self._left -= len(text)
        if self._left <= 0:
            text += "\n(more was printed)\n"
        if self.parts and self.parts[-1][0] == error:
            text = self.parts.pop()[1] + text
        self.parts.append((error, text))


class HostCalls:
    """The hostcall buffer of one launch, and the host that serves it."""

    def __init__(self) -> None:
        """Lays the buffer out in memory with all packets free."""
        self.printed = Printed()
        size = _SIGNAL + _SIGNAL_BYTES
        data = np.zeros(size + PADDING, np.uint8)
        self._words = data[:size].view(np.uint64)
        # Free packets 1, 2, ... in a chain that ends at packet 0, tagged: 0 alone means the end.
        following = np.arange(-1, _PACKETS - 1, dtype=np.int64).astype(np.uint64)
        following[0], following[1] = 0, _PACKETS
        headers = self._words[_HEADERS // 8 : (_HEADERS + _PACKETS * _HEADER_BYTES) // 8]
        headers.reshape(_PACKETS, 3)[:, 0] = following
        self._words[:6] = (
            HOSTCALL_ADDRESS + _HEADERS, HOSTCALL_ADDRESS + _PAYLOADS, HOSTCALL_ADDRESS + _SIGNAL,
            _PACKETS - 1, 0, _PACKETS - 1,
        )  # fmt: skip
        self.buffer = Buffer(HOSTCALL_ADDRESS, size, data, "hostcall buffer")
        self.buffer.words = _Doorbell(data, size, self)
        self._messages: dict[int, list[int]] = {}
        self._next_message = 0

    def serve(self) -> None:
        """Handles the packets on the ready stack, the last pushed first; a write to the doorbell.

        Raises:
            NotCoveredError: a packet asks for another service than `printf`.
        """
        packet = int(self._words[_READY_STACK // 8])
        self._words[_READY_STACK // 8] = 0
        for _ in range(_PACKETS):  # the chain is the kernel's own memory, and may be a circle
            if not packet:
                return
            number = packet & (_PACKETS - 1)
            header = (_HEADERS + number * _HEADER_BYTES) // 8
            packet, mask, control = (int(word) for word in self._words[header : header + 3])
            slots = (_PAYLOADS + number * _LANES * _SLOT_BYTES) // 8
            for lane in range(_LANES):
                if mask >> lane & 1:
                    slot = slots + lane * _SLOT_BYTES // 8
                    self._handle(control & 0xFFFF_FFFF, self._words[slot : slot + 8])
            # The service stands in the lower half, the ready flag in bit 0 of the upper one.
            self._words[header + 2] = control & ~(1 << 32)
        if packet:
            raise NotCoveredError("a chain of calls of the host that does not end")

    def _handle(self, service: int, payload: Array) -> None:
        """One work-item's part of a message: a descriptor, then up to 7 words."""
        if service != _PRINTF:
            raise NotCoveredError(f"a call of the host's service {service}")
        descriptor = int(payload[0])
        if descriptor & _BEGIN:
            number = self._next_message
            self._next_message += 1
            self._messages[number] = []
            descriptor = (descriptor & 0xFE) | number << 8
            payload[0] = descriptor
        number = descriptor >> 8
        if number not in self._messages:
            raise NotCoveredError("a message to the host that was not begun")
        words = self._messages[number]
        words += payload[1 : 1 + (descriptor >> 5 & 7)].tolist()
        if descriptor & _END:
            del self._messages[number]
            if not words:
                raise NotCoveredError("an empty message to the host")
            stream, *arguments = words
            text = formatted(arguments)
            self.printed.add(bool(stream & 1), text)
            payload[0] = len(text)


class _Doorbell(MemoryWords):
    """The hostcall buffer's memory: a write to the signal's value calls the host."""

    __slots__ = ("_host",)

    def __init__(self, data: Array, size: int, host: HostCalls) -> None:
        super().__init__(data, size)
        self._host = host

    def scatter(self, offsets: Array, values: Array, size: int) -> None:
        super().scatter(offsets, values, size)
        if offsets.size and int(offsets.max()) >= _SIGNAL:
            self._host.serve()


_SPECIFIER: Final = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXfFeEgGaAcspn]))"
)
_INTEGER_BITS: Final = {"hh": 8, "h": 16, None: 32}
"""Length in a specifier -> bits of the integer; others have 64."""
_WORD: Final = 8
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
        number = next(sizes) if width == "*" else int(width[:_WORD])
        width = str(max(-_MOST_WIDTH, min(number, _MOST_WIDTH)))
    if match["precision"] is None:
        return match["flags"] + width
    text = match["precision"]
    precision = min(next(sizes) if text == "*" else int(text[:_WORD] or 0), _MOST_WIDTH)
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
