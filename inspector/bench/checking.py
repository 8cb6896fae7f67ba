"""Checks kernel files in guest processes, and lists the cases and benchmarks in them.

A guest imports PyTorch and Triton once and forks a child for each file. Files are checked in
parallel, with one thread and one guest for each job.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..compile.environment import guest_environment
from ..compile.worker import Worker, WorkerLostError
from ..errors import KinspectError
from ..pipeline.emulators import emulator_command
from .guest import crash, end, records
from .suite.catalogue import KernelFile
from .suite.checks import CRASHED, CaseCheck, Description, Device, KernelCheck

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
        cases: patterns that the cases of all files must match as well.
        device: `cpu` for Triton's interpreter, `cuda` for the GPU that PyTorch sees, `emulated` for
            code that is compiled for `arch` and executed on the CPU.
        archs: gfx names of the GPUs to emulate, one after the other; none for other devices.
        fast: leave out the cases that a file calls slow.
        python: interpreter with PyTorch and Triton; None for this one.
        jobs: files at a time; on a GPU always one.
        time_limit: seconds that one case may take.
    """

    kernels: tuple[tuple[KernelFile, tuple[str, ...]], ...]
    cases: tuple[str, ...] = ()
    device: str = "cpu"
    archs: tuple[str, ...] = ()
    fast: bool = False
    python: str | None = None
    jobs: int = 1
    time_limit: float = TIME_LIMIT


class Started(Struct, frozen=True):
    """A file is being checked, on this device."""

    kernel: KernelFile
    device: Device


class CaseDone(Struct, frozen=True):
    """A case is done.

    Args:
        index: number of its file in the run.
        kernel: the file.
        result: the case's result.
        so_far: the file's result, with its cases up to this one.
    """

    index: int
    kernel: KernelFile
    result: CaseCheck
    so_far: KernelCheck


class KernelDone(Struct, frozen=True):
    """A file has been checked; `index` is its number in the run."""

    index: int
    result: KernelCheck


Event = Started | CaseDone | KernelDone


class Gathered(Struct):
    """The results so far.

    Args:
        devices: arch -> the device that kernels ran on.
        finished: number of a file in the run -> its result.
        under_way: number of a file -> its result so far, of a file that is being checked.
    """

    devices: dict[str, Device] = field(default_factory=dict)
    finished: dict[int, KernelCheck] = field(default_factory=dict)
    under_way: dict[int, KernelCheck] = field(default_factory=dict)

    def saw(self, event: Event) -> None:
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

    def devices_in_order(self, archs: Sequence[str]) -> tuple[Device, ...]:
        """Returns the devices that kernels ran on; emulated GPUs are in the order of `archs`."""
        positions = {arch: position for position, arch in enumerate(archs)}
        return tuple(
            sorted(self.devices.values(), key=lambda device: positions.get(device.arch, 0))
        )

    @property
    def kernels(self) -> tuple[KernelCheck, ...]:
        """The results of finished files, in the order of the request."""
        return tuple(self.finished[index] for index in sorted(self.finished))


def check(request: CheckRequest) -> Iterator[Event]:
    """Checks the files and yields events as they come.

    A file or case that fails or crashes does not end the run.

    Raises:
        KinspectError: the interpreter cannot be started, lacks PyTorch or Triton, or has no such
            device.
    """
    pending = deque(
        enumerate(
            (arch, *kernel_and_cases)
            for arch in request.archs or ("",)
            for kernel_and_cases in request.kernels
        )
    )
    events: SimpleQueue[Event | BaseException | None] = SimpleQueue()
    jobs = 1 if request.device == "cuda" else min(request.jobs, len(pending))
    workers = [Worker(request.python or sys.executable, _environment(request)) for _ in range(jobs)]
    threads = [
        threading.Thread(target=_work, args=(worker, pending, events, request, jobs), daemon=True)
        for worker in workers
    ]
    try:
        for thread in threads:
            thread.start()
        running = jobs
        while running:
            event = events.get()
            if event is None:
                running -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                yield event
    finally:
        pending.clear()
        for worker, thread in zip(workers, threads, strict=True):
            while thread.is_alive():  # it may be about to start its guest
                worker.terminate()
                thread.join(JOIN_SECONDS)
            worker.close()


