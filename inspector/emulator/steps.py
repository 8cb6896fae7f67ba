"""One instruction made a step: its builder is asked, and what nobody covers is refused.

A builder that leaves a modifier unread would compute something else than the instruction does:
such an instruction is refused too. A step that is refused raises when it is reached.

Which register files and constants the operands of an instruction may name.

A register is a row of one of two files, and builders take rows: an operand of another kind than
LLVM's assembler takes there would be read from the wrong file. What can be said of an instruction
by its name stands here; how many registers an operand has is for those who read it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import DPP_CONTROLS, Decoded, halves_of
from ..model import Instruction
from .elementwise import ResultStep
from .instructions import builder_of
from .registry import BuildContext, NotCoveredError, Step
from .waves import Waves


def step_of(parts: Decoded, context: BuildContext) -> Step:
    """Returns an instruction's step; one that is not covered raises when it is reached."""
    if " :: " in parts.text:
        return _dual(parts, context)
    try:
        return _built(parts, context)
    except NotCoveredError as error:
        return refusal(str(error))


_KNOWN_STEPS: Final[dict[tuple[str, str, bool, ExecutionTarget], Step]] = {}
_MOST_KNOWN_STEPS: Final = 1 << 13
_OF_A_PLACE: Final = ("s_getpc", "s_call", "s_swappc", "s_setpc", "s_add_pc")
"""Beginnings of the names of instructions that depend on where they stand."""


def step_anywhere(
    inst: Instruction, parts: Decoded, target: ExecutionTarget, labels: Mapping[str, int]
) -> Step:
    """Returns a step for machines that do not ask which instruction it is (`unknowns.Probe`).

    Steps keep nothing between calls, so that several analyses and kernels may share them. The
    counters that it raises count nothing: it is done at once.
    """
    private = inst.cls in ("scratch_load", "scratch_store")
    if parts.name.startswith(_OF_A_PLACE):
        return step_of(parts, BuildContext(target, inst.index, private=private, labels=labels))
    key = (inst.mnemonic, inst.operands, private, target)
    step = _KNOWN_STEPS.get(key)
    if step is None:
        if len(_KNOWN_STEPS) >= _MOST_KNOWN_STEPS:
            _KNOWN_STEPS.clear()
        context = BuildContext(target, inst.index, private=private, labels=labels)
        step = _KNOWN_STEPS[key] = step_of(parts, context)
    return step


def _built(parts: Decoded, context: BuildContext) -> Step:
    """Returns an instruction's step; refuses one whose builder leaves a modifier unread."""
    builder = builder_of(parts.name)
    if builder is None:
        raise NotCoveredError(parts.text)
    check_kinds(parts, context.target)
    modifiers = _Watched(parts.modifiers) if parts.modifiers else None
    try:
        step = builder(parts if modifiers is None else replace(parts, modifiers=modifiers), context)
    except (IndexError, ValueError):  # fewer or other operands than the mnemonic has
        raise NotCoveredError(f"{parts.text}: operands that are not understood") from None
    if modifiers is None or not parts.name.startswith("v_"):
        return step
    if unread := modifiers.unread():
        raise NotCoveredError(f"{parts.text}: {', '.join(sorted(unread))}")
    return step


class _Watched(dict[str, str]):
    """An instruction's modifiers, which record those that a builder has looked at."""

    def __init__(self, modifiers: Mapping[str, str]) -> None:
        super().__init__(modifiers)
        self._looked_at: set[str] = set()

    def __contains__(self, key: object) -> bool:
        self._looked_at.add(str(key))
        return super().__contains__(key)

    def __getitem__(self, key: str) -> str:
        self._looked_at.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._looked_at.add(key)
        return super().get(key, default)

    def items(self) -> Any:
        self._looked_at |= self.keys()
        return super().items()

    def unread(self) -> set[str]:
        """Returns the modifiers that change values and that nothing has asked for."""
        return {
            key for key in self.keys() - self._looked_at if key in _CHANGING or key in DPP_CONTROLS
        }


_CHANGING: Final = frozenset(
    {"src0_sel", "clamp", "mul", "div", "neg_lo", "neg_hi", "op_sel", "byte_sel", "scale_sel"}
)


def refusal(message: str) -> Step:
    """Returns a step that raises NotCoveredError."""

    def refuse(waves: Waves) -> None:
        raise NotCoveredError(message)

    return refuse


def _dual(parts: Decoded, context: BuildContext) -> Step:
    """Returns the step of a VOPD instruction: both operations read before either writes."""
    try:
        first, second = (
            _built(half, context) for half in halves_of(parts, context.target.accum_offset)
        )
    except NotCoveredError as error:
        return refusal(str(error))
    if not (isinstance(first, ResultStep) and isinstance(second, ResultStep)):
        return refusal(parts.text)

    def step(waves: Waves) -> None:
        first_value, second_value = first.value(waves), second.value(waves)
        if second_value.base is not None:  # a move's value is the register itself
            second_value = second_value.copy()
        first.store(waves, first_value)
        second.store(waves, second_value)

    return step


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
