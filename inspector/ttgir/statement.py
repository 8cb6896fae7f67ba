"""Operations, regions and SSA values of MLIR text.

Most operations are lines of a form that was read before: `_line_statement` puts this line's names
and types into it. The others are read token by token.
"""

from __future__ import annotations

import functools
from typing import Any

from ..model import TtgirType
from .attrs import UNKNOWN_TYPE, Context, parse_attribute, parse_dict, parse_type, starts_type
from .drafts import OpDraft, OpRead
from .lexer import MAX_DEPTH, Cursor
from .lines import Form, Statement, number_of, number_of_type, numbered
from .locs import Alias, parse_loc
from .opforms import (
    FUNCTIONS,
    INLINE_FLAGS,
    INLINE_NAMES,
    OPERAND_ORDER,
    SHADOWING,
    VISIBILITIES,
    in_own_order,
)
from .results import result_types
from .values import float_bits, plain, unquote

MAX_RESULTS = 4096


class StatementParser:
    """Reads operations at a cursor into `drafts`, in file order.

    MLIR prints an operation in its generic form, `"tt.load"(%p) <{...}> : (...) -> ...`, or in a
    custom one that each dialect defines. Of the custom forms this reads what they have in common:
    names, attributes, types and regions, each told by its first characters (`_custom`).

    Attributes:
        context: aliases and caches of this file.
        cursor: the tokens.
        drafts: the operations that were read; a region's follow the operation that it belongs to.
        values: SSA name in scope -> its type.
        notes: remarks for the user on the text.
        line_statement_count: operations that were read as one token, see `Cursor.line_statements`.
    """

    __slots__ = ("context", "cursor", "drafts", "line_statement_count", "notes", "values")

    def __init__(self, cursor: Cursor, context: Context) -> None:
        self.cursor = cursor
        self.context = context
        self.drafts: list[OpRead] = []
        self.values: dict[str, TtgirType] = {}
        self.notes: list[str] = []
        self.line_statement_count = 0

    # ------------------------------------------------------------------ operations

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
            self._custom(draft, index)
        self._finish(draft)

    def _line_statement(
        self, statement: Statement, line: int, parent: int | None, depth: int
    ) -> None:
        """Reads an operation that is one token: its form's, with the line's names and types."""
        values, forms = self.values, self.context.forms
        form = forms.get(statement.form)
        if form is None:
            names_alias = "#" in statement.form or "!" in statement.form
            form = (
                _read_form(statement.form, self.context)
                if names_alias
                else read_form(statement.form)
            )
            forms[statement.form] = form
        self.cursor.i += 1
        self.line_statement_count += 1
        names = statement.names
        results = [names[k] + part for k, part in form.results]
        operands = [names[k] for k in form.operands]
        operand_types = tuple([values.get(name, UNKNOWN_TYPE) for name in operands])
        shaped = self.context.shaped
        line_types = [shaped(text, line) for text in statement.types]
        attributes = form.attributes
        types: tuple[TtgirType, ...] = ()
        if results:
            printed = [line_types[t] if isinstance(t, int) else t for t in form.printed]
            arrow = None
            if form.arrow is not None:
                arrow = [line_types[t] if isinstance(t, int) else t for t in form.arrow]
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
        """Gives an operation whose text was read its types, and attributes their names."""
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
        """Makes attributes of the words between the operands, by `INLINE_NAMES` of the operation.

        Those that it has no names for are the attribute `inline`.
        """
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

    # ------------------------------------------------------------------ generic form

    def _generic(self, draft: OpDraft, index: int) -> None:
        """Reads `(operands) [successors] <{properties}> ({regions}) {attributes} : types loc(...)`.

        Args:
            draft: takes what is read.
            index: of the draft in `drafts`.
        """
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
            self._properties(draft)
        if cursor.peek() == "(":
            cursor.i += 1
            while not cursor.accept(")"):
                self._region(draft, index)
                cursor.accept(",")
        if cursor.peek() == "{":
            draft.attributes.update(parse_dict(cursor, self.context, 0))
        if cursor.accept(":"):
            self._types(draft, draft.printed)
        if cursor.peek().startswith("loc"):
            draft.loc = parse_loc(cursor)

    def _properties(self, draft: OpDraft) -> None:
        cursor = self.cursor
        cursor.expect("<")
        draft.attributes.update(parse_dict(cursor, self.context, 0))
        cursor.expect(">")

    # ------------------------------------------------------------------ custom form

    def _custom(self, draft: OpDraft, index: int) -> None:
        """Reads a custom form up to its location or the line that starts another statement.

        Args:
            draft: takes what is read.
            index: of the draft in `drafts`.
        """
        cursor = self.cursor
        tokens, lines = cursor.tokens, cursor.lines
        brackets: list[str] = []
        successor = False
        while True:
            i = cursor.i
            token = tokens[i]
            if not token:
                if brackets:
                    cursor.fail("unexpected end of the text")
                return
            head = token[0]
            if not brackets:
                if head == "}":
                    return
                if lines[i] != lines[i - 1] and self._starts_statement(i):
                    return
            if head == "%":
                cursor.i = i + 1
                self._value_name(draft, token, brackets, successor)
            elif head == "l" and (token[3:4] == "(" or token == "loc"):
                loc = parse_loc(cursor)
                if not brackets:
                    draft.loc = loc
                    return
            elif head == "{":
                if self._is_dict(i):
                    draft.attributes.update(parse_dict(cursor, self.context, 0))
                else:
                    self._region(draft, index)
            elif head == "<" and tokens[i + 1] == "{":
                self._properties(draft)
            elif head == ":":
                cursor.i = i + 1
                if tokens[i + 1][:1] != "%":
                    self._types(draft, draft.printed)
            elif token == "->":
                cursor.i = i + 1
                draft.arrow = []
                self._types(draft, draft.arrow)
            elif head == "(" or head == "[":
                cursor.i = i + 1
                brackets.append(token)
                successor = tokens[i - 1][0] == "^"
            elif head == ")" or head == "]":
                cursor.i = i + 1
                if not brackets:
                    cursor.i = i
                    cursor.fail(f"`{token}` without its opening bracket")
                brackets.pop()
                successor = False
            elif head == "^" or head == ",":
                cursor.i = i + 1
            else:
                self._inline(draft, token)

    def _value_name(self, draft: OpDraft, token: str, brackets: list[str], successor: bool) -> None:
        """Takes an SSA name that was moved over: an operand, or an argument of the next region.

        Args:
            draft: takes it.
            token: the name.
            brackets: those that are open around it.
            successor: whether they hold the operands of a branch's target, `^bb1(%a : i32)`.
        """
        cursor = self.cursor
        following = cursor.peek()
        if following == "=":  # `%i = %lb`, `iter_args(%a = %x)`: a block argument
            initial = cursor.tokens[cursor.i + 1]
            draft.block_args.append((token, None, initial))
            cursor.i += 1
        elif following == ":" and brackets and not successor:  # `(%a: i32 {...} loc(...), ...)`
            cursor.i += 1
            argument_type = parse_type(cursor, self.context, 0)
            draft.block_args.append((token, argument_type, None))
            if draft.name in FUNCTIONS:
                has_attributes = cursor.peek() == "{"
                attributes = parse_dict(cursor, self.context, 0) if has_attributes else {}
                draft.arg_attrs.append(attributes)
        else:
            previous = cursor.tokens[cursor.i - 2]
            if previous == "=":
                previous = cursor.tokens[cursor.i - 3]
            is_keyword = previous[:1].isalpha() and "." not in previous
            draft.operands.append(token)
            draft.roles.append(previous if is_keyword else brackets[-1] if brackets else "")

    def _inline(self, draft: OpDraft, token: str) -> None:
        """Reads a keyword or literal between the operands: an attribute, a flag or a role."""
        cursor = self.cursor
        following = cursor.tokens[cursor.i + 1]
        if cursor.lines[cursor.i + 1] != cursor.lines[cursor.i]:
            following = ""
        head = token[0]
        is_word = head.isalpha() or head == "_"
        if is_word and following == "=":
            cursor.i += 2
            ahead = cursor.tokens[cursor.i : cursor.i + 2]
            if ahead[0][:1] != "%" and not (ahead[0] in ("[", "(") and ahead[1][:1] == "%"):
                value = parse_attribute(cursor, self.context, 0, typed=False)
                draft.attributes[token] = _keyword_text(value)
        elif is_word and following == "<" and token not in ("dense", "array"):
            cursor.i += 2
            start = cursor.i
            while not cursor.accept(">"):
                cursor.take()
            draft.attributes[token] = cursor.spelling(start, cursor.i - 1)
        elif is_word and (following[:1] in ("%", "(", "{", "[") or token == "attributes"):
            cursor.i += 1  # `to %ub`, `iter_args(`, `default {`: the role of what follows
        elif is_word and "." not in token and token not in ("dense", "array", "true", "false"):
            cursor.i += 1
            if token in INLINE_FLAGS.get(draft.name, ()):
                draft.attributes[token] = True
            else:
                draft.inline.append(token)
        else:
            value = parse_attribute(cursor, self.context, 0, typed=False)
            draft.inline.append(_keyword_text(value))

    def _types(self, draft: OpDraft, into: list[TtgirType]) -> None:
        """Reads a list of types in whatever punctuation.

        Args:
            draft: its `arrow` takes the types after `->` or `to`, which are the results'.
            into: takes those before.
        """
        cursor, context = self.cursor, self.context
        tokens, lines, cache = cursor.tokens, cursor.lines, context.types
        parens = 0
        line = lines[cursor.i - 1]
        while lines[cursor.i] == line:
            token = tokens[cursor.i]
            cached_type = cache.get(token)
            if cached_type is not None:
                cursor.i += 1
                into.append(cached_type)
            elif token in (",", "*", "[", "]"):
                cursor.i += 1
            elif token == "(":
                cursor.i += 1
                parens += 1
            elif token == ")":
                if not parens:
                    return
                cursor.i += 1
                parens -= 1
            elif token == "->" or token == "to":
                cursor.i += 1
                draft.arrow = into = []
            elif token == "<" or starts_type(token):
                into.append(parse_type(cursor, context, 0))
            else:
                return

    def _is_dict(self, i: int) -> bool:
        """Whether the `{` at token `i` opens an attribute dictionary and not a region."""
        tokens, lines = self.cursor.tokens, self.cursor.lines
        first = tokens[i + 1]
        same_line = lines[i] == lines[i + 1]
        if first == "}":
            return same_line
        if not first or not (first[0].isalpha() or first[0] in '_"'):
            return False
        second = tokens[i + 2]
        return second == "=" or (second in (",", "}") and same_line)

    def _starts_statement(self, i: int) -> bool:
        """Whether a line's first token `i` begins an operation, a block or a loc table."""
        token, following = self.cursor.tokens[i], self.cursor.tokens[i + 1]
        head = token[0]
        if i in self.cursor.line_statements:
            return True
        if head in "%#!":
            return following in ("=", ":", ",")
        if head == '"':
            return following == "("
        return head == "^" or (head.isalpha() and "." in token) or token == "module"

    # ------------------------------------------------------------------ regions

    def _region(self, draft: OpDraft, index: int) -> None:
        """Reads `{...}`: blocks of operations; the arguments gathered before are its first block's.

        Args:
            draft: the operation that it belongs to.
            index: of the draft in `drafts`.
        """
        cursor, values = self.cursor, self.values
        cursor.expect("{")
        outer = dict(values) if draft.name in SHADOWING else None
        arguments = [name for name, _, _ in draft.block_args]
        for name, argument_type, initial in draft.block_args:
            values[name] = argument_type or values.get(initial or "", UNKNOWN_TYPE)
        draft.block_args.clear()
        depth = draft.depth + 1
        first = len(self.drafts)
        while not cursor.accept("}"):
            token = cursor.peek()
            if not token:
                cursor.fail(f"the region of {draft.name} (line {draft.line}) is not closed")
            if token[0] == "^":
                names = self._block_label()
                if not arguments and len(self.drafts) == first:
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
def read_form(form: str) -> Form:
    """Reads a form of statement (see `lines.Statement`) that names no alias of the file.

    It means the same in every file, so that it is read once per process.

    Raises:
        KinspectError: it is no operation, or has more to it than one line tells.
    """
    return _read_form(form, Context(""))


def _read_form(form: str, context: Context) -> Form:
    """Reads a form with numbers for its names and types, and notes where each number came."""
    cursor = Cursor(numbered(form), context.name)
    reader = StatementParser(cursor, context)
    reader.parse_op(None, 0)
    draft = reader.drafts[0]
    assert isinstance(draft, OpDraft)  # this cursor makes no tokens of whole lines
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
    return Form(
        draft.name,
        [number_of(name) for name in draft.results],
        [number_of(name)[0] for name in draft.operands],
        draft.attributes,
        printed,
        arrow,
    )


def _keyword_text(value: Any) -> Any:
    """An inline value: keywords that read like types (`lhs = bf16`) are their text."""
    return value.text if isinstance(value, TtgirType) else plain(value)
