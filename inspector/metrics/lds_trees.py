"""How often steps and products use what is in LDS: reductions that halve their distance step by
step with a barrier for each, and what a loop's products use of what they read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from ..isa.dataflow.operands import Decoded, Operand
from ..isa.dataflow.value_graph import operations, parts_of
from ..model import Function, Instruction, Metric, Scalar
from .entries import NOT_IN_TRITON, Unknown, metric_of, of_kernels, of_loops
from .subject import MATRIX_CLASSES, LineName, Subject, own_instructions

SPECS = of_kernels(
    {
        "lds_trees": "Reductions and scans in LDS whose steps each combine an element with one at "
        "half (or twice) the distance of the step before, with a barrier between them: how many "
        "`trees`, of which `loops` have a number of steps that is not known here; `barriers` in "
        "the code of all of them, the first `at` which line; None for Triton's code, where the "
        "compiler chooses",
    }
)

_BARRIERS: Final = frozenset(("s_barrier", "s_barrier_wait"))
_ELSEWHERE: Final = frozenset(
    ("global_load", "global_store", "atomic", "lds_atomic", "lds_direct", "scratch_load", "call")
)
"""Classes that no step of a tree has: it works on what lies in LDS."""
_SHIFT: Final = re.compile(r"[sv]_(?:lshr|lshl|ashr)(?:rev)?_[bi](?:16|32)$")
_PAIR: Final = re.compile(r"ds_(?:read2|write2|load_2addr|store_2addr)(st64|_stride64)?_b(32|64)$")
_MOST_IN_STEP: Final = 60
"""Instructions between two barriers; those that LLVM writes have 10 to 30."""
_FEWEST_STEPS: Final = 3
_STRIDE: Final = 64
"""Elements that an offset of the `st64` forms counts."""


class _Place(Struct, frozen=True):
    """An address in LDS: its register and the offset in bytes."""

    register: str
    offset: int


class _Step(Struct, frozen=True):
    """What lies between two barriers: from where it reads, where it writes."""

    reads: tuple[_Place, ...]
    writes: tuple[_Place, ...]
    first_write: Instruction

    @property
    def combines(self) -> bool:
        """Whether elements that are written are read before, together with others."""
        return len(self.writes) < len(self.reads) <= 2 * len(self.writes) and not set(
            self.writes
        ).isdisjoint(self.reads)

    @property
    def distance(self) -> int | None:
        """Bytes between an element that is written and the one combined with it.

        None where they have no register in common, or are not equally far apart for all that is
        written.
        """
        others = set(self.reads) - set(self.writes)
        distances = {
            min(
                (
                    abs(read.offset - write.offset)
                    for read in others
                    if read.register == write.register
                ),
                default=None,
            )
            for write in self.writes
        }
        return distances.pop() if len(distances) == 1 else None


def trees(subject: Subject) -> dict[str, Scalar] | Unknown:
    """The value of the metric of `SPECS`."""
    if subject.ttgir is not None:
        return NOT_IN_TRITON
    code = subject.function.instructions
    loops: list[_Step] = []
    runs: list[Sequence[_Step]] = []
    barriers = 0
    if any(inst.op.name in _BARRIERS for inst in code):
        for own in own_instructions(subject.function).values():
            met = sum(inst.op.name in _BARRIERS for inst in own)
            step = _step(own) if met else None
            if step is not None and step.combines and any(map(_halves_or_doubles, own)):
                loops.append(step)
                barriers += met
        runs = list(_runs(code))
        barriers += sum(map(len, runs))
    firsts = [step.first_write for step in (*loops, *(run[0] for run in runs))]
    firsts.sort(key=lambda inst: inst.index)
    return {
        "trees": len(firsts),
        "loops": len(loops),
        "barriers": barriers,
        "at": LineName.of(firsts),
    }


def _step(code: Sequence[Instruction]) -> _Step | None:
    """The step that some instructions are; None where they do not only read and write LDS."""
    if len(code) > _MOST_IN_STEP or any(inst.cls in _ELSEWHERE for inst in code):
        return None
    reads = tuple(place for inst in code if inst.cls == "lds_read" for place in _places(inst, 1))
    writes = [inst for inst in code if inst.cls == "lds_write"]
    if not reads or not writes:
        return None
    written = tuple(place for inst in writes for place in _places(inst, 0))
    return _Step(reads, written, writes[0])


def _places(inst: Instruction, position: int) -> Iterator[_Place]:
    """The addresses of an access, whose register is the operand at a position."""
    parts = parts_of(inst)
    if len(parts.operands) <= position:
        return
    register = parts.operands[position].text
    pair = _PAIR.match(inst.op.name)
    if pair is None:
        yield _Place(register, parts.offset())
        return
    unit = int(pair[2]) // 8 * (_STRIDE if pair[1] else 1)
    for name in ("offset0", "offset1"):
        yield _Place(register, parts.offset(name) * unit)


def _halves_or_doubles(inst: Instruction) -> bool:
    """Whether an instruction shifts a value by one bit, as the distance of the next step."""
    is_shift = _SHIFT.match(inst.op.name) is not None
    return is_shift and any(operand.integer == 1 for operand in parts_of(inst).operands[1:])


def _runs(code: Sequence[Instruction]) -> Iterator[Sequence[_Step]]:
    """Yields steps in sequence, at least `_FEWEST_STEPS`, whose distances halve or double."""
    run: list[_Step] = []
    for part in _between_barriers(code):
        step = _step(part)
        if step is not None and (not step.combines or step.distance is None):
            step = None
        if step is not None and not _continues(run, step):
            if len(run) >= _FEWEST_STEPS:
                yield run
            run = run[-1:] if _continues(run[-1:], step) else []
        if step is None:
            if len(run) >= _FEWEST_STEPS:
                yield run
            run = []
        else:
            run = [*run, step]
    if len(run) >= _FEWEST_STEPS:
        yield run


def _continues(run: Sequence[_Step], step: _Step) -> bool:
    """Whether a step's distance goes on as those of a run do."""
    if not run:
        return True
    last, now = run[-1].distance, step.distance
    if last is None or now is None:
        return False
    if len(run) > 1 and (run[-2].distance or 0) > last:
        return last == 2 * now
    if len(run) > 1:
        return now == 2 * last
    return last == 2 * now or now == 2 * last


