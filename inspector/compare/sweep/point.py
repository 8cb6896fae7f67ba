"""Compiles one point of a sweep and computes its figures.

The figures are stored beside the compile that they follow from, so that a second sweep neither
compiles nor analyses.
"""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ...base.errors import KinspectError, unforeseen
from ...base.version import VERSION
from ...model import ErrorRecord, KernelReport
from ...pipeline.analysis import ANALYSIS_VERSION
from ...pipeline.context import Overrides
from ...pipeline.jobs import Job, compile_and_report
from . import figures as figures_room
from .figures import Figures, figures_of

if TYPE_CHECKING:
    from concurrent.futures import Future

    from ...compile.pool import Compiler


def note_of(job: Job) -> str:
    """Name of the store's note beside a compile: it holds all else that the figures depend on."""
    launch = "0"
    if job.analysis.time is not None:
        passed = msgspec.json.encode((job.variant.grid, job.variant.passed, job.analysis.time))
        launch = hashlib.sha256(passed).hexdigest()[:16]
    return f"figures-v{figures_room.FORMAT}-{ANALYSIS_VERSION}-{VERSION}-{launch}.json"


def is_lasting(job: Job, report: KernelReport) -> bool:
    """Whether another run finds the same; a busy machine may be why no time is known."""
    return report.time is not None or job.analysis.time is None or job.variant.passed is None


class PointOutcome(Struct, frozen=True):
    """The result of one point's job: plain values, so that any Executor can pass it on."""

    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


def run_point(job: Job, compiler: Compiler | None = None) -> PointOutcome:
    """Compiles a point and computes its figures, in any thread or process.

    Args:
        compiler: this process's workers; None: a cached one per process and settings.
    """
    if job.hip is not None:
        return _hip_point(job)
    from ...compile.pool import compiler_of_process

    compiler = compiler_of_process(job.settings) if compiler is None else compiler
    started = time.perf_counter()
    # A compile with its pass dump serves as well.
    keys = (compiler.key(job.variant), compiler.key(job.variant, passes=True))
    # Keys do not cover `overrides`, such as LDS: figures that depend on them are not stored.
    is_storable = job.overrides == Overrides() and compiler.settings.read_store
    note = note_of(job)
    if is_storable:
        for data in filter(None, (compiler.store.noted(key, note) for key in keys)):
            stored_figures = figures_room.decode(data)
            if stored_figures is not None:
                return PointOutcome(stored_figures, None, True, time.perf_counter() - started)
    outcome = compile_and_report(job, compiler)
    seconds = time.perf_counter() - started
    if not outcome.reports:
        return PointOutcome(None, outcome.error, outcome.from_store, seconds)
    report = outcome.reports[0]  # a TTIR module holds one kernel
    figures = figures_of(report)
    if is_storable and is_lasting(job, report):
        for key in keys:  # does nothing if there is no such entry
            compiler.store.note(key, note, figures_room.encode(figures))
    return PointOutcome(figures, None, outcome.from_store, seconds)


def _hip_point(job: Job) -> PointOutcome:
    from ...pipeline.hip_sources import compile_point

    outcome = compile_point(job)
    figures = figures_of(outcome.reports[0]) if outcome.reports else None
    return PointOutcome(figures, outcome.error, outcome.from_store, outcome.seconds)


def outcome_of(job: Job, future: Future[Any]) -> PointOutcome:
    """Returns the outcome of a finished job; an exception is an error of its point alone."""
    try:
        outcome = future.result()
        assert isinstance(outcome, PointOutcome)
        return outcome
    except KinspectError as error:
        return PointOutcome(None, job.record("compile", error), False, 0.0)
    except Exception as error:
        return PointOutcome(None, job.record("analyze", unforeseen(error)), False, 0.0)
