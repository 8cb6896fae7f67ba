"""Replaces `torch.cuda` and related modules: they report one GPU, as a ROCm build would.

Random generators on the claimed device: CPU generators that report another device.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import torch

from .assumptions import LOG
from .device import StandInDevice
from .rocm import HIP_VERSION, RCCL_VERSION, VERSION
from .stubs import Inert
from .tensors import DEVICE_TYPES, GPU, device_of

DEVICE_MEMORY_IN_USE = 1 << 30
"""Bytes of device memory that are reported as allocated."""
CONTEXT_MANAGERS = (
    *("device", "device_of", "stream", "graph", "StreamContext", "_DeviceGuard"),
    "use_mem_pool",
)
"""Context managers of `torch.cuda`."""
WITHOUT_EFFECT = (
    *("init", "_lazy_init", "_lazy_call", "_check_capability", "set_device", "synchronize"),
    *("empty_cache", "ipc_collect", "reset_peak_memory_stats", "reset_max_memory_allocated"),
    *("reset_max_memory_cached", "reset_accumulated_memory_stats", "set_stream", "_sleep"),
    *("set_per_process_memory_fraction", "set_sync_debug_mode", "set_rng_state_all"),
    *("caching_allocator_delete", "check_error", "get_stream_from_external"),
)
"""Functions of `torch.cuda`."""
ACCELERATOR_WITHOUT_EFFECT = (
    *("set_device_index", "set_device_idx", "synchronize", "empty_cache"),
    *("reset_peak_memory_stats", "set_stream"),
)
"""Functions of `torch.accelerator`."""
EXTENSION_WITHOUT_EFFECT = (
    *("_cuda_setDevice", "_cuda_init", "_cuda_synchronize", "_cuda_emptyCache", "_cuda_setStream"),
    "_set_cached_tensors_enabled",  # Inductor's CUDA graphs, which torch._dynamo.reset() imports
)
"""Functions of `torch._C`."""
MEMORY_IN_USE = (
    *("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved"),
    *("memory_cached", "max_memory_cached"),
)
"""Functions that return bytes of device memory."""


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


class CudaEvent:
    """A point in a stream, which is always reached: one millisecond after any other."""

    cuda_event = event_id = 0
    query = _constant(True)
    record = wait = synchronize = _constant(None)
    ipc_handle = _constant(b"")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = GPU

    def elapsed_time(self, other: Any) -> float:
        """The time between two events: an unknown value, assumed to be one millisecond."""
        return LOG.time(1.0)


class CudaStream:
    """A stream, always idle; all streams are one."""

    cuda_stream = stream_id = device_index = priority = 0
    device_type = 1
    query = _constant(True)
    is_capturing = _constant(False)
    wait_stream = wait_event = synchronize = _constant(None)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.device = GPU

    def record_event(self, event: Any = None) -> Any:
        return event or CudaEvent()

    def __enter__(self) -> CudaStream:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CudaStream)

    def __hash__(self) -> int:
        return hash(CudaStream)


class CudaGraph(Inert):
    """A CUDA graph: its code runs at capture, and replaying it does nothing."""

    pool = _constant((0, 0))


class MemPool(Inert):
    """A pool of memory, from which nothing is allocated."""

    id = (0, 1)
    use_count = _constant(1)
    snapshot = _constant([])


class PassThrough:
    """A context manager such as `torch.cuda.device`: without effect, yields its first argument."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._argument = args[0] if args else None
        self.idx = self.prev_idx = 0
        self.stream = self._argument

    def __enter__(self) -> Any:
        return self._argument

    def __exit__(self, *exception: Any) -> None:
        pass

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return function


def install(device: StandInDevice) -> None:
    """Makes this process's torch report the given GPU."""
    torch.version.hip = HIP_VERSION
    torch.version.cuda = None
    torch.version.rocm = VERSION
    cuda = torch.cuda
    _replace_cuda(cuda, device)
    torch.Event, torch.Stream = CudaEvent, CudaStream
    _replace_submodules(cuda)
    _replace_accelerator()
    _replace_extension_module(device)
    with contextlib.suppress(AttributeError):
        torch.backends.cuda.is_built = _constant(True)
        torch.backends.cuda.is_flash_attention_available = _constant(True)
    with contextlib.suppress(AttributeError):
        torch.cuda.amp.common.amp_definitely_not_available = _constant(False)
    with contextlib.suppress(AttributeError):
        torch.amp.grad_scaler.amp_definitely_not_available = _constant(False)


