"""Wait states that the matrix cores of CDNA2 to CDNA4 leave to software, and code without them.

These GPUs do not wait by themselves when an instruction meets the registers of a matrix
instruction that is not done, when a matrix instruction reads what the VALU has just written, or
when an instruction uses the result of a dot product: a number of other instructions, or `s_nop`,
must stand between. The check looks at the code once, on every path, and costs nothing while it
runs; only places whose instructions were executed are reported. How many wait states are
needed: `mfma_wait_states`.

Wait states that must stand behind a matrix instruction of CDNA2 to CDNA4.

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
from msgspec.structs import replace

from ...isa.dataflow.effects import RegisterEffect, bits_of
from ...isa.dataflow.operands import EXEC, Decoded, Operand, scalar_bits
from ...model import Function, Instruction

_CLOCKS_OF_A_PASS: Final = 4
_DOUBLE: Final = re.compile(r"v_mfma_f64_\w+")
_SINGLE: Final = re.compile(r"v_mfma_f32_\d+x\d+x\d+(_\d+b)?_?f32")
"""Products of f32, which gfx940 and later run outside of the XDL unit (LLVM, is_gfx940_xdl)."""


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

    def __init__(
        self, function: Function, decoded: Sequence[Decoded], arch: str, cycles: Mapping[str, int]
    ) -> None:
        self.instructions = function.instructions
        self.decoded = decoded
        self._from_gfx940 = arch != "gfx90a"
        self._is_gfx950 = arch == "gfx950"
        self._cycles = cycles

    def passes(self, site: int) -> int | None:
        """Passes of a matrix instruction; None where the machine file does not say."""
        name = self.decoded[site].name
        cycles = self._cycles.get(f"{name}:narrow", self._cycles.get(name))
        return None if cycles is None else cycles // _CLOCKS_OF_A_PASS

    def is_double(self, site: int) -> bool:
        """Whether it is a product of f64."""
        return _DOUBLE.fullmatch(self.decoded[site].name) is not None

    def is_xdl(self, site: int) -> bool:
        """Whether the XDL unit carries it out; up to gfx90a all but those of f64."""
        if self.is_double(site):
            return False
        return not (self._from_gfx940 and _SINGLE.fullmatch(self.decoded[site].name))

    def to_accumulator(self, past: EarlierInstruction, site: int, operand: Operand) -> int:
        """Wait states where matrix instruction `past` writes the C of that at `site`."""
        passes = self.passes(past.site)
        if passes is None:
            return 0
        double = self.is_double(site)
        if self.is_double(past.site):
            small = "4x4x4" in self.decoded[past.site].name
            if bits_of(operand) == past.result:
                return 4 if small and double and "4x4x4" in self.decoded[site].name else 0
            if not (double or self._from_gfx940) or self.is_xdl(site):
                return 0
            return 4 if small else 17 if self._is_gfx950 else 9
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
            if "4x4x4" in self.decoded[past.site].name:
                return 6
            return 19 if self._is_gfx950 else 11
        return self._until_written(past)

    def to_other(self, past: EarlierInstruction, *, memory: bool) -> int:
        """Wait states where another instruction reads what matrix instruction `past` writes."""
        if self.is_double(past.site):
            if "4x4x4" in self.decoded[past.site].name:
                return 9 if memory else 6
            return 18 if memory else 19 if self._is_gfx950 else 11
        return self._until_written(past)

    def to_overwriting(self, past: EarlierInstruction) -> int:
        """Wait states where another instruction writes what `past` writes too."""
        if self.is_double(past.site):
            return 6 if "4x4x4" in self.decoded[past.site].name else 11
        return self._until_written(past)

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


ARCHS: Final = frozenset({"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
LONGEST: Final = 20
"""No hazard reaches further, in wait states."""
_JUMP: Final = 1
"""Wait states that a branch which is taken is given beyond its own. No document says so: LLVM
counts the s_branch behind it, which is not executed, and its loops would be reported without."""
_VALU: Final = frozenset({"valu", "acc_move", "cross_lane"})
_MEMORY: Final = frozenset(
    {
        "lds_read", "lds_write", "lds_atomic", "global_load", "global_store", "atomic",
        "scratch_load", "scratch_store", "lds_direct",
    }
)  # fmt: skip


class Hazard(Struct, frozen=True):
    """Two instructions that stand too close.

    `needed`: wait states that must lie between. `between`: those that do.
    """

    first: int
    second: int
    needed: int
    between: int
    why: str


def wait_states(inst: Instruction, parts: Decoded) -> int:
    """How many wait states an instruction is worth."""
    if parts.name != "s_nop":
        return 1
    return (parts.operands[0].integer or 0) + 1


def hazards_of(
    function: Function,
    decoded: Sequence[Decoded],
    effects: Sequence[RegisterEffect],
    arch: str,
    cycles: Mapping[str, int],
) -> list[Hazard]:
    """All pairs of instructions that stand too close on some path.

    `arch`: gfx name; others than `ARCHS` have none of these hazards. `cycles`: of matrix
    instructions, by mnemonic; `:narrow` behind it where formats of 4 and 6 bits take fewer, which
    are then assumed.
    """
    if arch not in ARCHS:
        return []
    pairs = zip(function.instructions, decoded, strict=True)
    if not any(inst.cls == "mfma" or parts.name.startswith(_DOT) for inst, parts in pairs):
        return []
    code = WaitStates(function, decoded, arch, cycles)
    hazards: dict[tuple[int, int], Hazard] = {}
    entering: list[_Ages] = [{} for _ in function.blocks]
    waiting = list(range(len(function.blocks)))
    while waiting:
        block = function.blocks[waiting.pop(0)]
        sites = range(block.start, block.stop)
        leaving = _walk(code, effects, sites, entering[block.index], hazards)
        for successor in block.successors:
            jumps = function.blocks[successor].start != block.stop
            merged = _merged(entering[successor], leaving, _JUMP if jumps else 0)
            if merged != entering[successor]:
                entering[successor] = merged
                if successor not in waiting:
                    waiting.append(successor)
    return [hazards[key] for key in sorted(hazards)]


_Ages = dict[int, tuple[int, EarlierInstruction]]
"""Index of an earlier instruction -> the wait states since it, and what it does."""


def _merged(entering: _Ages, leaving: _Ages, between: int) -> _Ages:
    """The earlier instructions at a block's start where another way leads there too."""
    merged = dict(entering)
    for site, (age, earlier) in leaving.items():
        if site not in merged or age + between < merged[site][0]:
            merged[site] = (age + between, earlier)
    return merged


