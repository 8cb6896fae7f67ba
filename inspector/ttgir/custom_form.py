"""Custom forms of MLIR operations, read by the punctuation that they share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..model import TtgirType
from .attrs import FileContext, parse_attribute, parse_dict, parse_type, plain, starts_type
from .drafts import OpDraft
from .lexer import Cursor
from .locs import parse_loc
from .result_types import FUNCTIONS, INLINE_FLAGS


class CustomFormReader:
    """Reads operations in custom form at a cursor."""

    __slots__ = ("_context", "_cursor", "_read_region")

    def __init__(
        self, cursor: Cursor, context: FileContext, read_region: Callable[[OpDraft, int], None]
    ) -> None:
        """Prepares a file.

        Args:
            cursor: the tokens.
            context: aliases and types of the file.
            read_region: reads the region of an operation, by its draft and number.
        """
        self._cursor = cursor
        self._context = context
        self._read_region = read_region

    def read(self, draft: OpDraft, index: int) -> None:
        """Reads a custom form up to its location or the line that starts another statement.

        Args:
            draft: the operation, which gets the parts.
            index: number of the operation, for its regions.
        """
        cursor = self._cursor
        tokens = cursor.tokens
        brackets: list[str] = []
        successor = False
        while brackets or not self._is_end():
            i = cursor.i
            token = tokens[i]
            if not token:
                cursor.fail("unexpected end of the text")
            head = token[0]
            if head == "%":
                cursor.i = i + 1
                self._value_name(draft, token, brackets, successor)
            elif head == "l" and (token[3:4] == "(" or token == "loc"):
                loc = parse_loc(cursor)
                if not brackets:
                    draft.loc = loc
                    return
            elif head == "(" or head == "[":
                cursor.i = i + 1
                brackets.append(token)
                successor = tokens[i - 1][0] == "^"
            elif head == ")" or head == "]":
                if not brackets:
                    cursor.fail(f"`{token}` without its opening bracket")
                cursor.i = i + 1
                brackets.pop()
                successor = False
            elif head == "^" or head == ",":
                cursor.i = i + 1
            else:
                self._part(draft, index, token)

    def _is_end(self) -> bool:
        """Whether an operation ends before the next token: at `}`, a new statement or the end."""
        cursor = self._cursor
        i = cursor.i
        token = cursor.tokens[i]
        if not token or token[0] == "}":
            return True
        return cursor.lines[i] != cursor.lines[i - 1] and self._starts_statement(i)

    def _part(self, draft: OpDraft, index: int, token: str) -> None:
        """Reads attributes, types, a region or a keyword at the next token, `token`."""
        cursor = self._cursor
        i = cursor.i
        following = cursor.tokens[i + 1]
        if token[0] == "{":
            if self._is_dict(i):
                draft.attributes.update(parse_dict(cursor, self._context, 0))
            else:
                self._read_region(draft, index)
        elif token[0] == "<" and following == "{":
            read_properties(cursor, self._context, draft)
        elif token[0] == ":":
            cursor.i = i + 1
            if following[:1] != "%":
                read_types(cursor, self._context, draft, draft.printed)
        elif token == "->":
            cursor.i = i + 1
            draft.arrow = []
            read_types(cursor, self._context, draft, draft.arrow)
        else:
            self._inline(draft, token)

    def _value_name(self, draft: OpDraft, token: str, brackets: list[str], successor: bool) -> None:
        """Adds an SSA name that the cursor has passed: an operand, or an argument of a region."""
        cursor = self._cursor
        following = cursor.peek()
        if following == "=":  # `%i = %lb`, `iter_args(%a = %x)`: a block argument
            initial = cursor.tokens[cursor.i + 1]
            draft.block_args.append((token, None, initial))
            cursor.i += 1
        elif following == ":" and brackets and not successor:  # `(%a: i32 {...} loc(...), ...)`
            cursor.i += 1
            argument_type = parse_type(cursor, self._context, 0)
            draft.block_args.append((token, argument_type, None))
            if draft.name in FUNCTIONS:
                has_attributes = cursor.peek() == "{"
                attributes = parse_dict(cursor, self._context, 0) if has_attributes else {}
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
        cursor = self._cursor
        following = cursor.tokens[cursor.i + 1]
        if cursor.lines[cursor.i + 1] != cursor.lines[cursor.i]:
            following = ""
        head = token[0]
        is_word = head.isalpha() or head == "_"
        if is_word and following == "=":
            cursor.i += 2
            next_tokens = cursor.tokens[cursor.i : cursor.i + 2]
            if next_tokens[0][:1] != "%" and not (
                next_tokens[0] in ("[", "(") and next_tokens[1][:1] == "%"
            ):
                value = parse_attribute(cursor, self._context, 0, typed=False)
                draft.attributes[token] = _keyword_text(value)
        elif is_word and following == "<" and token not in ("dense", "array"):
            cursor.i += 2
            start = cursor.i
            while not cursor.accept(">"):
                cursor.take()
            draft.attributes[token] = cursor.spelling(start, cursor.i - 1)
        elif is_word and (following[:1] in ("%", "(", "{", "[") or token == "attributes"):
            cursor.i += 1  # `to %ub`, `iter_args(`, `default {`: a role
        elif is_word and "." not in token and token not in ("dense", "array", "true", "false"):
            cursor.i += 1
            if token in INLINE_FLAGS.get(draft.name, ()):
                draft.attributes[token] = True
            else:
                draft.inline.append(token)
        else:
            value = parse_attribute(cursor, self._context, 0, typed=False)
            draft.inline.append(_keyword_text(value))

    def _is_dict(self, i: int) -> bool:
        """Whether the `{` at token `i` opens an attribute dictionary and not a region."""
        tokens, lines = self._cursor.tokens, self._cursor.lines
        key = tokens[i + 1]
        same_line = lines[i] == lines[i + 1]
        if key == "}":
            return same_line
        if not key or not (key[0].isalpha() or key[0] in '_"'):
            return False
        following = tokens[i + 2]
        return following == "=" or (following in (",", "}") and same_line)

    def _starts_statement(self, i: int) -> bool:
        """Whether a line's first token `i` begins an operation, a block or a loc table."""
        token, following = self._cursor.tokens[i], self._cursor.tokens[i + 1]
        head = token[0]
        if i in self._cursor.line_statements:
            return True
        if head in "%#!":
            return following in ("=", ":", ",")
        if head == '"':
            return following == "("
        return head == "^" or (head.isalpha() and "." in token) or token == "module"


