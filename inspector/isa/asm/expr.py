"""Integer expressions of AMDGPU assembly: `.set` values, `.amdhsa_*` operands, resource comments.

The grammar is that of LLVM's assembler with GNU precedence (`|`, `^` and `&` bind tighter than `+`,
comparisons give -1 for true, `>>` is logical, everything is 64 bits wide). Nothing is passed to
Python's own evaluator.

It has the functions of LLVM's `AMDGPUMCExpr`: LLVM >= 20 prints calls where a figure of a kernel
depends on functions that it has not compiled yet, such as `totalnumvgprs(f.num_agpr, max(32,
g.num_vgpr))`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from .target import AsmTarget

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)(?![\w.$@])"
    r'|(?P<name>[A-Za-z_.$][\w.$@]*|"[^"\n]*")'
    r"|(?P<op>\|\||&&|<<|>>|==|!=|<=|>=|[-+*/%&|^~!<>(),])"
    r")"
)
# No figure of an assembly file needs more; longer texts come from damaged files.
_MAX_TEXT = 65_536
_MAX_DIGITS = 64
_MASK = (1 << 64) - 1

# GNU precedence as in LLVM's AsmParser.cpp (getGNUBinOpPrecedence); higher binds tighter.
_PRECEDENCE: Mapping[str, int] = MappingProxyType(
    {"||": 1, "&&": 2}
    | dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), 3)
    | dict.fromkeys(("+", "-"), 4)
    | dict.fromkeys(("|", "^", "&"), 5)
    | dict.fromkeys(("*", "/", "%", "<<", ">>"), 6)
)
_UNARY = frozenset("+-~!")
_UNARY_PRECEDENCE = 7

Item = tuple[str, int | str, int]
"""One step of a compiled expression, in postfix order: (kind, operand, argument count). Kinds are
`n` number, `s` symbol, `u` unary operator, `b` binary operator, `c` call."""


def symbols_in(items: Sequence[Item]) -> list[str]:
    """The names of the symbols in a compiled expression, in its order."""
    return [str(operand) for kind, operand, _ in items if kind == "s"]


def _wrap(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


def _truth(value: bool) -> int:
    return -1 if value else 0


def _divide(a: int, b: int) -> int | None:
    if b == 0:
        return None
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _modulo(a: int, b: int) -> int | None:
    quotient = _divide(a, b)
    return None if quotient is None else a - quotient * b


_BINARY: Mapping[str, Callable[[int, int], int | None]] = MappingProxyType(
    {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "/": _divide,
        "%": _modulo,
        "&": lambda a, b: a & b,
        "|": lambda a, b: a | b,
        "^": lambda a, b: a ^ b,
        "<<": lambda a, b: a << b if 0 <= b < 64 else None,
        ">>": lambda a, b: (a & _MASK) >> b if 0 <= b < 64 else None,
        "==": lambda a, b: _truth(a == b),
        "!=": lambda a, b: _truth(a != b),
        "<": lambda a, b: _truth(a < b),
        ">": lambda a, b: _truth(a > b),
        "<=": lambda a, b: _truth(a <= b),
        ">=": lambda a, b: _truth(a >= b),
        # Unlike comparisons, the logical connectives give 1 for true.
        "&&": lambda a, b: int(bool(a) and bool(b)),
        "||": lambda a, b: int(bool(a) or bool(b)),
    }
)
_UNARY_OPS: Mapping[str, Callable[[int], int]] = MappingProxyType(
    {"+": lambda a: a, "-": lambda a: -a, "~": lambda a: ~a, "!": lambda a: int(not a)}
)


def compile_expression(text: str) -> tuple[Item, ...] | None:
    """Compiles an expression to steps in postfix order; None if the text is no expression."""
    if len(text) > _MAX_TEXT:
        return None
    compiler = _Compiler()
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        position = match.end()
        number, name, op = match.groups()
        if number is not None:
            accepted = compiler.add_number(number)
        elif name is not None:
            is_call = text.startswith("(", position)
            position += is_call
            accepted = compiler.add_name(name, is_call)
        else:
            accepted = compiler.add_operator(op)
        if not accepted:
            return None
    return compiler.finish()


class _Compiler:
    """Turns tokens into postfix steps by the shunting-yard algorithm.

    Each `add_` method returns False where the token cannot stand at its position.
    """

    def __init__(self) -> None:
        self._steps: list[Item] = []
        # Pending operators: (symbol, precedence); unary ones begin with "u", "(" has precedence 0.
        self._operators: list[tuple[str, int]] = []
        # Open parentheses: (name, number of arguments) of a call, None of a mere grouping.
        self._calls: list[tuple[str, int] | None] = []
        self._operand_next = True

    def add_number(self, text: str) -> bool:
        """Adds a literal."""
        value = _number(text) if self._operand_next and len(text) <= _MAX_DIGITS else None
        if value is None:
            return False
        self._steps.append(("n", value, 0))
        self._operand_next = False
        return True

    def add_name(self, name: str, is_call: bool) -> bool:
        """Adds a symbol, or opens the call of a function."""
        if not self._operand_next:
            return False
        if is_call:
            self._operators.append(("(", 0))
            self._calls.append((name, 1))
        else:
            self._steps.append(("s", name.strip('"'), 0))
            self._operand_next = False
        return True

    def add_operator(self, op: str) -> bool:
        """Adds an operator, a parenthesis or a comma."""
        if op == "(":
            self._operators.append(("(", 0))
            self._calls.append(None)
            return self._operand_next
        if self._operand_next:
            self._operators.append(("u" + op, _UNARY_PRECEDENCE))
            return op in _UNARY
        if op in (")", ","):
            return self._end_argument(op)
        precedence = _PRECEDENCE.get(op)
        if precedence is None:
            return False
        self._emit_operators(precedence)
        self._operators.append((op, precedence))
        self._operand_next = True
        return True

    def finish(self) -> tuple[Item, ...] | None:
        """The steps; None where an operand or a parenthesis is missing."""
        if self._operand_next or self._calls:
            return None
        self._emit_operators(0)
        return tuple(self._steps)

    def _end_argument(self, op: str) -> bool:
        """Ends an argument or a parenthesis, at a comma or ")"."""
        self._emit_operators(1)
        if not self._calls:
            return False
        call = self._calls[-1]
        if op == ")":
            self._operators.pop()
            self._calls.pop()
            if call is not None:
                self._steps.append(("c", call[0], call[1]))
        elif call is None:
            return False
        else:
            self._calls[-1] = (call[0], call[1] + 1)
            self._operand_next = True
        return True

    def _emit_operators(self, precedence: int) -> None:
        """Moves the pending operators of at least this precedence to the steps."""
        while self._operators and self._operators[-1][1] >= precedence:
            symbol = self._operators.pop()[0]
            is_unary = len(symbol) == 2 and symbol[0] == "u"
            self._steps.append(("u", symbol[1:], 1) if is_unary else ("b", symbol, 2))


def _number(text: str) -> int | None:
    if text[:2] in ("0x", "0X"):
        return _wrap(int(text, 16))
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    try:
        return _wrap(int(text, 8 if len(text) > 1 and text[0] == "0" else 10))
    except ValueError:  # an octal number with an 8 or 9 in it
        return None


def parse_int(text: str) -> int | None:
    """The value of one integer literal (decimal, `0x`, `0b`, leading-zero octal), else None."""
    text = text.strip()
    if text.isdecimal() and text.isascii() and len(text) < 19 and (text[0] != "0" or text == "0"):
        return int(text)
    items = compile_expression(text) if len(text) <= _MAX_DIGITS + 1 else None
    if items is None or any(kind not in "nu" for kind, _, _ in items):
        return None
    return run(items, {}, AsmTarget.unknown())


def run(items: Sequence[Item], values: Mapping[str, int | None], target: AsmTarget) -> int | None:
    """Evaluates compiled steps; None where a symbol is missing from `values` or unknown."""
    stack: list[int] = []
    for kind, token, count in items:
        result: int | None
        if kind == "n":
            result = int(token)
        elif kind == "s":
            result = values.get(str(token))
        elif kind == "u":
            result = _UNARY_OPS[str(token)](stack.pop())
        elif kind == "b":
            right = stack.pop()
            result = _BINARY[str(token)](stack.pop(), right)
        else:
            arguments = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            result = call(str(token), arguments, target)
        if result is None:
            return None
        stack.append(_wrap(result))
    return stack[0] if len(stack) == 1 else None


def _align_to(value: int, granule: int) -> int | None:
    """`value` rounded up to a multiple of `granule`."""
    return -(-value // granule) * granule if granule > 0 else None


def call(name: str, arguments: Sequence[int], target: AsmTarget) -> int | None:
    """The value of a call; None for an unknown function and for arguments that make no sense."""
    function = _CALLS.get(name)
    return None if function is None else function(arguments, target)


def _align(arguments: Sequence[int], target: AsmTarget) -> int | None:
    return _align_to(*arguments) if len(arguments) == 2 else None


def _or(arguments: Sequence[int], target: AsmTarget) -> int | None:
    result = 0
    for value in arguments:
        result |= value
    return result


def _total_vgprs(arguments: Sequence[int], target: AsmTarget) -> int | None:
    """Registers of both kinds in the file (AMDGPU::getTotalNumVGPRs)."""
    if len(arguments) != 2:
        return None
    agprs, vgprs = arguments
    if agprs == 0 or target.unified_registers is False:
        return max(agprs, vgprs)
    if target.unified_registers is None:
        return None
    return -(-vgprs // 4) * 4 + agprs  # AGPRs start at a multiple of 4 in a unified file


def _extra_sgprs(arguments: Sequence[int], target: AsmTarget) -> int | None:
    """SGPRs for VCC, flat scratch and XNACK (AMDGPU::IsaInfo::getNumExtraSGPRs)."""
    if len(arguments) != 3 or target.major is None:
        return None
    vcc, flat_scratch, xnack = arguments
    extra = 2 if vcc else 0
    if target.major >= 10:
        return extra
    if target.major < 8:
        return 4 if flat_scratch else extra
    if xnack:
        extra = 4
    return 6 if flat_scratch or target.architected_flat_scratch else extra


def _waves_by_vgprs(vgprs: int, granule: int, total: int, max_waves: int) -> int | None:
    """Waves per EU that the VGPRs allow (IsaInfo::getNumWavesPerEUWithNumVGPRs)."""
    if vgprs < granule:
        return max_waves
    rounded = _align_to(vgprs, granule)
    return None if not rounded else min(max(total // rounded, 1), max_waves)


# IsaInfo::getOccupancyWithNumSGPRs of LLVM <= 22: (largest SGPR count, waves per EU).
_SGPR_STEPS_VI = ((80, 10), (88, 9), (100, 8))
_SGPR_STEPS_SI = ((48, 10), (56, 9), (64, 8), (72, 7), (80, 6))
_GENERATION_VI, _GENERATION_GFX10 = 7, 9


def _waves_by_sgprs(sgprs: int, max_waves: int, generation: int) -> int:
    """Waves per EU that the SGPRs allow; from gfx10 on they limit nothing."""
    if generation >= _GENERATION_GFX10:
        return max_waves
    recent = generation >= _GENERATION_VI
    steps, fewest = (_SGPR_STEPS_VI, 7) if recent else (_SGPR_STEPS_SI, 5)
    return next((waves for limit, waves in steps if sgprs <= limit), fewest)


def _occupancy(arguments: Sequence[int], target: AsmTarget) -> int | None:
    """Waves per EU by the arguments that LLVM 20 to 22, or the LLVM in Triton 3.9, prints."""
    by_sgprs: int | None
    if len(arguments) == 7:  # LLVM 20 to 22
        max_waves, granule, total, generation, waves, sgprs, vgprs = arguments
        by_sgprs = _waves_by_sgprs(sgprs, max_waves, generation) if sgprs else None
    elif len(arguments) == 9:  # the LLVM in Triton 3.9: SGPR file size, granule and trap reserve
        max_waves, granule, total, waves, sgpr_total, sgpr_granule, reserve, sgprs, vgprs = (
            arguments
        )
        rounded = _align_to(sgprs, sgpr_granule)
        if rounded is None or rounded + reserve <= 0:
            return None
        by_sgprs = max(1, min(sgpr_total // (rounded + reserve), max_waves)) if sgprs else None
    else:
        return None
    if by_sgprs is not None:
        waves = min(waves, by_sgprs)
    if vgprs:
        by_vgprs = _waves_by_vgprs(vgprs, granule, total, max_waves)
        if by_vgprs is None:
            return None
        waves = min(waves, by_vgprs)
    return waves


_CALLS: Mapping[str, Callable[[Sequence[int], AsmTarget], int | None]] = MappingProxyType(
    {
        "max": lambda arguments, target: max(arguments),
        "min": lambda arguments, target: min(arguments),
        "or": _or,
        "alignto": _align,
        "totalnumvgprs": _total_vgprs,
        "extrasgprs": _extra_sgprs,
        "occupancy": _occupancy,
    }
)
