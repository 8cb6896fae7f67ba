"""Where the lanes of each memory access lie relative to one another, without running the kernel.

The instructions that addresses depend on are carried out, by the emulator's own steps, block after
block along every edge of the flow graph. What is not known until launch (kernel arguments, values
in memory, workgroup numbers) is drawn, several times side by side: what is the same in every draw
does not depend on it. Where edges meet, registers that differ by a uniform amount go on as one of
them and an unknown uniform amount, which is what a loop's counters and buffers in turn come to;
others are *scattered*, as are the results of vector loads: nothing is said of accesses that rest on
these. Of the edges to a block, those count that some draw takes, or all where none does.

Assumptions: tensors begin on a line, sizes and strides that are not known are multiples of 16, and
masks that compare with them let all lanes through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..emulator.start import waves_of
from ..isa.dataflow.execution_target import target_of
from ..model import Function, Machine
from .address_code import AddressCode
from .address_sweep import AddressSweep, Places
from .spilled_registers import SpillDwords
from .unknowns import Arguments

MOST_WORK: Final = 16_000_000
"""Instructions times lanes of a workgroup; larger kernels are not looked at."""


class Located(Struct, frozen=True):
    """The accesses of a kernel and where their lanes lie.

    `uncovered`: accesses that the emulator does not carry out, by index: why. `code`: what was
    carried out, for further calls with the same code and spills.
    """

    places: Sequence[Places]
    uncovered: Mapping[int, str]
    code: AddressCode


def places_of(
    function: Function,
    gpu: Machine,
    threads: tuple[int, int, int],
    arguments: Arguments | None = None,
    spills: SpillDwords | None = None,
    *,
    whole_waves: bool = False,
    code: AddressCode | None = None,
) -> Located | None:
    """Where the accesses of a kernel lie.

    `spills`: its spills and reloads, which are followed; None: what is reloaded is unknown.
    `whole_waves`: whether a comparison by order with something unknown holds for all lanes, as
    checks of bounds do but in the last workgroup. Returns None where the kernel does not say how
    waves begin, or is too large.
    """
    if function.resources.wave_start is None or not function.instructions:
        return None
    target = target_of(function, gpu.arch)
    if len(function.instructions) * waves_of(threads, target) * target.lanes > MOST_WORK:
        return None
    known = arguments or Arguments()
    code = code or AddressCode(function, target, spills or {})
    sweep = AddressSweep(code, threads, known, whole_waves=whole_waves)
    return Located(sweep.run(), sweep.uncovered, code) if sweep.is_affordable else None
