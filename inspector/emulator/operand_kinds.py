"""Which register files and constants the operands of an instruction may name.

A register is a row of one of two files, and builders take rows: an operand of another kind than
LLVM's assembler takes there would be read from the wrong file. What can be said of an instruction
by its name stands here; how many registers an operand has is for those who read it.
"""

from __future__ import annotations

import functools
import re
from typing import Final

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import Decoded
from .registry import NotCoveredError

_ANY: Final = "[vsmenkx]"
"""A source of the vector ALU: all but AGPRs and `off`."""
_SCALAR: Final = "[smenkx]"
"""A source that all lanes share."""
_OR_OFF: Final = "[smenkxo]"

_ACCEPTED: Final = tuple(
    (re.compile(names), re.compile(kinds.replace(" ", "")))
    for names, kinds in (
        (r"s_(buffer_)?(load|store|atomic)_\w+", "s [se] [smenk]{0,2}"),
        (r"s_(memtime|memrealtime|sendmsg_rtn_\w+|get_shader_cycles_\w+)", "s [kx]?"),
        (r"s_(denorm|round)_mode", "k"),
        (r"s_movrels\w*", "s s"),
        (r"s_movreld\w*", f"s {_SCALAR}"),
        (r"s_swappc_b64", "s s"),
        (r"s_setpc_b64", "s"),
        (r"s_cmpk?_\w+", f"{_SCALAR}{{2}}"),
        (r"s_fmac_\w+", f"[smen] {_SCALAR}{{2}}"),
        (r"s_\w+", f"{_SCALAR}*"),
        (r"ds_\w+_addtid_b32|ds_append|ds_consume", "[va]"),
        (r"ds_(read|load)\w+", "[va] v"),
        (r"ds_(write|store)\w+", "v [va]{1,2}"),
        (r"ds_b?permute\w+", "[va] v [va]"),
        (r"ds_swizzle_b32", "[va] [va]"),
        (r"ds_\w+_rtn_\w+", "[va] v [va]{1,2}"),
        (r"ds_\w+", "(v [va]{1,2})?"),
        (r"global_(load|store)_addtid_b32", "[va] [seo]"),
        (r"global_(load_lds|load_async_to_lds|store_async_from_lds)_\w+", "v{1,2} [seno]?"),
        (r"(global|flat)_load_\w+", "[va]? v [seno]?"),
        (r"(global|flat)_store_\w+", "v [va] [seno]?"),
        (r"(global|flat)_atomic_\w+", "[va]? v [va] [seno]?"),
        (r"scratch_load_\w+", f"[va]? [vo] {_OR_OFF}"),
        (r"scratch_store_\w+", f"[vo] [va] {_OR_OFF}"),
        (r"(global|flat|scratch)_\w+", "v? [seno]?"),
        (r"buffer_(load|store|atomic)_\w+", "[va]? [vo]? s [smenkx]"),
        (r"buffer_\w+", ""),
        (r"v_(readlane|readfirstlane)_b32", f"[smen] v {_SCALAR}?"),
        (r"v_writelane_b32", f"v {_SCALAR}{{2}}"),
        (r"v_s_\w+", f"[smen] {_ANY}"),
        (r"v_cmpx?_\w+", f"[smen]? {_ANY}{{2}}"),
        (r"v_(add|sub|subrev|addc|subb|subbrev)_co_(ci_)?u32", f"v [smen] {_ANY}{{2}} [smenk]?"),
        (r"v_div_scale_\w+|v_mad_(co_)?[iu]64_[iu]32", f"v [smen] {_ANY}{{3}}"),
        (r"v_div_fmas_\w+", f"v {_ANY}{{3}}"),
        (r"v_s?mfma\w+", "[va]{3} [vak] [vsk]{0,2}"),
        (r"v_wmma_\w+", "v{3} [vk] [vsk]{0,2}"),
        (r"v_swmmac_\w+", "v{4}"),
        (r"v_accvgpr_read_b32", "v a"),
        (r"v_accvgpr_write_b32", f"a {_ANY}"),
        (r"v_accvgpr_mov_b32", "a a"),
        (r"v_swap\w+|v_permlane\w+_swap_b32|v_permlane64_b32", "v v"),
        (r"v_permlanex?16_b32", f"v v {_SCALAR}{{2}}"),
        (r"v_permlanex?16_var_b32", "v v v"),
        (r"v_\w+", f"(v {_ANY}*)?"),
    )
)
"""The first pattern that a name matches says what letters its operands have (`Operand.letter`)."""


def check_kinds(parts: Decoded, target: ExecutionTarget) -> None:
    """Raises NotCoveredError where an operand is none of the kinds that stand in its place."""
    letters = "".join([operand.letter for operand in parts.operands])
    if not _fit(parts.name, letters) or ("a" in letters and not _has_agprs(parts.name, target)):
        raise NotCoveredError(f"{parts.text}: operands of a kind that it does not take")


@functools.lru_cache(maxsize=1 << 12)
def _fit(name: str, letters: str) -> bool:
    for names, kinds in _ACCEPTED:
        if names.fullmatch(name):
            return kinds.fullmatch(letters) is not None
    return True


def _has_agprs(name: str, target: ExecutionTarget) -> bool:
    """Whether an instruction takes AGPRs: on gfx908 matrix instructions and moves alone."""
    if target.arch == "gfx908":
        return name.startswith(("v_mfma", "v_accvgpr"))
    return target.is_cdna3 or target.arch == "gfx90a"
