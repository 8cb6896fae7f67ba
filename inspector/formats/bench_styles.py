"""Benchmarks in the words of other tools, for scripts that read those."""

from __future__ import annotations

from typing import TextIO

from ..bench.suite.case_files import Given, as_gemm, write_tune_gemm
from ..bench.suite.results import Bench, Timed
from ..bench.suite.statistics import geometric_mean
from ..errors import KinspectError

_SHORT = "GEMM"
_RULE = "=" * 32
_LINE = "-" * 32


def write_checker(bench: Bench, stream: TextIO) -> None:
    """As the checkers of RadeonFlow print it; the means are over the cases that passed."""
    title = _SHORT if "gemm" in bench.kernel.lower() else bench.kernel
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
    """As tune_gemm writes its results: sizes and configuration, and the best time behind.

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
        results.append(Given(shape, config, summary.mean, case.tflops(summary.mean)))
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
