"""The dialogue in which the user chooses one of the session's kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from ...inspector.explain.view import configuration, worst_first
from ...inspector.model import KernelReport
from ..session import Session
from ..widgets.code import Span, Text
from ..widgets.filtered_list import RowList, word_filter


def worst_kernel(
    session: Session, is_preferred: Callable[[KernelReport], bool] = lambda kernel: True
) -> str | None:
    """The id of the kernel with the worst findings; None if there is no kernel.

    Args:
        session: the kernels.
        is_preferred: the kernels to choose from, unless there are none of them.
    """
    kernels = worst_first([entry.report for entry in session.ordered()])
    return next((k.id for k in kernels if is_preferred(k)), kernels[0].id if kernels else None)


class KernelChooser(ModalScreen[str | None]):
    """A filtered list of kernels; its result is the chosen kernel's id, or None.

    Args:
        kernels: the kernels to choose from.
        current: the id of the kernel that the cursor starts on.
        mark: returns the sign before a kernel, such as one for kernels with a pass dump.
    """

    DEFAULT_CSS = """
    KernelChooser { align: center middle; background: $background 60%; }
    KernelChooser > Vertical {
        width: 90%; max-width: 120; height: 80%; min-height: 5;
        background: $surface; border: round $primary; padding: 0 1;
    }
    KernelChooser Input { border: none; height: 1; padding: 0; background: $panel; }
    KernelChooser Static { height: 1; color: $foreground 60%; }
    KernelChooser RowList { background: $surface; }
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
        self._searched = [f"{line} {k.id}" for line, k in zip(self._lines, kernels, strict=True)]
        self._shown: list[int] = []

    def compose(self) -> ComposeResult:
        """Stacks the filter's input line and the list."""
        with Vertical():
            yield Input(placeholder="type to narrow the list", compact=True)
            yield RowList()
            yield Static("Enter takes it · Esc goes back")

    def on_mount(self) -> None:
        """Lists all kernels, with the current one under the cursor."""
        self._filter("")
        keys = [kernel.id for kernel in self._kernels]
        if self._current in keys:
            self.query_one(RowList).move_to(keys.index(self._current), centre=True)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filters the list while the user types."""
        self._filter(event.value)

    def on_input_submitted(self) -> None:
        """Chooses the kernel under the cursor."""
        self._choose()

    def on_row_list_opened(self) -> None:
        """Chooses the kernel under the cursor."""
        self._choose()

    def action_move(self, lines: int) -> None:
        """Moves the cursor of the list while the input line has the focus."""
        self.query_one(RowList).action_move(lines)

    def action_close(self) -> None:
        """Closes the dialogue without a choice."""
        self.dismiss(None)

    def _filter(self, filter_text: str) -> None:
        """Lists the kernels that contain all words of a filter."""
        has_words = word_filter(filter_text)
        self._shown = [n for n, text in enumerate(self._searched) if has_words(text)]
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

        self.query_one(RowList).show(Text(lines, spans), 0)

    def _choose(self) -> None:
        cursor = self.query_one(RowList).cursor
        self.dismiss(self._kernels[self._shown[cursor]].id if cursor < len(self._shown) else None)
