"""Accesses of LDS by different waves that nothing keeps in order, found without running the kernel.

`trace` says which bytes each wave touches and between which barriers. Of two accesses at the
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

from ...model import Function, Machine
from ..slices import LDS_CLASSES
from ..unknowns import Arguments
from .accesses import AccessBytes, LdsAccess, LdsTrace
from .trace import traces_of

_LARGEST: Final = 1 << 18
"""No LDS has more bytes: lanes beyond take no part (Triton masks copies into LDS so)."""
_MOST_PAIRS: Final = 200
_MOST_COMPARED: Final = 300_000
"""Accesses of waves, once for each time between two barriers that they may last."""

Cause = Literal["barrier", "wait", "own-wait"]


class Race(Struct, frozen=True):
    """Two instructions that touch the same bytes in no order.

    Args:
        cause: `barrier`: none lies between; `wait`: one does, but the first may still be on its way
            there; `own-wait`: the same wave reads what it copies into LDS, and does not wait.
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
    """The races of a kernel, and how many of its accesses the answer rests on.

    Args:
        races: each pair of instructions once, in the order of the code.
        decided: how many accesses of LDS it is known of which bytes they touch.
        why: why nothing is known; empty where something is.
    """

    races: tuple[Race, ...]
    decided: int
    accesses: int
    why: str = ""


def races_of(
    function: Function,
    gpu: Machine,
    workgroup: tuple[int, int, int],
    arguments: Arguments | None = None,
) -> RaceReport:
    """The races of a kernel; see `traces_of` for what is to be passed."""
    accesses = sum(inst.cls in LDS_CLASSES for inst in function.instructions)
    if not accesses:
        return RaceReport((), 0, 0)
    traces = traces_of(function, gpu, workgroup, arguments)
    if traces.why:
        return RaceReport((), 0, accesses, traces.why)
    comparison = _Comparison(traces.ways)
    for way in traces.ways:
        if _spans(way) > _MOST_COMPARED:
            return RaceReport((), 0, accesses, "its accesses last over too many barriers")
        comparison.add(way)
    decided = len(traces.executed - traces.undecided)
    return RaceReport(comparison.races(), decided, accesses)


def _spans(way: LdsTrace) -> int:
    """How many times between barriers the accesses on a way last, over all waves."""
    latest = max(way.barriers, default=0)
    return sum(
        access.last.get(wave, latest) + 1 - first
        for access in way.accesses
        if access.parts
        for wave, first in access.first.items()
    )


class _Touched(Struct):
    """The granules that one wave touches between two barriers, as sets of bits."""

    reads: int = 0
    writes: int = 0
    atomics: int = 0
    accesses: list[tuple[LdsAccess, int]] = []


