"""Kernels compiled by several Tritons, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from msgspec import to_builtins

from ..compare.passdiff import PassDifference, PassStep
from ..compare.stages import WORK_FIGURES, Comparison, FigurePair
from ..compare.tritons import Build, BuildsReport, KernelComparison
from ..explain.view import place, show
from ..present.document import (
    Block,
    Code,
    Column,
    Columns,
    Document,
    Paragraph,
    Section,
    Span,
    Table,
    paragraphs,
    table,
    words,
)
from ..report.json_write import error_fields, fields_of

SCHEMA_VERSION = 1
WIDEST = 140
"""Columns of a diff's line before it is cut."""
MOST_IN_FULL = 4
"""Comparisons beyond which only those that failed are shown in full."""
SUMMARY = (
    ("VGPRs", "vgpr_allocated"),
    ("spills", "vgpr_spill_count"),
    ("LDS", "lds_bytes"),
    ("waves/SIMD", "occupancy.waves_per_eu"),
    ("code", "code_bytes"),
)


def document(report: BuildsReport) -> Document:
    """Each kernel: the first stage that differs and by which pass, the figures, an excerpt."""
    in_full = len(report.kernels) <= MOST_IN_FULL
    sections = [
        section
        for kernel in report.kernels
        if in_full or kernel.comparison is None
        for section in _kernel(kernel, report.builds)
    ]
    if len(report.kernels) > 1:
        sections.append(Section((_summary(report),)))
    if not in_full:
        sections.append(Section(paragraphs(("one kernel in full: --kernel NAME",), "weak")))
    return tuple(sections)


def _summary(report: BuildsReport) -> Table:
    return table(
        (
            (Column("kernel", shrinks=True), lambda kernel: kernel.kernel),
            (Column("arch", rank=1), lambda kernel: kernel.arch),
            (Column("Tritons", rank=2), lambda kernel: _pair(kernel, report.builds)),
            *(
                (Column(title, right=True, rank=3), partial(_side_values, name=name))
                for title, name in SUMMARY
            ),
            ("first to differ", _first),
            (
                Column("by", shrinks=True),
                lambda kernel: kernel.comparison.cause if kernel.comparison is not None else "",
            ),
        ),
        report.kernels,
    )


def _side_values(kernel: KernelComparison, name: str) -> str:
    """A figure on both sides: once where it is the same."""
    figures = kernel.comparison.figures if kernel.comparison is not None else ()
    for figure in figures:
        if (figure.name, figure.scope) == (name, "kernel"):
            return (
                show(figure.left) if figure.same else f"{show(figure.left)} | {show(figure.right)}"
            )
    return ""


def _first(kernel: KernelComparison) -> str:
    if kernel.comparison is None:
        return "failed in " + " and ".join(kernel.errors)
    return kernel.comparison.stage or ("none" if kernel.comparison.same else "figures")


def _pair(kernel: KernelComparison, builds: Sequence[Build]) -> str:
    return f"{builds[kernel.left].label} | {builds[kernel.right].label}"


def _kernel(kernel: KernelComparison, builds: Sequence[Build]) -> Iterator[Section]:
    names = [
        b.label if b.triton_version in b.label else f"{b.label} (Triton {b.triton_version})"
        for b in (builds[kernel.left], builds[kernel.right])
    ]
    origin = "the same TTIR" if kernel.same_ttir else "what each one's front end made"
    head = [f"{names[0]} and {names[1]} compiled {origin}"]
    head += [f"note: {note}" for note in kernel.notes]
    for label, error in kernel.errors.items():
        hint = f"; try: {error.hint}" if error.hint else ""
        head.append(f"{label}: {error.message}{hint}")
    comparison = kernel.comparison
    if comparison is not None:
        head += _comparison(comparison)
    where = "".join(f"  {part}" for part in (kernel.arch, place(kernel.source)) if part)
    title = (Span(kernel.kernel, "strong"), Span(where))
    yield Section(paragraphs(head), title, is_subject=True)
    if comparison is not None:
        yield from _tables(comparison)


def _comparison(comparison: Comparison) -> Iterator[str]:
    if comparison.same:
        yield "no difference: every stage says the same"
    elif comparison.stage is None:
        yield "every stage says the same; figures differ"
    else:
        yield f"first stage that differs: {comparison.stage}, by {comparison.cause}"
    yield from _earlier_passes(comparison)
    yield "stages: " + ", ".join(f"{s.stage} {s.state}" for s in comparison.stages)
    yield from (f"note: {note}" for note in comparison.notes)


