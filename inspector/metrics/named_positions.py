"""The expressions that figures name, and their instructions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from ..model import EVERYWHERE, CodePosition, Function, Instruction, Metric, SourceLoc
from .subject import LineName, Positioned

_MOST_POSITIONS: Final = 20
_MOST_LINES: Final = 20
"""Of one position."""


class NamedPositions:
    """The positions that the metrics of a kernel name."""

    def __init__(self, function: Function) -> None:
        self._function = function

    def placed(self, metric: Metric) -> Metric:
        """A metric whose names of lines are plain texts, with their positions beside them."""
        value = metric.value
        if type(value) is LineName:
            return replace(metric, value=str(value) or None, positions=self._of("", value))
        if type(value) is not dict:
            return metric
        names = {key: item for key, item in value.items() if type(item) is LineName}
        if not names:
            return metric
        texts = {key: str(name) or None for key, name in names.items()}
        positions = tuple(p for key, name in names.items() for p in self._of(key, name))
        return replace(metric, value={**value, **texts}, positions=positions)

    def _of(self, key: str, name: LineName) -> tuple[CodePosition, ...]:
        """The expressions that are meant; those of operations with all instructions there."""
        told = _expressions(key, ((each.loc, self._code_of(each)) for each in name.code))
        if not name.everywhere:
            return told
        lines = (inst.line for each in name.everywhere for inst in self._code_of(each))
        return (*told, CodePosition(f"{key}{EVERYWHERE}", None, tuple(dict.fromkeys(lines))))

    def _code_of(self, each: Positioned) -> Sequence[Instruction]:
        return [each] if isinstance(each, Instruction) else self._at.get(each.loc, [])

    @cached_property
    def _at(self) -> dict[SourceLoc | None, list[Instruction]]:
        """The instructions at each position."""
        by_position: dict[SourceLoc | None, list[Instruction]] = {}
        for inst in self._function.instructions:
            if inst.loc is not None:
                by_position.setdefault(inst.loc, []).append(inst)
        return by_position


def positions_of(code: Iterable[Instruction]) -> tuple[CodePosition, ...]:
    """The expressions that some instructions stem from, for a figure that counts these."""
    return _expressions("", ((inst.loc, [inst]) for inst in code))


def _expressions(
    key: str, code_at: Iterable[tuple[SourceLoc | None, Sequence[Instruction]]]
) -> tuple[CodePosition, ...]:
    """The user's expressions at some positions, each with its instructions."""
    by_expression: dict[SourceLoc | None, list[Instruction]] = {}
    for loc, code in code_at:
        user = loc.in_user_code if loc is not None else None
        expression = SourceLoc(user.file, user.line, user.column) if user is not None else None
        by_expression.setdefault(expression, []).extend(code)
    return tuple(
        CodePosition(
            key,
            expression,
            tuple(dict.fromkeys(inst.line for inst in code))[:_MOST_LINES],
            code[0].mnemonic if code else "",
        )
        for expression, code in list(by_expression.items())[:_MOST_POSITIONS]
    )
