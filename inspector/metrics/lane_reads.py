"""Values that are the same in all lanes but are computed in vector registers.

A load directly to LDS takes the LDS address of the wave from the scalar register M0. Where the
address follows from the work-item's number, as a wave's own part of a buffer does, the compiler
cannot know that it is the same in all lanes: it computes it in vector registers and reads the first
lane of it before each load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..isa.waitflow.registers import named, split_destination
from ..model import Metric, MetricSpec, Scalar
from .subject import Subject, Tally, source_line

_LANE_READS: Final = "lane_reads"

SPECS = (
    MetricSpec(
        _LANE_READS,
        "mapping",
        "derived",
        "both",
        "v_readfirstlane instructions (`count`), those whose value is the LDS address of direct "
        "loads (`to_m0`), and `at` the line that has most of these; unknown for Triton's code, "
        "where the compiler places them",
    ),
)

_READ: Final = "v_readfirstlane_b32"
_M0: Final = "m0"


def lane_reads(subject: Subject, region: Tally) -> Iterator[Metric]:
    """The metric of `SPECS`."""
    if subject.ttgir is not None:
        note = "Triton's compiler places them"
        yield Metric(_LANE_READS, None, "mapping", "derived", note)
        return
    code = subject.function.instructions
    count = to_m0 = 0
    lines: Counter[str] = Counter()
    first_lanes: dict[int, str | None] = {}  # scalar register -> line of the read
    has_reads = any(code[index].op.name == _READ for index in region.indices)
    for index in region.indices if has_reads else ():
        inst = code[index]
        result, sources = split_destination(inst.operands)
        is_read = inst.op.name == _READ
        count += is_read
        if is_read or inst.op.name == "s_mov_b32":
            line = source_line(inst.loc) if is_read else None
            source = next(iter(named(sources)), None)
            is_first_lane = is_read or source in first_lanes
            if not is_read and source is not None:
                line = first_lanes.get(source)
            if result.strip() == _M0 and is_first_lane:
                to_m0 += 1
                lines.update([line] if line is not None else [])
        for register in named(result):
            first_lanes.pop(register, None)
            if is_read:
                first_lanes[register] = source_line(inst.loc)
    value: dict[str, Scalar] = {
        "count": count,
        "to_m0": to_m0,
        "at": max(lines, key=lambda line: lines[line], default=None),
    }
    yield Metric(_LANE_READS, value, "mapping", "derived")
