"""Loops of compare-and-swap that do what one atomic instruction of other targets does.

An operation without an atomic instruction is done by a loop: compute the new value of the one read
last, write it if memory still holds that one (`cmpswap`), else go on with what it holds now. Clang
makes such a loop of `atomicAdd` on float32 for gfx90a unless `-munsafe-fp-atomics` says that no
such memory is fine-grained (LLVM, SITargetLowering::shouldExpandAtomicRMWInIR), and older sources
have it written out for float64. Each turn is a return trip to the L2, and of lanes that add to one
address one succeeds in a turn.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..isa.dataflow.operands import operand_texts
from ..isa.waitflow.registers import named
from ..model import Instruction, Scalar
from .entries import of_kernels
from .subject import LineName, Subject, own_instructions

SPECS = of_kernels(
    {
        "atomics.exchange_loops": "Loops of a compare-and-swap whose new value is one operation "
        "of the old value and of one that the loop does not change: how many (`loops`); those on "
        "global memory whose operation is a sum, maximum or minimum of floats that the target has "
        "no instruction for, though others have (`emulated`; without those that one lane of a "
        "wave does), and `emulated_at` which line the first is",
    }
)

_SWAP: Final = re.compile(
    r"(?:(?:global|flat)_atomic_cmpswap(_x2|_b32|_b64)?|ds_cmpst(?:ore)?_rtn_b(?:32|64))$"
)
_COPIES: Final = frozenset(("v_mov_b32", "v_mov_b64"))
_MOST_COPIES: Final = 8
_MOST_INSTRUCTIONS: Final = 64
"""Of a loop that is searched; those that LLVM writes have about ten."""

_CDNA2, _CDNA3 = frozenset(("gfx90a",)), frozenset(("gfx940", "gfx941", "gfx942", "gfx950"))
_RDNA1 = frozenset(("gfx1010", "gfx1011", "gfx1012", "gfx1013"))
_RDNA2 = frozenset(("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036"))
_RDNA3 = frozenset(
    ("gfx1100", "gfx1101", "gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153")
)
_RDNA4 = frozenset(("gfx1200", "gfx1201"))

NATIVE: Final[Mapping[str, tuple[tuple[frozenset[str], str], ...]]] = {
    "add_f32": ((_CDNA2 | _CDNA3 | _RDNA3 | _RDNA4, "global_atomic_add_f32"),),
    "add_f64": ((_CDNA2 | _CDNA3, "global_atomic_add_f64"),),
    "pk_add_f16": ((_CDNA2 | _CDNA3 | _RDNA4, "global_atomic_pk_add_f16"),),
    "max_f32": ((_RDNA1 | _RDNA2, "global_atomic_fmax"), (_RDNA3, "global_atomic_max_f32")),
    "min_f32": ((_RDNA1 | _RDNA2, "global_atomic_fmin"), (_RDNA3, "global_atomic_min_f32")),
    "max_f64": (
        (_CDNA2 | _CDNA3, "global_atomic_max_f64"),
        (_RDNA1 | _RDNA2, "global_atomic_fmax_x2"),
    ),
    "min_f64": (
        (_CDNA2 | _CDNA3, "global_atomic_min_f64"),
        (_RDNA1 | _RDNA2, "global_atomic_fmin_x2"),
    ),
    "max_num_f32": ((_RDNA4, "global_atomic_max_num_f32"),),
    "min_num_f32": ((_RDNA4, "global_atomic_min_num_f32"),),
}
"""Operation -> the targets that have it as an atomic of global memory, and its name there.

LLVM, FLATInstructions.td and the features of AMDGPU.td; `tests/test_exchange_loops.py` assembles
each. gfx908 is left out: its instruction returns nothing, which only some loops bear; and so is
gfx1250.
"""

_LEFT_OUT: Final = frozenset(("gfx908", "gfx1250"))
"""Targets that `NATIVE` leaves out though they have such instructions."""

_DIFFERENCES: Final = {"sub_f32": ("add_f32", 0), "subrev_f32": ("add_f32", 1)}
"""Differences -> the sum that does the same, and which operand is not the subtrahend."""
_CANONICAL: Final = frozenset(("max_f32", "max_f64", "max_num_f32", "max_num_f64"))


class _Defined(Struct, frozen=True):
    """A register's value: the register, and the instruction of the loop that wrote it, if any."""

    register: int
    writer: int | None


