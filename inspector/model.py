"""The vocabulary: every value that passes from one room to the next.

Frozen structs, whose classes are made in a fiftieth of the time that dataclasses take, and nothing
else. No behaviour beyond trivial derived properties, no imports from the rest of the project. Where
the JSON report calls a field something else, `field(name=…)` says so; `omit_defaults` leaves out of
it what has its default.
`None` always means *unknown*, never zero.

Line numbers count from 1. Sizes are bytes, widths of memory accesses are bits per lane, register
counts are 32-bit registers per lane (VGPR, AGPR) or per wave (SGPR).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

Origin = Literal["compiler", "derived", "estimated", "measured", "emulated"]
"""Where a figure comes from: read off the compiler's output, computed from what was read, resting
on a model, measured on a device, or counted while the code was executed by the emulator."""

Scalar = int | float | str | bool | None
MetricValue = Scalar | Mapping[str, Scalar]


# --------------------------------------------------------------------------- places

LIBRARY_CODE = (
    "/triton/language/",
    "/triton/experimental/",
    "/include/c++/",
    "/lib/clang/",
    # ROCm's, as installed: HIP, rocWMMA, Composable Kernel, hipCUB, rocPRIM, rocThrust, hipRAND.
    "/include/hip/",
    "/include/rocwmma/",
    "/include/ck/",
    "/include/ck_tile/",
    "/include/hipcub/",
    "/include/rocprim/",
    "/include/thrust/",
    "/include/rocrand/",
    "/include/hiprand/",
    # HipKittens and ThunderKittens.
    "/include/ops/warp/",
    "/include/ops/group/",
    "/include/types/global/",
    "/include/types/register/",
    "/include/types/shared/",
)
"""Parts of paths that mark library code, which users read but do not write."""


class SourceLoc(Struct, frozen=True, omit_defaults=True):
    """A position in the user's source; `inlined_at` is the call site it was inlined into."""

    file: str
    line: int
    column: int | None = None
    inlined_at: SourceLoc | None = None

    @property
    def outermost(self) -> SourceLoc:
        """The position in the kernel itself: the end of the inlined-at chain."""
        loc = self
        while loc.inlined_at is not None:
            loc = loc.inlined_at
        return loc

    @property
    def in_user_code(self) -> SourceLoc:
        """The innermost position outside of the libraries that kernels are written with.

        That is the line which the user wrote and can change: `tl.max(x)` rather than the line of
        Triton's `max`. The outermost position where all are in libraries.
        """
        loc: SourceLoc | None = self
        while loc is not None and loc.in_library:
            loc = loc.inlined_at
        return loc if loc is not None else self.outermost

    @property
    def in_library(self) -> bool:
        """Whether this very position is in the code of such a library."""
        return any(part in self.file for part in LIBRARY_CODE)


# --------------------------------------------------------------------------- what to compile


class Assumption(Struct, frozen=True):
    """An answer that a script got to what nobody knows, before it launched a kernel.

    Args:
        what: it asked, in words.
        assumed: the answer.
        source: where it asked.
        explored: whether this is the other answer than the likelier one, tried on request.
        reason: why it is not known, where a kernel wrote what was asked for: `off` (kernels are not
            executed on request), `unavailable` (the emulator does not know the target), `budget`
            (its seconds or memory are used up), `uncovered` (it lacks an instruction), `faulty`
            (the kernel races, hangs or accesses what it must not), `inputs` (what it reads is not
            known), `failed` (the compiler or the emulator broke off). None for anything else.
    """

    what: str
    assumed: str
    source: SourceLoc | None = None
    explored: bool = False
    reason: str | None = None


class EmulatedValue(Struct, frozen=True):
    """What a script read of memory that kernels wrote, which were executed for it.

    Args:
        what: it asked, in words.
        value: the answer.
        source: where it asked.
    """

    what: str
    value: str
    source: SourceLoc


class Parameter(Struct, frozen=True):
    """An argument: Triton's type (`*fp16`, `i32`) and a number, which is a pointer's address.

    What is not finite is a text: `inf`.
    """

    kind: str
    value: int | float | str


