"""Whether capture without a GPU finds what a GPU really runs: `python -m benchmarks.fidelity`.

On a machine with a GPU, `kinspect record -- python SCRIPT` wrote a trace of every script. Here the
same files go through capture, for an AMD target, and the specialisations are held against each
other: kernel, signature, constexprs, divisibility, num_warps, num_stages where the launch names
it, and grids. What differs is named, with what explains it if something does.

    python -m benchmarks.fidelity --scripts DIR --traces DIR --python PATH [--write]

DIR of the scripts holds a folder OWNER+NAME for each repository, with its commit in the file
`.commit`; files that only define kernels are called by drivers in its folder `drivers`. The
interpreter should have the Triton that recorded.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten

from kinspect.inspector.capture.trace import LaunchTrace, read_trace
from kinspect.inspector.compile.pool import Compiler, CompileSettings

from benchmarks.fidelity_reasons import (
    ARCH,
    EVERY_X,
    REASONS,
    amd_device,
    capture,
    experiments,
    explain,
    same_grids,
)
from benchmarks.fidelity_specs import by_spec, from_trace

REPORT = Path(__file__).parent / "fidelity.md"
DRIVERS = "drivers"
NOTE_WIDTH = 160


@dataclass
class Row:
    """The comparison of one script."""

    repo: str
    path: str
    commit: str
    recorded: int = 0
    captured: int = 0
    equal: int = 0
    explained: Counter[str] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)
    grids: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


def main() -> None:
    """Compares every trace of a folder with a capture of its script."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scripts", type=Path, required=True)
    parser.add_argument("--traces", type=Path, required=True)
    parser.add_argument("--python", required=True, help="interpreter whose Triton recorded")
    parser.add_argument("--only", default="", help="part of the names of traces to compare")
    parser.add_argument("--write", action="store_true", help=f"write {REPORT.name}")
    options = parser.parse_args()
    rows, versions, targets = [], set(), set()
    with Compiler(CompileSettings(python=options.python)) as compiler:
        ours = compiler.toolchain().triton_version
        for path in sorted(options.traces.glob("*.kitrace")):
            if options.only not in path.name:
                continue
            trace = read_trace(path)
            versions |= {s.triton for s in trace.specializations}
            targets |= {f"{s.target.backend} {s.target.arch}" for s in trace.specializations}
            row = compare(trace, options.scripts.resolve(), compiler)
            rows.append(row)
            print(line_of(row), flush=True)
            for text in row.unexplained:
                print("   ", text, flush=True)
    if options.write:
        REPORT.write_text(report(rows, sorted(versions), sorted(targets), str(ours)))


def compare(trace: LaunchTrace, scripts: Path, compiler: Compiler) -> Row:
    """One script's trace against its capture."""
    script = located(Path(trace.head.command[-1]), scripts)
    files = [located(Path(s.kernel.file), scripts) for s in trace.specializations]
    files = [f for f in dict.fromkeys(files) if scripts in f.parents]
    row = named(script, files, scripts)
    recorded = [from_trace(s) for s in trace.specializations if s.via != "compile"]
    if len(recorded) < len(trace.specializations):
        others = len(trace.specializations) - len(recorded)
        row.notes.append(f"{others} kernels of Inductor's are left out")
    captured, notes = capture(script, compiler, amd_device())
    row.notes += [note.replace(f"{scripts}/", "") for note in notes]
    really, found = by_spec(recorded), by_spec(captured)
    row.recorded, row.captured = len(really), len(found)
    both = really.keys() & found.keys()
    row.equal = len(both)
    for spec in both:
        row.grids[same_grids(really[spec], found[spec], EVERY_X.search(script.read_text()))] += 1
    if trace.head.status:
        row.notes.append(f"the recorded run ended early (status {trace.head.status})")
    if really.keys() != found.keys():
        facts = next((p.device for p in trace.processes if p.device), None) or {}
        folders = {scripts / f.relative_to(scripts).parts[0] for f in [script, *files]}
        again = experiments(script, folders, facts, compiler)
        explain(row.explained, row.unexplained, really, found, again, trace.head.status)
    return row


def located(path: Path, scripts: Path) -> Path:
    """A file of the recording machine in the folder of scripts here."""
    parts = path.parts
    if scripts.name not in parts:
        return path
    return scripts.joinpath(*parts[parts.index(scripts.name) + 1 :])


