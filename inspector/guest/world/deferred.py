"""Contents of large tensors, computed only if the host asks for something that rests on them.

An operator on a large tensor is not run: its call is kept, with the calls that made its operands.
Where the script reads a value (`mask.sum().item()`, `lengths.max()`), what led to it is run then:
`rerunning`. This module keeps the calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .payloads import tensors
from .plans import OVERWRITING, SHAPED, Plan
from .tensors import DeviceTensor, Memory, bytes_of

DEEPEST = 200
"""Calls one behind the other that are kept: a training loop would go on without an end."""


UNTOUCHED = Memory(0, 0)
"""Of copies that only this package holds."""


class UnknownError(Exception):
    """Contents that cannot be computed; the reason completes "a tensor …".

    Args:
        text: the reason.
        reason: the same as one of `refused.REASONS`, where kernels are behind it; else None.
    """

    def __init__(self, text: str, reason: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason


@dataclass(eq=False)  # not frozen: they are made at each operator
class Known:
    """An operand with contents.

    Args:
        tensor: the operand.
        owner: counts what is written to it.
        version: the count when the call was kept.
    """

    tensor: torch.Tensor
    owner: Memory | torch.Tensor
    version: int

    def value(self) -> torch.Tensor:
        """The operand.

        Raises:
            UnknownError: it was written to since.
        """
        owner = self.owner
        version = owner.version if isinstance(owner, Memory) else owner._version
        if version != self.version:
            raise UnknownError("made from one that was overwritten since")
        return self.tensor


@dataclass(eq=False)  # not frozen: they are made at each operator
class Part:
    """An operand whose contents were put off, or a place that is written to.

    Args:
        source: the contents of its allocation; None where they may be anything.
        nbytes: of the allocation.
        dtype: of the view.
        size: of the view, by dimension.
        stride: of the view, by dimension, in elements.
        offset: of its first element, in elements.
    """

    source: Recipe | None
    nbytes: int
    dtype: torch.dtype
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @property
    def count(self) -> int:
        """Its elements."""
        return math.prod(self.size)

    @property
    def is_whole(self) -> bool:
        """Whether it is all of the allocation in the order of memory."""
        expected = 1
        for extent, stride in zip(reversed(self.size), reversed(self.stride)):
            if extent != 1 and stride != expected:
                return False
            expected *= extent
        return self.offset == 0 and self.count * self.dtype.itemsize == self.nbytes

    def of(self, storage: Any) -> torch.Tensor:
        """The view, of an allocation's contents."""
        view = torch.empty(0, dtype=self.dtype, device="cpu")  # whatever the script's default is
        return view.set_(storage, self.offset, self.size, self.stride)


@dataclass(eq=False)  # not frozen: they are made at each operator
class Target:
    """An argument that is written to: the n-th of the call's `targets`."""

    nth: int


@dataclass(eq=False)  # not frozen: they are made at each operator
class Work:
    """Something that was not run: an operator, or a kernel.

    Args:
        number: of the work; it rests on that of smaller numbers alone.
        targets: what it writes to, as it was before.
        operands: the other tensors.
        results: what it gives back, if that is anything else.
        depth: of the work behind it.
        by_kernels: whether it is a kernel, or one is behind it.
        made: the storages that it made, once it was run and they are kept with it.
    """

    number: int
    targets: tuple[Known | Part, ...]
    operands: tuple[Known | Part, ...]
    results: tuple[Part, ...]
    depth: int
    by_kernels: bool
    made: list[Any] | None = field(default=None, init=False)

    def settle(self, made: list[Any]) -> None:
        """Keeps what it made, and no longer what that was made from."""
        self.made = made
        self.targets = self.operands = ()
        self.depth = 0


@dataclass(eq=False)  # not frozen: they are made at each operator
class Call(Work):
    """An operator that was not run.

    Args:
        func: the overload.
        plan: what is known of it.
        args: its positional arguments, with `Known`, `Part` and `Target` in the place of tensors.
        kwargs: its keyword arguments, with the same in the place of tensors.
        seed: of its random numbers.
    """

    func: Any
    plan: Plan
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    seed: int

    def settle(self, made: list[Any]) -> None:
        """Keeps what it made, and no longer what that was made from."""
        super().settle(made)
        self.args, self.kwargs = (), {}


@dataclass(eq=False)  # not frozen: they are made at each operator
class Recipe:
    """The contents of one allocation: a call's n-th result, or the n-th place that it writes to."""

    call: Work
    nth: int


_TENSORS = (torch.Tensor, Known, Part, Target)


