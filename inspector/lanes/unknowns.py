"""Random numbers in place of unknown arguments and memory, so that code runs without a launch.

Several draws are executed side by side, each as a workgroup of its own: arguments, memory and LDS
differ from draw to draw, except for known arguments. What all draws agree on rests on no unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

import numpy as np
from msgspec import Struct

from ..emulator.machine import LaneAccess, ObservingMachine
from ..emulator.memory import GlobalMemory, LocalMemory, MemoryWords, Outside, PrivateMemory
from ..emulator.start import KERNARG_ADDRESS
from ..emulator.waves import ALL, U32, Array

DRAWS: Final = 3
"""How often unknown values are drawn."""
ARGUMENTS_APART: Final = 1 << 16
"""Bytes from one draw's kernel argument segment to the next one's."""
_WORDS: Final = 2048
"""Words of each segment that are drawn; those behind repeat them."""
_POINTERS_END: Final = 256
"""Bytes at the begin of the segment that hold addresses where nobody knows which words do."""
_PAGE: Final = 4096
_SCATTER: Final = 7919
"""A prime by which neighbours in memory read words of the segment that lie far apart."""


class Arguments(Struct, frozen=True):
    """The known parts of the kernel argument segment, by byte offset.

    Args:
        words: 32-bit words whose values are known.
        pointers: where 64-bit addresses lie; None: that is not known.
        loose: words that need be no multiple of 16.
    """

    words: Mapping[int, int] = {}
    pointers: frozenset[int] | None = None
    loose: frozenset[int] = frozenset()


class DrawnMemory(GlobalMemory):
    """Memory whose contents are unknown: words by address and draw.

    `is_read`: whether anybody looks at what the lanes of a wave read; zeros will do otherwise.
    """

    def __init__(self, arguments: Arguments) -> None:
        """Draws words that stand for sizes, strides and addresses; the known ones are set."""
        super().__init__(())
        segments = _segments_for(arguments)
        self._words = segments.words
        random = np.random.Generator(np.random.PCG64(0))
        random.bit_generator.state = segments.state
        self._draws = _Draws(random)
        self.is_read = True

    def argument(self, offset: int, size: int) -> Array:
        """An argument of 4 or 8 bytes as a signed number, int64 [draw]."""
        low = self._words[:, offset // 4].astype(np.int64)
        if size == 4:
            return np.where(low >> 31 & 1, low - (1 << 32), low)
        return low | self._words[:, offset // 4 + 1].astype(np.int64) << 32

    def read(
        self, addresses: Array, size: int, outside: Outside, wanted: Array | None = None
    ) -> Array:
        """Returns argument words where addresses lie in their segments, else drawn memory."""
        if addresses.ndim > 1 and not self.is_read:
            self.pass_over(addresses.size * max(1, size // 4))
            return np.zeros(*_form(addresses, size))
        if addresses.ndim > 1 or size < 4:
            return self._draws.drawn(addresses, size)
        inside = addresses - KERNARG_ADDRESS
        draw = np.clip(inside // ARGUMENTS_APART, 0, DRAWS - 1)
        known = (inside >= 0) & (inside < DRAWS * ARGUMENTS_APART)
        dwords = np.arange(size // 4)[:, None]
        word = inside % ARGUMENTS_APART // 4 + dwords
        if not known.all():
            word_index = addresses // 4 + dwords
            word = np.where(known, word, word_index * _SCATTER + word_index // _WORDS)
        rows: Array = self._words[draw, word % _WORDS]
        return rows

    def pass_over(self, count: int) -> None:
        """Goes on as if as many words had been drawn; see `_Draws`."""
        self._draws.pass_over(count)

    def write(self, addresses: Array, values: Array, size: int, outside: Outside) -> None:
        """Nothing is kept."""


class _Segments(Struct, frozen=True):
    """The argument segments for some arguments, and the generator's state after drawing them.

    `words`: uint32 [draw, word].
    """

    arguments: Arguments
    words: Array
    state: Mapping[str, Any]


_latest: _Segments | None = None
"""A kernel's analyses draw for the same arguments, one after the other; nobody writes to them."""


def _segments_for(arguments: Arguments) -> _Segments:
    global _latest
    segments = _latest
    if segments is None or segments.arguments != arguments:
        random = np.random.default_rng(1)
        words = _drawn_words(random, arguments)
        segments = _latest = _Segments(arguments, words, random.bit_generator.state)
    return segments


