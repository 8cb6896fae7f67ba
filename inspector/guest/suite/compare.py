"""Compares what a kernel computed with what it should have, strictly: dtype, shape, NaN, error."""

from __future__ import annotations

import importlib
import math
from typing import Any

from .kernel_file import mapped, tensors_of


class WrongError(Exception):
    """A result that is not right: one line, and the figures as far as there are any."""

    def __init__(self, message: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.figures = figures or {}


def compare(actual: Any, expected: Any, atol: float, rtol: float) -> dict[str, Any]:
    """Compares two results, tensors or nests of them.

    A value is right where |actual − expected| ≤ atol + rtol·|expected|, in float64. NaN must stand
    where NaN stands, and infinities must be equal.

    Returns:
        `max_abs`, the greatest absolute error; `max_rel`, the greatest relative error (where
        something other than 0 is expected); `share`, the greatest error over what is allowed
        there. All over finite values.

    Raises:
        WrongError: other dtypes or shapes, or values that are not right.
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
        figures, wrong = _tensors(name, actual_tensors[name], expected_tensors[name], atol, rtol)
        for key, value in figures.items():
            total[key] = max(total[key], value)
        message = message or wrong
    if message:
        raise WrongError(message, total)
    return total


def same(a: Any, b: Any) -> bool:
    """Whether two tensors of one dtype and shape hold the same values, NaN for NaN."""
    if a.numel() == 0:
        return True
    if a.is_floating_point() and a.element_size() == 1:  # float8 knows no comparison
        a, b = a.float(), b.float()
    equal = a == b
    if a.is_floating_point():
        equal = equal | (a.isnan() & b.isnan())
    return bool(equal.all())


def _results(value: Any) -> dict[str, Any]:
    """The tensors of a result by name, numbers among them as tensors."""
    return dict(tensors_of(_numbers_as_tensors(value)))


def _numbers_as_tensors(value: Any) -> Any:
    if isinstance(value, (bool, int, float)):
        return importlib.import_module("torch").tensor(value)
    return mapped(_numbers_as_tensors, value)


def _tensors(
    name: str, actual: Any, expected: Any, atol: float, rtol: float
) -> tuple[dict[str, float], str]:
    torch = importlib.import_module("torch")
    where = f"result {name}: " if name else ""
    for attribute in ("dtype", "shape", "device"):
        ours, theirs = getattr(actual, attribute), getattr(expected, attribute)
        if ours != theirs:
            texts = [str(tuple(v) if attribute == "shape" else v) for v in (ours, theirs)]
            raise WrongError(
                f"{where}launch gives {attribute} {texts[0]}, the reference {texts[1]}"
            )
    if expected.numel() == 0:
        return {}, ""
    a, e = actual.double(), expected.double()
    equal = (a == e) | (a.isnan() & e.isnan())
    finite = a.isfinite() & e.isfinite()
    error = torch.where(equal, 0.0, (a - e).abs())
    allowed = atol + rtol * e.abs()
    wrong = ~equal & (~finite | (error > allowed))
    inside = finite & ~equal
    figures = {
        "max_abs": _greatest(error, inside),
        "max_rel": _greatest(error / e.abs(), inside & (e != 0)),
        "share": _greatest(torch.where(allowed > 0, error / allowed, math.inf), inside),
    }
    count = int(wrong.sum())
    if not count:
        return figures, ""
    excess = torch.where(wrong, torch.where(finite, error - allowed, math.inf), -math.inf)
    place = int(excess.argmax())
    index = [int(i) for i in torch.unravel_index(torch.tensor(place), expected.shape)]
    values = (float(t.reshape(-1)[place]) for t in (a, e))
    actual_text, expected_text = (f"{value:.6g}" for value in values)
    return figures, (
        f"{where}{count} of {expected.numel()} values are wrong, the worst at {index}:"
        f" {actual_text}, expected {expected_text}"
    )


def _greatest(values: Any, where: Any) -> float:
    picked = values[where]
    return float(picked.max()) if picked.numel() else 0.0


def _listed(results: dict[str, Any]) -> str:
    if list(results) == [""]:
        return "a tensor"
    return ", ".join(results) or "no tensor"
