"""Whether what `kinspect try` calls cured is cured: `python -m benchmarks.tried_cures [TARGET...]`.

Each finding about spills, LDS or occupancy is tried; each change that is said to be rid of it is
compiled again by a plain `triton.compile` in a process of its own, and its assembly and metadata
are read here with a few regular expressions, by nothing of kinspect. Of LDS conflicts nobody else
knows: those are only counted. Without targets: the bundled kernels.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kinspect.inspector import machines
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.compare.trials.planning import judging_pack
from kinspect.inspector.compare.trials.trial_run import Trials, TryRequest
from kinspect.inspector.explain.trials_view import changes_text
from kinspect.inspector.model import KernelReport, Report, Trial, Variant
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

from .plain_triton import innermost_loops

ROOT = Path(__file__).parent.parent
SPILLS = ("KI001", "KI037", "KI038")
LDS = ("KI005",)
CONFLICTS = ("KI043", "KI047", "KI058")
OCCUPANCY = ("KI006", "KI007", "KI016")
COMPILE = """
import json, os, sys
folder = sys.argv[1]
request = json.load(open(os.path.join(folder, "request.json")))
os.environ.update(request["environment"], TRITON_CACHE_DIR=os.path.join(folder, "cache"))
import triton
from triton.backends.compiler import GPUTarget
options = {k: tuple(v) if isinstance(v, list) else v for k, v in request["options"].items()}
os.chdir(folder)
done = triton.compile("kernel.ttir", target=GPUTarget("hip", request["arch"], request["wave_size"]),
                      options=options)
text = done.asm["amdgcn"]
json.dump({"text": text, "shared": done.metadata.shared, "num_warps": done.metadata.num_warps},
          open("answer.json", "w"))
"""
_SCRATCH = re.compile(
    r"^\s+(scratch_(?:load|store)|buffer_(?:load|store)\w*.* offen? *;? *\d+-byte)"
)
_INSTRUCTION = re.compile(r"^\s+[a-z]\w+")


def main() -> None:
    """Runs and prints it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for each kernel")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--per-kernel", type=int, default=4, help="cures that are compiled again")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for everything")
    parser.add_argument("--out", type=Path, help="a line of JSON for each cure and each finding")
    options = parser.parse_args()
    targets = options.targets or sorted(str(p) for p in (ROOT / "kernels").glob("[a-z]*.py"))
    tally: Counter[str] = Counter()
    deadline = time.monotonic() + options.seconds
    for target in targets:
        if time.monotonic() > deadline:
            break
        for record in _records(target, options, deadline):
            tally[record["outcome"]] += 1
            tally[f"{record['outcome']} {record['rule']}"] += 1
            if options.out is not None:
                with options.out.open("a") as stream:
                    stream.write(json.dumps(record) + "\n")
        print(target, dict(tally), flush=True)
    for name, count in sorted(tally.items()):
        print(f"{count:6} {name}")


def _records(target: str, options: argparse.Namespace, deadline: float) -> Iterator[dict[str, Any]]:
    """Yields a record for each finding, and one for each change that is said to cure it."""
    pack, ids = judging_pack((*SPILLS, *LDS, *CONFLICTS, *OCCUPANCY))
    run = Request(
        (target,),
        (options.arch,),
        jobs=options.jobs,
        passes=False,
        capture=CaptureOptions(max_configs=2, most_sets=1, time_limit=60.0),
        analysis=AnalysisOptions(rules=pack),
    )
    report = collect(run)
    for kernel in report.kernels:
        if time.monotonic() > deadline:
            return
        if not any(finding.rule in (ids or ()) for finding in kernel.findings):
            continue
        started, busy = time.monotonic(), _cpu_seconds()
        trials = Trials(
            TryRequest(run, pack, ids, options.budget),
            _of_one(report, kernel),
        )
        for _ in trials.events():
            pass
        cost = {
            "wall": round(time.monotonic() - started, 1),
            "cpu": round(_cpu_seconds() - busy, 1),
        }
        variants = {(k, c): variant for k, c, variant in trials.variants()}
        for tried in trials.result().kernels:
            for finding in tried.kernel.findings:
                if not finding.trials:
                    if finding.rule in (ids or ()):
                        yield {"outcome": "nothing to try", "rule": finding.rule, "id": kernel.id}
                    continue
                cures = [trial for trial in finding.trials if trial.helped]
                yield {
                    "outcome": "finding with a cure" if cures else "finding without a cure",
                    "rule": finding.rule,
                    "id": kernel.id,
                    "case": kernel.variant.case if kernel.variant else None,
                    "tried": len(finding.trials),
                    "missing": tried.missing,
                    **cost,
                }
                for trial in cures[: options.per_kernel]:
                    variant = variants.get((kernel.id, trial.change))
                    if variant is None:
                        continue
                    yield {
                        "rule": finding.rule,
                        "id": kernel.id,
                        "change": changes_text(trial.change),
                        **_judged(finding.rule, trial, variant),
                    }


def _of_one(report: Report, kernel: KernelReport) -> Report:
    return replace(report, kernels=(kernel,), errors=(), notes=())


