"""What all waves of a launch share: memories, and what is noticed while they run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from msgspec import Struct

from .memory import GlobalMemory, LocalMemory, PrivateMemory
from .waves import Array, Waves


class Trouble(Struct, frozen=True):
    """Something that the code did and must not do, at one instruction.

    Args:
        kind: `outside`, `outside_lds`, `unwaited`, `race`, `uninitialised`, ….
        site: index of the instruction.
        detail: what exactly, for people.
    """

    kind: str
    site: int
    detail: str


class Machine:
    """Memories and records of a launch."""

    def __init__(self, memory: GlobalMemory) -> None:
        self.memory = memory
        self.local = LocalMemory(0, 1)
        self.private = PrivateMemory(0, 1, 1, 64)
        self.ticks = 0
        self.troubles: dict[tuple[str, int], Trouble] = {}

    def note(self, kind: str, site: int, detail: str) -> None:
        """Keeps the first trouble of each kind at each instruction."""
        self.troubles.setdefault((kind, site), Trouble(kind, site, detail))

    def outside(self, site: int) -> Callable[[Array, int, bool], None]:
        """What an access outside of every buffer calls."""

        def tell(addresses: Array, size: int, writes: bool) -> None:
            verb = "writes" if writes else "reads"
            first = int(addresses.reshape(-1)[0])
            nearest = self._nearest(first)
            self.note(
                "outside", site,
                f"{verb} {size} bytes at {first:#x}{nearest}, {addresses.size} lanes",
            )  # fmt: skip

        return tell

    def _nearest(self, address: int) -> str:
        below = [buffer for buffer in self.memory.buffers if buffer.end <= address]
        if not below:
            return ""
        buffer = below[-1]
        return f", {address - buffer.end} bytes past the end of {buffer.name or 'a buffer'}"

    def outside_lds(self, site: int, waves: Waves, inner: Array, bad: Array, size: int) -> None:
        """An LDS access past what the workgroup has."""
        first = int(inner[bad][0])
        self.note(
            "outside_lds", site,
            f"{size} bytes at LDS byte {first} of {self.local.size}, {int(bad.sum())} lanes",
        )  # fmt: skip

    def outside_scratch(self, site: int, inner: Array) -> None:
        """An access past the lanes' private memory."""
        first = int(inner.reshape(-1)[0])
        self.note(
            "outside_scratch", site,
            f"byte {first} of {self.private.size} bytes of scratch, {inner.size} lanes",
        )  # fmt: skip

    def unwaited(self, site: int, registers: int, waves: Waves) -> None:
        """A register is used before the wait that covers its load."""
        self.note("unwaited", site, f"register {registers.bit_length() - 1}")

    # The following are for checks and counts that look at every access or barrier.

    def touched(
        self, site: int, waves: Waves, where: Array, usable: Array | None, size: int
    ) -> None:
        """A vector access of global memory: addresses [wave, lane]."""

    def touched_scalar(
        self, site: int, waves: Waves, where: Array, inside: Array, size: int
    ) -> None:
        """A scalar access: addresses [wave]."""

    def touched_lds(
        self,
        site: int,
        waves: Waves,
        where: Array,
        usable: Array | None,
        size: int,
        *,
        writes: bool,
        atomic: bool = False,
    ) -> None:
        """An access of LDS: byte offsets in all workgroups' LDS [wave, lane]."""

    def barrier(self, site: int, waves: Waves) -> None:
        """Waves arrive at a barrier."""

    def passed(self, slots: Array) -> None:
        """Workgroups have passed their barrier."""


__all__ = ["Machine", "Trouble", "np"]
