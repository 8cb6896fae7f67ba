"""Why a kernel's output is unknown although the kernel might have been executed."""

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
"""Reason -> its words, which complete "the value of a tensor …".

    off          the user asked that kernels not be executed
    unavailable  this target or this installation cannot execute them
    budget       the seconds or the memory for executing kernels are used up
    uncovered    the emulator lacks an instruction
    faulty       the kernel has a race, or accesses memory that it must not access
    inputs       the kernel's inputs are unknown, or have been overwritten
    failed       the compiler or the emulator failed
"""


class LaunchRefusedError(Exception):
    """A launch that is not executed."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(REASONS[reason].format(detail))
        self.reason = reason
