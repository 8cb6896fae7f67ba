"""Compares a kernel's result with the reference's: dtype, shape, device, NaN and error."""

from __future__ import annotations

import importlib
import math
from typing import Any, NamedTuple

from .kernel_file import map_values, tensors_of

CHUNK = 1 << 22
"""How many values are compared at a time, in float64: a GPU's memory may be short."""


class WrongError(Exception):
    """A wrong result: a one-line message, and the figures as far as there are any."""

    def __init__(self, message: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


class Deviation(NamedTuple):
    """By how much two tensors of the same shape differ.

    Attributes:
        wrong: values that differ by more than they may.
        place: index of the worst of them.
        actual, expected: the values there.
        figures: see `compare`.
    """

    wrong: int
    place: list[int]
    actual: float
    expected: float
    figures: dict[str, float]


def compare(actual: Any, expected: Any, atol: float, rtol: float) -> dict[str, Any]:
    """Compares two results, tensors or nests of them.

    A value is right where |actual − expected| ≤ atol + rtol·|expected|, in float64. NaN must stand
    where NaN stands, and infinities must be equal.

    Returns:
        `max_abs`, the greatest absolute error; `max_rel`, the greatest relative error (where the
        expected value is not 0); `share`, the greatest error as a share of the allowed one. All
        over finite values.

    Raises:
        WrongError: dtypes, shapes or values are wrong.
    """
    actual_tensors, expected_tensors = _results(actual), _results(expected)
    if sorted(actual_tensors) != sorted(expected_tensors):
        raise WrongError(
            f"launch gives {_listed(actual_tensors)}, the reference {_listed(expected_tensors)}:"
            " not the same results"
        )
    total = {"max_abs": 0.0, "max_rel": 0.0, "share": 0.0}
    message = ""
    for name, tensor in expected_tensors.items():
        label = f"result {name}: " if name else ""
        _check_attributes(label, actual_tensors[name], tensor)
        found = deviation(actual_tensors[name], tensor, atol, rtol)
        total = {key: max(value, found.figures[key]) for key, value in total.items()}
        if found.wrong and not message:
            message = (
                f"{label}{found.wrong} of {tensor.numel()} values are wrong, the worst at"
                f" {found.place}: {found.actual:.6g}, expected {found.expected:.6g}"
            )
    if message:
        raise WrongError(message, total)
    return total


def deviation(actual: Any, expected: Any, atol: float, rtol: float) -> Deviation:
    """Compares two tensors of the same shape, value by value; see `compare`."""
    torch = importlib.import_module("torch")
    figures = {"max_abs": 0.0, "max_rel": 0.0, "share": 0.0}
    wrong_count, worst, worst_position, worst_values = 0, -math.inf, 0, (0.0, 0.0)
    flat_actual, flat_expected = actual.reshape(-1), expected.reshape(-1)
    for start in range(0, flat_expected.numel(), CHUNK):
        a, e = (_as_float64(t[start : start + CHUNK]) for t in (flat_actual, flat_expected))
        equal = (a == e) | (a.isnan() & e.isnan())
        finite = a.isfinite() & e.isfinite()
        error = torch.where(equal, 0.0, (a - e).abs())
        allowed = atol + rtol * e.abs()
        shares = torch.where(allowed > 0, error / allowed, math.inf)
        comparable = finite & ~equal
        for key, values, mask in (
            ("max_abs", error, comparable),
            ("max_rel", error / e.abs(), comparable & (e != 0)),
            ("share", shares, comparable),
        ):
            selected = values[mask]
            if selected.numel():
                figures[key] = max(figures[key], float(selected.max()))
        wrong = ~equal & (~finite | (error > allowed))
        count = int(wrong.sum())
        if not count:
            continue
        wrong_count += count
        excess = torch.where(finite, error - allowed, math.inf).masked_fill(~wrong, -math.inf)
        position = int(excess.argmax())
        if float(excess[position]) > worst:
            worst, worst_position = float(excess[position]), start + position
            worst_values = (float(a[position]), float(e[position]))
    index: list[int] = []
    if wrong_count:
        indices = torch.unravel_index(torch.tensor(worst_position), expected.shape)
        index = [int(i) for i in indices]
    return Deviation(wrong_count, index, *worst_values, figures)


def have_same_values(a: Any, b: Any) -> bool:
    """Whether two tensors of the same dtype and shape have equal values; NaN equals NaN."""
    if a.numel() == 0:
        return True
    if a.is_floating_point() and a.element_size() == 1:  # float8 has no comparison
        a, b = a.float(), b.float()
    equal = a == b
    if a.is_floating_point():
        equal = equal | (a.isnan() & b.isnan())
    return bool(equal.all())


def _as_float64(values: Any) -> Any:
    """Values as float64, which holds those of all types that kernels return (int64 up to 2⁵³)."""
    if values.is_floating_point() and values.element_size() == 1:
        values = values.float()  # there is no other way out of float8 on some devices
    return values.double()


def _results(value: Any) -> dict[str, Any]:
    """The tensors of a result by name; numbers become tensors."""
    return dict(tensors_of(_numbers_as_tensors(value)))


def _numbers_as_tensors(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return importlib.import_module("torch").tensor(value)
    return map_values(_numbers_as_tensors, value)


def _check_attributes(label: str, actual: Any, expected: Any) -> None:
    for attribute in ("dtype", "shape", "device"):
        ours, theirs = getattr(actual, attribute), getattr(expected, attribute)
        if ours != theirs:
            texts = [str(tuple(v) if attribute == "shape" else v) for v in (ours, theirs)]
            raise WrongError(
                f"{label}launch gives {attribute} {texts[0]}, the reference {texts[1]}"
            )


def _listed(results: dict[str, Any]) -> str:
    if list(results) == [""]:
        return "a tensor"
    return ", ".join(results) or "no tensor"
