"""What a launch passes to a kernel: initial registers of a wave, arguments, LDS that it adds.

The kernel descriptor has a bit for each value that a kernel requests in SGPRs; the requested values
follow one another in a fixed order. Source: LLVM's AMDGPUUsage, "SGPR Register Set Up Order".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from ..model import Function, WaveStart
from .mnemonics import Flow, flow_of

USER_SGPRS: Final = (
    ("private_segment_buffer", 4),
    ("dispatch_ptr", 2),
    ("queue_ptr", 2),
    ("kernarg_ptr", 2),
    ("dispatch_id", 2),
    ("flat_scratch_init", 2),
    ("private_segment_size", 1),
)
"""Values that can be passed and their SGPRs, in order; preloaded arguments follow them."""


def _user_sgprs(requested: Mapping[str, bool]) -> tuple[dict[str, int], int]:
    """The first SGPR of each requested value, and the SGPR after the last one."""
    first_sgprs: dict[str, int] = {}
    next_sgpr = 0
    for name, count in USER_SGPRS:
        if requested.get(name):
            first_sgprs[name] = next_sgpr
            next_sgpr += count
    return first_sgprs, next_sgpr


def from_directives(values: Mapping[str, int]) -> WaveStart | None:
    """The wave's start by the `.amdhsa_*` directives of a kernel, keyed without the prefix.

    A directive that is left out has the assembler's default (AMDGPUUsage, ".amdhsa Assembler
    Directives").

    Returns:
        None where there is no directive at all.
    """
    if not values:
        return None

    def flag(name: str, default: int = 0) -> bool:
        return bool(values.get(name, default))

    requested = {name: flag(f"user_sgpr_{name}") for name, _ in USER_SGPRS}
    requested["kernarg_ptr"] = flag("user_sgpr_kernarg_segment_ptr")
    first_sgprs, next_sgpr = _user_sgprs(requested)
    preload = values.get("user_sgpr_kernarg_preload_length", 0)
    return WaveStart(
        user_sgprs=values.get("user_sgpr_count", next_sgpr + preload),
        **first_sgprs,
        preload_sgpr=next_sgpr if preload else None,
        preload_dwords=preload,
        preload_offset=values.get("user_sgpr_kernarg_preload_offset", 0),
        workgroup_ids=(
            flag("system_sgpr_workgroup_id_x", 1),
            flag("system_sgpr_workgroup_id_y"),
            flag("system_sgpr_workgroup_id_z"),
        ),
        workgroup_info=flag("system_sgpr_workgroup_info"),
        wave_offset=flag("system_sgpr_private_segment_wavefront_offset"),
        work_item_dims=values.get("system_vgpr_workitem_id", 0),
        round_f32=values.get("float_round_mode_32", 0),
        round_f16_f64=values.get("float_round_mode_16_64", 0),
        denorm_f32=values.get("float_denorm_mode_32", 0),
        denorm_f16_f64=values.get("float_denorm_mode_16_64", 3),
        dx10_clamp=flag("dx10_clamp", 1) if "dx10_clamp" in values else None,
        ieee_mode=flag("ieee_mode", 1) if "ieee_mode" in values else None,
    )


def from_descriptor(rsrc1: int, rsrc2: int, properties: int, preload: int) -> WaveStart:
    """The wave's start by the words of a kernel descriptor (AMDGPUUsage, "Kernel Descriptor").

    Args:
        rsrc1: COMPUTE_PGM_RSRC1.
        rsrc2: COMPUTE_PGM_RSRC2.
        properties: the 16 bits that request values in SGPRs.
        preload: the 16 bits of the preloaded arguments.
    """
    requested = {name: bool(properties >> bit & 1) for bit, (name, _) in enumerate(USER_SGPRS)}
    first_sgprs, next_sgpr = _user_sgprs(requested)
    dwords = preload & 0x7F
    return WaveStart(
        user_sgprs=rsrc2 >> 1 & 0x1F,
        **first_sgprs,
        preload_sgpr=next_sgpr if dwords else None,
        preload_dwords=dwords,
        preload_offset=preload >> 7,
        workgroup_ids=(bool(rsrc2 >> 7 & 1), bool(rsrc2 >> 8 & 1), bool(rsrc2 >> 9 & 1)),
        workgroup_info=bool(rsrc2 >> 10 & 1),
        # Bit 0 enables the private segment; the offset is passed only where the buffer is.
        wave_offset=bool(rsrc2 & 1)
        and (requested["private_segment_buffer"] or requested["flat_scratch_init"]),
        work_item_dims=rsrc2 >> 11 & 3,
        round_f32=rsrc1 >> 12 & 3,
        round_f16_f64=rsrc1 >> 14 & 3,
        denorm_f32=rsrc1 >> 16 & 3,
        denorm_f16_f64=rsrc1 >> 18 & 3,
        dx10_clamp=bool(rsrc1 >> 21 & 1),
        ieee_mode=bool(rsrc1 >> 23 & 1),
    )


def entry_block(function: Function) -> int:
    """The block in which waves begin: behind the header for firmware that preloads no arguments.

    Firmware that fills SGPRs with arguments skips 256 bytes, in which code stands for other
    firmware: it loads the same words and jumps (LLVM 20 on), or ends the wave (before). gfx1250
    has neither the older firmware nor the header. Source: LLVM's AMDGPUUsage, "Preloaded Kernel
    Arguments"; AMDGPUPreloadKernArgProlog.
    """
    start = function.resources.wave_start
    if start is None or not start.preload_dwords or not function.blocks:
        return 0
    first = function.blocks[0]
    *others, last = function.instructions[first.start : first.stop]
    loads = [inst for inst in others if inst.cls == "smem_load"]
    is_header = len(first.successors) == 1 and all(
        inst.cls in ("smem_load", "wait") for inst in others
    )
    if flow_of(last.op, last.operands) is Flow.END:
        return first.successors[0] if is_header and not loads else 0
    fills = sum(inst.op.bits or 0 for inst in loads) == _WORD_BITS * start.preload_dwords
    return first.successors[0] if is_header and fills and last.op.name == "s_branch" else 0


_WORD_BITS: Final = 32
GROUP_SIZE_KIND = "hidden_group_size_x"
POINTER_KIND = "global_buffer"
MOST_KERNARG_BYTES = 8192
"""Offsets beyond this come from damaged metadata."""
DYNAMIC_LDS_KINDS = frozenset(
    {"dynamic_shared_pointer", "hidden_dynamic_lds_size", "DynamicSharedPointer"}
)
"""Values of `.value_kind` (`ValueKind` in code object v2) that mean LDS set by the launch.

