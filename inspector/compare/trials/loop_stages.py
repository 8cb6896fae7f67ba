"""The loops of a kernel's source that state num_stages themselves, in `tl.range`.

A loop's own number is what Triton goes by, whatever the option says.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ...errors import KinspectError
from ...metrics.subject import op_line
from ...model import KernelReport
from ...ttgir.parser import parse_ttgir

_STAGES: Final = "tt.num_stages"


class LoopStages(Struct, frozen=True):
    """The pipeline stages that a loop of the source states itself.

    Args:
        at: its line, as `file:line`; None where unknown.
        num_stages: how many.
    """

    at: str | None
    num_stages: int


def loop_stages(kernel: KernelReport) -> tuple[LoopStages, ...]:
    """The loops of a kernel's TTIR with their own num_stages; none unless all of them have."""
    variant = kernel.variant
    if variant is None or not variant.ttir or _STAGES not in variant.ttir:
        return ()
    try:
        module = parse_ttgir(variant.ttir, variant.kernel)
    except (KinspectError, RecursionError):
        return ()
    loops = [op for op in module.ops if op.name == "scf.for"]
    stated = [op.attributes.get(_STAGES) for op in loops]
    if not all(isinstance(stages, int) for stages in stated):
        return ()
    return tuple(
        LoopStages(op_line(op), stages)
        for op, stages in zip(loops, stated, strict=True)
        if isinstance(stages, int)
    )
