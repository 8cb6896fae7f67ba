"""What stands in for a compiled kernel: it counts its launches and compiles only when looked at."""

from __future__ import annotations

import collections
import importlib
import re
from collections.abc import Callable, Sequence
from typing import Any

REGISTERS = re.compile(r"^\s*\.vgpr_count:\s*(\d+)", re.M)
SPILLS = re.compile(r"^\s*\.vgpr_spill_count:\s*(\d+)", re.M)


SEAMS = ("triton.compiler.compiler", "triton.compiler", "triton")
"""Modules that hold `compile`; `JITFunction.create_binder` imports it from the second."""


def replace_compiler(compile_: Callable[..., Any]) -> None:
    """Launches get their kernels from here on from this function in place of `triton.compile`."""
    for name in SEAMS:
        importlib.import_module(name).compile = compile_  # type: ignore[attr-defined]


class StandInKernel:
    """A kernel that scripts may launch and ask about.

    Most never ask. Those that do (`kernel.metadata.shared`, `kernel.n_regs`, `kernel.asm["ttgir"]`)
    get the truth for the chosen target, from a real compile.

    Args:
        name: of the kernel.
        launched: called with the grid and the arguments at each launch.
        compile_now: makes Triton's own compiled kernel.
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
        """What a launcher does; behind the grid come stream, function, hooks and arguments."""
        self._launched(tuple(int(n) for n in (grid_0, grid_1, grid_2)), launch_args)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        def launch(*args: Any, stream: Any = None) -> None:
            sizes = [*grid, 1, 1]
            self.run(*sizes[:3], *args)

        return launch

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> None:
        """Only profilers want it."""

    def result(self, *args: Any) -> StandInKernel:
        """What an asynchronous compile gives."""
        return self

    def _init_handles(self) -> None:
        """Loads a kernel onto the device, where there is one."""

    @property
    def n_regs(self) -> int:
        """VGPRs."""
        return self._figure(REGISTERS)

    @property
    def n_spills(self) -> int:
        """VGPRs spilled."""
        return self._figure(SPILLS)

    @property
    def asm(self) -> dict[str, Any]:
        """The stages by name; "" for those of other vendors (`ptx`)."""
        stages: dict[str, Any] = collections.defaultdict(str)
        stages.update(self._real().asm)
        return stages

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        real = self._real()
        # `kernel.shared`, `kernel.num_warps`: attributes of the kernel itself in Triton 2.
        holder = real if hasattr(real, name) else real.metadata
        return getattr(holder, name)

    def _figure(self, pattern: re.Pattern[str]) -> int:
        match = pattern.search(str(self.asm["amdgcn"]))
        return int(match[1]) if match else 0

    def _real(self) -> Any:
        if self._compiled is None:
            self._compiled = self._compile_now()
        return self._compiled
