"""A compiled kernel whose launches are executed: what Triton's own is, without a GPU to load it.

Profilers and tests hook into loading and launching (`triton.knobs.runtime.kernel_load_start_hook`,
`launch_enter_hook`); the hooks are called where Triton calls them (triton/compiler/compiler.py,
`CompiledKernel`; the launchers of its drivers).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..launches.kernel import StandInKernel

_BEFORE_ARGUMENTS = 6
"""What Triton 3 passes behind the grid and before the arguments: stream, function, packed metadata,
launch metadata, and the hooks that are called before and after the launch."""


class EmulatedKernel(StandInKernel):
    """A kernel on an emulated GPU.

    Args:
        real: Triton's compiled kernel.
        launched: called with the grid and the arguments at each launch.
        parameters: how many arguments it takes, constants included.
    """

    def __init__(
        self,
        real: Any,
        launched: Callable[[tuple[int, ...], Sequence[Any]], None],
        parameters: int,
    ) -> None:
        super().__init__(str(real.metadata.name), launched, lambda: real)
        self.packed_metadata = getattr(real, "packed_metadata", None)
        self._compiled = real
        self._parameters = parameters

    def _init_handles(self) -> None:
        if self.module is None:
            self._tell("kernel_load_start_hook")
            self.module = self.function = 1
            self._tell("kernel_load_end_hook")

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> Any:
        """What hooks get to see of a launch; Triton makes it, for its own kernels."""
        make = getattr(type(self._compiled), "launch_metadata", None)
        return None if make is None else make(self, grid, stream, *args)

    def run(self, grid_0: Any, grid_1: Any, grid_2: Any, *launch_args: Any) -> None:
        """Executes a launch, between the hooks that come with it."""
        self._init_handles()
        # Before Triton 3 more stands there. Constants at the end may be left out.
        count = max(len(launch_args) - self._parameters, _BEFORE_ARGUMENTS)
        metadata, enter, leave = (
            launch_args[3:count] if count == _BEFORE_ARGUMENTS else (None, None, None)
        )
        if enter is not None:
            enter(metadata)
        super().run(grid_0, grid_1, grid_2, *launch_args[count:])
        if leave is not None:
            leave(metadata)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        self._init_handles()

        def launch(*args: Any, stream: Any = None) -> None:
            sizes = [*grid, 1, 1]
            self.run(
                *sizes[:3],
                stream,
                self.function,
                self.packed_metadata,
                self.launch_metadata(grid, stream, *args),
                self._hook("launch_enter_hook"),
                self._hook("launch_exit_hook"),
                *args,
            )

        return launch

    def __del__(self) -> None:
        """Unloads it, for those who want to be told."""
        if self.__dict__.get("module") is not None and not sys.is_finalizing():
            self._tell("kernel_unload_hook")
            self.module = None

    def _tell(self, name: str) -> None:
        hook = self._hook(name)
        if hook is not None:
            real = self._compiled
            hook(self.module, self.function, self.name, real.metadata_group, real.hash)

    def _hook(self, name: str) -> Any:
        """A hook of this name: from Triton's knobs (3.4 on), or of the class before."""
        runtime = getattr(sys.modules.get("triton.knobs"), "runtime", None)
        return getattr(type(self._compiled) if runtime is None else runtime, name, None)


__all__ = ["EmulatedKernel"]
