"""Floating-point divisions that are exact to the last bit, of each loop and outside of hot ones.

IEEE division has no instruction: LLVM expands one of float32 into eleven (two `v_div_scale`, an
estimate by `v_rcp`, six multiply-adds, `v_div_fmas`, `v_div_fixup`; AMDGPULegalizerInfo,
`legalizeFDIV32`), of which `v_div_fixup` is the last. One of float16 takes as many: both values as
float32, an estimate by `v_rcp`, two corrections of it, the rounded result (`legalizeFDIV16`).
Triton emits such a division for `/`, `tl.fdiv` and `tl.sigmoid` on AMD's GPUs, and for a division
by a constant or by a scalar argument; a quotient of float16 values that is rounded to float16 is
one of float16, also where the source divides them as float32.

Where the divisor stays the same through the loop, its reciprocal can be computed before it, and
each division is one multiplication. So it is where several elements of a lane are divided by one
value, as a row by its sum.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from ..isa.dataflow.operands import operand_texts
from ..isa.graph.cfg import innermost_loops
from ..isa.vector_halves import (
    TWO_RESULTS,
    WITHOUT_RESULT,
    halves,
    results,
    written_registers,
)
from ..isa.waitflow.registers import (
    FIRST_AGPR,
    high_half,
    low_half,
    named,
    named_halves,
    split_destination,
    unnamed_of,
)
from ..model import Function, Instruction, Loop, Metric, MetricSpec, Scalar
from .mix import VALU_CLASSES
from .subject import Subject, source_line

_EXACT, _INVARIANT = "division.exact", "division.by_invariant"
_INSTRUCTIONS, _SAVED, _AT = (
    "division.instructions",
    "division.by_invariant.instructions",
    "division.at",
)
_ESTIMATES = "division.estimates"
_DOUBLE = "division.double.instructions"
_OUTSIDE = "division.outside"

SPECS = (
    MetricSpec(
        _EXACT,
        "instructions",
        "derived",
        "loop",
        "Vector divisions of one iteration that are exact to the last bit: v_div_fixup",
    ),
    MetricSpec(
        _INSTRUCTIONS,
        "instructions",
        "derived",
        "loop",
        "Vector instructions that those divisions take",
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
        _ESTIMATES,
        "mapping",
        "derived",
        "loop",
        "The estimates by v_rcp that shorter forms of those divisions need as well, one for each "
        "different divisor: how many (`divisors`)",
    ),
    MetricSpec(
        _DOUBLE,
        "instructions",
        "derived",
        "loop",
        "Vector instructions that the exact divisions in float64 take, which have no shorter form",
    ),
    MetricSpec(
        _AT,
        "",
        "derived",
        "loop",
        "Source line of the first such division, by an unchanged divisor if there is one",
    ),
    MetricSpec(
        _OUTSIDE,
        "mapping",
        "derived",
        "kernel",
        "Such divisions outside of hot loops, without those of source lines that divide in a hot "
        "loop, too (`copies`): how many (`exact`), vector `instructions` that they take of the "
        "`valu` there (`double`: those in float64), `at` the line of the first; `shared`: of "
        "these, the ones whose divisor other elements of the lane are divided by as well "
        "(`divisors` of them), the vector instructions that one reciprocal for each divisor would "
        "save (`saved`), and `shared_at` which line",
    ),
)

_LAST_STEP = "v_div_fixup"
_LAST_STEP_OF_64_BITS = "v_div_fixup_f64"
_STEP = re.compile(
    r"v_(?:dual_)?(?:pk_)?(?:div_|rcp_|fma|mad|mul_f|mul_legacy_f|cvt_|sub_f)|s_mov_b"
)
"""Instructions of an expansion; `s_mov` copies the second of two masks into VCC."""
_ADDS_TO_RESULT = re.compile(r"v_(?:dual_)?(?:pk_)?(?:fmac|mac|dot\d?c)")
_OF_FLOAT16 = re.compile(r"v_div_fixup_(?:legacy_)?f16")
_FLOAT16_STEP = re.compile(
    r"v_(?:dual_)?(?:s_rcp_f32|rcp_f32|mul_f32|fma_f32|fmac_f32|mad_f32|mac_f32|add_f32|and_b32"
    r"|fma_mix_f32|mad_mix_f32|cvt_f32_f16)"
)
_FROM_FLOAT16 = re.compile(r"v_(?:fma|mad)_mix_f32")
_IS_FLOAT16 = re.compile(r"op_sel_hi:\[([01]),([01]),([01])\]")
"""Which sources of a mixed operation are float16; none where nothing is stated."""
_TO_FLOAT32, _TO_FLOAT16 = "v_cvt_f32_f16", "v_cvt_f16_f32"


def loop_metrics(
    subject: Subject, instructions_of: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name."""
    return {
        loop.id: {metric.name: metric for metric in _of_loop(subject, loop, instructions)}
        for loop in subject.function.loops
        for instructions in (instructions_of[loop.id],)
    }


