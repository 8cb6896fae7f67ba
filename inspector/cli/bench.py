"""`kinspect bench`: times a kernel on this machine's GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.limits import BASE_BYTES, natural
from ..base.named_files import file_bytes
from ..base.status import counted
from ..bench import benching
from ..bench.benching import (
    TIME_LIMIT,
    BenchEvent,
    BenchRequest,
    CasesPlanned,
    CaseTimed,
    GpuFound,
    bench_progress,
    with_published,
)
from ..bench.history.store import History
from ..bench.suite.bench_results import CRASHED, ERROR, WRONG, Bench, figures_for, read_published
from ..bench.suite.case_files import (
    UserCase,
    Value,
    read_flags,
    read_gpumode,
    read_tune_gemm,
    scalar,
)
from ..bench.suite.catalogue import checkable, find
from .declared import argument, command, option
from .options import COLOR, OUTPUT, Amount, format_option, result_stream, split_list
from .progress import print_error
from .signals import INTERRUPTED, interrupted
from .storage_errors import report_storage_error, storing
from .target_options import ARGV, ScriptCommand

MOST_TUNED = 32
"""Configurations that a bare --tune tries."""


@command("bench", cls=ScriptCommand)
def bench(
    name: str = argument("NAME|FILE.py"),
    patterns: tuple[str, ...] = option("Only cases named so.", "--case", metavar="GLOB"),
    numbers: tuple[int, ...] = option("Only case N, from 0.", "-c", type=click.IntRange(0)),
    once: bool = option("Run each case once only: a quick look.", "-b"),
    profile: bool = option("Launch each case once, no check, no times: to profile.", "-p"),
    compare: str | None = option(
        "Time these operators on the same inputs as well.", metavar="torch|ck"
    ),
    settings: tuple[str, ...] = option(
        "Block sizes and options.", "--config", metavar="KEY=VALUE,…"
    ),
    tune: str | None = option(
        f"Try N configurations of the kernel file first, keep the fastest.  [{MOST_TUNED}]",
        is_flag=False,
        flag_value=str(MOST_TUNED),
        metavar="[N]",
    ),
    cases_file: str | None = option("Cases as gpumode writes them.", "--cases", metavar="FILE"),
    gemm_sizes: str | None = option(
        "Cases as tune_gemm writes them, or its results.", metavar="FILE"
    ),
    style: str | None = option(
        "Print what RadeonFlow's checker, or tune_gemm, would.",
        type=click.Choice(["checker", "tune_gemm"]),
    ),
    form: str = format_option("text", "json", "csv"),
    output: Path | None = OUTPUT,
    python: str | None = option(
        "Interpreter with torch and Triton.  [the one of kinspect]", metavar="PATH"
    ),
    time_limit: float = option(
        "Seconds that a case, or a configuration of --tune, may take.",
        type=Amount(1),
        default=TIME_LIMIT,
        show_default=True,
        metavar="S",
    ),
    no_history: bool = option("Neither keep the result nor show the last one."),
    color: bool | None = COLOR,
) -> int:
    """Time a kernel on the GPU that torch sees, after checking its results.

    Each case is compared with the kernel's reference, warmed up for 50 ms and timed with events,
    the caches overwritten between runs: at most 100 runs; from the third on it stops at a standard
    error below 0.1 % of the mean, or at 10 s in all. A wrong result has no time. Rates are at the
    mean time, from the useful work; "before" is the last result on the same device.

    A shape may be given behind -- in the flags of flash-attention.py (there -b is the batch), or
    with the kernel's own keys:

    \b
        kinspect bench flash_attn -- -b 4 -hq 16 -hk 16 -sq 1024 -sk 1024 -d 128 -causal
        kinspect bench gemm_all_types -- -m 4096 -n 4096 -k 4096 -layout TN

    Exit status: 0 all timed, 1 a wrong result, 2 an error.
    """
    if once and profile:
        raise KinspectError("-b and -p exclude each other", "give one of them")
    if style is not None and form != "text":
        raise KinspectError("--style and --format exclude each other", "give one of them")
    own_cases = _own_cases(cases_file, gemm_sizes, click.get_current_context().meta.get(ARGV, ()))
    request = BenchRequest(
        kernel=checkable(find(name)),
        patterns=patterns,
        numbers=numbers,
        given=own_cases,
        mode="profile" if profile else "once" if once else "time",
        config=_config(settings),
        compare=_compared(compare, profile),
        tune=_tuned(tune, profile),
        python=python,
        time_limit=time_limit,
    )
    history = None if no_history or profile else _usable_history()
    result, ended = _run(request)
    result = _with_references(result, history, own_cases)
    with result_stream(output) as stream:
        _write(result, style, form, stream, color)
    if history is not None:
        with storing():
            history.add(result)
    return _status(result, ended)


def _usable_history() -> History | None:
    """The user's history; None where it cannot be used, which is said."""
    history = History()
    try:
        history.check_readable()
    except KinspectError as error:
        report_storage_error(error)
        return None
    return history


