"""The fate of the source's matrix products: TTIR states them, TTGIR computes them.

The dots of a TTIR text are read without parsing the rest of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from ..base.errors import KinspectError
from ..model import SourceLoc, TtgirModule, TtgirOp, TtgirType
from .attrs import UNKNOWN_TYPE, FileContext
from .lines import LocationLine, Statement, location, statement
from .locs import Alias, LocTable
from .parser import parse_ttgir
from .queries import DOTS, dots
from .result_types import OPERAND_ORDER, result_types
from .statement import read_form

MATRIX_LAYOUTS = frozenset(("amd_mfma", "amd_wmma"))
SCALED_DOT = "tt.dot_scaled"
CONVERSIONS = frozenset(("tt.fp_to_fp", "arith.extf", "arith.truncf"))
"""Operations that make another float type of a tile, element by element."""
_SMALL_BITS = 8
_SMALL_FLOAT = re.compile(r"[a-z]*e(\d)m(\d)")  # e2m1, e4m3: sign, exponent, mantissa
_SIZED = re.compile(r"[a-z]*?(\d+)")  # f16, bf16, i8, f8E4M3FN
# The elements of `tt.dot_scaled`, which MLIR's generic form prints as numbers (ScaleDotElemType).
_SCALED_ELEMENTS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "f16")


class DotFate(Struct, frozen=True):
    """A dot of the source and how it is computed.

    Attributes:
        source_element: the wider element type of its operands in the source: `f8E4M3FN`, `e2m1`.
        computed_element: element type of the operands that are multiplied in the end.
        on_matrix_unit: whether MFMA or WMMA computes it; otherwise the vector unit does.
        sums: whether M or N is 1, so that it is a matrix times a vector, or a sum.
        scaled: whether the source has it as `tt.dot_scaled` (microscaling formats).
    """

    loc: SourceLoc | None
    source_element: str
    computed_element: str
    on_matrix_unit: bool
    sums: bool = False
    scaled: bool = False

    @property
    def widened(self) -> bool:
        """Whether the operands are multiplied in a wider type than the source's."""
        source = element_bits(self.source_element)
        computed = element_bits(self.computed_element)
        return source is not None and computed is not None and computed > source

    @property
    def source_is_small(self) -> bool:
        """Whether the operands have 8 bits or fewer in the source, or an unknown type."""
        return (element_bits(self.source_element) or 0) <= _SMALL_BITS


def fates(source: TtgirModule, lowered: TtgirModule) -> tuple[DotFate, ...]:
    """The dots of TTIR and their fates in TTGIR, one entry for each position in the source.

    A dot that cannot be matched for certain is left out: without positions, or with several kinds
    of dot at one position, unless all dots of the source are of one kind.

    Args:
        source: the TTIR.
        lowered: the TTGIR made from it.
    """
    kinds_by_loc: dict[SourceLoc | None, set[tuple[str, bool]]] = {}
    for op in dots(source):
        dot_kind = (_source_element(op, source), op.name == SCALED_DOT)
        kinds_by_loc.setdefault(op.loc, set()).add(dot_kind)
    all_kinds: set[tuple[str, bool]] = set().union(*kinds_by_loc.values())
    fate_by_key: dict[SourceLoc | int, DotFate] = {}
    for op in dots(lowered):
        kinds = kinds_by_loc.get(op.loc, all_kinds) if op.loc is not None else all_kinds
        if len(kinds) != 1 or op.result_types[0].layout is None:
            continue
        ((element, scaled),) = kinds
        fate = DotFate(
            op.loc,
            element,
            widest(_elements(op)),
            op.result_types[0].layout.kind in MATRIX_LAYOUTS,
            1 in op.result_types[0].shape[-2:],
            scaled,
        )
        key = op.index if op.loc is None else op.loc
        fate_by_key[key] = _worse(fate_by_key.get(key), fate)
    return tuple(fate_by_key.values())


def widened_from(op: TtgirOp, source: TtgirModule) -> tuple[str, str]:
    """The element types of a dot's operands before the conversions right in front of it.

    Args:
        op: a dot of TTIR.
        source: the TTIR.
    """
    conversions = {
        result: conversion
        for conversion in source.ops
        if conversion.name in CONVERSIONS
        for result in conversion.results
    }
    before = list(_elements(op))
    for k, name in enumerate(op.operands[:2]):
        conversion = conversions.get(name)
        if conversion is not None:
            narrow = conversion.operand_types[0].element
            if (element_bits(narrow) or 64) < (element_bits(before[k]) or 0):
                before[k] = narrow
    return before[0], before[1]


def element_bits(element: str) -> int | None:
    """Bits of an element type: `f8E4M3FN` 8, `e2m1` 4, `bf16` 16; None for unknown names."""
    small = _SMALL_FLOAT.fullmatch(element)
    if small is not None:
        return 1 + int(small[1]) + int(small[2])
    sized = _SIZED.match(element)
    return int(sized[1]) if sized is not None else None


def pointee(pointer_type: TtgirType) -> str:
    """The element type that a pointer, or a tensor of pointers, points to."""
    text = pointer_type.element if pointer_type.kind == "tensor" else pointer_type.text
    return text.partition("<")[2].rpartition(">")[0].partition(",")[0] or pointer_type.element


