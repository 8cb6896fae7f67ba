"""One kernel: its source, TTGIR and assembly side by side; moving in one moves the others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from ...editor import open_editor
from .explain import ExplainScreen
from .find import Trail, place, step
from .marks import ANALYSING, MarkedPage
from .pane import Pane

NOT_MEASURED = "no profiler measured lines of this kernel: kinspect profile --att records them"
_LOOP = {
    "source": re.compile(r"\s*(?:for|while)\b"),
    "ttgir": re.compile(r".*\bscf\.(?:for|while)\b"),
}


class KernelPage(MarkedPage):
    """The page of one kernel: keys that lead from line to line.

    Args:
        key: the kernel's key in the session.
        line: where to put the cursor, counted from 1; None: at the main loop.
        text: in which text: source, ttgir, llir or amdgcn.
    """

    NAME = "kernel"
    HELP = (
        "The kernel's Python source, TTGIR and assembly. Moving in one moves the others to what "
        "stems from the same source line, and marks it. L shows the LLVM IR in place of a text.\n"
        "Left of the assembly stand the loops (│ for each level, hot ones in colour), and how many "
        "memory operations may be outstanding after each line, by wait counter; then a bar in the "
        "colour of the instruction's class. ✗ ▲ • are findings: error, warning, note.\n"
        "w leads from a wait to each load or store that it waits for, and back; from a load to the "
        "wait that covers it. u marks where a register of the line is written and read, again for "
        "the next register; N and P step through the marks, as they do after a search.\n"
        "Where a profiler measured lines, stall% is a line's share of what the kernel stalled, in "
        "the source and the TTGIR that of all instructions of the source line; t steps through "
        "them, the dearest first, and ? says what it waits for.\n"
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
        Binding("N", "found(1)", "Next match", show=False),
        Binding("P", "found(-1)", "Previous match", show=False),
        Binding("question_mark,enter", "explain", "Explain", key_display="?"),
        Binding("colon", "line", "Go to a line", show=False, key_display=":"),
        Binding("ctrl+o,backspace", "jump_back", "Back to before the jump", show=False),
        Binding("L", "llir", "LLVM IR", show=False),
        Binding("f", "alone", "One pane", show=False),
        Binding("c", "copy", "Copy", show=False),
        Binding("e", "edit", "Editor", show=False),
        Binding("escape", "leave", "Back", show=False),
    ]

    def __init__(self, key: str, *, line: int | None = None, text: str = "amdgcn") -> None:
        super().__init__(key, line=line, text=text)
        self._trail = Trail()

    @classmethod
    def of_file(cls, path: Path) -> KernelPage:
        """A page on a file that may not be analysed yet; it becomes that of its first kernel."""
        page = cls("")
        page._path = path
        return page

    # ------------------------------------------------------------------ panes

    def action_pane(self, by: int) -> None:
        """To the next pane."""
        at = self._slots.index(self._current) + by
        self.focus_on(self._slots[at % len(self._slots)])

    def action_llir(self) -> None:
        """The LLVM IR in place of this text, or this text again."""
        pane = self._current
        kind = pane.own if pane.kind == "llir" else "llir"
        for slot in self._slots:
            if slot.kind == "llir" and slot is not pane:
                self.show_in(slot, slot.own)
        self.show_in(pane, kind)
        self._unmark()
        self.focus_on(pane)
        lead = next((p for p in self._slots if p is not pane and not p.is_missing), None)
        if lead is not None and not pane.is_missing:
            self.follow(lead)  # brings the new text to where the others are
        self.follow(pane)
        self.lay_out()

    def action_alone(self) -> None:
        """Shows one pane alone, or the others again."""
        self._alone = not self._alone
        self.lay_out()

    # ------------------------------------------------------------------ jumps

    def action_finding(self, by: int) -> None:
        """To the next line that a finding points at."""
        pane, reading = self._current, self._reading
        if reading is None:
            self.say(ANALYSING)
            return
        lines = reading.marks.finding_lines(pane.kind)
        to = step(lines, pane.code.cursor, by)
        if to is None:
            self.say(f"no finding points at a line of the {pane.title.title}")
            return
        self.jump(pane, to, f"line with findings {place(lines, to)}")

    def action_loop(self, by: int) -> None:
        """To the next loop's beginning."""
        pane, reading = self._current, self._reading
        if pane.kind == "amdgcn":
            if reading is None:
                self.say(ANALYSING)
                return
            lines = reading.marks.loop_starts
        else:
            pattern = _LOOP.get(pane.kind)
            text = pane.code.shown.lines if pattern is not None else ()
            lines = tuple(n for n, line in enumerate(text) if pattern and pattern.match(line))
        to = step(lines, pane.code.cursor, by)
        if to is None:
            self.say(f"no loop is to be seen in the {pane.title.title}")
            return
        self.jump(pane, to, f"loop {place(lines, to)}")

    def action_stall(self, by: int) -> None:
        """To the line that stalls most by measurement, from there to the next."""
        pane, costs = self._current, self._costs
        if costs is None:
            self.say(ANALYSING if self._reading is None else NOT_MEASURED)
            return
        lines = costs.dearest.get(pane.kind, ())
        if not lines:
            self.say(f"nothing was measured of lines of the {pane.title.title}")
            return
        cursor = pane.code.cursor
        at = (lines.index(cursor) + by) % len(lines) if cursor in lines else 0
        share = costs.share(pane.kind, lines[at])
        self.jump(pane, lines[at], f"{at + 1} of {len(lines)}: {share:.1f} % of the {costs.what}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Stalls are offered where some were measured."""
        report = self._report
        return action != "stall" or (report is not None and bool(report.measured_lines))

    def action_wait(self) -> None:
        """From a wait to what it waits for, one after the other, and back."""
        pane, reading = self.pane_of("amdgcn"), self._reading
        if pane is None or reading is None:
            self.say(ANALYSING if self._report is not None else "there is no assembly")
            return
        line, marks = pane.code.cursor, reading.marks
        partners = marks.producers(line) or marks.waiters(line)
        to = self._trail.next(line, partners)
        if to is None:
            self.say("neither a wait nor something that a wait waits for")
            return
        first = self._trail.stops[0]
        relation = "of what the wait waits for" if marks.producers(first) else "wait that covers it"
        self.jump(pane, to, f"ISA {first + 1}: {self._trail.place} {relation}   w goes on")

    # ------------------------------------------------------------------ marks

    def marked_in(self, pane: Pane) -> tuple[int, ...]:
        """Lines of the moved pane itself that belong to the cursor's: a wait and its loads."""
        if pane.kind != "amdgcn" or self._reading is None:
            return ()
        marks, line = self._reading.marks, pane.code.cursor
        if line in self._trail.stops:
            return self._trail.stops
        return (*marks.producers(line), *marks.waiters(line))

    def action_leave(self) -> None:
        """Gives up the prompt, else the selection, else the marks, else the page."""
        code = self._current.code
        if self.has_class("-asking"):
            self._close_prompt()
            self._words = ""
            self._unmark()
            self._land(self._current, self._asked_from)
        elif code.selecting:
            code.deselect()
            self._current.tell()
        elif self._unmark():
            self._words = ""
            self.say("")
        else:
            self.kinspect.action_back()

    # ------------------------------------------------------------------ the line

    def action_explain(self) -> None:
        """What the findings and the instruction of the line mean."""
        # Rules and instruction tables are read when they are first asked for.
        from ....inspector.explain.code.explain import explain_finding, explain_instruction
        from ..findings.detail import rules, unit_of

        pane, reading = self._current, self._reading
        if pane.is_missing:
            return
        line = pane.code.cursor
        parts: list[str] = []
        if reading is not None:
            rule_texts = {name: rule.text for name, rule in rules().items()}
            findings = reading.marks.findings(line, pane.kind)
            parts += [explain_finding(finding, rule_texts, unit_of) for finding in findings]
        if self._costs is not None:
            from .measured import explained

            parts.insert(0, explained(self._costs, pane.kind, line))
        if pane.kind == "amdgcn":
            inst = reading.marks.instruction(line) if reading is not None else None
            text = pane.code.shown.lines[line]
            parts.append(explain_instruction(inst if inst is not None else text, self._report))
        parts = [part for part in parts if part]
        if not parts:
            self.say("no finding and no instruction on this line to explain")
            return
        title = f"{pane.title.title} {line + 1}"
        self.app.push_screen(ExplainScreen(title, "\n\n────\n\n".join(parts)))

    def action_copy(self) -> None:
        """Copies the line, or the lines selected."""
        pane, loaded = self._current, self._loaded
        if pane.is_missing or loaded is None:
            return
        first, last = pane.code.selection
        lines = loaded.texts.lines[pane.kind][first : last + 1]
        self.app.copy_to_clipboard("\n".join(lines))
        self.say(f"copied {len(lines)} line{'s' if len(lines) != 1 else ''}")

    def action_edit(self) -> None:
        """Opens the source line in $EDITOR."""
        pane, loaded = self._current, self._loaded
        if loaded is None:
            return
        files, line = loaded.texts.files, pane.code.cursor
        if "source" not in files:
            self.say(loaded.texts.missing.get("source", "there is no source"), bad=True)
            return
        if pane.kind != "source":
            reading = self._reading
            near = reading.links.nearest(pane.kind, line, "source") if reading else None
            line = near if near is not None else 0
        open_editor(self.app, files["source"], line + 1)