class Deferred:
    """Keeps the calls of one run."""

    def __init__(self) -> None:
        self.numbers = itertools.count()

    def keep(
        self, func: Any, plan: Plan, args: Sequence[Any], kwargs: Any, results: Any
    ) -> Call | None:
        """The call of an operator; None where some operand's contents cannot be known.

        Args:
            func: the overload.
            plan: what is known of it.
            args: its positional arguments; devices among them are the CPU.
            kwargs: its keyword arguments; devices among them are the CPU.
            results: tensors of its results' shapes; None where they are what it writes to.
        """
        if plan.uninitialised or plan.view or not plan.native:
            return None
        operands: list[Known | Part] = []
        targets: list[Known | Part] = []

        def operand(tensor: torch.Tensor) -> Known | Part:
            shaped = plan.name in SHAPED and not operands
            operands.append(geometry_of(tensor) if shaped else _operand(tensor))
            return operands[-1]

        def target(tensor: torch.Tensor) -> Target:
            targets.append(_place(tensor, plan))
            return Target(len(targets) - 1)

        places = dict(plan.mutates)
        names = places.values()
        try:
            call_args = [each(v, target if at in places else operand) for at, v in enumerate(args)]
            named = {
                name: each(v, target if name in names else operand)
                for name, v in kwargs.items()
                if name != "generator"
            }
        except UnknownError:
            return None
        depth = depth_over((*operands, *targets))
        if depth > DEEPEST:
            return None
        return Call(
            number=next(self.numbers),
            targets=tuple(targets),
            operands=tuple(operands),
            results=tuple(map(geometry_of, tensors(results))),
            depth=depth,
            by_kernels=any(map(is_by_kernels, (*operands, *targets))),
            func=func,
            plan=plan,
            args=call_args,
            kwargs=named,
            seed=torch.initial_seed() % (1 << 30),
        )


def part_of(tensor: DeviceTensor, source: Recipe | None) -> Part:
    """A device tensor as a view of what `source` makes."""
    return geometry_of(tensor._payload, source)


def geometry_of(tensor: torch.Tensor, source: Recipe | None = None) -> Part:
    """A plain or meta tensor as a view of its storage."""
    size, stride, offset = tensor.shape, tensor.stride(), tensor.storage_offset()
    return Part(source, bytes_of(tensor), tensor.dtype, size, stride, offset)


def each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to what stands for a tensor in an argument, lists searched."""
    if isinstance(value, _TENSORS):
        return change(value)
    if isinstance(value, (list, tuple)):
        changed = [each(inner, change) for inner in value]
        return changed if isinstance(value, list) else tuple(changed)
    return value


def depth_over(operands: Iterable[Known | Part]) -> int:
    """The depth of work over these operands."""
    return 1 + max((source.call.depth for source in sources_of(operands)), default=0)


def is_by_kernels(operand: Known | Part) -> bool:
    """Whether a kernel is behind an operand."""
    return any(source.call.by_kernels for source in sources_of((operand,)))


def sources_of(operands: Iterable[Known | Part]) -> Iterator[Recipe]:
    """What makes those operands that have yet to be made."""
    for operand in operands:
        if isinstance(operand, Part) and operand.source is not None:
            yield operand.source


def _operand(tensor: torch.Tensor) -> Known | Part:
    """What is kept of a tensor that an operator reads.

    Raises:
        UnknownError: nobody knows its contents.
    """
    if isinstance(tensor, DeviceTensor):
        memory = tensor._memory
        if not (memory.unknown or tensor._payload.is_meta):
            return Known(tensor._payload, memory, memory.version)
        if memory.recipe is not None:
            return part_of(tensor, memory.recipe)
    elif type(tensor) in (torch.Tensor, torch.nn.Parameter) and _counts(tensor):
        return Known(tensor.detach(), tensor, tensor._version)
    raise UnknownError("that nobody knows")


def _counts(tensor: torch.Tensor) -> bool:
    """Whether a tensor in host memory counts what is written to it."""
    return tensor.is_cpu and not tensor.is_inference()


def _place(tensor: torch.Tensor, plan: Plan) -> Known | Part:
    """What is kept of one that it writes to: nothing, where it overwrites all of it.

    Raises:
        UnknownError: it keeps some of what nobody knows.
    """
    if isinstance(tensor, DeviceTensor) and plan.name in OVERWRITING and is_whole(tensor):
        return part_of(tensor, None)
    operand = _operand(tensor)
    if isinstance(operand, Known):  # this very call is to write to it
        copied = geometry_of(operand.tensor).of(operand.tensor.untyped_storage().clone())
        return Known(copied, UNTOUCHED, UNTOUCHED.version)
    return operand


def is_whole(tensor: DeviceTensor) -> bool:
    """Whether a tensor is all of its allocation."""
    return part_of(tensor, None).is_whole
