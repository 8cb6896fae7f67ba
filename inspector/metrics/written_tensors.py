"""Which loads are of tensors that a kernel writes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ..model import Instruction
from .subject import Subject

if TYPE_CHECKING:
    from ..lanes.address_sweep import Places

WRITES: Final = frozenset(("global_store", "atomic", "lds_direct_store", "image", "smem_store"))
_COHERENT: Final = re.compile(r"\b(?:sc0|sc1|glc|slc|dlc|scope:\w+)\b")
_TENSOR_BYTES: Final = 1 << 36


def is_coherent(inst: Instruction) -> bool:
    """Whether an access asks for what others have stored, as volatile and atomic ones do."""
    return _COHERENT.search(inst.operands) is not None


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
    written = {_first(place) for inst in writes for place in subject.places[inst.index]}
    if not written:
        return list(loads)
    # Only kernels whose lanes were followed have places, and these need NumPy.
    import numpy as np

    firsts = np.array(sorted(written))
    return [
        load
        for load in loads
        if not any(
            (abs(firsts - _first(place)) < _TENSOR_BYTES).all(1).any()
            for place in subject.places.get(load.index, ())
        )
    ]


def _first(places: Places) -> tuple[int, ...]:
    """The address of the first lane, by draw: accesses near each other in all are of one tensor."""
    return tuple(places.where[:, 0, 0].tolist())
