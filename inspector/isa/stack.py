"""Accesses of the stack on processors without scratch instructions, where buffer ones do it.

Before flat scratch (gfx9 before gfx940, and gfx10 as a rule), a kernel is given the buffer resource
of its scratch memory in s[0:3] (`.amdhsa_user_sgpr_private_segment_buffer`, bit 0 of the
descriptor's kernel_code_properties; "User Guide for AMDGPU Backend", "Initial Kernel Execution
State" and "Non-Kernel Functions"). A private array is then read by `buffer_load_dword v1, v2,
s[0:3], 0 offen`, which looks like global memory; LLVM's comments tell of spills alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from ..model import Function, Instruction

_CLASSES: Mapping[str, str] = {"global_load": "scratch_load", "global_store": "scratch_store"}
_SCALAR = re.compile(r"(?<![\w.])s(?:(\d{1,3})\b|\[(\d{1,3}):(\d{1,3})\])")
_INITIAL = 0
"""The first of the four scalar registers that the resource is handed over in."""
_WIDTH = 4


def with_stack_accesses(functions: Sequence[Function]) -> list[Function]:
    """The functions, their accesses of the stack classed as scratch.

    Only where a kernel of the program is given the resource; functions that are called find it in
    the same registers. Registers that anything else names are not taken for it: kernels that never
    use a stack compute other things there.
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
    """First registers of the quadruples that hold the stack's resource, all the while."""
    copies: dict[int, set[int]] = {}  # quadruple -> those that halves of it are copied to
    broken: set[int] = set()
    for inst in instructions:
        if _buffer_of(inst) is not None or _adds_wave_offset(inst):
            continue
        named = _named(inst.operands)
        halves = _copied(inst, named)
        if halves is not None:
            to, source = halves
            copies.setdefault(source, set()).add(to)
        else:
            broken.update(register & -_WIDTH for register in named)
            if _INITIAL in broken:
                return frozenset()  # so it is in most kernels, after a few instructions
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
        broken |= mixed  # what is copied there from elsewhere is another resource


def _reached(copies: Mapping[int, set[int]], broken: set[int]) -> frozenset[int]:
    """Where the resource is found that came in s[0:3], by copies."""
    reached: set[int] = set()
    waiting = [_INITIAL]
    while waiting:
        quadruple = waiting.pop()
        if quadruple not in reached and quadruple not in broken:
            reached.add(quadruple)
            waiting.extend(copies.get(quadruple, ()))
    return frozenset(reached)


def _buffer_of(inst: Instruction) -> int | None:
    """The first register of the resource that a buffer access goes through: its third operand."""
    if "buffer" not in inst.op.traits:
        return None
    parts = inst.operands.split(",")
    match = _SCALAR.search(parts[2]) if len(parts) > 2 else None
    if match is None or match[2] is None or int(match[3]) - int(match[2]) != _WIDTH - 1:
        return None
    return int(match[2])


def _adds_wave_offset(inst: Instruction) -> bool:
    """`s_add_u32 s0, s0, s17`, `s_addc_u32 s1, s1, 0`: where this wave's part begins."""
    if inst.op.name not in ("s_add_u32", "s_addc_u32"):
        return False
    to, source, *_ = inst.operands.split(",")
    match = _SCALAR.fullmatch(to.strip())
    if match is None or match[1] is None or to.strip() != source.strip():
        return False
    return int(match[1]) % _WIDTH == (inst.op.name == "s_addc_u32")


def _copied(inst: Instruction, named: Sequence[int]) -> tuple[int, int] | None:
    """Quadruples that half of one is copied to and from, the same half of both."""
    if inst.op.name != "s_mov_b64" or len(named) != 4:
        return None
    (to, to_half), (source, source_half) = (divmod(named[k], _WIDTH) for k in (0, 2))
    return (to * _WIDTH, source * _WIDTH) if to_half == source_half and to_half in (0, 2) else None


def _named(operands: str) -> list[int]:
    registers: list[int] = []
    for single, first, last in _SCALAR.findall(operands):
        low = int(single or first)
        registers.extend(range(low, int(last or low) + 1))
    return registers
