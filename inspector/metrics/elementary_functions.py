"""Exponentials, logarithms and powers of float32 beyond the instruction that does the work.

`v_exp` and `v_log` are to the base of 2, exact to about a last bit, and flush denormal numbers.
LLVM writes around them (AMDGPULegalizerInfo, `legalizeFExp`, `legalizeFlogCommon` and others):

    expf    the product with log2(e) in two parts, split into a whole and a fraction, `v_ldexp` by
            the whole, and selections for overflow and underflow: 12 instructions
    exp2f   a comparison, two selections, a sum and `v_ldexp`, for denormal results: 5
    logf    the same for denormal arguments, and the product with ln(2) in two parts: 11

OCML's powf takes about 150: x is split by `v_frexp`, log(x) computed in two floats, and their
product with y goes to an exponential; then the special cases are selected. Counted is what lies
between the split and the result, about 120, so at least so many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ..model import Function, Instruction
from .block_values import Expansions, Operation, block_operations, block_ranges

_EXP: Final = re.compile(r"v_exp_f32$")
_LOG: Final = re.compile(r"v_log_f32$")
_LDEXP: Final = re.compile(r"v_ldexp_f32$")
_LDEXP_OF_64: Final = re.compile(r"v_ldexp_f64$")
_SCALE: Final = re.compile(r"v_(ldexp|mul)_f32$")
_SELECT: Final = re.compile(r"v_cndmask_b32$")
_COMPARE: Final = re.compile(r"v_cmpx?_n?(lt|gt|le|ge)_f32$")
_WHOLE_TO_INTEGER: Final = re.compile(r"v_cvt_i32_f(32|64)$")
_WHOLE: Final = re.compile(r"v_rndne_f(32|64)$")
_PRODUCT: Final = re.compile(r"v_(pk_)?mul_f32$")
_SUM: Final = re.compile(r"v_(pk_)?(add|sub|subrev)_f32$")
_FUSED: Final = re.compile(r"v_(pk_)?(fma|fmac|fmamk|fmaak|mad|mac|madmk)_f32$")
_ARITHMETIC: Final = re.compile(
    r"v_(pk_)?(add|sub|subrev|mul|fma|fmac|fmamk|fmaak|mad|mac|madmk)_f32$|v_rndne_f32$|v_cvt_i32_f32$"
)
_MANTISSA: Final = re.compile(r"v_frexp_(mant|exp_i32)_f(32|64)$")
_POLYNOMIAL: Final = 4
"""Multiply-adds in a row that make a polynomial, as library functions have."""
_SPECIAL_CASES: Final = re.compile(r"v_(cndmask_b32|bfi_b32|(fma|fmac|cmp_class)_f(32|64))$")
_SQUARE_ROOT: Final = re.compile(r"v_(s_)?sqrt_f32$")
_NEIGHBOUR: Final = re.compile(r"v_add(_nc)?(_co)?_u32$")
_CLASS: Final = re.compile(r"v_cmpx?_class_f32$")
_SHORT_SQUARE_ROOT: Final = 5
"""Vector instructions beside the `v_sqrt` of an estimate that scales denormal arguments."""
_SHORT_POWER: Final = 12
"""Vector instructions of exp2(y * log2(x)), with care for denormal numbers."""
_SHORT_POWER_OF_64_BITS: Final = 90
"""The same in float64, where both are sequences of OCML."""


def exponentials_and_logarithms(function: Function, indices: Sequence[int]) -> Expansions:
    """Those of a region that are more than a product and an instruction.

    Those of powers are left to `powers`; erff's has no shorter form.
    """
    steps: set[int] = set()
    results: list[Instruction] = []
    exponentials = logarithms = products = 0
    has_mantissa: dict[int, bool] = {}  # most blocks are spared the search for powers
    for start, code, operation in _operations(function, indices, ("v_exp_f32", "v_log_f32")):
        beside: set[int] = set()
        if start not in has_mantissa:
            has_mantissa[start] = any(inst.op.name.startswith("v_frexp_mant") for inst in code)
        if _EXP.match(operation.name) and not (has_mantissa[start] and _is_power(operation)):
            beside = _around_natural_exponential(operation)
            products += bool(beside)
            beside = beside or _around_power_of_two(operation)
            exponentials += bool(beside)
        elif _LOG.match(operation.name):
            beside = _around_logarithm(operation)
            products += bool(beside)
            logarithms += bool(beside)
        if beside:
            steps |= beside
            results.append(code[operation.index - start])
    counts = {"exponentials": exponentials, "logarithms": logarithms}
    return Expansions(results, steps, max(len(steps) - products, 0), counts)


def powers(function: Function, indices: Sequence[int]) -> Expansions:
    """The powers of a region; `double` counts those of float64.

    An exponential of what was computed from a power is none if it has no mantissa of its own. (Two
    powers side by side can share theirs, where packed instructions compute both.)
    """
    steps: set[int] = set()
    results: list[Instruction] = []
    double = 0
    ends: dict[int, Operation] = {}  # by identity
    split: dict[int, Operation] = {}
    names = ("v_frexp_mant_f32", "v_frexp_mant_f64")
    for start, code, operation in _operations(function, indices, names):
        of_64_bits = bool(_LDEXP_OF_64.match(operation.name)) and _is_by_whole(operation)
        if not of_64_bits and not _EXP.match(operation.name):
            continue
        mantissas = _mantissas(operation)
        new = [mantissa for mantissa in mantissas if id(mantissa) not in split]
        if not mantissas or (not new and ends.keys() & _ancestors(operation).keys()):
            continue
        scaled = operation if of_64_bits else _scaled_by_whole(operation)[0]
        steps |= _power(scaled or operation, new or mantissas)
        results.append(code[operation.index - start])
        ends[id(operation)] = operation
        split |= {id(mantissa): mantissa for mantissa in new}
        double += of_64_bits
    shorter = _SHORT_POWER * (len(results) - double) + _SHORT_POWER_OF_64_BITS * double
    counts = {"count": len(results), "double": double}
    return Expansions(results, steps, max(len(steps) - shorter, 0), counts)


def _operations(
    function: Function, indices: Sequence[int], names: tuple[str, ...]
) -> Iterator[tuple[int, Sequence[Instruction], Operation]]:
    """The operations of blocks that have an instruction of such a name."""
    for code in block_ranges(function, indices):
        if any(inst.op.name.startswith(names) for inst in code):
            for operation in block_operations(function, code):
                yield code[0].index, code, operation


def _indices(parts: Iterable[Operation | None]) -> set[int]:
    return {part.index for part in parts if part is not None}


def _around_natural_exponential(exponential: Operation) -> set[int]:
    """What stands around the `v_exp` of an expf: a fraction goes in, the whole part is put back."""
    scaled, to_integer = _scaled_by_whole(exponential)
    whole = to_integer.maker(_WHOLE) if to_integer is not None else None
    product = whole.makers[0] if whole is not None else None
    if scaled is None or product is None or not _PRODUCT.match(product.name):
        return set()
    if any(_is_polynomial(maker) or _is_in_two_floats(maker) for maker in product.makers):
        return set()
    argument = {id(maker) for maker in product.makers if maker is not None}
    parts = _makers_of(scaled, argument | {id(exponential)}, lambda name: _ARITHMETIC.match(name))
    parts |= _makers_of(exponential, argument, lambda name: _ARITHMETIC.match(name))
    parts.pop(id(exponential), None)
    return _indices(parts.values()) | _indices(_range_selections(scaled))


def _scaled_by_whole(exponential: Operation) -> tuple[Operation | None, Operation | None]:
    """The `v_ldexp` of an exponential's result by a whole number, and the number's conversion."""
    for scaled in exponential.users_named(_LDEXP):
        to_integer = scaled.makers[1]
        if to_integer is not None and _WHOLE_TO_INTEGER.match(to_integer.name):
            return scaled, to_integer
    return None, None


def _makers_of(
    result: Operation, stop: set[int], accepts: Callable[[str], object]
) -> dict[int, Operation]:
    """An operation and those that made its operands, down to others and to `stop`."""
    parts = {id(result): result}
    pending = [*result.makers]
    while pending:
        part = pending.pop()
        if part is None or id(part) in parts or id(part) in stop or not accepts(part.name):
            continue
        parts[id(part)] = part
        pending += part.makers
    return parts


def _range_selections(scaled: Operation) -> Iterator[Operation]:
    """The selections of 0 and infinity in place of a result, with their comparisons."""
    result = scaled
    for _ in range(2):
        select = next(result.users_named(_SELECT), None)
        if select is None or (comparison := select.makers[-1]) is None:
            return
        if not _COMPARE.match(comparison.name):
            return
        yield select
        yield comparison
        result = select


def _is_polynomial(value: Operation | None) -> bool:
    """Whether a value is a polynomial, as the argument of erff's exponential is."""
    degree = 0
    while value is not None and _FUSED.match(value.name):
        degree += 1
        value = value.maker(_FUSED)
    return degree >= _POLYNOMIAL


