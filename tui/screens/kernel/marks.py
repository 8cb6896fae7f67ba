"""Jumps and marked lines of the kernel page: searches, registers, what a line belongs to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...pages import Page
from ...widgets.code import Hit
from ...widgets.find import Occurrences, Search, Trail, place
from ...widgets.find import step as next_line
from ...widgets.scorecard import CardFact
from .card import line_list
from .linked_texts import LinkedTexts
from .panes import Pane, Panes
from .text_loading import in_background

if TYPE_CHECKING:
    from ....inspector.explain.code.uses import Uses
    from ....inspector.model import Function

ANALYSING = "the kernel is still being analysed"
_MOST_JUMPS = 100
AT_ONCE = 10_000
"""Instructions up to which uses of a register are looked for at once, not in a thread."""
VALUES_AT_ONCE = 2_000
"""The same for uses of a value, which may lie in many registers."""


class PaneMarks:
    """Jumps from line to line in the panes, and marks lines in them."""

    def __init__(self, page: Page, panes: Panes, texts: LinkedTexts) -> None:
        self._page = page
        self._panes = panes
        self._texts = texts
        self.occurrences: Occurrences | None = None
        self._requested_uses = ("", -1)  # the register and the line whose uses were looked for last
        self._uses: Uses | None = None  # the marked uses, where a register is marked
        self._marked_kind = ""  # the kind of text that the marks are in
        self._search_words = ""
        self._search_index: Search | None = None
        self._register_choice: tuple[int, int] = (-1, 0)  # a line, and an index of its registers
        self._trail = Trail()
        self._asked_at = 0  # the cursor's line when words were asked for
        self._jumps: list[tuple[str, int]] = []  # (kind of text, line) where they began

    def jump(self, pane: Pane, line: int, message: str = "") -> None:
        self.remember(pane, pane.code.cursor)
        self._panes.focus_on(pane)
        pane.code.deselect()
        self.land(pane, line)
        self._panes.show_message(message)

    def remember(self, pane: Pane, line: int) -> None:
        """Remembers a line of a pane as the place where a jump began."""
        self._jumps.append((pane.kind, line))
        del self._jumps[:-_MOST_JUMPS]

    def land(self, pane: Pane, line: int) -> None:
        """Puts the cursor on a line of a pane; the other panes follow."""
        pane.code.move_to(line, quiet=True, centre=True)
        pane.show_position()
        self._texts.follow(pane)

    def jump_back(self) -> None:
        while self._jumps:
            kind, line = self._jumps.pop()
            pane = self._panes.pane_of(kind)
            if pane is not None:
                self._panes.focus_on(pane)
                self.land(pane, line)
                self._panes.show_message(f"back at {line + 1}")
                return
        self._panes.show_message("there was no jump")

    def follow(self) -> None:
        """Jumps to what the line belongs to, one after the other, and back.

        From a spill to its reloads and back, from a wait to what it waits for and back, from the
        instruction that makes a value to those that read it.
        """
        pane, reading = self._panes.pane_of("amdgcn"), self._texts.reading
        if pane is None or reading is None:
            self._panes.show_message(
                ANALYSING if self._texts.report is not None else "there is no assembly"
            )
            return
        line = pane.code.cursor
        if self._trail.is_at(line):
            self._follow_to(pane, line, ())
            return
        partners = list(reading.marks.partners(line))
        function = reading.function
        size = len(function.instructions) if function is not None else 0
        if function is None or not reading.marks.cls(line) or (partners and size >= AT_ONCE):
            self._follow_to(pane, line, partners)
        elif size < VALUES_AT_ONCE:
            self._follow_to(pane, line, [*partners, *value_partners(function, line)])
        else:
            self._panes.show_message("looking for the uses of its value …")
            in_background(
                self._page.app,
                lambda: [*partners, *value_partners(function, line)],
                lambda result: self._follow_found(pane, line, result),
            )

    def _follow_found(
        self, pane: Pane, line: int, partners: Sequence[tuple[int, str]] | str
    ) -> None:
        """Follows a value whose uses were looked for in a thread, unless the cursor has moved."""
        if isinstance(partners, str):
            self._panes.show_message(partners, bad=True)
        elif self._page.is_attached and pane.code.cursor == line:
            self._follow_to(pane, line, partners)

    def _follow_to(self, pane: Pane, line: int, partners: Sequence[tuple[int, str]]) -> None:
        to = self._trail.next(line, partners)
        if to is None:
            self._panes.show_message("no spill, no wait, and no value that another line uses")
            return
        first, relation = self._trail.stops[0], self._trail.relation
        place = f"{self._trail.place} {relation}".rstrip()
        self.jump(pane, to, f"ISA {first + 1}: {place}   w goes on")

    def own_lines(self, pane: Pane) -> tuple[int, ...]:
        """Lines of the same pane that belong to the cursor's: the loads of a wait, or its wait."""
        if pane.kind != "amdgcn" or self._texts.reading is None:
            return ()
        line = pane.code.cursor
        if line in self._trail.stops:
            return self._trail.stops
        return tuple(partner for partner, _ in self._texts.reading.marks.partners(line))

    def mark_uses(self) -> None:
        """Marks the uses of a register of the line; pressed again, of the line's next register."""
        from ....inspector.explain.code.uses import registers_of, uses

        pane = self._panes.pane_of("amdgcn")
        function = self._texts.reading.function if self._texts.reading is not None else None
        if pane is None or function is None:
            self._panes.show_message(
                ANALYSING if self._texts.report is not None else "there is no assembly"
            )
            return
        self._panes.focus_on(pane)
        line = pane.code.cursor
        names = [name for _, _, name in registers_of(pane.code.shown.lines[line])]
        names = list(dict.fromkeys(names))
        if not names:
            self._panes.show_message("the line names no register")
            return
        nth = self._register_choice[1] + 1 if self._register_choice[0] == line else 0
        self._register_choice = (line, nth)
        name = names[nth % len(names)]
        self._requested_uses = name, line
        if len(function.instructions) < AT_ONCE:
            self._show_uses(pane, uses(function, line, name), (name, line), len(names))
            return
        self._panes.show_message(f"looking for {name} …")
        in_background(
            self._page.app,
            lambda: uses(function, line, name),
            lambda result: self._show_uses(pane, result, (name, line), len(names)),
        )

    def _show_uses(
        self, pane: Pane, result: Uses | str, target: tuple[str, int], names: int
    ) -> None:
        if target != self._requested_uses or not self._page.is_attached or pane.kind != "amdgcn":
            return  # the user has chosen another register or line meanwhile
        if isinstance(result, str):
            self._panes.show_message(result, bad=True)
            return
        lines = tuple(sorted({*result.writes, *result.reads}))
        named = _registers(result, pane.code.shown.lines)
        self._mark(pane, Occurrences(result.register, lines, named))
        self._uses = result
        self._texts.refresh_card()
        hint = f"   u: the next of {names} registers" if names > 1 else ""
        self._panes.show_message(
            f"{result.register}: {len(result.writes)} lines write it, {len(result.reads)} read it"
            f"   n N step{hint}"
        )

    def facts(self) -> tuple[CardFact, ...]:
        """The lines that write and read the marked register, for the card; empty without one."""
        register_uses = self._uses
        if register_uses is None or self.occurrences is None:
            return ()
        return (
            CardFact(
                f"{register_uses.register} written", line_list(register_uses.writes) or "nowhere"
            ),
            CardFact(f"{register_uses.register} read", line_list(register_uses.reads) or "nowhere"),
        )

    def _mark(self, pane: Pane, occurrences: Occurrences) -> None:
        self.occurrences, self._marked_kind, self._uses = occurrences, pane.kind, None
        for slot in self._panes.slots:
            slot.code.mark(occurrences.hits if slot is pane else {})

    def unmark(self) -> bool:
        """Removes the marks; returns whether there were any."""
        marked, self.occurrences, self._uses = self.occurrences is not None, None, None
        for pane in self._panes.slots:
            pane.code.mark({})
        return marked

    def step(self, by: int) -> None:
        """Goes to the next (1) or previous (-1) match, or use of the marked register."""
        pane = self._panes.current
        if self._search_words and self._marked_kind != pane.kind and not pane.is_missing:
            self._mark(pane, self.index(pane).find(self._search_words))
        if self.occurrences is None or self._marked_kind != pane.kind:
            self._panes.show_message("nothing is searched for: / searches, u marks a register")
            return
        target = next_line(self.occurrences.lines, pane.code.cursor, by)
        if target is None:
            self._panes.show_message(f"{self.occurrences.what} is not in the {pane.title.title}")
            return
        self.jump(pane, target, f"{self.occurrences.what}: {place(self.occurrences.lines, target)}")

    def search(self, pane: Pane, words: str, line: int) -> int:
        """Marks the matches of a search in a pane.

        Returns:
            The first match from that line on, round the end; the line itself without any.
        """
        self._search_words = words
        if not words:
            self.unmark()
            return line
        found = self.index(pane).find(words)
        self._mark(pane, found)
        first = next_line(found.lines, line - 1, 1)
        return line if first is None else first

    def index(self, pane: Pane) -> Search:
        """The index of a pane's text, which is kept until `drop_index`."""
        if self._search_index is None or self._search_index.lines is not pane.code.shown.lines:
            self._search_index = Search(pane.code.shown.lines)
        return self._search_index

    @property
    def _is_asking(self) -> bool:
        return self._page.has_class("-asking")

    def ask_words(self) -> None:
        if self._panes.current.is_missing:
            return
        self._asked_at = self._panes.current.code.cursor
        field = self._panes.prompt
        field.placeholder = "search"
        self._panes.show_prompt(True)
        field.value = ""
        field.focus()
        # Prepare the index before the first letter is typed.
        self._page.call_after_refresh(self.index, self._panes.current)

    def typed(self, typed: str) -> None:
        """Shows the first match while the words are typed."""
        if self._is_asking:
            pane = self._panes.current
            self.land(pane, self.search(pane, typed, self._asked_at))

    def submit(self) -> None:
        """Closes the prompt and stays at the match."""
        pane = self._panes.current
        self._close_prompt()
        matches = self.occurrences
        if matches is None:
            return
        count = len(matches.lines)
        position = place(matches.lines, pane.code.cursor) if count else "in no line"
        self.remember(pane, self._asked_at)
        self._panes.show_message(f"{matches.what}: {position}   n next, N previous")

    def cancel(self) -> bool:
        """Closes the prompt and goes back to where it was opened; returns whether it was open."""
        if not self._is_asking:
            return False
        self._close_prompt()
        pane = self._panes.current
        self.land(pane, self.search(pane, "", self._asked_at))
        return True

    def _close_prompt(self) -> None:
        self._panes.show_prompt(False)
        self._search_index = None  # as large as the text
        self._panes.current.target.focus()

    def clear(self) -> bool:
        """Drops the selection, or else the marks; returns whether there was either."""
        code = self._panes.current.code
        if code.selecting:
            code.deselect()
            self._panes.current.show_position()
        elif self.unmark():
            self._search_words = ""
            self._panes.show_message("")
        else:
            return False
        return True


