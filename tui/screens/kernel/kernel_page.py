"""The page of one kernel: source, TTGIR and assembly side by side, with linked cursors.

What the kernel page's window of explanations says of a line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import DescendantFocus, Resize
from textual.widgets import Input

from ....inspector.explain.code.line_figures import COLUMNS, DEFAULT
from ...editor import open_editor
from ...key_table import bind
from ...pages import Legend, Page
from ...session import SessionKernel
from ...widgets.find import place, step
from ..dialogue import ExplainScreen
from .card import lds_rows_at
from .kernel_head import whole_text
from .linked_texts import KernelToShow, LinkedTexts
from .marks import ANALYSING, PaneMarks
from .panes import Pane, Panes

NOTHING_HOT = "no column beside this text has a figure: C chooses columns"
_LOOP = {
    "source": re.compile(r"\s*(?:for|while)\b"),
    "ttgir": re.compile(r".*\bscf\.(?:for|while)\b"),
}


class KernelPage(Page):
    """The page of one kernel: what each key does.

    The work is done by its parts: `panes` holds the panes on the screen, `texts` fills and links
    them, and `marks` moves the cursor, marks lines in them and asks for words.

    Args:
        line: where to put the cursor, counted from 1; None for the main loop.
        text: the text that `line` is of: source, ttgir, llir or amdgcn.
    """

    NAME = "kernel"
    PALETTE = False  # its room is taken by keys of this page
    AUTO_FOCUS: ClassVar[str | None] = ""  # the panes choose it, not Textual
    LEGEND = (
        ("✗ ▲ •", "a finding: error, warning, note"),
        ("↓ ↑", "a spill to scratch, a reload"),
        ("│", "a loop, one for each level; hot ones in colour"),
        ("vm lg …", "memory operations that may be in flight after the line, by counter"),
        ("▎", "the class of the instruction, by its colour"),
        ("⋯", "lines folded away"),
        ("▾", "at a column's head: it says which lines are hot"),
        ("█ ▌", "at the edge: the hottest lines, warm ones; a click goes there"),
        ("┊", "beside VGPRs: the most that each occupancy leaves"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("open", "explain", "Explain"),
        Binding("tab", "pane(1)", "Pane"),
        Binding("shift+tab", "pane(-1)", "Pane before", show=False),
        bind("next", "match(1)", "Next"),
        bind("previous", "match(-1)", "Previous match, mark or finding", show=False),
        bind("next_part", "loop(1)", "Loop"),
        bind("previous_part", "loop(-1)", "Loop before", show=False),
        bind("hottest", "hottest", "Hottest"),
        bind("sort", "heat(1)", "Heat by the next column", show=False),
        bind("reverse", "heat(-1)", "Heat by the column before", show=False),
        bind("follow", "follow", "Follow"),
        bind("uses", "uses", "Register"),
        bind("passes", "passes", "Passes"),
        bind("search", "search", "Search"),
        bind("try", "try", "Try cures"),
        bind("columns", "columns", "Columns"),
        bind("baseline", "baseline", "Baseline"),
        bind("recompile", "recompile", "Recompile", show=False),
        bind("jump_back", "jump_back", "Back to before the jump", show=False),
        bind("view", "llir", "LLVM IR in place of this text", show=False),
        bind("only", "single_pane", "One pane", show=False),
        bind("copy", "copy", "Copy", show=False),
        bind("edit", "edit", "Editor", show=False),
    ]

    DEFAULT_CSS = """
    KernelPage #kernel-body { height: 1fr; layout: vertical; }
    KernelPage #kernel-panes { height: 1fr; width: 1fr; }
    KernelPage #kernel-left { height: 1fr; width: 1fr; layout: horizontal; }
    KernelPage ScoreCard { height: 4; width: 1fr; }
    KernelPage .-divided { border-left: solid $panel; }
    KernelPage.-wide #kernel-body { layout: horizontal; }
    KernelPage.-wide #kernel-left { layout: vertical; }
    KernelPage.-wide #kernel-left.-empty { width: 34; }
    KernelPage.-wide #kernel-card { width: 40; height: 1fr; }
    KernelPage.-wide #kernel-left Pane.missing { height: 8; }
    KernelPage.-wide #kernel-left.-empty Pane.missing { height: 1fr; }
    KernelPage #kernel-status { height: 1; padding: 0 1; color: $foreground 70%; }
    KernelPage #kernel-status.-bad { color: $warning; }
    KernelPage #kernel-prompt {
        height: 1; border: none; padding: 0 1; background: $panel;
    }
    """

    def __init__(
        self, key: str, *, line: int | None = None, text: str = "amdgcn", path: Path | None = None
    ) -> None:
        super().__init__()
        self.panes = Panes(self, lambda pane: self.texts.follow(pane))
        self.texts = LinkedTexts(
            self,
            self.panes,
            KernelToShow(key, path, text, line),
            own_lines=lambda pane: self.marks.own_lines(pane),
            more_facts=lambda: self.marks.facts(),
        )
        self.marks = PaneMarks(self, self.panes, self.texts)

    @classmethod
    def of_file(cls, path: Path) -> KernelPage:
        """A page for a file that may not be analysed yet; it will show the file's first kernel."""
        return cls("", path=path)

    def legend(self) -> Legend:
        report = self.texts.report
        present = (c for c in COLUMNS.values() if report is not None and c.present(report))
        return (*self.LEGEND, *((column.title, column.about) for column in present))

    def content(self) -> ComposeResult:
        yield from self.panes.compose()

    @property
    def kernel_key(self) -> str | None:
        return self.texts.key

    def crumb(self) -> str:
        return self.texts.crumb()

    @property
    def settled(self) -> bool:
        return self.texts.settled

    def on_mount(self) -> None:
        self.texts.open()

    def session_changed(self) -> None:
        self.texts.session_changed()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        self.panes.take_focus(event.widget)

    def on_resize(self, event: Resize) -> None:
        if self.texts.opened:
            self.panes.lay_out()
            self.texts.show_again()

    def on_input_changed(self, event: Input.Changed) -> None:
        self.marks.typed(event.input.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.marks.submit()

    def action_pane(self, by: int) -> None:
        slots = self.panes.slots
        pane = slots[(slots.index(self.panes.current) + by) % len(slots)]
        self.panes.focus_on(pane, follow=False)
        self.texts.refresh_card()

    def action_llir(self) -> None:
        """Shows the LLVM IR in place of this pane's text, or that text again."""
        pane = self.panes.current
        kind = pane.own_kind if pane.kind == "llir" else "llir"
        for slot in self.panes.slots:
            if slot.kind == "llir" and slot is not pane:
                self.texts.show_in(slot, slot.own_kind)
        self.texts.show_in(pane, kind)
        self.marks.unmark()
        self.panes.focus_on(pane)
        others = (slot for slot in self.panes.slots if slot is not pane and not slot.is_missing)
        other = next(others, None)
        if other is not None and not pane.is_missing:
            self.texts.follow(other)  # moves the new text to the line that the others show
        self.texts.follow(pane)
        self.panes.lay_out()

    def action_columns(self) -> None:
        from ..columns_menu import ColumnsMenu

        report = self.texts.report
        if report is None:
            self.panes.show_message(ANALYSING)
            return

        def show_columns(names: list[str] | None) -> None:
            if names is not None:
                self.kinspect.state.code_columns = names
                self.kinspect.keep_state()
                self.texts.show_again()

        titles = {
            name: (column.title, ("" if column.present(report) else "(none here) ") + column.about)
            for name, column in COLUMNS.items()
        }
        names = self.kinspect.state.code_columns or DEFAULT
        shown = [name for name in names if name in COLUMNS]
        self.app.push_screen(ColumnsMenu(titles, shown, DEFAULT), show_columns)

    def action_single_pane(self) -> None:
        self.panes.shows_one = not self.panes.shows_one
        self.panes.lay_out()
        self.texts.show_again()  # with as many columns as there is room for now

    def action_finding(self, by: int) -> None:
        """Jumps to the next line that a finding points at."""
        pane, reading = self.panes.current, self.texts.reading
        if reading is None:
            self.panes.show_message(ANALYSING)
            return
        lines = reading.marks.finding_lines(pane.kind)
        to = step(lines, pane.code.cursor, by)
        if to is None:
            self.panes.show_message(f"no finding points at a line of the {pane.title.title}")
            return
        self.marks.jump(pane, to, f"line with findings {place(lines, to)}")

    def action_loop(self, by: int) -> None:
        pane, reading = self.panes.current, self.texts.reading
        if pane.kind == "amdgcn":
            if reading is None:
                self.panes.show_message(ANALYSING)
                return
            lines = reading.marks.loop_starts
        else:
            pattern = _LOOP.get(pane.kind)
            texts = pane.code.shown.lines if pattern is not None else ()
            lines = tuple(
                number for number, text in enumerate(texts) if pattern and pattern.match(text)
            )
        to = step(lines, pane.code.cursor, by)
        if to is None:
            self.panes.show_message(f"no loop is to be seen in the {pane.title.title}")
            return
        self.marks.jump(pane, to, f"loop {place(lines, to)}")

    def action_hottest(self) -> None:
        """Jumps to the hottest line by the first column beside it, from there to the next one."""
        pane, heat = self.panes.current, self.texts.heat.of(self.panes.current.kind)
        if heat is None:
            self.panes.show_message(ANALYSING if self.texts.reading is None else NOTHING_HOT)
            return
        ranks = self.texts.ranks(pane.kind)
        rank = (ranks.get(pane.code.cursor, -1) + 1) % len(ranks)
        line = next(line for line, place in ranks.items() if place == rank)
        message = f"{rank + 1} of {len(ranks)}: {heat.sentence(pane.kind, line)}"
        self.marks.jump(pane, line, message)

    def action_heat(self, by: int) -> None:
        """Lets the next (1) or previous (-1) column say which lines are hot."""
        heat = self.texts.heat.next(self.panes.current.kind, by)
        if heat is None:
            self.panes.show_message(ANALYSING if self.texts.reading is None else NOTHING_HOT)
        else:
            self.texts.show_again()
            self.panes.show_message(f"t walks by {heat.column.title}: {heat.column.about}")

    def action_follow(self) -> None:
        """Jumps to what the line belongs to, one after the other, and back."""
        self.marks.follow()

    def action_recompile(self) -> None:
        """Opens the form that compiles the kernel with other options."""
        from ..recompile import recompile

        entry = self._entry
        if entry is not None:
            recompile(self.kinspect, entry)

    def action_try(self) -> None:
        """Tries the cures of the line's findings, or of all of the kernel's."""
        from ..trials import try_cures

        reading, pane, entry = self.texts.reading, self.panes.current, self._entry
        if entry is None:
            self.panes.show_message(ANALYSING)
            return
        here = reading.marks.findings(pane.code.cursor, pane.kind) if reading is not None else ()
        try_cures(self.kinspect, entry, here or entry.report.findings)

    @property
    def _entry(self) -> SessionKernel | None:
        return self.session.entries.get(self.texts.key)

    def action_passes(self) -> None:
        """Shows what the passes did to the line of the source, or to the operation of the TTGIR."""
        from ....inspector.explain.code.reading import followed_thing

        entry, reading, pane = self._entry, self.texts.reading, self.panes.current
        if entry is None or reading is None:
            self.panes.show_message(ANALYSING)
        elif thing := followed_thing(reading, pane.kind, pane.code.cursor):
            self.kinspect.open_passes(entry.key, thing)
        else:
            self.panes.show_message("the line stems from no line of the source")

    def action_jump_back(self) -> None:
        self.marks.jump_back()

    def action_uses(self) -> None:
        """Marks the uses of a register of the line; when pressed again, of the next register."""
        self.marks.mark_uses()

    def action_match(self, by: int) -> None:
        """Goes to the next match of the search or use of the register, else to the next finding."""
        if self.marks.occurrences is not None:
            self.marks.step(by)
        else:
            self.action_finding(by)

    def action_search(self) -> None:
        self.marks.ask_words()

    def go_to_line(self, line: int) -> bool:
        pane = self.panes.current
        if not pane.is_missing:
            self.marks.jump(pane, max(0, line - 1))
        return not pane.is_missing

    def close_top(self) -> bool:
        return self.marks.cancel() or self.marks.clear()

    def action_explain(self) -> None:
        """Opens a window: the line's costs, findings and instruction, all of head and card."""
        pane = self.panes.current
        if pane.is_missing:
            return
        report = self.texts.report
        head = whole_text(report) if report is not None else ""
        texts = (*explanations(self.texts, pane), self.texts.card_text(), head)
        parts = [text for text in texts if text]
        if not parts:
            self.panes.show_message(ANALYSING)
            return
        title = f"{pane.title.title} {pane.code.cursor + 1}"
        self.app.push_screen(ExplainScreen(title, "\n\n────\n\n".join(parts)))

    def action_copy(self) -> None:
        pane, loaded = self.panes.current, self.texts.loaded
        if pane.is_missing or loaded is None:
            return
        first, last = pane.code.selection
        lines = loaded.texts.lines[pane.kind][first : last + 1]
        self.app.copy_to_clipboard("\n".join(lines))
        self.panes.show_message(f"copied {len(lines)} line{'s' if len(lines) != 1 else ''}")

    def action_edit(self) -> None:
        pane, loaded = self.panes.current, self.texts.loaded
        if loaded is None:
            return
        files, line = loaded.texts.files, pane.code.cursor
        if "source" not in files:
            self.panes.show_message(
                loaded.texts.missing.get("source", "there is no source"), bad=True
            )
            return
        if pane.kind != "source":
            reading = self.texts.reading
            nearest = reading.links.nearest(pane.kind, line, "source") if reading else None
            line = nearest if nearest is not None else 0
        open_editor(self.app, files["source"], line + 1)


def explanations(texts: LinkedTexts, pane: Pane) -> Iterator[str]:
    """Texts on the costs, findings and instruction of the cursor's line; some may be empty.

    Of a spill what the slot holds comes first: its findings are those of many others.
    """
    # Rules and instruction tables are read at their first use.
    from ....inspector.explain import lds_map, registers_view
    from ....inspector.explain.code.explanations import explain_finding, explain_instruction
    from ..findings.finding_details import rules, unit_of

    reading, kind, line = texts.reading, pane.kind, pane.code.cursor
    if texts.costs is not None:
        yield texts.costs.explanation(kind, line)
    instruction = ""
    if kind == "amdgcn":
        inst = reading.marks.instruction(line) if reading is not None else None
        text = pane.code.shown.lines[line]
        instruction = explain_instruction(text if inst is None else inst, texts.report)
    is_spill = reading is not None and kind == "amdgcn" and reading.marks.spill(line) is not None
    if is_spill:
        yield instruction
        if texts.report is not None and texts.report.spilled_values:
            values = map(registers_view.spilled_text, texts.report.spilled_values)
            yield "\n".join(("Spilled values of the kernel:", *values))
    elif texts.report is not None and lds_rows_at(texts.report, kind, line):
        lines = lds_map.row_lines(lds_map.map_rows(texts.report))
        yield "\n".join((lds_map.map_title(texts.report), *lines))
    if reading is not None:
        rule_texts = {name: rule.text for name, rule in rules().items()}
        for finding in reading.marks.findings(line, kind):
            yield explain_finding(finding, rule_texts, unit_of)
    if not is_spill:
        yield instruction
