"""Puts the parts together: one `World` per process that runs a user's file."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..lowering import target
from . import arrivals, benchmarking, rocm, smi
from . import stubs as stub_modules
from .device import Device
from .driver import TargetDriver, activate
from .refused import RefusedError

INTERPRET = "TRITON_INTERPRET"


class World:
    """What the script believes. Made by `install`; lasts until the process ends.

    Args:
        device: the GPU that the script finds.
        driver: Triton's active driver.
    """

    def __init__(self, device: Device, driver: TargetDriver) -> None:
        self.device = device
        self.driver = driver
        self.notes: list[str] = []
        self._torch: Any = None

    def note(self, text: str) -> None:
        """Remembers, once, that something had to be approximated."""
        if text not in self.notes:
            self.notes.append(text)

    def on_device(self, value: Any) -> Any:
        """The tensor on the device that an argument of a launch is or wraps; None for none."""
        return self._torch.on_device(value) if self._torch is not None else None

    def launched(
        self,
        tensors: Sequence[Any],
        is_written: Sequence[bool],
        execute: Callable[..., None] | None = None,
        refusal: RefusedError | None = None,
    ) -> None:
        """Takes a launch that is not executed, or not yet.

        Args:
            tensors: its arguments on the device.
            is_written: of each, whether the kernel may write to it.
            execute: executes it (`launched.Execute`); None where that cannot be done.
            refusal: why not.
        """
        if tensors and self._torch is not None:
            self._torch.launched(tensors, is_written, execute, refusal)

    def emulate_for(self, seconds: float) -> None:
        """What kernels wrote is computed where the host reads it, within so many seconds of all."""
        if self._torch is not None:
            self._torch.emulate_for(seconds)

    def executed(self, value: Any) -> None:
        """Takes a tensor that an executed kernel wrote to."""
        if self._torch is not None:
            self._torch.executed(value)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The user's code runs inside: its tensors are on the device."""
        with contextlib.ExitStack() as stack:
            if self._torch is not None:
                stack.enter_context(self._torch.running())
            yield
        self._settle()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Triton's front end runs inside: torch is as it was."""
        self._settle()
        with contextlib.ExitStack() as stack:
            if self._torch is not None:
                stack.enter_context(self._torch.suspended())
            yield

    def generate(
        self,
        take: Callable[[Any], None],
        most_choices: int | None,
        keep: Callable[[str, str], str] | None = None,
    ) -> None:
        """What torch.compile generates from here on goes to `take` (`graphs/generated.py`).

        Args:
            take: called with the records of each graph.
            most_choices: of those that max-autotune would time, how many are generated.
            keep: given the name of another compiler and a module that it wrote; where it is kept.
        """
        if self._torch is not None:
            self._torch.generate(take, most_choices, keep)

    def tensor(
        self,
        *shape: int,
        dtype: Any = "fp16",
        strides: Sequence[int] | None = None,
        grad: bool = False,
    ) -> Any:
        """A tensor on the device, as `--call` expressions make with `T(...)`.

        Args:
            shape: extents; none for a scalar tensor.
            dtype: Triton's or torch's name of the type (`fp16`, `bfloat16`, `fp8e4nv`, `i64`), or a
                torch dtype.
            strides: in elements; contiguous by default.
            grad: whether it takes part in autograd.

        Raises:
            ValueError: the type is unknown, or the interpreter has no torch.
        """
        if self._torch is None:
            raise ValueError("T(...) makes torch tensors, and this interpreter has no torch")
        return self._torch.tensor(shape, dtype, strides, grad)

    def _settle(self) -> None:
        """Notes the script's settings that were not followed."""
        if os.environ.pop(INTERPRET, "0").lower() in ("1", "true", "on", "yes"):
            self.note(f"{INTERPRET} was set by the script; its kernels are compiled all the same")


def install(
    device: Device,
    folder: str,
    *,
    stubs: Sequence[str] = (),
    most_sets: int | None = None,
    contents: bool = False,
) -> World:
    """Makes this process a machine with the given GPU. Cannot be undone: fork first.

    Args:
        device: the GPU.
        folder: an existing scratch folder; takes a small ROCm tree.
        stubs: names of modules to replace by inert ones.
        most_sets: x values of each of Triton's benchmarks that are run; None for all.
        contents: every tensor has contents, however large; kernels are executed.

    Raises:
        ValueError: a module that cannot be replaced.
    """
    stub_modules.install(stubs)
    driver = activate(target(device.arch), device)
    world = World(device, driver)
    rocm.install(device, folder)
    smi.install(device)
    os.environ.pop(INTERPRET, None)
    # A stated knob is stronger than the environment, which the script may change.
    importlib.import_module("triton.knobs").runtime.interpret = False
    if contents and importlib.util.find_spec("torch") is not None:
        importlib.import_module(".tensors", __package__).keep_all_contents()
    if importlib.util.find_spec("torch") is not None:
        world._torch = importlib.import_module(".torch_world", __package__).TorchWorld(
            device, world.note
        )
    benchmarking.install(world.note, most_sets)
    adjusters = world._torch.arrivals() if world._torch is not None else {}
    arrivals.install(world.note, adjusters)
    return world
