"""Operators on CPU tensors: as a GPU's libraries compute them, or filled in where a CPU cannot.

Shapes of operators' results, from their meta kernels; cached for operands that look alike.

Where a shape depends on contents that are unknown, every element is assumed to be nonzero, selected
by a mask, unique and repeated once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from . import tensors
from .operators import Invocation, map_tensors, tensors_in
from .tensors import META

UNSUPPORTED = (
    *("not implemented for", "Could not run", "not supported", "only supports", "unsupported"),
    *("expected scalar type", "not compiled"),
)
"""Parts of torch's messages about an operator that a CPU cannot compute for the given types."""
HALVES = (torch.float16, torch.bfloat16)
SUMMING = frozenset(
    (
        *("mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot", "matmul"),
        *("linear", "convolution", "sum", "mean", "var", "var_mean", "std", "std_mean", "norm"),
        *("linalg_vector_norm", "prod", "cumsum", "logcumsumexp", "logsumexp", "nansum"),
        *("_softmax", "_log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
        *("native_layer_norm", "native_layer_norm_backward", "native_group_norm"),
        *("native_group_norm_backward", "native_batch_norm", "native_batch_norm_backward"),
        *("_fused_rms_norm", "_fused_rms_norm_backward", "nll_loss_forward", "mse_loss"),
        *("embedding_dense_backward", "index_add", "scatter_add", "gelu", "gelu_backward"),
        *("silu", "silu_backward", "convolution_backward"),
    )
)
"""Operators that sum up, or whose CPU kernels keep intermediate results in half precision."""
STATISTICS = frozenset(("native_layer_norm", "native_group_norm", "_fused_rms_norm"))
"""Operators whose results, except for the first, are float32 on a GPU."""


def computed(operation: Invocation) -> Any:
    """An operator's results.

    Where all kernels are executed, half precision is summed in float32 and rounded once, as GPUs'
    libraries do: else a script's reference would be less exact than the kernel under test.
    """
    if not tensors.ALL_CONTENTS or operation.plan.name not in SUMMING:
        return operation.run()
    half = _half(operation)
    return operation.run() if half is None else _in_float32(operation, half)


def _in_float32(operation: Invocation, half: torch.dtype) -> Any:
    func, name, kwargs = operation.func, operation.plan.name, operation.kwargs
    wide = [map_tensors(value, _widened) for value in operation.args]
    named = {key: map_tensors(value, _widened) for key, value in kwargs.items() if key != "dtype"}
    stays_wide = "float32" in str(kwargs.get("dtype"))
    if name in ("_softmax", "_log_softmax") and len(wide) > 2 and wide[2] is True:
        wide[2], stays_wide = False, True  # half_to_float
    results = func(*wide, **named)
    if stays_wide:
        return results
    if isinstance(results, torch.Tensor):
        return _narrowed(results, kwargs.get("dtype") or half)
    half_count = 1 if name in STATISTICS else len(results)
    narrow = [map_tensors(result, lambda t: _narrowed(t, half)) for result in results[:half_count]]
    return (*narrow, *results[half_count:])


def _half(operation: Invocation) -> torch.dtype | None:
    """The half-precision type among the arguments' tensors; None without one."""
    for value in (*operation.args, *operation.kwargs.values()):
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, torch.Tensor) and item.dtype in HALVES:
                return item.dtype
    return None


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in HALVES else tensor


def _narrowed(result: torch.Tensor, kind: Any) -> torch.Tensor:
    return result.to(kind) if result.dtype == torch.float32 else result


