"""A machine that records what its accesses of global memory were, to compare two runs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from ..machine import MachineState
from ..memory import Array, Buffer, GlobalMemory, Outside

Access = tuple[int, int]
"""Index of the instruction; a checksum of addresses and, of a write, of values."""


class AccessRecorder(MachineState):
    """A machine that keeps a checksum of every access of global memory."""

    def __init__(self, buffers: Iterable[Buffer]) -> None:
        self.accesses: list[Access] = []
        self._site = -1
        super().__init__(_RecordedMemory(list(buffers), self))

    def outside(self, site: int) -> Callable[[Array, int, bool], None]:
        """As in `MachineState`; also notes whose access comes next.

        Memory is not told which instruction accesses it. But each one asks for this function right
        before its accesses, to pass it along with them.
        """
        self._site = site
        return super().outside(site)

    def record(self, addresses: Array, wanted: Array | None, values: Array | None) -> None:
        """Adds an access of the instruction that last called `outside`.

        `wanted`: the lanes that take part, bool; None for all. `values`: what is written; None for
        a read.
        """
        active = addresses if wanted is None else addresses[wanted]
        checksum = zlib.crc32(active.tobytes())
        if values is not None:
            checksum = zlib.crc32(values.tobytes(), checksum)
        self.accesses.append((self._site, checksum))


class _RecordedMemory(GlobalMemory):
    """Global memory that reports each access to a recorder before it is made."""

    def __init__(self, buffers: list[Buffer], recorder: AccessRecorder) -> None:
        super().__init__(buffers)
        self._recorder = recorder

    def read(
        self, addresses: Array, size: int, outside: Outside, wanted: Array | None = None
    ) -> Array:
        self._recorder.record(addresses, wanted, None)
        return super().read(addresses, size, outside, wanted)

    def write(self, addresses: Array, values: Array, size: int, outside: Outside) -> None:
        self._recorder.record(addresses, None, values)
        super().write(addresses, values, size, outside)
