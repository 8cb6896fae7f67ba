"""MLIR attributes and types, parsed by recursive descent.

Values become Python values: integers, floats, strings, booleans, tuples (arrays), dicts, `Layout`
for dialect attributes (`#ttg.blocked<{...}>`) and `TtgirType` for types.

MLIR literals as Python values.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..model import Layout, TtgirType
from .lexer import MAX_DEPTH, Cursor
from .lines import StatementForm

_OLD_KINDS: Mapping[str, str] = {
    # Spellings before the dialect's clean-ups (Triton 3.0 - 3.2) -> the present ones.
    "shared": "swizzled_shared",
    "mfma": "amd_mfma",
    "wmma": "amd_wmma",
    "mma": "nvidia_mma",
}
_SCALAR_RE = re.compile(r"(?:[su]?i\d+|index|b?f\d+(?:E\w+)?|none)\Z")
# A size that begins with 0 would be read as a number in hex.
_TENSOR_RE = re.compile(
    r"tensor<((?:[1-9]\d{0,17}x){1,8})([a-z]\w*|!tt\.ptr<\w+>)(?:, (\#[^\"\n]+))?>", re.ASCII
)
_TYPE_WORDS = frozenset(("tensor", "vector", "memref", "tuple", "complex"))
_LONGEST_SHAPE = 200

UNKNOWN_TYPE = TtgirType(text="?", kind="unknown", element="?")


class _Body(Struct):
    """The contents of `<...>` of a type or dialect attribute."""

    shape: tuple[int, ...] | None = None
    items: list[Any] = field(default_factory=list)
    params: dict[str, Any] = field(default_factory=dict)


def starts_type(token: str) -> bool:
    """Whether a token can only begin a type."""
    if not token:
        return False
    return (
        token[0] == "!"
        or token.startswith("tensor<")
        or token in _TYPE_WORDS
        or _SCALAR_RE.match(token) is not None
    )


class FileContext:
    """The aliases, types and statement forms of one file; each is parsed once."""

    __slots__ = ("forms", "inline", "layouts", "missing", "name", "type_aliases", "types")

    def __init__(self, name: str) -> None:
        self.name = name
        self.layouts: dict[str, Layout] = {}
        self.inline: dict[str, Layout] = {}  # layouts as types spell them
        self.type_aliases: dict[str, TtgirType] = {}
        self.types: dict[str, TtgirType] = {}
        self.forms: dict[str, StatementForm] = {}
        self.missing: dict[str, None] = {}

    def shaped(self, text: str, line: int) -> TtgirType:
        """The type of a shaped-type token, from the cache if possible."""
        ttgir_type = self.types.get(text)
        if ttgir_type is None:
            ttgir_type = self._tensor(text, line)
            if ttgir_type is not None:
                self.types[text] = ttgir_type
                return ttgir_type
            cursor = Cursor(text, self.name, atoms=True, line=line)
            ttgir_type = parse_type(cursor, self, 0)
            if cursor.peek():
                cursor.fail(f"`{cursor.peek()}` after the type `{text[:60]}`")
            self.types[text] = ttgir_type
        return ttgir_type

    def _tensor(self, text: str, line: int) -> TtgirType | None:
        """The type of a plain tensor, as nearly all are, without tokenising it; None for others."""
        match = _TENSOR_RE.fullmatch(text)
        if match is None:
            return None
        dims, element, layout = match.groups()
        if element[0] != "!" and _SCALAR_RE.match(element) is None:
            return None
        parsed_layout: Any = None
        if layout is not None:
            parsed_layout = self.layouts.get(layout) or self.inline.get(layout)
            if parsed_layout is None:
                cursor = Cursor(layout, self.name, atoms=True, line=line)
                parsed_layout = parse_attribute(cursor, self, 1, typed=False)
                if cursor.peek() or not isinstance(parsed_layout, Layout):
                    return None
                self.inline[layout] = parsed_layout
        shape = tuple([int(size) for size in dims[:-1].split("x")])
        return TtgirType(text, "tensor", element, shape, parsed_layout)

    def layout(self, alias: str) -> Layout:
        """The layout behind an alias; an undefined alias keeps its name alone."""
        layout = self.layouts.get(alias)
        if layout is None:
            self.missing[alias] = None
            layout = Layout(kind="unknown", params={}, text=alias, alias=alias)
        return layout


def parse_attribute(cursor: Cursor, context: FileContext, depth: int, *, typed: bool = True) -> Any:
    """Parse one attribute value.

    Args:
        cursor: at the value's first token; afterwards after its last.
        context: the file's aliases and type cache.
        depth: bracket nesting so far.
        typed: whether a `: type` after the value belongs to it (false for the inline value of an
            operation, whose type is the operation's).

    Raises:
        KinspectError: on malformed or hostile (too deeply nested) text.
    """
    value = _value(cursor, context, depth)
    if typed and isinstance(value, (int, float, str, Dense)) and cursor.peek() == ":":
        following = cursor.tokens[cursor.i + 1]
        if starts_type(following) or following == "(":
            cursor.i += 1
            value_type = parse_type(cursor, context, depth + 1)
            return float_bits(undense(value), value_type.element)
    return undense(value)


def parse_dict(cursor: Cursor, context: FileContext, depth: int) -> dict[str, Any]:
    """Parse `{name = value, unit, ...}`; a name without a value is a unit attribute: True."""
    cursor.expect("{")
    result: dict[str, Any] = {}
    while not cursor.accept("}"):
        key = cursor.take()
        if key[0] == '"':
            key = unquote(key)
        elif not (key[0].isalnum() or key[0] == "_"):
            cursor.i -= 1
            cursor.fail(f"`{key[:40]}` is not an attribute name")
        if cursor.accept("="):
            result[key] = plain(parse_attribute(cursor, context, depth + 1))
        else:
            result[key] = True
        if not cursor.accept(",") and cursor.peek() != "}":
            cursor.fail(f"expected `,` or `}}`, found `{cursor.peek()[:40]}`")
    return result


def parse_type(cursor: Cursor, context: FileContext, depth: int) -> TtgirType:
    """Parses one type; arguments and errors as for `parse_attribute`."""
    if depth > MAX_DEPTH:
        cursor.fail(f"brackets nest deeper than {MAX_DEPTH}")
    start = cursor.i
    token = cursor.take()
    if token[-1] == ">" and len(token) > 1 and token != "->":
        return context.shaped(token, cursor.lines[start])
    if token in context.type_aliases:
        return context.type_aliases[token]
    if token == "(":
        return _function_type(cursor, context, depth, start)
    if token == "<":  # `!tt.ptr` is left out where the operation implies it
        cursor.i = start
        return _from_body("ptr", _body(cursor, context, depth), cursor.spelling(start, cursor.i))
    if cursor.peek() == "<" and (token[0] == "!" or token in _TYPE_WORDS):
        body = _body(cursor, context, depth)
        return _from_body(token, body, cursor.spelling(start, cursor.i))
    if token[0] == "!":
        return TtgirType(text=token, kind=_dialect_kind(token), element=token)
    if _SCALAR_RE.match(token):
        return TtgirType(text=token, kind="scalar", element=token)
    cursor.i = start
    return cursor.fail(f"`{token[:40]}` is not a type")


def _function_type(cursor: Cursor, context: FileContext, depth: int, start: int) -> TtgirType:
    """Parses `(A, B) -> C` from token `start` on."""
    cursor.i = start
    for _ in range(2):
        if cursor.accept("("):
            while not cursor.accept(")"):
                parse_type(cursor, context, depth + 1)
                cursor.accept(",")
        else:
            parse_type(cursor, context, depth + 1)
        if not cursor.accept("->"):
            break
    text = cursor.spelling(start, cursor.i)
    return TtgirType(text=text, kind="function", element=text)


def _dialect_kind(name: str) -> str:
    # "!ttg.async.token" -> "token", "!tt.ptr" -> "ptr"
    return name.rpartition(".")[2].lstrip("!")


def _from_body(name: str, body: _Body, text: str) -> TtgirType:
    """The type `name<...>`."""
    kind = _dialect_kind(name)
    items = body.items
    inner = items[0] if items and isinstance(items[0], TtgirType) else None
    layouts = [item for item in items if isinstance(item, Layout)]
    shape = body.shape or ()
    element = inner.text if inner else text
    if inner is not None and body.shape is None and inner.shape:
        # A pointer to or descriptor of a tensor has the tensor's shape.
        return TtgirType(text, kind, inner.element, inner.shape, inner.layout)
    layout = layouts[0] if layouts else None
    return TtgirType(text, kind, element, shape, layout, body.params.get("allocShape", ()))


def _body(cursor: Cursor, context: FileContext, depth: int) -> _Body:
    """Parses `<...>` of a type or attribute."""
    start = cursor.i
    body = _Body()
    try:
        cursor.expect("<")
        while not cursor.accept(">"):
            _body_item(cursor, context, depth + 1, body)
            cursor.accept(",")
    except KinspectError:
        if depth >= MAX_DEPTH:
            raise
        cursor.i = start
        cursor.skip_balanced("<", ">")
        return _Body()
    return body


def _body_item(cursor: Cursor, context: FileContext, depth: int, body: _Body) -> None:
    """Parses one item of a body: a dictionary, a shape with its element, a parameter or a value."""
    token = cursor.peek()
    if token == "{":
        body.params.update(parse_dict(cursor, context, depth))
        return
    if token[-1:] == "x" and (token[0].isdigit() or token[0] == "?"):
        cursor.i += 1
        if len(token) > _LONGEST_SHAPE:
            cursor.fail("a shape of more digits than any tensor has")
        sizes = tuple(-1 if size == "?" else int(size) for size in token[:-1].split("x"))
        extra = number(cursor.peek()) if cursor.adjacent() else None
        if isinstance(extra, int):  # the allocation's shape after a sub-view's: `, 3x128x64`
            cursor.i += 1
            body.params["allocShape"] = (*sizes, extra)
        elif body.shape is None:
            body.shape = sizes
            body.items.insert(0, parse_type(cursor, context, depth))
        return
    if token[:1].isalpha() and cursor.tokens[cursor.i + 1] == "=":
        cursor.i += 2
        body.params[token] = plain(parse_attribute(cursor, context, depth))
        return
    body.items.append(parse_attribute(cursor, context, depth))


def _value(cursor: Cursor, context: FileContext, depth: int) -> Any:
    """Parses a value without its type."""
    if depth > MAX_DEPTH:
        cursor.fail(f"brackets nest deeper than {MAX_DEPTH}")
    start = cursor.i
    token = cursor.take()
    head = token[0]
    if head.isdigit() or (head == "-" and len(token) > 1 and token != "->"):
        value = number(token)
        if value is None:
            cursor.i = start
            cursor.fail(f"`{token[:40]}` is not an attribute value")
        return value
    if head == '"' and len(token) > 1:
        return unquote(token)
    if head == "@":
        while cursor.accept("::"):
            cursor.take()
        return cursor.spelling(start, cursor.i)
    if token == "[":
        return _array(cursor, context, depth)
    if token == "{":
        cursor.i = start
        return parse_dict(cursor, context, depth)
    if head == "#" and len(token) > 1:
        return _dialect_attribute(cursor, context, depth, start)
    if starts_type(token) or token == "(" or (head == "!" and len(token) > 1):
        cursor.i = start
        return parse_type(cursor, context, depth)
    if head.isalpha() or head == "_":
        return _keyword(cursor, context, depth, start)
    cursor.i = start
    return cursor.fail(f"`{token[:40]}` is not an attribute value")


def _array(cursor: Cursor, context: FileContext, depth: int) -> tuple[Any, ...]:
    values: list[Any] = []
    while not cursor.accept("]"):
        value = plain(parse_attribute(cursor, context, depth + 1))
        if cursor.peek() == ":" and cursor.tokens[cursor.i + 1] == "+":
            cursor.i += 2  # padded_shared's `[interval:+padding]`
            value = (value, number(cursor.take()))
        values.append(value)
        if not cursor.accept(",") and cursor.peek() != "]":
            cursor.fail(f"expected `,` or `]`, found `{cursor.peek()[:40]}`")
    return tuple(values)


def _keyword(cursor: Cursor, context: FileContext, depth: int, start: int) -> Any:
    """Parses the value that the keyword at token `start` begins: `true`, `dense<...>`, ..."""
    token = cursor.tokens[start]
    if token in ("true", "false"):
        return token == "true"
    if token == "unit":
        return True
    if cursor.peek() != "<":
        return Word(token)
    if token == "dense":
        cursor.i += 1
        value: Any = () if cursor.peek() == ">" else _value(cursor, context, depth + 1)
        cursor.expect(">")
        return Dense(value)
    if token == "array":
        cursor.i += 1
        parse_type(cursor, context, depth + 1)
        values: list[Any] = []
        if cursor.accept(":"):
            while cursor.peek() != ">":
                values.append(plain(_value(cursor, context, depth + 1)))
                cursor.accept(",")
        cursor.expect(">")
        return tuple(values)
    # affine_map<(d0) -> (d0)>, dense_resource<...> and others: their text.
    cursor.skip_balanced("<", ">")
    return cursor.spelling(start, cursor.i)


def _dialect_attribute(cursor: Cursor, context: FileContext, depth: int, start: int) -> Any:
    """Parses `#alias` or `#dialect.kind<...>` at token `start`."""
    token = cursor.tokens[start]
    if token in context.layouts:
        return context.layouts[token]
    if "." not in token:
        if cursor.peek() == "<" and cursor.adjacent():  # `#rocdl<sched_group_mask none>`
            cursor.skip_balanced("<", ">")
            return cursor.spelling(start, cursor.i)
        return context.layout(token)
    kind = token.partition(".")[2]
    body = _Body()
    if cursor.peek() == "<" and cursor.adjacent():
        body = _body(cursor, context, depth)
    text = cursor.spelling(start, cursor.i)
    return make_layout(kind, body.params, body.items, text)


def make_layout(kind: str, params: dict[str, Any], items: list[Any], text: str) -> Layout:
    """Builds a `Layout`: old kind names are mapped to new ones, `parent` becomes a field.

    Positional parameters go to `args`; the `[interval:+padding]` list of a padded layout goes to
    `intervals`.
    """
    kind = _OLD_KINDS.get(kind, kind)
    parent = params.pop("parent", None)
    positional = [plain(item) for item in items]
    if kind == "padded_shared" and positional and isinstance(positional[0], tuple):
        params["intervals"] = positional.pop(0)
    if positional:
        params["args"] = tuple(positional)
    if not isinstance(parent, Layout):
        if parent is not None:
            params["parent"] = parent
        parent = None
    return Layout(kind=kind, params=params, text=text, parent=parent)


def with_alias(layout: Layout, alias: str) -> Layout:
    """The layout under the alias that the file gives it."""
    return replace(layout, alias=alias)


_NUMBER_RE = re.compile(r"-?(?:0x[0-9A-Fa-f]+|\d+)(\.\d*(?:[eE][+-]?\d+)?)?\Z")
_ESCAPE_RE = re.compile(r"\\([0-9A-Fa-f]{2}|.)")
_ESCAPES: Mapping[str, str] = {"n": "\n", "t": "\t"}


class Word(Struct, frozen=True):
    """A bare keyword in an attribute, e.g. `mutable`, as opposed to a quoted string."""

    text: str


def plain(value: Any) -> Any:
    """A parsed value for the model: keywords become strings."""
    return value.text if isinstance(value, Word) else value


class Dense(Struct, frozen=True):
    """The elements of `dense<...>`: one number for a splat, else nested tuples."""

    value: Any


def undense(value: Any) -> Any:
    """The elements of a `dense<...>` value (one number for a splat), else the value itself."""
    return value.value if isinstance(value, Dense) else value


_FLOAT_BITS: Mapping[str, tuple[int, int]] = {
    # element -> (exponent bits, mantissa bits) of the IEEE formats MLIR prints as hex
    "f64": (11, 52),
    "f32": (8, 23),
    "f16": (5, 10),
    "bf16": (8, 7),
}


def float_bits(value: Any, element: str) -> Any:
    """A float that MLIR printed as its bits (infinities and NaNs: `0xFF800000 : f32`)."""
    form = _FLOAT_BITS.get(element)
    if form is None or not isinstance(value, int) or isinstance(value, bool):
        return value
    exponent_bits, mantissa_bits = form
    mantissa = value & ((1 << mantissa_bits) - 1)
    exponent = (value >> mantissa_bits) & ((1 << exponent_bits) - 1)
    negative = bool((value >> (exponent_bits + mantissa_bits)) & 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if exponent == (1 << exponent_bits) - 1:
        magnitude = float("nan") if mantissa else float("inf")
    elif exponent == 0:
        magnitude = mantissa * 2.0 ** (1 - bias - mantissa_bits)
    else:
        magnitude = (1 + mantissa / (1 << mantissa_bits)) * 2.0 ** (exponent - bias)
    return -magnitude if negative else magnitude


def unquote(token: str) -> str:
    """The value of a string token, escapes resolved (`\\0A` is a byte in hex)."""

    def unescape(match: re.Match[str]) -> str:
        code = match.group(1)
        return chr(int(code, 16)) if len(code) == 2 else _ESCAPES.get(code, code)

    return _ESCAPE_RE.sub(unescape, token[1:-1]) if "\\" in token else token[1:-1]


def number(token: str) -> int | float | None:
    """The value of a number token, None for any other token."""
    match = _NUMBER_RE.match(token)
    if match is None:
        return None
    if match.group(1) is not None:
        return float(token)
    if "x" in token:
        return int(token, 16)
    try:
        return int(token)
    except ValueError:  # more digits than Python converts; no real attribute has thousands
        return None
