"""Runs cases in forked children, so that a crash, a hang or a lack of memory is one case's end."""

from __future__ import annotations

import contextlib
import gc
import os
import random
import re
import resource
import select
import shutil
import signal
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from kinspect.inspector.errors import KinspectError, unforeseen

from .mutate import Files, mutated
from .readers import Reader

MOST_SECONDS = 20.0
"""Of processor time; a machine that does other things besides fails no case."""
MOST_WALL = 240.0
MOST_BYTES = 2 << 30
_BATCH = 400  # cases of one child
_CORPUS = 200  # inputs that are kept since something new came of them
_DIGITS = re.compile(r"[0-9a-fx]*\d[0-9a-fx]*|'[^']*'|\"[^\"]*\"|`[^`]*`")
_INTERNAL = "internal error"
_CASE = "case"  # the folder of the case at work, in the child's folder


@dataclass(slots=True)
class Tally:
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


def fuzz(reader: Reader, seconds: float, seed: int, keep: Path) -> Tally:
    """Runs cases of one reader until the time is over.

    Args:
        reader: what reads.
        seconds: wall time.
        seed: of the cases; a child's cases follow from it and the child's number.
        keep: where inputs of faults are kept.
    """
    tally = Tally(reader.name)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(dir=_shared_memory()) as name:
        folder = Path(name)
        for number, files in enumerate(
            reader.seeds()[:2]
        ):  # what is read once, the forks have then
            said = _outcome(reader, _laid_out(files, folder / _CASE))
            if said.startswith(_INTERNAL):
                print(f"  {reader.name}: seed {number} undamaged: {said}", flush=True)
        child = 0
        while (left := seconds - (time.monotonic() - began)) > 0:
            _run_child(reader, f"{seed}:{reader.name}:{child}", folder, tally, left, keep)
            child += 1
    tally.seconds = time.monotonic() - began
    return tally


def _shared_memory() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _run_child(
    reader: Reader, seed: str, folder: Path, tally: Tally, left: float, keep: Path
) -> None:
    ours, its = os.pipe()
    gc.collect()
    gc.freeze()
    pid = os.fork()
    if pid == 0:
        os.close(ours)
        status = 1
        try:
            _serve(reader, random.Random(seed), folder, its, time.monotonic() + left)
            status = 0
        finally:
            os._exit(status)
    os.close(its)
    at_work = False
    cpu = 0.0  # of the child when its case began
    since = time.monotonic()
    pending = b""
    try:
        while True:
            ready, _, _ = select.select([ours], [], [], 0.5)
            if ready:
                data = os.read(ours, 65536)
                if not data:
                    break
                *lines, pending = (pending + data).split(b"\n")
                for line in lines:
                    at_work = _told(line.decode("utf-8", "replace"), tally, folder, keep)
                    cpu, since = _processor_seconds(pid), time.monotonic()
            elif at_work:
                used = _processor_seconds(pid) - cpu
                if used > MOST_SECONDS or time.monotonic() - since > MOST_WALL:
                    os.kill(pid, signal.SIGABRT)  # the child says where it is
                    time.sleep(0.5)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                    _fault(tally, f"over {MOST_SECONDS:.0f} s", folder / _CASE, keep)
                    tally.worst_seconds = max(tally.worst_seconds, used)
                    at_work = False
                    break
            elif time.monotonic() - since > MOST_WALL:  # no case: the maker of inputs hangs
                os.kill(pid, signal.SIGKILL)
                print(f"  {reader.name}: no input was made for {MOST_WALL:.0f} s", flush=True)
                break
    finally:
        os.close(ours)
        _, status = os.waitpid(pid, 0)
    if at_work:
        how = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else f"status {status}"
        _fault(tally, f"the process ended by {how}", folder / _CASE, keep)


