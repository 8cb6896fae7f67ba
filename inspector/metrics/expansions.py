"""What operations without an instruction of their own take of a kernel's vector instructions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from fractions import Fraction
from typing import Any, Final

from ..isa.dataflow.value_graph import ValueGraph, graph_of
from ..model import Instruction, Metric, Scalar
from .divisions import integer_divisions
from .elementary_functions import (
    Expansion,
    exponentials_and_logarithms,
    powers,
    square_roots,
)
from .entries import of_kernels
from .loop_shape import position_of
from .mix import vector_instructions
from .options import option
from .subject import LineName, Place, Subject, own_instructions

_DIVISION, _EXP_LOG, _POWER = "integer_division", "exp_log", "power"
_SQUARE_ROOT: Final = "square_root"
_SHARED = (
    "`instructions` that they take of the `valu` of the hot loop with the largest share of them "
    "(in kernels without hot loops: of all), `saved` at least by the shorter form, `at` the line "
    "of the first"
)

SPECS: Final = of_kernels(
    {
        _DIVISION: "Vector divisions and remainders of integers by a divisor unknown to the "
        "compiler: how many (`count`, with the branches for operands of 32 bits of those of 64), "
        f"{_SHARED}; `least` of `saved` where all operands fit 32 bits; where hot loops have "
        "none: those outside of them, beside the `loop_instructions` of an iteration of the "
        "longest (else 0)",
        _EXP_LOG: "Exponentials (`exponentials`) and natural logarithms (`logarithms`) of float32 "
        f"that are computed with care for rounding, overflow or denormal numbers: {_SHARED}; the "
        "v_exp and v_log instructions are not counted; `library`: libdevice's functions that they "
        "belong to, and `short`: what is shorter in its language, in the order to try",
        _POWER: "Powers x**y that are computed by pow's full sequence (`count`), some of them in "
        f"float64 (`double`): {_SHARED}",
        _SQUARE_ROOT: "Square roots of float32 that are exact to the last bit (`count`): "
        f"{_SHARED}; the v_sqrt instructions are not counted",
    }
)

_LIBRARY_CALL: Final = "tt.extern_elementwise"
_LIBRARY_NAME: Final = re.compile(r"__ocml_(\w+)_f32$")
_FLUSHED: Final = frozenset(("exp2", "log", "log2", "log10"))
"""Functions of libdevice that allow_flush_denorm shortens as it does Triton's own: compiled alone
for gfx942, log of 20 vector instructions has 14 then, exp2 of 15 has 8. exp (21), tanh (34), expm1
(33) and sinh (121) stay as they are."""
_SHORTER: Final = {
    "exp": "tl.exp for libdevice.exp",
    "tanh": "libdevice.fast_tanhf for libdevice.tanh",
}
_BY_EXP: Final = "tl.exp for libdevice.{} (less exact near 0)"
# It leaves tl.exp a product and tl.log six instructions, one with tl.log2.
_FLUSH: Final = "allow_flush_denorm=True with tl.log2(x) * 0.69314718 for tl.log(x)"
# __logf is logf in today's clang. The flags left a kernel 343 of 657 instructions, __expf 139.
_OF_HIP: Final = (
    "__expf(x) for expf(x), __log2f(x) * 0.69314718f for logf(x), 1 - 2 / (1 + __expf(2 * x)) for "
    "tanhf(x), or compile with -fapprox-func -fgpu-flush-denormals-to-zero"
)

_Find = Callable[[ValueGraph, Sequence[int]], Iterable[Expansion]]
_FIND: Final[Mapping[str, tuple[_Find, tuple[str, ...]]]] = {
    _DIVISION: (integer_divisions, ("count", "least")),
    _EXP_LOG: (exponentials_and_logarithms, ("exponentials", "logarithms")),
    _POWER: (powers, ("count", "double")),
    _SQUARE_ROOT: (square_roots, ("count",)),
}
"""Metric -> what finds the operations, and how many of which kind it tells."""


def kernel_metrics(subject: Subject, hot: Set[str]) -> Iterator[Metric]:
    """The metrics of `SPECS`."""
    function = subject.function
    if not function.instructions:
        for name in _FIND:
            yield Metric(name, None, "mapping", "derived", "no code was read")
        return
    code_of = own_instructions(function)
    hot_code: list[Sequence[Instruction]]
    hot_code = [code_of[loop.id] for loop in function.loops if loop.id in hot]
    regions = hot_code or [function.instructions]
    for name in _FIND:
        candidates = [_region(subject, name, region) for region in regions]
        value = max(candidates, key=lambda found: Fraction(found["saved"], max(found["valu"], 1)))
        value["at"] = _with_all(value["at"], [found["at"] for found in candidates])
        if name == _DIVISION:
            value["loop_instructions"] = 0
            if hot_code and not value["saved"]:
                inside = {inst.index for region in hot_code for inst in region}
                outside = [inst for inst in function.instructions if inst.index not in inside]
                before = _region(subject, name, outside)
                if before["saved"]:
                    longest = max(map(len, hot_code))
                    value = {**before, "loop_instructions": longest}
        yield Metric(name, value, "mapping", "derived")


def _with_all(name: LineName | None, of_regions: Sequence[LineName | None]) -> LineName | None:
    """The name of a line that means the operations of all regions as well."""
    if name is None:
        return None
    return LineName.of(name.code, [inst for one in of_regions if one for inst in one.everywhere])


def _region(subject: Subject, name: str, region: Sequence[Instruction]) -> dict[str, Any]:
    """The metric's value for a region."""
    find, kinds = _FIND[name]
    found = list(find(graph_of(subject.function), [inst.index for inst in region]))
    results = [expansion.result for expansion in found if expansion.kind in kinds]
    code = subject.function.instructions
    first = sorted(results, key=lambda inst: inst.index)
    steps = [code[index] for index in sorted(_steps(found))] if first else []
    counts = {kind: sum(expansion.kind == kind for expansion in found) for kind in kinds}
    if "count" in counts:
        counts["count"] = len(results)
    if name == _DIVISION:
        # Operands that fit 32 bits take the short form, where each division has one.
        short = [expansion for expansion in found if expansion.kind != "wide"]
        counts["least"] = _saved(short if 2 * len(short) >= len(found) else found)
    value = {
        **counts,
        "instructions": len(_steps(found)),
        "saved": _saved(found),
        "valu": vector_instructions(region),
        "at": LineName.of([*first, *steps], steps),
    }
    return value | (_shorter_forms(subject, results) if name == _EXP_LOG else {})


