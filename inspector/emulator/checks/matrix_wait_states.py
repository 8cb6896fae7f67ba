"""Wait states that must stand behind a matrix instruction of CDNA2 to CDNA4.

Sources: LLVM 22, GCNHazardRecognizer (checkMAIHazards90A, checkMAIVALUHazards), and CDNA4 ISA, 7.6,
which ask for the same but in two places, where LLVM's fewer wait states hold here: gfx950's
overwritten result of a 16x16x4 product of f64 (19 in the document, 11 in LLVM), and a matrix
instruction behind a dot product (3, 0 in LLVM). Passes are the machine file's cycles by 4. An
accumulator that the next product takes over as a whole needs 0: the hardware takes care of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ...isa.dataflow.effects import bits_of
from ...isa.dataflow.operands import Decoded, Operand

_CLOCKS_OF_A_PASS: Final = 4
_DOUBLE: Final = re.compile(r"v_mfma_f64_\w+")
_SINGLE: Final = re.compile(r"v_mfma_f32_\d+x\d+x\d+(_\d+b)?_?f32")
"""Products of f32, which gfx940 and later run outside of the XDL unit (LLVM, is_gfx940_xdl)."""
_AFTER_DOUBLE: Final = {
    "accumulator": (4, 9, 17),
    "source": (6, 11, 19),
    "read": (6, 11, 19),
    "memory": (9, 18, 18),
    "overwriting": (6, 11, 11),
}
"""How the result of a product of f64 is met -> wait states behind one of 4x4x4, behind others, and
behind others on gfx950.
"""


class EarlierInstruction(Struct, frozen=True):
    """An instruction that later ones may come too close to.

    `writes`: registers of its result that no later product has waited for and written.
    `accumulates`: registers that it reads as C.
    """

    site: int
    matrix: bool
    result: int
    writes: int
    accumulates: int = 0
    dot: str = ""


class WaitStates:
    """The wait states that a function's instructions need between them.

    `cycles`: of matrix instructions, by mnemonic; `:narrow` behind it where formats of 4 and 6 bits
    take fewer, which are then assumed.
    """

    def __init__(self, decoded: Sequence[Decoded], arch: str, cycles: Mapping[str, int]) -> None:
        self._decoded = decoded
        self._from_gfx940 = arch != "gfx90a"
        self._is_gfx950 = arch == "gfx950"
        self._cycles = cycles

    def passes(self, site: int) -> int | None:
        """Passes of a matrix instruction; None where the machine file does not say."""
        name = self._decoded[site].name
        cycles = self._cycles.get(f"{name}:narrow", self._cycles.get(name))
        return None if cycles is None else cycles // _CLOCKS_OF_A_PASS

    def is_double(self, site: int) -> bool:
        """Whether it is a product of f64."""
        return _DOUBLE.fullmatch(self._decoded[site].name) is not None

    def is_small(self, site: int) -> bool:
        """Whether it is a product of 4x4x4."""
        return "4x4x4" in self._decoded[site].name

    def is_xdl(self, site: int) -> bool:
        """Whether the XDL unit carries it out; up to gfx90a all but those of f64."""
        if self.is_double(site):
            return False
        return not (self._from_gfx940 and _SINGLE.fullmatch(self._decoded[site].name))

    def to_accumulator(self, past: EarlierInstruction, site: int, operand: Operand) -> int:
        """Wait states where matrix instruction `past` writes the C of that at `site`."""
        passes = self.passes(past.site)
        if passes is None:
            return 0
        double = self.is_double(site)
        if self.is_double(past.site):
            states = 0 if self.is_xdl(site) else self._after_double(past, "accumulator")
            if bits_of(operand) != past.result:
                return states
            return states if self.is_small(past.site) and double and self.is_small(site) else 0
        if bits_of(operand) == past.result:
            return 2 if self._from_gfx940 and passes == 2 else 0
        if not self._from_gfx940:
            return passes + int(double)
        if not self.is_xdl(past.site):
            return 0 if self.is_xdl(site) else passes
        extra = self._is_gfx950 and (passes != 2 or self.is_xdl(site))
        return passes + 1 + int(extra)

    def to_source(self, past: EarlierInstruction, site: int) -> int:
        """Wait states where matrix instruction `past` writes the A or B of that at `site`."""
        if self.is_double(past.site):
            return self._after_double(past, "source")
        return self._until_written(past)

    def to_other(self, past: EarlierInstruction, *, memory: bool) -> int:
        """Wait states where another instruction reads what matrix instruction `past` writes."""
        if self.is_double(past.site):
            return self._after_double(past, "memory" if memory else "read")
        return self._until_written(past)

    def to_overwriting(self, past: EarlierInstruction) -> int:
        """Wait states where another instruction writes what `past` writes too."""
        if self.is_double(past.site):
            return self._after_double(past, "overwriting")
        return self._until_written(past)

    def _after_double(self, past: EarlierInstruction, use: str) -> int:
        small, large, on_gfx950 = _AFTER_DOUBLE[use]
        if self.is_small(past.site):
            return small
        return on_gfx950 if self._is_gfx950 else large

    def _until_written(self, past: EarlierInstruction) -> int:
        """Wait states until a product of other types than f64 has written its result."""
        passes = self.passes(past.site)
        if passes is None:
            return 0
        if not self._from_gfx940 or self.is_xdl(past.site):
            return passes + 3 + int(self._is_gfx950 and passes != 2)
        return passes + 2

    def from_accumulator(self, past: EarlierInstruction) -> int:
        """Wait states where another instruction writes what `past` reads as C."""
        passes = self.passes(past.site)
        if passes is None or self.is_double(past.site):
            return 0
        return 0 if self._from_gfx940 and not self.is_xdl(past.site) else passes - 1
