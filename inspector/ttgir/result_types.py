"""Result types and other facts that the custom assembly of single operations leaves out or leaves
unnamed.

The parser reads the custom form of any operation by its punctuation. These tables hold the few
facts that punctuation does not give, as printed by Triton 3.0 - 3.9 and its upstream dialects;
tests compare the outcome with MLIR's own generic form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..base.errors import KinspectError
from ..model import TtgirType
from .attrs import UNKNOWN_TYPE, FileContext

_Rule = Callable[[str, int, Sequence[TtgirType], FileContext], list[TtgirType]]


def result_types(
    name: str,
    count: int,
    printed: Sequence[TtgirType],
    arrow: Sequence[TtgirType] | None,
    context: FileContext,
) -> tuple[TtgirType, ...]:
    """The types of an operation's results.

    `count`: the number of its results; `printed`: the types after `:`; `arrow`: the types after
    `->` or `to`; None where there is neither; `context`: the file's types.

    Returns:
        `count` types; `UNKNOWN_TYPE` where the text does not determine them.
    """
    if not count:
        return ()
    is_async = name.partition(".")[2].startswith(ASYNC_PREFIX)
    rule = RESULT_RULES.get(name, "token" if is_async else "last")
    types: Sequence[TtgirType]
    if arrow is not None and rule != "token":
        types = arrow
    elif rule[0] == "!":
        types = [_elided(rule, printed[-1], context)] if printed else []
    else:
        types = _RULES[rule](name, count, printed, context)
    if len(types) == 1 and count > 1:  # `tt.split %x : A -> B` has two results of type B
        return (types[0],) * count
    if len(types) != count:
        return (UNKNOWN_TYPE,) * count
    return tuple(types)


def _last(
    name: str, count: int, printed: Sequence[TtgirType], context: FileContext
) -> list[TtgirType]:
    if not printed:
        return [TtgirType("i1", "scalar", "i1")] if name == "arith.constant" else []
    return list(printed) if len(printed) == count else [printed[-1]]


def _elided(prefix: str, printed_type: TtgirType, context: FileContext) -> TtgirType:
    """The type of a form that leaves the dialect name out: `<64x64xf16>`."""
    return (
        context.shaped(prefix + printed_type.text, 1)
        if printed_type.text[0] == "<"
        else printed_type
    )


def _first_printed(
    name: str, count: int, printed: Sequence[TtgirType], context: FileContext
) -> list[TtgirType]:
    return list(printed[:1])


def _token(
    name: str, count: int, printed: Sequence[TtgirType], context: FileContext
) -> list[TtgirType]:
    text = TOKEN_TYPES.get(name.partition(".")[0], DEFAULT_TOKEN)
    return [TtgirType(text, "token", text)]


def _i1(
    name: str, count: int, printed: Sequence[TtgirType], context: FileContext
) -> list[TtgirType]:
    return [_with_element(printed[-1], "i1", context)] if printed else []


def _overflow(
    name: str, count: int, printed: Sequence[TtgirType], context: FileContext
) -> list[TtgirType]:
    return [printed[0], printed[-1]] if len(printed) > 1 else []


def _pointee(
    name: str, count: int, printed: Sequence[TtgirType], context: FileContext
) -> list[TtgirType]:
    """The type that the first printed type points to."""
    if not printed:
        return []
    pointer = printed[0]
    if pointer.kind == "ptr":
        inner = pointer.text.partition("<")[2].rpartition(">")[0]
    else:
        inner = pointer.element.partition("<")[2].rpartition(">")[0]
    inner = _without_address_space(inner)
    try:
        if pointer.kind == "tensor":
            return [_with_element(pointer, inner, context)]
        return [context.shaped(inner, 1)]
    except KinspectError:
        return []


_RULES: Mapping[str, _Rule] = {
    "last": _last,
    "first": _first_printed,
    "token": _token,
    "i1": _i1,
    "overflow": _overflow,
    "pointee": _pointee,
}


def _without_address_space(inner: str) -> str:
    # "f16, 1" -> "f16"; a tensor's own commas stand inside brackets.
    head, comma, tail = inner.rpartition(",")
    return head if comma and tail.strip().isdecimal() else inner


def _with_element(base_type: TtgirType, element: str, context: FileContext) -> TtgirType:
    """The type with another element type, its shape and layout unchanged."""
    if base_type.kind == "scalar":
        return TtgirType(element, "scalar", element)
    dims = "x".join(str(size) if size >= 0 else "?" for size in base_type.shape)
    old = f"<{dims}x{base_type.element}"
    if old not in base_type.text:
        return UNKNOWN_TYPE
    return context.shaped(base_type.text.replace(old, f"<{dims}x{element}", 1), 1)


INLINE_NAMES: Mapping[str, tuple[str, ...]] = {
    # Names, in the generic form, of the bare keywords and literals of the custom form, in order;
    # a last name that starts with `*` takes all remaining ones.
    "arith.cmpf": ("predicate",),
    "arith.cmpi": ("predicate",),
    "arith.constant": ("value",),
    "arith.truncf": ("roundingmode",),
    "amdg.buffer_atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "amdgpu.buffer_atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "amdg.buffer_atomic_cas": ("sem", "scope"),
    "amdgpu.buffer_atomic_cas": ("sem", "scope"),
    "amdg.extract_slice": ("*static_offsets",),
    "amdgpu.extract_slice": ("*static_offsets",),
    "cf.assert": ("msg",),
    "func.call": ("callee",),
    "rocdl.s.setprio": ("priority",),
    "rocdl.sched.barrier": ("mask",),
    "tt.assert": ("message",),
    "tt.atomic_cas": ("sem", "scope"),
    "tt.atomic_rmw": ("atomic_rmw_op", "sem", "scope"),
    "tt.call": ("callee",),
    "tt.descriptor_reduce": ("kind",),
    "tt.elementwise_inline_asm": ("asm_string",),
    "tt.fp_to_fp": ("*rounding",),
    "tt.func": ("sym_name",),
    "tt.get_num_programs": ("axis",),
    "tt.get_program_id": ("axis",),
    "tt.print": ("prefix",),
    "ttg.barrier": ("addrSpace",),
    "ttg.memdesc_subslice": ("*offsets",),
}

INLINE_FLAGS: Mapping[str, frozenset[str]] = {
    # Bare keywords that are unit attributes.
    "tt.reshape": frozenset(("allow_reorder", "efficient_layout")),
}

VISIBILITIES = frozenset(("public", "private", "nested"))

FUNCTIONS = frozenset(("tt.func", "func.func", "llvm.func"))

SHADOWING = frozenset(
    ("tt.func", "func.func", "llvm.func", "builtin.module", "ttg.warp_specialize")
)
"""Operations whose regions are isolated: names inside may repeat names outside."""

RESULT_RULES: Mapping[str, str] = {
    # Operation -> rule for its result types where the form has no `->`. The default is `last`: as
    # many types as results are theirs in order, else every result has the last one.
    # A rule that starts with `!` is a type name that the form leaves out before `<...>`.
    "amdg.buffer_load_to_local": "token",
    "amdgpu.buffer_load_to_local": "token",
    "arith.addui_extended": "overflow",
    "arith.cmpf": "i1",
    "arith.cmpi": "i1",
    "tt.addptr": "first",
    "tt.advance": "!tt.ptr",
    "tt.load": "pointee",
    "tt.make_tensor_descriptor": "!tt.tensordesc",
    "tt.make_tensor_ptr": "!tt.ptr",
}

ASYNC_PREFIX = "async_"
"""Operations named so yield a token (`ttg.async_wait`, `amdg.async_tdm_wait`, ...)."""

_BUFFER_ORDER: Mapping[str, tuple[str, ...]] = {
    "buffer_atomic_cas": ("2", "[", "0", "1", "stride"),
    "buffer_atomic_rmw": ("1", "[", "0", "stride", "2"),
    "buffer_load": ("0", "[", "stride", "1", "2"),
    "buffer_load_to_local": ("into", "0", "[", "mask", "other", "stride"),
    "buffer_store": ("0", "1", "[", "stride", "2"),
}

OPERAND_ORDER: Mapping[str, tuple[str, ...]] = {
    # Operations that print their operands in another order than their own. Each entry is the own
    # order: "0", "1", ... are the operands that stand free, in printed order, "[" those in
    # brackets, a word those behind it (`mask = %m`, `into %d`, `%a scale %s`).
    "tt.descriptor_reduce": ("0", "1", "["),
    "tt.descriptor_store": ("0", "1", "["),
    "tt.dot_scaled": ("0", "1", "2", "scale"),
    **{
        f"{dialect}.{name}": order
        for dialect in ("amdg", "amdgpu")
        for name, order in _BUFFER_ORDER.items()
    },
}

TOKEN_TYPES: Mapping[str, str] = {
    "triton_gpu": "!triton_gpu.async.token",
}
DEFAULT_TOKEN = "!ttg.async.token"


def in_own_order(name: str, operands: Sequence[str], roles: Sequence[str]) -> list[str]:
    """Reorders operands by `OPERAND_ORDER`; operands that it does not list come last.

    Args:
        name: an operation of the table.
        operands: the operands in printed order.
        roles: per operand, the word or bracket before it, or "".
    """
    slots: dict[str, list[str]] = {}
    free = 0
    for operand, role in zip(operands, roles, strict=True):
        slots.setdefault(role or str(free), []).append(operand)
        free += not role
    placed = [operand for slot in OPERAND_ORDER[name] for operand in slots.pop(slot, ())]
    return placed + [operand for slot_operands in slots.values() for operand in slot_operands]
