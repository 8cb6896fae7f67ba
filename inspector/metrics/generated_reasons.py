"""What to change where a compiler wrote the kernel: its source is not the user's to edit."""

from __future__ import annotations

from msgspec.structs import replace

from ..ttgir.axes.flow import Axes
from .reasons import ALIGNED, Reason

_OF_SIZES = frozenset(("contiguity", "divisibility", "mask"))


def generated(reason: Reason, axes: Axes) -> Reason:
    """The reason with what helps in the place of advice on the kernel's own text.

    Inductor notes what divides a size when it writes the kernel: of a dynamic one nothing, whatever
    the launches pass.
    """
    if not axes.graph.dynamic_sizes or reason.limited_by not in _OF_SIZES:
        return reason
    return replace(
        reason,
        fix="The sizes are dynamic, and Inductor noted nothing of them when it wrote the kernel:"
        " compile for them with torch.compile(..., dynamic=False), or say torch._check(size %"
        f" {ALIGNED} == 0) of each in the compiled function.",
    )