class _Comparison:
    """Compares the accesses of waves, way by way."""

    def __init__(self, ways: Sequence[LdsTrace]) -> None:
        self._granule = _granule(
            [p for way in ways for access in way.accesses for p in access.parts]
        )
        self._known: dict[tuple[int, bytes, bytes], list[int]] = {}
        self._of_parts: dict[int, list[int]] = {}
        """By identity: traces keep all parts, and have the same one where bytes are the same."""
        self._masks: dict[int, dict[int, int]] = {}
        self._races: dict[tuple[int, int], Race] = {}

    def add(self, way: LdsTrace) -> None:
        """Compares the accesses on one way."""
        self._trace = way
        self._masks = {access.number: self._of_access(access) for access in way.accesses}
        for between in self._epochs():
            self._between(between)
        for access, copies in way.overtaken:
            self._own(access, copies)

    def races(self) -> tuple[Race, ...]:
        """Returns each pair of instructions once, in the order of the code."""
        return tuple(sorted(self._races.values(), key=lambda race: (race.first, race.second)))

    def _of_access(self, access: LdsAccess) -> dict[int, int]:
        """Returns the granules that an access touches, by wave."""
        masks = dict.fromkeys(access.waves, 0)
        for part in access.parts:
            of_part = self._of_parts.get(id(part))
            if of_part is None:
                of_part = self._of_parts[id(part)] = self._of_part(part)
            if len(access.parts) == 1:
                return dict(zip(access.waves, of_part, strict=True))
            for wave, mask in zip(access.waves, of_part, strict=True):
                masks[wave] |= mask
        return masks

    def _of_part(self, part: AccessBytes) -> list[int]:
        """Returns the granules of a part by wave; equal patterns are worked out once."""
        base = int(part.where.min()) // self._granule * self._granule
        relative = part.where - base
        active = b"" if part.active is None else part.active.tobytes()
        key = (part.size, relative.tobytes(), active)
        masks = self._known.get(key)
        if masks is None:
            masks = self._known[key] = self._masks_of(relative, part)
        shift = base // self._granule
        return [mask << shift for mask in masks]

    def _masks_of(self, relative: np.ndarray, part: AccessBytes) -> list[int]:
        """Returns the granules that each wave touches, as sets of bits."""
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

    def _epochs(self) -> Iterator[dict[int, _Touched]]:
        """Yields, for each time between two barriers, what each wave touches in it."""
        latest = max(self._trace.barriers, default=0)
        epochs: list[dict[int, _Touched]] = [{} for _ in range(latest + 1)]
        for access in self._trace.accesses:
            if not access.parts:
                continue
            for wave, mask in self._masks[access.number].items():
                if not mask:
                    continue
                for epoch in range(access.first[wave], access.last.get(wave, latest) + 1):
                    waves = epochs[epoch]
                    touched = waves.get(wave)
                    if touched is None:
                        touched = waves[wave] = _Touched(accesses=[])
                    touched.accesses.append((access, mask))
                    if access.kind == "read":
                        touched.reads |= mask
                    elif access.kind == "atomic":
                        touched.atomics |= mask
                    else:
                        touched.writes |= mask
        yield from epochs

    def _between(self, touched: dict[int, _Touched]) -> None:
        """Compares every wave's reads with every other wave's writes between two barriers."""
        for reading_wave, reading in touched.items():
            reads = reading.reads | reading.atomics
            if not reads:
                continue
            for writing_wave, writing in touched.items():
                if reading_wave == writing_wave:
                    continue
                meeting = reads & writing.writes | reading.reads & writing.atomics
                if meeting and len(self._races) < _MOST_PAIRS:
                    self._pairs(reading_wave, reading, writing_wave, writing, meeting)

    def _pairs(
        self,
        reading_wave: int,
        reading: _Touched,
        writing_wave: int,
        writing: _Touched,
        meeting: int,
    ) -> None:
        """The accesses that meet: those of `reading` that read, of `writing` that write."""
        for writer, written in writing.accesses:
            if writer.kind == "read" or not written & meeting:
                continue
            own = [
                (access.number, mask)
                for access, mask in reading.accesses
                if access.site == writer.site and mask & written
            ]
            for reader, read in reading.accesses:
                if reader.kind in ("write", "copy") or reader.kind == writer.kind:
                    continue
                both = read & written
                # What the wave has written there itself, by the same instruction: the same value.
                for number, mask in own:
                    if number < reader.number:
                        both &= ~mask
                if both:
                    self._add_race(reader, reading_wave, writer, writing_wave, both.bit_count())

    def _add_race(
        self, reader: LdsAccess, reading: int, writer: LdsAccess, writing: int, granules: int
    ) -> None:
        """Keeps a race, with the barrier or the wait that should have prevented it."""
        first, second = (reader, writer) if reader.number < writer.number else (writer, reader)
        key = (first.site, second.site)
        if key in self._races or first.number == second.number:
            return
        waves = {reader.number: reading, writer.number: writing}
        first_wave, second_wave = waves[first.number], waves[second.number]
        # Barriers that the first wave has come to since, and the second one has passed.
        issued = first.first[first_wave]
        barrier = None
        if second.first[second_wave] > issued:
            passed = self._trace.barrier_at[first_wave]
            barrier = passed[issued] if issued < len(passed) else None
        self._races[key] = Race(
            *key,
            first.kind != "read",
            second.kind != "read",
            "barrier" if barrier is None else "wait",
            barrier,
            first.site >= second.site,
            granules * self._granule,
        )

    def _own(self, access: LdsAccess, copies: Sequence[LdsAccess]) -> None:
        """Compares a wave's access with the copies into LDS that it has not waited for."""
        for copy in copies:
            key = (copy.site, access.site)
            if key in self._races or len(self._races) >= _MOST_PAIRS:
                continue
            own, copied = self._masks[access.number], self._masks[copy.number]
            meeting = max(own[wave] & copied.get(wave, 0) for wave in own)
            if meeting:
                self._races[key] = Race(
                    *key, True, access.kind != "read", "own-wait", None,
                    copy.site > access.site, meeting.bit_count() * self._granule,
                )  # fmt: skip


def _granule(parts: Sequence[AccessBytes]) -> int:
    """The largest power of 2 that all accesses begin and end at, at most 16 bytes."""
    bits = 16
    for part in {id(part): part for part in parts}.values():
        bits |= part.size | int(np.bitwise_or.reduce(part.where.reshape(-1)))
    return bits & -bits
