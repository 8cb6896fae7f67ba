"""Floating-point divisions that are exact to the last bit, of each loop and outside of hot ones.

IEEE division has no instruction: LLVM expands one of float32 into eleven (two `v_div_scale`, an
estimate by `v_rcp`, six multiply-adds, `v_div_fmas`, `v_div_fixup`; AMDGPULegalizerInfo,
`legalizeFDIV32`), of which `v_div_fixup` is the last. One of float16 takes as many: both values as
float32, an estimate by `v_rcp`, two corrections of it, the rounded result (`legalizeFDIV16`).
Triton emits such a division for `/`, `tl.fdiv` and `tl.sigmoid` on AMD's GPUs, and for a division
by a constant or by a scalar argument; a quotient of float16 values that is rounded to float16 is
one of float16, also where the source divides them as float32.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from ..isa.dataflow.value_graph import Operation, graph_of, registers, rows_of
from ..isa.graph.cfg import innermost_loops
from ..model import Instruction, Loop, Metric, Scalar
from .entries import of_kernels, of_loops
from .mix import vector_instructions
from .subject import LineName, Subject, source_line

_EXACT, _INVARIANT, _AT = "division.exact", "division.by_invariant", "division.at"
_INSTRUCTIONS, _SAVED = "division.instructions", "division.by_invariant.instructions"
_DOUBLE, _ESTIMATES = "division.double.instructions", "division.estimates"
_OUTSIDE: Final = "division.outside"

SPECS: Final = (
    *of_loops(
        {
            _EXACT: "instructions | Vector divisions of one iteration that are exact to the last "
            "bit: v_div_fixup",
            _INSTRUCTIONS: "instructions | Vector instructions that those divisions take",
            _INVARIANT: "instructions | Those divisions whose divisor no instruction of the loop "
            "changes",
            _SAVED: "instructions | Vector instructions that the divisions by an unchanged "
            "divisor take beyond one multiplication each",
            _ESTIMATES: "The estimates by v_rcp that shorter forms of those divisions need as "
            "well, one for each different divisor: how many (`divisors`)",
            _DOUBLE: "instructions | Vector instructions that the exact divisions in float64 "
            "take, which have no shorter form",
            _AT: "| Source line of the first such division, by an unchanged divisor if there is "
            "one",
        }
    ),
    *of_kernels(
        {
            _OUTSIDE: "Such divisions outside of hot loops, without those of source lines that "
            "divide in a hot loop, too (`copies`): how many (`exact`), vector `instructions` that "
            "they take of the `valu` there (`double`: those in float64), `at` the line of the "
            "first; `shared`: of these, the ones whose divisor other elements of the lane are "
            "divided by as well (`divisors` of them), the vector instructions that one "
            "reciprocal for each divisor would save (`saved`), and `shared_at` which line",
        }
    ),
)

_UNITS: Final = {spec.name: spec.unit for spec in SPECS}
_LAST_STEP: Final = ("v_div_fixup",)
_LAST_STEP_OF_64_BITS: Final = "v_div_fixup_f64"
_STEPS: Final = (
    *("v_div_", "v_rcp_", "v_s_rcp_", "v_fma", "v_mad", "v_mac", "v_mul_f", "v_mul_legacy_f"),
    *("v_cvt_", "v_sub_f", "v_add_f32", "v_and_b32"),
)


def loop_metrics(
    subject: Subject, instructions_of: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metrics by name."""
    return {
        loop.id: {
            name: Metric(name, value, _UNITS[name], "derived")
            for name, value in _of_loop(subject, loop, instructions_of[loop.id]).items()
        }
        for loop in subject.function.loops
    }


def _of_loop(
    subject: Subject, loop: Loop, instructions: Sequence[Instruction]
) -> Mapping[str, Scalar | Mapping[str, Scalar]]:
    """The values of one loop's metrics."""
    groups = _by_divisor(subject, [inst.index for inst in instructions])
    divisions = sorted((one for group in groups for one in group), key=_index)
    invariant = _by_unchanged(subject, loop, divisions) if divisions else []
    of_64_bits = [one for one in divisions if one.name == _LAST_STEP_OF_64_BITS]
    values: dict[str, Scalar | Mapping[str, Scalar]] = {
        _EXACT: len(divisions),
        _INSTRUCTIONS: len(_steps(divisions)),
        _INVARIANT: len(invariant),
        _SAVED: max(len(_steps(invariant)) - len(invariant), 0),
        _DOUBLE: len(_steps(of_64_bits)),
        _ESTIMATES: {"divisors": len(groups)},
    }
    return values | ({_AT: _line(subject, invariant or divisions)} if divisions else {})