def _of_loop(subject: Subject, loop: Loop, instructions: Sequence[Instruction]) -> Iterator[Metric]:
    """The metrics of one loop."""
    function = subject.function
    divisions = [inst for inst in instructions if inst.op.name.startswith(_LAST_STEP)]
    all_steps: set[int] = set()
    invariant: list[Instruction] = []
    invariant_steps: set[int] = set()
    double_steps: set[int] = set()
    divisors = 0
    if divisions:
        changed = {
            register
            for number in loop.blocks
            for inst in function.instructions[
                function.blocks[number].start : function.blocks[number].stop
            ]
            for register in written_registers(inst)
        }
        blocks = [function.blocks[number] for number in loop.blocks]
        for division in divisions:
            block = next(b for b in blocks if b.start <= division.index < b.stop)
            steps = expansion(function.instructions[block.start : division.index + 1])
            all_steps |= steps
            if division.op.name.startswith(_LAST_STEP_OF_64_BITS):
                double_steps |= steps
            _, divisor, _ = _sources(division)
            if changed.isdisjoint(named(divisor)):
                invariant.append(division)
                invariant_steps |= steps
        own = {inst.index for inst in divisions}
        divisors = sum(
            not own.isdisjoint(inst.index for inst in group)
            for block in blocks
            for group in _by_divisor(function.instructions[block.start : block.stop])
        )
    yield Metric(_EXACT, len(divisions), "instructions", "derived")
    yield Metric(_INSTRUCTIONS, len(all_steps), "instructions", "derived")
    yield Metric(_INVARIANT, len(invariant), "instructions", "derived")
    yield Metric(_SAVED, max(len(invariant_steps) - len(invariant), 0), "instructions", "derived")
    yield Metric(_DOUBLE, len(double_steps), "instructions", "derived")
    yield Metric(_ESTIMATES, {"divisors": divisors}, "mapping", "derived")
    if divisions:
        yield Metric(_AT, source_line((invariant or divisions)[0].loc), "", "derived")


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metric of the divisions outside of hot loops.

    Args:
        subject: the kernel.
        hot: ids of its hot loops.
    """
    function = subject.function
    if not function.instructions:
        yield Metric(_OUTSIDE, None, "mapping", "derived", "no code was read")
        return
    owner = innermost_loops(function)
    told = _lines_in(subject.function, owner, hot)
    divisions: list[Instruction] = []
    steps: set[int] = set()
    double: set[int] = set()
    shared: list[Instruction] = []
    divisors = saved = valu = copies = 0
    for block in function.blocks:
        loop = owner.get(block.index)
        if loop is not None and loop.id in hot:
            continue
        code = function.instructions[block.start : block.stop]
        valu += sum(inst.cls in VALU_CLASSES for inst in code)
        for group in _by_divisor(code):
            if {source_line(inst.loc) for inst in group} <= told:
                copies += len(group)
                continue
            steps_of = [expansion(code[: inst.index - block.start + 1]) for inst in group]
            divisions += group
            of_group = set().union(*steps_of)
            steps |= of_group
            if group[0].op.name.startswith(_LAST_STEP_OF_64_BITS):
                double |= of_group
            if len(group) > 1:
                shared += group
                divisors += 1
                saved += max(len(of_group) - min(map(len, steps_of)) - len(group), 0)
    first = min(divisions, key=lambda inst: inst.index, default=None)
    first_shared = min(shared, key=lambda inst: inst.index, default=None)
    value: dict[str, Scalar] = {
        "exact": len(divisions),
        "copies": copies,
        "instructions": len(steps),
        "double": len(double),
        "valu": valu,
        "at": source_line(first.loc) if first is not None else None,
        "shared": len(shared),
        "divisors": divisors,
        "saved": saved,
        "shared_at": source_line(first_shared.loc) if first_shared is not None else None,
    }
    yield Metric(_OUTSIDE, value, "mapping", "derived")


def _lines_in(function: Function, owner: Mapping[int, Loop], hot: Set[str]) -> set[str | None]:
    """The source lines of divisions in hot loops, whose copies outside have the same cure.

    Such copies are iterations that the compiler has peeled off, or left over.
    """
    lines = {
        source_line(inst.loc)
        for block in function.blocks
        if (loop := owner.get(block.index)) is not None and loop.id in hot
        for inst in function.instructions[block.start : block.stop]
        if inst.op.name.startswith(_LAST_STEP)
    }
    return lines - {None}


def _by_divisor(code: Sequence[Instruction]) -> list[list[Instruction]]:
    """The divisions of a block, those by one value together."""
    if not any(inst.op.name.startswith(_LAST_STEP) for inst in code):
        return []
    writes: Counter[int] = Counter()
    groups: dict[tuple[str, tuple[int, ...]], list[Instruction]] = {}
    for inst in code:
        if inst.op.name.startswith(_LAST_STEP):
            _, divisor, _ = _sources(inst)
            version = tuple(writes[register] for register in named(divisor))
            groups.setdefault((divisor, version), []).append(inst)
        writes.update(written_registers(inst))
    return list(groups.values())


def _sources(division: Instruction) -> tuple[str, str, str]:
    """Quotient, divisor and dividend of a `v_div_fixup`."""
    operands = operand_texts(division.operands)
    _, quotient, divisor, dividend = [*operands, "", "", ""][:4]  # damaged text may have fewer
    return quotient, divisor, dividend


def expansion(code: Sequence[Instruction]) -> set[int]:
    """Indices of the vector instructions that one division consists of.

    Args:
        code: the part of a block that ends with the division's `v_div_fixup`.
    """
    *earlier, division = code
    if _OF_FLOAT16.match(division.op.name):
        return _expansion_of_float16(earlier, division)
    quotient, divisor, dividend = _sources(division)
    operands = {*named(divisor), *named(dividend)}
    needed_registers = set(named(quotient)) - operands
    steps = {division.index}
    for inst in reversed(earlier):
        if not needed_registers:
            break
        if inst.cls in WITHOUT_RESULT:
            continue
        inputs: set[int] = set()
        for name, text in halves(inst):
            written = results(name, text)
            if needed_registers.isdisjoint(written):
                continue
            needed_registers -= written
            if _STEP.match(name) is None:
                continue
            if name.startswith("v_"):
                steps.add(inst.index)
            inputs |= (_read_registers(name, text) | set(unnamed_of(name))) - operands
        needed_registers |= inputs
    return steps


def _expansion_of_float16(earlier: Sequence[Instruction], division: Instruction) -> set[int]:
    """Indices of the vector instructions of a division in float16, which ends with `division`.

    Its way back ends where values are float16: at conversions of them, and at those sources of
    mixed operations. These may be halves of registers that also hold what another division needs.
    """
    needed = _halves_of(_sources(division)[0])
    rounded = False
    steps = {division.index}
    for inst in reversed(earlier):
        if not needed:
            break
        if inst.cls in WITHOUT_RESULT:
            continue
        inputs: set[int] = set()
        for name, text in halves(inst):
            result, sources = split_destination(text)
            written = _halves_of(result)
            if needed.isdisjoint(written):
                continue
            needed -= written
            if not rounded:
                if not name.startswith(_TO_FLOAT16):
                    return steps
                rounded = True
            elif not _FLOAT16_STEP.match(name):
                continue
            steps.add(inst.index)
            if name.startswith(_TO_FLOAT32):
                continue
            if _FROM_FLOAT16.match(name):
                sources = _float32_sources(sources)
            elif _ADDS_TO_RESULT.match(name):
                sources = text
            inputs |= _halves_of(sources)
        needed |= inputs
    return steps


def _float32_sources(sources: str) -> str:
    """The sources of a mixed operation that are float32."""
    stated = _IS_FLOAT16.search(sources)
    bits = stated.groups() if stated else ("0", "0", "0")
    return ",".join(
        source
        for source, is_float16 in zip(sources.split(","), bits, strict=False)
        if is_float16 == "0"
    )


def _halves_of(operands: str) -> set[int]:
    """The registers that operands name, VGPRs as their two halves."""
    halves_named: set[int] = set()
    for register in named_halves(operands):
        if register < FIRST_AGPR:  # a VGPR
            halves_named |= {low_half(register), high_half(register)}
        else:
            halves_named.add(register)
    return halves_named


def _read_registers(name: str, operands: str) -> set[int]:
    """Registers that an operation reads."""
    result, sources = split_destination(operands)
    if TWO_RESULTS.match(name):
        sources = split_destination(sources)[1]
    registers = set(named(sources))
    if _ADDS_TO_RESULT.match(name):
        registers.update(named(result))
    return registers
