"""The timing model's stalls against thread traces: `python -m benchmarks.timing_traces CASES`.

CASES as for `benchmarks.timing`, each with `trace`: a CSV (gzip) with `instruction`, `hit` and
`stall` of each instruction, summed over the traced waves. The kernel is executed and simulated as
for `kinspect time`; instructions are paired with the trace's by their mnemonics, in order. Cycles
are compared, not microseconds: cards throttle while they are traced.
"""

from __future__ import annotations

import argparse
import csv
import difflib
import gzip
import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.isa.asm.constants import read_constants
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.machines.loader import load
from kinspect.inspector.model import Instruction
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context, Overrides
from kinspect.inspector.pipeline.emulated_code import CodeLaunch, code_launch, typed_arguments
from kinspect.inspector.timing.device import device_of
from kinspect.inspector.timing.timed import timed, traced

_GROUPS: Final = {
    "mfma": "matrix", "valu": "vector", "lds_read": "lds", "lds_write": "lds",
    "global_load": "load", "global_store": "store", "barrier": "barrier", "lds_direct": "load",
}  # fmt: skip


def main() -> int:
    """Compares every case that has a trace."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("cases", nargs="+", type=Path)
    options = parser.parse_args()
    found = []
    for path in options.cases:
        for line in path.read_text().splitlines():
            case = json.loads(line)
            if case.get("trace"):
                found.append(compared(case))
    pearson = statistics.median(pearson for pearson, _, _ in found)
    right = statistics.mean(overlap for _, overlap, _ in found)
    print(
        f"{len(found)} traces: Pearson {pearson:.2f} in the median, {right:.0%} of stall cycles in"
        f" the right group, dominating group right in {sum(same for _, _, same in found)}"
    )
    return 0


def compared(case: Mapping[str, Any]) -> tuple[float, float, bool]:
    """Pearson of the stalls by instruction, share in the right group, same dominating group."""
    measured, simulated, groups, cycles = stalls_of(case)
    of_groups: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for group, real, model in zip(groups, measured, simulated, strict=True):
        of_groups[group][0] += real / sum(measured)
        of_groups[group][1] += model / sum(simulated)
    pearson = float(np.corrcoef(measured, simulated)[0, 1])
    overlap = sum(min(pair) for pair in of_groups.values())
    most, most_modelled = (max(of_groups, key=lambda g: of_groups[g][n]) for n in (0, 1))
    print(
        f"{case['name']}: Pearson {pearson:.2f}, groups {overlap:.0%}, mostly {most} (model:"
        f" {most_modelled}), cycles of a wave {case.get('mean_wave_cycles', 0):,.0f}"
        f" (model: {cycles:,.0f})"
    )
    return pearson, overlap, most == most_modelled


def stalls_of(
    case: Mapping[str, Any],
) -> tuple[list[float], list[float], list[str], float]:
    """Stall cycles in the trace and in the model, and the group, of each paired instruction."""
    text, machine = Path(case["asm"]).read_text(), load(case["arch"])
    program = parse_text(text, case["asm"])
    function = next(f for f in program.kernels if f.name == case["kernel"])
    x, y, z = case["block"]
    grid_x, grid_y, grid_z = case["grid"]
    buffers, scalars, _ = typed_arguments(case["args"], made_up=False)
    request = CodeLaunch(
        Path(case["asm"]), case["kernel"], case["arch"], (grid_x, grid_y, grid_z), (x, y, z),
        case["args"], case.get("lds", 0),
    )  # fmt: skip
    launch = code_launch(request, function, machine, scalars)
    overrides = Overrides(lds_bytes=launch.lds_bytes, workgroup=(x, y, z))
    context = Context(case["asm"], case["arch"], (case["kernel"],), overrides=overrides)
    (report,) = analyze_text(text, context)
    resident = report.metrics["occupancy.workgroups_per_cu"].value
    device = device_of(machine, case["gpu"])
    assert device is not None
    assert isinstance(resident, int)
    emulator = Emulator(function, machine, read_constants(text, case["asm"]), program.functions)
    timing = traced(emulator, machine, device, launch, buffers, resident)
    now = timed(timing)
    instructions = emulator.code.function.instructions
    with gzip.open(case["trace"], "rt") as stream:
        rows = [row for row in csv.DictReader(stream) if not row["instruction"].startswith(";")]
    measured, simulated, groups = [], [], []
    for index, number in _pairs(instructions, rows):
        if int(rows[number]["hit"]):
            measured.append(float(rows[number]["stall"]))
            simulated.append(sum(now.cu.stalls.get(index, [0.0])))
            groups.append(_group(instructions[index]))
    rounds = timing.placement.busiest / timing.placement.resident
    return measured, simulated, groups, now.cycles / rounds


def _pairs(
    instructions: Sequence[Instruction], rows: Sequence[Mapping[str, str]]
) -> list[tuple[int, int]]:
    own = [inst.mnemonic for inst in instructions]
    theirs = [row["instruction"].split()[0] for row in rows]
    blocks = difflib.SequenceMatcher(None, own, theirs, autojunk=False).get_matching_blocks()
    return [(b.a + step, b.b + step) for b in blocks for step in range(b.size)]


def _group(inst: Instruction) -> str:
    if inst.cls == "wait":
        is_memory = "vmcnt" in inst.operands and "lgkmcnt" not in inst.operands
        return "wait for memory" if is_memory else "wait for LDS"
    return _GROUPS.get(inst.cls, "scalar")


if __name__ == "__main__":
    raise SystemExit(main())
