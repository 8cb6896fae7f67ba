"""The floating-point mode that stands at each instruction of a function.

The mode register is the same for all lanes, and steps are built for the mode that they run in. Two
of its fields are written by compiled code and followed here, through the flow graph: denormals
(code that flushes those of float32 keeps them during a division: LLVM, SIISelLowering.cpp,
LowerFDIV32) and FP16_OVFL (set at the start of kernels that narrow to 8 bits). Fields: CDNA3 ISA,
3.5 (MODE); RDNA4 ISA, 3.4; names: LLVM, AMDGPUAsmUtils.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import Decoded, Operand
from ..model import Function
from .registry import NotCoveredError

MODE_REGISTERS: Final = frozenset({"HW_REG_MODE", "HW_REG_WAVE_MODE"})
_FIELD: Final = re.compile(r"hwreg\((\w+)(?:,\s*(\d{1,9}))?(?:,\s*(\d{1,9}))?\)")
_DENORMALS: Final = 0xF0
_OVERFLOW: Final = 1 << 23
_CALLS: Final = frozenset({"s_swappc_b64", "s_call_b64"})
FOLLOWED: Final = _DENORMALS | _OVERFLOW
"""The bits whose immediate writes are followed."""


class _Mode(Struct, frozen=True):
    """The mode register: its bits, and which of them depend on the path taken."""

    bits: int
    unknown: int = 0

    def joined(self, other: _Mode) -> _Mode:
        unknown = self.unknown | other.unknown | self.bits ^ other.bits
        return _Mode(self.bits & ~unknown, unknown)

    def written(self, mask: int, bits: int) -> _Mode:
        return _Mode(self.bits & ~mask | bits, self.unknown & ~mask)


def field_of(operand: Operand) -> tuple[str, int, int]:
    """`hwreg(HW_REG_MODE, 4, 2)`: name, first bit, number of bits.

    Raises:
        NotCoveredError: a register that has no name.
    """
    match = _FIELD.fullmatch(operand.text)
    if match is None:
        raise NotCoveredError(f"hardware register {operand.text}")
    return match[1], int(match[2] or 0), int(match[3] or 32)


def mode_of(target: ExecutionTarget) -> tuple[int, int]:
    """The mode register of a wave, and a mask of the bits that change values.

    Rounding (3:0) is to nearest even; denormals (7:4): 3 keeps, 0 flushes, for f32, then for f16
    and f64; DX10_CLAMP (8), IEEE (9) up to gfx11; FP16_OVFL (23); on gfx9 indexing of registers
    (27) and skipping (28).
    """
    bits = (0 if target.flush32 else 0x30) | (0 if target.flush16 else 0xC0)
    bits |= _OVERFLOW if target.saturates16 else 0
    mask = 0xFF | _OVERFLOW
    if target.generation < 12:
        bits |= target.dx10_clamp << 8 | target.ieee << 9
        mask |= 0x300
    if target.generation == 9:
        mask |= 3 << 27
    return bits, mask


def targets_of(
    function: Function, decoded: Sequence[Decoded], target: ExecutionTarget
) -> list[ExecutionTarget | None]:
    """The target in the mode that stands before each instruction.

    `target`: in the mode that waves start in. Returns for each instruction; None where the mode
    depends on the path taken, where it is one that keeps denormals of sources or of results alone,
    and for a return in another mode than that of the calls.
    """
    writes = {site: write for site, parts in enumerate(decoded) if (write := _write(parts))}
    if not writes:
        return [target] * len(decoded)
    flow = _Flow(function, decoded, writes, _Mode(mode_of(target)[0]))
    in_mode: dict[_Mode, ExecutionTarget | None] = {}
    targets: list[ExecutionTarget | None] = [target] * len(decoded)
    for number, block in enumerate(function.blocks):
        for site, mode in flow.modes(number):
            if mode not in in_mode:
                in_mode[mode] = _in(mode, target)
            returns = decoded[site].name == "s_setpc_b64" and not block.successors
            if returns and mode != flow.called:
                targets[site] = None
            elif site not in writes:  # these are carried out whatever the mode is
                targets[site] = in_mode[mode]
    return targets


def _write(parts: Decoded) -> tuple[int, int] | None:
    """Which of the followed bits an immediate write of the mode sets, and to what."""
    if len(parts.operands) != {"s_denorm_mode": 1, "s_setreg_imm32_b32": 2}.get(parts.name):
        return None
    if parts.name == "s_denorm_mode":
        first, width = 4, 4
        number = parts.operands[0].integer
    else:
        match = _FIELD.fullmatch(parts.operands[0].text)
        if match is None or match[1] not in MODE_REGISTERS:
            return None
        first, width = int(match[2] or 0), int(match[3] or 32)
        number = parts.operands[1].integer
    mask = ((1 << width) - 1) << first & FOLLOWED
    return None if number is None or not mask else (mask, number << first & mask)


class _Flow:
    """The mode at the entry of each block.

    A function that is called finds the mode of its callers, and is held to leave it as it was.
    """

    def __init__(
        self,
        function: Function,
        decoded: Sequence[Decoded],
        writes: Mapping[int, tuple[int, int]],
        initial: _Mode,
    ) -> None:
        """Follows the mode through the flow graph, block after block, until nothing changes."""
        self._blocks = function.blocks
        self._decoded = decoded
        self._writes = writes
        led_to = {number for block in self._blocks for number in block.successors}
        functions = [n for n in range(1, len(self._blocks)) if n not in led_to]
        self._entries = {0: initial}
        pending = [0]
        while pending:
            number = pending.pop()
            mode = self._entries[number]
            reached: list[tuple[int, _Mode]] = []
            for site, mode in self.modes(number):
                if decoded[site].name in _CALLS:
                    reached += [(callee, mode) for callee in functions]
                mode = self._after(site, mode)
            reached += [(successor, mode) for successor in self._blocks[number].successors]
            for successor, arriving in reached:
                before = self._entries.get(successor)
                after = arriving if before is None else before.joined(arriving)
                if after != before:
                    self._entries[successor] = after
                    pending.append(successor)
        self.called = self._entries.get(functions[0], initial) if functions else initial
        """The mode in which functions are called."""

    def modes(self, number: int) -> Iterator[tuple[int, _Mode]]:
        """Each instruction of a block that is reached, and the mode before it."""
        mode = self._entries.get(number)
        if mode is None:
            return
        block = self._blocks[number]
        for site in range(block.start, block.stop):
            yield site, mode
            mode = self._after(site, mode)

    def _after(self, site: int, mode: _Mode) -> _Mode:
        return mode.written(*self._writes[site]) if site in self._writes else mode


def _in(mode: _Mode, target: ExecutionTarget) -> ExecutionTarget | None:
    """Returns the target in a mode; None for a mode that steps are not built for."""
    single, other = mode.bits >> 4 & 3, mode.bits >> 6 & 3
    if mode.unknown or single not in (0, 3) or other not in (0, 3):
        return None
    return replace(
        target, flush32=single == 0, flush16=other == 0, saturates16=bool(mode.bits & _OVERFLOW)
    )
