"""Memory accesses that could be buffer operations and are not, and the reasons.

A buffer operation takes one base for the wave and a 32-bit offset per lane, half the registers of a
64-bit pointer per lane, and its hardware bounds check replaces the branch around a masked access.
Triton 3.9 (third_party/amd ConvertToBufferOps, run for every AMD target; tried on gfx90a, gfx942,
gfx1030, gfx1201 and gfx1250) makes one where the pointers are one base plus offsets and either the
base is an argument with `tt.pointer_range = 32` (the launcher adds it for tensors of at most 2 GiB)
or the offsets are 32 bits and proved to lie between 0 and 2 GiB. The proof is by ranges: an
argument, a program's index or a loaded value may be anything but for what `tl.assume` says of it,
and a product may overflow (tried: bounds from both sides suffice, `x >= 0` alone does not).

Into which tensors of a kernel an access points, and which loops are around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from ..model import TtgirOp
from .flow import UNKNOWN, DataFlow, values_behind
from .queries import LOADS, STORES
from .result_types import FUNCTIONS

_SHAPES = frozenset(
    ("tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "ttg.convert_layout")
)
_PLAIN = frozenset(("tt.load", "tt.store"))
"""Plain accesses take a 64-bit pointer per lane; buffer operations and descriptors do not."""
_UNBOUNDED = LOADS | {"tt.get_program_id"}
_MOST_SOURCES = 3
_POINTER_RANGE = "tt.pointer_range"
_OFFSET_WIDE = "the offsets are 64 bits wide"
_OFFSET_UNKNOWN = "the offsets are not proved to lie between 0 and 2 GiB"
_CARRIED = "the pointers themselves are carried through the loop"
_SWITCHED_OFF = "buffer operations are switched off, or this Triton has none"


class PlainAccess(Struct, frozen=True):
    """A `tt.load` or `tt.store` of a tile that could be a buffer operation.

    Attributes:
        reason: why it is none, for people.
    """

    op: TtgirOp
    reason: str


class _Base(Struct, frozen=True):
    """What a tile's pointers start from.

    Attributes:
        value: the scalar pointer; `UNKNOWN` where they do not start from one scalar.
        offset_element: element type of the last offset added, e.g. `i32`; None without offsets.
        offsets: the tiles that are added.
    """

    value: int
    offset_element: str | None
    offsets: Sequence[int] = ()


def plain_accesses(flow: DataFlow) -> tuple[tuple[PlainAccess, ...], int]:
    """The tiles that are accessed through 64-bit pointers although one base would do.

    Accesses whose elements have pointers of their own cannot be buffer operations and are left out.

    Returns:
        Those accesses, and the number of all tiles that are read or written.
    """
    accesses: list[PlainAccess] = []
    tiles = 0
    for op in flow.module.ops:
        if op.name not in LOADS and op.name not in STORES:
            continue
        if not any(
            value_type.kind == "tensor" for value_type in (*op.operand_types, *op.result_types)
        ):
            continue
        tiles += 1
        if op.name in _PLAIN:
            reason = _reason(flow, op)
            if reason is not None:
                accesses.append(PlainAccess(op, reason))
    return tuple(accesses), tiles


def _reason(flow: DataFlow, access: TtgirOp) -> str | None:
    """The reason that an access is no buffer operation; None where it could not be one."""
    pointer = flow.operands[access.index][0]
    base = _base(flow, pointer)
    if base.value == UNKNOWN:
        return None
    argument = _argument(flow, base.value)
    if argument is not None:
        name, attributes = argument
        if _is_descriptor(flow, name):
            return None  # Triton does not pass on the size of its tensor
        if attributes.get(_POINTER_RANGE) != 32:
            return f"{name} has no {_POINTER_RANGE}: {_unproved(flow, base)}"
        return _SWITCHED_OFF if flow.op(pointer) is not None else _CARRIED
    if flow.op(pointer) is None:
        return _CARRIED
    return _OFFSET_UNKNOWN if base.offset_element == "i32" else _OFFSET_WIDE


def _unproved(flow: DataFlow, base: _Base) -> str:
    """Why offsets into a tensor of any size are none of a buffer operation."""
    larger = "its tensor may be larger than 2 GiB"
    if base.offset_element not in (None, "i32"):
        return f"{larger}, and {_OFFSET_WIDE}"
    sources = _unbounded(flow, base.offsets)
    if not sources:
        return larger
    more = " and others" if len(sources) > _MOST_SOURCES else ""
    return (
        f"{larger}, and {_OFFSET_UNKNOWN}: they rest on {', '.join(sources[:_MOST_SOURCES])}{more}"
    )


def _unbounded(flow: DataFlow, offsets: Sequence[int]) -> list[str]:
    """The arguments, programs' indices and loaded values that offsets are computed from."""
    names = dict[str, None]()
    pending, visited = list(offsets), set[int]()
    while pending:
        for value, op in values_behind(flow, [pending.pop()], _UNBOUNDED):
            if value in visited or value == UNKNOWN:
                continue
            visited.add(value)
            if op is not None and op.name in LOADS:
                line = op.loc.in_user_code.line if op.loc is not None else None
                names["values loaded" + (f" in line {line}" if line else "")] = None
            elif op is not None and op.name == "tt.get_program_id":
                names[f"program_id({op.attributes.get('axis')})"] = None
            elif op is None and value not in flow.carried:
                owner = flow.module.ops[flow.maker[value]]
                if owner.name in FUNCTIONS:
                    names[flow.argument_name(value)] = None
                elif owner.name == "scf.for":
                    pending += flow.operands[owner.index][:3]  # the range of its counter
    return list(names)


