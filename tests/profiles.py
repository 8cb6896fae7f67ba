"""A small profile, written out by hand: what the renderers' tests show."""

from __future__ import annotations

from array import array

from kinspect.inspector.model import KernelReport, Metric
from kinspect.inspector.model.recording import (
    Agent,
    CounterValues,
    Dispatches,
    KernelMatch,
    KernelProfile,
    KernelShape,
    Part,
    Profile,
    Recording,
    Spread,
    TopKernel,
)

MI300X = Agent(
    "4",
    arch="gfx942",
    product="AMD Instinct MI300X",
    cus=304,
    simds_per_cu=4,
    xccs=8,
    clock_mhz=2100,
)
ATTEND = KernelShape(
    "attend",
    agent="4",
    process=100,
    kernel_id=17,
    workgroup=(256, 1, 1),
    workgroup_size=256,
    grid=(262_144, 2, 1),
    lds_bytes=32_768,
    scratch_bytes=0,
    vgpr=128,
    accum_vgpr=0,
    sgpr=48,
)
TRIED = KernelShape("attend", agent="4", process=100, kernel_id=16, vgpr=256, lds_bytes=65_536)
COPY = KernelShape("__amd_rocclr_copyBuffer", agent="4", process=100, kernel_id=3)
NO_MATCH = KernelMatch("none", (), ())


def spread(*values: float) -> Spread:
    """The spread of these values."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return Spread(
        len(values), sum(values), sum(values) / len(values), median, ordered[0], ordered[-1]
    )


def measured(name: str, value: float, unit: str, note: str = "") -> Metric:
    """A metric that a device told."""
    return Metric(name, value, unit, "measured", note)


def kernel(
    shape: KernelShape = ATTEND,
    times: tuple[float, ...] = (52_000.0, 50_000.0, 51_000.0),
    *,
    role: str = "main",
    share: float | None = 80.0,
    metrics: tuple[Metric, ...] = (),
    match: KernelMatch = NO_MATCH,
    number: int = 1,
) -> KernelProfile:
    """A kernel of a profile; its one warm-up took the mean of the others' times."""
    found = {metric.name: metric for metric in metrics}
    if share is not None:
        found["measured.share_of_time"] = measured("measured.share_of_time", share, "%")
    return KernelProfile(
        id=f"{shape.name}#{number}",
        name=shape.name,
        shape=shape,
        agent=MI300X,
        dispatches=len(times) + 1,
        counted=len(times),
        warmups=1,
        role="autotune" if role == "autotune" else "main",
        grids=1,
        duration=spread(*times) if times else None,
        counters={"SQ_WAVES": spread(16_384.0, 16_384.0)},
        metrics=found,
        lines=(),
        match=match,
        total_ns=sum(times) + sum(times) / len(times) if times else None,
    )


def profile(
    *kernels: KernelProfile,
    reports: tuple[KernelReport, ...] = (),
    agents: tuple[Agent, ...] = (MI300X,),
    version: str = "1.0.0",
    summary: tuple[TopKernel, ...] = (),
) -> Profile:
    """A profile with four dispatches, the last without times."""
    table = Dispatches(
        shape=array("i", [0, 1, 0, 0]),
        number=array("q", [1, 2, 3, 4]),
        start=array("q", [1_000, 60_250, 200_001, -1]),
        end=array("q", [51_000, 99_250, 252_001, -1]),
        queue=array("q", [1, 1, 2, -1]),
        part=array("h", [0, 0, 0, 0]),
    )
    run = Recording(
        path="kinspect-runs/one",
        tool={"name": "rocprofv3", "version": version},
        command=("python", "train.py"),
        parts=(
            Part("kernel-trace", "a", "rocprofv3 CSV", status="complete", exit_code=0),
            Part("pass_2", "b", "rocprofv3 CSV", ("SQ_WAVES",), 1, "failed"),
        ),
        agents=agents,
        shapes=(ATTEND, COPY),
        dispatches=table,
        counters=("SQ_WAVES",),
        values=CounterValues(array("i", [0]), array("h", [0]), array("d", [16_384.0])),
        summary=summary,
        notes=("SGPR_Count is 128 for every kernel: not known",),
    )
    return Profile(run, kernels, reports, "train.py" if reports else None, 141_000.0)
