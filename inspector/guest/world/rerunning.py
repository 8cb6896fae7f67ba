"""Runs deferred calls within a budget of memory and time.

Reductions process their operand in pieces (`piecewise`). Random numbers come from torch's CPU
generator: they have a GPU's distribution, but not its sequence.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from . import piecewise
from .contents import DeferredWork, KnownOperand, OutputMarker, Recipe, StridedView, UnknownError
from .deferred import Call, geometry_of, part_of, sources_of
from .evaluation import Storages, as_predicted, call_with, seconds_of, value_of
from .payloads import tensors
from .pending_launches import KernelCall
from .refusal import REASONS
from .tensors import DeviceTensor

MAX_BYTES = 1 << 30
"""Bytes of contents that may be alive at one time during a computation."""
MAX_SECONDS = 10.0
"""CPU time in seconds for all computations of one run of a script together."""
MAX_CACHED_BYTES = 1 << 28
"""Bytes of results that are cached for later reads."""

_TOO_LONG = f"that would take more than {MAX_SECONDS:g} s to compute"
_TOO_LARGE = f"that would take more than {MAX_BYTES >> 30} GiB to compute"


@dataclass(frozen=True, eq=False)
class RerunStep:
    """One call of a computation, with its dependencies and cost.

    Args:
        call: the operator or kernel.
        needs: the calls that must be run before it.
        piece: computes the operand of a reduction piece by piece; None to run the call at once.
        bytes: size of what it allocates.
        seconds: estimated CPU time; 0 for kernels, whose time `EmulationBudget` limits.
    """

    call: DeferredWork
    needs: tuple[DeferredWork, ...]
    piece: piecewise.Piece | None
    bytes: int
    seconds: float


@contextlib.contextmanager
def _plain_torch() -> Iterator[None]:
    """A context without the script's modes, default device, gradients and random state."""
    with contextlib.ExitStack() as stack:
        for context in (
            torch._C._DisableTorchDispatch(),
            torch._C.DisableTorchFunction(),
            torch.no_grad(),
            torch.random.fork_rng(()),
        ):
            stack.enter_context(context)
        yield


class EmulationBudget:
    """The wall time that emulated kernels may take in one run of a script.

    Operators that are run to compute a kernel's arguments count too.

    Args:
        seconds: the whole budget.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds_left = seconds
        self._began: float | None = None

    @property
    def remaining(self) -> float:
        """Seconds that are left now; negative if overdrawn."""
        began = self._began
        return (
            self._seconds_left if began is None else self._seconds_left - (time.monotonic() - began)
        )

    @contextlib.contextmanager
    def spending(self) -> Iterator[None]:
        """Counts the time spent inside; nested contexts count once."""
        if self._began is not None:
            yield
            return
        self._began = time.monotonic()
        try:
            yield
        finally:
            self._seconds_left, self._began = self.remaining, None


class Rerunning:
    """Computes tensors' contents on demand; one budget of CPU time covers its whole life."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._cached: Storages = {}
        self._settled: weakref.WeakSet[DeferredWork] = weakref.WeakSet()
        self._lock = threading.RLock()
        self.budget = EmulationBudget(0.0)

    def contents(self, tensor: DeviceTensor) -> torch.Tensor | None:
        """A tensor's contents. The caller must not change them.

        Returns:
            The contents; None if they cannot be known or do not fit the budget.
        """
        memory = tensor._memory
        recipe = memory.recipe
        if recipe is None:
            return None
        with self._lock:
            started = time.process_time()
            try:
                with _plain_torch():
                    storage = self._storage(recipe, started + MAX_SECONDS - self._spent)
                    return part_of(tensor, None).of(storage)
            except UnknownError as refusal:
                memory.refusal = str(refusal)
                memory.reason = refusal.reason or ("inputs" if recipe.call.by_kernels else None)
            except Exception as failure:  # e.g. no CPU kernel for the operator or the type
                text = str(failure).splitlines() or [type(failure).__name__]
                memory.refusal = f"that cannot be computed here: {text[0][:80]}"
                memory.reason = "failed" if recipe.call.by_kernels else None
            finally:
                self._spent += time.process_time() - started
            return None

    def _storage(self, recipe: Recipe, until: float) -> Any:
        """The storage that holds an allocation's contents."""
        if recipe.call.storages is not None:
            return recipe.call.storages[recipe.index]
        storages = dict(self._cached)
        steps = _steps(recipe, storages)
        last_use = _last_uses(steps, recipe.call)
        too_long = UnknownError(_TOO_LONG, "budget" if recipe.call.by_kernels else None)
        if time.process_time() + sum(step.seconds for step in steps) > until:
            raise too_long
        if _peak_bytes(steps, last_use) > MAX_BYTES:
            raise UnknownError(_TOO_LARGE, "budget" if recipe.call.by_kernels else None)
        with contextlib.ExitStack() as stack:
            emulates = any(isinstance(step.call, KernelCall) for step in steps)
            if emulates:
                stack.enter_context(self.budget.spending())
            for step in steps:
                if time.process_time() > until:
                    raise too_long
                if emulates and self.budget.remaining <= 0:
                    raise UnknownError(REASONS["budget"], "budget")
                storages[step.call] = self._run(step, storages)
                if step.call.by_kernels:
                    self._settle(step, storages[step.call])
                elif step.bytes <= MAX_CACHED_BYTES and step.piece is None:
                    self._cache(step.call, storages[step.call])
                if step.call is not recipe.call:
                    _drop_unneeded(storages, last_use, step.call)
        return storages[recipe.call][recipe.index]

    def _run(self, step: RerunStep, storages: Storages) -> list[Any]:
        """The storages that a step produces."""
        if not isinstance(step.call, KernelCall):
            return _run_operator(step, storages)
        allocations = [_allocation(operand, storages) for operand in step.call.operands]
        return step.call.run(allocations, self.budget.remaining)

    def _cache(self, call: DeferredWork, storages: list[Any]) -> None:
        """Caches a call's storages; drops the oldest ones beyond `MAX_CACHED_BYTES`."""
        self._cached[call] = storages
        while (
            sum(s.size() for storages_of_call in self._cached.values() for s in storages_of_call)
            > MAX_CACHED_BYTES
        ):
            del self._cached[next(iter(self._cached))]

    def _settle(self, step: RerunStep, storages: list[Any]) -> None:
        """Attaches a call's storages to the call itself while there is room.

        A loop that reads what its kernels wrote continues from these storages: no launch is
        executed twice, and the calls that led to them can be freed.
        """
        settled = sum(s.size() for work in self._settled for s in work.storages or ())
        if settled + sum(s.size() for s in storages) > MAX_CACHED_BYTES:
            self._cache(step.call, storages)
            return
        step.call.settle(storages)
        self._settled.add(step.call)


