"""Checks kernel files in guest processes, and lists the cases and benchmarks in them.

A guest imports PyTorch and Triton once and forks a child for each file. Files are checked in
parallel, with one thread and one guest for each job.

Talks to a guest that runs kernel files, for `check`, `bench` and `kernels`.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.staging import scratch_folder
from ..base.status import doing
from ..compile.environment import guest_environment
from ..compile.worker import START_SECONDS, Worker, WorkerLostError
from ..pipeline.emulator_command import emulator_command
from .suite.catalogue import KernelFile
from .suite.checks import CRASHED, CaseCheck, CheckedDevice, Description, KernelCheck

TIME_LIMIT = 300.0
"""Default limit on the seconds that one case may take."""
MOST_CASES = 1000
"""A guest may take this many times the limit of one case for a whole file."""
DEVICES = ("cpu", "cuda", "emulated")
JOIN_SECONDS = 0.2
"""How long a thread is waited for before its guest is terminated again."""


class CheckRequest(Struct, frozen=True):
    """One run of checks.

    Args:
        kernels: files, each with patterns of the cases to check there; none: all of them.
        device: `cpu` for Triton's interpreter, `cuda` for the GPU that PyTorch sees, `emulated` for
            code that is compiled for `arch` and executed on the CPU.
        archs: gfx names of the GPUs to emulate, one after the other; none for other devices.
    """

    kernels: tuple[tuple[KernelFile, tuple[str, ...]], ...]
    cases: tuple[str, ...] = ()  # patterns that the cases of all files must match as well
    device: str = "cpu"
    archs: tuple[str, ...] = ()
    fast: bool = False  # leave out the cases that a file calls slow
    python: str | None = None  # interpreter with PyTorch and Triton; None for this one
    jobs: int = 1  # files at a time; on a GPU always one
    time_limit: float = TIME_LIMIT  # seconds that one case may take


class Started(Struct, frozen=True):
    """A file is being checked, on this device."""

    kernel: KernelFile
    device: CheckedDevice


class CaseDone(Struct, frozen=True):
    """A case is done."""

    index: int  # number of its file in the run
    kernel: KernelFile  # the file
    result: CaseCheck  # the case's result
    so_far: KernelCheck  # the file's result, with its cases up to this one


class KernelDone(Struct, frozen=True):
    """A file has been checked; `index` is its number in the run."""

    index: int
    result: KernelCheck


CheckEvent = Started | CaseDone | KernelDone


class CheckProgress(Struct):
    """The results so far.

    Args:
        devices: arch -> the device that kernels ran on.
        finished: number of a file in the run -> its result.
        under_way: number of a file -> its result so far, of a file that is being checked.
    """

    devices: dict[str, CheckedDevice] = field(default_factory=dict)
    finished: dict[int, KernelCheck] = field(default_factory=dict)
    under_way: dict[int, KernelCheck] = field(default_factory=dict)

    def add(self, event: CheckEvent) -> None:
        """Adds an event."""
        if isinstance(event, Started):
            self.devices.setdefault(event.device.arch, event.device)
        elif isinstance(event, CaseDone):
            self.under_way[event.index] = event.so_far
        else:
            self.under_way.pop(event.index, None)
            self.finished[event.index] = event.result

    def interrupted(self) -> tuple[KernelCheck, ...]:
        """Ends an interrupted run: files under way become results with a problem.

        Returns:
            The results of these files.
        """
        cut_off = {}
        for index, kernel in sorted(self.under_way.items()):
            message = f"interrupted: {len(kernel.cases)} of its cases are done"
            cut_off[index] = replace(kernel, problem=message)
        self.finished.update(cut_off)
        self.under_way.clear()
        return tuple(cut_off.values())

    def devices_in_order(self, archs: Sequence[str]) -> tuple[CheckedDevice, ...]:
        """Returns the devices that kernels ran on; emulated GPUs are in the order of `archs`."""
        positions = {arch: position for position, arch in enumerate(archs)}
        return tuple(
            sorted(self.devices.values(), key=lambda device: positions.get(device.arch, 0))
        )

    @property
    def kernels(self) -> tuple[KernelCheck, ...]:
        """The results of finished files, in the order of the request."""
        return tuple(self.finished[index] for index in sorted(self.finished))


def check(request: CheckRequest) -> Iterator[CheckEvent]:
    """Checks the files and yields events as they come.

    A file or case that fails or crashes does not end the run.

    Raises:
        KinspectError: the interpreter cannot be started, lacks PyTorch or Triton, or has no such
            device.
    """
    pending = deque(
        _FileJob(index, kernel, patterns, arch)
        for index, (arch, (kernel, patterns)) in enumerate(
            itertools.product(request.archs or ("",), request.kernels)
        )
    )
    events: SimpleQueue[CheckEvent | BaseException | None] = SimpleQueue()
    jobs = 1 if request.device == "cuda" else min(request.jobs, len(pending))
    cores = max(1, (os.cpu_count() or 1) // jobs) if jobs else 1
    workers = [Worker(request.python or sys.executable, _environment(request)) for _ in range(jobs)]
    threads = [
        threading.Thread(target=_work, args=(worker, pending, events, request, cores), daemon=True)
        for worker in workers
    ]
    try:
        for thread in threads:
            thread.start()
        yield from _until_all_end(events, jobs)
    finally:
        pending.clear()
        for worker, thread in zip(workers, threads, strict=True):
            while thread.is_alive():  # it may be about to start its guest
                worker.terminate()
                thread.join(JOIN_SECONDS)
            worker.close()


def _until_all_end(
    events: SimpleQueue[CheckEvent | BaseException | None], threads: int
) -> Iterator[CheckEvent]:
    """Yields the events of some threads, each of which puts None at its end."""
    while threads:
        event = events.get()
        if event is None:
            threads -= 1
        elif isinstance(event, BaseException):
            raise event
        else:
            yield event


def describe(
    kernels: Sequence[KernelFile], python: str | None = None
) -> dict[Path, Description | str]:
    """Loads files and lists their cases, benchmarks and the like, or why a file failed.

    Raises:
        KinspectError: the interpreter cannot be started, or lacks Triton.
    """
    descriptions: dict[Path, Description | str] = {}
    by_path = {str(kernel.path.absolute()): kernel.path for kernel in kernels}
    request = {"op": "suite", "mode": "describe", "paths": list(by_path), "imports": ["triton"]}
    with Worker(python or sys.executable) as worker, scratch_folder() as folder:
        for record in records(worker, {**request, "folder": str(folder)}, TIME_LIMIT, MOST_CASES):
            if "described" in record:
                facts = record["described"]
                descriptions[by_path[facts["path"]]] = facts.get("problem") or Description(
                    tuple(facts["cases"]),
                    tuple(facts["bench"]),
                    facts["tuning"],
                    tuple(facts["compiled"]),
                )
            elif "lost" in record and "path" in record:
                descriptions[by_path[record["path"]]] = f"loading it {how_lost(record['lost'])}"
    for path in by_path.values():
        descriptions.setdefault(path, "it was not loaded")
    return descriptions


class _FileJob(Struct, frozen=True):
    """A file to check."""

    index: int  # number of the file in the run
    kernel: KernelFile
    patterns: tuple[str, ...]  # the cases to check; none: all
    arch: str  # the GPU to emulate; empty for other devices


def _work(
    worker: Worker,
    pending: deque[_FileJob],
    events: SimpleQueue[CheckEvent | BaseException | None],
    request: CheckRequest,
    cores: int,
) -> None:
    """Checks pending files until there are none; puts events, an error if one ends it, and None."""
    try:
        while True:
            try:
                job = pending.popleft()
            except IndexError:
                break
            for event in _check_file(worker, job, request, cores):
                events.put(event)
    except BaseException as error:
        events.put(error)
    events.put(None)


def _check_file(
    worker: Worker, job: _FileJob, request: CheckRequest, cores: int
) -> Iterator[CheckEvent]:
    """Checks a file in a guest, which may use so many of the CPU's cores."""
    doing(f"checking {job.kernel.name}")
    started = time.perf_counter()
    kernel = job.kernel
    so_far = KernelCheck(kernel.name, str(kernel.path), (), job.arch)
    message = _check_message(job, request, cores)
    with scratch_folder() as folder:
        for record in _until_lost(worker, {**message, "folder": str(folder)}, request.time_limit):
            if "device" in record:
                yield Started(kernel, CheckedDevice(**record["device"]))
            elif "cases" in record:
                so_far = replace(so_far, case_names=tuple(record["cases"]))
            elif "problem" in record:
                if record.get("device_missing"):
                    raise KinspectError(record["problem"], record["hint"])
                so_far = replace(so_far, problem=_joined(record["problem"], record["hint"]))
            elif (result := _case_of(record, request.time_limit)) is not None:
                so_far = replace(so_far, cases=(*so_far.cases, result))
                yield CaseDone(job.index, kernel, result, so_far)
            elif "lost" in record:
                so_far = replace(so_far, problem=crash_message(record, request.time_limit))
    if job.patterns and not so_far.cases and not so_far.problem:
        listed = " or ".join(map(repr, job.patterns))
        no_match = f"no case matches {listed}; there is {', '.join(so_far.case_names)}"
        so_far = replace(so_far, problem=no_match)
    yield KernelDone(job.index, replace(so_far, seconds=time.perf_counter() - started))


