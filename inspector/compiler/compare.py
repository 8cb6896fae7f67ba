"""Two compiles of one kernel, stage by stage and pass by pass: where they begin to differ.

Pure: takes artifacts and reports, gives a `Comparison`. What counts is what is computed: debug
locations, value numbers, labels and the numbering of layout aliases do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from kinspect.inspector.compiler import codetext
from kinspect.inspector.compiler.irtext import unified_diff
from kinspect.inspector.compiler.passdiff import Dumps, PassDifference, PassStep
from kinspect.inspector.compiler.passes import PassDump, read_passes
from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import Artifact, KernelReport, Metric, MetricValue

MOST_EXCERPT_LINES = 40


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two compiles.

    Args:
        label: what to call it.
        artifacts: by kind, as in `CompileResult` and `KernelReport`.
        stage_ends: see `passes.read_passes`; empty where unknown.
        report: its figures, where it was analysed.
    """

    label: str
    artifacts: Mapping[str, Artifact]
    stage_ends: tuple[tuple[str, int], ...] = ()
    report: KernelReport | None = None


@dataclass(frozen=True, slots=True)
class StageDifference:
    """One stage: whether its texts say the same; None where a side lacks it."""

    stage: str
    same: bool | None


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure on both sides. `scope` is the kernel or its main loop, per ISA iteration."""

    name: str
    unit: str
    scope: Literal["kernel", "main loop"]
    left: MetricValue
    right: MetricValue

    @property
    def same(self) -> bool:
        return self.left == self.right


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two compiles have in common and where they part.

    Args:
        stages: the stages in order, with whether they are the same.
        stage: the first stage that differs; None where all are the same.
        passes: where the MLIR passes begin to differ: the first such place, and where the
            difference that lasts begins if that is another. Empty where no pass dump tells.
        steps: how many operations the sides have for themselves after each pass that both run.
        cause: in words, what made the first difference: a pass, LLVM's optimiser, its backend.
        excerpt: a unified diff of where it begins, at most `MOST_EXCERPT_LINES` lines.
        figures: side by side; empty where a side was not analysed.
        notes: what could not be compared.
    """

    left: str
    right: str
    stages: tuple[StageDifference, ...]
    stage: str | None
    passes: tuple[PassDifference, ...]
    steps: tuple[PassStep, ...]
    cause: str
    excerpt: str
    figures: tuple[Figure, ...]
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether every stage says the same and every figure is the same."""
        return self.stage is None and all(figure.same for figure in self.figures)


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    plain: Callable[[str], str]
    normal: Callable[[str], str]
    made_by: str


STAGES = (
    _Stage("ttir", codetext.plain_mlir, codetext.normal_mlir, "Triton's front end"),
    _Stage("ttgir", codetext.plain_mlir, codetext.normal_mlir, "Triton's passes on TTGIR"),
    _Stage(
        "llir",
        codetext.plain_llvm,
        codetext.normal_llvm,
        "the translation to LLVM IR or LLVM's optimiser",
    ),
    _Stage("amdgcn", codetext.plain_amdgcn, codetext.normal_amdgcn, "LLVM's AMDGPU backend"),
)


def compare(left: Side, right: Side) -> Comparison:
    """Compares two compiles of a kernel.

    Args:
        left: one of them.
        right: the other; differences read from left to right.
    """
    texts = [(stage, *_texts(left, right, stage.name)) for stage in STAGES]
    stages = tuple(StageDifference(s.name, _same(s, a, b)) for s, a, b in texts)
    figures = side_by_side(left.report, right.report)
    notes = [
        f"{name} has no {stage.name}: not compared"
        for stage, a, b in texts
        for name, text, other in ((left.label, a, b), (right.label, b, a))
        if text is None and other is not None
    ]
    first = next((one for one in stages if one.same is False), None)
    if first is None:
        return Comparison(
            left.label, right.label, stages, None, (), (), "", "", figures, tuple(notes)
        )
    stage, before, after = next(t for t in texts if t[0].name == first.stage)
    dumps, problem = _dumps(left, right)
    notes += problem
    found: tuple[PassDifference, ...] = ()
    steps: tuple[PassStep, ...] = ()
    excerpt = ""
    if dumps is not None and stage.name in ("ttgir", "llir"):
        pair = Dumps(*dumps, stage.name)
        found = pair.differences()
        if found:
            steps = pair.steps()
            excerpt = pair.excerpt(found[-1], (left.label, right.label))
    if not excerpt and before is not None and after is not None:
        labels = [f"{stage.name} of {side.label}" for side in (left, right)]
        excerpt = unified_diff(stage.plain(before), stage.plain(after), *labels)
        if stage.name == "llir":
            excerpt = excerpt.replace("\n %", "\n ").replace("\n-%", "\n-").replace("\n+%", "\n+")
    return Comparison(
        left.label,
        right.label,
        stages,
        stage.name,
        found,
        steps,
        found[-1].words(left.label, right.label) if found else stage.made_by,
        _short(excerpt),
        figures,
        tuple(notes),
    )


def _texts(left: Side, right: Side, stage: str) -> tuple[str | None, str | None]:
    """A stage of both, in one spelling of layouts."""
    a, b = _text(left, stage), _text(right, stage)
    if a is None or b is None or codetext.spells_older(a) == codetext.spells_older(b):
        return a, b
    return codetext.older_spelling(a), codetext.older_spelling(b)


def _text(side: Side, stage: str) -> str | None:
    artifact = side.artifacts.get(stage)
    if artifact is None:
        return None
    try:
        return artifact.path.read_text("utf-8", "replace")
    except OSError as error:
        raise KinspectError(
            f"{artifact.path}: cannot be read ({error.strerror})", "run again to compile it anew"
        ) from error


def _same(stage: _Stage, left: str | None, right: str | None) -> bool | None:
    if left is None or right is None:
        return None
    if left == right:
        return True
    return stage.normal(left) == stage.normal(right)


def _dumps(left: Side, right: Side) -> tuple[tuple[PassDump, PassDump] | None, list[str]]:
    found = []
    for side in (left, right):
        artifact = side.artifacts.get("passes")
        if artifact is None:
            return None, [f"{side.label} has no pass dump: passes are not compared"]
        try:
            found.append(read_passes(artifact.path, side.stage_ends, changes=False))
        except KinspectError as error:
            return None, [f"{side.label}: {error.message}"]
    return (found[0], found[1]), []


def _short(diff: str) -> str:
    lines = diff.splitlines()
    if len(lines) <= MOST_EXCERPT_LINES:
        return diff
    left_out = len(lines) - MOST_EXCERPT_LINES
    return "\n".join([*lines[:MOST_EXCERPT_LINES], f"({left_out} more lines)"]) + "\n"


# --------------------------------------------------------------------------- figures

KERNEL_FIGURES = (
    "vgpr_count",
    "arch_vgpr_count",
    "agpr_count",
    "vgpr_allocated",
    "sgpr_count",
    "vgpr_spill_count",
    "sgpr_spill_count",
    "lds_bytes",
    "scratch_bytes",
    "occupancy.waves_per_eu",
    "occupancy.workgroups_per_cu",
    "code_bytes",
    "instruction_count",
)
WORK_FIGURES = ("work.macs", "work.loaded")
"""What the source needs in one ISA iteration: loops that are unrolled otherwise differ in it."""
LOOP_FIGURES = (
    *WORK_FIGURES,
    "count.instructions",
    "count.mfma",
    "count.wmma",
    "count.full_wait",
    "count.scratch_load",
    "count.scratch_store",
    "cycles.mfma",
)


def side_by_side(left: KernelReport | None, right: KernelReport | None) -> tuple[Figure, ...]:
    """The figures of two reports; nothing where one is missing.

    Counts by class are those that are not 0 on both sides. The main loops are those that each
    report names; a figure of a loop that a side does not have is None.
    """
    if left is None or right is None:
        return ()
    classes = sorted({n for n in (*left.metrics, *right.metrics) if n.startswith("count.")})
    found = list(_figures(KERNEL_FIGURES, left.metrics, right.metrics, "kernel"))
    found += [f for f in _figures(classes, left.metrics, right.metrics, "kernel") if _counts(f)]
    one, other = _main_loop(left), _main_loop(right)
    if one or other:
        found += [f for f in _figures(LOOP_FIGURES, one, other, "main loop") if _counts(f)]
    return tuple(found)


def _counts(figure: Figure) -> bool:
    return bool(figure.left or figure.right)


def _figures(
    names: Iterable[str],
    left: Mapping[str, Metric],
    right: Mapping[str, Metric],
    scope: Literal["kernel", "main loop"],
) -> Iterator[Figure]:
    for name in names:
        both = [m for m in (left.get(name), right.get(name)) if m is not None]
        if both:
            a, b = (m[name].value if name in m else None for m in (left, right))
            yield Figure(name, both[0].unit, scope, a, b)


def _main_loop(report: KernelReport) -> Mapping[str, Metric]:
    return next((loop.metrics for loop in report.loops if loop.id == report.main_loop), {})
