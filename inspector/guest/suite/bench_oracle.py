"""Whether a launch computed what it should, for shapes too large to be careless about memory.

The oracle is the kernel file's `reference` on the same inputs. Where the GPU's memory cannot hold
it, slices of the inputs along one axis (a batch, a head) go through the reference instead; where
there is no such axis, torch's own operator is the oracle. What cannot be checked is not timed.
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

CHUNK = 1 << 24  # values compared at a time, in float64
MOST_SLICES = 4


class UncheckedError(Exception):
    """There is no oracle that fits into memory; the message says what was tried."""


@dataclass(frozen=True)
class Tolerance:
    """|actual − expected| ≤ atol + rtol·|expected|, for every value."""

    atol: float
    rtol: float


@dataclass(frozen=True)
class Expected:
    """What a launch has to return.

    Args:
        tensors: the tensors of the result, in order, or of each slice of it.
        slices: for each entry of `tensors` the index along the axis that was sliced; None for the
            result as a whole.
        oracle: `reference`, `slices of the reference` or `torch`.
    """

    tensors: tuple[tuple[Any, ...], ...]
    slices: tuple[int, ...] | None
    oracle: str

    def complaint(self, actual: Any, tolerance: Tolerance) -> str | None:
        """What is wrong with a result, or None."""
        results = flat(actual)
        if self.slices is None:
            if self.oracle == "torch":  # its operator may leave by-products (an LSE) out
                results = results[: len(self.tensors[0])]
            return _difference(results, self.tensors[0], tolerance, exact=self.oracle != "torch")
        for index, expected in zip(self.slices, self.tensors):
            if len(results) != len(expected):
                return f"{len(results)} results, expected {len(expected)}"
            parts = [_part(a, e, index) for a, e in zip(results, expected)]
            complaint = _difference(parts, expected, tolerance)
            if complaint is not None:
                return f"slice {index}: {complaint}"
        return None

    def lenient_complaint(self, actual: Any, tolerance: Tolerance) -> str | None:
        """As `complaint`, but by-products may be missing and dtypes may differ."""
        if self.slices is not None:
            return None  # too large to be looked at twice
        results = flat(actual)
        count = min(len(results), len(self.tensors[0]))
        return _difference(results[:count], self.tensors[0][:count], tolerance, exact=False)


def expected_of(
    module: Any, inputs: Mapping[str, Any], out_of_memory: tuple[type[BaseException], ...]
) -> Expected:
    """The oracle's results for these inputs.

    Args:
        module: the kernel file.
        inputs: keyword arguments of `launch`.
        out_of_memory: the exceptions by which torch says that memory is short.

    Raises:
        UncheckedError: no oracle fits into memory.
    """
    reference_result = _attempt(functools.partial(module.reference, **inputs), out_of_memory)
    if reference_result is not None:
        return Expected((tuple(flat(reference_result)),), None, "reference")
    for axis in range(3):
        count = _common(inputs, axis)
        if count is None:
            continue
        chosen = sorted({i * (count - 1) // max(1, MOST_SLICES - 1) for i in range(MOST_SLICES)})
        parts = []
        for index in chosen:
            reference = functools.partial(module.reference, **_sliced(inputs, axis, index))
            part = _attempt(reference, out_of_memory)
            if part is None:
                break
            parts.append(tuple(flat(part)))
        else:
            return Expected(tuple(parts), tuple(chosen), "slices of the reference")
    if hasattr(module, "torch_operator"):
        outputs = _attempt(functools.partial(module.torch_operator, **inputs), out_of_memory)
        if outputs is not None:
            return Expected((tuple(flat(outputs)),), None, "torch")
    raise UncheckedError("the reference needs more memory than the GPU has")


def tolerance_of(case: Mapping[str, Any], cases: Sequence[Mapping[str, Any]]) -> Tolerance:
    """A case's own tolerance, or the loosest one of the correctness cases that are most like it.

    That is: those with the same dtype and flags; failing these, with the same dtype; else all.

    Raises:
        UncheckedError: no case has a tolerance.
    """
    if "atol" in case and "rtol" in case:
        return Tolerance(float(case["atol"]), float(case["rtol"]))
    stated = [c for c in cases if "atol" in c and "rtol" in c]
    same_dtype = [c for c in stated if c.get("dtype") == case.get("dtype")]
    alike = [c for c in same_dtype if _flags(c) == _flags(case)] or same_dtype or stated
    if not alike:
        raise UncheckedError("the kernel file states no tolerance: CASES has no atol and rtol")
    return Tolerance(max(float(c["atol"]) for c in alike), max(float(c["rtol"]) for c in alike))


def _flags(case: Mapping[str, Any]) -> dict[str, Any]:
    """The words and true switches of a case: what is computed, not how much of it."""
    return {
        key: value
        for key, value in case.items()
        if key != "name" and (value is True or isinstance(value, str))
    }


def flat(value: Any) -> list[Any]:
    """The tensors in a result, in order."""
    return [tensor for _, tensor in tensors_of(value)]


@contextmanager
def unfilled_memory_shows() -> Iterator[None]:
    """Memory that torch allocates without filling holds NaN, or the largest integer.

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


