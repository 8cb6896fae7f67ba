"""What the vector unit computes where it takes longer than everything else.

Calls of Triton's random numbers, and which of them throw away three of the words that they make.

Philox makes four words of 32 or 64 bits in ten rounds (triton.language.random, `philox_impl`). A
round has four products, each of a line of its own: the high halves for words 0 and 2, the low ones
for words 1 and 3. `tl.rand` and `tl.randint` return word 0, and the compiler drops what only the
others need: the low half for word 1 of the last round, and none of a high half's line more often.
`tl.randn` uses words 0 and 1, `tl.rand4x` and `tl.randint4x` all of them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Final

from ..isa.mnemonics import access_bits
from ..model import Instruction, LoopReport, Metric, Scalar, SourceLoc, TtgirModule
from .bfloat_rounding import float8_conversions
from .entries import of_kernels, unknown
from .loop_shape import position_of
from .mix import VALU_CLASSES, vector_instructions
from .subject import Place, Subject, line_of_most, own_instructions

if TYPE_CHECKING:
    from .operand_origins import OperandOrigins


_POSITIONS, _TESTS = "vector_work.positions", "vector_work.tests"
_RANDOM: Final = "vector_work.random"
_SHARED: Final = (
    "of the `valu` of the hot loop that has most of them (in kernels without hot loops: of all), "
    "`loop` which one it is. None where by bound.longest a unit that vector instructions do not "
    "use takes more than half of what the slowest takes"
)

SPECS: Final = of_kernels(
    {
        _POSITIONS: "Vector instructions whose operands hold nothing that was loaded, but "
        f"positions or arguments, Triton's random numbers left out: `instructions` {_SHARED}; "
        "`beyond` three for each of its accesses of global memory and LDS; `loads` of global "
        "memory; `at` the line that has most of them, which are `at_instructions`",
        _TESTS: "Comparisons of loaded values with constants (`tests`; those for NaN are not "
        "counted, nor those of conversions of 8-bit floats in Triton and of operations with a "
        "transcendental one, such as exp) and selections by loaded values, at most two for each "
        f"of them: `instructions` together {_SHARED}; `loaded` of these bytes, `at` the line that "
        "has most of them",
        _RANDOM: "Calls of Triton's random numbers that use one of the four words which Philox "
        f"makes (tl.rand, tl.randint): `calls`, vector `instructions` {_SHARED}; `loads` of global "
        "memory there, `at` which line",
    }
)

_NAN: Final = re.compile(r"v_cmpx?_(?:o|u|class)_")
_LONGEST: Final = "bound.longest"
_UNITS: Final = frozenset(("vector", "scalar", "issue"))
"""Units that fewer vector instructions and their comparisons make faster."""
_BESIDE: Final = ("matrix", "lds", "lds_port", "vmem", "l1")
"""Units that vector instructions do not use; issue and latency of one wave belong to all work."""
_LOADS: Final = frozenset(("global_load", "lds_direct"))
_ACCESSES: Final = frozenset(
    ("global_load", "global_store", "atomic", "lds_read", "lds_write", "lds_atomic")
)
_OF_AN_ACCESS: Final = 3
"""Instructions on positions that an access needs: a 64-bit address, or an offset and a mask."""
_SELECTIONS_OF_A_TEST: Final = 2


def kernel_metrics(
    subject: Subject, loops: Sequence[LoopReport], metrics: Mapping[str, Metric]
) -> Iterator[Metric]:
    """The metrics of `SPECS`.

    `loops`: its loops with their bounds; `metrics`: its metrics with its bounds.
    """
    live, note = subject.live
    if live is None:
        yield from _unknown(note)
        return
    regions = _bound_by_vectors(subject, loops, metrics)
    if not regions:
        yield from _unknown("other units take as long as the vector unit, or how long is unknown")
        return
    from .operand_origins import operand_origins  # imports NumPy

    origins = operand_origins(subject.function, live)
    calls = random_calls(subject.ttgir) if subject.ttgir is not None else {}
    conversions = float8_conversions(subject.ttgir) if subject.ttgir is not None else {}
    counts: dict[str, Callable[[Sequence[Instruction]], dict[str, Scalar]]] = {
        _POSITIONS: lambda code: _on_positions(code, origins, calls.keys()),
        _TESTS: lambda code: _tests(code, origins, conversions.keys()),
        _RANDOM: lambda code: _random(code, calls),
    }
    for name, count in counts.items():
        if name == _RANDOM and subject.ttgir is None:
            yield Metric(name, None, "mapping", "derived", "needs the kernel's TTGIR")
            continue
        values = [
            {**count(code), "valu": vector_instructions(code), "loop": loop}
            for loop, code in regions
        ]
        value = max(values, key=lambda item: int(item["instructions"] or 0))
        yield Metric(name, value, "mapping", "derived")


def _unknown(note: str) -> Iterator[Metric]:
    yield from unknown(SPECS, note)


def _bound_by_vectors(
    subject: Subject, loops: Sequence[LoopReport], metrics: Mapping[str, Metric]
) -> list[tuple[str | None, Sequence[Instruction]]]:
    """Loop (None: the kernel) and code of the regions that the vector unit bounds."""
    function = subject.function
    hot = [loop for loop in loops if loop.hot]
    candidates: list[tuple[str | None, Sequence[Instruction], Metric | None]] = []
    if hot:
        code_of = own_instructions(function)
        candidates += [(loop.id, code_of[loop.id], loop.metrics.get(_LONGEST)) for loop in hot]
    else:
        candidates.append((None, function.instructions, metrics.get(_LONGEST)))
    regions: list[tuple[str | None, Sequence[Instruction]]] = []
    for loop, code, metric in candidates:
        longest = metric.value if metric is not None else None
        if not isinstance(longest, Mapping):
            continue
        slowest = longest["cycles"]
        beside = [cycles for unit in _BESIDE if isinstance(cycles := longest[unit], (int, float))]
        if (
            isinstance(slowest, (int, float))
            and beside
            and longest["unit"] in _UNITS
            and 2 * max(beside) <= slowest
        ):
            regions.append((loop, code))
    return regions


def _on_positions(
    code: Sequence[Instruction], origins: OperandOrigins, calls: Set[Place]
) -> dict[str, Scalar]:
    """The part of `vector_work.positions` that one region's instructions give."""
    steps = [
        inst
        for inst in code
        if inst.cls in VALU_CLASSES
        and origins.positions[inst.index]
        and not origins.data[inst.index]
        and not (calls and random_call(inst.loc) in calls)
    ]
    accesses = sum(inst.cls in _ACCESSES for inst in code)
    line, count = line_of_most(steps)
    return {
        "instructions": len(steps),
        "beyond": max(0, len(steps) - _OF_AN_ACCESS * accesses),
        "loads": _loads(code),
        "at": line,
        "at_instructions": count,
    }


