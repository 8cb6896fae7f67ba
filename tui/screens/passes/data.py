"""The passes page's data: the timeline of a dump, and diffs laid out as lines and columns.

All figures and diffs come from `inspector.compile.passes`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from ....inspector.compile.passes import STAGES, CompilerPass, PassDump
from ....inspector.model import KernelReport
from ...widgets.code import Cell, Span, Text
from .child import Change

STAGE_STYLES: Mapping[str, str] = {"ttir": "keyword", "ttgir": "name", "llir": "literal"}
"""Stage -> the style of `CodeView` that it has in the list, and of the band above it."""
LEVELS = " ▁▂▃▄▅▆▇█"

_HUNK = re.compile(r"@@ -(\d+),\d+ \+(\d+),\d+ @@")
_STAGE_WIDTH = max(map(len, STAGES)) + 2
_SIZE_WIDTH, _NAME_WIDTH = 12, 36
_CACHE_CHARS = 32 << 20  # of all cached diffs and modules


class Timeline(Struct):
    """A dump, and what is known so far of the changes that its passes made.

    Attributes:
        dump: the passes; a pass's `changed` is None until it is known.
        changes: index of a pass that changed something -> the lines it added and removed.
    """

    dump: PassDump
    changes: dict[int, Change] = field(default_factory=dict)

    @property
    def passes(self) -> Sequence[CompilerPass]:
        return self.dump.passes

    def is_last(self, index: int) -> bool:
        """Whether the pass is the last of its compile, so that the dump lacks its result."""
        following = index + 1
        if following == len(self.passes):
            return True
        return self.passes[following].run != self.passes[index].run

    def span(self, index: int, mark: int | None) -> tuple[int, int] | None:
        """The two states of the module to compare, from before the first pass to after the last.

        Args:
            index: the pass under the cursor.
            mark: the pass marked as the other end; None: compare around `index` alone.

        Returns:
            Two passes; a state is the module *before* the pass. None for the last pass alone, whose
            result the dump lacks.
        """
        first, last = (index, index) if mark is None else sorted((index, mark))
        if self.is_last(last):
            return (first, last) if first < last else None
        return first, last + 1

    def shown(self, only_changed: bool, filter_text: str) -> list[int]:
        """Indices of the passes to list.

        Args:
            only_changed: whether to leave out passes that are known to have changed nothing.
            filter_text: words, separated by blanks, that a pass's text must contain.
        """
        needles = filter_text.lower().split()
        return [
            compiler_pass.index
            for compiler_pass in self.passes
            if not (only_changed and compiler_pass.changed is False)
            and all(needle in _searched(compiler_pass) for needle in needles)
        ]

    def next_changed(self, index: int, direction: int) -> int | None:
        """The next (1) or previous (-1) pass that changed something."""
        while 0 <= index + direction < len(self.passes):
            index += direction
            if self.passes[index].changed:
                return index
        return None

    def summary(self) -> str:
        """The numbers of passes and changes and the sizes of the module, in one line."""
        compared = any(compiler_pass.changed is not None for compiler_pass in self.passes)
        changed = (
            f"{sum(bool(compiler_pass.changed) for compiler_pass in self.passes)} changed something"
        )
        first, last = self.passes[0].size, self.passes[-1].size
        largest = max(compiler_pass.size for compiler_pass in self.passes)
        return " · ".join(
            (
                f"{len(self.passes)} passes",
                changed if compared else "which of them changed something is being found out …",
                f"the module is {bytes_of(first)} at first, {bytes_of(last)} at last, "
                f"{bytes_of(largest)} at most",
                f"dump {bytes_of(sum(compiler_pass.size for compiler_pass in self.passes))}",
            )
        )


class TextCache(dict[tuple[int, int], str]):
    """(first, last) -> the diff between two states; if they are equal, that state's module."""

    def add(self, span: tuple[int, int], text: str) -> None:
        """Adds a text; drops all others if they would be too large together."""
        if sum(map(len, self.values())) + len(text) > _CACHE_CHARS:
            self.clear()
        self[span] = text


def _searched(compiler_pass: CompilerPass) -> str:
    where = compiler_pass.function or compiler_pass.op
    parts = (
        compiler_pass.cli,
        compiler_pass.name,
        where,
        compiler_pass.options,
        compiler_pass.stage,
    )
    return " ".join(map(str, parts)).lower()


def bytes_of(size: int) -> str:
    """A size as B, KiB or MiB."""
    for unit, step in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= step:
            return f"{size / step:.1f} {unit}"
    return f"{size} B"


