"""The machine that a script believes in: one `World` per process that runs a user's file."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..lowering import target
from . import benchmarking, import_patches, rocm, smi
from . import stubs as stub_modules
from .device import StandInDevice
from .driver import TargetDriver, activate
from .refusal import LaunchRefusedError

INTERPRET = "TRITON_INTERPRET"


class World:
    """The machine that the script finds. Made by `install`; lasts until the process ends.

    Args:
        device: the GPU that the script finds.
        driver: Triton's active driver.
    """

    def __init__(self, device: StandInDevice, driver: TargetDriver) -> None:
        self.device = device
        self.driver = driver
        self.notes: list[str] = []
        self._torch: Any = None

    def note(self, text: str) -> None:
        """Adds a remark on something approximated to `notes`, once."""
        if text not in self.notes:
            self.notes.append(text)

    def on_device(self, value: Any) -> Any:
        """The device tensor that an argument of a launch is or wraps; None without one."""
        return self._torch.on_device(value) if self._torch is not None else None

    def launched(
        self,
        tensors: Sequence[Any],
        is_written: Sequence[bool],
        execute: Callable[..., None] | None = None,
        refusal: LaunchRefusedError | None = None,
    ) -> None:
        """Records a launch that is not executed, or not yet.

        Args:
            tensors: its device tensors.
            is_written: for each of them, whether the kernel may write to it.
            execute: executes it (`pending_launches.Execute`); None if it cannot be executed.
            refusal: why it cannot be executed.
        """
        if tensors and self._torch is not None:
            self._torch.launched(tensors, is_written, execute, refusal)

    def set_emulation_budget(self, seconds: float) -> None:
        """Allows so many seconds in all for executing kernels whose results the host reads."""
        if self._torch is not None:
            self._torch.set_emulation_budget(seconds)

    def executed(self, value: Any) -> None:
        """Records that an executed kernel wrote a tensor's contents."""
        if self._torch is not None:
            self._torch.executed(value)

    def sampled(self, value: Any) -> None:
        """Records that a launch of which only some workgroups ran wrote to a tensor."""
        if self._torch is not None:
            self._torch.sampled(value)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Puts tensors that are created inside on the device: for the user's code."""
        with contextlib.ExitStack() as stack:
            if self._torch is not None:
                stack.enter_context(self._torch.running())
            yield
        self._settle()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Disables the changes to torch's operators: for Triton's front end."""
        self._settle()
        with contextlib.ExitStack() as stack:
            if self._torch is not None:
                stack.enter_context(self._torch.suspended())
            yield

    def generate(
        self,
        take: Callable[[Any], None],
        max_choices: int | None,
        keep: Callable[[str, str], str] | None = None,
    ) -> None:
        """Makes torch.compile's generated code go to `take`.

        Args:
            take: takes the code of each graph (`graphs/generated.py`).
            max_choices: how many kernels of a max-autotuned product to generate; None for all.
            keep: stores a module of another compiler, returns its path: (compiler's name, text).
        """
        if self._torch is not None:
            self._torch.generate(take, max_choices, keep)

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
        """Notes settings of the script that have no effect here."""
        if os.environ.pop(INTERPRET, "0").lower() in ("1", "true", "on", "yes"):
            self.note(f"{INTERPRET} was set by the script; its kernels are compiled all the same")


def install(
    device: StandInDevice,
    folder: str,
    *,
    stubs: Sequence[str] = (),
    max_values: int | None = None,
    all_contents: bool = False,
    values_are_real: bool = False,
) -> World:
    """Makes this process believe in the given GPU. Cannot be undone: fork first.

    Args:
        device: the GPU.
        folder: an existing scratch folder; takes a small ROCm tree.
        stubs: names of modules to replace by inert ones.
        max_values: how many x values of Triton's benchmarks to run; None for all.
        all_contents: whether tensors of any size have contents: where all kernels are executed.
        values_are_real: whether each launch is executed whole, so that checks of results compare
            them; implies `all_contents`.

    Raises:
        ValueError: a module in `stubs` cannot be replaced.
    """
    stub_modules.install(stubs)
    driver = activate(target(device.arch), device)
    world = World(device, driver)
    rocm.install(device, folder)
    smi.install(device)
    os.environ.pop(INTERPRET, None)
    # A knob that is set takes precedence over the environment, which the script may change.
    importlib.import_module("triton.knobs").runtime.interpret = False
    if (all_contents or values_are_real) and importlib.util.find_spec("torch") is not None:
        importlib.import_module(".tensors", __package__).keep_all_contents(values_are_real)
    if importlib.util.find_spec("torch") is not None:
        world._torch = importlib.import_module(".torch_world", __package__).TorchWorld(
            device, world.note
        )
    benchmarking.install(world.note, max_values, failures_are_real=values_are_real)
    adjustments = world._torch.import_patches() if world._torch is not None else {}
    import_patches.install(world.note, adjustments)
    return world
