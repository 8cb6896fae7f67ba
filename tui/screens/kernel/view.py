"""The linked panes of the kernel page: what they show, and where they stand."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ....inspector.explain import view
from ....inspector.model import KernelReport, LoopReport
from ...pages import Page
from ...widgets.heading import Heading
from ...widgets.scorecard import Block, Card, Fact
from .card import card_of, facts_of, lines_said, loop_at
from .load import Loaded, behind, is_big, load, prepared, whole
from .pane import Pane
from .panes import Panes
from .text import marked, plain

if TYPE_CHECKING:
    from ....inspector.explain.code.reading import Reading
    from .measured import Costs

_SHOWN_FIRST = {"source": "source", "ttgir": "ttgir", "llir": "ttgir", "amdgcn": "amdgcn"}


class LinkedTexts:
    """The texts of one kernel in the panes, linked, and what is known of the cursor's line.

    Args:
        page: the page that they stand on.
        panes: where they are shown.
        key: the kernel's key in the session.
        path: of a file that may not be analysed yet, in place of a key.
        line: where to put the cursor, counted from 1; None: at the main loop.
        text: in which text: source, ttgir, llir or amdgcn.
        own_lines: the lines of the moved pane itself that belong to its cursor's.
        more_facts: what keys have asked for beside what is known of the line.
    """

    def __init__(
        self,
        page: Page,
        panes: Panes,
        key: str,
        *,
        path: Path | None,
        line: int | None,
        text: str,
        own_lines: Callable[[Pane], Sequence[int]],
        more_facts: Callable[[], Sequence[Fact]],
    ) -> None:
        self._page = page
        self._panes = panes
        self._own_lines = own_lines
        self._more_facts = more_facts
        self.opened = False  # whether the panes are there
        self._key = key
        self._path = path
        self._goal = (text, line)
        self.report: KernelReport | None = None
        self.loaded: Loaded | None = None
        self.reading: Reading | None = None
        self.costs: Costs | None = None  # what a profiler measured of its lines
        self._turn = 0  # grows with every loading: what an earlier one brings is too late
        self._cards: dict[str | None, Card] = {}
        self._isa_line = 0
        self._note = ""
        self._prologue_folded = False
        self._panes.show_first(_SHOWN_FIRST.get(text, "amdgcn"))

    def crumb(self) -> str:
        """Kernel, target and configuration."""
        report = self.report
        if report is None:
            return f"{self._path.name}  not analysed yet" if self._path is not None else self._key
        parts = (report.name, report.arch or "-", view.configuration(report))
        return "  ".join(part for part in parts if part)

    def open(self) -> None:
        """Reads the texts of a file at once; a kernel's come with the session."""
        self.opened = True
        self._panes.current.code.focus()
        self.session_changed()
        if self.loaded is None and self.report is None and self._path is not None:
            self._load()

    # ------------------------------------------------------------------ reading

    def session_changed(self) -> None:
        """Takes the kernel's report when it is there, and again when it is another."""
        if not self.opened:
            return  # the session may be quicker than the page
        entry = self._page.session.entries.get(self._key)
        if entry is None and self._path is not None:
            ours = self._path.absolute()
            matching = (e for e in self._page.session.ordered() if Path(e.path).absolute() == ours)
            entry = next(matching, None)
        if entry is None:
            self._wait_for_report()
        elif entry.report is not self.report:
            self._key = entry.key
            self.report = entry.report
            self._note = "being analysed …"
            self._load()
            if entry.report.measured_lines:
                self._page.refresh_bindings()

    def _wait_for_report(self) -> None:
        if self.report is not None:
            return
        path = str(self._path) if self._path is not None else self._key.partition("::")[0]
        failed = next((e for e in self._page.session.errors if e.file == path), None)
        if failed is not None:
            self._note = f"{failed.stage}: {failed.message}; {failed.hint}"
        elif self._path is not None or self._page.session.progress.running:
            self._note = "not analysed yet"
        else:
            self._note = f"there is no kernel {self._key}"
        self.refresh_card()

    def _load(self) -> None:
        self._turn += 1
        turn, report, path = self._turn, self.report, self._path
        if is_big(report, path):
            self._panes.say("reading …")
            behind(
                self._page.app,
                lambda: load(report, path),
                lambda result: self._take_texts(turn, result),
            )
        else:
            self._take_texts(turn, load(report, path))

    def _take_texts(self, turn: int, loaded: Loaded | str) -> None:
        if turn != self._turn or not self._page.is_attached:
            return
        if isinstance(loaded, str):
            self._note = loaded
            self.refresh_card()
            self._panes.say(loaded, bad=True)
            return
        again = self.loaded is not None
        self.loaded = loaded
        self.reading = self.costs = None
        self._cards.clear()
        for pane in self._panes.slots:
            self.show_in(pane, pane.kind, keep=again)
        if not again:
            self._go_to_goal()
        self._panes.lay_out()
        if self._page.focused is None:  # what had it was hidden while there was no text
            self._panes.current.target.focus()
        self._page.query_one(Heading).refresh()
        self._panes.say("")
        self.refresh_card()
        # The text is painted first, then come its folds, then what analysis knows of it.
        if loaded.whole:
            self._page.call_after_refresh(self._read_on, turn, loaded)
        else:
            self._page.call_after_refresh(
                behind,
                self._page.app,
                lambda: whole(loaded),
                lambda result: self._take_folds(turn, result),
            )

    def _take_folds(self, turn: int, loaded: Loaded | str) -> None:
        if turn != self._turn or not self._page.is_attached:
            return
        if isinstance(loaded, str):
            self._panes.say(loaded, bad=True)
            return
        self.loaded = loaded
        for pane in self._panes.slots:
            if pane.kind in loaded.folds and not pane.is_missing:
                pane.code.know_folds(loaded.folds[pane.kind], loaded.folded[pane.kind])
        self._read_on(turn, loaded)

    def _read_on(self, turn: int, loaded: Loaded) -> None:
        report = self.report
        if report is not None and turn == self._turn:
            behind(
                self._page.app,
                lambda: _read(report, loaded),
                lambda result: self._take_reading(turn, result),
            )

    def _take_reading(self, turn: int, result: tuple[Reading, Loaded, Costs | None] | str) -> None:
        if turn != self._turn or not self._page.is_attached:
            return
        if isinstance(result, str):
            self._note = result
            self.refresh_card()
            return
        appeared = self._reading_taken(*result)
        for pane in self._panes.slots:
            self.show_in(pane, pane.kind, keep=pane.kind not in appeared)
            if pane.kind == "amdgcn":
                self._fold_prologue(pane)
        if appeared:
            self._go_to_goal()
            self._panes.lay_out()
        self.follow(self._panes.current)

    def _reading_taken(self, reading: Reading, loaded: Loaded, costs: Costs | None) -> set[str]:
        """The texts that analysis has added: a disassembly."""
        former_lines = self.loaded.lines if self.loaded is not None else {}
        self.reading, self.loaded, self._note = reading, loaded, ""
        self.costs = costs
        if reading.notes:
            self._panes.say("; ".join(reading.notes), bad=True)
        return set(loaded.lines) - set(former_lines)

    def _fold_prologue(self, pane: Pane) -> None:
        loaded, reading = self.loaded, self.reading
        if loaded is None or reading is None or self._prologue_folded:
            return
        self._prologue_folded = True
        start = loaded.prologue
        if start is not None and not start <= pane.code.cursor <= loaded.folds["amdgcn"][start]:
            pane.code.fold([start])

    @property
    def settled(self) -> bool:
        """Whether nothing more is awaited: the kernel is read and analysed."""
        return self.reading is not None

    def show_in(self, pane: Pane, kind: str, *, keep: bool = False) -> None:
        """Shows a text in a pane, with as much as is known of it."""
        loaded = self.loaded
        if loaded is None or kind not in loaded.lines:
            missing = loaded.texts.missing if loaded is not None else {}
            pane.show_missing(kind, missing.get(kind, ""))
            return
        lines, folds = loaded.lines[kind], loaded.folds[kind]
        marks = self.reading.marks if self.reading is not None else None
        if self.report is None:
            text, heading = plain(kind, lines, folds), ""
        else:
            text, gutter = marked(kind, lines, folds, self.report, marks, self.costs)
            heading = gutter.heading
        file = Path(loaded.texts.files[kind]).name
        folded = None if keep else loaded.folded[kind]
        pane.show(kind, text, heading=heading, file=file, folded=folded)

    def _go_to_goal(self) -> None:
        kind, line = self._goal
        if kind == "llir":
            self.show_in(self._panes.current, kind)
        if line is None and self.report is not None:
            main = view.main_loop(self.report)
            kind, line = "amdgcn", main.header_line if main is not None else None
        pane = self._panes.pane_of(kind)
        if line is not None and pane is not None:
            pane.code.move_to(line - 1, quiet=True, centre=True)
            pane.tell()

    # ------------------------------------------------------------------ linking

    def follow(self, pane: Pane) -> None:
        """Moves the other panes to what belongs to the cursor's line, and marks it."""
        line = pane.code.cursor
        links = self.reading.links if self.reading is not None else None
        if pane.kind == "amdgcn":
            self._isa_line = line
        elif links is not None:
            near = links.nearest(pane.kind, line, "amdgcn")
            self._isa_line = self._isa_line if near is None else near
        if links is not None:
            pane.code.link(self._own_lines(pane))
            for slot in self._panes.slots:
                if slot is pane or slot.is_missing:
                    continue
                slot.code.link(links.related(pane.kind, line, slot.kind))
                near = links.nearest(pane.kind, line, slot.kind)
                if near is not None:
                    slot.code.move_to(near, quiet=True, centre=True)
                    slot.tell()
        self.refresh_card()

    def refresh_card(self) -> None:
        """Shows the loop at the assembly's cursor, and what is known of the line."""
        card = self._panes.card
        report, reading = self.report, self.reading
        if report is None:
            card.show(None, Block(""), self._note)
            return
        if reading is None:
            card.show(self._card(report, None), Block(self._note))
            return
        loop = loop_at(report, reading, self._isa_line)
        pane = self._panes.current
        line_block = facts_of(report, reading, pane.kind, pane.code.cursor, self.costs)
        became = reading.links.related(pane.kind, pane.code.cursor, "amdgcn")
        if became:
            fact = Fact("became ISA", lines_said(became))
            line_block = Block(line_block.title, (*line_block.facts, fact))
        line_block = Block(line_block.title, (*line_block.facts, *self._more_facts()))
        card.show(self._card(report, loop), line_block)

    def _card(self, report: KernelReport, loop: LoopReport | None) -> Card:
        key = loop.id if loop is not None else None
        if key not in self._cards:
            self._cards[key] = card_of(report, loop)
        return self._cards[key]


def _read(report: KernelReport, loaded: Loaded) -> tuple[Reading, Loaded, Costs | None]:
    """What analysis knows of the texts, the texts, to which it may add, and what was measured."""
    from ....inspector.explain.code.reading import reading_of  # the parsers: not for first paint

    # A large kernel is a million objects without cycles: looking through them for garbage would
    # hold up keys for a fifth of a second now and then, while they are made and ever after.
    gc.disable()
    try:
        reading = reading_of(report, loaded.texts)
        added = prepared(reading.texts, reading.function, loaded)
        costs = _measured(report, reading)
    finally:
        gc.freeze()
        gc.enable()
    return reading, added, costs


def _measured(report: KernelReport, reading: Reading) -> Costs | None:
    if not report.measured_lines and report.emulated is None:
        return None
    from .measured import costs_of

    return costs_of(report, reading.links)
