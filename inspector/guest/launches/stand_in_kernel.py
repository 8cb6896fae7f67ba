"""A stand-in for compiled kernels, which reports its launches and compiles only when inspected."""

from __future__ import annotations

import collections
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

REGISTERS = re.compile(r"^\s*\.vgpr_count:\s*(\d+)", re.M)
SPILLS = re.compile(r"^\s*\.vgpr_spill_count:\s*(\d+)", re.M)


COMPILE_MODULES = ("triton.compiler.compiler", "triton.compiler", "triton")
"""Modules that hold `compile`; `JITFunction.create_binder` imports it from the second."""


def replace_compiler(compile_: Callable[..., Any]) -> None:
    """Makes launches call this function instead of `triton.compile`."""
    for name in COMPILE_MODULES:
        importlib.import_module(name).compile = compile_  # type: ignore[attr-defined]


class StandInKernel:
    """A kernel that scripts can launch and inspect.

    Scripts that inspect one (`kernel.metadata.shared`, `kernel.n_regs`, `kernel.asm["ttgir"]`) get
    the values of a real compile for the target, which is done at that moment.

    `launched`: called with the grid and the arguments at each launch.
    """

    def __init__(
        self,
        name: str,
        launched: Callable[[tuple[int, ...], Sequence[Any]], None],
        compile_now: Callable[[], Any],
    ) -> None:
        self.name = name
        self.function = 1
        self.module: Any = None
        self.packed_metadata = None
        self.n_max_threads = 1024
        self._launched = launched
        self._compile_now = compile_now
        self._compiled: Any = None

    def run(self, grid_0: Any, grid_1: Any, grid_2: Any, *launch_args: Any) -> None:
        """Reports a launch, as Triton's launcher is called.

        `launch_args`: stream, function, hooks and the kernel's arguments.
        """
        self._launched(tuple(int(n) for n in (grid_0, grid_1, grid_2)), launch_args)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, stream: Any = None) -> None:
            sizes = [*grid, 1, 1]
            self.run(*sizes[:3], *args)

        return launch

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """None: only profilers use it."""

    def result(self, *args: Any) -> StandInKernel:
        """The kernel itself, as the result of an asynchronous compile."""
        return self

    def _init_handles(self) -> None:
        """Does nothing: there is no device to load the kernel onto."""

    @property
    def n_regs(self) -> int:
        """VGPRs of a wave's lane."""
        return self._figure(REGISTERS)

    @property
    def n_spills(self) -> int:
        """VGPRs that are spilled."""
        return self._figure(SPILLS)

    @property
    def asm(self) -> dict[str, Any]:
        """The texts of the compile's stages by name; "" for other vendors' stages (`ptx`)."""
        stages: dict[str, Any] = collections.defaultdict(str)
        stages.update(self._compiled_kernel().asm)
        return stages

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        compiled = self._compiled_kernel()
        # `kernel.shared`, `kernel.num_warps`: attributes of the kernel itself in Triton 2.
        owner = compiled if hasattr(compiled, name) else compiled.metadata
        return getattr(owner, name)

    def _figure(self, pattern: re.Pattern[str]) -> int:
        match = pattern.search(str(self.asm["amdgcn"]))
        return int(match[1]) if match else 0

    def _compiled_kernel(self) -> Any:
        if self._compiled is None:
            self._compiled = self._compile_now()
        return self._compiled
