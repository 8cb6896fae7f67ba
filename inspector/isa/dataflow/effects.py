"""The registers that an instruction reads and writes, as sets of bits (`register_sets`).

A read that is missing here would hide a finding, a read too many costs a second look: where an
operand may be either, it counts as read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from ...model import Instruction
from .execution_target import ExecutionTarget
from .operands import (
    DPP_CONTROLS,
    EXEC,
    NULL,
    SCALAR_BIT,
    VCC,
    Decoded,
    Operand,
    half_bits,
    halves_of,
    opsel,
    scalar_bits,
)

KEEPS_HALF: Final = frozenset(
    {f"v_{name}_{kind}" for name in ("min3", "max3", "med3") for kind in ("f16", "i16", "u16")}
    | {"v_fma_f16", "v_mad_f16", "v_mad_u16", "v_mad_i16", "v_div_fixup_f16", "v_add_i16",
       "v_sub_i16", "v_sat_pk_u8_i16", "v_cvt_norm_i16_f16", "v_cvt_norm_u16_f16",
       "v_bitop3_b16"}
)  # fmt: skip
"""16-bit operations that came with gfx9 and keep the other half there too: those with op_sel.

They are not among those that clear it (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest; CDNA3 ISA writes
`D0 = { 16'0, tmp }` for V_MAD_LEGACY_F16, V_MAC_F16 and their like alone).
"""


_NO_RESULT: Final = re.compile(
    r"(global|flat|t?buffer|scratch)_store_\w+|ds_(write|store(?!xchg))\w*"
    r"|s_(buffer_|scratch_)?store_\w+|s_sendmsg(halt)?"
    r"|s_(cmp|cmpk|bitcmp|cbranch|branch|wait|barrier|nop|sleep|setprio|setreg|trap)\w*"
    r"|(global|buffer|scratch)_load_lds_\w+|(global|cluster)_(load|store)_async_\w+|tensor_\w+"
    r"|s_(endpgm|dcache|icache|delay|clause|prefetch|setpc|rfe|set_gpr_idx|setvskip|sethalt"
    r"|setkill|alloc_vgpr|atc_probe)\w*|v_nop|ds_nop|exp\w*"
)
_TWO_RESULTS: Final = re.compile(
    r"v_(add|sub|subrev)(c|b|brev)?_co_(ci_)?u32|v_(addc|subb|subbrev)_co_u32|v_div_scale_f(32|64)"
    r"|v_mad_co_[ui]64_[ui]32|v_mad_[ui]64_[ui]32|v_(add|sub)_u32_carry"
)
_SWAPS: Final = re.compile(r"v_swap\w*|v_permlane(16|32)_swap_b32")
_READS_RESULT: Final = re.compile(
    r"v_(fmac|mac|pk_fmac|dot\d+a?cc?|swap|permlane\w*_swap|permlane64|cvt_pkaccum)(_\w+)?"
    r"|v_smfmac_\w+|v_swmmac_\w+|v_writelane_b32"
    r"|s_fmac_\w+|s_addk_\w+|s_mulk_\w+|s_cmovk?_\w+|s_bitset[01]_\w+"
)
_COMPARES_LANES: Final = re.compile(r"v_cmpx_\w+")
_MIXED: Final = re.compile(r"v_(?:fma|mad)_mix(lo|hi)_\w+")
_MIXES: Final = re.compile(r"v_(?:fma|mad)_mix\w+")
_WRITES_HALF: Final = re.compile(
    r"v_cvt_(scalef32_)?(sr_)?pk_(fp8|bf8)_\w+|v_cvt_scalef32_f16_(fp8|bf8)"
    r"|v_cvt_sr_(bf16|f16)_f32|v_ashr_pk_[iu]8_i32"
)
"""Their OPSEL says which half; the other one stays (CDNA3 ISA, 12.11; CDNA4 ISA, 12.11)."""
_HALF_RESULT: Final = re.compile(
    r"v_(?!cmp|pk_|pack|dot|cvt_(?!f16|i16|u16|bf16)|mad_[iu]32|sad|perm|(sw)?mma|wmma)"
    r"\w*_([iuf]|bf?)16(_\w+)?"
)
"""Operations with a result of 16 bits, which keep the other half from gfx10 on."""
_WRITES_BYTE: Final = re.compile(
    r"v_cvt_sr_(fp8|bf8)_\w+|v_cvt_scalef32_(sr_)?(fp8|bf8)_\w+|v_cvt_scalef32_(sr_)?pk_fp4_\w+"
)
"""Operations that write a byte or 4 bits: both halves keep some bits."""
_HALF_TYPES: Final = ("f16", "bf16", "i16", "u16")
_CONVERTS: Final = re.compile(r"v_cvt_(?!pk|norm|sr|scalef32|off)\w+?_(\w+?)")
_HALF_SOURCES: Final = re.compile(
    r"v_(add|sub|subrev|mul|mul_lo|fma|mad|max|min|max3|min3|med3|pack_b32|div_fixup|sqrt|rcp|rsq"
    r"|exp|log|floor|ceil|trunc|rndne|fract|lshlrev|lshrrev|ashrrev|and|or|xor)(_nc|_num)?"
    r"_(f16|i16|u16|b16)"
)
"""All of whose sources have 16 bits."""
_PERMUTES_ROWS: Final = re.compile(r"v_permlanex?16(_var)?_b32")
"""OPSEL[0] fetches from idle lanes, OPSEL[1] gives 0 for these (RDNA3 ISA, 16.9)."""
_PACKED_HALVES: Final = re.compile(r"v_pk_(?!fmac_)\w+?_(f16|bf16|i16|u16|b16)")
"""OPSEL says which half of a source the low result is made of, OPSEL_HI which half the high one."""
_PACKED_SINGLES: Final = re.compile(r"v_pk_(add|mul|fma)_f32")
"""OPSEL and OPSEL_HI likewise pick a register of each pair (CDNA3 ISA, 6.1.3)."""
_PICKS_BITS: Final = frozenset(
    {"v_lshlrev_b32", "v_lshrrev_b32", "v_ashrrev_i32", "v_and_b32", "v_and_or_b32",
     "v_lshl_or_b32", "v_lshl_add_u32", "v_alignbit_b32", "v_bfe_u32", "v_bfe_i32"}
)  # fmt: skip
"""Operations to whose result a constant may let some bits of a source alone."""
_LOW_BITS, _ALL_BITS = 0xFFFF, 0xFFFFFFFF
_STORES_HALF: Final = re.compile(
    r"(global|flat|scratch|buffer|ds)_(?:store|write)_(?:byte|short|b8|b16)(?:_d16_hi)?"
)
"""Stores of 8 and 16 bits; where `d16_hi` stands in front (gfx11), both halves count as read."""
_NARROW_STORE: Final = re.compile(
    r"(global|flat|scratch|buffer|ds)_(?:store|write)_(?:d16_(hi)_)?(?:byte|short|b8|b16)(?:_d16_(hi))?"
)
_ALWAYS_VALID: Final = frozenset(
    {"quad_perm", "row_ror", "row_mirror", "row_half_mirror", "row_newbcast", "row_share",
     "row_xmask", "dpp8", "wave_rol", "wave_ror"}
)  # fmt: skip
"""DPP controls that read an existing lane for every lane."""


class RegisterEffect(Struct, frozen=True):
    """One instruction's registers.

    Args:
        reads: every register that it reads, in part or whole.
        writes: every register that it writes, in part or whole.
        low, high: registers whose old bits 0 to 15, 16 to 31 are gone in the active lanes.
        reads_low, reads_high: registers of which it reads bits 0 to 15, 16 to 31.
    """

    reads: int = 0
    writes: int = 0
    low: int = 0
    high: int = 0
    reads_low: int = 0
    reads_high: int = 0


_MATCHES: Final[dict[tuple[int, str], re.Match[str] | None]] = {}
"""By identity of the pattern, whose hash takes as long as a match."""


def _match(pattern: re.Pattern[str], name: str) -> re.Match[str] | None:
    """Matches a mnemonic with one of the module's patterns, once for each pair."""
    key = id(pattern), name
    try:
        return _MATCHES[key]
    except KeyError:
        match = _MATCHES[key] = pattern.fullmatch(name)
        return match


