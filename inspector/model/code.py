"""Machine code as it was read: instructions, blocks and loops of functions, and their resources."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .numbers import Count, Line
from .source import SourceLoc


class OpInfo(Struct, frozen=True):
    """What the mnemonic table says of one mnemonic.

    Args:
        name: the mnemonic without its encoding suffix (`_e32`, `_e64`, `_dpp`, `_sdwa`).
        cls: one of the classes listed in `isa/mnemonics.yaml` (`valu`, `global_load`, ...).
        bits: bits per lane that a memory access moves; None where it has no fixed width.
        traits: further facts, e.g. `transcendental`, `convert`, `returns`, `flat`, `transpose`.
    """

    name: str
    cls: str
    bits: int | None = None
    traits: frozenset[str] = frozenset()


class Instruction(Struct, frozen=True):
    """One machine instruction as it stands in the file.

    `cls` is `op.cls` unless the operands or comment say more (a `buffer_load ... lds` is
    `lds_direct`, a folded reload through a buffer is `scratch_load`).
    """

    index: int
    line: int
    mnemonic: str
    operands: str
    comment: str
    op: OpInfo
    cls: str
    loc: SourceLoc | None = None
    address: int | None = None


class Block(Struct, frozen=True):
    """A basic block: instructions `start:stop` of its function."""

    index: int
    start: int
    stop: int
    labels: tuple[str, ...]
    successors: tuple[int, ...]
    predecessors: tuple[int, ...]


class Loop(Struct, frozen=True):
    """A cycle of the control flow. Its blocks include those of the loops nested in it.

    A natural loop as a rule. An `irreducible` one can be entered at several blocks: `header` is the
    first of these, `latches` the blocks that lead back to any of them. `lines` are the ranges of
    file lines its instructions stand on, ascending and disjoint.
    """

    id: str
    header: int
    blocks: tuple[int, ...]
    latches: tuple[int, ...]
    depth: int
    parent: str | None
    lines: tuple[tuple[int, int], ...]
    irreducible: bool = False


UnreadKind = Literal["words", "lines", "include", "condition", "expansion", "preprocessor", "jump"]


class Unread(Struct, frozen=True):
    """A part of the code that was not read, or where the flow could not be followed.

    Where there is one, nothing may be concluded from what was *not* seen: counts of instructions
    are lower bounds, and there may be loops that were not found.

    Args:
        kind: `words`: machine words that are not decoded; `lines`: lines that are neither
            instruction nor known directive, such as macros that are defined elsewhere; `include`:
            a file that is not at hand; `condition`: code that is left out because its condition
            cannot be evaluated; `expansion`: a macro or repetition that is not expanded in full;
            `preprocessor`: a line for the C preprocessor; `jump`: all is read, but a jump could go
            anywhere.
        count: how many words, lines, files, conditions, expansions or jumps.
        lines: where they stand in the file, the first few.
    """

    kind: UnreadKind
    count: Count
    lines: tuple[Line, ...] = ()


class WaveStart(Struct, frozen=True):
    """The registers in which the hardware starts a wave of a kernel.

    Source: LLVM's AMDGPUUsage, "Initial Kernel Execution State" and "Kernel Descriptor". A register
    number is None where the kernel does not ask for what it would hold.

    Args:
        user_sgprs: SGPRs filled by the command processor, preloaded arguments included; up to gfx11
            the workgroup's numbers follow them.
        private_segment_buffer: first of the 4 that hold the buffer resource of the scratch memory.
        dispatch_ptr, queue_ptr, kernarg_ptr, dispatch_id, flat_scratch_init: first of 2 SGPRs.
        private_segment_size: the SGPR of the scratch bytes per lane.
        preload_sgpr: first SGPR of the preloaded arguments.
        preload_dwords, preload_offset: how many words of the arguments, from which word on.
        workgroup_ids: which of the workgroup's x, y and z are passed.
        workgroup_info: whether the info word follows them.
        wave_offset: whether the wave's offset in the scratch memory follows (gfx9 without
            architected flat scratch, gfx10).
        work_item_dims: work-item numbers in VGPRs: 0 for x, 1 for x and y, 2 for all three.
        round_f32, round_f16_f64: rounding: 0 nearest even, 1 up, 2 down, 3 to zero.
        denorm_f32, denorm_f16_f64: denormals: bit 0 allows them as inputs, bit 1 as results.
        dx10_clamp, ieee_mode: mode bits; None where the target has none.
    """

    user_sgprs: int
    private_segment_buffer: int | None = None
    dispatch_ptr: int | None = None
    queue_ptr: int | None = None
    kernarg_ptr: int | None = None
    dispatch_id: int | None = None
    flat_scratch_init: int | None = None
    private_segment_size: int | None = None
    preload_sgpr: int | None = None
    preload_dwords: int = 0
    preload_offset: int = 0
    workgroup_ids: tuple[bool, bool, bool] = (True, False, False)
    workgroup_info: bool = False
    wave_offset: bool = False
    work_item_dims: int = 0
    round_f32: int = 0
    round_f16_f64: int = 0
    denorm_f32: int = 0
    denorm_f16_f64: int = 3
    dx10_clamp: bool | None = None
    ieee_mode: bool | None = None


class Resources(Struct, frozen=True):
    """What a file states of one kernel, unaltered, each field named for where it stands.

    Every field is None where the file does not say. `disagreements` names figures that two places
    of the file state differently.
    """

    vgpr_count: int | None = None  # .vgpr_count (metadata): AGPRs included on unified files
    agpr_count: int | None = None  # .agpr_count (metadata), else NumAgprs
    arch_vgpr_count: int | None = None  # NumVgprs / .num_vgpr: architectural VGPRs alone
    next_free_vgpr: int | None = None  # .amdhsa_next_free_vgpr: what the hardware is asked for
    accum_offset: int | None = None  # .amdhsa_accum_offset: where AGPRs start (gfx90a/942/950)
    vgprs_for_waves: int | None = None  # NumVGPRsForWavesPerEU
    vgprs_allocated: int | None = None  # kernel descriptor, granulated: an upper bound of the above
    sgpr_count: int | None = None  # .sgpr_count (metadata): VCC and friends included
    next_free_sgpr: int | None = None  # .amdhsa_next_free_sgpr
    sgprs_for_waves: int | None = None  # NumSGPRsForWavesPerEU
    vgpr_spill_count: int | None = None
    sgpr_spill_count: int | None = None
    scratch_bytes: int | None = None  # private segment, bytes per lane
    lds_bytes: int | None = None  # group_segment_fixed_size: static LDS alone, 0 for Triton
    dynamic_lds: bool | None = None  # metadata's .args: the launch adds LDS to lds_bytes
    kernarg_bytes: int | None = None
    pointers: tuple[int, ...] | None = None  # their offsets in the kernel argument segment
    group_size_offset: int | None = None  # where that holds the workgroup's size, if it is read
    wave_size: int | None = None
    max_workgroup_size: int | None = None  # .max_flat_workgroup_size, work-items
    reqd_workgroup_size: tuple[int, int, int] | None = None
    code_bytes: int | None = None
    occupancy: int | None = None  # "; Occupancy:" comment, waves/SIMD
    wgp_mode: bool | None = None
    uses_dynamic_stack: bool | None = None
    private_segment_buffer: bool | None = None  # s[0:3] hold the buffer resource of the scratch
    wave_start: WaveStart | None = None  # .amdhsa_* directives or the kernel descriptor
    disagreements: tuple[str, ...] = ()


class VariableMark(Struct, frozen=True):
    """A place at which debug information says that registers hold a variable of the source.

    Args:
        index: of the instruction before which they do.
        file: `v` for VGPRs, `a` for AGPRs.
        first: the first of the registers.
        count: how many.
        name: the variable's.
    """

    index: int
    file: Literal["v", "a"]
    first: int
    count: int
    name: str


class Function(Struct, frozen=True):
    """The code of one symbol: a kernel (`is_kernel`) or a device function it calls."""

    name: str
    is_kernel: bool
    line_first: int
    line_last: int
    instructions: tuple[Instruction, ...]
    blocks: tuple[Block, ...]
    loops: tuple[Loop, ...]
    resources: Resources
    calls: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    symbol: str | None = None  # as in the file where `name` was made readable
    unread: tuple[Unread, ...] = ()  # empty: all of its code was read and followed
    variables: tuple[VariableMark, ...] = ()  # by index; of code compiled with -g

    @property
    def all_read(self) -> bool:
        """Whether every instruction of its code was read; where a jump goes may be unknown."""
        return all(part.kind == "jump" for part in self.unread)


class Program(Struct, frozen=True):
    """One assembly text, disassembly or code object.

    `arch` is the gfx name, `features` its suffixes (`xnack+`, `sramecc-`). `form` is `asm` for
    compiler or hand-written text, `objdump` for a disassembly.
    """

    name: str
    arch: str | None
    features: tuple[str, ...]
    form: str
    functions: tuple[Function, ...]
    code_object_version: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def kernels(self) -> tuple[Function, ...]:
        return tuple(f for f in self.functions if f.is_kernel)
