"""A coding agent without a model: `python -m benchmarks.agent_loop [SCRIPT...]` cures slow kernels.

Each script is copied, and the copy is worked on with what any program has: `kinspect lint --format
agent` for findings, worst first, each with its id and the command that tries its cures; that
command with `--format json` for a change that is rid of it; the change is made in the text of the
script (`applied_changes.py`); and again, until nothing is left that a change helps. Then the
fastest of all changes is made, which the report's last command tries. What has come of it is asked
of Triton alone (`seeded_checks.py`), which this loop knows nothing of.
Without scripts: all of `seeded/`.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from .applied_changes import NotMechanicalError, applied
from .plain_triton import compiled
from .seeded_checks import CHECKS

SEEDED = Path(__file__).parent / "seeded"
ARCH = "gfx942"
MOST_ROUNDS = 8
CHARACTERS_PER_TOKEN = 4
"""An estimate: no tokenizer is at hand."""
_FINDING = re.compile(r"^finding (?P<id>[0-9a-f]+) (?P<rule>\S+) (?P<severity>\S+)")
_TRY = re.compile(r"^  try (?P<command>kinspect .*)$")
_TRY_ALL = re.compile(r"^try (?P<command>kinspect .*)$", re.MULTILINE)


class PrintedFinding(Struct, frozen=True):
    """A finding as the agent format prints it.

    Args:
        id: beginning of its fingerprint.
        rule: the rule's id.
        command: that tries its cures.
    """

    id: str
    rule: str
    command: str


class Repair(Struct):
    """What the loop did to one script.

    Args:
        script: as it became.
        tokens: of the first report.
        first: rule of the first finding; empty where there was none.
        changes: made, in their order.
        remarks: why a change was not made, and what had no cure.
    """

    script: Path
    tokens: int = 0
    first: str = ""
    changes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def repaired(script: Path, folder: Path) -> Repair:
    """Works on a copy of a script until nothing is left that a change helps."""
    copy = folder / script.name
    copy.write_text(script.read_text())
    repair = Repair(copy)
    for number in range(MOST_ROUNDS):
        report = _kinspect(["lint", copy.name, "--arch", ARCH, "--format", "agent"], folder)
        findings = list(_findings(report))
        if number == 0:
            repair.tokens = len(report) // CHARACTERS_PER_TOKEN
            repair.first = findings[0].rule if findings else ""
        repair.remarks = []
        if not any(_cured(finding, repair) for finding in findings):
            whole = ["analyze", copy.name, "--arch", ARCH, "--format", "agent"]
            if not _made_faster(report + _kinspect(whole, folder), repair):
                break
    return repair


def _findings(report: str) -> Iterator[PrintedFinding]:
    """The findings of a report in the agent format that can be tried."""
    finding = None
    for line in report.splitlines():
        finding = _FINDING.match(line) or finding
        command = _TRY.match(line)
        if finding is not None and command is not None:
            yield PrintedFinding(finding["id"], finding["rule"], command["command"])


def _cured(finding: PrintedFinding, repair: Repair) -> bool:
    """Makes the first change that is rid of a finding; returns whether there was one."""
    words = shlex.split(finding.command)[1:]
    result = json.loads(_kinspect([*words, "--format", "json"], repair.script.parent))
    for kernel in result["kernels"]:
        for tried in _trials(kernel, finding):
            if tried["helped"] and _is_made(kernel["name"], tried["change"], finding.rule, repair):
                return True
    repair.remarks.append(f"{finding.rule}: no change cures it")
    return False


def _made_faster(report: str, repair: Repair) -> bool:
    """Makes the fastest change of all that are tried; returns whether there was one."""
    for command in dict.fromkeys(_TRY_ALL.findall(report)):
        words = shlex.split(command)[1:]
        result = json.loads(_kinspect([*words, "--format", "json"], repair.script.parent))
        for kernel in result["kernels"]:
            for row in kernel["tried"]:
                is_faster = row["time"] is not None and row["time"]["verdict"] == "faster"
                if (
                    is_faster
                    and not row["new_errors"]
                    and _is_made(kernel["name"], row["change"], "try", repair)
                ):
                    return True
    return False


def _is_made(kernel: str, changes: Sequence[dict[str, Any]], why: str, repair: Repair) -> bool:
    """Makes changes in the script; False where it does not say in one place what to change."""
    text = repair.script.read_text()
    try:
        for change in changes:
            text = applied(text, kernel, change)
    except NotMechanicalError as error:
        repair.remarks.append(f"{why}: {error}")
        return False
    repair.script.write_text(text)
    repair.changes.append(" and ".join(map(_named, changes)))
    return True


def _trials(kernel: dict[str, Any], finding: PrintedFinding) -> list[dict[str, Any]]:
    """What was tried for a finding, on the Pareto front first."""
    trials = [
        trial
        for own in kernel["findings"]
        if own["fingerprint"].startswith(finding.id)
        for trial in own["tried"]
    ]
    return sorted(trials, key=lambda trial: not trial["front"])


def _named(change: dict[str, Any]) -> str:
    if change["kind"] == "argument":
        return f"{change['name']}: tl.constexpr"
    if change["kind"] == "source" and change["value"] is None:
        return f"no {change['name']}"
    if change["kind"] == "source":
        return f"{change['value']} for {change['name']}"
    return f"{change['name']}={change['value']}"


def _kinspect(words: Sequence[str], folder: Path) -> str:
    """What a command prints; an exit status of 1 says that there are findings."""
    done = subprocess.run(
        [sys.executable, "-m", "kinspect", *words],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"kinspect {shlex.join(words)}: {done.stderr}")
    return done.stdout


def main() -> None:
    """Works on each script, and prints what became of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scripts", nargs="*", type=Path)
    scripts = parser.parse_args().scripts or sorted(SEEDED.glob("[0-9]*.py"))
    successes = 0
    print("| script | tokens | first finding | changes | figure | before | after | repaired |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="agent-loop-") as folder:
        for script in scripts:
            repair = repaired(script, Path(folder))
            check = CHECKS[script.stem]
            before, after = compiled(script, ARCH), compiled(repair.script, ARCH)
            is_repaired = check.repaired(after)
            successes += is_repaired
            cells = (
                *(script.stem, repair.tokens, repair.first or "none"),
                "; ".join(repair.changes) or "none",
                *(check.figure, f"{check.count(before):,g}", f"{check.count(after):,g}"),
                "yes" if is_repaired else "no",
            )
            print(f"| {' | '.join(map(str, cells))} |", flush=True)
            for remark in repair.remarks:
                print(f"  {script.stem}: {remark}", file=sys.stderr, flush=True)
    print(f"\n{successes} of {len(scripts)} repaired")


if __name__ == "__main__":
    main()
