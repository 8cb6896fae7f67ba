"""Result types that a custom form does not print."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..base.errors import KinspectError
from ..model import TtgirType
from .attrs import UNKNOWN_TYPE, FileContext
from .opforms import ASYNC_PREFIX, DEFAULT_TOKEN, RESULT_RULES, TOKEN_TYPES

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
