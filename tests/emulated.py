"""Runs a few lines of assembly on the emulator, from given registers to given registers."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytest
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.emulator.lockstep import LaunchLimits, Scheduler
from kinspect.inspector.emulator.machine import MachineState
from kinspect.inspector.emulator.memory import (
    Buffer,
    GlobalMemory,
    LocalMemory,
    PrivateMemory,
    buffer_of,
)
from kinspect.inspector.emulator.program import PreparedCode, prepare
from kinspect.inspector.emulator.waves import WaveIds, Waves
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.execution_target import ExecutionTarget
from kinspect.inspector.isa.dataflow.operands import EXEC, M0, VCC
from kinspect.inspector.machines.loader import load

Array = np.ndarray[Any, Any]

_MAXIMA = {
    9: {"vmcnt": 63, "lgkmcnt": 15, "expcnt": 7},
    11: {"vmcnt": 63, "vscnt": 63, "lgkmcnt": 63, "expcnt": 7},
    12: {"loadcnt": 63, "storecnt": 63, "dscnt": 63, "kmcnt": 31, "expcnt": 7},
}
"""Wait counters and their largest values (LLVM's AMDGPUUsage, "Memory Model")."""

REGISTERS = 64
"""VGPRs of a wave here; on CDNA the AGPRs follow."""


def target_of(arch: str, **changes: Any) -> ExecutionTarget:
    """A GPU as a kernel with the usual mode finds it: 64 lanes on gfx9, 32 from gfx11 on."""
    generation = int(arch[3:-2])
    settings = {"ieee": generation < 12, "accum_offset": REGISTERS, **changes}
    return ExecutionTarget(arch, generation, 64 if generation == 9 else 32, **settings)


def code_of(arch: str, lines: Sequence[str] | str, **changes: Any) -> PreparedCode:
    """The steps of some lines of assembly; `changes` are those of the target."""
    body = lines.splitlines() if isinstance(lines, str) else lines
    text = "\n".join(
        [f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"', ".text", ".globl lines",
         ".type lines,@function", "lines:", *(f"\t{line.strip()}" for line in body), "\ts_endpgm",
         ".Lend:", ".size lines, .Lend-lines"]
    )  # fmt: skip
    (function,) = parse_text(text + "\n", "lines.s").functions
    target = target_of(arch, **changes)
    return prepare(function, target, _MAXIMA[target.generation])


def run_lines(
    arch: str,
    lines: Sequence[str] | str,
    vgprs: Mapping[int, Any] | None = None,
    sgprs: Mapping[int, Any] | None = None,
    *,
    active: int | Sequence[int] | None = None,
    vcc: int | Sequence[int] = 0,
    scc: bool | Sequence[bool] = False,
    m0: int = 0,
    lds: bytes = b"",
    buffers: Sequence[Buffer] = (),
    scratch: int = 0,
    waves: int = 1,
    **changes: Any,
) -> Waves:
    """Executes some lines and gives back the waves as they stand at the end.

    Args:
        arch: gfx name.
        lines: assembly.
        vgprs: row -> what broadcasts to [wave, lane]; floats of 32 bits are taken as their bits.
        sgprs: row -> what broadcasts to [wave].
        active: EXEC, for each wave or for all; None for all lanes.
        vcc: likewise.
        scc: likewise.
        m0: for all waves.
        lds: what the LDS of the one workgroup holds at the beginning.
        buffers: of global memory.
        scratch: bytes of private memory of each lane.
        waves: how many waves of one workgroup run.
        changes: of the target (`flush32=True`).
    """
    code = code_of(arch, lines, **changes)
    lanes = code.target.lanes
    machine = MachineState(GlobalMemory(list(buffers)))
    local = LocalMemory(len(lds), 1)
    local.words.data[: len(lds)] = np.frombuffer(lds, np.uint8)
    scheduler = Scheduler(code, machine, LaunchLimits(60.0, 100_000), 1)
    private = PrivateMemory(scratch, waves, waves, lanes)
    machine.move_in(local, private, 1, scheduler.generations)
    number = np.arange(waves)
    ids = WaveIds(number, number * 0, number * 0)
    state = Waves.new(max(512, code.vector_registers), lanes, ids, machine)
    for row, value in (vgprs or {}).items():
        state.u32[row] = _words(value)
    for row, value in (sgprs or {}).items():
        state.scalar[row] = _words(value)
    everywhere = (1 << lanes) - 1
    for row, mask in ((EXEC, everywhere if active is None else active), (VCC, vcc)):
        words = np.broadcast_to(np.asarray(mask, np.uint64), (waves,))
        state.scalar[row] = words & np.uint64(0xFFFFFFFF)
        if lanes == 64:
            state.scalar[row + 1] = words >> np.uint64(32)
    state.scalar[M0] = m0
    state.scc[:] = scc
    state.exec_changed()
    ended: list[Waves] = []
    for block in code.blocks:
        if block.leave.kind.value == "end":
            block.steps.append((0, ended.append, block.stop - 1))
    with np.errstate(all="ignore"):
        scheduler.run(state)
    return Waves.join(ended)


def _words(value: Any) -> Array:
    array = np.asarray(value)
    if array.dtype == np.float32:
        return array.view(np.uint32)
    return (array.astype(np.int64) & 0xFFFFFFFF).astype(np.uint32)


def mask_of(state: Waves, row: int = VCC) -> int:
    """A lane mask of the first wave as a number."""
    word = int(state.scalar[row, 0])
    return word | int(state.scalar[row + 1, 0]) << 32 if state.lanes == 64 else word


# ---------------------------------------------------------------------- kernels of a few lines

OUT = 0x7F00_0000_0000

KERNEL = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.type k,@function
k:
{code}
  s_endpgm
.Lend:
  .size k, .Lend-k
.rodata
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 32
  .amdhsa_next_free_sgpr 32
  .amdhsa_accum_offset 32
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
  .amdhsa_system_vgpr_workitem_id 0
.end_amdhsa_kernel
"""


def emulator(code: str, arch: str = "gfx942") -> Emulator:
    machine = load(arch)
    text = KERNEL.format(arch=arch, code=code)
    kernel = parse_text(text, "k.s").kernels[0]
    return Emulator(kernel, machine)


def troubles(code: str, lds: int = 4096, groups: int = 1, arch: str = "gfx942") -> set[str]:
    """Kinds of what two waves of each workgroup do wrong."""
    out = buffer_of(np.zeros(4096, np.uint32), OUT, "out")
    launch = Launch((groups, 1, 1), (128, 1, 1), lds, struct.pack("<Q", OUT))
    outcome = emulator(code, arch).run(launch, [out])
    return {trouble.kind for trouble in outcome.troubles}


CDNA: Final = ("gfx90a", "gfx942", "gfx950")
RDNA: Final = ("gfx1100", "gfx1201")


def on_some_targets(names: Iterable[str]) -> list[Any]:
    """Parameters `name` and `arch`: each kernel on one CDNA and one RDNA target, by turns.

    The other targets are run where slow tests are.
    """
    return [
        pytest.param(name, arch, marks=() if number == place % len(family) else pytest.mark.slow)
        for place, name in enumerate(names)
        for family in (CDNA, RDNA)
        for number, arch in enumerate(family)
    ]