def _processor_seconds(pid: int) -> float:
    with contextlib.suppress(OSError, IndexError, ValueError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def _told(line: str, tally: Tally, folder: Path, keep: Path) -> bool:
    """Takes a child's line; whether a case has begun."""
    word, _, rest = line.partition(" ")
    if word == "begin":
        return True
    seconds, peak, copy, outcome = rest.split(" ", 3)
    case = folder / copy
    tally.cases += 1
    tally.worst_seconds = max(tally.worst_seconds, float(seconds))
    tally.worst_bytes = max(tally.worst_bytes, int(peak))
    tally.outcomes.add(_DIGITS.sub("#", outcome))
    tally.refused += outcome != "read"
    if word == "fault":
        _fault(tally, outcome, case, keep)
    if float(seconds) > MOST_SECONDS:
        _fault(tally, f"over {MOST_SECONDS:.0f} s", case, keep)
    if int(peak) > MOST_BYTES:
        _fault(tally, "over 2 GB", case, keep)
    if copy != _CASE:
        shutil.rmtree(case, ignore_errors=True)
    return False


def _fault(tally: Tally, what: str, case: Path, keep: Path) -> None:
    place = re.search(r"\(([^()]*:\d+[^()]*)\)\S*$", what)
    kind = what.split(": ")[1] if what.startswith(_INTERNAL) and ": " in what else what
    key = f"{kind} at {place[1]}" if place else what
    if key not in tally.faults:
        to = keep / f"{tally.reader}-{len(tally.faults)}"
        shutil.rmtree(to, ignore_errors=True)
        with contextlib.suppress(OSError):
            shutil.copytree(case, to)
            tally.kept[key] = to
        print(f"  {tally.reader}: {key}\n    {what[:300]}\n    {to}", flush=True)
    tally.faults[key] += 1


# --------------------------------------------------------------------------- the child


def _serve(reader: Reader, rng: random.Random, folder: Path, out: int, end: float) -> None:
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(devnull, stream)
    corpus = [dict(seed) for seed in reader.seeds()]
    known: set[str] = set()
    for number in range(_BATCH):
        if time.monotonic() > end:
            return
        files = mutated(rng.choice(corpus), rng, reader.kinds, list(reader.words))
        case = _laid_out(files, folder / _CASE)
        os.write(out, b"begin \n")
        _forget_peak()
        began = _used()
        outcome = _outcome(reader, case)
        seconds, peak = _used() - began, _peak()
        word = "fault" if outcome.startswith((_INTERNAL, "Traceback")) else "done"
        slow = seconds > MOST_SECONDS or peak > MOST_BYTES
        copy = _CASE
        if word == "fault" or slow:
            # The next case takes this one's place at once; the parent removes the copy.
            copy = f"{_CASE}.{os.getpid()}.{number}"
            shutil.copytree(case, folder / copy)
        said = " ".join(outcome.split())[:600]
        os.write(out, f"{word} {seconds:.3f} {peak} {copy} {said}\n".encode("utf-8", "replace"))
        # What something new came of may lead to more: it is a seed from now on.
        template = _DIGITS.sub("#", said)
        if template not in known and sum(map(len, files.values())) < 1 << 20:
            known.add(template)
            if len(corpus) < _CORPUS:
                corpus.append(files)


def _laid_out(files: Files, case: Path) -> Path:
    shutil.rmtree(case, ignore_errors=True)
    for name, data in files.items():
        (case / name).parent.mkdir(parents=True, exist_ok=True)
        (case / name).write_bytes(data)
    return case


def _outcome(reader: Reader, case: Path) -> str:
    try:
        said = reader.run(case)
    except KinspectError as error:
        said = str(error)
    except Exception as error:
        if os.environ.get("KINSPECT_TRACEBACK"):
            traceback.print_exc()
        said = str(unforeseen(error)).partition("; ")[0]
    return said or "read"


def _used() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def _forget_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most memory of this process since `_forget_peak`, bytes."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) << 10
    return 0
