"""kinspect beside other tools, on the same inputs in one run, in turns.

    python -m kinspect.benchmarks.side_by_side --tritonparse PYTHON --tinygrad CHECKOUT \\
        --compiler-explorer triton_wrapper.py --output SIDE_BY_SIDE.md

Every figure is the median of some rounds; in a round each step runs once. A round before these
writes byte code and shows what fails. What others' tools need stands in environments of their own.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib.metadata
import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.capture.sweep_axes import count
from kinspect.inspector.compile.worker import Worker
from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.version import VERSION

from . import sweep
from .capture import specialisation
from .lint import Cost, installed, timed, tool, varied

ROOT = Path(__file__).parent.parent
ARCH = "gfx942"
SCRIPTS = {
    "vector add": """
import sys
import torch
sys.path.insert(0, {kernels!r})
import vector_add
x, y = torch.empty(98304), torch.empty(98304)
vector_add.launch(x, y, {{"BLOCK": 1024, "num_warps": {warps}}})
""",
    "GEMM fp16, tile 128x128x64": """
import sys
import torch
sys.path.insert(0, {kernels!r})
import gemm_all_types
a, b = (torch.empty(2048, 2048, dtype=torch.float16) for _ in range(2))
gemm_all_types.launch(a, b, config={{**gemm_all_types.CONFIGS["hip"], "num_warps": {warps}}})
""",
}
"""Launches of one bundled kernel; on the CPU, since Compiler Explorer's wrapper wants it so."""
COMPILE = """
import json, os, sys
work, benchmarks, folder = sys.argv[1:4]
os.environ["TRITON_CACHE_DIR"] = folder + "/triton"
import torch, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
sys.path.insert(0, benchmarks)
from bare import constants, load
if len(sys.argv) > 4:
    import tritonparse.structured_logging
    tritonparse.structured_logging.init(folder + "/trace")
for s in json.load(open(work)):
    kernel = getattr(load(s["file"]), s["kernel"])
    attrs = {(kernel.arg_names.index(name),): [[k, v] for k, v in facts.items()]
             for name, facts in s["attrs"].items()}
    source = ASTSource(kernel, s["signature"], constants(s["constexprs"]), attrs)
    target = GPUTarget("hip", s["arch"], s["wave_size"])
    triton.compile(source, target=target, options=s["options"])
if len(sys.argv) > 4:
    from tritonparse.parse.utils import unified_parse
    unified_parse(folder + "/trace", out=folder + "/parsed", overwrite=True, skip_logger=True)
"""
"""Arguments: specialisations as JSON, the folder of `bare.py`, a folder, whether to trace."""
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


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a section.

    Args:
        name: in the table.
        command: with `{fresh}` for a folder that is empty in each round.
        missing: why it cannot run, e.g. `not installed`.
        keeps: whether kinspect's store is left as the steps before it made it.
        reports: whether it times itself, printing {row: {"seconds", "cpu", "work"}} as JSON; a
            step without a name makes several rows.
        env: variables beside the environment's.
    """

    name: str
    command: Sequence[str]
    missing: str = ""
    keeps: bool = False
    reports: bool = False
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Row:
    """A line of a table.

    Args:
        name: of the step.
        costs: of each round.
        work: of one run, e.g. instructions of lanes; None where it is not counted.
        missing: why there are no costs.
    """

    name: str
    costs: list[Cost] = field(default_factory=list)
    work: int | None = None
    missing: str = ""

    @property
    def seconds(self) -> float:
        """Median wall seconds."""
        return statistics.median(cost.seconds for cost in self.costs)

    @property
    def cpu(self) -> float:
        """Median CPU seconds; NaN where they are not known."""
        return statistics.median(cost.cpu for cost in self.costs)


@dataclass(frozen=True, slots=True)
class Bench:
    """What all sections share.

    Args:
        folder: scratch.
        rounds: that count.
        quick: whether inputs are small.
        tools: others' tools, as the options name them; None: not given.
    """

    folder: Path
    rounds: int
    quick: bool
    tools: Mapping[str, str | None]

    def measured(self, steps: Iterable[Step]) -> list[Row]:
        """Runs the steps in turns."""
        rows: dict[str, Row] = {}
        runnable = []
        for step in steps:
            problem = step.missing or self._run(step, None)
            if problem or not step.reports:
                rows[step.name] = Row(step.name, missing=problem)
            if not problem:
                runnable.append(step)
        for _ in range(self.rounds):
            for step in runnable:
                problem = self._run(step, rows)
                if problem:
                    rows.setdefault(step.name, Row(step.name)).missing = problem
        return list(rows.values())

    def _run(self, step: Step, rows: dict[str, Row] | None) -> str:
        """Runs a step once and adds its costs to its rows, if any; why it fails, if it does."""
        store, fresh = self.folder / "store", self.folder / "fresh"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        if not step.keeps:
            # What Triton is does not change between runs: its key is kept as between two days.
            for entry in store.glob("artifacts-*"):
                shutil.rmtree(entry)
        command = [part.replace("{fresh}", str(fresh)) for part in step.command]
        env = {
            "KINSPECT_CACHE_DIR": str(store),
            "PYTHONPYCACHEPREFIX": str(self.folder / "bytecode"),
            "TRITON_DEFAULT_FP_FUSION": "1",
            **step.env,
        }
        # Status 1 is a finding of lint, not a failure.
        good = (0, 1) if "lint" in command else (0,)
        if rows is not None and not step.reports:
            cost = timed(command, env)
            rows[step.name].costs.append(cost)
            return "" if cost.status in good else f"fails with status {cost.status}"
        try:
            done = subprocess.run(
                command, env=installed(env), capture_output=True, text=True, check=False
            )
        except OSError as error:
            return f"does not start: {error.strerror}"
        if done.returncode not in good:
            last = (done.stderr or done.stdout).strip().splitlines() or [""]
            return f"fails: {last[-1][:160]}"
        if rows is None:
            return ""
        for part, figure in json.loads(done.stdout.splitlines()[-1]).items():
            name = step.name or part
            row = rows.setdefault(name, Row(name, work=figure.get("work")))
            if "error" in figure:
                row.missing = f"fails: {figure['error']}"
            else:
                row.costs.append(Cost(figure["seconds"], figure.get("cpu", math.nan), 0, 0))
        return ""

    def missing(self, option: str) -> str:
        """Why a tool that an option names cannot be run; empty if it can."""
        place = self.tools[option]
        if place is None:
            return f"not installed (give --{option})"
        return "" if Path(place).exists() else f"not installed ({option}: no such file)"


def main() -> int:
    """Runs the sections and writes the tables; 1 where one of them failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one round, small inputs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", metavar="SECTION,...", help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--output", type=Path, metavar="FILE.md")
    parser.add_argument("--tritonparse", metavar="PYTHON", help="that has tritonparse and Triton")
    parser.add_argument(
        "--tinygrad", metavar="CHECKOUT", help="of tinygrad: its emulator is in no wheel"
    )
    parser.add_argument("--compiler-explorer", metavar="FILE", help="its triton_wrapper.py")
    parser.add_argument("--rocprof-compute", metavar="COMMAND", help="the program")
    parser.add_argument("--rocprof-workload", metavar="FOLDER", help="recorded by it, to analyse")
    options = parser.parse_args()
    names = ("tritonparse", "tinygrad", "compiler-explorer", "rocprof-compute", "rocprof-workload")
    tools = {name: getattr(options, name.replace("-", "_")) for name in names}
    rounds, failed = 1 if options.quick else options.rounds, 0
    lines = list(heading(tools, options.quick, rounds))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), rounds, options.quick, tools)
        for name in options.only.split(",") if options.only else SECTIONS:
            print(f"{datetime.datetime.now():%H:%M:%S} {name}", file=sys.stderr, flush=True)
            try:
                lines += ["", *SECTIONS[name](bench)]
            except Exception as error:  # what the others took minutes for is kept
                traceback.print_exc()
                lines += ["", f"## {name}", "", f"Failed: {type(error).__name__}: {error}"]
                failed = 1
    lines += ["", f"Load at the end: {load()}."]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"
    if options.output is None:
        sys.stdout.write(text)
    else:
        options.output.write_text(text, encoding="utf-8")
    return failed


