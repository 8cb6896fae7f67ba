"""Runs every torch operator of a script: on values for small tensors, on shapes for large ones.

Torch's C++ code sees only CPU and meta tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from . import payloads, precision, unknowns
from . import tensors as device_tensors
from .assumptions import LOG
from .contents import Recipe
from .deferred import Call, Deferred
from .distributed import finished_work
from .mode import DeviceMode
from .operator_plans import SHAPED, Invocation, OperatorPlan, plan_of
from .placement import CPU, DEVICE_TYPES, Placement, device_of
from .reads import HostReads, described, note_emulated, unknown_cause, unknown_reason
from .shapes import META, Shapes
from .tensors import DeviceTensor, fits
from .writes import Writes, mark_unknown, writes_to_host

KERNEL_KEYS = ("CUDA", "CompositeExplicitAutograd", "CPU", "CompositeImplicitAutograd")
"""Dispatch keys for the Python kernel of a library's operator, in the order of preference."""
UNCOMPUTED = "_kinspect_uncomputed"
"""Attribute of a payload that stands for what could not be computed: why, in words."""
OVERRIDE_KEYS = ("CUDA", "AutogradCUDA")
"""Dispatch keys under which libraries replace torch's own kernels by Triton kernels."""


class Dispatcher:
    """Runs operators on device tensors.

    Args:
        note: takes a remark on something approximated.

    Attributes:
        placement: makes and moves device tensors.
        reads: gives their contents to the host.
        writes: records what operators and kernels wrote to them.
        mode: sends the operators of a script here while it is active.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self._plans: dict[Any, OperatorPlan] = {}
        self._shapes = Shapes()
        self._deferred = Deferred()
        self.placement = Placement(self)
        self.reads = HostReads(self.placement)
        self.writes = Writes(self.placement, self._deferred)
        self.mode = DeviceMode(self.run)

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs one operator overload.

        Args:
            func: the `OpOverload`.
            args: its positional arguments.
            kwargs: its keyword arguments.
        """
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = plan_of(func)
        if plan.view and plan.native and args and type(args[0]) is self.placement.tensor_class:
            return self._view(func, args, kwargs)
        operation = Invocation(func, plan, args, kwargs)
        if not plan.native:
            return self._library(operation)
        device = kwargs.get("device")
        if device is not None and device.type == META.type:  # the script wants shapes only
            args = [payloads.map_tensors(value, payloads.payload) for value in args]
            return func(*args, **kwargs)
        claim, operation = _without_gpu(operation)
        device_operands = self.placement.device_operands(operation)
        if claim is None:
            claim = self._device_of_results(plan, device_operands)
        if claim is None and not device_operands:
            return self._on_host(operation)
        if claim is None or claim.type == "cpu":
            return self._on_device(operation, device_operands, CPU)
        for key in OVERRIDE_KEYS:
            if f"{plan.registry_name}/{key}" in torch.library._impls:
                if device is not None:
                    on_gpu = {**operation.kwargs, "device": claim}
                    operation = operation.with_arguments(operation.args, on_gpu)
                return self._python_kernel(operation, key)
        return self._on_device(operation, device_operands, claim)

    def _device_of_results(
        self, plan: OperatorPlan, device_operands: Sequence[DeviceTensor]
    ) -> torch.device | None:
        """The device of an operator's results where no argument names one; None for the host."""
        if self.placement.target is not None and plan.name == "_to_copy":
            return self.placement.target
        for tensor in device_operands:
            if tensor._claim.type == "cuda":
                return tensor._claim
        return None

    def _view(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs a view operator: the result shares its operand's memory.

        Views are by far the most frequent operators, hence this short path.
        """
        tensor = args[0]
        inner = tensor._payload
        results = func(inner, *args[1:], **kwargs)
        if isinstance(results, torch.Tensor):
            if results is inner:
                return tensor
            return self.placement.wrap(results, tensor._claim, tensor._memory)
        return payloads.map_tensors(
            results, lambda t: self.placement.wrap(t, tensor._claim, tensor._memory)
        )

    def _on_host(self, operation: Invocation) -> Any:
        """Runs an operator on plain CPU tensors; a large result gets a shape and no contents."""
        plan = operation.plan
        if plan.name in ("is_pinned", "_pin_memory"):
            return plan.name == "_pin_memory" and operation.args[0]
        if plan.takes_device and not plan.mutates and plan.name != "_to_copy":
            result = self._shape_or_none(operation)
            if isinstance(result, torch.Tensor) and not fits(result):
                large = self.placement.wrap(result, CPU)
                call = self._deferred.keep(operation, result)
                large._memory.recipe = None if call is None else Recipe(call, 0)
                return large
        return operation.run()

    def _on_device(
        self, operation: Invocation, device_operands: list[DeviceTensor], claim: torch.device
    ) -> Any:
        """Runs an operator with an operand or a result that is on the device, or large."""
        plan, args = operation.plan, operation.args
        if plan.name in SHAPED and device_operands and args and args[0] is device_operands[0]:
            args = (_placeholder(device_operands[0]), *args[1:])
            operation = operation.with_arguments(args, operation.kwargs)
            device_operands = device_operands[1:]
        operands = DeviceOperands.of(device_operands)
        if device_operands and plan.host_read is not None:
            return self.reads.read_operator(operation, operands.unknown)
        shape_is_unknown = operands.unknown and unknowns.decides_shape(plan.name, args)
        if shape_is_unknown:
            known = self.reads.with_contents(operation)
            if known is not None:
                return self._with_known_shape(operation, known, device_operands, claim)
        if plan.mutates:
            return self._write(operation, operands, claim)
        results = self._results(self._on_payloads(operation), operands.lack_contents)
        call = None
        if not plan.view and (operands.unknown or _any_meta(results)):
            call = self._deferred.keep(operation, results)
        if shape_is_unknown:
            question = described(device_operands, _element_count_question(plan))
            reason = unknown_reason(device_operands)
            LOG.answer(question, payloads.first_shape(results), reason)
        return self._wrap_results(plan, results, claim, operands, call)

    def _write(self, operation: Invocation, operands: DeviceOperands, claim: torch.device) -> Any:
        """Runs an operator that writes to arguments; see `_on_device`."""
        plan = operation.plan
        on_payloads, lacks_contents = self._on_payloads(operation), operands.lack_contents
        self.writes.preserve(operation)
        call = None
        if operands.unknown:  # the deferred call holds the operands as they are before the write
            call = self._deferred.keep(operation, None)
            if writes_to_host(operation):
                known = self.reads.with_contents(operation)
                self.reads.note_copy(plan, operands.tensors, known is not None)
                if known is not None:
                    on_payloads, lacks_contents = known, False
        results = self._results(on_payloads, lacks_contents)
        self.writes.follow_operator(operation, operands.tensors, call)
        for tensor in payloads.tensors(operation.written_arguments()):
            cause = vars(getattr(tensor, "_payload", tensor)).pop(UNCOMPUTED, None)
            if cause is not None and isinstance(tensor, DeviceTensor):
                mark_unknown(tensor, None, cause, None)
        if plan.returns_nothing:
            return None
        if results is None or (plan.returns_arguments and isinstance(results, torch.Tensor)):
            return operation.returned_arguments()
        return self._wrap_results(plan, results, claim, operands, None)

    def _results(self, operation: Invocation, lacks_contents: bool) -> Any:
        """The payloads of an operator's results; None where they are arguments without contents."""
        plan = operation.plan
        if plan.view:
            return operation.run()
        if not lacks_contents:
            return self._computed(operation)
        if plan.returns_arguments and not plan.changes_shape:
            return None
        return self._shapes.of(operation)

    def _on_payloads(self, operation: Invocation) -> Invocation:
        """An operator with payloads in place of device tensors."""
        tensor_class = self.placement.tensor_class
        args = [
            value._payload
            if type(value) is tensor_class
            else (
                payloads.map_tensors(value, payloads.payload)
                if isinstance(value, (list, tuple))
                else value
            )
            for value in operation.args
        ]
        named = operation.kwargs.items()
        kwargs = {k: payloads.map_tensors(v, payloads.payload) for k, v in named}
        return operation.with_arguments(args, kwargs)

    def _wrap_results(
        self,
        plan: OperatorPlan,
        results: Any,
        claim: torch.device,
        operands: DeviceOperands,
        call: Call | None,
    ) -> Any:
        """Wraps an operator's results as device tensors; marks them where unknown or deferred."""
        tensors, unknown = operands.tensors, operands.unknown
        shared_memory = tensors[0]._memory if plan.view and tensors else None
        operand_by_payload = {id(t._payload): t for t in tensors}
        origin = None
        if unknown:
            truth = payloads.truth_of(plan, tensors)
            origin = truth, unknown_cause(tensors), unknown_reason(tensors)
        recipes = {} if call is None else _recipes(call, results)

        def wrapped_result(result: torch.Tensor) -> torch.Tensor:
            operand = operand_by_payload.get(id(result))
            if operand is not None:
                return operand
            is_computed = not unknown and not hasattr(result, UNCOMPUTED)
            if claim.type == CPU.type and not result.is_meta and is_computed:
                return result
            wrapped = self.placement.wrap(result, claim, shared_memory)
            if shared_memory is None and origin is not None:
                mark_unknown(wrapped, *origin)
            elif hasattr(result, UNCOMPUTED):
                mark_unknown(wrapped, None, getattr(result, UNCOMPUTED), None)
            elif plan.uninitialised and not device_tensors.VALUES_ARE_REAL:
                wrapped._memory.unknown = wrapped._memory.blank = True
            if shared_memory is None and call is not None:
                wrapped._memory.recipe = recipes[id(result)]
            return wrapped

        if isinstance(results, torch.Tensor):
            return wrapped_result(results)
        return payloads.map_tensors(results, wrapped_result)

    def _computed(self, operation: Invocation) -> Any:
        """The result of an operator whose operands all have contents.

        A small result has contents too; of a large one only the shape is computed.
        """
        plan, shape = operation.plan, None
        if plan.uninitialised:
            shape = self._shapes.of(operation)
            return payloads.unwritten(shape) if fits(shape) else shape
        if not plan.mutates and not payloads.is_surely_small(operation):
            shape = self._shape_or_none(operation)
            if shape is not None and not all(map(fits, payloads.tensors(shape))):
                return shape
        try:
            if device_tensors.ALL_CONTENTS and precision.applies(operation):
                return precision.computed(operation)
            return operation.run()
        except (NotImplementedError, RuntimeError) as error:
            # Some operators lack a CPU kernel for a type that GPU kernels support.
            if shape is None:
                shape = self._shape_or_none(operation)
            in_place = plan.returns_arguments and not plan.changes_shape
            if (shape is None and not in_place) or not payloads.is_unsupported(error):
                raise
            self.note(f"{operation.func} was not computed: {payloads.first_line(error)}")
            if not device_tensors.VALUES_ARE_REAL:
                return None if shape is None else payloads.map_tensors(shape, payloads.filled)
            cause = f"that {plan.name.strip('_')} gives, which has no CPU kernel for it"
            if shape is None:
                for tensor in payloads.tensors(operation.written_arguments()):
                    setattr(tensor, UNCOMPUTED, cause)
                return None
            return payloads.map_tensors(shape, lambda t: _uncomputed(t, cause))

    def _shape_or_none(self, operation: Invocation) -> Any:
        """The result as meta tensors; None where only the CPU kernel can tell the shape."""
        try:
            return self._shapes.of(operation)
        except Exception:  # no meta kernel, or one that needs values: run the CPU kernel instead
            return None

    def _with_known_shape(
        self,
        operation: Invocation,
        known: Invocation,
        device_operands: list[DeviceTensor],
        claim: torch.device,
    ) -> Any:
        """The results of an operator whose shapes depend on contents, which are known.

        Large results keep only their shapes.
        """
        results = self._computed(known)
        shape = payloads.first_shape(results)
        note_emulated(device_operands, _element_count_question(operation.plan), shape)
        shapes = payloads.map_tensors(results, lambda t: t if fits(t) else payloads.shape_alone(t))
        call = self._deferred.keep(operation, shapes)
        recipes = {} if call is None else _recipes(call, shapes)

        def wrapped_shape(shape: torch.Tensor) -> torch.Tensor:
            if claim.type == CPU.type and not shape.is_meta:
                return shape
            wrapped: DeviceTensor = self.placement.wrap(shape, claim)
            if shape.is_meta and call is not None:
                wrapped._memory.recipe = recipes[id(shape)]
            return wrapped

        return payloads.map_tensors(shapes, wrapped_shape)

    def _python_kernel(self, operation: Invocation, key: str) -> Any:
        """Runs the kernel that a library registered for a dispatch key."""
        dispatch_key = getattr(torch._C.DispatchKey, key)
        with self.mode:
            return operation.func._op_dk(dispatch_key, *operation.args, **operation.kwargs)

    def _library(self, operation: Invocation) -> Any:
        """Runs a library's operator through its Python kernel, which may launch Triton kernels."""
        registry_name, args = operation.plan.registry_name, operation.args
        for key in KERNEL_KEYS:
            if f"{registry_name}/{key}" in torch.library._impls:
                return self._python_kernel(operation, key)
        if registry_name.startswith("c10d/"):
            results = operation.func._op_dk(torch._C.DispatchKey.CPU, *args, **operation.kwargs)
            return finished_work(results, list(payloads.tensors(args[:1])))
        device_operands = self.placement.device_operands(operation)
        claim = next((t._claim for t in device_operands if t.is_cuda), CPU)
        return self._on_device(operation, device_operands, claim)


def _uncomputed(shape: torch.Tensor, cause: str) -> torch.Tensor:
    """Contents in place of a result that cannot be computed, to be marked as unknown."""
    contents = payloads.filled(shape)
    setattr(contents, UNCOMPUTED, cause)
    return contents


def _recipes(call: Call, results: Any) -> dict[int, Recipe]:
    """How a deferred call computes each of its results: id of the payload -> recipe."""
    return {id(t): Recipe(call, index) for index, t in enumerate(payloads.tensors(results))}


class DeviceOperands(NamedTuple):
    """The device tensors among an operator's arguments.

    Attributes:
        tensors: the tensors, in order.
        unknown: whether the contents of any are unknown.
        lack_contents: whether any has a shape alone.
    """

    tensors: list[DeviceTensor]
    unknown: bool
    lack_contents: bool

    @classmethod
    def of(cls, tensors: list[DeviceTensor]) -> DeviceOperands:
        """The operands with what is known of them all."""
        lack_contents = unknown = False
        for tensor in tensors:
            lack_contents = lack_contents or tensor._payload.is_meta
            unknown = unknown or tensor._memory.unknown
        return cls(tensors, unknown or lack_contents, lack_contents)


def _without_gpu(operation: Invocation) -> tuple[torch.device | None, Invocation]:
    """The GPU that an operator's arguments name, and the operator with the CPU in its place.

    Memory is not pinned either, which the CPU could not do.
    """
    claim, args, kwargs = None, operation.args, operation.kwargs
    device = kwargs.get("device")
    if device is not None and device.type in DEVICE_TYPES:
        claim = device_of(device)
        kwargs = {**kwargs, "device": CPU}
    position = operation.plan.device_position
    if (
        position is not None
        and position < len(args)
        and getattr(args[position], "type", None) in DEVICE_TYPES
    ):
        claim = device_of(args[position])
        args = (*args[:position], CPU, *args[position + 1 :])
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    return claim, operation.with_arguments(args, kwargs)


def _element_count_question(plan: OperatorPlan) -> str:
    """The question that an operator whose result's shape depends on contents puts, in words."""
    return f"how many elements {plan.name.strip('_')} finds in"


def _placeholder(tensor: DeviceTensor) -> torch.Tensor:
    """A tensor of the same shape and type, for operators that ignore its contents."""
    shape = payloads.shape_alone(tensor._payload)
    if not fits(shape):
        return shape
    size, stride = shape.size(), shape.stride()
    return torch.empty_strided(size, stride, dtype=shape.dtype, device=CPU)


def _any_meta(results: Any) -> bool:
    return any(result.is_meta for result in payloads.tensors(results))
