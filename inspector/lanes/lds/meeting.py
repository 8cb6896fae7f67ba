"""Which accesses of LDS may meet at any time: by which two waves touch the same bytes.

For each instruction the bytes of all its executions are joined, on all ways that were followed, so
that two buffers used in turns count as one. An instruction whose bytes are not known, or that
touched new ones the last time it was executed, meets all others: a loop may go on to further bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...model import Function
from ..slices import LDS_CLASSES
from .accesses import KINDS, LdsTrace, LdsTraces

_MOST_SITES: Final = 1500
"""Accesses of LDS beyond which they are not compared with each other."""


class Meeting:
    """Joins the bytes of each instruction, way by way."""

    def __init__(self, function: Function, traces: LdsTraces) -> None:
        self._kinds = {
            inst.index: KINDS.get(inst.cls)
            for inst in function.instructions
            if inst.cls in LDS_CLASSES
        }
        self._unknown = (self._kinds.keys() - traces.executed) | traces.undecided
        self._in_loops = {
            index
            for loop in function.loops
            for block in loop.blocks
            for index in range(function.blocks[block].start, function.blocks[block].stop)
        }
        self._touched: dict[int, dict[int, int]] = {}
        self._growing: dict[tuple[int, int], bool] = {}
        self.same_barriers = True
        """Whether all waves pass the same barriers, in the same order."""

    def add(self, way: LdsTrace, masks: Mapping[int, Mapping[int, int]]) -> None:
        """Adds the accesses on one way.

        Args:
            way: the trace.
            masks: by the access's number and wave, the granules that it touches, as sets of bits.
        """
        self.same_barriers &= all(passed == way.barrier_at[0] for passed in way.barrier_at)
        for access in way.accesses:
            touched = self._touched.setdefault(access.site, {})
            for wave, mask in masks[access.number].items():
                previous = touched.get(wave)
                joined = mask if previous is None else mask | previous
                self._growing[access.site, wave] = previous is not None and joined != previous
                touched[wave] = joined

    def result(self) -> Mapping[int, frozenset[int]] | None:
        """The instructions that each access may meet; None where there are too many."""
        if len(self._kinds) > _MOST_SITES:
            return None
        growing = {
            site for (site, _), grows in self._growing.items() if grows and site in self._in_loops
        }
        unknown = self._unknown | growing
        pairs: dict[int, set[int]] = {site: set() for site in self._kinds}
        sites = list(self._kinds)
        by_all = {site: _of_any_wave(self._touched.get(site, {})) for site in sites}
        by_others = {site: _of_other_waves(touched) for site, touched in self._touched.items()}
        reading = [site for site in sites if self._kinds[site] == "read"]
        others = [site for site in sites if self._kinds[site] != "read"]
        for number, site in enumerate(others):
            second = [*reading, *others[number:]]
            if site not in unknown:
                mask, of_site = by_all[site], by_others.get(site, {})
                second = [
                    other
                    for other in second
                    if other in unknown
                    or (by_all[other] & mask and _meet(mask, of_site, self._touched[other]))
                ]
            pairs[site].update(second)
            for other in second:
                pairs[other].add(site)
        return {site: frozenset(met) for site, met in pairs.items()}


def _of_any_wave(touched: Mapping[int, int]) -> int:
    mask = 0
    for own in touched.values():
        mask |= own
    return mask


def _of_other_waves(touched: Mapping[int, int]) -> dict[int, int]:
    """By wave, the granules that the others touch."""
    return {
        wave: _of_any_wave({other: mask for other, mask in touched.items() if other != wave})
        for wave in touched
    }


def _meet(all_first: int, others_first: Mapping[int, int], second: Mapping[int, int]) -> bool:
    """Whether two different waves touch the same granules.

    Args:
        all_first: the granules that any wave touches by the first access.
        others_first: by wave, those that the others touch by it.
        second: by wave, those that it touches by the second access.
    """
    return any(others_first.get(wave, all_first) & mask for wave, mask in second.items())
