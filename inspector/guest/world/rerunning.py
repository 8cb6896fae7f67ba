"""Runs the calls that were put off, as far as a budget of memory and seconds goes.

A reduction of all elements goes over its operand in pieces: the operand itself need not fit.
Random numbers are those of a CPU: as a GPU's they follow the distribution, not its sequence.
"""

from __future__ import annotations

import contextlib
import functools
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from .deferred import (
    Call,
    Known,
    Part,
    Recipe,
    Target,
    UnknownError,
    Work,
    each,
    geometry_of,
    part_of,
    sources_of,
)
from .launched import KernelCall
from .payloads import tensors
from .plans import LIKE, OVERWRITING
from .refused import REASONS
from .tensors import DeviceTensor

MOST_BYTES = 1 << 30
"""Of all contents that are held at one time."""
MOST_SECONDS = 10.0
"""Of CPU time in one run of a script, all together."""
PIECE = 1 << 22
"""Elements at a time. Random numbers are drawn by the piece: so the whole has the same ones."""
ELEMENTS_PER_SECOND, RANDOM_PER_SECOND, PRODUCTS_PER_SECOND = 5e8, 1e8, 5e9
"""What one core does, roughly: what would take longer than is left is not begun."""
MOST_KEPT = 1 << 28
"""Bytes of contents that are kept for the next question."""

CONVOLUTIONS = frozenset(("convolution", "_convolution"))
ATTENTION = frozenset(("scaled_dot_product_attention", "_scaled_dot_product_attention_math"))
PRODUCTS = frozenset(
    (
        *("mm", "bmm", "addmm", "baddbmm", "mv", "addmv", "dot", "linear", "matmul", "_int_mm"),
        *("_scaled_mm", *CONVOLUTIONS, *ATTENTION),
    )
)
FILLED = LIKE | {"zeros", "ones", "full", "rand", "randn", "randint"}
"""Make each element by itself, whatever the shape."""
ELEMENTWISE = frozenset(("_to_copy", "clone", "copy_", "isnan", "isinf", "nan_to_num"))
"""Take elements one by one, besides the operators that torch tags so."""
REDUCTIONS = frozenset(("sum", "mean", "max", "min", "amax", "amin", "any", "all", "count_nonzero"))

_TOO_LONG = f"that would take more than {MOST_SECONDS:g} s to compute"
_TOO_LARGE = f"that would take more than {MOST_BYTES >> 30} GiB to compute"

Storages = dict[Work, "list[Any]"]
"""Work -> the storages that it made."""
Piece = Callable[[Storages, int, int], torch.Tensor]
"""Makes elements from one place up to another, in the order of memory."""


@dataclass(frozen=True, eq=False)
class Step:
    """Work and how it is run.

    Args:
        call: it.
        needs: work whose results must be there before.
        piece: makes the operand of a reduction in pieces; None where nothing is done in pieces.
        bytes: that it makes.
        seconds: that it takes, roughly.
    """

    call: Work
    needs: tuple[Work, ...]
    piece: Piece | None
    bytes: int
    seconds: float


@dataclass
class Behind:
    """What an operand that is made in pieces is computed from.

    Args:
        whole: operands of a single element, which are there before.
        calls: those that are run by the piece.
    """

    whole: list[Part] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)


@contextlib.contextmanager
def _plain_torch() -> Iterator[None]:
    """No mode, default device or gradient of the script's; its random numbers stay as they are."""
    with contextlib.ExitStack() as stack:
        for context in (
            torch._C._DisableTorchDispatch(),
            torch._C.DisableTorchFunction(),
            torch.no_grad(),
            torch.random.fork_rng(()),
        ):
            stack.enter_context(context)
        yield


