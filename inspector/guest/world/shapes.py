"""Shapes of operators' results, from their meta kernels; cached for operands that look alike."""

from __future__ import annotations

from typing import Any

import torch

from . import payloads, unknowns
from .operator_plans import Invocation

META = torch.device("meta")
MAX_DESCRIPTIONS = 20_000


class Shapes:
    """Runs operators on meta tensors and caches the shapes of their results."""

    def __init__(self) -> None:
        self._descriptions: dict[Any, Any] = {}

    def of(self, operation: Invocation) -> Any:
        """The result as meta tensors, however large the operands are.

        Raises:
            Exception: the operator has no meta kernel, or that raises, as the real one would.
        """
        args, kwargs = operation.args, operation.kwargs
        shape = unknowns.SHAPES.get(operation.plan.name)
        if shape is not None and any(
            t.is_meta for t in payloads.tensors((list(args), list(kwargs.values())))
        ):
            return shape(*args, **kwargs)
        key = None if operation.plan.mutates else _key(operation)
        if key is not None:
            description = self._descriptions.get(key)
            if description is not None:
                return _meta_tensors(description)
        try:
            result = self._by_meta_kernel(operation)
        except (NotImplementedError, RuntimeError):
            # Some meta kernels refuse types that the real ones take: `mask << shifts`.
            result = _from_one_element(operation)
            if result is None:
                raise
        if key is not None:
            if len(self._descriptions) >= MAX_DESCRIPTIONS:
                self._descriptions.clear()
            self._descriptions[key] = _described(result)
        return result

    @staticmethod
    def _by_meta_kernel(operation: Invocation) -> Any:
        """The operator's result on meta tensors of the operands' shapes."""
        on_meta = payloads.map_arguments(operation, payloads.shape_alone)
        operands, changed = list(on_meta.args), on_meta.kwargs
        position = operation.plan.device_position
        if position is not None:
            if len(operands) > position:
                operands[position] = META
            else:
                changed["device"] = META
        changed.pop("generator", None)
        return operation.func(*operands, **changed)


def _from_one_element(operation: Invocation) -> Any:
    """A pointwise operator's result as a meta tensor; its type comes from computing one element.

    None if that fails.
    """
    if not operation.plan.pointwise or operation.plan.mutates:
        return None
    shapes = []

    def one_element(tensor: torch.Tensor) -> torch.Tensor:
        shapes.append(tensor.shape)
        return torch.ones([1] * tensor.dim(), dtype=tensor.dtype, device="cpu")

    try:
        result = payloads.map_arguments(operation, one_element).run()
        extents = torch.broadcast_shapes(*shapes)
    except (NotImplementedError, RuntimeError):
        return None
    return torch.empty(extents, dtype=result.dtype, device=META)


def _key(operation: Invocation) -> Any:
    """A cache key of all that the shape depends on; None for arguments without one."""
    try:
        named = [(name, _operand(value)) for name, value in operation.kwargs.items()]
        key = (operation.func, *[_operand(value) for value in operation.args], *named)
        hash(key)
    except (TypeError, RuntimeError):
        return None
    return key


def _operand(value: Any) -> Any:
    """The part of a cache key for one argument."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            raise TypeError("a layout whose shape is not all there is to know")
        return value.shape, value.stride(), value.dtype
    if type(value) in (list, tuple):
        return tuple([_operand(inner) for inner in value])
    if isinstance(value, torch.Generator):
        return None
    return type(value), value  # 1, 1.0 and True are equal, but not to an operator


class _Described(tuple):  # type: ignore[type-arg]
    """Size, strides and type of one tensor."""

    __slots__ = ()


def _described(result: Any) -> Any:
    return payloads.map_tensors(result, lambda t: _Described((t.size(), t.stride(), t.dtype)))


def _meta_tensors(described: Any) -> Any:
    if type(described) is _Described:
        size, stride, dtype = described
        return torch.empty_strided(size, stride, dtype=dtype, device=META)
    if isinstance(described, (list, tuple)):
        return type(described)([_meta_tensors(inner) for inner in described])
    return described
