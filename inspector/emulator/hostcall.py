"""The host's side of hostcalls, by which kernels print: `printf`, Triton's `print` and asserts.

Device code takes a packet from a stack of free ones, fills it, pushes it on the stack of ready
ones, rings a doorbell (a signal whose value it adds to) and spins until the host has cleared the
packet's ready flag. Here the host answers in the write to the doorbell itself.

Sources: the layout in memory and the protocol, ROCm's clr, rocclr/device/devhostcall.{hpp,cpp};
messages, devhcmessages.cpp; signals, `amd_signal_t` in ROCr's amd_hsa_signal.h.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from .device_printf import formatted
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
"""Where the buffer's word with the last packet that was pushed lies."""
_PRINTF: Final = 2
"""The one service that is offered."""
_BEGIN, _END = 1, 2
"""Flags of a message's descriptor: this part is the first, the last."""
_FLAGS: Final = 0xFE
"""The descriptor's bits below the message's number, without `_BEGIN`."""
_COUNT_SHIFT, _COUNT = 5, 7
"""Where the descriptor has how many words follow it, and the most."""
_MESSAGE_SHIFT: Final = 8
"""Where the descriptor has the message's number."""


class Printed:
    """The text that a launch has printed so far.

    `parts`: whether to standard error, and the text; in the order in which it was printed.
    """

    def __init__(self) -> None:
        self.parts: list[tuple[bool, str]] = []
        self._left = _MOST_PRINTED

    def add(self, text: str, *, to_stderr: bool) -> None:
        """Adds a text, to the last part if that goes to the same stream.

        Past `_MOST_PRINTED` characters nothing is added.
        """
        if self._left <= 0:
            return
        self._left -= len(text)
        if self._left <= 0:
            text += "\n(more was printed)\n"
        if self.parts and self.parts[-1][0] == to_stderr:
            text = self.parts.pop()[1] + text
        self.parts.append((to_stderr, text))


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
        """Handles the packets on the ready stack, the last pushed first.

        A write to the doorbell calls it.

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
            descriptor = (descriptor & _FLAGS) | number << _MESSAGE_SHIFT
            payload[0] = descriptor
        number = descriptor >> _MESSAGE_SHIFT
        if number not in self._messages:
            raise NotCoveredError("a message to the host that was not begun")
        words = self._messages[number]
        words += payload[1 : 1 + (descriptor >> _COUNT_SHIFT & _COUNT)].tolist()
        if descriptor & _END:
            del self._messages[number]
            if not words:
                raise NotCoveredError("an empty message to the host")
            stream, *arguments = words
            text = formatted(arguments)
            self.printed.add(text, to_stderr=bool(stream & 1))
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
