"""Plausible shapes and values for operators whose result depends on unknown contents.

Every element of a tensor without contents is assumed to be nonzero, selected by a mask, unique and
repeated once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from . import tensors

UNKNOWN_FLOAT = 1e-6
"""Value read for an unknown float: small, so that a difference from a reference passes."""
UNKNOWN_INTEGER = 1
LIST_LIMIT = 1 << 24
"""Elements up to which `tolist` creates a list."""


def scalar(dtype: torch.dtype, truth: bool | None) -> bool | int | float | complex:
    """The value that the host reads from an unknown element.

    Args:
        dtype: of the tensor.
        truth: the assumed result, if the element comes from a comparison.
    """
    if dtype == torch.bool:
        return truth is not False
    if dtype.is_complex:
        return complex(UNKNOWN_FLOAT)
    if dtype.is_floating_point:
        return UNKNOWN_FLOAT if truth is not False else 0.0
    return UNKNOWN_INTEGER if truth is not False else 0


def _meta(*shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _nonzero(x: torch.Tensor, **_: Any) -> Any:
    return _meta(x.numel() if x.dim() else 1, x.dim())


def _nonzero_numpy(x: torch.Tensor, **_: Any) -> Any:
    return [_meta(x.numel()) for _ in range(max(1, x.dim()))]


def _nonzero_static(x: torch.Tensor, *, size: int, **_: Any) -> Any:
    return _meta(size, x.dim())


def _masked_select(x: torch.Tensor, mask: torch.Tensor, **_: Any) -> Any:
    count = torch.broadcast_shapes(x.shape, mask.shape).numel()
    return _meta(count, dtype=x.dtype)


def _index(x: torch.Tensor, indices: Any, **_: Any) -> Any:
    shaped: list[torch.Tensor | None] = []
    for index in indices:
        if index is not None and index.dtype in (torch.bool, torch.uint8):
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
    """See `SHAPES`."""
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


SHAPES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "nonzero": _nonzero,
        "nonzero_numpy": _nonzero_numpy,
        "nonzero_static": _nonzero_static,
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


def decides_shape(name: str, args: Sequence[Any]) -> bool:
    """Whether the shape of an operator's result depends on the contents of its operands.

    Args:
        name: of the operator.
        args: its arguments.
    """
    if name != "index":
        return name in SHAPES
    indices = args[1] if len(args) > 1 else ()
    return any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)


def zeros(shape: tuple[int, ...], zero: Any) -> Any:
    """Nested lists of `zero`; equal rows are the same list, so that large shapes cost no memory."""
    value = zero
    for extent in reversed(shape):
        value = [value] * min(extent, LIST_LIMIT)
    return value


def _read_scalar(tensor: Any, unknown: bool) -> Any:
    payload = tensor._payload
    if unknown or payload.is_meta:
        return scalar(tensor.dtype, tensor._memory.truth)
    value = payload.item()
    if tensors.VALUES_ARE_REAL:
        return value
    # Results of kernels that did not run may be NaN, and int(nan) would end the script.
    return UNKNOWN_FLOAT if value != value else value


def _read_truth(tensor: Any, unknown: bool) -> bool:
    return bool(_read_scalar(tensor, unknown))


READS: Mapping[str, Callable[[Any, bool], Any]] = MappingProxyType(
    {
        "_local_scalar_dense": _read_scalar,
        "item": _read_scalar,
        "is_nonzero": _read_truth,
        "allclose": lambda tensor, unknown: True,
        "equal": lambda tensor, unknown: True,
        "is_pinned": lambda tensor, unknown: False,
        "_pin_memory": lambda tensor, unknown: tensor,
    }
)
"""Operator -> function of a device tensor, and whether its contents are unknown: the result."""
