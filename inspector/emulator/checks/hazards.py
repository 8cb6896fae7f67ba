"""Code without the wait states that the matrix cores of CDNA2 to CDNA4 leave to software.

These GPUs do not wait by themselves when an instruction meets the registers of a matrix
instruction that is not done, when a matrix instruction reads what the VALU has just written, or
when an instruction uses the result of a dot product: a number of other instructions, or `s_nop`,
must stand between. `hazards_of` returns every pair that is too close on some path; the emulator
reports those of which both were executed. How many wait states are needed:
`matrix_wait_states.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ...isa.dataflow.effects import RegisterEffect, bits_of
from ...isa.dataflow.operands import EXEC, Decoded, Operand, scalar_bits
from ...model import Function, Instruction
from .matrix_wait_states import EarlierInstruction, WaitStates

ARCHS: Final = frozenset({"gfx90a", "gfx940", "gfx941", "gfx942", "gfx950"})
LONGEST: Final = 20
"""No hazard reaches further, in wait states."""
_JUMP: Final = 1
"""Wait states that a branch which is taken is given beyond its own. No document says so: LLVM
counts the s_branch behind it, which is not executed, and its loops would be reported without."""
_AFTER_VALU: Final = 2
"""Wait states behind a VALU instruction, of a matrix instruction that reads its result."""
_AFTER_EXEC: Final = 4
"""Wait states behind a VALU write of EXEC."""
_AFTER_DOT: Final = 3
"""Wait states behind a dot product, of an instruction that uses its result."""
_DOT: Final = "v_dot"
_EXEC: Final = scalar_bits(EXEC, 2)
_VALU: Final = frozenset({"valu", "acc_move", "cross_lane"})
_MEMORY: Final = frozenset(
    {
        "lds_read", "lds_write", "lds_atomic", "global_load", "global_store", "atomic",
        "scratch_load", "scratch_store", "lds_direct",
    }
)  # fmt: skip
_Ages = dict[int, tuple[int, EarlierInstruction]]
"""Index of an earlier instruction -> the wait states since it, and what it does."""


class Hazard(Struct, frozen=True):
    """Two instructions that stand too close.

    `needed`: wait states that must lie between. `between`: those that do.
    """

    first: int
    second: int
    needed: int
    between: int
    why: str


class _Code(Struct, frozen=True):
    instructions: Sequence[Instruction]
    decoded: Sequence[Decoded]
    effects: Sequence[RegisterEffect]
    states: WaitStates


def _wait_states(parts: Decoded) -> int:
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

    `arch`: gfx name; others than `ARCHS` have none of these hazards. `cycles`: see `WaitStates`.
    """
    if arch not in ARCHS:
        return []
    pairs = zip(function.instructions, decoded, strict=True)
    if not any(inst.cls == "mfma" or parts.name.startswith(_DOT) for inst, parts in pairs):
        return []
    states = WaitStates(decoded, arch, cycles)
    code = _Code(function.instructions, decoded, effects, states)
    hazards: dict[tuple[int, int], Hazard] = {}
    entering: list[_Ages] = [{} for _ in function.blocks]
    waiting = list(range(len(function.blocks)))
    while waiting:
        block = function.blocks[waiting.pop(0)]
        sites = range(block.start, block.stop)
        leaving = _walk(code, sites, entering[block.index], hazards)
        for successor in block.successors:
            jumps = function.blocks[successor].start != block.stop
            merged = _merged(entering[successor], leaving, _JUMP if jumps else 0)
            if merged != entering[successor]:
                entering[successor] = merged
                if successor not in waiting:
                    waiting.append(successor)
    return [hazards[key] for key in sorted(hazards)]


def _merged(entering: _Ages, leaving: _Ages, between: int) -> _Ages:
    """The earlier instructions at a block's start where another way leads there too."""
    merged = dict(entering)
    for site, (age, earlier) in leaving.items():
        if site not in merged or age + between < merged[site][0]:
            merged[site] = (age + between, earlier)
    return merged


def _walk(
    code: _Code,
    sites: range,
    entering: _Ages,
    hazards: dict[tuple[int, int], Hazard],
) -> _Ages:
    """Goes through a block; returns what its successors may come too close to, with ages."""
    clock = 0
    pasts = [(-age, past) for age, past in entering.values()]
    for site in sites:
        pasts = [(then, past) for then, past in pasts if clock - then < LONGEST]
        touched = code.effects[site].reads | code.effects[site].writes
        for then, past in pasts:
            if not (past.writes | past.accumulates) & touched and not past.writes & _EXEC:
                continue
            needed, why = _needed(code, past, site)
            between = clock - then
            if between < needed:
                key = (past.site, site)
                known = hazards.get(key)
                if known is None or between < known.between:
                    hazards[key] = Hazard(past.site, site, needed, between, why)
        clock += _wait_states(code.decoded[site])
        earlier = _as_earlier(code, site)
        if earlier is None:
            continue
        if earlier.matrix:
            pasts = [
                (then, replace(past, writes=past.writes & ~earlier.result) if past.matrix else past)
                for then, past in pasts
            ]
        pasts.append((clock, earlier))
    return {past.site: (clock - then, past) for then, past in pasts if clock - then < LONGEST}


def _as_earlier(code: _Code, site: int) -> EarlierInstruction | None:
    """Returns what later instructions may come too close to; None for other instructions."""
    inst, parts = code.instructions[site], code.decoded[site]
    result = code.effects[site].writes
    if inst.cls == "mfma":
        c = parts.operands[3] if len(parts.operands) > 3 else None
        if _is_sparse(parts):
            c = parts.operands[0]
        accumulates = bits_of(c) if c is not None else 0
        return EarlierInstruction(site, True, result, result, accumulates)
    if inst.cls in _VALU and not parts.name.startswith("ds_"):
        dot = parts.name if parts.name.startswith(_DOT) else ""
        return EarlierInstruction(site, False, result, result, dot=dot)
    return None


def _needed(code: _Code, past: EarlierInstruction, site: int) -> tuple[int, str]:
    """Wait states between an earlier instruction and one that meets its registers, and why."""
    inst, parts, effect = code.instructions[site], code.decoded[site], code.effects[site]
    states = code.states
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
                _between_matrices(code.states, past, site, index, operand)
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
        needs.append((states.to_other(past, memory=memory), "it reads a matrix result too early"))
    if past.writes & effect.writes:
        needs.append((states.to_overwriting(past), "it overwrites a matrix result that is to come"))
    if past.accumulates & effect.writes:
        needs.append(
            (states.from_accumulator(past), "it overwrites the C that a product still reads")
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


def _is_sparse(parts: Decoded) -> bool:
    """Whether it is an smfmac, which takes its C from the destination."""
    return "smfmac" in parts.name


def _sources(parts: Decoded) -> list[tuple[int, Operand]]:
    """A matrix instruction's vector sources: 0 and 1 are A and B, 2 is C."""
    sources = list(enumerate(parts.operands[1:]))
    if _is_sparse(parts):
        sources = [*sources[:2], (2, parts.operands[0]), (0, parts.operands[3])]
    return [(index, operand) for index, operand in sources if operand.kind == "vgpr"]


def _between_matrices(
    states: WaitStates, past: EarlierInstruction, site: int, index: int, operand: Operand
) -> tuple[int, str]:
    """Returns the wait states between two matrix instructions that meet in one source, and why."""
    if not past.writes & bits_of(operand):
        return 0, ""
    if index == 2:
        return states.to_accumulator(past, site, operand), "a product takes a part of a result as C"
    return states.to_source(past, site), "a product takes a result as A or B"
