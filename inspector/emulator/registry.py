"""Which function carries out which mnemonic.

A builder takes one decoded instruction once, before the kernel runs, and returns the step that is
called each time. `instructions/` fills the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import Decoded

if TYPE_CHECKING:
    from .waves import Waves

Step = Callable[["Waves"], Any]
"""Carries one instruction out for all waves that stand at it."""


class NotCoveredError(Exception):
    """An instruction or a modifier that the emulator does not carry out."""


class BuildContext(Struct, frozen=True):
    """An instruction's surroundings, as builders need them.

    Args:
        in_order: whether its results come back in the order of issue.
        limits: how many may be outstanding for each of these counters; issue stalls there.
        coherent: whether it goes past the caches to the device, as volatile accesses do.
        private: whether it accesses the lanes' private memory (a buffer access of the stack).
        wait: for a wait: counter -> how many may stay outstanding.
        labels: label -> index of the instruction that follows it.
    """

    target: ExecutionTarget
    index: int
    counters: tuple[str, ...] = ()
    in_order: bool = True
    limits: tuple[int, ...] = ()
    private: bool = False
    coherent: bool = False
    wait: Mapping[str, int] = {}
    labels: Mapping[str, int] = {}


Builder = Callable[[Decoded, BuildContext], Step]

_BUILDERS: Final[dict[str, Builder]] = {}
_PATTERNS: Final[list[tuple[re.Pattern[str], Builder]]] = []


def builds(*names: str) -> Callable[[Builder], Builder]:
    """Registers a builder for mnemonics (without encoding suffix)."""

    def register(builder: Builder) -> Builder:
        for name in names:
            assert name not in _BUILDERS, f"{name} has two builders"
            _BUILDERS[name] = builder
        return builder

    return register


def builds_as(names: str, build: Callable[..., Step], *arguments: Any, **options: Any) -> None:
    """Registers a builder, with further arguments of these mnemonics, which blanks separate."""
    builds(*names.split())(lambda decoded, context: build(decoded, context, *arguments, **options))


def builds_matching(pattern: str) -> Callable[[Builder], Builder]:
    """Registers a builder for all mnemonics that match; single names come first."""

    def register(builder: Builder) -> Builder:
        _PATTERNS.append((re.compile(pattern), builder))
        return builder

    return register


def builder_of(name: str) -> Builder | None:
    """The builder of a mnemonic; None where it is not covered."""
    builder = _BUILDERS.get(name)
    if builder is not None:
        return builder
    for pattern, general in _PATTERNS:
        if pattern.fullmatch(name):
            return general
    return None
