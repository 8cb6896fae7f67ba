"""The results of a comparison of two reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from ...model import ErrorRecord, KernelReport, LoopReport, MetricValue, TimeChange
from ..stages import Comparison
from ..sweep.figures import Work

Judgement = Literal["regression", "improvement", "neutral", "unknown", "shown"]
"""Of one figure. `unknown`: a side lacks it. `shown`: it means something else on each side."""

Verdict = Literal["regression", "mixed", "improvement", "neutral", "same", "unknown"]
"""Of a kernel. `mixed`: something that matters got worse and something else that matters better.
`neutral`: it differs, and nothing that matters got better or worse."""

VERDICTS: tuple[Verdict, ...] = (
    "regression",
    "mixed",
    "unknown",
    "improvement",
    "neutral",
    "same",
)
"""Worst first."""


class FigureChange(Struct, frozen=True):
    """One figure on both sides, and what to think of it.

    Args:
        unit: unit of both values; that they are per source iteration is said in `figures`.
        loop: id of the left side's loop that it is about; None for the kernel.
        matters: whether the judgement counts in the kernel's verdict.
        figures: both values in words, with what they are figures of.
        reason: its cause or consequence in words; empty where neither is known.
        basis: the part of `figures` that says what one figure is per; empty for shares and widths.
        brief: `figures` without `basis`, for where that is said once for all; empty where it is
            the same.
        values: `41 → 29 VGPRs`: `figures` without `basis` and all that is in brackets; empty where
            it is the same.
    """

    name: str
    unit: str
    loop: str | None
    left: MetricValue
    right: MetricValue
    judgement: Judgement
    matters: bool
    figures: str
    reason: str = ""
    basis: str = ""
    brief: str = ""
    values: str = ""

    @property
    def why(self) -> str:
        """`figures`, with `reason` where that is known, in one line."""
        return f"{self.figures}: {self.reason}" if self.reason else self.figures


class Basis(Struct, frozen=True):
    """What makes the figures of two loops, or of two kernels without one, comparable.

    Args:
        divisors: what the figures of one wave and ISA iteration of each side are divided by: the
            work that the source needs in it, in millions of multiply-accumulates or thousands of
            loaded elements. Where that is unknown, the source iterations in it, or how much more
            work one side issues in each; (1, 1) to compare as is. None where it is unknown how the
            work of the two sides relates.
        words: what a divided figure is per: `per source iteration`; with None, why.
        work: what needed work is counted in; None where it is unknown.
    """

    divisors: tuple[float, float] | None
    words: str
    work: Work | None = None


class LoopBound(Struct, frozen=True):
    """The slowest unit of a loop, among those that are known of both sides.

    Args:
        cycles: of the CU that it takes at least in an ISA iteration of all resident waves.
        resident: workgroups that are on the CU at a time.
    """

    unit: str
    cycles: float
    resident: int


class LoopPair(Struct, frozen=True):
    """Loops of the two sides that do the same work.

    Args:
        left: None where the right side alone has such a loop.
        right: None where the left side alone has.
        basis: what their figures are divided by.
        bounds: the slowest unit of each side; None where it is unknown.
        waves: of a workgroup, on each side.
    """

    left: LoopReport | None
    right: LoopReport | None
    basis: Basis
    bounds: tuple[LoopBound | None, LoopBound | None] = (None, None)
    waves: tuple[int, int] = (1, 1)

    @property
    def bound_per_work(self) -> tuple[float, float] | None:
        """Cycles of the CU that the slowest unit takes for the work of `basis`; None if unknown."""
        (left, right), divisors = self.bounds, self.basis.divisors
        if left is None or right is None or divisors is None or self.basis.work is None:
            return None
        return (
            left.cycles / (divisors[0] * self.waves[0] * left.resident),
            right.cycles / (divisors[1] * self.waves[1] * right.resident),
        )


class LineDifference(Struct, frozen=True):
    """The instructions of one source line that differ.

    Args:
        place: `gemm.py:17`; empty for instructions without a position.
        counts: mnemonic -> how often on the left, on the right; only those that differ in number.
        lines: `- v_add_f32 v, v, v ×4` and `+ …`, what each side alone has.
    """

    place: str
    counts: Mapping[str, tuple[int, int]]
    lines: tuple[str, ...]


class IsaDifference(Struct, frozen=True):
    """The differences of a loop's code, or of a kernel's without loops, by source line.

    Args:
        loop: id of the left side's loop; None for the whole kernel.
        lines: the source lines at which it differs, in the order of the source.
        common: number of instructions that both have.
        only: instructions that only the left has, and that only the right has.
    """

    loop: str | None
    lines: tuple[LineDifference, ...]
    common: int
    only: tuple[int, int]


CodeSeen = Literal["seen", "missing", "unasked", "differs"]
_OF_CODE: Mapping[CodeSeen, str] = {
    "seen": "",
    "missing": "the code is not at hand: compared by figures alone",
    "unasked": (
        "compared by figures alone: the code is that of the worst kernels; all of it with --isa"
    ),
    "differs": "the code differs, no figure does",
}


class KernelDiff(Struct, frozen=True):
    """Two reports of a kernel that belong together.

    Args:
        matched_by: which parts of their identity are equal, so that they count as one kernel.
        comparison: stage by stage; None where neither side's artifacts are at hand.
        isa: the code of the loops that changed; empty where it is not at hand or was not asked for.
        code: `seen` if the code was compared, else why only figures were.
        time: of the launch before and after; None where that is not known of the same launch.
    """

    left: KernelReport
    right: KernelReport
    matched_by: str
    changes: tuple[FigureChange, ...]
    loops: tuple[LoopPair, ...]
    verdict: Verdict
    comparison: Comparison | None = None
    isa: tuple[IsaDifference, ...] = ()
    code: CodeSeen = "seen"
    notes: tuple[str, ...] = ()
    time: TimeChange | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes, with what is to be said of the code."""
        code_note = _OF_CODE[self.code]
        return (*self.notes, code_note) if code_note else self.notes

    def of(self, judgement: Judgement, *, matters: bool | None = None) -> tuple[FigureChange, ...]:
        """Returns the changes of one judgement; `matters` selects those that do, or do not."""
        return tuple(
            c
            for c in self.changes
            if c.judgement == judgement and (matters is None or c.matters is matters)
        )


