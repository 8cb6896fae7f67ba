"""Integer expressions of AMDGPU assembly: `.set` values, `.amdhsa_*` operands, resource comments.

The grammar is that of LLVM's assembler with GNU precedence (`|`, `^` and `&` bind tighter than
`+`, comparisons give -1 for true, `>>` is logical, everything is 64 bits wide), plus the calls of
`AMDGPUMCExpr` that LLVM >= 20 prints where a figure depends on functions it has not compiled yet.
Nothing is ever handed to Python's own evaluator.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from .target import Target

_TOKEN = re.compile(
    r"\s*(?:"
    r"(?P<number>0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)(?![\w.$@])"
    r'|(?P<name>[A-Za-z_.$][\w.$@]*|"[^"\n]*")'
    r"|(?P<op>\|\||&&|<<|>>|==|!=|<=|>=|[-+*/%&|^~!<>(),])"
    r")"
)
# No figure of an assembly file needs more; what is longer comes from a damaged file.
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
    """Turns an expression into postfix steps, or gives None if it is not one."""
    if len(text) > _MAX_TEXT:
        return None
    out: list[Item] = []
    # Pending operators: (symbol, precedence); "(" has precedence 0, calls keep name and count.
    stack: list[tuple[str, int]] = []
    calls: list[tuple[str, int] | None] = []
    pos, end = 0, len(text.rstrip())
    operand_next = True
    while pos < end:
        match = _TOKEN.match(text, pos)
        if match is None:
            return None
        pos = match.end()
        number, name, op = match.groups()
        if number is not None:
            if not operand_next or len(number) > _MAX_DIGITS:
                return None
            value = _number(number)
            if value is None:
                return None
            out.append(("n", value, 0))
            operand_next = False
        elif name is not None:
            if not operand_next:
                return None
            if text.startswith("(", pos):
                pos += 1
                stack.append(("(", 0))
                calls.append((name, 1))
            else:
                out.append(("s", name.strip('"'), 0))
                operand_next = False
        elif op == "(":
            if not operand_next:
                return None
            stack.append(("(", 0))
            calls.append(None)
        elif operand_next:
            if op not in _UNARY:
                return None
            stack.append(("u" + op, _UNARY_PRECEDENCE))
        elif op == ")" or op == ",":
            while stack and stack[-1][0] != "(":
                _emit(out, stack.pop()[0])
            if not stack:
                return None
            call = calls[-1]
            if op == ")":
                stack.pop()
                calls.pop()
                if call is not None:
                    out.append(("c", call[0], call[1]))
            else:
                if call is None:
                    return None
                calls[-1] = (call[0], call[1] + 1)
                operand_next = True
        else:
            precedence = _PRECEDENCE.get(op)
            if precedence is None:
                return None
            while stack and stack[-1][1] >= precedence:
                _emit(out, stack.pop()[0])
            stack.append((op, precedence))
            operand_next = True
    if operand_next or calls:
        return None
    while stack:
        _emit(out, stack.pop()[0])
    return tuple(out)


def _emit(out: list[Item], symbol: str) -> None:
    out.append(("u", symbol[1:], 1) if len(symbol) == 2 and symbol[0] == "u" else ("b", symbol, 2))


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
    return run(items, {}, Target.unknown())


def run(items: Sequence[Item], values: Mapping[str, int | None], target: Target) -> int | None:
    """Evaluates compiled steps. A symbol that `values` lacks or does not know makes it None."""
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
            result = _call(str(token), arguments, target)
        if result is None:
            return None
        stack.append(_wrap(result))
    return stack[0] if len(stack) == 1 else None


# --------------------------------------------------------------------------- AMDGPUMCExpr


def align_to(value: int, granule: int) -> int | None:
    """`value` rounded up to a multiple of `granule`."""
    return -(-value // granule) * granule if granule > 0 else None


def _call(name: str, arguments: Sequence[int], target: Target) -> int | None:
    function = _CALLS.get(name)
    return None if function is None else function(arguments, target)


def _align(arguments: Sequence[int], target: Target) -> int | None:
    return align_to(*arguments) if len(arguments) == 2 else None


def _or(arguments: Sequence[int], target: Target) -> int | None:
    result = 0
    for value in arguments:
        result |= value
    return result


def _total_vgprs(arguments: Sequence[int], target: Target) -> int | None:
    # AMDGPU::getTotalNumVGPRs: AGPRs start at a multiple of 4 after the VGPRs in a unified file.
    if len(arguments) != 2:
        return None
    agprs, vgprs = arguments
    if agprs == 0 or target.unified_registers is False:
        return max(agprs, vgprs)
    if target.unified_registers is None:
        return None
    return -(-vgprs // 4) * 4 + agprs


def _extra_sgprs(arguments: Sequence[int], target: Target) -> int | None:
    # AMDGPU::IsaInfo::getNumExtraSGPRs: VCC, then flat scratch, XNACK and VCC share the top six.
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


def _waves_by_vgprs(vgprs: int, granule: int, total: int, most: int) -> int | None:
    # IsaInfo::getNumWavesPerEUWithNumVGPRs
    if vgprs < granule:
        return most
    rounded = align_to(vgprs, granule)
    return None if not rounded else min(max(total // rounded, 1), most)


# IsaInfo::getOccupancyWithNumSGPRs of LLVM <= 22: (largest SGPR count, waves per EU), else `last`.
_SGPR_STEPS_VI = ((80, 10), (88, 9), (100, 8))
_SGPR_STEPS_SI = ((48, 10), (56, 9), (64, 8), (72, 7), (80, 6))
_GENERATION_VI, _GENERATION_GFX10 = 7, 9


def _waves_by_sgprs(sgprs: int, most: int, generation: int) -> int:
    if generation >= _GENERATION_GFX10:
        return most
    recent = generation >= _GENERATION_VI
    steps, last = (_SGPR_STEPS_VI, 7) if recent else (_SGPR_STEPS_SI, 5)
    return next((waves for limit, waves in steps if sgprs <= limit), last)


def _occupancy(arguments: Sequence[int], target: Target) -> int | None:
    by_sgprs: int | None
    if len(arguments) == 7:  # LLVM 20 to 22
        most, granule, total, generation, waves, sgprs, vgprs = arguments
        by_sgprs = _waves_by_sgprs(sgprs, most, generation) if sgprs else None
    elif len(arguments) == 9:  # the LLVM in Triton 3.9: SGPR file size, granule and trap reserve
        most, granule, total, waves, sgpr_total, sgpr_granule, reserve, sgprs, vgprs = arguments
        rounded = align_to(sgprs, sgpr_granule)
        if rounded is None or rounded + reserve <= 0:
            return None
        by_sgprs = max(1, min(sgpr_total // (rounded + reserve), most)) if sgprs else None
    else:
        return None
    if by_sgprs is not None:
        waves = min(waves, by_sgprs)
    if vgprs:
        by_vgprs = _waves_by_vgprs(vgprs, granule, total, most)
        if by_vgprs is None:
            return None
        waves = min(waves, by_vgprs)
    return waves


_CALLS: Mapping[str, Callable[[Sequence[int], Target], int | None]] = MappingProxyType(
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
