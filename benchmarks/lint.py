"""What linting saved kernels costs: `python -m benchmarks.lint [--kernels 1000,5000]`.

The kernels are the bundled ones as compiled for three targets, each copy a text of its own: a
folder as Triton's cache has it, with TTIR, TTGIR, metadata and code object
beside each assembly, and the same as one `.kinspect` file with their reports. Each is linted by the
command as users run it, on two processes; memory is what all processes together hold at most, pages
that they share counted once (PSS), by samples of /proc.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kinspect.inspector.capture.targets import STAGES
from kinspect.inspector.model import Artifact, KernelReport, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.report import saved
from msgspec.structs import replace

ROOT = Path(__file__).parent.parent
ARCHS = ("gfx90a", "gfx942", "gfx1100")
JOBS = 2
AIM_SECONDS = 10.0
AIM_BYTES = 400e6
AIM_PROCESS_MS = 250
_ARTIFACTS = ("metadata", "ttir", "ttgir", "amdgcn", "hsaco")


@dataclass(frozen=True, slots=True)
class Cost:
    """One run of a command: seconds, seconds of CPU, peak bytes of all its processes."""

    seconds: float
    cpu: float
    peak: int
    status: int


def main() -> None:
    """Runs and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", default="1000,5000", help="how many, one or more")
    parser.add_argument("--saved", help="kernels to copy, a .kinspect file  [the bundled ones]")
    options = parser.parse_args()
    print_lint([int(n) for n in options.kernels.split(",")], options.saved)


def print_lint(counts: Sequence[int], made: str | None = None) -> None:
    """Seconds and memory for each number of kernels, as a folder and as one file.

    Args:
        counts: how many kernels.
        made: a `.kinspect` file whose kernels are copied; None: the bundled ones are compiled.
    """
    archs = ARCHS if made is None else ()
    target = made or str(ROOT / "kernels")
    report = collect(Request((target,), archs, passes=False, jobs=JOBS, python=sys.executable))
    kernels = [k for k in report.kernels if set(_ARTIFACTS) <= set(k.artifacts)]
    size = sum(k.artifacts["amdgcn"].size for k in kernels) / len(kernels)
    count = sum(_instructions(k) for k in kernels) / len(kernels)
    print(
        f"\nlint of saved kernels, {JOBS} processes; on average {size / 1e3:.0f} kB of assembly and"
        f" {count:.0f} instructions each"
    )
    costs = {number: _linted(report, kernels, number) for number in counts}
    print(f"  (aims: 1000 in at most {AIM_SECONDS:g} s and {AIM_BYTES / 1e6:g} MB, then linear)")
    if len(counts) > 1:
        for form in ("folder", ".kinspect"):
            few, many = (costs[n][form].cpu / n for n in (min(counts), max(counts)))
            print(
                f"  {form:<10} CPU a kernel, {max(counts)} against {min(counts)}:"
                f" {many / few:.2f} x"
            )


