"""Tensors that claim to be on an AMD GPU. Imported only where the interpreter has torch.

A `DeviceTensor` wraps a payload. A small tensor's payload is a real CPU tensor, so that values that
the script reads back and branches on are correct; a large one's is a meta tensor, so that even a
terabyte costs nothing. Torch's C++ code takes a device tensor for a CPU tensor, which lets autograd
work in a build without GPU support; to Python it is on `cuda:0`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

import torch

from .contents import Memory

FLOAT_LIMIT = 1 << 18
"""Elements up to which a floating-point tensor has contents; low: scripts seldom read floats."""
INTEGER_LIMIT = 1 << 22
"""Elements up to which other tensors have contents; higher: scripts branch on indices."""
ALL_CONTENTS = False
"""Whether tensors of any size have contents: true where all kernels are executed."""
VALUES_ARE_REAL = False
"""Whether contents are what the program computes: launches are executed at once and whole.

Then nothing may be assumed for a check's sake: allocated memory that nobody wrote holds NaN or the
largest integer, which no check takes for a result.
"""
ALIGNMENT = 512
"""Bytes that torch's caching allocator rounds each allocation up to."""
GAP = 1 << 20
"""Bytes left free between two allocations."""
FIRST_ADDRESS = 0x7F00_0000_0000
READ_LIMIT = 1 << 24
"""Elements up to which `tolist` computes a large tensor: Python's numbers take eight times the
memory of a tensor's."""


class Addresses:
    """Allocates addresses aligned as torch's caching allocator aligns them, each once.

    Unlike the real allocator's, allocations have gaps between them: an access past the end of one
    is noticed, where on a GPU it would silently hit the neighbour.
    """

    def __init__(self) -> None:
        self._next = FIRST_ADDRESS

    def allocate(self, nbytes: int) -> Memory:
        """A new allocation of `nbytes` bytes."""
        memory = Memory(self._next, nbytes)
        self._next += max(ALIGNMENT, -(-nbytes // ALIGNMENT) * ALIGNMENT) + GAP
        return memory


class DeviceStorage:
    """The storage of a device tensor, with the methods that Python code calls."""

    is_cuda = True

    def __init__(self, tensor: DeviceTensor) -> None:
        self._tensor = tensor
        self._memory = tensor._memory
        self.device = tensor.device

    def data_ptr(self) -> int:
        """The address of its first byte."""
        return self._memory.address

    def size(self) -> int:
        """Its size in bytes."""
        return self._memory.nbytes

    nbytes = size
    __len__ = size

    def element_size(self) -> int:
        """1: the elements of an untyped storage are bytes."""
        return 1

    @property
    def _cdata(self) -> int:
        return self._memory.address

    def resize_(self, nbytes: int) -> DeviceStorage:
        """Changes the size; no contents are allocated or freed."""
        self._memory.nbytes = nbytes
        return self

    def cpu(self) -> Any:
        """The payload's own storage."""
        return self._tensor._payload.untyped_storage()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceStorage) and other._memory is self._memory

    def __hash__(self) -> int:
        return hash(self._memory.address)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tensor._payload.untyped_storage(), name)


class TypedDeviceStorage(DeviceStorage):
    """A storage that counts in the tensor's elements. FSDP calls its underscored methods."""

    def __init__(self, tensor: DeviceTensor) -> None:
        super().__init__(tensor)
        self.dtype = tensor.dtype

    def size(self) -> int:
        """Its number of elements."""
        return self._memory.nbytes // self.element_size()

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    def resize_(self, count: int) -> TypedDeviceStorage:
        """Changes the size; no contents are allocated or freed."""
        self._memory.nbytes = count * self.dtype.itemsize
        return self

    def untyped(self) -> DeviceStorage:
        """A view of the storage that counts in bytes."""
        return DeviceStorage(self._tensor)

    @property
    def _untyped_storage(self) -> DeviceStorage:
        return self.untyped()

    __len__ = _size = size
    _data_ptr = DeviceStorage.data_ptr
    _resize_ = resize_


class Placing(Protocol):
    """Moves device tensors: see `placement.Placement`."""

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor: ...

    def move(self, tensor: torch.Tensor, claim: torch.device) -> torch.Tensor: ...

    def device_of(self, device: Any, default: str = ...) -> torch.device: ...

    def wrap(
        self, payload: torch.Tensor, claim: torch.device, memory: Memory | None = None
    ) -> Any: ...

    def replace(self, tensor: DeviceTensor, new: torch.Tensor) -> None: ...


class Reading(Protocol):
    """Reads device tensors: see `reads.HostReads`."""

    def plain(self, tensor: torch.Tensor) -> torch.Tensor: ...

    def read(self, tensor: DeviceTensor, how: str) -> Any: ...

    def item(self, tensor: DeviceTensor) -> Any: ...


class Dispatching(Protocol):
    """What device tensors need of the dispatcher: see `dispatch.Dispatcher`."""

    @property
    def mode(self) -> AbstractContextManager[Any]: ...

    @property
    def placement(self) -> Placing: ...

    @property
    def reads(self) -> Reading: ...


