"""Steps that run in turns, the rows of their costs, and tables of these."""

from __future__ import annotations

import json
import math
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..lint import Cost, installed, timed

ROOT = Path(__file__).parent.parent.parent


ARCH = "gfx942"


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a section.

    Args:
        name: in the table.
        command: with `{fresh}` for a folder that is empty in each round.
        missing: why it cannot run, e.g. `not installed`.
        keeps: whether kinspect's store is left as the steps before it made it.
        reports: whether it times itself, printing {row: {"seconds", "cpu", "work"}} as JSON; a
            step without a name makes several rows.
        env: variables beside the environment's.
    """

    name: str
    command: Sequence[str]
    missing: str = ""
    keeps: bool = False
    reports: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Row:
    """A line of a table.

    Args:
        name: of the step.
        costs: of each round.
        work: of one run, e.g. instructions of lanes; None where it is not counted.
        missing: why there are no costs.
    """

    name: str
    costs: list[Cost] = field(default_factory=list)
    work: int | None = None
    missing: str = ""

    @property
    def seconds(self) -> float:
        """Median wall seconds."""
        return statistics.median(cost.seconds for cost in self.costs)

    @property
    def cpu(self) -> float:
        """Median CPU seconds; NaN where they are not known."""
        return statistics.median(cost.cpu for cost in self.costs)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all sections share.

    Args:
        folder: scratch.
        rounds: that count.
        quick: whether inputs are small.
        tools: others' tools, as the options name them; None: not given.
    """

    folder: Path
    rounds: int
    quick: bool
    tools: Mapping[str, str | None]

    def measured(self, steps: Iterable[Step]) -> list[Row]:
        """Runs the steps in turns."""
        rows: dict[str, Row] = {}
        runnable = []
        for step in steps:
            problem = step.missing or self._run(step, None)
            if problem or not step.reports:
                rows[step.name] = Row(step.name, missing=problem)
            if not problem:
                runnable.append(step)
        for _ in range(self.rounds):
            for step in runnable:
                problem = self._run(step, rows)
                if problem:
                    rows.setdefault(step.name, Row(step.name)).missing = problem
        return list(rows.values())

    def _run(self, step: Step, rows: dict[str, Row] | None) -> str:
        """Runs a step once and adds its costs to its rows, if any; why it fails, if it does."""
        store, fresh = self.folder / "store", self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        if not step.keeps:
            # What Triton is does not change between runs: its key is kept as between two days.
            for pattern in ("artifacts-*", "reports-*"):
                for entry in store.glob(pattern):
                    shutil.rmtree(entry)
        command = [part.replace("{fresh}", str(fresh)) for part in step.command]
        env = {
            "KINSPECT_CACHE_DIR": str(store),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            **step.env,
        }
        # Status 1 is a finding of lint, not a failure.
        good = (0, 1) if "lint" in command else (0,)
        if rows is not None and not step.reports:
            cost = timed(command, env)
            rows[step.name].costs.append(cost)
            return "" if cost.status in good else f"fails with status {cost.status}"
        try:
            done = subprocess.run(
                command, env=installed(env), capture_output=True, text=True, check=False
            )
        except OSError as error:
            return f"does not start: {error.strerror}"
        if done.returncode not in good:
            last = (done.stderr or done.stdout).strip().splitlines() or [""]
            return f"fails: {last[-1][:160]}"
        if rows is None:
            return ""
        for part, figure in json.loads(done.stdout.splitlines()[-1]).items():
            name = step.name or part
            row = rows.setdefault(name, Row(name, work=figure.get("work")))
            if "error" in figure:
                row.missing = f"fails: {figure['error']}"
            else:
                row.costs.append(Cost(figure["seconds"], figure.get("cpu", math.nan), 0, 0))
        return ""

    def missing(self, option: str) -> str:
        """Why a tool that an option names cannot be run; empty if it can."""
        place = self.tools[option]
        if place is None:
            return f"not installed (give --{option})"
        return "" if Path(place).exists() else f"not installed ({option}: no such file)"


def table(title: str, note: str, rows: Sequence[Row], work: str = "") -> Iterator[str]:
    """A section: what it compares, and the figures.

    Args:
        title: its heading.
        note: what the reader must know of it; may be empty.
        rows: the first one is what the others' ratios refer to.
        work: unit of the rows' work per second; without it there is no such column.
    """
    yield f"## {title}"
    yield ""
    if note:
        yield note
        yield ""
    yield "| step | wall, s | ratio | CPU, s | ratio |" + (f" {work} |" if work else "")
    yield "|---|--:|--:|--:|--:|" + ("--:|" if work else "")
    base = next((row for row in rows[:1] if row.costs and not row.missing), None)
    for row in rows:
        if row.missing:
            yield f"| {row.name} | {row.missing} | | | |" + (" |" if work else "")
            continue
        walls = [cost.seconds for cost in row.costs]
        rate = f" {row.work / row.seconds / 1e6:.2f} |" if work and row.work is not None else ""
        wall_ratio = row.seconds / base.seconds if base else math.nan
        cpu_ratio = row.cpu / base.cpu if base else math.nan
        yield (
            f"| {row.name} | {row.seconds:.3f} ({min(walls):.3f}–{max(walls):.3f}) |"
            f" {shown(wall_ratio, 2)} | {shown(row.cpu)} | {shown(cpu_ratio, 2)} |{rate}"
        )


def shown(value: float, digits: int = 3) -> str:
    """A figure; a dash where it is not known."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def growth(amounts: Sequence[int], rows: Sequence[Row]) -> str:
    """How CPU seconds grow, by least squares over logarithms.

    The start is the cost of the smallest input; what costs less than twice that says nothing of
    growth and is left out.
    """
    points = [(n, row.cpu) for n, row in zip(amounts, rows, strict=True) if row.costs]
    least = points[0][1] if points else math.nan
    fitted = [(math.log(n), math.log(cpu - least)) for n, cpu in points if cpu > 2 * least]
    if len(fitted) < 2:
        return "Too few inputs cost twice the start: no growth is fitted."
    slope = statistics.linear_regression(*zip(*fitted, strict=True)).slope
    return (
        f"CPU seconds over those of the smallest input grow with the amount to the power of"
        f" {slope:.2f} (least squares over the {len(fitted)} largest)."
    )