class PassedMemory(Struct, frozen=True):
    """Memory that a launch's pointers point into.

    Args:
        address: of its first byte.
        size: bytes.
        dtype: torch's name of the elements of the tensor that was passed: `float16`, `int32`.
        contents: what it holds; None where that is not known, or was not recorded.
    """

    address: int
    size: int
    dtype: str
    contents: bytes | None = None


class Passed(Struct, frozen=True):
    """What the first launch of a specialisation passed to its kernel."""

    parameters: tuple[Parameter, ...]
    memories: tuple[PassedMemory, ...]


class Variant(Struct, frozen=True):
    """One specialisation of one kernel for one target: TTIR + options + target.

    `ttir` is the whole input of the compile: nothing of the user's code is needed after capture.
    `signature` maps argument name to Triton type (`*fp16`, `i32`, `constexpr`), `attrs` argument
    name to its specialisation attributes (`{"tt.divisibility": 16}`).

    `grid` is that of the first launch, `call_site` where it was launched from, `launches` how often
    that happened, `tuning` the autotuner's configuration it belongs to, `notes` what happened on
    the way that a reader of the figures should know, `assumptions` what the script was told before
    that nobody knows: on a GPU it may launch something else. `emulated` is what it was told before
    that comes from executed kernels.

    `unspecialised` says of which arguments Triton does not note that they are 1 or divisible by 16,
    and what keeps it from that: `annotation` (of 1 only), `do_not_specialize` or
    `do_not_specialize_on_alignment`. Of all others it noted what the launch passed. None where no
    launch was seen. `values` are the whole numbers that the first launch passed, by argument.

    `generator` is the compiler that wrote the kernel: `inductor`; None where a person did.
    `passed` is what the first launch passed; None where none was seen or it was not asked for.
    """

    kernel: str
    arch: str
    wave_size: int
    ttir: str
    options: Mapping[str, Any]
    signature: Mapping[str, str] = field(default_factory=dict)
    constexprs: Mapping[str, Any] = field(default_factory=dict)
    attrs: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    source: SourceLoc | None = None
    qualname: str | None = None
    case: str | None = None
    grid: tuple[int, ...] | None = None
    call_site: SourceLoc | None = None
    triton_version: str | None = None
    tuning: Mapping[str, Any] | None = None
    launches: int | None = None
    notes: tuple[str, ...] = ()
    assumptions: tuple[Assumption, ...] = ()
    emulated: tuple[EmulatedValue, ...] = ()
    unspecialised: Mapping[str, str] | None = None
    values: Mapping[str, int] | None = None
    generator: str | None = None
    passed: Passed | None = None
    stage: str = "ttir"  # of the text in `ttir`: "ttgir" where only that was saved


class Artifact(Struct, frozen=True):
    """One file the compiler made. `kind` is ttir, ttgir, llir, amdgcn, hsaco, metadata, passes or
    stderr.
    """

    kind: str
    sha256: str
    size: int
    path: Path


# --------------------------------------------------------------------------- ISA


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
    count: int
    lines: tuple[int, ...] = ()


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
    occupancy: int | None = None  # "; Occupancy:" comment, waves/EU
    wgp_mode: bool | None = None
    uses_dynamic_stack: bool | None = None
    private_segment_buffer: bool | None = None  # s[0:3] hold the buffer resource of the scratch
    wave_start: WaveStart | None = None  # .amdhsa_* directives or the kernel descriptor
    disagreements: tuple[str, ...] = ()


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


# --------------------------------------------------------------------------- TTGIR


class Layout(Struct, frozen=True):
    """A layout attribute, structured. `kind` drops the dialect: `blocked`, `linear`, `slice`,
    `dot_op`, `amd_mfma`, `amd_wmma`, `swizzled_shared`, `padded_shared`, `amd_rotating_shared`,
    ... `parent` is set for slice and dot_op. Unknown kinds keep their text and parsed params.
    """

    kind: str
    params: Mapping[str, Any]
    text: str
    alias: str | None = None
    parent: Layout | None = None


