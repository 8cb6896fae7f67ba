"""Runs deferred work within a budget of memory and time.

Random numbers come from torch's CPU generator, which has a GPU's distribution, not its sequence.
"""

from __future__ import annotations

import contextlib
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import torch

from .assumptions import REASONS
from .deferred import Launch
from .memory import Recipe, Snapshot, UnknownError, View, Work, view_of
from .tensors import DeviceTensor

MAX_BYTES = 1 << 30
"""Bytes of contents that may be alive at one time during a computation."""
MAX_SECONDS = 10.0
"""CPU time in seconds for all computations of one run of a script together."""
MAX_CACHED_BYTES = 1 << 28
"""Bytes of results that are cached for later reads."""

_TOO_LONG = f"that would take more than {MAX_SECONDS:g} s to compute"
_TOO_LARGE = f"that would take more than {MAX_BYTES >> 30} GiB to compute"
Storages = dict[Work, "list[Any]"]
"""Work -> the storages that it produced."""


@contextlib.contextmanager
def _plain_torch() -> Iterator[None]:
    """A context without the script's modes, default device, gradients and random state."""
    with (
        torch._C._DisableTorchDispatch(),
        torch._C.DisableTorchFunction(),
        torch.no_grad(),
        torch.random.fork_rng(()),
    ):
        yield


class EmulationBudget:
    """The wall time that emulated kernels may take in one run of a script.

    Operators that are run to compute a kernel's arguments count too.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds_left = seconds
        self._began: float | None = None

    @property
    def remaining(self) -> float:
        """Seconds that are left now; negative if overdrawn."""
        spent = 0.0 if self._began is None else time.monotonic() - self._began
        return self._seconds_left - spent

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
        self._settled: weakref.WeakSet[Work] = weakref.WeakSet()
        self._lock = threading.RLock()
        self.budget = EmulationBudget(0.0)

    def contents(self, tensor: DeviceTensor) -> torch.Tensor | None:
        """A tensor's contents, which the caller must not change; None if they stay unknown."""
        memory = tensor._memory
        recipe = memory.recipe
        if recipe is None:
            return None
        by_kernels = recipe.work.by_kernels
        with self._lock:
            started = time.process_time()
            try:
                with _plain_torch():
                    storage = self._storage(recipe, started + MAX_SECONDS - self._spent)
                    return view_of(tensor._payload).of(storage)
            except UnknownError as refusal:
                memory.refusal = str(refusal)
                memory.reason = refusal.reason or ("inputs" if by_kernels else None)
            except Exception as failure:  # e.g. no CPU kernel for the operator or the type
                text = str(failure).splitlines() or [type(failure).__name__]
                memory.refusal = f"that cannot be computed here: {text[0][:80]}"
                memory.reason = "failed" if by_kernels else None
            finally:
                self._spent += time.process_time() - started
            return None

    def _storage(self, recipe: Recipe, until: float) -> Any:
        """The storage that holds an allocation's contents.

        Raises:
            UnknownError: computing it does not fit the budgets.
        """
        if recipe.work.storages is not None:
            return recipe.work.storages[recipe.index]
        storages = dict(self._cached)
        steps = _steps(recipe.work, storages)
        last_use = {needed: work for work in steps for needed in work.needs}
        last_use[recipe.work] = recipe.work  # its own storages are needed after it
        out_of = "budget" if recipe.work.by_kernels else None
        if time.process_time() + sum(work.seconds for work in steps) > until:
            raise UnknownError(_TOO_LONG, out_of)
        if _peak_bytes(steps, last_use) > MAX_BYTES:
            raise UnknownError(_TOO_LARGE, out_of)
        emulates = any(isinstance(work, Launch) for work in steps)
        with self.budget.spending() if emulates else contextlib.nullcontext():
            for work in steps:
                if time.process_time() > until:
                    raise UnknownError(_TOO_LONG, out_of)
                if emulates and self.budget.remaining <= 0:
                    raise UnknownError(REASONS["budget"], "budget")
                is_launch = isinstance(work, Launch)
                tensors = [
                    _value(operand, storages, is_changed=is_launch or index in work.written)
                    for index, operand in enumerate(work.operands)
                ]
                nbytes = work.nbytes
                storages[work] = work.run(tensors, self.budget.remaining)
                del tensors
                if work.by_kernels:
                    self._settle(work, storages[work])
                elif nbytes <= MAX_CACHED_BYTES:
                    self._cache(work, storages[work])
                _drop_unneeded(storages, last_use, work)
        return storages[recipe.work][recipe.index]

    def _cache(self, work: Work, storages: list[Any]) -> None:
        """Caches storages; drops the oldest ones beyond `MAX_CACHED_BYTES`."""
        self._cached[work] = storages
        while sum(map(_size, self._cached.values())) > MAX_CACHED_BYTES:
            del self._cached[next(iter(self._cached))]

    def _settle(self, work: Work, storages: list[Any]) -> None:
        """Attaches storages to the work itself while there is room.

        A loop that reads what its kernels wrote continues from these storages: no launch is
        executed twice, and the work that led to them can be freed.
        """
        settled = sum(_size(work.storages or ()) for work in self._settled)
        if settled + _size(storages) > MAX_CACHED_BYTES:
            self._cache(work, storages)
            return
        work.settle(storages)
        self._settled.add(work)


def _size(storages: Any) -> int:
    return sum(storage.size() for storage in storages)


def _value(operand: View, storages: Storages, *, is_changed: bool) -> torch.Tensor:
    """The tensor that an operand stands for, a copy where the work may change it.

    Uninitialised memory is zero.
    """
    source = operand.source
    if source is None:
        return operand.of(torch.zeros(operand.nbytes, dtype=torch.uint8).untyped_storage())
    if isinstance(source, Snapshot):
        storage = source.storage()
    else:
        own = source.work.storages
        storage = (own if own is not None else storages[source.work])[source.index]
    return operand.of(storage.clone() if is_changed else storage)


def _steps(last: Work, storages: Storages) -> list[Work]:
    """The work that leads to some work and has yet to be run, in order."""
    steps: set[Work] = set()
    pending = [last]
    while pending:
        work = pending.pop()
        if work not in steps and work not in storages and work.storages is None:
            steps.add(work)
            pending += work.needs
    return sorted(steps, key=lambda work: work.number)


def _peak_bytes(steps: list[Work], last_use: dict[Work, Work]) -> int:
    """Bytes alive at one time, at most, while the steps are run."""
    sizes: dict[Work, int] = {}
    peak = 0
    for work in steps:
        sizes[work] = work.nbytes
        peak = max(peak, sum(sizes.values()))
        _drop_unneeded(sizes, last_use, work)
    return peak


def _drop_unneeded(by_work: dict[Work, Any], last_use: dict[Work, Work], work: Work) -> None:
    """Removes what no work after this one needs."""
    for unneeded in [w for w in by_work if last_use.get(w) is work and w is not work]:
        del by_work[unneeded]