class _Loop:
    """The instructions of one loop up to its compare-and-swap."""

    def __init__(self, code: Sequence[Instruction], swap: int) -> None:
        self.before = code[:swap]
        self.written = {
            register
            for inst in code
            for register in named(operand_texts(inst.operands)[0])
            if not _writes_nothing(inst)
        }

    def origin(self, register: int, until: int | None = None) -> _Defined:
        """The value that a register holds before instruction `until`, copies followed."""
        position = len(self.before) if until is None else until
        for _ in range(_MOST_COPIES):
            writer = self._writer(register, position)
            if writer is None:
                return _Defined(register, None)
            source = self._copied(writer, register)
            if source is None:
                return _Defined(register, writer)
            register, position = source, writer
        return _Defined(register, position)

    def _writer(self, register: int, position: int) -> int | None:
        for index in range(position - 1, -1, -1):
            inst = self.before[index]
            if not _writes_nothing(inst) and register in named(operand_texts(inst.operands)[0]):
                return index
        return None

    def _copied(self, index: int, register: int) -> int | None:
        """The register that an instruction copies (or only makes canonical) to this one."""
        inst = self.before[index]
        result, *sources = _parts(inst)
        base = inst.op.name
        offset = named(result).index(register)
        is_canonical = (
            base.removeprefix("v_") in _CANONICAL and len(sources) == 2 and sources[0] == sources[1]
        )
        if base not in _COPIES and not is_canonical:
            return None
        source = named(sources[0]) if sources else ()
        return source[offset] if len(source) > offset else None

    def is_unchanged(self, operand: str) -> bool:
        """Whether no instruction of the loop writes an operand."""
        return self.written.isdisjoint(named(operand))


def exchange_loops(subject: Subject) -> dict[str, Scalar]:
    """The value of the metric of `SPECS`."""
    arch = subject.machine.arch if subject.machine is not None else None
    loops = 0
    emulated: list[Instruction] = []
    if any(_SWAP.match(inst.op.name) for inst in subject.function.instructions):
        for code in own_instructions(subject.function).values():
            swap_at = _only_swap(code)
            if swap_at is None:
                continue
            operation = _operation(code, swap_at)
            if operation is None:
                continue
            swap, name = operation
            loops += 1
            is_global = not swap.op.name.startswith("ds_")
            if is_global and _needs_loop(name, arch) and not _is_of_one_lane(subject, swap):
                emulated.append(swap)
    emulated.sort(key=lambda swap: swap.index)
    return {
        "loops": loops,
        "emulated": len(emulated),
        "emulated_at": LineName.of(emulated),
    }


def _needs_loop(name: str, arch: str | None) -> bool:
    """Whether an operation on floats has an atomic instruction on other targets only."""
    if arch is None or arch in _LEFT_OUT or name not in NATIVE:
        return False
    return not any(arch in archs for archs, _ in NATIVE[name])


def _is_of_one_lane(subject: Subject, swap: Instruction) -> bool:
    """Whether one lane of a wave is known to take part, as behind a reduction."""
    use = subject.uses.get(swap.index)
    return use is not None and use.lanes == 1


def _only_swap(code: Sequence[Instruction]) -> int | None:
    """Where the only compare-and-swap of a short loop stands in it."""
    if len(code) > _MOST_INSTRUCTIONS:
        return None
    swaps = [index for index, inst in enumerate(code) if _SWAP.match(inst.op.name)]
    return swaps[0] if len(swaps) == 1 else None


def _operation(code: Sequence[Instruction], swap_at: int) -> tuple[Instruction, str] | None:
    """The compare-and-swap of a loop and the operation that makes its new value, if it is one."""
    swap = code[swap_at]
    new, old = _exchanged(swap)
    if new is None or old is None:
        return None
    loop = _Loop(code, swap_at)
    made = loop.origin(new)
    if made.writer is None:
        return None
    maker = code[made.writer]
    _, *sources = _parts(maker)
    if len(sources) != 2:
        return None
    before = loop.origin(old)
    name = maker.op.name.removeprefix("v_")
    for place, source in enumerate(sources):
        registers = named(source) if source.startswith("v") else ()
        is_old = bool(registers) and loop.origin(registers[0], made.writer) == before
        if is_old and loop.is_unchanged(sources[1 - place]):
            total, minuend = _DIFFERENCES.get(name, (name, place))
            return swap, total if minuend == place else name
    return None


def _exchanged(swap: Instruction) -> tuple[int | None, int | None]:
    """The first registers of the new value and of the one compared with."""
    parts = _parts(swap)
    if swap.op.name.startswith("ds_cmpst_"):
        first, second = parts[3:4], parts[2:3]
    elif swap.op.name.startswith("ds_"):
        first, second = parts[2:3], parts[3:4]
    else:
        pair = named(parts[2]) if len(parts) > 2 else ()
        half = len(pair) // 2
        return (pair[0], pair[half]) if half else (None, None)
    new, old = named(first[0] if first else ""), named(second[0].split()[0] if second else "")
    return (new[0] if new else None), (old[0] if old else None)


def _parts(inst: Instruction) -> list[str]:
    return list(operand_texts(inst.operands))


def _writes_nothing(inst: Instruction) -> bool:
    """Whether the first operand is read, as a store's."""
    return inst.cls in ("global_store", "lds_write", "scratch_store", "branch", "wait")
