"""The values of a run of trials: what was tried on each kernel, and what came of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from ...model import Change, ErrorRecord, KernelReport, Scalar, Trial
from ..sweep.pareto import Objective
from .outcome import TrialFigures


class TrialRow(Struct, frozen=True):
    """One change, or several at once, that was compiled for a kernel.

    Args:
        change: what was changed; empty for the kernel as it is.
        trial: what came of it, without regard to a finding: `gone` is None.
        cures: rules of which it is a cure for each finding that it was tried for.
        figures: None where it failed.
        from_store: nothing was compiled.
        seconds: how long it took.
        host: the machine that has the artifacts; None for this one.
    """

    change: tuple[Change, ...]
    trial: Trial
    cures: tuple[str, ...]
    figures: TrialFigures | None
    from_store: bool = False
    seconds: float = 0.0
    host: str | None = None


class KernelTrials(Struct, frozen=True):
    """What was tried on one kernel.

    Args:
        kernel: its report; each finding that something was tried for has its `trials`.
        metrics: the kernel's own figures, as those of the changes.
        rows: the kernel as it is, then everything tried, in the order in which it was planned.
        objectives: by what rows are compared.
        without_candidates: rules of findings for which no change is known.
        missing: changes that were not compiled: the budget ended, or the user.
    """

    kernel: KernelReport
    metrics: Mapping[str, Scalar]
    rows: tuple[TrialRow, ...]
    objectives: tuple[Objective, ...]
    without_candidates: tuple[str, ...]
    missing: int

    @property
    def front(self) -> tuple[TrialRow, ...]:
        """The rows that no other beats, those with the least bound of the main loop first.

        The unchanged kernel may be among them. The order is that of a list that is cut off at its
        end: no row of it is the best.
        """
        rows = (row for row in self.rows if row.trial.front)
        return tuple(sorted(rows, key=_bound))

    @property
    def tried(self) -> int:
        """How many changes were compiled, or failed to."""
        return len(self.rows) - 1


def _bound(row: TrialRow) -> float:
    cycles = row.trial.metrics.get("bound_per_work")
    return cycles if isinstance(cycles, int | float) else math.inf


class TrialRun(Struct, frozen=True):
    """What was tried on all kernels of a run, complete or not.

    Args:
        targets: as typed.
        tool: name -> version of the software that made it.
        kernels: those with findings to try something for.
        untried: kernels that were compiled elsewhere, so that nothing can be recompiled, by name.
        errors: what could not be analysed or captured.
        notes: on the run as a whole.
        budget: seconds that trials might take.
        out_of_budget: whether they ended for it.
        seconds: what they took.
    """

    targets: tuple[str, ...]
    tool: Mapping[str, str]
    kernels: tuple[KernelTrials, ...]
    untried: tuple[str, ...]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...]
    budget: float
    out_of_budget: bool
    seconds: float

    @property
    def tried(self) -> int:
        return sum(kernel.tried for kernel in self.kernels)

    @property
    def missing(self) -> int:
        return sum(kernel.missing for kernel in self.kernels)
