"""What `--emulate` adds to an analysis: `python -m benchmarks.emulated_analysis [--arch gfx942]`.

A script launches up to three cases of each bundled kernel. Its kernels are compiled before anything
is timed; seconds are CPU time of this process, with and without, in turns: the least of some runs
each. Aim: 50 ms a kernel.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.executing import Sample
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = """
import importlib, pkgutil
import kinspect.kernels
for info in pkgutil.iter_modules(kinspect.kernels.__path__):
    module = importlib.import_module("kinspect.kernels." + info.name)
    launched = 0
    for case in getattr(module, "CASES", ()):
        if launched < 3 and not case.get("slow"):
            try:
                module.launch(**module.make_inputs(case, "cuda"))
                launched += 1
            except Exception as error:  # what this target cannot do
                print(info.name, case.get("name"), error)
"""


def main() -> int:
    """Times both and prints the difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "script.py")
        path.write_text(SCRIPT)
        seconds: dict[bool, list[float]] = {False: [], True: []}
        report = analysed(path, options.arch, emulate=True)  # compiles, and imports everything
        for _ in range(options.runs):
            for emulate in (False, True):
                started = time.process_time()
                report = analysed(path, options.arch, emulate=emulate)
                seconds[emulate].append(time.process_time() - started)
    executed = sum(kernel.emulated is not None for kernel in report.kernels)
    added = min(seconds[True]) - min(seconds[False])
    print(
        f"{len(report.kernels)} kernels on {options.arch}, {executed} executed: "
        f"{min(seconds[False]):.2f} s, with --emulate {min(seconds[True]):.2f} s: "
        f"{1000 * added / len(report.kernels):.1f} ms a kernel (aim 50)"
    )
    return 0


def analysed(path: Path, arch: str, *, emulate: bool) -> Report:
    """One run over the script."""
    return collect(
        Request(
            (str(path),),
            archs=(arch,),
            python=sys.executable,
            passes=False,
            capture=CaptureOptions(arguments=emulate),
            analysis=AnalysisOptions(sample=Sample() if emulate else None),
        )
    )


if __name__ == "__main__":
    raise SystemExit(main())
