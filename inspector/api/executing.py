"""`kinspect.emulate`, `kinspect.emulate_code` and `kinspect.occupancy`, with their results."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import machines
from ..capture.resolving import split
from ..capture.targets import is_confined, kind_of
from ..compile.hip.options import HipOptions
from ..explain.view import plural
from ..machines.loader import DEFAULT_ARCH
from ..metrics.occupancy import Occupancy
from ..metrics.occupancy import occupancy as occupancy_of
from ..model import Demand
from ..pipeline.emulated_code import CodeLaunch, launch_code
from ..pipeline.emulation import EmulationRequest
from ..pipeline.emulation import emulate as run_emulation
from .notebook import Shown, text_of

if TYPE_CHECKING:
    from ..pipeline.emulated_code import BufferState, CodeResult
    from ..pipeline.emulation import EmulationResult, ScriptFailure, UnjudgedCheck
    from ..pipeline.emulation_profile import EmulationFinding, EmulationProfile


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
        advice="" if sample else "for faults and counts without results: sample=8",
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


class Emulation(Shown):
    """What a script did on an emulated GPU, and whether it passed.

    Args:
        result: of the run.
    """

    def __init__(self, result: EmulationResult) -> None:
        self.result = result

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        launches = plural(self.launches, "launch")
        findings = plural(len(self.findings), "finding")
        return f"<{verdict}: status {self.status}, {findings}, {launches}>"

    @property
    def passed(self) -> bool:
        """Whether the script's status is 0, and all kernels ended and did nothing wrong.

        What was not asserted was not checked; where `launches` is 0, nothing was.
        """
        return self.exit_status == 0

    @property
    def status(self) -> int:
        """The script's exit status; of a signal 128 plus its number."""
        return self.result.status

    @property
    def exit_status(self) -> int:
        """That of `kinspect emulate`: 1 where a script succeeded with findings, for example."""
        return self.result.exit_status

    @property
    def failures(self) -> tuple[ScriptFailure, ...]:
        """The exception that ended the script, or the tests that failed.

        Of each: `error`, `file`, `line`, `traceback` (its end) and `test` (None of a script).
        """
        return self.result.failures

    @property
    def findings(self) -> tuple[EmulationFinding, ...]:
        """Races, accesses that miss and what else kernels must not do, of all kernels.

        Of each: `kind`, `detail`, `instruction`, `file` and `source_line`.
        """
        return self.result.findings

    @property
    def kernels(self) -> tuple[EmulationProfile, ...]:
        """A profile for each kernel that was launched, with its own `findings`."""
        return self.result.kernels

    @property
    def launches(self) -> int:
        """Launches in all."""
        return self.result.launches

    @property
    def complete(self) -> bool:
        """Whether the script came to its own end."""
        return self.result.complete

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the run."""
        return self.result.notes

    @property
    def unjudged(self) -> tuple[UnjudgedCheck, ...]:
        """Checks of the script that could mean nothing, for example of times."""
        return self.result.unjudged

    def to_dict(self) -> dict[str, Any]:
        """The run as JSON values, as `kinspect emulate --format json` has it."""
        from ..formats import emulation

        return emulation.fields(self.result)

    def __str__(self) -> str:
        from ..formats import emulation_agent

        return text_of(lambda stream: emulation_agent.write(self.result, stream))


class CodeEmulation(Shown):
    """What a kernel of assembly or a code object did on an emulated GPU.

    Args:
        result: of the launch.
    """

    def __init__(self, result: CodeResult) -> None:
        self.result = result

    def __repr__(self) -> str:
        verdict = "passed" if self.passed else "FAILED"
        return f"<{verdict}: {self.profile.name}, {plural(len(self.findings), 'finding')}>"

    @property
    def passed(self) -> bool:
        """Whether the kernel did nothing that it must not."""
        return not self.findings

    @property
    def findings(self) -> tuple[EmulationFinding, ...]:
        """Races, accesses that miss and what else a kernel must not do."""
        return self.profile.findings

    @property
    def profile(self) -> EmulationProfile:
        """What was executed."""
        return self.result.profile

    @property
    def buffers(self) -> tuple[BufferState, ...]:
        """The buffers after the launch."""
        return self.result.buffers

    @property
    def printed(self) -> tuple[tuple[bool, str], ...]:
        """What the kernel printed: whether to standard error, and the text."""
        return self.result.printed

    def to_dict(self) -> dict[str, Any]:
        """The launch as JSON values, as `kinspect emulate --format json` has it."""
        from ..formats import emulation

        return emulation.code_fields(self.result)

    def __str__(self) -> str:
        from ..formats import emulation_agent

        return text_of(lambda stream: emulation_agent.write_code(self.result, stream))
