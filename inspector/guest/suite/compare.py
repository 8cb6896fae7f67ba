"""Compares a kernel's result with the reference's: dtype, shape, device, NaN and error."""

from __future__ import annotations

import importlib
import math
from typing import Any

from .kernel_file import map_values, tensors_of


class WrongError(Exception):
    """A wrong result: a one-line message, and the figures as far as there are any."""

    def __init__(self, message: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


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
    for name in expected_tensors:
        figures, wrong = _compare_tensors(
            name, actual_tensors[name], expected_tensors[name], atol, rtol
        )
        for key, value in figures.items():
            total[key] = max(total[key], value)
        message = message or wrong
    if message:
        raise WrongError(message, total)
    return total


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


def _results(value: Any) -> dict[str, Any]:
    """The tensors of a result by name; numbers become tensors."""
    return dict(tensors_of(_numbers_as_tensors(value)))


def _numbers_as_tensors(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return importlib.import_module("torch").tensor(value)
    return map_values(_numbers_as_tensors, value)


def _compare_tensors(
    name: str, actual: Any, expected: Any, atol: float, rtol: float
) -> tuple[dict[str, float], str]:
    """The figures of one tensor, and its error in words; empty if it is right."""
    torch = importlib.import_module("torch")
    label = f"result {name}: " if name else ""
    _check_attributes(label, actual, expected)
    if expected.numel() == 0:
        return {}, ""
    a, e = actual.double(), expected.double()
    equal = (a == e) | (a.isnan() & e.isnan())
    finite = a.isfinite() & e.isfinite()
    error = torch.where(equal, 0.0, (a - e).abs())
    allowed = atol + rtol * e.abs()
    wrong = ~equal & (~finite | (error > allowed))
    comparable = finite & ~equal
    figures = {
        "max_abs": _maximum(error, comparable),
        "max_rel": _maximum(error / e.abs(), comparable & (e != 0)),
        "share": _maximum(torch.where(allowed > 0, error / allowed, math.inf), comparable),
    }
    count = int(wrong.sum())
    if not count:
        return figures, ""
    excess = torch.where(wrong, torch.where(finite, error - allowed, math.inf), -math.inf)
    position = int(excess.argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(position), expected.shape)]
    values = (float(t.reshape(-1)[position]) for t in (a, e))
    actual_text, expected_text = (f"{value:.6g}" for value in values)
    return figures, (
        f"{label}{count} of {expected.numel()} values are wrong, the worst at {index}:"
        f" {actual_text}, expected {expected_text}"
    )


def _check_attributes(label: str, actual: Any, expected: Any) -> None:
    """Raises WrongError if two tensors differ in dtype, shape or device."""
    for attribute in ("dtype", "shape", "device"):
        ours, theirs = getattr(actual, attribute), getattr(expected, attribute)
        if ours != theirs:
            texts = [str(tuple(v) if attribute == "shape" else v) for v in (ours, theirs)]
            raise WrongError(
                f"{label}launch gives {attribute} {texts[0]}, the reference {texts[1]}"
            )


def _maximum(values: Any, mask: Any) -> float:
    selected = values[mask]
    return float(selected.max()) if selected.numel() else 0.0


def _listed(results: dict[str, Any]) -> str:
    if list(results) == [""]:
        return "a tensor"
    return ", ".join(results) or "no tensor"
