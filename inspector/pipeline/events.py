"""The events that the pipeline yields while a run goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from ..model import ErrorRecord, KernelReport, Variant

if TYPE_CHECKING:
    from ..model.recording import Profile

_T = TypeVar("_T")


class Captured(Struct, frozen=True):
    """A target's capture has ended: all its specialisations are known, and are being compiled."""

    target: str
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


class Compiled(Struct, frozen=True):
    """A variant has been compiled (or found in the store)."""

    variant: Variant
    seconds: float
    from_store: bool


class Reported(Struct, frozen=True):
    """A kernel's report; `order` is its place in the run."""

    order: tuple[int, int]
    report: KernelReport


class Failed(Struct, frozen=True):
    """Something could not be reported; everything else still is."""

    order: tuple[int, int]
    error: ErrorRecord


Event = Captured | Compiled | Reported | Failed
"""The events of a run of the pipeline."""


class Profiled(Struct, frozen=True):
    """A profiler's recording was read and joined; the kernels it was joined to follow."""

    profile: Profile


Happening = Event | Profiled
"""The events of a run of a user interface."""


def until_interrupted(events: Iterable[_T]) -> Iterator[_T]:
    """Yields a run's events; after an interrupt (Ctrl-C) those so far are all.

    Raises:
        KeyboardInterrupt: the run did not end, as it does, with a `Failed` that says what is
            missing: there is nothing to report.
    """
    last = None
    try:
        for last in events:
            yield last
    except KeyboardInterrupt:
        if not isinstance(last, Failed):
            raise
