"""Instruction mix: how many instructions of each class a kernel or one loop iteration has."""

from __future__ import annotations

from collections.abc import Iterator

from kinspect.inspector.isa.mnemonics import CLASSES
from kinspect.inspector.metrics.subject import Subject, Tally
from kinspect.inspector.model import Metric, MetricSpec

SPECS = (
    MetricSpec(
        "count.*",
        "instructions",
        "derived",
        "both",
        "Instructions of a mnemonic class; in a loop per iteration of the ISA loop",
    ),
    MetricSpec(
        "count.instructions",
        "instructions",
        "derived",
        "loop",
        "All instructions of one iteration, nested loops excluded",
    ),
)


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    yield Metric("count.instructions", region.instructions, "instructions", "derived")
    for cls in CLASSES:
        yield Metric(f"count.{cls}", region.classes.get(cls, 0), "instructions", "derived")
