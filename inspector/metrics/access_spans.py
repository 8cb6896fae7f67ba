"""Accesses of global memory with the bytes that they touch, to be held against each other.

Which loads are of tensors that a kernel writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ..model import Instruction
from .load_paths import LOADS
from .subject import Subject

if TYPE_CHECKING:
    from ..emulator.access_figures import Spans
    from ..lanes.addresses import Places


_TENSOR_BITS: Final = 42
"""Tensors are drawn at multiples of 2^44 bytes (`lanes.unknowns`), their parts nearby."""

Tensor = tuple[int, ...]
"""Where a tensor was drawn, by draw."""


class Access(Struct, frozen=True):
    """An access of global memory.

    Args:
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
    if not subject.likely_places:
        return "where its lanes lie is not known"
    return ""


class GlobalAccesses:
    """The accesses of global memory of a kernel, each worked out once for all that compare them."""

    def __init__(self, subject: Subject) -> None:
        """The accesses whose lanes' addresses the subject has."""
        self._subject = subject
        self._known: dict[tuple[int | None, int | None], dict[int, Access]] = {}
        self._patterns: _Patterns = {}

    def of(self, waves: int | None, lanes: int | None) -> Mapping[int, Access]:
        """The accesses whose lanes' addresses are known, by index.

        Args:
            waves: how many of a workgroup's first waves; None for all.
            lanes: how many of each wave's first lanes; None for all.
        """
        part = waves, lanes
        if part not in self._known:
            self._known[part] = self._accesses(waves, lanes)
        return self._known[part]

    def _accesses(self, waves: int | None, lanes: int | None) -> dict[int, Access]:
        subject = self._subject
        accesses = {}
        for index, places in subject.likely_places.items():
            inst = subject.function.instructions[index]
            if inst.cls not in LOADS and inst.cls not in WRITES:
                continue
            if any(part.space != "global" or part.scattered for part in places):
                continue
            if inst.cls in LOADS and is_coherent(inst):
                continue
            parts = [_in_part(part, waves, lanes) for part in places]
            access = _access(inst, parts, self._patterns)
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
    if demand.waves_from == "largest":
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


_Patterns = dict[tuple[int, bytes, bytes], tuple["Spans", int]]
"""(bytes of each lane, addresses from the first lane's, active lanes) -> the spans from there, and
the bytes that the lanes ask for: most accesses of a kernel, and most draws, have the same few."""


def _access(inst: Instruction, places: Sequence[Places], patterns: _Patterns) -> Access | None:
    from ..emulator.access_figures import united

    touched = [_touched(part, patterns) for part in places]
    spans: list[Spans] = []
    sizes: list[int] = []
    for of_draw in zip(*touched, strict=True):
        spans.append(of_draw[0][0] if len(of_draw) == 1 else united(part for part, _ in of_draw))
        sizes.append(sum(size for _, size in of_draw))
    # No lane takes part behind the last iteration of a loop, in the draw that is one further on.
    if not all(len(starts) for starts, _ in spans[:-1]):
        return None
    tensor = tuple(
        (int(starts[0]) + (1 << _TENSOR_BITS - 1)) >> _TENSOR_BITS for starts, _ in spans[:-1]
    )
    return Access(inst, places, spans, sizes, tensor)


def _touched(places: Places, patterns: _Patterns) -> list[tuple[Spans, int]]:
    """The bytes that lanes touch, and how many they ask for, by draw."""
    from ..emulator.access_figures import distinct_of, spans_at

    size, touched = places.size, []
    for draw, where in enumerate(places.where):
        first = where[0, 0]
        relative = where - first
        active = None if places.active is None else places.active[draw]
        key = size, relative.tobytes(), b"" if active is None else active.tobytes()
        if key not in patterns:
            distinct = distinct_of(relative if active is None else relative[active])
            patterns[key] = spans_at(distinct, size), len(distinct) * size
        (starts, ends), asked = patterns[key]
        touched.append(((starts + first, ends + first), asked))
    return touched


def size_in(access: Access, draw: int) -> int:
    """The bytes that an access touches in a draw."""
    from ..emulator.access_figures import size_of

    return size_of(access.spans[draw])


def united_spans(accesses: Sequence[Access]) -> list[Spans]:
    """The bytes that some accesses touch together, by draw."""
    from ..emulator.access_figures import united

    return [united(part) for part in zip(*(access.spans for access in accesses), strict=True)]


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
