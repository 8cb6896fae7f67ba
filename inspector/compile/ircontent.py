"""What an MLIR text holds, apart from the order of its statements and from how it is printed.

Each statement becomes a key in which its operands are the keys of what defines them, so that equal
collections of keys mean the same data flow, whatever the order and the names. Two keys are made of
each: of all that is printed, and without what versions of Triton print in other ways: attributes,
the types of operands, pointer types.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from .irtext import ALIAS, ALIAS_LINE, strip_locations

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


class Statement(Struct, frozen=True):
    """A line of the text.

    Args:
        line: as it is printed, without location.
        whole: its key.
        bare: its key without what is printed in other ways.
    """

    line: str
    whole: str
    bare: str


class Content(Struct, frozen=True):
    """A text's statements.

    Args:
        statements: in order, definitions of layout aliases left out.
        whole: key -> how many statements have it as `Statement.whole`.
        bare: key -> how many statements have it as `Statement.bare`.
    """

    statements: tuple[Statement, ...]
    whole: Counter[str]
    bare: Counter[str]

    @property
    def bare_digest(self) -> bytes:
        """Of the statements without what is printed in other ways, in their order."""
        return hashlib.sha256("\n".join(s.bare for s in self.statements).encode()).digest()


def content_of(text: str) -> Content:
    """The statements of a TTIR, TTGIR or LLVM dialect text."""
    statements = tuple(_statements(text))
    return Content(
        statements,
        Counter(s.whole for s in statements),
        Counter(s.bare for s in statements),
    )


def changed_lines(first: Content, second: Content, *, bare: bool) -> tuple[set[str], set[str]]:
    """The lines of each side of which the other has no equal."""
    if bare:
        keys = first.bare - second.bare, second.bare - first.bare
    else:
        keys = first.whole - second.whole, second.whole - first.whole
    return tuple(  # type: ignore[return-value]
        {s.line.strip() for s in side.statements if (s.bare if bare else s.whole) in unmatched}
        for side, unmatched in zip((first, second), keys, strict=True)
    )


def _statements(text: str) -> Iterator[Statement]:
    aliases: dict[str, str] = {}
    values: dict[str, tuple[str, str]] = {}
    # The regions around a line: their operations' keys, and which of its regions it is.
    around: list[tuple[str, str]] = []

    def spell(match: re.Match[str]) -> str:
        return aliases.get(match[0], match[0])

    for line in strip_locations(text).splitlines():
        definition = ALIAS_LINE.match(line)
        if definition is not None:
            aliases[definition[1]] = ALIAS.sub(spell, definition[2])
            continue
        body = _COMMENT.sub("", line).strip()
        if not body:
            continue
        if "#" in body:
            body = ALIAS.sub(spell, body)
        results = _RESULTS.match(body)
        operation = body[results.end() :] if results is not None else body
        above = around.pop() if body.startswith("}") and around else None
        context = above or (around[-1] if around else ("", ""))
        bound: list[str] = []
        forms = _forms(operation, values, bound)
        whole, bare = (_key(where, form) for where, form in zip(context, forms, strict=True))
        names = [*(_NAME.findall(results[1]) if results is not None else ()), *bound]
        for n, name in enumerate(names):
            values[name] = (f"{whole}.{n}", f"{bare}.{n}")
        if body.endswith("{"):
            around.append((whole, bare))
        yield Statement(line, whole, bare)


def _forms(text: str, values: dict[str, tuple[str, str]], bound: list[str]) -> tuple[str, str]:
    """A statement with keys for its operands, whole and bare; what it binds goes to `bound`."""
    operands: list[tuple[str, str]] = []

    def number(match: re.Match[str]) -> str:
        end = match.end()
        if text.startswith((" = ", ":"), end):
            bound.append(match[1])
            return f"%bound{len(bound)}"
        keys_of_value = values.get(match[1], ("?", "?"))
        operands.append(keys_of_value)
        return f"%{len(operands) - 1}{match[2] or ''}"

    form = _VALUE.sub(number, text)
    short = _bare(form)
    for n in (0, 1):
        keys = " ".join(operand[n] for operand in operands)
        if n == 0:
            form = f"{form} | {keys}"
        else:
            short = f"{short} | {keys}"
    return form, short


def _bare(form: str) -> str:
    """A statement without attributes, the types of its operands, and pointer types."""
    if form.startswith(_KEYWORDS_ARE_ATTRIBUTES):
        return " ".join([form.split()[0], *_NAME.findall(form)])
    tokens = _TOKEN.findall(form)
    opens = tokens and tokens[-1] == "{"
    bare_tokens = _without_attributes(tokens[:-1] if opens else tokens)
    head, types = _split(bare_tokens)
    if "->" in types:
        last = len(types) - 1 - types[::-1].index("->")
        types = types[last + 1 :]
    text = f"{''.join(head)} : {''.join(types)}" if types else "".join(head)
    text = _POINTER.sub("", _WORD.sub("", text)) if "tensor<" not in text else _alone(text)
    return " ".join(text.split()) + (" {" if opens else "")


def _alone(text: str) -> str:
    """The text without pointer types that are no tensor's elements."""
    return re.sub(r"(?<!x)" + _POINTER.pattern, "", _WORD.sub("", text))


def _without_attributes(tokens: Sequence[str]) -> list[str]:
    """The tokens without dictionaries, but for those within types (`#ttg.blocked<{…}>`)."""
    remaining: list[str] = []
    types = skipped = 0
    for n, token in enumerate(tokens):
        if skipped:
            skipped += (token in ("{", "<{")) - (token in ("}", "}>"))
            continue
        if token == "<{":
            previous = tokens[n - 1] if n else ""
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


def _split(tokens: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before the last ` : ` outside of all brackets, and after it."""
    depth, at = 0, None
    for n, token in enumerate(tokens):
        if token in ("(", "[", "{", "<", "<{"):
            depth += 1
        elif token in (")", "]", "}", ">", "}>"):
            depth = max(depth - 1, 0)  # a line may begin by closing a region
        elif not depth and " : " in f"{token} ":
            at = n
    if at is None:
        return list(tokens), []
    head, _, tail = f"{tokens[at]} ".rpartition(" : ")
    return [*tokens[:at], head], [tail[:-1], *tokens[at + 1 :]]


def _key(context: str, form: str) -> str:
    return hashlib.blake2b(f"{context}\n{form}".encode(), digest_size=12).hexdigest()
