"""Checks the result of a launch, for shapes so large that memory is short.

The oracle is the kernel file's `reference` on the same inputs. Where the GPU's memory does not
suffice for it, slices of the inputs along one axis (a batch, a head) go through the reference;
where there is no such axis, torch's own operator is the oracle. A kernel without an oracle is not
timed.
"""

from __future__ import annotations

import functools
import gc
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .kernel_file import tensors_of

CHUNK = 1 << 24
"""How many values are compared at a time, in float64."""
MAX_SLICES = 4
"""How many slices of the inputs are checked where the reference on all of them does not fit."""


class UncheckedError(Exception):
    """No oracle fits into memory, or the tolerance is unknown; the message says which."""


@dataclass(frozen=True)
class ResultTolerance:
    """|actual − expected| ≤ atol + rtol·|expected|, for every value."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class ExpectedResult:
    """The expected result of a launch.

    Args:
        tensors: the tensors of the result, in order, or of each slice of it.
        slices: for each entry of `tensors` the index along the axis that was sliced; None for the
            result as a whole.
        oracle: `reference`, `slices of the reference` or `torch`.
    """

    tensors: tuple[tuple[Any, ...], ...]
    slices: tuple[int, ...] | None
    oracle: str

    def complaint(self, actual: Any, tolerance: ResultTolerance) -> str | None:
        """The error in a result, in words; None if it is right."""
        results = flat(actual)
        if self.slices is None:
            if self.oracle == "torch":  # its operator may lack by-products (an LSE)
                results = results[: len(self.tensors[0])]
            return _difference(results, self.tensors[0], tolerance, exact=self.oracle != "torch")
        for index, expected in zip(self.slices, self.tensors):
            if len(results) != len(expected):
                return f"{len(results)} results, expected {len(expected)}"
            parts = [
                _part_for_slice(result, tensor, index) for result, tensor in zip(results, expected)
            ]
            complaint = _difference(parts, expected, tolerance)
            if complaint is not None:
                return f"slice {index}: {complaint}"
        return None

    def lenient_complaint(self, actual: Any, tolerance: ResultTolerance) -> str | None:
        """The error in another operator's result: by-products may be missing, dtypes may differ."""
        if self.slices is not None:
            return None  # too large to be compared twice
        results = flat(actual)
        count = min(len(results), len(self.tensors[0]))
        return _difference(results[:count], self.tensors[0][:count], tolerance, exact=False)


def expected_of(
    module: Any, inputs: Mapping[str, Any], out_of_memory: tuple[type[BaseException], ...]
) -> ExpectedResult:
    """The oracle's results for these inputs.

    `out_of_memory`: the exceptions that torch raises when memory is short.

    Raises:
        UncheckedError: no oracle fits into memory.
    """
    result = _result_in_memory(functools.partial(module.reference, **inputs), out_of_memory)
    if result is not None:
        return ExpectedResult((tuple(flat(result)),), None, "reference")
    for axis in range(3):
        expected = _expected_slices(module, inputs, axis, out_of_memory)
        if expected is not None:
            return expected
    if hasattr(module, "torch_operator"):
        outputs = _result_in_memory(
            functools.partial(module.torch_operator, **inputs), out_of_memory
        )
        if outputs is not None:
            return ExpectedResult((tuple(flat(outputs)),), None, "torch")
    raise UncheckedError("the reference needs more memory than the GPU has")


