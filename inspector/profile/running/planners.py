"""Plans the passes of a run under each profiler: rocprofv3, rocprofv2, rocprof v1, rocprof-compute.

The command lines of rocprofv3, which has most versions and options, are made in `commands.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ...base.errors import KinspectError
from . import commands, versions
from .commands import PASSES, Measurements, PlannedPass
from .installed import OWN_FAILURE, Profiler

Planner = Callable[[Profiler, Measurements, Sequence[str], Path], tuple[PlannedPass, ...]]


def _rocprof_v1(
    profiler: Profiler, measurements: Measurements, command: Sequence[str], run: Path
) -> tuple[PlannedPass, ...]:
    """Passes of rocprof (v1): times, then one per pass of counters."""

    def argv(folder: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
        results = str(folder / "results.csv")
        return (str(profiler.path), *arguments, "--timestamp", "on", "-o", results, *command)

    return _trace_and_counters(
        profiler=profiler,
        measurements=measurements,
        run=run,
        argv=argv,
        trace=(),
        expects="results.csv",
    )


def _rocprofv2(
    profiler: Profiler, measurements: Measurements, command: Sequence[str], run: Path
) -> tuple[PlannedPass, ...]:
    """Passes of rocprofv2: a kernel trace, then one per pass of counters."""

    def argv(folder: Path, arguments: tuple[str, ...]) -> tuple[str, ...]:
        return (str(profiler.path), *arguments, "-d", str(folder), "-o", "results", *command)

    return _trace_and_counters(
        profiler=profiler,
        measurements=measurements,
        run=run,
        argv=argv,
        trace=("--kernel-trace",),
        expects=".csv",
    )


def _trace_and_counters(
    profiler: Profiler,
    measurements: Measurements,
    run: Path,
    argv: Callable[[Path, tuple[str, ...]], tuple[str, ...]],
    trace: tuple[str, ...],
    expects: str,
) -> tuple[PlannedPass, ...]:
    """A trace and the passes of counters, each with a file that names its counters."""
    _refuse_lines(profiler, measurements)
    passes = []
    for number, names in enumerate(((), *measurements.counters)):
        name = f"counters-{number}" if names else "trace"
        folder = run / PASSES / f"{number:02d}-{name}"
        listing = folder / "counters.txt"
        passes.append(
            PlannedPass(
                name=name,
                title=", ".join(names) or "kernel trace",
                folder=folder,
                argv=argv(folder, ("-i", str(listing)) if names else trace),
                counters=tuple(names),
                files={listing: f"pmc: {' '.join(names)}\n"} if names else {},
                notes=_unfiltered(profiler, measurements),
                expects=(expects,),
            )
        )
    return tuple(passes)


def _rocprof_compute(
    profiler: Profiler, measurements: Measurements, command: Sequence[str], run: Path
) -> tuple[PlannedPass, ...]:
    """The one pass of rocprof-compute, which runs the program as often as it needs."""
    _refuse_lines(profiler, measurements)
    if measurements.counters:
        raise KinspectError(
            "rocprof-compute chooses its counters itself", "leave out --counters, or --tool"
        )
    folder = run / PASSES / "00-compute"
    filters = ("-k", measurements.kernel) if measurements.kernel is not None else ()
    output_option = "--output-directory"
    if not versions.compute_has(output_option, profiler.version):
        output_option = "--path"
    format_option = "--format-rocprof-output"
    tables = (format_option, "csv") if versions.compute_has(format_option, profiler.version) else ()
    # Its rooflines are benchmarks of the GPU; kinspect takes the peaks from its machine tables.
    argv = (
        str(profiler.path),
        "profile",
        "-n",
        "kinspect",
        output_option,
        str(folder),
        *tables,
        "--no-roof",
        *filters,
        "--",
        *command,
    )
    title = "rocprof-compute (runs the program several times)"
    return (PlannedPass("compute", title, folder, argv, expects=(".csv", ".db")),)


def _refuse_lines(profiler: Profiler, measurements: Measurements) -> None:
    if measurements.att is not None or measurements.sampling is not None:
        raise KinspectError(
            f"{profiler.describe()} has neither --att nor --pc-sampling as kinspect reads them",
            "use rocprofv3 of ROCm 7.0 or newer",
            exit_code=OWN_FAILURE,
        )


def _unfiltered(profiler: Profiler, measurements: Measurements) -> tuple[str, ...]:
    if measurements.kernel is None:
        return ()
    return (f"{profiler.tool} measures all kernels; the report shows those asked for",)


PLANNERS: Mapping[str, Planner] = {
    "rocprofv3": commands.plan,
    "rocprofv2": _rocprofv2,
    "rocprof": _rocprof_v1,
    "rocprof-compute": _rocprof_compute,
}
"""Name of a profiler -> the function that makes its passes."""
