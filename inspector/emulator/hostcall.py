"""The host's side of hostcalls, by which kernels print: `printf`, Triton's `print` and asserts.

Device code takes a packet from a stack of free ones, fills it, pushes it on the stack of ready
ones, rings a doorbell (a signal whose value it adds to) and spins until the host has cleared the
packet's ready flag. Here the host answers in the write to the doorbell itself.

Sources: the layout in memory and the protocol, ROCm's clr, rocclr/device/devhostcall.{hpp,cpp};
messages, devhcmessages.cpp; what `printf` sends, devhcprintf.cpp; signals, `amd_signal_t` in
ROCr's amd_hsa_signal.h.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from typing import Final

import numpy as np

from .access import NotCoveredError
from .memory import PADDING, Array, Buffer, Words

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
_READY_STACK: Final = 32
_PRINTF: Final = 2
_BEGIN, _END = 1, 2


class Printed:
    """What a launch has printed so far: text by stream, in the order in which it came."""

    def __init__(self) -> None:
        self.parts: list[tuple[bool, str]] = []
        """Whether it goes to standard error, and the text."""

    def add(self, error: bool, text: str) -> None:
        """Some more text."""
        if self.parts and self.parts[-1][0] == error:
            text = self.parts.pop()[1] + text
        self.parts.append((error, text))


class HostCalls:
    """The buffer of one launch, and the host that serves it.

    Raises, when a kernel rings: NotCoveredError, for another service than `printf`.
    """

    def __init__(self) -> None:
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
        """Handles what is on the stack of ready packets; the last one pushed comes first."""
        packet = int(self._words[_READY_STACK // 8])
        self._words[_READY_STACK // 8] = 0
        while packet:
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
        words = self._messages[number]
        words += payload[1 : 1 + (descriptor >> 5 & 7)].tolist()
        if descriptor & _END:
            del self._messages[number]
            stream, *rest = words
            text = formatted(rest)
            self.printed.add(bool(stream & 1), text)
            payload[0] = len(text)


class _Doorbell(Words):
    """The hostcall buffer's memory: a write to the signal's value calls the host."""

    __slots__ = ("_host",)

    def __init__(self, data: Array, size: int, host: HostCalls) -> None:
        super().__init__(data, size)
        self._host = host

    def scatter(self, offsets: Array, values: Array, size: int) -> None:
        super().scatter(offsets, values, size)
        if offsets.size and int(offsets.max()) >= _SIGNAL:
            self._host.serve()


# ---------------------------------------------------------------------- printf

_SPECIFIER: Final = re.compile(
    r"%(?:%|(?P<flags>[-+ #0]*)(?P<width>\*|\d*)(?:\.(?P<precision>\*|\d*))?"
    r"(?P<length>hh|h|ll|l|j|z|t|L)?(?P<kind>[diouxXfFeEgGaAcspn]))"
)
_BITS: Final = {"hh": 8, "h": 16, None: 32}


def formatted(words: list[int]) -> str:
    """What `printf` writes for a format string and arguments, as they were sent.

    Args:
        words: of 64 bits: the format, zero-terminated, then each argument in a word of its own;
            strings stand in as many as they need.
    """
    data = struct.pack(f"<{len(words)}Q", *words)
    form, place = _string(data, 0)
    pieces, last = [], 0
    for match in _SPECIFIER.finditer(form):
        pieces.append(form[last : match.start()])
        last = match.end()
        if match["kind"] is None:
            pieces.append("%")
            continue
        stars = (match["width"], match["precision"]).count("*")
        if place + 8 * (stars + 1) > len(data):
            return "".join(pieces)  # too few arguments: the runtime stops here
        sizes = [struct.unpack_from("<i", data, place + 8 * at)[0] for at in range(stars)]
        place += 8 * stars
        spec = _spec(match, iter(sizes))
        if match["kind"] == "s":
            text, place = _string(data, place)
            pieces.append(f"%{spec}s" % text)
            continue
        pieces.append(_number(match, spec, data[place : place + 8]))
        place += 8
    pieces.append(form[last:])
    return "".join(pieces)


def _string(data: bytes, place: int) -> tuple[str, int]:
    """A zero-terminated string, and where the word behind it begins."""
    end = data.find(b"\0", place)
    end = len(data) if end < 0 else end
    return data[place:end].decode(errors="replace"), place + (end - place + 8) // 8 * 8


def _spec(match: re.Match[str], sizes: Iterator[int]) -> str:
    """Flags, width and precision, with the arguments that stars stand for."""
    width = str(next(sizes)) if match["width"] == "*" else match["width"]
    if match["precision"] is None:
        return match["flags"] + width
    precision = next(sizes) if match["precision"] == "*" else int(match["precision"] or 0)
    return match["flags"] + width + (f".{precision}" if precision >= 0 else "")


def _number(match: re.Match[str], spec: str, raw: bytes) -> str:
    kind: str = match["kind"]
    (bits,) = struct.unpack("<Q", raw)
    if kind == "n":
        return ""
    if kind == "p":
        return f"%{spec}s" % (f"{bits:#x}" if bits else "(nil)")
    if kind == "c":
        return f"%{spec}s" % chr(bits & 0xFF)
    if kind in "diouxX":
        width = _BITS.get(match["length"], 64)
        bits &= (1 << width) - 1
        if kind in "di" and bits >> (width - 1):
            bits -= 1 << width
        if kind == "o" and "#" in spec:  # Python would write 0o17
            return f"%{spec.replace('#', '')}s" % (f"0{bits:o}" if bits else "0")
        return f"%{spec}{kind}" % bits
    (value,) = struct.unpack("<d", raw)
    if not math.isfinite(value):
        text = ("-" if bits >> 63 else "") + ("nan" if math.isnan(value) else "inf")
        mark = re.search("[+ ]", str(match["flags"]))
        if not bits >> 63 and mark is not None:
            text = mark[0] + text
        digits = re.match(r"[-+ #0]*(\d*)", spec)
        assert digits is not None
        aligned = "%" + "-" * ("-" in match["flags"]) + digits[1] + "s"
        return aligned % (text.upper() if kind.isupper() else text)
    if kind in "aA":
        text = _hexadecimal(value)
        return f"%{spec.partition('.')[0]}s" % (text.upper() if kind == "A" else text)
    return f"%{spec}{kind}" % value


def _hexadecimal(value: float) -> str:
    """As glibc's `%a`: no zeros at the end of the fraction."""
    mantissa, _, exponent = value.hex().partition("p")
    if not exponent:
        return mantissa
    return mantissa.rstrip("0").rstrip(".") + "p" + exponent


__all__ = ["HOSTCALL_ADDRESS", "HostCalls", "formatted"]
