"""Operands as the assembler understands them: expressions evaluated, commas between all of them."""

from __future__ import annotations

import re

from .symbols import SymbolTable

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
