"""Keeps what was computed of the last kernels: many metrics ask the same of one."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

Kernel = TypeVar("Kernel")
Result = TypeVar("Result")
_MOST_RECENT: Final = 2


def kept_for_recent(compute: Callable[[Kernel], Result]) -> Callable[[Kernel], Result]:
    """A function of a kernel or a module whose results for the last two of them are kept.

    By identity, which holds as long as the kernel is kept: comparing two takes longer than most
    that is computed of them. Callers share the results.
    """
    recent: dict[int, tuple[Kernel, Result]] = {}

    @wraps(compute)
    def computed_once(kernel: Kernel) -> Result:
        known = recent.get(id(kernel))
        if known is not None:
            return known[1]
        result = compute(kernel)
        # Threads analyse several kernels at a time: another one may have dropped the same.
        for old in list(recent)[: 1 - _MOST_RECENT]:
            recent.pop(old, None)
        recent[id(kernel)] = kernel, result
        return result

    return computed_once