def _between_barriers(code: Iterable[Instruction]) -> Iterator[Sequence[Instruction]]:
    part: list[Instruction] = []
    for inst in code:
        if inst.op.name in _BARRIERS:
            yield part
            part = []
        else:
            part.append(inst)
    yield part


OPERANDS: Final = "lds_operands"

OPERAND_SPECS: Final = of_loops(
    {
        OPERANDS: "What the products of a hot loop without matrix instructions take from LDS: "
        "`dwords` of a lane in an iteration, `uses` of them as operands, and `at` which line the "
        "first read is",
    },
    "estimated",
)

_FEWEST_READS: Final = 4
"""Reads of LDS in an iteration from which on the operands of products are looked for."""
_PRODUCT: Final = re.compile(r"v_(?:fma|mac|mad_f|mad_mix|mul_f|dot\d)")
_COPY: Final = re.compile(r"v_(?:pk_)?mov_b(?:32|64)$")


class OperandUse(Struct, frozen=True):
    """One iteration of a loop, for one lane.

    Args:
        dwords: registers that reads of LDS fill and products read, as they are or copied.
        uses: operands of products (multiplications too) that are such registers.
    """

    dwords: int
    uses: int


def compute(function: Function, executed: Sequence[Instruction]) -> Iterator[Metric]:
    """The metric of `OPERAND_SPECS`, where a loop has it, by what an iteration executes."""
    reads = [inst for inst in executed if inst.cls == "lds_read"]
    if len(reads) < _FEWEST_READS or any(inst.cls in MATRIX_CLASSES for inst in executed):
        return
    use = operand_use(function, executed)
    value: dict[str, Scalar] = {"dwords": use.dwords, "uses": use.uses, "at": LineName.of(reads)}
    yield metric_of(OPERAND_SPECS[0], value)


def operand_use(function: Function, executed: Sequence[Instruction]) -> OperandUse:
    """Counts the operands of an iteration's products that come from LDS.

    Its instructions are walked through twice, for what is read at an iteration's end for the next.
    """
    holder: dict[int, tuple[int, int]] = {}
    """Register -> the read that the value comes from, and the register that this one filled."""
    used: set[tuple[int, int]] = set()
    uses = 0
    done = operations(function, executed)
    for is_counted in (False, True):
        for operation in done:
            if is_counted and _PRODUCT.match(operation.name):
                held = [holder[at] for at in _operands(operation.parts) if at in holder]
                uses += len(held)
                used.update(held)
            copies = {to: holder[at] for to, at in _copies(operation.parts) if at in holder}
            for result in operation.results:
                for row in _rows(result):
                    holder.pop(row, None)
                    if operation.inst.cls == "lds_read":
                        holder[row] = operation.inst.index, row
            holder |= copies
    return OperandUse(len(used), uses)


def _copies(parts: Decoded) -> Iterator[tuple[int, int]]:
    """Register that an operation writes -> the one whose value it takes unchanged."""
    result, *sources = parts.operands or (None,)
    if result is None or not _COPY.match(parts.name):
        return
    if not parts.name.startswith("v_pk_mov"):
        yield from zip(_rows(result), [row for s in sources for row in _rows(s)], strict=False)
        return
    for position, (to, source) in enumerate(zip(_rows(result), sources, strict=False)):
        half = _chosen(parts, "op_sel", position, 0)
        if half < len(_rows(source)):
            yield to, _rows(source)[half]


def _operands(parts: Decoded) -> Iterator[int]:
    """Registers of a product's operands, each as often as it is taken.

    Both products of a packed one of 32 bits take one half of a pair where its modifiers say so.
    """
    for position, source in enumerate(parts.operands[1:]):
        rows = _rows(source)
        if not parts.name.startswith("v_pk_") or "f32" not in parts.name:
            yield from rows
            continue
        for modifier, otherwise in (("op_sel", 0), ("op_sel_hi", 1)):
            half = _chosen(parts, modifier, position, otherwise)
            if half < len(rows):
                yield rows[half]


def _rows(operand: Operand) -> range:
    return operand.rows if operand.kind == "vgpr" else range(0)


def _chosen(parts: Decoded, modifier: str, position: int, otherwise: int) -> int:
    """Which half of an operand's pair a modifier chooses."""
    bits = parts.modifiers.get(modifier, "").strip("[]").split(",")
    return int(bits[position] == "1") if position < len(bits) and bits[position] else otherwise
