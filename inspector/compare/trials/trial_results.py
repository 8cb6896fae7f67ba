"""The values of a run of trials: what was tried on each kernel, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ...model import Change, ErrorRecord, KernelReport, Scalar, Trial
from ..sweep.figures import Figures


class TrialRow(Struct, frozen=True):
    """One change, or several at once, that was compiled for a kernel.

    Args:
        change: what was changed; empty for the kernel as it is.
        trial: what came of it, without regard to a finding: `gone` is None.
        cures: rules of which it is a cure for each finding that it was tried for: the finding is
            gone and the launch is faster, as far as its time is known.
        figures: None where it failed.
        host: the machine that has the artifacts; None for this one.
    """

    change: tuple[Change, ...]
    trial: Trial
    cures: tuple[str, ...]
    figures: Figures | None
    from_store: bool = False
    seconds: float = 0.0
    host: str | None = None


class KernelTrials(Struct, frozen=True):
    """What was tried on one kernel.

    Args:
        kernel: its report; each finding that something was tried for has its `trials`.
        rows: the kernel as it is, then everything tried, the best first: by its time, where none is
            known by findings and spills.
        missing: changes that were not compiled: the budget ended, or the user.
    """

    kernel: KernelReport
    metrics: Mapping[str, Scalar]
    rows: tuple[TrialRow, ...]
    without_candidates: tuple[str, ...]
    missing: int

    @property
    def is_timed(self) -> bool:
        """Whether the time of the kernel's launch is known, as it is and with a change."""
        return any(row.trial.time is not None for row in self.rows)

    @property
    def advised(self) -> tuple[TrialRow, ...]:
        """The changes to make: those that are faster, the best first.

        Where no time is known, those that are rid of a finding.
        """
        return tuple(
            row
            for row in self.rows[1:]
            if row.trial.same_as is None
            and (row.trial.helped or (row.cures and row.trial.time is None))
        )

    @property
    def tried(self) -> int:
        """How many changes were compiled, or failed to."""
        return len(self.rows) - 1


class TrialRun(Struct, frozen=True):
    """What was tried on all kernels of a run, complete or not.

    Args:
        tool: name -> version of the software that made it.
        untried: kernels that were compiled elsewhere, so that nothing can be recompiled, by name.
        budget: seconds that trials might take.
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
