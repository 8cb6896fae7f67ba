"""`kinspect check`: kernels against their references."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from ..bench.checking import DEVICES, TIME_LIMIT, CaseDone, CheckRequest, Gathered, KernelDone
from ..bench.checking import check as run_checks
from ..bench.suite import catalogue
from ..bench.suite.catalogue import KernelFile
from ..bench.suite.checks import CRASHED, KernelCheck
from ..errors import KinspectError
from ..formats import check as text
from ..machines.loader import load as load_machine
from ..version import VERSION
from .options import format_option, output_option, result_stream, split_list
from .progress import ProgressLine
from .signals import INTERRUPTED, end_as_interrupted


@click.command()
@click.argument("names", metavar="[NAME|FILE.py[::CASE]]...", nargs=-1)
@click.option(
    "--device",
    type=click.Choice(DEVICES),
    default="cpu",
    show_default=True,
    help="cpu: Triton's interpreter. cuda: the GPU that PyTorch sees, AMD's too. emulated: code "
    "compiled for --arch, executed on the CPU.",
)
@click.option(
    "--arch",
    "archs",
    multiple=True,
    metavar="A[,B...]",
    help="GPUs to emulate, with --device emulated.  [gfx942]",
)
@click.option("--case", "cases", multiple=True, metavar="GLOB", help="Only cases of such names.")
@click.option("--fast", is_flag=True, help="Leave out the cases that a file calls slow.")
@click.option(
    "--python",
    metavar="PATH",
    help="Interpreter with PyTorch and Triton.  [the one that runs kinspect]",
)
@click.option(
    "-j", "--jobs", type=click.IntRange(1), metavar="N", help="Files at a time on the CPU.  [CPUs]"
)
@click.option(
    "--time-limit",
    type=click.FloatRange(1),
    default=TIME_LIMIT,
    show_default=True,
    metavar="S",
    help="Seconds that one case may take.",
)
@format_option("text", "json")
@output_option
def check(
    names: tuple[str, ...],
    device: str,
    archs: tuple[str, ...],
    cases: tuple[str, ...],
    fast: bool,
    python: str | None,
    jobs: int | None,
    time_limit: float,
    form: str,
    output: Path | None,
) -> int:
    """Check kernels against their references: interpreted, on a GPU, or on an emulated one.

    NAME is a bundled kernel (`kinspect kernels list`), FILE.py a file of that kind; NAME::CASE
    checks some of its cases. With neither, all bundled kernels are checked.

    Results must have the reference's dtype, shape and NaN, and its values within the case's
    tolerance. Memory that a kernel should write is filled with NaN first. Cases that the device
    cannot run are skipped, and said so.

    Exit status: 0 all passed, 1 something is wrong, 2 something could not be checked. After Ctrl-C
    or SIGTERM, what was checked until then is written, with status 130.
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
    started = time.perf_counter()
    gathered = Gathered()
    interrupted = False
    end_as_interrupted()
    with result_stream(output) as stream, _Progress() as progress:
        try:
            for event in run_checks(request):
                gathered.saw(event)
                if isinstance(event, CaseDone):
                    progress.saw(event.kernel.name, event.result.case)
                if isinstance(event, KernelDone) and form == "text" and event.result.cases:
                    progress.clear()
                    text.write_kernel(event.result, stream)
        except KeyboardInterrupt:
            interrupted = True
        seconds = time.perf_counter() - started
        progress.clear()
        for kernel in gathered.interrupted():
            if form == "text":
                text.write_kernel(kernel, stream)
        if form == "json":
            tool = {"name": "kinspect", "version": VERSION}
            text.write_json(
                gathered.kernels,
                gathered.devices_in_order(request.archs),
                seconds,
                tool,
                stream,
                interrupted=interrupted,
            )
        else:
            text.write_summary(
                gathered.kernels, gathered.devices_in_order(request.archs), seconds, stream
            )
    if interrupted:
        files = len(request.kernels) * max(1, len(request.archs))
        whole = sum(not kernel.problem for kernel in gathered.kernels)
        sys.stderr.write(
            f"kinspect: error: interrupted: {whole} of {files} kernels checked to the end\n"
        )
        return INTERRUPTED
    return _status(gathered.kernels, cases)


def _archs(device: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """The GPUs to emulate.

    Raises:
        UsageError: there are some, and nothing is emulated.
        KinspectError: an unknown one.
    """
    if device != "emulated":
        if names:
            raise click.UsageError("--arch is for --device emulated")
        return ()
    archs = dict.fromkeys(name for text in names for name in split_list(text))
    return tuple(load_machine(name).arch for name in archs) or ("gfx942",)


def _kernels_named(names: tuple[str, ...]) -> tuple[tuple[KernelFile, tuple[str, ...]], ...]:
    """The files, each once, with the cases asked for by NAME::CASE.

    Raises:
        KinspectError: an unknown name, or a file that cannot be checked.
    """
    cases_by_kernel: dict[KernelFile, tuple[str, ...]] = {}
    for text_ in names:
        name, _, case = text_.partition("::")
        kernel = catalogue.checkable(catalogue.find(name))
        patterns = tuple(filter(None, case.split(",")))
        patterns_so_far = cases_by_kernel.get(kernel)
        # A file that is named as a whole is checked as a whole.
        whole = not patterns or patterns_so_far == ()
        cases_by_kernel[kernel] = () if whole else (*(patterns_so_far or ()), *patterns)
    return tuple(cases_by_kernel.items()) or tuple((k, ()) for k in catalogue.bundled())


def _status(kernels: tuple[KernelCheck, ...], cases: tuple[str, ...]) -> int:
    """0, 1 or 2; what could not be checked is said on stderr, a line each.

    Raises:
        KinspectError: no case at all matched.
    """
    for kernel in kernels:
        crashed = [c for c in kernel.cases if c.status == CRASHED]
        lines = [f"{c.case}: {c.message}" for c in crashed] + [kernel.problem] * bool(
            kernel.problem
        )
        for line in lines:
            sys.stderr.write(f"kinspect: error: {kernel.name}: {' '.join(line.split())}\n")
    if any(kernel.problem or kernel.count(CRASHED) for kernel in kernels):
        return 2
    if cases and not any(kernel.cases for kernel in kernels):
        raise KinspectError(
            f"no case matches {' or '.join(map(repr, cases))}", "see `kinspect kernels show NAME`"
        )
    return 1 if any(kernel.wrong for kernel in kernels) else 0


class _Progress:
    """Shows what is being checked, on stderr and only on a terminal."""

    def __init__(self) -> None:
        self._line = ProgressLine()
        self._done = 0

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

    def saw(self, kernel: str, case: str) -> None:
        self._done += 1
        self._line.show(f"{self._done} cases done, the last: {kernel} {case}")

    def clear(self) -> None:
        self._line.clear()