def levels(sizes: Sequence[int], height: int) -> list[int]:
    """Sizes as heights from 1 to `height`.

    The scale is logarithmic, because one pass may make the module ten times as large.
    """
    high = max(sizes)
    low = min(min(sizes) / 1.5, high / 8) or 1
    return [
        max(1, round(height * math.log(max(size, low) / low) / math.log(high / low)))
        if high > low
        else 1
        for size in sizes
    ]


def name_of(compiler_pass: CompilerPass) -> str:
    """The pass's name on the compiler's command line or, without one, its class's."""
    return compiler_pass.cli or compiler_pass.name


def title(timeline: Timeline, index: int, mark: int | None) -> str:
    """The title of the diff: the pass, or the span of passes, that it shows."""
    compiler_pass = timeline.passes[index]
    if mark is None or mark == index:
        parts = [
            f"{index} {name_of(compiler_pass)}",
            f"on {compiler_pass.function or compiler_pass.op}",
        ]
        if compiler_pass.options:
            parts.append(compiler_pass.options)
        return "  ".join(parts)
    first, last = sorted((mark, index))
    names = [name_of(timeline.passes[n]) for n in (first, last)]
    if timeline.is_last(last):
        return f"{first} {names[0]} up to, but without, {last} {names[1]}"
    return f"{first} {names[0]} to {last} {names[1]}, together"


def diff_title(timeline: Timeline, index: int, mark: int | None, *, module: bool) -> str:
    """The title of the pane beside the list.

    Args:
        timeline: the dump.
        index: the pass under the cursor.
        mark: the marked pass, the diff's other end; None: the diff is of one pass.
        module: whether the pane shows the module before the pass instead of the diff.
    """
    if module:
        return f"the module before {title(timeline, index, None)}"
    change = timeline.changes.get(index)
    lines = f"{change} lines  " if change is not None and mark is None else ""
    return f"{lines}{title(timeline, index, mark)}"


# ------------------------------------------------------------------ the list


def list_text(timeline: Timeline, listed: Sequence[int], width: int, mark: int | None) -> Text:
    """The passes as lines: number, sign, name, change and, if there is room, the module's size.

    Args:
        timeline: the dump.
        listed: the passes to list.
        width: of the view, in cells.
        mark: the marked pass.
    """
    largest_change = max((c.added + c.removed for c in timeline.changes.values()), default=1)
    deltas = {n: _delta(timeline, n, largest_change) for n in listed}
    delta = max((len(text) for text in deltas.values()), default=0)
    longest = max((len(name_of(timeline.passes[n])) for n in listed), default=0)
    fixed = _STAGE_WIDTH + 7 + 1 + delta + 1
    # Names have precedence over sizes, which the timeline shows, too.
    sized = width - fixed - _SIZE_WIDTH >= min(_NAME_WIDTH, longest)
    room = max(8, width - fixed - (_SIZE_WIDTH if sized else 0))
    lines = []
    for n in listed:
        sign = "◆" if n == mark else "●" if timeline.passes[n].changed else " "
        name = _cut(name_of(timeline.passes[n]), room)
        size = f"{bytes_of(timeline.passes[n].size):>{_SIZE_WIDTH}}" if sized else ""
        lines.append(f"{n:>4} {sign} {name:<{room}} {deltas[n]:>{delta}}{size}")

    def spans(line: int) -> Sequence[Span]:
        """The colours of a line; those of a pass without changes are dim."""
        if line >= len(listed):
            return ()
        compiler_pass = timeline.passes[listed[line]]
        name = 7 + room
        start = name + 1
        if not compiler_pass.changed:
            return [(0, start + delta + _SIZE_WIDTH, "dim")]
        coloured: list[Span] = [(0, 4, "number"), (5, 6, "literal")]
        change = timeline.changes.get(compiler_pass.index)
        if change is not None:
            plus = start + delta - len(deltas[compiler_pass.index])
            minus = plus + len(f"+{change.added} ")
            end = minus + len(f"−{change.removed}")
            coloured += [(plus, minus, "added"), (minus, end, "removed")]
            coloured.append((end, start + delta, "heat"))
        coloured.append((start + delta, start + delta + _SIZE_WIDTH, "comment"))
        return coloured

    def gutter(line: int) -> Sequence[Cell]:
        if line >= len(listed):
            return ((" " * _STAGE_WIDTH, "number"),)
        stage = timeline.passes[listed[line]].stage
        previous_stage = timeline.passes[listed[line - 1]].stage if line else ""
        style = STAGE_STYLES.get(stage, "other")
        return ((f"{stage if stage != previous_stage else '':<{_STAGE_WIDTH - 2}}▐ ", style),)

    return Text(lines, spans, gutter, _STAGE_WIDTH)