def _walk(
    code: WaitStates,
    effects: Sequence[RegisterEffect],
    sites: range,
    entering: _Ages,
    hazards: dict[tuple[int, int], Hazard],
) -> _Ages:
    """Goes through a block; returns what its successors may come too close to, with ages."""
    clock = 0
    pasts = [(-age, past) for age, past in entering.values()]
    for site in sites:
        inst, parts = code.instructions[site], code.decoded[site]
        pasts = [(then, past) for then, past in pasts if clock - then < LONGEST]
        touched = effects[site].reads | effects[site].writes
        for then, past in pasts:
            if not (past.writes | past.accumulates) & touched and not past.writes & _EXEC:
                continue
            needed, why = _needed(code, past, site, effects[site])
            between = clock - then
            if between < needed:
                key = (past.site, site)
                known = hazards.get(key)
                if known is None or between < known.between:
                    hazards[key] = Hazard(past.site, site, needed, between, why)
        clock += wait_states(inst, parts)
        earlier = _as_earlier(code, site, effects[site])
        if earlier is None:
            continue
        if earlier.matrix:
            pasts = [
                (then, replace(past, writes=past.writes & ~earlier.result) if past.matrix else past)
                for then, past in pasts
            ]
        pasts.append((clock, earlier))
    return {past.site: (clock - then, past) for then, past in pasts if clock - then < LONGEST}


