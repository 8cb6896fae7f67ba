"""A small screen that lists the kernels of the session, of which one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ....inspector.explain.view import configuration, worst_first
from ....inspector.model import KernelReport
from ...session import Session
from ...widgets.code import CodeView, Span, Text


def worst_kernel(
    session: Session, is_preferred: Callable[[KernelReport], bool] = lambda kernel: True
) -> str | None:
    """The kernel with the worst findings among those wanted, else among all; None: no kernel."""
    kernels = worst_first([entry.report for entry in session.ordered()])
    return next((k.id for k in kernels if is_preferred(k)), kernels[0].id if kernels else None)


class Rows(CodeView):
    """A list of lines, of which one is chosen by Enter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Open", show=False),
    ]

    class Chosen(Message):
        """Enter was pressed."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> Rows:
            return self.rows

    def action_choose(self) -> None:
        """Tells that the line is meant."""
        self.post_message(self.Chosen(self))


class KernelChooser(ModalScreen[str | None]):
    """Kernels by name; typing narrows the list. Gives the kernel's key, or None.

    Args:
        kernels: what to choose from.
        current: the key to begin with.
        mark: what stands before a kernel, e.g. whether it has what the page needs.
    """

    DEFAULT_CSS = """
    KernelChooser { align: center middle; background: $background 60%; }
    KernelChooser > Vertical {
        width: 90%; max-width: 120; height: 80%; min-height: 5;
        background: $surface; border: round $primary; padding: 0 1;
    }
    KernelChooser Input { border: none; height: 1; padding: 0; background: $panel; }
    KernelChooser Static { height: 1; color: $foreground 60%; }
    KernelChooser Rows { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Close"),
        Binding("down", "move(1)", "Down", show=False, priority=True),
        Binding("up", "move(-1)", "Up", show=False, priority=True),
    ]

    def __init__(
        self,
        kernels: Sequence[KernelReport],
        current: str | None,
        mark: Callable[[KernelReport], str] = lambda kernel: "",
    ) -> None:
        super().__init__()
        self._kernels = kernels
        self._current = current
        self._lines = [
            f"{mark(k):<1} {k.name}  {k.arch or '-'}  {configuration(k)}" for k in kernels
        ]
        self._searched = [
            f"{line} {k.id}".lower() for line, k in zip(self._lines, kernels, strict=True)
        ]
        self._shown: list[int] = []

    def compose(self) -> ComposeResult:
        """A line to type in over the list."""
        with Vertical():
            yield Input(placeholder="type to narrow the list", compact=True)
            yield Rows()
            yield Static("Enter takes it · Esc goes back")

    def on_mount(self) -> None:
        """All kernels, the present one under the cursor."""
        self._filter("")
        keys = [kernel.id for kernel in self._kernels]
        if self._current in keys:
            self.query_one(Rows).move_to(keys.index(self._current), centre=True)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Narrows the list."""
        self._filter(event.value)

    def on_input_submitted(self) -> None:
        """Takes the kernel under the cursor."""
        self._choose()

    def on_rows_chosen(self) -> None:
        """Takes the kernel under the cursor."""
        self._choose()

    def action_move(self, by: int) -> None:
        """Moves in the list while one types."""
        self.query_one(Rows).action_move(by)

    def action_close(self) -> None:
        """Chooses nothing."""
        self.dismiss(None)

    def _filter(self, needle: str) -> None:
        words = needle.lower().split()
        self._shown = [
            n for n, text in enumerate(self._searched) if all(word in text for word in words)
        ]
        lines = [self._lines[n] for n in self._shown] or ["no kernel has these words"]
        names = [len(self._kernels[n].name) for n in self._shown]

        def spans(line: int) -> Sequence[Span]:
            if line >= len(names):
                return ()
            return [
                (0, 1, "literal"),
                (2, 2 + names[line], "name"),
                (2 + names[line], len(lines[line]), "comment"),
            ]

        self.query_one(Rows).show(Text(lines, spans), 0)

    def _choose(self) -> None:
        at = self.query_one(Rows).cursor
        self.dismiss(self._kernels[self._shown[at]].id if at < len(self._shown) else None)