class TtgirType(Struct, frozen=True):
    """A type. `kind` is tensor, memdesc, ptr, scalar, token, tensordesc, function or unknown.

    `alloc_shape` is that of the allocation which a memdesc is a part of; () where it is all of it.
    """

    text: str
    kind: str
    element: str
    shape: tuple[int, ...] = ()
    layout: Layout | None = None
    alloc_shape: tuple[int, ...] = ()

    @property
    def layout_shape(self) -> tuple[int, ...]:
        """The shape that the layout lays out: of a part that of its allocation."""
        return self.alloc_shape[-len(self.shape) :] if self.alloc_shape else self.shape


class TtgirOp(Struct, frozen=True):
    """One operation. `depth` counts enclosing regions; `parent` is the index of the op that owns
    the enclosing region, in `TtgirModule.ops`.
    """

    index: int
    line: int
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    attributes: Mapping[str, Any]
    operand_types: tuple[TtgirType, ...]
    result_types: tuple[TtgirType, ...]
    loc: SourceLoc | None
    depth: int
    parent: int | None


class TtgirModule(Struct, frozen=True):
    """A TTIR or TTGIR file: module attributes with the dialect prefix dropped (`num-warps`)."""

    attributes: Mapping[str, Any]
    layouts: Mapping[str, Layout]
    functions: tuple[str, ...]
    ops: tuple[TtgirOp, ...]
    notes: tuple[str, ...] = ()


# --------------------------------------------------------------------------- figures


class Metric(Struct, frozen=True):
    """A figure with its unit and origin. `note` says why a value is None or what it rests on."""

    name: str
    value: MetricValue
    unit: str
    origin: Origin
    note: str = ""


def value_of(metrics: Mapping[str, Metric], name: str) -> MetricValue:
    """A figure; None where it is unknown or the report lacks it."""
    metric = metrics.get(name)
    return metric.value if metric is not None else None


