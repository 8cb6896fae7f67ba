"""Which loads are of tensors that a kernel writes.

Pointers are drawn so far apart that accesses near each other in every draw are of one tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..model import Instruction
from .subject import Subject

if TYPE_CHECKING:
    from ..emulator.waves import Array

WRITES: Final = frozenset(("global_store", "atomic", "lds_direct_store", "image", "smem_store"))
_TENSOR_BYTES: Final = 1 << 36


def unwritten(
    subject: Subject, loads: Sequence[Instruction], writes: Sequence[Instruction]
) -> list[Instruction] | None:
    """The loads of tensors that some writes do not touch; None where a write is not followed."""
    if not loads:
        return []
    function = subject.function
    if function.calls or not function.all_read:
        return None
    if any(inst.index not in subject.places for inst in writes):
        return None
    written = [place.where for inst in writes for place in subject.places[inst.index]]
    return [
        load
        for load in loads
        if not any(
            _near(place.where, where)
            for place in subject.places.get(load.index, ())
            for where in written
        )
    ]


def _near(loaded: Array, written: Array) -> bool:
    """Whether two accesses, [draw, wave, lane], lie near each other in every draw."""
    distances = abs(loaded[:, 0, 0] - written[:, 0, 0])
    return bool((distances < _TENSOR_BYTES).all())
