"""Compiles a kernel for the emulator, in a child that can be killed: LLVM cannot be interrupted."""

from __future__ import annotations

import importlib
import signal
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from ..about import replace_triton_key
from ..lowering import target
from ..process_tree import answer_of_child


@dataclass(frozen=True)
class CompiledCode:
    """A kernel's code.

    Args:
        text: its assembly.
        threads: threads of a workgroup.
        wave_size: lanes of a wave.
        lds_bytes: LDS of a workgroup.
        scratch_bytes: Triton's global scratch memory for each workgroup.
    """

    text: str
    threads: int
    wave_size: int
    lds_bytes: int
    scratch_bytes: int


class ChildCompiler:
    """Compiles kernels with the Triton of now, each in a child process.

    `suspended` returns a context with the unpatched torch, for Triton's front end.
    """

    def __init__(self, arch: str, suspended: Callable[[], AbstractContextManager[None]]) -> None:
        self._arch = arch
        self._suspended = suspended
        self._compile = importlib.import_module("triton.compiler.compiler").compile

    def compile(self, src: Any, options: Mapping[str, Any], deadline: float) -> CompiledCode:
        """Compiles a kernel.

        Raises:
            ChildError: the compiler refuses it, or is not done at `deadline`, by `time.monotonic`.
        """

        def fields() -> dict[str, Any]:
            signal.setitimer(signal.ITIMER_REAL, 0)
            replace_triton_key("kinspect")
            gpu = target(self._arch)
            with self._suspended():
                compiled = self._compile(src, target=gpu, options=dict(options))
            metadata = compiled.metadata
            return {
                "text": compiled.asm["amdgcn"],
                "threads": int(metadata.num_warps) * int(gpu.warp_size),
                "wave_size": int(gpu.warp_size),
                "lds_bytes": int(metadata.shared),
                "scratch_bytes": int(getattr(metadata, "global_scratch_size", 0) or 0),
            }

        return CompiledCode(**answer_of_child(fields, deadline, "its compile"))
