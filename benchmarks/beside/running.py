"""Many processes at work: launches in emulators, and sweeps."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator

from kinspect.inspector.capture.sweep_axes import count

from .. import sweep
from ..lint import tool
from .measuring import ARCH, ROOT, Bench, Row, Step, table

EMULATED = """
import json, os, sys, tempfile, time
tests, name, arch, grid = sys.argv[1:]
sys.path.insert(0, tests)
from pathlib import Path
from kinspect.inspector.pipeline.emulating import keep_freed_memory
from test_emulator_whole_kernels import CHECKOUT, Compiled
keep_freed_memory()  # as the process that executes launches does
with tempfile.TemporaryDirectory() as folder:
    compiled = Compiled(name, arch, Path(folder))
    compiled.grid = int(grid)
    figures, outcomes = {}, []
    for label, checks in (("first launch", True), ("second launch", True),
                          ("second launch, no checks or counts", False)):
        start, cpu = time.perf_counter(), time.process_time()
        compiled.emulated(checks)
        figures["kinspect, " + label] = {
            "seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
        if not outcomes:
            run = compiled.emulator.run
            compiled.emulator.run = lambda *given: (outcomes.append(run(*given)), outcomes[-1])[1]
    if CHECKOUT:
        seconds = compiled.witnessed(2)[1]
        for number, label in enumerate(("first launch", "second launch")):
            figures["tinygrad, " + label] = (
                {"error": seconds} if isinstance(seconds, str) else {"seconds": seconds[number]})
    work = int(outcomes[0].executed.sum()) * compiled.lanes
    for figure in figures.values():
        figure["work"] = work
    print(json.dumps(figures))
"""
"""Launches of one kernel of the tests by both emulators."""


EMULATED_CASES = (("add", 4), ("gemm", 1), ("gemm", 64))
"""Kernel of the tests, workgroups."""


DASK = """
import json, os, shutil, subprocess, sys, time
from pathlib import Path
import distributed, psutil
folder, workers = sys.argv[1:3]
def cpu():
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    return sum(sum(process.cpu_times()[:4]) for process in mine)
if __name__ == "__main__":
    for entry in Path(folder, "store").glob("artifacts-*"):
        shutil.rmtree(entry)
    with distributed.LocalCluster(
        n_workers=int(workers), threads_per_worker=1, processes=True, dashboard_address=None,
        local_directory=folder, env={"KINSPECT_CACHE_DIR": folder + "/store"},
    ) as cluster:
        before, start = cpu(), time.perf_counter()
        subprocess.run([*sys.argv[3:], "--scheduler", cluster.scheduler_address], check=True,
                       stdout=subprocess.DEVNULL)
        print(json.dumps({"": {"seconds": time.perf_counter() - start, "cpu": cpu() - before}}))
"""
"""A sweep on a cluster that runs already, as its users have it, with a store of its own."""


def emulators(bench: Bench) -> Iterator[str]:
    """Both emulators on the same code objects."""
    checkout = bench.missing("tinygrad")
    env = {} if checkout else {"KINSPECT_TINYGRAD": bench.tools["tinygrad"] or ""}
    for name, grid in EMULATED_CASES[:1] if bench.quick else EMULATED_CASES:
        arguments = [str(ROOT / "tests"), name, "gfx1100", str(grid)]
        step = Step("", [sys.executable, "-c", EMULATED, *arguments], reports=True, env=env)
        rows = bench.measured([step])
        if checkout:
            rows.append(Row("tinygrad", missing=checkout))
        note = (
            "Each round is a new process; the first launch counts reading and preparing the code"
            " object. Instructions of lanes: instructions of the waves times 32, masked lanes"
            " included, the same for both. tinygrad's emulator has no checks and no counts; what it"
            " keeps on disk it may use; its CPU seconds are not known."
        )
        title = f"Emulator: {name}, gfx1100, {grid} workgroups of 4 waves"
        yield from table(title, note, rows, "M instr. of lanes/s")
        yield ""


def sweeps(bench: Bench) -> Iterator[str]:
    """One sweep on several numbers of processes, and on a cluster."""
    axes = sweep.AXES[:2] if bench.quick else sweep.AXES[:5]
    steps = []
    for jobs in (1, 2):
        command = [*tool(), *sweep.arguments(jobs, axes)]
        bare = sweep.bare_command("{fresh}/triton", jobs, axes)
        steps += [
            Step(f"bare `triton.compile`, processes: {jobs}", bare),
            Step(f"`kinspect sweep -j {jobs}`", command),
        ]
    steps.append(Step("`kinspect sweep -j 2` again, from the store", command, keeps=True))
    try:
        importlib.metadata.version("distributed")
        missing = ""
    except importlib.metadata.PackageNotFoundError:
        missing = "not installed"
    script = bench.folder / "dask_sweep.py"
    script.write_text(DASK)
    cluster = [sys.executable, str(script), str(bench.folder / "cluster"), "4", *command]
    steps.append(Step("`kinspect sweep --scheduler`, 4 workers", cluster, missing, reports=True))
    note = (
        f"Whole processes. The workers of the Dask cluster run on the same {os.cpu_count()} CPUs;"
        " starting the cluster does not count."
    )
    title = f"Sweep: {count(axes)} configurations of the bundled GEMM, {ARCH}"
    yield from table(title, note, bench.measured(steps))
