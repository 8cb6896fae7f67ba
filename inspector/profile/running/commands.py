"""Builds the command lines of profilers for a measurement, valid for the installed version.

Of rocprofv3 the output format is always named: its default changed to a database in SDK 1.0.
Kernel traces and counters are written as CSV, PC samples as JSON: their CSV has no addresses. Each
pass writes to its own folder with the process id in each file name, so that child processes do not
overwrite one another. Each pass of counters is a run of its own: before SDK 1.3 a second `--pmc`
silently replaces the first, and a run of several passes turns every exit code into 1.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from ...base.errors import KinspectError
from . import installed
from .installed import OWN_FAILURE, Profiler

PASSES = "passes"
"""The folder of a run that holds its passes, and nothing else: it is what readers read."""
_FOLDER = "%folder%"


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
    sampling: installed.Sampling | None = None
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
    """Plans the passes of a run, in the order in which they run.

    Raises:
        KinspectError: this profiler cannot make a measurement.
    """
    if profiler.tool == "rocprofv3":
        drafts = _rocprofv3(profiler, measurements)
    else:
        if measurements.att is not None or measurements.sampling is not None:
            raise KinspectError(
                f"{profiler.describe()} has neither --att nor --pc-sampling as kinspect reads them",
                "use rocprofv3 of ROCm 7.0 or newer",
                exit_code=OWN_FAILURE,
            )
        is_compute = profiler.tool == "rocprof-compute"
        drafts = (_rocprof_compute if is_compute else _older)(profiler, measurements)
    return tuple(
        draft.planned(profiler, command, run / PASSES / f"{number:02d}-{draft.name}")
        for number, draft in enumerate(drafts)
    )


class _Draft(Struct):
    """A pass before its folder is known, for which `%folder%` stands in its arguments."""

    name: str
    title: str
    expects: tuple[str, ...]
    arguments: list[str]
    output: tuple[str, ...]  # arguments that say where and how it writes
    counters: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    listed: bool = False  # whether it reads its counters from a file
    notes: list[str] = field(default_factory=list)

    def planned(self, profiler: Profiler, command: Sequence[str], folder: Path) -> PlannedPass:
        listing = folder / "counters.txt"
        arguments = [*self.arguments, *(("-i", str(listing)) if self.listed else ())]
        output = [word.replace(_FOLDER, str(folder)) for word in self.output]
        return PlannedPass(
            name=self.name,
            title=self.title,
            folder=folder,
            argv=(str(profiler.path), *arguments, *output, *command),
            counters=self.counters,
            environment=self.environment,
            files={listing: f"pmc: {' '.join(self.counters)}\n"} if self.listed else {},
            notes=tuple(self.notes),
            expects=self.expects,
        )


def _rocprofv3(profiler: Profiler, measurements: Measurements) -> Iterator[_Draft]:
    """A kernel trace (durations without counters), then counters, thread trace, samples.

    Options that may take a value stand before others, lest they take the next word for theirs.
    """

    def draft(
        name: str, title: str, expects: str, arguments: Iterable[str], form: str = "csv"
    ) -> _Draft:
        # Thread traces have no process in their names, so that each process gets a folder.
        folder = f"{_FOLDER}/%pid%" if name == "att" else _FOLDER
        output = ("--output-format", form, "-d", folder, "-o", "%pid%", "--")
        return _Draft(name, title, (expects,), list(arguments), output)

    yield draft("trace", "kernel trace", "kernel_trace.csv", ["--kernel-trace"])
    for number, names in enumerate(measurements.counters, 1):
        # Counters are read of all launches: the report leaves out the warm-ups. SDK 0.4 (ROCm 6.2)
        # reads counters only from a file; every version accepts its text form.
        by_option = ["--pmc", *names] if profiler.has("--pmc") else []
        title = ", ".join(names)
        item = draft(f"counters-{number}", title, "counter_collection.csv", by_option)
        item.counters, item.listed = names, not by_option
        _add_kernel_filter(item, profiler, measurements)
        yield item
    if measurements.att is not None:
        _require(profiler, "--att", "thread traces", "ROCm 7.0")
        options = ["--kernel-trace", "--att", *_att_options(measurements.att)]
        item = draft("att", "thread trace", "code.json", options)
        _add_kernel_filter(item, profiler, measurements)
        skipped = 1 if measurements.skip_warmup is None else measurements.skip_warmup
        if profiler.has("--kernel-iteration-range"):
            item.arguments += ["--kernel-iteration-range", f"[{skipped + 1}]"]
        else:
            item.notes.append(
                f"{profiler.describe()} cannot skip warm-ups: the first launch is traced"
            )
        yield item
    if (sampling := measurements.sampling) is not None:
        _require(profiler, "--pc-sampling-method", "PC sampling", "ROCm 6.4")
        # With the kernel trace, a sample's dispatch id leads to the kernel's name.
        has_flag = profiler.has("--pc-sampling-beta-enabled")
        options = [
            *("--kernel-trace", *(["--pc-sampling-beta-enabled"] if has_flag else [])),
            *("--pc-sampling-method", sampling.method, "--pc-sampling-unit", sampling.unit),
            *("--pc-sampling-interval", str(sampling.interval)),
        ]
        title = f"PC sampling ({sampling.method})"
        item = draft("pc-sampling", title, "results.json", options, "json")
        if not has_flag:
            item.environment = {"ROCPROFILER_PC_SAMPLING_BETA_ENABLED": "1"}
        yield item


def _require(profiler: Profiler, option: str, feature: str, rocm: str) -> None:
    if not profiler.has(option):
        raise KinspectError(
            f"{profiler.describe()} has no {feature}",
            f"use {rocm} or newer, and name its rocprofv3 by --rocprof",
            exit_code=OWN_FAILURE,
        )


def _add_kernel_filter(item: _Draft, profiler: Profiler, measurements: Measurements) -> None:
    if measurements.kernel is None:
        return
    if profiler.has("--kernel-include-regex"):
        # One word with the option: the expression may begin with a dash.
        item.arguments.append(f"--kernel-include-regex={measurements.kernel}")
    else:
        item.notes.append(f"{profiler.describe()} cannot choose kernels: all are measured")


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


def _older(profiler: Profiler, measurements: Measurements) -> Iterator[_Draft]:
    """Passes of rocprof v1 and rocprofv2: times, then one for each pass of counters."""
    output: tuple[str, ...] = ("-d", _FOLDER, "-o", "results")
    trace, expects = ["--kernel-trace"], ".csv"
    if profiler.tool == "rocprof":
        output = ("--timestamp", "on", "-o", f"{_FOLDER}/results.csv")
        trace, expects = [], "results.csv"
    notes = []
    if measurements.kernel is not None:
        notes = [f"{profiler.tool} measures all kernels; the report shows those asked for"]
    yield _Draft("trace", "kernel trace", (expects,), trace, output, notes=notes)
    for number, names in enumerate(measurements.counters, 1):
        item = _Draft(f"counters-{number}", ", ".join(names), (expects,), [], output, notes=notes)
        item.counters, item.listed = names, True
        yield item


def _rocprof_compute(profiler: Profiler, measurements: Measurements) -> Iterator[_Draft]:
    """The one pass of rocprof-compute, which runs the program as often as it needs."""
    if measurements.counters:
        raise KinspectError(
            "rocprof-compute chooses its counters itself", "leave out --counters, or --tool"
        )

    def has(option: str) -> bool:
        return installed.compute_has(option, profiler.version)

    # Its rooflines are benchmarks of the GPU; kinspect takes the peaks from its machine tables.
    output = (
        "--output-directory" if has("--output-directory") else "--path",
        _FOLDER,
        *(("--format-rocprof-output", "csv") if has("--format-rocprof-output") else ()),
        "--no-roof",
        *(("-k", measurements.kernel) if measurements.kernel is not None else ()),
        "--",
    )
    title = "rocprof-compute (runs the program several times)"
    arguments = ["profile", "-n", "kinspect"]
    yield _Draft("compute", title, (".csv", ".db"), arguments, output)
