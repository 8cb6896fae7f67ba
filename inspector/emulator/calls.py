"""Kernels that call functions: the code of all, behind one another, and where calls lead.

Functions that are not inlined (`@triton.jit(noinline=True)`, the report of a failed
`device_assert`) are called by `s_swappc_b64` and return by `s_setpc_b64`. The program counter
counts instructions here, and so does a function's address.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from ..isa.dataflow.operands import Decoded
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
