"""Command lines of the profilers beside rocprofv3: rocprofv2, rocprof v1 and rocprof-compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...errors import KinspectError
from . import versions
from .commands import PASSES, Pass, Planner, Wanted, plan
from .find import OURS, Profiler


def _legacy(
    profiler: Profiler, wanted: Wanted, command: Sequence[str], run: Path
) -> tuple[Pass, ...]:
    """Passes of rocprof (v1): times, then one per pass of counters."""

    def argv(folder: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
        results = str(folder / "results.csv")
        return (str(profiler.path), *arguments, "--timestamp", "on", "-o", results, *command)

    return _each(profiler, wanted, run, argv, (), "results.csv")


def _second(
    profiler: Profiler, wanted: Wanted, command: Sequence[str], run: Path
) -> tuple[Pass, ...]:
    """Passes of rocprofv2: a kernel trace, then one per pass of counters."""

    def argv(folder: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (str(profiler.path), *arguments, "-d", str(folder), "-o", "results", *command)

    return _each(profiler, wanted, run, argv, ("--kernel-trace",), ".csv")


def _each(
    profiler: Profiler,
    wanted: Wanted,
    run: Path,
    argv: Callable[[Path, tuple[str, ...]], tuple[str, ...]],
    trace: tuple[str, ...],
    expects: str,
) -> tuple[Pass, ...]:
    """A trace and the passes of counters, each with its listing of what to count.

    Args:
        profiler: which.
        wanted: what was asked for.
        run: the run's folder.
        argv: the command line, from the pass's folder and what is asked of it.
        trace: what asks for a trace.
        expects: how the names of its files end.
    """
    _refuse_lines(profiler, wanted)
    passes = []
    for number, names in enumerate(((), *wanted.counters)):
        name = f"counters-{number}" if names else "trace"
        folder = run / PASSES / f"{number:02d}-{name}"
        listing = folder / "counters.txt"
        passes.append(
            Pass(
                name,
                ", ".join(names) or "kernel trace",
                folder,
                argv(folder, ("-i", str(listing)) if names else trace),
                tuple(names),
                files={listing: f"pmc: {' '.join(names)}\n"} if names else {},
                notes=_unfiltered(profiler, wanted),
                expects=(expects,),
            )
        )
    return tuple(passes)


def _compute(
    profiler: Profiler, wanted: Wanted, command: Sequence[str], run: Path
) -> tuple[Pass, ...]:
    """The one pass of rocprof-compute, which runs the program as often as it needs."""
    _refuse_lines(profiler, wanted)
    if wanted.counters:
        raise KinspectError(
            "rocprof-compute chooses its counters itself", "leave out --counters, or --tool"
        )
    folder = run / PASSES / "00-compute"
    chosen = ("-k", wanted.kernel) if wanted.kernel is not None else ()
    where = "--output-directory"
    if not versions.compute_has(where, profiler.version):
        where = "--path"
    form = "--format-rocprof-output"
    tables = (form, "csv") if versions.compute_has(form, profiler.version) else ()
    # Its rooflines are benchmarks of the GPU; kinspect takes the peaks from its machine tables.
    argv = (
        str(profiler.path),
        "profile",
        "-n",
        "kinspect",
        where,
        str(folder),
        *tables,
        "--no-roof",
        *chosen,
        "--",
        *command,
    )
    title = "rocprof-compute (runs the program several times)"
    return (Pass("compute", title, folder, argv, expects=(".csv", ".db")),)


PLANNERS: Mapping[str, Planner] = {
    "rocprofv3": plan,
    "rocprofv2": _second,
    "rocprof": _legacy,
    "rocprof-compute": _compute,
}
"""By tool, what makes its passes."""


def _refuse_lines(profiler: Profiler, wanted: Wanted) -> None:
    if wanted.att is not None or wanted.sampling is not None:
        raise KinspectError(
            f"{profiler.describe()} has neither --att nor --pc-sampling as kinspect reads them",
            "use rocprofv3 of ROCm 7.0 or newer",
            exit_code=OURS,
        )


def _unfiltered(profiler: Profiler, wanted: Wanted) -> tuple[str, ...]:
    if wanted.kernel is None:
        return ()
    return (f"{profiler.tool} measures all kernels; the report shows those asked for",)