def _replace(owner: Any, without_effect: Iterable[str], **results: Any) -> None:
    """Replaces functions by ones that return nothing, or the same value on every call."""
    for name, value in {**dict.fromkeys(without_effect), **results}.items():
        setattr(owner, name, _constant(value))


def _replace_cuda(cuda: Any, device: StandInDevice) -> None:
    _replace(
        cuda,
        WITHOUT_EFFECT,
        **dict.fromkeys(MEMORY_IN_USE, DEVICE_MEMORY_IN_USE),
        mem_get_info=(device.memory_bytes - DEVICE_MEMORY_IN_USE, device.memory_bytes),
        memory_summary="",
        memory_snapshot=[],
        get_per_process_memory_fraction=1.0,
        caching_allocator_alloc=0,
        is_available=True,
        is_initialized=True,
        device_count=1,
        current_device=0,
        _get_device_index=0,
        _exchange_device=0,
        _maybe_exchange_device=0,
        get_device_name=device.name,
        get_device_capability=device.capability,
        get_device_properties=SimpleNamespace(**device.torch_properties()),
        get_arch_list=[device.arch],
        get_gencode_flags="",
        utilization=0,
        memory_usage=0,
        temperature=40,
        power_draw=0,
        clock_rate=device.clock_khz // 1000,
        is_bf16_supported=True,
        is_tf32_supported=True,
        is_current_stream_capturing=False,
        can_device_access_peer=True,
        get_sync_debug_mode=0,
        get_allocator_backend="native",
        graph_pool_handle=(0, 0),
        initial_seed=0,
        _is_compiled=True,
    )
    vars(cuda).update(
        {name: type(name, (PassThrough,), {}) for name in CONTEXT_MANAGERS},
        Stream=CudaStream,
        ExternalStream=CudaStream,
        Event=CudaEvent,
        CUDAGraph=CudaGraph,
        MemPool=MemPool,
        memory_stats=lambda *args, **kwargs: _Zeros(int),
        memory_stats_as_nested_dict=lambda *args, **kwargs: _Zeros(int),
        current_stream=lambda *args, **kwargs: CudaStream(),
        default_stream=lambda *args, **kwargs: CudaStream(),
        cudart=lambda *args, **kwargs: Inert(),
        make_graphed_callables=lambda callables, *args, **kwargs: callables,
        get_rng_state=lambda *args, **kwargs: torch.get_rng_state(),
        set_rng_state=lambda state, *args, **kwargs: torch.set_rng_state(state.cpu()),
        get_rng_state_all=lambda *args, **kwargs: [torch.get_rng_state()],
        manual_seed=lambda seed: torch.default_generator.manual_seed(int(seed)),
        manual_seed_all=lambda seed: torch.default_generator.manual_seed(int(seed)),
        seed=lambda: torch.default_generator.seed(),
        seed_all=lambda: torch.default_generator.seed(),
        _compile_kernel=lambda *args, **kwargs: Inert(),
    )


class _Zeros(defaultdict):  # type: ignore[type-arg]
    """Statistics of an allocator that allocated nothing: every one is 0."""

    def get(self, key: str, default: Any = 0) -> Any:
        return super().get(key, default)


def _replace_submodules(cuda: Any) -> None:
    """Replaces the functions in the submodules that define them, too.

    Both names must give the same object: torch._dynamo looks them up by identity on import.
    """
    for name in ("memory", "random", "streams", "graphs"):
        module: Any = getattr(cuda, name, None) or sys.modules.get(f"torch.cuda.{name}")
        for attribute in dir(module) if module is not None else ():
            if attribute in cuda.__dict__ and not attribute.startswith("__"):
                setattr(module, attribute, getattr(cuda, attribute))
    for name in ("nvtx", "profiler", "tunable", "jiterator", "gds"):
        module = sys.modules.get(f"torch.cuda.{name}")
        for attribute in dir(module) if module is not None else ():
            value = getattr(module, attribute)
            if callable(value) and getattr(value, "__module__", None) == module.__name__:
                setattr(module, attribute, Inert())


