"""Accesses of LDS by different waves that nothing keeps in order, found without running the kernel.

`lds_trace` says which bytes each wave touches and between which barriers. Of two accesses at the
same time one of which writes, only those are told whose bytes are known and meet for certain.

Nothing is told of two writes (layouts that hold elements twice write the same values), of a read of
bytes that its own wave has written by the same instruction as the other one has (the same), and
of two atomics. Accesses of one wave are in order, but for copies from memory into LDS, which a wait
of their own counter ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

import numpy as np
from msgspec import Struct

from ..model import Function, Machine
from .lds_accesses import Access, Part, Trace
from .lds_slices import LDS_CLASSES
from .lds_trace import traces_of
from .unknowns import Arguments

_LARGEST: Final = 1 << 18
"""No LDS has more bytes: lanes beyond take no part (Triton masks copies into LDS so)."""
_MOST_PAIRS: Final = 200

Cause = Literal["barrier", "wait", "own-wait"]


class Race(Struct, frozen=True):
    """Two instructions that touch the same bytes in no order.

    Args:
        first: index of the one that the code comes to first.
        second: that of the other one.
        first_writes, second_writes: which of them do.
        cause: `barrier`: none lies between; `wait`: one does, but the first may still be on its way
            there; `own-wait`: the same wave reads what it copies into LDS, and does not wait.
        barrier: index of that barrier.
        carried: whether the second is of a later iteration, so that it may stand before the first.
        bytes: how many bytes of two waves meet.
    """

    first: int
    second: int
    first_writes: bool
    second_writes: bool
    cause: Cause
    barrier: int | None
    carried: bool
    bytes: int


class RaceReport(Struct, frozen=True):
    """What is known of a kernel's races.

    Args:
        races: each pair of instructions once, in the order of the code.
        decided: how many accesses of LDS it is known of which bytes they touch.
        accesses: how many there are.
        why: why nothing is known; empty where something is.
    """

    races: tuple[Race, ...]
    decided: int
    accesses: int
    why: str = ""


def races_of(
    function: Function,
    gpu: Machine,
    waves: int,
    arguments: Arguments | None = None,
    *,
    in_a_row: bool = False,
) -> RaceReport:
    """The races of a kernel; see `traces_of` for what is to be passed."""
    accesses = sum(inst.cls in LDS_CLASSES for inst in function.instructions)
    if not accesses:
        return RaceReport((), 0, 0)
    traces = traces_of(function, gpu, waves, arguments, in_a_row=in_a_row)
    if traces.why:
        return RaceReport((), 0, accesses, traces.why)
    comparison = _Comparison(traces.ways)
    for way in traces.ways:
        comparison.add(way)
    return RaceReport(comparison.races(), len(traces.executed - traces.undecided), accesses)


class _Touched(Struct):
    """What one wave does between two barriers, as sets of granules."""

    reads: int = 0
    writes: int = 0
    atomics: int = 0
    accesses: list[tuple[Access, int]] = []


class _Comparison:
    def __init__(self, ways: Sequence[Trace]) -> None:
        self._granule = _granule(
            [p for way in ways for access in way.accesses for p in access.parts]
        )
        self._known: dict[tuple[int, bytes, bytes], list[int]] = {}
        self._masks: dict[int, dict[int, int]] = {}
        self._found: dict[tuple[int, int], Race] = {}

    def add(self, way: Trace) -> None:
        """Compares what was met on one way."""
        self._trace = way
        self._masks = {access.number: self._of_access(access) for access in way.accesses}
        for between in self._epochs():
            self._between(between)
        for access, copies in way.overtaken:
            self._own(access, copies)

    def races(self) -> tuple[Race, ...]:
        """Each pair of instructions once."""
        return tuple(sorted(self._found.values(), key=lambda race: (race.first, race.second)))

    # ------------------------------------------------------------------ sets of granules

    def _of_access(self, access: Access) -> dict[int, int]:
        """By wave what it touches."""
        masks = dict.fromkeys(access.waves, 0)
        for part in access.parts:
            for wave, mask in zip(access.waves, self._of_part(part), strict=True):
                masks[wave] |= mask
        return masks

    def _of_part(self, part: Part) -> list[int]:
        base = int(part.where.min()) // self._granule * self._granule
        relative = part.where - base
        active = b"" if part.active is None else part.active.tobytes()
        key = (part.size, relative.tobytes(), active)
        masks = self._known.get(key)
        if masks is None:
            masks = self._known[key] = self._masks_of(relative, part)
        shift = base // self._granule
        return [mask << shift for mask in masks]

    def _masks_of(self, relative: np.ndarray, part: Part) -> list[int]:
        inside = part.where < _LARGEST
        if part.active is not None:
            inside &= part.active
        waves, lanes = np.nonzero(inside)
        if not len(waves):
            return [0] * len(relative)
        first = relative[waves, lanes]
        last = (first + part.size - 1) // self._granule
        first = first // self._granule
        bits = np.zeros((len(relative), int(last.max()) + 1), bool)
        for step in range(int((last - first).max()) + 1):
            bits[waves, np.minimum(first + step, last)] = True
        packed = np.packbits(bits, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]

    # ------------------------------------------------------------------ comparing

    def _epochs(self) -> Iterator[dict[int, _Touched]]:
        """For each time between two barriers, by wave what is under way."""
        latest = max(self._trace.barriers, default=0)
        epochs: list[dict[int, _Touched]] = [{} for _ in range(latest + 1)]
        for access in self._trace.accesses:
            if not access.parts:
                continue
            for wave, mask in self._masks[access.number].items():
                if not mask:
                    continue
                for epoch in range(access.first[wave], access.last.get(wave, latest) + 1):
                    touched = epochs[epoch].setdefault(wave, _Touched(accesses=[]))
                    touched.accesses.append((access, mask))
                    if access.kind == "read":
                        touched.reads |= mask
                    elif access.kind == "atomic":
                        touched.atomics |= mask
                    else:
                        touched.writes |= mask
        yield from epochs

    def _between(self, touched: dict[int, _Touched]) -> None:
        for wave, one in touched.items():
            reads = one.reads | one.atomics
            if not reads:
                continue
            for other_wave, other in touched.items():
                if wave == other_wave:
                    continue
                meeting = reads & other.writes | one.reads & other.atomics
                if meeting and len(self._found) < _MOST_PAIRS:
                    self._pairs(wave, one, other_wave, other, meeting)

    def _pairs(
        self, wave: int, one: _Touched, other_wave: int, other: _Touched, meeting: int
    ) -> None:
        """The accesses that meet: of `one` those that read, of `other` those that write."""
        for writer, written in other.accesses:
            if writer.kind == "read" or not written & meeting:
                continue
            own = [
                (access.number, mask)
                for access, mask in one.accesses
                if access.site == writer.site and mask & written
            ]
            for reader, read in one.accesses:
                if reader.kind in ("write", "copy") or reader.kind == writer.kind:
                    continue
                both = read & written
                # What the wave has written there itself, by the same instruction: the same value.
                for number, mask in own:
                    if number < reader.number:
                        both &= ~mask
                if both:
                    self._tell(reader, wave, writer, other_wave, both.bit_count())

    def _tell(
        self, reader: Access, reading: int, writer: Access, writing: int, granules: int
    ) -> None:
        first, second = (reader, writer) if reader.number < writer.number else (writer, reader)
        key = (first.site, second.site)
        if key in self._found or first.number == second.number:
            return
        waves = {reader.number: reading, writer.number: writing}
        one, two = waves[first.number], waves[second.number]
        # Barriers that the first wave has come to since, and the second one has passed.
        issued = first.first[one]
        barrier = None
        if second.first[two] > issued:
            passed = self._trace.barrier_at[one]
            barrier = passed[issued] if issued < len(passed) else None
        self._found[key] = Race(
            *key,
            first.kind != "read",
            second.kind != "read",
            "barrier" if barrier is None else "wait",
            barrier,
            first.site >= second.site,
            granules * self._granule,
        )

    def _own(self, access: Access, copies: Sequence[Access]) -> None:
        for copy in copies:
            key = (copy.site, access.site)
            if key in self._found or len(self._found) >= _MOST_PAIRS:
                continue
            own, copied = self._masks[access.number], self._masks[copy.number]
            meeting = max(own[wave] & copied.get(wave, 0) for wave in own)
            if meeting:
                self._found[key] = Race(
                    *key, True, access.kind != "read", "own-wait", None,
                    copy.site > access.site, meeting.bit_count() * self._granule,
                )  # fmt: skip


def _granule(parts: Sequence[Part]) -> int:
    """The largest power of 2 that all accesses begin and end at, at most 16 bytes."""
    bits = 16
    for part in parts:
        bits |= part.size | int(np.bitwise_or.reduce(part.where, axis=None))
    return bits & -bits
