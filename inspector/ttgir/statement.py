"""Operations, regions and SSA values of MLIR text."""

from __future__ import annotations

import functools

from ..model import TtgirType
from .attrs import UNKNOWN_TYPE, FileContext, float_bits, parse_dict, parse_type, unquote
from .custom_form import CustomFormReader, read_properties, read_types
from .drafts import OpDraft, OpRead
from .lexer import MAX_DEPTH, Cursor
from .lines import Statement, StatementForm, number_of, number_of_type, numbered
from .locs import Alias, parse_loc
from .result_types import (
    FUNCTIONS,
    INLINE_NAMES,
    OPERAND_ORDER,
    SHADOWING,
    VISIBILITIES,
    in_own_order,
    result_types,
)

MAX_RESULTS = 4096


class StatementParser:
    """Reads operations at a cursor into `drafts`, in file order.

    MLIR prints an operation in its generic form, `"tt.load"(%p) <{...}> : (...) -> ...`, or in a
    custom one (`custom_form.py`).

    Attributes:
        context: aliases and caches of this file.
        drafts: the operations so far; those of a region follow its owner.
        values: SSA name in scope -> its type.
        notes: remarks on the text for the user.
        line_statement_count: operations read as one token, see `Cursor.line_statements`.
    """

    __slots__ = (
        "_custom_form",
        "context",
        "cursor",
        "drafts",
        "line_statement_count",
        "notes",
        "values",
    )

    def __init__(self, cursor: Cursor, context: FileContext) -> None:
        self.cursor = cursor
        self.context = context
        self.drafts: list[OpRead] = []
        self.values: dict[str, TtgirType] = {}
        self.notes: list[str] = []
        self.line_statement_count = 0
        self._custom_form = CustomFormReader(cursor, context, self._region)

    def parse_op(self, parent: int | None, depth: int) -> None:
        """Reads one operation with its regions.

        Args:
            parent: index in `drafts` of the operation around it; None at the top of the file.
            depth: regions around it.

        Raises:
            KinspectError: no operation stands here, or it is damaged; by `Cursor.fail`.
        """
        cursor = self.cursor
        if depth > MAX_DEPTH:
            cursor.fail(f"regions nest deeper than {MAX_DEPTH}")
        line = cursor.lines[cursor.i]
        statement = cursor.line_statements.get(cursor.i)
        if statement is not None:
            self._line_statement(statement, line, parent, depth)
            return
        results = self._results()
        token = cursor.take()
        generic = token[0] == '"'
        name = unquote(token) if generic else token
        if not generic and not (token[0].isalpha() or token[0] == "_"):
            cursor.i -= 1
            cursor.fail(f"expected an operation, found `{token[:40]}`")
        if name == "module":
            name = "builtin.module"
        index = len(self.drafts)
        draft = OpDraft(line, name, depth, parent, results)
        self.drafts.append(draft)
        if generic:
            self._generic(draft, index)
        else:
            self._custom_form.read(draft, index)
        self._finish(draft)

    def _line_statement(
        self, statement: Statement, line: int, parent: int | None, depth: int
    ) -> None:
        """Adds an operation that is one token: its form, with the line's names and types."""
        values = self.values
        form = self.context.forms.get(statement.form) or self._new_form(statement.form)
        self.cursor.i += 1
        self.line_statement_count += 1
        names = statement.names
        results = [names[k] + suffix for k, suffix in form.results]
        operands = [names[k] for k in form.operands]
        operand_types = tuple([values.get(name, UNKNOWN_TYPE) for name in operands])
        shaped = self.context.shaped
        line_types = [shaped(text, line) for text in statement.types]
        attributes = form.attributes
        types: tuple[TtgirType, ...] = ()
        if results:
            printed, arrow = form.types(line_types)
            types = result_types(form.name, len(results), printed, arrow, self.context)
            values.update(zip(results, types, strict=True))
            if form.name == "arith.constant" and "value" in attributes:
                value = float_bits(attributes["value"], types[0].element)
                attributes = {**attributes, "value": value}
        self.drafts.append(
            OpRead(
                line,
                form.name,
                depth,
                parent,
                results,
                operands,
                attributes,
                operand_types,
                types,
                Alias(statement.loc),
            )
        )

    def _new_form(self, text: str) -> StatementForm:
        """Reads a form of statement at its first use in the file."""
        names_alias = "#" in text or "!" in text
        form = _read_form(text, self.context) if names_alias else read_form(text)
        self.context.forms[text] = form
        return form

    def _results(self) -> list[str]:
        """The names before `=`, if there are any: `%a, %b:2 =` gives `%a`, `%b#0`, `%b#1`."""
        cursor = self.cursor
        names: list[str] = []
        if cursor.peek()[:1] != "%":
            return names
        while True:
            name = cursor.take()
            if name[0] != "%":
                cursor.i -= 1
                cursor.fail(f"expected a result name, found `{name[:40]}`")
            if cursor.accept(":"):
                count = cursor.take()
                if not count.isdecimal() or len(count) > 5 or int(count) > MAX_RESULTS:
                    cursor.fail(f"`{count[:40]}` is not a number of results")
                names += [f"{name}#{k}" for k in range(int(count))]
            else:
                names.append(name)
            if not cursor.accept(","):
                break
        cursor.expect("=")
        return names

    def _finish(self, draft: OpDraft) -> None:
        """Completes an operation after its text: types, and names of attributes."""
        values = self.values
        if draft.name in OPERAND_ORDER and draft.roles:
            draft.operands = in_own_order(draft.name, draft.operands, draft.roles)
        draft.operand_types = tuple([values.get(name, UNKNOWN_TYPE) for name in draft.operands])
        if any(draft.arg_attrs):
            draft.attributes["arg_attrs"] = tuple(draft.arg_attrs)
        if any(draft.entries):
            draft.attributes["block_args"] = tuple(draft.entries)
        if draft.inline:
            self._name_inline(draft)
        draft.result_types = types = result_types(
            draft.name, len(draft.results), draft.printed, draft.arrow, self.context
        )
        values.update(zip(draft.results, types, strict=True))
        if types and draft.name == "arith.constant" and "value" in draft.attributes:
            value = draft.attributes["value"]
            draft.attributes["value"] = float_bits(value, types[0].element)

    def _name_inline(self, draft: OpDraft) -> None:
        """Turns the words between the operands into attributes, by `INLINE_NAMES`."""
        values = draft.inline
        if draft.name in FUNCTIONS and values[0] in VISIBILITIES:
            draft.attributes.setdefault("sym_visibility", values.pop(0))
        names = INLINE_NAMES.get(draft.name, ())
        for k, name in enumerate(names):
            if name[0] == "*":
                draft.attributes.setdefault(name[1:], tuple(values[k:]))
                return
            if k < len(values):
                value = values[k]
                symbol = isinstance(value, str) and value[:1] == "@" and name == "sym_name"
                draft.attributes.setdefault(name, value[1:].strip('"') if symbol else value)
        if len(values) > len(names):
            draft.attributes.setdefault("inline", tuple(values[len(names) :]))

    def _generic(self, draft: OpDraft, index: int) -> None:
        """Reads `(operands) [successors] <{properties}> ({regions}) {attributes} : types loc()`."""
        cursor = self.cursor
        cursor.expect("(")
        while not cursor.accept(")"):
            operand = cursor.take()
            if operand[0] != "%":
                cursor.i -= 1
                cursor.fail(f"expected an operand, found `{operand[:40]}`")
            draft.operands.append(operand)
            cursor.accept(",")
        if cursor.accept("["):
            while not cursor.accept("]"):
                cursor.take()
        if cursor.peek() == "<":
            read_properties(cursor, self.context, draft)
        if cursor.peek() == "(":
            cursor.i += 1
            while not cursor.accept(")"):
                self._region(draft, index)
                cursor.accept(",")
        if cursor.peek() == "{":
            draft.attributes.update(parse_dict(cursor, self.context, 0))
        if cursor.accept(":"):
            read_types(cursor, self.context, draft, draft.printed)
        if cursor.peek().startswith("loc"):
            draft.loc = parse_loc(cursor)

    def _region(self, draft: OpDraft, index: int) -> None:
        """Reads `{...}`: blocks of operations; the arguments read before are its first block's."""
        cursor, values = self.cursor, self.values
        cursor.expect("{")
        outer = dict(values) if draft.name in SHADOWING else None
        arguments = [name for name, _, _ in draft.block_args]
        for name, argument_type, initial in draft.block_args:
            values[name] = argument_type or values.get(initial or "", UNKNOWN_TYPE)
        draft.block_args.clear()
        depth = draft.depth + 1
        start = len(self.drafts)
        while not cursor.accept("}"):
            token = cursor.peek()
            if not token:
                cursor.fail(f"the region of {draft.name} (line {draft.line}) is not closed")
            if token[0] == "^":
                names = self._block_label()
                if not arguments and len(self.drafts) == start:
                    arguments = names
            else:
                self.parse_op(index, depth)
        draft.entries.append(tuple(arguments))
        if outer is not None:
            self.values = outer

    def _block_label(self) -> list[str]:
        """Reads `^bb1(%a: i32, ...):`; returns the names of its arguments."""
        cursor = self.cursor
        names: list[str] = []
        cursor.i += 1
        if cursor.accept("("):
            while not cursor.accept(")"):
                name = cursor.take()
                names.append(name)
                cursor.expect(":")
                self.values[name] = parse_type(cursor, self.context, 0)
                if cursor.peek().startswith("loc"):
                    parse_loc(cursor)
                cursor.accept(",")
        cursor.expect(":")
        return names


