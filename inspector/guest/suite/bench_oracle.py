"""Checks the result of a launch, for shapes so large that memory is short.

The oracle is the kernel file's `reference` on the same inputs. Where the GPU's memory does not
suffice for it, slices of the inputs along one axis (a batch, a head) go through the reference;
where there is no such axis, torch's own operator is the oracle. A kernel without an oracle is not
timed.

Other operators for the same inputs, which a kernel is compared with.

`torch` is the kernel file's own `torch_operator`. `ck` is Composable Kernel through aiter, where
aiter is importable and has an operator that takes this kernel's inputs.
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
            complaint = _difference(parts, expected, self.tolerance)
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
    for axis in range(3):
        length = _common_length(inputs, axis)
        if length is None:
            continue
        indices = sorted({i * (length - 1) // (MAX_SLICES - 1) for i in range(MAX_SLICES)})
        parts: list[tuple[Any, ...]] = []
        for index in indices:
            result = _result_in_memory(module.reference, _sliced(inputs, axis, index))
            if result is None:
                break
            parts.append(result)
        else:
            oracle = "slices of the reference"
            return ExpectedResult(tuple(parts), tuple(indices), oracle, tolerance)
    if hasattr(module, "torch_operator"):
        result = _result_in_memory(module.torch_operator, inputs)
        if result is not None:
            return ExpectedResult((result,), None, "torch", tolerance)
    raise UncheckedError("the reference needs more memory than the GPU has")


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
        found = deviation(result, tensor, *tolerance)
        if found.wrong:
            error = abs(found.actual - found.expected)
            return (
                f"{label}{found.wrong} of {result.numel()} values differ by more than atol"
                f" {tolerance.atol:g} + rtol {tolerance.rtol:g}·|expected|; the worst by"
                f" {math.inf if math.isnan(error) else error:.4g}, at {found.place}"
            )
    return None


class MissingError(Exception):
    """There is no operator to compare with; the message says why."""


def operator_of(name: str, module: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """A call of the other operator on these inputs.

    Raises:
        MissingError: there is none.
    """
    if name == "torch":
        operator = getattr(module, "torch_operator", None)
        if operator is None:
            raise MissingError("torch has no operator for this kernel: nothing to compare with")
        return lambda: operator(**inputs)
    if name == "ck":
        return _ck(inputs)
    raise MissingError(f"{name!r} is nothing to compare with; there are torch and ck")


def _ck(inputs: Mapping[str, Any]) -> Callable[[], Any]:
    try:
        aiter: Any = importlib.import_module("aiter")
    except Exception as error:  # it compiles on import, and fails in many ways without ROCm
        raise MissingError(
            f"aiter is not importable ({type(error).__name__}): the comparison with CK is left out"
        ) from None
    input_names = {
        name for name, value in inputs.items() if value is not None and value is not False
    }
    if {"q", "k", "v"} <= input_names <= _ATTENTION and hasattr(aiter, "flash_attn_func"):
        return _attention(aiter, inputs)
    if {"a", "b", "a_scale", "b_scale"} <= input_names and hasattr(
        aiter, "gemm_a8w8_blockscale_ck"
    ):
        return _blockscale(aiter, inputs)
    raise MissingError("aiter has no CK operator for these inputs: the comparison is left out")


_ATTENTION = frozenset({"q", "k", "v", "causal", "layout", "scale", "config"})


def _attention(aiter: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    """A call of `flash_attn_func`, which takes [batch, sequence, heads, features]."""
    layout = inputs.get("layout", "bhsd")
    if layout not in ("bhsd", "bshd"):
        raise MissingError(f"the comparison with CK takes no layout {layout}")
    q, k, v = (inputs[name] if layout == "bshd" else inputs[name].transpose(1, 2) for name in "qkv")
    options = {"softmax_scale": inputs.get("scale"), "causal": bool(inputs.get("causal"))}

    def call() -> Any:
        out = aiter.flash_attn_func(q, k, v, **options)
        out = out[0] if isinstance(out, (tuple, list)) else out
        return out if layout == "bshd" else out.transpose(1, 2)

    return call


def _blockscale(aiter: Any, inputs: Mapping[str, Any]) -> Callable[[], Any]:
    import torch

    a, b = inputs["a"], inputs["b"]

    def call() -> Any:
        out = torch.empty((a.shape[0], b.shape[0]), dtype=torch.bfloat16, device=a.device)
        result = aiter.gemm_a8w8_blockscale_ck(a, b, inputs["a_scale"], inputs["b_scale"], out)
        return out if result is None else result

    return call
