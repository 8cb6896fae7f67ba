"""Why nobody knows what a kernel wrote, where that could have been computed."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "off": "that a kernel writes, which is not run",
        "unavailable": "that a kernel writes, which is not run: {}",
        "budget": "that a kernel writes, which the seconds for emulation did not suffice for",
        "uncovered": "that a kernel writes which the emulator cannot run: {}",
        "faulty": "that a kernel writes which does what it must not: {}",
        "inputs": "that a kernel writes, whose own arguments are not known",
        "failed": "that a kernel writes, which could not be emulated: {}",
    }
)
"""Reason -> what completes "the value of a tensor …".

off: kernels are not executed on request. unavailable: nor can they, for this target or with this
installation. budget: the seconds are used up. uncovered: the emulator lacks an instruction. faulty:
the kernel races, or accesses what it must not. inputs: what it reads is unknown or gone. failed:
the compiler or the emulator broke off.
"""


class RefusedError(Exception):
    """A launch that is not executed.

    Args:
        reason: one of `REASONS`.
        detail: what exactly, for people.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(REASONS[reason].format(detail))
        self.reason = reason