@functools.lru_cache(4096)
def read_form(form: str) -> StatementForm:
    """Reads a form of statement (see `lines.Statement`) that names no alias of the file.

    Its meaning is the same in every file, so it is read once per process.

    Raises:
        KinspectError: it is no operation, or one line does not hold all of it.
    """
    return _read_form(form, FileContext(""))


def _read_form(form: str, context: FileContext) -> StatementForm:
    """Reads a form with numbers in place of its names and types."""
    cursor = Cursor(numbered(form), context.name)
    reader = StatementParser(cursor, context)
    reader.parse_op(None, 0)
    draft = reader.drafts[0]
    assert isinstance(draft, OpDraft)  # this cursor has no tokens of full lines
    printed = [number_of_type(printed_type) for printed_type in draft.printed]
    arrow = (
        None
        if draft.arrow is None
        else [number_of_type(printed_type) for printed_type in draft.arrow]
    )
    type_numbers = [k for k in printed + (arrow or []) if isinstance(k, int)]
    regular = type_numbers == list(range(form.count("~"))) and not draft.block_args
    if cursor.peek() or len(reader.drafts) > 1 or draft.entries or not regular:
        cursor.fail("more to it than one line tells")
    return StatementForm(
        draft.name,
        [number_of(name) for name in draft.results],
        [number_of(name)[0] for name in draft.operands],
        draft.attributes,
        printed,
        arrow,
    )