class Budget:
    """Seconds of wall time that kernels may be executed for, in one run of a script.

    What is computed for a kernel's sake counts as well.

    Args:
        seconds: so many.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._began: float | None = None

    @property
    def remaining(self) -> float:
        """What is left of it at this moment, less than 0 where it was overdrawn."""
        began = self._began
        return self.left if began is None else self.left - (time.monotonic() - began)

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """What happens inside counts; not twice where one is inside another."""
        if self._began is not None:
            yield
            return
        self._began = time.monotonic()
        try:
            yield
        finally:
            self.left, self._began = self.remaining, None


class Rerunning:
    """Computes contents, within one budget of time over its whole life."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._cached: Storages = {}
        self._settled: weakref.WeakSet[Work] = weakref.WeakSet()
        self._lock = threading.RLock()
        self.budget = Budget(0.0)

    def contents(self, tensor: DeviceTensor) -> torch.Tensor | None:
        """A tensor's contents, to be read only.

        Returns:
            None where they cannot be known, or not within the budget.
        """
        memory = tensor._memory
        recipe = memory.recipe
        if recipe is None:
            return None
        with self._lock:
            started = time.process_time()
            try:
                with _plain_torch():
                    storage = self._storage(recipe, started + MOST_SECONDS - self._spent)
                    return part_of(tensor, None).of(storage)
            except UnknownError as refusal:
                memory.refusal = str(refusal)
                memory.reason = refusal.reason or ("inputs" if recipe.call.by_kernels else None)
            except Exception as failure:  # the CPU lacks the operator or the type
                text = str(failure).splitlines() or [type(failure).__name__]
                memory.refusal = f"that cannot be computed here: {text[0][:80]}"
                memory.reason = "failed" if recipe.call.by_kernels else None
            finally:
                self._spent += time.process_time() - started
            return None

    def _storage(self, recipe: Recipe, until: float) -> Any:
        """The storage of an allocation.

        Raises:
            UnknownError: it cannot be had, or not within the budget.
        """
        if recipe.call.made is not None:
            return recipe.call.made[recipe.nth]
        storages = dict(self._cached)
        steps = _steps(recipe, storages)
        last: dict[Work, Work] = {}
        for step in steps:
            last.update((needed_call, step.call) for needed_call in step.needs)
        last[recipe.call] = recipe.call
        if time.process_time() + sum(step.seconds for step in steps) > until:
            raise UnknownError(_TOO_LONG)
        held: dict[Work, int] = {}
        for step in steps:
            held[step.call] = step.bytes
            if sum(held.values()) > MOST_BYTES:
                raise UnknownError(_TOO_LARGE)
            _drop(held, last, step.call)
        with contextlib.ExitStack() as stack:
            emulates = any(isinstance(step.call, KernelCall) for step in steps)
            if emulates:
                stack.enter_context(self.budget.spending())
            for step in steps:
                if time.process_time() > until:
                    raise UnknownError(_TOO_LONG)
                if emulates and self.budget.remaining <= 0:
                    raise UnknownError(REASONS["budget"], "budget")
                if isinstance(step.call, KernelCall):
                    allocations = [_allocation(its, storages) for its in step.call.operands]
                    made = step.call.run(allocations, self.budget.remaining)
                else:
                    made = _run(step, storages)
                storages[step.call] = made
                if step.call.by_kernels:
                    self._settle(step, storages[step.call])
                elif step.bytes <= MOST_KEPT and step.piece is None:
                    self._keep(step.call, storages[step.call])
                if step.call is not recipe.call:
                    _drop(storages, last, step.call)
        return storages[recipe.call][recipe.nth]

    def _keep(self, call: Work, storages: list[Any]) -> None:
        """Caches a call's storages; drops the oldest beyond the limit."""
        self._cached[call] = storages
        while sum(s.size() for held in self._cached.values() for s in held) > MOST_KEPT:
            del self._cached[next(iter(self._cached))]

    def _settle(self, step: Step, storages: list[Any]) -> None:
        """Keeps what was made with the work itself, as long as there is room.

        A loop that reads what its kernels wrote goes on from there: nothing is executed twice, and
        what was before is forgotten.
        """
        settled = sum(s.size() for work in self._settled for s in work.made or ())
        if settled + sum(s.size() for s in storages) > MOST_KEPT:
            self._keep(step.call, storages)
            return
        step.call.settle(storages)
        self._settled.add(step.call)


def _drop(held: dict[Work, Any], last: dict[Work, Work], call: Work) -> None:
    """Removes what no later step needs after a call."""
    for done in [c for c in held if last.get(c) is call and c is not call]:
        del held[done]


def _steps(recipe: Recipe, storages: Storages) -> list[Step]:
    """What must be run for an allocation, in order."""
    steps: dict[Work, Step] = {}
    left = [recipe.call]
    while left:
        call = left.pop()
        if call not in steps and call not in storages and call.made is None:
            steps[call] = _step(call)
            left += steps[call].needs
    return sorted(steps.values(), key=lambda step: step.call.number)