def heading(tools: Mapping[str, str | None], quick: bool, rounds: int) -> Iterator[str]:
    """What was run, where, and with which versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    yield "# kinspect beside other tools"
    yield ""
    yield (
        f"Made by `python -m kinspect.benchmarks.side_by_side` on {datetime.date.today()}:"
        f" {cpu_model()}, {os.cpu_count()} CPUs, {memory:.0f} GiB of memory,"
        f" {platform.system()}; load at the start: {load()}."
    )
    yield ""
    if quick:
        yield "**A run with --quick: it shows that every part works. Do not quote its figures.**"
        yield ""
    yield (
        f"Medians of {rounds}, least and most in brackets; all steps of a table take turns."
        " A ratio is to the table's first row, by medians. CPU seconds are of"
        " the process and all that it waits for. kinspect's store is empty unless the row says"
        " otherwise, but has Triton's key, a hash of Triton's files that bare Triton computes in each"
        " process; byte code is there, as after an installation."
    )
    yield ""
    yield "Versions: " + ", ".join(versions(tools)) + "."


def versions(tools: Mapping[str, str | None]) -> Iterator[str]:
    """All that takes part."""
    yield f"kinspect {VERSION}"
    yield f"Python {platform.python_version()}"
    for package in ("torch", "triton", "numpy", "distributed"):
        try:
            yield f"{package} {importlib.metadata.version(package)}"
        except importlib.metadata.PackageNotFoundError:
            yield f"{package} not installed"
    for program in ("llvm-mca-22", "llvm-objdump-22"):
        text = output([program, "--version"])
        match = re.search(r"LLVM version ([\d.]+)", text)
        yield f"{program} {match[1] if match else 'not installed'}"
    python = tools["tritonparse"]
    code = "from importlib.metadata import version as v; print(v('tritonparse'), v('triton'))"
    pair = output([python, "-c", code]).split() if python else []
    theirs = f"{pair[0]} with triton {pair[1]}" if len(pair) == 2 else "not installed"
    yield f"tritonparse {theirs}"
    yield tinygrad_version(tools["tinygrad"])
    script = tools["compiler-explorer"]
    known = "not installed"
    if script and Path(script).exists():
        known = f"(SHA-256 {hashlib.sha256(Path(script).read_bytes()).hexdigest()[:12]}…)"
    yield f"Compiler Explorer's triton_wrapper.py {known}"
    command = tools["rocprof-compute"]
    first = output([command, "--version"]).split("\n")[0] if command else "not installed"
    yield f"rocprof-compute {first}"


def tinygrad_version(checkout: str | None) -> str:
    """As its pyproject.toml has it."""
    path = Path(checkout or "", "pyproject.toml")
    if checkout is None or not path.exists():
        return "tinygrad not installed"
    version = re.search(r'^version = "(.*)"', path.read_text(), re.MULTILINE)
    return f"tinygrad {version[1] if version else 'of unknown version'} (a checkout)"


def output(command: Sequence[str]) -> str:
    """What a command prints; nothing if it does not start."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def cpu_model() -> str:
    """As the kernel names it."""
    match = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return match[1] if match else "CPU of unknown model"


