"""Shapes of operators' results, from their meta kernels; cached for operands that look alike.

Where a shape depends on contents that are unknown, every element is assumed to be nonzero, selected
by a mask, unique and repeated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from . import tensors
from .operators import Invocation, map_tensors, tensors_in
from .tensors import META

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