def _judged(rule: str, trial: Trial, variant: Variant) -> dict[str, Any]:
    """What a plain compile says of a cure."""
    answer = _compiled_plainly(variant)
    if answer is None:
        return {"outcome": "cure: does not compile"}
    text = answer["text"]
    spills = _metadata(text, "vgpr_spill_count")
    figures = {
        "spills": spills,
        "lds": answer["shared"],
        "waves": _resident(answer, variant),
        "short_of_a_step": _short_of_a_step(answer, variant),
        "in_loops": _scratch_in_loops(text),
    }
    told = {
        "spills": trial.metrics["vgpr_spill_count"],
        "lds": trial.metrics["lds_bytes"],
        "waves": trial.metrics["occupancy.waves_per_eu"],
    }
    same = all(figures[name] == told[name] for name in told if figures[name] is not None)
    if not same:
        return {"outcome": "cure: other figures", "figures": figures, "told": told}
    if rule in CONFLICTS:
        return {"outcome": "cure: figures agree", "figures": figures}
    is_cure = _cures(rule, figures, variant)
    if is_cure is None:
        return {"outcome": "cure: figures agree", "figures": figures}
    return {"outcome": "cure: is one" if is_cure else "cure: IS NONE", "figures": figures}


def _cures(rule: str, figures: dict[str, Any], variant: Variant) -> bool | None:
    """Whether a rule's fault is gone by these figures; None where they do not say."""
    if rule in SPILLS:
        return all(s <= max(2, min(32, 0.05 * n)) for s, n in figures["in_loops"])
    if rule in LDS:
        return bool(figures["lds"] <= machines.load(variant.arch).lds_max)
    if rule == "KI006":
        short = figures["short_of_a_step"]
        return None if short is None else not short
    return figures["waves"] is None or figures["waves"] >= (1 if rule == "KI007" else 0.25)


def _compiled_plainly(variant: Variant) -> dict[str, Any] | None:
    """Assembly and metadata of a plain compile in a process of its own; None where it fails."""
    with tempfile.TemporaryDirectory(prefix="kinspect-plain-") as folder:
        (Path(folder) / "kernel.ttir").write_text(variant.ttir)
        request = {
            "options": dict(variant.options),
            "environment": dict(variant.environment),
            "arch": variant.arch,
            "wave_size": variant.wave_size,
        }
        (Path(folder) / "request.json").write_text(json.dumps(request))
        environment = {**os.environ, "TRITON_DEFAULT_FP_FUSION": "1"}
        environment.pop("PYTHONPATH", None)
        done = subprocess.run(
            [sys.executable, "-c", COMPILE, folder],
            env=environment,
            capture_output=True,
            timeout=600,
        )
        if done.returncode:
            return None
        answer: dict[str, Any] = json.loads((Path(folder) / "answer.json").read_text())
        return answer


def _metadata(text: str, name: str) -> int | None:
    match = re.search(rf"^\s+\.{name}:\s+(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else None


def _resident(answer: dict[str, Any], variant: Variant) -> float | None:
    """Waves on a SIMD of CDNA3 and later, by registers and LDS; None for other targets."""
    groups = _workgroups(answer, variant)
    if groups is None:
        return None
    value = min(groups) * answer["num_warps"] / 4
    return int(value) if value == int(value) else value


def _workgroups(answer: dict[str, Any], variant: Variant) -> tuple[int, int, int] | None:
    """Workgroups that fit on a CU of four SIMDs: by registers, by LDS, by waves and barriers."""
    waves, allocated = answer["num_warps"], _allocated(answer)
    if not variant.arch.startswith("gfx9") or waves not in (1, 2, 4, 8, 16) or allocated is None:
        return None
    pool = machines.load(variant.arch).lds_pool
    by_lds = pool // answer["shared"] if answer["shared"] else 99
    by_waves = 32 if waves == 1 else min(16, 32 // waves)
    return min(8, 512 // allocated) * 4 // waves, by_lds, by_waves


def _allocated(answer: dict[str, Any]) -> int | None:
    free = re.search(r"^\s+\.amdhsa_next_free_vgpr (\d+)", answer["text"], re.MULTILINE)
    return max(8, -(-int(free[1]) // 8) * 8) if free is not None else None


def _short_of_a_step(answer: dict[str, Any], variant: Variant) -> bool | None:
    """Whether a few registers fewer let another workgroup onto the CU; None where unknown."""
    groups, allocated = _workgroups(answer, variant), _allocated(answer)
    if groups is None or allocated is None:
        return None
    by_registers, by_lds, by_waves = groups
    if by_registers >= min(by_lds, by_waves) or by_registers * answer["num_warps"] / 4 > 4:
        return False
    waves = -(-(by_registers + 1) * answer["num_warps"] // 4)
    return bool(allocated - 512 // waves // 8 * 8 <= max(8, 0.05 * allocated))


def _scratch_in_loops(text: str) -> list[tuple[int, int]]:
    """The scratch accesses and instructions of each innermost loop."""
    return [
        (
            sum(bool(_SCRATCH.match(line)) for line in loop.splitlines()),
            sum(bool(_INSTRUCTION.match(line)) for line in loop.splitlines()),
        )
        for loop in innermost_loops(text)
    ]


def _cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    usages: Sequence[resource.struct_rusage] = [
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


if __name__ == "__main__":
    main()
