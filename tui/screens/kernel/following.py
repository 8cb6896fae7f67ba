"""From a line of the assembly to what it belongs to: spills, waits, uses of its value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...pages import Page
from ...widgets.find import Trail
from .linked_texts import LinkedTexts
from .load import in_background
from .marks import ANALYSING, AT_ONCE, PaneMarks
from .pane import Pane
from .panes import Panes

if TYPE_CHECKING:
    from ....inspector.model import Function

VALUES_AT_ONCE = 2_000
"""The same for uses of a value, which may lie in many registers."""


class Following:
    """The lines that the assembly's cursor was led to."""

    def __init__(self, page: Page, panes: Panes, texts: LinkedTexts, marks: PaneMarks) -> None:
        self._page = page
        self._panes = panes
        self._texts = texts
        self._marks = marks
        self._trail = Trail()

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
        self._marks.jump(pane, to, f"ISA {first + 1}: {place}   w goes on")

    def own_lines(self, pane: Pane) -> tuple[int, ...]:
        """Lines of the same pane that belong to the cursor's: the loads of a wait, or its wait."""
        if pane.kind != "amdgcn" or self._texts.reading is None:
            return ()
        line = pane.code.cursor
        if line in self._trail.stops:
            return self._trail.stops
        return tuple(partner for partner, _ in self._texts.reading.marks.partners(line))


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