def load() -> str:
    """Load averages."""
    return "/".join(f"{value:.2f}" for value in os.getloadavg())


def table(title: str, note: str, rows: Sequence[Row], work: str = "") -> Iterator[str]:
    """A section: what it compares, and the figures.

    Args:
        title: its heading.
        note: what the reader must know of it; may be empty.
        rows: the first one is what the others' ratios refer to.
        work: unit of the rows' work per second; without it there is no such column.
    """
    yield f"## {title}"
    yield ""
    if note:
        yield note
        yield ""
    yield "| step | wall, s | ratio | CPU, s | ratio |" + (f" {work} |" if work else "")
    yield "|---|--:|--:|--:|--:|" + ("--:|" if work else "")
    base = next((row for row in rows[:1] if row.costs and not row.missing), None)
    for row in rows:
        if row.missing:
            yield f"| {row.name} | {row.missing} | | | |" + (" |" if work else "")
            continue
        walls = [cost.seconds for cost in row.costs]
        rate = f" {row.work / row.seconds / 1e6:.2f} |" if work and row.work is not None else ""
        wall_ratio = row.seconds / base.seconds if base else math.nan
        cpu_ratio = row.cpu / base.cpu if base else math.nan
        yield (
            f"| {row.name} | {row.seconds:.3f} ({min(walls):.3f}–{max(walls):.3f}) |"
            f" {shown(wall_ratio, 2)} | {shown(row.cpu)} | {shown(cpu_ratio, 2)} |{rate}"
        )