def _steps(expansions: Iterable[Expansion]) -> Set[int]:
    return frozenset().union(*(expansion.steps for expansion in expansions))


def _saved(expansions: Sequence[Expansion]) -> int:
    return max(len(_steps(expansions)) - sum(one.short for one in expansions), 0)


def _shorter_forms(subject: Subject, results: Sequence[Instruction]) -> dict[str, Scalar]:
    """`library` and `short` of exponentials and logarithms, whose v_exp and v_log are given."""
    if subject.ttgir is None:
        short = _OF_HIP if option(subject, "num_warps") is None else _FLUSH
        return {"library": None, "short": short}
    library: dict[Place, str] = {}
    for op in subject.ttgir.ops:
        symbol = op.attributes.get("symbol") if op.name == _LIBRARY_CALL else None
        name = _LIBRARY_NAME.match(symbol) if isinstance(symbol, str) else None
        if name is not None and op.loc is not None:
            library[position_of(op.loc)] = name[1]
    functions = [library.get(position_of(i.loc)) if i.loc is not None else None for i in results]
    called = sorted({name for name in functions if name is not None})
    own = [name for name in called if name not in _FLUSHED]
    steps = [_SHORTER.get(name) or _BY_EXP.format(name) for name in own]
    if "exp" in own or any(name not in own for name in functions):
        steps.append(_FLUSH)
    return {
        "library": ", ".join(f"libdevice.{name}" for name in called) or None,
        "short": ", ".join(steps) or None,
    }
