"""YAML for rule packs: read from hostile or damaged text without surprises.

A pack is data that a stranger may have written. Anchors and tags, which let a small text become a
huge or a foreign value, are refused, and so is deep nesting, on which libyaml's own way of building
a tree overflows the stack. The tree is therefore built here, from the parser's events.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from ..base.documents import is_nested, yaml_loader
from ..base.errors import KinspectError
from ..base.named_files import opened

MAX_BYTES = 1 << 20
MAX_DEPTH = 64

_TEXT, _SEQUENCE, _MAPPING = (f"tag:yaml.org,2002:{name}" for name in ("str", "seq", "map"))
_STANDARD = frozenset(
    {_TEXT, _SEQUENCE, _MAPPING}
    | {f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null")}
)
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Fault(Struct, frozen=True, order=True):
    """An error in a pack and its place; lines and columns count from 1."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}: {self.message}"


class PackError(KinspectError):
    """A pack that cannot be used, with all of its faults."""

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)), "correct these lines of the rule pack")
        self.faults = faults

    def __reduce__(self) -> Any:
        return (PackError, (self.faults,))


class DocumentError(Exception):
    """The text is no acceptable YAML; `index` is the character that it is about, from 0.

    `unquoted` says the same without a word of the text.
    """

    def __init__(self, message: str, index: int, unquoted: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.index = index
        self.unquoted = unquoted or message


def read(path: Path) -> str:
    """A pack's text.

    Raises:
        KinspectError: the file cannot be read, is too large, or is not in UTF-8.
    """
    failed = f"cannot read rule pack {path}"
    try:
        with opened(path, pipes=True) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or error
        raise KinspectError(f"{failed}: {problem}", "give the path of a YAML file") from error
    if len(data) > MAX_BYTES:
        raise KinspectError(
            f"{failed}: larger than {MAX_BYTES:,} bytes", "split it, and join the parts by extends"
        )
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        readable = data[: error.start]
        line, column = readable.count(b"\n") + 1, error.start - readable.rfind(b"\n")
        raise KinspectError(
            f"{failed}: {path}:{line}:{column}: not text in UTF-8", "save it in UTF-8"
        ) from None


def compose(text: str) -> yaml.Node | None:
    """The tree of the one document in `text`, its nodes with their marks; None if there is none.

    Raises:
        DocumentError: bad syntax, anchors, tags, deep nesting or a second document.
    """
    if len(text) > MAX_BYTES:
        raise DocumentError(f"longer than {MAX_BYTES:,} characters", 0)
    strange = _UNPRINTABLE.search(text)
    if strange:
        raise DocumentError(
            f"character U+{ord(strange[0]):04X} has no place in a pack", strange.start()
        )
    loader = yaml_loader()(text)
    try:
        return _Tree(loader).root()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        if is_nested(text, mark, MAX_DEPTH):  # libyaml's bound, which it meets while it looks ahead
            raise DocumentError(f"nested more than {MAX_DEPTH} deep", _index(text, mark)) from None
        message = error.problem or error.context or "not YAML"
        raise DocumentError(message, _index(text, mark) if mark else 0) from None
    except yaml.YAMLError as error:
        raise DocumentError(" ".join(str(error).split()), 0) from None
    finally:
        loader.dispose()


def _index(text: str, mark: Any) -> int:
    """The C parser counts the characters in some errors' marks and the bytes in others'."""
    lines = text.splitlines(keepends=True)
    return min(sum(map(len, lines[: mark.line])) + int(mark.column), len(text))


class _Tree:
    """Builds nodes from events; how deep it goes is counted, not left to the stack."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._open: list[tuple[yaml.CollectionNode, list[yaml.Node]]] = []
        self._root: yaml.Node | None = None
        self._plain_tags: dict[str, str] = {}
        self._documents = 0

    def root(self) -> yaml.Node | None:
        get, steps = self._loader.get_event, self._steps()
        while True:
            event = get()
            if event is None:
                return self._root
            step = steps.get(type(event))
            if step is not None:
                step(event)

    def _steps(self) -> dict[type, Callable[[Any], None]]:
        return {
            yaml.ScalarEvent: self._scalar,
            yaml.SequenceStartEvent: lambda e: self._enter(yaml.SequenceNode, _SEQUENCE, e),
            yaml.MappingStartEvent: lambda e: self._enter(yaml.MappingNode, _MAPPING, e),
            yaml.SequenceEndEvent: self._leave,
            yaml.MappingEndEvent: self._leave,
            yaml.AliasEvent: self._alias,
            yaml.DocumentStartEvent: self._document,
        }

    def _scalar(self, event: Any) -> None:
        plain, _ = event.implicit
        tag = self._plain_tag(event) if plain else _TEXT
        tag = self._stated_tag(event) or tag
        node = yaml.ScalarNode(tag, event.value, event.start_mark, event.end_mark, event.style)
        self._add(node)

    def _plain_tag(self, event: Any) -> str:
        """The tag that a plain scalar has by its text; most texts are keys, which repeat."""
        tag = self._plain_tags.get(event.value)
        if tag is None:
            tag = self._loader.resolve(yaml.ScalarNode, event.value, event.implicit)
            self._plain_tags[event.value] = tag
        return tag

    def _enter(self, kind: type[yaml.CollectionNode], tag: str, event: Any) -> None:
        if len(self._open) >= MAX_DEPTH:
            raise DocumentError(f"nested more than {MAX_DEPTH} deep", event.start_mark.index)
        tag = self._stated_tag(event) or tag
        node = kind(tag, [], event.start_mark, None, event.flow_style)
        self._add(node)
        self._open.append((node, []))

    def _leave(self, event: Any) -> None:
        node, children = self._open.pop()
        node.end_mark = event.end_mark
        if isinstance(node, yaml.MappingNode):
            node.value = list(zip(children[::2], children[1::2], strict=True))
        else:
            node.value = children

    def _alias(self, event: Any) -> None:
        raise DocumentError(_NO_ANCHORS, event.start_mark.index)

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            message = "a second document starts here; a file holds one pack"
            raise DocumentError(message, event.start_mark.index)

    def _stated_tag(self, event: Any) -> str | None:
        """The tag written out, if it is one of YAML's own; `!` alone says nothing."""
        if event.anchor is not None:
            raise DocumentError(_NO_ANCHORS, event.start_mark.index)
        if event.tag is None or event.tag == "!":
            return None
        if event.tag not in _STANDARD:
            hint = "has no meaning here; write the plain value"
            raise DocumentError(
                f"the tag {event.tag} {hint}", event.start_mark.index, f"this tag {hint}"
            )
        return str(event.tag)

    def _add(self, node: yaml.Node) -> None:
        if self._open:
            self._open[-1][1].append(node)
        else:
            self._root = node


_NO_ANCHORS = "anchors and aliases (& and *) are not allowed in a pack; write the value out"
