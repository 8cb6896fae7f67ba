"""Kernels that call functions: the code of all, behind one another, and where calls lead.

Functions that are not inlined (`@triton.jit(noinline=True)`, the report of a failed
`device_assert`) are called by `s_swappc_b64` and return by `s_setpc_b64`. The program counter
counts instructions here, and so does a function's address.

Addresses of constants, which code makes from the program counter.

LLVM writes `s_getpc_b64 s[0:1]`, `s_add_u32 s0, s0, table@rel32@lo+4`, `s_addc_u32 s1, s1,
table@rel32@hi+12`. The linker puts table + addend - the place of the literal itself, so that the
addend holds the literal's distance from the program counter, and an offset in the table on top.
Source: R_AMDGPU_REL32_LO, _HI and REL64 in LLVM's AMDGPUUsage, "Relocation Records".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from ..isa.dataflow.operands import Decoded, Operand
from ..model import Block, Function, Loop
from .registry import NotCoveredError
from .waves import Array, Waves


def joined(kernel: Function, functions: Sequence[Function]) -> tuple[Function, dict[str, int]]:
    """A kernel with all that it calls, as one function that begins with the kernel.

    Returns the code, and the index of each called function's first instruction by its name.
    """
    by_name = {function.symbol or function.name: function for function in functions}
    starts: dict[str, int] = {}
    instructions, blocks, loops = list(kernel.instructions), list(kernel.blocks), list(kernel.loops)
    waiting = list(kernel.calls)
    while waiting:
        name = waiting.pop(0)
        if name in starts or name not in by_name:
            continue
        callee = by_name[name]
        starts[name] = len(instructions)
        loops += [_moved_loop(loop, name, len(blocks)) for loop in callee.loops]
        blocks += [_moved_block(block, len(instructions), len(blocks)) for block in callee.blocks]
        instructions += callee.instructions
        waiting += callee.calls
    if not starts:
        return kernel, {}
    program = replace(
        kernel, instructions=tuple(instructions), blocks=tuple(blocks), loops=tuple(loops)
    )
    return program, starts


def _moved_block(block: Block, instructions: int, blocks: int) -> Block:
    """A callee's block where that many instructions and blocks stand before the callee."""
    return replace(
        block,
        index=block.index + blocks,
        start=block.start + instructions,
        stop=block.stop + instructions,
        successors=tuple(number + blocks for number in block.successors),
        predecessors=tuple(number + blocks for number in block.predecessors),
    )


def _moved_loop(loop: Loop, callee: str, blocks: int) -> Loop:
    """A callee's loop where that many blocks stand before the callee."""
    return replace(
        loop,
        id=f"{callee} {loop.id}",
        header=loop.header + blocks,
        blocks=tuple(number + blocks for number in loop.blocks),
        latches=tuple(number + blocks for number in loop.latches),
        parent=None if loop.parent is None else f"{callee} {loop.parent}",
    )


def called_blocks(
    parts: Decoded, site: int, block_of: Mapping[int, int]
) -> Callable[[Waves], Array] | None:
    """Returns what tells the block that each wave goes to by a call or a return, int64 [wave].

    A call also writes its return address, the index of the instruction behind it.

    `block_of`: index of a block's first instruction -> the block's number. Returns None for other
    instructions.
    """
    if parts.name not in ("s_swappc_b64", "s_setpc_b64"):
        return None
    pairs = [operand for operand in parts.operands if operand.kind == "sgpr" and operand.count == 2]
    if len(pairs) != len(parts.operands) or len(pairs) != (2 if "swap" in parts.name else 1):
        return None
    target = parts.operands[-1].first
    saved = parts.operands[0].first if parts.name == "s_swappc_b64" else None
    numbers = np.full(max(block_of) + 2, -1, np.int64)
    numbers[list(block_of)] = list(block_of.values())

    def goes(waves: Waves) -> Array:
        indices = np.minimum(waves.pair(target), np.uint64(len(numbers) - 1)).astype(np.int64)
        if saved is not None:
            waves.set_pair(saved, np.full(waves.count, site + 1, np.uint64))
        blocks = numbers[indices]
        if (blocks < 0).any():
            raise NotCoveredError(f"{parts.text}: it leads to no instruction that is known")
        return np.asarray(blocks)

    return goes


_RELATIVE: Final = re.compile(r"([\w.$]+)@(rel32@lo|rel32@hi|rel64)(?:\+(\d{1,9}))?")
_COUNTERS: Final = ("s_getpc_b64", "s_get_pc_i64")
_FARTHEST: Final = 8
"""Instructions between the program counter and an addition to it, at most."""


def resolved(decoded: Sequence[Decoded], symbols: Mapping[str, int]) -> list[Decoded]:
    """The instructions, with numbers for constants' relative addresses.

    `decoded`: a function's instructions. The emulator's program counter is an index of these.
    `symbols`: constant -> address. Operands that name another symbol stay as they are.
    """
    return [
        replace(
            parts,
            operands=tuple(
                _resolved(decoded, site, operand, symbols) if "@rel" in operand.text else operand
                for operand in parts.operands
            ),
        )
        if "@rel" in parts.text
        else parts
        for site, parts in enumerate(decoded)
    ]


def _resolved(
    decoded: Sequence[Decoded], site: int, operand: Operand, symbols: Mapping[str, int]
) -> Operand:
    """Returns an operand with the constant's distance for its relocation."""
    match = _RELATIVE.fullmatch(operand.text)
    if match is None or match[1] not in symbols:
        return operand
    for counter in range(site - 1, max(site - _FARTHEST, 0) - 1, -1):
        if decoded[counter].name in _COUNTERS:
            break
    else:
        return operand
    # Between are additions with such a literal (8 bytes, 12 for 64 bits) and waits (4).
    distance = 4 + sum(8 if "@rel" in decoded[n].text else 4 for n in range(counter + 1, site))
    program_counter = counter + 1
    value = symbols[match[1]] + int(match[3] or 0) - distance - program_counter
    if match[2] == "rel64":
        bits = value & (1 << 64) - 1
    else:
        bits = (value >> (32 if match[2] == "rel32@hi" else 0)) & 0xFFFF_FFFF
    return Operand("constant", operand.text, integer=bits)
