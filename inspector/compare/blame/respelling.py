"""TTGIR of an older Triton as a newer one spells it, so that it can take it over."""

from __future__ import annotations

import re

_BUFFER_ACCESS = re.compile(
    r"(amdg\.buffer_(?:load|store)(?!_)\b[^\n]*?) : (tensor<(?:\d+x)+([^,<>]+|!tt\.ptr<[^<>]*>), )"
)
_COPY_INTO_LDS = re.compile(
    r"(amdg\.buffer_load_to_local\b[^\n]*?) : <([^<>]+)>\[(?=tensor<[^\n]*?\] +-> )"
)
_DIALECT = re.compile(r"\bamdgpu\.(?=[a-z_]+[ (])")
_WARPS_OF_WMMA = re.compile(r"(#ttg\.amd_wmma<\{[^{}]*)\bwarpsPerCTA = \[(?P<counts>[\d, ]+)\]")
_SCHED_BARRIER = re.compile(r"(rocdl\.sched\.barrier) ([01])\b")
_MASKS = {"0": "none", "1": "non_mem_non_sideeffect"}
"""Masks of scheduling barriers as numbers, and the words that MLIR prints for them since."""


def newer_spellings(text: str) -> tuple[str, ...]:
    """Returns TTGIR as later versions of Triton spell it, the least changed first.

    The AMD dialect has a shorter name since 3.6. Since 3.7 the layout of a WMMA instruction says
    which bit of a wave's number moves it by which step, where it said how many waves lie along each
    dimension, the last one first. Since 3.9 buffer accesses state the pointer's type
    in full, and scheduling barriers have words for numbers. Operations that changed in other ways
    stay as they are, and are refused by the newer parser.

    Returns:
        The texts that differ from each other and from the one given.
    """
    since_3_6 = _DIALECT.sub("amdg.", text)
    since_3_7 = _WARPS_OF_WMMA.sub(_warps, since_3_6)
    since_3_9 = _COPY_INTO_LDS.sub(r"\1 : !tt.ptr<\2>[", since_3_7)
    since_3_9 = _SCHED_BARRIER.sub(lambda match: f"{match[1]} {_MASKS[match[2]]}", since_3_9)
    since_3_9 = _BUFFER_ACCESS.sub(_access, since_3_9)
    spellings = dict.fromkeys((since_3_6, since_3_7, since_3_9))
    return tuple(item for item in spellings if item != text)


def _warps(match: re.Match[str]) -> str:
    counts = [int(count) for count in match["counts"].split(",")]
    steps = [
        [1 << bit if other == dimension else 0 for other in range(len(counts))]
        for dimension in reversed(range(len(counts)))
        for bit in range(counts[dimension].bit_length() - 1)
    ]
    return f"{match[1]}ctaLayout = {{warp = {steps}}}"


def _access(match: re.Match[str]) -> str:
    head, tensor, element = match.groups()
    return f"{head} : !tt.ptr<{element}> -> {tensor}"