def _tables(comparison: Comparison) -> Iterator[Section]:
    """Steps, the figures that differ with a line of those that are the same, and an excerpt."""
    sides = [Column(comparison.left, right=True), Column(comparison.right, right=True)]
    if steps := list(_steps(comparison.steps)):
        columns: Columns = (
            (Column("operations that only one has after", shrinks=True), lambda step: step.name),
            (sides[0], lambda step: str(step.left)),
            (sides[1], lambda step: str(step.right)),
        )
        yield Section((table(columns, steps),))
    blocks: list[Block] = []
    if changed := [f for f in comparison.figures if not f.same]:
        work = _work_ratio(comparison.figures)
        differing: Columns = (
            (Column("figure", shrinks=True), _name),
            (sides[0], lambda figure: show(figure.left)),
            (sides[1], lambda figure: show(figure.right)),
            (Column("change", right=True), lambda figure: _change(figure, work)),
            (Column("", rank=1), lambda figure: figure.unit),
        )
        blocks.append(table(differing, changed))
    if equal := [
        f"{f.name} {show(f.left)}" for f in comparison.figures if f.same and _is_listed(f)
    ]:
        blocks.append(Paragraph(words("same in both: " + ", ".join(equal))))
    if blocks:
        yield Section(tuple(blocks))
    if comparison.excerpt:
        lines = comparison.excerpt.splitlines()
        cut = (line if len(line) <= WIDEST else line[: WIDEST - 1] + "…" for line in lines)
        yield Section((Code(tuple(cut), "diff"),))


def _earlier_passes(comparison: Comparison) -> Iterator[str]:
    """Yields the passes before the last one at which the two sides differed."""
    for difference in comparison.passes[:-1]:
        afterwards = " but for the order of operations" if difference.lasts else ""
        afterwards = (
            "" if difference.order_only and difference.lasts else f", then agreed again{afterwards}"
        )
        passes = difference.words(comparison.left, comparison.right)
        yield f"earlier they differed by {passes}{afterwards}"


def _name(figure: FigurePair) -> str:
    return figure.name if figure.scope == "kernel" else f"{figure.scope}: {figure.name}"


def _steps(steps: Sequence[PassStep]) -> Iterator[PassStep]:
    last_counts = (0, 0)
    for step in steps:
        if (step.left, step.right) != last_counts:
            yield step
        last_counts = (step.left, step.right)


def _is_listed(figure: FigurePair) -> bool:
    return figure.scope == "kernel" and figure.left is not None and "count." not in figure.name


def _change(figure: FigurePair, ratio: float | None) -> str:
    """Returns the change of a figure; of a main loop that does more per iteration, per work."""
    left, right = figure.left, figure.right
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        return ""
    in_loop = figure.scope == "main loop" and figure.name not in WORK_FIGURES
    if in_loop and ratio is not None and ratio != 1:
        return f"{round(right / ratio - left, 2):+g} for the same work"
    return f"{right - left:+g}"


def _work_ratio(figures: Sequence[FigurePair]) -> float | None:
    """Returns the right main loop's work per iteration over the left one's; None if unknown."""
    for figure in figures:
        left, right = figure.left, figure.right
        if figure.name in WORK_FIGURES and isinstance(left, int) and isinstance(right, int):
            return right / left if left else None
    return None


def fields(report: BuildsReport) -> dict[str, Any]:
    """Returns the report as JSON values with the keys of `comparison.schema.json`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": dict(report.tool),
        "target": report.target,
        "tritons": report.builds,
        "errors": [error_fields(e) for e in report.errors],
        "comparisons": [_kernel_json(k) for k in report.kernels],
    }


def _kernel_json(kernel: KernelComparison) -> dict[str, Any]:
    source = kernel.source
    return {
        **fields_of(kernel, "kernel", "arch", "file"),
        "source": fields_of(source, "file", "line") if source is not None else None,
        "constexprs": _plain(kernel.variant.constexprs),
        "options": _plain(kernel.variant.options),
        **fields_of(kernel, "left", "right", "same_ttir"),
        "errors": {label: error_fields(e) for label, e in kernel.errors.items()},
        "notes": list(kernel.notes),
        **(_comparison_json(kernel.comparison) if kernel.comparison is not None else {}),
    }


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    return {
        "same": comparison.same,
        "first_stage": comparison.stage,
        "made_by": comparison.cause or None,
        "stages": [fields_of(stage, "stage", "same", "kind") for stage in comparison.stages],
        "passes": [_pass_json(p) for p in comparison.passes],
        "steps": [
            {"pass": p.name, "at": list(p.indices), "only": [p.left, p.right]}
            for p in comparison.steps
        ],
        "excerpt": comparison.excerpt,
        "figures": [
            {
                **fields_of(figure, "name", "unit", "scope"),
                "values": [*fields_of(figure, "left", "right").values()],
            }
            for figure in comparison.figures
        ],
        "comparison_notes": list(comparison.notes),
    }


def _pass_json(difference: PassDifference) -> dict[str, Any]:
    fields = to_builtins(difference)
    only = [fields.pop("left_only"), fields.pop("right_only")]
    before, after = fields.pop("before"), fields.pop("after")
    order = {"same_before": before, "differ_before": after, "order_only": difference.order_only}
    return {**fields, "only": only, **order}


def _plain(values: Any) -> dict[str, Any]:
    return json.loads(json.dumps(dict(values), default=str))  # type: ignore[no-any-return]
