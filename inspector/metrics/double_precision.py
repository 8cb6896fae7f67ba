"""Values that go through float64 on their way between float32, as double literals make them.

In C++ `x * 0.5` with a float `x` is a product of doubles: x is widened, and the result narrowed
where it is stored as a float. A conversion takes a quarter of the rate of other vector
instructions, and a float64 operation half on CDNA 3, less elsewhere. Numbers that lie in memory as
float64 are another matter: there the type is the data's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Set
from typing import Final

from ..base.recent_results import kept_for_recent
from ..isa.dataflow.value_graph import Operation, graph_of
from ..isa.mnemonics import access_bits
from ..model import Function, Scalar
from .entries import of_both
from .mix import VALU_CLASSES
from .subject import Subject, Tally, line_of_most

DOUBLE_SPECS = of_both(
    {
        "float64": "Vector instructions on float64: `arithmetic`, conversions to it from float32 "
        "(`widened`) and from it to float32 (`narrowed`), all of these (`instructions`), those of "
        "them whose operand was loaded or whose result is stored as float64 (`of_memory`; doubles "
        "among the kernel's arguments do not count), and `at` the line that has most of them",
    }
)

_ARITHMETIC: Final = re.compile(r"v_(?!cvt_)\w*_f64(?:_|$)")
_LOADS: Final = frozenset(("global_load", "lds_read", "smem_load"))
_STORES: Final = frozenset(("global_store", "lds_write", "atomic"))


def doubles(subject: Subject, region: Tally) -> dict[str, Scalar]:
    """The value of the metric of `DOUBLE_SPECS`."""
    code = subject.function.instructions
    wide = [code[i] for i in region.indices if "f64" in code[i].op.name]
    kinds = {i.index: kind for i in wide if i.cls in VALU_CLASSES and (kind := _kind_of(i.op.name))}
    line, _ = line_of_most(code[index] for index in kinds)
    of_memory = _of_memory(subject.function) if kinds else frozenset[int]()
    counts = Counter(kinds.values())
    return {
        "instructions": len(kinds),
        **{kind: counts[kind] for kind in ("arithmetic", "widened", "narrowed")},
        "of_memory": len(kinds.keys() & of_memory),
        "at": line,
    }


def _kind_of(name: str) -> str | None:
    """The kind of an instruction; None for what is no float64 or converts other numbers."""
    if name.startswith("v_cvt_f64_f32"):
        return "widened"
    if name.startswith("v_cvt_f32_f64"):
        return "narrowed"
    return "arithmetic" if _ARITHMETIC.match(name) else None


@kept_for_recent
def _of_memory(function: Function) -> Set[int]:
    """Indices of float64 instructions that read a loaded number, or whose result is stored."""
    start = function.resources.wave_start
    arguments = start.kernarg_ptr if start is not None else None
    places = set[int]()
    for operation in graph_of(function).in_order:
        if operation.inst.cls in _STORES:
            made_of = {origin.inst.index: _kind_of(origin.name) for origin in operation.origins()}
            places |= {
                index for index, kind in made_of.items() if kind in ("arithmetic", "widened")
            }
        elif _kind_of(operation.name) in ("arithmetic", "narrowed") and any(
            _is_loaded(origin, arguments) for origin in operation.origins()
        ):
            places.add(operation.inst.index)
    return places


def _is_loaded(operation: Operation, arguments: int | None) -> bool:
    """Whether an operation loads 64 bits or more, but not of the kernel's arguments."""
    inst, base = operation.inst, operation.sources[:1]
    is_argument = base and base[0].kind == "sgpr" and base[0].first == arguments
    return (
        inst.cls in _LOADS
        and not (is_argument and operation.argument is None)
        and (access_bits(inst.op, inst.operands) or 0) >= 64
    )