def bits_of(operand: Operand) -> int:
    """The registers of an operand."""
    return _register_bits(operand, operand.first, operand.count)


def _register_bits(operand: Operand, first: int, count: int) -> int:
    """Some registers of an operand's file: `count` from row `first` on."""
    if operand.kind == "vgpr":
        return ((1 << count) - 1) << first
    if operand.kind == "sgpr" and operand.first != NULL:
        return ((1 << count) - 1) << (first + SCALAR_BIT)
    return 0


_KNOWN: Final[dict[tuple[str, str, str, ExecutionTarget], RegisterEffect]] = {}
"""Kernels of a script share most of their instructions, and several analyses ask for each."""
_MOST_KNOWN: Final = 1 << 15


def effects_of(
    instructions: Sequence[Instruction], decoded: Sequence[Decoded], target: ExecutionTarget
) -> list[RegisterEffect]:
    """Returns the registers that each instruction of a function reads and writes."""
    effects = []
    for inst, parts in zip(instructions, decoded, strict=True):
        effect = _KNOWN.get((inst.mnemonic, inst.operands, inst.cls, target))
        effects.append(effect or effect_of(inst, parts, target))
    return effects


def effects_of_halves(
    instructions: Sequence[Instruction], decoded: Sequence[Decoded], target: ExecutionTarget
) -> dict[int, tuple[RegisterEffect, ...]]:
    """Returns the effects of both operations of each dual instruction, by its index."""
    return {
        inst.index: tuple(
            half_effect(inst, half, target) for half in halves_of(parts, target.accum_offset)
        )
        for inst, parts in zip(instructions, decoded, strict=True)
        if " :: " in parts.text
    }