def _delta(timeline: Timeline, index: int, largest_change: int) -> str:
    """The lines that a pass changed, with a bar; "?" or "changed" where they are not known."""
    change = timeline.changes.get(index)
    if change is not None:
        lines = change.added + change.removed
        # Passes differ by orders of magnitude: the bar is logarithmic.
        level = math.ceil(8 * math.log1p(lines) / math.log1p(max(largest_change, 1)))
        return f"{change} {LEVELS[max(1, min(level, 8))]}"
    if timeline.is_last(index):
        return "?"
    return "changed" if timeline.passes[index].changed else ""


def _cut(name: str, room: int) -> str:
    """A pass's name cut at its start, which is the dialect, to `room` cells."""
    return name if len(name) <= room else "…" + name[len(name) - room + 1 :]


# ------------------------------------------------------------------ a diff


def diff_text(diff: str, numbers: bool) -> Text:
    """A unified diff with colours, in which each hunk can be folded.

    Args:
        diff: the result of `inspector.compile.passes.diff`.
        numbers: whether the gutter shows the lines' numbers in both states.
    """
    lines = diff.splitlines()[2:]
    if not lines:
        return plain("nothing changed (debug locations and the names of values aside)")
    counted: list[tuple[str, str]] = []
    starts: list[int] = []
    old = new = 0
    for number, line in enumerate(lines):
        hunk = _HUNK.match(line)
        if hunk is not None:
            old, new = int(hunk[1]), int(hunk[2])
            starts.append(number)
            counted.append(("", ""))
        elif line.startswith("-"):
            counted.append((str(old), ""))
            old += 1
        elif line.startswith("+"):
            counted.append(("", str(new)))
            new += 1
        else:
            counted.append((str(old), str(new)))
            old, new = old + 1, new + 1
    digits = max(len(number) for pair in counted for number in pair)
    pairs = _pairs(lines)
    stops = [*(start - 1 for start in starts[1:]), len(lines) - 1]

    def gutter(line: int) -> Sequence[Cell]:
        old_number, new_number = counted[line] if line < len(counted) else ("", "")
        return ((f"{old_number:>{digits}} {new_number:>{digits}} ", "number"),)

    return Text(
        lines,
        lambda line: _diff_spans(lines, pairs, line),
        gutter if numbers else None,
        2 * digits + 2 if numbers else 0,
        dict(zip(starts, stops, strict=True)),
    )


def plain(*lines: str) -> Text:
    """Lines without colours."""
    return Text(list(lines))


def _pairs(lines: Sequence[str]) -> Mapping[int, int]:
    """Removed line -> the line added in its place, and back, for runs of equal length."""
    pairs: dict[int, int] = {}
    index = 0
    while index < len(lines):
        if not lines[index].startswith("-"):
            index += 1
            continue
        start = index
        while index < len(lines) and lines[index].startswith("-"):
            index += 1
        middle = index
        while index < len(lines) and lines[index].startswith("+"):
            index += 1
        if middle - start == index - middle:
            for n in range(middle - start):
                pairs[start + n], pairs[middle + n] = middle + n, start + n
    return pairs


def _diff_spans(lines: Sequence[str], pairs: Mapping[int, int], line: int) -> Sequence[Span]:
    """The colours of a line of a diff: only the part that differs from its partner, if short."""
    if line >= len(lines):
        return ()
    text = lines[line]
    if text.startswith("@@"):
        return [(0, len(text), "label")]
    name = {"+": "added", "-": "removed"}.get(text[:1])
    if name is None:
        return [(0, len(text), "scalar")]
    partner = lines[pairs[line]] if line in pairs else ""
    shorter = min(len(text), len(partner))
    head = 1
    while head < shorter and text[head] == partner[head]:
        head += 1
    tail = 0
    while tail < shorter - head and text[-1 - tail] == partner[-1 - tail]:
        tail += 1
    # If most of the line is unchanged, only the rest is coloured: lines of layouts are long.
    if 2 * (head + tail) < len(text):
        return [(0, len(text), name)]
    stop = max(head, len(text) - tail)
    return [(0, 1, name), (head, stop, name)]


# ------------------------------------------------------------------ without a dump

NO_RESULT = (
    "This is the last pass: the dump does not hold what it made.",
    "Its result is what the next stage begins with; v shows the module before it.",
)
"""Shown in place of the diff of a compile's last pass."""


def why_no_dump(kernel: KernelReport) -> tuple[str, str]:
    """Two sentences: why a kernel has no pass dump, and how to get one."""
    if kernel.variant is None:
        return (
            "It was read from compiled code: which passes made it is not known.",
            "Open what it was compiled from: kinspect tui FILE.py (or FILE.ttir).",
        )
    return (
        "It was compiled without recording the passes.",
        "Leave out --no-passes: kinspect tui FILE.py keeps a dump with every kernel.",
    )
