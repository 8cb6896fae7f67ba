"""TTGIR of an older Triton as a newer one spells it, so that it can take it over."""

from __future__ import annotations

import re

_BUFFER_ACCESS = re.compile(
    r"(amdg\.buffer_(?:load|store)(?!_)\b[^\n]*?) : (tensor<(?:\d+x)+([^,<>]+|!tt\.ptr<[^<>]*>), )"
)
_COPY_INTO_LDS = re.compile(
    r"(amdg\.buffer_load_to_local\b[^\n]*?) : <([^<>]+)>\[(?=tensor<[^\n]*?\] +-> )"
)
_SCHED_BARRIER = re.compile(r"(rocdl\.sched\.barrier) ([01])\b")
_MASKS = {"0": "none", "1": "non_mem_non_sideeffect"}
"""Masks of scheduling barriers as numbers, and the words that MLIR prints for them since."""


def newer_ttgir(text: str) -> str:
    """Returns TTGIR as Triton 3.9 spells it.

    Buffer accesses state the pointer's type in full, scheduling barriers have words for numbers.
    Operations that changed in other ways stay as they are, and are refused by the newer parser.
    """
    text = _COPY_INTO_LDS.sub(r"\1 : !tt.ptr<\2>[", text)
    text = _SCHED_BARRIER.sub(lambda match: f"{match[1]} {_MASKS[match[2]]}", text)
    return _BUFFER_ACCESS.sub(_access, text)


def _access(match: re.Match[str]) -> str:
    head, tensor, element = match.groups()
    return f"{head} : !tt.ptr<{element}> -> {tensor}"
