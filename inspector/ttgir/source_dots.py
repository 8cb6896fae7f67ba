"""Reads the dots of a TTIR text without parsing the rest of it."""

from __future__ import annotations

import re

from ..base.errors import KinspectError
from ..model import TtgirModule, TtgirOp
from .attrs import UNKNOWN_TYPE, FileContext
from .lines import LocationLine, Statement, location, statement
from .locs import Alias, LocTable
from .lowered import CONVERSIONS
from .opforms import OPERAND_ORDER
from .parser import parse_ttgir
from .queries import DOTS
from .result_types import result_types
from .statement import read_form

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
