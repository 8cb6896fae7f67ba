"""What an HTML page is made of, beyond the report itself."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from ...model import KernelReport

MOST_IN_FULL = 60
"""Kernels beyond this are in the table alone: a page of thousands opens in no browser."""


class Level(Struct, frozen=True):
    """A reachable occupancy, waves/EU, and the most VGPRs and LDS bytes that still reach it.

    None: the resource does not limit here.
    """

    waves_per_eu: float
    vgprs: int | None
    lds_bytes: int | None


class DrawnKernel(Struct, frozen=True):
    """A kernel with what is drawn of it: its occupancy levels, highest first, and code.

    `code` holds lines of the assembly by number (1-based); `source` those of the user's files by
    (file, line).
    """

    kernel: KernelReport
    levels: tuple[Level, ...] = ()
    code: Mapping[int, str] = field(default_factory=dict)
    source: Mapping[tuple[str, int], str] = field(default_factory=dict)