class DeviceTensor(torch.Tensor):
    """A tensor that says it is on the device.

    `dispatcher` is set by the subclass that each `Dispatcher` makes for itself.
    """

    dispatcher: Dispatching
    _payload: torch.Tensor
    _claim: torch.device
    _memory: Memory

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Implements `type(x)(...)`: scripts call it on parameters, which have this class too."""
        if "requires_grad" in kwargs:  # torch.Tensor does not accept it
            return torch.nn.Parameter(*args[:1], requires_grad=kwargs["requires_grad"])
        return torch.Tensor(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        with cls.dispatcher.mode:
            return func(*args, **(kwargs or {}))

    @property
    def device(self) -> torch.device:
        """The device that the tensor claims to be on."""
        return self._claim

    @property
    def is_cuda(self) -> bool:
        """True for a tensor on the device; ROCm builds of torch call it cuda too."""
        return bool(self._claim.type == "cuda")

    @property
    def is_cpu(self) -> bool:
        """True for a large tensor in host memory."""
        return bool(self._claim.type == "cpu")

    def get_device(self) -> int:
        """The device's ordinal; -1 in host memory."""
        return (self._claim.index or 0) if self.is_cuda else -1

    def data_ptr(self) -> int:
        """Address that the first element would have on the device."""
        payload = self._payload
        return int(self._memory.address + payload.storage_offset() * payload.element_size())

    def const_data_ptr(self) -> int:
        """`data_ptr`, for reading."""
        return self.data_ptr()

    def mutable_data_ptr(self) -> int:
        """`data_ptr`, for writing."""
        return self.data_ptr()

    def ptr_range(self) -> int:
        """Bytes of its storage: AMD's backend asks whether 32-bit offsets reach all of them."""
        return self._memory.nbytes

    def untyped_storage(self) -> Any:
        """Its storage, with the size and address that it would have on the device."""
        return DeviceStorage(self)

    def storage(self) -> Any:
        """Its storage, counted in elements."""
        return TypedDeviceStorage(self)

    _typed_storage = storage

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Implements torch's `to`: returns the tensor itself if nothing changes."""
        return self.dispatcher.placement.to(self, *args, **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Any:
        """A copy in host memory."""
        return self.dispatcher.placement.move(self, torch.device("cpu"))

    def cuda(self, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        """The tensor itself, or a copy of one in host memory on the device."""
        placement = self.dispatcher.placement
        return placement.move(self, placement.device_of(device, default="cuda"))

    @property
    def data(self) -> Any:
        """The tensor's memory without its autograd history, and with another write counter.

        Autograd must not notice writes through `data` between forward and backward.
        """
        return self.dispatcher.placement.wrap(self._payload, self._claim, self._memory)

    @data.setter
    def data(self, new: torch.Tensor) -> None:
        self.dispatcher.placement.replace(self, new)

    def pin_memory(self, *args: Any) -> Any:
        """Itself: pinned memory has no consequence here."""
        return self

    def is_pinned(self, *args: Any) -> bool:
        """False."""
        return False

    def is_shared(self) -> bool:
        """True, as torch says of all device memory."""
        return self.is_cuda

    def share_memory_(self) -> Any:
        """Itself."""
        return self

    def record_stream(self, stream: Any) -> None:
        """Does nothing: there are no streams to wait for."""

    # Reads never fail and never take much memory.

    def item(self) -> Any:
        """Its value; a plausible one if it is unknown."""
        return self.dispatcher.reads.item(self)

    def tolist(self) -> Any:
        """Its values; zeros where it has no contents."""
        return self.dispatcher.reads.read(self, "tolist")

    def numpy(self, *, force: bool = False) -> Any:
        """Its values; zeros where it has no contents."""
        return self.dispatcher.reads.read(self, "numpy")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        array = self.dispatcher.reads.read(self, "numpy")
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return str(self.dispatcher.reads.read(self, "repr"))

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        if self.dim() == 0 and spec:
            return format(self.item(), spec)
        return repr(self) if self.dim() else str(self.item())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        with torch.no_grad():
            copy = self.detach().clone()
        copy.requires_grad_(self.requires_grad)
        if isinstance(self, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
        memo[id(self)] = copy
        return copy

    def __reduce_ex__(self, protocol: Any) -> Any:
        host_copy = self.dispatcher.reads.plain(self)
        if isinstance(self, torch.nn.Parameter):
            return rebuild_parameter, (host_copy, str(self.device), self.requires_grad)
        return rebuild, (host_copy, str(self.device), self.requires_grad)

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise BufferError("a tensor without a device behind it cannot be exported")


def rebuild(plain: torch.Tensor, device: str, requires_grad: bool) -> torch.Tensor:
    """Unpickles a device tensor."""
    return plain.to(device).requires_grad_(requires_grad)


def rebuild_parameter(plain: torch.Tensor, device: str, requires_grad: bool) -> torch.Tensor:
    """Unpickles a parameter on the device."""
    return torch.nn.Parameter(plain.to(device), requires_grad)


def keep_all_contents(are_real: bool) -> None:
    """Makes every tensor created from now on have contents, whatever its size.

    Args:
        are_real: whether each launch is executed whole; see `VALUES_ARE_REAL`.
    """
    global FLOAT_LIMIT, INTEGER_LIMIT, ALL_CONTENTS, VALUES_ARE_REAL
    FLOAT_LIMIT = INTEGER_LIMIT = 1 << 62
    ALL_CONTENTS, VALUES_ARE_REAL = True, are_real


def element_limit(dtype: torch.dtype) -> int:
    """Most elements that a tensor of this type may have and still have contents."""
    return FLOAT_LIMIT if dtype.is_floating_point or dtype.is_complex else INTEGER_LIMIT


def fits(tensor: torch.Tensor) -> bool:
    """Whether a tensor of this shape and type is small enough to have contents."""
    return bool(tensor.numel() <= element_limit(tensor.dtype))


def bytes_of(payload: torch.Tensor) -> int:
    """Size in bytes of the whole storage under a payload."""
    return int(payload.untyped_storage().size())


NUMPY_TYPES = frozenset(
    (
        *(torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128),
        *(torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.bool),
        *(torch.uint16, torch.uint32, torch.uint64),
    )
)


def host_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type to convert to for numpy: itself, or float32 for types that numpy lacks."""
    return dtype if dtype in NUMPY_TYPES else torch.float32
