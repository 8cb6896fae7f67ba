"""What `kinspect analyze` makes of public Triton files: `python -m benchmarks.capture_corpus`.

The files stand in capture_corpus.yaml by repository, path, commit and git's hash; none of them is
part of this repository. Each is run by the real command line in a process of its own with an empty
store. The outcomes are kept in build/corpus/ (a second run does only what is missing) and written
to capture_corpus.md, which also says how to get the files.

    python -m benchmarks.capture_corpus --checkouts DIR
    python -m benchmarks.capture_corpus --checkouts DIR --only held-out

Run it with the interpreter that has the packages of the list and kinspect itself.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import yaml

from . import capture_corpus_report as report
from .lint import tool

HERE = Path(__file__).parent
LIST = HERE / "capture_corpus.yaml"
RESULTS = HERE.parent / "build" / "corpus" / "results.jsonl"
GRACE_SECONDS = 15.0
LAST_WORDS = 2000
"""Characters of stderr that are kept for the table of failures."""


@dataclass(frozen=True, slots=True)
class CorpusEntry:
    """One file of the list and how to run it; the fields are those of capture_corpus.yaml."""

    repo: str
    commit: str
    path: str
    blob: str
    kind: str
    call: tuple[str, ...]
    args: tuple[str, ...]
    held_out: bool
    env: Mapping[str, str]
    reviewed: str | None

    def checkout(self, checkouts: Path) -> Path:
        return checkouts / self.repo.replace("/", "+")


@dataclass(frozen=True)
class Surroundings:
    """What a command runs in: its folder, its environment, and the files for its output."""

    folder: Path
    environment: Mapping[str, str]
    stdout: IO[bytes]
    stderr: IO[bytes]


def main() -> int:
    """Runs what is asked for and writes the report."""
    options = _options()
    document = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    entries = list(read_entries(document))
    wanted = [e for e in entries if _is_wanted(e, options)]
    known = read_results(entries)
    classes = [report.FailureClass(**fields) for fields in document["classes"]]
    missing = 0
    for number, entry in enumerate(wanted, 1):
        name = f"[{number}/{len(wanted)}] {entry.repo} {entry.path}"
        before = known.get((entry.repo, entry.path))
        if before is not None and not _is_run_again(before, entry, options, classes):
            continue
        problem = verify(entry, options.checkouts)
        if problem is not None:
            print(f"{name}: {problem}", file=sys.stderr)
            missing += 1
            continue
        print(name, flush=True)
        result = run(entry, options)
        keep(result)
        known[entry.repo, entry.path] = result
        print(f"    {report.outcome(result, classes).line()}", flush=True)
    results = [known[e.repo, e.path] for e in entries if (e.repo, e.path) in known]
    report.write(HERE / "capture_corpus.md", document, results, classes)
    return 2 if missing else 0


def read_entries(document: Mapping[str, Any]) -> Iterator[CorpusEntry]:
    """The files of the list, in its order."""
    for project in document["projects"]:
        for item in project["files"]:
            yield CorpusEntry(
                repo=project["repo"],
                commit=project["commit"],
                path=item["path"],
                blob=item["blob"],
                kind=item["kind"],
                call=tuple(item.get("call", ())),
                args=tuple(item.get("args", ())),
                held_out=item.get("held_out", False),
                env=project.get("env", {}),
                reviewed=item.get("reviewed"),
            )


def verify(entry: CorpusEntry, checkouts: Path) -> str | None:
    """Says what is wrong with the file of a checkout, if anything: absent, or another version."""
    path = entry.checkout(checkouts) / entry.path
    try:
        data = path.read_bytes()
    except OSError as error:
        return f"{error.strerror}: check --checkouts; capture_corpus.md says how to get it"
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    if blob != entry.blob:
        return f"not the file of commit {entry.commit}: check that commit out"
    return None


def run(entry: CorpusEntry, options: argparse.Namespace) -> dict[str, Any]:
    """Analyses one file in a process of its own.

    Returns:
        The entry's fields with `seconds` (wall), `cpu_seconds`, `exit`, `timed_out`, `kernels`
        (compiled specialisations), `launched` (kernels' names), `errors` as in the JSON report and
        `stderr`. Nothing in it names a path of this machine.
    """
    root = entry.checkout(options.checkouts).absolute()
    with tempfile.TemporaryDirectory(prefix="capture_corpus_") as scratch:
        environment = {**os.environ, **entry.env, "KINSPECT_CACHE_DIR": f"{scratch}/store"}
        environment["TRITON_CACHE_DIR"] = f"{scratch}/triton"  # libraries may ask it for winners
        environment.pop("PYTHONPATH", None)
        out, err = Path(scratch, "out"), Path(scratch, "err")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            place = Surroundings(root, environment, stdout, stderr)
            measured = _measured(_command(entry, options), place, options.timeout)
        hide = {str(root): "<checkout>", scratch: "<scratch>", sys.prefix: "<venv>"}
        hide[str(HERE.parent)] = "<kinspect>"
        messages = _hidden(err.read_text(encoding="utf-8", errors="replace"), hide)
        document = _report_in(_hidden(out.read_text(encoding="utf-8", errors="replace"), hide))
    kernels = document.get("kernels", ()) if document else ()
    return {
        **asdict(entry),
        "arch": options.arch,
        **measured,
        "reported": document is not None,
        "kernels": len(kernels),
        "launched": sorted({kernel["name"] for kernel in kernels}),
        "errors": document.get("errors", []) if document else [],
        "stderr": messages[-LAST_WORDS:],
    }


def _measured(command: Sequence[str], place: Surroundings, limit: float) -> dict[str, Any]:
    """Runs a command to its end: the fields of `run` on its time and its end.

    Args:
        command: the command.
        place: what it runs in.
        limit: the seconds after which it is ended.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=place.folder,
        env=place.environment,
        stdin=subprocess.DEVNULL,
        stdout=place.stdout,
        stderr=place.stderr,
        start_new_session=True,
    )
    timed_out = _wait(process, limit)
    seconds = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "seconds": round(seconds, 2),
        "cpu_seconds": round(cpu_seconds, 2),
        "exit": process.returncode,
        "timed_out": timed_out,
    }


