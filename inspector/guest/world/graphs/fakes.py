"""Fake tensors of a GPU that this build of torch knows nothing of.

A fake tensor has the dispatch keys of its device and asks torch's C++ for a guard of that device
whenever something is recorded of it; a build for CPUs has none. So to C++ they are meta tensors
here, and Python says which device they claim.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._C import DispatchKey

from ..dispatch import Dispatcher
from ..placement import DEVICE_TYPES

FROM_DATA = ("tensor", "as_tensor", "asarray")
"""Make a tensor of Python values and move it in C++."""
_GPU = torch.device("cuda", 0)


class Fakes:
    """Changes torch's fake tensors, while `active`.

    Args:
        dispatcher: makes the tensors that Inductor wants to be real.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._module: Any = importlib.import_module("torch._subclasses.fake_tensor")
        self._active = 0

    def install(self) -> None:
        """Changes them for good; without effect unless active.

        Raises:
            AttributeError: they are made otherwise in this torch.
        """
        self._construction()
        self._devices()
        self._factories()
        self._composites()
        self._module.init_gpu_context = _nothing

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Fake tensors are those of the claimed GPU inside."""
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def in_use(self) -> bool:
        """Whether they are."""
        return self._active > 0

    @contextlib.contextmanager
    def constants(self) -> Iterator[None]:
        """`torch.tensor(1.0, device='cuda')` makes a fake tensor that knows its value inside."""
        originals = {name: getattr(torch, name) for name in FROM_DATA}
        for name, original in originals.items():
            setattr(torch, name, self._from_data(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(torch, name, original)

    def _construction(self) -> None:
        fake = self._module.FakeTensor
        original = torch.Tensor._make_subclass

        def make_subclass(cls: Any, elem: Any, *args: Any, **kwargs: Any) -> Any:
            if self._active and issubclass(cls, fake):
                kwargs.pop("dispatch_device", None)
            return original(cls, elem, *args, **kwargs)

        torch.Tensor._make_subclass = staticmethod(make_subclass)

    def _devices(self) -> None:
        fake, mode = self._module.FakeTensor, self._module.FakeTensorMode
        for kind in ("cuda", "cpu", "meta"):
            setattr(fake, f"is_{kind}", property(_on(kind)))
        proxies: Any = importlib.import_module("torch.fx.experimental.proxy_tensor")
        tracer = proxies.ProxyTorchDispatchMode
        mode.dispatch = self._redirected(mode.dispatch)
        tracer.__torch_dispatch__ = self._redirected(tracer.__torch_dispatch__)

    def _redirected(self, dispatch: Callable[..., Any]) -> Callable[..., Any]:
        """C++ makes results where it takes the operands to be: among meta tensors."""

        @functools.wraps(dispatch)
        def redirected(
            mode: Any,
            func: Any,
            types: Any,
            args: Sequence[Any] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            stated = kwargs or {}
            if self._active and getattr(stated.get("device"), "type", None) == "meta":
                if func is torch.ops.aten._to_copy.default and _moves_alone(args[0], stated):
                    return args[0]  # autograd brings gradients to where it takes the result to be
                stated = {**stated, "device": _GPU}
            return dispatch(mode, func, types, args, stated)

        return redirected

    def _factories(self) -> None:
        """Real tensors, of which Inductor makes a few to fold constants, are device tensors.

        It takes all modes away for that, so these have to be kernels.
        """
        run, library = self._dispatcher.run, torch.library.Library("aten", "IMPL")
        aten = torch.ops.aten

        def empty(size: Any, *, pin_memory: Any = None, **kwargs: Any) -> Any:
            return run(aten.empty.memory_format, (size,), kwargs)

        def strided(size: Any, stride: Any, *, pin_memory: Any = None, **kwargs: Any) -> Any:
            return run(aten.empty_strided.default, (size, stride), kwargs)

        impls = set(torch.library._impls)
        library.impl("empty.memory_format", empty, "CUDA")
        library.impl("empty_strided", strided, "CUDA")
        # The dispatcher looks there for what libraries put in the place of torch's own.
        torch.library._impls.intersection_update(impls)
        self._library = library  # what it registered goes with it

    @staticmethod
    def _composites() -> None:
        """Operators made of others stay so for meta tensors, with the others' gradients.

        Some have a Python kernel for the meta device besides. Torch's Python dispatcher takes that
        for a backend's own and then knows no gradient: cross_entropy would end the backward pass.
        """
        for name in torch._C._dispatch_get_all_op_names():
            namespace, _, full_name = name.partition("::")
            base_name, _, overload = full_name.partition(".")
            if namespace != "aten" or not torch._C._dispatch_has_kernel_for_dispatch_key(
                name, "CompositeImplicitAutograd"
            ):
                continue
            operator = getattr(
                getattr(torch.ops.aten, base_name, None), overload or "default", None
            )
            if operator is not None and operator.py_kernels.pop(DispatchKey.Meta, None):
                operator._dispatch_cache.clear()

    def _from_data(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def from_data(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
            real_tensor = original(data, *args, **kwargs)
            if device is None or torch.device(device).type not in DEVICE_TYPES:
                return real_tensor
            if not isinstance(real_tensor, self._module.FakeTensor):
                return torch.ops.aten._to_copy.default(real_tensor, device=_GPU)
            moved = torch.empty_strided(
                real_tensor.shape, real_tensor.stride(), dtype=real_tensor.dtype, device=_GPU
            )
            moved.constant = real_tensor.constant
            return moved

        return from_data


def _moves_alone(tensor: torch.Tensor, kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("dtype") in (None, tensor.dtype) and kwargs.get("memory_format") is None


def _on(kind: str) -> Callable[[Any], bool]:
    return lambda tensor: bool(tensor.device.type == kind)


def _nothing(device: Any) -> None:
    """There is no context to be made."""
