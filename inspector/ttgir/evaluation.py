"""Values of a TTGIR function as numbers, for several draws of the values unknown until launch.

Addresses depend on ranges, constants, arguments and program numbers. Other values that they depend
on (values in memory, iterations) are random in each draw: where two draws with equal arguments
differ, the value depends on them. A value that a loop carries is its initial one plus an unknown
uniform amount, where each iteration adds a uniform amount to it; otherwise it is unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..model import TtgirOp, TtgirType
from .axes.graph import Carried, ValueGraph
from .lowered import element_bits, pointee
from .queries import range_of

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MOST_ELEMENTS: Final = 1 << 18
"""Elements of a tensor; larger ones are not evaluated."""
_SAME: Final = frozenset(
    ("convert_layout", "extsi", "extui", "index_cast", "bitcast", "in_thread_transpose")
)
"""Operations that do not change the elements."""
_MOST_DEEP: Final = 120
"""Operations behind one another: what stands further back is unknown, and a scalar of its own."""


class Evaluation:
    """The values of one function."""

    def __init__(
        self,
        graph: ValueGraph,
        arguments: Mapping[str, Array],
        program: Array,
        seed: int = 5,
    ) -> None:
        """Prepares the draws.

        `arguments`: arguments by name, one number for each draw; pointers are bytes. Missing
        arguments are random; `program`: number of the program along x, for each draw; along y and z
        it is 0; `seed`: seed of the random numbers.
        """
        import numpy as np

        self._graph = graph
        self._program = program
        self._random = np.random.default_rng(seed)
        self._values: dict[str, Array | None] = dict(arguments)
        # Values being evaluated: one that depends on itself is unknown.
        self._pending: set[str] = set()
        self._depth = 0

    def value(self, name: str) -> Array | None:
        """A value, int64 [draw, *shape], one draw where it rests on none; None where unknown."""
        if name not in self._values:
            if name in self._pending or self._depth == _MOST_DEEP:
                return None
            self._pending.add(name)
            self._depth += 1
            value = self._evaluate(name)
            self._depth -= 1
            self._pending.discard(name)
            self._values[name] = value
        return self._values[name]

    def _evaluate(self, name: str) -> Array | None:
        """A value that is not in the cache yet."""
        carried = self._graph.carried.get(name)
        if carried is not None:
            return self._carried(name, carried)
        sources = self._graph.merged.get(name)
        if sources is not None:
            return self._one_of(sources)
        op = self._graph.producers.get(name)
        try:
            return self._result(op) if op is not None else None
        except (KeyError, TypeError, ValueError):
            return None  # parameters that no Triton prints, e.g. of an edited file

    def _carried(self, name: str, carried: Carried) -> Array | None:
        """The value of a region's argument."""
        if not carried.sources or (carried.owner.name == "scf.for" and carried.index == 0):
            return self._random_scalar()
        initial = self.value(carried.sources[0])
        if initial is None:
            return None
        value = self._shifted(initial)
        names_before = set(self._values)
        # Assumed while the value after an iteration is evaluated.
        self._values[name] = value
        pending, self._pending = self._pending, set()
        next_values = [self.value(source) for source in carried.sources[1:]]
        self._pending = pending
        if all(
            next_value is not None and _is_uniform(next_value - value) for next_value in next_values
        ):
            return value
        for dependent in set(self._values) - names_before:
            del self._values[dependent]
        return None

    def _one_of(self, sources: Sequence[str]) -> Array | None:
        """One of several values that differ by a uniform amount; None where they do not."""
        values = [self.value(source) for source in sources]
        first_value = values[0] if values else None
        if first_value is None or any(
            other is None or not _is_uniform(other - first_value) for other in values
        ):
            return None
        return self._shifted(first_value)

    def _shifted(self, value: Array) -> Array:
        return value + self._random_scalar().reshape(-1, *(1,) * (value.ndim - 1))

    def _random_scalar(self) -> Array:
        """An unknown uniform number for each draw."""
        return self._random.integers(0, 64, len(self._program)) * 16

    def _result(self, op: TtgirOp) -> Array | None:
        """The result of an operation; None where it is unknown."""
        import numpy as np

        result_type = op.result_types[0] if op.result_types else None
        if result_type is None or len(op.results) != 1:
            return None
        shape = result_type.shape
        size = 1
        for extent in shape:
            size *= extent
        if size > _MOST_ELEMENTS:
            return None
        short = op.name.rpartition(".")[2]
        if op.name == "arith.constant":
            number = op.attributes.get("value")
            if not isinstance(number, int):  # booleans are integers, too
                return None
            return np.full((1, *shape), int(number), np.int64)
        if op.name == "tt.make_range":
            row = range_of(op)
            return None if row is None else np.array(row, np.int64)[None]
        if op.name == "tt.get_program_id":
            is_x = op.attributes.get("axis") in ("x", 0)
            return self._program if is_x else np.zeros(1, np.int64)
        values = [self.value(name) for name in op.operands]
        if any(value is None for value in values) or not values:
            # A scalar is the same in all lanes, wherever it comes from.
            return self._random_scalar() if result_type.kind == "scalar" else None
        return self._apply(op, short, result_type, values)  # type: ignore[arg-type]

    def _apply(
        self, op: TtgirOp, short: str, result_type: TtgirType, values: Sequence[Array]
    ) -> Array | None:
        """The result of an operation with known operands."""
        import numpy as np

        operand = values[0]
        if short in _SAME:
            return operand
        if short == "trunci":
            return _wrapped(operand, result_type)
        if short == "splat":
            return operand.reshape(-1, *(1,) * len(result_type.shape))
        if short == "broadcast":
            return operand
        if short == "expand_dims":
            return np.expand_dims(operand, op.attributes["axis"] + 1)
        if short == "addptr":
            bits = element_bits(pointee(result_type))
            return None if bits is None else operand + values[1] * max(1, bits // 8)
        if short in ("cmpi", "select"):
            return _compare_or_select(op, short, values)
        compute = _COMPUTED.get(op.name)
        if compute is None:
            return self._random_scalar() if result_type.kind == "scalar" else None
        with np.errstate(all="ignore"):
            return _wrapped(compute(*values), result_type)


def _is_uniform(value: Array) -> bool:
    """Whether all elements of each draw are the same."""
    rows = value.reshape(len(value), -1)
    return bool((rows == rows[:, :1]).all())


def _wrapped(value: Array, result_type: TtgirType) -> Array:
    """Numbers as signed integers of their type's width."""
    import numpy as np

    bits = element_bits(result_type.element)
    if bits is None or bits >= 64 or bits == 1:
        return value
    if bits in _MACHINE_WIDTHS:
        wrapped: Array = value.astype(f"i{bits // 8}").astype(np.int64)
        return wrapped
    half = 1 << (bits - 1)
    return (value + half & 2 * half - 1) - half


_MACHINE_WIDTHS: Final = frozenset((8, 16, 32))


def _compare_or_select(op: TtgirOp, short: str, values: Sequence[Array]) -> Array | None:
    """The result of `arith.cmpi` or `arith.select`."""
    import numpy as np

    if short == "select":
        condition, *choices = values
        # A scalar may choose between tensors.
        condition = condition.reshape(*condition.shape, *(1,) * (choices[0].ndim - condition.ndim))
        return np.where(condition != 0, *choices)
    compare = _COMPARED.get(str(op.attributes.get("predicate")))
    if compare is None:
        return None
    outcome: Array = compare(values[0], values[1]).astype(np.int64)
    return outcome


def _quotient(value: Array, divisor: Array) -> Array:
    """The quotient rounded towards 0, as the hardware does; of a division by 0 it is arbitrary."""
    import numpy as np

    safe = np.where(divisor == 0, 1, divisor)
    result: Array = np.sign(value) * np.sign(safe) * np.floor_divide(abs(value), abs(safe))
    return result


def _remainder(value: Array, divisor: Array) -> Array:
    import numpy as np

    remainder: Array = value - _quotient(value, divisor) * np.where(divisor == 0, 1, divisor)
    return remainder


def _lesser(left: Array, right: Array) -> Array:
    import numpy as np

    lesser: Array = np.minimum(left, right)
    return lesser


def _greater(left: Array, right: Array) -> Array:
    import numpy as np

    greater: Array = np.maximum(left, right)
    return greater


# Unsigned forms: addresses are not negative.
_COMPUTED: Final[Mapping[str, Callable[..., Any]]] = {
    "arith.addi": operator.add,
    "arith.andi": operator.and_,
    "arith.divsi": _quotient,
    "arith.divui": _quotient,
    "arith.maxsi": _greater,
    "arith.minsi": _lesser,
    "arith.muli": operator.mul,
    "arith.ori": operator.or_,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.shli": operator.lshift,
    "arith.shrsi": operator.rshift,
    "arith.shrui": operator.rshift,
    "arith.subi": operator.sub,
    "arith.xori": operator.xor,
}
_COMPARED: Final[Mapping[str, Callable[..., Any]]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "slt": operator.lt,
    "sle": operator.le,
    "sgt": operator.gt,
    "sge": operator.ge,
    "ult": operator.lt,
    "ule": operator.le,
    "ugt": operator.gt,
    "uge": operator.ge,
}
