"""The timing model against measured times: `python -m benchmarks.timing CASES... [--write]`.

CASES are files of cases, one JSON object a line: `set`, `name`, `group` (configurations of one
problem), `asm` (the assembly that was measured, or the nearest that can be compiled), `kernel`,
`arch`, `gpu`, `grid`, `block`, `lds` (dynamic bytes), `args` (as `kinspect emulate` takes them),
`measured_us`, and `launch_included` where the time has the launch of a kernel in it. The kernels
are others' and are not part of this repository; TIMING.md names where they and their times are
from. Each case goes the way of `kinspect time`.

Beside the model stand a roofline (bytes of all buffers at the peak of memory, matrix work at the
peak of the matrix units) and, for configurations of one problem, a tile formula (workgroups over
compute units, rounded up, times the workgroup's work-items). `--origami CSV` has what AMD's Origami
predicts, `name,us` a line by the cases' names: its source package builds with a stand-in for the
query of the device, and needs no more than sizes and tiles.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.machines.loader import load
from kinspect.inspector.model import KernelTime
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context, Overrides
from kinspect.inspector.pipeline.jobs import timing as timing_options
from kinspect.inspector.timing.device import device_of

LAUNCH_US = 12.0
"""Of a launch that is part of the measured time (events around it)."""
FAR_APART = 1.2
"""Ratio of two measured times from which on their order is asked for."""
FEWEST = 10
"""Configurations of a group from which on it is ranked."""


@dataclass(slots=True)
class Row:
    """A case with its times in microseconds."""

    case: dict[str, Any]
    measured: float
    predicted: float
    roofline: float
    tiles: float
    seconds: float
    origami: float | None = None


def main() -> int:
    """Predicts every case and prints the table of sets."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="+", type=Path)
    parser.add_argument("--most", type=int, help="cases of each file, drawn with a fixed seed")
    parser.add_argument("--write", type=Path, metavar="CSV", help="one line a case")
    parser.add_argument("--origami", type=Path, metavar="CSV", help="its predictions: name,us")
    options = parser.parse_args()
    others = _others(options.origami) if options.origami is not None else {}
    rows: list[Row] = []
    failed: list[str] = []
    for path in options.cases:
        cases = [json.loads(line) for line in path.read_text().splitlines()]
        if options.most is not None and len(cases) > options.most:
            cases = random.Random(0).sample(cases, options.most)
        for case in cases:
            try:
                rows.append(replace(predicted(case), origami=others.get(case["name"])))
            except (KinspectError, OSError) as error:
                failed.append(f"{case['set']} {case['name']}: {error}")
    for name, of_set in by_key(rows, lambda row: str(row.case["set"])):
        print("\n".join(summary(name, of_set)))
    for line in failed:
        print(f"failed: {line}", file=sys.stderr)
    if options.write is not None:
        options.write.write_text("\n".join(map(_line, rows)) + "\n")
    return 1 if failed else 0


def _others(path: Path) -> dict[str, float]:
    """Predictions by another program, `name,us` a line, by the name of the case."""
    lines = (line.rpartition(",") for line in path.read_text().splitlines())
    return {name: float(us) for name, _, us in lines}


def predicted(case: dict[str, Any]) -> Row:
    """The times of a case.

    Raises:
        KinspectError: it has none.
        OSError: its assembly cannot be read.
    """
    started = time.process_time()
    found = time_of(case)
    launch = LAUNCH_US if case.get("launch_included") else 0.0
    seconds = time.process_time() - started
    return Row(
        case,
        case["measured_us"],
        found.us + launch,
        _roofline(case, found) + launch,
        math.ceil(math.prod(case["grid"]) / found_cus(case)) * math.prod(case["block"]),
        seconds,
    )


def time_of(case: dict[str, Any], *, savings: bool = False) -> KernelTime:
    """What the model says of a case; see `predicted`.

    Args:
        case: the case.
        savings: whether it is worked out what would save how much.
    """
    options = timing_options(
        AnalysisOptions(lanes=False, races=False, values=False),
        gpu=case.get("gpu"),
        arguments=case["args"],
        savings=savings,
        prices=False,
    )
    text = Path(case["asm"]).read_text()
    x, y, z = case["block"]
    grid_x, grid_y, grid_z = case["grid"]
    context = Context(
        case["asm"],
        case["arch"],
        (case["kernel"],),
        overrides=Overrides(
            lds_bytes=_static_lds(text, case) + case.get("lds", 0),
            workgroup=(x, y, z),
            grid=(grid_x, grid_y, grid_z),
        ),
        analysis=options,
    )
    (report,) = analyze_text(text, context)
    if report.time is None:
        raise KinspectError(report.no_time or "no time", "")
    return report.time


def _static_lds(text: str, case: dict[str, Any]) -> int:
    from kinspect.inspector.isa.assembly import parse_text

    program = parse_text(text, case["asm"])
    kernels = [kernel for kernel in program.kernels if kernel.name == case["kernel"]]
    return kernels[0].resources.lds_bytes or 0 if kernels else 0


