"""One call of an operator, and the properties, read off its schema, that decide how it is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

FROM_DATA = ("tensor", "as_tensor", "asarray")
"""Functions that make a tensor from Python values and move it in C++, to a real device."""
FACTORIES = ("empty", "zeros", "ones", "full", "rand", "randn", "randint")
"""Functions that make tensors; `NAME_like` makes one like another."""
NEW = ("new_empty", "new_zeros", "new_ones", "new_full", "new_empty_strided")
"""Tensor methods that make a tensor like `self`."""
UNINITIALISED = frozenset(
    ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")
)
"""Operators that return uninitialised memory."""
SHAPED = frozenset((*(f"{name}_like" for name in FACTORIES), *NEW)) - UNINITIALISED
"""Operators that read shape and type of their first operand, but not its contents."""
VIEWS_IN_EFFECT = frozenset(("_unsafe_view", "lift_fresh", "lift", "_reshape_alias"))
"""Operators that share their input's memory, though their schema does not say so."""
OVERWRITING = frozenset(
    (
        *("copy_", "fill_", "zero_", "normal_", "uniform_", "random_", "exponential_"),
        *("bernoulli_", "log_normal_", "cauchy_", "geometric_"),
    )
)
"""Operators that write all of their first operand, whatever its contents."""
READING = frozenset(
    (
        *("_local_scalar_dense", "item", "is_nonzero", "allclose", "equal", "is_pinned"),
        "_pin_memory",
    )
)
"""Operators whose result the host gets; `reads.read_operator` answers them."""
TRUE_IF_EQUAL = frozenset(("eq", "le", "lt", "isfinite", "isclose", "equal"))
"""Comparisons that are true where a result agrees with its reference."""
FALSE_IF_EQUAL = frozenset(("ne", "gt", "ge", "isnan", "isinf", "isneginf", "isposinf"))
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


@dataclass(frozen=True)
class OperatorPlan:
    """How the dispatcher handles one operator overload.

    Args:
        registry_name: its name in `torch.library._impls`, which lists Python kernels, before the
            dispatch key: `mylib/scale.default`.
        mutates: positions and names of the arguments that it writes to.
        returned: positions and names of the arguments that alias a result.
        returns_arguments: all its results are arguments that it writes to.
        changes_shape: it may change the shape of an argument in place.
        pointwise: the result has the broadcast shape of its inputs.
        takes_sizes: it takes sizes or a device, so the result may be of any size.
        native: torch implements it; else a library, whose Python may launch kernels.
        agrees: what it is assumed to give for a result and its reference: true (`eq`) or false
            (`ne`), so that the script goes on; None if it does not compare.
        carries: whether it is as true as its operand (`all`), or the opposite (`logical_not`).
    """

    name: str
    registry_name: str
    view: bool
    mutates: tuple[tuple[int, str], ...]
    returned: tuple[tuple[int, str], ...]
    returns_arguments: bool
    returns_nothing: bool
    changes_shape: bool
    device_position: int | None
    uninitialised: bool
    pointwise: bool
    takes_sizes: bool
    native: bool
    reads: bool
    agrees: bool | None
    carries: bool | None


class Invocation(NamedTuple):  # not a dataclass: one is made for each operator
    """One call of an operator (an `OpOverload`)."""

    func: Any
    plan: OperatorPlan
    args: Sequence[Any]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        return self.func(*self.args, **self.kwargs)

    def with_arguments(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Invocation:
        return Invocation(self.func, self.plan, args, kwargs)

    def mapped(self, change: Callable[[torch.Tensor], Any]) -> Invocation:
        """The call with `change` applied to the tensors among its arguments."""
        args = tuple([map_tensors(value, change) for value in self.args])
        named = self.kwargs.items()
        return self.with_arguments(args, {n: map_tensors(v, change) for n, v in named})

    def written_arguments(self) -> list[Any]:
        return [self._argument(position, name) for position, name in self.plan.mutates]

    def returned_arguments(self) -> Any:
        """The arguments that the operator returns, in the form in which it returns them."""
        returned = [self._argument(position, name) for position, name in self.plan.returned]
        return returned[0] if len(returned) == 1 else tuple(returned)

    def _argument(self, position: int, name: str) -> Any:
        if name in self.kwargs:
            return self.kwargs[name]
        return self.args[position] if position < len(self.args) else None


def plan_of(func: Any) -> OperatorPlan:
    """Reads the schema and tags of a `torch._ops.OpOverload`."""
    schema = func._schema
    namespace, _, name = schema.name.partition("::")
    overload = f".{schema.overload_name}" if schema.overload_name else ""
    arguments = list(enumerate(schema.arguments))
    mutates = tuple(
        (i, a.name) for i, a in arguments if a.alias_info is not None and a.alias_info.is_write
    )
    aliases = [r.alias_info for r in schema.returns]
    returned = [alias.before_set for alias in aliases if alias is not None]
    names = {a.name for _, a in arguments}
    base = name if name.startswith("__") else name.rstrip("_")  # `eq_` counts as `eq`
    return OperatorPlan(
        name=name,
        registry_name=f"{namespace}/{name}{overload}",
        view=name in VIEWS_IN_EFFECT or any(a is not None and not a.is_write for a in aliases),
        mutates=mutates,
        returned=tuple(
            (i, a.name)
            for i, a in arguments
            if a.alias_info is not None and any(a.alias_info.before_set & r for r in returned)
        ),
        returns_arguments=bool(mutates) and all(a is not None and a.is_write for a in aliases),
        returns_nothing=not aliases,
        changes_shape=torch.Tag.inplace_view in func.tags or "out" in names or name == "resize_",
        device_position=next((i for i, a in arguments if a.name == "device"), None),
        uninitialised=name in UNINITIALISED,
        pointwise=torch.Tag.pointwise in func.tags,
        takes_sizes=any("SymInt" in str(a.type) for _, a in arguments) or "device" in names,
        native=namespace in NATIVE,
        reads=name in READING,
        agrees=True if base in TRUE_IF_EQUAL else False if base in FALSE_IF_EQUAL else None,
        carries=True if base in CARRYING else False if base in INVERTING else None,
    )


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Applies `change` to a tensor, or to the tensors in a list, tuple or dict."""
    if isinstance(value, torch.Tensor):
        return change(value)
    kind = type(value)
    if kind is list:
        return [map_tensors(inner, change) for inner in value]
    if isinstance(value, tuple):
        changed = [map_tensors(inner, change) for inner in value]
        if kind is tuple or kind is torch.Size:
            return kind(changed)
        # Named tuples take their fields one by one, torch's return types take one sequence.
        return kind(*changed) if hasattr(kind, "_fields") else kind(changed)
    if kind is dict:
        return {key: map_tensors(inner, change) for key, inner in value.items()}
    return value


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a value, lists and tuples searched."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from tensors_in(inner)
