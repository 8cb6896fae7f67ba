"""Fake tensors of a GPU, in a build of torch without support for it.

A fake tensor has the dispatch keys of its device, and asks torch's C++ for a guard of that device
whenever an operator on it is recorded; a build for CPUs has none. Here they are meta tensors to
C++, and Python answers which device they claim to be on.

Makes Dynamo trace device tensors as plain tensors of the GPU that they claim to be on.

A device tensor is a subclass with a `__torch_dispatch__` of its own (`world/tensors.py`). Dynamo
would trace into that code, and treat its instances as a user's subclass.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import CodeType
from typing import Any

import torch
from torch._C import DispatchKey

from ..dispatch import DeviceMode, Dispatcher
from ..operators import FROM_DATA
from ..tensors import DEVICE_TYPES, GPU, DeviceTensor


class Fakes:
    """Patches torch's fake tensors, with effect while `active`."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._module: Any = importlib.import_module("torch._subclasses.fake_tensor")
        self._active = 0

    def install(self) -> None:
        """Patches torch for the rest of the process.

        Raises:
            AttributeError: this torch's fake tensors have no such parts.
        """
        self._patch_construction()
        self._patch_devices()
        self._register_factories()
        self._drop_meta_kernels()
        self._module.init_gpu_context = _skip_context

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Makes fake tensors those of the claimed GPU."""
        self._active += 1
        try:
            yield
        finally:
            self._active -= 1

    def is_active(self) -> bool:
        """Whether fake tensors are those of the claimed GPU now."""
        return self._active > 0

    @contextlib.contextmanager
    def constants(self) -> Iterator[None]:
        """Makes `torch.tensor(1.0, device='cuda')` a fake tensor that knows its value."""
        originals = {name: getattr(torch, name) for name in FROM_DATA}
        for name, original in originals.items():
            setattr(torch, name, self._from_data(original))
        try:
            yield
        finally:
            for name, original in originals.items():
                setattr(torch, name, original)

    def _patch_construction(self) -> None:
        """Constructs fake tensors without the dispatch keys of their device."""
        fake = self._module.FakeTensor
        original = torch.Tensor._make_subclass

        def make_subclass(cls: Any, elem: Any, *args: Any, **kwargs: Any) -> Any:
            if self._active and issubclass(cls, fake):
                kwargs.pop("dispatch_device", None)
            return original(cls, elem, *args, **kwargs)

        torch.Tensor._make_subclass = staticmethod(make_subclass)

    def _patch_devices(self) -> None:
        """Answers in Python what device a fake tensor is on, and makes operators' results there."""
        fake, mode = self._module.FakeTensor, self._module.FakeTensorMode
        for kind in ("cuda", "cpu", "meta"):
            setattr(fake, f"is_{kind}", property(_has_device_type(kind)))
        proxies: Any = importlib.import_module("torch.fx.experimental.proxy_tensor")
        tracer = proxies.ProxyTorchDispatchMode
        mode.dispatch = self._redirect(mode.dispatch)
        tracer.__torch_dispatch__ = self._redirect(tracer.__torch_dispatch__)

    def _redirect(self, dispatch: Callable[..., Any]) -> Callable[..., Any]:
        """A `dispatch` that makes results on the GPU where C++ asks for the meta device.

        C++ does because it takes fake tensors for meta tensors.
        """

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
                if func is torch.ops.aten._to_copy.default and _only_moves(args[0], stated):
                    return args[0]  # autograd moves gradients to the device that C++ believes in
                stated = {**stated, "device": GPU}
            return dispatch(mode, func, types, args, stated)

        return redirected

    def _register_factories(self) -> None:
        """Makes the real tensors with which Inductor folds constants device tensors.

        Inductor disables all modes for that, so kernels have to make them.
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
        # The dispatcher takes the entries for kernels of the user's libraries.
        torch.library._impls.intersection_update(impls)
        self._library = library  # unregisters its kernels when it is deleted

    @staticmethod
    def _drop_meta_kernels() -> None:
        """Drops the Python meta kernels of operators that are made of others.

        Torch's Python dispatcher takes such a kernel for a backend's own, which has no gradient: at
        cross_entropy, a backward pass would end.
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
        """One of `FROM_DATA` that can make a fake tensor on the GPU."""

        def from_data(data: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
            real_tensor = original(data, *args, **kwargs)
            if device is None or torch.device(device).type not in DEVICE_TYPES:
                return real_tensor
            if not isinstance(real_tensor, self._module.FakeTensor):
                return torch.ops.aten._to_copy.default(real_tensor, device=GPU)
            moved = torch.empty_strided(
                real_tensor.shape, real_tensor.stride(), dtype=real_tensor.dtype, device=GPU
            )
            moved.constant = real_tensor.constant
            return moved

        return from_data


def _only_moves(tensor: torch.Tensor, kwargs: Mapping[str, Any]) -> bool:
    """Whether a `_to_copy` changes nothing but the device."""
    return kwargs.get("dtype") in (None, tensor.dtype) and kwargs.get("memory_format") is None


def _has_device_type(kind: str) -> Callable[[Any], bool]:
    return lambda tensor: bool(tensor.device.type == kind)


def _skip_context(device: Any) -> None:
    """Takes the place of `init_gpu_context`: there is no GPU to initialise."""


OWN_PACKAGE = __name__.partition(".world.")[0]


class Tracing:
    """Patches Dynamo for the stand-in world.

    Args:
        failed: called with a function's name and the error, where Dynamo itself failed on it.

    Attributes:
        code: the code object that is being traced; None between traces.
    """

    def __init__(
        self,
        compiling: Callable[[], AbstractContextManager[None]],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        self._compiling = compiling
        self._failed = failed
        self.code: CodeType | None = None

    def install(self) -> None:
        """Patches Dynamo for the rest of the process.

        Raises:
            AttributeError, ImportError: this torch's Dynamo has no such parts.
        """
        importlib.import_module("torch._dynamo.trace_rules").add(OWN_PACKAGE)
        self._skip_dispatch()
        self._trace_as_plain_tensors()
        self._follow_traces()
        config: Any = importlib.import_module("torch._dynamo.config")
        # A script must not notice a failure of Dynamo that it would not have had on a GPU.
        config.suppress_errors = True

    @staticmethod
    def _skip_dispatch() -> None:
        """Keeps Dynamo out of our dispatch of operators that run outside of a graph.

        C++ calls it as a new frame of Python, and Dynamo would begin to trace there.
        """
        disable = importlib.import_module("torch._dynamo").disable
        mode: Any = DeviceMode
        mode.__torch_dispatch__ = disable(mode.__torch_dispatch__)
        dispatch = DeviceTensor.__dict__["__torch_dispatch__"].__func__
        DeviceTensor.__torch_dispatch__ = classmethod(disable(dispatch))  # type: ignore[assignment]

    @staticmethod
    def _trace_as_plain_tensors() -> None:
        """Makes device tensors that enter a graph plain tensors there, not a subclass."""
        builder: Any = importlib.import_module("torch._dynamo.variables.builder")
        original_wrap = builder.VariableBuilder._wrap
        original_infer = builder.infer_subclass_type

        def wrap(variables: Any, value: Any) -> Any:
            if isinstance(value, DeviceTensor):
                return variables.wrap_tensor(value)
            return original_wrap(variables, value)

        def infer_subclass_type(value: Any) -> Any:
            return None if isinstance(value, DeviceTensor) else original_infer(value)

        builder.VariableBuilder._wrap = wrap
        builder.infer_subclass_type = infer_subclass_type

    def _follow_traces(self) -> None:
        """Runs each trace inside `compiling`, and reports Dynamo's internal errors."""
        convert_frame: Any = importlib.import_module("torch._dynamo.convert_frame")
        internal_error = importlib.import_module("torch._dynamo.exc").InternalTorchDynamoError
        original_compile = convert_frame._compile

        def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            outer_code, self.code = self.code, code
            try:
                with self._compiling():
                    return original_compile(code, *args, **kwargs)
            except internal_error as failure:
                self._failed(code.co_name, failure)
                raise
            finally:
                self.code = outer_code

        convert_frame._compile = compile_frame