def _random(code: Sequence[Instruction], calls: Mapping[Place, bool]) -> dict[str, Scalar]:
    """The part of `vector_work.random` that one region's instructions give."""
    dropping = {call for call, drops in calls.items() if drops}
    steps = [
        inst
        for inst in (code if dropping else ())
        if inst.cls in VALU_CLASSES and random_call(inst.loc) in dropping
    ]
    line, _ = line_of_most(steps)
    return {
        "instructions": len(steps),
        "calls": len({random_call(inst.loc) for inst in steps}),
        "loads": _loads(code),
        "at": line,
    }


def _tests(
    code: Sequence[Instruction], origins: OperandOrigins, conversions: Set[Place]
) -> dict[str, Scalar]:
    """The part of `vector_work.tests` that one region's instructions give."""
    expanded = conversions | {
        position_of(inst.loc)
        for inst in code
        if "transcendental" in inst.op.traits and inst.loc is not None
    }
    steps = [
        inst
        for inst in code
        if inst.cls in VALU_CLASSES
        and origins.data[inst.index]
        and not (inst.loc is not None and position_of(inst.loc) in expanded)
    ]
    tests = [inst for inst in steps if _compares(inst) and _with_constant(inst, origins)]
    selections = min(sum(map(_selects, steps)), _SELECTIONS_OF_A_TEST * len(tests))
    line, _ = line_of_most(tests)
    return {
        "instructions": len(tests) + selections,
        "tests": len(tests),
        "loaded": sum(access_bits(i.op, i.operands) or 0 for i in code if i.cls in _LOADS) // 8,
        "at": line,
    }


def _loads(code: Sequence[Instruction]) -> int:
    return sum(inst.cls in _LOADS for inst in code)


def _compares(inst: Instruction) -> bool:
    return "compare" in inst.op.traits


def _selects(inst: Instruction) -> bool:
    """Whether an instruction selects, as a half of a VOPD instruction, too."""
    return "cndmask" in inst.mnemonic


def _with_constant(inst: Instruction, origins: OperandOrigins) -> bool:
    """Whether a comparison is of one loaded value, with a constant, and not with itself for NaN."""
    if _NAN.match(inst.op.name) or origins.positions[inst.index]:
        return False
    registers = 2 if inst.op.name.endswith("64") else 1
    return origins.data[inst.index].bit_count() == registers


_MODULE: Final = "triton/language/random.py"
_FILE: Final = "random.py"
_HIGH, _LOW = "tt.mulhiui", "arith.muli"


def random_calls(ttgir: TtgirModule) -> Mapping[Place, bool]:
    """Position of each call -> whether it uses one word of the four."""
    lines: dict[Place, dict[str, Counter[int]]] = defaultdict(lambda: defaultdict(Counter))
    for op in ttgir.ops:
        if op.name not in (_HIGH, _LOW) or op.loc is None or not op.loc.file.endswith(_MODULE):
            continue
        call = random_call(op.loc)
        if call is not None:
            lines[call][op.name][op.loc.line] += 1
    return {
        call: max(counts[_LOW].values(), default=0) < max(counts[_HIGH].values())
        for call, counts in lines.items()
        if counts[_HIGH]
    }


def random_call(loc: SourceLoc | None) -> Place | None:
    """The position that calls Triton's random numbers, of code there; None of other code."""
    if loc is None or loc.file.rpartition("/")[2] != _FILE:
        return None
    position = position_of(loc)
    return tuple(frame for frame in position if frame[0] != _FILE) or None
