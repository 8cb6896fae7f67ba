"""Conditional assembly: the stack of open `.if` directives and whether code is assembled now."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from .contents import Omissions
from .symbols import SymbolTable

_COMPARISONS: Mapping[str, Callable[[int], bool]] = MappingProxyType(
    {
        ".if": lambda v: v != 0,
        ".ifne": lambda v: v != 0,
        ".ifeq": lambda v: v == 0,
        ".ifgt": lambda v: v > 0,
        ".ifge": lambda v: v >= 0,
        ".iflt": lambda v: v < 0,
        ".ifle": lambda v: v <= 0,
        ".elseif": lambda v: v != 0,
    }
)
_OTHER_IFS = frozenset(
    {".ifdef", ".ifndef", ".ifnotdef", ".ifc", ".ifnc", ".ifeqs", ".ifnes", ".ifb", ".ifnb"}
)
CONDITIONAL_DIRECTIVES = frozenset({*_COMPARISONS, *_OTHER_IFS, ".else", ".endif"})


class _Condition(Struct, frozen=True):
    """An open `.if`.

    Args:
        active: whether its current branch is assembled.
        decided: whether no later branch can be: one was, or the `.if` itself is skipped.
    """

    active: bool
    decided: bool


class Conditions:
    """The open `.if` directives of a text.

    Attributes:
        active: whether the code at the current line is assembled.
    """

    def __init__(self, symbols: SymbolTable, omissions: Omissions) -> None:
        self.active = True
        self._symbols = symbols
        self._omissions = omissions
        self._open: list[_Condition] = []  # the innermost last

    @property
    def depth(self) -> int:
        """How many `.if` are open."""
        return len(self._open)

    def close_to(self, depth: int) -> None:
        """Closes the innermost `.if` until `depth` of them are open."""
        del self._open[depth:]
        self._update()

    def handle(self, word: str, line: int, operands: str) -> None:
        """Acts on one of `CONDITIONAL_DIRECTIVES`.

        Args:
            word: the directive, with its dot.
            line: its line number, for the note where a condition cannot be evaluated.
            operands: its operands, without comments.
        """
        if word not in (".else", ".elseif", ".endif"):
            holds = self.active and self._holds(word, line, operands)
            self._open.append(_Condition(holds, holds or not self.active))
        elif self._open:
            condition = self._open.pop()
            self._update()
            if word != ".endif":
                holds = (
                    self.active
                    and not condition.decided
                    and (word == ".else" or self._holds(word, line, operands))
                )
                self._open.append(_Condition(holds, condition.decided or holds))
        self._update()

    def _update(self) -> None:
        self.active = not self._open or self._open[-1].active

    def _holds(self, word: str, line: int, operands: str) -> bool:
        """Whether a condition is true; one that cannot be evaluated is noted and false."""
        if word in _COMPARISONS:
            value = self._symbols.evaluate(operands)
            if value is None:
                self._omissions.add(
                    "condition",
                    line,
                    f"the condition on line {line} cannot be evaluated: its code is left out",
                )
                return False
            return _COMPARISONS[word](value)
        if word in (".ifdef", ".ifndef", ".ifnotdef"):
            return (operands in self._symbols) == (word == ".ifdef")
        if word in (".ifb", ".ifnb"):
            return (not operands) == (word == ".ifb")
        left, _, right = operands.partition(",")
        return (left.strip() == right.strip()) == (word in (".ifc", ".ifeqs"))
