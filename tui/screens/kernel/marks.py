"""Jumps and marks of the kernel page: matches of a search, uses of a register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from textual.widgets import Input

from ...widgets.code import Hit
from ...widgets.scorecard import Fact
from .card import lines_said
from .find import Occurrences, Search, place, step
from .load import behind
from .pane import Pane
from .view import LinkedPage

if TYPE_CHECKING:
    from ....inspector.explain.code.uses import Uses

ANALYSING = "the kernel is still being analysed"
_AT_ONCE = 10_000  # instructions that are looked through within a frame


class MarkedPage(LinkedPage):
    """The linked panes with jumps from line to line, and marks in them."""

    def __init__(self, key: str, *, line: int | None = None, text: str = "amdgcn") -> None:
        super().__init__(key, line=line, text=text)
        self._found: Occurrences | None = None
        self._asked = ("", -1)  # whose uses are wanted, and from which line
        self._uses: Uses | None = None  # where what was found is a register
        self._found_in = ""  # the kind of text that it was found in
        self._words = ""
        self._searched: Search | None = None  # while words are typed
        self._register: tuple[int, int] = (-1, 0)  # a line, and which of its registers
        self._jumps: list[tuple[str, int]] = []
        self._asked_from = 0  # the cursor when the prompt was opened

    # ------------------------------------------------------------------ jumps

    def jump(self, pane: Pane, line: int, message: str = "") -> None:
        """Goes to a line of a pane; one can come back from there."""
        self._jumps.append((pane.kind, pane.code.cursor))
        del self._jumps[:-100]
        self.focus_on(pane)
        pane.code.deselect()
        self._land(pane, line)
        self.say(message)

    def _land(self, pane: Pane, line: int) -> None:
        pane.code.move_to(line, quiet=True, centre=True)
        pane.tell()
        self.follow(pane)

    def action_jump_back(self) -> None:
        """To where the last jump began."""
        while self._jumps:
            kind, line = self._jumps.pop()
            pane = self.pane_of(kind)
            if pane is not None:
                self.focus_on(pane)
                self._land(pane, line)
                self.say(f"back at {line + 1}")
                return
        self.say("there was no jump")

    # ------------------------------------------------------------------ marks

    def action_uses(self) -> None:
        """Marks the uses of a register of the line; again: of the next one."""
        from ....inspector.explain.code.uses import registers_of, uses

        pane = self.pane_of("amdgcn")
        function = self._reading.function if self._reading is not None else None
        if pane is None or function is None:
            self.say(ANALYSING if self._report is not None else "there is no assembly")
            return
        self.focus_on(pane)
        line = pane.code.cursor
        names = [name for _, _, name in registers_of(pane.code.shown.lines[line])]
        names = list(dict.fromkeys(names))
        if not names:
            self.say("the line names no register")
            return
        nth = self._register[1] + 1 if self._register[0] == line else 0
        self._register = (line, nth)
        name = names[nth % len(names)]
        self._asked = name, line
        if len(function.instructions) < _AT_ONCE:
            self._show_uses(pane, uses(function, line, name), (name, line), len(names))
            return
        self.say(f"looking for {name} …")
        behind(
            self.app,
            lambda: uses(function, line, name),
            lambda result: self._show_uses(pane, result, (name, line), len(names)),
        )

    def _show_uses(
        self, pane: Pane, result: Uses | str, target: tuple[str, int], names: int
    ) -> None:
        if target != self._asked or not self.is_attached or pane.kind != "amdgcn":
            return  # something else has been asked for meanwhile
        if isinstance(result, str):
            self.say(result, bad=True)
            return
        lines = tuple(sorted({*result.writes, *result.reads}))
        named = _registers(result, pane.code.shown.lines)
        self._mark(pane, Occurrences(result.register, lines, named))
        self._uses = result
        self.refresh_card()
        hint = f"   u: the next of {names} registers" if names > 1 else ""
        self.say(
            f"{result.register}: {len(result.writes)} lines write it, {len(result.reads)} read it"
            f"   N P step{hint}"
        )

    def more_facts(self) -> tuple[Fact, ...]:
        """Where the register is written and read whose uses are marked."""
        register_uses = self._uses
        if register_uses is None or self._found is None:
            return ()
        return (
            Fact(
                f"{register_uses.register} written", lines_said(register_uses.writes) or "nowhere"
            ),
            Fact(f"{register_uses.register} read", lines_said(register_uses.reads) or "nowhere"),
        )

    def _mark(self, pane: Pane, occurrences: Occurrences) -> None:
        self._found, self._found_in, self._uses = occurrences, pane.kind, None
        for slot in self._slots:
            slot.code.mark(occurrences.hits if slot is pane else {})

    def _unmark(self) -> bool:
        marked, self._found, self._uses = self._found is not None, None, None
        for pane in self._slots:
            pane.code.mark({})
        return marked

    def action_found(self, by: int) -> None:
        """To the next match, or use of the register."""
        pane = self._current
        if self._words and self._found_in != pane.kind and not pane.is_missing:
            self._mark(pane, self._search(pane).find(self._words))
        if self._found is None or self._found_in != pane.kind:
            self.say("nothing is searched for: / searches, u marks a register")
            return
        to = step(self._found.lines, pane.code.cursor, by)
        if to is None:
            self.say(f"{self._found.what} is not in the {pane.title.title}")
            return
        self.jump(pane, to, f"{self._found.what}: {place(self._found.lines, to)}")

    # ------------------------------------------------------------------ prompt

    def action_search(self) -> None:
        """Asks for words to look for in this text."""
        self._ask("/")

    def action_line(self) -> None:
        """Asks for a line to go to."""
        self._ask(":")

    def _ask(self, prefix: str) -> None:
        if self._current.is_missing:
            return
        prompt = self.prompt
        self._asked_from = self._current.code.cursor
        if prefix == "/":  # ready before the first letter
            self.call_after_refresh(self._search, self._current)
        prompt.placeholder = "search" if prefix == "/" else "line"
        self.ask(True)
        prompt.value = ""
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Shows the first match while the words are typed."""
        if not self.has_class("-asking") or event.input.placeholder != "search":
            return
        pane = self._current
        self._words = event.value
        if not event.value:
            self._unmark()
            self._land(pane, self._asked_from)
            return
        search = self._search(pane)
        self._mark(pane, search.find(event.value))
        to = search.first(event.value, self._asked_from)
        self._land(pane, self._asked_from if to is None else to)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Stays at the match, or goes to the line."""
        pane = self._current
        self._close_prompt()
        if event.input.placeholder == "search":
            if self._found is None:
                return
            count = len(self._found.lines)
            at = place(self._found.lines, pane.code.cursor) if count else "in no line"
            self._jumps.append((pane.kind, self._asked_from))
            self.say(f"{self._found.what}: {at}   N next, P previous")
        elif event.value.strip().isdecimal():
            self.jump(pane, max(0, int(event.value) - 1))
        else:
            self.say(f"{event.value!r} is no line number", bad=True)

    def _search(self, pane: Pane) -> Search:
        if self._searched is None or self._searched.lines is not pane.code.shown.lines:
            self._searched = Search(pane.code.shown.lines)
        return self._searched

    def _close_prompt(self) -> None:
        self.ask(False)
        self._searched = None
        self._current.target.focus()


def _registers(register_uses: Uses, lines: Sequence[str]) -> Callable[[int], Sequence[Hit]]:
    """Where a line that uses a register names any of it."""
    from ....inspector.explain.code.uses import numbers_of, registers_of

    numbers = frozenset(numbers_of(register_uses.register))
    written_lines, read = frozenset(register_uses.writes), frozenset(register_uses.reads)

    def hits(line: int) -> Sequence[Hit]:
        if line not in written_lines and line not in read:
            return ()
        style = "written" if line in written_lines else "read"
        return [
            (start, stop, style)
            for start, stop, name in registers_of(lines[line])
            if not numbers.isdisjoint(numbers_of(name))
        ]

    return hits
