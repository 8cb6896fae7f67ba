"""Compiles a kernel for the emulator, in a child that can be killed: LLVM cannot be interrupted."""

from __future__ import annotations

import contextlib
import functools
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
from dataclasses import dataclass
from typing import Any, NoReturn

from ..about import TRITON_KEY_MODULES
from ..lowering import target


class CompileError(Exception):
    """A kernel that was not compiled.

    Args:
        text: the reason.
        is_late: whether there was not enough time.
    """

    def __init__(self, text: str, is_late: bool = False) -> None:
        super().__init__(text)
        self.is_late = is_late


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


def compile_within(
    triton_compile: Callable[..., Any],
    src: Any,
    options: Mapping[str, Any],
    *,
    arch: str,
    world: Any,
    folder: str,
    deadline: float,
) -> CompiledCode:
    """Compiles a kernel in a child process.

    Args:
        triton_compile: Triton's own `compile`.
        src: its input.
        options: the compile options that differ from the defaults.
        arch: gfx name of the target.
        world: its `suspended` is a context with the unpatched torch.
        folder: takes a file with the child's result.
        deadline: when to give up, by `time.monotonic`.

    Raises:
        CompileError: the compiler refuses it, or it takes too long.
    """
    descriptor, path = tempfile.mkstemp(dir=folder, suffix=".json")
    os.close(descriptor)
    read_end, write_end = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():  # Python 3.12 warns where there are threads
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os.close(read_end)
        _compile_in_child(
            functools.partial(_compiled, triton_compile, src, options, arch), world, path
        )
    os.close(write_end)
    try:
        # The child's end of the pipe closes when it ends.
        readable, _, _ = select.select([read_end], [], [], max(deadline - time.monotonic(), 0.0))
        if not readable:
            os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if not readable:
            raise CompileError("its compile takes too long", is_late=True)
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    finally:
        os.close(read_end)
        with contextlib.suppress(OSError):
            os.unlink(path)
    result = json.loads(text) if text else {"failure": "the compiler crashed"}
    if "failure" in result:
        raise CompileError(result["failure"])
    return CompiledCode(**result)


def _compile_in_child(
    compile_kernel: Callable[[], dict[str, Any]], world: Any, path: str
) -> NoReturn:
    """Compiles in a forked child, writes result or failure to `path`, and ends the child."""
    status = 1
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        # Otherwise half a gigabyte is hashed for a cache key that nobody looks up.
        for name in TRITON_KEY_MODULES:
            module = importlib.import_module(name)
            if hasattr(module, "triton_key"):
                module.triton_key = functools.partial(str, "kinspect")  # type: ignore[attr-defined]
        with world.suspended():
            result = compile_kernel()
        with open(path, "w", encoding="utf-8") as stream:
            json.dump(result, stream)
        status = 0
    except BaseException as failure:
        with contextlib.suppress(BaseException), open(path, "w", encoding="utf-8") as stream:
            first_line = (str(failure).splitlines() or [""])[0]
            json.dump({"failure": f"{type(failure).__name__}: {first_line[:80]}"}, stream)
    finally:
        os._exit(status)


def _compiled(
    triton_compile: Callable[..., Any], src: Any, options: Mapping[str, Any], arch: str
) -> dict[str, Any]:
    """The fields of a `CompiledCode`."""
    gpu = target(arch)
    compiled = triton_compile(src, target=gpu, options=dict(options))
    metadata = compiled.metadata
    return {
        "text": compiled.asm["amdgcn"],
        "threads": int(metadata.num_warps) * int(gpu.warp_size),
        "wave_size": int(gpu.warp_size),
        "lds_bytes": int(metadata.shared),
        "scratch_bytes": int(getattr(metadata, "global_scratch_size", 0) or 0),
    }
