"""Two compiles of one kernel, stage by stage and pass by pass: where they begin to differ.

The figures of two reports of a kernel side by side: of the kernel, and of its main loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.named_files import file_text
from ..compile import code_text, mlir_text
from ..compile.mlir_content import content_of
from ..compile.mlir_text import unified_diff
from ..compile.passes import PassDump, read_passes
from ..model import Artifact, KernelReport, Metric, MetricValue
from ..pipeline.reading import artifact_metadata
from .passdiff import Dumps, Kind, PassDifference, PassStep, kind_of, unified_diff_of

MOST_EXCERPT_LINES = 40


class Side(Struct, frozen=True):
    """One of the two compiles.

    Args:
        artifacts: kind -> artifact, as in `CompileResult` and `KernelReport`.
    """

    label: str
    artifacts: Mapping[str, Artifact]
    stage_ends: tuple[tuple[str, int], ...] = ()
    report: KernelReport | None = None


class StageDifference(Struct, frozen=True):
    """One stage: whether its texts are equal; None where a side lacks it.

    Args:
        kind: the kind of difference of TTIR or TTGIR; None for other stages.
        spelled_anew: whether they differ only in how versions of Triton print attributes and
            pointer types.
    """

    stage: str
    same: bool | None
    kind: Kind | None = None
    spelled_anew: bool = False

    @property
    def state(self) -> str:
        """Whether and how it differs, in words."""
        if self.same is None:
            return "?"
        if self.same:
            return "same"
        return {"order": "in another order", "attributes": "differs in attributes"}.get(
            self.kind or "", "differs"
        )


class Comparison(Struct, frozen=True):
    """The comparison of two compiles: the first stage and pass at which they differ.

    Args:
        stages: the stages in order, with whether they are the same.
        stage: the first stage that differs; None where all are the same.
        passes: where the MLIR passes begin to differ: the first such place, and where the
            difference that lasts begins if that is another. Empty where no pass dump tells.
        steps: how many operations the sides have for themselves after each pass that both run.
        cause: in words, what made the first difference: a pass, LLVM's optimiser, its backend.
        excerpt: a unified diff of where it begins, at most `MOST_EXCERPT_LINES` lines.
        figures: side by side; empty where a side was not analysed.
    """

    left: str
    right: str
    stages: tuple[StageDifference, ...]
    stage: str | None
    passes: tuple[PassDifference, ...]
    steps: tuple[PassStep, ...]
    cause: str
    excerpt: str
    figures: tuple[FigurePair, ...]
    notes: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """Whether all stages and all figures are the same."""
        return self.stage is None and all(figure.same for figure in self.figures)


class _Stage(Struct, frozen=True):
    name: str
    plain: Callable[[str], str]
    normal: Callable[[str], str]
    made_by: str


_MLIR = frozenset(("ttir", "ttgir"))
STAGES = (
    _Stage("ttir", mlir_text.plain_mlir, mlir_text.normal_mlir, "Triton's front end"),
    _Stage("ttgir", mlir_text.plain_mlir, mlir_text.normal_mlir, "Triton's passes on TTGIR"),
    _Stage(
        "llir",
        code_text.plain_llvm,
        code_text.normal_llvm,
        "the translation to LLVM IR or LLVM's optimiser",
    ),
    _Stage("amdgcn", code_text.plain_amdgcn, code_text.normal_amdgcn, "LLVM's AMDGPU backend"),
)


def compare(left: Side, right: Side) -> Comparison:
    """Compares two compiles of a kernel.

    Args:
        right: the other; differences read from left to right.
    """
    texts = [(stage, *_texts(left, right, stage.name)) for stage in STAGES]
    printed_alike = _printed_alike(left, right)
    stages = tuple(_stage(s, a, b, printed_alike) for s, a, b in texts)
    same = Comparison(
        left=left.label,
        right=right.label,
        stages=stages,
        stage=None,
        passes=(),
        steps=(),
        cause="",
        excerpt="",
        figures=side_by_side(left.report, right.report),
        notes=(*_missing_stages(texts, (left.label, right.label)), *_spelled_anew(stages)),
    )
    first = _first(stages)
    if first is None:
        return same
    stage, *stage_texts = next(t for t in texts if t[0].name == first.stage)
    dumps, problem = _dumps(left, right)
    labels = left.label, right.label
    reordered = _reordered(stages, first.stage, dumps, labels, printed_alike)
    comparison = replace(
        same, stage=first.stage, cause=stage.made_by, notes=(*same.notes, *problem, *reordered)
    )
    if dumps is not None and first.stage in ("ttgir", "llir"):
        comparison = _with_passes(
            comparison, Dumps(*dumps, first.stage, printed_alike=printed_alike)
        )
    left_text, right_text = stage_texts
    if not comparison.excerpt and left_text is not None and right_text is not None:
        excerpt = _text_diff(stage, left_text, right_text, labels, first.kind)
        comparison = replace(comparison, excerpt=excerpt)
    return replace(comparison, excerpt=_short(comparison.excerpt))


def _with_passes(comparison: Comparison, pair: Dumps) -> Comparison:
    """Adds the passes at which two dumps begin to differ, as far as they do."""
    differences = pair.differences()
    if not differences:
        return comparison
    labels = comparison.left, comparison.right
    return replace(
        comparison,
        passes=differences,
        steps=pair.steps(),
        cause=differences[-1].words(*labels),
        excerpt=pair.excerpt(differences[-1], labels),
    )


def _missing_stages(
    texts: Iterable[tuple[_Stage, str | None, str | None]], labels: tuple[str, str]
) -> Iterator[str]:
    """Yields notes on stages that only one side has."""
    for stage, left, right in texts:
        if (left is None) != (right is None):
            yield f"{labels[0] if left is None else labels[1]} has no {stage.name}: not compared"


def _spelled_anew(stages: Iterable[StageDifference]) -> Iterator[str]:
    """Yields notes on stages that differ only in how they are printed."""
    for stage in stages:
        if stage.spelled_anew:
            yield (
                f"{stage.stage} differs in how attributes and pointer types are printed, in nothing"
                " else"
            )


def _text_diff(
    stage: _Stage, left: str, right: str, labels: tuple[str, str], kind: Kind | None
) -> str:
    """Returns a unified diff of a stage's texts, without differences less than `kind`."""
    names = f"{stage.name} of {labels[0]}", f"{stage.name} of {labels[1]}"
    texts = stage.plain(left), stage.plain(right)
    if kind is not None:
        diff = unified_diff_of(*texts, names, kind, (content_of(left), content_of(right)))
    else:
        diff = unified_diff(*texts, *names)
    if stage.name == "llir":
        diff = diff.replace("\n %", "\n ").replace("\n-%", "\n-").replace("\n+%", "\n+")
    return diff