def pointee_bytes(pointer_type: TtgirType) -> int:
    """Bytes of the values that a pointer, or a tensor of pointers, points to; at least 1."""
    bits = element_bits(pointee(pointer_type))
    return max(1, (bits or 8) // 8)


def widest(elements: Iterable[str]) -> str:
    """The widest of some element types, the first of several."""
    return max(elements, key=lambda e: element_bits(e) or 0)


def _worse(previous: DotFate | None, fate: DotFate) -> DotFate:
    """The copy of a dot that is off the matrix unit, else the one in the wider type."""
    if previous is None:
        return fate
    pair = sorted(
        (previous, fate),
        key=lambda f: (not f.on_matrix_unit, element_bits(f.computed_element) or 0),
    )
    return pair[-1]


def _elements(op: TtgirOp) -> tuple[str, str]:
    """The element types of a dot's operands as the operation has them."""
    if op.name == SCALED_DOT:
        stated = [
            op.attributes.get(custom, op.attributes.get(generic))
            for custom, generic in (("lhs", "a_elem_type"), ("rhs", "b_elem_type"))
        ]
        named = [_SCALED_ELEMENTS[s] if isinstance(s, int) else str(s) for s in stated]
        return named[0], named[1]
    return op.operand_types[0].element, op.operand_types[1].element


def _source_element(op: TtgirOp, source: TtgirModule) -> str:
    """The element type of a dot of TTIR in the source.

    Triton's front end converts operands of types that it calls deprecated for a target (fnuz floats
    on gfx950) before the dot. Such a conversion has the dot's own position in the source, column
    included, where one that the user wrote (`x.to(tl.float16)`) has its own.
    """
    if op.name == SCALED_DOT or op.loc is None:
        return widest(_elements(op))
    converted_from = {
        result: conversion.operand_types[0].element
        for conversion in source.ops
        if conversion.name in CONVERSIONS and conversion.loc == op.loc
        for result in conversion.results
    }
    operand_elements = _elements(op)
    return widest(converted_from.get(op.operands[i], operand_elements[i]) for i in (0, 1))


_DOT = "tt.dot"
_STATEMENT = re.compile(
    rf"^[ \t]*%[^=\"\n]* = (?:{'|'.join(map(re.escape, sorted(DOTS | CONVERSIONS)))}) .*$",
    re.MULTILINE,
)
_LOCATION = re.compile(r"^(#\w+) = loc\(.*$", re.MULTILINE)


def read_dots(text: str, name: str) -> TtgirModule:
    """The dots and conversions of a TTIR text, in file order; the full module in odd cases.

    Operand types are those that the operation prints, in printed order; others are unknown.

    Raises:
        KinspectError: as `parse_ttgir`, where the full text is parsed.
    """
    if _DOT not in text:
        return TtgirModule({}, {}, (), ())
    try:
        ops = _ops(text, name)
    except KinspectError:
        ops = None
    return parse_ttgir(text, name) if ops is None else TtgirModule({}, {}, (), ops)


def _ops(text: str, name: str) -> tuple[TtgirOp, ...] | None:
    """The operations; None where a line is not one statement, or its location is not in
    the table.
    """
    statements: list[tuple[Statement, int]] = []
    line, counted = 1, 0
    for match in _STATEMENT.finditer(text):
        parsed = statement(match[0])
        if parsed is None or "#" in parsed.form or "!" in parsed.form:
            return None
        line += text.count("\n", counted, match.start())
        counted = match.start()
        statements.append((parsed, line))
    if sum(_DOT in parsed.form for parsed, _ in statements) != text.count(_DOT):
        return None
    location_lines = _location_lines(text, [parsed.loc for parsed, _ in statements])
    if location_lines is None:
        return None
    context, table = FileContext(name), LocTable({}, location_lines)
    return tuple(
        _op(k, parsed, line, context, table) for k, (parsed, line) in enumerate(statements)
    )


def _location_lines(text: str, aliases: list[str]) -> dict[str | None, LocationLine] | None:
    """The lines that define some locations and those that they refer to; None where one
    is missing.
    """
    lines = {match[1]: match[0] for match in _LOCATION.finditer(text)}
    location_lines: dict[str | None, LocationLine] = {}
    work = list(aliases)
    while work:
        alias = work.pop()
        if alias in location_lines:
            continue
        location_line = location(lines.get(alias, ""))
        if location_line is None:
            return None
        location_lines[alias] = location_line
        work += [inner for inner in location_line[4:] if inner is not None]
    return location_lines


def _op(index: int, parsed: Statement, line: int, context: FileContext, table: LocTable) -> TtgirOp:
    """The operation of a statement."""
    form = read_form(parsed.form)
    shaped_types = [context.shaped(text, line) for text in parsed.types]
    printed, arrow = form.types(shaped_types)
    operands = tuple(parsed.names[k] for k in form.operands)
    results = tuple(parsed.names[k] + suffix for k, suffix in form.results)
    # A scaled dot prints its operands' types in another order; its elements are attributes.
    stated_types = () if form.name in OPERAND_ORDER else printed[: len(operands)]
    unknown = (UNKNOWN_TYPE,) * (len(operands) - len(stated_types))
    return TtgirOp(
        index=index,
        line=line,
        name=form.name,
        results=results,
        operands=operands,
        attributes=form.attributes,
        operand_types=(*stated_types, *unknown),
        result_types=result_types(form.name, len(results), printed, arrow, context),
        loc=table.resolve(Alias(parsed.loc)),
        depth=0,
        parent=None,
    )
