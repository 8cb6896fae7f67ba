"""Runs a script on an emulated GPU: starts its interpreter, and collects the profiles."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from ..base.errors import KinspectError
from ..base.interrupting import interrupts_held
from ..base.named_files import allow_run, file_bytes, file_text
from ..base.programs import find_interpreter
from ..base.staging import scratch_folder
from ..base.status import terminal_given_away
from ..capture.targets import SUFFIXES
from ..compile.environment import guest_environment
from ..compile.worker import BOOTSTRAP
from ..machines.loader import load as load_machine
from .emulation_profile import EmulationFinding, EmulationProfile
from .emulator_command import device_facts, emulator_command

LAUNCH_SECONDS = 600.0
"""Default limit on the seconds that one launch may take."""
FINDINGS = 1
"""Exit status of a run with findings. It is also pytest's, where a test failed."""
GIVEN_UP = 125
"""Exit status of a run without findings, one of whose launches was given up."""
_ENDED_BY_SIGNAL = 128
"""Exit statuses from here on say that a signal, of that number less 128, ended a run."""
_PROFILE_SECONDS, _POLL_SECONDS = 5.0, 0.02
"""How long, and how often, the profiles of an emulator without a supervisor are waited for."""


class EmulationRequest(Struct, frozen=True):
    """One run of a script.

    Args:
        sample: workgroups of each launch to execute; None for all.
        configs: how many configurations of each autotuner run, the script once with each; None for
            all.
        sets: x values of each of Triton's benchmarks that run; None for all.
        test: a test in the file, which pytest then runs whatever its name: `test_op`.
        is_pytest_session: whether `argv` is a whole command line of pytest; `path` is the folder
            where it was given then.
        advice: what to do instead of a launch that takes over a minute, in words; said once.
        only_selects: whether pytest takes arguments that select and show tests alone: others name
            files to run, to write and to delete.
    """

    path: Path
    argv: tuple[str, ...]
    arch: str
    python: str = sys.executable
    sample: int | None = None
    configs: int | None = 1
    sets: int | None = 1
    seconds: float = LAUNCH_SECONDS
    test: str | None = None
    is_pytest_session: bool = False
    only_selects: bool = False
    advice: str = ""


class UnjudgedCheck(Struct, frozen=True):
    """A check of a script that depends on what is not known without a GPU: times, for example.

    Args:
        line: in the file, from 1.
    """

    what: str
    file: str
    line: int
    count: int


class ScriptFailure(Struct, frozen=True):
    """What ended a script with a status other than 0, or a test that failed.

    Args:
        test: pytest's name of it; None of a script.
        file: of the project's code, where it was raised; None where that is not known.
        line: in the file, from 1.
        traceback: its end; empty of `sys.exit`, and of all but the first failures.
        config: what autotuned kernels were launched with, in words; empty where none was, and where
            the script ran once.
    """

    test: str | None
    error: str
    file: str | None
    line: int | None
    traceback: str
    config: str = ""


class EmulationResult(Struct, frozen=True):
    """The results of a run.

    Args:
        status: the script's exit status; of a signal 128 plus its number, as shells do.
        unjudged: checks that could mean nothing, for example of times, in order.
        failures: what ended the script, or its tests that failed; empty where it succeeded, and
            where a signal ended it.
        gave_times: whether it was given times, as of `do_bench`, that nothing has measured.
        configs: how often the script ran: once with each configuration of its autotuners.
    """

    status: int
    kernels: tuple[EmulationProfile, ...]
    launches: int
    complete: bool
    notes: tuple[str, ...]
    unjudged: tuple[UnjudgedCheck, ...] = ()
    failures: tuple[ScriptFailure, ...] = ()
    gave_times: bool = False
    configs: int = 1
    seconds: float = 0.0

    @property
    def findings(self) -> tuple[EmulationFinding, ...]:
        """What kernels did that they must not: of all kernels."""
        return tuple(finding for kernel in self.kernels for finding in kernel.findings)

    @property
    def exit_status(self) -> int:
        """The script's; of one that succeeded, that of its kernels."""
        return self.status or exit_status_of(self.kernels)


def exit_status_of(kernels: Iterable[EmulationProfile]) -> int:
    """`FINDINGS` where a kernel did what it must not, `GIVEN_UP` where one did not end, else 0."""
    profiles = list(kernels)
    if any(kernel.findings for kernel in profiles):
        return FINDINGS
    return GIVEN_UP if any(kernel.given_up for kernel in profiles) else 0


def emulate(
    request: EmulationRequest,
    environment: dict[str, str],
    signals: Callable[[subprocess.Popen[Any]], AbstractContextManager[None]],
) -> EmulationResult:
    """Runs a script with this process's own standard streams.

    Args:
        signals: makes a context that passes signals on to the process.

    Raises:
        KinspectError: the interpreter cannot be started, it lacks Triton, or there is no script of
            that name, which ends in .py.
    """
    if not request.is_pytest_session and not request.path.is_file():
        raise KinspectError(f"{request.path}: there is no such file", "name a Python script")
    if not request.is_pytest_session and SUFFIXES.get(request.path.suffix) != "script":
        raise KinspectError(
            f"{request.path}: no Python script, so that it is not run",
            "name a .py file; assembly and code objects are launched by `kinspect emulate` with"
            " --grid and --args, and by `emulate_code`",
        )
    started = time.monotonic()
    runs: list[EmulationResult] = []
    count = 1
    while len(runs) < count and (not runs or runs[-1].status < _ENDED_BY_SIGNAL):
        run, most = _emulated(request, environment, signals, config=len(runs), configs=count)
        runs.append(run)
        count = most if request.configs is None else min(most, request.configs)
    return replace(_joined(runs), seconds=time.monotonic() - started)


