"""Changes of a kernel's compile that were tried as cures of a finding, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from .metric import Scalar
from .numbers import Real
from .source import SourceLoc

ChangeKind = Literal["option", "constexpr", "argument", "environment", "source", "macro"]


class Change(Struct, frozen=True):
    """One setting of a compile that was changed.

    Args:
        kind: an option of Triton's backend, a constexpr of the kernel, an argument of it that
            becomes a constexpr, an environment variable that Triton reads while it compiles, the
            source itself, or a macro or template parameter of a HIP source (of attributes
            `__launch_bounds__`).
        name: of the option, constexpr, argument or variable; of the source what is replaced.
        value: what it was set to; None for what is left out of the source.
        before: what the kernel has; None where nothing states it.
        at: the lines of the source to change, where an operation's own are known.
        arguments: the kernel's arguments that a change of the source is about.
    """

    kind: ChangeKind
    name: str
    value: Scalar
    before: Scalar = None
    at: tuple[SourceLoc, ...] = ()
    arguments: tuple[str, ...] = ()


class TimeChange(Struct, frozen=True):
    """What a change does to the time of a launch, by the timing model.

    Args:
        before_us: microseconds without it.
        us: microseconds with it.
        percent: by how much that is more, in percent of `before_us`; less than 0 where it is less.
        low, high: three quarters of measured differences lie between, in percent as well.
        verdict: `equal` where the two differ by less than the model tells apart.
    """

    before_us: Real
    us: Real
    percent: float
    low: float
    high: float
    verdict: Literal["faster", "equal", "slower"]


class Trial(Struct, frozen=True):
    """What came of one change, or of several at once, for one finding.

    Args:
        change: what was changed together.
        gone: whether the finding is gone and none that means the same has come in its place; None
            where the changed kernel could not be compiled or analysed.
        metrics: figures of the changed kernel by name; None is unknown.
        diff: figures that differ, each before and after.
        new: rules that find something at a place where they did not before.
        new_errors: those of them that forbid the change: where times are known, those about wrong
            results or launches that fail; where not, all that are errors.
        front: whether nothing else that was tried on the kernel is faster; of several with the same
            code the first. False where no time is known.
        same_as: the changes of an earlier trial that gave the same code, empty for the unchanged
            kernel; None where no other gave it.
        launches: whether a workgroup fits on a CU; None where unknown.
        failure: why there are no figures; "" where there are.
        time: of the launch; None where it is not known of both the kernel and the change.
        no_time: why it is not known; "" where it is.
        is_baseline_timed: whether the unchanged kernel's time is known: without its own, a change
            is no cure then.
    """

    change: tuple[Change, ...]
    gone: bool | None
    metrics: Mapping[str, Scalar] = field(default_factory=dict)
    diff: Mapping[str, tuple[Scalar, Scalar]] = field(default_factory=dict)
    new: tuple[str, ...] = ()
    new_errors: tuple[str, ...] = ()
    front: bool = False
    same_as: tuple[Change, ...] | None = None
    launches: bool | None = None
    failure: str = ""
    time: TimeChange | None = None
    no_time: str = ""
    is_baseline_timed: bool = False

    @property
    def same_code(self) -> bool:
        """Whether the code is that of the unchanged kernel."""
        return self.same_as is not None and not self.same_as

    @property
    def helped(self) -> bool:
        """Whether the launch is faster; where nothing is timed, whether the finding is gone."""
        if self.failure or self.launches is False or self.new_errors:
            return False
        if self.time is not None:
            return self.time.verdict == "faster"
        return not self.is_baseline_timed and bool(self.gone)
