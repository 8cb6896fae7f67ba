"""Accesses of global memory with the bytes that they touch, to be held against each other.

Where a workgroup's size or shape is not known, as much of it is looked at as any workgroup has.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ..model import Instruction
from .load_paths import LOADS
from .subject import Subject
from .written_tensors import WRITES

if TYPE_CHECKING:
    from ..emulator.address_sweep import Places
    from ..emulator.footprint import Spans

_COHERENT: Final = re.compile(r"\b(?:sc0|sc1|glc|slc|dlc|scope:\w+)\b")
"""Bits by which a load asks for what others have stored: of volatile and atomic loads."""
_TENSOR_BITS: Final = 42
"""Tensors are drawn at multiples of 2^44 bytes (`emulator.unknowns`), their parts nearby."""

Tensor = tuple[int, ...]
"""Where a tensor was drawn, by draw."""


class Access(Struct, frozen=True):
    """An access of global memory.

    Args:
        inst: the instruction.
        places: where its lanes lie.
        spans: the bytes that a workgroup's lanes touch, by draw.
        sizes: bytes that the lanes ask for, by draw: those at the same address once.
        tensor: where its tensor was drawn.
    """

    inst: Instruction
    places: Sequence[Places]
    spans: Sequence[Spans]
    sizes: Sequence[int]
    tensor: Tensor


def unknown_reason(subject: Subject) -> str:
    """Why no access can be looked at; empty where some can."""
    function = subject.function
    if function.calls or function.unread:
        return "not all of the code is known"
    if not subject.facts.analyse_lanes:
        return "not looked for"
    if importlib.util.find_spec("numpy") is None:
        return "needs numpy"
    if not subject.likely_places:
        return "where its lanes lie is not known"
    return ""


def accesses_of(subject: Subject, waves: int | None, lanes: int | None) -> dict[int, Access]:
    """The accesses of global memory whose lanes' addresses are known, by index.

    Args:
        subject: the kernel.
        waves: how many of a workgroup's first waves; None for all.
        lanes: how many of each wave's first lanes; None for all.
    """
    accesses = {}
    for index, places in subject.likely_places.items():
        inst = subject.function.instructions[index]
        if inst.cls not in LOADS and inst.cls not in WRITES:
            continue
        if any(part.space != "global" or part.scattered for part in places):
            continue
        if inst.cls in LOADS and _COHERENT.search(inst.operands):
            continue
        access = _access(inst, [_in_part(part, waves, lanes) for part in places])
        if access is not None:
            accesses[index] = access
    return accesses


def known_part(subject: Subject) -> tuple[int | None, int | None]:
    """The waves and the lanes of each that any workgroup has; None for all of them.

    Where only the largest workgroup is known, accesses of lanes that it does not have may be those
    that others make instead, as with a step of the workgroup's size that is a constant. Rows side
    by side are there in any workgroup of several, or in the next one.
    """
    if not subject.places:
        return _ASSUMED_ROWS, _ASSUMED_COLUMNS
    demand = subject.demand
    if demand is None or demand.waves_from == "largest":
        return 1, _ASSUMED_LANES
    return None, None


def _in_part(places: Places, waves: int | None, lanes: int | None) -> Places:
    """An access of some of a workgroup's waves and lanes."""
    if waves is None:
        return places
    return replace(
        places,
        where=places.where[:, :waves, :lanes],
        active=None if places.active is None else places.active[:, :waves, :lanes],
    )


_ASSUMED_ROWS: Final = 4
_ASSUMED_LANES: Final = 32
_ASSUMED_COLUMNS: Final = 8


def _access(inst: Instruction, places: Sequence[Places]) -> Access | None:
    import numpy as np

    from ..emulator.footprint import spans_of, united

    spans: list[Spans] = []
    sizes: list[int] = []
    for draw in range(len(places[0].where)):
        where = [
            np.unique(
                part.where[draw] if part.active is None else part.where[draw][part.active[draw]]
            )
            for part in places
        ]
        touched = united(spans_of(at, part.size) for at, part in zip(where, places, strict=True))
        spans.append(touched)
        sizes.append(sum(len(at) * part.size for at, part in zip(where, places, strict=True)))
    # No lane takes part behind the last iteration of a loop, in the draw that is one further on.
    if not all(len(starts) for starts, _ in spans[:-1]):
        return None
    tensor = tuple(
        (int(starts[0]) + (1 << _TENSOR_BITS - 1)) >> _TENSOR_BITS for starts, _ in spans[:-1]
    )
    return Access(inst, places, spans, sizes, tensor)


def size_in(access: Access, draw: int) -> int:
    """The bytes that an access touches in a draw."""
    from ..emulator.footprint import size_of

    return size_of(access.spans[draw])
