"""One call of an operator, and the properties, read off its schema, that decide how it is run."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from .unknowns import READS

UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
"""Operators that return uninitialised memory."""
VIEWS_IN_EFFECT = frozenset(("_unsafe_view", "lift_fresh", "lift", "_reshape_alias"))
"""Operators that share their input's memory, though their schema does not say so."""
OVERWRITING = frozenset(
    (
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_"),
        *("bernoulli_", "log_normal_", "cauchy_", "geometric_"),
    )
)
"""Operators that write all of their first operand, whatever its contents."""
LIKE = frozenset(
    ("rand_like", "randn_like", "randint_like", "zeros_like", "ones_like", "full_like")
)
SHAPED = LIKE | {"new_zeros", "new_ones", "new_full"}
"""Operators that read shape and type of their first operand, but not its contents."""
AGREEING = frozenset(("eq", "le", "lt", "isfinite", "isclose", "equal"))
"""Comparisons that are true where a result agrees with its reference."""
DISAGREEING = frozenset(("ne", "gt", "ge", "isnan", "isinf", "isneginf", "isposinf"))
"""Comparisons that are true where a result differs from its reference, or is damaged."""
CARRYING = frozenset(
    (
        *("any", "all", "logical_and", "logical_or", "bitwise_and", "bitwise_or"),
        *("sum", "count_nonzero", "_to_copy", "clone", "mean", "max", "amax", "__and__", "__or__"),
    )
)
"""Operators whose result is assumed to be as true as their operand."""
INVERTING = frozenset(("logical_not", "bitwise_not"))
"""Operators whose result is assumed to be true where their operand is not."""
NATIVE = frozenset(("aten", "prims", "prim", "quantized", "torchvision", "_quantized", "inductor"))
"""Namespaces of operators that torch itself implements."""


class Truth(enum.Enum):
    """How the truth of an operator's unknown result is assumed.

    Comparisons of results with references are assumed to agree, so that the script goes on.

    Attributes:
        NONE: nothing is assumed.
        AGREE, DISAGREE: it is a comparison, assumed true (`eq`) or false (`ne`).
        CARRY, INVERT: it is as true as the operand (`all`), or the opposite (`logical_not`).
    """

    NONE = enum.auto()
    AGREE = enum.auto()
    DISAGREE = enum.auto()
    CARRY = enum.auto()
    INVERT = enum.auto()


@dataclass(frozen=True)
class OperatorPlan:
    """How the dispatcher handles one operator overload.

    Args:
        name: without namespace and overload.
        registry_name: its name in `torch.library._impls`, which lists Python kernels, before the
            dispatch key: `mylib/scale.default`.
        view: its results share its first tensor's memory.
        mutates: positions and names of the arguments that it writes to.
        returned: positions and names of the arguments that alias a result.
        returns_arguments: all its results are arguments that it writes to.
        returns_nothing: it has no result.
        changes_shape: it may change the shape of an argument in place.
        takes_device: it has an argument `device`, as operators that make tensors have.
        device_position: position of that argument; None without one.
        uninitialised: its result's contents are undefined.
        pointwise: the result has the broadcast shape of its inputs.
        takes_sizes: it takes sizes or a device, so the result may be of any size.
        native: torch implements it; else a library, whose Python may launch kernels.
        truth: see `Truth`.
        host_read: computes the value that the host gets, where it reads a tensor; see `READS`.
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


class Invocation(NamedTuple):  # not a dataclass: one is made for each operator
    """One call of an operator.

    Attributes:
        func: the `OpOverload`.
        plan: how the dispatcher handles it.
        args: its positional arguments.
        kwargs: its keyword arguments.
    """

    func: Any
    plan: OperatorPlan
    args: Sequence[Any]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """Calls the operator itself."""
        return self.func(*self.args, **self.kwargs)

    def with_arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Invocation:
        """A call of the same operator with other arguments."""
        return Invocation(self.func, self.plan, args, kwargs)

    def written_arguments(self) -> list[Any]:
        """The arguments that the operator writes to."""
        arguments = []
        for position, name in self.plan.mutates:
            argument = self.kwargs.get(name)
            if argument is None and position < len(self.args):
                argument = self.args[position]
            arguments.append(argument)
        return arguments

    def returned_arguments(self) -> Any:
        """The arguments that the operator returns, in the form in which it returns them."""
        targets = [
            self.kwargs[name] if name in self.kwargs else self.args[position]
            for position, name in self.plan.returned
        ]
        return targets[0] if len(targets) == 1 else tuple(targets)


def plan_of(func: Any) -> OperatorPlan:
    """Reads an overload's schema and tags.

    Args:
        func: a `torch._ops.OpOverload`.
    """
    schema = func._schema
    namespace, _, name = schema.name.partition("::")
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    arguments = schema.arguments
    mutates = tuple(
        (i, a.name)
        for i, a in enumerate(arguments)
        if a.alias_info is not None and a.alias_info.is_write
    )
    aliases = [r.alias_info for r in schema.returns]
    types = {str(a.type) for a in arguments}
    names = {a.name for a in arguments}
    return OperatorPlan(
        name=name,
        registry_name=f"{namespace}/{name}{overload}",
        view=name in VIEWS_IN_EFFECT or any(a is not None and not a.is_write for a in aliases),
        mutates=mutates,
        returned=_returned_arguments(schema),
        returns_arguments=bool(mutates) and all(a is not None and a.is_write for a in aliases),
        returns_nothing=not aliases,
        changes_shape=torch.Tag.inplace_view in func.tags or "out" in names or name == "resize_",
        takes_device="device" in names,
        device_position=next((i for i, a in enumerate(arguments) if a.name == "device"), None),
        uninitialised=name in UNINITIALISED,
        pointwise=torch.Tag.pointwise in func.tags,
        takes_sizes=any("SymInt" in t for t in types) or "device" in names,
        native=namespace in NATIVE,
        truth=_truth(name),
        host_read=READS.get(name),
    )


def _returned_arguments(schema: Any) -> tuple[tuple[int, str], ...]:
    """Positions and names of the arguments that alias a result."""
    returned = [r.alias_info.before_set for r in schema.returns if r.alias_info is not None]
    return tuple(
        (i, a.name)
        for i, a in enumerate(schema.arguments)
        if a.alias_info is not None
        and any(a.alias_info.before_set & aliases for aliases in returned)
    )


def _truth(name: str) -> Truth:
    """See `Truth`; an operator that writes in place (`eq_`) counts as the other (`eq`)."""
    base = name.rstrip("_") if not name.startswith("__") else name
    for names, truth in (
        (AGREEING, Truth.AGREE),
        (DISAGREEING, Truth.DISAGREE),
        (CARRYING, Truth.CARRY),
        (INVERTING, Truth.INVERT),
    ):
        if base in names:
            return truth
    return Truth.NONE