def _emulated(
    request: EmulationRequest,
    environment: dict[str, str],
    signals: Callable[[subprocess.Popen[Any]], AbstractContextManager[None]],
    *,
    config: int,
    configs: int,
) -> tuple[EmulationResult, int]:
    """Runs a script once, with one configuration of each autotuner.

    Returns its result, and how many configurations the autotuner with the most has.

    Args:
        config: which configuration, from 0.
        configs: how many are known to be run.
    """
    with scratch_folder() as folder:
        records, profile = folder / "records.jsonl", folder / "profile.json"
        (folder / "scratch").mkdir()
        description = asdict(request) | {
            "path": str(request.path.absolute()),
            "device": device_facts(load_machine(request.arch)),
            "folder": str(folder / "scratch"),
            "records": str(records),
            "emulator": emulator_command(profile),
            "config": config,
            "config_count": configs,
        }
        (folder / "request.json").write_text(json.dumps(description))
        status = _run(request.python, folder / "request.json", environment, signals)
        if status < 0:  # its supervisor was killed: the emulator ends by itself
            until = time.monotonic() + _PROFILE_SECONDS
            while time.monotonic() < until and not profile.exists():
                time.sleep(_POLL_SECONDS)
            status = _ENDED_BY_SIGNAL - status
        return _result(status, records, profile)


def _joined(runs: Sequence[EmulationResult]) -> EmulationResult:
    """One result of the runs with each configuration; the status is that of the first failure."""
    first = runs[0]
    if len(runs) == 1:
        return replace(first, failures=tuple(replace(f, config="") for f in first.failures))
    return replace(
        first,
        status=next((run.status for run in runs if run.status), 0),
        kernels=tuple(kernel for run in runs for kernel in run.kernels),
        launches=sum(run.launches for run in runs),
        complete=all(run.complete for run in runs),
        notes=(*dict.fromkeys(note for run in runs for note in run.notes),),
        failures=tuple(failure for run in runs for failure in run.failures),
        gave_times=any(run.gave_times for run in runs),
        configs=len(runs),
    )


def _run(
    python: str,
    request: Path,
    environment: dict[str, str],
    signals: Callable[[subprocess.Popen[Any]], AbstractContextManager[None]],
) -> int:
    """Runs the guest and returns its status, below 0 where a signal ended it."""
    program = find_interpreter(python, environment)
    hangup, held = os.pipe()  # closed when this process ends, however it does
    command: Sequence[str] = [program, str(BOOTSTRAP), "emulate", str(request), str(hangup)]
    try:
        with interrupts_held():  # the guest begins with them held, until it can end without a word
            process = subprocess.Popen(
                command, env=guest_environment(environment), pass_fds=(hangup,)
            )
        with terminal_given_away(), signals(process):
            status = process.wait()
    except OSError as error:
        reason = error.strerror or str(error)
        raise KinspectError(f"{python}: cannot be run ({reason})", "see --python") from None
    finally:
        os.close(hangup)
        os.close(held)
    return status


def _result(status: int, records: Path, profile: Path) -> tuple[EmulationResult, int]:
    """Reads the guest's records (JSON lines) and the emulator's profiles; either may be missing."""
    notes: list[str] = []
    launches, complete, configs, gave_times = 0, False, 1, False
    unjudged: tuple[UnjudgedCheck, ...] = ()
    failures: tuple[ScriptFailure, ...] = ()
    for line in file_text(records).splitlines() if records.exists() else ():
        record = json.loads(line)
        if "failure" in record:
            raise KinspectError(record["failure"], record["hint"], GIVEN_UP)
        if "note" in record:
            notes.append(record["note"])
        elif "end" in record:
            launches, complete = record["launches"], True
            unjudged = msgspec.convert(record["unjudged"], tuple[UnjudgedCheck, ...])
            configs, gave_times = record["configs"], record["gave_times"]
            config = "; ".join(f"{name}: {text}" for name, text in record["chosen"].items())
            failures = tuple(
                replace(failure, config=config)
                for failure in msgspec.convert(record["failures"], tuple[ScriptFailure, ...])
            )
    kernels = (
        msgspec.json.decode(file_bytes(profile), type=tuple[EmulationProfile, ...])
        if profile.exists()
        else ()
    )
    # The script ran: its kernels' sources may lie anywhere.
    allow_run(*(line.file for kernel in kernels for line in kernel.lines if line.file))
    # Children that the script forked count for themselves, and the profiles have all of them.
    launches = max(launches, sum(kernel.launches for kernel in kernels))
    result = EmulationResult(
        status=status,
        kernels=kernels,
        launches=launches,
        complete=complete,
        notes=tuple(notes),
        unjudged=unjudged,
        failures=failures,
        gave_times=gave_times,
    )
    return result, configs
