"""The machine that a script finds where its interpreter has no torch."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .assumptions import LaunchRefusedError
from .device import StandInDevice, TargetDriver

INTERPRET = "TRITON_INTERPRET"


class World:
    """The machine that the script finds; lasts until the process ends."""

    def __init__(self, device: StandInDevice, driver: TargetDriver) -> None:
        self.device = device
        self.driver = driver
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Puts tensors that are created inside on the device: for the user's code."""
        yield
        self._settle()

    @contextlib.contextmanager
    def suspended(self) -> Iterator[None]:
        """Disables the changes to torch's operators: for Triton's front end."""
        self._settle()
        yield

    def on_device(self, value: Any) -> Any:
        """The device tensor that an argument of a launch is or wraps; None without one."""
        return None

    def launched(
        self,
        tensors: Sequence[Any],
        is_written: Sequence[bool],
        execute: Callable[..., None] | None = None,
        refusal: LaunchRefusedError | None = None,
    ) -> None:
        """Records a launch that is not executed, or not yet.

        `execute` executes the launch (`deferred.Execute`); None, or a refusal, if it cannot be
        executed.
        """

    def set_emulation_budget(self, seconds: float) -> None:
        """Allows so many seconds in all for executing kernels whose results the host reads."""

    def executed(self, value: Any) -> None:
        """Records that an executed kernel wrote a tensor's contents."""

    def sampled(self, value: Any) -> None:
        """Records that a launch of which only some workgroups ran wrote to a tensor."""

    def import_patches(self) -> dict[str, Callable[[Any], None]]:
        """Modules that are patched once the script imports them: name -> the function that does."""
        return {}

    def generate(
        self,
        take: Callable[[Any], None],
        max_choices: int | None,
        keep: Callable[[str, str], str] | None = None,
    ) -> None:
        """Makes torch.compile's generated code go to `take`.

        `max_choices` limits the kernels of a max-autotuned product; None for all. `keep` stores a
        module of another compiler and returns its path: (compiler's name, text).
        """

    def tensor(
        self,
        *shape: int,
        dtype: Any = "fp16",
        strides: Sequence[int] | None = None,
        grad: bool = False,
    ) -> Any:
        """A tensor on the device, as `--call` expressions make with `T(...)`.

        `dtype` is Triton's or torch's name of a type (`fp16`, `bfloat16`, `fp8e4nv`, `i64`) or a
        torch dtype; strides are in elements, contiguous by default.

        Raises:
            ValueError: the type is unknown, or the interpreter has no torch.
        """
        raise ValueError("T(...) makes torch tensors, and this interpreter has no torch")

    def _settle(self) -> None:
        """Notes settings of the script that have no effect here."""
        if os.environ.pop(INTERPRET, "0").lower() in ("1", "true", "on", "yes"):
            self.note(f"{INTERPRET} was set by the script; its kernels are compiled all the same")
