"""Global stores that a barrier does not put in order with another wave's loads, on RDNA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..isa.barriers import has_special_barriers
from ..isa.waitflow.steps import CounterSteps
from ..isa.waitflow.unwaited_stores import UnwaitedStore, unwaited_stores
from .subject import LaunchedCode

if TYPE_CHECKING:
    import numpy as np

    from ..lanes.address_sweep import Places

    _Bytes = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

PlacesAt = Mapping[int, "Sequence[Places]"]
"""Index of an access -> where its lanes lie."""


def unordered_stores(
    code: LaunchedCode, steps: CounterSteps, places: Callable[[], PlacesAt]
) -> list[UnwaitedStore]:
    """The stores whose bytes another wave certainly loads, one load for each store.

    Nothing is told in CU mode, where the waves of a workgroup share a cache, nor of a launch that
    may have one wave.

    `steps`: reduced for the dataflow; `places`: where lanes lie; worked out only where a store and
    a load are in question.
    """
    machine, demand = code.machine, code.demand
    if machine is None or (machine.eus_cu_mode is not None and demand.cu_mode):
        return []
    if (demand.waves_per_workgroup or 1) == 1 or demand.waves_from == "largest":
        return []
    pairs = unwaited_stores(steps, code.function, machine.counters)
    if not pairs or has_special_barriers(code.function):
        return []
    at = places()
    found: dict[int, UnwaitedStore] = {}
    for pair in pairs:
        if pair.store not in found and _meet(at.get(pair.store, ()), at.get(pair.load, ())):
            found[pair.store] = pair
    return list(found.values())


def _meet(stores: Sequence[Places], loads: Sequence[Places]) -> bool:
    """Whether in all draws a wave loads what another one stores, and not it itself."""
    known = [each for each in (*stores, *loads) if not each.scattered and each.space == "global"]
    if not stores or not loads or len(known) < len(stores) + len(loads):
        return False
    draws = range(known[0].where.shape[0])
    return all(_meet_in(stores, loads, draw) for draw in draws)


def _meet_in(stores: Sequence[Places], loads: Sequence[Places], draw: int) -> bool:
    import numpy as np  # few kernels have such pairs

    stored, storing = _bytes_of(stores, draw)
    loaded, loading = _bytes_of(loads, draw)
    shared = np.isin(loaded, stored)
    if not shared.any():
        return False
    loaded, loading = loaded[shared], loading[shared]
    base = int(min(stored.min(), loaded.min()))
    own = np.isin((loaded - base) * _WAVES + loading, (stored - base) * _WAVES + storing)
    return not own.all()


_WAVES = 64
"""More than a workgroup has."""


def _bytes_of(accesses: Sequence[Places], draw: int) -> tuple[_Bytes, _Bytes]:
    """The addresses of all bytes that are accessed in a draw, and the wave of each."""
    import numpy as np

    addresses, waves = [], []
    for each in accesses:
        where = each.where[draw]
        active = np.ones(where.shape, bool) if each.active is None else each.active[draw]
        wave = np.nonzero(active)[0]
        addresses.append((where[active][:, None] + np.arange(each.size)).reshape(-1))
        waves.append(np.repeat(wave, each.size))
    return np.concatenate(addresses), np.concatenate(waves)
