"""The replacement of Triton's compiled kernel: its launches are executed without a GPU.

Profilers and tests set hooks for loading and launching (`triton.knobs.runtime`:
`kernel_load_start_hook`, `launch_enter_hook`); they are called where Triton calls them
(triton/compiler/compiler.py, `CompiledKernel`, and the launchers of its drivers).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..launches.stand_in_kernel import StandInKernel

_LAUNCHER_ARGUMENTS = 6
"""How many values Triton 3 passes between the grid and the kernel's arguments: stream, function,
packed metadata, launch metadata, and the hooks before and after the launch."""


class EmulatedKernel(StandInKernel):
    """A kernel on an emulated GPU.

    Args:
        parameters: how many arguments it takes, including constants.
    """

    def __init__(
        self,
        compiled: Any,
        launched: Callable[[tuple[int, ...], Sequence[Any]], None],
        parameters: int,
    ) -> None:
        super().__init__(str(compiled.metadata.name), launched, lambda: compiled)
        self.packed_metadata = getattr(compiled, "packed_metadata", None)
        self._compiled = compiled
        self._parameters = parameters

    def _init_handles(self) -> None:
        if self.module is None:
            self._call_hook("kernel_load_start_hook")
            self.module = self.function = 1
            self._call_hook("kernel_load_end_hook")

    def launch_metadata(self, grid: Any, stream: Any, *args: Any) -> Any:
        """The launch's metadata for hooks, made by Triton's own method."""
        make = getattr(type(self._compiled), "launch_metadata", None)
        return None if make is None else make(self, grid, stream, *args)

    def run(self, grid_0: Any, grid_1: Any, grid_2: Any, *launch_args: Any) -> None:
        """Executes a launch, and calls the hooks that are passed with it."""
        self._init_handles()
        # Older launchers pass more before the arguments. Constants at the end may be left out.
        count = max(len(launch_args) - self._parameters, _LAUNCHER_ARGUMENTS)
        metadata, enter_hook, exit_hook = (
            launch_args[3:count] if count == _LAUNCHER_ARGUMENTS else (None, None, None)
        )
        if enter_hook is not None:
            enter_hook(metadata)
        super().run(grid_0, grid_1, grid_2, *launch_args[count:])
        if exit_hook is not None:
            exit_hook(metadata)

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
        if self.__dict__.get("module") is not None and not sys.is_finalizing():
            self._call_hook("kernel_unload_hook")
            self.module = None

    def _call_hook(self, name: str) -> None:
        hook = self._hook(name)
        if hook is not None:
            compiled = self._compiled
            hook(self.module, self.function, self.name, compiled.metadata_group, compiled.hash)

    def _hook(self, name: str) -> Any:
        """A hook by name: from Triton's knobs (3.4 and newer), or from the class; None if unset."""
        runtime = getattr(sys.modules.get("triton.knobs"), "runtime", None)
        return getattr(type(self._compiled) if runtime is None else runtime, name, None)