class Alone(Struct, frozen=True):
    """A kernel that only one side has, and why the other does not, if known."""

    label: str
    arch: str | None
    report: KernelReport
    why: str = ""


class DiffReport(Struct, frozen=True):
    """The result of one comparison.

    Args:
        tool: name -> version of what made it.
        left: name of that side, as `right` of the other.
        errors: what could not be captured, compiled or read, with the side's name.
        tolerances: metric -> as it was typed.
    """

    tool: Mapping[str, str]
    left: str
    right: str
    pairs: tuple[KernelDiff, ...]
    only_left: tuple[Alone, ...] = ()
    only_right: tuple[Alone, ...] = ()
    errors: tuple[tuple[str, ErrorRecord], ...] = ()
    tolerances: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[Verdict, int]:
        """Verdict -> number of pairs, worst first; verdicts that do not occur are 0."""
        pair_counts = Counter(pair.verdict for pair in self.pairs)
        return {verdict: pair_counts[verdict] for verdict in VERDICTS}

    @property
    def differs(self) -> bool:
        """Whether the two sides differ in anything: kernels, code, figures or errors."""
        alone = self.only_left or self.only_right or self.errors
        return bool(alone) or any(pair.verdict != "same" for pair in self.pairs)

    @property
    def regressed(self) -> tuple[KernelDiff, ...]:
        """Pairs in which something that matters got worse, whatever else got better."""
        return tuple(p for p in self.pairs if p.verdict in ("regression", "mixed"))

    def not_compared(self, *, allow_new: bool = False) -> list[str]:
        """Returns what could not be compared, a sentence each.

        Args:
            allow_new: kernels that the right side alone has are no failing.
        """
        sentences = [
            f"{side}: {' '.join(p for p in (e.file, e.kernel) if p)}: {e.stage}: {e.message}"
            for side, e in self.errors
        ]
        for pair in self.pairs:
            unknown = [c.name for c in pair.of("unknown", matters=True)]
            if pair.verdict == "unknown" or unknown:
                figures = ", ".join(dict.fromkeys(unknown)) or "every figure"
                sentences.append(f"{label_of(pair.left)} on {pair.left.arch}: unknown: {figures}")
        sentences += [f"only in {self.left}: {a.label} on {a.arch}" for a in self.only_left]
        if not allow_new:
            sentences += [f"only in {self.right}: {a.label} on {a.arch}" for a in self.only_right]
        if not self.pairs and not sentences:
            sentences.append("there is not one pair of kernels")
        return sentences


def label_of(report: KernelReport) -> str:
    """`kernel[case]`."""
    case = report.variant.case if report.variant is not None else None
    return f"{report.name}[{case}]" if case else report.name