def filled(shape: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of a meta tensor's shape: of ones for floats, which divide; else of zeros."""
    return _filled(shape, 1 if shape.dtype.is_floating_point else 0)


def unwritten(shape: torch.Tensor) -> torch.Tensor:
    """A CPU tensor of a meta tensor's shape, for memory that nobody has written.

    Where values are real it holds what no right result has: NaN, or the largest integer.
    """
    dtype = shape.dtype
    if not tensors.VALUES_ARE_REAL or not shape.numel():
        return filled(shape)
    if dtype.is_floating_point or dtype.is_complex:
        return _filled(shape, math.nan)
    try:
        return _filled(shape, True if dtype == torch.bool else torch.iinfo(dtype).max)
    except TypeError:  # packed and quantised types
        return filled(shape)


def _filled(shape: torch.Tensor, value: Any) -> torch.Tensor:
    contents = torch.empty_strided(shape.size(), shape.stride(), dtype=shape.dtype, device="cpu")
    try:
        return contents.fill_(value)
    except (NotImplementedError, RuntimeError):  # a type that has no fill: its bits stay arbitrary
        return contents


def is_unsupported(error: Exception) -> bool:
    """Whether the error says that the CPU lacks this operator, not that it was misused."""
    if isinstance(error, NotImplementedError):
        return True
    text = str(error)
    return any(phrase in text for phrase in UNSUPPORTED)


MAX_CACHED = 20_000
_cached: dict[Any, Any] = {}


def shape_alone(tensor: torch.Tensor) -> torch.Tensor:
    """A meta tensor of the same shape, strides and type."""
    if tensor.is_meta:
        return tensor
    if tensor.layout != torch.strided:
        return tensor.to("meta")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=META)


def shape_of(operation: Invocation) -> Any:
    """An operator's result as meta tensors, however large the operands are.

    Raises:
        Exception: the operator has no meta kernel, or that raises, as the real one would.
    """
    args, kwargs = operation.args, operation.kwargs
    assumed = ASSUMED.get(operation.plan.name)
    if assumed is not None and any(
        t.is_meta for t in tensors_in((list(args), list(kwargs.values())))
    ):
        return assumed(*args, **kwargs)
    key = None if operation.plan.mutates else _key(operation)
    described = _cached.get(key) if key is not None else None
    if described is not None:
        return _meta_tensors(described)
    try:
        result = _by_meta_kernel(operation)
    except (NotImplementedError, RuntimeError):
        # Some meta kernels refuse types that the real ones take: `mask << shifts`.
        result = _from_one_element(operation)
        if result is None:
            raise
    if key is not None:
        if len(_cached) >= MAX_CACHED:
            _cached.clear()
        _cached[key] = map_tensors(result, lambda t: _Described((t.size(), t.stride(), t.dtype)))
    return result


def shape_or_none(operation: Invocation) -> Any:
    """An operator's result as meta tensors; None where only the CPU kernel can tell the shape."""
    try:
        return shape_of(operation)
    except Exception:  # no meta kernel, or one that needs values: run the CPU kernel instead
        return None


def is_surely_small(operation: Invocation) -> bool:
    """Whether a result is small for certain; False where only its shape can tell."""
    if operation.plan.takes_sizes:
        return False
    operands = tensors_in(operation.args)
    if operation.plan.pointwise:
        return _broadcast_size(operands) <= tensors.FLOAT_LIMIT
    bound = 1
    for tensor in operands:
        bound *= max(1, tensor.numel())
        if bound > tensors.FLOAT_LIMIT:
            return False
    return True


def decides_shape(name: str, args: Sequence[Any]) -> bool:
    """Whether the shape of an operator's result depends on the contents of its operands."""
    if name != "index":
        return name in ASSUMED
    return any(map(_is_mask, args[1] if len(args) > 1 else ()))


def _by_meta_kernel(operation: Invocation) -> Any:
    on_meta = operation.mapped(shape_alone)
    operands, changed = list(on_meta.args), on_meta.kwargs
    position = operation.plan.device_position
    if position is not None:
        if len(operands) > position:
            operands[position] = META
        else:
            changed["device"] = META
    changed.pop("generator", None)
    return operation.func(*operands, **changed)


def _from_one_element(operation: Invocation) -> Any:
    """A pointwise operator's result; its type is computed from one element. None if that fails."""
    if not operation.plan.pointwise or operation.plan.mutates:
        return None
    shapes = []

    def one_element(tensor: torch.Tensor) -> torch.Tensor:
        shapes.append(tensor.shape)
        return torch.ones([1] * tensor.dim(), dtype=tensor.dtype, device="cpu")

    try:
        result = operation.mapped(one_element).run()
        extents = torch.broadcast_shapes(*shapes)
    except (NotImplementedError, RuntimeError):
        return None
    return torch.empty(extents, dtype=result.dtype, device=META)


def _key(operation: Invocation) -> Any:
    """A cache key of all that the shape depends on; None for arguments without one."""
    try:
        named = [(name, _part(value)) for name, value in operation.kwargs.items()]
        key = (operation.func, *[_part(value) for value in operation.args], *named)
        hash(key)
    except (TypeError, RuntimeError):
        return None
    return key


