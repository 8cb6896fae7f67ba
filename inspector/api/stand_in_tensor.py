"""`kinspect.T`: stands in for a tensor among the arguments of a kernel."""

from __future__ import annotations

import math
import re
from typing import Any

from ..errors import KinspectError

_ALIGNED_ADDRESS, _UNALIGNED_ADDRESS = 16, 1
"""Addresses of a storage that is a multiple of 16 bytes, on which Triton specialises, or is not."""
_BITS = re.compile(r"(?:fp|bf|float|bfloat|u?int|[iu])(\d+)")


class T:
    """A tensor that only has a type, a shape and an alignment; it holds no data.

    >>> x = T(1024, 512, dtype="bf16")
    >>> x.shape, x.stride(), x.numel()
    ((1024, 512), (512, 1), 524288)

    Args:
        shape: extents; rows are contiguous.
        dtype: a type as Triton or PyTorch names it: `fp16`, `float16`, `torch.float16`.
        aligned: whether its address is a multiple of 16 bytes, as PyTorch's allocations are.

    Raises:
        KinspectError: a type of unknown size.
    """

    def __init__(self, *shape: int, dtype: Any = "fp32", aligned: bool = True) -> None:
        self.shape = shape
        self.dtype = str(dtype)
        bits = _BITS.match(self.dtype.rpartition(".")[2])
        if bits is None:
            raise KinspectError(
                f"T: {dtype!r} names no type of a tensor", "name one as Triton does: fp16, i32, ..."
            )
        self._itemsize = max(1, int(bits[1]) // 8)
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