def _run(request: BenchRequest) -> tuple[Bench, bool]:
    """Runs the benchmark; returns the result and whether Ctrl-C ended it."""
    gathered = bench_progress(request)
    progress = _BenchProgress(request.kernel.name)
    ended = interrupted(benching.bench(request), gathered.add, progress.on_event)
    return gathered.result(), ended


def _with_references(
    result: Bench, history: History | None, own_cases: Sequence[UserCase]
) -> Bench:
    """Adds earlier results on the same device, and published ones, to each case."""
    if result.gpu is None:
        return result
    published = read_published()
    cases = []
    for case in result.cases:
        figures = figures_for(published, result.kernel, result.gpu.name, case.case)
        case = with_published(case, figures, own_cases[case.number] if own_cases else None)
        if history is not None and case.times:
            earlier = history.before(result.kernel, result.gpu.name, case.case)
            case = replace(case, before=earlier)
        cases.append(case)
    return replace(result, cases=tuple(cases))


def _write(result: Bench, style: str | None, form: str, stream: TextIO, color: bool | None) -> None:
    """Writes the result in another tool's style, or else in the format."""
    if style is not None:
        from ..formats import bench_data

        if style == "checker":
            bench_data.write_checker(result, stream)
        else:
            bench_data.write_tune_gemm_results(result, stream)
    elif form == "text":
        from ..formats.bench import document
        from ..present import text

        text.show(document(result), stream, color)
    else:
        from ..formats import bench_data

        writer = {"json": bench_data.write_json, "csv": bench_data.write_csv}[form]
        writer(result, stream)


def _status(result: Bench, ended: bool) -> int:
    """Writes failed cases to stderr, a line each; returns the exit status."""
    for case in result.cases:
        if case.status in (WRONG, ERROR, CRASHED):
            print_error(f"{result.kernel}: {case.name}: {case.message}")
    if ended:
        print_error("interrupted: the other cases were not timed")
        return INTERRUPTED
    states = {case.status for case in result.cases}
    return 2 if states & {ERROR, CRASHED} else 1 if WRONG in states else 0


def _own_cases(
    cases_file: str | None, gemm_sizes: str | None, words: Sequence[str]
) -> tuple[UserCase, ...]:
    """Returns the user's own cases, of a file or behind `--`; none to run the kernel's."""
    if sum((cases_file is not None, gemm_sizes is not None, bool(words))) > 1:
        raise KinspectError(
            "cases come from --cases, from --gemm-sizes or from behind --", "give one of them"
        )
    if words:
        return (read_flags(words),)
    if cases_file is not None:
        return tuple(read_gpumode(_text(cases_file), cases_file))
    if gemm_sizes is not None:
        return tuple(read_tune_gemm(_text(gemm_sizes), gemm_sizes))
    return ()


def _text(path: str) -> str:
    try:
        return file_bytes(path, BASE_BYTES, pipes=True).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise KinspectError(f"{path} cannot be read: {reason}", "name a file of cases") from None


def _config(settings: Sequence[str]) -> dict[str, Value]:
    """Parses `KEY=VALUE,…` of all --config options."""
    config: dict[str, Value] = {}
    for part in (p for text in settings for p in split_list(text)):
        name, equals, value = part.partition("=")
        if not equals or not name.strip() or not value.strip():
            raise KinspectError(
                f"--config: {part!r} is not KEY=VALUE", "e.g. BLOCK_M=64,num_warps=4"
            )
        config[name.strip()] = scalar(value)
    return config


def _compared(text: str | None, profile: bool) -> tuple[str, ...]:
    names = split_list(text)
    unknown = [name for name in names if name not in ("torch", "ck")]
    if unknown:
        raise KinspectError(f"--compare: {unknown[0]!r} is not known", "there are torch and ck")
    return () if profile else names


def _tuned(text: str | None, profile: bool) -> int:
    """Parses --tune: the number of configurations to try, 0 for none."""
    if text is None:
        return 0
    if not natural(text):
        raise KinspectError(
            f"--tune: {text[:60]!r} is not a number of configurations",
            "write --tune=20, or --tune behind the kernel's name",
        )
    if profile:
        raise KinspectError("-p and --tune exclude each other", "give one of them")
    return int(text)


class _BenchProgress:
    """Says which case is measured."""

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self._names: tuple[str, ...] = ()
        self._finished = 0
        self._device = ""

    def on_event(self, event: BenchEvent) -> None:
        if isinstance(event, CasesPlanned):
            self._names = event.names
        elif isinstance(event, GpuFound):
            self._device = f" on {event.gpu.name}"
        elif isinstance(event, CaseTimed):
            self._finished += 1
        if self._finished < len(self._names):
            counted(
                f"{self._kernel}{self._device}: case {self._finished + 1} of"
                f" {len(self._names)}, {self._names[self._finished]}"
            )