def found_cus(case: dict[str, Any]) -> int:
    """Compute units of a case's device."""
    device = device_of(load(case["arch"]), case.get("gpu"))
    return device.cus if device is not None else 1


def _roofline(case: dict[str, Any], found: KernelTime) -> float:
    """Microseconds: all buffers through memory, or the matrix work at its peak."""
    device = device_of(load(case["arch"]), case.get("gpu"))
    assert device is not None
    moved = sum(_buffer_bytes(argument) for argument in case["args"].split(","))
    matrix = found.units["matrix"] * found.cycles / device.mhz
    return max(moved / device.memory_bytes_per_s * 1e6, matrix)


def _buffer_bytes(argument: str) -> int:
    kind, bracket, rest = argument.strip().partition("[")
    if not bracket:
        return 0
    bits = int("".join(letter for letter in kind if letter.isdigit()))
    return int(rest.partition("]")[0]) * bits // 8


def by_key(rows: Iterable[Row], key: Any) -> list[tuple[str, list[Row]]]:
    """Rows by a key, in the order in which the keys come."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.items())


def summary(name: str, rows: Sequence[Row]) -> list[str]:
    """The figures of a set of cases, and of its groups."""
    measured = np.array([row.measured for row in rows])
    times = np.array([row.predicted for row in rows])
    errors = abs(times / measured - 1)
    roofline = abs(np.array([row.roofline for row in rows]) / measured - 1)
    lines = [
        f"{name}: {len(rows)} cases, median error {np.median(errors):.1%}, p90"
        f" {np.quantile(errors, 0.9):.0%}, predicted/measured {np.median(times / measured):.2f},"
        f" Spearman {spearman(measured, times):.3f}; roofline: median error"
        f" {np.median(roofline):.0%}; {sum(row.seconds for row in rows) / len(rows):.2f} s a case"
    ]
    known = [(row.origami, row.measured) for row in rows if row.origami is not None]
    if known:
        theirs = np.array([one for one, _ in known])
        truth = np.array([one for _, one in known])
        wrong = abs(theirs / truth - 1)
        # With the one factor that suits it best: it knows of no launch and no clock.
        scaled = abs(theirs / truth / np.median(theirs / truth) - 1)
        lines.append(
            f"  Origami: {len(known)} cases, median error {np.median(wrong):.1%}, p90"
            f" {np.quantile(wrong, 0.9):.0%}, Spearman {spearman(truth, theirs):.3f}; scaled by its"
            f" median: {np.median(scaled):.1%}, p90 {np.quantile(scaled, 0.9):.0%}"
        )
    for group, of_group in by_key(rows, lambda row: str(row.case["group"])):
        if len(of_group) >= FEWEST:
            lines.append(f"  {group}: {ranking(of_group)}")
    return lines


def ranking(rows: Sequence[Row]) -> str:
    """How well configurations of one problem are ordered."""
    measured = [row.measured for row in rows]
    best = min(measured)
    ranked = sorted(rows, key=lambda row: row.predicted)
    first, three = ranked[0].measured, min(row.measured for row in ranked[:3])
    pairs = [
        (a.measured < b.measured) == (a.predicted < b.predicted)
        for a, b in itertools.combinations(rows, 2)
        if max(a.measured, b.measured) > FAR_APART * min(a.measured, b.measured)
    ]
    right = f"{sum(pairs) / len(pairs):.1%} of {len(pairs)}" if pairs else "no"
    ratios = [math.log(row.predicted / row.measured) for row in rows]
    spread = np.quantile([abs(a - b) for a, b in itertools.combinations(ratios, 2)], 0.75)
    return (
        f"{len(rows)} configurations, Spearman"
        f" {spearman(measured, [row.predicted for row in rows]):.3f}"
        f" (tiles {spearman(measured, [row.tiles for row in rows]):.2f}), regret"
        f" {first / best - 1:.0%}, best of three {three / best - 1:.0%}, {right} pairs that differ"
        f" by over 20 % in the right order; three quarters of the ratios of two within a factor of"
        f" {math.exp(spread):.2f}"
    )


def spearman(left: Sequence[float] | Any, right: Sequence[float] | Any) -> float:
    """Spearman's rank correlation; equal values share their mean rank."""
    return float(np.corrcoef(_ranks(left), _ranks(right))[0, 1])


def _ranks(values: Sequence[float] | Any) -> Any:
    given = np.asarray(values, float)
    ranks = np.empty(len(given))
    ranks[np.argsort(given)] = np.arange(len(given))
    for value in np.unique(given):
        ranks[given == value] = ranks[given == value].mean()
    return ranks


def _line(row: Row) -> str:
    name = str(row.case["name"]).replace(",", ";")
    return (
        f"{row.case['set']},{name},{row.measured},{row.predicted:.3f},{row.roofline:.3f},"
        f"{row.seconds:.2f}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