def _linted(report: Report, kernels: Sequence[KernelReport], number: int) -> dict[str, Cost]:
    """Lints so many copies of kernels, and prints what each form costs: folder, `.kinspect`."""
    costs = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cache, archive = folder / "cache", folder / "all.kinspect"
        _write_cache(kernels, number, cache)
        _write_archive(report, kernels, number, archive)
        env = {
            "KINSPECT_CACHE_DIR": str(folder / "store"),
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        run(["lint", str(next(cache.iterdir()))], env)  # as after an installation
        for form, place in (("folder", cache), (".kinspect", archive)):
            cost = costs[form] = run(["lint", str(place), "-j", str(JOBS)], env)
            print(
                f"  {number:6} kernels, {form:<10} {cost.seconds:7.1f} s ({cost.cpu:6.1f} s of"
                f" CPU, {cost.cpu / number * 1e3:5.1f} ms a kernel)"
                f"   peak {cost.peak / 1e6:6.0f} MB   exit {cost.status}"
            )
    return costs


def print_process(path: Path, runs: int) -> None:
    """Where the time of `kinspect analyze saved.s` and `kinspect lint saved.s` goes."""
    steps = {
        "interpreter": [sys.executable, "-c", "pass"],
        "imports": [sys.executable, "-c", _IMPORTS],
        "analyze saved.s": [*tool(), "analyze", str(path)],
        "lint saved.s": [*tool(), "lint", str(path)],
    }
    times: dict[str, list[Cost]] = {name: [] for name in steps}
    with tempfile.TemporaryDirectory() as folder:
        # As after an installation: byte code is there.
        env = {"PYTHONPYCACHEPREFIX": folder}
        for _ in range(runs + 1):
            for name, command in steps.items():
                times[name].append(timed(command, env))
    print(f"\none saved file of {path.stat().st_size / 1e3:.0f} kB, medians of {runs}, run in turn")
    for name, seen in times.items():
        wall = statistics.median(cost.seconds for cost in seen[1:])
        cpu = statistics.median(cost.cpu for cost in seen[1:])
        print(f"  {name:<18} {wall * 1e3:6.0f} ms   CPU {cpu * 1e3:6.0f} ms")
    print(f"  (aim: at most {AIM_PROCESS_MS} ms, whole process)")


_IMPORTS = (
    "from kinspect.inspector.cli import group, analyze;"
    " from kinspect.inspector.present import report"
)


def tool() -> list[str]:
    """The command as users have it."""
    script = Path(sys.executable).with_name("kinspect")
    return [str(script)] if script.exists() else [sys.executable, "-m", "kinspect.inspector.cli"]


def installed(added: Mapping[str, str]) -> dict[str, str]:
    """The environment with byte code kept, as everywhere but in development, and what is added."""
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **added}


def timed(command: Sequence[str], env: Mapping[str, str]) -> Cost:
    """Seconds and CPU seconds of a process and those it waited for."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=installed(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    return Cost(seconds, usage.ru_utime + usage.ru_stime, 0, process.returncode)


def run(arguments: Sequence[str], env: Mapping[str, str]) -> Cost:
    """Runs the command and samples what its processes hold."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [*tool(), *arguments],
        env=installed(env),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    peak = 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        peak = max(peak, sum(map(_memory_bytes, _family(process.pid))))
        time.sleep(0.1)
    process.returncode = os.waitstatus_to_exitcode(status)
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(time.perf_counter() - started, cpu, peak, process.returncode)


def _family(pid: int) -> list[int]:
    """A process and its children."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return [pid]
    return [pid, *map(int, text.split())]


def _memory_bytes(pid: int) -> int:
    """Bytes of memory of a process, its share of what others hold, too."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0  # it has just ended
    match = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match is not None else 0


def _instructions(kernel: KernelReport) -> int:
    value = kernel.metrics["instruction_count"].value
    return value if isinstance(value, int) else 0


def varied(text: str, number: int) -> str:
    """An assembly of its own: no content is met twice."""
    return f"{text}\n; copy {number}\n"


def _write_cache(kernels: Sequence[KernelReport], number: int, root: Path) -> None:
    for n in range(number):
        kernel = kernels[n % len(kernels)]
        folder = root / f"{n:06}"
        folder.mkdir(parents=True)
        for kind in _ARTIFACTS:
            target = folder / f"{kernel.name}{STAGES[kind]}"
            source = kernel.artifacts[kind].path
            if kind == "amdgcn":
                target.write_text(varied(source.read_text(), n))
            else:
                shutil.copyfile(source, target)


def _write_archive(
    report: Report, kernels: Sequence[KernelReport], number: int, path: Path
) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        copies = []
        for n in range(number):
            kernel = kernels[n % len(kernels)]
            digest = f"{n:064x}"
            place = Path(folder) / digest
            place.write_text(varied(kernel.artifacts["amdgcn"].path.read_text(), n))
            digest = _sha256(place)
            place = place.rename(Path(folder) / digest)
            artifacts = dict(kernel.artifacts)
            artifacts["amdgcn"] = Artifact("amdgcn", digest, place.stat().st_size, place)
            copies.append(replace(kernel, id=f"{kernel.id}~{n}", artifacts=artifacts))
        saved.save(replace(report, kernels=tuple(copies), errors=()), path)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    main()