def _drawn_words(random: np.random.Generator, arguments: Arguments) -> Array:
    """The words of the argument segments; the known ones are set."""

    def odd_multiples(number: int, low: int, high: int, count: int) -> Array:
        return (random.integers(low, high, count) * 2 + 1) * number

    # As sizes and strides: multiples of a page in one draw, of 32 or 16 and no more in the others.
    pages = random.integers(5, 14, _WORDS) * _PAGE
    halves_of_lines = odd_multiples(32, 200, 800, _WORDS)
    words = np.stack([pages, halves_of_lines, odd_multiples(16, 400, 1600, _WORDS)])
    for offset in arguments.loose:
        words[1:, offset // 4] += odd_multiples(1, 0, 8, DRAWS - 1)
    pointers = arguments.pointers
    for offset in range(0, _POINTERS_END, 8) if pointers is None else pointers:
        words[:, offset // 4] = random.integers(5, 250, DRAWS) * _PAGE
        words[:, offset // 4 + 1] = random.integers(1, 7, DRAWS) * _PAGE
    for offset, word in arguments.words.items():
        words[:, offset // 4] = word & ALL
    return words.astype(U32)


class UnreadWords(MemoryWords):
    """LDS whose contents nobody looks at: zeros."""

    def __init__(self) -> None:
        super().__init__(np.zeros(64, np.uint8), 64)

    def gather(self, offsets: Array, size: int) -> Array:
        return np.zeros(*_form(offsets, size))

    def scatter(self, offsets: Array, values: Array, size: int) -> None:
        """Nothing is kept."""


class DrawnWords(UnreadWords):
    """LDS whose contents are unknown."""

    def __init__(self, random: np.random.Generator) -> None:
        super().__init__()
        self._draws = _Draws(random)

    def gather(self, offsets: Array, size: int) -> Array:
        return self._draws.drawn(offsets, size)

    def pass_over(self, count: int) -> None:
        """Goes on as if as many words had been drawn; see `_Draws`."""
        self._draws.pass_over(count)


def _form(places: Array, size: int) -> tuple[tuple[int, ...], type[np.unsignedinteger[Any]]]:
    """Shape and type of what `MemoryWords.gather` returns."""
    shape = places.shape if size < 4 else (size // 4, *places.shape)
    return shape, {1: np.uint8, 2: np.uint16}.get(size, U32)


class _Draws:
    """Small numbers, each lane's own; below 64, and multiples of 16 where they are words.

    Draws for loads that nobody looks at are skipped, so that those behind them stay the same.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._passed = 0
        """64-bit numbers of the generator that are still to be left out."""

    def drawn(self, places: Array, size: int) -> Array:
        if self._passed:
            bits = self._random.bit_generator
            assert isinstance(bits, np.random.PCG64)
            bits.advance(self._passed)
            self._passed = 0
        shape, kind = _form(places, size)
        return self._random.integers(0, 64, shape).astype(kind) * kind(16 if size >= 4 else 1)

    def pass_over(self, count: int) -> None:
        """Skips an even number of draws: two are made of each number, and none is rejected."""
        self._passed += count // 2


class ProbedAccess(NamedTuple):
    """An access of a step, by the lanes of all waves."""

    space: Literal["lds", "global"]
    access: LaneAccess
    writes: bool


class Probe(ObservingMachine):
    """A machine with drawn memory, which keeps the accesses of steps in `accesses`."""

    def __init__(self, memory: GlobalMemory) -> None:
        super().__init__(memory)
        self.accesses: list[ProbedAccess] = []
        self.local = LocalMemory(1 << 30, 0)
        self.local.stride = 0
        self.drawn_lds = DrawnWords(np.random.default_rng(2))
        self.local.words = self.drawn_lds
        self.private = PrivateMemory(1 << 20, 0, 1, 64)
        self.private.words = self.local.words

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        self.accesses.append(ProbedAccess("lds", access, values is not None))

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        self.accesses.append(ProbedAccess("global", access, values is not None))

    def note(self, kind: str, site: int, detail: str) -> None:
        """Does nothing: what goes wrong with drawn values need not go wrong in a launch."""
