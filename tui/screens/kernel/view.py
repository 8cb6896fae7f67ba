"""The linked panes of the kernel page: what they show, and where they stand."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from kinspect.inspector.model import KernelReport, LoopReport
from kinspect.inspector.render import view
from kinspect.tui.pages import Page
from kinspect.tui.screens.kernel.card import card_of, facts_of, lines_said, loop_at
from kinspect.tui.screens.kernel.load import Loaded, behind, is_big, load, prepared
from kinspect.tui.screens.kernel.pane import Pane
from kinspect.tui.screens.kernel.text import marked, plain
from kinspect.tui.widgets.heading import Heading
from kinspect.tui.widgets.keys import Keys
from kinspect.tui.widgets.scorecard import Block, Card, Fact, ScoreCard
from textual.app import ComposeResult
from textual.containers import Container, Horizontal
from textual.events import DescendantFocus, Resize
from textual.widgets import Input, Static

if TYPE_CHECKING:
    from kinspect.inspector.browse.reading import Reading

_WIDE, _MIDDLE = 160, 100  # columns from which on three panes, or two, stand side by side
_SIDE = 44  # columns of the card at the side
_SHOWN_FIRST = {"source": "source", "ttgir": "ttgir", "llir": "ttgir", "amdgcn": "amdgcn"}


class LinkedPage(Page):
    """The texts of one kernel, linked; keys are added by the page proper.

    Args:
        key: the kernel's key in the session.
        line: where to put the cursor, counted from 1; None: at the main loop.
        text: in which text: source, ttgir, llir or amdgcn.
    """

    AUTO_FOCUS: ClassVar[str | None] = ""  # not what happens to stand first

    DEFAULT_CSS = """
    LinkedPage #kernel-body { height: 1fr; layout: vertical; }
    LinkedPage #kernel-panes { height: 1fr; width: 1fr; }
    LinkedPage #kernel-left { height: 1fr; width: 1fr; layout: horizontal; }
    LinkedPage ScoreCard { height: 4; width: 1fr; }
    LinkedPage .-hidden { display: none; }
    LinkedPage .-divided { border-left: solid $panel; }
    LinkedPage.-wide #kernel-body { layout: horizontal; }
    LinkedPage.-wide #kernel-left { layout: vertical; }
    LinkedPage.-wide #kernel-left.-empty { width: 34; }
    LinkedPage.-wide #kernel-card { width: 44; height: 1fr; }
    LinkedPage.-wide #kernel-left Pane.missing { height: 8; }
    LinkedPage.-wide #kernel-left.-empty Pane.missing { height: 1fr; }
    LinkedPage #kernel-status { height: 1; padding: 0 1; color: $foreground 70%; }
    LinkedPage #kernel-status.-bad { color: $warning; }
    LinkedPage #kernel-prompt {
        height: 1; border: none; padding: 0 1; background: $panel; display: none;
    }
    LinkedPage.-asking #kernel-prompt { display: block; }
    LinkedPage.-asking #kernel-status { display: none; }
    LinkedPage.-low #kernel-status { display: none; }
    """

    def __init__(self, key: str, *, line: int | None = None, text: str = "amdgcn") -> None:
        super().__init__()
        self._key = key
        self._path: Path | None = None
        self._goal = (text, line)
        self._report: KernelReport | None = None
        self._loaded: Loaded | None = None
        self._reading: Reading | None = None
        self._turn = 0  # grows with every loading: what an earlier one brings is too late
        self._cards: dict[str | None, Card] = {}
        self._isa_line = 0
        self._note = ""
        self._prologue_folded = False
        self._mounted = False  # whether the panes are there
        source, ttgir, amdgcn = (Pane(k, self._moved) for k in ("source", "ttgir", "amdgcn"))
        self._slots = (source, ttgir, amdgcn)
        self._current = self._slots[2]
        self._partner = self._slots[0]
        self._alone = False

    def crumb(self) -> str:
        """Kernel, target and configuration."""
        report = self._report
        if report is None:
            return f"{self._path.name}  not analysed yet" if self._path is not None else self._key
        parts = (report.name, report.arch or "-", view.configuration(report))
        return "  ".join(part for part in parts if part)

    def compose(self) -> ComposeResult:
        """Panes, card, a line for messages."""
        yield Heading()
        with Container(id="kernel-body"):
            with Horizontal(id="kernel-panes"):
                with Container(id="kernel-left"):
                    yield from self._slots[:2]
                yield self._slots[2]
            yield ScoreCard(id="kernel-card")
        yield Static(id="kernel-status", markup=False)
        yield Input(id="kernel-prompt", select_on_focus=False)
        yield Keys(palette=False)  # its room is taken by keys of this page

    def on_mount(self) -> None:
        """Reads the texts of a file at once; a kernel's come with the session."""
        self._mounted = True
        wanted = _SHOWN_FIRST.get(self._goal[0], "amdgcn")
        self._current = next(pane for pane in self._slots if pane.own == wanted)
        if self._current is self._partner:
            self._partner = self._slots[2]
        self._current.code.focus()
        self.lay_out()
        self.session_changed()
        if self._loaded is None and self._report is None and self._path is not None:
            self._load()

    # ------------------------------------------------------------------ reading

    def session_changed(self) -> None:
        """Takes the kernel's report when it is there, and again when it is another."""
        if not self._mounted:
            return  # the session may be quicker than the page
        entry = self.session.entries.get(self._key)
        if entry is None and self._path is not None:
            ours = self._path.absolute()
            found = (e for e in self.session.ordered() if Path(e.path).absolute() == ours)
            entry = next(found, None)
        if entry is None:
            self._wait_for_report()
        elif entry.report is not self._report:
            self._key = entry.key
            self._report = entry.report
            self._note = "being analysed …"
            self._load()

    def _wait_for_report(self) -> None:
        if self._report is not None:
            return
        path = str(self._path) if self._path is not None else self._key.partition("::")[0]
        failed = next((e for e in self.session.errors if e.file == path), None)
        if failed is not None:
            self._note = f"{failed.stage}: {failed.message}; {failed.hint}"
        elif self._path is not None or self.session.progress.running:
            self._note = "not analysed yet"
        else:
            self._note = f"there is no kernel {self._key}"
        self.refresh_card()

    def _load(self) -> None:
        self._turn += 1
        turn, report, path = self._turn, self._report, self._path
        if is_big(report, path):
            self.say("reading …")
            behind(self.app, lambda: load(report, path), lambda got: self._take_texts(turn, got))
        else:
            self._take_texts(turn, load(report, path))

    def _take_texts(self, turn: int, loaded: Loaded | str) -> None:
        if turn != self._turn or not self.is_attached:
            return
        if isinstance(loaded, str):
            self._note = loaded
            self.refresh_card()
            self.say(loaded, bad=True)
            return
        again = self._loaded is not None
        self._loaded = loaded
        self._reading = None
        self._cards.clear()
        for pane in self._slots:
            self.show_in(pane, pane.kind, keep=again)
        if not again:
            self._go_to_goal()
        self.lay_out()
        if self.focused is None:  # what had it was hidden while there was no text
            self._current.target.focus()
        self.query_one(Heading).refresh()
        self.say("")
        self.refresh_card()
        report = self._report
        if report is not None:
            # The text is painted first.
            self.call_after_refresh(
                behind,
                self.app,
                lambda: _read(report, loaded),
                lambda got: self._take_reading(turn, got),
            )

    def _take_reading(self, turn: int, got: tuple[Reading, Loaded] | str) -> None:
        if turn != self._turn or not self.is_attached:
            return
        if isinstance(got, str):
            self._note = got
            self.refresh_card()
            return
        appeared = self._reading_taken(*got)
        for pane in self._slots:
            self.show_in(pane, pane.kind, keep=pane.kind not in appeared)
            if pane.kind == "amdgcn":
                self._fold_prologue(pane)
        if appeared:
            self._go_to_goal()
            self.lay_out()
        self.follow(self._current)

    def _reading_taken(self, reading: Reading, loaded: Loaded) -> set[str]:
        """The texts that analysis has added: a disassembly."""
        before = self._loaded.lines if self._loaded is not None else {}
        self._reading, self._loaded, self._note = reading, loaded, ""
        if reading.notes:
            self.say("; ".join(reading.notes), bad=True)
        return set(loaded.lines) - set(before)

    def _fold_prologue(self, pane: Pane) -> None:
        loaded, reading = self._loaded, self._reading
        if loaded is None or reading is None or self._prologue_folded:
            return
        self._prologue_folded = True
        start = loaded.prologue
        if start is not None and not start <= pane.code.cursor <= loaded.folds["amdgcn"][start]:
            pane.code.fold([start])

    @property
    def settled(self) -> bool:
        """Whether nothing more is awaited: the kernel is read and analysed."""
        return self._reading is not None

    def show_in(self, pane: Pane, kind: str, *, keep: bool = False) -> None:
        """Shows a text in a pane, with as much as is known of it."""
        loaded = self._loaded
        if loaded is None or kind not in loaded.lines:
            missing = loaded.texts.missing if loaded is not None else {}
            pane.show_missing(kind, missing.get(kind, ""))
            return
        lines, folds = loaded.lines[kind], loaded.folds[kind]
        marks = self._reading.marks if self._reading is not None else None
        if self._report is None:
            text, heading = plain(kind, lines, folds), ""
        else:
            text, gutter = marked(kind, lines, folds, self._report, marks)
            heading = gutter.heading
        file = Path(loaded.texts.files[kind]).name
        pane.show(kind, text, heading=heading, file=file, keep_folds=keep)
        if not keep:
            pane.code.fold(loaded.folded[kind])

    def _go_to_goal(self) -> None:
        kind, line = self._goal
        if kind == "llir":
            self.show_in(self._current, kind)
        if line is None and self._report is not None:
            main = view.main_loop(self._report)
            kind, line = "amdgcn", main.header_line if main is not None else None
        pane = self.pane_of(kind)
        if line is not None and pane is not None:
            pane.code.move_to(line - 1, quiet=True, centre=True)
            pane.tell()

    # ------------------------------------------------------------------ linking

    def pane_of(self, kind: str) -> Pane | None:
        """The pane that shows a text."""
        return next((p for p in self._slots if p.kind == kind and not p.is_missing), None)

    def focus_on(self, pane: Pane) -> None:
        """Makes a pane the one that keys act on."""
        if pane is not self._current:
            self._partner, self._current = self._current, pane
            self.lay_out()
            self.follow(pane)
        if not pane.target.has_focus:
            pane.target.focus()

    def marked_in(self, pane: Pane) -> tuple[int, ...]:
        """Lines of the moved pane itself that belong to the cursor's."""
        return ()

    def _moved(self, pane: Pane) -> None:
        """The others follow."""
        pane.tell()
        self.follow(pane)

    def follow(self, pane: Pane) -> None:
        """Moves the other panes to what belongs to the cursor's line, and marks it."""
        line = pane.code.cursor
        links = self._reading.links if self._reading is not None else None
        if pane.kind == "amdgcn":
            self._isa_line = line
        elif links is not None:
            near = links.nearest(pane.kind, line, "amdgcn")
            self._isa_line = self._isa_line if near is None else near
        if links is not None:
            pane.code.link(self.marked_in(pane))
            for other in self._slots:
                if other is pane or other.is_missing:
                    continue
                other.code.link(links.related(pane.kind, line, other.kind))
                near = links.nearest(pane.kind, line, other.kind)
                if near is not None:
                    other.code.move_to(near, quiet=True, centre=True)
                    other.tell()
        self.refresh_card()

    def refresh_card(self) -> None:
        """Shows the loop at the assembly's cursor, and what is known of the line."""
        card = self.query_one(ScoreCard)
        report, reading = self._report, self._reading
        if report is None:
            card.show(None, Block(""), self._note)
            return
        if reading is None:
            card.show(self._card(report, None), Block(self._note))
            return
        loop = loop_at(report, reading, self._isa_line)
        pane = self._current
        here = facts_of(report, reading, pane.kind, pane.code.cursor)
        became = reading.links.related(pane.kind, pane.code.cursor, "amdgcn")
        if became:
            fact = Fact("became ISA", lines_said(became))
            here = Block(here.title, (*here.facts, fact))
        here = Block(here.title, (*here.facts, *self.more_facts()))
        card.show(self._card(report, loop), here)

    def more_facts(self) -> tuple[Fact, ...]:
        """What keys have asked for beside what is known of the line."""
        return ()

    def _card(self, report: KernelReport, loop: LoopReport | None) -> Card:
        key = loop.id if loop is not None else None
        if key not in self._cards:
            self._cards[key] = card_of(report, loop)
        return self._cards[key]

    def say(self, text: str, *, bad: bool = False) -> None:
        """Tells something in the line above the keys."""
        status = self.query_one("#kernel-status", Static)
        status.set_class(bad, "-bad")
        status.update(text, layout=False)

    # ------------------------------------------------------------------ layout

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """The pane with the focus is the one that keys act on."""
        for pane in self._slots:
            if event.widget in (pane.code, pane.missing):
                self.focus_on(pane)

    def on_resize(self, event: Resize) -> None:
        """More or fewer panes."""
        if self._mounted:
            self.lay_out()

    def lay_out(self) -> None:
        """Shows as many panes as there is room for."""
        width, height = self.app.size
        wide, middle = width >= _WIDE, _MIDDLE <= width < _WIDE
        self.set_class(wide, "-wide")
        self.set_class(height < 12, "-low")
        shown = {self._current}
        if wide and not self._alone:
            shown = set(self._slots)
        elif middle and not self._alone:
            shown.add(self._beside())
        for pane in self._slots:
            pane.set_class(pane not in shown, "-hidden")
        left = self.query_one("#kernel-left")
        left.set_class(not shown & set(self._slots[:2]), "-hidden")
        left.set_class(all(pane.is_missing for pane in self._slots[:2]), "-empty")
        self._slots[1].set_class(middle and self._slots[0] in shown, "-divided")
        self._slots[2].set_class(bool(shown & set(self._slots[:2])), "-divided")
        card = self.query_one(ScoreCard)
        card.set_class(height < 18 and not wide, "-hidden")
        card.styles.height = None if wide else (12 if height >= 36 else 7) if middle else 5

    def _beside(self) -> Pane:
        """The pane that is shown with the present one where there is room for two."""
        others = [pane for pane in self._slots if pane is not self._current]
        there = [pane for pane in others if not pane.is_missing]
        if self._partner in there or not there:
            return self._partner if there else self._current
        return there[-1]


def _read(report: KernelReport, loaded: Loaded) -> tuple[Reading, Loaded]:
    """What analysis knows of the texts, and the texts, to which it may add."""
    from kinspect.inspector.browse.reading import reading_of  # the parsers: not for first paint

    # A large kernel is a million objects without cycles: looking through them for garbage would
    # hold up keys for a fifth of a second now and then, while they are made and ever after.
    gc.disable()
    try:
        reading = reading_of(report, loaded.texts)
        added = prepared(reading.texts, reading.function, loaded)
    finally:
        gc.freeze()
        gc.enable()
    return reading, added
