"""Times the cases of a kernel in a guest process, and joins what is known besides.

The guest forks a child that has the GPU; a case that crashes or hangs it costs only itself.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.staging import scratch_folder
from ..base.status import doing
from ..base.version import VERSION
from ..compile.environment import guest_environment
from ..compile.worker import Worker, WorkerLostError
from .checking import crash_message, how_lost, last_output, records
from .suite.bench_results import CRASHED, Bench, MeasuredGpu, OtherOperator, PublishedFigure, Timed
from .suite.case_files import UserCase, fit_keys, keys_read, name_of
from .suite.catalogue import KernelFile

TIME_LIMIT = 600.0
"""Seconds that one case, or one configuration of --tune, may take, unless told."""


class BenchRequest(Struct, frozen=True):
    """One run over the cases of a kernel.

    Args:
        numbers: numbers of cases, counted from 0, in addition to those that the patterns name.
        mode: `time`; `once` for a single run; `profile` for a launch without a check or a time.
        config: replaces entries of the kernel's configuration.
    """

    kernel: KernelFile  # the kernel file
    patterns: tuple[str, ...] = ()  # fnmatch patterns of the names of cases; none: all of them
    numbers: tuple[int, ...] = ()
    given: tuple[UserCase, ...] = ()  # cases of the user's, in place of the file's BENCH
    mode: str = "time"
    config: Mapping[str, Any] = field(default_factory=dict)
    compare: tuple[str, ...] = ()  # other operators to time
    tune: int = 0  # how many configurations to try; 0 for none
    python: str | None = None  # interpreter with PyTorch and Triton; None for this one
    time_limit: float = TIME_LIMIT  # seconds that one case may take


class CasesPlanned(Struct, frozen=True):
    """The cases of the run are known: their names."""

    names: tuple[str, ...]


class GpuFound(Struct, frozen=True):
    """The device that the cases run on."""

    gpu: MeasuredGpu
    versions: Mapping[str, str | None]


class CaseTimed(Struct, frozen=True):
    """A case has been run."""

    case: Timed


BenchEvent = CasesPlanned | GpuFound | CaseTimed


class BenchProgress(Struct):
    """The measurements so far."""

    request: BenchRequest
    date: str
    gpu: MeasuredGpu | None = None
    versions: Mapping[str, str | None] = field(default_factory=dict)
    cases: list[Timed] = field(default_factory=list)
    planned: int = 0

    def add(self, event: BenchEvent) -> None:
        """Adds an event."""
        if isinstance(event, CasesPlanned):
            self.planned = len(event.names)
        elif isinstance(event, GpuFound):
            self.gpu, self.versions = event.gpu, event.versions
        else:
            self.cases.append(event.case)

    def result(self) -> Bench:
        """Returns the measurements as the result of the run."""
        kernel = self.request.kernel
        return Bench(
            kernel=kernel.name,
            path=str(kernel.path),
            gpu=self.gpu,
            versions=self.versions,
            mode=self.request.mode,
            date=self.date,
            cases=tuple(self.cases),
        )


def bench_progress(request: BenchRequest) -> BenchProgress:
    """Returns the progress of a run in which nothing has been measured yet."""
    return BenchProgress(request, datetime.now(timezone.utc).isoformat(timespec="seconds"))


def bench(request: BenchRequest) -> Iterator[BenchEvent]:
    """Runs the cases; yields events as they come.

    Raises:
        KinspectError: the interpreter cannot be started, lacks PyTorch or Triton or sees no GPU, or
            no case is what was asked for.
    """
    environment = guest_environment(os.environ)
    with (
        Worker(request.python or sys.executable, environment) as worker,
        scratch_folder() as folder,
    ):
        plan = _plan(request, _described(worker, request, folder))
        yield CasesPlanned(tuple(timed.name for timed, _ in plan))
        yield from _run(worker, request, plan, folder)


def with_published(
    case: Timed, figures: Sequence[PublishedFigure], own_case: UserCase | None
) -> Timed:
    """The case with figures of others, and with what stood beside it in the user's file."""
    published = tuple(figures)
    if own_case is not None and own_case.us is not None:
        published = (
            *published,
            PublishedFigure(own_case.us, own_case.tflops, "in the file", "the file of cases"),
        )
    return replace(case, published=published)


def _described(worker: Worker, request: BenchRequest, folder: Path) -> Mapping[str, Any]:
    """The tables of the kernel file, which only an interpreter with Triton can tell."""
    path = str(request.kernel.path.absolute())
    doing(f"reading {request.kernel.path.name}")
    message = {"op": "suite", "mode": "describe", "paths": [path], "imports": ["triton"]}
    for record in records(worker, {**message, "folder": str(folder)}, request.time_limit, steps=2):
        if "described" in record:
            facts: Mapping[str, Any] = record["described"]
            if "problem" in facts:
                raise KinspectError(facts["problem"], facts["hint"])
            return facts
        if "lost" in record:
            break
    raise KinspectError(f"{request.kernel.path}: loading it ended the process", "mend the file")


