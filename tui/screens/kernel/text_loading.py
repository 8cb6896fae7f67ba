"""Reads a kernel's texts for its page; what takes long is done in a thread in the background."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from textual.app import App

from ....inspector.base.errors import KinspectError
from ....inspector.explain.code.folds import HIDDEN_FIRST, all_folds
from ....inspector.explain.code.texts import Texts, texts_of, texts_of_file
from ....inspector.model import Function, KernelReport
from .pane_text import displayed

if TYPE_CHECKING:
    from ....inspector.explain.code.line_figures import LineFigures
    from ....inspector.explain.code.links import Links
    from ....inspector.explain.code.reading import KernelReading
    from .line_costs import Costs


_T = TypeVar("_T")
# Seconds that a busy thread may keep the interpreter. A key takes some twenty turns of the event
# loop, each of which may have to wait that long: Python's 5 ms would be felt.
_TURN = 0.0005
_SEEN_FIRST = 4000  # lines
_AT_ONCE = 1 << 20  # bytes that are read and split within a frame


class LoadedTexts(Struct, frozen=True):
    """The texts of a kernel, ready to be shown.

    Attributes:
        lines: kind -> lines as the pane shows them.
        folds: kind -> what can be folded away.
        folded: kind -> what is folded at first.
        whole: whether all folds are known; at first they are of the beginning alone.
        prologue: the line of the assembly under which what comes before the loops can be folded.
    """

    texts: Texts
    lines: Mapping[str, Sequence[str]]
    folds: Mapping[str, Mapping[int, int]]
    folded: Mapping[str, Collection[int]]
    whole: bool = True
    prologue: int | None = None


class LineCosts(Struct, frozen=True):
    """What is known of lines' costs.

    Attributes:
        costs: measured or emulated; None where neither was done.
        figures: what columns can show, by their names.
    """

    costs: Costs | None
    figures: Mapping[str, LineFigures]


def load(report: KernelReport | None, path: Path | None) -> LoadedTexts:
    """Reads the texts of a reported kernel, or those of a file that nothing is known of.

    Folds are those of what is seen first: looking for all takes longer than reading the text.
    """
    texts = texts_of(report) if report is not None else texts_of_file(path or Path())
    return prepared(texts, most=_SEEN_FIRST)


def with_all_folds(loaded: LoadedTexts) -> LoadedTexts:
    return prepared(loaded.texts, former=loaded)


def prepared(
    texts: Texts,
    function: Function | None = None,
    former: LoadedTexts | None = None,
    most: int | None = None,
) -> LoadedTexts:
    lines: dict[str, Sequence[str]] = {}
    folds: dict[str, Mapping[int, int]] = {}
    folded: dict[str, Collection[int]] = {}
    prologue = None
    for kind, text_lines in texts.lines.items():
        unchanged = former is not None and former.texts.lines.get(kind) is text_lines
        lines[kind] = former.lines[kind] if former and unchanged else displayed(kind, text_lines)
        kind_folds = all_folds(kind, text_lines if most is None else text_lines[:most], function)
        folds[kind] = {fold.start: fold.last for fold in kind_folds}
        folded[kind] = [fold.start for fold in kind_folds if fold.what in HIDDEN_FIRST]
        prologue = next((fold.start for fold in kind_folds if fold.what == "prologue"), prologue)
    everything = most is None or all(len(text_lines) <= most for text_lines in texts.lines.values())
    return LoadedTexts(texts, lines, folds, folded, everything, prologue)


def is_large(report: KernelReport | None, path: Path | None) -> bool:
    """Whether reading the texts may take longer than a frame."""
    if report is not None and report.artifacts:
        kinds = ("ttgir", "llir", "amdgcn")
        return sum(a.size for k, a in report.artifacts.items() if k in kinds) > _AT_ONCE
    if report is not None:
        path = Path(report.file)
    try:
        return path is not None and path.stat().st_size > _AT_ONCE
    except OSError:
        return False


def in_background(
    app: App[object], job: Callable[[], _T], on_result: Callable[[_T | str], None]
) -> None:
    """Does something in a thread and hands over what came of it: the result, or what went wrong.

    The thread is none of Textual's: leaving the application need not wait for it.
    """

    def run() -> None:
        result: _T | str
        try:
            result = job()
        except KinspectError as error:
            result = str(error)
        except Exception as error:
            # A bug must be seen on the page, not end the application.
            result = f"internal error: {type(error).__name__}: {error}; please report it"
        with suppress(RuntimeError):  # the application has ended meanwhile
            app.call_from_thread(deliver, result)

    def deliver(result: _T | str) -> None:
        try:
            on_result(result)
        except Exception as error:
            # Raised here it would end in the thread, and be written over the screen.
            message = f"internal error: {type(error).__name__}: {error}; please report it"
            app.notify(message, severity="error", markup=False)

    sys.setswitchinterval(_TURN)
    threading.Thread(target=run, name="kinspect reading", daemon=True).start()


def read(report: KernelReport, loaded: LoadedTexts) -> tuple[KernelReading, LoadedTexts, LineCosts]:
    """Reads what the analysis knows of the texts.

    Returns:
        The reading; the texts, to which it may have added a disassembly; figures of lines.
    """
    # Imported late: the parsers are not needed for the first paint.
    from ....inspector.explain.code.reading import reading_of

    # A large kernel is a million objects without cycles. Without this, the garbage collector would
    # scan them again and again, and block the keys for 0.2 s each time.
    gc.disable()
    try:
        reading = reading_of(report, loaded.texts)
        added = prepared(reading.texts, reading.function, loaded)
        of_lines = _line_costs(report, reading)
    finally:
        gc.freeze()
        gc.enable()
    return reading, added, of_lines


def _line_costs(report: KernelReport, reading: KernelReading) -> LineCosts:
    from ....inspector import machines
    from ....inspector.explain.code.line_figures import line_figures
    from ....inspector.metrics.line_bounds import line_cycles

    costs = _costs_of(report, reading.links)
    cycles: dict[int, float] = {}
    if reading.function is not None and report.arch in machines.names():
        cycles = line_cycles(report, reading.function, machines.load(report.arch))
    figures = line_figures(
        report,
        reading.links,
        shares=costs.shares if costs is not None else {},
        predicted=_predicted(report),
        executed=costs.executed if costs is not None else {},
        cycles=cycles,
    )
    return LineCosts(costs, figures)


def _predicted(report: KernelReport) -> dict[int, tuple[float, str]]:
    """What the timing model says of each line, measured in what a recording has."""
    if report.time is None:
        return {}
    from ....inspector.profile.placing.line_measures import measure_of
    from ....inspector.profile.predicted import predicted_parts

    reasons = {row.line: row.reason for row in report.time.instructions}
    parts = predicted_parts(report.time, measure_of(report.measured_lines) or "stall cycles")
    return {line: (share, reasons[line]) for line, share in parts.items()}


def _costs_of(report: KernelReport, links: Links) -> Costs | None:
    """Returns the costs of lines, measured ones rather than emulated; None without any."""
    if report.measured_lines:
        from .line_costs import MeasuredCosts

        return MeasuredCosts(report, links)
    if report.emulated is not None:
        from .line_costs import EmulatedCosts

        return EmulatedCosts(report.emulated, links)
    return None
