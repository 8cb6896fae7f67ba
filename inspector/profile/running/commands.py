"""Builds the command lines of profilers for a measurement, valid for the installed version.

The output format is always named, because rocprofv3's default changed to a database in SDK 1.0.
Kernel traces and counters are written as CSV, PC samples as JSON: their CSV has no addresses. Each
pass writes to its own folder with the process id in each file name, so that child processes do not
overwrite one another. Each pass of counters is a run of its own: before SDK 1.3 a second `--pmc`
silently replaces the first, and a run of several passes turns every exit code into 1.

Beside rocprofv3 there are rocprofv2, rocprof v1 and rocprof-compute.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ...errors import KinspectError
from . import versions
from .find import OURS, Profiler

PASSES = "passes"
"""The folder of a run that holds its passes, and nothing else: it is what readers read."""


class Att(Struct, frozen=True):
    """Options of a thread trace; None leaves one to the profiler's default."""

    library: Path | None = None  # the decoder's folder
    target_cu: int | None = None
    shader_engine_mask: str | None = None
    simd_select: str | None = None
    buffer_size: str | None = None


class Measurements(Struct, frozen=True):
    """The measurements of a run."""

    counters: tuple[tuple[str, ...], ...] = ()  # the names in each pass
    att: Att | None = None
    sampling: versions.Sampling | None = None
    kernel: str | None = None  # a regular expression, searched in demangled names
    skip_warmup: int | None = None  # first launches of each kernel that are left out


class Pass(Struct, frozen=True):
    """One run of the program under the profiler.

    Attributes:
        name: its name in the manifest and in reports, such as "counters-1".
        title: its name in progress messages.
        folder: the folder that its files go to.
        argv: the whole command line.
        counters: the counters that it is to return.
        environment: variables that are added to the environment.
        files: path -> text of the files to be written before it starts.
        notes: which parts of the request the profiler cannot do.
        expects: endings of file names; it must leave a file with one of them.
    """

    name: str
    title: str
    folder: Path
    argv: tuple[str, ...]
    counters: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    expects: tuple[str, ...] = ()

    def show(self) -> str:
        """Returns the command line as a shell takes it."""
        added = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*added, shlex.join(self.argv)])


Planner = Callable[[Profiler, Measurements, Sequence[str], Path], tuple[Pass, ...]]


def plan(
    profiler: Profiler, measurements: Measurements, command: Sequence[str], run: Path
) -> tuple[Pass, ...]:
    """Plans the passes of a run under rocprofv3, in the order in which they run.

    Args:
        profiler: the rocprofv3 that was found.
        measurements: what is to be measured.
        command: the program and its arguments.
        run: the run's folder.

    Returns:
        First a kernel trace (durations without counters), then counters, thread trace, samples.

    Raises:
        KinspectError: this version cannot make a measurement.
    """
    passes: list[Pass] = []
    for name, title, counters in _rocprofv3_passes(profiler, measurements):
        folder = run / PASSES / f"{len(passes):02d}-{name}"
        notes: list[str] = []
        arguments, environment, files = _options_of_pass(
            profiler=profiler,
            measurements=measurements,
            name=name,
            counters=counters,
            folder=folder,
            notes=notes,
        )
        # Thread traces have no process in their names, so that each process gets a folder.
        output = folder / "%pid%" if name == "att" else folder
        argv = (
            *(str(profiler.path), *arguments),
            *("--output-format", "json" if name == "pc-sampling" else "csv"),
            *("-d", str(output), "-o", "%pid%"),
            *("--", *command),
        )
        passes.append(
            Pass(
                name=name,
                title=title,
                folder=folder,
                argv=argv,
                counters=counters,
                environment=environment,
                files=files,
                notes=tuple(notes),
                expects=_EXPECTS[name.rstrip("0123456789-")],
            )
        )
    return tuple(passes)


_EXPECTS: Mapping[str, tuple[str, ...]] = {
    "trace": ("kernel_trace.csv",),
    "counters": ("counter_collection.csv",),
    "att": ("code.json",),
    "pc-sampling": ("results.json",),
}


