"""For the tests of the kernels' page: real figures as those of a tuned kernel; processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from kinspect.inspector.model import (
    ErrorRecord,
    KernelReport,
    LdsBuffer,
    Metric,
    MetricValue,
    Report,
    SourceLoc,
    Variant,
)
from msgspec.structs import replace

FILE = "/src/gemm.py"
BROKEN = ErrorRecord(
    FILE,
    "matmul[BM=256, num_warps=8] on gfx942",
    "compile",
    f"{FILE}:21: out of resource: shared memory, required 131072, hardware limit 65536",
    "use smaller tiles",
    "\n".join(f"printed line {n}" for n in range(60)),
)
_Q = LdsBuffer(
    name="q",
    kind="operand",
    dtype="f16",
    shape=(128, 128),
    copies=1,
    size=32768,
    line=17,
    source=SourceLoc(FILE, 5),
    in_loop=False,
    at_peak=True,
    last_line=30,
    last_source=SourceLoc(FILE, 9),
    offset=0,
    allocated=32768,
)
BUFFERS = (_Q, replace(_Q, name="k", shape=(64, 128), size=16384, line=40, allocated=16384))
"""Two buffers of LDS that share bytes."""
UNREADABLE = ErrorRecord("/src/torn.s", None, "read", "a binary file, not text", "name a .s")


def tuned(
    like: KernelReport,
    case: Mapping[str, int],
    figures: Mapping[str, MetricValue],
    arch: str = "gfx942",
) -> KernelReport:
    """A configuration of `matmul`: a real report with some of its figures set.

    Args:
        like: the real one.
        case: its configuration.
        figures: metric -> value.
        arch: the target it is called.
    """
    label = ", ".join(f"{name}={value}" for name, value in case.items())
    constexprs = {k: v for k, v in case.items() if k != "num_warps"}
    options = {k: v for k, v in case.items() if k == "num_warps"}
    source = SourceLoc(FILE, 12)
    variant = Variant(
        kernel="matmul",
        arch=arch,
        wave_size=64,
        ttir="",
        options=options,
        signature={"a": "*fp16", **dict.fromkeys(constexprs, "constexpr")},
        constexprs=constexprs,
        attrs={},
        source=source,
        case=label,
        tuning=dict(case),
    )
    metrics = dict(like.metrics)
    for name, value in figures.items():
        metrics[name] = Metric(name, value, "", "compiler")
    return replace(
        like,
        id=f"{FILE}::matmul@{arch}#{label}",
        name="matmul",
        arch=arch,
        source=source,
        variant=variant,
        metrics=metrics,
    )


def waves(n: int, vgprs: int, spills: int = 0) -> dict[str, MetricValue]:
    """Figures of the code: resident waves, registers, spills."""
    return {
        "occupancy.waves_per_eu": n,
        "occupancy.workgroups_per_cu": n,
        "vgpr_count": vgprs,
        "vgpr_spill_count": spills,
    }


def many(report: Report) -> Report:
    """A tuned kernel for two targets and kernels of their own, with two failures."""
    by_name = {kernel.id.rpartition("/")[2]: kernel for kernel in report.kernels}
    attend = by_name["attend.triton39.gfx90a.amdgcn::attend@gfx90a"]
    calls = by_name["calls.triton39.gfx942.amdgcn::calls@gfx942"]
    small = by_name["small_gfx942.s::small@gfx942"]
    configs: Sequence[KernelReport] = [
        tuned(small, {"BM": 64, "num_warps": 4}, waves(8, 64)),
        tuned(small, {"BM": 128, "num_warps": 4}, waves(2, 250, 12)),
        tuned(small, {"BM": 128, "num_warps": 8}, waves(4, 128)),
        tuned(calls, {"BM": 64, "num_warps": 4}, waves(6, 80), "gfx950"),
        tuned(calls, {"BM": 128, "num_warps": 4}, waves(2, 256, 3), "gfx950"),
    ]
    return replace(report, kernels=(*configs, attend, calls), errors=(BROKEN, UNREADABLE))


def descendants(pid: int) -> set[int]:
    """The processes that a process has started, and those that those have, it included."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if stat[0] != "Z":
                parents[int(entry.name)] = int(stat[1])
    found = {pid} & parents.keys()
    while True:
        more = {one for one, parent in parents.items() if parent in found} - found
        if not more:
            return found
        found |= more
