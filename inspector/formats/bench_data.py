"""Benchmarks for machines: JSON (schema_version 1), CSV, and what other tools print of theirs."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import Any, TextIO

from ..base.errors import KinspectError
from ..base.printable import spreadsheet_cell
from ..base.streams import dump_json
from ..base.version import VERSION
from ..bench.suite.bench_results import Bench, Summary, Timed, geometric_mean, ratio
from ..bench.suite.case_files import UserCase, as_gemm, write_tune_gemm
from ..report.json_write import plain

SCHEMA_VERSION = 1
COLUMNS = (
    *("kernel", "device", "number", "case", "status", "best_us", "mean_us", "slowest_us"),
    *("error_us", "runs", "tflops", "gib_per_s", "torch_us", "times_torch", "ck_us", "times_ck"),
    *("before_us", "published_us", "config", "message"),
)
"""The columns of the CSV."""
_RULE, _LINE = "=" * 32, "-" * 32
"""Lines that RadeonFlow's checkers draw."""


def write_json(bench: Bench, stream: TextIO) -> None:
    """Writes everything as JSON; what is unknown is null. Rates are at the mean time."""
    data = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "kinspect", "version": VERSION},
        "kernel": bench.kernel,
        "file": bench.path,
        "date": bench.date,
        "mode": bench.mode,
        "device": bench.gpu,
        "versions": dict(bench.versions),
        "geometric_mean": {
            "best_us": bench.best_us(),
            "mean_us": bench.mean_us(),
            "times_torch": bench.ratio_to("torch"),
            "times_ck": bench.ratio_to("ck"),
        },
        "cases": [_case(case) for case in bench.cases],
    }
    dump_json(data, stream)


def write_csv(bench: Bench, stream: TextIO) -> None:
    """Writes a line per case as CSV; what is unknown is empty."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(COLUMNS)
    for case in bench.cases:
        row = {**_flat(case), "kernel": bench.kernel, "device": bench.gpu and bench.gpu.name}
        cells = (row.get(column) for column in COLUMNS)
        writer.writerow(["" if cell is None else spreadsheet_cell(cell) for cell in cells])


def _case(case: Timed) -> dict[str, Any]:
    summary = case.summary
    fields = plain(case)
    others = {
        other.name: {
            **_figures(other.summary),
            "times": ratio(case, other.name),
            "note": other.note,
        }
        for other in case.others
    }
    del fields["others"]
    return {
        "times_us": fields.pop("times"),
        **fields,
        **_figures(summary),
        "tflops": case.tflops(summary.mean) if summary is not None else None,
        "gib_per_s": case.gib_per_s(summary.mean) if summary is not None else None,
        "compare": others,
    }


def _figures(summary: Summary | None) -> Mapping[str, float | None]:
    if summary is None:
        return dict.fromkeys(("best_us", "mean_us", "slowest_us", "error_us", "runs"))
    return {
        "best_us": summary.best,
        "mean_us": summary.mean,
        "slowest_us": summary.slowest,
        "error_us": summary.error,
        "runs": summary.runs,
    }


def _flat(case: Timed) -> dict[str, Any]:
    row = _case(case)
    for competitor in case.others:
        summary = competitor.summary
        row[f"{competitor.name}_us"] = summary.mean if summary is not None else None
        row[f"times_{competitor.name}"] = ratio(case, competitor.name)
    published = [figure.us for figure in case.published if figure.us is not None]
    return {
        **row,
        "case": case.name,
        "before_us": case.before.mean_us if case.before is not None else None,
        "published_us": published[0] if published else None,
        "config": " ".join(f"{k}={v}" for k, v in case.config.items()),
    }


def write_checker(bench: Bench, stream: TextIO) -> None:
    """Writes what RadeonFlow's checkers print; the means are over the cases that passed."""
    title = "GEMM" if "gemm" in bench.kernel.lower() else bench.kernel
    lines = [f"Found {len(bench.cases)} test cases for {title}", "Benchmark mode enabled", _RULE]
    bad = [case for case in bench.cases if case.status not in ("ok", "skipped")]
    if bad:
        lines.append(f"❌ {len(bad)} of {len(bench.cases)} test cases failed!")
    else:
        lines.append(f"✅ All {len(bench.cases)} test cases passed!")
    lines.append(_LINE)
    lines += [_checker_line(case) for case in bench.cases]
    best = bench.best_us()
    if best is not None:
        rates = [r for c in bench.timed if (s := c.summary) and (r := c.tflops(s.best))]
        rate = geometric_mean(rates) if len(rates) == len(bench.timed) else None
        lines += [_LINE, f"GeoMean - Best Time: {best:.2f} us, Best TFLOPS: {_rate(rate)}"]
    stream.write("".join(f"{line}\n" for line in [*lines, _RULE]))


def write_tune_gemm_results(bench: Bench, stream: TextIO) -> None:
    """Writes results as tune_gemm does: sizes and configuration, and the best time behind.

    Raises:
        KinspectError: the cases are no GEMMs.
    """
    results = []
    for case in bench.timed:
        shape, summary = as_gemm(case.case), case.summary
        if shape is None or summary is None:
            raise KinspectError(
                f"{bench.kernel}'s case {case.name} has no M, N and K", "leave --style tune_gemm"
            )
        config = {k: v for k, v in case.config.items() if isinstance(v, int | float | str)}
        results.append(UserCase(shape, config, summary.mean, case.tflops(summary.mean)))
    stream.write(write_tune_gemm(results))


def _checker_line(case: Timed) -> str:
    summary = case.summary
    if summary is None:
        mark = "✅" if case.status == "ok" else "⏭" if case.status == "skipped" else "❌"
        return f"{mark} Test case {case.number}: {case.message or case.status}"
    best, slowest = summary.best, summary.slowest
    return (
        f"✅ Test case {case.number}: Best: [{best:.2f} us, {_rate(case.tflops(best))} TFLOPS],"
        f" Slowest: [{slowest:.2f} us, {_rate(case.tflops(slowest))} TFLOPS]"
    )


def _rate(tflops: float | None) -> str:
    return "nan" if tflops is None else f"{tflops:.2f}"
