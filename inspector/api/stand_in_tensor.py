"""`kinspect.T`: stands in for a tensor among the arguments of a kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from operator import index
from typing import Any

from ..base.errors import KinspectError

_ALIGNED_ADDRESS, _UNALIGNED_ADDRESS = 16, 1
"""Addresses of a storage that is a multiple of 16 bytes, on which Triton specialises, or is not."""
_BITS: Mapping[str, int] = {
    **{name: bits for bits in (16, 32, 64) for name in (f"fp{bits}", f"float{bits}")},
    **{name: bits for bits in (8, 16, 32, 64) for name in (f"i{bits}", f"int{bits}")},
    **{name: bits for bits in (8, 16, 32, 64) for name in (f"u{bits}", f"uint{bits}")},
    **dict.fromkeys(("bf16", "bfloat16"), 16),
    **dict.fromkeys(("i1", "u1", "int1", "bool"), 8),
    **dict.fromkeys(("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"), 8),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 8),
}
"""Names of Triton and of PyTorch -> bits of an element in memory."""
_TORCH: Mapping[str, str] = {
    **{f"fp{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("i1", "u1", "int1"), "bool"),
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}
"""Names of Triton -> those of PyTorch; other names are the same in both."""


class T:
    """A tensor that only has a type, a shape and an alignment; it holds no data.

    >>> x = kinspect.T(1024, 512, dtype="bf16")
    >>> x.shape, x.stride(), x.numel()
    ((1024, 512), (512, 1), 524288)

    Args:
        shape: extents, also as one tuple; rows are contiguous.
        dtype: a type as Triton or PyTorch names it: `fp16`, `float16`, `torch.float16`.
        aligned: whether its address is a multiple of 16 bytes, as PyTorch's allocations are.

    Raises:
        KinspectError: a type of unknown size, or extents that are no whole numbers.
    """

    def __init__(
        self, *shape: int | Sequence[int], dtype: Any = "fp32", aligned: bool = True
    ) -> None:
        self.shape = _extents(shape)
        self.dtype = str(dtype)
        name = self.dtype.rpartition(".")[2]
        if name not in _BITS:
            near = ", ".join(get_close_matches(name, _BITS, n=1))
            hint = f"did you mean {near}?" if near else "name one as Triton does: fp16, i32, ..."
            raise KinspectError(f"T: {dtype!r} names no type of a tensor", hint)
        self._itemsize = _BITS[name] // 8
        self._address = _ALIGNED_ADDRESS if aligned else _UNALIGNED_ADDRESS

    def __repr__(self) -> str:
        return f"T({', '.join([*map(str, self.shape), f'dtype={self.dtype!r}'])})"

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours along a dimension; None: of all dimensions."""
        strides = tuple(math.prod(self.shape[number + 1 :]) for number in range(len(self.shape)))
        return strides if dim is None else strides[dim]

    def data_ptr(self) -> int:
        """An address, of which Triton looks at the alignment alone."""
        return self._address

    def ptr_range(self) -> int:
        """Bytes of its storage: Triton asks whether 32-bit offsets reach all of it."""
        return self.numel() * self._itemsize


def torch_dtype(tensor: T) -> str:
    """PyTorch's name of a stand-in's type: `float16`."""
    name = tensor.dtype.rpartition(".")[2]
    return _TORCH.get(name, name)


def offset(tensor: T) -> int:
    """Bytes at which a stand-in begins in memory that is aligned: 0, or one element."""
    return tensor.element_size() if tensor.data_ptr() == _UNALIGNED_ADDRESS else 0


def _extents(shape: Sequence[Any]) -> tuple[int, ...]:
    """The extents, one by one or, as `torch.empty` takes them too, as one tuple."""
    extents = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    try:
        sizes = tuple(map(index, extents))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        written = ", ".join(map(repr, shape))
        raise KinspectError(
            f"T({written}): extents are whole numbers",
            'write T(1024, 512, dtype="fp16")',
        )
    return sizes