def _base(flow: DataFlow, pointer: int) -> _Base:
    """Follows a tile's pointers back to where they start."""
    offset_element: str | None = None
    offsets: list[int] = []
    visited: set[int] = set()
    while pointer != UNKNOWN and pointer not in visited:
        visited.add(pointer)
        op = flow.op(pointer)
        if op is None or pointer in flow.carried:
            pointer, *steps = flow.carried.get(pointer, (UNKNOWN,))
            moves = filter(None, map(flow.op, steps))
            offsets += [flow.operands[op.index][1] for op in moves if op.name == "tt.addptr"]
        elif op.name == "tt.addptr":
            offset_element = offset_element or op.operand_types[1].element
            offsets.append(flow.operands[op.index][1])
            pointer = flow.operands[op.index][0]
        elif op.name == "tt.splat":
            return _Base(flow.operands[op.index][0], offset_element, offsets)
        elif op.name in _SHAPES:
            pointer = flow.operands[op.index][0]
        else:
            break
    return _Base(UNKNOWN, offset_element)


def _is_descriptor(flow: DataFlow, name: str) -> bool:
    """Whether an argument is the pointer of a descriptor that the host made.

    On targets without descriptors, Triton passes their parts: `a`, `a.shape.0`, `a.stride.0`.
    """
    functions = (op for op in flow.module.ops if op.name in FUNCTIONS)
    return any(f"{name}.shape.0" in flow.named_arguments(op) for op in functions)


def _argument(flow: DataFlow, value: int) -> tuple[str, Mapping[str, object]] | None:
    """Name and attributes of the kernel argument that a value is; None for other values."""
    visited: set[int] = set()
    while value != UNKNOWN and value not in visited:
        visited.add(value)
        op = flow.op(value)
        if op is not None and op.name != "tt.addptr":
            return None
        if op is not None:
            value = flow.operands[op.index][0]
            continue
        owner = flow.module.ops[flow.maker[value]]
        if owner.name in FUNCTIONS:
            position = flow.arguments[owner.index].index(value)
            attributes = owner.attributes.get("arg_attrs", ())
            name = flow.argument_name(value)
            return name, attributes[position] if position < len(attributes) else {}
        value = flow.carried.get(value, (UNKNOWN,))[0]
    return None


PASSES_ON: Final = frozenset(
    ("amdg.extract_slice", "amdgpu.extract_slice", "tt.addptr", "tt.bitcast", "tt.broadcast",
     "tt.expand_dims", "tt.make_tensor_descriptor", "tt.reshape", "tt.splat", "tt.trans",
     "tt.unsplat", "ttg.convert_layout")
)  # fmt: skip
"""Operations whose result points into the tensor of their first operand."""
ANY: Final = -1
"""Stands for a tensor that nobody knows: a pointer from memory, a called function's argument."""


def tensors_of(flow: DataFlow, access: TtgirOp) -> frozenset[int]:
    """The kernel's arguments that an access may point into, `ANY` where others are possible."""
    tensors, ahead, visited = set[int](), [_pointer(flow, access)], set[int]()
    while ahead:
        value = ahead.pop()
        if value in visited:
            continue
        visited.add(value)
        carried = flow.carried.get(value)
        maker = maker_of(flow, value)
        if carried is not None:
            ahead += carried
        elif maker is None:
            is_argument = value != UNKNOWN and flow.module.ops[flow.maker[value]].name in FUNCTIONS
            tensors.add(value if is_argument else ANY)
        elif maker.name in PASSES_ON:
            ahead += flow.operands[maker.index][:1]
        elif maker.name == "arith.select":
            ahead += flow.operands[maker.index][1:]
        else:
            tensors.add(ANY)
    return frozenset(tensors)


def _pointer(flow: DataFlow, op: TtgirOp) -> int:
    """The pointer or descriptor of an access: the first operand that is one."""
    for value, kind in zip(flow.operands[op.index], op.operand_types, strict=False):
        if "ptr" in kind.text or "tensordesc" in kind.text:
            return value
    return UNKNOWN


def loops_around(flow: DataFlow, op: TtgirOp) -> frozenset[int]:
    """The indices of the loops around an operation."""
    loops = set[int]()
    loop = flow.loop[op.index]
    while loop is not None:
        loops.add(loop)
        loop = flow.loop[loop]
    return frozenset(loops)


def maker_of(flow: DataFlow, value: int) -> TtgirOp | None:
    """The operation that makes a value; None where there is none, or several."""
    return flow.op(value) if value != UNKNOWN and value not in flow.carried else None
