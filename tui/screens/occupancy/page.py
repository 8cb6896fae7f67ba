"""The page of occupancy: what limits it for one kernel, and what if."""

from __future__ import annotations

import re
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Key, Resize
from textual.widgets import Input, Static

from ....inspector.errors import KinspectError
from ....inspector.machines import names
from ....inspector.metrics.occupancy import Occupancy
from ....inspector.model import KernelReport
from ...pages import Page
from ...widgets.heading import Heading
from ...widgets.keys import Keys
from ...widgets.plot import StepPlot, Steps
from ..passes.choose import KernelChooser, worst_kernel
from . import words as say
from .fields import (
    FIELDS,
    Query,
    beyond,
    filled,
    grain,
    hint,
    understood,
)

_KEYS = frozenset("+-=[]trskoq?/")
"""Characters that no figure and no target's name has: they stay keys while one types."""
_TALL, _NARROW = 34, 100
_OVER = re.compile(r"(−[\d,]+)")
_STYLES = {"resident": "bold", "next": "$success", "note": "$foreground 60%"}


class Figure(Input):
    """A line to type one figure into."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "app.focus_previous", "Field above", show=False),
        Binding("down,enter", "app.focus_next", "Field below", show=False),
        Binding("escape", "screen.leave_fields", "Leave the fields"),
    ]

    def check_consume_key(self, key: str, character: str | None) -> bool:
        """Whether the key is text."""
        return super().check_consume_key(key, character) and character not in _KEYS

    async def _on_key(self, event: Key) -> None:
        if event.character in _KEYS:
            event.prevent_default()  # the page's: it bubbles


class OccupancyPage(Page):
    """What limits occupancy, and what if.

    Args:
        key: the kernel; None: the one looked at last, else the worst.
    """

    NAME = "occupancy"
    HELP = (
        "How many waves a SIMD holds at a time, what limits them, and what would help. The fields "
        "begin with the kernel's figures. Enter goes to the VGPRs and Tab to the first field: type "
        "others and everything is worked out anew; Escape leaves the fields, and digits are pages "
        "again. + and − change the field, the VGPRs outside of all, by what the hardware hands out "
        "at a time, [ and ] go to the next better or worse step of VGPRs or LDS, t takes the next "
        "step that helps, r goes back to the kernel. “alone” is how many waves each resource "
        "would leave room for if nothing else were limited. In the plots ● is what is typed, ◆ "
        "the next step, ◇ one that needs less of another resource too; a click types the figure "
        "under the mouse."
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
    OccupancyPage Figure { width: 9; height: 1; border: none; padding: 0; background: $panel; }
    OccupancyPage Figure:focus { border: none; background: $primary 30%; }
    OccupancyPage #said { width: 1fr; height: 9; padding: 0 1; overflow-y: auto;
        scrollbar-size: 1 1; }
    OccupancyPage #plots { height: 12; }
    OccupancyPage.-tall #plots { height: 1fr; min-height: 14; max-height: 34; }
    OccupancyPage.-stale #plots, OccupancyPage.-stale #below { opacity: 40%; }
    OccupancyPage #below { height: auto; }
    OccupancyPage #levels { width: auto; height: auto; padding: 0 1; }
    OccupancyPage #why { width: 1fr; min-width: 20; height: auto; padding: 0 2;
        color: $foreground 60%; }
    OccupancyPage.-narrow #below { layout: vertical; }
    OccupancyPage.-narrow #why { width: 100%; padding: 1 1 0 1; }
    OccupancyPage.-narrow #fields { width: 38; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,i", "type", "Type"),
        Binding("plus,equals_sign", "step(1)", "Change", key_display="+ -"),
        Binding("minus", "step(-1)", "Less", show=False),
        Binding("left_square_bracket", "level(-1)", "Step", key_display="[ ]"),
        Binding("right_square_bracket", "level(1)", "Worse step", show=False),
        Binding("t", "take", "Take next"),
        Binding("r", "reset", "Reset"),
        Binding("s,k", "choose", "Kernel"),
        Binding("o", "open", "Its code", show=False),
    ]

    def __init__(self, key: str | None = None) -> None:
        super().__init__()
        self._key = key
        self._kernel: KernelReport | None = None
        self._query_typed: Query | None = None
        self._answer: Occupancy | None = None
        self._plots: tuple[Steps, Steps] | None = None
        self._values: dict[str, str] = filled(None)
        self._begun = False
        self._hints: dict[str, str] = {}  # what stands beside the fields
        self._shape: tuple[int, ...] = ()  # of the table: another one needs another layout

    def compose(self) -> ComposeResult:
        """Fields and answer over plots over the step table."""
        yield Heading()
        with VerticalScroll(id="all"):
            with Horizontal(id="top"):
                with Vertical(id="fields"):
                    for field in FIELDS:
                        with Horizontal(classes="field", id=f"row-{field.name}"):
                            yield Static(field.label, classes="label", markup=False)
                            yield Figure(id=field.name, compact=True, max_length=12)
                            yield Static(classes="hint", markup=False)
                yield Static(id="said", markup=False)
            with Horizontal(id="plots"):
                yield StepPlot(id="over-vgprs")
                yield StepPlot(id="over-lds")
            with Horizontal(id="below"):
                yield Static(id="levels", markup=False)
                yield Static(id="why", markup=False)
        yield Keys()

    def crumb(self) -> str:
        """The kernel, and whether its figures are those shown."""
        if self._kernel is None:
            return "no kernel: figures of your own"
        typed = "  what if" if self._values != filled(self._kernel) else ""
        return f"{self._kernel.name}  {self._kernel.arch or '-'}{typed}"

    def on_mount(self) -> None:
        """No field has the keys yet: digits are pages."""
        self.action_leave_fields()

    def on_resize(self, event: Resize) -> None:
        """Less beside each other where there is less room."""
        self.set_class(event.size.height >= _TALL, "-tall")
        self.set_class(event.size.width < _NARROW, "-narrow")

    # ------------------------------------------------------------------ which kernel

    def session_changed(self) -> None:
        """Takes a kernel if there was none, or its new report if nothing has been typed."""
        if self._key not in self.session.entries:
            looked = self.kinspect.last_kernel
            self._key = looked if looked in self.session.entries else worst_kernel(self.session)
        entry = self.session.entries.get(self._key or "")
        kernel = entry.report if entry is not None else None
        if self._begun and kernel is self._kernel:
            return
        typed = self._begun and self._values != filled(self._kernel)
        same_kernel = (
            self._kernel is not None and kernel is not None and kernel.id == self._kernel.id
        )
        self._begun, self._kernel = True, kernel
        if typed and (same_kernel or kernel is None):
            self._work_out()  # what was typed stays
        else:
            self._fill(filled(kernel))

    def action_choose(self) -> None:
        """Lets another kernel be chosen."""
        kernels = [entry.report for entry in self.session.ordered()]
        self.app.push_screen(KernelChooser(kernels, self._key), self._chosen)

    def _chosen(self, key: str | None) -> None:
        if key is not None and key in self.session.entries:
            self._key = self.kinspect.last_kernel = key
            self._kernel = self.session.entries[key].report
            self._fill(filled(self._kernel))

    def action_open(self) -> None:
        """Shows the kernel's code."""
        if self._kernel is not None:
            self.kinspect.open_kernel(self._kernel.id)

    def action_reset(self) -> None:
        """Goes back to the kernel's figures."""
        self._fill(filled(self._kernel))

    # ------------------------------------------------------------------ what is typed

    def _fill(self, values: dict[str, str]) -> None:
        """Types into all fields."""
        self._values = dict(values)
        for name, text in values.items():
            line = self.query_one(f"#{name}", Figure)
            if line.value != text:
                line.value = text
                line.cursor_position = len(text)
        self._work_out()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Works everything out anew."""
        name = event.input.id or ""
        if self._values.get(name) != event.value:
            self._values[name] = event.value
            self._work_out()

    def _work_out(self) -> None:
        query, wrong = understood(self._values, self._kernel)
        answer: Occupancy | None = None
        if query is not None:
            try:
                answer = say.work_out(query)
            except KinspectError as error:
                query, wrong = None, {"arch": f"{error.message}; {error.hint}"}
        self._query_typed, self._answer = query, answer
        # What no wave can have is right as an input: the answer says what comes of it.
        wrong = wrong if query is None else beyond(query)
        for field in FIELDS:
            row = self.query_one(f"#row-{field.name}")
            row.set_class(field.name in wrong, "-wrong")
            beside = wrong.get(field.name)
            if beside is None:
                beside = hint(field.name, query) if query is not None else ""
                if field.empty and not self._values[field.name].strip():
                    beside = field.empty
            if self._hints.get(field.name) != beside:
                self._hints[field.name] = beside
                row.query_one(".hint", Static).update(beside, layout=False)
        self.set_class(query is None, "-stale")
        if query is None or answer is None:
            self._say_wrong(wrong)
        else:
            self._say(query, answer)
        self.query_one(Heading).refresh()

    def _say_wrong(self, wrong: dict[str, str]) -> None:
        labels = {field.name: field.label for field in FIELDS}
        parts: list[tuple[str, str]] = []
        for name, text in wrong.items():
            typed = self._values[name].strip()
            quoted = f" “{typed}”" if typed else ""
            parts += [(f"{labels[name]}{quoted}: ", "$error bold"), (f"{text}\n", "")]
        self.query_one("#said", Static).update(Content.assemble(*parts), layout=False)
        # Plots and table stay, dimmed: they are of what was typed last.

    def _say(self, query: Query, answer: Occupancy) -> None:
        parts: list[tuple[str, str]] = []
        for label, text in say.words(query, answer):
            unfit = label == "resident" and answer.cannot_launch is not None
            style = "$error bold" if unfit else _STYLES.get(label, "")
            parts += [(f"{label:<9} ", "$foreground 60%"), (f"{text}\n", style)]
        self.query_one("#said", Static).update(Content.assemble(*parts), layout=False)
        lines, present = say.step_table(query, answer)
        table: list[tuple[str, str]] = [(f"{lines[0]}\n", "$foreground 60%")]
        for n, line in enumerate(lines[1:]):
            style = "$warning bold" if n == present else ""
            table += [
                (piece, "$error" if _OVER.fullmatch(piece) else style)
                for piece in _OVER.split(f"{line}\n")
            ]
        why = say.why_two(answer, query)
        shape = (len(lines), max(map(len, lines)), *map(len, why))
        grown, self._shape = shape != self._shape, shape
        self.query_one("#levels", Static).update(Content.assemble(*table), layout=grown)
        if grown:
            self.query_one("#why", Static).update("\n\n".join(why))
        self._plots = None
        self.call_after_refresh(self._plot)  # the words first: curves take a hundred answers

    def _plot(self) -> None:
        if self._plots is not None or self._query_typed is None or self._answer is None:
            return
        self._plots = say.curves(self._query_typed, self._answer)
        for name, steps in zip(("#over-vgprs", "#over-lds"), self._plots, strict=True):
            self.query_one(name, StepPlot).show(steps)

    # ------------------------------------------------------------------ keys

    def _field(self) -> str:
        """The field that the keys are about: the focused one, else the VGPRs."""
        focused = self.focused
        return focused.id or "vgprs" if isinstance(focused, Figure) else "vgprs"

    def _type(self, name: str, text: str) -> None:
        line = self.query_one(f"#{name}", Figure)
        line.value = text
        line.cursor_position = len(text)

    def action_type(self) -> None:
        """Goes to the field that is typed most."""
        self.query_one("#vgprs", Figure).focus()

    def action_leave_fields(self) -> None:
        """The keys are the page's again."""
        self.query_one("#all").focus()

    def action_step(self, by: int) -> None:
        """More (1) or less (-1) of the field: by what is handed out at a time, or the next one."""
        name = self._field()
        if name == "arch":
            self._type(name, _beside(names(), self._values[name].strip().lower(), by))
        elif name == "mode":
            self._type(name, _beside(("wgp", "cu"), self._values[name].strip().lower(), by))
        elif self._query_typed is not None:
            if name == "wave_size":
                sizes = tuple(str(size) for size in self._query_typed.machine.wave_sizes)
                self._type(name, _beside(sizes, self._values[name].strip(), by))
                return
            size = grain(name, self._query_typed)
            figure = int(self._values[name].strip().replace(",", "") or 0)
            # On to the next multiple: between two of them nothing changes.
            to = (figure // size + 1) * size if by > 0 else -(-figure // size) * size - size
            self._type(name, str(max(1 if name == "waves" else 0, to)))

    def action_level(self, by: int) -> None:
        """To the next better (-1) or worse (1) step of VGPRs, or of LDS if that is the field."""
        name = "lds" if self._field() == "lds" else "vgprs"
        self._plot()
        if self._query_typed is None or self._plots is None:
            return
        demand = self._query_typed.demand
        figure = demand.lds_bytes if name == "lds" else demand.vgprs
        steps = self._plots[1] if name == "lds" else self._plots[0]
        to = say.neighbour(steps, figure, by) if figure is not None else None
        if to is not None:
            self._type(name, str(to))

    def action_take(self) -> None:
        """Types what the next step asks for."""
        if self._query_typed is not None and self._answer is not None:
            for name, text in say.stepped(self._query_typed, self._answer).items():
                self._type(name, text)

    def on_step_plot_picked(self, event: StepPlot.Picked) -> None:
        """Types the figure under the mouse."""
        self._type("lds" if event.plot.id == "over-lds" else "vgprs", str(max(0, round(event.x))))


def _beside(choices: tuple[str, ...], current: str, by: int) -> str:
    """The one after or before; the first where the present one is none of them."""
    return (
        choices[(choices.index(current) + by) % len(choices)] if current in choices else choices[0]
    )
