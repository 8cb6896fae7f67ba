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
# A name that is bound here (`%acc = %init`, `%x: f32`), or one that is used (`%pair#1`).
_VALUE = re.compile(r"(%[\w$.-]+)(?:(?= = )|(?=:)|(#\d+)?)")
_COMMENT = re.compile(r"\s*//.*$")
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|->|<\{|\}>|[<>(){}\[\]]|[^"<>(){}\[\]-]+|-')
_POINTER = re.compile(r"!tt\.ptr<[^<>]*>(?:, )?")
_WORD = re.compile(r"\battributes\b")
_KEYWORDS_ARE_ATTRIBUTES = "rocdl."
"""A dialect whose operations have nothing but operands and attributes."""


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
    if bare:
        keys = first.bare - second.bare, second.bare - first.bare
    else:
        keys = first.full - second.full, second.full - first.full
    return tuple(  # type: ignore[return-value]
        {s.line.strip() for s in side.statements if (s.bare if bare else s.full) in unmatched}
        for side, unmatched in zip((first, second), keys, strict=True)
    )


def _statements(text: str) -> Iterator[KeyedStatement]:
    """Yields the statements of a text, line by line.

    A key is over the statement's text with the keys of its operands in place of their names, and
    over the key of the statement that opened the region around it.
    """
    aliases = LayoutAliases()
    values: dict[str, tuple[str, str]] = {}
    # Keys (full, bare) of the statements that opened the regions around the line.
    regions: list[tuple[str, str]] = []
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


def _forms(
    text: str, values: dict[str, tuple[str, str]], bound_names: list[str]
) -> tuple[str, str]:
    """A statement's text, full and bare, with its operands' keys in place of their names."""
    operands: list[tuple[str, str]] = []

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
    if form.startswith(_KEYWORDS_ARE_ATTRIBUTES):
        return " ".join([form.split()[0], *_NAME.findall(form)])
    tokens = _TOKEN.findall(form)
    opens_region = tokens and tokens[-1] == "{"
    bare_tokens = _without_attributes(tokens[:-1] if opens_region else tokens)
    head, types = _split_types(bare_tokens)
    if "->" in types:
        arrow = len(types) - 1 - types[::-1].index("->")
        types = types[arrow + 1 :]
    text = f"{''.join(head)} : {''.join(types)}" if types else "".join(head)
    text = (
        _POINTER.sub("", _WORD.sub("", text))
        if "tensor<" not in text
        else _without_pointer_types(text)
    )
    return " ".join(text.split()) + (" {" if opens_region else "")


def _without_pointer_types(text: str) -> str:
    """The text without pointer types, except for those that are element types of tensors."""
    return re.sub(r"(?<!x)" + _POINTER.pattern, "", _WORD.sub("", text))


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