def describe(
    kernels: Sequence[KernelFile], python: str | None = None
) -> dict[Path, Description | str]:
    """Loads files and lists their cases, benchmarks and the like, or why a file failed.

    Raises:
        KinspectError: the interpreter cannot be started, or lacks Triton.
    """
    descriptions: dict[Path, Description | str] = {}
    by_path = {str(kernel.path.absolute()): kernel.path for kernel in kernels}
    request = {
        "op": "suite",
        "mode": "describe",
        "paths": list(by_path),
        "imports": ["triton"],
    }
    with (
        Worker(python or sys.executable) as worker,
        tempfile.TemporaryDirectory(prefix="kinspect-") as folder,
    ):
        for record in records(worker, {**request, "folder": folder}, TIME_LIMIT, MOST_CASES):
            if "described" in record:
                facts = record["described"]
                descriptions[by_path[facts["path"]]] = facts.get("problem") or Description(
                    tuple(facts["cases"]),
                    tuple(facts["bench"]),
                    facts["tuning"],
                    tuple(facts["compiled"]),
                )
            elif "lost" in record and "path" in record:
                descriptions[by_path[record["path"]]] = f"loading it {end(record['lost'])}"
    for path in by_path.values():
        descriptions.setdefault(path, "it was not loaded")
    return descriptions


# --------------------------------------------------------------------------- one thread


def _work(
    worker: Worker,
    pending: deque[tuple[int, tuple[str, KernelFile, tuple[str, ...]]]],
    events: SimpleQueue[Event | BaseException | None],
    request: CheckRequest,
    jobs: int,
) -> None:
    """Checks pending files until there are none; puts events, an error if one ends it, and None."""
    try:
        while True:
            try:
                index, (arch, kernel, patterns) = pending.popleft()
            except IndexError:
                break
            for event in _check_kernel(
                worker,
                index,
                kernel,
                arch=arch,
                patterns=patterns,
                request=request,
                jobs=jobs,
            ):
                events.put(event)
    except BaseException as error:
        events.put(error)
    events.put(None)


def _check_kernel(
    worker: Worker,
    index: int,
    kernel: KernelFile,
    *,
    arch: str,
    patterns: tuple[str, ...],
    request: CheckRequest,
    jobs: int,
) -> Iterator[Event]:
    """Checks a file.

    Args:
        worker: the guest.
        index: number of the file in the run.
        kernel: the file.
        arch: the GPU to emulate; "" for other devices.
        patterns: the cases to check; none: all.
        request: the whole run.
        jobs: how many files are checked at a time; they share the CPU's cores.
    """
    started = time.perf_counter()
    so_far = KernelCheck(kernel.name, str(kernel.path), (), arch)
    threads = max(1, (os.cpu_count() or 1) // jobs)
    message = {
        "op": "suite",
        "mode": "check",
        "path": str(kernel.path.absolute()),
        "device": request.device,
        "arch": arch,
        "emulator": emulator_command(processes=threads),
        "cases": [list(group) for group in (patterns, request.cases) if group],
        "fast": request.fast,
        "threads": threads,
        "imports": ["triton", "torch"],
    }
    with tempfile.TemporaryDirectory(prefix="kinspect-") as folder:
        for record in _until_lost(worker, {**message, "folder": folder}, request.time_limit):
            if "device" in record:
                yield Started(kernel, Device(**record["device"]))
            elif "cases" in record:
                so_far = replace(so_far, case_names=tuple(record["cases"]))
            elif "problem" in record:
                if record.get("device_missing"):
                    raise KinspectError(record["problem"], record["hint"])
                so_far = replace(so_far, problem=_joined(record["problem"], record["hint"]))
            elif (result := _case_of(record, request.time_limit)) is not None:
                so_far = replace(so_far, cases=(*so_far.cases, result))
                yield CaseDone(index, kernel, result, so_far)
            elif "lost" in record:
                so_far = replace(so_far, problem=crash(record, request.time_limit))
    if patterns and not so_far.cases and not so_far.problem:
        listed = " or ".join(map(repr, patterns))
        no_match = f"no case matches {listed}; there is {', '.join(so_far.case_names)}"
        so_far = replace(so_far, problem=no_match)
    yield KernelDone(index, replace(so_far, seconds=time.perf_counter() - started))


def _case_of(record: Mapping[str, Any], time_limit: float) -> CaseCheck | None:
    """Returns the result of a case that a record holds, a crash among them; None if it has none."""
    if "result" in record:
        return CaseCheck(**record["result"])
    if "lost" in record and "case" in record:
        return CaseCheck(record["case"], CRASHED, crash(record, time_limit))
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
