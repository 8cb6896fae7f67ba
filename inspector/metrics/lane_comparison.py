"""Compares the addresses of an instruction's lanes with those of the elements in registers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from ..ttgir.matrix import MFMA_WAVE

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

Verdict = Literal["agree", "differ"]
_TRANSPOSED_BYTES: Final = 8
_TRANSPOSED_LANES: Final = 16


class Elements(Struct, frozen=True):
    """The addresses of the elements in each register, by the TTGIR.

    Args:
        offsets: bytes from any origin, int64 [draw, register, wave, lane]; one draw where all
            agree.
        settled: whether they depend on no unknown value (values in memory, iterations): the code's
            side draws such values for itself, and for each wave.
        size: bytes of an element.
        space: `global` or `lds`.
    """

    offsets: Array
    settled: bool
    size: int
    space: str


def compare(where: Array, active: Array | None, size: int, elements: Elements) -> Verdict | None:
    """Compares the elements of the registers with the lanes.

    Args:
        where: bytes from the first lane, int64 [draw, wave, lane].
        active: the lanes that take part, bool of the same shape; None for all.
        size: bytes of each lane.
        elements: the elements by the TTGIR.

    Returns:
        None where the comparison decides nothing.
    """
    if active is not None and not active.any():
        return None
    if _has_match(where, active, size, elements):
        return "agree"
    return "differ" if elements.settled else None


def compare_transposed(
    where: Array, active: Array | None, size: int, elements: Elements
) -> Verdict | None:
    """Compares groups of lanes with the elements that some registers of the group hold.

    Lanes of instructions that transpose while they read (gfx950's ds_read_b64_tr_b16) fetch
    elements for one another, within 16 of them; other widths are not compared. Arguments and result
    as for `compare`.
    """
    import numpy as np

    draws, waves, lanes = where.shape
    elements_per_lane = size // elements.size
    registers = elements.offsets.shape[1]
    if (
        active is not None
        or size != _TRANSPOSED_BYTES
        or elements_per_lane < 1
        or registers % elements_per_lane
    ):
        return None
    if lanes != MFMA_WAVE:
        return None
    steps = np.arange(elements_per_lane) * elements.size
    read_addresses = np.sort(
        (where[..., None] + steps).reshape(
            draws, 1, waves, -1, _TRANSPOSED_LANES * elements_per_lane
        )
    )
    register_addresses = elements.offsets.reshape(
        -1, registers // elements_per_lane, elements_per_lane, waves, lanes
    )
    register_addresses = np.moveaxis(register_addresses, 2, -1).reshape(
        len(register_addresses),
        registers // elements_per_lane,
        waves,
        -1,
        _TRANSPOSED_LANES * elements_per_lane,
    )
    distances = np.sort(register_addresses) - read_addresses
    matches = (distances == distances[:, :, :1, :1, :1]).all((2, 3, 4)).all(0).any()
    return "agree" if matches else "differ"


def _has_match(where: Array, active: Array | None, size: int, elements: Elements) -> bool:
    """Whether some registers' elements lie as the lanes do, and side by side."""
    starts = _starts(where, active, elements.offsets)
    # The elements that an instruction moves in a lane are neighbours.
    return any(
        all(
            tuple(address + number * elements.size for address in start) in starts
            for number in range(max(1, size // elements.size))
        )
        for start in starts
    )


def _starts(where: Array, active: Array | None, offsets: Array) -> set[tuple[int, ...]]:
    """The distances from the lanes to registers' elements that are the same for all lanes."""
    import numpy as np

    registers = np.arange(offsets.shape[1])
    columns: list[tuple[Array, Array]] = []
    for draw, lanes in enumerate(where):
        own = offsets[draw if len(offsets) > 1 else 0]
        if active is not None:
            inside = active[draw]
            if not inside.any():
                continue
            own, lanes = own[:, inside], lanes[inside]
        else:
            own, lanes = own.reshape(len(own), -1), lanes.reshape(-1)
            if columns and len(offsets) == 1 and (lanes == columns[-1][1]).all():
                continue  # as in LDS: nothing else to be told by this draw
        columns.append((own, lanes))
    for few in (True, False):  # a few lanes rule most registers out
        for own, lanes in columns:
            if few:
                chosen = np.array([lane for lane in _FEW_LANES if lane < len(lanes)])
                some = own[registers[:, None], chosen] - lanes[chosen]
            else:
                some = own[registers] - lanes
            registers = registers[(some == some[:, :1]).all(1)]
            if not len(registers):
                return set()
    distances = [(own[registers, 0] - lanes[0]).tolist() for own, lanes in columns]
    return set(zip(*distances, strict=True))


_FEW_LANES: Final = (0, 1, 2, 4, 8, 16, 32)
"""Layouts are linear: these and the waves' first ones tell where all others lie."""
