"""Compares MLIR texts by data flow, regardless of statement order and value names.

Each statement gets a key: a hash over its operation and the keys of the statements that define its
operands. Texts with equal collections of keys have the same data flow. There are two keys for each
statement: `full` covers everything that is printed, `bare` leaves out what Triton versions print
differently (attributes, types of operands, pointer types).
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from .mlir_text import LayoutAliases, strip_locations

_RESULTS = re.compile(r"((?:%[\w$.-]+(?::\d+)?(?:, )?)+) = ")
_NAME = re.compile(r"%[\w$.-]+")
# A name that is bound here (`%acc = %init`, `%x: f32`), or one that is used: of `%pair#1` the
# second group is which of the pair's values.
_VALUE = re.compile(r"(%[\w$.-]+)(?:(?= = )|(?=:)|(#\d+)?)")
_COMMENT = re.compile(r"\s*//.*$")
# A string, an arrow, a bracket (`<{` and `}>` around properties are one), or what lies between.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|<\{|\}>|[<>(){}\[\]]|[^"<>(){}\[\]-]+|-')
_POINTER = re.compile(r"!tt\.ptr<[^<>]*>(?:, )?")
_POINTER_NOT_IN_TENSOR = re.compile(rf"(?<!x){_POINTER.pattern}")
_ATTRIBUTES_KEYWORD = re.compile(r"\battributes\b")
_ROCDL = "rocdl."
"""Prefix of a dialect whose operations have nothing but operands and attributes."""
_Keys = tuple[str, str]
"""The keys of a statement: full and bare."""


class KeyedStatement(Struct, frozen=True):
    """A line of the text with its keys."""

    line: str
    full: str
    bare: str


class Content(Struct, frozen=True):
    """A text's statements.

    `statements`: in order, without definitions of layout aliases.
    """

    statements: tuple[KeyedStatement, ...]
    full: Counter[str]
    bare: Counter[str]

    @property
    def bare_digest(self) -> bytes:
        """The hash over the statements' `bare` keys, in order."""
        return hashlib.sha256("\n".join(s.bare for s in self.statements).encode()).digest()


def content_of(text: str) -> Content:
    """Returns the statements of a TTIR, TTGIR or LLVM dialect text."""
    statements = tuple(_statements(text))
    return Content(
        statements,
        Counter(s.full for s in statements),
        Counter(s.bare for s in statements),
    )


def changed_lines(first: Content, second: Content, *, bare: bool) -> tuple[set[str], set[str]]:
    """Returns the lines of each side without a counterpart, by `bare` or `full` keys."""
    return _lines_without(first, second, bare), _lines_without(second, first, bare)


def _lines_without(side: Content, other: Content, bare: bool) -> set[str]:
    """The lines of a side that have no counterpart on the other."""
    unmatched = side.bare - other.bare if bare else side.full - other.full
    return {s.line.strip() for s in side.statements if (s.bare if bare else s.full) in unmatched}


def _statements(text: str) -> Iterator[KeyedStatement]:
    """Yields the statements of a text, line by line.

    A key is over the statement's text with the keys of its operands in place of their names, and
    over the key of the statement that opened the region around it.
    """
    aliases = LayoutAliases()
    values: dict[str, _Keys] = {}
    regions: list[_Keys] = []  # of the statements that opened the regions around the line
    for line in strip_locations(text).splitlines():
        if aliases.define(line) is not None:
            continue
        body = _COMMENT.sub("", line).strip()
        if not body:
            continue
        body = aliases.spell_out(body)
        results = _RESULTS.match(body)
        operation = body[results.end() :] if results is not None else body
        closed_region = regions.pop() if body.startswith("}") and regions else None
        context = closed_region or (regions[-1] if regions else ("", ""))
        bound_names: list[str] = []
        forms = _forms(operation, values, bound_names)
        full, bare = (_key(where, form) for where, form in zip(context, forms, strict=True))
        names = [*(_NAME.findall(results[1]) if results is not None else ()), *bound_names]
        for index, name in enumerate(names):
            values[name] = (f"{full}.{index}", f"{bare}.{index}")
        if body.endswith("{"):
            regions.append((full, bare))
        yield KeyedStatement(line, full, bare)


def _forms(text: str, values: dict[str, _Keys], bound_names: list[str]) -> tuple[str, str]:
    """A statement's text, full and bare, with its operands' keys in place of their names.

    Appends the names that the statement binds to `bound_names`.
    """
    operands: list[_Keys] = []

    def placeholder(match: re.Match[str]) -> str:
        end = match.end()
        if text.startswith((" = ", ":"), end):
            bound_names.append(match[1])
            return f"%bound{len(bound_names)}"
        keys_of_value = values.get(match[1], ("?", "?"))
        operands.append(keys_of_value)
        return f"%{len(operands) - 1}{match[2] or ''}"

    form = _VALUE.sub(placeholder, text)
    full_keys = " ".join(full for full, _ in operands)
    bare_keys = " ".join(bare for _, bare in operands)
    return f"{form} | {full_keys}", f"{_bare(form)} | {bare_keys}"


def _bare(form: str) -> str:
    """The form without attributes, the types of operands, and pointer types."""
    if form.startswith(_ROCDL):
        return " ".join([form.split()[0], *_NAME.findall(form)])
    tokens = _TOKEN.findall(form)
    opens_region = tokens and tokens[-1] == "{"
    bare_tokens = _without_attributes(tokens[:-1] if opens_region else tokens)
    head, types = _split_types(bare_tokens)
    if "->" in types:
        arrow = len(types) - 1 - types[::-1].index("->")
        types = types[arrow + 1 :]
    text = f"{''.join(head)} : {''.join(types)}" if types else "".join(head)
    pointer = _POINTER_NOT_IN_TENSOR if "tensor<" in text else _POINTER
    text = pointer.sub("", _ATTRIBUTES_KEYWORD.sub("", text))
    return " ".join(text.split()) + (" {" if opens_region else "")


def _without_attributes(tokens: Sequence[str]) -> list[str]:
    """The tokens without attribute dictionaries, except within types (`#ttg.blocked<{…}>`)."""
    remaining: list[str] = []
    types = skipped = 0
    for index, token in enumerate(tokens):
        if skipped:
            skipped += (token in ("{", "<{")) - (token in ("}", "}>"))
            continue
        if token == "<{":
            previous = tokens[index - 1] if index else ""
            if not types and previous.endswith((" ", ")", '"')):  # properties of an operation
                skipped = 1
                continue
            types += 1
        elif token == "}>":
            types -= 1
        elif token == "<":
            types += 1
        elif token == ">":
            types -= 1
        elif token == "{" and not types:
            skipped = 1
            continue
        remaining.append(token)
    return remaining


def _split_types(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tokens before and after the last ` : ` that is outside of all brackets."""
    depth, colon = 0, None
    for index, token in enumerate(tokens):
        if token in ("(", "[", "{", "<", "<{"):
            depth += 1
        elif token in (")", "]", "}", ">", "}>"):
            depth = max(depth - 1, 0)  # a line may begin by closing a region
        elif not depth and " : " in f"{token} ":
            colon = index
    if colon is None:
        return list(tokens), []
    head, _, tail = f"{tokens[colon]} ".rpartition(" : ")
    return [*tokens[:colon], head], [tail[:-1], *tokens[colon + 1 :]]


def _key(context: str, form: str) -> str:
    return hashlib.blake2b(f"{context}\n{form}".encode(), digest_size=12).hexdigest()
