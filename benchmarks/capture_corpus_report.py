"""Sorts the outcomes of `capture_corpus` into classes and writes capture_corpus.md."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Result = Mapping[str, Any]

FRONT = "front end"
COMPILE = "compile"
SCRIPT = "script"
REVIEWED = "fails by itself"
STOPPED = "stopped: nothing new was launched"
"""What kinspect notes when it takes a script for done: launches may be missing."""
STAGES = {"frontend": FRONT, "compile": COMPILE}
"""Where a launch may fail after it was captured; every other stage is the script's own run."""

MOST_TEXT = 150


@dataclass(frozen=True, slots=True)
class FailureClass:
    """A reason of failures, found by `pattern` in the message.

    `lies_in` is `kernel` (it cannot be compiled for the target by this Triton), `file` (it needs
    what is not there, or does not run with a GPU either) or `tool`.
    """

    name: str
    lies_in: str
    pattern: str


@dataclass(frozen=True, slots=True)
class CorpusFailure:
    """One error of a report, sorted."""

    name: str
    lies_in: str
    launch: bool
    text: str


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file.

    Attributes:
        captured: specialisations that the file launches, compiled or not.
        compiled: those that were compiled and analysed.
        failures: the others, and what kept the file from being run to its end.
        seconds: wall time of the whole command.
        cpu_seconds: processor time of it and its children.
    """

    captured: int
    compiled: int
    failures: tuple[CorpusFailure, ...]
    seconds: float
    cpu_seconds: float

    @property
    def good(self) -> bool:
        """Nothing that fails is kinspect's doing."""
        return (self.captured > 0 or bool(self.failures)) and all(
            f.lies_in != "tool" for f in self.failures
        )

    @property
    def refused(self) -> bool:
        """All that is launched is compiled, or cannot be for a reason in the kernel."""
        return self.captured > 0 and all(f.lies_in == "kernel" for f in self.failures)

    @property
    def complete(self) -> bool:
        """Something is launched, all of it is compiled, and the file ran to its end."""
        return self.captured > 0 and not self.failures

    @property
    def verdict(self) -> str:
        if self.complete:
            return "complete"
        if self.refused:
            return "refused"
        if self.good:
            return "cannot run"
        return "partial" if self.compiled else "failed"

    def classes(self) -> str:
        counts = Counter(f.name for f in self.failures)
        return ", ".join(f"{name} {n}" if n > 1 else name for name, n in sorted(counts.items()))

    def line(self) -> str:
        return (
            f"{self.verdict}: {self.captured} captured, {self.compiled} compiled, "
            f"{self.seconds:.1f} s  {self.classes()}"
        )


def outcome(result: Result, classes: Sequence[FailureClass]) -> FileOutcome:
    """Sorts what one run reported."""
    failures = [_failure(error, classes) for error in result["errors"]]
    if result["reviewed"]:
        failures = [
            f if f.launch else CorpusFailure(REVIEWED, "file", False, result["reviewed"])
            for f in failures
        ]
    if result["timed_out"]:
        failures.append(CorpusFailure("time limit", "tool", False, "the whole command was ended"))
    elif not result["reported"]:
        last = result["stderr"].strip().splitlines()[-1:] or ["no output"]
        failures.append(CorpusFailure("no report", "tool", False, last[0]))
    elif STOPPED in result["stderr"]:
        failures.append(CorpusFailure("stopped while idle", "tool", False, STOPPED))
    elif not result["kernels"] and not failures:
        failures.append(CorpusFailure("nothing launched", "tool", False, "no kernel was launched"))
    compiled = result["kernels"]
    launches = compiled + sum(f.launch for f in failures)
    return FileOutcome(
        launches, compiled, tuple(failures), result["seconds"], result["cpu_seconds"]
    )


def _failure(error: Mapping[str, Any], classes: Sequence[FailureClass]) -> CorpusFailure:
    text = " ".join(f"{error['message']} {error.get('hint') or ''}".split())
    stage = STAGES.get(error["stage"], SCRIPT)
    for known in classes:
        if re.search(known.pattern, error["message"]):
            return CorpusFailure(known.name, known.lies_in, stage != SCRIPT, text)
    return CorpusFailure(stage, "tool", stage != SCRIPT, text)


