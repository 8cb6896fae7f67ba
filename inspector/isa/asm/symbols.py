"""The assembler's symbols: `.set`, `.equ`, `name = value`."""

from __future__ import annotations

from .expr import Item, compile_expression, parse_int, run, symbols_in
from .target import AsmTarget


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