def _rocprofv3_passes(
    profiler: Profiler, measurements: Measurements
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield "trace", "kernel trace", ()
    for number, names in enumerate(measurements.counters, 1):
        yield f"counters-{number}", ", ".join(names), names
    if measurements.att is not None:
        _require(profiler, "--att", "thread traces", "ROCm 7.0")
        yield "att", "thread trace", ()
    if measurements.sampling is not None:
        _require(profiler, "--pc-sampling-method", "PC sampling", "ROCm 6.4")
        yield "pc-sampling", f"PC sampling ({measurements.sampling.method})", ()


def _require(profiler: Profiler, option: str, feature: str, rocm: str) -> None:
    if not profiler.has(option):
        raise KinspectError(
            f"{profiler.describe()} has no {feature}",
            f"use {rocm} or newer, and name its rocprofv3 by --rocprof",
            exit_code=OURS,
        )


_Options = tuple[list[str], dict[str, str], dict[Path, str]]
"""Arguments, environment variables, and files to write before the pass."""


def _options_of_pass(
    profiler: Profiler,
    measurements: Measurements,
    name: str,
    counters: tuple[str, ...],
    folder: Path,
    notes: list[str],
) -> _Options:
    """The options of a pass besides those of its output; `notes` gains what cannot be done.

    Options that may take a value stand before others, lest they take the next word for theirs.
    """
    if name == "trace":
        return ["--kernel-trace"], {}, {}
    if name == "att":
        assert measurements.att is not None
        skipped_launches = 1 if measurements.skip_warmup is None else measurements.skip_warmup
        filters = _filters(profiler, measurements, f"[{skipped_launches + 1}]", notes)
        return ["--kernel-trace", "--att", *_att_options(measurements.att), *filters], {}, {}
    if name == "pc-sampling":
        assert measurements.sampling is not None
        return _sampling_options(profiler, measurements.sampling)
    # Counters are read of all launches: the report leaves out the warm-ups.
    filters = _filters(profiler, measurements, None, notes)
    if profiler.has("--pmc"):
        return ["--pmc", *counters, *filters], {}, {}
    # SDK 0.4 (ROCm 6.2) reads counters only from a file; every version accepts its text form.
    listing = folder / "counters.txt"
    return ["-i", str(listing), *filters], {}, {listing: f"pmc: {' '.join(counters)}\n"}


def _filters(
    profiler: Profiler, measurements: Measurements, span: str | None, notes: list[str]
) -> Iterator[str]:
    """Yields options that choose kernels and launches; notes what the profiler cannot choose."""
    if measurements.kernel is not None:
        if profiler.has("--kernel-include-regex"):
            # One word with the option: the expression may begin with a dash.
            yield f"--kernel-include-regex={measurements.kernel}"
        else:
            notes.append(f"{profiler.describe()} cannot choose kernels: all are measured")
    if span is not None:
        if profiler.has("--kernel-iteration-range"):
            yield from ("--kernel-iteration-range", span)
        else:
            notes.append(f"{profiler.describe()} cannot skip warm-ups: the first launch is traced")


def _att_options(att: Att) -> Iterator[str]:
    for option, value in (
        ("--att-library-path", att.library),
        ("--att-target-cu", att.target_cu),
        ("--att-shader-engine-mask", att.shader_engine_mask),
        ("--att-simd-select", att.simd_select),
        ("--att-buffer-size", att.buffer_size),
    ):
        if value is not None:
            yield from (option, str(value))


def _sampling_options(profiler: Profiler, sampling: versions.Sampling) -> _Options:
    # With the kernel trace, a sample's dispatch id leads to the kernel's name.
    arguments = ["--kernel-trace"]
    environment = {}
    if profiler.has("--pc-sampling-beta-enabled"):
        arguments.append("--pc-sampling-beta-enabled")
    else:
        environment["ROCPROFILER_PC_SAMPLING_BETA_ENABLED"] = "1"
    arguments += ["--pc-sampling-method", sampling.method, "--pc-sampling-unit", sampling.unit]
    arguments += ["--pc-sampling-interval", str(sampling.interval)]
    return arguments, environment, {}


# --------------------------------------------------------------------------- other profilers


def _rocprof_v1(
    profiler: Profiler, measurements: Measurements, command: Sequence[str], run: Path
) -> tuple[Pass, ...]:
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
) -> tuple[Pass, ...]:
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
) -> tuple[Pass, ...]:
    """A trace and the passes of counters, each with a file that names its counters.

    Args:
        profiler: the profiler that was found.
        measurements: what is to be measured.
        run: the run's folder.
        argv: makes the command line from a pass's folder and its arguments.
        trace: the arguments that request a trace.
        expects: how the names of the output files end.
    """
    _refuse_lines(profiler, measurements)
    passes = []
    for number, names in enumerate(((), *measurements.counters)):
        name = f"counters-{number}" if names else "trace"
        folder = run / PASSES / f"{number:02d}-{name}"
        listing = folder / "counters.txt"
        passes.append(
            Pass(
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
) -> tuple[Pass, ...]:
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
    return (Pass("compute", title, folder, argv, expects=(".csv", ".db")),)


PLANNERS: Mapping[str, Planner] = {
    "rocprofv3": plan,
    "rocprofv2": _rocprofv2,
    "rocprof": _rocprof_v1,
    "rocprof-compute": _rocprof_compute,
}
"""Name of a profiler -> the function that makes its passes."""


def _refuse_lines(profiler: Profiler, measurements: Measurements) -> None:
    if measurements.att is not None or measurements.sampling is not None:
        raise KinspectError(
            f"{profiler.describe()} has neither --att nor --pc-sampling as kinspect reads them",
            "use rocprofv3 of ROCm 7.0 or newer",
            exit_code=OURS,
        )


def _unfiltered(profiler: Profiler, measurements: Measurements) -> tuple[str, ...]:
    if measurements.kernel is None:
        return ()
    return (f"{profiler.tool} measures all kernels; the report shows those asked for",)
