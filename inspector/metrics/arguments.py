"""A kernel's arguments: their offsets in the kernel argument segment, and their known values."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from .subject import LaunchedCode

if TYPE_CHECKING:
    from ..lanes.unknowns import Arguments

ARGUMENT_FORMATS: Final = {
    "i1": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q",
    "u1": "B", "u8": "B", "u16": "H", "u32": "I", "u64": "Q",
    "fp32": "f", "f32": "f", "fp64": "d", "f64": "d", "fp16": "e", "f16": "e",
}  # fmt: skip
"""Triton's scalar types and their codes for `struct`, which has none for bf16."""
_SIZES: Final = {
    "bf16": 2,
    **{name: struct.calcsize(f"<{code}") for name, code in ARGUMENT_FORMATS.items()},
}


def arguments_of(
    signature: Mapping[str, str],
    values: Mapping[str, int],
    attributes: Mapping[str, Mapping[str, Any]],
) -> Arguments:
    """The known arguments of a Triton kernel; each is aligned to its own size.

    Args:
        signature: name -> Triton type.
        values: integers that a launch passed.
        attributes: name -> facts that Triton notes of an argument (`tt.divisibility`).
    """
    from ..lanes.unknowns import Arguments

    words: dict[int, int] = {}
    pointers: set[int] = set()
    loose: set[int] = set()
    for name, offset in argument_offsets(signature).items():
        argument_type = signature[name]
        if offset is None:  # its offset is unknown
            return Arguments(words, None, frozenset(loose))
        size = size_of(argument_type) or 0
        if argument_type.startswith("*"):
            pointers.add(offset)
        elif size >= 4 and argument_type[0] in "iu":
            if name in values:
                words[offset] = values[name]
                if size == 8:
                    words[offset + 4] = values[name] >> 32
            elif attributes.get(name, {}).get("tt.divisibility") != 16:
                loose.add(offset)
    return Arguments(words, frozenset(pointers), frozenset(loose))


def argument_offsets(signature: Mapping[str, str]) -> dict[str, int | None]:
    """Offsets of a Triton kernel's arguments in its segment; None after one of unknown size."""
    offsets: dict[str, int | None] = {}
    offset: int | None = 0
    for name, argument_type in signature.items():
        if argument_type == "constexpr":
            continue
        size = size_of(argument_type)
        if size is None or offset is None:
            offsets[name] = offset = None
            continue
        offset = -(-offset // size) * size
        offsets[name] = offset
        offset += size
    return offsets


def size_of(argument_type: str) -> int | None:
    """Bytes of an argument of a Triton type; None for an unknown type."""
    return 8 if argument_type.startswith("*") else _SIZES.get(argument_type)


def known_arguments(
    subject: LaunchedCode, shape: tuple[int, int, int] | None = None
) -> Arguments | None:
    """The known arguments of a launch, the workgroup's size among the hidden ones.

    `shape`: work-items of the workgroup in x, y, z; None where they are not known.
    """
    facts, resources = subject.facts, subject.function.resources
    if facts.signature:
        return arguments_of(facts.signature, facts.values or {}, facts.attributes)
    from ..lanes.unknowns import Arguments

    words = {}
    size_offset = resources.group_size_offset
    if size_offset is not None and shape is not None:
        x, y, z = shape
        words = {size_offset: x | y << 16, size_offset + 4: z}
    pointers = resources.pointers
    return Arguments(words, None if pointers is None else frozenset(pointers))
