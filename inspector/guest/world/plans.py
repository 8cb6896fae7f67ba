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
"""Return memory whose contents nobody has written."""
VIEWS_IN_EFFECT = frozenset(("_unsafe_view", "lift_fresh", "lift", "_reshape_alias"))
"""Share their input's memory though their schema does not say so."""
OVERWRITING = frozenset(
    (
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_"),
        *("bernoulli_", "log_normal_", "cauchy_", "geometric_"),
    )
)
"""Write all of their first operand, whatever it held."""
LIKE = frozenset(
    ("rand_like", "randn_like", "randint_like", "zeros_like", "ones_like", "full_like")
)
SHAPED = LIKE | {"new_zeros", "new_ones", "new_full"}
"""Take shape and type of their first operand, and nothing of its contents."""
AGREEING = frozenset(("eq", "le", "lt", "isfinite", "isclose", "equal"))
"""True where a result agrees with its reference; a script goes on at these."""
DISAGREEING = frozenset(("ne", "gt", "ge", "isnan", "isinf", "isneginf", "isposinf"))
"""True where it does not: what a script stops at."""
CARRYING = frozenset(
    (
        *("any", "all", "logical_and", "logical_or", "bitwise_and", "bitwise_or"),
        *("sum", "count_nonzero", "_to_copy", "clone", "mean", "max", "amax", "__and__", "__or__"),
    )
)
"""Give what is assumed of their operand on to their result."""
INVERTING = frozenset(("logical_not", "bitwise_not"))
"""Give it on inverted."""
NATIVE = frozenset(("aten", "prims", "prim", "quantized", "torchvision", "_quantized", "inductor"))
"""Namespaces of operators whose kernels are torch's own."""


class Truth(enum.Enum):
    """What an operator makes of values that nobody knows.

    Comparisons of results with references are assumed to agree: the script goes on as it would.

    Attributes:
        NONE: nothing is assumed of its result.
        AGREE, DISAGREE: a comparison, assumed true (`eq`) or false (`ne`).
        CARRY, INVERT: the result is as true as the operand, or as untrue (`all`, `logical_not`).
    """

    NONE = enum.auto()
    AGREE = enum.auto()
    DISAGREE = enum.auto()
    CARRY = enum.auto()
    INVERT = enum.auto()


@dataclass(frozen=True)
class Plan:
    """How the dispatcher handles one operator overload.

    Args:
        name: without namespace and overload.
        registry_name: its name in `torch.library._impls`, which lists Python kernels, before the
            dispatch key: `mylib/scale.default`.
        view: its results share its first tensor's memory.
        mutates: positions and names of the arguments that it writes to.
        returned: positions and names of the arguments that alias a result.
        returns_arguments: it writes to arguments, and has no results but those.
        returns_nothing: it has no result.
        changes_shape: it may change the shape of an argument in place.
        takes_device: it has an argument `device`, as what makes tensors has.
        device_position: where that is among its arguments; None where it takes none.
        uninitialised: its result's contents are not defined.
        pointwise: the result has the shape of its inputs broadcast.
        takes_sizes: it takes sizes or a device, so that the result may be of any size.
        native: torch's own; else a library's, whose kernels may be Python that launches kernels.
        truth: see `Truth`.
        host_read: gives what the host gets, where the operator reads a device tensor; see `READS`.
    """

    name: str
    registry_name: str
    view: bool
    mutates: tuple[tuple[int, str], ...]
    returned: tuple[tuple[int, str], ...]
    returns_arguments: bool
    returns_nothing: bool
    changes_shape: bool
    takes_device: bool
    device_position: int | None
    uninitialised: bool
    pointwise: bool
    takes_sizes: bool
    native: bool
    truth: Truth
    host_read: Callable[[Any, bool], Any] | None


def plan_of(func: Any) -> Plan:
    """Reads an overload's schema and tags.

    Args:
        func: a `torch._ops.OpOverload`.
    """
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
        registry_name="/".join(
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
        takes_device="device" in names,
        device_position=next((i for i, a in enumerate(arguments) if a.name == "device"), None),
        uninitialised=name in UNINITIALISED,
        pointwise=torch.Tag.pointwise in func.tags,
        takes_sizes=any("SymInt" in t for t in types) or "device" in names,
        native=namespace in NATIVE,
        truth=_truth(base),
        host_read=READS.get(name),
    )


def _truth(base: str) -> Truth:
    """By the operator's name without the `_` of those that write in place."""
    for names, truth in (
        (AGREEING, Truth.AGREE),
        (DISAGREEING, Truth.DISAGREE),
        (CARRYING, Truth.CARRY),
        (INVERTING, Truth.INVERT),
    ):
        if base in names:
            return truth
    return Truth.NONE
