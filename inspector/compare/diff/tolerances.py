"""The figures that are judged, and how much worse each may get.

The one table of judged figures. Registers, LDS and code size are not among those whose mere rise
counts: they cost something only at a step, which `verdicts` knows. A tolerance that the user states
is a budget: more than that is a regression even where it costs no step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from ...base.errors import KinspectError
from ...metrics.given_metrics import US as TIME_US
from ..times import EQUAL


class FigureTolerance(Struct, frozen=True):
    """The limit on how much worse a figure may get: a share of the better value, or an amount."""

    amount: float
    relative: bool

    def allows(self, better: float, worse: float) -> bool:
        """Tells whether the step from the better to the worse value is within the tolerance."""
        step = abs(worse - better)
        return step <= self.amount * abs(better) if self.relative else step <= self.amount

    def __str__(self) -> str:
        return f"{self.amount * 100:g} %" if self.relative else f"{self.amount:g}"


NONE = FigureTolerance(0.0, relative=False)


class JudgedFigure(Struct, frozen=True):
    """The way in which a figure is judged.

    Args:
        where: whether it is a figure of the kernel or of each hot loop (of the whole kernel where
            it has no loop).
        better: which direction is better; None where neither is and only steps count.
        improvement_decides: whether getting better decides the kernel's verdict as getting worse
            does; read of figures of a launch.
    """

    where: Literal["kernel", "loop"]
    better: Literal["less", "more"] | None
    matters: bool
    tolerance: FigureTolerance
    across_archs: bool
    words: str
    improvement_decides: bool = False


FEW = FigureTolerance(0.05, relative=True)
"""A change of a count up to this share of it is noise."""
WIDTH = FigureTolerance(0.1, relative=True)
"""One narrow access more among wide ones lowers the mean, and costs next to nothing."""
MODEL = FigureTolerance(EQUAL, relative=True)
"""Below it the timing model does not tell two launches apart."""

JUDGED: Mapping[str, JudgedFigure] = MappingProxyType(
    {
        # Arguments: where, better, matters, tolerance, across_archs, words.
        TIME_US: JudgedFigure(
            "kernel", "less", True, MODEL, True, "by the timing model", improvement_decides=True
        ),
        "occupancy.waves_per_eu": JudgedFigure(
            "kernel", "more", True, NONE, False, "resident waves"
        ),
        "vgpr_count": JudgedFigure("kernel", None, False, NONE, False, "VGPRs"),
        "agpr_count": JudgedFigure("kernel", None, False, NONE, False, "AGPRs"),
        "sgpr_count": JudgedFigure("kernel", None, False, NONE, False, "SGPRs"),
        "lds_bytes": JudgedFigure("kernel", None, False, NONE, False, "LDS"),
        "vgpr_spill_count": JudgedFigure("kernel", None, False, NONE, True, "spilled VGPRs"),
        "sgpr_spill_count": JudgedFigure("kernel", None, False, NONE, True, "spilled SGPRs"),
        "scratch_bytes": JudgedFigure("kernel", None, False, NONE, True, "scratch memory"),
        "code_bytes": JudgedFigure("kernel", None, False, NONE, False, "code"),
        "count.scratch_load": JudgedFigure("loop", "less", True, NONE, True, "loads from scratch"),
        "count.scratch_store": JudgedFigure("loop", "less", True, NONE, True, "stores to scratch"),
        "cycles.mfma": JudgedFigure("loop", "less", True, NONE, False, "cycles of the matrix unit"),
        "matrix.redundancy": JudgedFigure(
            "loop", "less", False, NONE, False, "repeated matrix work"
        ),
        "count.instructions": JudgedFigure("loop", "less", True, FEW, False, "instructions"),
        # What diff tells of it is per needed work, as try's bound/W.
        "bound.cycles": JudgedFigure("loop", "less", False, FEW, False, "cycles at least"),
        "vector_bits.global_load.mean": JudgedFigure(
            "loop", "more", True, WIDTH, True, "bits per load from memory"
        ),
        "vector_bits.global_store.mean": JudgedFigure(
            "loop", "more", True, WIDTH, True, "bits per store to memory"
        ),
        "vector_bits.lds_read.mean": JudgedFigure(
            "loop", "more", False, WIDTH, True, "bits per LDS read"
        ),
        "vector_bits.lds_write.mean": JudgedFigure(
            "loop", "more", False, WIDTH, True, "bits per LDS write"
        ),
        "lds.conflict_cycles": JudgedFigure(
            "loop", "less", True, NONE, False, "cycles of LDS bank conflicts"
        ),
        "count.full_wait": JudgedFigure("loop", "less", False, NONE, False, "full waits"),
        "count.barrier": JudgedFigure("loop", "less", False, NONE, False, "barriers"),
        "count.acc_move": JudgedFigure(
            "loop", "less", False, NONE, False, "moves to and from AGPRs"
        ),
        # Only with --emulate: they hold for the captured launch.
        "emulated.instructions": JudgedFigure(
            "kernel", "less", False, FEW, False, "instructions that a wave executes"
        ),
        "emulated.lds.conflict_cycles": JudgedFigure(
            "kernel", "less", False, FEW, False, "cycles of LDS bank conflicts for each wave"
        ),
        "emulated.line_excess": JudgedFigure(
            "kernel", "less", False, FEW, False, "× the least cache lines"
        ),
    }
)
"""The judged figures by name. `--tolerance` accepts these names only."""

_TYPED = re.compile(r"(\d+(?:\.\d+)?)\s*(%?)")


class Tolerances(Struct, frozen=True):
    """The user's, and by default those of `JUDGED`."""

    stated: Mapping[str, FigureTolerance]

    def for_figure(self, name: str) -> FigureTolerance:
        """Returns the tolerance of a figure."""
        return self.stated.get(name) or JUDGED[name].tolerance

    def is_stated(self, name: str) -> bool:
        """Tells whether the user has set the tolerance of a figure."""
        return name in self.stated

    def matters(self, name: str) -> bool:
        """Tells whether a change beyond the tolerance decides the kernel's verdict."""
        return name in self.stated or JUDGED[name].matters


def tolerances_of(texts: Iterable[str]) -> Tolerances:
    """Parses tolerances as typed: `vgpr_count=5%`, `lds_bytes=1024`.

    Raises:
        KinspectError: no NAME=NUMBER or NAME=NUMBER%, a name that is not judged, or one twice.
    """
    tolerances: dict[str, FigureTolerance] = {}
    for text in texts:
        name, equals, amount = (part.strip() for part in text.partition("="))
        match = _TYPED.fullmatch(amount)
        if not equals or match is None:
            raise KinspectError(
                f"--tolerance {text}: not NAME=NUMBER or NAME=NUMBER%",
                "write e.g. --tolerance vgpr_count=5% or --tolerance lds_bytes=1024",
            )
        if name not in JUDGED:
            near = get_close_matches(name, list(JUDGED), n=1)
            suggestion = f" (did you mean {near[0]}?)" if near else ""
            raise KinspectError(
                f"--tolerance {text}: {name} is not a figure that diff judges{suggestion}",
                f"judged are {', '.join(JUDGED)}",
            )
        if name in tolerances:
            raise KinspectError(f"--tolerance {text}: {name} is given twice", "drop one of them")
        share = float(match[1]) / 100 if match[2] else float(match[1])
        tolerances[name] = FigureTolerance(share, relative=bool(match[2]))
    return Tolerances(tolerances)
