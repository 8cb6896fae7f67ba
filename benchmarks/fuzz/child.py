"""Cases of one reader in a forked child, which tells its parent (`driver`) of each, line by line.

begin                                 a case is about to be read
done SECONDS PEAK FOLDER OUTCOME      it was read; processor time, bytes, where its files are
fault SECONDS PEAK FOLDER OUTCOME     the same, against the property
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import resource
import shutil
import time
import traceback
from pathlib import Path

from kinspect.inspector.base.errors import KinspectError, unforeseen

from .mutate import Files, make_special, mutated
from .readers import STEERING, FuzzedReader

MOST_SECONDS = 20.0
"""Of processor time; a machine that does other things besides fails no case."""
MOST_BYTES = 2 << 30
CASE = "case"
"""The folder of the case at work, in the child's folder."""
INTERNAL = "internal error"
DIGITS = re.compile(r"[0-9a-fx]*\d[0-9a-fx]*|'[^']*'|\"[^\"]*\"|`[^`]*`")
"""Parts of a message that differ from case to case."""
_BATCH = 400  # cases of one child
_CORPUS = 200  # inputs that are kept since something new came of them


def serve(reader: FuzzedReader, rng: random.Random, folder: Path, out: int, end: float) -> None:
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(devnull, stream)
    corpus = [dict(seed) for seed in reader.seeds()]
    known: set[str] = set()
    for number in range(_BATCH):
        if time.monotonic() > end:
            return
        files = mutated(rng.choice(corpus), rng, reader.kinds, list(reader.words))
        case = write_case(files, folder / CASE)
        if rng.random() < reader.special:
            make_special(rng.choice([case / name for name in files if name not in STEERING]), rng)
        os.write(out, b"begin \n")
        _forget_peak()
        began, since = _used(), time.monotonic()
        outcome = outcome_of(reader, case)
        seconds, peak = _used() - began, _peak()
        if time.monotonic() - since > MOST_SECONDS and seconds < MOST_SECONDS / 4:
            outcome = f"{INTERNAL}: waited {time.monotonic() - since:.0f} s"
        word = "fault" if outcome.startswith((INTERNAL, "Traceback")) else "done"
        slow = seconds > MOST_SECONDS or peak > MOST_BYTES
        copy = CASE
        if word == "fault" or slow:
            # The next case takes this one's place at once; the parent removes the copy.
            copy = f"{CASE}.{os.getpid()}.{number}"
            case.rename(folder / copy)  # not copied: it may hold devices and pipes
        said = " ".join(outcome.split())[:600]
        os.write(out, f"{word} {seconds:.3f} {peak} {copy} {said}\n".encode("utf-8", "replace"))
        # What something new came of may lead to more: it is a seed from now on.
        template = DIGITS.sub("#", said)
        if template not in known and sum(map(len, files.values())) < 1 << 20:
            known.add(template)
            if len(corpus) < _CORPUS:
                corpus.append(files)


def write_case(files: Files, case: Path) -> Path:
    shutil.rmtree(case, ignore_errors=True)
    for name, data in files.items():
        (case / name).parent.mkdir(parents=True, exist_ok=True)
        (case / name).write_bytes(data)
    return case


def outcome_of(reader: FuzzedReader, case: Path) -> str:
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
