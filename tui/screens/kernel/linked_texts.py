"""The linked texts of the kernel page: loads them, fills the panes and keeps these in step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.explain import loop_view, view
from ....inspector.metrics.line_bounds import register_pressure
from ....inspector.model import KernelReport, LoopReport, RegisterPressure
from ...pages import Page
from ...widgets.scorecard import Card, CardBlock, CardFact
from .card import card_of, facts_of, line_list, loop_at, source_fact, waits_of
from .line_columns import GutterColumn, LineHeat
from .pane_text import code_width, gutter_width, marked, plain
from .panes import Pane, Panes
from .text_loading import (
    LineCosts,
    LoadedTexts,
    in_background,
    is_large,
    load,
    read,
    with_all_folds,
)

if TYPE_CHECKING:
    from ....inspector.explain.code.reading import KernelReading
    from .line_costs import Costs

_WITH_FIGURES = frozenset({"source", "ttgir", "amdgcn"})
_INSTRUCTION = 44
"""Cells that an instruction keeps before there are columns beside it, if it needs as many."""
_EDGES = 3
"""Cells of a pane that are neither gutter nor code: scrollbar, strip of heat, divider."""
_SHOWN_FIRST = {"source": "source", "ttgir": "ttgir", "llir": "ttgir", "amdgcn": "amdgcn"}


class KernelToShow(Struct, frozen=True):
    """The kernel that the page was opened for, and where.

    Attributes:
        path: a file that may not be analysed yet, in place of a key.
        text: the text that `line` is in: source, ttgir, llir or amdgcn.
        line: where to put the cursor first, counted from 1; None: at the main loop.
    """

    key: str
    path: Path | None = None
    text: str = "amdgcn"
    line: int | None = None


def first_line(report: KernelReport, reading: KernelReading | None) -> tuple[str, int | None]:
    """The line to look at first, from 1, and the text that it is in; None while it is not known.

    It is where the launch spends most time, else the first place of a finding, else where the
    hottest loop or the code begins.
    """
    if report.time is not None and report.time.instructions:
        return "amdgcn", max(report.time.instructions, key=lambda row: row.stalled).line
    for finding in sorted(report.findings, key=lambda finding: finding.is_refuted):
        if finding.isa_lines:
            return "amdgcn", min(finding.isa_lines, key=lambda line: _coldness(report, line))
        for at in finding.locations:
            if at.kind == "source" and report.source is not None and at.file == report.source.file:
                return "source", at.line
    if (main := loop_view.main_loop(report)) is not None:
        return "amdgcn", main.header.line
    function = reading.function if reading is not None else None
    code = function.instructions if function is not None else ()
    return "amdgcn", code[0].line if code else None


def _coldness(report: KernelReport, line: int) -> tuple[bool, bool]:
    """Puts lines of the main loop first, then those of other hot loops."""
    around = [
        loop for loop in report.loops if any(first <= line <= last for first, last in loop.lines)
    ]
    in_main = any(loop.id == report.main_loop for loop in around)
    return not in_main, not any(loop.hot for loop in around)


class LinkedTexts:
    """The linked texts of one kernel in the panes, and the card on the cursor's line."""

    def __init__(
        self,
        page: Page,
        panes: Panes,
        kernel: KernelToShow,
        *,
        own_lines: Callable[[Pane], Sequence[int]],
        more_facts: Callable[[], Sequence[CardFact]],
    ) -> None:
        self._page = page
        self._panes = panes
        self._own_lines = own_lines
        self._more_facts = more_facts
        self.opened = False  # whether the panes are mounted
        self._key = kernel.key
        self._path = kernel.path
        self._first_position = (kernel.text, kernel.line)
        self.report: KernelReport | None = None
        self.loaded: LoadedTexts | None = None
        self.reading: KernelReading | None = None
        self.costs: Costs | None = None  # measured or counted costs of its lines
        self.pressure: RegisterPressure | None = None  # of its registers
        self.heat = LineHeat(lambda: page.kinspect.state.code_columns)
        self._load_number = 0  # of the latest load; results of earlier ones are dropped
        self._cards: dict[str | None, Card] = {}
        # kind -> the first line on the screen when its columns were chosen
        self._columns_at: dict[str, list[int]] = {}
        self._isa_line = 0
        self._is_placed = False  # whether the cursor was put on the first line to look at
        self._note = ""
        self._prologue_folded = False
        self._panes.choose_first(_SHOWN_FIRST.get(kernel.text, "amdgcn"))

    @property
    def key(self) -> str:
        """The kernel's key in the session; "" while that is not known."""
        return self._key

    def crumb(self) -> str:
        report = self.report
        if report is None:
            return f"{self._path.name}  not analysed yet" if self._path is not None else self._key
        parts = (report.name, report.arch or "-", view.configuration(report))
        return "  ".join(part for part in parts if part)

    def open(self) -> None:
        """Takes the kernel from the session; reads a file's texts that is not analysed yet."""
        self.opened = True
        self._panes.current.code.focus()
        self.session_changed()
        if self.loaded is None and self.report is None and self._path is not None:
            self._load()

    def session_changed(self) -> None:
        """Takes the kernel's report once the session has it, and whenever it is replaced."""
        if not self.opened:
            return  # the session may have the report before the page is mounted
        entry = self._page.session.entries.get(self._key)
        if entry is None and self._path is not None:
            own_path = self._path.absolute()
            for candidate in self._page.session.ordered():
                if Path(candidate.path).absolute() == own_path:
                    entry = candidate
                    break
        if entry is None:
            self._wait_for_report()
        elif entry.report is not self.report:
            self._key = entry.key
            self.report = entry.report
            self.pressure = register_pressure(entry.report)
            self._note = "being analysed …"
            self._panes.show_head(entry.report)
            self._load()
            if entry.report.measured_lines:
                self._page.refresh_bindings()

    def _wait_for_report(self) -> None:
        if self.report is not None:
            return
        path = str(self._path) if self._path is not None else self._key.partition("::")[0]
        error = next((error for error in self._page.session.errors if error.file == path), None)
        if error is not None:
            self._note = f"{error.stage}: {error.message}; {error.hint}"
        elif self._path is not None or self._page.session.progress.running:
            self._note = "being analysed …  the text can be read and searched meanwhile"
        else:
            self._note = f"there is no kernel {self._key}"
        self.refresh_card()

    def _load(self) -> None:
        self._load_number += 1
        load_number, report, path = self._load_number, self.report, self._path
        if is_large(report, path):
            self._panes.show_message("reading …")
            in_background(
                self._page.app,
                lambda: load(report, path),
                lambda result: self._take_texts(load_number, result),
            )
        else:
            self._take_texts(load_number, load(report, path))

    def _is_stale(self, load_number: int) -> bool:
        """Whether results of a load come too late: there is a later one, or the page has gone."""
        return load_number != self._load_number or not self._page.is_attached

    def _take_texts(self, load_number: int, loaded: LoadedTexts | str) -> None:
        if self._is_stale(load_number):
            return
        if isinstance(loaded, str):
            self._note = loaded
            self.refresh_card()
            self._panes.show_message(loaded, bad=True)
            return
        is_reload = self.loaded is not None
        self.loaded = loaded
        self.reading = self.costs = None
        self.heat.take(self.report, {})
        self._cards.clear()
        for pane in self._panes.slots:
            self.show_in(pane, pane.kind, keep=is_reload)
        if not self._is_placed:
            self._go_to_first_position()
        self._panes.lay_out()
        if self._page.focused is None:  # the pane lost the focus while it was hidden
            self._panes.current.target.focus()
        self._panes.show_message("")
        self.refresh_card()
        # Paint the text first, then find its folds, then read what the analysis knows of it.
        if loaded.whole:
            self._page.call_after_refresh(self._begin_reading, load_number, loaded)
        else:
            self._page.call_after_refresh(
                in_background,
                self._page.app,
                lambda: with_all_folds(loaded),
                lambda result: self._take_folds(load_number, result),
            )

    def _take_folds(self, load_number: int, loaded: LoadedTexts | str) -> None:
        if self._is_stale(load_number):
            return
        if isinstance(loaded, str):
            self._panes.show_message(loaded, bad=True)
            return
        self.loaded = loaded
        for pane in self._panes.slots:
            if pane.kind in loaded.folds and not pane.is_missing:
                pane.code.update_folds(loaded.folds[pane.kind], loaded.folded[pane.kind])
        self._begin_reading(load_number, loaded)

    def _begin_reading(self, load_number: int, loaded: LoadedTexts) -> None:
        report = self.report
        if report is not None and load_number == self._load_number:
            in_background(
                self._page.app,
                lambda: read(report, loaded),
                lambda result: self._take_reading(load_number, result),
            )

    def _take_reading(
        self, load_number: int, result: tuple[KernelReading, LoadedTexts, LineCosts] | str
    ) -> None:
        if self._is_stale(load_number):
            return
        if isinstance(result, str):
            self._note = result
            self.refresh_card()
            return
        appeared = self._store_reading(*result)
        for pane in self._panes.slots:
            self.show_in(pane, pane.kind, keep=pane.kind not in appeared)
            if pane.kind == "amdgcn":
                self._fold_prologue(pane)
        if not self._is_placed:
            self._go_to_first_position()
        if appeared:
            self._panes.lay_out()
        self.follow(self._panes.current)
        self._show_definition()

    def _store_reading(
        self, reading: KernelReading, loaded: LoadedTexts, of_lines: LineCosts
    ) -> set[str]:
        """Stores what was read; returns the kinds of texts it added, such as a disassembly."""
        former_lines = self.loaded.lines if self.loaded is not None else {}
        self.reading, self.loaded, self._note = reading, loaded, ""
        self.costs = of_lines.costs
        self.heat.take(self.report, of_lines.figures)
        if reading.notes:
            self._panes.show_message("; ".join(reading.notes), bad=True)
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
        """Whether the kernel is read and analysed, so that nothing more will arrive."""
        return self.reading is not None

    def show_in(self, pane: Pane, kind: str, *, keep: bool = False) -> None:
        """Shows a text in a pane, with the folds, marks and costs known so far."""
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
            columns = self._columns(pane, kind, self.report)
            text, gutter = marked(kind, lines, folds, self.report, marks, columns)
            heading = gutter.heading
        file = Path(loaded.texts.files[kind]).name
        folded = None if keep else loaded.folded[kind]
        pane.show(kind, text, heading=heading, file=file, folded=folded)
        figures = self.heat.of(kind)
        pane.code.show_heat(figures.heat(kind) if figures is not None else {})

    def _columns(self, pane: Pane, kind: str, report: KernelReport) -> list[GutterColumn]:
        """The columns that leave the code its width, as they are drawn."""
        loaded = self.loaded
        texts = loaded.lines.keys() & _WITH_FIGURES if loaded is not None else ()
        if loaded is None or kind not in texts:
            return []
        lines, seen = loaded.lines[kind], pane.code.lines_seen()
        seen = [line for line in seen if line < len(lines)]
        self._columns_at[kind] = seen[:1]
        room = self._panes.least_width(len(texts)) - _EDGES
        room -= gutter_width(kind, len(lines), report)
        need = max((code_width(kind, lines[line]) for line in seen), default=0)
        least = min(_INSTRUCTION, need) if kind == "amdgcn" else need
        return self.heat.columns(kind, report, (room - need, room - least), self.pressure, seen)

    def _update_columns(self) -> None:
        """Chooses the columns anew where a text has been scrolled by half a screen."""
        for pane in self._panes.slots:
            seen = pane.code.lines_seen()
            if pane.is_missing or not pane.display or not self._columns_at.get(pane.kind):
                continue
            (at,) = self._columns_at[pane.kind]
            if at not in pane.code.lines_seen(above=len(seen) // 2)[: len(seen)]:
                self.show_in(pane, pane.kind, keep=True)

    def ranks(self, kind: str) -> Mapping[int, int]:
        """A text's lines with heat, the hottest first, and the place of each, from 0."""
        if self.reading is not None and kind == "amdgcn":
            return self.heat.ranks(kind, self.reading.marks.depth)
        return self.heat.ranks(kind, lambda line: 0)

    def show_again(self) -> None:
        """Shows all texts with the columns that are chosen now, and the card beside them."""
        for pane in self._panes.slots:
            if not pane.is_missing:
                self.show_in(pane, pane.kind, keep=True)
        self.refresh_card()

    def _go_to_first_position(self) -> None:
        kind, line = self._first_position
        if kind == "llir":
            self.show_in(self._panes.current, kind)
        if line is None and self.report is not None:
            kind, line = first_line(self.report, self.reading)
        pane = self._panes.pane_of(kind)
        if line is None or pane is None:
            return
        self._is_placed = True
        if not self._panes.current.code.cursor:  # else the user has moved it meanwhile
            pane.code.move_to(line - 1, quiet=True, centre=True)
            pane.show_position()
            if self.reading is not None:
                self.follow(pane)

    def _show_definition(self) -> None:
        """Shows the kernel's own lines of the source where no other one was linked to."""
        pane, own = self._panes.pane_of("source"), self.report.source if self.report else None
        if pane is not None and own is not None and not pane.code.cursor:
            pane.code.move_to(own.line - 1, quiet=True, centre=True)
            pane.show_position()

    def follow(self, pane: Pane) -> None:
        """Moves the other panes to the lines linked to the cursor's, and highlights those."""
        line = pane.code.cursor
        links = self.reading.links if self.reading is not None else None
        if pane.kind == "amdgcn":
            self._isa_line = line
        elif links is not None:
            nearest = links.nearest(pane.kind, line, "amdgcn")
            self._isa_line = self._isa_line if nearest is None else nearest
        if links is not None:
            pane.code.link(self._own_lines(pane))
            for slot in self._panes.slots:
                if slot is pane or slot.is_missing:
                    continue
                slot.code.link(links.related(pane.kind, line, slot.kind))
                nearest = links.nearest(pane.kind, line, slot.kind)
                if nearest is not None:
                    slot.code.move_to(nearest, quiet=True, centre=True)
                    slot.show_position()
        self._update_columns()
        self.refresh_card()

    def refresh_card(self) -> None:
        """Shows the loop at the assembly's cursor, and facts about the cursor's line."""
        card = self._panes.card
        report, reading = self.report, self.reading
        if report is None:
            card.show(None, CardBlock(""), self._note)
            return
        if reading is None:
            card.show(self._card(report, None), CardBlock(self._note))
            return
        loop = loop_at(report, reading, self._isa_line)
        card.show(self._card(report, loop), self._line_block(report, reading))

    def _line_block(self, report: KernelReport, reading: KernelReading) -> CardBlock:
        """The facts about the cursor's line."""
        pane = self._panes.current
        cursor = pane.code.cursor
        line_block = facts_of(
            report,
            reading,
            pane.kind,
            cursor,
            self.costs,
            self.pressure,
            self.heat.figures("predicted"),
        )
        lines = self.loaded.lines.get("source") if self.loaded is not None else None
        if lines is not None and not self._panes.shows("source"):
            fact = source_fact(reading, pane.kind, cursor, lines)
            line_block = CardBlock(line_block.title, (*line_block.facts, fact))
        isa_lines = reading.links.related(pane.kind, cursor, "amdgcn")
        if isa_lines:
            fact = CardFact("became ISA", line_list(isa_lines))
            line_block = CardBlock(line_block.title, (*line_block.facts, fact))
        return CardBlock(line_block.title, (*line_block.facts, *self._more_facts()))

    def card_text(self) -> str:
        if self.report is None or self.reading is None:
            return ""
        loop = loop_at(self.report, self.reading, self._isa_line)
        line_block = self._line_block(self.report, self.reading)
        card = card_of(self.report, loop, in_full=True)
        waits = waits_of(self.report, self.reading, loop)
        return replace(card, blocks=(*card.blocks, waits)).plain(line_block)

    def _card(self, report: KernelReport, loop: LoopReport | None) -> Card:
        key = loop.id if loop is not None else None
        if key not in self._cards:
            self._cards[key] = card_of(report, loop)
        return self._cards[key]
