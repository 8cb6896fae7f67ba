"""Runs cases in forked children, so that a crash, a hang or a lack of memory is one case's end."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import select
import shutil
import signal
import stat
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from .child import CASE, DIGITS, INTERNAL, MOST_BYTES, MOST_SECONDS, outcome_of, serve, write_case
from .readers import FuzzedReader

MOST_WALL = 90.0
"""Seconds without a word from a child after which it is ended."""


@dataclass(slots=True)
class FuzzTally:
    """What came of one reader's cases. `faults`: what is against the property, by place."""

    reader: str
    cases: int = 0
    refused: int = 0
    outcomes: set[str] = field(default_factory=set)
    seconds: float = 0.0
    worst_seconds: float = 0.0
    worst_bytes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    kept: dict[str, Path] = field(default_factory=dict)

    def line(self) -> str:
        rate = self.cases / self.seconds if self.seconds else 0.0
        return (
            f"{self.reader:16} {self.cases:7} cases {rate:7.1f}/s  refused {self.refused:7}"
            f"  outcomes {len(self.outcomes):4}  worst {self.worst_seconds:6.2f} s"
            f" {self.worst_bytes / 2**20:6.0f} MiB  faults {sum(self.faults.values())}"
        )


@dataclass(frozen=True, slots=True)
class _Run:
    """One reader's run: its figures, the children's folder, and where inputs of faults go."""

    tally: FuzzTally
    folder: Path
    inputs: Path


def fuzz(reader: FuzzedReader, seconds: float, seed: int, keep: Path) -> FuzzTally:
    """Runs cases of one reader until the time is over.

    Args:
        reader: what reads.
        seconds: wall time.
        seed: of the cases; a child's cases follow from it and the child's number.
        keep: where inputs of faults are kept.
    """
    tally = FuzzTally(reader.name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_shared_memory()) as name:
        folder = Path(name)
        for number, files in enumerate(
            reader.seeds()[:2]
        ):  # what is read once, the forks have then
            said = outcome_of(reader, write_case(files, folder / CASE))
            if said.startswith(INTERNAL):
                print(f"  {reader.name}: seed {number} undamaged: {said}", flush=True)
        run = _Run(tally, folder, keep)
        child = 0
        while (left := seconds - (time.monotonic() - began)) > 0:
            _run_child(reader, f"{seed}:{reader.name}:{child}", run, left)
            child += 1
    tally.seconds = time.monotonic() - began
    return tally


def _shared_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run_child(reader: FuzzedReader, seed: str, run: _Run, seconds: float) -> None:
    """Starts a child, follows it until it ends, and ends it where a case takes too long."""
    read_end, write_end = os.pipe()
    gc.collect()
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        os.close(read_end)
        status = 1
        try:
            serve(reader, random.Random(seed), run.folder, write_end, time.monotonic() + seconds)
            status = 0
        finally:
            os._exit(status)
    os.close(write_end)
    try:
        at_work = _follow(pid, read_end, run)
    finally:
        os.close(read_end)
        _, status = os.waitpid(pid, 0)
    if at_work:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
        _fault(run, f"the process ended by {how}", run.folder / CASE)


def _follow(pid: int, read_end: int, run: _Run) -> bool:
    """Reads a child's lines to its end; whether it ended by itself in the middle of a case."""
    at_work = False
    cpu = 0.0  # of the child when its case began
    since = time.monotonic()
    pending = b""
    while True:
        ready, _, _ = select.select([read_end], [], [], 0.5)
        if ready:
            data = os.read(read_end, 65536)
            if not data:
                return at_work
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                at_work = _take_line(line.decode("utf-8", "replace"), run)
                cpu, since = _processor_seconds(pid), time.monotonic()
        elif at_work:
            used = _processor_seconds(pid) - cpu
            if used > MOST_SECONDS or time.monotonic() - since > MOST_WALL:
                os.kill(pid, signal.SIGABRT)  # the child says where it is
                time.sleep(0.5)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                _fault(run, f"over {MOST_SECONDS:.0f} s", run.folder / CASE)
                run.tally.worst_seconds = max(run.tally.worst_seconds, used)
                return False
        elif time.monotonic() - since > MOST_WALL:  # no case: the maker of inputs hangs
            os.kill(pid, signal.SIGKILL)
            print(f"  {run.tally.reader}: no input was made for {MOST_WALL:.0f} s", flush=True)
            return False


def _processor_seconds(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _take_line(line: str, run: _Run) -> bool:
    """Takes a child's line; whether a case has begun."""
    word, _, fields = line.partition(" ")
    if word == "begin":
        return True
    seconds, peak, copy, outcome = fields.split(" ", 3)
    case, tally = run.folder / copy, run.tally
    tally.cases += 1
    tally.worst_seconds = max(tally.worst_seconds, float(seconds))
    tally.worst_bytes = max(tally.worst_bytes, int(peak))
    tally.outcomes.add(DIGITS.sub("#", outcome))
    tally.refused += outcome != "read"
    if word == "fault":
        _fault(run, outcome, case)
    if float(seconds) > MOST_SECONDS:
        _fault(run, f"over {MOST_SECONDS:.0f} s", case)
    if int(peak) > MOST_BYTES:
        _fault(run, "over 2 GB", case)
    if copy != CASE:
        shutil.rmtree(case, ignore_errors=True)
    return False


def _copied(source: str, target: str) -> None:
    """Copies a file; of a pipe, a socket or a hole only the name."""
    facts = os.lstat(source)
    if stat.S_ISREG(facts.st_mode) and facts.st_size < 1 << 30:
        shutil.copyfile(source, target)
    else:
        Path(target).write_text(f"{source} is no file\n")


def _fault(run: _Run, message: str, case: Path) -> None:
    """Counts a fault by its place; the first at a place is printed, and its input stored."""
    tally = run.tally
    place = re.search(r"\(([^()]*:\d+[^()]*)\)\S*$", message)
    is_internal = message.startswith(INTERNAL) and ": " in message
    kind = message.split(": ")[1] if is_internal else message
    key = f"{kind} at {place[1]}" if place else message
    if key not in tally.faults:
        stored = run.inputs / f"{tally.reader}-{len(tally.faults)}"
        shutil.rmtree(stored, ignore_errors=True)
        with contextlib.suppress(OSError):
            shutil.copytree(case, stored, symlinks=True, copy_function=_copied)
            tally.kept[key] = stored
        print(f"  {tally.reader}: {key}\n    {message[:300]}\n    {stored}", flush=True)
    tally.faults[key] += 1
