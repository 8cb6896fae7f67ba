"""The page of occupancy: its limits for one kernel, and for figures that the user types."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.widgets import Input, Static

from ....inspector.base.errors import KinspectError
from ....inspector.explain.lds_map import map_rows, map_title, row_lines
from ....inspector.machines import names
from ....inspector.metrics.occupancy import Occupancy
from ....inspector.model import KernelReport
from ....inspector.present.document import Section
from ...key_table import bind
from ...pages import Page
from ...session import SessionKernel
from ...widgets.bars import BETTER, WORSE
from ...widgets.document_text import content
from ...widgets.step_plot import StepFunction, StepPlot
from ..list_chooser import kernel_chooser, worst_kernel
from .occupancy_answer import DIM, answer_lines, curves, level_table, neighbour, why_two
from .occupancy_fields import (
    FIELDS,
    Query,
    excessive,
    fields_after_step,
    fields_of,
    hint,
    parsed,
    step_of,
)

_KEYS = frozenset("+-=[]TRoq?/:")
"""Characters that no figure and no target's name contains: in a field, too, they are keys."""
_TALL, _NARROW = 34, 100  # least rows for tall plots; columns below which the layout is narrow


class FigureInput(Input):
    """An input field for one figure."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Field above", show=False),
        Binding("down,enter", "app.focus_next", "Field below", show=False),
        Binding("escape", "screen.leave_fields", "Leave the fields"),
    ]

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return super().check_consume_key(key, character) and character not in _KEYS

    async def _on_key(self, event: Key) -> None:
        if event.character in _KEYS:
            event.prevent_default()  # the key bubbles to the page


class OccupancyPage(Page):
    """Computes the occupancy of a kernel's figures, and of others that the user types.

    Args:
        key: the kernel; None: the kernel shown last, else the worst.
    """

    NAME = "occupancy"
    LEGEND = (
        ("●", "the figures in the fields; a click in a plot sets one"),
        ("◆ ◇", "the next step; one that needs less of another resource too"),
        ("alone", "waves that fit if only this resource were limited"),
        (f"{BETTER} {WORSE}", "better, worse than the baseline"),
        ("letters", "keys of the page, in the fields too, where no figure has them"),
    )
    DEFAULT_CSS = """
    OccupancyPage > VerticalScroll { height: 1fr; scrollbar-size: 1 1; }
    OccupancyPage #top { height: 9; }
    OccupancyPage #fields { width: 52; height: 9; padding: 0 1; }
    OccupancyPage .field { height: 1; width: 100%; }
    OccupancyPage .field > .label { width: 10; color: $foreground 70%; }
    OccupancyPage .field > .hint { width: 1fr; padding: 0 0 0 1; color: $foreground 60%;
        text-wrap: nowrap; text-overflow: ellipsis; }
    OccupancyPage .field.-wrong > .label, OccupancyPage .field.-wrong > .hint {
        color: $error; text-style: bold; }
    OccupancyPage FigureInput { width: 9; height: 1; border: none; padding: 0; background: $panel; }
    OccupancyPage FigureInput:focus { border: none; background: $primary 30%; }
    OccupancyPage #answer { width: 1fr; height: 9; padding: 0 1; overflow-y: auto;
        scrollbar-size: 1 1; }
    OccupancyPage #plots { height: 12; }
    OccupancyPage.-tall #plots { height: 1fr; min-height: 14; max-height: 34; }
    OccupancyPage.-stale #plots, OccupancyPage.-stale #below { opacity: 40%; }
    OccupancyPage #below { height: auto; }
    OccupancyPage #lds-map { height: auto; padding: 1 1 0 1; }
    OccupancyPage #levels { width: auto; height: auto; padding: 0 1 0 0; }
    OccupancyPage #why { width: 1fr; min-width: 20; height: auto; padding: 0 2;
        color: $foreground 60%; }
    OccupancyPage.-narrow #below { layout: vertical; }
    OccupancyPage.-narrow #why { width: 100%; padding: 1 1 0 1; }
    OccupancyPage.-narrow #fields { width: 38; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,i", "type", "Type"),
        bind("more", "step(1)", "Change", sign="+ -"),
        bind("less", "step(-1)", "Less", show=False),
        bind("previous_part", "level(-1)", "Step", sign="[ ]"),
        bind("next_part", "level(1)", "Worse step", show=False),
        bind("try", "take", "Try next"),
        bind("reset", "reset", "Reset"),
        bind("another", "choose", "Kernel"),
        bind("baseline", "baseline", "Baseline"),
        bind("code", "open", "Its code", show=False),
    ]

    def __init__(self, key: str | None = None) -> None:
        super().__init__()
        self._key = key
        self._kernel: KernelReport | None = None
        self._typed_query: Query | None = None
        self._answer: Occupancy | None = None
        self._baseline: SessionKernel | None = None  # that the answer is shown against
        self._plots: tuple[StepFunction, StepFunction] | None = None
        self._values: dict[str, str] = fields_of(None)
        self._is_filled = False
        self._hints: dict[str, str] = {}  # field -> the hint that is shown beside it
        self._table_shape: tuple[int, ...] = ()  # sizes of the texts; others need another layout

    def content(self) -> ComposeResult:
        with VerticalScroll(id="all"):
            with Horizontal(id="top"):
                with Vertical(id="fields"):
                    for field in FIELDS:
                        with Horizontal(classes="field", id=f"row-{field.name}"):
                            yield Static(field.label, classes="label", markup=False)
                            yield FigureInput(id=field.name, compact=True, max_length=12)
                            yield Static(classes="hint", markup=False)
                yield Static(id="answer", markup=False)
            with Horizontal(id="plots"):
                yield StepPlot(id="over-vgprs")
                yield StepPlot(id="over-lds")
            with Horizontal(id="below"):
                yield Static(id="levels", markup=False)
                yield Static(id="why", markup=False)
            yield Static(id="lds-map", markup=False)

    @property
    def kernel_key(self) -> str | None:
        return self._key

    def crumb(self) -> str:
        if self._kernel is None:
            return "no kernel: figures of your own"
        typed = "  what if" if self._values != fields_of(self._kernel) else ""
        return f"{self._kernel.name}  {self._kernel.arch or '-'}{typed}"

    def on_mount(self) -> None:
        self.action_leave_fields()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.height >= _TALL, "-tall")
        self.set_class(event.size.width < _NARROW, "-narrow")

    def session_changed(self) -> None:
        """Shows a kernel if there was none, or its new report if the user typed nothing."""
        if self._key not in self.session.entries:
            last_kernel = self.kinspect.last_kernel
            self._key = (
                last_kernel if last_kernel in self.session.entries else worst_kernel(self.session)
            )
        entry = self.session.entries.get(self._key or "")
        kernel = entry.report if entry is not None else None
        if self._is_filled and kernel is self._kernel:
            if self._baseline is not self.session.baseline:
                self._recompute()
            return
        typed = self._is_filled and self._values != fields_of(self._kernel)
        same_kernel = (
            self._kernel is not None and kernel is not None and kernel.id == self._kernel.id
        )
        self._is_filled, self._kernel = True, kernel
        self._show_lds()
        if typed and (same_kernel or kernel is None):
            self._recompute()  # the typed figures stay
        else:
            self._fill(fields_of(kernel))

    def action_choose(self) -> None:
        chooser = kernel_chooser(self.session.ordered(), self._key)
        self.app.push_screen(chooser, self._show_kernel)

    def _show_kernel(self, key: str | None) -> None:
        if key is not None and key in self.session.entries:
            self._key = self.kinspect.last_kernel = key
            self._kernel = self.session.entries[key].report
            self._show_lds()
            self._fill(fields_of(self._kernel))

    def _show_lds(self) -> None:
        """Shows which buffer of the kernel has which bytes of LDS, where that is known."""
        rows = map_rows(self._kernel) if self._kernel is not None else []
        parts: list[tuple[str, str]] = []
        if rows and self._kernel is not None:
            parts = [(map_title(self._kernel), "bold")]
            parts += [(f"\n{line}", "") for line in row_lines(rows)]
        below = self.query_one("#lds-map", Static)
        below.display = bool(rows)
        below.update(Content.assemble(*parts))

    def action_open(self) -> None:
        if self._kernel is not None and self._key is not None:
            self.kinspect.open_kernel(self._key)

    def action_reset(self) -> None:
        self._fill(fields_of(self._kernel))

    def _fill(self, values: dict[str, str]) -> None:
        self._values = dict(values)
        for name, text in values.items():
            line = self.query_one(f"#{name}", FigureInput)
            if line.value != text:
                line.value = text
                line.cursor_position = len(text)
        self._recompute()

    def on_input_changed(self, event: Input.Changed) -> None:
        name = event.input.id or ""
        if self._values.get(name) != event.value:
            self._values[name] = event.value
            self._recompute()

    def _recompute(self) -> None:
        query, problems = parsed(self._values, self._kernel)
        answer: Occupancy | None = None
        if query is not None:
            try:
                answer = query.occupancy()
            except KinspectError as error:
                query, problems = None, {"arch": str(error)}
        self._typed_query, self._answer = query, answer
        # A figure beyond the hardware's limits is valid input: the answer says what it results in.
        problems = problems if query is None else excessive(query)
        for field in FIELDS:
            row = self.query_one(f"#row-{field.name}")
            row.set_class(field.name in problems, "-wrong")
            hint_text = problems.get(field.name)
            if hint_text is None:
                hint_text = hint(field.name, query) if query is not None else ""
                if field.empty and not self._values[field.name].strip():
                    hint_text = field.empty
            if self._hints.get(field.name) != hint_text:
                self._hints[field.name] = hint_text
                row.query_one(".hint", Static).update(hint_text, layout=False)
        self.set_class(query is None, "-stale")
        if query is None or answer is None:
            self._show_problems(problems)
        else:
            self._show_answer(query, answer)

    def _show_problems(self, problems: dict[str, str]) -> None:
        labels = {field.name: field.label for field in FIELDS}
        parts: list[tuple[str, str]] = []
        for name, text in problems.items():
            typed = self._values[name].strip()
            quoted = f" “{typed}”" if typed else ""
            parts += [(f"{labels[name]}{quoted}: ", "$error bold"), (f"{text}\n", "")]
        self.query_one("#answer", Static).update(Content.assemble(*parts), layout=False)
        # Plots and table of the last valid figures stay, dimmed.

    def _show_answer(self, query: Query, answer: Occupancy) -> None:
        """Shows the sentences and the table of levels; the curves follow after the next refresh."""
        parts: list[tuple[str, str]] = []
        self._baseline = self.session.baseline
        for line in answer_lines(query, answer, self._baseline):
            parts += [(f"{line.label:<9} ", DIM), (f"{line.text}\n", line.style)]
        self.query_one("#answer", Static).update(Content.assemble(*parts), layout=False)
        levels = content([Section((level_table(query, answer),))], self.app.size.width)
        why = why_two(answer, query)
        lines = levels.plain.splitlines()
        shape = (len(lines), max(map(len, lines)), *map(len, why))
        grown, self._table_shape = shape != self._table_shape, shape
        self.query_one("#levels", Static).update(levels, layout=grown)
        if grown:
            self.query_one("#why", Static).update("\n\n".join(why))
        self._plots = None
        self.call_after_refresh(self._show_curves)  # later: they take a hundred computations

    def _show_curves(self) -> None:
        if self._plots is not None or self._typed_query is None or self._answer is None:
            return
        self._plots = curves(self._typed_query, self._answer)
        for name, steps in zip(("#over-vgprs", "#over-lds"), self._plots, strict=True):
            self.query_one(name, StepPlot).show(steps)

    def _field(self) -> str:
        """The field that the keys change: the focused one, else the VGPRs."""
        focused = self.focused
        return focused.id or "vgprs" if isinstance(focused, FigureInput) else "vgprs"

    def _type(self, name: str, text: str) -> None:
        line = self.query_one(f"#{name}", FigureInput)
        line.value = text
        line.cursor_position = len(text)

    def action_type(self) -> None:
        """Focuses the field of VGPRs, which users type most."""
        self.query_one("#vgprs", FigureInput).focus()

    def action_leave_fields(self) -> None:
        """Focuses the page, so that keys are no longer typed into a field."""
        self.query_one("#all").focus()

    def action_step(self, direction: int) -> None:
        """Changes the field to the next larger (1) or smaller (-1) amount, or to another choice."""
        name = self._field()
        if name == "arch":
            self._type(name, _adjacent(names(), self._values[name].strip().lower(), direction))
        elif name == "mode":
            self._type(
                name, _adjacent(("wgp", "cu"), self._values[name].strip().lower(), direction)
            )
        elif self._typed_query is not None:
            if name == "wave_size":
                sizes = tuple(str(size) for size in self._typed_query.machine.wave_sizes)
                self._type(name, _adjacent(sizes, self._values[name].strip(), direction))
                return
            size = step_of(name, self._typed_query)
            figure = int(self._values[name].strip().replace(",", "") or 0)
            # To the next multiple of the granule: amounts between two multiples are equivalent.
            if direction > 0:
                new_figure = (figure // size + 1) * size
            else:
                new_figure = -(-figure // size) * size - size
            self._type(name, str(max(1 if name == "waves" else 0, new_figure)))

    def action_level(self, direction: int) -> None:
        """Types the next better (-1) or worse (1) step of LDS, in its field, else of VGPRs."""
        name = "lds" if self._field() == "lds" else "vgprs"
        self._show_curves()
        if self._typed_query is None or self._plots is None:
            return
        demand = self._typed_query.demand
        figure = demand.lds_bytes if name == "lds" else demand.vgprs
        steps = self._plots[1] if name == "lds" else self._plots[0]
        new_figure = neighbour(steps, figure, direction) if figure is not None else None
        if new_figure is not None:
            self._type(name, str(new_figure))

    def action_take(self) -> None:
        if self._typed_query is not None and self._answer is not None:
            for name, text in fields_after_step(self._typed_query, self._answer).items():
                self._type(name, text)

    def on_step_plot_picked(self, event: StepPlot.Picked) -> None:
        self._type("lds" if event.plot.id == "over-lds" else "vgprs", str(max(0, round(event.x))))


def _adjacent(choices: tuple[str, ...], current: str, direction: int) -> str:
    """The choice after (1) or before (-1) the current one; the first if that is not a choice."""
    if current not in choices:
        return choices[0]
    return choices[(choices.index(current) + direction) % len(choices)]
