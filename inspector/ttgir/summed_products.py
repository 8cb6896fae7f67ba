"""Matrix products that are written as a broadcast multiplication and a sum.

Triton makes a dot of `tl.sum(a[:, :, None] * b[None, :, :], 1)` (lib/Dialect/Triton/Transforms,
Combine.cpp), but not of a sum over another dimension, nor where a factor was loaded or computed in
three dimensions: the vector unit multiplies those, and the sum crosses lanes.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..base.limits import natural
from ..model import TtgirModule, TtgirOp
from .flow import UNKNOWN, DataFlow, flow_of
from .values import undense

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
