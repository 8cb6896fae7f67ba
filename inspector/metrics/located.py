"""The inputs of the metrics, each worked out once from those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..model import LaneUse
from . import lanes, lds_races, live_registers
from .demand import demand
from .redundancy import source_work
from .subject import KernelCode, LaunchedCode, Subject, Synchronisation
from .wait_verdicts import synchronisation

if TYPE_CHECKING:
    from ..isa.dataflow.liveness import Liveness
    from ..lanes.addresses import Places
    from ..lanes.lds.races import RaceReport


def located(code: KernelCode) -> Subject:
    """The kernel with its launch, its waits, its live registers and the lanes of its accesses."""
    launched = LaunchedCode(**_parts(code), demand=demand(code), work=source_work(code.ttgir))
    return Subject(**_parts(launched), followed=_Followed(launched))


class _Followed:
    """See `subject.Followed`."""

    def __init__(self, launched: LaunchedCode) -> None:
        self._launched = launched

    @cached_property
    def races(self) -> tuple[RaceReport | None, str]:
        return lds_races.followed(self._launched)

    @cached_property
    def sync(self) -> Synchronisation:
        return synchronisation(self._launched, lambda: self.places)

    @cached_property
    def _touched(self) -> lanes.KernelLanes:
        return lanes.kernel_lanes(self._launched)

    @property
    def uses(self) -> Mapping[int, LaneUse]:
        return self._touched.uses

    @property
    def places(self) -> Mapping[int, Sequence[Places]]:
        return self._touched.places

    @property
    def likely_places(self) -> Mapping[int, Sequence[Places]]:
        return self._touched.likely_places

    @cached_property
    def live(self) -> tuple[Liveness | None, str]:
        return live_registers.followed(self._launched)


def _parts(stage: KernelCode) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in stage.__struct_fields__}