def _steps(recipe: Recipe, storages: Storages) -> list[RerunStep]:
    """The calls that compute an allocation's contents, in the order to run them."""
    steps: dict[DeferredWork, RerunStep] = {}
    pending = [recipe.call]
    while pending:
        call = pending.pop()
        if call not in steps and call not in storages and call.storages is None:
            steps[call] = _step(call)
            pending += steps[call].needs
    return sorted(steps.values(), key=lambda step: step.call.number)


def _step(call: DeferredWork) -> RerunStep:
    """The step that runs a call."""
    if isinstance(call, KernelCall):
        needs = tuple(source.call for source in sources_of(call.operands))
        copies = 2 * sum(call.nbytes)  # one here, one in the emulator's process
        return RerunStep(call, needs, None, copies, 0.0)
    assert isinstance(call, Call)
    operand = piecewise.reduced_operand(call)
    if operand is not None:
        chain = piecewise.Chain()
        piece = piecewise.pieces_of(operand, chain)
        if piece is not None:
            seconds = sum(map(seconds_of, (call, *chain.calls)))
            needs = tuple(source.call for source in sources_of(chain.scalars))
            return RerunStep(call, needs, piece, piecewise.PIECE_ELEMENTS * 32, seconds)
    needs = tuple(source.call for source in sources_of((*call.operands, *call.targets)))
    size = sum(
        part.nbytes for part in (*call.results, *call.targets) if isinstance(part, StridedView)
    )
    return RerunStep(call, needs, None, size, seconds_of(call))


def _last_uses(steps: list[RerunStep], result: DeferredWork) -> dict[DeferredWork, DeferredWork]:
    """Call -> the last call that needs its storages; the result itself needs its own."""
    last_use: dict[DeferredWork, DeferredWork] = {}
    for step in steps:
        last_use.update((needed, step.call) for needed in step.needs)
    last_use[result] = result
    return last_use


def _peak_bytes(steps: list[RerunStep], last_use: dict[DeferredWork, DeferredWork]) -> int:
    """Bytes alive at one time, at most, while the steps are run."""
    sizes: dict[DeferredWork, int] = {}
    peak = 0
    for step in steps:
        sizes[step.call] = step.bytes
        peak = max(peak, sum(sizes.values()))
        _drop_unneeded(sizes, last_use, step.call)
    return peak


def _drop_unneeded(
    by_call: dict[DeferredWork, Any], last_use: dict[DeferredWork, DeferredWork], call: DeferredWork
) -> None:
    """Removes the storages that no call after this one needs."""
    for unneeded in [c for c in by_call if last_use.get(c) is call and c is not call]:
        del by_call[unneeded]


def _run_operator(step: RerunStep, storages: Storages) -> list[Any]:
    """Runs an operator; returns the storages of its results, or of what it writes to."""
    call = step.call
    assert isinstance(call, Call)
    if step.piece is not None:
        return [piecewise.reduce_in_pieces(call, step.piece, storages).untyped_storage()]
    if piecewise.is_generator(call):
        return [piecewise.generated(call, storages).untyped_storage()]
    torch.manual_seed(piecewise.seed_of(call, 0))
    targets = [value_of(operand, storages) for operand in call.targets]
    targets = [geometry_of(tensor).of(tensor.untyped_storage().clone()) for tensor in targets]
    results = call_with(
        call,
        lambda operand: (
            targets[operand.index]
            if isinstance(operand, OutputMarker)
            else value_of(operand, storages)
        ),
    )
    if call.targets:
        return [tensor.untyped_storage() for tensor in targets]
    pairs = zip(tensors(results), call.results)
    return [as_predicted(result, part).untyped_storage() for result, part in pairs]


def _allocation(operand: KnownOperand | StridedView, storages: Storages) -> torch.Tensor:
    """A copy of a kernel argument's memory; zeros if it is uninitialised."""
    if isinstance(operand, StridedView) and operand.source is None:
        return torch.zeros(operand.nbytes, dtype=torch.uint8)
    return value_of(operand, storages).clone()
