"""Matrix instructions: cycles of the SIMD's matrix unit that one pass over a region occupies.

The figures per instruction come from the machine file (vendor's matrix calculator and LLVM's
scheduling model). It is a bound for one wave: waves of the same SIMD share the unit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kinspect.inspector.machines import matrix_cycles
from kinspect.inspector.metrics.subject import Subject, Tally
from kinspect.inspector.model import Metric, MetricSpec

SPECS = (
    MetricSpec(
        "matrix.instructions",
        "mapping",
        "derived",
        "both",
        "The matrix instructions by name and number: their element type is what really computes",
    ),
    MetricSpec(
        "cycles.mfma",
        "cycles",
        "derived",
        "both",
        "Cycles that the matrix instructions (MFMA, WMMA) occupy the SIMD's matrix unit, one wave",
    ),
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    kinds = Counter(inst.op.name for inst in region.matrix)
    yield Metric("matrix.instructions", dict(sorted(kinds.items())), "mapping", "derived")
    total = 0
    for inst in region.matrix:
        machine = subject.machine
        cycles = matrix_cycles(machine, inst.op.name, inst.operands) if machine else None
        if cycles is None:
            where = machine.arch if machine else "an unknown target"
            note = f"no cycle figure for {inst.op.name} on {where}"
            yield Metric("cycles.mfma", None, "cycles", "derived", note)
            return
        total += cycles
    yield Metric("cycles.mfma", total, "cycles", "derived")