def _as_earlier(code: WaitStates, site: int, effect: RegisterEffect) -> EarlierInstruction | None:
    """Returns what later instructions may come too close to; None for other instructions."""
    inst, parts = code.instructions[site], code.decoded[site]
    result = effect.writes
    if inst.cls == "mfma":
        c = parts.operands[3] if len(parts.operands) > 3 else None
        if "smfmac" in parts.name:
            c = parts.operands[0]
        accumulates = bits_of(c) if c is not None else 0
        return EarlierInstruction(site, True, result, result, accumulates)
    if inst.cls in _VALU and not parts.name.startswith("ds_"):
        dot = parts.name if parts.name.startswith(_DOT) else ""
        return EarlierInstruction(site, False, result, result, dot=dot)
    return None


_EXEC: Final = scalar_bits(EXEC, 2)
_AFTER_VALU: Final = 2
_AFTER_EXEC: Final = 4
_AFTER_DOT: Final = 3
_DOT: Final = "v_dot"


def _needed(
    code: WaitStates, past: EarlierInstruction, site: int, effect: RegisterEffect
) -> tuple[int, str]:
    """Wait states between an earlier instruction and one that meets its registers, and why."""
    inst, parts = code.instructions[site], code.decoded[site]
    if inst.cls == "mfma":
        if past.dot:
            return 0, ""
        if not past.matrix:
            if past.writes & effect.reads:
                return _AFTER_VALU, "a matrix instruction reads what the VALU has just written"
            if past.writes & _EXEC:
                return _AFTER_EXEC, "a matrix instruction follows a VALU write of EXEC"
            return 0, ""
        return max(
            (
                _between_matrices(code, past, site, index, operand)
                for index, operand in _sources(parts)
            ),
            default=(0, ""),
        )
    if inst.cls not in _VALU | _MEMORY:
        return 0, ""
    if past.dot:
        return _behind_dot(past, parts, effect)
    if not past.matrix:
        return 0, ""
    needs = [(0, "")]
    if past.writes & effect.reads:
        memory = inst.cls in _MEMORY or parts.name.startswith("ds_")
        needs.append((code.to_other(past, memory=memory), "it reads a matrix result too early"))
    if past.writes & effect.writes:
        needs.append((code.to_overwriting(past), "it overwrites a matrix result that is to come"))
    if past.accumulates & effect.writes:
        needs.append(
            (code.from_accumulator(past), "it overwrites the C that a product still reads")
        )
    return max(needs)


def _behind_dot(
    past: EarlierInstruction, parts: Decoded, effect: RegisterEffect
) -> tuple[int, str]:
    """Returns the wait states behind a dot product, and why."""
    touched = effect.reads | effect.writes
    if parts.name == past.dot:
        touched = bits_of(parts.operands[1]) | bits_of(parts.operands[2])
    if not past.writes & touched:
        return 0, ""
    return _AFTER_DOT, "it uses the result of a dot product too early"


def _sources(parts: Decoded) -> list[tuple[int, Operand]]:
    """A matrix instruction's vector sources: 0 and 1 are A and B, 2 is C."""
    sources = list(enumerate(parts.operands[1:]))
    if "smfmac" in parts.name:
        sources = [*sources[:2], (2, parts.operands[0]), (0, parts.operands[3])]
    return [(index, operand) for index, operand in sources if operand.kind == "vgpr"]


def _between_matrices(
    code: WaitStates, past: EarlierInstruction, site: int, index: int, operand: Operand
) -> tuple[int, str]:
    """Returns the wait states between two matrix instructions that meet in one source, and why."""
    if not past.writes & bits_of(operand):
        return 0, ""
    if index == 2:
        return code.to_accumulator(past, site, operand), "a product takes a part of a result as C"
    return code.to_source(past, site), "a product takes a result as A or B"
