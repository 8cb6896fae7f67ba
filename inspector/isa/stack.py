"""Stack accesses on processors without scratch instructions, which use buffer instructions instead.

Before flat scratch (gfx9 before gfx940, and gfx10 as a rule), a kernel receives the buffer resource
of its scratch memory in s[0:3] (`.amdhsa_user_sgpr_private_segment_buffer`, bit 0 of the
descriptor's kernel_code_properties; "User Guide for AMDGPU Backend", "Initial Kernel Execution
State" and "Non-Kernel Functions"). A private array is then read by `buffer_load_dword v1, v2,
s[0:3], 0 offen`, which looks like global memory; LLVM's comments mark spills alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from ..model import Function, Instruction
from .dataflow.operands import operand_texts

_CLASSES: Mapping[str, str] = {"global_load": "scratch_load", "global_store": "scratch_store"}
_SCALAR = re.compile(r"(?<![\w.])s(?:(\d{1,3})\b|\[(\d{1,3}):(\d{1,3})\])")
_INITIAL = 0
"""The first of the scalar registers that hold the resource when a wave starts."""
_WIDTH = 4
"""Scalar registers of a buffer resource."""


def with_stack_accesses(functions: Sequence[Function]) -> list[Function]:
    """Reclasses accesses of the stack as scratch.

    Only where a kernel of the program receives the resource; device functions get it in the same
    registers. Registers that other instructions name are not taken for it: kernels that use no
    stack reuse them.
    """
    if not any(function.resources.private_segment_buffer for function in functions):
        return list(functions)
    return [
        _reclassed(function)
        if function.resources.private_segment_buffer or not function.is_kernel
        else function
        for function in functions
    ]


def _reclassed(function: Function) -> Function:
    """The function with the buffer accesses through the stack's resource classed as scratch."""
    resources = _resources(function.instructions)
    if not resources:
        return function
    return replace(
        function,
        instructions=tuple(
            replace(inst, cls=_CLASSES[inst.cls])
            if inst.cls in _CLASSES and _buffer_of(inst) in resources
            else inst
            for inst in function.instructions
        ),
    )


def _resources(instructions: Iterable[Instruction]) -> frozenset[int]:
    """First registers of the quadruples that hold the stack's resource throughout."""
    copies: dict[int, set[int]] = {}  # quadruple -> quadruples that its halves are copied to
    broken: set[int] = set()
    for inst in instructions:
        if _buffer_of(inst) is not None or _adds_wave_offset(inst):
            continue
        registers = _scalar_registers(inst.operands)
        halves = _copied(inst, registers)
        if halves is not None:
            to, source = halves
            copies.setdefault(source, set()).add(to)
        else:
            broken.update(register & -_WIDTH for register in registers)
            if _INITIAL in broken:
                return frozenset()  # the usual case, after a few instructions
    while True:
        reached = _reached(copies, broken)
        mixed = {
            to
            for source, targets in copies.items()
            for to in targets
            if to in reached and source not in reached
        }
        if not mixed:
            return reached
        broken |= mixed  # they also receive another resource


def _reached(copies: Mapping[int, set[int]], broken: set[int]) -> frozenset[int]:
    """Quadruples that the resource in s[0:3] is copied to, directly or through others."""
    reached: set[int] = set()
    work = [_INITIAL]
    while work:
        quadruple = work.pop()
        if quadruple not in reached and quadruple not in broken:
            reached.add(quadruple)
            work.extend(copies.get(quadruple, ()))
    return frozenset(reached)


def _buffer_of(inst: Instruction) -> int | None:
    """The first register of the resource in the third operand of a buffer access."""
    if "buffer" not in inst.op.traits:
        return None
    parts = operand_texts(inst.operands)
    match = _SCALAR.search(parts[2]) if len(parts) > 2 else None
    if match is None or match[2] is None or int(match[3]) - int(match[2]) != _WIDTH - 1:
        return None
    return int(match[2])


def _adds_wave_offset(inst: Instruction) -> bool:
    """Whether this adds the offset of the wave's scratch: `s_add_u32 s0, s0, s17` or `s_addc_u32
    s1, s1, 0`.
    """
    if inst.op.name not in ("s_add_u32", "s_addc_u32"):
        return False
    to, source = [*operand_texts(inst.operands), ""][:2]
    match = _SCALAR.fullmatch(to)
    if match is None or match[1] is None or to != source:
        return False
    return int(match[1]) % _WIDTH == (inst.op.name == "s_addc_u32")


def _copied(inst: Instruction, registers: Sequence[int]) -> tuple[int, int] | None:
    """(destination, source) quadruple of a move between the same halves of both, else None."""
    if inst.op.name != "s_mov_b64" or len(registers) != 4:
        return None
    (to, to_half), (source, source_half) = (divmod(registers[k], _WIDTH) for k in (0, 2))
    return (to * _WIDTH, source * _WIDTH) if to_half == source_half and to_half in (0, 2) else None


def _scalar_registers(operands: str) -> list[int]:
    registers: list[int] = []
    for single, first, last in _SCALAR.findall(operands):
        low = int(single or first)
        registers.extend(range(low, int(last or low) + 1))
    return registers
