"""Builds the command lines of rocprofv3 for a measurement, valid for the installed version.

The output format is always named, because rocprofv3's default changed to a database in SDK 1.0.
Kernel traces and counters are written as CSV, PC samples as JSON: their CSV has no addresses. Each
pass writes to its own folder with the process id in each file name, so that child processes do not
overwrite one another. Each pass of counters is a run of its own: before SDK 1.3 a second `--pmc`
silently replaces the first, and a run of several passes turns every exit code into 1.

Those of the other profilers are in `planners.py`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ...base.errors import KinspectError
from . import versions
from .installed import OWN_FAILURE, Profiler

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


class PlannedPass(Struct, frozen=True):
    """One run of the program under the profiler.

    Attributes:
        environment: variables that are added to the environment.
        files: path -> text of the files to be written before it starts.
    """

    name: str  # its name in the manifest and in reports, such as "counters-1"
    title: str  # its name in progress messages
    folder: Path  # the folder that its files go to
    argv: tuple[str, ...]  # the whole command line
    counters: tuple[str, ...] = ()  # the counters that it is to return
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[Path, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # which parts of the request the profiler cannot do
    expects: tuple[str, ...] = ()  # endings of file names; it must leave a file with one of them

    def show(self) -> str:
        """Returns the command line as a shell takes it."""
        added = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*added, shlex.join(self.argv)])


def plan(
    profiler: Profiler, measurements: Measurements, command: Sequence[str], run: Path
) -> tuple[PlannedPass, ...]:
    """Plans the passes of a run under rocprofv3, in the order in which they run.

    `profiler`: the rocprofv3 that was found.

    Returns:
        First a kernel trace (durations without counters), then counters, thread trace, samples.

    Raises:
        KinspectError: this version cannot make a measurement.
    """
    return tuple(
        _pass(kind, profiler, measurements, command, run / PASSES / f"{number:02d}-{kind.name}")
        for number, kind in enumerate(_kinds(profiler, measurements))
    )


class _PassKind(Struct, frozen=True):
    """A pass before its command line is known."""

    name: str  # its name in the manifest; `counters-1` for the first one of counters
    title: str  # its name in progress messages
    expects: str  # endings of file names; it must leave a file with one of them
    counters: tuple[str, ...] = ()  # the counters that it is to return


class _PassOptions(Struct):
    """The options of a pass besides those of its output.

    Args:
        files: path -> text of the files to write before the pass.
    """

    arguments: list[str]  # of the command line
    environment: dict[str, str] = field(default_factory=dict)  # variables to add
    files: dict[Path, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what the profiler cannot do


def _kinds(profiler: Profiler, measurements: Measurements) -> Iterator[_PassKind]:
    yield _PassKind("trace", "kernel trace", "kernel_trace.csv")
    for number, names in enumerate(measurements.counters, 1):
        title = ", ".join(names)
        yield _PassKind(f"counters-{number}", title, "counter_collection.csv", names)
    if measurements.att is not None:
        _require(profiler, "--att", "thread traces", "ROCm 7.0")
        yield _PassKind("att", "thread trace", "code.json")
    if measurements.sampling is not None:
        _require(profiler, "--pc-sampling-method", "PC sampling", "ROCm 6.4")
        title = f"PC sampling ({measurements.sampling.method})"
        yield _PassKind("pc-sampling", title, "results.json")


def _pass(
    kind: _PassKind,
    profiler: Profiler,
    measurements: Measurements,
    command: Sequence[str],
    folder: Path,
) -> PlannedPass:
    options = _options_of(kind, profiler, measurements, folder)
    # Thread traces have no process in their names, so that each process gets a folder.
    output = folder / "%pid%" if kind.name == "att" else folder
    argv = (
        *(str(profiler.path), *options.arguments),
        *("--output-format", "json" if kind.name == "pc-sampling" else "csv"),
        *("-d", str(output), "-o", "%pid%"),
        *("--", *command),
    )
    return PlannedPass(
        name=kind.name,
        title=kind.title,
        folder=folder,
        argv=argv,
        counters=kind.counters,
        environment=options.environment,
        files=options.files,
        notes=tuple(options.notes),
        expects=(kind.expects,),
    )


def _require(profiler: Profiler, option: str, feature: str, rocm: str) -> None:
    if not profiler.has(option):
        raise KinspectError(
            f"{profiler.describe()} has no {feature}",
            f"use {rocm} or newer, and name its rocprofv3 by --rocprof",
            exit_code=OWN_FAILURE,
        )


def _options_of(
    kind: _PassKind, profiler: Profiler, measurements: Measurements, folder: Path
) -> _PassOptions:
    """Returns the options of a pass.

    Options that may take a value stand before others, lest they take the next word for theirs.
    """
    if kind.name == "trace":
        return _PassOptions(["--kernel-trace"])
    if kind.name == "att":
        assert measurements.att is not None
        options = _PassOptions(["--kernel-trace", "--att", *_att_options(measurements.att)])
        skipped_launches = 1 if measurements.skip_warmup is None else measurements.skip_warmup
        _add_filters(options, profiler, measurements, f"[{skipped_launches + 1}]")
        return options
    if kind.name == "pc-sampling":
        assert measurements.sampling is not None
        return _sampling_options(profiler, measurements.sampling)
    # Counters are read of all launches: the report leaves out the warm-ups.
    if profiler.has("--pmc"):
        options = _PassOptions(["--pmc", *kind.counters])
    else:
        # SDK 0.4 (ROCm 6.2) reads counters only from a file; every version accepts its text form.
        listing = folder / "counters.txt"
        text = f"pmc: {' '.join(kind.counters)}\n"
        options = _PassOptions(["-i", str(listing)], files={listing: text})
    _add_filters(options, profiler, measurements)
    return options


def _add_filters(
    options: _PassOptions,
    profiler: Profiler,
    measurements: Measurements,
    launches: str | None = None,
) -> None:
    """Adds options that choose kernels and launches; notes what the profiler cannot choose."""
    if measurements.kernel is not None:
        if profiler.has("--kernel-include-regex"):
            # One word with the option: the expression may begin with a dash.
            options.arguments.append(f"--kernel-include-regex={measurements.kernel}")
        else:
            options.notes.append(f"{profiler.describe()} cannot choose kernels: all are measured")
    if launches is not None:
        if profiler.has("--kernel-iteration-range"):
            options.arguments += ["--kernel-iteration-range", launches]
        else:
            options.notes.append(
                f"{profiler.describe()} cannot skip warm-ups: the first launch is traced"
            )


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


def _sampling_options(profiler: Profiler, sampling: versions.Sampling) -> _PassOptions:
    # With the kernel trace, a sample's dispatch id leads to the kernel's name.
    arguments = ["--kernel-trace"]
    environment = {}
    if profiler.has("--pc-sampling-beta-enabled"):
        arguments.append("--pc-sampling-beta-enabled")
    else:
        environment["ROCPROFILER_PC_SAMPLING_BETA_ENABLED"] = "1"
    arguments += ["--pc-sampling-method", sampling.method, "--pc-sampling-unit", sampling.unit]
    arguments += ["--pc-sampling-interval", str(sampling.interval)]
    return _PassOptions(arguments, environment)
