"""The launch that a case states: its grid, and the arguments with their memory.

With it the kernel's time is predicted as if a script had launched it. Nothing is known of what the
memory holds.
"""

from __future__ import annotations

import math
from typing import Any

from .case import DIVISIBLE, INTEGER, BoundCase, Case, CaseError, checked_grid, did_you_mean
from .types import TORCH_NAMES, element_of

_FIRST_ADDRESS = 1 << 44
_ALIGNMENT = 1 << 20
"""Bytes between which tensors begin; a page of a GPU's memory at least."""


def stated_launch(case: Case, bound: BoundCase, *, moved: bool) -> dict[str, Any]:
    """The fields that a launch adds to a variant's record: `grid`, `passed` and `values`.

    `moved`: whether the point has other constexprs than the case, for which a grid of plain numbers
    does not hold.

    Raises:
        CaseError: an argument is missing or unknown, or is not what the signature says.
    """
    subject = f"case {case.name!r} of kernel {case.kernel!r}"
    args = case.args
    if args is not None:
        _check_names(subject, case, bound)
    grid = _grid(subject, case, moved=moved)
    if args is None or grid is None:
        return {"grid": grid}
    parameters: list[list[Any]] = []
    memories: list[dict[str, Any]] = []
    free = _FIRST_ADDRESS
    for name, kind in bound.signature.items():
        if kind == "constexpr":
            continue
        value = args[name]
        if not kind.startswith("*"):
            parameters.append([kind, _scalar(subject, name, kind, value, bound)])
            continue
        size, dtype = _memory(subject, name, kind, value)
        parameters.append([kind, free])
        memories.append({"address": free, "size": size, "dtype": dtype, "contents": None})
        free += _ALIGNMENT * (2 + size // _ALIGNMENT)
    return {
        "grid": grid,
        "passed": {"parameters": parameters, "memories": memories},
        "values": {
            name: args[name]
            for name, kind in bound.signature.items()
            if type(args.get(name)) is int and not kind.startswith("*")
        },
    }


def _check_names(subject: str, case: Case, bound: BoundCase) -> None:
    assert case.args is not None
    taken = [name for name, kind in bound.signature.items() if kind != "constexpr"]
    known = {*taken, *case.signature}
    if unknown := [name for name in case.args if name not in known]:
        raise CaseError(
            f"{subject}: 'args' names {unknown[0]!r}, which 'signature' has not"
            f"{did_you_mean(unknown, taken)}",
            f"the signature has {', '.join(taken)}",
        )
    if missing := [name for name in taken if name not in case.args]:
        raise CaseError(
            f"{subject}: 'args' lacks {', '.join(missing)}",
            "give a number for each scalar, and elements or a shape for each pointer",
        )


def _grid(subject: str, case: Case, *, moved: bool) -> list[int] | None:
    if not callable(case.grid):
        return list(case.grid) if case.grid is not None and not moved else None
    try:
        grid = case.grid({**(case.args or {}), **case.constexprs})
    except Exception as error:
        raise CaseError(
            f"{subject}: 'grid' raised {type(error).__name__}: {error}",
            "it is called with a dict of the constexprs and args",
        ) from None
    return list(checked_grid(subject, grid) or ()) or None


def _scalar(subject: str, name: str, kind: str, value: Any, bound: BoundCase) -> int | float | str:
    if INTEGER.fullmatch(kind) is None:
        if type(value) not in (int, float):
            raise CaseError(f"{subject}: {name!r} is {value!r} in 'args'", "give a number")
        return float(value) if math.isfinite(value) else str(float(value))
    if type(value) not in (int, bool):
        raise CaseError(f"{subject}: {name!r} is {value!r} in 'args'", "give an integer")
    if name in bound.divisible and value % int(DIVISIBLE):
        raise CaseError(
            f"{subject}: {name!r} is {value} in 'args', and :{DIVISIBLE} in 'signature'",
            f"a multiple of {DIVISIBLE}, or drop the :{DIVISIBLE}",
        )
    return int(value)


def _memory(subject: str, name: str, kind: str, value: Any) -> tuple[int, str]:
    """Bytes and torch's type of the tensor that a pointer points to."""
    element = element_of(kind)
    shape = value if isinstance(value, (list, tuple)) else [value]
    if element is None or not all(type(n) is int and n > 0 for n in shape):
        raise CaseError(
            f"{subject}: {name!r} ({kind}) is {value!r} in 'args'",
            "give the elements of the tensor or its shape, e.g. [4096, 4096]",
        )
    type_name, element_bytes = element
    return math.prod(shape) * element_bytes, TORCH_NAMES.get(type_name, "uint8")
