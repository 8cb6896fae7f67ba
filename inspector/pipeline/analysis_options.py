"""The extent of an analysis.

Facts on an assembly or code object besides its own contents.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from ..model import Artifact, Variant

if TYPE_CHECKING:
    from ..lint.rule import Pack
    from ..metrics.kernel import Asked
    from .executing import Sample


RESIDENT = "occupancy.workgroups_per_cu"
"""The metric that a launch's time rests on."""
EVERY_LOOP = ""
"""Stands for all loops that are not named."""


class TimeOptions(Struct, frozen=True):
    """How a launch is timed.

    Args:
        gpu: the product as a driver names it; None for that of `products`.
        products: target -> the product by which --arch names it; of the others it is the one that
            the target's file describes.
        clock_mhz: None for the product's.
        savings: whether it is worked out what would save how much.
        arguments: what a launch of a file of code passes, as `kinspect emulate` takes it.
        trips: loop id, or `EVERY_LOOP` -> iterations each time that it is entered, of kernels of
            which no launch is known.
        explains: whether loops are timed, and the report says so, where no launch is known.
        prices: whether it is worked out what the cures of findings would save.
        warm: whether the time with the data in the Infinity Cache is worked out as well.
    """

    gpu: str | None = None
    products: Mapping[str, str] = {}
    clock_mhz: float | None = None
    savings: bool = False
    arguments: str | None = None
    trips: Mapping[str, int] = {}
    explains: bool = True
    seconds: float = 60.0
    prices: bool = True
    warm: bool = True


class AnalysisOptions(Struct, frozen=True):
    """What is worked out for each kernel beyond its own figures.

    Attributes:
        rules: the pack that is applied to each report; None for the default one.
        judges_all: whether it is applied to reports without a time, too.
        sample: how much of each launch is emulated; None for nothing.
        lanes: whether the addresses of accesses' lanes are worked out.
        races: whether LDS races are looked for.
        values: whether the values that registers hold are named.
        time: how launches are timed; None for no times.
        asked: the figures that are worked out, with all that they need; None for all.
    """

    rules: Pack | None = None
    judges_all: bool = True
    sample: Sample | None = None
    lanes: bool = True
    races: bool = True
    values: bool = True
    time: TimeOptions | None = None
    asked: Asked | None = None

    def lanes_of(self, variant: Variant | None) -> bool:
        """Whether the lanes' addresses of a kernel are worked out: its loops' time rests on them
        where it cannot be executed.
        """
        if self.lanes or self.time is None or not self.time.explains:
            return self.lanes
        return self.time.arguments is None and (variant is None or variant.passed is None)

    @property
    def times_code(self) -> bool:
        """Whether the report on a file of code says more than its text: its time, or why none."""
        return self.time is not None and (self.time.explains or self.time.arguments is not None)

    @property
    def executing(self) -> float:
        """Seconds that executing and timing a file of code may take."""
        if self.time is None or self.time.arguments is None:
            return 0.0
        return 2 * self.time.seconds

    @property
    def needs_arguments(self) -> bool:
        """Whether what launches pass to their kernels has to be kept."""
        return self.sample is not None or self.time is not None


class Overrides(Struct, frozen=True):
    """Facts on a launch that the user states, where the files do not have them."""

    lds_bytes: int | None = None
    waves_per_workgroup: int | None = None
    workgroup: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    llvm: str | None = None
    cu_mode: bool | None = None
    time_us: float | None = None


class Context(Struct, frozen=True):
    """Facts on an assembly or code object besides its own contents.

    Args:
        arch: the target to assume where the file does not name one, and to insist on where it does.
        patterns: only kernels whose name is all of these (shell wildcards allowed).
        ttir: the TTIR that was lowered to that TTGIR; None for the variant's own.
        code_object: the code object of the same compile, to check an assembly's figures with.
    """

    path: str
    arch: str | None = None
    patterns: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    ttgir: str | None = None
    ttir: str | None = None
    variant: Variant | None = None
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    code_object: Path | None = None
    overrides: Overrides = Overrides()
    notes: tuple[str, ...] = ()
    analysis: AnalysisOptions = AnalysisOptions()