def _is_in_two_floats(value: Operation | None) -> bool:
    """Whether a value comes of a product and its remainder, whose sum's remainder is computed too.

    So pow computes y * log(x), also where x is a constant and leaves no mantissa to be split.
    """
    if value is None:
        return False
    for total in _ancestors(value).values():
        if not _SUM.match(total.name):
            continue
        for product in total.makers:
            remainder = next((other for other in total.makers if other is not product), None)
            if product is None or remainder is None or not _PRODUCT.match(product.name):
                continue
            rest = _makers_of(remainder, set(), _FUSED.match)
            if not any(product in part.makers for part in rest.values()):
                continue
            if any(product in part.makers for part in total.users_named(_SUM)):
                return True
    return False


def _around_power_of_two(exponential: Operation) -> set[int]:
    """What stands around the `v_exp` of an exp2f for denormal results."""
    shifted = exponential.makers[0]
    if shifted is None or not (_SUM.match(shifted.name) or _FUSED.match(shifted.name)):
        return set()
    shift = shifted.maker(_SELECT)
    comparison = shift.makers[-1] if shift is not None else None
    for scaled in exponential.users_named(_SCALE):
        factor = scaled.maker(_SELECT)
        if factor is not None and comparison is not None and factor.makers[-1] is comparison:
            added = shifted if _SUM.match(shifted.name) else None
            return _indices((shift, comparison, factor, scaled, added))
    return set()


