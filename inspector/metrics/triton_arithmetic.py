"""Matrix products that are written as a broadcast multiplication and a sum.

Triton makes a dot of `tl.sum(a[:, :, None] * b[None, :, :], 1)` (lib/Dialect/Triton/Transforms,
Combine.cpp), but not of a sum over another dimension, nor where a factor was loaded or computed in
three dimensions: the vector unit multiplies those, and the sum crosses lanes.

Operands of dots that are computed from loaded integers: weights of 4 or 8 bits. Dots whose operands
are exponentials of whole tiles, which a replicated layout computes twice.

Tensors that are rounded to bfloat16 between two operations that compute with them.

No vector instruction of CDNA, or RDNA up to gfx12, computes in bfloat16: the backend widens the
operands to float32, computes, and rounds the result. Where the next operation widens that again,
the rounding is work that float32 throughout would not have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from typing import Final

from msgspec import Struct

from ..base.limits import natural
from ..model import SourceLoc, TtgirModule, TtgirOp, TtgirType
from ..ttgir.attrs import undense
from ..ttgir.conversions import CONVERSIONS
from ..ttgir.flow import UNKNOWN, DataFlow, flow_of, reached, users_of, values_behind
from ..ttgir.layouts import type_to_linear
from ..ttgir.queries import DOTS, LOADS, LOCAL_ALLOCATIONS, LOCAL_LOAD, VIEWS

_REDUCE = "tt.reduce"
_MULTIPLY = "arith.mulf"
_ADD = "arith.addf"
_WIDEN = frozenset({"arith.extf", "tt.fp_to_fp"})
_SAME_ELEMENTS = frozenset({"ttg.convert_layout"})
_MOVES = frozenset({"tt.broadcast", "tt.expand_dims"})
_ALONG_ELEMENTS = ("arith.", "math.")
_OF_ELEMENTS = frozenset(
    {
        "amdg.buffer_load",
        "tt.addptr",
        "tt.bitcast",
        "tt.fp_to_fp",
        "tt.int_to_ptr",
        "tt.load",
        "tt.ptr_to_int",
        "ttg.convert_layout",
    }
)
"""Operations that compute each element of the result from the operands' elements at its place."""


class SummedProduct(Struct, frozen=True):
    """A sum over K of the products of an M x K and a K x N tensor.

    Args:
        multiply: the multiplication, over M x N x K elements.
        m, n, k: the extents, in elements, M the longer of the two that are left.
        element: MLIR's type of the factors before they were widened, the wider of the two.
    """

    multiply: TtgirOp
    reduce: TtgirOp
    m: int
    n: int
    k: int
    element: str


def summed_products(module: TtgirModule) -> list[SummedProduct]:
    """The products of a module whose two factors do not change along one dimension each."""
    sums = [op for op in module.ops if op.name == _REDUCE and len(op.operands) == 1]
    if not sums or not any(op.name == _MULTIPLY for op in module.ops):
        return []
    flow = flow_of(module)
    return [product for op in sums if (product := _product(flow, op)) is not None]


def _product(flow: DataFlow, op: TtgirOp) -> SummedProduct | None:
    """The product that a reduction sums; None if it is none."""
    inside = [other.name for other in flow.module.ops if other.parent == op.index]
    if [name for name in inside if name != "tt.reduce.return"] != [_ADD]:
        return None
    multiply = _through(flow, flow.operands[op.index][0], _SAME_ELEMENTS | _WIDEN)
    if multiply is None or multiply.name != _MULTIPLY:
        return None
    shape = multiply.result_types[0].shape
    axis = op.attributes.get("axis")
    if len(shape) != 3 or axis not in (0, 1, 2):
        return None
    first, second = (dim for dim in range(3) if dim != axis)
    same = [_constant_dims(flow, value) for value in flow.operands[multiply.index]]
    if same not in ([{first}, {second}], [{second}, {first}]):
        return None
    elements = [_narrowest(flow, value) for value in flow.operands[multiply.index]]
    if None in elements:
        return None
    element = max((element for element in elements if element), key=_bits)
    m, n = sorted((shape[first], shape[second]), reverse=True)
    return SummedProduct(multiply, op, m, n, shape[axis], element)


def _through(flow: DataFlow, value: int, names: frozenset[str]) -> TtgirOp | None:
    """The operation that computes a value, past operations that only convert it."""
    op = flow.op(value)
    while op is not None and op.name in names:
        value = flow.operands[op.index][0]
        op = flow.op(value)
    return op


def _narrowest(flow: DataFlow, value: int) -> str | None:
    """The element type of a value before it was widened and spread out."""
    op = flow.op(value)
    while op is not None and op.name in _WIDEN | _SAME_ELEMENTS | _MOVES:
        inner = flow.op(flow.operands[op.index][0])
        if inner is None:
            return op.operand_types[0].element if op.operand_types else None
        op = inner
    return op.result_types[0].element if op is not None else None


def _bits(element: str) -> int:
    """The width that a type's name states: `bf16`, `f8E4M3FN`."""
    digits = element.lstrip("abcdefghijklmnopqrstuvwxyz")
    head = digits.partition("E")[0]
    return natural(head) or 0