def _plan(request: BenchRequest, facts: Mapping[str, Any]) -> list[tuple[Timed, Mapping[str, Any]]]:
    """Returns the cases to run, each with what the guest is sent of it."""
    kernel = request.kernel
    table = facts["bench"]
    plan: list[tuple[Timed, Mapping[str, Any]]] = []
    if request.given:
        entries, further_keys = [*facts["cases"], *table], keys_read(kernel.tree)
        name_counts: Counter[str] = Counter()
        for number, own_case in enumerate(request.given):
            case = fit_keys(own_case, entries, kernel.name, further_keys)
            name = str(case.get("name") or name_of(case))
            name_counts[name] += 1
            if name_counts[name] > 1:  # results are sent by name
                name = f"{name}#{name_counts[name]}"
            guest_case: dict[str, Any] = {
                "name": name,
                "case": case,
                "config": dict(own_case.config),
            }
            plan.append((Timed(number, name, CRASHED, case=case), guest_case))
    else:
        for number, case in enumerate(table):
            guest_case = {"name": case["name"], "index": number}
            plan.append((Timed(number, case["name"], CRASHED, case=case), guest_case))
    if not plan:
        raise KinspectError(f"{kernel.path} has no BENCH", "give cases with --cases")
    chosen = [entry for entry in plan if _is_selected(entry[0], request)]
    if not chosen:
        request_text = " or ".join([*map(repr, request.patterns), *map(str, request.numbers)])
        names = ", ".join(f"{timed.number} {timed.name}" for timed, _ in plan)
        raise KinspectError(f"no case of {kernel.name} is {request_text}", f"there is {names}")
    return chosen


def _is_selected(case: Timed, request: BenchRequest) -> bool:
    if not request.patterns and not request.numbers:
        return True
    return case.number in request.numbers or any(
        fnmatch.fnmatchcase(case.name, pattern) for pattern in request.patterns
    )


def _run(
    worker: Worker,
    request: BenchRequest,
    plan: Sequence[tuple[Timed, Mapping[str, Any]]],
    folder: Path,
) -> Iterator[BenchEvent]:
    """Runs the planned cases; yields an event for each, however its process ended."""
    pending = {timed.name: timed for timed, _ in plan}
    steps = len(plan) * (1 + request.tune)
    message = _bench_message(request, plan, folder)
    try:
        for record in records(worker, message, request.time_limit, steps + 1):
            if "device" in record:
                versions = {**record["versions"], "kinspect": VERSION}
                yield GpuFound(MeasuredGpu(**record["device"]), versions)
            elif "problem" in record:
                raise KinspectError(record["problem"], record["hint"])
            elif "result" in record:
                yield CaseTimed(_timed(pending.pop(record["result"]["case"]), record["result"]))
            elif "lost" in record and record.get("case") in pending:
                case = pending.pop(record["case"])
                yield CaseTimed(replace(case, message=crash_message(record, request.time_limit)))
            elif "lost" in record:
                raise KinspectError(
                    f"the process that has the GPU {how_lost(record['lost'])}{last_output(record)}",
                    f"try: {worker.python} -c 'import torch; print(torch.zeros(1).cuda())'",
                )
    except WorkerLostError as error:
        for case in pending.values():
            yield CaseTimed(replace(case, message=error.message))


def _bench_message(
    request: BenchRequest, plan: Sequence[tuple[Timed, Mapping[str, Any]]], folder: Path
) -> dict[str, Any]:
    """Returns what the guest is asked for."""
    return {
        "op": "suite",
        "mode": "bench",
        "path": str(request.kernel.path.absolute()),
        "cases": [guest_case for _, guest_case in plan],
        "run": request.mode,
        "config": dict(request.config),
        "compare": list(request.compare),
        "tune": request.tune,
        "imports": ["triton", "torch"],
        "folder": str(folder),
    }


def _timed(case: Timed, result: Mapping[str, Any]) -> Timed:
    """Adds the guest's result to a case."""
    other_operators = tuple(
        OtherOperator(name, tuple(operator["times_us"]), operator["note"])
        for name, operator in (result.get("compare") or {}).items()
    )
    return replace(
        case,
        status=result["status"],
        message=result["message"],
        times=tuple(result.get("times_us") or ()),
        flop=result.get("flop"),
        bytes=result.get("bytes"),
        config=result.get("config") or {},
        oracle=result.get("oracle"),
        others=other_operators,
        tune=result.get("tune"),
        clocks=result.get("clocks") or {},
        notes=tuple(result.get("notes") or ()),
    )