def _step(call: Work) -> Step:
    if isinstance(call, KernelCall):
        needs = tuple(source.call for source in sources_of(call.operands))
        return Step(call, needs, None, 2 * sum(call.nbytes), 0.0)  # its copies, and the emulator's
    assert isinstance(call, Call)
    reduced = _reduced(call)
    if reduced is not None:
        behind = Behind()
        piece = _in_pieces(reduced, behind)
        if piece is not None:
            seconds = sum(map(_seconds, (call, *behind.calls)))
            needs = tuple(source.call for source in sources_of(behind.whole))
            return Step(call, needs, piece, PIECE * 32, seconds)
    needs = tuple(source.call for source in sources_of((*call.operands, *call.targets)))
    size = sum(part.nbytes for part in (*call.results, *call.targets) if isinstance(part, Part))
    return Step(call, needs, None, size, _seconds(call))


def _run(step: Step, storages: Storages) -> list[Any]:
    """The storages that a call makes: of its results, or of what it writes to."""
    call = step.call
    assert isinstance(call, Call)
    if step.piece is not None:
        return [_over_pieces(call, step.piece, storages).untyped_storage()]
    if _is_filled(call):
        target = (call.targets or call.results)[0]
        assert isinstance(target, Part)
        filled = torch.empty(target.nbytes // target.dtype.itemsize, dtype=target.dtype)
        for begin in range(0, filled.numel(), PIECE):
            end = min(begin + PIECE, filled.numel())
            filled[begin:end] = _fill(call, target, storages, begin, end)
        return [filled.untyped_storage()]
    torch.manual_seed(_seed(call, 0))
    targets = [_value(operand, storages) for operand in call.targets]
    targets = [geometry_of(tensor).of(tensor.untyped_storage().clone()) for tensor in targets]
    results = _applied(
        call,
        lambda operand: (
            targets[operand.nth] if isinstance(operand, Target) else _value(operand, storages)
        ),
    )
    if call.targets:
        return [tensor.untyped_storage() for tensor in targets]
    expected = zip(tensors(results), call.results)
    return [_as_expected(result, part).untyped_storage() for result, part in expected]


def _allocation(operand: Known | Part, storages: Storages) -> torch.Tensor:
    """An argument's memory for a launch to change; zeros where nothing has written to it."""
    if isinstance(operand, Part) and operand.source is None:
        return torch.zeros(operand.nbytes, dtype=torch.uint8)
    return _value(operand, storages).clone()


def _applied(call: Call, change: Callable[[Any], torch.Tensor]) -> Any:
    args = [each(value, change) for value in call.args]
    return call.func(*args, **{name: each(value, change) for name, value in call.kwargs.items()})


def _as_expected(result: torch.Tensor, expected: Part) -> torch.Tensor:
    """A result in the memory layout that its meta kernel predicted."""
    is_alike = (
        tuple(result.stride()) == expected.stride and result.storage_offset() == expected.offset
    )
    if is_alike and result.untyped_storage().size() == expected.nbytes:
        return result
    storage = torch.empty(expected.nbytes, dtype=torch.uint8).untyped_storage()
    return expected.of(storage).copy_(result)


def _value(operand: Any, storages: Storages) -> torch.Tensor:
    if isinstance(operand, Known):
        return operand.value()
    if operand.source is None:  # it is overwritten
        return operand.of(torch.empty(operand.nbytes, dtype=torch.uint8).untyped_storage())
    source = operand.source
    made = source.call.made if source.call.made is not None else storages[source.call]
    return operand.of(made[source.nth])


def _seed(call: Call, begin: int) -> int:
    return (call.seed << 32) + (call.number << 12) + begin // PIECE


# --------------------------------------------------------------------------- in pieces


def _reduced(call: Call) -> Part | None:
    """The operand that a call reduces to one element; None for any other call."""
    if call.plan.name not in REDUCTIONS or call.targets or len(call.operands) != 1:
        return None
    if len(call.results) != 1 or call.results[0].count != 1:
        return None
    operand = call.operands[0]
    return operand if isinstance(operand, Part) and operand.count > PIECE else None


def _over_pieces(call: Call, piece: Piece, storages: Storages) -> torch.Tensor:
    """A reduction of all elements."""
    operand, name = call.operands[0], call.plan.name
    assert isinstance(operand, Part)
    result = call.results[0]
    partial = []
    for begin in range(0, operand.count, PIECE):
        part = piece(storages, begin, min(begin + PIECE, operand.count))
        if name in ("sum", "mean"):
            wide = torch.float64 if result.dtype.is_floating_point else None
            partial.append(part.sum(dtype=wide))
        elif name == "count_nonzero":
            partial.append(part.count_nonzero())
        else:
            partial.append(getattr(part, name)())
    joined = torch.stack(partial)
    total = joined.sum() if name in ("sum", "mean", "count_nonzero") else getattr(joined, name)()
    if name == "mean":
        total = total / operand.count
    return _as_expected(total.to(result.dtype).reshape(result.size), result)


def _in_pieces(part: Part, behind: Behind) -> Piece | None:
    """How to compute an operand in pieces; None where that is impossible.

    Args:
        part: the operand.
        behind: what stands behind it is added here.
    """
    if part.source is None or not part.is_whole:
        return None
    call = part.source.call
    if not isinstance(call, Call) or call.made is not None:
        return None
    behind.calls.append(call)
    if _is_filled(call):
        return functools.partial(_fill, call, part)
    if not (call.plan.pointwise or call.plan.name in ELEMENTWISE):
        return None
    pieces: dict[int, Piece] = {}
    for operand in (*call.operands, *call.targets):
        operand_piece = _operand_in_pieces(operand, part, behind)
        if operand_piece is None:
            return None
        pieces[id(operand)] = operand_piece

    def piece(storages: Storages, begin: int, end: int) -> torch.Tensor:
        def value(operand: Any) -> torch.Tensor:
            if isinstance(operand, Target):
                return pieces[id(call.targets[operand.nth])](storages, begin, end).clone()
            return pieces[id(operand)](storages, begin, end)

        result: torch.Tensor = _applied(call, value)
        return result

    return piece


def _operand_in_pieces(operand: Known | Part, like: Part, behind: Behind) -> Piece | None:
    size = operand.size if isinstance(operand, Part) else tuple(operand.tensor.shape)
    if isinstance(operand, Known):
        if operand.tensor.numel() == 1:
            return lambda storages, begin, end: operand.value().reshape(size[:1])
        if size == like.size and operand.tensor.is_contiguous():
            return lambda storages, begin, end: operand.value().reshape(-1)[begin:end]
        return None
    if operand.source is None:  # it is overwritten
        return lambda storages, begin, end: torch.empty(end - begin, dtype=operand.dtype)
    if operand.count == 1:
        behind.whole.append(operand)
        return lambda storages, begin, end: _value(operand, storages).reshape(size[:1])
    return _in_pieces(operand, behind) if size == like.size else None


def _is_filled(call: Call) -> bool:
    """Whether each element can be computed independently of the others."""
    if call.plan.name in FILLED:
        return len(call.results) == 1 and len(call.operands) <= 1
    targets = [
        target for target in call.targets if isinstance(target, Part) and target.source is None
    ]
    return call.plan.name in OVERWRITING and not call.operands and len(targets) == 1


def _fill(call: Call, part: Part, storages: Storages, begin: int, end: int) -> torch.Tensor:
    """Some elements of the result of a call for which `_is_filled` holds."""
    torch.manual_seed(_seed(call, begin))
    few = torch.empty(end - begin, dtype=part.dtype)
    if call.plan.name in OVERWRITING or call.operands:
        filled: torch.Tensor = _applied(call, lambda operand: few)
        return filled
    args = [[end - begin] if isinstance(value, (list, tuple)) else value for value in call.args]
    result: torch.Tensor = call.func(*args, **call.kwargs)
    return result


# --------------------------------------------------------------------------- what it takes


def _seconds(call: Call) -> float:
    """Roughly how long a call takes."""
    if call.plan.name in PRODUCTS and call.results:
        return call.results[0].count * _products(call) / PRODUCTS_PER_SECOND
    parts = (*call.operands, *call.targets, *call.results)
    counts = [
        operand.count if isinstance(operand, Part) else operand.tensor.numel() for operand in parts
    ]
    random = torch.Tag.nondeterministic_seeded in call.func.tags
    return max(counts, default=0) / (RANDOM_PER_SECOND if random else ELEMENTS_PER_SECOND)


def _products(call: Call) -> float:
    """Multiplications for each element of a result."""
    sizes = [
        operand.size if isinstance(operand, Part) else tuple(operand.tensor.shape)
        for operand in call.operands
    ]
    if len(sizes) > 1 and call.plan.name in CONVOLUTIONS:
        return math.prod(sizes[1][1:])
    if len(sizes) > 1 and call.plan.name in ATTENTION:
        return 2.0 * sizes[1][-2]
    return max((size[-1] for size in sizes if len(size) > 1), default=1)
