"""Parses TTIR or TTGIR text to a `TtgirModule`."""

from __future__ import annotations

from typing import Any

from ..base.errors import KinspectError
from ..model import Layout, TtgirModule, TtgirOp
from .attrs import FileContext, make_layout, parse_attribute, parse_type, plain, with_alias
from .drafts import OpRead
from .lexer import Cursor
from .locs import Loc, LocTable, parse_loc
from .result_types import FUNCTIONS
from .statement import StatementParser

MAX_NOTES = 20


def parse_ttgir(text: str, name: str) -> TtgirModule:
    """Parse a TTIR or TTGIR module in MLIR's custom or generic form.

    `text`: the file's text, as `MLIR` prints it (Triton 3.0 - 3.9 are tested).

    Returns:
        The module. `ops` lists every operation but the module itself in file order, an enclosing
        operation before those in its regions. Attributes hold the dictionary, the properties and
        the named inline values; unnamed inline values are under `inline`, a function's argument
        attributes under `arg_attrs`, the names of the values that each region of an operation
        begins with (a function's arguments, a loop's index and carried values) under `block_args`.
        A constant's value is a number, a splat's likewise.

    Raises:
        KinspectError: the text is not MLIR, is cut off, or nests deeper than any real module.
    """
    try:
        return _parse(Cursor(text, name, whole_lines=True), name)
    except KinspectError:
        pass  # a line that looks like a statement is none, or the text is damaged: token by token
    return _parse(Cursor(text, name), name)


def _parse(cursor: Cursor, name: str) -> TtgirModule:
    """Parses the tokens of a file."""
    context = FileContext(name)
    loc_aliases: dict[str, Loc] = {}
    statements = StatementParser(cursor, context)
    attributes: dict[str, Any] = {}
    between = {0}  # token indices at which lines that are no statements may stand
    while cursor.peek():
        token = cursor.peek()
        following = cursor.tokens[cursor.i + 1]
        if token[0] == "#" and following == "=":
            _alias(cursor, context, loc_aliases)
        elif token[0] == "!" and following == "=":
            cursor.i += 2
            context.type_aliases[token] = parse_type(cursor, context, 0)
        elif token in ("{-#", "{") and following == "-":
            _skip_resources(cursor)
        else:
            statements.parse_op(None, 0)
        between.add(cursor.i)
    defined_twice = not cursor.locations.keys().isdisjoint(loc_aliases)
    skipped = statements.line_statement_count != len(cursor.line_statements)
    if skipped or defined_twice or not between.issuperset(cursor.between):
        cursor.fail("a line is not a statement of its own")
    drafts, module_attributes = _without_modules(statements.drafts)
    for key, value in module_attributes.items():
        attributes.setdefault(key.partition(".")[2] or key, value)
    if not drafts and not attributes:
        raise KinspectError(
            f"{name}: no MLIR operation in the file",
            "pass the .ttir or .ttgir text that Triton writes to its cache",
        )
    table = LocTable(loc_aliases, cursor.locations)
    notes = list(statements.notes)
    notes += [f"{alias} is used but not defined in the file" for alias in context.missing]
    return TtgirModule(
        attributes=attributes,
        layouts=dict(context.layouts),
        functions=tuple(_function_names(drafts)),
        ops=tuple(_freeze(index, draft, table) for index, draft in enumerate(drafts)),
        notes=tuple(notes[:MAX_NOTES]),
    )


def _alias(cursor: Cursor, context: FileContext, loc_aliases: dict[str, Loc]) -> None:
    """Parses `#alias = ...`: a location or an attribute."""
    alias = cursor.take()
    cursor.i += 1
    if cursor.peek().startswith("loc"):
        loc_aliases[alias] = parse_loc(cursor)
        return
    start = cursor.i
    context.forms.clear()  # forms read so far may refer to the alias's old meaning
    context.inline.clear()
    value = parse_attribute(cursor, context, 0)
    if not isinstance(value, Layout):  # `#map = affine_map<...>`
        value = make_layout("attribute", {"value": plain(value)}, [], "")
    layout = (
        value
        if value.text
        else make_layout(value.kind, dict(value.params), [], cursor.spelling(start, cursor.i))
    )
    context.layouts[alias] = with_alias(layout, alias)


def _skip_resources(cursor: Cursor) -> None:
    # `{-# dialect_resources: {...} #-}` at the end of a file; holds blobs only.
    cursor.skip_balanced("{", "}")


def _without_modules(drafts: list[OpRead]) -> tuple[list[OpRead], dict[str, Any]]:
    """Drops module operations and renumbers: parents by index, depth by enclosing regions."""
    attributes: dict[str, Any] = {}
    if not any(draft.name == "builtin.module" for draft in drafts):
        return drafts, attributes
    new_index: dict[int, int | None] = {}
    removed_depth: dict[int, int] = {}
    remaining: list[OpRead] = []
    for index, draft in enumerate(drafts):
        parent = draft.parent
        shift = removed_depth[parent] if parent is not None else 0
        draft.parent = new_index[parent] if parent is not None else None
        if draft.name == "builtin.module":
            for key, value in draft.attributes.items():
                attributes.setdefault(key, value)
            new_index[index] = draft.parent
            removed_depth[index] = shift + 1
            continue
        draft.depth -= shift
        new_index[index] = len(remaining)
        removed_depth[index] = shift
        remaining.append(draft)
    return remaining, attributes


def _function_names(drafts: list[OpRead]) -> list[str]:
    names = (draft.attributes.get("sym_name") for draft in drafts if draft.name in FUNCTIONS)
    return [name for name in names if isinstance(name, str)]


def _freeze(index: int, draft: OpRead, table: LocTable) -> TtgirOp:
    """The model's operation of a draft."""
    return TtgirOp(
        index=index,
        line=draft.line,
        name=draft.name,
        results=tuple(draft.results),
        operands=tuple(draft.operands),
        attributes=draft.attributes,
        operand_types=draft.operand_types,
        result_types=draft.result_types,
        loc=table.resolve(draft.loc),
        depth=draft.depth,
        parent=draft.parent,
    )
