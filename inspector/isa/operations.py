"""Floating-point operations of one instruction, by its mnemonic.

All lanes count as active, as profilers count them (ROCm Compute Profiler, "FLOP counting
conventions"); unlike there, a packed instruction counts each of its elements. A multiply-and-add is
two operations; comparisons, minima, conversions and moves are none.

The issue slots that a nop lets pass.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from msgspec import Struct

from ..model import Instruction


class Operations(Struct, frozen=True):
    """Operations of one kind that one wave's execution of an instruction performs.

    Args:
        pipe: `matrix` or `vector`.
        element: `f16`, `bf16`, `f32`, `xf32`, `f64`, `f8` (fp8 and bf8), `f6f4` (f8f6f4), or `i8`
            and `i4`, whose operations are of integers.
        kind: of a vector instruction: `add`, `mul`, `fma`, `trans` or `dot`; of a matrix
            instruction `mfma`, `smfmac`, `wmma` or `swmmac`.
    """

    pipe: str
    element: str
    kind: str
    count: int


_MATRIX: Final = re.compile(
    r"v_(?P<kind>mfma|smfmac|wmma|swmmac)_(?:scale(?:16)?_)?(?:f64|f32|f16|bf16f32|bf16|i32)_"
    r"(?P<m>\d{1,9})x(?P<n>\d{1,9})x(?P<k>\d{1,9})(?:_(?P<blocks>\d{1,9})b)?_?(?P<element>[a-z]+\d+)"
)
_ELEMENTS: Final = {"fp8": "f8", "bf8": "f8", "iu8": "i8", "iu4": "i4", "f4": "f6f4"}
_BITS: Final = {"f64": 64, "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8}
_REGISTERS: Final = re.compile(r"[va]\[(\d{1,9}):(\d{1,9})\]")
_VECTOR: Final = re.compile(
    r"v_(?P<packed>pk_)?(?P<name>add|sub|subrev|mul|mul_legacy|fma|fmac|fmamk|fmaak|fma_legacy"
    r"|fmac_legacy|mad|mac|madmk|madak|mad_legacy|mac_legacy"
    r"|exp|log|rcp|rsq|sqrt|sin|cos|rcp_iflag|tanh)_(?P<element>b?f\d+)"
)
_MIXED: Final = re.compile(r"v_(fma|mad)_mix(lo|hi)?_\w+")
_DOT: Final = re.compile(r"v_dot(\d)(?:c|acc)?_(?:f32|f16|bf16)_(?P<element>\w+?)(?:_e\d+)?")
_KINDS: Final = {
    **dict.fromkeys(("add", "sub", "subrev"), "add"),
    **dict.fromkeys(("mul", "mul_legacy"), "mul"),
    **dict.fromkeys(("exp", "log", "rcp", "rcp_iflag", "rsq", "sqrt"), "trans"),
    **dict.fromkeys(("sin", "cos", "tanh"), "trans"),
}
_MULTIPLY_AND_ADD: Final = re.compile(r"fma|mad|mac")


def operations(instruction: Instruction, lanes: int) -> tuple[Operations, ...]:
    """The operations that one wave's execution of an instruction performs.

    Args:
        instruction: any instruction.
        lanes: lanes of a wave.

    Returns:
        One entry as a rule, two for VOPD, none where nothing is computed in floating point.
    """
    name = instruction.op.name
    if instruction.cls in ("mfma", "wmma"):
        # The operands are D, A, B, C.
        a_operand = instruction.operands.partition(",")[2].partition(",")[0].strip()
        a_range = _REGISTERS.fullmatch(a_operand)
        a_registers = int(a_range[2]) - int(a_range[1]) + 1 if a_range is not None else 1
        product = _matrix(name, a_registers)
        return (product,) if product is not None else ()
    if not name.startswith("v_"):
        return ()
    if " :: " not in instruction.operands:
        return _vector(name, lanes)
    second_name = instruction.operands.partition(" :: ")[2].split()[0]
    halves = (half.replace("v_dual_", "v_").removesuffix("_e32") for half in (name, second_name))
    return tuple(operation for half in halves for operation in _vector(half, lanes))


def product_of(name: str) -> Operations | None:
    """The operations of a matrix instruction of one block, or whose name states its blocks."""
    return _matrix(name, 1)


@functools.lru_cache(maxsize=512)
def _matrix(name: str, a_registers: int) -> Operations | None:
    """Operations of D = A · B + C: 2 · M · N · K for each block; half where A is sparse."""
    match = _MATRIX.match(name)
    if match is None:
        return None
    rows, columns, depth = (int(match[key]) for key in "mnk")
    element = match["element"]
    element = "f6f4" if "f8f6f4" in name else _ELEMENTS.get(element, element)
    blocks = 1
    if match["blocks"] is not None:
        blocks = int(match["blocks"])
    elif match["kind"] == "mfma" and element in _BITS:
        blocks = max(1, a_registers * 32 // _BITS[element] * 64 // (rows * depth))
    count = 2 * rows * columns * depth * blocks
    if match["kind"] in ("smfmac", "swmmac"):
        count //= 2
    return Operations("matrix", element, match["kind"], count)


@functools.lru_cache(maxsize=4096)
def _vector(name: str, lanes: int) -> tuple[Operations, ...]:
    """Operations of one vector instruction, or of one half of VOPD; () where it has none."""
    if (match := _VECTOR.fullmatch(name)) is not None:
        operation = _KINDS.get(match["name"])
        if operation is None:
            operation = "fma" if _MULTIPLY_AND_ADD.match(match["name"]) else None
        if operation is None:
            return ()
        per_lane = (2 if operation == "fma" else 1) * (2 if match["packed"] else 1)
        return (Operations("vector", match["element"], operation, per_lane * lanes),)
    if _MIXED.fullmatch(name):
        return (Operations("vector", "f32", "fma", 2 * lanes),)
    if (match := _DOT.fullmatch(name)) is not None:
        count = 2 * int(match[1]) * lanes
        return (Operations("vector", match["element"].split("_")[0], "dot", count),)
    return ()


_NOP_BITS = 0xF


def idle_slots(inst: Instruction) -> int:
    """Issue slots that a nop lets pass: N + 1 for `s_nop N` (CDNA3 ISA, S_NOP), 1 for others."""
    if inst.op.name != "s_nop":
        return 1
    try:
        return (int(inst.operands.strip(), 0) & _NOP_BITS) + 1
    except ValueError:
        return 1
