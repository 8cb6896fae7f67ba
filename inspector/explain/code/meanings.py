"""Describes AMDGCN instructions in a sentence each, by patterns over names, most specific first.

The sentences hold what a reader of a kernel needs, not every detail of the ISA documents. A name
that matches no pattern has no sentence; its class describes it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from ...model import OpInfo

_TYPES: Mapping[str, str] = {
    "f64": "64-bit floats",
    "f32": "32-bit floats",
    "f16": "16-bit floats",
    "bf16": "bfloat16",
    "bf8": "8-bit floats (E5M2)",
    "fp8": "8-bit floats (E4M3)",
    "fp6": "6-bit floats (E2M3)",
    "bf6": "6-bit floats (E3M2)",
    "fp4": "4-bit floats (E2M1)",
    "xf32": "32-bit floats rounded to 19 bits (TF32)",
    "i64": "signed 64-bit integers",
    "i32": "signed 32-bit integers",
    "i24": "signed 24-bit integers",
    "i16": "signed 16-bit integers",
    "i8": "signed 8-bit integers",
    "u64": "unsigned 64-bit integers",
    "u32": "unsigned 32-bit integers",
    "u24": "unsigned 24-bit integers",
    "u16": "unsigned 16-bit integers",
    "u8": "unsigned 8-bit integers",
    "b128": "128 bits",
    "b96": "96 bits",
    "b64": "64 bits",
    "b32": "32 bits",
    "b16": "16 bits",
    "b8": "8 bits",
}
_MIXED = "8-, 6- or 4-bit floats, as the operands after it say"
_TYPE = re.compile(r"_(" + "|".join(_TYPES) + r")(?=_|$)")
_MATRIX = re.compile(
    r"v_(?P<op>mfma|smfmac|wmma|swmmac)(?:_scale(?:16)?)?_(?P<out>[a-z]+\d+)_"
    r"(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)_?(?:(?P<blocks>\d+)b_?)?(?P<of>\w*)"
)
_CROSS_LANE = re.compile(r"\b(?:row_\w+|quad_perm|wave_\w+|dpp8):")
_COMPARISONS: Mapping[str, str] = {
    "eq": "equal to",
    "ne": "not equal to",
    "neq": "not equal to, or either is NaN,",
    "lg": "less or greater than",
    "lt": "less than",
    "nlt": "not less than",
    "le": "less than or equal to",
    "nle": "not less than or equal to",
    "gt": "greater than",
    "ngt": "not greater than",
    "ge": "greater than or equal to",
    "nge": "not greater than or equal to",
    "nlg": "neither less nor greater than",
    "o": "comparable (no NaN) with",
    "u": "not comparable (a NaN) with",
}
_COMPARE = re.compile(r"[vs]_cmp(?P<x>x)?k?_(?P<how>" + "|".join(_COMPARISONS) + r")_(\w+)$")

# `{t}` is the type that the name ends in; `{w}` who does it: each lane, or the wave.
_TABLE: tuple[tuple[str, str], ...] = (
    # ---- waits and order
    (r"s_waitcnt$", "Waits until each named counter has fallen to its number."),
    (r"s_waitcnt_depctr|s_wait_alu", "Waits for results of vector operations, not for memory."),
    (r"s_wait_loadcnt_dscnt", "Waits for loads and for LDS at once."),
    (r"s_wait_storecnt_dscnt", "Waits for stores and for LDS at once."),
    (r"s_wait_loadcnt$|s_waitcnt_vmcnt", "Waits until at most so many loads are outstanding."),
    (r"s_wait_storecnt|s_waitcnt_vscnt", "Waits until at most so many stores are outstanding."),
    (
        r"s_wait_dscnt|s_waitcnt_lgkmcnt",
        "Waits until at most so many LDS operations are outstanding.",
    ),
    (r"s_wait_kmcnt", "Waits until at most so many scalar loads are outstanding."),
    (r"s_wait_asynccnt", "Waits until at most so many copies to LDS are outstanding."),
    (r"s_wait_tensorcnt", "Waits until at most so many tensor copies are outstanding."),
    (r"s_wait_idle", "Waits until nothing at all is outstanding."),
    (r"s_wait_event", "Waits for an event."),
    (r"s_wait_xcnt", "Waits for address translations of earlier memory operations."),
    (r"s_barrier_signal", "Tells the workgroup's other waves that this one has arrived."),
    (r"s_barrier_wait", "Waits until all waves of the workgroup have arrived."),
    (r"s_barrier(?:_|$)", "Waits until all waves of the workgroup have come here."),
    (r"s_nop|v_nop|ds_nop", "Does nothing: fills cycles that a hazard asks for."),
    (r"s_delay_alu", "Tells the scheduler how far away the results are that come next."),
    (r"s_clause", "Says that the next memory operations belong together."),
    (r"s_setprio", "Sets the wave's priority among those of its SIMD."),
    (r"s_sleep", "Lets the wave sleep for a while."),
    (r"s_sched_\w+|s_inst_prefetch|s_set_inst_prefetch", "Sets how far ahead code is fetched."),
    (r"s_endpgm", "Ends the wave."),
    (r"s_trap", "Enters the trap handler."),
    (r"s_sendmsg_rtn", "Asks a unit outside of the SIMD; the answer comes in a register."),
    (r"s_sendmsg", "Sends a message to a unit outside of the SIMD."),
    (r"s_memtime|s_memrealtime", "Reads the clock; the answer comes as a scalar load's does."),
    (r"s_getreg", "Reads a field of a hardware register."),
    (r"s_setreg", "Writes a field of a hardware register: rounding, priority, mode."),
    (r"s_set_vgpr_msb", "Chooses which upper VGPRs the next instructions mean."),
    (r"s_set_gpr_idx\w*", "Sets up access to registers by index."),
    # ---- control
    (r"s_cbranch_scc0", "Jumps if the scalar condition is false."),
    (r"s_cbranch_scc1", "Jumps if the scalar condition is true."),
    (r"s_cbranch_vccz", "Jumps if VCC is 0: the comparison held in no lane."),
    (r"s_cbranch_vccnz", "Jumps if VCC is not 0: the comparison held in some lane."),
    (r"s_cbranch_execz", "Jumps if no lane is active."),
    (r"s_cbranch_execnz", "Jumps if some lane is active."),
    (r"s_cbranch\w*", "Jumps under a condition."),
    (r"s_branch", "Jumps."),
    (r"s_add_pc\w*", "Jumps by a distance."),
    (r"s_(?:set|swap)_?pc\w*|s_call\w*", "Goes to an address in a register: a call, or a return."),
    (r"s_get_?pc\w*", "Puts the address of the next instruction into a register pair."),
    # ---- scalar memory
    (r"s_(?:buffer_)?load_\w+", "Loads from memory into SGPRs, once for the wave."),
    (r"s_(?:buffer_|scratch_)?store_\w+", "Stores SGPRs to memory."),
    (r"s_dcache_\w+|s_icache_\w+|s_gl1_inv", "Invalidates or writes back a scalar cache."),
    (r"s_prefetch_\w+|\w+_prefetch_\w+", "Fetches a line into a cache; nothing is returned."),
    # ---- vector memory
    (r"(?:buffer|global)_load_lds_\w+", "Loads from memory straight into LDS, past the VGPRs."),
    (r"\w+_load_async_to_lds_\w+", "Copies from memory to LDS in the background."),
    (r"\w+_store_async_from_lds_\w+", "Copies from LDS to memory in the background."),
    (r"tensor_load_to_lds", "Copies a tile that a descriptor names from memory to LDS."),
    (r"tensor_store_from_lds", "Copies a tile from LDS to memory, as a descriptor says."),
    (r"global_load_tr\w*", "Loads from memory and transposes among the lanes."),
    (
        r"buffer_load_\w+",
        "Loads from a buffer into VGPRs; lanes beyond its end get 0.",
    ),
    (r"buffer_store_\w+", "Stores VGPRs to a buffer; lanes beyond its end store nothing."),
    (r"global_load_\w+", "Loads from global memory into VGPRs, each lane from its own address."),
    (r"global_store_\w+", "Stores VGPRs to global memory, each lane to its own address."),
    (
        r"flat_load_\w+",
        "Loads from an address in global memory, LDS or scratch: two counters count it.",
    ),
    (r"flat_store_\w+", "Stores to an address in global memory, LDS or scratch."),
    (r"scratch_load_\w+", "Loads from the lane's scratch memory: a spill comes back, or an array."),
    (r"scratch_store_\w+", "Stores to the lane's scratch memory: a spill, or an array."),
    (r"(?:global|flat|buffer|image)_atomic_\w+", "Changes memory in one indivisible step."),
    (r"image_sample\w*|image_gather\w*", "Samples an image."),
    (r"image_load\w*", "Loads from an image."),
    (r"image_store\w*", "Stores to an image."),
    (r"image_bvh\w*", "Intersects a ray with a box or triangle."),
    (r"buffer_wbl2|global_wb\b", "Writes the L2 cache's changes back."),
    (r"buffer_inv\w*|global_inv|buffer_gl\d_inv|buffer_wbinv\w*", "Invalidates a cache."),
    # ---- LDS
    (r"ds_bpermute\w*", "Each lane gets the value of the lane that it names, by way of LDS."),
    (r"ds_permute\w*", "Each lane sends its value to the lane that it names, by way of LDS."),
    (r"ds_swizzle\w*", "Exchanges values among lanes in a fixed pattern."),
    (r"ds_(?:read|load)\w*_tr\w*", "Loads from LDS and transposes among the lanes."),
    (r"ds_read2st64_\w+|ds_load_2addr_stride64_\w+", "Two loads from LDS, 64 elements apart."),
    (r"ds_read2_\w+|ds_load_2addr_\w+", "Two loads from LDS in one."),
    (r"ds_write2st64_\w+|ds_store_2addr_stride64_\w+", "Two stores to LDS, 64 elements apart."),
    (r"ds_write2_\w+|ds_store_2addr_\w+", "Two stores to LDS in one."),
    (r"ds_(?:read|load)_\w+", "Loads from LDS into VGPRs."),
    (r"ds_(?:write|store)_\w+", "Stores VGPRs to LDS."),
    (r"ds_\w+", "Changes LDS in one indivisible step."),
    # ---- moves between lanes and kinds of registers
    (r"v_readfirstlane\w*", "Copies the first active lane's value into an SGPR."),
    (r"v_readlane\w*", "Copies one lane's value into an SGPR."),
    (r"v_writelane\w*", "Writes a scalar into one lane."),
    (r"v_permlane\w*swap\w*", "Swaps values between halves or rows of lanes."),
    (r"v_permlane\w*", "Exchanges values among the lanes of a row."),
    (r"v_accvgpr_read\w*", "Copies an AGPR to a VGPR: most instructions cannot use AGPRs."),
    (r"v_accvgpr_mov\w*", "Copies an AGPR to another."),
    (r"v_accvgpr_write\w*", "Copies a VGPR or constant to an AGPR."),
    (r"v_swap\w*", "Exchanges two registers."),
    (r"v_movrel\w*|v_mov_b\d+_indirect", "Copies by register index."),
    (r"v_mov_b\w+|v_pk_mov\w*", "Copies a register or constant, in each lane."),
    (r"s_c?movk?_\w+|s_cmovk?_\w+", "Copies a register or constant."),
    (r"v_cndmask\w*", "Chooses between two values by the lane's bit of a mask."),
    (r"s_cselect\w*", "Chooses between two values by the scalar condition."),
    # ---- conversion
    (r"v_cvt_pk(?:rtz|norm)?_?\w*|v_cvt_scalef32_pk\w*", "Converts {from}, and packs them."),
    (r"[vs]_cvt_\w+", "Converts {from}."),
    (r"v_pack\w*|s_pack\w*", "Packs two halves into a register."),
    # ---- arithmetic
    (r"v_(?:exp|s_exp)_\w+", "2 to the power of x ({t})."),
    (r"v_(?:log|s_log)_\w+", "Logarithm to base 2 ({t})."),
    (r"v_rcp\w*", "1 / x ({t}), approximately."),
    (r"v_rsq\w*", "1 / √x ({t}), approximately."),
    (r"v_sqrt\w*", "√x ({t}), approximately."),
    (r"v_(?:sin|cos)\w*", "Sine or cosine, of turns."),
    (r"v_tanh\w*", "Hyperbolic tangent ({t})."),
    (r"v_div_(?:scale|fmas|fixup)\w*", "A step of an exact division ({t})."),
    (r"v_dual_\w+", "Two vector operations in one instruction."),
    (r"v_(?:dual_)?dot\d\w*", "Dot product of packed values, added to a sum."),
    (r"v_pk_(?:fma|fmac|mad)\w*", "a × b + c on two packed values ({t})."),
    (
        r"v_(?:fma|fmac|mac|mad|fmamk|fmaak|madmk|madak|pk_fma)_?(?:mix\w*|\w*)",
        "a × b + c ({t}).",
    ),
    (r"v_pk_add\w*", "Adds two packed values ({t})."),
    (r"v_pk_mul\w*", "Multiplies two packed values ({t})."),
    (r"v_pk_max\w*|v_pk_min\w*", "Larger or smaller of two packed values ({t})."),
    (r"v_pk_\w+", "The same operation on two packed values ({t})."),
    (r"v_add3\w*", "a + b + c ({t})."),
    (r"v_add_lshl\w*", "(a + b) shifted left."),
    (r"[vs]_lshl\d?_add\w*", "a shifted left, plus b: mostly for an address."),
    (r"v_lshl_or\w*", "a shifted left, or b."),
    (r"v_and_or\w*", "(a and b) or c."),
    (r"v_or3\w*", "a or b or c."),
    (r"v_xor3\w*", "a xor b xor c."),
    (r"v_cmpx?_class\w*", "Tests which kind of number a float is: NaN, infinity, zero, ..."),
    (r"v_xad\w*", "(a xor b) + c."),
    (r"v_bitop3\w*", "Any function of three bits, by a truth table."),
    (r"v_max3\w*|v_maximum3\w*", "Largest of three ({t})."),
    (r"v_min3\w*|v_minimum3\w*", "Smallest of three ({t})."),
    (r"v_med3\w*", "Middle one of three ({t})."),
    (r"[vs]_max\w*", "Larger of two ({t})."),
    (r"[vs]_min\w*", "Smaller of two ({t})."),
    (r"[vs]_mul_hi\w*", "Upper half of a product ({t})."),
    (r"v_ldexp\w*|v_scalb\w*", "x × 2 to the power of n ({t})."),
    (r"[vs]_mul\w*", "a × b ({t})."),
    (r"[vs]_(?:add|addk|addc)\w*", "a + b ({t}){carry}."),
    (r"[vs]_(?:subrev|subbrev)\w*", "b - a ({t}){carry}."),
    (r"[vs]_(?:sub|subb)\w*", "a - b ({t}){carry}."),
    (r"[vs]_lshlrev\w*|[vs]_lshl_b\w*", "Shifts left ({t})."),
    (r"[vs]_lshrrev\w*|[vs]_lshr_b\w*", "Shifts right, zeros come in ({t})."),
    (r"[vs]_ashrrev\w*|[vs]_ashr_i\w*", "Shifts right, the sign comes in ({t})."),
    (r"v_align(?:bit|byte)\w*", "Takes 32 bits out of two registers."),
    (r"v_perm_b32", "Chooses four bytes out of two registers."),
    (r"[vs]_bfe\w*", "Takes a field of bits out."),
    (r"[vs]_bfi\w*", "Puts a field of bits in."),
    (r"[vs]_bfm\w*", "Makes a mask of bits."),
    (r"s_\w+_saveexec\w*|s_\w+_wrexec\w*", "Saves which lanes are active, and sets that anew."),
    (r"[vs]_andn2\w*|s_and_not1\w*", "a and not b ({t})."),
    (r"s_orn2\w*|s_or_not1\w*", "a or not b ({t})."),
    (r"[vs]_and_b\w*", "a and b ({t})."),
    (r"[vs]_or_b\w*", "a or b ({t})."),
    (r"[vs]_xor_b\w*", "a xor b ({t})."),
    (r"[vs]_xnor_b\w*", "Not (a xor b) ({t})."),
    (r"[vs]_not_b\w*", "Inverts ({t})."),
    (r"[vs]_(?:bcnt\w*|mbcnt\w*)", "Counts bits."),
    (
        r"[vs]_(?:ff[bh]\w*|ff1\w*|flbit\w*|ctz\w*|clz\w*|cls\w*)",
        "Finds the first bit that counts.",
    ),
    (r"[vs]_bfrev\w*|s_brev\w*", "Turns the order of bits round."),
    (r"v_(?:floor|ceil|trunc|rndne|fract)\w*", "Rounds ({t})."),
    (r"v_frexp\w*", "Takes exponent or mantissa out."),
    (r"s_bitcmp[01]\w*", "Tests one bit: the scalar condition."),
    (r"s_bitset[01]\w*", "Sets or clears one bit."),
    (r"s_abs\w*", "Absolute value."),
    (r"s_sext\w*", "Extends the sign."),
    (r"s_w?qm\w*|s_quadmask\w*", "Whole quads of a mask of lanes."),
)


@functools.cache
def _compiled() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((re.compile(pattern), words) for pattern, words in _TABLE)


def meaning(op: OpInfo, operands: str = "") -> str:
    """A sentence on what an instruction does; "" if none is known.

    Args:
        op: the instruction's entry in the mnemonic table.
        operands: the operands as text, which show, for example, whether a load goes to LDS.
    """
    name = op.name
    matrix = _MATRIX.match(name)
    if matrix is not None:
        return _matrix_sentence(matrix)
    compare = _COMPARE.match(name)
    if compare is not None:
        return _comparison_sentence(name, compare)
    if name.startswith("buffer_load") and re.search(r"\blds\b", operands):
        return "Loads from a buffer straight into LDS, past the VGPRs."
    words = _sentence(name)
    if words and name.startswith("v_") and _CROSS_LANE.search(operands) is not None:
        words += " Lanes take their input from other lanes."
    return words


@functools.lru_cache(maxsize=4096)
def _sentence(name: str) -> str:
    """The sentence of the first pattern that a name matches, with its types filled in."""
    for pattern, words in _compiled():
        if pattern.match(name):
            kinds = [_TYPES[kind] for kind in _TYPE.findall(name)]
            type_words = kinds[-1] if kinds else "any type"
            if name.startswith("v_"):
                type_words += ", in each lane"
            between = f"{kinds[1]} to {kinds[0]}" if len(kinds) == 2 else "from one type to another"
            return words.format_map({"t": type_words, "carry": _carry(name), "from": between})
    return ""


def _carry(name: str) -> str:
    if "_co_ci" in name or re.search(r"_(?:addc|subb|subbrev)_", name):
        return ", with the carry of the step before"
    return ", and the carry of it" if "_co_" in name else ""


def _matrix_sentence(match: re.Match[str]) -> str:
    """The sentence of an MFMA or WMMA instruction: shapes, types and blocks."""
    m, n, k, blocks = match["m"], match["n"], match["k"], match["blocks"]
    sparse = ", A half zeros" if match["op"] in ("smfmac", "swmmac") else ""
    several = f", {blocks} blocks at once" if blocks else ""
    input_types = match["of"].removesuffix("_1k").removesuffix("1k")
    parts = [
        _MIXED if part == "f8f6f4" else _TYPES.get(part, part)
        for part in input_types.split("_")
        if part
    ]
    inputs = " and ".join(dict.fromkeys(parts))
    return (
        f"D = A × B + C on the matrix unit: A is {m} × {k}, B {k} × {n}"
        f"{', of ' + inputs if inputs else ''}; sums in {_TYPES.get(match['out'], match['out'])}"
        f"{sparse}{several}."
    )


def _comparison_sentence(name: str, match: re.Match[str]) -> str:
    """The sentence of a comparison: its relation, type and destination."""
    kind, relation = _TYPES.get(match[3], match[3]), _COMPARISONS[match["how"]]
    if match["how"] == "lg" and "float" not in kind:
        relation = "not equal to"
    if name.startswith("s_"):
        return f"Whether a is {relation} b ({kind}): the scalar condition."
    where = "EXEC: lanes where it does not hold stop" if match["x"] else "one bit per lane"
    return f"Whether a is {relation} b in each lane ({kind}), into {where}."