def _by_unchanged(
    subject: Subject, loop: Loop, divisions: Sequence[Operation]
) -> Sequence[Operation]:
    """The divisions by what no instruction of a loop changes."""
    code = graph_of(subject.function).by_block
    changed = rows_of(
        result for block in loop.blocks for one in code[block] for result in one.results
    )
    return [one for one in divisions if changed.isdisjoint(registers(one.sources[1]))]


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metric of the divisions outside of hot loops."""
    function = subject.function
    if not function.instructions:
        yield Metric(_OUTSIDE, None, "mapping", "derived", "no code was read")
        return
    owner = innermost_loops(function)
    inside: list[Instruction] = []
    outside: list[Instruction] = []
    for block in function.blocks:
        loop = owner.get(block.index)
        part = inside if loop is not None and loop.id in hot else outside
        part += function.instructions[block.start : block.stop]
    # Copies are of iterations that the compiler has peeled off, or left over: they have one cure.
    told = {source_line(inst.loc) for inst in inside if inst.op.name.startswith(_LAST_STEP)}
    told -= {None}
    found = _by_divisor(subject, [inst.index for inst in outside])
    groups = [group for group in found if not {source_line(one.inst.loc) for one in group} <= told]
    shared = [group for group in groups if len(group) > 1]
    divisions = [one for group in groups for one in group]
    of_64_bits = [one for one in divisions if one.name == _LAST_STEP_OF_64_BITS]
    value: dict[str, Scalar] = {
        "exact": len(divisions),
        "copies": sum(map(len, found)) - len(divisions),
        "instructions": len(_steps(divisions)),
        "double": len(_steps(of_64_bits)),
        "valu": vector_instructions(outside),
        "at": _line(subject, divisions),
        "shared": sum(map(len, shared)),
        "divisors": len(shared),
        "saved": sum(map(_saved_by_reciprocal, shared)),
        "shared_at": _line(subject, [one for group in shared for one in group]),
    }
    yield Metric(_OUTSIDE, value, "mapping", "derived")


def _by_divisor(subject: Subject, region: Sequence[int]) -> list[list[Operation]]:
    """The divisions of a region, those of a block by one value together."""
    groups: dict[object, list[Operation]] = {}
    for number, block in enumerate(graph_of(subject.function).blocks(region, _LAST_STEP)):
        for operation in block:
            if operation.name.startswith(_LAST_STEP) and len(operation.sources) > 2:
                divisor = number, operation.makers[1], operation.sources[1].text
                groups.setdefault(divisor, []).append(operation)
    return list(groups.values())


def _saved_by_reciprocal(group: Sequence[Operation]) -> int:
    """Instructions that multiplications by one reciprocal take less than some divisions."""
    estimate = min(len(expansion(division)) for division in group)
    return max(len(_steps(group)) - estimate - len(group), 0)


def expansion(division: Operation) -> set[int]:
    """Indices of the instructions that one division consists of, by its `v_div_fixup`.

    Its way back ends at divisor and dividend, which the last step reads, too.
    """
    parts = division.made_of(_STEPS, {*division.makers[1:]})
    return {part.inst.index for part in parts}


def _steps(divisions: Sequence[Operation]) -> set[int]:
    return set[int]().union(*map(expansion, divisions))


def _index(operation: Operation) -> int:
    return operation.inst.index


def _line(subject: Subject, divisions: Sequence[Operation]) -> LineName | None:
    """The source line of the first of them, with the instructions of all."""
    results = [division.inst for division in sorted(divisions, key=_index)]
    code = subject.function.instructions
    return LineName.of([*results, *(code[index] for index in sorted(_steps(divisions)))])