def write(
    path: Path,
    document: Mapping[str, Any],
    results: Sequence[Result],
    classes: Sequence[FailureClass],
) -> None:
    """Writes the report.

    Args:
        path: the .md file.
        document: capture_corpus.yaml.
        results: one per file that was run, in the list's order.
        classes: the list's classes.
    """
    sorted_out = [(result, outcome(result, classes)) for result in results]
    total = sum(len(project["files"]) for project in document["projects"])
    lines = [
        "# What `kinspect analyze` captures of public Triton files",
        "",
        "Written by `python -m benchmarks.capture_corpus`; [the list](capture_corpus.yaml) says "
        "which files, how they were chosen before any was run, and how they are run. "
        "No GPU and no AMD software is present.",
        "",
        f"{len(results)} of the list's {total} files were run, of "
        f"{len({r['repo'] for r in results})} projects, for "
        f"{', '.join(sorted({r['arch'] for r in results}))}. "
        "Files held out were not looked at while the capture was developed: neither they nor what "
        "went wrong with them. After their first figures were taken (69 % complete or refused, "
        "74 % with those that cannot run; 5 of 11 misses were a 90 s limit of that run) the misses "
        "were read: three notes and three classes in the list come from that, and one stand-in "
        "that kinspect lacked.",
        "",
        *_summary(sorted_out),
        *_classes(sorted_out, classes),
        *_projects(document, sorted_out),
        *_reproduce(document),
        *_files(document, sorted_out),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


Sorted = Sequence[tuple[Result, FileOutcome]]


def _summary(found: Sorted) -> list[str]:
    parts: dict[str, Callable[[Result], bool]] = {
        "development": lambda r: not r["held_out"],
        "held out": lambda r: r["held_out"],
        "all": lambda r: True,
    }
    lines = [
        "| part | files | complete | complete or refused | and those that cannot run | partial "
        "| failed | specialisations captured | compiled | median seconds a file | slowest "
        "| median CPU seconds a file |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, belongs in parts.items():
        some = [o for r, o in found if belongs(r)]
        if not some:
            continue
        verdicts = Counter(o.verdict for o in some)
        seconds = [o.seconds for o in some]
        lines.append(
            f"| {name} | {len(some)} | {_share(sum(o.complete for o in some), len(some))} "
            f"| {_share(sum(o.refused for o in some), len(some))} "
            f"| {_share(sum(o.good for o in some), len(some))} | {verdicts['partial']} "
            f"| {verdicts['failed']} | {sum(o.captured for o in some)} "
            f"| {sum(o.compiled for o in some)} | {statistics.median(seconds):.1f} "
            f"| {max(seconds):.0f} | {statistics.median(o.cpu_seconds for o in some):.1f} |"
        )
    return [
        *lines,
        "",
        "*Complete*: the file ran to its end and all that it launches is compiled. *Refused*: what "
        "is not compiled cannot be compiled for an AMD GPU by this Triton (block pointers, PTX, "
        "NVIDIA's library). *Cannot run*: the file needs what is not there (another Triton, a GPU "
        "library) or fails in the same way with a GPU. *Partial* and *failed* (nothing compiled) "
        "count against kinspect. Seconds are the wall time of the command with an empty store, "
        "imports included, two compiles at a time, on a machine that did other work as well: CPU "
        "seconds say what that comes to on an idle one.",
        "",
    ]


def _classes(found: Sorted, classes: Sequence[FailureClass]) -> list[str]:
    per_class: Counter[str] = Counter()
    files: Counter[str] = Counter()
    places = {"kernel": "the kernel", "file": "the file"}
    lies_in = {c.name: places.get(c.lies_in, "kinspect") for c in classes}
    for _, file in found:
        per_class.update(f.name for f in file.failures)
        files.update({f.name for f in file.failures})
    if not per_class:
        return []
    lines = ["## Failures by class", ""]
    lines += ["| class | lies in | files | failures |", "|---|---|--:|--:|"]
    for name, count in sorted(files.items(), key=lambda item: (-item[1], item[0])):
        where = lies_in.get(name, "kinspect")
        lines.append(f"| {name} | {where} | {count} | {per_class[name]} |")
    return [*lines, ""]


def _projects(document: Mapping[str, Any], found: Sorted) -> list[str]:
    lines = [
        "## By project",
        "",
        "| project | files run | complete, refused or cannot run | captured | compiled "
        "| median seconds | median CPU seconds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for project in document["projects"]:
        some = [o for r, o in found if r["repo"] == project["repo"]]
        if not some:
            continue
        lines.append(
            f"| {project['repo']} | {len(some)} | {sum(o.good for o in some)} "
            f"| {sum(o.captured for o in some)} | {sum(o.compiled for o in some)} "
            f"| {statistics.median(o.seconds for o in some):.1f} "
            f"| {statistics.median(o.cpu_seconds for o in some):.1f} |"
        )
    return [*lines, ""]


def _reproduce(document: Mapping[str, Any]) -> list[str]:
    return [
        "## Running it again",
        "",
        "```sh",
        "mkdir checkouts && cd checkouts",
        "get() {  # OWNER/NAME COMMIT",
        '  git clone --filter=blob:none --no-checkout "https://github.com/$1" "${1%/*}+${1#*/}"',
        '  git -C "${1%/*}+${1#*/}" checkout --quiet "$2"',
        "}",
        *(f"get {project['repo']} {project['commit']}" for project in document["projects"]),
        "cd ..",
        "python3 -m venv corpus-venv  # torch: a build for CPUs is enough",
        f"corpus-venv/bin/pip install -e . triton torch {' '.join(document['packages'])}",
        "corpus-venv/bin/python -m benchmarks.capture_corpus --checkouts checkouts --only all",
        "```",
        "",
        "Files are compared with git's hash in the list before they are run.",
        "",
    ]


def _files(document: Mapping[str, Any], found: Sorted) -> list[str]:
    by_file = {(r["repo"], r["path"]): (r, o) for r, o in found}
    lines = [
        "## File by file",
        "",
        "`call`: the file only defines kernels, and the list says what to call. "
        "A count after a class is how many failures it stands for.",
    ]
    for project in document["projects"]:
        rows = []
        for item in project["files"]:
            if (project["repo"], item["path"]) not in by_file:
                continue
            _, one = by_file[project["repo"], item["path"]]
            kind = "call" if item["kind"] == "library" else item["kind"]
            part = "held out" if item.get("held_out") else "dev"
            first = next((f for f in one.failures if f.lies_in == "tool"), None)
            first = first or next(iter(one.failures), None)
            why = _cell(first.text) if first is not None else ""
            rows.append(
                f"| {item['path']} | {kind} | {part} | {one.verdict} | {one.captured} "
                f"| {one.compiled} | {one.classes()} | {one.seconds:.1f} | {why} |"
            )
        if rows:
            lines += [
                "",
                f"### {project['repo']} at {project['commit']}",
                "",
                "| file | kind | part | outcome | captured | compiled | failed by class | seconds "
                "| the first failure |",
                "|---|---|---|---|--:|--:|---|--:|---|",
                *rows,
            ]
    return lines


def _cell(text: str) -> str:
    short = text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"
    return short.replace("|", "\\|").replace("<", "&lt;")


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.0%})"