def _part(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise TypeError("a layout whose shape is not all there is to know")
        return value.shape, value.stride(), value.dtype
    if type(value) in (list, tuple):
        return tuple([_part(inner) for inner in value])
    if isinstance(value, torch.Generator):
        return None
    return type(value), value  # 1, 1.0 and True are equal, but not to an operator


class _Described(tuple):  # type: ignore[type-arg]
    """Size, strides and type of one tensor."""

    __slots__ = ()


def _meta_tensors(described: Any) -> Any:
    if type(described) is _Described:
        size, stride, dtype = described
        return torch.empty_strided(size, stride, dtype=dtype, device=META)
    if isinstance(described, (list, tuple)):
        return type(described)([_meta_tensors(inner) for inner in described])
    return described


def _broadcast_size(operands: Any) -> int:
    """Elements of the operands' broadcast shape."""
    extents: list[int] = []
    size = 1
    for tensor in operands:
        shape = tensor.shape
        missing = len(shape) - len(extents)
        if missing > 0:
            extents = [1] * missing + extents
        for i, extent in enumerate(reversed(shape), 1):
            if extents[-i] == 1:
                extents[-i] = extent
    for extent in extents:
        size *= extent
    return size


def _is_mask(index: Any) -> bool:
    return index is not None and index.dtype in (torch.bool, torch.uint8)


def _meta(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device=META)


def _masked_select(x: torch.Tensor, mask: torch.Tensor, **_: Any) -> Any:
    return _meta(torch.broadcast_shapes(x.shape, mask.shape).numel(), dtype=x.dtype)


def _index(x: torch.Tensor, indices: Any, **_: Any) -> Any:
    shaped: list[torch.Tensor | None] = []
    for index in indices:
        if _is_mask(index):
            shaped += [_meta(index.numel()) for _ in range(index.dim())]
        else:
            shaped.append(index if index is None else index.to("meta"))
    return torch.ops.aten.index.Tensor(x.to("meta"), shaped)


def _unique(x: torch.Tensor, *_: Any, **__: Any) -> Any:
    n = x.numel()
    return _meta(n, dtype=x.dtype), _meta(*x.shape), _meta(n)


def _unique_dim(x: torch.Tensor, dim: int = 0, *_: Any, **__: Any) -> Any:
    return _meta(*x.shape, dtype=x.dtype), _meta(x.shape[dim]), _meta(x.shape[dim])


def _unique_consecutive(
    x: torch.Tensor, inverse: bool = False, counts: bool = False, dim: int | None = None
) -> Any:
    return _unique(x) if dim is None else _unique_dim(x, dim)


def _repeat_interleave(
    x: torch.Tensor,
    repeats: torch.Tensor | int | None = None,
    dim: int | None = None,
    *,
    output_size: int | None = None,
) -> Any:
    if repeats is None:  # only indices are returned: `x` holds the repeats
        return _meta(output_size if output_size is not None else x.numel())
    shape = [x.numel()] if dim is None else list(x.shape)
    axis = dim or 0
    times = repeats if isinstance(repeats, int) else 1
    shape[axis] = output_size if output_size is not None else shape[axis] * times
    return _meta(*shape, dtype=x.dtype)


def _bincount(x: torch.Tensor, weights: Any = None, minlength: int = 0) -> Any:
    dtype = weights.dtype if weights is not None else torch.int64
    return _meta(max(1, minlength), dtype=dtype)


ASSUMED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "nonzero": lambda x, **_: _meta(x.numel() if x.dim() else 1, x.dim()),
        "nonzero_numpy": lambda x, **_: [_meta(x.numel()) for _ in range(max(1, x.dim()))],
        "nonzero_static": lambda x, *, size, **_: _meta(size, x.dim()),
        "masked_select": _masked_select,
        "index": _index,
        "_unique": _unique,
        "_unique2": _unique,
        "unique_dim": _unique_dim,
        "unique_consecutive": _unique_consecutive,
        "repeat_interleave": _repeat_interleave,
        "bincount": _bincount,
    }
)
"""Operator -> function from its arguments, plain tensors, to meta tensors of the result's shape."""
