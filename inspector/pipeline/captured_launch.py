"""A kernel's code and what a captured launch passes to it, made ready for the emulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..base.errors import KinspectError, unforeseen
from ..emulator.grid import Launch
from ..emulator.hostcall import HOSTCALL_ADDRESS, HostCalls
from ..emulator.launch import Emulator
from ..emulator.memory import Buffer
from ..emulator.registry import NotCoveredError
from ..isa.asm.constants import read_constants
from ..model import Function, Machine, Passed, PassedMemory
from .emulating import SCRATCH_ADDRESS, implicit_arguments, pack_arguments, takes_implicit
from .made_up import buffers_of


class KernelText(Struct, frozen=True):
    """A kernel's code, and the text that it stands in.

    Args:
        functions: all functions of the program, which the kernel may call.
        text: the assembly, whose data sections hold constants; empty of a code object.
    """

    function: Function
    functions: Sequence[Function]
    text: str
    name: str

    def emulator(self, machine: Machine) -> Emulator:
        """The kernel made ready for a target."""
        constants = read_constants(self.text, self.name)
        return Emulator(self.function, machine, constants, self.functions)


class CapturedLaunch(Struct, frozen=True):
    """A launch and its memory.

    Args:
        made_up: element types of the buffers whose contents are made up.
    """

    launch: Launch
    buffers: list[Buffer]
    made_up: tuple[str, ...]


def captured_launch(
    function: Function,
    emulator: Emulator,
    grid: Sequence[int],
    passed: Passed,
    metadata: Mapping[str, Any],
) -> CapturedLaunch:
    """The launch that a script made."""
    grid_x, grid_y, grid_z = (*grid, 1, 1, 1)[:3]
    buffers, made_up = buffers_of(passed.memories)
    scratch_bytes = int(metadata.get("global_scratch_size") or 0) * grid_x * grid_y * grid_z
    if scratch_bytes:
        (zeros,), _ = buffers_of([PassedMemory(SCRATCH_ADDRESS, scratch_bytes, "uint8")])
        buffers.append(zeros)
    arguments = [(parameter.kind, parameter.value) for parameter in passed.parameters]
    hostcall_address = 0
    if takes_implicit(function, arguments):
        buffers.append(HostCalls().buffer)  # what the kernel prints is dropped
        hostcall_address = HOSTCALL_ADDRESS
    threads = int(metadata["num_warps"]) * emulator.target.lanes
    grid_3d, block_3d = (grid_x, grid_y, grid_z), (threads, 1, 1)
    lds_bytes = int(metadata.get("shared") or 0)
    implicit = implicit_arguments(grid_3d, block_3d, lds_bytes, hostcall_address)
    scratch = SCRATCH_ADDRESS if scratch_bytes else 0
    packed = pack_arguments(arguments, scratch, implicit)
    return CapturedLaunch(Launch(grid_3d, block_3d, lds_bytes, packed), buffers, made_up)


def reason_of(error: Exception) -> str:
    """Why executing a launch gave nothing: a bug in the emulator must not take the report along."""
    if isinstance(error, NotCoveredError):
        return f"the emulator does not carry out this yet: {error}"
    if isinstance(error, MemoryError):
        return "executing it takes more memory than there is; launch it on less data"
    return str(error) if isinstance(error, KinspectError) else unforeseen(error).message