def _attempt(call: Callable[[], Any], out_of_memory: tuple[type[BaseException], ...]) -> Any:
    """What the call returns; None where memory does not suffice."""
    try:
        return call()
    except out_of_memory:
        pass
    # Out of the except clause: the traceback held the half-made tensors.
    gc.collect()
    _release()
    return None


def _release() -> None:
    import torch

    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _common(inputs: Mapping[str, Any], axis: int) -> int | None:
    """The length that all input tensors share along an axis, if it is one that can be sliced."""
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


def _part(result: Any, sliced: Any, index: int) -> Any:
    """The part of a result that a slice of the inputs yields: along the axis that became 1."""
    axes = [i for i, (a, b) in enumerate(zip(result.shape, sliced.shape)) if a != b]
    if len(axes) != 1 or result.ndim != sliced.ndim or sliced.shape[axes[0]] != 1:
        return result  # its shape will be complained about
    return result.narrow(axes[0], index, 1)


def _difference(
    actual: Sequence[Any], expected: Sequence[Any], tolerance: Tolerance, exact: bool = True
) -> str | None:
    if len(actual) != len(expected):
        return f"{len(actual)} results, expected {len(expected)}"
    for index, (a, e) in enumerate(zip(actual, expected)):
        label = f"result {index}: " if len(expected) > 1 else ""
        if tuple(a.shape) != tuple(e.shape) or (exact and a.dtype != e.dtype):
            return f"{label}is {tuple(a.shape)} {a.dtype}, expected {tuple(e.shape)} {e.dtype}"
        wrong, worst, where = _count(a, e, tolerance)
        if wrong:
            place = ", ".join(map(str, where))
            return (
                f"{label}{wrong} of {a.numel()} values differ by more than atol"
                f" {tolerance.atol:g} + rtol {tolerance.rtol:g}·|expected|; the worst by"
                f" {worst:.4g}, at [{place}]"
            )
    return None


def _count(actual: Any, expected: Any, tolerance: Tolerance) -> tuple[int, float, tuple[int, ...]]:
    """How many values are off, by how much at worst, and where that is."""
    flat_actual, flat_expected = actual.reshape(-1), expected.reshape(-1)
    wrong, worst, place = 0, -1.0, 0
    for start in range(0, flat_actual.numel(), CHUNK):
        actual_chunk, expected_chunk = (
            _wide(flat_actual[start : start + CHUNK]),
            _wide(flat_expected[start : start + CHUNK]),
        )
        gap = (actual_chunk - expected_chunk).abs()
        equal = (actual_chunk == expected_chunk) | (actual_chunk.isnan() & expected_chunk.isnan())
        # ~(≤) rather than >: a NaN on one side is a difference.
        off = ~equal & ~(gap <= tolerance.atol + tolerance.rtol * expected_chunk.abs())
        count = int(off.sum())
        if not count:
            continue
        wrong += count
        gap = gap.nan_to_num(nan=float("inf")).masked_fill(~off, -1.0)
        worst_index = int(gap.argmax())
        if float(gap[worst_index]) > worst:
            worst, place = float(gap[worst_index]), start + worst_index
    where = []
    for size in reversed(tuple(actual.shape)):
        where.append(place % size)
        place //= size
    return wrong, worst, tuple(reversed(where))


def _wide(values: Any) -> Any:
    """As float64, which holds every value of the types that kernels return (int64 up to 2⁵³)."""
    if values.dtype.is_floating_point and values.dtype.itemsize == 1:
        values = values.float()  # there is no other way out of float8 on some devices
    return values.double()
