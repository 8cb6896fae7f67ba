"""Checks the result of a launch, for shapes so large that memory is short.

The oracle is the kernel file's `reference` on the same inputs. Where the GPU's memory does not
suffice for it, slices of the inputs along one axis (a batch, a head) go through the reference;
where there is no such axis, torch's own operator is the oracle. A kernel without an oracle is not
timed.
"""

from __future__ import annotations

import gc
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .compare import deviation
from .kernel_file import tensors_of

MAX_SLICES = 4
"""How many slices of the inputs are checked where the reference on all of them does not fit."""
_SLICED_AXES = 3
"""How many axes of the inputs slices are tried along, from the first."""


class UncheckedError(Exception):
    """No oracle fits into memory, or the tolerance is unknown; the message says which."""


class ResultTolerance(NamedTuple):
    """|actual − expected| ≤ atol + rtol·|expected|, for every value."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class ExpectedResult:
    """The expected result of a launch, and by how much it may be missed.

    Args:
        tensors: the tensors of the result, in order, or of each slice of it.
        slices: for each entry of `tensors` the index along the axis that was sliced; None for the
            result as a whole.
        oracle: `reference`, `slices of the reference` or `torch`.
    """

    tensors: tuple[tuple[Any, ...], ...]
    slices: tuple[int, ...] | None
    oracle: str
    tolerance: ResultTolerance

    def complaint(self, actual: Any) -> str | None:
        """The error in a result, in words; None if it is right."""
        results = flat(actual)
        if self.slices is None:
            if self.oracle == "torch":  # its operator may lack by-products (an LSE)
                results = results[: len(self.tensors[0])]
            return _difference(
                results, self.tensors[0], self.tolerance, exact=self.oracle != "torch"
            )
        for index, expected in zip(self.slices, self.tensors):
            if len(results) != len(expected):
                return f"{len(results)} results, expected {len(expected)}"
            parts = [
                _part_for_slice(result, tensor, index) for result, tensor in zip(results, expected)
            ]
            complaint = _difference(parts, expected, self.tolerance, exact=True)
            if complaint is not None:
                return f"slice {index}: {complaint}"
        return None

    def lenient_complaint(self, actual: Any) -> str | None:
        """The error in another operator's result: by-products may be missing, dtypes may differ."""
        if self.slices is not None:
            return None  # too large to be compared twice
        results = flat(actual)
        count = min(len(results), len(self.tensors[0]))
        return _difference(results[:count], self.tensors[0][:count], self.tolerance, exact=False)


def expected_of(
    module: Any, inputs: Mapping[str, Any], tolerance: ResultTolerance
) -> ExpectedResult:
    """The oracle's results for these inputs.

    Raises:
        UncheckedError: no oracle fits into memory.
    """
    result = _result_in_memory(module.reference, inputs)
    if result is not None:
        return ExpectedResult((result,), None, "reference", tolerance)
    for axis in range(_SLICED_AXES):
        by_slice = _results_of_slices(module.reference, inputs, axis)
        if by_slice:
            tensors, slices = tuple(by_slice.values()), tuple(by_slice)
            return ExpectedResult(tensors, slices, "slices of the reference", tolerance)
    if hasattr(module, "torch_operator"):
        result = _result_in_memory(module.torch_operator, inputs)
        if result is not None:
            return ExpectedResult((result,), None, "torch", tolerance)
    raise UncheckedError("the reference needs more memory than the GPU has")