def _replace_accelerator() -> None:
    """Replaces the functions of `torch.accelerator`, where this torch has it."""
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is None:
        return
    _replace(
        accelerator,
        ACCELERATOR_WITHOUT_EFFECT,
        **dict.fromkeys(MEMORY_IN_USE[:4], DEVICE_MEMORY_IN_USE),
        is_available=True,
        device_count=1,
        current_accelerator=torch.device("cuda"),
        current_device_index=0,
        current_device_idx=0,
    )
    accelerator.current_stream = lambda *args, **kwargs: CudaStream()
    accelerator.device_index = type("device_index", (PassThrough,), {})
    torch.get_default_device = getattr(torch, "get_default_device", _constant(GPU))


def _replace_extension_module(device: StandInDevice) -> None:
    """Adds the names that Triton and others import from `torch._C` of a build with a GPU."""
    _replace(
        torch._C,
        EXTENSION_WITHOUT_EFFECT,
        _cuda_getCurrentRawStream=0,
        _cuda_getDevice=0,
        _cuda_getDeviceCount=1,
        _cuda_maybeExchangeDevice=0,
        _cuda_exchangeDevice=0,
        _cuda_isCurrentStreamCapturing=False,
        _cuda_getCompiledVersion=60443483,
        _cuda_isInBadFork=False,
        _cuda_getArchFlags=device.arch,
        _cuda_getCurrentStream=(0, 0, 1),
        _cuda_getDefaultStream=(0, 0, 1),
        _cuda_hasPrimaryContext=True,
        _cuda_getDeviceProperties=SimpleNamespace(**device.torch_properties()),
        _nccl_version=RCCL_VERSION,
        _nccl_version_suffix=b"",
        _get_accelerator=torch.device("cuda"),  # called by torch.get_device_module()
    )
    torch._C._cuda_CUDAAllocator_AllocatorState = type("AllocatorState", (), {})
    # Inductor's generated code allocates with these, below all dispatch.
    guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
    for name in ("_empty_strided_cuda", "_empty_strided_hip"):
        if hasattr(guards, name):
            setattr(guards, name, _empty_strided)


def _empty_strided(size: Any, stride: Any, dtype: Any) -> Any:
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


PHILOX_BYTES = 16
"""Size of the state of torch's generators on a GPU."""
CpuGenerator: Any = torch.Generator


class Generator(CpuGenerator):
    """A generator on the claimed device."""

    def __new__(cls, device: Any = "cpu") -> Any:
        return CpuGenerator.__new__(cls, device="cpu")

    def __init__(self, device: Any = "cpu") -> None:
        super().__init__()
        self._claim = device_of(device)
        self._offset = 0

    device = property(lambda generator: generator._claim)

    def get_state(self) -> torch.Tensor:
        """The state: seed and offset of Philox (16 bytes), or the CPU generator's own."""
        if self._claim.type not in DEVICE_TYPES:
            return super().get_state()
        seed = ctypes.c_int64(self.initial_seed()).value  # it is unsigned in torch
        state = torch.tensor([seed, self._offset])
        return state.view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> Any:
        """Restores a state of either kind."""
        if state.numel() != PHILOX_BYTES:
            return super().set_state(state)
        seed, self._offset = state.cpu().contiguous().view(torch.int64).tolist()
        return self.manual_seed(seed)

    def get_offset(self) -> int:
        """The offset in Philox's sequence of random numbers; drawing does not advance it here."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Sets the offset, which has no effect on the numbers drawn."""
        self._offset = int(offset)

    graphsafe_get_state = get_state
    graphsafe_set_state = set_state


def install_generators() -> None:
    """Replaces `torch.Generator` and the device's default generator."""
    torch.Generator = Generator
    torch.cuda.default_generators = (Generator("cuda"),)
