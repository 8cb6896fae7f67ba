"""What happens in a run, as it happens: what the pipeline yields."""

from __future__ import annotations

from dataclasses import dataclass

from ..model import ErrorRecord, KernelReport, Variant
from ..recording import Profile


@dataclass(frozen=True, slots=True)
class Captured:
    """All of a target's specialisations are known; their compiles are under way."""

    target: str
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A variant has been compiled (or found in the store)."""

    variant: Variant
    seconds: float
    from_store: bool


@dataclass(frozen=True, slots=True)
class Reported:
    """A kernel's report; `order` is its place in the run."""

    order: tuple[int, int]
    report: KernelReport


@dataclass(frozen=True, slots=True)
class Failed:
    """Something could not be reported; everything else still is."""

    order: tuple[int, int]
    error: ErrorRecord


Event = Captured | Compiled | Reported | Failed
"""What a run of the pipeline yields."""


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profiler's recording was read and joined; the kernels it was joined to follow."""

    profile: Profile


Happening = Event | Profiled
"""What a run of a user interface yields."""