def _constant_dims(flow: DataFlow, value: int) -> set[int]:
    """Dimensions of more than one element along which all elements of a tensor are certainly
    equal.
    """
    op = flow.op(value)
    if op is None:
        return set()
    shape = op.result_types[0].shape
    return {dim for dim in _equal_along(flow, value) if shape[dim] > 1}


def _equal_along(flow: DataFlow, value: int) -> set[int]:
    """Dimensions of a tensor along which all elements are equal, and those of one element."""
    equal: dict[int, set[int]] = {}
    ahead = [value]
    while ahead:
        current = ahead[-1]
        op = _maker(flow, current)
        inputs = () if op is None else flow.operands[op.index]
        missing = [v for v in inputs if v not in equal and _maker(flow, v) is not None]
        if missing and current not in equal:
            ahead += missing
            continue
        ahead.pop()
        equal.setdefault(current, _equal_by(flow, op, equal) if op is not None else set())
    return equal[value]


def _maker(flow: DataFlow, value: int) -> TtgirOp | None:
    """The operation that computes a value; None for what control flow passes on."""
    return None if value == UNKNOWN or value in flow.carried else flow.op(value)


def _equal_by(flow: DataFlow, op: TtgirOp, equal: Mapping[int, set[int]]) -> set[int]:
    """The dimensions that follow from an operation and its operands."""
    shape = op.result_types[0].shape if op.result_types else ()
    everywhere = set(range(len(shape)))
    single = {dim for dim, size in enumerate(shape) if size == 1}
    inputs = flow.operands[op.index]
    if op.name == "tt.splat":
        return everywhere
    if op.name == "arith.constant":
        is_splat = not isinstance(undense(op.attributes.get("value")), tuple)
        return everywhere if is_splat else single
    if op.name == "tt.broadcast":
        return equal.get(inputs[0], single)
    if op.name == "tt.expand_dims":
        axis = op.attributes.get("axis")
        if not isinstance(axis, int):
            return single
        return {dim + (dim >= axis) for dim in equal.get(inputs[0], ())} | {axis}
    if op.name not in _OF_ELEMENTS and not op.name.startswith(_ALONG_ELEMENTS):
        return single
    for value, of_type in zip(inputs, op.operand_types, strict=False):
        if of_type.kind not in ("scalar", "ptr"):
            everywhere &= equal.get(value, set())
    return everywhere | single


_CONVERSIONS: Final = frozenset(("arith.sitofp", "arith.uitofp"))
_SHIFTS: Final = frozenset(("arith.shrsi", "arith.shrui", "arith.andi"))
_FROM_LDS: Final = "ttg.local_load"
"""Reads what a load brought there, an iteration earlier where the loop is pipelined."""
_MOST_VALUES: Final = 400
"""Values above a dot's operand that are looked at."""


class Unpacked(Struct, frozen=True):
    """A dot in a loop with such an operand.

    Attributes:
        conversion: the one that makes numbers of the integers.
        element: the type of these numbers.
        operand: the type that the dot multiplies.
        bits: of each integer as it lies in memory: 4 where it is shifted or masked out of a byte
            or word, else those of the loaded element.
        is_scaled: whether the numbers are multiplied before the dot.
    """

    dot: TtgirOp
    conversion: TtgirOp
    element: str
    operand: str
    bits: int
    is_scaled: bool


def unpacked_operands(module: TtgirModule) -> Iterator[Unpacked]:
    """Yields the dots in loops of which an operand is converted from loaded integers."""
    if not any(op.name in _CONVERSIONS for op in module.ops):
        return
    flow = flow_of(module)
    for op in module.ops:
        if op.name in DOTS and flow.loop[op.index] is not None:
            yield from (
                unpacked
                for value in flow.operands[op.index][:2]
                if (unpacked := _of_operand(flow, op, value)) is not None
            )


def _of_operand(flow: DataFlow, dot: TtgirOp, operand: int) -> Unpacked | None:
    above = _made_of(flow, operand)
    conversion = next(
        (op for op in above if op.name in _CONVERSIONS and op.result_types[0].kind == "tensor"),
        None,
    )
    if conversion is None:
        return None
    sources = [op for value in flow.operands[conversion.index] for op in _made_of(flow, value)]
    load = next((op for op in sources if op.name in LOADS or op.name == _FROM_LDS), None)
    element = conversion.result_types[0].element
    if load is None or not load.result_types or element is None:
        return None
    loaded = load.result_types[0].element or ""
    if not loaded.startswith("i") or not loaded[1:].isdecimal():
        return None
    is_shifted = any(op.name in _SHIFTS and op.result_types[0].kind == "tensor" for op in sources)
    is_scaled = any(op.name == "arith.mulf" for op in above)
    bits = 4 if is_shifted else int(loaded[1:])
    maker = flow.op(operand)
    multiplied = maker.result_types[0].element if maker is not None else element
    return Unpacked(dot, conversion, element, multiplied, bits, is_scaled)


def _made_of(flow: DataFlow, value: int) -> list[TtgirOp]:
    """The operations that a value is computed by, up to loads, the nearest first."""
    values = islice(values_behind(flow, (value,), LOADS | DOTS), _MOST_VALUES)
    return [maker for _, maker in values if maker is not None]