`hidden_dynamic_lds_size` stands among the hidden arguments (code object v5 on) where the kernel
uses LDS of a size that the launch sets: HIP's `extern __shared__` or a pointer to LDS as argument;
LLVM 22 leaves it out otherwise. `dynamic_shared_pointer` is such a pointer (OpenCL's `__local`
arguments), `DynamicSharedPointer` the same in code object v2. Source: "User Guide for AMDGPU
Backend", "Code Object V3 / V5 Kernel Argument Metadata"; MetadataStreamerMsgPackV5::
emitHiddenKernelArgs in LLVM.
"""


def pointer_offsets(arguments: object) -> tuple[int, ...] | None:
    """Byte offsets of the pointers in the kernel argument segment; None where there are none.

    `arguments`: `.args` of a kernel's metadata, as decoded; anything may stand there.
    """
    return tuple(_offsets(arguments, POINTER_KIND)) or None


def group_size_offset(arguments: object) -> int | None:
    """Byte offset of the workgroup's size in x, y and z in the kernel argument segment.

    16 bits each, among the hidden arguments (code object v5 on); the last x, y and z, of workgroups
    at the edge of the grid, follow in as many bits. None where the kernel does not read them.

    `arguments`: as for `pointer_offsets`.
    """
    return next(_offsets(arguments, GROUP_SIZE_KIND), None)


def adds_lds(arguments: object) -> Literal[True] | None:
    """Whether the launch adds LDS to what the file states.

    `arguments`: as for `pointer_offsets`.

    Returns:
        True, or None where the arguments do not say: code objects before v5 have no hidden
        argument for it, and code without hidden arguments (Triton's) may use dynamic LDS too.
    """
    for argument in _described(arguments):
        value_kind = argument.get(".value_kind", argument.get("ValueKind"))
        if isinstance(value_kind, str) and value_kind in DYNAMIC_LDS_KINDS:
            return True
    return None


def _offsets(arguments: object, kind: str) -> Iterator[int]:
    """Yields the byte offsets of the arguments of one kind, without those that make no sense."""
    for argument in _described(arguments):
        if argument.get(".value_kind") == kind:
            offset = argument.get(".offset")
            if type(offset) is int and 0 <= offset < MOST_KERNARG_BYTES:
                yield offset


def _described(arguments: object) -> Iterator[dict[object, Any]]:
    """Yields the descriptions of arguments in a kernel's metadata."""
    for argument in arguments if isinstance(arguments, list) else ():
        if isinstance(argument, dict):
            yield argument
