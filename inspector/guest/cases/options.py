"""Checks the values of the compile options that a case states."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .case import Case, CaseError

MAX_WAVES_PER_EU = 16
"""Waves that a SIMD of any supported target holds at most (16 on RDNA 2 and later, 8 on CDNA)."""


def check_options(case: Case, defaults: Mapping[str, Any]) -> None:
    """Checks the values of a case's options; unknown options are left to the backend's parser.

    `case`: the case; an option of None means Triton's default.

    Raises:
        CaseError: the value of an option is invalid.
    """
    for name, value in case.options.items():
        if name not in defaults or value is None:
            continue
        accepts, allowed = RANGES.get(name) or TYPES.get(type(defaults[name]), (_anything, ""))
        if not accepts(value):
            raise CaseError(
                f"case {case.name!r} of kernel {case.kernel!r}: option {name} is {value!r}, "
                f"not {allowed}",
                f"give {name} as {allowed}, or leave it out for Triton's {defaults[name]!r}",
            )


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _anything(value: Any) -> bool:
    return True


Rule = tuple[Callable[[Any], bool], str]
"""Whether a value is allowed, and the allowed values in words."""
RANGES: Mapping[str, Rule] = {
    "num_warps": (
        lambda value: _is_integer(value) and value > 0 and value & (value - 1) == 0,
        "a power of two (1, 2, 4, 8, ...)",
    ),
    "num_stages": (lambda value: _is_integer(value) and value >= 0, "a whole number from 0 on"),
    "waves_per_eu": (
        lambda value: _is_integer(value) and 0 <= value <= MAX_WAVES_PER_EU,
        f"a whole number from 0 (no request) to {MAX_WAVES_PER_EU}",
    ),
}
TYPES: Mapping[type, Rule] = {
    bool: (lambda value: isinstance(value, int) and value in (0, 1), "True or False"),
    int: (_is_integer, "a whole number"),
    float: (lambda value: _is_integer(value) or isinstance(value, float), "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
}