def effect_of(inst: Instruction, parts: Decoded, target: ExecutionTarget) -> RegisterEffect:
    """Returns the registers that one instruction reads and writes."""
    key = (inst.mnemonic, inst.operands, inst.cls, target)
    effect = _KNOWN.get(key)
    if effect is None:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        effect = _KNOWN[key] = _effect_of(inst, parts, target)
    return effect


def _effect_of(inst: Instruction, parts: Decoded, target: ExecutionTarget) -> RegisterEffect:
    """Returns an instruction's registers; of a dual one, those of both halves."""
    if " :: " not in parts.text:
        return half_effect(inst, parts, target)
    first, second = (
        half_effect(inst, half, target) for half in halves_of(parts, target.accum_offset)
    )
    return RegisterEffect(
        first.reads | second.reads,
        first.writes | second.writes,
        first.low | second.low,
        first.high | second.high,
        first.reads_low | second.reads_low,
        first.reads_high | second.reads_high,
    )


class _ReadSource(NamedTuple):
    """A source that has registers: index of the operand, which of its registers are read, and the
    half; None for both.
    """

    operand: int
    offset: int
    registers: int
    half: int | None


class _Form(Struct, frozen=True):
    """What instructions have in common that differ by their registers' numbers alone.

    Args:
        written: indices of the operands that are written.
        sources: those that are read.
        reads: registers that are read and not named.
        writes: registers that are written and not named.
        keeps_low, keeps_high: whether bits or lanes of a half of the result may stay.
    """

    written: tuple[int, ...]
    sources: tuple[_ReadSource, ...]
    reads: int
    writes: int
    keeps_low: bool
    keeps_high: bool


_FORMS: Final[dict[tuple[object, ...], _Form]] = {}


def half_effect(inst: Instruction, parts: Decoded, target: ExecutionTarget) -> RegisterEffect:
    """Returns the registers of an instruction, or of one half of a dual one (`halves_of`)."""
    operands = parts.operands
    key = (
        parts.name,
        parts.encoding,
        inst.cls,
        target,
        tuple(parts.modifiers.items()) if parts.modifiers else (),
        *[(operand.kind, operand.count, operand.half, operand.integer) for operand in operands],
    )
    form = _FORMS.get(key)
    if form is None:
        if len(_FORMS) >= _MOST_KNOWN:
            _FORMS.clear()
        form = _FORMS[key] = _form_of(inst, parts, target)
    reads = reads_low = reads_high = form.reads
    writes = 0
    for index, offset, count, half in form.sources:
        operand = operands[index]
        bits = _register_bits(operand, operand.first + offset, count)
        reads |= bits
        if half != 1:
            reads_low |= bits
        if half != 0:
            reads_high |= bits
    for index in form.written:
        operand = operands[index]
        writes |= _register_bits(operand, operand.first, operand.count)
    low = 0 if form.keeps_low else writes
    high = 0 if form.keeps_high else writes
    return RegisterEffect(reads, writes | form.writes, low, high, reads_low, reads_high)


