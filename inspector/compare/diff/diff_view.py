"""A comparison in words and rows, shared by its renderers for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from ...explain import loop_view, time_view, view
from ...explain.loop_view import ScorecardRow
from .diff_results import (
    Alone,
    DiffReport,
    FigureChange,
    IsaDifference,
    Judgement,
    KernelDiff,
    LineDifference,
    LoopPair,
    label_of,
)
from .loop_verdicts import BOUND, short_number
from .loops import PER
from .verdicts import RESIDENT, SCRATCH

VERDICT_WORDS = {
    "regression": "regressed",
    "mixed": "mixed",
    "unknown": "unknown",
    "improvement": "improved",
    "neutral": "neutral",
    "same": "same",
}
_MOST_WHY = 3
"""Changes that the reason of a verdict names."""
_MOST_LOSSES = 2
"""Losses that the reason of a mixed verdict names, beside as many gains."""
_MOST_NEUTRAL = 2
"""Changes that are named where none matters."""
_MOST_COUNTS = 5
"""Mnemonics that a source line's difference counts."""
_MOST_LABEL = 24
"""Characters of a side's name in a heading."""


class ComparedRow(Struct, frozen=True):
    """A row of two loops' scorecards; see `ScorecardRow`. `–` where a side has no such row."""

    label: str
    left: str
    right: str
    metrics: tuple[str, ...]


def summary(report: DiffReport) -> str:
    """`82 pairs: 2 regressed, 4 improved, 6 neutral, 70 same; 1 only in A`."""
    counts = [f"{n} {VERDICT_WORDS[v]}" for v, n in report.counts.items() if n]
    text = view.plural(len(report.pairs), "pair")
    if counts:
        text += ": " + ", ".join(counts)
    if report.only_left:
        text += f"; {len(report.only_left)} only in {report.left}"
    if report.only_right:
        text += f"; {len(report.only_right)} only in {report.right}"
    if report.errors:
        text += f"; {len(report.errors)} failed"
    return text


def arch_of(pair: KernelDiff) -> str:
    """The target, or both."""
    names = [side.arch or view.UNKNOWN for side in (pair.left, pair.right)]
    return names[0] if names[0] == names[1] else f"{names[0]} | {names[1]}"


def span_several_files(pairs: Iterable[KernelDiff]) -> bool:
    """Tells whether the kernels are of several files, so that their names need the file."""
    return len({pair.left.file for pair in pairs}) > 1


def file_of(pair: KernelDiff) -> str:
    """The file that the kernel was read from."""
    return view.file_name(pair.left.file)


def first_stage(pair: KernelDiff) -> str:
    """The first stage that differs; `none` where all are the same, empty where it is not known."""
    if pair.comparison is None:
        return ""
    return pair.comparison.stage or "none"


def reason_in_short(pair: KernelDiff) -> str:
    """Returns what decides the verdict, in a few words; else what changed at all."""
    deciding = [c for c in pair.changes if c.matters and c.judgement != "neutral"]
    gains = [c for c in deciding if c.judgement == "improvement"]
    losses = [c for c in deciding if c.judgement != "improvement"]
    if gains and losses:
        return f"worse: {_leading(losses)}; better: {_leading(gains)}"
    if deciding:
        return "; ".join(_and_more(_briefs(deciding[:_MOST_WHY]), len(deciding) - _MOST_WHY))
    minor = [c for c in pair.changes if c.judgement in ("regression", "improvement")]
    if minor:
        return "; ".join(_briefs(minor[:_MOST_WHY]))
    if any(c.judgement == "shown" for c in pair.changes):
        return f"{view.plural(len(pair.changes), 'figure')} shown, not judged: two targets"
    if pair.changes:
        briefs = _briefs(pair.changes[:_MOST_NEUTRAL])
        return "; ".join(_and_more(briefs, len(pair.changes) - _MOST_NEUTRAL))
    return "" if pair.verdict == "same" else "the code differs, no figure does"


def _and_more(texts: list[str], omitted: int) -> list[str]:
    return [*texts, f"{omitted} more"] if omitted > 0 else texts


def _briefs(changes: Sequence[FigureChange]) -> list[str]:
    """Changes in a few words each; those in a row that are per the same work are one text."""
    briefs: list[str] = []
    for basis, group in itertools.groupby(changes, lambda change: change.basis):
        values = map(_brief, group)
        briefs += [f"{', '.join(values)} {basis}"] if basis else values
    return briefs


def _leading(changes: Sequence[FigureChange]) -> str:
    """The changes that weigh most in a few words each, without what they are per."""
    ranked = sorted(changes, key=lambda change: change.name not in (RESIDENT, *SCRATCH))
    texts = [_brief(change) for change in ranked[:_MOST_LOSSES]]
    return ", ".join(_and_more(texts, len(ranked) - _MOST_LOSSES))


def _brief(change: FigureChange) -> str:
    if change.judgement == "unknown":
        return f"{change.name} unknown"
    return change.values or change.figures


