"""Work on large tensors, and launches: run only if the host reads something that depends on it.

At an operator on a large tensor, or at a launch, nothing is run or copied: its call is stored as
the recipe of the memory that it writes to, with the memory that it reads. `rerunning` runs the
calls that lead to what the script reads (`mask.sum().item()`, `lengths.max()`).
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .assumptions import REASONS, LaunchRefusedError
from .memory import Memory, Recipe, Snapshot, UnknownError, View, Work, view_of
from .operators import OVERWRITING, SHAPED, Invocation, OperatorPlan, tensors_in
from .tensors import DeviceTensor

MAX_DEPTH = 200
"""Length of the longest chain of deferred work: a training loop would extend one without end."""
MAX_ALIVE_BYTES = 1 << 30
"""Bytes of memory that deferred work may keep alive when a launch is added."""
# Throughput of one CPU core, to an order of magnitude.
ELEMENTS_PER_SECOND, RANDOM_PER_SECOND, PRODUCTS_PER_SECOND = 5e8, 1e8, 5e9
CONVOLUTIONS = frozenset(("convolution", "_convolution"))
ATTENTION = frozenset(("scaled_dot_product_attention", "_scaled_dot_product_attention_math"))
PRODUCTS = frozenset(
    (
        *("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "linear", "matmul", "_int_mm"),
        *("_scaled_mm", *CONVOLUTIONS, *ATTENTION),
    )
)

Execute = Callable[[Sequence[torch.Tensor], Sequence[int], float], None]
"""Executes a launch: (allocations, written, seconds). The allocations are byte tensors, changed in
place; `written` lists the indices of those that may change. Raises `LaunchRefusedError`."""
_numbers = itertools.count()


@dataclass(eq=False)
class Call(Work):
    """A deferred operator.

    Args:
        args: its positional arguments, with `View`s in place of tensors.
        seed: seed of its random numbers.
    """

    func: Any
    plan: OperatorPlan
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    seed: int

    @property
    def seconds(self) -> float:
        """Estimated CPU seconds, so that a call that would take too long is not begun."""
        if self.plan.name in PRODUCTS and self.results:
            return self.results[0].count * self._products_per_element() / PRODUCTS_PER_SECOND
        is_random = torch.Tag.nondeterministic_seeded in self.func.tags
        count = max((view.count for view in (*self.operands, *self.results)), default=0)
        return count / (RANDOM_PER_SECOND if is_random else ELEMENTS_PER_SECOND)

    def _products_per_element(self) -> float:
        """Multiplications for each element of the result."""
        sizes = [view.size for view in self.operands]
        if len(sizes) > 1 and self.plan.name in CONVOLUTIONS:
            return math.prod(sizes[1][1:])  # the filter: channels times window
        if len(sizes) > 1 and self.plan.name in ATTENTION:
            return 2.0 * sizes[1][-2]  # Q times K, then times V, over the length of the keys
        return max((size[-1] for size in sizes if len(size) > 1), default=1)

    def run(self, tensors: Sequence[torch.Tensor], seconds: float) -> list[Any]:
        """Runs the operator; its random numbers depend only on its place in the script."""
        torch.manual_seed((self.seed << 32) + (self.number << 12))
        tensor_by_view = {id(view): tensor for view, tensor in zip(self.operands, tensors)}

        def tensor_for(view: View) -> torch.Tensor:
            return tensor_by_view[id(view)]

        args = [_map_views(value, tensor_for) for value in self.args]
        kwargs = {name: _map_views(value, tensor_for) for name, value in self.kwargs.items()}
        results = self.func(*args, **kwargs)
        if self.written:
            return [tensors[index].untyped_storage() for index in self.written]
        pairs = zip(tensors_in(results), self.results)
        return [_as_predicted(result, view).untyped_storage() for result, view in pairs]

    def settle(self, storages: list[Any]) -> None:
        """Stores the storages that it produced, and drops its operands and arguments."""
        super().settle(storages)
        self.args, self.kwargs = (), {}


@dataclass(eq=False)
class Launch(Work):
    """A launch of a kernel; its operands are allocations, as bytes."""

    execute: Execute
    refusal: LaunchRefusedError | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.by_kernels = True

    @property
    def nbytes(self) -> int:
        """Bytes that running it allocates: a copy here, one in the emulator's process."""
        return 2 * sum(view.nbytes for view in self.operands)

    def run(self, tensors: Sequence[torch.Tensor], seconds: float) -> list[Any]:
        """Executes it.

        Raises:
            UnknownError: that fails now or failed before.
        """
        if self.refusal is None:
            try:
                self.execute(tensors, self.written, seconds)
            except LaunchRefusedError as refusal:
                self.refusal = refusal
        if self.refusal is not None:
            raise UnknownError(str(self.refusal), self.refusal.reason)
        return [tensors[index].untyped_storage() for index in self.written]

    def settle(self, storages: list[Any]) -> None:
        """Stores the storages that it wrote, and drops what it would be executed with again."""
        super().settle(storages)
        del self.execute


