"""What the dispatcher needs to know of an operator, read off its schema once."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .unknowns import READS

UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
VIEWS_IN_EFFECT = frozenset(("_unsafe_view", "lift_fresh", "lift", "_reshape_alias"))
"""Share their input's memory though their schema does not say so."""
OVERWRITING = frozenset(
    (
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_"),
        *("bernoulli_", "log_normal_", "cauchy_", "geometric_"),
    )
)
LIKE = frozenset(
    ("rand_like", "randn_like", "randint_like", "zeros_like", "ones_like", "full_like")
)
SHAPED = LIKE | {"new_zeros", "new_ones", "new_full"}
"""Take shape and type of their first operand, and nothing of its contents."""
AGREEING = frozenset(("eq", "le", "lt", "isfinite", "isclose", "equal"))
DISAGREEING = frozenset(("ne", "gt", "ge", "isnan", "isinf", "isneginf", "isposinf"))
CARRYING = frozenset(
    (
        *("any", "all", "logical_and", "logical_or", "bitwise_and", "bitwise_or"),
        *("sum", "count_nonzero", "_to_copy", "clone", "mean", "max", "amax", "__and__", "__or__"),
    )
)
INVERTING = frozenset(("logical_not", "bitwise_not"))
NATIVE = frozenset(("aten", "prims", "prim", "quantized", "torchvision", "_quantized", "inductor"))


class Truth(enum.Enum):
    """What an operator's result is worth as a truth where its inputs' values are not known.

    A comparison of a result with its reference is assumed to agree, so that the script goes on as
    it would on a GPU.

    Members:
        NONE: nothing: the result is not known either.
        AGREE: true where the compared values agree (`eq`, `isclose`).
        DISAGREE: false there (`ne`, `isnan`).
        CARRY: that of its inputs (`any`, `logical_and`).
        INVERT: the opposite of its input's.
    """

    NONE = enum.auto()
    AGREE = enum.auto()
    DISAGREE = enum.auto()
    CARRY = enum.auto()
    INVERT = enum.auto()


@dataclass(frozen=True)
class Plan:
    """One operator overload.

    Args:
        name: without namespace and overload.
        registered: its name where torch.library keeps count of Python kernels, less the key.
        view: its results share its first tensor's memory.
        mutates: positions and names of the arguments that it writes to.
        returned: those of them that it returns.
        returns_arguments: every result is one of those arguments, or there is none.
        returns_nothing: there is none.
        changes_shape: it may change the shape of an argument in place.
        factory: it takes a device.
        device_position: where among its arguments, None where it takes none.
        uninitialised: its result's contents are not defined.
        pointwise: the result has the shape of its inputs broadcast.
        sized: it takes sizes, so the result may be of any size.
        native: torch's own; else a library's, whose kernels may be Python that launches kernels.
        truth: see `Truth`.
        read: what the host gets from a device tensor, where the operator reads one; see `READS`.
    """

    name: str
    registered: str
    view: bool
    mutates: tuple[tuple[int, str], ...]
    returned: tuple[tuple[int, str], ...]
    returns_arguments: bool
    returns_nothing: bool
    changes_shape: bool
    factory: bool
    device_position: int | None
    uninitialised: bool
    pointwise: bool
    sized: bool
    native: bool
    truth: Truth
    read: Callable[[Any, bool], Any] | None


def plan_of(func: Any) -> Plan:
    """What an operator overload does to its arguments, from its schema and tags."""
    schema = func._schema
    namespace, _, name = schema.name.partition("::")
    arguments = schema.arguments
    mutates = tuple(
        (i, a.name)
        for i, a in enumerate(arguments)
        if a.alias_info is not None and a.alias_info.is_write
    )
    aliases = [r.alias_info for r in schema.returns]
    returned_sets = [a.before_set for a in aliases if a is not None]
    types = {str(a.type) for a in arguments}
    names = {a.name for a in arguments}
    base = name.rstrip("_") if not name.startswith("__") else name
    return Plan(
        name=name,
        registered="/".join(
            (namespace, name + (f".{schema.overload_name}" if schema.overload_name else ""))
        ),
        view=name in VIEWS_IN_EFFECT or any(a is not None and not a.is_write for a in aliases),
        mutates=mutates,
        returned=tuple(
            (i, a.name)
            for i, a in enumerate(arguments)
            if a.alias_info is not None
            and any(a.alias_info.before_set & returned for returned in returned_sets)
        ),
        returns_arguments=bool(mutates) and all(a is not None and a.is_write for a in aliases),
        returns_nothing=not aliases,
        changes_shape=torch.Tag.inplace_view in func.tags or "out" in names or name == "resize_",
        factory="device" in names,
        device_position=next((i for i, a in enumerate(arguments) if a.name == "device"), None),
        uninitialised=name in UNINITIALISED,
        pointwise=torch.Tag.pointwise in func.tags,
        sized=any("SymInt" in t for t in types) or "device" in names,
        native=namespace in NATIVE,
        truth=_truth(base),
        read=READS.get(name),
    )


def _truth(base: str) -> Truth:
    """By the operator's name, without the underscore of those that work in place."""
    for names, truth in (
        (AGREEING, Truth.AGREE),
        (DISAGREEING, Truth.DISAGREE),
        (CARRYING, Truth.CARRY),
        (INVERTING, Truth.INVERT),
    ):
        if base in names:
            return truth
    return Truth.NONE
