"""The passes of one compile as the page shows them: what changed, sizes of the module, titles.

All figures come from `inspector.compile.passes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct, field

from ....inspector.compare.passhistory import Event, History
from ....inspector.compile.passes import CompilerPass, PassDump
from ....inspector.explain.view import kib
from ....inspector.model import KernelReport
from ...widgets.code import word_filter
from .dump_reading import LineChange, Span

Listed = Literal["all", "changed", "history"]
"""Which passes are listed: all, those with a change, those that changed what is followed."""
LEVELS = " ▁▂▃▄▅▆▇█"
"""Heights of a bar in a cell, in eighths."""
NO_RESULT = (
    "This is the last pass: the dump does not hold what it made.",
    "Its result is what the next stage begins with; v shows the module before it.",
)
"""Shown in place of the diff of a compile's last pass."""


class Timeline(Struct):
    """A dump, and what is known so far of the changes that its passes made.

    Attributes:
        dump: the passes; a pass's `changed` is None until it is known.
        changes: index of a pass that changed something -> the lines it added and removed.
        history: of the line or operation that is followed; None without one.
    """

    dump: PassDump
    changes: dict[int, LineChange] = field(default_factory=dict)
    history: History | None = None

    @property
    def passes(self) -> Sequence[CompilerPass]:
        return self.dump.passes

    @property
    def events(self) -> Mapping[int, Event]:
        """Index of a pass -> what it did to the line or operation that is followed."""
        return {event.index: event for event in self.history.events} if self.history else {}

    def is_last(self, index: int) -> bool:
        """Whether the pass is the last of its compile, so that the dump lacks its result."""
        following = index + 1
        if following == len(self.passes):
            return True
        return self.passes[following].run != self.passes[index].run

    def span(self, index: int, mark: int | None) -> Span | None:
        """The two states of the module to compare, from before the first pass to after the last.

        Returns:
            Two passes; a state is the module *before* the pass. None for the last pass alone, whose
            result the dump lacks.
        """
        first, last = (index, index) if mark is None else sorted((index, mark))
        if self.is_last(last):
            return (first, last) if first < last else None
        return first, last + 1

    def conversions(self, index: int) -> tuple[int, int] | None:
        """`convert_layout` operations before and after a pass that changes their number."""
        if self.is_last(index):
            return None
        before, after = (self.passes[n].conversions for n in (index, index + 1))
        return None if before is None or after is None or before == after else (before, after)

    def shown(self, listed: Listed, filter_text: str) -> list[int]:
        has_words = word_filter(filter_text)
        events = self.events
        return [
            compiler_pass.index
            for compiler_pass in self.passes
            if not (listed == "changed" and compiler_pass.changed is False)
            and not (listed == "history" and compiler_pass.index not in events)
            and has_words(_searched(compiler_pass))
        ]

    def next_changed(self, index: int, direction: int) -> int | None:
        """The next (1) or previous (-1) pass that changed something."""
        events = self.events
        while 0 <= index + direction < len(self.passes):
            index += direction
            if self.passes[index].changed or index in events:
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
        most = max((p.conversions or 0 for p in self.passes), default=0)
        final = next((p.conversions for p in self.passes if p.stage == "llir"), None)
        conversions = f"convert_layout {most} at most"
        if final is not None:
            conversions += f", {final} in the final TTGIR"
        return " · ".join(
            (
                f"{len(self.passes)} passes",
                changed if compared else "which of them changed something is being found out …",
                *([conversions] if most else ()),
                f"the module is {bytes_of(first)} at first, {bytes_of(last)} at last, "
                f"{bytes_of(largest)} at most",
                f"dump {bytes_of(sum(compiler_pass.size for compiler_pass in self.passes))}",
            )
        )


def thing_title(thing: str) -> str:
    """What is followed through the passes, in words.

    Args:
        thing: a line of the source, or an operation of a line, as `history_of` takes it.
    """
    operation, _, line = thing.rpartition("@")
    return f"{operation} of line {line}" if operation else f"line {line}" if line else ""


def event_title(event: Event) -> str:
    """What a pass did to what is followed, as short as possible."""
    if event.deed == "changed":
        return f"{event.before} → {event.after} operations"
    return f"{event.deed} {event.before or event.after}"


def _searched(compiler_pass: CompilerPass) -> str:
    where = compiler_pass.function or compiler_pass.op
    parts = (
        compiler_pass.cli,
        compiler_pass.name,
        where,
        compiler_pass.options,
        compiler_pass.stage,
    )
    return " ".join(map(str, parts))


def bytes_of(size: int) -> str:
    """A size as B, KiB or MiB."""
    return f"{size / (1 << 20):.1f} MiB" if size >= 1 << 20 else kib(size)


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
    if module:
        return f"the module before {title(timeline, index, None)}"
    change = timeline.changes.get(index)
    lines = f"{change} lines  " if change is not None and mark is None else ""
    conversions = timeline.conversions(index)
    if conversions is not None and mark is None:
        lines = "convert_layout {} → {}  {}".format(*conversions, lines)
    event = timeline.events.get(index)
    if event is not None and mark is None and timeline.history is not None:
        lines = f"{thing_title(timeline.history.thing)}: {event_title(event)}  {lines}"
    return f"{lines}{title(timeline, index, mark)}"


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
