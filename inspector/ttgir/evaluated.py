"""Values of a TTGIR function as numbers, for several draws of what is not known until launch.

Addresses rest on ranges, constants, arguments and program numbers. What else they may rest on
(values in memory, iterations) is drawn anew in each draw: what differs between two draws of equal
arguments rests on it. A value that a loop carries is its first one and an unknown uniform amount,
where each iteration adds a uniform amount to it; anything else stays unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ..model import TtgirOp, TtgirType
from .axes.flow import Carried, Graph
from .lowered import element_bits

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

_MOST_ELEMENTS: Final = 1 << 18
"""Of a tensor; larger ones are left."""
_SAME: Final = frozenset(
    ("convert_layout", "extsi", "extui", "index_cast", "bitcast", "in_thread_transpose")
)
"""Operations that leave each element's number as it is."""


class Evaluated:
    """The values of one function.

    Args:
        graph: the function.
        arguments: of it by name: one number for each draw; pointers are bytes. Others are drawn.
        program: number of the program along x, for each draw; along y and z it is 0.
        seed: of what is drawn.
    """

    def __init__(
        self,
        graph: Graph,
        arguments: Mapping[str, Array],
        program: Array,
        seed: int = 5,
    ) -> None:
        import numpy as np

        self._graph = graph
        self._program = program
        self._random = np.random.default_rng(seed)
        self._known: dict[str, Array | None] = dict(arguments)
        self._pending: set[str] = set()
        """Values that are being worked out: one that rests on itself is not known."""

    def value(self, name: str) -> Array | None:
        """A value, int64 [draw, *shape]; None where it cannot be worked out."""
        if name not in self._known:
            if name in self._pending:
                return None
            self._pending.add(name)
            value = self._worked_out(name)
            self._pending.discard(name)
            self._known[name] = value
        return self._known[name]

    def _worked_out(self, name: str) -> Array | None:
        carried = self._graph.carried.get(name)
        if carried is not None:
            return self._carried(name, carried)
        sources = self._graph.merged.get(name)
        if sources is not None:
            return self._alike(sources)
        op = self._graph.made.get(name)
        try:
            return self._result(op) if op is not None else None
        except (KeyError, TypeError, ValueError):
            return None  # parameters that no Triton prints, e.g. of an edited file

    def _carried(self, name: str, carried: Carried) -> Array | None:
        """A region's argument."""
        if not carried.sources or (carried.owner.name == "scf.for" and carried.index == 0):
            return self._drawn()
        first = self.value(carried.sources[0])
        if first is None:
            return None
        value = self._moved(first)
        before = set(self._known)
        # Assumed while it is looked at what an iteration makes of it.
        self._known[name] = value
        pending, self._pending = self._pending, set()
        following = [self.value(source) for source in carried.sources[1:]]
        self._pending = pending
        if all(other is not None and _is_uniform(other - value) for other in following):
            return value
        for rests_on_it in set(self._known) - before:
            del self._known[rests_on_it]
        return None

    def _alike(self, sources: Sequence[str]) -> Array | None:
        """One of several values that differ by a uniform amount."""
        values = [self.value(source) for source in sources]
        first = values[0] if values else None
        if first is None or any(
            other is None or not _is_uniform(other - first) for other in values
        ):
            return None
        return self._moved(first)

    def _moved(self, value: Array) -> Array:
        return value + self._drawn().reshape(-1, *(1,) * (value.ndim - 1))

    def _drawn(self) -> Array:
        """An unknown uniform number."""
        return self._random.integers(0, 64, len(self._program)) * 16

    def _result(self, op: TtgirOp) -> Array | None:
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
        count = len(self._program)
        if op.name == "arith.constant":
            number = op.attributes.get("value")
            if not isinstance(number, int):  # booleans are numbers, too
                return None
            return np.full((count, *shape), int(number), np.int64)
        if op.name == "tt.make_range":
            numbers = np.arange(op.attributes["start"], op.attributes["end"])
            return np.broadcast_to(numbers, (count, *shape))
        if op.name == "tt.get_program_id":
            is_x = op.attributes.get("axis") in ("x", 0)
            return self._program if is_x else np.zeros(count, np.int64)
        values = [self.value(name) for name in op.operands]
        if any(value is None for value in values) or not values:
            # Whatever a scalar comes from, all lanes have the same.
            return self._drawn() if result_type.kind == "scalar" else None
        return self._computed(op, short, result_type, values)  # type: ignore[arg-type]

    def _computed(
        self, op: TtgirOp, short: str, result_type: TtgirType, values: Sequence[Array]
    ) -> Array | None:
        import numpy as np

        first = values[0]
        if short in _SAME:
            return first
        if short == "trunci":
            return _wrapped(first, result_type)
        if short == "splat":
            return first.reshape(-1, *(1,) * len(result_type.shape))
        if short == "broadcast":
            return first
        if short == "expand_dims":
            return np.expand_dims(first, op.attributes["axis"] + 1)
        if short == "addptr":
            bits = element_bits(_pointee(result_type))
            return None if bits is None else first + values[1] * max(1, bits // 8)
        if short in ("cmpi", "select"):
            return _chosen(op, short, values)
        compute = _COMPUTED.get(op.name)
        if compute is None:
            return self._drawn() if result_type.kind == "scalar" else None
        with np.errstate(all="ignore"):
            return _wrapped(compute(*values), result_type)


def _is_uniform(value: Array) -> bool:
    """Whether all elements of each draw are the same."""
    rows = value.reshape(len(value), -1)
    return bool((rows == rows[:, :1]).all())


def _pointee(pointer_type: TtgirType) -> str:
    text = pointer_type.element if pointer_type.kind == "tensor" else pointer_type.text
    return text.partition("<")[2].rpartition(">")[0].partition(",")[0] or pointer_type.element


def _wrapped(value: Array, result_type: TtgirType) -> Array:
    """Numbers as signed integers of their type's width."""
    bits = element_bits(result_type.element)
    if bits is None or bits >= 64 or bits == 1:
        return value
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _chosen(op: TtgirOp, short: str, values: Sequence[Array]) -> Array | None:
    import numpy as np

    if short == "select":
        condition, *others = values
        # A scalar may choose between tensors.
        condition = condition.reshape(*condition.shape, *(1,) * (others[0].ndim - condition.ndim))
        return np.where(condition != 0, *others)
    compare = _COMPARED.get(str(op.attributes.get("predicate")))
    if compare is None:
        return None
    outcome: Array = compare(values[0], values[1]).astype(np.int64)
    return outcome


def _divided(value: Array, by: Array) -> Array:
    """Rounded to zero, as machines divide."""
    import numpy as np

    safe = np.where(by == 0, 1, by)
    quotient: Array = np.sign(value) * np.sign(safe) * np.floor_divide(abs(value), abs(safe))
    return quotient


def _remainder(value: Array, by: Array) -> Array:
    import numpy as np

    remainder: Array = value - _divided(value, by) * np.where(by == 0, 1, by)
    return remainder


def _lesser(one: Array, other: Array) -> Array:
    import numpy as np

    lesser: Array = np.minimum(one, other)
    return lesser


def _greater(one: Array, other: Array) -> Array:
    import numpy as np

    greater: Array = np.maximum(one, other)
    return greater


# Unsigned forms: addresses are not negative.
_COMPUTED: Final[Mapping[str, Callable[..., Any]]] = {
    "arith.addi": operator.add,
    "arith.andi": operator.and_,
    "arith.divsi": _divided,
    "arith.divui": _divided,
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