def read_types(
    cursor: Cursor, context: FileContext, draft: OpDraft, types: list[TtgirType]
) -> None:
    """Reads a list of types in any punctuation.

    Args:
        cursor: at the first type.
        context: the file's types.
        draft: the operation; `arrow` gets the types after `->` or `to`, its results'.
        types: list that gets the types before.
    """
    tokens, lines, cache = cursor.tokens, cursor.lines, context.types
    parens = 0
    line = lines[cursor.i - 1]
    while lines[cursor.i] == line:
        token = tokens[cursor.i]
        cached_type = cache.get(token)
        if cached_type is not None:
            cursor.i += 1
            types.append(cached_type)
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
            draft.arrow = types = []
        elif token == "<" or starts_type(token):
            types.append(parse_type(cursor, context, 0))
        else:
            return


def read_properties(cursor: Cursor, context: FileContext, draft: OpDraft) -> None:
    """Reads `<{...}>` into the attributes of an operation."""
    cursor.expect("<")
    draft.attributes.update(parse_dict(cursor, context, 0))
    cursor.expect(">")


def _keyword_text(value: Any) -> Any:
    """An inline value, as its text where it is a keyword that reads like a type (`lhs = bf16`)."""
    return value.text if isinstance(value, TtgirType) else plain(value)
