"""The page of one kernel: source, TTGIR and assembly side by side, with linked cursors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import DescendantFocus, Resize
from textual.widgets import Input

from ...editor import open_editor
from ...pages import Page
from ..text_dialogues import ExplainScreen
from .find import Trail, place, step
from .linked_texts import KernelToShow, LinkedTexts
from .marks import ANALYSING, PaneMarks
from .pane import Pane
from .panes import Panes
from .prompt import Prompt

NOT_MEASURED = "no profiler measured lines of this kernel: kinspect profile --att records them"
_LOOP = {
    "source": re.compile(r"\s*(?:for|while)\b"),
    "ttgir": re.compile(r".*\bscf\.(?:for|while)\b"),
}


class KernelPage(Page):
    """The page of one kernel: what each key does.

    The work is done by its parts: `panes` holds the panes on the screen, `texts` fills and links
    them, `marks` moves the cursor and marks lines in them, and `prompt` asks for words or a line.

    Args:
        key: the kernel's key in the session.
        line: where to put the cursor, counted from 1; None for the main loop.
        text: the text that `line` is of: source, ttgir, llir or amdgcn.
        path: a file that may not be analysed yet, in place of a key.
    """

    NAME = "kernel"
    AUTO_FOCUS: ClassVar[str | None] = ""  # the panes choose it, not Textual
    HELP = (
        "The kernel's Python source, TTGIR and assembly. Moving in one moves the others to what "
        "stems from the same source line, and marks it. L shows the LLVM IR in place of a text.\n"
        "Left of the assembly stand the loops (│ for each level, hot ones in colour), and how many "
        "memory operations may be outstanding after each line, by wait counter; then a bar in the "
        "colour of the instruction's class. ✗ ▲ • are findings: error, warning, note; ↓ ↑ are "
        "spills to scratch memory and reloads of them.\n"
        "Under vgpr stand the live VGPRs after each line, and a curve of the registers that these "
        "need, up to what is allocated; ┊ are the most for each occupancy. Lines in colour keep it "
        "from the next one. v hides the curve.\n"
        "w leads from a wait to each load or store that it waits for, and back; from a load to the "
        "wait that covers it. u marks where a register of the line is written and read, again for "
        "the next register; N and P step through the marks, as they do after a search.\n"
        "Where a profiler measured lines, stall% is a line's share of what the kernel stalled, in "
        "the source and the TTGIR that of all instructions of the source line; t steps through "
        "them, the dearest first, and ? says what it waits for. With --emulate, exec is how often "
        "a wave executes a line of the assembly; elsewhere a line's share, %, of all executions.\n"
        "⋯ stands where debug directives, metadata or the prologue are folded away; space opens."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "pane(1)", "Pane"),
        Binding("shift+tab", "pane(-1)", "Pane before", show=False),
        Binding("n", "finding(1)", "Finding"),
        Binding("p", "finding(-1)", "Previous finding", show=False),
        Binding("right_square_bracket", "loop(1)", "Loop", key_display="]"),
        Binding("left_square_bracket", "loop(-1)", "Loop before", show=False, key_display="["),
        Binding("w", "wait", "Wait"),
        Binding("u", "uses", "Register"),
        Binding("t", "stall(1)", "Stall"),
        Binding("T", "stall(-1)", "Stall before", show=False),
        Binding("slash", "search", "Search", key_display="/"),
        Binding("N", "match(1)", "Next match", show=False),
        Binding("P", "match(-1)", "Previous match", show=False),
        Binding("question_mark,enter", "explain", "Explain", key_display="?"),
        Binding("colon", "line", "Go to a line", show=False, key_display=":"),
        Binding("ctrl+o,backspace", "jump_back", "Back to before the jump", show=False),
        Binding("v", "curve", "VGPRs", show=False),
        Binding("L", "llir", "LLVM IR", show=False),
        Binding("f", "single_pane", "One pane", show=False),
        Binding("c", "copy", "Copy", show=False),
        Binding("e", "edit", "Editor", show=False),
        Binding("escape", "leave", "Back", show=False),
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
    KernelPage.-wide #kernel-card { width: 44; height: 1fr; }
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
        self._trail = Trail()
        self.panes = Panes(self, lambda pane: self.texts.follow(pane))
        self.texts = LinkedTexts(
            self,
            self.panes,
            KernelToShow(key, path, text, line),
            own_lines=self._own_lines,
            more_facts=lambda: self.marks.facts(),
        )
        self.marks = PaneMarks(self, self.panes, self.texts)
        self.prompt = Prompt(self, self.panes, self.marks)

    @classmethod
    def of_file(cls, path: Path) -> KernelPage:
        """A page for a file that may not be analysed yet; it will show the file's first kernel."""
        return cls("", path=path)

    def compose(self) -> ComposeResult:
        """The panes, the score card, a line for messages."""
        yield from self.panes.compose()

    def crumb(self) -> str:
        """Kernel, target and configuration."""
        return self.texts.crumb()

    @property
    def settled(self) -> bool:
        """Whether the kernel is read and analysed."""
        return self.texts.settled

    def on_mount(self) -> None:
        """Shows the texts as far as they are known."""
        self.texts.open()

    def session_changed(self) -> None:
        """Shows the kernel's report if it has come or changed."""
        self.texts.session_changed()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Makes the pane with the focus the one that keys act on."""
        self.panes.take_focus(event.widget)

    def on_resize(self, event: Resize) -> None:
        """Shows as many panes as there is room for."""
        if self.texts.opened:
            self.panes.lay_out()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Shows the first match while the words are typed."""
        self.prompt.changed(event.input.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Takes what was typed at the prompt."""
        self.prompt.submit(event.input.value)

    def action_pane(self, by: int) -> None:
        """Moves the focus to the next pane."""
        slots = self.panes.slots
        self.panes.focus_on(slots[(slots.index(self.panes.current) + by) % len(slots)])

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

    def action_curve(self) -> None:
        """Shows or hides the live registers beside the assembly."""
        if self.texts.pressure is None or not self.texts.pressure.counts:
            self.panes.show_message("the live registers of this kernel are not known")
            return
        self.texts.toggle_curve()

    def action_single_pane(self) -> None:
        """Shows one pane alone, or the others again."""
        self.panes.shows_one = not self.panes.shows_one
        self.panes.lay_out()

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
        """Jumps to the beginning of the next loop."""
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

    def action_stall(self, by: int) -> None:
        """Jumps to the line with most measured stalls, from there to the one with next most."""
        pane, costs = self.panes.current, self.texts.costs
        if costs is None:
            self.panes.show_message(ANALYSING if self.texts.reading is None else NOT_MEASURED)
            return
        lines = costs.costliest.get(pane.kind, ())
        if not lines:
            self.panes.show_message(f"nothing was measured of lines of the {pane.title.title}")
            return
        cursor = pane.code.cursor
        rank = (lines.index(cursor) + by) % len(lines) if cursor in lines else 0
        share = costs.share(pane.kind, lines[rank])
        message = f"{rank + 1} of {len(lines)}: {share:.1f} % of the {costs.measure}"
        self.marks.jump(pane, lines[rank], message)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offers the key for stalls where some were measured, or executions were counted."""
        report = self.texts.report
        return action != "stall" or (
            report is not None and bool(report.measured_lines or report.emulated)
        )

    def action_wait(self) -> None:
        """Jumps from a wait to the operations it waits for, one after the other, and back."""
        pane, reading = self.panes.pane_of("amdgcn"), self.texts.reading
        if pane is None or reading is None:
            self.panes.show_message(
                ANALYSING if self.texts.report is not None else "there is no assembly"
            )
            return
        line, marks = pane.code.cursor, reading.marks
        partners = marks.producers(line) or marks.waiters(line)
        to = self._trail.next(line, partners)
        if to is None:
            self.panes.show_message("neither a wait nor something that a wait waits for")
            return
        first = self._trail.stops[0]
        relation = "of what the wait waits for" if marks.producers(first) else "wait that covers it"
        self.marks.jump(pane, to, f"ISA {first + 1}: {self._trail.place} {relation}   w goes on")

    def _own_lines(self, pane: Pane) -> tuple[int, ...]:
        """Lines of the same pane that belong to the cursor's: the loads of a wait, or its wait."""
        if pane.kind != "amdgcn" or self.texts.reading is None:
            return ()
        marks, line = self.texts.reading.marks, pane.code.cursor
        if line in self._trail.stops:
            return self._trail.stops
        return (*marks.producers(line), *marks.waiters(line))

    def action_jump_back(self) -> None:
        """Goes back to where the last jump began."""
        self.marks.jump_back()

    def action_uses(self) -> None:
        """Marks the uses of a register of the line; when pressed again, of the next register."""
        self.marks.mark_uses()

    def action_match(self, by: int) -> None:
        """Goes to the next match of the search, or the next use of the register."""
        self.marks.step(by)

    def action_search(self) -> None:
        """Asks for words to look for in this text."""
        self.prompt.ask_words()

    def action_line(self) -> None:
        """Asks for a line to go to."""
        self.prompt.ask_line()

    def action_leave(self) -> None:
        """Closes the prompt, else clears the selection, else the marks, else leaves the page."""
        if not (self.prompt.cancel() or self.marks.clear()):
            self.kinspect.action_back()

    def action_explain(self) -> None:
        """Opens a window on what the line costs, and what its findings and instruction mean."""
        pane = self.panes.current
        if pane.is_missing:
            return
        line = pane.code.cursor
        explanations = [text for text in self._explanations(pane, line) if text]
        if not explanations:
            self.panes.show_message("no finding and no instruction on this line to explain")
            return
        title = f"{pane.title.title} {line + 1}"
        self.app.push_screen(ExplainScreen(title, "\n\n────\n\n".join(explanations)))

    def _explanations(self, pane: Pane, line: int) -> Iterator[str]:
        """Texts on a line's costs, findings and instruction; some may be empty."""
        # Rules and instruction tables are read at their first use.
        from ....inspector.explain.code.explanations import explain_finding, explain_instruction
        from ..findings.detail import rules, unit_of

        reading = self.texts.reading
        if self.texts.costs is not None:
            yield self.texts.costs.explanation(pane.kind, line)
        if reading is not None:
            rule_texts = {name: rule.text for name, rule in rules().items()}
            for finding in reading.marks.findings(line, pane.kind):
                yield explain_finding(finding, rule_texts, unit_of)
        if pane.kind == "amdgcn":
            instruction = reading.marks.instruction(line) if reading is not None else None
            text = pane.code.shown.lines[line]
            yield explain_instruction(
                text if instruction is None else instruction, self.texts.report
            )

    def action_copy(self) -> None:
        """Copies the line, or the selected lines."""
        pane, loaded = self.panes.current, self.texts.loaded
        if pane.is_missing or loaded is None:
            return
        first, last = pane.code.selection
        lines = loaded.texts.lines[pane.kind][first : last + 1]
        self.app.copy_to_clipboard("\n".join(lines))
        self.panes.show_message(f"copied {len(lines)} line{'s' if len(lines) != 1 else ''}")

    def action_edit(self) -> None:
        """Opens the source line in $EDITOR."""
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
