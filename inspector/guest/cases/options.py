"""Checks the compile options that a case states against what Triton takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .case import Case, CaseError

MOST_WAVES_PER_EU = 16
"""The most waves a SIMD of any supported target holds (RDNA 2 and later; CDNA: 8)."""


def check_options(case: Case, defaults: Mapping[str, Any]) -> None:
    """Checks the values of a case's options. Unknown options are left to the backend's parser.

    Args:
        case: its options; None stands for Triton's default.
        defaults: the backend's options by name, from which the types follow.

    Raises:
        CaseError: the first option that has a value Triton would stumble over.
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


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _anything(value: Any) -> bool:
    return True


Rule = tuple[Callable[[Any], bool], str]

RANGES: Mapping[str, Rule] = {
    "num_warps": (
        lambda value: _whole(value) and value > 0 and value & (value - 1) == 0,
        "a power of two (1, 2, 4, 8, ...)",
    ),
    "num_stages": (lambda value: _whole(value) and value >= 0, "a whole number from 0 on"),
    "waves_per_eu": (
        lambda value: _whole(value) and 0 <= value <= MOST_WAVES_PER_EU,
        f"a whole number from 0 (no request) to {MOST_WAVES_PER_EU}",
    ),
}
TYPES: Mapping[type, Rule] = {
    bool: (lambda value: isinstance(value, int) and value in (0, 1), "True or False"),
    int: (_whole, "a whole number"),
    float: (lambda value: _whole(value) or isinstance(value, float), "a number"),
    str: (lambda value: isinstance(value, str), "a string"),
}
