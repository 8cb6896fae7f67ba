"""Operands as the assembler understands them: symbols (`.set`, `.equ`, `name = value`) and
expressions evaluated, commas between all of them.
"""

from __future__ import annotations

import re

from .expr import Item, compile_expression, parse_int, run, symbols_in
from .target import AsmTarget

# A label, a relocated symbol or a modifier's name is no value.
_NAME = re.compile(r"(?<![\w.$@:])[A-Za-z_.$][\w.$]*(?![\w.$]*[@(:])")
_RANGE = re.compile(r"\b([vsa]|acc|ttmp)\[([^\]:]+)(?::([^\]]+))?\]")
COMPUTED = re.compile(r"\[(?:[^\]]*[-+*/&|^(<>]|0[xXbB]|[^\]:]*:0[xXbB])")
"""A register whose number is no plain decimal: `v[0x46:0x49]`, `s[4+2]`."""
# Numbers joined by operators, once the symbols are gone: `4*2`, `(1<<4)-1`.
_TERM = r"(?:0[xX][0-9a-fA-F]+|\d+)"
_ARITHMETIC = re.compile(
    rf"(?<![\w.\])]) *(?P<sum>\(*{_TERM}\)*(?:\s*(?:[-+*/&|^]|<<|>>)\s*\(*{_TERM}\)*)+)(?![\w.])"
)
# An operand followed by a blank and another operand: the assembler needs no comma there
# (AMDGPUAsmParser::parseInstruction eats one "if there is one"). Named ones are modifiers.
_OPERAND = (
    r"(?:[-|]*(?:[vsa]|acc|ttmp)(?:\d+(?:\.[lh])?|\[[^\]]*\])\|?"
    r"|-?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d+)?)"
    r"|(?:vcc|exec|flat_scratch)(?:_lo|_hi)?|m0|null|off|scc)"
)
_SEPARATED = re.compile(
    rf"(?<![\w.:\[|(-])({_OPERAND})\s+(?={_OPERAND}(?![\w:(.])|[A-Za-z_.$][\w.$]*@)"
)


def with_commas(operands: str) -> str:
    """The operands with a comma between any two that only blanks separate.

    >>> with_commas("s[24:39] s[0:1] 0x8 glc")
    's[24:39], s[0:1], 0x8 glc'
    """
    return _SEPARATED.sub(r"\1, ", operands)


def substitute(operands: str, symbols: SymbolTable, *, names: bool) -> str:
    """Evaluates the expressions in register ranges: `v[vgprC+0:vgprC+3]` becomes `v[4:7]`.

    `symbols`: the symbols as set so far; `names`: whether symbols outside of brackets are replaced
    too.

    Returns:
        The operands; expressions of unknown value stay as they are.
    """

    def register(match: re.Match[str]) -> str:
        prefix, low_text, high_text = match.groups()
        low = symbols.evaluate(low_text)
        high = low if high_text is None else symbols.evaluate(high_text)
        if low is None or high is None:
            return match[0]
        return f"{prefix}{low}" if high_text is None else f"{prefix}[{low}:{high}]"

    def name(match: re.Match[str]) -> str:
        if match[0] not in symbols:
            return match[0]
        value = symbols.value(match[0])
        return match[0] if value is None else str(value)

    def number(match: re.Match[str]) -> str:
        value = symbols.evaluate(match["sum"])
        return match[0] if value is None else match[0].replace(match["sum"], str(value))

    if "[" in operands:
        operands = _RANGE.sub(register, operands)
    if not names:
        return operands
    return _ARITHMETIC.sub(number, _NAME.sub(name, operands))


class SymbolTable:
    """Symbols and their values, evaluated on demand, so that they may be defined later.

    A symbol whose value is known when it is set keeps that value even if a symbol in it is set anew
    later, as in the assembler; the others are evaluated by the definitions of the moment.

    Attributes:
        target: decides what some functions of expressions yield; set once the text has stated it.
    """

    def __init__(self) -> None:
        self.target = AsmTarget.unknown()
        # Each defined symbol is in one of the two: those whose value was known when they were set,
        # and the expressions of the others, None for a text that is no expression.
        self._numbers: dict[str, int] = {}
        self._pending: dict[str, tuple[Item, ...] | None] = {}
        # Values computed since the last definition, of undefined symbols as well (None).
        self._resolved: dict[str, int | None] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers or name in self._pending

    def define(self, name: str, text: str) -> None:
        """Sets a symbol to an expression; a later definition replaces an earlier one."""
        self._resolved.clear()
        number = parse_int(text)
        items: tuple[Item, ...] | None = None
        if number is None:
            items = compile_expression(text)
            # Only symbols defined so far count; the others are resolved on demand.
            if items is not None and all(s in self._numbers for s in symbols_in(items)):
                number = run(items, self._numbers, self.target)
        if number is None:
            self._numbers.pop(name, None)
            self._pending[name] = items
        else:
            self._pending.pop(name, None)
            self._numbers[name] = number

    def evaluate(self, text: str) -> int | None:
        """The value of an expression; None if the text is none, or has an unknown symbol."""
        number = parse_int(text)
        if number is not None:
            return number
        items = compile_expression(text)
        if items is None:
            return None
        for symbol in symbols_in(items):
            self._resolve(symbol)
        return run(items, self._resolved, self.target)

    def value(self, name: str) -> int | None:
        """The value of a symbol, None if it is unknown or defined by itself."""
        self._resolve(name)
        return self._resolved[name]

    def _resolve(self, symbol: str) -> None:
        """Evaluates a symbol and those it depends on; None for unknown and cyclic ones."""
        # Not recursive: call chains of thousands of device functions occur.
        resolved = self._resolved
        stack = [symbol]
        opened: set[str] = set()
        while stack:
            name = stack[-1]
            if name in resolved:
                stack.pop()
                continue
            items = self._pending.get(name)
            if items is None:
                resolved[name] = self._numbers.get(name)
                continue
            missing = [symbol for symbol in symbols_in(items) if symbol not in resolved]
            if not missing:
                resolved[name] = run(items, resolved, self.target)
            elif name in opened or not opened.isdisjoint(missing):
                resolved[name] = None  # the symbol is part of a cycle
            else:
                opened.add(name)
                stack.extend(missing)
