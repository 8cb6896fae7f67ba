"""YAML for rule packs: read from hostile or damaged text without surprises.

A pack is data that a stranger may have written. Anchors and tags, which let a small text become a
huge or a foreign value, are refused, and so is deep nesting, on which libyaml's own way of building
a tree overflows the stack: the parser's events are looked through before a tree is built.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from ..base.documents import is_nested, yaml_loader
from ..base.errors import KinspectError
from ..base.named_files import opened

MAX_BYTES = 1 << 20
MAX_DEPTH = 64

_NAMES = ("str", "seq", "map", "int", "float", "bool", "null")
_STANDARD = frozenset((None, "!", *(f"tag:yaml.org,2002:{name}" for name in _NAMES)))
"""Tags of values, or none: `!` alone says nothing."""
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


def compose(text: str, *, trusted: bool = False) -> yaml.Node | None:
    """The tree of the one document in `text`, its nodes with their marks; None if there is none.

    What is `trusted` is not looked through first.

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
    kind = yaml_loader()
    loader = kind(text)
    try:
        if not trusted:
            _check(loader)
        return yaml.compose(text, kind)
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


def _check(loader: Any) -> None:
    """Refuses what composing could not stand, in the order of the text."""
    depth = documents = 0
    while (event := loader.get_event()) is not None:
        at = event.start_mark.index
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise DocumentError("a second document starts here; a file holds one pack", at)
        elif isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise DocumentError(f"nested more than {MAX_DEPTH} deep", at)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if getattr(event, "anchor", None) is not None:  # of a node, or of an alias
            raise DocumentError(_NO_ANCHORS, at)
        tag = getattr(event, "tag", None)
        if tag not in _STANDARD:
            hint = "has no meaning here; write the plain value"
            raise DocumentError(f"the tag {tag} {hint}", at, f"this tag {hint}")


_NO_ANCHORS = "anchors and aliases (& and *) are not allowed in a pack; write the value out"
