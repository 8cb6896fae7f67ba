"""Runs deferred calls within a budget of memory and time.

Reductions process their operand in pieces (`pieces`). Random numbers come from torch's CPU
generator: the distribution is that of a GPU's, the sequence is not.
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

from . import pieces
from .deferred import (
    Call,
    Known,
    Part,
    Recipe,
    Target,
    UnknownError,
    Work,
    geometry_of,
    part_of,
    sources_of,
)
from .estimates import seconds_of
from .evaluation import Storages, applied, as_predicted, value_of
from .launched import KernelCall
from .payloads import tensors
from .refused import REASONS
from .tensors import DeviceTensor

MOST_BYTES = 1 << 30
"""Most bytes of contents that may be alive at one time during a computation."""
MOST_SECONDS = 10.0
"""CPU time in seconds for all computations of one run of a script together."""
MOST_KEPT = 1 << 28
"""Most bytes of results that are cached for later reads."""

_TOO_LONG = f"that would take more than {MOST_SECONDS:g} s to compute"
_TOO_LARGE = f"that would take more than {MOST_BYTES >> 30} GiB to compute"


@dataclass(frozen=True, eq=False)
class Step:
    """One call of a computation, with its dependencies and cost.

    Args:
        call: the operator or kernel.
        needs: the calls that must be run before it.
        piece: computes the operand of a reduction piece by piece; None to run the call as a whole.
        bytes: size of what it allocates.
        seconds: estimated CPU time; 0 for kernels, whose time `Budget` limits.
    """

    call: Work
    needs: tuple[Work, ...]
    piece: pieces.Piece | None
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


class Budget:
    """The wall time that emulated kernels may take in one run of a script.

    Operators that are run to compute a kernel's arguments count too.

    Args:
        seconds: the whole budget.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self._began: float | None = None

    @property
    def remaining(self) -> float:
        """Seconds left now; negative if it is overdrawn."""
        began = self._began
        return self.left if began is None else self.left - (time.monotonic() - began)

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
            self.left, self._began = self.remaining, None


class Rerunning:
    """Computes tensors' contents on demand; one budget of CPU time covers its whole life."""

    def __init__(self) -> None:
        self._spent = 0.0
        self._cached: Storages = {}
        self._settled: weakref.WeakSet[Work] = weakref.WeakSet()
        self._lock = threading.RLock()
        self.budget = Budget(0.0)

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
                    storage = self._storage(recipe, started + MOST_SECONDS - self._spent)
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
        """The storage that holds an allocation's contents.

        Args:
            recipe: how the contents are made.
            until: no further step is started after this process CPU time, in seconds.

        Raises:
            UnknownError: they cannot be computed, or not within the budget.
        """
        if recipe.call.made is not None:
            return recipe.call.made[recipe.nth]
        storages = dict(self._cached)
        steps = _steps(recipe, storages)
        last_use = _last_uses(steps, recipe.call)
        too_long = UnknownError(_TOO_LONG, "budget" if recipe.call.by_kernels else None)
        if time.process_time() + sum(step.seconds for step in steps) > until:
            raise too_long
        if _peak_bytes(steps, last_use) > MOST_BYTES:
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
                elif step.bytes <= MOST_KEPT and step.piece is None:
                    self._keep(step.call, storages[step.call])
                if step.call is not recipe.call:
                    _drop_unneeded(storages, last_use, step.call)
        return storages[recipe.call][recipe.nth]

    def _run(self, step: Step, storages: Storages) -> list[Any]:
        """The storages that a step produces."""
        if not isinstance(step.call, KernelCall):
            return _run_operator(step, storages)
        allocations = [_allocation(operand, storages) for operand in step.call.operands]
        return step.call.run(allocations, self.budget.remaining)

    def _keep(self, call: Work, storages: list[Any]) -> None:
        """Caches a call's storages; drops the oldest ones beyond `MOST_KEPT`."""
        self._cached[call] = storages
        while (
            sum(s.size() for storages_of_call in self._cached.values() for s in storages_of_call)
            > MOST_KEPT
        ):
            del self._cached[next(iter(self._cached))]

    def _settle(self, step: Step, storages: list[Any]) -> None:
        """Attaches a call's storages to the call itself while there is room.

        A loop that reads what its kernels wrote continues from these storages: no launch is
        executed twice, and the calls that led to them can be freed.
        """
        settled = sum(s.size() for work in self._settled for s in work.made or ())
        if settled + sum(s.size() for s in storages) > MOST_KEPT:
            self._keep(step.call, storages)
            return
        step.call.settle(storages)
        self._settled.add(step.call)