def _command(entry: CorpusEntry, options: argparse.Namespace) -> list[str]:
    """The command that analyses a file, as a user would give it."""
    command = [
        *tool(),
        "analyze",
        entry.path,
        "--arch",
        options.arch,
        "--format",
        "json",
        "--details",
    ]
    command += ["--no-passes", "--jobs", str(options.jobs)]
    for call in entry.call:
        command += ["--call", call]
    return [*command, "--", *entry.args] if entry.args else command


def _wait(process: subprocess.Popen[bytes], limit: float) -> bool:
    """Waits for a process; True if it had to be ended. Its session ends with it in any case."""
    timed_out = False
    for sign, seconds in ((None, limit), (signal.SIGINT, GRACE_SECONDS), (signal.SIGKILL, None)):
        if sign is not None:
            timed_out = True
            process.send_signal(sign)
        try:
            process.wait(seconds)
            break
        except subprocess.TimeoutExpired:
            continue
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    return timed_out


def _hidden(text: str, hide: Mapping[str, str]) -> str:
    """The text without this machine's paths, longest first."""
    for path in sorted(hide, key=len, reverse=True):
        text = text.replace(path, hide[path])
    return re.sub(r"/(?:tmp|home|root|usr|opt|work)/[^\s'\":,)]*/", "…/", text)


def _report_in(text: str) -> dict[str, Any] | None:
    """The JSON report; None where the process ended before it was written."""
    try:
        document = json.loads(text)
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def read_results(entries: Sequence[CorpusEntry]) -> dict[tuple[str, str], dict[str, Any]]:
    """What earlier runs found: the last outcome of each file, with the list's present review."""
    if not RESULTS.exists():
        return {}
    reviewed = {(entry.repo, entry.path): entry.reviewed for entry in entries}
    lines = RESULTS.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines if line.strip()]
    return {
        key: {**result, "reviewed": reviewed[key]}
        for result in found
        if (key := (result["repo"], result["path"])) in reviewed
    }


def keep(result: Mapping[str, Any]) -> None:
    """Appends one outcome, so that an interrupted run loses none."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(result) + "\n")


def _is_wanted(entry: CorpusEntry, options: argparse.Namespace) -> bool:
    if options.only != "all" and entry.held_out != (options.only == "held-out"):
        return False
    name = f"{entry.repo}/{entry.path}"
    return not options.file or any(fnmatch.fnmatch(name, f"*{glob}*") for glob in options.file)


def _is_run_again(
    before: Mapping[str, Any],
    entry: CorpusEntry,
    options: argparse.Namespace,
    classes: Sequence[report.FailureClass],
) -> bool:
    """Whether a file that has an outcome is run once more."""
    stated = (before["blob"], tuple(before["call"]), tuple(before["args"]), before["arch"])
    if options.rerun or stated != (entry.blob, entry.call, entry.args, options.arch):
        return True
    return bool(options.rerun_failed) and not report.outcome(before, classes).good


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs kinspect analyze on public Triton files.")
    add = parser.add_argument
    add("--checkouts", type=Path, required=True, help="folder with OWNER+NAME/ per repository")
    add("--only", choices=("dev", "held-out", "all"), default="dev")
    add("--file", action="append", default=[], metavar="GLOB", help="only files like this")
    add("--arch", default="gfx942")
    add("--jobs", type=int, default=1, help="compiles at a time")
    add("--timeout", type=float, default=600.0, help="seconds a file may take")
    add("--rerun", action="store_true", help="run files again that have an outcome")
    add("--rerun-failed", action="store_true", help="run those again that are not in order")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
