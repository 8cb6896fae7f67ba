"""Instruction mix: how many instructions of each class a kernel or one loop iteration has.

Cycles are clocks that one wave holds its SIMD's vector unit, a lower bound: every operation but the
transcendentals counts at full rate, also conversions and 64-bit arithmetic, for which no vendor
document gives a rate. `s_nop N` lets N + 1 issue slots pass (CDNA3 ISA, S_NOP: "repeat 1 to 16
times"), each as long as a full-rate vector operation (a wait state of the hazard tables there).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..isa.mnemonics import CLASSES
from ..model import Instruction, Metric, MetricSpec
from .subject import Subject, Tally

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
    MetricSpec(
        "calls",
        "instructions",
        "derived",
        "both",
        "Calls of functions that were not inlined: what is executed there is not counted",
    ),
    MetricSpec(
        "cycles.valu",
        "cycles",
        "derived",
        "both",
        "Cycles that vector instructions and AGPR copies take the vector unit at least, one wave; "
        "matrix instructions excluded",
    ),
    MetricSpec(
        "cycles.nop", "cycles", "derived", "both", "Cycles that s_nop and v_nop let pass, one wave"
    ),
    MetricSpec(
        "convert.instructions",
        "instructions",
        "derived",
        "both",
        "Vector instructions that convert between number types: v_cvt_*",
    ),
    MetricSpec(
        "pack.instructions",
        "instructions",
        "derived",
        "both",
        "Vector instructions that put bytes or halves of registers together: v_perm, v_pack, "
        "v_alignbit, v_alignbyte",
    ),
)

VALU_CLASSES = ("valu", "acc_move")
_PACKING = frozenset(("v_perm_b32", "v_pack_b32_f16", "v_alignbit_b32", "v_alignbyte_b32"))
_NOP_BITS = 0xF


def compute(subject: Subject, region: Tally) -> Iterator[Metric]:
    yield Metric("count.instructions", region.instructions, "instructions", "derived")
    for cls in CLASSES:
        yield Metric(f"count.{cls}", region.classes.get(cls, 0), "instructions", "derived")
    code = subject.function.instructions
    calls = sum("call" in code[i].op.traits for i in region.indices)
    yield Metric("calls", calls, "instructions", "derived")
    vector = [code[i] for i in region.indices if code[i].cls in VALU_CLASSES]
    slow = sum("transcendental" in inst.op.traits for inst in vector)
    slot, slower = rates(subject)
    note = "" if slot is not None else "the target's rate is unknown"
    cycles = None if slot is None else (len(vector) - slow) * slot
    if slow and cycles is not None:
        cycles = None if slower is None else cycles + slow * slower
        note = note if slower is not None else "the target's rate of transcendentals is unknown"
    yield Metric("cycles.valu", cycles, "cycles", "derived", note)
    slots = sum(idle_slots(code[i]) for i in region.indices if code[i].cls == "nop")
    idle = 0 if not slots else None if slot is None else slots * slot
    yield Metric("cycles.nop", idle, "cycles", "derived", "" if idle is not None else note)
    converting = sum("convert" in inst.op.traits for inst in vector)
    yield Metric("convert.instructions", converting, "instructions", "derived")
    packing = sum(inst.op.name in _PACKING for inst in vector)
    yield Metric("pack.instructions", packing, "instructions", "derived")


def rates(subject: Subject) -> tuple[int | None, int | None]:
    """Clocks of a full-rate and of a transcendental vector operation for the kernel's wave size."""
    machine = subject.machine
    if machine is None:
        return None, None
    wave = subject.function.resources.wave_size or machine.wave_sizes[0]
    return machine.valu_cycles.get(wave), machine.transcendental_cycles.get(wave)


def idle_slots(inst: Instruction) -> int:
    """Issue slots that a nop lets pass: N + 1 for `s_nop N`, 1 for others."""
    if inst.op.name != "s_nop":
        return 1
    try:
        return (int(inst.operands.strip(), 0) & _NOP_BITS) + 1
    except ValueError:
        return 1