def _steps(recipe: Recipe, storages: Storages) -> list[Step]:
    """The calls that compute an allocation's contents, in the order to run them."""
    steps: dict[Work, Step] = {}
    pending = [recipe.call]
    while pending:
        call = pending.pop()
        if call not in steps and call not in storages and call.made is None:
            steps[call] = _step(call)
            pending += steps[call].needs
    return sorted(steps.values(), key=lambda step: step.call.number)


def _step(call: Work) -> Step:
    if isinstance(call, KernelCall):
        needs = tuple(source.call for source in sources_of(call.operands))
        copies = 2 * sum(call.nbytes)  # one here, one in the emulator's process
        return Step(call, needs, None, copies, 0.0)
    assert isinstance(call, Call)
    operand = pieces.reduced_operand(call)
    if operand is not None:
        chain = pieces.Chain()
        piece = pieces.pieces_of(operand, chain)
        if piece is not None:
            seconds = sum(map(seconds_of, (call, *chain.calls)))
            needs = tuple(source.call for source in sources_of(chain.scalars))
            return Step(call, needs, piece, pieces.PIECE_ELEMENTS * 32, seconds)
    needs = tuple(source.call for source in sources_of((*call.operands, *call.targets)))
    size = sum(part.nbytes for part in (*call.results, *call.targets) if isinstance(part, Part))
    return Step(call, needs, None, size, seconds_of(call))


def _last_uses(steps: list[Step], result: Work) -> dict[Work, Work]:
    """Call -> the last call that needs its storages; the result itself needs its own."""
    last_use: dict[Work, Work] = {}
    for step in steps:
        last_use.update((needed, step.call) for needed in step.needs)
    last_use[result] = result
    return last_use


def _peak_bytes(steps: list[Step], last_use: dict[Work, Work]) -> int:
    """Most bytes that are alive at one time while the steps are run."""
    sizes: dict[Work, int] = {}
    peak = 0
    for step in steps:
        sizes[step.call] = step.bytes
        peak = max(peak, sum(sizes.values()))
        _drop_unneeded(sizes, last_use, step.call)
    return peak


def _drop_unneeded(by_call: dict[Work, Any], last_use: dict[Work, Work], call: Work) -> None:
    """Removes the storages that no call after this one needs."""
    for unneeded in [c for c in by_call if last_use.get(c) is call and c is not call]:
        del by_call[unneeded]


def _run_operator(step: Step, storages: Storages) -> list[Any]:
    """Runs an operator; returns the storages of its results, or of what it writes to."""
    call = step.call
    assert isinstance(call, Call)
    if step.piece is not None:
        return [pieces.reduce_in_pieces(call, step.piece, storages).untyped_storage()]
    if pieces.is_generator(call):
        return [pieces.generated(call, storages).untyped_storage()]
    torch.manual_seed(pieces.seed_of(call, 0))
    targets = [value_of(operand, storages) for operand in call.targets]
    targets = [geometry_of(tensor).of(tensor.untyped_storage().clone()) for tensor in targets]
    results = applied(
        call,
        lambda operand: (
            targets[operand.nth] if isinstance(operand, Target) else value_of(operand, storages)
        ),
    )
    if call.targets:
        return [tensor.untyped_storage() for tensor in targets]
    pairs = zip(tensors(results), call.results)
    return [as_predicted(result, part).untyped_storage() for result, part in pairs]


def _allocation(operand: Known | Part, storages: Storages) -> torch.Tensor:
    """A copy of a kernel argument's memory; zeros if it is uninitialised."""
    if isinstance(operand, Part) and operand.source is None:
        return torch.zeros(operand.nbytes, dtype=torch.uint8)
    return value_of(operand, storages).clone()
