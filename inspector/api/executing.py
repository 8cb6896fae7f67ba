"""`kinspect.emulate` and `kinspect.occupancy`."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import machines
from ..capture.resolving import split
from ..capture.targets import is_confined, kind_of
from ..compile.hip.options import HipOptions
from ..machines.loader import DEFAULT_ARCH
from ..metrics.occupancy import Occupancy
from ..metrics.occupancy import occupancy as occupancy_of
from ..model import Demand
from ..pipeline.emulated_code import CodeLaunch, launch_code
from ..pipeline.emulation import EmulationRequest
from ..pipeline.emulation import emulate as run_emulation
from .emulations import CodeEmulation, Emulation


def emulate(
    script: str | os.PathLike[str],
    argv: Sequence[str] = (),
    *,
    arch: str = DEFAULT_ARCH,
    sample: int | None = None,
    configs: int | None = 1,
    python: str | None = None,
    time_limit: float = 600.0,
) -> Emulation:
    """Runs a script, or a file of tests, on an emulated GPU.

    The script's own asserts compare what its kernels computed:

    >>> result = kinspect.emulate("docs/examples/doubled.py", arch="gfx942")
    >>> result.passed, result.status, result.launches, result.findings
    (True, 0, 1, ())

    Args:
        script: the file, or `FILE::TEST`. It runs in a process of its own.
        argv: its arguments.
        arch: the emulated GPU.
        sample: workgroups of each launch that are executed, for counts without results; None: all.
        configs: configurations of an autotuner, the script once with each; None: all.
        python: the interpreter with PyTorch and Triton; None: this one.
        time_limit: seconds that one launch may take.

    Raises:
        KinspectError: there is no such file or interpreter.
    """
    path, test = split(os.fspath(script))
    request = EmulationRequest(
        path=path,
        argv=tuple(argv),
        arch=machines.load(arch).arch,
        python=python or sys.executable,
        sample=sample,
        configs=configs,
        seconds=time_limit,
        test=test,
        only_selects=is_confined(),
        smaller="" if sample else "for faults and counts without results: sample=8",
    )
    return Emulation(run_emulation(request, dict(os.environ), ended_with_this_process))


@contextlib.contextmanager
def ended_with_this_process(process: subprocess.Popen[Any]) -> Iterator[None]:
    """An exception while the script runs, Ctrl-C among them, ends it."""
    try:
        yield
    except BaseException:
        process.kill()
        raise


def emulate_code(
    path: str | os.PathLike[str],
    arguments: str | Sequence[Any],
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] | None = None,
    arch: str | None = None,
    kernel: str | None = None,
    lds_bytes: int = 0,
    time_limit: float = 600.0,
    flags: Sequence[str] = (),
    instantiate: Sequence[str] = (),
) -> CodeEmulation:
    """Launches one kernel of assembly, a code object or a HIP source on an emulated GPU.

    >>> result = kinspect.emulate_code("docs/examples/iota.s", "i32[64]=zeros", block=(64, 1, 1))
    >>> result.buffers[0].largest, result.profile.executed["instructions"]
    (63.0, 5)

    Args:
        path: the file.
        arguments: as on the command line: `"f32[4096], i32[9]=zeros, i32 7"`; or arrays of NumPy,
            which the kernel writes, and scalars of NumPy: `[x, y, np.int32(7)]`.
        grid: workgroups.
        block: work-items of a workgroup; None: what the kernel requires.
        arch: the GPU; None: what the code is for.
        kernel: its name; None: the only one.
        lds_bytes: dynamic LDS.
        time_limit: seconds that it may take.
        flags: of the compiler, for a HIP source.
        instantiate: template kernels of a HIP source to compile: `gemm<128, 64>`.

    Raises:
        KinspectError: it cannot be launched so.
    """
    is_typed = isinstance(arguments, str)
    request = CodeLaunch(
        path=Path(path),
        kernel=kernel,
        arch=arch,
        grid=grid,
        block=block,
        arguments=arguments if isinstance(arguments, str) else "",
        lds_bytes=lds_bytes,
        sample=None,
        seconds=time_limit,
        passed=() if is_typed else tuple(arguments),
    )
    if kind_of(request.path) == "hip":
        from ..pipeline.hip_sources import launch_of_source

        hip = HipOptions(tuple(flags), None, tuple(instantiate), time_limit)
        request = launch_of_source(request, hip, is_stated=True)
    return CodeEmulation(launch_code(request))


def occupancy(
    arch: str,
    *,
    vgprs: int,
    agprs: int = 0,
    sgprs: int | None = None,
    lds_bytes: int = 0,
    waves_per_workgroup: int = 4,
    wave_size: int | None = None,
    cu_mode: bool = False,
) -> Occupancy:
    """The occupancy of stated figures.

    >>> result = kinspect.occupancy("gfx942", vgprs=140, lds_bytes=32768, waves_per_workgroup=4)
    >>> result.waves_per_eu, result.limiter
    (2, 'lds')

    Args:
        arch: gfx name.
        vgprs: architectural VGPRs of a lane.
        agprs: accumulation VGPRs.
        sgprs: of a wave; None: not limiting.
        lds_bytes: of a workgroup.
        waves_per_workgroup: waves of a workgroup.
        wave_size: 32 or 64; None: the target's usual one.
        cu_mode: on RDNA, workgroups stay within one CU.

    Raises:
        KinspectError: an unknown target.
    """
    demand = Demand(
        vgprs=vgprs,
        agprs=agprs,
        sgprs=sgprs,
        lds_bytes=lds_bytes,
        waves_per_workgroup=waves_per_workgroup,
        wave_size=wave_size,
        cu_mode=cu_mode,
    )
    return occupancy_of(machines.load(arch), demand)
