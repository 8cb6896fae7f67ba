"""Kill -9 at any moment of a sweep: the same command then finishes, and nothing is left over."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.staging import STAGING
from kinspect.inspector.compile.store import Store

pytest.importorskip("triton")
pytestmark = pytest.mark.xdist_group("crash")

KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"
ARGUMENTS = (
    *("sweep", str(KERNELS), "--kernel", "row_sum", "--arch", "gfx942", "-j", "2"),
    *("--set", "num_warps=1,2,4", "--set", "BLOCK=256,512", "--format", "json"),
)
POINTS = 6
MOMENTS = 20
ENDING_SECONDS = 10.0


@dataclass(frozen=True)
class Place:
    """A store, a TMPDIR and a working folder of its own."""

    root: Path

    @property
    def environment(self) -> dict[str, str]:
        for name in ("store", "tmp", "cwd"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        return {
            **os.environ,
            "KINSPECT_CACHE_DIR": str(self.root / "store"),
            "TMPDIR": str(self.root / "tmp"),
        }

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "kinspect.inspector.cli", *ARGUMENTS],
            env=self.environment,
            cwd=self.root / "cwd",
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self) -> dict[str, Any]:
        process = self.start()
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err
        return dict(json.loads(out))

    def noted(self) -> int:
        """The points that are done and in the store."""
        return len(list((self.root / "store").glob("artifacts-*/*/*/figures-*")))

    def processes(self) -> list[int]:
        """Everything that runs with this place's store: the command, its guests, their jobs."""
        mark = f"KINSPECT_CACHE_DIR={self.root / 'store'}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                marked = mark in (entry / "environ").read_bytes().split(b"\0")
                zombie = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
            except (OSError, IndexError):
                continue
            if marked and not zombie:
                found.append(int(entry.name))
        return found

    def leftovers(self) -> list[str]:
        """Files that are no result: staged, temporary, half-written."""
        store = Store(self.root / "store")
        left = [*(store.root / STAGING).glob("*"), *(self.root / "tmp").rglob("*")]
        left += (self.root / "cwd").rglob("*")
        left += (p for p in store.root.rglob("*") if p.name.startswith(".") or "partial" in p.name)
        left += (
            p
            for p in store.root.glob("artifacts-*/*/*")
            if not p.is_dir() or store.get(p.name) is None
        )
        return [str(path.relative_to(self.root)) for path in left]


def results(report: dict[str, Any]) -> Any:
    """What does not depend on where a point came from, nor on time."""
    tables = report["tables"]
    for table in tables:
        for row in table["rows"]:
            del row["from_store"], row["seconds"]
    return [tables, report["errors"], report["notes"], report["points"]["missing"]]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, float]:
    """The results, and the seconds they took."""
    place = Place(tmp_path_factory.mktemp("undisturbed"))
    started = time.monotonic()
    report = place.finish()
    seconds = time.monotonic() - started
    assert report["points"] == {"done": POINTS, "failed": 0, "from_store": 0, "missing": 0}
    assert not place.leftovers()
    return results(report), seconds


@dataclass(frozen=True)
class Moment:
    """When to kill: so many seconds after so many points are noted in the store.

    Counted from progress, not from the start alone, so that a busy machine does not move all
    moments into the start-up.
    """

    points: int
    seconds: float


def moments(n: int, seconds: float) -> list[Moment]:
    """Random moments, from the start through the capture and the compiles to the end.

    Args:
        n: how many.
        seconds: that an undisturbed run takes: half of it is start-up, a share is one point.
    """
    chance = random.Random(20)
    spans = [seconds / 2] + [seconds / POINTS] * (POINTS - 1)
    return [
        Moment(number % POINTS, chance.random() * spans[number % POINTS]) for number in range(n)
    ]


def kill_and_go_on(place: Place, moment: Moment, everything: bool, expected: Any) -> int:
    """Returns how many points of the second run came from the store."""
    process = place.start()
    while place.noted() < moment.points and process.poll() is None:
        time.sleep(0.005)
    try:
        process.communicate(timeout=moment.seconds)
    except subprocess.TimeoutExpired:
        # The guests are in sessions of their own: a kill of the group leaves them to themselves.
        guests = place.processes() if everything else []
        os.killpg(process.pid, signal.SIGKILL)
        for pid in guests:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
    report = place.finish()
    stored = int(report["points"]["from_store"])
    assert stored >= moment.points  # what was done before the kill is not done again
    assert results(report) == expected
    deadline = time.monotonic() + ENDING_SECONDS
    while place.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not place.processes()
    assert not place.leftovers()
    return stored


@pytest.mark.parametrize("part", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_killed_at_three_moments(part: int, undisturbed: tuple[Any, float], tmp_path: Path) -> None:
    expected, seconds = undisturbed
    moment = Moment(2 * part, 0.05 if part else seconds / 4)
    kill_and_go_on(Place(tmp_path), moment, part == 1, expected)


@pytest.mark.slow
def test_killed_at_twenty_moments(undisturbed: tuple[Any, float], tmp_path: Path) -> None:
    expected, seconds = undisturbed
    stored = [
        kill_and_go_on(Place(tmp_path / str(n)), moment, n % 4 == 3, expected)
        for n, moment in enumerate(moments(MOMENTS, seconds))
    ]
    assert len(set(stored)) > 2  # they were moments of different kinds


def test_interrupted_by_ctrl_c_it_shows_what_is_done_and_goes_on(
    undisturbed: tuple[Any, float], tmp_path: Path
) -> None:
    place = Place(tmp_path)
    process = place.start()
    # One more than there are workers: each may have noted a result that is not shown yet.
    while place.noted() < 3 and process.poll() is None:
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    report = json.loads(out)
    done, missing = report["points"]["done"], report["points"]["missing"]
    assert 1 <= done <= 5  # a result is noted in the store just before it is shown
    assert done + missing == POINTS
    assert f"{missing} points are missing" in err
    assert "Traceback" not in err
    assert not place.processes()
    assert not place.leftovers()
    again = place.finish()
    assert again["points"]["from_store"] >= done
    assert results(again) == undisturbed[0]
