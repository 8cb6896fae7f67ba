"""Keeps what was computed of the last modules: many metrics ask the same of a kernel's TTGIR."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final, TypeVar

from ..model import TtgirModule

Result = TypeVar("Result")
_MOST_RECENT: Final = 2


def kept_for_recent(
    compute: Callable[[TtgirModule], Result],
) -> Callable[[TtgirModule], Result]:
    """A function of a module whose results for the last two modules are kept; nobody changes them.

    By identity, which holds as long as the module is kept: comparing two takes longer than most
    that is computed of them.
    """
    recent: dict[int, tuple[TtgirModule, Result]] = {}

    @wraps(compute)
    def computed_once(module: TtgirModule) -> Result:
        known = recent.get(id(module))
        if known is not None:
            return known[1]
        result = compute(module)
        # Threads analyse several kernels at a time: another one may have dropped the same.
        for old in list(recent)[: 1 - _MOST_RECENT]:
            recent.pop(old, None)
        recent[id(module)] = module, result
        return result

    return computed_once