_BFLOAT16 = "bf16"
_FLOAT32 = "f32"
_CLAMP = "tt.clampf"
_ARITHMETIC = frozenset(
    ("arith.addf", "arith.divf", "arith.maximumf", "arith.maxnumf", "arith.minimumf",
     "arith.minnumf", "arith.mulf", "arith.subf", _CLAMP)
)  # fmt: skip
_NARROWING = frozenset(("arith.truncf", "tt.fp_to_fp"))
_WIDENING = frozenset(("arith.extf", "tt.fp_to_fp"))
_SAME_VALUES = frozenset(
    ("arith.select", "tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans")
)
"""Operations that would pass on float32 as they pass on bfloat16, at no more instructions."""


class Rounding(Struct, frozen=True):
    """An operation whose result need not be rounded to bfloat16.

    Attributes:
        elements: that a lane rounds there without need.
    """

    op: TtgirOp
    elements: int


def roundings(module: TtgirModule) -> list[Rounding]:
    """The operations whose rounded results only arithmetic uses, in file order.

    A clamp computes a maximum and then a minimum, and rounds in between.
    """
    if not any(_is_bfloat16(kind) for op in module.ops for kind in op.result_types):
        return []
    flow = flow_of(module)
    found = []
    for op in module.ops:
        if not _rounds(op):
            continue
        linear = type_to_linear(op.result_types[0])
        if linear is None:
            continue
        times = (op.name == _CLAMP) + _is_widened_again(flow, op)
        if times:
            found.append(Rounding(op, times * linear.distinct_elements_per_thread))
    return found


def _rounds(op: TtgirOp) -> bool:
    """Whether an operation rounds a tensor of float32 values to bfloat16."""
    if len(op.result_types) != 1 or not _is_bfloat16(op.result_types[0]):
        return False
    if op.name in _NARROWING:
        return bool(op.operand_types) and op.operand_types[0].element == _FLOAT32
    return op.name in _ARITHMETIC


def _is_widened_again(flow: DataFlow, op: TtgirOp) -> bool:
    """Whether nothing but arithmetic, which widens it, uses an operation's result."""
    users = users_of(flow)

    def passed_on(value: int) -> Iterator[int]:
        return (
            result
            for user in users.get(value, ())
            if user.name in _SAME_VALUES
            for result in flow.results[user.index]
        )

    values = reached(flow.results[op.index], passed_on)
    uses = [user for value in values for user in users.get(value, ())]
    last = [user for user in uses if user.name not in _SAME_VALUES]
    return bool(last) and all(map(_is_arithmetic, last))


def _is_arithmetic(user: TtgirOp) -> bool:
    is_widened = bool(user.result_types) and user.result_types[0].element == _FLOAT32
    return user.name in _ARITHMETIC or (user.name in _WIDENING and is_widened)


def _is_bfloat16(kind: TtgirType) -> bool:
    return kind.kind == "tensor" and kind.element == _BFLOAT16


_EXPONENTIALS: Final = frozenset(("math.exp", "math.exp2"))
_PASSED: Final = CONVERSIONS | LOCAL_ALLOCATIONS | LOCAL_LOAD | VIEWS | {"tt.trans", "tt.fp_to_fp"}
_COST: Final = 10
"""Vector instructions of an exponential with what is computed around it.

Tried on gfx1100: 32 of them for a second time, for 16x16x32 in float32, were 307 instructions.
"""


def exponentials_outweigh(module: TtgirModule, loc: SourceLoc | None) -> bool:
    """Whether computing a dot's exponentials once more takes as long as its products.

    `loc`: the dot's position.
    """
    flow = flow_of(module)
    for op in module.ops:
        if op.name not in DOTS or loc is None or op.loc != loc or len(op.operand_types) < 2:
            continue
        left, right = op.operand_types[0].shape, op.operand_types[1].shape
        if len(left) < 2 or len(right) < 2:
            return False
        products = prod(left) * right[-1]
        elements = sum(
            prod(operand_type.shape)
            for value, operand_type in zip(
                flow.operands[op.index][:2], op.operand_types, strict=False
            )
            if _is_exponential(flow, value, prod(operand_type.shape))
        )
        return _COST * elements >= products
    return False


def _is_exponential(flow: DataFlow, value: int, elements: int) -> bool:
    """Whether a tile is computed from an exponential of each of its elements."""

    def maker_of(current: int) -> TtgirOp | None:
        maker = flow.op(current) if current not in flow.carried else None
        return maker if maker is not None and maker.result_types else None

    def sources(current: int) -> Sequence[int]:
        maker = maker_of(current)
        if maker is None or maker.name in _EXPONENTIALS:
            return ()
        is_passed = maker.name in _PASSED or maker.name.startswith(("arith.", "math."))
        return flow.operands[maker.index] if is_passed else ()

    makers = map(maker_of, reached([value], sources))
    return any(
        maker is not None
        and maker.name in _EXPONENTIALS
        and prod(maker.result_types[0].shape) == elements
        for maker in makers
    )