def _around_logarithm(logarithm: Operation) -> set[int]:
    """What stands around the `v_log` of a logf: its product with ln(2) in two parts."""
    for product in logarithm.users_named(_PRODUCT):
        rest = next((u for u in product.users_named(_FUSED) if logarithm in u.makers), None)
        if rest is None:
            continue
        parts: list[Operation | None] = [product, rest, *rest.users_named(_FUSED)]
        corrections = list(rest.users_named(_FUSED)) or [rest]
        totals = [t for part in corrections for t in part.users_named(_SUM) if product in t.makers]
        parts += totals
        for total in (*corrections, *totals):
            for select in total.users_named(_SELECT):
                if logarithm in select.makers:
                    parts += (select, select.makers[-1])
                    parts += _denormal_argument(logarithm, select)
        return _indices(parts)
    return set()


def _denormal_argument(logarithm: Operation, result: Operation) -> Iterator[Operation | None]:
    """What scales a denormal argument, and takes the scale's logarithm off the result."""
    scaled = logarithm.makers[0]
    factor = scaled.maker(_SELECT) if scaled is not None and _SCALE.match(scaled.name) else None
    if factor is None:
        return
    comparison = factor.makers[-1]
    yield from (scaled, factor, comparison)
    for difference in result.users_named(_SUM):
        for offset in difference.makers:
            if offset is not None and offset is not result and offset.makers[-1:] == (comparison,):
                yield from (difference, offset)