def _check_message(job: _FileJob, request: CheckRequest, cores: int) -> dict[str, Any]:
    """Returns what the guest is asked for."""
    return {
        "op": "suite",
        "mode": "check",
        "path": str(job.kernel.path.absolute()),
        "device": request.device,
        "arch": job.arch,
        "emulator": emulator_command(processes=cores),
        "cases": [list(group) for group in (job.patterns, request.cases) if group],
        "fast": request.fast,
        "threads": cores,
        "imports": ["triton", "torch"],
    }


def _case_of(record: Mapping[str, Any], time_limit: float) -> CaseCheck | None:
    """Returns the result of a case that a record holds, a crash among them; None if it has none."""
    if "result" in record:
        return CaseCheck(**record["result"])
    if "lost" in record and "case" in record:
        return CaseCheck(record["case"], CRASHED, crash_message(record, time_limit))
    return None


def _until_lost(
    worker: Worker, message: Mapping[str, Any], time_limit: float
) -> Iterator[dict[str, Any]]:
    """Yields the records of a run; if the guest itself is lost, the last one is a problem."""
    try:
        yield from records(worker, message, time_limit, MOST_CASES)
    except WorkerLostError as error:
        yield {"problem": error.message, "hint": error.hint}


def _environment(request: CheckRequest) -> dict[str, str]:
    environment = guest_environment(os.environ)
    if request.device == "cpu":
        environment["TRITON_INTERPRET"] = "1"
    return environment