def _stage(
    stage: _Stage, left: str | None, right: str | None, printed_alike: bool
) -> StageDifference:
    """Compares the texts of a stage; a side without text makes the result unknown."""
    alike = _alike(stage, left, right)
    if alike is not False or stage.name not in _MLIR or left is None or right is None:
        return StageDifference(stage.name, alike)
    kind = kind_of(content_of(left), content_of(right), printed_alike=printed_alike)
    if kind is None:
        return StageDifference(stage.name, True, spelled_anew=True)
    return StageDifference(stage.name, alike, kind)


def _first(stages: Sequence[StageDifference]) -> StageDifference | None:
    """Returns the first stage that differs in its contents; else the first in another order."""
    differing = [stage for stage in stages if stage.same is False]
    contents = [stage for stage in differing if stage.kind != "order"]
    return next(iter(contents or differing), None)


def _reordered(
    stages: Sequence[StageDifference],
    until: str,
    dumps: tuple[PassDump, PassDump] | None,
    labels: tuple[str, str],
    printed_alike: bool,
) -> Iterator[str]:
    """Yields notes on the stages before `until` that differ only in order."""
    for stage in stages:
        if stage.stage == until:
            return
        if stage.kind == "order":
            differences: tuple[PassDifference, ...] = ()
            if dumps is not None and stage.stage == "ttgir":
                pair = Dumps(*dumps, stage.stage, printed_alike=printed_alike)
                differences = pair.differences()
            made_by = f", by {differences[-1].made_by(*labels)}" if differences else ""
            yield f"{stage.stage} differs in the order of operations alone{made_by}"


