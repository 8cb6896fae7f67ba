"""`kinspect sweep`: compiles a kernel in many configurations and compares them in a table."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click
from msgspec.structs import replace

from ..base.status import counted
from ..capture.sweep_axes import axes_of
from ..compare.sweep.sweeping import (
    MOST_POINTS,
    MOST_TUNED,
    Event,
    PointDone,
    PointsPlanned,
    SweepRequest,
    gather,
    gathering,
    run_point,
    sweep,
)
from ..compare.sweep.swept_points import Sweep
from ..compare.sweep.table import by_time, only_front, sort_column, sorted_lines
from ..pipeline.jobs import beside, timing
from .cluster import executor_for
from .declared import command, option
from .options import (
    ARGUMENTS,
    COLOR,
    OUTPUT,
    format_option,
    result_stream,
)
from .progress import print_error, problem
from .signals import INTERRUPTED, interrupted
from .target_options import ScriptCommand, TargetOptions, is_default, targets

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..compare.sweep.sweeping import Work

BAR_WIDTH = 24


@command("sweep", cls=ScriptCommand)
def sweep_command(
    settings: tuple[str, ...] = option(
        "An axis: an option of the backend (num_warps=4,8) or a parameter of the kernel"
        " (BLOCK_M=64,128). Ranges: 1..4, 16..64+16, 32..256*2.",
        "--set",
        metavar="NAME=V[,V...]",
    ),
    autotune: bool = option("Go over the file's own autotune configurations, or its TUNING space."),
    form: str = format_option("text", "csv", "json"),
    output: Path | None = OUTPUT,
    sort: str | None = option("Sort by a column; -COLUMN: falling.", metavar="COLUMN"),
    keep: int | None = option(
        "text: print only the triton.Config lines of the N fastest, within 15 % of the best.",
        type=click.IntRange(1),
        metavar="N",
    ),
    no_time: bool = option("Do not estimate how long the points' launches take."),
    columns: str | None = option(
        "text: these figures, or all; without it those that differ between points.",
        metavar="NAME,...",
    ),
    front: bool = option("Only the points on the Pareto front."),
    max_points: int = option(
        "Refuse to compile more than this.",
        type=click.IntRange(1),
        default=MOST_POINTS,
        show_default=True,
    ),
    scheduler: str | None = option(
        "Compile on this Dask cluster, e.g. tcp://host:8786 (kinspect[dask]).", metavar="ADDRESS"
    ),
    target: TargetOptions = targets("TARGET...", nargs=-1),
    arguments: str | None = ARGUMENTS,
    color: bool | None = COLOR,
) -> int:
    """Compile a kernel in many configurations and compare the code.

    One table per kernel and target, the fastest first: estimated time, registers, spills in loops,
    LDS, resident occupancy, matrix instructions and full waits of the main loop, and which points
    cannot launch. Points on the Pareto front are marked. --keep 5 prints what is worth measuring.

    The cost of the main loop (matrix cycles, full waits, scratch accesses) counts per work that the
    source needs. So tiles, unrolling and numbers of waves are comparable. The unit is a
    million multiply-accumulates of the source's dots (MMAC; M*N*K, all waves of the workgroup
    together), or a thousand loaded elements (kelem) if the kernel has no dot. Work that waves
    repeat or tiles pad counts as cost. A point with an unknown figure, because no position
    joins its code with the source, is marked ? and takes no part in the comparison.

    --autotune sweeps the configurations of a script's autotuners. For a file with KINSPECT_CASES
    it sweeps the product of its TUNING, {"BLOCK_M": [64, 128], "num_warps": [4, 8], ...}, for
    names that are constexprs of the kernel or options of the backend; --set replaces an axis. Of
    a large space, evenly spread points are taken: 256 over all cases, or --max-configs of
    each case. Constexprs that TUNING does not name keep the case's values.

    TARGET: a .py script or a file with KINSPECT_CASES (or file.py::kernel). Or a .ttir file, of
    which backend options can be swept. Or a HIP source, of which macros and template parameters
    are (--set TILE=16,32).
    Arguments after -- are passed to the script, or to the compiler of HIP.

    What was compiled before comes from the store; after Ctrl-C the same command continues.
    """
    shown = _columns(columns)
    axes = axes_of(settings)
    if autotune and is_default("max_configs"):
        limit = min(MOST_TUNED, max_points)
        capture = replace(target.capture, max_configs=None, most_tuned=limit)
        target = replace(target, capture=capture)
    if sort is not None:
        sort_column(sort, None if autotune else [axis.name for axis in axes])
    run = target.request(analysis=None if no_time else timing(**beside(arguments)))
    request = SweepRequest(run, axes, autotune, max_points)
    with executor_for(scheduler, run, target.python, run_point) as (executor, work):
        result, ended = _run(request, executor, work)
    if sort is not None and result.tables:
        sort_column(sort, [name for table in result.tables for name in table.names])
    with result_stream(output) as stream:
        arranged = _arranged(result, sort, front)
        if keep is not None and form == "text":
            from ..formats.sweep import write_configs

            write_configs(arranged, keep, stream)
        else:
            _write(arranged, form, stream, shown, color)
    return _status(result, ended)


def _run(request: SweepRequest, executor: Executor | None, work: Work | None) -> tuple[Sweep, bool]:
    """Compiles the points; returns the tables and whether Ctrl-C ended the run."""
    started = time.perf_counter()
    gathered = gathering(request)
    progress = _SweepProgress()
    events = sweep(request, executor, work)
    ended = interrupted(events, partial(gather, gathered), progress.on_event)
    return gathered.result(time.perf_counter() - started), ended


def _columns(names: str | None) -> tuple[str, ...]:
    if names is None:
        return ()
    from ..present.sweep import chosen

    return chosen(names)


def _arranged(result: Sweep, sort: str | None, front: bool) -> Sweep:
    tables = result.tables
    if front:
        tables = tuple(only_front(table) for table in tables)
    tables = tuple(
        by_time(table) if sort is None else sorted_lines(table, sort) for table in tables
    )
    return replace(result, tables=tables)


def _write(
    result: Sweep, form: str, stream: TextIO, columns: tuple[str, ...], color: bool | None
) -> None:
    if form == "text":
        from ..present import sweep as present

        present.write(result, stream, columns=columns, color=color)
    else:
        from ..formats import sweep as formats

        writer = {"csv": formats.write_csv, "json": formats.write_json}[form]
        writer(result, stream)


def _status(result: Sweep, ended: bool) -> int:
    """Returns 130 after Ctrl-C, 2 if nothing could be compiled or captured; else 0."""
    for error in result.errors:
        print_error(problem(error), error.hint)
    if ended:
        missing = "some" if result.counts.missing is None else str(result.counts.missing)
        print_error(
            f"interrupted: {missing} points are missing; the same command goes on from here"
        )
        return INTERRUPTED
    all_failed = result.counts.failed == result.counts.done
    return 2 if result.errors or all_failed else 0


class _SweepProgress:
    """Says how many points are finished, with a bar."""

    def __init__(self) -> None:
        self._planned = self._finished = self._stored = 0
        self._complete = False
        self._started = time.monotonic()

    def on_event(self, event: Event) -> None:
        """Counts an event."""
        if isinstance(event, PointsPlanned):
            self._planned, self._complete = event.points, event.complete
        elif isinstance(event, PointDone):
            self._finished += 1
            self._stored += event.row.from_store
        if not self._planned:
            return
        filled = BAR_WIDTH * self._finished // self._planned
        bar = "━" * filled + "╌" * (BAR_WIDTH - filled)
        suffix = "" if self._complete else " so far"
        seconds = time.monotonic() - self._started
        counted(
            f"{bar} {self._finished} of {self._planned} points{suffix},"
            f" {self._stored} from the store{self._time_left(seconds)}"
        )

    def _time_left(self, seconds: float) -> str:
        compiled = self._finished - self._stored
        if not self._complete or not compiled or self._finished == self._planned:
            return ""
        return f", about {seconds / compiled * (self._planned - self._finished):.0f} s to go"
