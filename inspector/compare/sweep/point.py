"""Compiles one point of a sweep and computes its figures."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ...base.version import VERSION
from ...model import ErrorRecord
from ...pipeline.analysis import ANALYSIS_VERSION
from ...pipeline.jobs import Job
from ..points import run
from .figures import FORMAT, Figures, figures_of

if TYPE_CHECKING:
    from ...compile.pool import Compiler


class PointOutcome(Struct, frozen=True):
    """The result of one point's job: plain values, so that any Executor can pass it on."""

    figures: Figures | None
    error: ErrorRecord | None
    from_store: bool
    seconds: float
    host: str | None = None


def run_point(job: Job, compiler: Compiler | None = None) -> PointOutcome:
    """Compiles a point and computes its figures; see `points.run`."""
    launch = "0"
    if job.analysis.time is not None:
        passed = msgspec.json.encode((job.variant.grid, job.variant.passed, job.analysis.time))
        launch = hashlib.sha256(passed).hexdigest()[:16]
    note = f"figures-v{FORMAT}-{ANALYSIS_VERSION}-{VERSION}-{launch}.json"
    ran = run(job, compiler, note, figures_of, Figures)
    return PointOutcome(ran.kept, ran.error, ran.from_store, ran.seconds)
