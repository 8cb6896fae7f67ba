"""Comparisons of results with references: real where values are, harmless where they are not.

A captured script's results are not computed, so its assertions compare nothing. Where every launch
is executed, they are torch's, numpy's and Triton's own, but for operands that could not be computed
here: these pass, and `assumptions.LOG` counts them.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from .assumptions import LOG, UnknownFloat
from .reads import is_unknown
from .tensors import DeviceTensor


def _pass(*args: Any, **kwargs: Any) -> None:
    """Takes the place of an assertion: compares nothing."""


def _assumed_equal(
    original: Callable[..., Any], is_unknown: Callable[[Any], bool]
) -> Callable[..., Any]:
    """A comparison that is true, as a logged assumption, where an operand is unknown."""

    @functools.wraps(original)
    def compare(*args: Any, **kwargs: Any) -> Any:
        operands = (*args, *kwargs.values())
        if any(map(is_unknown, operands)):
            reason = next(filter(None, map(_reason, operands)), None)
            return LOG.answer(f"{original.__name__}() of results that are not known", True, reason)
        return original(*args, **kwargs)

    return compare


def _is_unknown_tensor(value: Any) -> bool:
    return isinstance(value, DeviceTensor) and is_unknown(value)


def _reason(value: Any) -> str | None:
    return value._memory.reason if isinstance(value, DeviceTensor) else None


def _is_unknown_array(value: Any) -> bool:
    return bool(getattr(value, "unknown", False)) or _is_unknown_tensor(value)


NO_COMPARISONS = frozenset(
    (
        *("assert_raises", "assert_raises_regex", "assert_warns", "assert_no_warnings"),
        *("assert_no_gc_cycles",),
    )
)
"""Functions of numpy.testing that call a function, and compare nothing."""
_MAX_NESTING = 4
"""How deep unknown values are looked for in lists, tuples and dicts."""


def _holds_unknown(value: Any, depth: int = _MAX_NESTING) -> bool:
    """Whether a value is an unknown tensor, array or number, or a container with one."""
    if isinstance(value, UnknownFloat) or _is_unknown_array(value):
        return True
    if not depth or not isinstance(value, (list, tuple, dict)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return any(_holds_unknown(item, depth - 1) for item in inner)


def _comparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """An assertion that passes, and is counted, where an operand is unknown."""

    @functools.wraps(original)
    def check(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the caller's line
        if any(map(_holds_unknown, (*args, *kwargs.values()))):
            LOG.count_unjudged(f"{original.__name__}() of results that are not known")
            return None
        return original(*args, **kwargs)

    return check


def install(torch: Any, *, compares: bool) -> None:
    """Replaces torch's, Triton's and numpy's checks in this process.

    Comparisons by which a script may decide (`allclose`) are done on known values; of unknown ones
    they are assumed to be true.

    With `compares` assertions (`assert_close`) compare known values; else they compare nothing.
    """

    def replace(owner: Any, name: str) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _comparing(original) if compares else _pass)

    for name in ("assert_close", "assert_allclose"):
        replace(torch.testing, name)
    for owner in (torch, torch.Tensor):
        for name in ("allclose", "equal"):
            setattr(owner, name, _assumed_equal(getattr(owner, name), _is_unknown_tensor))
    internal = sys.modules.get("torch.testing._internal.common_utils")
    if internal is not None:
        replace(internal.TestCase, "assertEqual")
    replace(importlib.import_module("triton.testing"), "assert_close")
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        return
    for name in dir(numpy.testing):
        if name.startswith("assert_") and not (compares and name in NO_COMPARISONS):
            replace(numpy.testing, name)
    for name in ("allclose", "array_equal", "array_equiv"):
        setattr(numpy, name, _assumed_equal(getattr(numpy, name), _is_unknown_array))
