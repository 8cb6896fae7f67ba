"""What makes a sentence hard to read: more than 25 words, or an idiom of the project's own."""

from __future__ import annotations

import re
from collections.abc import Iterator

MOST_WORDS = 25
IDIOM = re.compile(
    r"\b(beside|stands? in|in words|of (its|their|your) own|as far as|rests? on|side by side"
    r"|matters only where|cures?|that do not come|no wish at all|meets?|speaks?|tells?|silent"
    r"|keep what lowers)\b",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?:;])[)*\"]*\s+")
_FENCE = re.compile(r"^ *```.*?^ *```$|\x08.*?(?=\n\s*\n)", re.MULTILINE | re.DOTALL)
"""Code: of a page, and of a help text, where Click leaves it as it is."""
_BLOCK = re.compile(r"\n\s*\n|\n(?=\s*[-*] |\s*\d+\. |\||#)|(?<=\|)|(?=\|)")
_CODE, _LINK = re.compile(r"`[^`]*`"), re.compile(r"\[([^\]]*)\]\([^)]*\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, or of a page of Markdown without its code, which is one word."""
    prose = _CODE.sub("X", _COMMENT.sub("", _FENCE.sub("\n\n", text)))
    for block in _BLOCK.split(_LINK.sub(r"\1", prose)):
        yield from filter(None, _END.split(" ".join(block.split())))


def too_long(text: str) -> list[str]:
    """Its sentences of more than 25 words."""
    return [sentence for sentence in sentences(text) if len(sentence.split()) > MOST_WORDS]
