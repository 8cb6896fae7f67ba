"""The GPU and its mode, as far as instructions differ by them, and what a wave begins with."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from ...model import Function, WaveStart
from .operands import EXEC, M0, SCALAR_ROWS, TTMP, VCC, scalar_bits, vector_bits


class ExecutionTarget(Struct, frozen=True, cache_hash=True):
    """The properties of a GPU and of its mode by which instructions differ.

    Args:
        generation: 9, 10, 11 or 12 (gfx1250 counts as 12).
        lanes: wave size.
        accum_offset: vector row of AGPR 0.
        flush32: whether f32 denormals are flushed (the kernel's initial mode).
        flush16: whether f16 and f64 denormals are flushed.
        dx10_clamp: whether clamp turns NaN to 0.
        ieee: whether min and max quiet signalling NaNs (IEEE mode).
        saturates16: whether f16 and 8-bit floats that overflow become the largest number
            (MODE.FP16_OVFL).
    """

    arch: str
    generation: int
    lanes: int
    accum_offset: int = 512
    flush32: bool = False
    flush16: bool = False
    dx10_clamp: bool = True
    ieee: bool = True
    saturates16: bool = False

    @property
    def is_cdna3(self) -> bool:
        """gfx940 and later of the CDNA line."""
        return self.arch in ("gfx940", "gfx941", "gfx942", "gfx950")

    @property
    def packs_work_items(self) -> bool:
        """Whether x, y and z stand in 10 bits each of v0 (AMDGPUUsage)."""
        return self.generation >= 11 or self.is_cdna3 or self.arch == "gfx90a"

    @property
    def d16_clears(self) -> bool:
        """Whether a 16-bit load clears the other half: registers with ECC (sramecc)."""
        return self.is_cdna3 or self.arch in ("gfx908", "gfx90a", "gfx1250", "gfx1251")


_FLAT_SCRATCH: Final = 102


def target_of(function: Function, arch: str) -> ExecutionTarget:
    """The GPU as a kernel finds it.

    `function`: the kernel, which states the mode that a wave starts in.
    """
    resources = function.resources
    start = resources.wave_start
    digits = arch.removeprefix("gfx")[:-2]
    generation = int(digits) if digits.isdecimal() else 9
    return ExecutionTarget(
        arch,
        generation,
        # The assembler's default (.amdhsa_wavefront_size32).
        resources.wave_size or (32 if generation >= 10 else 64),
        resources.accum_offset or 512,
        flush32=start is not None and not start.denorm_f32,
        flush16=start is not None and not start.denorm_f16_f64,
        # gfx12 has neither mode: clamp turns NaN to 0, min and max take the number.
        dx10_clamp=generation >= 12 or start is None or start.dx10_clamp is not False,
        ieee=generation < 12 and start is not None and bool(start.ieee_mode),
    )


def initial_registers(start: WaveStart, target: ExecutionTarget) -> int:
    """The set of registers that hold something when a wave begins (LLVM's AMDGPUUsage)."""
    known = vector_bits(0, 1 if target.packs_work_items else start.work_item_dims + 1)
    pairs = (start.dispatch_ptr, start.queue_ptr, start.kernarg_ptr, start.dispatch_id,
             start.flat_scratch_init)  # fmt: skip
    for first, count in (
        *((pair, 2) for pair in pairs),
        (start.private_segment_buffer, 4),
        (start.private_segment_size, 1),
        (start.preload_sgpr, start.preload_dwords),
    ):
        if first is not None:
            known |= scalar_bits(first, count)
    if target.generation < 12:  # from gfx12 on these are trap temporaries
        system = sum(start.workgroup_ids) + start.workgroup_info + start.wave_offset
        known |= scalar_bits(start.user_sgprs, system)
    known |= scalar_bits(_FLAT_SCRATCH, VCC - _FLAT_SCRATCH)
    known |= scalar_bits(TTMP, M0 - TTMP) | scalar_bits(EXEC, SCALAR_ROWS - EXEC)
    return known
