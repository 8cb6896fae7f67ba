"""From a script to the report of its kernel, and two compiles held against each other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.worker import Worker

from ..capture import specialisation
from ..lint import tool
from .measuring import ARCH, ROOT, Bench, Step, table

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
