"""Compiles a kernel for the emulator, in a child that can be killed: LLVM cannot be interrupted."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NoReturn

from ..about import replace_triton_key
from ..lowering import target


class CompileError(Exception):
    """A kernel that was not compiled."""

    def __init__(self, text: str, is_late: bool = False) -> None:
        super().__init__(text)
        self.is_late = is_late


@dataclass(frozen=True)
class CompiledCode:
    """A kernel's code.

    Args:
        threads: threads of a workgroup.
        lds_bytes: LDS of a workgroup.
        scratch_bytes: Triton's global scratch memory for each workgroup.
    """

    text: str
    threads: int
    wave_size: int
    lds_bytes: int
    scratch_bytes: int


class ChildCompiler:
    """Compiles kernels, each in a child process.

    Args:
        suspended: returns a context with the unpatched torch, for Triton's front end.
    """

    def __init__(
        self, arch: str, suspended: Callable[[], AbstractContextManager[None]], folder: str
    ) -> None:
        self._arch = arch
        self._suspended = suspended
        self._folder = folder
        self._compile = importlib.import_module("triton.compiler.compiler").compile

    def compile(self, src: Any, options: Mapping[str, Any], deadline: float) -> CompiledCode:
        """Compiles a kernel.

        `deadline`: when to give up, by `time.monotonic`.

        Raises:
            CompileError: the compiler refuses it, or it takes too long.
        """
        descriptor, path = tempfile.mkstemp(dir=self._folder, suffix=".json")
        os.close(descriptor)
        try:
            child, read_end = self._fork(src, options, path)
            _wait_for(child, read_end, deadline)
            with open(path, encoding="utf-8") as stream:
                text = stream.read()
        finally:
            with contextlib.suppress(OSError):
                os.unlink(path)
        result = json.loads(text) if text else {"failure": "the compiler crashed"}
        if "failure" in result:
            raise CompileError(result["failure"])
        return CompiledCode(**result)

    def _fork(self, src: Any, options: Mapping[str, Any], path: str) -> tuple[int, int]:
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():  # Python 3.12 warns where there are threads
            warnings.simplefilter("ignore")
            child = os.fork()
        if child == 0:
            os.close(read_end)
            self._run_child(src, options, path)
        os.close(write_end)  # the child's copy of this end closes when the child ends
        return child, read_end

    def _run_child(self, src: Any, options: Mapping[str, Any], path: str) -> NoReturn:
        """Compiles, writes the fields of a `CompiledCode` or the failure, and ends the child."""
        status = 1
        try:
            signal.setitimer(signal.ITIMER_REAL, 0)
            replace_triton_key("kinspect")
            with self._suspended():
                result = self._result(src, options)
            with open(path, "w", encoding="utf-8") as stream:
                json.dump(result, stream)
            status = 0
        except BaseException as failure:
            with contextlib.suppress(BaseException), open(path, "w", encoding="utf-8") as stream:
                first_line = (str(failure).splitlines() or [""])[0]
                json.dump({"failure": f"{type(failure).__name__}: {first_line[:80]}"}, stream)
        finally:
            os._exit(status)

    def _result(self, src: Any, options: Mapping[str, Any]) -> dict[str, Any]:
        gpu = target(self._arch)
        compiled = self._compile(src, target=gpu, options=dict(options))
        metadata = compiled.metadata
        return {
            "text": compiled.asm["amdgcn"],
            "threads": int(metadata.num_warps) * int(gpu.warp_size),
            "wave_size": int(gpu.warp_size),
            "lds_bytes": int(metadata.shared),
            "scratch_bytes": int(getattr(metadata, "global_scratch_size", 0) or 0),
        }


def _wait_for(child: int, read_end: int, deadline: float) -> None:
    try:
        readable, _, _ = select.select([read_end], [], [], max(deadline - time.monotonic(), 0.0))
        if not readable:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    finally:
        os.close(read_end)
    if not readable:
        raise CompileError("its compile takes too long", is_late=True)
