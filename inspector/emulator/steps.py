"""One instruction made a step: its builder is asked, and what nobody covers is refused.

A builder that leaves a modifier unread would compute something else than the instruction does:
such an instruction is refused too. A step that is refused raises when it is reached.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from ..isa.dataflow.execution_target import ExecutionTarget
from ..isa.dataflow.operands import DPP_CONTROLS, Decoded, halves_of
from ..model import Instruction
from .elementwise import ResultStep
from .instructions import builder_of
from .operand_kinds import check_kinds
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