def _results_of_slices(
    reference: Callable[..., Any], inputs: Mapping[str, Any], axis: int
) -> dict[int, tuple[Any, ...]]:
    """Index along an axis -> result of that slice; empty where none can be made of all of them."""
    length = _common_length(inputs, axis)
    if length is None:
        return {}
    results: dict[int, tuple[Any, ...]] = {}
    for index in sorted({i * (length - 1) // (MAX_SLICES - 1) for i in range(MAX_SLICES)}):
        result = _result_in_memory(reference, _sliced(inputs, axis, index))
        if result is None:
            return {}
        results[index] = result
    return results


def tolerance_of(case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> ResultTolerance:
    """A case's own tolerance, or the loosest one of the correctness cases that are most like it.

    Those are the cases with the same dtype and flags; where there are none, the cases with the same
    dtype; else all.

    Raises:
        UncheckedError: no case has a tolerance.
    """
    if "atol" in case and "rtol" in case:
        return ResultTolerance(float(case["atol"]), float(case["rtol"]))
    stated = [c for c in cases if "atol" in c and "rtol" in c]
    same_dtype = [c for c in stated if c.get("dtype") == case.get("dtype")]
    alike = [c for c in same_dtype if _flags(c) == _flags(case)] or same_dtype or stated
    if not alike:
        raise UncheckedError("the kernel file states no tolerance: CASES has no atol and rtol")
    return ResultTolerance(
        max(float(c["atol"]) for c in alike), max(float(c["rtol"]) for c in alike)
    )


def _flags(case: Mapping[str, Any]) -> dict[str, Any]:
    """The strings and true switches of a case, which select the operation and not its size."""
    return {
        key: value
        for key, value in case.items()
        if key != "name" and (value is True or isinstance(value, str))
    }


def flat(value: Any) -> list[Any]:
    """The tensors in a result, in order."""
    return [tensor for _, tensor in tensors_of(value)]


def _result_in_memory(
    operator: Callable[..., Any], inputs: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """The tensors of an operator's result; None where memory does not suffice."""
    torch = importlib.import_module("torch")
    try:
        return tuple(flat(operator(**inputs)))
    except (torch.cuda.OutOfMemoryError, MemoryError):
        pass
    # Not in the except clause, whose traceback keeps tensors alive.
    gc.collect()
    torch.cuda.empty_cache()
    return None


def _common_length(inputs: Mapping[str, Any], axis: int) -> int | None:
    """The length that all input tensors have along an axis; None where it cannot be sliced."""
    tensors = [t for value in inputs.values() for t in flat(value)]
    if any(t.ndim <= axis or t.ndim < 3 for t in tensors if t.numel() > 1):
        return None
    lengths = {t.shape[axis] for t in tensors if t.numel() > 1}
    return lengths.pop() if len(lengths) == 1 and max(lengths) > 1 else None


def _sliced(inputs: Mapping[str, Any], axis: int, index: int) -> dict[str, Any]:
    def part(value: Any) -> Any:
        is_tensor = hasattr(value, "narrow")
        return value.narrow(axis, index, 1) if is_tensor and value.numel() > 1 else value

    return {name: part(value) for name, value in inputs.items()}


def _part_for_slice(result: Any, sliced: Any, index: int) -> Any:
    """The part of a result that belongs to a slice of the inputs."""
    shapes = zip(result.shape, sliced.shape)
    axes = [axis for axis, (length, sliced_length) in enumerate(shapes) if length != sliced_length]
    if len(axes) != 1 or result.ndim != sliced.ndim or sliced.shape[axes[0]] != 1:
        return result  # the comparison will report its shape
    return result.narrow(axes[0], index, 1)


def _difference(
    actual: Sequence[Any], expected: Sequence[Any], tolerance: ResultTolerance, *, exact: bool
) -> str | None:
    """The first error in results, in words; None if they are right. `exact`: dtypes count too."""
    if len(actual) != len(expected):
        return f"{len(actual)} results, expected {len(expected)}"
    for index, (result, tensor) in enumerate(zip(actual, expected)):
        label = f"result {index}: " if len(expected) > 1 else ""
        shape, expected_shape = tuple(result.shape), tuple(tensor.shape)
        if shape != expected_shape or (exact and result.dtype != tensor.dtype):
            return f"{label}is {shape} {result.dtype}, expected {expected_shape} {tensor.dtype}"
        worst = deviation(result, tensor, *tolerance)
        if worst.wrong:
            error = abs(worst.actual - worst.expected)
            return (
                f"{label}{worst.wrong} of {result.numel()} values differ by more than atol"
                f" {tolerance.atol:g} + rtol {tolerance.rtol:g}·|expected|; the worst by"
                f" {math.inf if math.isnan(error) else error:.4g}, at {worst.place}"
            )
    return None
