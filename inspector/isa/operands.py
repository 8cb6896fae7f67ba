"""Numbers for the symbols that hand-written code has in its operands."""

from __future__ import annotations

import re

from kinspect.inspector.isa.symbols import SymbolTable

# A label, a relocated symbol or a modifier's name is no value.
_NAME = re.compile(r"(?<![\w.$@:])[A-Za-z_.$][\w.$]*(?![\w.$]*[@(:])")
_RANGE = re.compile(r"\b([vsa]|acc|ttmp)\[([^\]:]+)(?::([^\]]+))?\]")


def substitute(operands: str, symbols: SymbolTable, *, names: bool) -> str:
    """Evaluates what register ranges hold: `v[vgprC+0:vgprC+3]` becomes `v[4:7]`.

    Args:
        operands: the operand text.
        symbols: the symbols as set so far.
        names: whether symbols outside of brackets are replaced too.

    Returns:
        The operands; what has no known value is left as it stands.
    """

    def register(match: re.Match[str]) -> str:
        kind, first, last = match.groups()
        low = symbols.evaluate(first)
        high = low if last is None else symbols.evaluate(last)
        if low is None or high is None:
            return match[0]
        return f"{kind}{low}" if last is None else f"{kind}[{low}:{high}]"

    def name(match: re.Match[str]) -> str:
        if match[0] not in symbols:
            return match[0]
        value = symbols.value(match[0])
        return match[0] if value is None else str(value)

    if "[" in operands:
        operands = _RANGE.sub(register, operands)
    return _NAME.sub(name, operands) if names else operands
