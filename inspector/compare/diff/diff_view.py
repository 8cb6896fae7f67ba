"""A comparison in words and rows, shared by its renderers for people."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ...explain import loop_view, time_view, view
from ...model import LoopReport, value_of
from .diff_results import (
    Alone,
    DiffReport,
    FigureChange,
    IsaDifference,
    Judgement,
    KernelDiff,
    LoopPair,
    label_of,
)
from .loop_verdicts import short_number
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
MOST_WHY = 3
MOST_LOSSES = 2
"""Losses that the reason of a mixed verdict names, beside as many gains."""
MOST_NEUTRAL = 2
MOST_COUNTS = 5
MOST_LABEL = 24
_FIGURES_OF_ROWS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "instructions": ("count.instructions",),
        "  cycles of the matrix unit": ("cycles.mfma",),
        "scratch": SCRATCH,
        "AGPR moves": ("count.acc_move",),
        "waits": ("count.full_wait",),
        "barriers": ("count.barrier",),
        "matrix work": ("matrix.redundancy",),
        "bound": ("bound.cycles",),
    }
)
"""Row of a scorecard -> the judged figures that it shows; `bound` may say what it is per."""


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


def files_of(pairs: Iterable[KernelDiff]) -> bool:
    """Tells whether the kernels are of several files, so that their names need the file."""
    return len({view.path_of(pair.left) for pair in pairs}) > 1


def file_of(pair: KernelDiff) -> str:
    """The file that the kernel was read from."""
    return view.file_name(view.path_of(pair.left))


def first_stage(pair: KernelDiff) -> str:
    """The first stage that differs; `none` where all are the same, empty where it is not known."""
    if pair.comparison is None:
        return ""
    return pair.comparison.stage or "none"


def in_short(pair: KernelDiff) -> str:
    """Returns what decides the verdict, in a few words; else what changed at all."""
    deciding = [c for c in pair.changes if c.matters and c.judgement != "neutral"]
    gains = [c for c in deciding if c.judgement == "improvement"]
    losses = [c for c in deciding if c.judgement != "improvement"]
    if gains and losses:
        return f"worse: {_leading(losses)}; better: {_leading(gains)}"
    briefs = _briefs(pair, deciding[:MOST_WHY])
    if len(deciding) > MOST_WHY:
        briefs.append(f"{len(deciding) - MOST_WHY} more")
    if briefs:
        return "; ".join(briefs)
    minor = [c for c in pair.changes if c.judgement in ("regression", "improvement")]
    if minor:
        return "; ".join(_briefs(pair, minor[:MOST_WHY]))
    if any(c.judgement == "shown" for c in pair.changes):
        return f"{view.plural(len(pair.changes), 'figure')} shown, not judged: two targets"
    if pair.changes:
        briefs = _briefs(pair, pair.changes[:MOST_NEUTRAL])
        omitted = len(pair.changes[MOST_NEUTRAL:])
        return "; ".join(briefs) + (f"; {omitted} more" if omitted else "")
    return "" if pair.verdict == "same" else "the code differs, no figure does"


def _briefs(pair: KernelDiff, changes: Sequence[FigureChange]) -> list[str]:
    """Changes in a few words each; those in a row that are per the same work are one text."""
    bases = {loops.left.id: loops.basis.words for loops in pair.loops if loops.left is not None}
    briefs: list[str] = []
    former = ""
    for change in changes:
        brief, basis = _brief(change), bases.get(change.loop or "", "")
        if not basis or not brief.endswith(f" {basis}"):
            basis = ""
        elif basis == former:
            brief = f"{briefs.pop().removesuffix(f' {basis}')}, {brief}"
        briefs.append(brief)
        former = basis
    return briefs


def _leading(changes: Sequence[FigureChange]) -> str:
    """The changes that weigh most in a few words each, without what they are per."""
    ranked = sorted(changes, key=lambda change: change.name not in (RESIDENT, *SCRATCH))
    texts = [change.brief.partition(" (")[0] or _brief(change) for change in ranked[:MOST_LOSSES]]
    if len(ranked) > MOST_LOSSES:
        texts.append(f"{len(ranked) - MOST_LOSSES} more")
    return ", ".join(texts)


def _brief(change: FigureChange) -> str:
    if change.judgement == "unknown":
        return f"{change.name} unknown"
    return change.figures.partition(" (")[0]


def stages(pair: KernelDiff) -> str:
    """`ttir same, ttgir differs, …, first by the pass X`."""
    comparison = pair.comparison
    if comparison is None:
        return ""
    text = ", ".join(f"{s.stage} {s.state}" for s in comparison.stages)
    if comparison.stage is not None:
        text += f"; first {comparison.stage}, by {comparison.cause}"
    return text


def scorecards(pair: LoopPair) -> list[tuple[str, str, str]]:
    """(what, left, right) of two loops; `–` where a side has no such loop."""
    sides = [_scorecard(loop) if loop is not None else {} for loop in (pair.left, pair.right)]
    if (bound := pair.bound_per_work) is not None and pair.basis.work is not None:
        for side, cycles, slowest in zip(sides, bound, pair.bounds, strict=True):
            side.pop("bound", None)
            unit = f" ({loop_view.unit_name(slowest.unit)})" if slowest is not None else ""
            side[f"bound {PER[pair.basis.work]}"] = f"{short_number(cycles)} cycles{unit}"
    names = list(sides[0] or sides[1])
    for previous, name in itertools.pairwise(["", *sides[1]]):
        if name not in names:
            names.insert(names.index(previous) + 1 if previous else 0, name)
    return [(name, sides[0].get(name, "–"), sides[1].get(name, "–")) for name in names]


def row_judgement(pair: KernelDiff, loops: LoopPair, row: str) -> Judgement:
    """Whether a row of `scorecards` became better or worse; `neutral` where neither is known."""
    name = "bound" if row.startswith("bound ") else row
    figures = _FIGURES_OF_ROWS.get(name, ())
    loop = loops.left.id if loops.left is not None else None
    judged = {
        change.judgement
        for change in pair.changes
        if change.loop == loop and change.name in figures and change.judgement != "neutral"
    }
    return judged.pop() if len(judged) == 1 else "neutral"


def _scorecard(loop: LoopReport) -> dict[str, str]:
    """Returns `loop_view.scorecard` with matrix instructions by name, each on a line of its own."""
    rows = dict(loop_view.scorecard(loop.metrics))
    kinds = value_of(loop.metrics, "matrix.instructions")
    cycles = value_of(loop.metrics, "cycles.mfma")
    out: dict[str, str] = {}
    for name, text in rows.items():
        out[name] = text.partition(" (")[0]
        if name in ("MFMA", "WMMA"):
            if isinstance(kinds, Mapping):
                out.update({f"  {kind}": view.show(count) for kind, count in kinds.items()})
            out["  cycles of the matrix unit"] = view.show(cycles)
    return out


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
    lines = list(_isa_lines(difference))
    if limit is None or len(lines) <= limit:
        yield from lines
        return
    heads = [line for line in lines if not line.startswith(" ")]
    yield from heads[:limit]
    if len(heads) > limit:
        yield f"and {len(heads) - limit} more source lines"
    yield "the instructions: --isa"


def _isa_lines(difference: IsaDifference) -> Iterator[str]:
    for line in difference.lines:
        counts = sorted(line.counts.items(), key=lambda item: -abs(item[1][0] - item[1][1]))
        count_words = ", ".join(f"{name} {a} → {b}" for name, (a, b) in counts[:MOST_COUNTS])
        omitted = f", {len(counts) - MOST_COUNTS} more" if len(counts) > MOST_COUNTS else ""
        yield f"{line.place or 'no source line'}  {count_words or 'as many of each'}{omitted}"
        for text in line.lines:
            yield f"    {text}"


def alone_line(unpaired: Alone) -> str:
    """A kernel that one side alone has, and why."""
    return f"{unpaired.label} on {unpaired.arch}" + (f": {unpaired.why}" if unpaired.why else "")


def heading(label: str) -> str:
    """A side's name as the heading of a column: the end of a long path."""
    return label if len(label) <= MOST_LABEL else "…" + label[1 - MOST_LABEL :]


def verdict_text(pair: KernelDiff) -> str:
    """`improved: 41 → 29 µs (-29 %; -42 to -13 %)`; the verdict alone where no time is known."""
    told = VERDICT_WORDS[pair.verdict]
    return told if pair.time is None else f"{told}: {time_view.difference(pair.time)}"


def title_parts(pair: KernelDiff) -> tuple[str, ...]:
    """Kernel, target and place."""
    parts = (label_of(pair.left), arch_of(pair), view.place(pair.left.source))
    return tuple(part for part in parts if part)