def stages(pair: KernelDiff) -> str:
    """`ttir same, ttgir differs, …, first by the pass X`."""
    comparison = pair.comparison
    if comparison is None:
        return ""
    text = ", ".join(f"{s.stage} {s.state}" for s in comparison.stages)
    if comparison.stage is not None:
        text += f"; first {comparison.stage}, by {comparison.cause}"
    return text


def scorecards(pair: LoopPair) -> list[ComparedRow]:
    """The scorecards of two loops, row by row."""
    sides = [{row.label: row for row in _scorecard(pair, side)} for side in (0, 1)]
    names = list(sides[0] or sides[1])
    for previous, name in itertools.pairwise(["", *sides[1]]):
        if name not in names:
            names.insert(names.index(previous) + 1 if previous else 0, name)
    missing = ScorecardRow("", "–")
    pairs = ([side.get(name, missing) for side in sides] for name in names)
    return [
        ComparedRow(left.label or right.label, left.text, right.text, left.metrics or right.metrics)
        for left, right in pairs
    ]


def _scorecard(pair: LoopPair, side: int) -> list[ScorecardRow]:
    """The scorecard of one loop, its bound per work where that is known of both."""
    loop, slowest = (pair.left, pair.right)[side], pair.bounds[side]
    rows = loop_view.scorecard(loop.metrics, apart=True) if loop is not None else []
    if (bound := pair.bound_per_work) is None or pair.basis.work is None:
        return rows
    unit = f" ({loop_view.unit_name(slowest.unit)})" if slowest is not None else ""
    per_work = ScorecardRow(
        f"bound {PER[pair.basis.work]}", f"{short_number(bound[side])} cycles{unit}", (BOUND,)
    )
    return [*(row for row in rows if BOUND not in row.metrics), per_work]


def row_judgement(pair: KernelDiff, loops: LoopPair, row: ComparedRow) -> Judgement:
    """Whether a row of `scorecards` became better or worse; `neutral` where neither is known."""
    loop = loops.left.id if loops.left is not None else None
    judged = {
        change.judgement
        for change in pair.changes
        if change.loop == loop and change.name in row.metrics and change.judgement != "neutral"
    }
    return judged.pop() if len(judged) == 1 else "neutral"


def loop_title(pair: LoopPair) -> str:
    """Returns the positions of the loops, in the source and in the code of either side."""
    loops = [loop for loop in (pair.left, pair.right) if loop is not None]
    ids = " | ".join(loop.id if loop is not None else "–" for loop in (pair.left, pair.right))
    unrolls = [view.show(loop.unroll) for loop in loops]
    text = f"{loop_view.source_span(loops[0].source)}  {ids}".strip()
    if len(set(unrolls)) > 1:
        text += f"  {' | '.join(unrolls)} source iterations per ISA iteration"
    return text


def isa_lines(difference: IsaDifference, limit: int | None) -> Iterator[str]:
    """Yields lines on a loop's code: per source line how many of what differ, and the instructions.

    Args:
        limit: the number of lines, None for all; where it has more, the instructions go first.
    """
    heads = [_head(line) for line in difference.lines]
    if limit is None or len(heads) + sum(len(line.lines) for line in difference.lines) <= limit:
        for head, line in zip(heads, difference.lines, strict=True):
            yield head
            yield from (f"    {text}" for text in line.lines)
        return
    yield from heads[:limit]
    if len(heads) > limit:
        yield f"and {len(heads) - limit} more source lines"
    yield "the instructions: --isa"


def _head(line: LineDifference) -> str:
    """A source line, and how many of which instructions differ there."""
    counts = sorted(line.counts.items(), key=lambda item: -abs(item[1][0] - item[1][1]))
    named = [f"{name} {a} → {b}" for name, (a, b) in counts[:_MOST_COUNTS]]
    words = ", ".join(_and_more(named, len(counts) - _MOST_COUNTS))
    return f"{line.place or 'no source line'}  {words or 'as many of each'}"


def alone_line(unpaired: Alone) -> str:
    """A kernel that one side alone has, and why."""
    return f"{unpaired.label} on {unpaired.arch}" + (f": {unpaired.why}" if unpaired.why else "")


def heading(label: str) -> str:
    """A side's name as the heading of a column: the end of a long path."""
    return label if len(label) <= _MOST_LABEL else "…" + label[1 - _MOST_LABEL :]


def verdict_text(pair: KernelDiff) -> str:
    """`improved: 41 → 29 µs (-29 %; -42 to -13 %)`; the verdict alone where no time is known."""
    verdict = VERDICT_WORDS[pair.verdict]
    return verdict if pair.time is None else f"{verdict}: {time_view.difference(pair.time)}"


def title_parts(pair: KernelDiff) -> tuple[str, ...]:
    """Kernel, target and place."""
    parts = (label_of(pair.left), arch_of(pair), view.place(pair.left.source))
    return tuple(part for part in parts if part)