def _expected_slices(
    module: Any,
    inputs: Mapping[str, Any],
    axis: int,
    out_of_memory: tuple[type[BaseException], ...],
) -> ExpectedResult | None:
    """The reference's results for slices of the inputs, spread evenly over an axis.

    None where the inputs have no such axis in common, or not even a slice fits into memory.
    """
    length = _common_length(inputs, axis)
    if length is None:
        return None
    indices = sorted({i * (length - 1) // max(1, MAX_SLICES - 1) for i in range(MAX_SLICES)})
    results = []
    for index in indices:
        reference = functools.partial(module.reference, **_sliced(inputs, axis, index))
        result = _result_in_memory(reference, out_of_memory)
        if result is None:
            return None
        results.append(tuple(flat(result)))
    return ExpectedResult(tuple(results), tuple(indices), "slices of the reference")


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


@contextmanager
def unfilled_memory_poisoned() -> Iterator[None]:
    """Makes torch fill the memory that it allocates with NaN, or with the largest integer.

    A kernel that writes nothing could otherwise return what the oracle left in memory.
    """
    import torch

    was_deterministic = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic, warn_only=warned)


def _result_in_memory(
    call: Callable[[], Any], out_of_memory: tuple[type[BaseException], ...]
) -> Any:
    """The result of a call; None where memory does not suffice."""
    try:
        return call()
    except out_of_memory:
        pass
    # Not in the except clause, whose traceback keeps tensors alive.
    gc.collect()
    _release()
    return None


def _release() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _common_length(inputs: Mapping[str, Any], axis: int) -> int | None:
    """The length that all input tensors have along an axis; None where it cannot be sliced."""
    tensors = [t for value in inputs.values() for t in flat(value)]
    if any(t.ndim <= axis or t.ndim < 3 for t in tensors if t.numel() > 1):
        return None
    lengths = {t.shape[axis] for t in tensors if t.numel() > 1}
    return lengths.pop() if len(lengths) == 1 and max(lengths) > 1 else None


def _sliced(inputs: Mapping[str, Any], axis: int, index: int) -> dict[str, Any]:
    """The inputs at one index of an axis, which keeps length 1; scalars are unchanged."""

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
    actual: Sequence[Any], expected: Sequence[Any], tolerance: ResultTolerance, exact: bool = True
) -> str | None:
    """The first error in results, in words; None if they are right."""
    if len(actual) != len(expected):
        return f"{len(actual)} results, expected {len(expected)}"
    for index, (result, tensor) in enumerate(zip(actual, expected)):
        label = f"result {index}: " if len(expected) > 1 else ""
        shape, expected_shape = tuple(result.shape), tuple(tensor.shape)
        if shape != expected_shape or (exact and result.dtype != tensor.dtype):
            return f"{label}is {shape} {result.dtype}, expected {expected_shape} {tensor.dtype}"
        wrong, worst, indices = _count_wrong(result, tensor, tolerance)
        if wrong:
            index_text = ", ".join(map(str, indices))
            return (
                f"{label}{wrong} of {result.numel()} values differ by more than atol"
                f" {tolerance.atol:g} + rtol {tolerance.rtol:g}·|expected|; the worst by"
                f" {worst:.4g}, at [{index_text}]"
            )
    return None


def _count_wrong(
    result: Any, expected: Any, tolerance: ResultTolerance
) -> tuple[int, float, tuple[int, ...]]:
    """The number of wrong values, the greatest error among them, and its index."""
    flat_result, flat_expected = result.reshape(-1), expected.reshape(-1)
    wrong_count, worst, worst_position = 0, -1.0, 0
    for start in range(0, flat_result.numel(), CHUNK):
        actual = _as_float64(flat_result[start : start + CHUNK])
        reference = _as_float64(flat_expected[start : start + CHUNK])
        error = (actual - reference).abs()
        equal = (actual == reference) | (actual.isnan() & reference.isnan())
        # ~(≤) rather than >: a NaN on one side is a difference.
        wrong = ~equal & ~(error <= tolerance.atol + tolerance.rtol * reference.abs())
        count = int(wrong.sum())
        if not count:
            continue
        wrong_count += count
        error = error.nan_to_num(nan=float("inf")).masked_fill(~wrong, -1.0)
        position = int(error.argmax())
        if float(error[position]) > worst:
            worst, worst_position = float(error[position]), start + position
    index = []
    for size in reversed(tuple(result.shape)):
        index.append(worst_position % size)
        worst_position //= size
    return wrong_count, worst, tuple(reversed(index))


def _as_float64(values: Any) -> Any:
    """Values as float64, which holds those of all types that kernels return (int64 up to 2⁵³)."""
    if values.dtype.is_floating_point and values.dtype.itemsize == 1:
        values = values.float()  # there is no other way out of float8 on some devices
    return values.double()