def int_of(metrics: Mapping[str, Metric], name: str) -> int | None:
    """A figure that is a whole number; None where it is something else, unknown or missing."""
    value = value_of(metrics, name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def number_of(metrics: Mapping[str, Metric], name: str) -> int | float | None:
    """A figure that is a number; None where it is something else, unknown or missing."""
    value = value_of(metrics, name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text_of(metrics: Mapping[str, Metric], name: str) -> str | None:
    """A figure that is a word; None where it is something else, unknown or missing."""
    value = value_of(metrics, name)
    return value if isinstance(value, str) else None


class MetricSpec(Struct, frozen=True):
    """One entry of the metrics catalogue. `name` may end in `.*` for a family."""

    name: str
    unit: str
    origin: Origin
    scope: Literal["kernel", "loop", "both", "instruction", "wait"]
    description: str


class LdsRemedy(Struct, frozen=True, omit_defaults=True):
    """What would free an array in LDS of bank conflicts, tried on all accesses of its bytes.

    Args:
        accesses: how many there are.
        cycles: that one execution of them takes a wave.
        cycles_ideal: without conflicts.
        row, pad: bytes from one row to the next, and bytes more that leave fewest cycles: whole
            pieces of the widest access. None where no padding helps.
        padded: cycles then.
        swizzle_row, swizzle: the same rows with their pieces of `swizzle` bytes in another order,
            the piece's number XORed with the row's. None where that does not help.
        swizzled: cycles then.
    """

    accesses: int
    cycles: float
    cycles_ideal: float
    row: int | None = None
    pad: int | None = None
    padded: float | None = None
    swizzle_row: int | None = None
    swizzle: int | None = None
    swizzled: float | None = None


class LaneUse(Struct, frozen=True, omit_defaults=True):
    """What one wave's access comes to, from its lanes' addresses: the mean of a workgroup's waves.

    Args:
        lanes: active ones.
        cycles: for which the LDS delivers or takes the data: in each phase, those of the bank that
            most distinct dwords lie in.
        cycles_ideal: the same with the dwords spread over all banks.
        conflicts: what bank conflicts add.
        lines: cache lines that are touched (global memory).
        lines_ideal: those that as many distinct bytes need at least.
        bytes: distinct ones.
        waste: % of the bytes of these lines that it does not touch.
        addresses: distinct ones of a wave's active lanes; 1 where a scalar load would do.
        remedy: of an access of LDS with conflicts; None where nothing was tried.
        origin: `estimated` where the LDS's phases were not measured on the target, or where lines
            depend on sizes that are not known (of some large ones those that suit best); else
            `derived`. None where the figures are.
        unknown: why the figures are None; empty where they are known.
    """

    lanes: float | None = None
    cycles: float | None = None
    cycles_ideal: float | None = None
    conflicts: float | None = None
    lines: float | None = None
    lines_ideal: float | None = None
    bytes: float | None = None
    waste: float | None = None
    addresses: float | None = None
    remedy: LdsRemedy | None = None
    origin: Literal["derived", "estimated"] | None = None
    unknown: str = ""


class MemoryOp(Struct, frozen=True, omit_defaults=True):
    """One memory access of the kernel.

    Args:
        bits: per lane; None where it has no fixed width.
        use: what its lanes touch; None where it was not looked at.
    """

    line: int
    mnemonic: str
    cls: str = field(name="class")
    bits: int | None
    loop: str | None
    depth: int
    source: SourceLoc | None
    note: str = ""
    use: LaneUse | None = None


class Access(Struct, frozen=True):
    """One operation of the TTGIR that moves a tile to or from memory, and why it is that wide.

    Widths are bits per lane. Everything that the TTGIR does not tell is None.

    Args:
        op: its name, `tt.load` or `amdg.buffer_load`.
        line: in the TTGIR.
        cls: the class of the machine instructions it becomes: `global_load`, `lds_read`, ...
        source: the user's line.
        dtype: element type.
        shape: of the tile.
        layout: the layout in short, `blocked sizePerThread=[1,8] order=[1,0]`.
        lines: the instructions in the assembly that it became, as far as positions tell.
        loop: id of the loop that they stand in.
        bits: of the narrowest of them.
        widest: what the element type, the tile and its different addresses would allow at most.
        per_thread: neighbouring elements that a thread holds along the contiguous dimension.
        contiguity: neighbouring elements that are known to be neighbours in memory.
        divisibility: of the address, in bytes, as far as known; 0 where it is a constant 0.
        mask: neighbouring elements that share one mask bit; None without a mask.
        limited_by: what made it narrow: `layout`, `order`, `contiguity`, `broadcast` (neighbours
            share an address), `divisibility`, `mask`, `dtype`, `tile`; None where nothing did, or
            it cannot be told.
        reason: the same in a sentence for people, with the argument or expression at fault.
        fix: what to change.
        lanes: `agree` where its layouts put the lanes of every instruction that it became where the
            instructions' own addresses put them, `differ` where they put those of one elsewhere;
            None where that cannot be told of all of them.
    """

    op: str
    line: int
    cls: str = field(name="class")
    source: SourceLoc | None
    dtype: str
    shape: tuple[int, ...]
    layout: str
    lines: tuple[int, ...] = ()
    loop: str | None = None
    bits: int | None = None
    widest: int | None = None
    per_thread: int | None = None
    contiguity: int | None = None
    divisibility: int | None = None
    mask: int | None = None
    limited_by: str | None = None
    reason: str = ""
    fix: str = ""
    lanes: Literal["agree", "differ"] | None = None


class LdsBuffer(Struct, frozen=True):
    """A buffer that the TTGIR puts into LDS.

    Args:
        name: of the variable that it holds, as the TTGIR has it.
        kind: `pipelined` for one that a loop's stages take turns in, `operand` for a tile that is
            put there as a whole, `exchange` for the passage of a conversion of layouts.
        dtype: element type.
        shape: of one copy, in elements.
        copies: tiles that it holds.
        size: bytes of all copies, without padding; None where the element type is odd.
        line: in the TTGIR.
        source: the user's line.
        in_loop: whether it is made anew in each iteration of a loop.
        at_peak: whether it is alive where most of the LDS is in use.
    """

    name: str
    kind: Literal["pipelined", "operand", "exchange"]
    dtype: str
    shape: tuple[int, ...]
    copies: int
    size: int | None = field(name="bytes")
    line: int
    source: SourceLoc | None
    in_loop: bool
    at_peak: bool


class LiveValue(Struct, frozen=True):
    """Registers that hold one value of the source where most registers are live.

    Args:
        name: the variable's; for an address that of what it accesses; None where nothing says.
        kind: `accumulator` of dots, `operand` of one, `loaded` from global memory, `exchanged`
            through LDS, `address`, `constant`, `argument` (what the wave starts with), or else
            `value`.
        type: shape and element type of its tensor, `128x64xf32`; "" where nothing says.
        source: the user's line of what made it, for addresses of the access.
        vgprs: VGPRs that hold a part of it.
        agprs: AGPRs that do.
        scratch: dwords of each lane that are parked in scratch memory.
        registers: their names, `v[0:31] v40 a[0:3]`.
    """

    name: str | None
    kind: str
    type: str
    source: SourceLoc | None
    vgprs: int
    agprs: int
    scratch: int
    registers: str


class LivePeak(Struct, frozen=True):
    """The instruction at which most VGPRs and AGPRs are live, and what they hold there.

    Args:
        line: of the assembly.
        instruction: its mnemonic.
        source: its position in the user's source.
        loop: id of the innermost loop around it.
        vgprs: VGPRs that are live.
        agprs: AGPRs that are live.
        values: the most registers first.
        counts: line, live VGPRs and live AGPRs of each instruction of the kernel, in order; empty
            in saved reports.
    """

    line: int
    instruction: str
    source: SourceLoc | None
    loop: str | None
    vgprs: int
    agprs: int
    values: tuple[LiveValue, ...]
    counts: tuple[tuple[int, int, int], ...] = ()


class SpilledValue(Struct, frozen=True):
    """A value of the source that spills park in scratch memory.

    Args:
        name, kind, type, source: as for `LiveValue`.
        dwords: 32-bit words of each lane that hold parts of it at some time.
        stores: instructions that park them.
        reloads: instructions that fetch them.
        hot_stores: of the stores those in hot loops, once for each iteration.
        hot_reloads: of the reloads those in hot loops, likewise.
        loops: ids of the hot loops in which it is parked or fetched.
    """

    name: str | None
    kind: str
    type: str
    source: SourceLoc | None
    dwords: int
    stores: int
    reloads: int
    hot_stores: int
    hot_reloads: int
    loops: tuple[str, ...]


class SpillSlot(Struct, frozen=True):
    """A place in scratch memory where the compiler parks a value.

    Args:
        offset: bytes from the start of the lane's scratch memory; None where a register says it.
        size: bytes.
        stores: lines of the assembly that write it.
        reloads: lines that read it.
        loops: ids of the loops in which it is accessed, the deepest first.
        source: the user's lines of those accesses, in the order of `stores`, then `reloads`.
    """

    offset: int | None
    size: int = field(name="bytes")
    stores: tuple[int, ...]
    reloads: tuple[int, ...]
    loops: tuple[str, ...]
    source: tuple[SourceLoc, ...]


class WaitOp(Struct, frozen=True):
    """One counter of one wait instruction: it waits until `counter` <= `n`.

    The verdict and what follows it are None where the target is unknown. `missing` stands at an
    instruction that touches a register too early: a wait for `n` would have to come before it.

    `slack` counts the instructions between the youngest of what it waits for and the wait, on the
    shortest way; `slack_cycles` the cycles that the matrix instructions among them take.
    """

    line: int
    counter: str
    n: int
    loop: str | None
    source: SourceLoc | None
    verdict: str | None = None
    could_be: int | None = None
    waits_for: tuple[int, ...] | None = None
    slack: int | None = None
    slack_cycles: int | None = None


class MeasuredLine(Struct, frozen=True):
    """What a profiler measured of one instruction, on its line of the assembly (1-based).

    Cycles are shader clocks summed over the traced waves (thread trace); samples are counts of PC
    sampling. What the recording does not tell is None. `reasons` are why samples found the
    instruction not issued.
    """

    line: int
    address: int | None  # in the code object
    mnemonic: str
    loop: str | None
    source: SourceLoc | None
    hits: int | None = None
    latency_cycles: int | None = None
    stall_cycles: int | None = None
    idle_cycles: int | None = None
    samples: int | None = None
    issued: int | None = None
    reasons: Mapping[str, int] = field(default_factory=dict)


class EmulatedLine(Struct, frozen=True, omit_defaults=True):
    """What the emulator counted of one instruction, on its line of the assembly (1-based).

    Args:
        line: of the assembly.
        executed: how many waves executed it.
        active_lanes: mean share of the lanes that took part in an access of memory; None for
            other instructions.
        cache_lines: that an execution touched, in the mean; None for other than global memory.
        least_cache_lines: that would hold as many bytes.
        conflict_cycles: that LDS bank conflicts add to an execution, in the mean; None for other
            than LDS.
    """

    line: int
    executed: int
    active_lanes: float | None = None
    cache_lines: float | None = None
    least_cache_lines: float | None = None
    conflict_cycles: float | None = None


class EmulatedFault(Struct, frozen=True):
    """What the code did in the emulator and must not do: see `emulator.machine.Trouble`."""

    kind: str
    detail: str
    line: int


class Emulated(Struct, frozen=True):
    """A few workgroups of a kernel's captured launch, executed by the emulator.

    Args:
        workgroups: executed ones.
        grid_workgroups: those of the launch.
        waves: executed ones.
        made_up: types of the tensors whose contents were made up, in the order of the arguments.
        lines: of the assembly, those that were executed.
        faults: what went wrong.
    """

    workgroups: int
    grid_workgroups: int
    waves: int
    made_up: tuple[str, ...]
    lines: tuple[EmulatedLine, ...]
    faults: tuple[EmulatedFault, ...] = ()


class LoopReport(Struct, frozen=True):
    """A loop with its per-iteration metrics."""

    id: str
    depth: int
    parent: str | None
    header_line: int
    header_label: str | None
    lines: tuple[tuple[int, int], ...]
    source: tuple[SourceLoc, ...]
    hot: bool
    unroll: int | None
    metrics: Mapping[str, Metric]
    irreducible: bool = False  # it can be entered at several places


class Location(Struct, frozen=True):
    """Where a finding points: a line of an artifact (`amdgcn`, `ttgir`) or of the source."""

    kind: str
    line: int | None
    file: str | None = None
    text: str = ""


class Trials(Struct, frozen=True):
    """What came of a rule's fix on real kernels that were changed and compiled again.

    Args:
        helped: kernels in which what the rule finds was gone or less, and nothing got worse for it.
        nothing: kernels in which it stayed as it was.
        worse: kernels in which it grew, or the kernel lost more elsewhere.
    """

    helped: int = 0
    nothing: int = 0
    worse: int = 0

    @property
    def count(self) -> int:
        """Kernels on which it was tried."""
        return self.helped + self.nothing + self.worse

    @property
    def summary(self) -> str:
        """`helped 4 of 5 kernels`, or that nobody tried."""
        if not self.count:
            return "not tried"
        worse = f", made {self.worse} worse" if self.worse else ""
        return f"tried: helped {self.helped} of {self.count}{worse}"


class Finding(Struct, frozen=True):
    """What a rule has to say of a kernel, with its evidence.

    `tried` is what came of the fix on other kernels; None where the rule's author does not say.
    `saves_percent` is the share of an iteration's time (of the hot loops, for a finding about the
    kernel) that the cure saves at most; None where nothing bounds it.
    """

    rule: str
    severity: Literal["error", "warning", "info"]
    confidence: Literal["certain", "likely", "possible"]
    message: str
    evidence: Mapping[str, MetricValue]
    locations: tuple[Location, ...]
    fix: str
    fingerprint: str
    tried: Trials | None = field(name="fix_tried", default=None)
    saves_percent: float | None = None

    @property
    def advice(self) -> str:
        """The fix, and whether it is known to help; empty where there is none."""
        if not self.fix or self.tried is None:
            return self.fix
        return f"{self.fix.rstrip()} ({self.tried.summary})"


class Machine(Struct, frozen=True):
    """One gfx target's limits, from `machines/<arch>.yaml`.

    Register totals are 32-bit registers per SIMD and lane for the given wave size. LDS figures are
    bytes; `lds_pool` is what one workgroup scheduling unit (CU, or WGP in WGP mode) shares and
    `lds_max` what one workgroup may ask for. Cycles are clocks of one SIMD.
    """

    arch: str
    name: str
    family: str
    wave_sizes: tuple[int, ...]
    max_waves: int  # per EU (SIMD)
    eus: int  # EUs that a workgroup is spread over: 4 on gfx9; 4 in WGP mode, 2 in CU mode
    eus_cu_mode: int | None  # None where there is no CU/WGP choice
    vgpr_total: Mapping[int, int]  # wave size -> registers per SIMD
    vgpr_granule: Mapping[int, int]
    vgpr_addressable: int
    vgpr_encoding_granule: Mapping[int, int]
    agpr: Literal["none", "separate", "unified"]
    sgpr_total: int | None  # None where SGPRs never limit
    sgpr_granule: int | None
    sgpr_addressable: int
    lds_pool: int
    lds_pool_cu_mode: int | None
    lds_max: int
    lds_granule: Mapping[str, int]  # LLVM model name -> allocation granule, bytes
    barriers: int
    barriers_cu_mode: int | None
    max_workgroup_size: int
    # LLVM model name -> (most SGPRs, waves/EU), waves falling; beyond the last step its waves hold
    sgpr_steps: Mapping[str, tuple[tuple[int, int], ...]]
    counters: Mapping[str, int]  # wait counter -> its largest value
    # counter -> bit fields (lowest bit, width) of s_waitcnt's number, least significant part first
    waitcnt_fields: Mapping[str, tuple[tuple[int, int], ...]]
    icache_bytes: int | None  # instruction cache, shared by the CUs that the figure's source names
    lds_banks: int | None  # of 4 bytes each
    lds_bytes_per_clk: int | None  # per CU
    cache_line_bytes: int | None  # of the vector cache next to the CU
    valu_cycles: Mapping[int, int]  # wave size -> clocks of a full-rate vector operation
    transcendental_cycles: Mapping[int, int]
    issue_cycles: int | None  # from one instruction of a wave to its next at least
    valu_per_issue: int | None  # vector instructions that waves of a SIMD issue together at most
    # valu, transcendental, salu -> clocks at least until what needs the result can issue
    result_cycles: Mapping[str, int]
    # read, write (addresses included) -> what a pair of SIMDs exchanges with the LDS; may be empty
    lds_port_bytes_per_clk: Mapping[str, int]
    l1_bytes_per_clk: int | None  # of the lines that the cache next to the CU looks up
    l2_bytes_per_clk: int | None  # of the whole device
    cus: int | None
    clock_mhz: int | None
    # mnemonic -> clocks of the SIMD's matrix unit; `NAME:narrow`: both operands are 4 or 6 bits
    mfma_cycles: Mapping[str, int]
    sources: Mapping[str, str]  # field -> where the figure comes from


# --------------------------------------------------------------------------- reports


class ErrorRecord(Struct, frozen=True):
    """A kernel or file that could not be reported, and at which stage it failed.

    `output` is the end of what the user's own code printed, where that may explain it.
    `unsupported_ir` is the message of a Triton that could not parse or lower the IR it was given,
    which another version's front end may have made; "" for other failures.
    """

    file: str | None
    kernel: str | None
    stage: str
    message: str
    hint: str
    output: str = ""
    unsupported_ir: str = ""


LdsOrigin = Literal["typed", "triton", "file", "code"]
"""Who states a kernel's LDS: `--lds`, Triton (LLVM does not see it), the file, or code without any
access to LDS."""
LaunchOrigin = Literal["typed", "triton", "file", "largest"]
"""Who states the waves of a workgroup: `--waves`, Triton, the kernel's required size, or nobody:
`largest` is the most that the kernel allows."""


class Demand(Struct, frozen=True):
    """What one kernel asks of a CU.

    Args:
        vgprs: architectural VGPRs, or all registers of the file where the split is unknown.
        agprs: accumulation VGPRs.
        sgprs: SGPRs with VCC and friends; None is taken as not limiting.
        lds_bytes: LDS per workgroup, dynamic included; None where unknown.
        waves_per_workgroup: None where the launch is unknown.
        wave_size: 32 or 64; None: the target's usual one.
        cu_mode: workgroups stay within one CU, as they always do where there are no WGPs; false:
            WGP mode, ignored where there is none.
        llvm: LLVM's occupancy model: "22", or "triton" for the newer LLVM in Triton 3.9.
        vgprs_requested: registers the hardware is asked for, where that is more than `vgprs` and
            `agprs` need (`amdgpu-waves-per-eu` inflates it; next_free_vgpr).
        option_given: whether `vgprs_requested` may come of a waves_per_eu that was given.
        compiler_lds: LDS that LLVM knows of (0 for Triton kernels); None: the same as `lds_bytes`.
        lds_from, waves_from: who states those figures; None where they are unknown.
    """

    vgprs: int | None
    agprs: int = 0
    sgprs: int | None = None
    lds_bytes: int | None = None
    waves_per_workgroup: int | None = None
    wave_size: int | None = None
    cu_mode: bool = False
    llvm: str = "22"
    vgprs_requested: int | None = None
    compiler_lds: int | None = None
    option_given: bool = True
    lds_from: LdsOrigin | None = None
    waves_from: LaunchOrigin | None = None

    @property
    def unit(self) -> Literal["CU", "WGP"]:
        """What holds the workgroups and shares its registers and LDS among them."""
        return "CU" if self.cu_mode else "WGP"

    @property
    def typed(self) -> bool:
        """Whether the user stated any of it."""
        return "typed" in (self.lds_from, self.waves_from)


class KernelReport(Struct, frozen=True):
    """Everything known of one kernel variant."""

    id: str
    name: str
    arch: str | None
    source: SourceLoc | None
    variant: Variant | None
    artifacts: Mapping[str, Artifact]
    metrics: Mapping[str, Metric]
    loops: tuple[LoopReport, ...]
    main_loop: str | None  # the hot loop that does most of the work
    memory_ops: tuple[MemoryOp, ...]
    waits: tuple[WaitOp, ...]
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()
    accesses: tuple[Access, ...] = ()
    spills: tuple[SpillSlot, ...] = ()
    lds_buffers: tuple[LdsBuffer, ...] = ()
    live_peak: LivePeak | None = None
    spilled_values: tuple[SpilledValue, ...] = ()
    measured_lines: tuple[MeasuredLine, ...] = ()
    unread: tuple[Unread, ...] = ()  # empty: all of its code was read and followed
    demand: Demand | None = None  # what its occupancy rests on; None in reports of before
    emulated: Emulated | None = None  # None where it was not executed

    @property
    def all_read(self) -> bool:
        """Whether every instruction of its code was read; where a jump goes may be unknown."""
        return all(part.kind == "jump" for part in self.unread)


class Report(Struct, frozen=True):
    """The result of one run: what the renderers take.

    `notes` are about the run as a whole: configurations left out, modules stood in for.
    """

    target: str
    tool: Mapping[str, str]
    kernels: tuple[KernelReport, ...]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...] = ()
