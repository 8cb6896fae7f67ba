"""Symmetric memory: buffers of other processes that kernels read and write directly.

The other processes do not exist. Their buffers are allocations on this process's device, so that
kernels get as many addresses as they would, aligned in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .stubs import Inert
from .tensors import GPU, DeviceTensor

SIGNAL_PAD_BYTES = 2048
"""Torch's default size of a process's signal pad."""


class SymmetricMemory:
    """One rendezvous around a tensor, whose whole allocation is this process's part.

    It takes the place of the extension module's class of the same name.
    """

    signal_pad_size = SIGNAL_PAD_BYTES
    multicast_ptr = 0  # AMD's GPUs have none
    device = GPU
    _shared: set[int] = set()  # noqa: RUF012  (addresses of what was made for sharing)

    def __init__(self, tensor: Any, group: Any) -> None:
        self.rank, self.world_size = group.rank(), group.size()
        self.offset = tensor.storage_offset() * tensor.element_size()
        self.buffer_size = tensor.untyped_storage().size()
        count = -(-self.buffer_size // tensor.element_size())
        own_buffer = torch.as_strided(tensor.detach(), (count,), (1,), 0)
        ranks = range(self.world_size)
        self._buffers = [
            own_buffer if rank == self.rank else torch.empty_like(own_buffer) for rank in ranks
        ]
        signal_words = self.signal_pad_size // torch.int32.itemsize
        self._pads = [torch.zeros(signal_words, dtype=torch.int32, device=GPU) for _ in ranks]
        self.buffer_ptrs = [buffer.data_ptr() for buffer in self._buffers]
        self.signal_pad_ptrs = [pad.data_ptr() for pad in self._pads]
        self._tables = [
            torch.tensor(addresses, dtype=torch.int64, device=GPU)
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
        self, rank: int, sizes: Sequence[int], dtype: torch.dtype, storage_offset: int | None = 0
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
        extents = tuple(sizes) or (self.signal_pad_size // kind.itemsize,)
        return _reinterpreted(self._pads[rank], extents, kind, storage_offset or 0)

    # There is no other process to wait for, and all backends and groups are alike.
    barrier = put_signal = wait_signal = lambda self, *args, **kwargs: None
    set_group_info = set_backend = staticmethod(lambda *args: None)
    has_multicast_support = staticmethod(lambda *args: False)
    get_backend = staticmethod(lambda device: "CUDA")  # torch's own, also in ROCm builds
    get_mempool_allocator = staticmethod(lambda device: Inert())  # for `torch.cuda.MemPool`

    @staticmethod
    def memset32(tensor: torch.Tensor, offset: int, val: int, count: int = 1) -> torch.Tensor:
        """Fills words of a tensor."""
        tensor.view(-1)[offset : offset + count] = val
        return tensor

    stream_write_value32 = memset32


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
