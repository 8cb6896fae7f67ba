"""Sweeps on a Dask cluster of separate processes, one of which is killed midway."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.sweep_axes import axes_of
from kinspect.inspector.compare import cluster
from kinspect.inspector.compare.sweep.sweeping import (
    PointDone,
    SweepRequest,
    collect,
    run_point,
    sweep,
)
from kinspect.inspector.compare.trials.outcome import run_trial
from kinspect.inspector.compare.trials.trial_run import Trials, TryRequest
from kinspect.inspector.compile.pool import Compiler, CompileSettings
from kinspect.inspector.lint.packs import parse_pack
from kinspect.inspector.pipeline.analysis import catalogue
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect as analysed
from kinspect.inspector.pipeline.jobs import Request

pytest.importorskip("triton")
pytestmark = pytest.mark.xdist_group("dask")

KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"
AXES = ("num_warps=1,2,4,8", "waves_per_eu=0,1,2")


@pytest.fixture(scope="module")
def local_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Two workers, processes of their own with nannies that restart them, and their own store."""
    distributed = pytest.importorskip("distributed")  # here: all workers would import it
    folder = tmp_path_factory.mktemp("dask")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
        local_directory=str(folder),
        env={"KINSPECT_CACHE_DIR": str(folder / "store")},
    ) as one:
        yield one


@pytest.fixture(scope="module")
def request_() -> SweepRequest:
    run = Request((str(KERNELS),), ("gfx942",), kernel="row_sum", jobs=2)
    return SweepRequest(run, axes_of(AXES))


@pytest.fixture(scope="module")
def expected(request_: SweepRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What this machine alone makes of it."""
    return by_point(collect(request_).rows)


def by_point(rows: list[Any]) -> dict[str, Any]:
    found = {}
    for row in rows:
        point = row.point
        key = f"{point.variant.kernel} {point.variant.case} {json.dumps(dict(point.values))}"
        assert key not in found, "a point came twice"
        found[key] = (row.figures, row.error)
    return found


def triton_key() -> str:
    with Compiler(CompileSettings()) as compiler:
        return compiler.toolchain().triton_key


def test_a_cluster_gives_what_this_machine_gives_though_a_worker_is_killed(
    local_cluster: Any, request_: SweepRequest, expected: dict[str, Any]
) -> None:
    pids = {worker.pid for worker in local_cluster.workers.values()}
    killed = []
    rows = []
    with cluster.connected(local_cluster.scheduler_address) as executor:
        work = cluster.work_for(triton_key(), None, run_point)
        for event in sweep(request_, executor, work):
            if not isinstance(event, PointDone):
                continue
            rows.append(event.row)
            if len(rows) == 3:  # both are at work on the next ones
                killed.append(min(pids))
                os.kill(killed[0], signal.SIGKILL)
    assert killed
    assert by_point(rows) == expected
    assert all(row.figures is not None for row in rows)
    assert {row.host for row in rows} == {None}  # these workers are processes of this machine
    now = {worker.pid for worker in local_cluster.workers.values()}
    assert killed[0] not in now
    # Its nanny has started another one, and it answers from the same store.
    with cluster.connected(local_cluster.scheduler_address) as executor:
        again = [
            event.row
            for event in sweep(request_, executor, cluster.work_for(triton_key(), None, run_point))
            if isinstance(event, PointDone)
        ]
    assert by_point(again) == expected
    assert all(row.from_store for row in again)


ALWAYS = """
- id: T1
  name: always
  severity: info
  scope: kernel
  require: instruction_count < 0
  message: m
  cures: [{option: num_warps, values: [1, 2]}, {option: waves_per_eu, values: [2]}]
"""


def test_trials_run_on_a_cluster_as_here(local_cluster: Any) -> None:
    pack = parse_pack(ALWAYS, "always.yaml", catalogue())
    run = Request(
        (str(KERNELS),),
        ("gfx942",),
        kernel="row_sum",
        jobs=2,
        passes=False,
        analysis=AnalysisOptions(rules=pack),
    )
    report = analysed(run)
    request = TryRequest(run, pack, None, 600.0)

    def rows(executor: Any = None, work: Any = None) -> list[list[Any]]:
        trials = Trials(request, report)
        for _ in trials.events(executor, work):
            pass
        return [[row.trial for row in kernel.rows] for kernel in trials.result().kernels]

    with cluster.connected(local_cluster.scheduler_address) as executor:
        there = rows(executor, cluster.work_for(triton_key(), None, run_trial))
    assert there == rows()
    assert all(len(of_kernel) > 1 for of_kernel in there)


@pytest.mark.slow
def test_the_command_line(local_cluster: Any, tool: Any, expected: dict[str, Any]) -> None:
    arguments = [part for axis in AXES for part in ("--set", axis)]
    for _ in range(2):  # the second is answered from the workers' store
        done = tool(
            *("sweep", KERNELS, "--kernel", "row_sum", "--arch", "gfx942", "--format", "json"),
            *arguments,
            *("--scheduler", local_cluster.scheduler_address),
        )
        assert done.returncode == 0, done.stderr
        report = json.loads(done.stdout)
    assert report["points"] == {
        "done": len(expected),
        "failed": 0,
        "from_store": len(expected),
        "missing": 0,
    }
    assert not report["notes"]


def test_a_worker_with_another_triton_is_refused(
    local_cluster: Any, request_: SweepRequest
) -> None:
    with cluster.connected(local_cluster.scheduler_address) as executor:
        work = cluster.work_for("another build", None, run_point)
        rows = [e.row for e in sweep(request_, executor, work) if isinstance(e, PointDone)]
    assert rows
    assert all(row.figures is None for row in rows)
    assert all("another build of Triton" in row.error.message for row in rows)


def test_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1.0)
    nobody = cluster.connected("tcp://127.0.0.1:9")
    with pytest.raises(KinspectError, match="no Dask scheduler answers at tcp://127"):
        nobody.__enter__()


def test_a_cluster_without_workers() -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=None, processes=False) as empty,
        pytest.raises(KinspectError, match="has no workers"),
        cluster.connected(empty.scheduler_address),
    ):
        pass
