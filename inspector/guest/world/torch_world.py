"""The machine that a script finds where its interpreter has torch.

Comparisons of results with references: real where values are, harmless where they are not.

A captured script's results are not computed, so its assertions compare nothing. Where every launch
is executed, they are torch's, numpy's and Triton's own, but for operands that could not be computed
here: these pass, and `assumptions.LOG` counts them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..cases.types import TORCH_NAMES
from . import distributed, slow_imports, subclasses, tensor_io, tensors, torch_cuda, torch_functions
from .assumptions import LOG, LaunchRefusedError, UnknownFloat
from .bare_world import World
from .device import StandInDevice, TargetDriver
from .dispatch import Dispatcher
from .graphs.entry import MODULE as HELION
from .graphs.entry import Compile, Helion
from .graphs.generated import Generated
from .rerunning import EmulationBudget
from .tensor_io import RERUNNING, is_unknown
from .tensors import DEVICE_TYPES, DeviceTensor, rebuild, rebuild_parameter
from .torch_functions import Originals

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
        install(torch, compares=tensors.ALL_CONTENTS)
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
        tensor_io.launched(tensors, is_written, execute, refusal)

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


def _pass(*args: Any, **kwargs: Any) -> None:
    """Takes the place of an assertion: compares nothing."""


def _assumed_equal(
    original: Callable[..., Any], is_unknown: Callable[[Any], bool]
) -> Callable[..., Any]:
    """A comparison that is true, as a logged assumption, where an operand is unknown."""

    @functools.wraps(original)
    def compare(*args: Any, **kwargs: Any) -> Any:
        operands = (*args, *kwargs.values())
        if any(map(is_unknown, operands)):
            reason = next(filter(None, map(_reason, operands)), None)
            return LOG.answer(f"{original.__name__}() of results that are not known", True, reason)
        return original(*args, **kwargs)

    return compare


def _is_unknown_tensor(value: Any) -> bool:
    return isinstance(value, DeviceTensor) and is_unknown(value)


def _reason(value: Any) -> str | None:
    return value._memory.reason if isinstance(value, DeviceTensor) else None


def _is_unknown_array(value: Any) -> bool:
    return bool(getattr(value, "unknown", False)) or _is_unknown_tensor(value)


NO_COMPARISONS = frozenset(
    (
        *("assert_raises", "assert_raises_regex", "assert_warns", "assert_no_warnings"),
        *("assert_no_gc_cycles",),
    )
)
"""Functions of numpy.testing that call a function, and compare nothing."""
_MAX_NESTING = 4
"""How deep unknown values are looked for in lists, tuples and dicts."""


def _holds_unknown(value: Any, depth: int = _MAX_NESTING) -> bool:
    """Whether a value is an unknown tensor, array or number, or a container with one."""
    if isinstance(value, UnknownFloat) or _is_unknown_array(value):
        return True
    if not depth or not isinstance(value, (list, tuple, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return any(_holds_unknown(item, depth - 1) for item in inner)


def _comparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """An assertion that passes, and is counted, where an operand is unknown."""

    @functools.wraps(original)
    def check(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the caller's line
        if any(map(_holds_unknown, (*args, *kwargs.values()))):
            LOG.count_unjudged(f"{original.__name__}() of results that are not known")
            return None
        return original(*args, **kwargs)

    return check


def install(torch: Any, *, compares: bool) -> None:
    """Replaces torch's, Triton's and numpy's checks in this process.

    Comparisons by which a script may decide (`allclose`) are done on known values; of unknown ones
    they are assumed to be true.

    With `compares` assertions (`assert_close`) compare known values; else they compare nothing.
    """

    def replace(owner: Any, name: str) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _comparing(original) if compares else _pass)

    for name in ("assert_close", "assert_allclose"):
        replace(torch.testing, name)
    for owner in (torch, torch.Tensor):
        for name in ("allclose", "equal"):
            setattr(owner, name, _assumed_equal(getattr(owner, name), _is_unknown_tensor))
    internal = sys.modules.get("torch.testing._internal.common_utils")
    if internal is not None:
        replace(internal.TestCase, "assertEqual")
    replace(importlib.import_module("triton.testing"), "assert_close")
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        return
    for name in dir(numpy.testing):
        if name.startswith("assert_") and not (compares and name in NO_COMPARISONS):
            replace(numpy.testing, name)
    for name in ("allclose", "array_equal", "array_equiv"):
        setattr(numpy, name, _assumed_equal(getattr(numpy, name), _is_unknown_array))
