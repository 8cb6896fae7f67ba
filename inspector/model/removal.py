"""The work that the cure of a finding takes away: the timing model says what that is worth."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from .numbers import Line

Removed = Literal[
    "scratch", "lines", "conflicts", "wide accesses", "earlier loads", "repeated products",
    "occupancy", "workgroups", "work", "latency", "code", "vector", "matrix", "scalar", "lds",
    "loads", "stores", "atomics", "barriers", "no-ops", "products",
    "iterations",
]  # fmt: skip
"""What goes. `scratch` to `workgroups`: as `CostGone`; `work`: waves that do nothing of use;
`iterations`: of loops; `latency`: waiting for memory that is overlapped; `code`: misses of the
instruction cache; the rest: instructions of a unit, `lds` with the crossbar; `products`: matrix
instructions, and the loads and LDS accesses of their operands."""


MUCH, LEAST = 10.0, 3.0
"""Percent of a launch's time: what a cure saves makes a warning, a note, or less than both."""


class Removal(Struct, frozen=True):
    """Work that goes.

    Args:
        what: kind of work.
        part: of it at its place, 0 to 1; of `occupancy` what is added to the resident workgroups.
        loops: ids of the loops where it is; empty: not bound to any.
        lines: of the assembly, of the instructions; empty: all of the loops, or of the kernel.
    """

    what: Removed
    part: Annotated[float, Meta(ge=0)] = 1.0
    loops: tuple[str, ...] = ()
    lines: tuple[Line, ...] = ()
