"""Loads of a loop that bring the same address in every iteration.

A compiler moves such a load out of the loop where it can prove that nothing in the loop changes the
memory: not beside stores through other pointers. Here the addresses tell which tensors those are
(`written_tensors`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..isa.vector_halves import written_registers
from ..isa.waitflow.registers import named, split_destination
from ..model import Instruction, Loop, Metric, MetricSpec, Scalar
from .subject import Subject, source_line
from .written_tensors import WRITES, unwritten

UNCHANGED: Final = "loads.unchanged"

SPECS: Final = (
    MetricSpec(
        UNCHANGED,
        "mapping",
        "derived",
        "loop",
        "Vector loads of global memory in the loop's own code whose address no instruction of the "
        "loop changes, from tensors that the loop does not store to (nor the kernel, where the "
        "loop has barriers or atomics): how many `loads`, the first `at` which line; volatile "
        "loads are left out; None where a store's address is not known",
    ),
)

_EXCHANGES: Final = frozenset(("atomic", "barrier"))
_COHERENT: Final = re.compile(r"\b(?:sc0|sc1|glc|slc|dlc|scope:\w+)\b")
"""Bits by which a load asks for what others have stored: of volatile and atomic loads."""


def loop_metrics(
    subject: Subject, instructions_of: Mapping[str, Sequence[Instruction]]
) -> dict[str, dict[str, Metric]]:
    """Loop id -> its metric by name."""
    return {
        loop.id: {metric.name: metric for metric in _of_loop(subject, loop, own)}
        for loop in subject.function.loops
        for own in (instructions_of[loop.id],)
    }


def _of_loop(subject: Subject, loop: Loop, own: Sequence[Instruction]) -> Iterator[Metric]:
    """The metric of one loop."""
    loads = [
        inst
        for inst in own
        if inst.cls == "global_load" and _COHERENT.search(inst.operands) is None
    ]
    if not loads:
        yield _metric([])
        return
    function = subject.function
    code = [
        inst
        for number in loop.blocks
        for inst in function.instructions[
            function.blocks[number].start : function.blocks[number].stop
        ]
    ]
    unchanged = _with_unchanged_addresses(loads, code)
    # Behind a barrier or an atomic stands what other waves have stored, anywhere in the kernel.
    is_exchange = any(inst.cls in _EXCHANGES for inst in code)
    writers = function.instructions if is_exchange else code
    stores = [inst for inst in writers if inst.cls in WRITES] if unchanged else []
    safe = unwritten(subject, unchanged, stores) if stores else unchanged
    if safe is None:
        note = "where the loop stores is not known"
        yield Metric(UNCHANGED, None, "mapping", "derived", note)
        return
    safe_indices = {inst.index for inst in safe if not stores or inst.index in subject.places}
    yield _metric([inst for inst in unchanged if inst.index in safe_indices])


def _with_unchanged_addresses(
    loads: Sequence[Instruction], code: Sequence[Instruction]
) -> list[Instruction]:
    """The loads whose address is made of registers, none of which the loop's code changes."""
    address_of = [(inst, set(named(split_destination(inst.operands)[1]))) for inst in loads]
    unchanged = [(inst, registers) for inst, registers in address_of if registers]
    for changing in code:
        if not unchanged:
            break
        changed = written_registers(changing)
        unchanged = [pair for pair in unchanged if pair[1].isdisjoint(changed)]
    return [inst for inst, _ in unchanged]


def _metric(unchanged: Sequence[Instruction]) -> Metric:
    first = unchanged[0] if unchanged else None
    value: dict[str, Scalar] = {
        "loads": len(unchanged),
        "at": source_line(first.loc) if first is not None else None,
    }
    return Metric(UNCHANGED, value, "mapping", "derived")
