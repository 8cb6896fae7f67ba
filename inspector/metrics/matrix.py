"""Matrix instructions: cycles of the SIMD's matrix unit that one pass over a region occupies.

The figures per instruction come from the machine file (vendor's matrix calculator and LLVM's
scheduling model). It is a bound for one wave: waves of the same SIMD share the unit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from ..machines import matrix_cycles
from ..model import Metric, MetricSpec
from .subject import MATRIX_CLASSES, Subject, Tally

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
    MetricSpec(
        "matrix.share",
        "ratio",
        "derived",
        "both",
        "Share of matrix instructions (MFMA, WMMA) among all instructions",
    ),
    MetricSpec(
        "matrix.nonkdim",
        "elements",
        "derived",
        "kernel",
        "M and N of most of the kernel's matrix instructions: 16 or 32 (4 for the smallest)",
    ),
)

_SHAPE = re.compile(r"_(\d+)x(\d+)x\d+")


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    kinds = Counter(inst.op.name for inst in region.matrix)
    yield Metric("matrix.instructions", dict(sorted(kinds.items())), "mapping", "derived")
    share = round(len(region.matrix) / region.instructions, 4) if region.instructions else None
    yield Metric("matrix.share", share, "ratio", "derived")
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


def compute_kernel(subject: Subject) -> Iterator[Metric]:
    """The shape of the kernel's matrix instructions, the widest of several equally frequent."""
    sizes = Counter(
        max(int(shape[1]), int(shape[2]))
        for inst in subject.function.instructions
        if inst.cls in MATRIX_CLASSES and (shape := _SHAPE.search(inst.op.name)) is not None
    )
    most = max(sizes, key=lambda size: (sizes[size], size), default=None)
    note = "" if most is not None else "no matrix instruction"
    yield Metric("matrix.nonkdim", most, "elements", "derived", note)
