"""The machine that a script finds where its interpreter has torch."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..cases.types import TORCH_NAMES
from . import (
    comparisons,
    distributed,
    slow_imports,
    subclasses,
    tensors,
    torch_cuda,
    torch_functions,
    writes,
)
from .bare_world import World
from .device import StandInDevice
from .dispatch import Dispatcher
from .driver import TargetDriver
from .graphs.entry import Compile
from .graphs.generated import Generated
from .graphs.helion import MODULE as HELION
from .graphs.helion import Helion
from .graphs.originals import Originals
from .reads import RERUNNING
from .refusal import LaunchRefusedError
from .rerunning import EmulationBudget
from .tensors import DEVICE_TYPES, DeviceTensor, rebuild, rebuild_parameter

# Triton's names, and one that people write.
DTYPES = {**TORCH_NAMES, "fp8": "float8_e4m3fnuz"}


class TorchWorld(World):
    """Device tensors and a `torch.cuda` that has one AMD GPU."""

    def __init__(self, device: StandInDevice, driver: TargetDriver) -> None:
        super().__init__(device, driver)
        dispatcher = Dispatcher(self.note)
        self._mode = dispatcher.mode
        originals = Originals()
        self._compile = Compile(dispatcher, originals, device.arch)
        self._helion = Helion(self._compile.tracing, self.note)
        torch.set_num_threads(1)  # payloads are small, and the machine compiles at the same time
        slow_imports.install()
        torch_cuda.install(device)
        torch_functions.install(self._compile)
        # C++ wants a real accelerator to name the type of an ordinal: `torch.device(0)`.
        torch.device = _class_of_devices(torch.device)
        subclasses.install()
        _switch_autocast_on_both()
        distributed.install(self.note)
        comparisons.install(torch, compares=tensors.ALL_CONTENTS)
        torch.serialization.add_safe_globals([rebuild, rebuild_parameter])
        originals.settle()

    def generate(
        self,
        take: Callable[[Generated], None],
        max_choices: int | None,
        keep: Callable[[str, str], str] | None = None,
    ) -> None:
        self._compile.take, self._compile.max_choices = take, max_choices
        self._helion.keep, self._helion.max_choices = keep, max_choices

    def import_patches(self) -> dict[str, Callable[[Any], None]]:
        return {HELION: self._helion.adjust}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Sends every operator to the dispatcher, in threads that the script starts as well."""
        start, mode = threading.Thread.run, self._mode

        def run(self: threading.Thread) -> None:
            with mode:
                start(self)

        threading.Thread.run = run  # type: ignore[method-assign]
        try:
            with super().running(), mode:
                yield
        finally:
            threading.Thread.run = start  # type: ignore[method-assign]

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Disables the dispatcher's mode and the script's own modes."""
        disabled = torch.utils._python_dispatch._disable_current_modes
        with super().suspended(), torch._C.DisableTorchFunction(), disabled():
            yield

    def on_device(self, value: Any) -> Any:
        for inner in (value, getattr(value, "base", None)):
            if isinstance(inner, DeviceTensor):
                return inner
        return None

    def launched(
        self,
        tensors: Sequence[Any],
        is_written: Sequence[bool],
        execute: Callable[..., None] | None = None,
        refusal: LaunchRefusedError | None = None,
    ) -> None:
        writes.launched(tensors, is_written, execute, refusal)

    def set_emulation_budget(self, seconds: float) -> None:
        RERUNNING.budget = EmulationBudget(seconds)

    def executed(self, value: Any) -> None:
        tensor = self.on_device(value)
        if tensor is not None:
            tensor._memory.mark_known()

    def sampled(self, value: Any) -> None:
        tensor = self.on_device(value)
        if tensor is not None:
            tensor._memory.mark_known()
            tensor._memory.mark_unknown(None, "that a kernel writes, of which a sample ran", None)

    def tensor(
        self,
        *shape: int,
        dtype: Any = "fp16",
        strides: Sequence[int] | None = None,
        grad: bool = False,
    ) -> torch.Tensor:
        kind = dtype
        if not isinstance(kind, torch.dtype):
            name = str(dtype).rpartition(".")[2]
            kind = getattr(torch, DTYPES.get(name, name), None)
        if not isinstance(kind, torch.dtype):
            raise ValueError(f"no type {dtype!r}; for example fp16, bf16, fp32, fp8e4b8, i32")
        extents = [int(extent) for extent in shape]
        with self.running():
            if strides is not None:
                tensor = torch.empty_strided(extents, list(strides), dtype=kind, device="cuda")
            else:
                tensor = torch.empty(extents, dtype=kind, device="cuda")
            if kind.is_floating_point and kind.itemsize > 1:
                tensor.normal_()
            else:
                tensor.zero_()
            return tensor.requires_grad_(grad) if grad else tensor


def _class_of_devices(device_class: Any) -> Any:
    """A class in place of `torch.device` whose calls return torch's own devices.

    These are instances of it too.
    """

    class Kind(type):
        """Equal to torch's own class, by which older tables look types up."""

        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            stated = [*args, *kwargs.values()]
            if len(stated) == 1 and type(stated[0]) is int:
                return device_class("cuda", stated[0])
            return device_class(*args, **kwargs)

        def __instancecheck__(cls, value: Any) -> bool:
            return isinstance(value, device_class)

        def __subclasscheck__(cls, kind: type) -> bool:
            return kind is cls or issubclass(kind, device_class)

        def __eq__(cls, other: object) -> bool:
            return other is cls or other is device_class

        def __hash__(cls) -> int:
            return hash(device_class)

        def __getattr__(cls, name: str) -> Any:
            return getattr(device_class, name)

    return Kind("device", (), {"__module__": "torch", "__doc__": device_class.__doc__})


def _switch_autocast_on_both() -> None:
    """Makes functions that switch autocast for the device switch it for the CPU too.

    To torch's C++ device tensors are CPU tensors.
    """
    for name in ("set_autocast_enabled", "set_autocast_dtype"):
        if hasattr(torch, name):
            setattr(torch, name, _also_on_cpu(getattr(torch, name)))


def _also_on_cpu(switch: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(switch)
    def switched(*args: Any) -> Any:
        if len(args) == 2 and args[0] in DEVICE_TYPES:
            switch("cpu", args[1])
        return switch(*args)

    return switched