def shown(value: float, digits: int = 3) -> str:
    """A figure; a dash where it is not known."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"


def start(bench: Bench) -> Iterator[str]:
    """Cold start."""
    parse = str(Path(bench.tools["tritonparse"] or "").parent / "tritonparseoss")
    steps = [
        Step("`python -c pass`", [sys.executable, "-c", "pass"]),
        Step("`import torch, triton`", [sys.executable, "-c", "import torch, triton"]),
        Step("`import kinspect`", [sys.executable, "-c", "import kinspect"]),
        Step("`kinspect --version`", [*tool(), "--version"]),
        Step("`kinspect --help`", [*tool(), "--help"]),
        Step("`tritonparseoss --help`", [parse, "--help"], bench.missing("tritonparse")),
    ]
    yield from table("Start", "", bench.measured(steps))


def scripts(bench: Bench) -> Iterator[str]:
    """From a script to the report of its kernel."""
    wrapper = bench.tools["compiler-explorer"] or ""
    for name in SCRIPTS:
        script, work = written(bench, name, 4), bench.folder / "work.json"
        work.write_text(json.dumps(specialisations([script])))
        analyze = [*tool(), "analyze", str(script), "--arch", ARCH]
        compiled = ["-c", COMPILE, str(work), str(ROOT / "benchmarks"), "{fresh}"]
        explorer = [sys.executable, wrapper, str(script), "--output_file", "{fresh}/out.s"]
        explorer += ["--backend", "hip", "--arch", ARCH, "--warp_size", "64"]
        steps = [
            Step("bare: import torch, `triton.compile`", [sys.executable, *compiled]),
            Step("`kinspect analyze --no-passes`", [*analyze, "--no-passes"]),
            Step("`kinspect analyze`", analyze),
            Step("`kinspect analyze` again, from the store", analyze, keeps=True),
            Step(
                "tritonparse: compile with its trace, parse",
                [bench.tools["tritonparse"] or "", *compiled, "trace"],
                bench.missing("tritonparse"),
            ),
            Step(
                "Compiler Explorer's wrapper (stages only, no metrics)",
                explorer,
                bench.missing("compiler-explorer"),
            ),
            rocprof(bench),
        ]
        note = (
            "rocprof-compute reads counters that were recorded on a GPU: it does other work."
            " Bare and tritonparse compile the specialisation that kinspect captures from the"
            " script; they do not run the script."
        )
        yield from table(f"Script → report: {name}, {ARCH}", note, bench.measured(steps))
        yield ""


def rocprof(bench: Bench) -> Step:
    """rocprof-compute's analysis; it is in no package index."""
    command, workload = bench.tools["rocprof-compute"], bench.tools["rocprof-workload"]
    missing = "" if command and workload else "not installed (pip has no such package)"
    if command and not workload:
        missing = "no recorded workload (give --rocprof-workload)"
    arguments = [command or "", "analyze", "-p", workload or ""]
    return Step("`rocprof-compute analyze`", arguments, missing)


