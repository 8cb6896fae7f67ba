"""Where addresses, sizes and the lanes' distances come from: words of the kernel's arguments, by
their offsets and known values, or of its dispatch packet.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any, Final

from ..isa.dataflow.operands import Operand
from ..isa.dataflow.value_graph import Operation, graph_of, registers
from ..model import Function
from .subject import LaunchedCode, Subject

if TYPE_CHECKING:
    from ..lanes.unknowns import Arguments


KERNARG, DISPATCH = "kernarg", "dispatch"

Word = tuple[str, int]
"""Where a word lies: `KERNARG` or `DISPATCH`, and bytes from there."""
_MOVES: Final = ("s_mov_b",)
_ADDS: Final = ("s_add_u32", "s_add_u64")
_LOADS: Final = ("global_load", "lds_direct", "smem_load")
WORD_BYTES: Final = 4


def loaded_word(function: Function, source: Operand, maker: Operation | None) -> Word | None:
    """The word that the first register of a source holds; None of anything else.

    `source`: what an operation reads; `maker`: the operation that made it.
    """
    if maker is None:
        return _preloaded_word(function, source)
    if maker.inst.cls != "smem_load" or not maker.sources:
        return None
    begin = _pointed_to(function, maker.sources[0], maker.argument)
    added = maker.sources[1:]
    # Behind an offset in a register lies whatever lies there.
    if begin is None or any(map(registers, added)) or "offset" in maker.parts.modifiers:
        return None
    place, offset = begin
    offset += sum(operand.integer or 0 for operand in added)
    return place, offset + WORD_BYTES * (source.first - maker.results[0].first)


def _preloaded_word(function: Function, source: Operand) -> Word | None:
    """The argument that a register holds when waves begin."""
    start = function.resources.wave_start
    if start is None or start.preload_sgpr is None or source.kind != "sgpr":
        return None
    word = source.first - start.preload_sgpr
    if word not in range(start.preload_dwords):
        return None
    return KERNARG, WORD_BYTES * (start.preload_offset + word)


def _pointed_to(function: Function, source: Operand, maker: Operation | None) -> Word | None:
    """Where a pointer points to."""
    offset = 0
    while maker is not None and maker.sources and maker.name.startswith((*_MOVES, *_ADDS)):
        if maker.name.startswith(_ADDS):
            constant = maker.sources[-1].integer
            if constant is None:
                return None
            offset += constant
        source, maker = maker.sources[0], maker.makers[0]
    start = function.resources.wave_start
    if start is None or maker is not None or source.kind != "sgpr":
        return None
    places = {start.kernarg_ptr: KERNARG, start.dispatch_ptr: DISPATCH}
    place = places.get(source.first)
    return None if place is None else (place, offset)


def pointers_read(function: Function, code: Iterable[Operation]) -> dict[Operation, frozenset[int]]:
    """Operation -> offsets of the pointer arguments that what it reads is computed from.

    What a vector load brings is not followed further.

    `code`: its operations in the order in which they are executed.
    """
    arguments = function.resources.pointers or ()
    found: dict[Operation, frozenset[int]] = {}
    for operation in code:
        read: set[int] = set()
        for source, maker in zip(operation.sources, operation.makers, strict=True):
            word = loaded_word(function, source, maker)
            if word is not None and word[0] == KERNARG:
                read.update(p for p in arguments if word[1] in (p, p + WORD_BYTES))
            elif maker is not None and maker.inst.cls not in _LOADS:
                read |= found[maker]
        found[operation] = frozenset(read)
    return found


_BOUNDS: Final = re.compile(r"[sv]_cmpx?_|v_cvt_f(?:32|64)_[iu]32")
"""Comparisons, and the first step of an integer division."""
_COPIES: Final = re.compile(
    r"s_mov_b|v_mov_b32|v_readfirstlane_b32|s_ashr_i|v_ashrrev_i32|s_abs_i32"
    r"|s_addk?_i32|s_add_u32|s_sub_[iu]32|s_mul_|s_xor_b|s_addc_u32|v_mul_lo_u32"
)
"""Copies, extensions by the sign, absolute values, products, and steps of a loop's counter."""
_MOST_ELEMENT_BYTES: Final = 64
_BITS: Final = {4: 32, 8: 64}
"""Bytes of an integer argument -> its bits."""
_MOST_ARGUMENTS: Final = 24


class SizeArguments:
    """The arguments of a kernel that are sizes, looked for when they are first asked for."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._factors: dict[int, list[Sequence[int]]] | None = None
        """Bits of a number -> sizes and products of two, each in all draws."""

    def divide(self, steps: Sequence[int | None]) -> bool:
        """Whether a distance of lanes is a small multiple of a size, or of a product of two.

        `steps`: bytes from one lane to the next in each draw of the arguments; None in draws that
        do not count.
        """
        if self._factors is None:
            self._factors = self._drawn()
        return any(
            _is_multiple(steps, factor, bits)
            for bits, factors in self._factors.items()
            for factor in factors
        )

    def _drawn(self) -> dict[int, list[Sequence[int]]]:
        subject = self._subject
        offsets = compared_arguments(subject.function)[:_MOST_ARGUMENTS]
        if not offsets:
            return {}
        from ..lanes.unknowns import Arguments, DrawnMemory

        drawn = DrawnMemory(known_arguments(subject) or Arguments())
        factors: dict[int, list[Sequence[int]]] = {}
        for width, bits in _BITS.items():
            sizes = [drawn.argument(offset, width).tolist() for offset in offsets]
            pairs = combinations_with_replacement(sizes, 2)
            products = [[a * b for a, b in zip(*pair, strict=True)] for pair in pairs]
            factors[bits] = [*sizes, *products]
        return factors


def _is_multiple(steps: Sequence[int | None], factor: Sequence[int], bits: int) -> bool:
    """Whether steps are the same small multiple of numbers, as far as `bits` hold them."""
    return any(
        all(
            step is None or (step - times * number) % (1 << bits) == 0
            for step, number in zip(steps, factor, strict=True)
        )
        for times in range(1, _MOST_ELEMENT_BYTES + 1)
    )


def compared_arguments(function: Function) -> list[int]:
    """Offsets of the arguments that a kernel compares with something or divides by, ascending.

    Values are followed in the order of the code: a register that was written on another way only
    may be taken for an argument.
    """
    arguments: dict[Operation | None, frozenset[int]] = {}
    """Operation -> offsets of the arguments that its result is a copy or a product of."""
    compared: set[int] = set()
    for operation in graph_of(function).in_order:
        held: set[int] = set()
        for source, maker in zip(operation.sources, operation.makers, strict=True):
            place, offset = loaded_word(function, source, maker) or (None, 0)
            if place == KERNARG:
                held.update(range(offset, offset + WORD_BYTES * source.count, WORD_BYTES))
            held |= arguments.get(maker, frozenset())
        if _BOUNDS.match(operation.name):
            compared |= held
        if held and _COPIES.match(operation.name):
            arguments[operation] = frozenset(held)
    return sorted(compared)


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
