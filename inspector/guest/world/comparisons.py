"""Comparisons of results with references, which pass where no kernel computed the results."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from typing import Any

from .assumptions import LOG


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
    dispatcher = getattr(value, "dispatcher", None)
    return dispatcher is not None and bool(dispatcher.reads.is_unknown(value))


def _reason(value: Any) -> str | None:
    dispatcher = getattr(value, "dispatcher", None)
    return value._memory.reason if dispatcher is not None else None


def _is_unknown_array(value: Any) -> bool:
    return bool(getattr(value, "unknown", False)) or _is_unknown_tensor(value)


def install(torch: Any) -> None:
    """Makes torch's, Triton's and numpy's checks pass in this process.

    Assertions (`assert_close`) compare nothing; comparisons by which the script may decide
    (`allclose`) are done on known values.
    """
    for module, name in ((torch.testing, "assert_close"), (torch.testing, "assert_allclose")):
        if hasattr(module, name):
            setattr(module, name, _pass)
    for owner in (torch, torch.Tensor):
        for name in ("allclose", "equal"):
            setattr(owner, name, _assumed_equal(getattr(owner, name), _is_unknown_tensor))
    internal = sys.modules.get("torch.testing._internal.common_utils")
    if internal is not None:
        internal.TestCase.assertEqual = _pass
    testing: Any = importlib.import_module("triton.testing")
    if hasattr(testing, "assert_close"):
        testing.assert_close = _pass
    try:
        numpy: Any = importlib.import_module("numpy")
    except ImportError:
        return
    for name in dir(numpy.testing):
        if name.startswith("assert_"):
            setattr(numpy.testing, name, _pass)
    for name in ("allclose", "array_equal", "array_equiv"):
        setattr(numpy, name, _assumed_equal(getattr(numpy, name), _is_unknown_array))