def _is_by_whole(scaled: Operation) -> bool:
    """Whether a `v_ldexp` is by a rounded number: the end of an exponential."""
    to_integer = scaled.makers[1]
    return (
        to_integer is not None
        and bool(_WHOLE_TO_INTEGER.match(to_integer.name))
        and to_integer.maker(_WHOLE) is not None
    )


def _is_power(exponential: Operation) -> bool:
    """Whether an exponential's argument comes from the mantissa of a number."""
    return bool(_mantissas(exponential))


def _mantissas(exponential: Operation) -> list[Operation]:
    """The splits of numbers that an exponential's argument comes from."""
    return [part for part in _ancestors(exponential).values() if _MANTISSA.match(part.name)]


def _ancestors(operation: Operation) -> dict[int, Operation]:
    return _makers_of(operation, set(), lambda name: True)


def _power(result: Operation, mantissas: Sequence[Operation]) -> set[int]:
    """The instructions between the mantissa and the last selection of a power's special cases."""
    ancestors = _ancestors(result)
    depends = {id(part): part for part in mantissas}
    pending = [*mantissas]
    while pending:
        for user in pending.pop().users:
            if id(user) in ancestors and id(user) not in depends:
                depends[id(user)] = user
                pending.append(user)
    pending = [result]
    while pending:
        for user in pending.pop().users:
            if id(user) not in depends and _SPECIAL_CASES.match(user.name):
                depends[id(user)] = user
                pending.append(user)
                condition = user.makers[-1] if _SELECT.match(user.name) else None
                if condition is not None:
                    depends[id(condition)] = condition
    return _indices(depends.values())


def square_roots(function: Function, indices: Sequence[int]) -> Expansions:
    """The square roots of float32 in a region that are exact to the last bit.

    LLVM compares the argument with the squares of the estimate's neighbours (`v_sqrt`, then one
    float less and one more; AMDGPULegalizerInfo, `legalizeFSQRTF32`), and scales denormal
    arguments, which an estimate that may flush them does not need.
    """
    steps: set[int] = set()
    results: list[Instruction] = []
    for start, code, operation in _operations(function, indices, ("v_sqrt_f32",)):
        if not _SQUARE_ROOT.match(operation.name):
            continue
        around = _around_square_root(operation)
        if around:
            steps |= around
            results.append(code[operation.index - start])
    saved = max(len(steps) - _SHORT_SQUARE_ROOT * len(results), 0)
    return Expansions(results, steps, saved, {"count": len(results)})


def _around_square_root(root: Operation) -> set[int]:
    """What stands around the `v_sqrt` of an exact square root; none where it is an estimate."""
    neighbours = [user for user in root.users_named(_NEIGHBOUR) if {"-1", "1"} & {*user.sources}]
    if len(neighbours) < len(("less", "more")):
        return set()
    parts: list[Operation | None] = [*neighbours]
    selected: dict[int, Operation] = {}
    for neighbour in neighbours:
        for rest in neighbour.users_named(_FUSED):
            for comparison in rest.users_named(_COMPARE):
                parts += (rest, comparison)
                for select in comparison.users_named(_SELECT):
                    selected[id(select)] = select
    parts += selected.values()
    scaled_root = root
    for select in selected.values():
        for product in select.users_named(_SCALE):
            for last in product.users_named(_SELECT):
                parts += (product, last)
                scaled_root = last
    argument = next(iter(root.makers), None)
    if argument is not None and _SELECT.match(argument.name) and scaled_root is not root:
        parts += (argument, argument.maker(_SCALE), *argument.makers[-1:])
    for last in scaled_root.users_named(_SELECT):
        special = last.makers[-1]
        if special is not None and _CLASS.match(special.name):
            parts += (last, special)
    return _indices(parts)
