"""Replaces torch functions that look at devices before any operator runs.

Restores torch's own functions and classes while its compiler works.

The compiler recognises functions by identity.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.utils._device

from . import tensors
from .operators import FACTORIES, FROM_DATA, NEW
from .stubs import Inert
from .tensors import DEVICE_TYPES, GPU, DeviceTensor, device_of, move
from .torch_cuda import PassThrough, install_generators

CHECKS = (
    *("test_schema", "test_autograd_registration", "test_faketensor"),
    "test_aot_dispatch_dynamic",
)
"""The default tests of `torch.library.opcheck`."""
LEGACY_TYPES = {
    "FloatTensor": torch.float32,
    "DoubleTensor": torch.float64,
    "HalfTensor": torch.float16,
    "BFloat16Tensor": torch.bfloat16,
    "IntTensor": torch.int32,
    "LongTensor": torch.int64,
    "ShortTensor": torch.int16,
    "CharTensor": torch.int8,
    "ByteTensor": torch.uint8,
    "BoolTensor": torch.bool,
}


def install(compile: Callable[..., Any]) -> None:
    """Replaces the functions in this process; `compile` takes the place of torch.compile."""
    _replace_tensor_methods()
    _replace_default_device(_replace_constructors())
    _replace_data_setter()
    install_generators()
    torch.nn.Module.to = _module_to(torch.nn.Module.to)
    torch.load = _load(torch.load)
    torch.library.opcheck = _opcheck
    torch.compile = torch.compiler.compile = compile
    torch.inference_mode = _inference_mode
    torch.jit.script = _identity
    torch.profiler.profile = torch.autograd.profiler.profile = InertProfiler
    with contextlib.suppress(AttributeError):
        torch.nn.attention.sdpa_kernel = _any_attention


def _replace_tensor_methods() -> None:
    """Replaces methods of plain CPU tensors; device tensors have their own."""
    plain_type = torch.Tensor.type

    def cuda(tensor: Any, device: Any = None, *args: Any, **kwargs: Any) -> Any:
        return move(tensor, device_of(device, default="cuda"))

    def type_(tensor: Any, dtype: Any = None, *args: Any, **kwargs: Any) -> Any:
        if dtype is None:
            name = plain_type(tensor)
            on_device = getattr(tensor, "is_cuda", False)
            return name.replace("torch.", "torch.cuda.") if on_device else name
        if isinstance(dtype, type) and hasattr(dtype, "dtype"):
            return move(tensor, GPU, dtype.dtype)
        if isinstance(dtype, str) and ".cuda." in dtype:
            return move(tensor, GPU, LEGACY_TYPES[dtype.rpartition(".")[2]])
        return plain_type(tensor, dtype, *args, **kwargs)

    def to(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        return tensors.to(tensor, *args, **kwargs)

    def type_as(tensor: Any, like: Any) -> Any:
        return move(tensor, like.device, like.dtype)

    torch.Tensor.to = to
    torch.Tensor.type_as = type_as
    torch.Tensor.cuda = cuda
    torch.Tensor.type = type_
    torch.Tensor.new_tensor = functools.wraps(torch.Tensor.new_tensor)(_new_tensor)
    torch.Tensor.pin_memory = lambda tensor, device=None: tensor
    torch.Tensor.is_pinned = lambda tensor, device=None: False


def _replace_constructors() -> dict[Any, Callable[..., Any]]:
    """Replaces functions that take a device; returns original -> replacement.

    C++ accepts an ordinal only where there is an accelerator, a name anywhere.
    """
    rewritten = {}
    for original in torch.utils._device._device_constructors():
        name = original.__name__
        if getattr(torch, name, None) is not original:
            continue
        rewritten[original] = _from_data(original) if name in FROM_DATA else _ordinal(original)
        setattr(torch, name, rewritten[original])
    for name in FACTORIES:
        original = getattr(torch, f"{name}_like")
        setattr(torch, f"{name}_like", _like_first_argument(original))
    for name in NEW:
        setattr(torch.Tensor, name, _like_first_argument(getattr(torch.Tensor, name)))
    torch.nn.functional.one_hot = _on_same_device(torch.nn.functional.one_hot)
    for name, dtype in LEGACY_TYPES.items():
        setattr(torch.cuda, name, _legacy_type(name, dtype))
    return rewritten


def _from_data(original: Any) -> Callable[..., Any]:
    """One of `FROM_DATA` that makes its tensor on the CPU and then moves it."""
    copies = original.__name__ == "tensor"

    @functools.wraps(original)
    def from_data(data: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.pop("device", None)
        grad = kwargs.pop("requires_grad", False)
        kwargs.pop("pin_memory", None)  # of no consequence
        if isinstance(data, DeviceTensor):
            claim = device_of(device, default=str(data.device))
            dtype = kwargs.get("dtype", args[0] if args else None)
            source = data.detach() if copies else data
            result = move(source, claim, dtype, copies or bool(kwargs.get("copy")))
        else:
            result = original(_with_host_scalars(data), *args, **kwargs)
            if device is not None:
                result = move(result, device_of(device))
        return result.requires_grad_() if grad else result

    return from_data


def _like_first_argument(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function that makes its result where its first argument is, then moves it if asked to.

    Torch's C++ passes the CPU where it means the device, so only Python's arguments count.
    """

    @functools.wraps(original)
    def on_host_if_asked(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is None:
            return original(tensor, *args, **kwargs)
        claim = device_of(device)
        if claim.type != "cpu" or not isinstance(tensor, DeviceTensor):
            return original(tensor, *args, **{**kwargs, "device": claim})
        return move(original(tensor, *args, **{**kwargs, "device": None}), claim)

    return on_host_if_asked


def _on_same_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function, whose C++ makes its result on the device that it sees, moved to the tensor's."""

    @functools.wraps(original)
    def following(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(tensor, *args, **kwargs)
        return move(result, tensor.device) if isinstance(tensor, DeviceTensor) else result

    return following


def _replace_default_device(rewritten: dict[Any, Callable[..., Any]]) -> None:
    """Makes `torch.set_default_device('cuda')` and `with torch.device('cuda')` work."""
    constructors = torch.utils._device._device_constructors()

    def function(context: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        stated = kwargs or {}
        if func in constructors and stated.get("device") is None:
            stated = {**stated, "device": context.device}
        return rewritten.get(func, func)(*args, **stated)

    torch.utils._device.DeviceContext.__torch_function__ = function


def _module_to(original: Callable[..., Any]) -> Callable[..., Any]:
    """A `module.to(0)` that works, although C++ accepts no ordinal."""

    @functools.wraps(original)
    def to(module: Any, *args: Any, **kwargs: Any) -> Any:
        if args and _is_ordinal(args[0]):
            args = (device_of(args[0]), *args[1:])
        return _ordinal(original)(module, *args, **kwargs)

    return to


def _replace_data_setter() -> None:
    """Makes `tensor.data = other` work between plain and device tensors, alike to C++."""
    compatible = torch._has_compatible_shallow_copy_type
    plain_data = torch.Tensor.data

    # torch._dynamo compares the parameters' names with its own version's.
    def alike(input: torch.Tensor, from_: torch.Tensor) -> bool:
        if isinstance(input, DeviceTensor) != isinstance(from_, DeviceTensor):
            return False
        return bool(compatible(input, from_))

    def set_data(tensor: Any, new: Any) -> None:
        if not isinstance(new, DeviceTensor):
            plain_data.__set__(tensor, new)
            return
        new = new.detach()
        if isinstance(tensor, torch.nn.Parameter):
            new = torch.nn.Parameter(new, tensor.requires_grad)
        torch.utils.swap_tensors(tensor, new)

    torch._has_compatible_shallow_copy_type = alike
    torch.Tensor.data = property(plain_data.__get__, set_data)


def _load(original: Callable[..., Any]) -> Callable[..., Any]:
    """A `torch.load` that takes `map_location='cuda'`."""

    @functools.wraps(original)
    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        target = None
        if isinstance(map_location, (str, torch.device)):
            target = device_of(map_location)
            map_location = "cpu" if target.type in DEVICE_TYPES else map_location
        loaded = original(f, map_location, *args, **kwargs)
        if target is None or target.type not in DEVICE_TYPES:
            return loaded
        return torch.utils._pytree.tree_map_only(
            torch.Tensor, lambda tensor: move(tensor, target), loaded
        )

    return load


def _opcheck(
    op: Any, args: Any, kwargs: Any = None, *, test_utils: Any = (), **options: Any
) -> dict[str, str]:
    """`torch.library.opcheck`: calls the operator, forward and backward, and passes.

    Its own tests need fake tensors of a device that this build lacks.
    """
    results = op(*args, **(kwargs or {}))
    losses = [result.sum() for result in _differentiable(results)]
    if losses:
        torch.autograd.grad(losses, _differentiable((args, kwargs)), allow_unused=True)
    tests = (test_utils,) if isinstance(test_utils, str) else test_utils
    return dict.fromkeys(tests or CHECKS, "SUCCESS")


def _differentiable(values: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]


def _new_tensor(tensor: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
    device = device_of(kwargs.pop("device", None), default=str(tensor.device))
    kwargs.setdefault("dtype", tensor.dtype)
    return torch.tensor(data, *args, device=device, **kwargs)


class InertProfiler(Inert):
    def __init__(self, *args: Any, on_trace_ready: Any = None, **kwargs: Any) -> None:
        super().__init__()


def _is_ordinal(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ordinal(original: Any) -> Callable[..., Any]:
    """A function that takes an ordinal for a device of the claimed kind."""

    @functools.wraps(original)
    def with_device(*args: Any, **kwargs: Any) -> Any:
        if _is_ordinal(kwargs.get("device")):
            kwargs["device"] = device_of(kwargs["device"])
        return original(*args, **kwargs)

    return with_device


def _with_host_scalars(data: Any) -> Any:
    """Nested sequences with CPU tensors for device tensors, since C++ reads their contents."""
    if not isinstance(data, (list, tuple)):
        return data.detach().cpu() if isinstance(data, DeviceTensor) else data
    if not any(isinstance(entry, (list, tuple, DeviceTensor)) for entry in data):
        return data
    return [_with_host_scalars(entry) for entry in data]


def _legacy_type(name: str, dtype: torch.dtype) -> type:
    """A class such as `torch.cuda.FloatTensor`: calls make tensors, which are its instances."""

    class Kind(type):
        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, DeviceTensor) and value.dtype == dtype and value.is_cuda

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            sizes = args and all(_is_ordinal(a) for a in args)
            if sizes or not args:
                return torch.empty(args or (0,), dtype=dtype, device="cuda")
            if isinstance(args[0], torch.Size):
                return torch.empty(args[0], dtype=dtype, device="cuda")
            return torch.tensor(args[0], dtype=dtype, device="cuda")

    return Kind(name, (), {"dtype": dtype, "__module__": "torch.cuda"})


def _identity(model: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.script`: returns its argument; also as a decorator with arguments."""
    return model if model is not None else (lambda function: function)


def _inference_mode(mode: Any = True) -> Any:
    """`torch.inference_mode` as `no_grad`, whose tensors may be used in autograd later."""
    if callable(mode):
        return torch.no_grad()(mode)
    return torch.no_grad() if mode else PassThrough()


@contextlib.contextmanager
def _any_attention(*args: Any, **kwargs: Any) -> Any:
    """`sdpa_kernel`, without effect: one implementation serves all backends here."""
    yield  # Dynamo looks for the function that a context manager wraps


_MISSING = object()


class Originals:
    """The contents of torch's namespaces before the world is installed; call `settle` after."""

    def __init__(self) -> None:
        self._namespaces = [(owner, dict(vars(owner))) for owner in _owners()]
        self._changes: list[tuple[Any, str, Any, Any]] = []
        self._depth = 0

    def settle(self) -> None:
        """Determines the changes made since this object was created."""
        for owner, names_before in self._namespaces:
            for name, value in vars(owner).items():
                original = names_before.get(name, _MISSING)
                if original is value or (name.startswith("__") and owner is not _CONTEXT):
                    continue
                # Functions of torch.cuda stay replaced: only classes such as Stream are restored.
                if owner is not torch.cuda or isinstance(value, type):
                    self._changes.append((owner, name, original, value))
        self._namespaces = []

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Puts torch's own functions and classes back in their places."""
        self._depth += 1
        if self._depth == 1:
            for owner, name, original, _ in self._changes:
                if original is _MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)
        try:
            yield
        finally:
            self._depth -= 1
            if not self._depth:
                for owner, name, _, value in self._changes:
                    setattr(owner, name, value)


_CONTEXT = torch.utils._device.DeviceContext


def _owners() -> list[Any]:
    """The modules and classes of torch that the world changes."""
    owners = [torch, torch.Tensor, torch.nn.Module, torch.nn.functional, _CONTEXT, torch.cuda]
    owners += [torch.compiler, torch.jit, torch.profiler, torch.autograd.profiler]
    attention = getattr(torch.nn, "attention", None)
    return owners if attention is None else [*owners, attention]
