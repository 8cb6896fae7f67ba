"""The inputs of the metrics, each worked out once from those before it."""

from __future__ import annotations

from typing import Any

from . import lanes, lds_races, live_registers
from .demand import demand
from .redundancy import source_work
from .subject import KernelCode, LaunchedCode, Subject
from .wait_verdicts import synchronisation


def located(code: KernelCode) -> Subject:
    """The kernel with its launch, its waits, its live registers and the lanes of its accesses."""
    launched = LaunchedCode(**_parts(code), demand=demand(code), work=source_work(code.ttgir))
    races = lds_races.followed(launched)
    touched = lanes.kernel_lanes(launched)
    return Subject(
        **_parts(launched),
        races=races,
        sync=synchronisation(code, races[0]),
        uses=touched.uses,
        places=touched.places,
        likely_places=touched.likely_places,
        live=live_registers.followed(code),
    )


def _parts(stage: KernelCode) -> dict[str, Any]:
    return {name: getattr(stage, name) for name in stage.__struct_fields__}