def deferred_call(operation: Invocation, results: Any) -> Call | None:
    """Defers an operator; None if some operand's contents can never be known.

    Args:
        operation: the operator and its arguments; devices among them are the CPU.
        results: tensors of its results' shapes; None if its results are arguments.
    """
    plan = operation.plan
    if plan.uninitialised or plan.view or not plan.native:
        return None
    operands: list[View] = []
    written: list[int] = []

    def read(tensor: torch.Tensor) -> View:
        is_shaped = plan.name in SHAPED and not operands
        operands.append(view_of(tensor) if is_shaped else _operand(tensor))
        return operands[-1]

    def write(tensor: torch.Tensor) -> View:
        overwrites = plan.name in OVERWRITING and isinstance(tensor, DeviceTensor)
        blank = view_of(tensor._payload) if overwrites else None
        written.append(len(operands))
        operands.append(blank if blank is not None and blank.is_whole else _operand(tensor))
        return operands[-1]

    written_names = dict(plan.mutates)
    try:
        args = [
            _map_views(value, write if position in written_names else read)
            for position, value in enumerate(operation.args)
        ]
        kwargs = {
            name: _map_views(value, write if name in written_names.values() else read)
            for name, value in operation.kwargs.items()
            if name != "generator"
        }
    except UnknownError:
        return None
    call = Call(
        number=next(_numbers),
        operands=tuple(operands),
        written=tuple(written),
        results=tuple(map(view_of, tensors_in(results))),
        func=operation.func,
        plan=plan,
        args=args,
        kwargs=kwargs,
        seed=torch.initial_seed() % (1 << 30),
    )
    return call if call.depth <= MAX_DEPTH else None


def deferred_launch(
    tensors: Sequence[DeviceTensor], is_written: Sequence[bool], execute: Execute
) -> Launch | None:
    """Defers a launch: makes it the recipe of the memory that it writes to.

    `execute` gets the arguments' allocations: each once, in the order of the arguments.

    Returns:
        The launch; None, with nothing changed, if its inputs cannot be known.
    """
    owners = {id(tensor._memory): tensor for tensor in reversed(tensors)}
    memories = list(dict.fromkeys(id(tensor._memory) for tensor in tensors))
    written = {id(tensor._memory) for tensor, writes in zip(tensors, is_written) if writes}
    try:
        operands = tuple(_allocation(owners[memory], memory in written) for memory in memories)
    except UnknownError:
        return None
    indices = tuple(index for index, memory in enumerate(memories) if memory in written)
    launch = Launch(next(_numbers), operands, indices, (), execute)
    if launch.depth > MAX_DEPTH or Snapshot.alive_bytes > MAX_ALIVE_BYTES:
        return None
    for storage_index, index in enumerate(indices):
        owners[memories[index]]._memory.recipe = Recipe(launch, storage_index)
    return launch


def _map_views(value: Any, change: Callable[[Any], Any]) -> Any:
    """Applies `change` to the tensors, or the views, in an argument, lists and tuples too."""
    if isinstance(value, (torch.Tensor, View)):
        return change(value)
    if isinstance(value, (list, tuple)):
        changed = [_map_views(inner, change) for inner in value]
        return changed if isinstance(value, list) else tuple(changed)
    return value


def _operand(tensor: torch.Tensor) -> View:
    """A tensor with its present contents, known or deferred."""
    if isinstance(tensor, DeviceTensor):
        memory, payload = tensor._memory, tensor._payload
        if not (memory.unknown or payload.is_meta):
            return view_of(payload, _snapshot(memory, payload))
        if memory.recipe is not None:
            return view_of(payload, memory.recipe)
    elif type(tensor) in (torch.Tensor, torch.nn.Parameter) and _counts(tensor):
        plain = tensor.detach()
        return view_of(plain, Snapshot(plain.untyped_storage(), plain))
    raise UnknownError("that nobody knows")


def _counts(tensor: torch.Tensor) -> bool:
    return tensor.is_cpu and not tensor.is_inference()


def _snapshot(memory: Memory, payload: torch.Tensor) -> Snapshot:
    """The snapshot of an allocation's present contents, which all deferred work shares."""
    snapshot = memory.snapshot() if memory.snapshot is not None else None
    if snapshot is None:
        snapshot = Snapshot(payload.untyped_storage())
        memory.snapshot = weakref.ref(snapshot)
    return snapshot


def _allocation(tensor: DeviceTensor, is_written: bool) -> View:
    """A tensor's whole allocation, as bytes."""
    memory, payload = tensor._memory, tensor._payload
    nbytes = int(payload.untyped_storage().size())
    allocation = View(memory.recipe, nbytes, torch.uint8, (nbytes,), (1,), 0)
    if memory.recipe is not None and (memory.unknown or payload.is_meta):
        return allocation
    # Uninitialised memory is fine: the kernel may write it, or read only an initialised part.
    is_blank = memory.unknown and memory.blank and (is_written or memory.unset is not None)
    if (memory.unknown or payload.is_meta) and not is_blank:
        raise UnknownError(REASONS["inputs"], "inputs")
    allocation.source = None if payload.is_meta else _snapshot(memory, payload)
    return allocation


def _as_predicted(result: torch.Tensor, predicted: View) -> torch.Tensor:
    """A result in the memory layout that the operator's meta kernel predicted."""
    found = view_of(result)
    if (tuple(found.stride), found.offset, found.nbytes) == (
        tuple(predicted.stride),
        predicted.offset,
        predicted.nbytes,
    ):
        return result
    storage = torch.empty(predicted.nbytes, dtype=torch.uint8).untyped_storage()
    return predicted.of(storage).copy_(result)
