"""Values that go through float64 on their way between float32, as double literals make them.

In C++ `x * 0.5` with a float `x` is a product of doubles: x is widened, and the result narrowed
where it is stored as a float. A conversion takes a quarter of the rate of other vector
instructions, and a float64 operation half on CDNA 3, less elsewhere. Numbers that lie in memory as
float64 are another matter: there the type is the data's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Set
from typing import Final

from ..isa.dataflow.operands import operand_texts
from ..isa.mnemonics import access_bits
from ..isa.vector_halves import halves
from ..isa.waitflow.registers import FIRST_SGPR, VCC, named
from ..model import Function, Instruction, Metric, MetricSpec, Scalar
from .mix import VALU_CLASSES
from .subject import Subject, Tally, source_line

_DOUBLES: Final = "float64"

SPECS = (
    MetricSpec(
        _DOUBLES,
        "mapping",
        "derived",
        "both",
        "Vector instructions on float64: `arithmetic`, conversions to it from float32 (`widened`) "
        "and from it to float32 (`narrowed`), all of these (`instructions`), those of them whose "
        "operand was loaded or whose result is stored as float64 (`of_memory`; doubles among the "
        "kernel's arguments do not count), and `at` the line that has most of them",
    ),
)

_WIDENS: Final = re.compile(r"v_cvt_f64_f32")
_NARROWS: Final = re.compile(r"v_cvt_f32_f64")
_ARITHMETIC: Final = re.compile(r"v_(?!cvt_)\w*_f64(?:_|$)")
_MOVES: Final = re.compile(
    r"(?:[vs]|v_dual)_mov_b(?:32|64)(?:_|$)|v_accvgpr_|v_read(?:first)?lane_"
)
_SELECTS: Final = re.compile(r"v_(?:dual_)?cndmask|s_cselect|v_pk_mov")
"""A result's register is that of one of the operands' registers."""
_LOADS: Final = frozenset(("global_load", "lds_read", "smem_load"))
_STORES: Final = frozenset(("global_store", "lds_write", "atomic"))
_LOADED: Final = -1
"""Stands for the instruction that has written a register, where that is a load of 64 bits."""


def doubles(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    kinds: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    code = subject.function.instructions
    places = list[int]()
    for index in region.indices:
        inst = code[index]
        if inst.cls not in VALU_CLASSES or "f64" not in inst.op.name:
            continue
        kind = _kind_of(inst.op.name)
        if kind is None:
            continue
        kinds[kind] += 1
        places.append(index)
        line = source_line(inst.loc)
        if line is not None:
            lines[line] += 1
    of_memory = _of_memory(subject.function) if places else frozenset[int]()
    value: dict[str, Scalar] = {
        "instructions": kinds.total(),
        **{kind: kinds[kind] for kind in ("arithmetic", "widened", "narrowed")},
        "of_memory": sum(index in of_memory for index in places),
        "at": max(lines, key=lambda line: lines[line], default=None),
    }
    yield Metric(_DOUBLES, value, "mapping", "derived")


def _kind_of(name: str) -> str | None:
    """The kind of an instruction; None for what is no float64 or converts other numbers."""
    if _WIDENS.match(name):
        return "widened"
    if _NARROWS.match(name):
        return "narrowed"
    return "arithmetic" if _ARITHMETIC.match(name) else None


def _of_memory(function: Function) -> Set[int]:
    """Indices of float64 instructions that read a loaded number, or whose result is stored.

    Registers are followed in the order of the code, whatever its branches.
    """
    start = function.resources.wave_start
    arguments = None
    if start is not None and start.kernarg_ptr is not None:
        arguments = FIRST_SGPR + start.kernarg_ptr
    writers: dict[int, int] = {}
    places = set[int]()
    for inst in function.instructions:
        operands = [_registers(operand) for operand in operand_texts(inst.operands)]
        if inst.cls in _STORES:
            stored = [register for registers in operands for register in registers]
            places.update(writers[r] for r in stored if writers.get(r, _LOADED) >= 0)
            continue
        kind = _kind_of(inst.op.name) if inst.cls in VALU_CLASSES else None
        first = operands[0]
        rest = [register for registers in operands[1:] for register in registers]
        if kind in ("arithmetic", "narrowed"):
            sources = first + rest if "fmac" in inst.op.name else rest
            if any(writers.get(register) == _LOADED for register in sources):
                places.add(inst.index)
        _write(writers, inst, kind, is_argument=rest[:1] == [arguments])
    return places


def _write(
    writers: dict[int, int], inst: Instruction, kind: str | None, *, is_argument: bool
) -> None:
    """Notes what has written an instruction's results, as far as float64 is concerned."""
    new: dict[int, int | None] = {}
    for name, operands in halves(inst):
        first, _, others = operands.partition(",")
        results, sources = _registers(first), _registers(others)
        if inst.cls in _LOADS and not is_argument:
            is_wide = (access_bits(inst.op, inst.operands) or 0) >= 64
            new |= dict.fromkeys(results, _LOADED if is_wide else None)
        elif kind in ("arithmetic", "widened"):
            new |= dict.fromkeys(results, inst.index)
        elif _MOVES.match(name) and len(results) == len(sources):
            new |= {to: writers.get(of) for to, of in zip(results, sources, strict=True)}
        elif _SELECTS.match(name):
            writer = next((writers[register] for register in sources if register in writers), None)
            new |= dict.fromkeys(results, writer)
        else:
            new |= dict.fromkeys(results)
    for register, writer in new.items():
        if writer is None:
            writers.pop(register, None)
        else:
            writers[register] = writer


def _registers(operand: str) -> list[int]:
    """The registers that an operand names, but for VCC, which holds no number."""
    return [register for register in named(operand) if register not in VCC]