def _printed_alike(left: Side, right: Side) -> bool:
    """Tells whether one version of Triton printed both; assumed if the versions are unknown."""
    versions = [_triton_version(side) for side in (left, right)]
    return None in versions or versions[0] == versions[1]


def _triton_version(side: Side) -> str | None:
    metadata = artifact_metadata(side.artifacts.get("metadata")) or {}
    version = metadata.get("triton_version")
    return version if isinstance(version, str) else None


def _texts(left: Side, right: Side, stage: str) -> tuple[str | None, str | None]:
    """A stage of both, in one spelling of layouts."""
    a, b = _text(left, stage), _text(right, stage)
    if a is None or b is None or mlir_text.spells_older(a) == mlir_text.spells_older(b):
        return a, b
    return mlir_text.older_spelling(a), mlir_text.older_spelling(b)


def _text(side: Side, stage: str) -> str | None:
    artifact = side.artifacts.get(stage)
    if artifact is None:
        return None
    try:
        return file_text(artifact.path)
    except OSError as error:
        raise KinspectError(
            f"{artifact.path}: cannot be read ({error.strerror})", "run again to compile it anew"
        ) from error


def _alike(stage: _Stage, left: str | None, right: str | None) -> bool | None:
    if left is None or right is None:
        return None
    if left == right:
        return True
    return stage.normal(left) == stage.normal(right)


def _dumps(left: Side, right: Side) -> tuple[tuple[PassDump, PassDump] | None, list[str]]:
    dumps = []
    for side in (left, right):
        artifact = side.artifacts.get("passes")
        if artifact is None:
            return None, [f"{side.label} has no pass dump: passes are not compared"]
        try:
            dumps.append(read_passes(artifact.path, side.stage_ends, changes=False))
        except KinspectError as error:
            return None, [f"{side.label}: {error.message}"]
    return (dumps[0], dumps[1]), []


def _short(diff: str) -> str:
    lines = diff.splitlines()
    if len(lines) <= MOST_EXCERPT_LINES:
        return diff
    left_out = len(lines) - MOST_EXCERPT_LINES
    return "\n".join([*lines[:MOST_EXCERPT_LINES], f"({left_out} more lines)"]) + "\n"


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
"""Work of the source in one ISA iteration; loops that are unrolled differently differ in it."""
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


class FigurePair(Struct, frozen=True):
    """One figure on both sides. `scope` is the kernel or its main loop, per ISA iteration."""

    name: str
    unit: str
    scope: Literal["kernel", "main loop"]
    left: MetricValue
    right: MetricValue

    @property
    def same(self) -> bool:
        return self.left == self.right


def side_by_side(left: KernelReport | None, right: KernelReport | None) -> tuple[FigurePair, ...]:
    """The figures of two reports; nothing where one is missing.

    Counts by class are those that are not 0 on both sides. The main loops are those that each
    report names; a figure of a loop that a side does not have is None.
    """
    if left is None or right is None:
        return ()
    classes = sorted({n for n in (*left.metrics, *right.metrics) if n.startswith("count.")})
    figures = list(_figures(KERNEL_FIGURES, left.metrics, right.metrics, "kernel"))
    figures += [
        f for f in _figures(classes, left.metrics, right.metrics, "kernel") if _is_counted(f)
    ]
    left_loop, right_loop = _main_loop(left), _main_loop(right)
    if left_loop or right_loop:
        figures += [
            f for f in _figures(LOOP_FIGURES, left_loop, right_loop, "main loop") if _is_counted(f)
        ]
    return tuple(figures)


def _is_counted(figure: FigurePair) -> bool:
    """Tells whether a figure is there, and not 0, on either side."""
    return bool(figure.left or figure.right)


def _figures(
    names: Iterable[str],
    left: Mapping[str, Metric],
    right: Mapping[str, Metric],
    scope: Literal["kernel", "main loop"],
) -> Iterator[FigurePair]:
    for name in names:
        metrics = [m for m in (left.get(name), right.get(name)) if m is not None]
        if metrics:
            a, b = (m[name].value if name in m else None for m in (left, right))
            yield FigurePair(name=name, unit=metrics[0].unit, scope=scope, left=a, right=b)


def _main_loop(report: KernelReport) -> Mapping[str, Metric]:
    return next((loop.metrics for loop in report.loops if loop.id == report.main_loop), {})