def value_partners(function: Function, line: int) -> list[tuple[int, str]]:
    """The lines that read the value that a line makes, or else make what it reads, with that.

    Registers of a range are followed one by one: they may be overwritten one by one.
    """
    from ....inspector.explain.code.uses import single_registers, uses

    value = uses(function, line)
    makes = line in value.writes
    relation = f"reads {value.register}" if makes else f"writes {value.register}"
    partners: set[int] = set()
    for name in single_registers(value.register):
        own = uses(function, line, name)
        partners |= own.of_value.intersection(own.reads if makes else own.writes)
    return [(other, relation) for other in sorted(partners)]


def _registers(register_uses: Uses, lines: Sequence[str]) -> Callable[[int], Sequence[Hit]]:
    """A function from a line to the columns where it names the register, with their styles."""
    from ....inspector.explain.code.uses import numbers_of, registers_of

    numbers = frozenset(numbers_of(register_uses.register))
    written_lines = frozenset(register_uses.writes)
    read_lines = frozenset(register_uses.reads)

    def hits(line: int) -> Sequence[Hit]:
        if line not in written_lines and line not in read_lines:
            return ()
        style = "written" if line in written_lines else "read"
        return [
            (start, stop, style)
            for start, stop, name in registers_of(lines[line])
            if not numbers.isdisjoint(numbers_of(name))
        ]

    return hits