def _joined(message: str, hint: str) -> str:
    return f"{message}; {hint}" if hint else message


def records(
    worker: Worker, message: Mapping[str, Any], time_limit: float, steps: int
) -> Iterator[dict[str, Any]]:
    """Yields the records of a request, which may take `steps` times the limit of a step.

    Raises:
        KinspectError: the guest cannot run the request.
        WorkerLostError: the guest itself ended, or took too long.
    """
    limit = START_SECONDS + steps * time_limit
    for reply in worker.stream({**message, "time_limit": time_limit}, limit):
        if "record" in reply:
            yield reply["record"]
        elif "problem" in reply:
            raise KinspectError(reply["problem"], reply["hint"])


def crash_message(record: Mapping[str, Any], time_limit: float) -> str:
    """Says how a case's process ended, with which configuration, and its last line of output."""
    config = record.get("config")
    configuration = f" with {', '.join(f'{k}={v}' for k, v in config.items())}" if config else ""
    if record["lost"]["reason"] == "timeout":
        return f"it took longer than {time_limit:g} s (--time-limit){configuration}"
    return f"its process {how_lost(record['lost'])}{configuration}{last_output(record)}"


def how_lost(lost: Mapping[str, Any]) -> str:
    """Says how a process was lost, as a predicate: `was ended by SIGSEGV`."""
    if lost["reason"] == "timeout":
        return "took too long"
    if lost["reason"] == "signal":
        return f"was ended by {lost['signal'] or 'signal ' + str(lost['code'])}"
    return f"ended with status {lost['code'] or 0}"


def last_output(record: Mapping[str, Any]) -> str:
    """Returns a colon and the last line that a lost process printed; empty if there is none."""
    printed = [line.strip() for line in str(record.get("output", "")).splitlines() if line.strip()]
    return ": " + printed[-1] if printed else ""
