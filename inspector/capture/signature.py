"""Parses a specialisation that the command line states by `--signature` and `-D`.

    --signature "*fp16:16, *fp16:16, i32:16, 64" -D num_warps=8
    --signature "x=*fp16:16, n=i32" -D BLOCK=1024

Arguments go by position or by name; a number, True, False or None is the value of a constexpr. `-D`
adds constexprs and options, which only the guest, with the kernel at hand, can distinguish.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ..base.documents import literal
from ..base.errors import KinspectError

_NAMED = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<text>.*)", re.S)
_EXAMPLE = 'for example --signature "*fp16:16, *fp16:16, i32" -D BLOCK=1024 -D num_warps=4'


def parse_signature(signature: str | None, defines: Sequence[str]) -> dict[str, Any]:
    """The parts of a stated specialisation.

    Returns:
        `positional`: list of arguments, `named`: name -> argument, `defines`: name -> value. An
        argument is `{"type": text}` or `{"value": constant}`.

    Raises:
        KinspectError: a part cannot be parsed.
    """
    positional: list[dict[str, Any]] = []
    named: dict[str, dict[str, Any]] = {}
    for part in _split(signature or ""):
        match = _NAMED.fullmatch(part)
        if match is not None:
            named[match["name"]] = _argument(match["text"])
        elif named:
            raise KinspectError(
                f"--signature: {part.strip()!r} has no name, but one before it has", _EXAMPLE
            )
        else:
            positional.append(_argument(part))
    values: dict[str, Any] = {}
    for text in defines:
        name, equals, value = text.partition("=")
        if not equals or not name.strip().isidentifier():
            raise KinspectError(f"-D {text}: not of the form NAME=VALUE", _EXAMPLE)
        values[name.strip()] = _literal(value.strip())
    return {"positional": positional, "named": named, "defines": values}


def _literal(text: str) -> Any:
    """A literal that JSON can hold, or the text itself: `64`, `1e-6`, `True`, `None`, `relu`."""
    try:
        value = literal(text)
    except ValueError:
        return text
    return value if _is_plain(value) else text


def _is_plain(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def _argument(text: str) -> dict[str, Any]:
    text = text.strip()
    if not text:
        raise KinspectError("--signature: an argument is empty", _EXAMPLE)
    value = _literal(text)
    return {"type": text} if isinstance(value, str) and value == text else {"value": value}


def _split(text: str) -> Iterator[str]:
    depth, start = 0, 0
    for index, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>")
        if letter == "," and not depth:
            yield text[start:index]
            start = index + 1
    if text.strip():
        yield text[start:]