def diffs(bench: Bench) -> Iterator[str]:
    """Comparing two builds of a kernel."""
    name = list(SCRIPTS)[-1]
    pair = [written(bench, name, warps) for warps in (4, 8)]
    saved = []
    for number, script in enumerate(pair):
        saved.append(str(bench.folder / f"{number}.kinspect"))
        command = [*tool(), "analyze", str(script), "--arch", ARCH, "--save", saved[-1]]
        subprocess.run(command, check=True, capture_output=True)
    missing, parsed = bench.missing("tritonparse"), ""
    python = bench.tools["tritonparse"] or ""
    if not missing:
        work, traced = bench.folder / "work.json", bench.folder / "traced"
        work.write_text(json.dumps(specialisations(pair)))
        command = [python, "-c", COMPILE, str(work), str(ROOT / "benchmarks"), str(traced), "trace"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        files = sorted(map(str, traced.glob("parsed/*.ndjson*")))
        parsed = files[0] if files else ""
        missing = "" if parsed else f"fails: nothing was parsed {done.stderr.strip()[-100:]}"
    # By default it uploads both traces.
    theirs = [str(Path(python).parent / "tritonparseoss"), "diff", parsed, "--events", "0,1"]
    theirs += ["--no-share", "--no-url", "--output", "{fresh}/diff.ndjson"]
    steps = [
        Step("`kinspect diff A.kinspect B.kinspect`", [*tool(), "diff", *saved]),
        Step("`tritonparseoss diff --events 0,1 --no-share`", theirs, missing),
    ]
    note = "4 waves against 8, both compiled and saved before."
    yield from table(f"Diff: {name}", note, bench.measured(steps))


def written(bench: Bench, name: str, warps: int) -> Path:
    """The script of one kernel, as a file."""
    path = bench.folder / f"{'_'.join(re.findall('[a-zA-Z0-9]+', name))}_{warps}.py"
    path.write_text(SCRIPTS[name].format(kernels=str(ROOT / "kernels"), warps=warps))
    return path


def specialisations(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """What scripts launch, as `bare.py` takes it."""
    work: list[dict[str, Any]] = []
    with Worker() as worker:
        for path in paths:
            variants, errors = capture_script(worker, path, [ARCH])
            assert not errors, errors
            work += [specialisation(variant) for variant in variants]
    return work


def assembly(bench: Bench) -> Iterator[str]:
    """One assembly and one code object, small and large."""
    kernels = bundled(bench)
    small = min(kernels, key=lambda k: abs(k.artifacts["amdgcn"].size - 60_000))
    for size, members in ((60_000, [small]), (1_000_000, enough(kernels, 1_000_000))):
        source, code = bench.folder / f"{size}.s", bench.folder / f"{size}.hsaco"
        loops = bench.folder / f"{size}.loops.s"
        problem = ""
        if len(members) == 1:
            shutil.copyfile(small.artifacts["amdgcn"].path, source)
            shutil.copyfile(small.artifacts["hsaco"].path, code)
        else:
            source.write_text(joined(members))
            problem = assembled(members, code)
        loops.write_text("".join(map(hot_loops, members)))
        mca = ["llvm-mca-22", "-mtriple=amdgcn", f"-mcpu={ARCH}", str(loops)]
        analyze = [*tool(), "analyze"]
        steps = [
            Step("`kinspect analyze x.s`", [*analyze, str(source)]),
            Step("`llvm-mca-22` on the hot loops", mca, absent(mca[0])),
            Step("`kinspect analyze x.hsaco`", [*analyze, str(code)], problem),
            Step(
                "`llvm-objdump-22 -d x.hsaco`",
                ["llvm-objdump-22", "-d", str(code)],
                problem or absent("llvm-objdump-22"),
            ),
        ]
        note = (
            "llvm-mca does other work: it simulates 100 iterations of the hot loops alone;"
            " llvm-objdump disassembles and says nothing of the code."
            + (" The joined code object has no line tables." if len(members) > 1 else "")
        )
        title = f"Assembly of {source.stat().st_size / 1e3:.0f} kB, kernels: {len(members)}"
        yield from table(title, note, bench.measured(steps))
        yield ""


def absent(program: str) -> str:
    """Why a program of the system cannot be run; empty if it can."""
    return "" if shutil.which(program) else "not installed"


def bundled(bench: Bench) -> list[KernelReport]:
    """Bundled kernels as compiled for one target, the smallest first; from the user's store."""
    names = ("vector_add", "gemm_all_types") if bench.quick else ("",)
    targets = tuple(str(ROOT / "kernels" / (f"{name}.py" if name else "")) for name in names)
    report = collect(Request(targets, (ARCH,), passes=False, python=sys.executable))
    kernels = [k for k in report.kernels if {"amdgcn", "hsaco"} <= set(k.artifacts)]
    return sorted(kernels, key=lambda kernel: kernel.artifacts["amdgcn"].size)


def enough(kernels: Sequence[KernelReport], size: int) -> list[KernelReport]:
    """Kernels, some several times, whose assembly has so many bytes together."""
    taken: list[KernelReport] = []
    while size > 0:
        taken.append(kernels[len(taken) % len(kernels)])
        size -= taken[-1].artifacts["amdgcn"].size
    return taken


def parts(kernels: Sequence[KernelReport]) -> Iterator[str]:
    """Assembly of each kernel, its labels and its name met once."""
    for number, kernel in enumerate(kernels):
        text = kernel.artifacts["amdgcn"].path.read_text()
        text = text.replace(kernel.name, f"{kernel.name}_{number}")
        yield re.sub(r"\.L([A-Za-z_]+)(\d)", rf".L{number}x\1\2", text)


def joined(kernels: Sequence[KernelReport]) -> str:
    """One file of many kernels."""
    texts = list(parts(kernels))
    return "\n".join([texts[0], *(re.sub(r"\s\.amdgcn_target.*\n", "\n", t) for t in texts[1:])])


def assembled(kernels: Sequence[KernelReport], path: Path) -> str:
    """Writes a code object of many kernels, without line tables; why that failed, if it did."""
    code, metadata, target = [], [], f"amdgcn-amd-amdhsa--{ARCH}"
    for text in parts(kernels):
        body, _, rest = text.partition("\t.section\t.debug_abbrev")
        code.append(
            re.sub(r"(?m)^\s*\.(amdgcn_target|amdhsa_code\w+|file|loc|cfi_\w+)\b.*\n", "", body)
        )
        match = re.search(r"amdhsa\.kernels:\n(.*?)^amdhsa\.target", rest, re.DOTALL | re.MULTILINE)
        metadata.append(match[1] if match else "")
    tail = f"amdhsa.target: {target}\namdhsa.version:\n  - 1\n  - 2\n"
    notes = f"---\namdhsa.kernels:\n{''.join(metadata)}{tail}...\n"
    head = f'\t.amdgcn_target "{target}"\n\t.amdhsa_code_object_version 5\n'
    source = path.with_suffix(".code.s")
    source.write_text(
        head + "\n".join(code) + f"\n.amdgpu_metadata\n{notes}\n.end_amdgpu_metadata\n"
    )
    command = ["clang-22", "--target=amdgcn-amd-amdhsa", f"-mcpu={ARCH}", str(source)]
    try:
        done = subprocess.run(
            [*command, "-o", str(path)], capture_output=True, text=True, check=False
        )
    except OSError:
        return "not installed (clang-22, which makes the code object)"
    if not done.returncode:
        return ""
    return f"not assembled: {next(iter(done.stderr.splitlines()), '')[-160:]}"


def hot_loops(kernel: KernelReport) -> str:
    """The hot loops of a kernel, each a region of llvm-mca."""
    lines = kernel.artifacts["amdgcn"].path.read_text().splitlines()
    regions = []
    for loop in kernel.loops:
        if loop.hot:
            name = re.sub(r"\W", "_", loop.id)
            body = [line for first, last in loop.lines for line in lines[first - 1 : last]]
            body = [line for line in body if re.match(r"\s+[a-z]", line)]
            # A comment with `;` is met twice after an instruction.
            region = [f"# LLVM-MCA-BEGIN {name}", *body, f"# LLVM-MCA-END {name}\n"]
            regions.append("\n".join(region))
    return "".join(regions)


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


def copies(bench: Bench) -> Iterator[str]:
    """Many small files."""
    kernel = bundled(bench)[0]
    text = kernel.artifacts["amdgcn"].path.read_text()
    counts = (1, 10, 100) if bench.quick else (1, 10, 100, 1000, 5000)
    for command in ("analyze", "lint"):
        steps = {}
        for number in counts:
            folder = bench.folder / f"copies-{number}"
            folder.mkdir(exist_ok=True)
            for n in range(number):
                (folder / f"{n:06}.s").write_text(varied(text, n))
            name = f"`kinspect {command} FOLDER`, {number:,} files"
            steps[number] = Step(name, [*tool(), command, str(folder)])
        rows = bench.measured(steps.values())
        note = f"Copies of one kernel of {len(text) / 1e3:.0f} kB, each a text of its own."
        yield from table(f"Growth: {command} of many `.s`", note, rows)
        yield ""
        yield growth(list(counts), rows)
        yield ""


def sizes(bench: Bench) -> Iterator[str]:
    """One file, larger and larger."""
    kernels = bundled(bench)
    steps = {}
    aims = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 20_000_000)
    for aim in aims[:4] if bench.quick else aims:
        path = bench.folder / f"size-{aim}.s"
        path.write_text(tiny(kernels[0]) if aim == aims[0] else joined(enough(kernels, aim)))
        size = path.stat().st_size
        steps[size] = Step(
            f"`kinspect analyze`, {size / 1e3:,.1f} kB", [*tool(), "analyze", str(path)]
        )
    rows = bench.measured(steps.values())
    yield from table("Growth: `analyze` of one `.s`", "Bundled kernels, joined.", rows)
    yield ""
    yield growth(list(steps), rows)


def tiny(kernel: KernelReport) -> str:
    """A kernel's code alone: no metadata, no sections of debugging, no comments."""
    body = kernel.artifacts["amdgcn"].path.read_text().partition("\t.section\t.AMDGPU.csdata")[0]
    code = re.sub(r"(?m)^\s*(\.(file|loc|cfi_\w+|set|Ltmp\d+)\b.*|;.*)\n", "", body)
    return re.sub(r"[ \t]*;.*", "", code)


def growth(amounts: Sequence[int], rows: Sequence[Row]) -> str:
    """How CPU seconds grow, by least squares over logarithms.

    The start is the cost of the smallest input; what costs less than twice that says nothing of
    growth and is left out.
    """
    points = [(n, row.cpu) for n, row in zip(amounts, rows, strict=True) if row.costs]
    least = points[0][1] if points else math.nan
    fitted = [(math.log(n), math.log(cpu - least)) for n, cpu in points if cpu > 2 * least]
    if len(fitted) < 2:
        return "Too few inputs cost twice the start: no growth is fitted."
    slope = statistics.linear_regression(*zip(*fitted, strict=True)).slope
    return (
        f"CPU seconds over those of the smallest input grow with the amount to the power of"
        f" {slope:.2f} (least squares over the {len(fitted)} largest)."
    )


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


SECTIONS: Mapping[str, Callable[[Bench], Iterator[str]]] = {
    "start": start,
    "script": scripts,
    "diff": diffs,
    "assembly": assembly,
    "emulator": emulators,
    "copies": copies,
    "sizes": sizes,
    "sweep": sweeps,
}


if __name__ == "__main__":
    raise SystemExit(main())
