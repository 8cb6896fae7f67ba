"""Symmetric memory: buffers of other processes that kernels read and write directly.

The other processes do not exist. Their buffers are allocations on this process's device, so that
kernels get as many addresses as they would, aligned in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .stubs import Inert
from .tensors import DeviceTensor

SIGNAL_PAD_BYTES = 2048
"""Torch's default size of a process's signal pad."""
_DEVICE = torch.device("cuda", 0)


class SymmetricMemory:
    """One rendezvous; takes the place of the extension module's class of the same name."""

    signal_pad_size = SIGNAL_PAD_BYTES
    multicast_ptr = 0  # AMD's GPUs have none
    device = _DEVICE
    _shared: set[int] = set()  # noqa: RUF012  (addresses of what was made for sharing)

    def __init__(self, tensor: Any, group: Any) -> None:
        self.rank, self.world_size = group.rank(), group.size()
        self.offset = tensor.storage_offset() * tensor.element_size()
        self.buffer_size = tensor.untyped_storage().size()
        count = -(-self.buffer_size // tensor.element_size())
        own_buffer = torch.as_strided(tensor.detach(), (count,), (1,), 0)
        self._buffers = [
            own_buffer if rank == self.rank else torch.empty_like(own_buffer)
            for rank in range(self.world_size)
        ]
        signal_words = self.signal_pad_size // torch.int32.itemsize
        self._pads = [
            torch.zeros(signal_words, dtype=torch.int32, device=_DEVICE)
            for _ in range(self.world_size)
        ]
        self.buffer_ptrs = [buffer.data_ptr() for buffer in self._buffers]
        self.signal_pad_ptrs = [pad.data_ptr() for pad in self._pads]
        self._tables = [
            torch.tensor(addresses, dtype=torch.int64, device=_DEVICE)
            for addresses in (self.buffer_ptrs, self.signal_pad_ptrs)
        ]
        self.buffer_ptrs_dev, self.signal_pad_ptrs_dev = (t.data_ptr() for t in self._tables)

    @classmethod
    def rendezvous(cls, tensor: Any, group_name: str | None = None) -> SymmetricMemory | None:
        """The symmetric memory around a tensor; no addresses are exchanged."""
        module: Any = torch.distributed.distributed_c10d
        named = group_name is not None
        group = module._resolve_process_group(group_name) if named else module._get_default_group()
        return cls(tensor, group)

    @classmethod
    def empty_strided_p2p(
        cls,
        size: Sequence[int],
        stride: Sequence[int],
        dtype: torch.dtype,
        device: Any,
        group_name: str | None = None,
        alloc_id: int | None = None,
    ) -> torch.Tensor:
        """Memory that may be shared."""
        tensor = torch.empty_strided(size, stride, dtype=dtype, device=device)
        cls._shared.add(tensor.untyped_storage().data_ptr())
        return tensor

    @classmethod
    def is_symm_mem_tensor(cls, tensor: Any) -> bool:
        """Whether a tensor was allocated for sharing."""
        return isinstance(tensor, DeviceTensor) and tensor._memory.address in cls._shared

    def get_buffer(
        self,
        rank: int,
        sizes: Sequence[int],
        dtype: torch.dtype,
        storage_offset: int | None = 0,
    ) -> torch.Tensor:
        """A process's buffer, as a tensor."""
        return _reinterpreted(self._buffers[rank], sizes, dtype, storage_offset or 0)

    def get_remote_tensor(
        self, peer: int, sizes: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """A process's tensor, at the offset of this process's own in its buffer."""
        return self.get_buffer(peer, sizes, dtype, self.offset // dtype.itemsize)

    def get_signal_pad(
        self,
        rank: int,
        sizes: Sequence[int] = (),
        dtype: torch.dtype | None = None,
        storage_offset: int | None = 0,
    ) -> torch.Tensor:
        """A process's pad of signals; all of it unless sizes are given."""
        kind = dtype or torch.int32
        pad_elements = self.signal_pad_size // kind.itemsize
        return _reinterpreted(
            self._pads[rank], tuple(sizes) or (pad_elements,), kind, storage_offset or 0
        )

    def barrier(self, channel: int = 0, timeout_ms: int = 0) -> None:
        """Returns at once: there is no other process to wait for."""

    put_signal = wait_signal = lambda self, *args, **kwargs: None

    @staticmethod
    def memset32(tensor: torch.Tensor, offset: int, val: int, count: int = 1) -> torch.Tensor:
        """Fills words of a tensor."""
        tensor.view(-1)[offset : offset + count] = val
        return tensor

    stream_write_value32 = memset32

    @staticmethod
    def has_multicast_support(device_type: Any, device_idx: int = 0) -> bool:
        """False: AMD's GPUs have none."""
        return False

    @staticmethod
    def set_group_info(*args: Any) -> None:
        """Does nothing: the process groups have this information."""

    @staticmethod
    def set_backend(name: str) -> None:
        """Does nothing: all backends are alike here."""

    @staticmethod
    def get_backend(device: Any) -> str:
        """The name of torch's own backend, also in ROCm builds."""
        return "CUDA"

    @staticmethod
    def get_mempool_allocator(device: Any) -> Any:
        """An allocator for `torch.cuda.MemPool`, which allocates nothing."""
        return Inert()


def _reinterpreted(
    buffer: torch.Tensor, sizes: Sequence[int], dtype: torch.dtype, start: int
) -> torch.Tensor:
    """A tensor of another type over a flat buffer, from element `start` of that type on."""
    count = torch.Size(sizes).numel()
    return buffer.view(torch.uint8).view(dtype)[start : start + count].view(tuple(sizes))


def adjust(module: Any) -> None:
    """Makes `torch.distributed._symmetric_memory` use `SymmetricMemory`."""
    module._SymmetricMemory = torch._C._distributed_c10d._SymmetricMemory = SymmetricMemory
    if hasattr(module, "_should_use_implicit_mempool"):
        module._should_use_implicit_mempool = lambda: False