def _form_of(inst: Instruction, parts: Decoded, target: ExecutionTarget) -> _Form:
    """Returns what `half_effect` needs to know of all instructions that are like one."""
    results = result_count(inst, parts)
    written, sources = results_and_sources(inst, parts)
    # A result that is read as well stands behind the sources.
    indices = (*range(results, len(parts.operands)), *range(results))
    read = []
    for number, (index, operand) in enumerate(zip(indices, sources, strict=False)):
        if operand.kind in ("vgpr", "sgpr"):
            picked = _picked(parts, number, operand)
            half = _half_read(parts, number, operand)
            read.append(_ReadSource(index, picked.first - operand.first, picked.count, half))
    vcc = scalar_bits(VCC, target.lanes // 32) if reads_vcc_unnamed(parts) else 0
    masks = _match(_COMPARES_LANES, parts.name) or "saveexec" in parts.name
    return _Form(
        tuple(i for i in range(results) if parts.operands[i].kind in ("vgpr", "sgpr")),
        tuple(read),
        vcc,
        scalar_bits(EXEC, 2) if masks else 0,
        bool(written) and _keeps_half(parts, written, 0, target),
        bool(written) and _keeps_half(parts, written, 1, target),
    )


def reads_vcc_unnamed(parts: Decoded) -> bool:
    """Whether VCC is a source that the text does not name."""
    if parts.name == "v_cndmask_b32":  # as a half of VOPD
        return len(parts.operands) == 3
    return parts.name.startswith(("s_cbranch_vcc", "v_div_fmas"))


def results_and_sources(
    inst: Instruction, parts: Decoded
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The operands that are written, and those that are read; one may be both."""
    results = result_count(inst, parts)
    written, sources = parts.operands[:results], parts.operands[results:]
    if results and _match(_READS_RESULT, parts.name):
        sources = (*sources, *written)
    return written, sources


def _picked(parts: Decoded, number: int, operand: Operand) -> Operand:
    """The registers of a pair that a packed instruction takes: both, or one of them twice."""
    if operand.count != 2 or not parts.name.startswith("v_pk_"):
        return operand
    low, high = _packed_choice(parts, number)
    if parts.name == "v_pk_mov_b32":  # the low result from the first pair, the high from the second
        high = low
    elif not _match(_PACKED_SINGLES, parts.name):
        return operand
    return replace(operand, first=operand.first + low, count=1) if low == high else operand


def _packed_choice(parts: Decoded, number: int) -> tuple[int, int]:
    """The halves of a source that the low and the high result are made of."""
    low, high = parts.bits("op_sel", number + 1), parts.bits("op_sel_hi", number + 1, 1)
    return low[number], high[number]


def _half_read(parts: Decoded, number: int, operand: Operand) -> int | None:
    """The one half of a source that is read; None for both, or where it is not known."""
    if operand.half is not None:
        return operand.half
    if operand.kind != "vgpr" or operand.count != 1:
        return None
    stored = _match(_STORES_HALF, parts.name)
    if stored is not None:
        data = 0 if stored[1] == "buffer" else 1
        return int("hi" in parts.name) if number == data else None
    if parts.encoding == "sdwa" or number > 2:
        return None
    bits = _bits_read(parts, number)
    if bits is not None:
        return 0 if not bits & ~_LOW_BITS else 1 if not bits & _LOW_BITS else None
    if _match(_PACKED_HALVES, parts.name):
        low, high = _packed_choice(parts, number)
        return low if low == high else None
    if _match(_MIXES, parts.name):  # OPSEL_HI says whether a source is a half at all
        is_half = parts.bits("op_sel_hi", number + 1)[number]
        return parts.bits("op_sel", number + 1)[number] if is_half else None
    converted = _match(_CONVERTS, parts.name)
    if (converted is not None and converted[1] in _HALF_TYPES) or (
        converted is None and _match(_HALF_SOURCES, parts.name)
    ):
        return opsel(parts)[number]
    return None


def _bits_read(parts: Decoded, number: int) -> int | None:
    """The bits of a source that reach the result of a shift or mask by a constant.

    None for other operations, and for operands that are not shifted. This is how bf16 becomes f32,
    and how two halves are put together.
    """
    name = parts.name
    if name not in _PICKS_BITS:
        return None
    first, second, third = (*(operand.integer for operand in parts.operands[1:4]), None, None)[:3]
    if name in ("v_and_b32", "v_and_or_b32"):
        mask = (second, first)[number] if number < 2 else None
        return None if mask is None else mask & _ALL_BITS
    if name == "v_alignbit_b32" and number < 2 and third is not None:
        return ~_below(third) & _ALL_BITS if number else _below(third)
    if name.startswith("v_bfe") and number == 0 and second is not None and third is not None:
        return _below(third) << (second & 31) & _ALL_BITS
    if name.startswith("v_lshl_") and number == 0 and second is not None:
        return _ALL_BITS >> (second & 31)
    if name.endswith("32") and "rev" in name and number == 1 and first is not None:
        return _ALL_BITS >> (first & 31) if "lshl" in name else ~_below(first) & _ALL_BITS
    return None


def _below(position: int) -> int:
    """The bits below a position in 0 to 31."""
    return (1 << (position & 31)) - 1


def result_count(inst: Instruction, parts: Decoded) -> int:
    """How many of the first operands are results."""
    if "atomic" not in inst.cls:
        return _result_count(parts.name, len(parts.operands), "lds" in parts.modifiers)
    if not parts.operands or "lds" in parts.modifiers:
        return 0
    in_lds = parts.name.startswith("ds_")
    returns = "_rtn" in parts.name if in_lds else returns_value(parts)
    return int(returns or parts.name in ("ds_append", "ds_consume"))


@functools.lru_cache(1 << 12)
def _result_count(name: str, operands: int, to_lds: bool) -> int:
    if not operands or to_lds or _NO_RESULT.fullmatch(name):
        return 0
    if _COMPARES_LANES.fullmatch(name):
        return int(operands > 2)
    if _SWAPS.fullmatch(name):
        return min(2, operands)
    return 2 if _TWO_RESULTS.fullmatch(name) and operands > 2 else 1


def returns_value(parts: Decoded) -> bool:
    """Whether an atomic of global memory gives back the old value."""
    flags = parts.modifiers
    return "glc" in flags or "sc0" in flags or "ATOMIC_RETURN" in flags.get("th", "")


def _keeps_half(
    parts: Decoded, written: tuple[Operand, ...], half: int, target: ExecutionTarget
) -> bool:
    """Whether bits or lanes of one half of the result may stay as they were."""
    name = parts.name
    if name == "v_writelane_b32" or _keeps_lanes(parts):
        return True
    named_half = next((operand.half for operand in written if operand.half is not None), None)
    if named_half is not None:
        return half != named_half
    mixed = _match(_MIXED, name)
    if mixed is not None:
        return half != int(mixed[1] == "hi")
    if _match(_WRITES_BYTE, name):
        return True
    if _match(_WRITES_HALF, name):
        return half != opsel(parts)[3]
    if name in KEEPS_HALF or (target.generation >= 10 and _match(_HALF_RESULT, name)):
        return half != opsel(parts)[3]
    if "d16" in name and not target.d16_clears:
        return half != int(name.endswith("_hi") or "_hi_" in name)
    if _match(_PERMUTES_ROWS, name):  # a lane keeps its value where its source is switched off
        return not any(parts.bits("op_sel", 2))
    if "op_sel" in parts.modifiers and not name.startswith("v_pk_"):
        return True
    return parts.encoding == "sdwa" and parts.modifiers.get("dst_unused") == "UNUSED_PRESERVE"


def _keeps_lanes(parts: Decoded) -> bool:
    """Whether DPP leaves lanes unwritten."""
    controls = parts.modifiers.keys() & DPP_CONTROLS if parts.modifiers else None
    if not controls:
        return False
    masks = {parts.modifiers.get(mask, "0xf") for mask in ("row_mask", "bank_mask")}
    reaches_past = not controls <= _ALWAYS_VALID and "bound_ctrl" not in parts.modifiers
    return masks != {"0xf"} or reaches_past


def _operands_of(parts: Decoded) -> list[Operand]:
    """Returns an instruction's operands; of a dual one, those of both halves."""
    if " :: " not in parts.text:
        return list(parts.operands)
    first, second = halves_of(parts, 0)
    return [*first.operands, *second.operands]


def vector_rows(parts: Decoded) -> list[range]:
    """Returns the rows of the vector registers that an instruction names."""
    return [operand.rows for operand in _operands_of(parts) if operand.kind == "vgpr"]


def result_halves(parts: Decoded) -> int:
    """The halves of the first operand's registers, which a load writes."""
    first = parts.operands[0]
    return half_bits(first.first, first.count) if first.kind == "vgpr" else 0


def _stored_half(parts: Decoded) -> tuple[int, int] | None:
    """Returns, for a store of 16 or 8 bits, the data's operand index and the half that it reads."""
    match = _NARROW_STORE.fullmatch(parts.name)
    if match is None:
        return None
    return 0 if match[1] == "buffer" else 1, 1 if match[2] or match[3] else 0


def touched_halves(parts: Decoded) -> int:
    """The halves of registers that an instruction names, as outstanding loads are held against."""
    bits = 0
    stored = _stored_half(parts)
    for index, operand in enumerate(_operands_of(parts)):
        if operand.kind == "vgpr":
            half = stored[1] if stored is not None and stored[0] == index else operand.half
            bits |= half_bits(operand.first, operand.count, half)
        elif operand.kind == "sgpr":
            bits |= scalar_bits(operand.first, operand.count)
    return bits
