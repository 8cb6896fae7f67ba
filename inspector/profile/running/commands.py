"""The command lines of profilers for what was asked, valid for the version that was found.

Formats are always named: rocprofv3's default changed to a database in SDK 1.0. Kernel traces and
counters are asked for as CSV, PC samples as JSON: their CSV has no addresses. Output goes to the
pass's own folder with the process id in each name, so that child processes do not overwrite one
another. Each pass of counters is a run of its own: before SDK 1.3 a second `--pmc` silently wins
over the first, and a run of several passes turns every exit code into 1.

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
    """What a thread trace is asked for with; None leaves it to the profiler."""

    library: Path | None = None  # the decoder's folder
    target_cu: int | None = None
    shader_engine_mask: str | None = None
    simd_select: str | None = None
    buffer_size: str | None = None


class Wanted(Struct, frozen=True):
    """What is to be measured."""

    counters: tuple[tuple[str, ...], ...] = ()  # of each pass
    att: Att | None = None
    sampling: versions.Sampling | None = None
    kernel: str | None = None  # a regular expression, searched in demangled names
    skip_warmup: int | None = None  # first launches of each kernel that are left out


class Pass(Struct, frozen=True):
    """One run of the program under the profiler.

    Attributes:
        name: in the manifest and the reports, such as "counters-1".
        title: what progress shows.
        folder: where its files go.
        argv: the whole command line.
        counters: what was asked for.
        environment: additions to it.
        files: by path, what has to be written before.
        notes: what of the wish the profiler cannot do.
        expects: the ends of names of the files that it must leave; any of them will do.
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
        """The command line as a shell takes it."""
        added = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*added, shlex.join(self.argv)])


Planner = Callable[[Profiler, Wanted, Sequence[str], Path], tuple[Pass, ...]]


def plan(profiler: Profiler, wanted: Wanted, command: Sequence[str], run: Path) -> tuple[Pass, ...]:
    """The passes of a run under rocprofv3, in the order in which they run.

    Args:
        profiler: the rocprofv3 that was found.
        wanted: what is to be measured.
        command: the program and its arguments.
        run: the run's folder.

    Returns:
        First a kernel trace (durations without counters), then counters, thread trace, samples.

    Raises:
        KinspectError: this version cannot do what was asked.
    """
    passes: list[Pass] = []
    for name, title, counters in _kinds(profiler, wanted):
        folder = run / PASSES / f"{len(passes):02d}-{name}"
        notes: list[str] = []
        words, environment, files = _words(profiler, wanted, name, counters, folder, notes)
        form = "json" if name == "pc-sampling" else "csv"
        # Thread traces have no process in their names, so that each process gets a folder.
        output = folder / "%pid%" if name == "att" else folder
        argv = (
            str(profiler.path),
            *words,
            "--output-format",
            form,
            "-d",
            str(output),
            "-o",
            "%pid%",
            "--",
            *command,
        )
        expects = _EXPECTS[name.rstrip("0123456789-")]
        passes.append(
            Pass(name, title, folder, argv, counters, environment, files, tuple(notes), expects)
        )
    return tuple(passes)


_EXPECTS: Mapping[str, tuple[str, ...]] = {
    "trace": ("kernel_trace.csv",),
    "counters": ("counter_collection.csv",),
    "att": ("code.json",),
    "pc-sampling": ("results.json",),
}


def _kinds(profiler: Profiler, wanted: Wanted) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    yield "trace", "kernel trace", ()
    for number, names in enumerate(wanted.counters, 1):
        yield f"counters-{number}", ", ".join(names), names
    if wanted.att is not None:
        _demand(profiler, "--att", "thread traces", "ROCm 7.0")
        yield "att", "thread trace", ()
    if wanted.sampling is not None:
        _demand(profiler, "--pc-sampling-method", "PC sampling", "ROCm 6.4")
        yield "pc-sampling", f"PC sampling ({wanted.sampling.method})", ()


def _demand(profiler: Profiler, option: str, feature: str, rocm: str) -> None:
    if not profiler.has(option):
        raise KinspectError(
            f"{profiler.describe()} has no {feature}",
            f"use {rocm} or newer, and name its rocprofv3 by --rocprof",
            exit_code=OURS,
        )


_Words = tuple[list[str], dict[str, str], dict[Path, str]]


def _words(
    profiler: Profiler,
    wanted: Wanted,
    name: str,
    counters: tuple[str, ...],
    folder: Path,
    notes: list[str],
) -> _Words:
    """What a pass says beside its output; options that may take a value stand before others."""
    if name == "trace":
        return ["--kernel-trace"], {}, {}
    if name == "att":
        assert wanted.att is not None
        first = 1 if wanted.skip_warmup is None else wanted.skip_warmup
        chosen = _filters(profiler, wanted, f"[{first + 1}]", notes)
        return ["--kernel-trace", "--att", *_att(wanted.att), *chosen], {}, {}
    if name == "pc-sampling":
        assert wanted.sampling is not None
        return _sampling(profiler, wanted.sampling)
    # Warm-ups are counted too, and left out by the report: it has all launches to choose from.
    chosen = _filters(profiler, wanted, None, notes)
    if profiler.has("--pmc"):
        return ["--pmc", *counters, *chosen], {}, {}
    # SDK 0.4 (ROCm 6.2) takes counters from a file alone, whose text form no version refuses.
    listing = folder / "counters.txt"
    return ["-i", str(listing), *chosen], {}, {listing: f"pmc: {' '.join(counters)}\n"}


def _filters(
    profiler: Profiler, wanted: Wanted, span: str | None, notes: list[str]
) -> Iterator[str]:
    if wanted.kernel is not None:
        if profiler.has("--kernel-include-regex"):
            yield f"--kernel-include-regex={wanted.kernel}"  # one word: it may begin with a dash
        else:
            notes.append(f"{profiler.describe()} cannot choose kernels: all are measured")
    if span is not None:
        if profiler.has("--kernel-iteration-range"):
            yield from ("--kernel-iteration-range", span)
        else:
            notes.append(f"{profiler.describe()} cannot skip warm-ups: the first launch is traced")


def _att(att: Att) -> Iterator[str]:
    for option, value in (
        ("--att-library-path", att.library),
        ("--att-target-cu", att.target_cu),
        ("--att-shader-engine-mask", att.shader_engine_mask),
        ("--att-simd-select", att.simd_select),
        ("--att-buffer-size", att.buffer_size),
    ):
        if value is not None:
            yield from (option, str(value))


def _sampling(profiler: Profiler, sampling: versions.Sampling) -> _Words:
    # With the kernel trace, a sample's dispatch id leads to the kernel's name.
    words = ["--kernel-trace"]
    environment = {}
    if profiler.has("--pc-sampling-beta-enabled"):
        words.append("--pc-sampling-beta-enabled")
    else:
        environment["ROCPROFILER_PC_SAMPLING_BETA_ENABLED"] = "1"
    words += ["--pc-sampling-method", sampling.method, "--pc-sampling-unit", sampling.unit]
    words += ["--pc-sampling-interval", str(sampling.interval)]
    return words, environment, {}


# --------------------------------------------------------------------------- other profilers


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