def named(script: Path, files: Sequence[Path], scripts: Path) -> Row:
    """The row of a script: its own place, or for a driver that of the kernels it calls."""
    ours = script.relative_to(scripts).parts[0] == DRIVERS
    shown = sorted(f for f in files if f.exists()) if ours else [script]
    relative = [f.relative_to(scripts) for f in shown]
    folder = relative[0].parts[0]
    commit = (scripts / folder / ".commit").read_text().strip()
    path = ", ".join(str(Path(*r.parts[1:])) for r in relative)
    return Row(folder.replace("+", "/"), path, commit)


def line_of(row: Row) -> str:
    explained = ", ".join(f"{n} {why}" for why, n in sorted(row.explained.items()) if n)
    grids = ", ".join(f"{n} {how}" for how, n in sorted(row.grids.items()))
    return (
        f"{row.repo} {row.path}: recorded {row.recorded} captured {row.captured} equal {row.equal}"
        f" unexplained {len(row.unexplained)} [{explained}] grids [{grids}] {row.notes}"
    )


def report(rows: Sequence[Row], versions: Sequence[str], gpus: Sequence[str], ours: str) -> str:
    """The result as Markdown."""
    total = Row("", "", "")
    for row in rows:
        total.recorded += row.recorded
        total.captured += row.captured
        total.equal += row.equal
        total.explained += row.explained
        total.unexplained += row.unexplained
        total.grids += row.grids
    exact = sum(not row.unexplained and not row.grids["unexplained"] for row in rows)
    reasons = [r for r in REASONS if total.explained[r] or total.grids[r]]
    lines = [
        "# Fidelity: captured without a GPU against recorded on one",
        "",
        f"Recorded by `kinspect record` with Triton {', '.join(versions)} on {', '.join(gpus)}; "
        f"captured by kinspect with Triton {ours} for {ARCH}, on a machine without a GPU, all "
        "autotune configurations. Written by `python -m benchmarks.fidelity`, which says what is "
        "compared. None of the scripts is part of this repository.",
        "",
        f"{len(rows)} scripts: {total.recorded} specialisations recorded, {total.captured} "
        f"captured, {total.equal} on both sides, {sum(total.explained.values())} differences "
        f"explained, {len(total.unexplained)} not. Of the specialisations on both sides "
        f"{total.grids['equal']} were launched with the same grids, "
        f"{total.equal - total.grids['equal'] - total.grids['unexplained']} with others that are "
        f"explained, {total.grids['unexplained']} with others that are not. In {exact} scripts "
        "everything is equal or explained.",
        "",
        "An explanation is an experiment or a rule, in this order:",
        "",
        *(
            f"- {reason} ({total.explained[reason]} specialisations, {total.grids[reason]} grids):"
            f" {REASONS[reason]}"
            for reason in reasons
        ),
        "",
        "| repository | path | commit | recorded | captured | equal | explained | unexplained "
        "| grids equal / explained / not |",
        "|---|---|---|--:|--:|--:|---|--:|--:|",
        *(table_line(row) for row in rows),
        "",
    ]
    left = [f"- {row.path}: {text}" for row in rows for text in row.unexplained]
    left += [
        f"- {row.path}: {row.grids['unexplained']} specialisations with other grids"
        for row in rows
        if row.grids["unexplained"]
    ]
    lines += ["## Not explained", "", *(left or ["Nothing."]), ""]
    notes = [f"- {row.path}: {shorten(note, NOTE_WIDTH)}" for row in rows for note in row.notes]
    return "\n".join([*lines, "## Notes", "", *(notes or ["None."]), ""])


def table_line(row: Row) -> str:
    explained = ", ".join(f"{n} {why}" for why, n in sorted(row.explained.items()) if n)
    same, other = row.grids["equal"], row.grids["unexplained"]
    grids = f"{same} / {row.equal - same - other} / {other}"
    return (
        f"| {row.repo} | {row.path} | {row.commit[:12]} | {row.recorded} | {row.captured} "
        f"| {row.equal} | {explained} | {len(row.unexplained)} | {grids} |"
    )


if __name__ == "__main__":
    main()
