"""Wave size, workgroup size and LDS: what a launch of the kernel takes from a CU.

Triton's LDS is invisible to LLVM: it is dynamic, so the code object says 0 and the truth stands in
Triton's metadata (`shared`) or the TTGIR (`ttg.shared`). Where the file says 0 but the code
accesses LDS and nothing else states the figure, it is unknown. So it is where the metadata says
that the launch adds LDS; the static part is a lower bound then.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..model import Instruction, LaunchOrigin, LdsOrigin, Metric, MetricSpec
from .subject import NOT_ALL_READ, Subject

SPECS = (
    MetricSpec("wave_size", "lanes", "compiler", "kernel", "Work-items per wave: 32 or 64"),
    MetricSpec(
        "workgroup_size", "work-items", "compiler", "kernel", "Work-items per workgroup at launch"
    ),
    MetricSpec("waves_per_workgroup", "waves", "derived", "kernel", "Waves per workgroup"),
    MetricSpec("lds_bytes", "bytes", "compiler", "kernel", "LDS per workgroup, dynamic included"),
    MetricSpec(
        "lds_limit", "bytes", "derived", "kernel", "Most LDS that one workgroup may have here"
    ),
)

_LDS_ACCESS = {"lds_read", "lds_write", "lds_direct", "lds_direct_store", "lds_atomic"}
_MAY_ACCESS_LDS = _LDS_ACCESS | {"bvh", "unknown"}
_MAY_LEAD_TO_LDS = {"flat", "call", "indirect"}


def compute(subject: Subject) -> Iterator[Metric]:
    wave = wave_size(subject)
    group = workgroup_size(subject)
    yield wave
    yield group
    if isinstance(wave.value, int) and isinstance(group.value, int):
        yield Metric(
            "waves_per_workgroup",
            -(-group.value // wave.value),
            "waves",
            "derived" if group.origin == "compiler" else group.origin,
            group.note,
        )
    else:
        yield Metric("waves_per_workgroup", None, "waves", "derived", group.note or wave.note)
    yield lds_bytes(subject)
    machine = subject.machine
    yield Metric("lds_limit", machine.lds_max if machine else None, "bytes", "derived")


def wave_size(subject: Subject) -> Metric:
    size, machine = subject.function.resources.wave_size, subject.machine
    if size is not None:
        return Metric("wave_size", size, "lanes", "compiler")
    if machine is not None and len(machine.wave_sizes) == 1:
        return Metric("wave_size", machine.wave_sizes[0], "lanes", "derived")
    return Metric("wave_size", None, "lanes", "compiler", "the file does not say")


def workgroup_size(subject: Subject) -> Metric:
    resources, facts = subject.function.resources, subject.facts
    unit, name = "work-items", "workgroup_size"
    if facts.workgroup_size is not None:
        return Metric(name, facts.workgroup_size, unit, "compiler")
    if resources.reqd_workgroup_size is not None:
        x, y, z = resources.reqd_workgroup_size
        return Metric(name, x * y * z, unit, "compiler")
    if resources.max_workgroup_size is not None:
        note = "the largest workgroup that the kernel allows; the launch may use fewer (--waves)"
        return Metric(name, resources.max_workgroup_size, unit, "estimated", note)
    return Metric(name, None, unit, "compiler", "the file does not say; pass --waves")


def lds_bytes(subject: Subject) -> Metric:
    facts, stated = subject.facts, subject.function.resources.lds_bytes
    if facts.lds_bytes is not None:
        return Metric("lds_bytes", facts.lds_bytes, "bytes", "compiler", facts.lds_note)
    if subject.function.resources.dynamic_lds:
        note = "the launch adds dynamic LDS; pass --lds BYTES"
        note = f"at least {stated} bytes, and {note}" if stated else note
        return Metric("lds_bytes", None, "bytes", "compiler", note)
    code = subject.function.instructions
    if not subject.function.all_read and not stated:
        note = f"{NOT_ALL_READ}, which may access LDS; pass --lds"
        return Metric("lds_bytes", None, "bytes", "compiler", note)
    if stated is None:
        if code and not subject.function.calls and not any(map(_may_access_lds, code)):
            return Metric("lds_bytes", 0, "bytes", "derived", "the code never accesses LDS")
        return Metric("lds_bytes", None, "bytes", "compiler", "the file does not say; pass --lds")
    if stated == 0:
        if not code:
            note = "the file says 0, which hides dynamic LDS; pass --lds"
            return Metric("lds_bytes", None, "bytes", "compiler", note)
        if any(i.cls in _LDS_ACCESS for i in code):
            note = "the file says 0 but the code accesses LDS: it is dynamic; pass --lds BYTES"
            return Metric("lds_bytes", None, "bytes", "compiler", note)
    return Metric("lds_bytes", stated, "bytes", "compiler")


def lds_origin(subject: Subject, metric: Metric) -> LdsOrigin | None:
    """Who states the LDS of a workgroup, as `lds_bytes` gives it; None where it is unknown."""
    if metric.value is None:
        return None
    if subject.facts.lds_bytes is not None:
        return subject.facts.lds_from
    return "code" if metric.origin == "derived" else "file"


def waves_origin(subject: Subject, metric: Metric) -> LaunchOrigin | None:
    """Who states a workgroup's size, as `workgroup_size` gives it; None where it is unknown."""
    if metric.value is None:
        return None
    if subject.facts.workgroup_size is not None:
        return subject.facts.waves_from
    return "largest" if metric.origin == "estimated" else "file"


def _may_access_lds(instruction: Instruction) -> bool:
    """Whether it accesses LDS or could: through a generic address, or in code that is not here."""
    return instruction.cls in _MAY_ACCESS_LDS or not _MAY_LEAD_TO_LDS.isdisjoint(
        instruction.op.traits
    )
