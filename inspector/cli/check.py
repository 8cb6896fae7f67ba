"""`kinspect check`: compares kernels with their references."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click

from ..base.errors import KinspectError
from ..base.status import counted
from ..base.version import VERSION
from ..bench.checking import DEVICES, TIME_LIMIT, CaseDone, CheckProgress, CheckRequest, KernelDone
from ..bench.checking import check as run_checks
from ..bench.suite import catalogue
from ..bench.suite.catalogue import KernelFile
from ..bench.suite.checks import CRASHED, KernelCheck
from ..explain.view import plural
from ..formats import check as check_format
from ..machines.loader import DEFAULT_ARCH
from ..machines.loader import load as load_machine
from .declared import argument, command, option
from .options import OUTPUT, Amount, format_option, result_stream, split_list
from .progress import print_error
from .signals import INTERRUPTED, end_as_interrupted


@command()
def check(
    names: tuple[str, ...] = argument("[NAME|FILE.py[::CASE]]...", nargs=-1),
    device: str = option(
        "cpu: Triton's interpreter. cuda: the GPU that PyTorch sees, AMD's too. emulated: code "
        "compiled for --arch, executed on the CPU.",
        type=click.Choice(DEVICES),
        default="cpu",
        show_default=True,
    ),
    archs: tuple[str, ...] = option(
        f"GPUs to emulate, with --device emulated.  [{DEFAULT_ARCH}]", "--arch", metavar="A[,B...]"
    ),
    cases: tuple[str, ...] = option("Only cases of such names.", "--case", metavar="GLOB"),
    fast: bool = option("Leave out the cases that a file calls slow."),
    python: str | None = option(
        "Interpreter with PyTorch and Triton.  [the one that runs kinspect]", metavar="PATH"
    ),
    jobs: int | None = option(
        "Files at a time on the CPU.  [CPUs]", "-j", "--jobs", type=click.IntRange(1), metavar="N"
    ),
    time_limit: float = option(
        "Seconds that one case may take.",
        type=Amount(1),
        default=TIME_LIMIT,
        show_default=True,
        metavar="S",
    ),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> int:
    """Check kernels against their references: interpreted, on a GPU, or on an emulated one.

    NAME is a bundled kernel (`kinspect kernels list`), FILE.py a file of that kind; NAME::CASE
    checks some of its cases. With neither, all bundled kernels are checked.

    Results must have the reference's dtype, shape and NaN, and its values within the case's
    tolerance. Memory that a kernel should write is filled with NaN first. Cases that the device
    cannot run are skipped and listed.

    Exit status: 0 all passed, 1 something is wrong, 2 something could not be checked. After Ctrl-C
    or SIGTERM the results so far are written, with status 130.
    """
    request = CheckRequest(
        kernels=_kernels_named(names),
        cases=cases,
        device=device,
        archs=_archs(device, archs),
        fast=fast,
        python=python,
        jobs=jobs or os.cpu_count() or 1,
        time_limit=time_limit,
    )
    end_as_interrupted()
    with result_stream(output) as stream:
        kernels, interrupted = _run(request, form, stream)
    if interrupted:
        files = len(request.kernels) * max(1, len(request.archs))
        complete = sum(not kernel.problem for kernel in kernels)
        print_error(f"interrupted: {complete} of {files} kernels checked to the end")
        return INTERRUPTED
    _print_unchecked(kernels)
    return _exit_status(kernels, cases)


def _run(request: CheckRequest, form: str, stream: TextIO) -> tuple[Sequence[KernelCheck], bool]:
    """Runs the checks and writes the result, as text kernel by kernel."""
    started = time.perf_counter()
    so_far = CheckProgress()
    interrupted = False
    done = 0
    try:
        for event in run_checks(request):
            so_far.add(event)
            if isinstance(event, CaseDone):
                done += 1
                last = f"{event.kernel.name} {event.result.case}"
                counted(f"{plural(done, 'case')} done, the last: {last}")
            if isinstance(event, KernelDone) and form == "text" and event.result.cases:
                check_format.write_kernel(event.result, stream)
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - started
    for kernel in so_far.interrupted():
        if form == "text":
            check_format.write_kernel(kernel, stream)
    devices = so_far.devices_in_order(request.archs)
    if form == "json":
        tool = {"name": "kinspect", "version": VERSION}
        check_format.write_json(
            so_far.kernels, devices, seconds, tool, stream, interrupted=interrupted
        )
    else:
        check_format.write_summary(so_far.kernels, devices, seconds, stream)
    return so_far.kernels, interrupted


def _archs(device: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the GPUs to emulate."""
    if device != "emulated":
        if names:
            raise click.UsageError("--arch is for --device emulated")
        return ()
    archs = dict.fromkeys(name for text in names for name in split_list(text))
    return tuple(load_machine(name).arch for name in archs) or (DEFAULT_ARCH,)


def _kernels_named(names: tuple[str, ...]) -> tuple[tuple[KernelFile, tuple[str, ...]], ...]:
    """Returns the files, each once, with the patterns of NAME::CASE; none: all of its cases."""
    cases_by_kernel: dict[KernelFile, tuple[str, ...]] = {}
    for word in names:
        name, _, case = word.partition("::")
        kernel = catalogue.checkable(catalogue.find(name))
        patterns = tuple(filter(None, case.split(",")))
        patterns_so_far = cases_by_kernel.get(kernel)
        all_cases = not patterns or patterns_so_far == ()  # NAME beside NAME::CASE: all of them
        cases_by_kernel[kernel] = () if all_cases else (*(patterns_so_far or ()), *patterns)
    return tuple(cases_by_kernel.items()) or tuple((k, ()) for k in catalogue.bundled())


def _print_unchecked(kernels: Sequence[KernelCheck]) -> None:
    """Writes what could not be checked to stderr, a line each."""
    for kernel in kernels:
        for case in kernel.cases:
            if case.status == CRASHED:
                print_error(f"{kernel.name}: {case.case}: {case.message}")
        if kernel.problem:
            print_error(f"{kernel.name}: {kernel.problem}")


def _exit_status(kernels: Sequence[KernelCheck], cases: tuple[str, ...]) -> int:
    """Returns 0 if all passed, 1 if something is wrong, 2 if something could not be checked."""
    if any(kernel.problem or kernel.count(CRASHED) for kernel in kernels):
        return 2
    if cases and not any(kernel.cases for kernel in kernels):
        raise KinspectError(
            f"no case matches {' or '.join(map(repr, cases))}", "see `kinspect kernels show NAME`"
        )
    return 1 if any(kernel.wrong for kernel in kernels) else 0
