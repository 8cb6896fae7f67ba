"""Drawn arguments and memory, by which a kernel is carried out without a launch.

Several draws stand side by side, each as a workgroup of its own: arguments, memory and LDS differ
from draw to draw, but for what is known of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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
        known = _LATEST.get("drawn")
        if known is None or known.arguments != arguments:
            random = np.random.default_rng(1)
            words = _drawn_arguments(random, arguments)
            known = _LATEST["drawn"] = _Drawn(arguments, words, random.bit_generator.state)
        self._words = known.words
        random = np.random.Generator(np.random.PCG64(0))
        random.bit_generator.state = known.state
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
            return _zeros(addresses, size)
        if addresses.ndim > 1 or size < 4:
            return self._draws.drawn(addresses, size)
        inside = addresses - KERNARG_ADDRESS
        draw = np.clip(inside // ARGUMENTS_APART, 0, DRAWS - 1)
        known = (inside >= 0) & (inside < DRAWS * ARGUMENTS_APART)
        dwords = np.arange(size // 4)[:, None]
        word = inside % ARGUMENTS_APART // 4 + dwords
        if not known.all():
            word_index = addresses // 4 + dwords
            word = np.where(known, word, word_index * 7919 + (word_index >> 11))
        rows: Array = self._words[draw, word % _WORDS]
        return rows

    def pass_over(self, count: int) -> None:
        """Goes on as if as many words had been drawn; see `_Draws`."""
        self._draws.pass_over(count)

    def write(self, addresses: Array, values: Array, size: int, outside: Outside) -> None:
        """Nothing is kept."""


class _Drawn(Struct, frozen=True):
    """The words that were drawn for some arguments, and the generator's state behind them."""

    arguments: Arguments
    words: Array
    state: Mapping[str, Any]


_LATEST: Final[dict[str, _Drawn]] = {}
"""A kernel's analyses draw for the same arguments; nobody writes to the words."""


def _drawn_arguments(random: np.random.Generator, arguments: Arguments) -> Array:
    """The words of the argument segments, uint32 [draw, word]; the known ones are set."""
    # Numbers of lines and pages, of half lines, and no more than multiples of 16 bytes.
    words = np.stack(
        [
            random.integers(5, 14, _WORDS) * 4096,
            random.integers(200, 800, _WORDS) * 2 * 32 + 32,
            random.integers(400, 1600, _WORDS) * 2 * 16 + 16,
        ]
    )
    for offset in arguments.loose:
        words[1:, offset // 4] += random.integers(0, 8, 2) * 2 + 1
    for offset in arguments.pointers if arguments.pointers is not None else range(0, 256, 8):
        words[:, offset // 4] = random.integers(5, 250, DRAWS) * 4096
        words[:, offset // 4 + 1] = random.integers(1, 7, DRAWS) * 4096
    for offset, word in arguments.words.items():
        words[:, offset // 4] = word & ALL
    return words.astype(U32)


class UnreadWords(MemoryWords):
    """LDS whose contents nobody looks at: zeros."""

    def __init__(self) -> None:
        super().__init__(np.zeros(64, np.uint8), 64)

    def gather(self, offsets: Array, size: int) -> Array:
        return _zeros(offsets, size)

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


def _zeros(places: Array, size: int) -> Array:
    """Zeros in the shape that `MemoryWords.gather` has."""
    shape = places.shape if size < 4 else (size // 4, *places.shape)
    return np.zeros(shape, {1: np.uint8, 2: np.uint16}.get(size, U32))


class _Draws:
    """Small numbers, each lane's own; those that nobody looks at are passed over.

    What is drawn next does not depend on which loads somebody looks at.
    """

    def __init__(self, random: np.random.Generator) -> None:
        self._random = random
        self._passed = 0
        """64-bit numbers of the generator that are still to be left out."""

    def drawn(self, places: Array, size: int) -> Array:
        """Draws numbers in the shape that `MemoryWords.gather` has."""
        if self._passed:
            bits = self._random.bit_generator
            assert isinstance(bits, np.random.PCG64)
            bits.advance(self._passed)
            self._passed = 0
        shape = places.shape if size < 4 else (size // 4, *places.shape)
        kind = {1: np.uint8, 2: np.uint16}.get(size, U32)
        return self._random.integers(0, 64, shape).astype(kind) * kind(16 if size >= 4 else 1)

    def pass_over(self, count: int) -> None:
        """Leaves out an even number of draws, of 32 bits each, of which none is rejected."""
        self._passed += count // 2


class Probe(ObservingMachine):
    """A machine with drawn memory, which keeps the accesses of steps in `seen`."""

    def __init__(self, memory: GlobalMemory) -> None:
        super().__init__(memory)
        self.seen: list[tuple[str, Array, Array | None, int, bool]] = []
        self.local = LocalMemory(1 << 30, 0)
        self.local.stride = 0
        self.drawn_lds = DrawnWords(np.random.default_rng(2))
        self.local.words = self.drawn_lds
        self.private = PrivateMemory(1 << 20, 0, 1, 64)
        self.private.words = self.local.words

    def before_lds(self, access: LaneAccess, values: Array | None = None) -> None:
        self.seen.append(("lds", access.where, access.usable, access.size, values is not None))

    def before_global(
        self, access: LaneAccess, values: Array | None = None, *, atomic: bool = False
    ) -> None:
        self.seen.append(("global", access.where, access.usable, access.size, values is not None))

    def note(self, kind: str, site: int, detail: str) -> None:
        """Does nothing: troubles that drawn values lead to are none of the kernel's."""
