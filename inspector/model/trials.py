"""Changes of a kernel's compile that were tried as cures of a finding, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from .metric import Scalar
from .source import SourceLoc

MORE = 1.1
"""Times as many scratch accesses in loops, or cycles of the slowest or of the matrix unit, for the
same work: a change after which there are more is no cure."""
ChangeKind = Literal["option", "constexpr", "argument", "environment", "source"]


class Change(Struct, frozen=True):
    """One setting of a compile that was changed.

    Args:
        kind: an option of Triton's backend, a constexpr of the kernel, an argument of it that
            becomes a constexpr, an environment variable that Triton reads while it compiles, or the
            source itself.
        name: of the option, constexpr, argument or variable; of the source what is replaced.
        value: what it was set to; None for what is left out of the source.
        before: what the kernel has; None where nothing states it.
        at: the lines of the source to change, where an operation's own are known.
    """

    kind: ChangeKind
    name: str
    value: Scalar
    before: Scalar = None
    at: tuple[SourceLoc, ...] = ()


class Trial(Struct, frozen=True):
    """What came of one change, or of several at once, for one finding.

    Args:
        change: what was changed together.
        gone: whether the finding is gone and none that means the same has come in its place; None
            where the changed kernel could not be compiled or analysed.
        metrics: figures of the changed kernel by name; None is unknown.
        diff: figures that differ, each before and after.
        new: rules that find something at a place where they did not before.
        new_errors: those of them that are errors: then the change is no cure.
        front: whether it is on the Pareto front of all that was tried on the kernel, the unchanged
            one included; of several with the same code the first.
        same_as: the changes of an earlier trial that gave the same code, empty for the unchanged
            kernel; None where no other gave it.
        launches: whether a workgroup fits on a CU; None where unknown.
        failure: why there are no figures; "" where there are.
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

    @property
    def same_code(self) -> bool:
        """Whether the code is that of the unchanged kernel."""
        return self.same_as is not None and not self.same_as

    @property
    def helped(self) -> bool:
        """Whether the finding is gone, the kernel can still run, and nothing graver has come."""
        worse = bool(self.new_errors) or self.spills_more or self.is_slower or self.multiplies_more
        return bool(self.gone) and self.launches is not False and not worse

    @property
    def spills_more(self) -> bool:
        """Whether loops that spilled before spill more now, for the same work."""
        return self._is_more("scratch_per_work")

    @property
    def is_slower(self) -> bool:
        """Whether the slowest unit of the main loop takes longer now, for the same work."""
        return self._is_more("bound_per_work")

    @property
    def multiplies_more(self) -> bool:
        """Whether the matrix unit does more now for the same products: of padding, or again."""
        return self._is_more("matrix_cycles_per_work")

    def _is_more(self, name: str) -> bool:
        before, after = self.diff.get(name, (None, None))
        if not isinstance(before, int | float) or not isinstance(after, int | float):
            return False
        return before > 0 and after > MORE * before
