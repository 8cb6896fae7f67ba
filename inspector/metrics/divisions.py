"""Floating-point divisions of a loop that are computed to the last bit.

IEEE division has no instruction: LLVM expands one of float32 into eleven (two `v_div_scale`, an
estimate by `v_rcp`, six multiply-adds, `v_div_fmas`, `v_div_fixup`; AMDGPULegalizerInfo,
`legalizeFDIV32`), of which `v_div_fixup` ends each. Triton makes such a division of `/`, `tl.fdiv`
and `tl.sigmoid` on AMD's GPUs, and of a division by a constant or by a scalar argument as well.

Where the divisor stays the same through the loop, its reciprocal can be computed before it, and
each division is one multiplication.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from ..isa.waitflow.registers import named, split_destination, unnamed_of
from ..model import Function, Instruction, Loop, Metric, MetricSpec
from .subject import Subject, source_line

_EXACT, _INVARIANT = "division.exact", "division.by_invariant"
_TAKEN, _SAVED, _AT = "division.instructions", "division.by_invariant.instructions", "division.at"

SPECS = (
    MetricSpec(
        _EXACT,
        "instructions",
        "derived",
        "loop",
        "Vector divisions of one iteration that are exact to the last bit: v_div_fixup",
    ),
    MetricSpec(
        _TAKEN, "instructions", "derived", "loop", "Vector instructions that those divisions take"
    ),
    MetricSpec(
        _INVARIANT,
        "instructions",
        "derived",
        "loop",
        "Those divisions whose divisor no instruction of the loop changes",
    ),
    MetricSpec(
        _SAVED,
        "instructions",
        "derived",
        "loop",
        "Vector instructions that the divisions by an unchanged divisor take beyond one "
        "multiplication each",
    ),
    MetricSpec(
        _AT,
        "",
        "derived",
        "loop",
        "Source line of the first such division, by an unchanged divisor if there is one",
    ),
)

_ENDS = "v_div_fixup"
_STEP = re.compile(
    r"v_(?:dual_)?(?:pk_)?(?:div_|rcp_|fma|mad|mul_f|mul_legacy_f|cvt_|sub_f)|s_mov_b"
)
"""Instructions that an expansion consists of; `s_mov` brings the second of two masks into VCC."""
_TWO_RESULTS = re.compile(r"v_div_scale|v_\w+_co_|v_mad_[iu]64")
_ADDS_TO_RESULT = re.compile(r"v_(?:dual_)?(?:pk_)?(?:fmac|mac|dot\d?c)")
_WRITES_NOTHING = frozenset({"global_store", "lds_write", "scratch_store", "lds_direct_store"})


def loop_metrics(
    subject: Subject, owned: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name; nothing where the loop has no such division."""
    return {
        loop.id: {metric.name: metric for metric in _of_loop(subject.function, loop, own)}
        for loop in subject.function.loops
        for own in (owned[loop.id],)
    }


def _of_loop(function: Function, loop: Loop, own: Sequence[Instruction]) -> Iterator[Metric]:
    ends = [inst for inst in own if inst.op.name.startswith(_ENDS)]
    taken: set[int] = set()
    invariant: list[Instruction] = []
    saved: set[int] = set()
    if ends:
        written = {
            register
            for number in loop.blocks
            for inst in function.instructions[
                function.blocks[number].start : function.blocks[number].stop
            ]
            for register in _written(inst)
        }
        blocks = [function.blocks[number] for number in loop.blocks]
        for end in ends:
            block = next(b for b in blocks if b.start <= end.index < b.stop)
            steps = expansion(function.instructions[block.start : end.index + 1])
            taken |= steps
            _, divisor, _ = _sources(end)
            if written.isdisjoint(named(divisor)):
                invariant.append(end)
                saved |= steps
    yield Metric(_EXACT, len(ends), "instructions", "derived")
    yield Metric(_TAKEN, len(taken), "instructions", "derived")
    yield Metric(_INVARIANT, len(invariant), "instructions", "derived")
    yield Metric(_SAVED, max(len(saved) - len(invariant), 0), "instructions", "derived")
    if ends:
        yield Metric(_AT, source_line((invariant or ends)[0].loc), "", "derived")


def _sources(end: Instruction) -> tuple[str, str, str]:
    """Quotient, divisor and dividend of a `v_div_fixup`."""
    _, quotient, divisor, dividend = (part.strip() for part in end.operands.split(",")[:4])
    return quotient, divisor, dividend


def expansion(code: Sequence[Instruction]) -> set[int]:
    """Indices of the vector instructions that a division consists of.

    Args:
        code: the part of a block that ends with the division's `v_div_fixup`.
    """
    *before, end = code
    quotient, divisor, dividend = _sources(end)
    operands = {*named(divisor), *named(dividend)}
    wanted = set(named(quotient)) - operands
    steps = {end.index}
    for inst in reversed(before):
        if not wanted:
            break
        if inst.cls in _WRITES_NOTHING:
            continue
        needed: set[int] = set()
        for name, text in _halves(inst):
            results = _results(name, text)
            if wanted.isdisjoint(results):
                continue
            wanted -= results
            if _STEP.match(name) is None:
                continue
            if name.startswith("v_"):
                steps.add(inst.index)
            needed |= (_read(name, text) | set(unnamed_of(name))) - operands
        wanted |= needed
    return steps


def _halves(inst: Instruction) -> Iterator[tuple[str, str]]:
    """Name and operands of an instruction, or of both halves of a VOPD instruction."""
    first, second, other = f"{inst.op.name} {inst.operands}".partition("::")
    for text in (first, other) if second else (first,):
        name, _, operands = text.strip().partition(" ")
        yield name, operands


def _written(inst: Instruction) -> set[int]:
    """Registers that an instruction writes."""
    if inst.cls in _WRITES_NOTHING:
        return set()
    return {register for name, text in _halves(inst) for register in _results(name, text)}


def _results(name: str, operands: str) -> set[int]:
    """Registers that an operation, or half of a VOPD instruction, writes."""
    result, sources = split_destination(operands)
    registers = set(named(result))
    if _TWO_RESULTS.match(name):
        registers.update(named(split_destination(sources)[0]))
    return registers


def _read(name: str, operands: str) -> set[int]:
    """Registers that an operation reads."""
    result, sources = split_destination(operands)
    if _TWO_RESULTS.match(name):
        sources = split_destination(sources)[1]
    registers = set(named(sources))
    if _ADDS_TO_RESULT.match(name):
        registers.update(named(result))
    return registers
