"""Runs every torch operator of a script: on values for small tensors, on shapes for large ones.

Torch's C++ code sees only CPU and meta tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from . import tensor_io, tensors
from .assumptions import LOG
from .deferred import Call, deferred_call
from .distributed import finished_work
from .memory import Recipe
from .operator_results import (
    computed,
    decides_shape,
    filled,
    is_surely_small,
    is_unsupported,
    shape_alone,
    shape_of,
    shape_or_none,
    unwritten,
)
from .operators import SHAPED, Invocation, OperatorPlan, map_tensors, plan_of, tensors_in
from .tensors import (
    CPU,
    DEVICE_TYPES,
    META,
    DeviceTensor,
    device_of,
    device_tensors,
    fits,
    move_target,
    payload_of,
    wrap,
)

MODELESS = frozenset(("cond", "invoke_subgraph", "scan", "strict_mode"))
"""Higher-order operators that refuse to run while a dispatch mode is active (torch 2.13)."""
KERNEL_KEYS = ("CUDA", "CompositeExplicitAutograd", "CPU", "CompositeImplicitAutograd")
"""Dispatch keys for the Python kernel of a library's operator, in the order of preference."""
OVERRIDE_KEYS = ("CUDA", "AutogradCUDA")
"""Dispatch keys under which libraries replace torch's own kernels by Triton kernels."""
UNCOMPUTED = "_kinspect_uncomputed"
"""Attribute of a payload that stands for what could not be computed: why, in words."""


class DeviceMode(TorchDispatchMode):
    """Sends every operator to the dispatcher while the script runs."""

    supports_higher_order_operators = True

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__()
        self._run = run

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch would wrap this mode for Dynamo, whose import takes seconds.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: Dynamo traces code under this mode as if the mode were not there."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        if not isinstance(func, HigherOrderOperator):
            return self._run(func, args, kwargs or {})
        # One that takes functions (wrap_triton, torch.cond) runs as if without a mode: what they
        # call on device tensors still comes here, through the tensors' `__torch_dispatch__`.
        kernel = func.py_kernels[DispatchKey.CompositeExplicitAutograd]
        if func.name() in MODELESS:
            return kernel(*args, **(kwargs or {}))
        with self:
            return kernel(*args, **(kwargs or {}))


class Dispatcher:
    """Runs operators on device tensors; there is one in a process."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self._plans: dict[Any, OperatorPlan] = {}
        self.mode = DeviceMode(self.run)
        DeviceTensor.mode, DeviceTensor.read = self.mode, tensor_io.read

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs one operator overload on its arguments."""
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = plan_of(func)
        if plan.view and plan.native and args and type(args[0]) is DeviceTensor:
            return _view(func, args, kwargs)
        operation = Invocation(func, plan, args, kwargs)
        if not plan.native:
            return self._library(operation)
        device = kwargs.get("device")
        if device is not None and device.type == META.type:  # the script wants shapes only
            args = [map_tensors(value, payload_of) for value in args]
            return func(*args, **kwargs)
        claim, operation = _without_gpu(operation)
        operands = DeviceOperands.of(operation)
        if claim is None and move_target() is not None and plan.name == "_to_copy":
            claim = move_target()
        if claim is None:
            claim = next((t._claim for t in operands.tensors if t.is_cuda), None)
        if claim is None and not operands.tensors:
            return _on_host(operation)
        if claim is None or claim.type == "cpu":
            return self._on_device(operation, operands, CPU)
        for key in OVERRIDE_KEYS:
            if f"{plan.registry_name}/{key}" in torch.library._impls:
                if device is not None:
                    on_gpu = {**operation.kwargs, "device": claim}
                    operation = operation.with_arguments(operation.args, on_gpu)
                return self._python_kernel(operation, key)
        return self._on_device(operation, operands, claim)

    def _on_device(
        self, operation: Invocation, operands: DeviceOperands, claim: torch.device
    ) -> Any:
        """Runs an operator with an operand or a result that is on the device, or large."""
        plan, args = operation.plan, operation.args
        if plan.name in SHAPED and args and type(args[0]) is DeviceTensor:
            operation = operation.with_arguments(
                (_placeholder(args[0]), *args[1:]), operation.kwargs
            )
            operands = DeviceOperands.of(operation)
        if operands.tensors and plan.reads:
            return tensor_io.read_operator(operation, operands.unknown)
        shape_is_unknown = operands.unknown and decides_shape(plan.name, args)
        if shape_is_unknown:
            known = tensor_io.with_contents(operation)
            if known is not None:
                return self._with_known_shape(operation, known, operands, claim)
        if plan.mutates:
            return self._write(operation, operands, claim)
        results = self._results(operation.mapped(payload_of), operands.lack_contents)
        call = None
        if not plan.view and (operands.unknown or any(t.is_meta for t in tensors_in(results))):
            call = deferred_call(operation, results)
        if shape_is_unknown:
            question = tensor_io.described(operands.tensors, _element_count_question(plan))
            LOG.answer(question, _first_shape(results), tensor_io.unknown_reason(operands.tensors))
        return _wrap_results(plan, results, claim, operands, call)

    def _write(self, operation: Invocation, operands: DeviceOperands, claim: torch.device) -> Any:
        """Runs an operator that writes to arguments; see `_on_device`."""
        plan = operation.plan
        on_payloads, lacks_contents = operation.mapped(payload_of), operands.lack_contents
        # The deferred call holds the operands as they are before the write.
        call = deferred_call(operation, None) if operands.unknown else None
        tensor_io.preserve(operation)
        if operands.unknown and tensor_io.writes_to_host(operation):
            known = tensor_io.with_contents(operation)
            tensor_io.note_copy(plan, operands.tensors, known is not None)
            if known is not None:
                on_payloads, lacks_contents = known, False
        results = self._results(on_payloads, lacks_contents)
        tensor_io.follow_operator(operation, operands.tensors, call)
        for tensor in tensors_in(operation.written_arguments()):
            cause = vars(payload_of(tensor)).pop(UNCOMPUTED, None)
            if cause is not None and isinstance(tensor, DeviceTensor):
                tensor._memory.mark_unknown(None, cause, None)
        if plan.returns_nothing:
            return None
        if results is None or (plan.returns_arguments and isinstance(results, torch.Tensor)):
            return operation.returned_arguments()
        return _wrap_results(plan, results, claim, operands, None)

    def _results(self, operation: Invocation, lacks_contents: bool) -> Any:
        """The payloads of an operator's results; None where they are arguments without contents."""
        plan = operation.plan
        if plan.view:
            return operation.run()
        if not lacks_contents:
            return self._computed(operation)
        if plan.returns_arguments and not plan.changes_shape:
            return None
        return shape_of(operation)

    def _computed(self, operation: Invocation) -> Any:
        """The result of an operator whose operands all have contents.

        A small result has contents too; of a large one only the shape is computed.
        """
        plan, shape = operation.plan, None
        if plan.uninitialised:
            shape = shape_of(operation)
            return unwritten(shape) if fits(shape) else shape
        if not plan.mutates and not is_surely_small(operation):
            shape = shape_or_none(operation)
            if shape is not None and not all(map(fits, tensors_in(shape))):
                return shape
        try:
            return computed(operation)
        except (NotImplementedError, RuntimeError) as error:
            # Some operators lack a CPU kernel for a type that GPU kernels support.
            if shape is None:
                shape = shape_or_none(operation)
            in_place = plan.returns_arguments and not plan.changes_shape
            if (shape is None and not in_place) or not is_unsupported(error):
                raise
            line = (str(error).splitlines() or [type(error).__name__])[0][:160]
            self.note(f"{operation.func} was not computed: {line}")
        results = None if shape is None else map_tensors(shape, filled)
        if tensors.VALUES_ARE_REAL:
            cause = f"that {plan.name.strip('_')} gives, which has no CPU kernel for it"
            for tensor in tensors_in(operation.written_arguments() if shape is None else results):
                setattr(tensor, UNCOMPUTED, cause)
        return results

    def _with_known_shape(
        self,
        operation: Invocation,
        known: Invocation,
        operands: DeviceOperands,
        claim: torch.device,
    ) -> Any:
        """The results of an operator whose shapes depend on contents, which are known.

        Large results keep only their shapes.
        """
        results = self._computed(known)
        question = _element_count_question(operation.plan)
        tensor_io.note_emulated(operands.tensors, question, _first_shape(results))
        shapes = map_tensors(results, lambda t: t if fits(t) else shape_alone(t))
        call = deferred_call(operation, shapes)
        return _wrap_results(operation.plan, shapes, claim, NO_OPERANDS, call)

    def _python_kernel(self, operation: Invocation, key: str) -> Any:
        """Runs the kernel that a library registered for a dispatch key."""
        dispatch_key = getattr(DispatchKey, key)
        with self.mode:
            return operation.func._op_dk(dispatch_key, *operation.args, **operation.kwargs)

    def _library(self, operation: Invocation) -> Any:
        """Runs a library's operator through its Python kernel, which may launch Triton kernels."""
        registry_name, args = operation.plan.registry_name, operation.args
        for key in KERNEL_KEYS:
            if f"{registry_name}/{key}" in torch.library._impls:
                return self._python_kernel(operation, key)
        if registry_name.startswith("c10d/"):
            results = operation.func._op_dk(DispatchKey.CPU, *args, **operation.kwargs)
            return finished_work(results, list(tensors_in(args[:1])))
        operands = DeviceOperands.of(operation)
        claim = next((t._claim for t in operands.tensors if t.is_cuda), CPU)
        return self._on_device(operation, operands, claim)


class DeviceOperands(NamedTuple):
    """The device tensors among an operator's arguments, in order.

    Attributes:
        lack_contents: whether any has a shape alone.
    """

    tensors: list[DeviceTensor]
    unknown: bool
    lack_contents: bool

    @classmethod
    def of(cls, operation: Invocation) -> DeviceOperands:
        """The operands with what is known of them all."""
        args, kwargs = operation.args, operation.kwargs
        operands = device_tensors((*args, *kwargs.values()) if kwargs else args)
        lack_contents = unknown = False
        for tensor in operands:
            lack_contents = lack_contents or tensor._payload.is_meta
            unknown = unknown or tensor._memory.unknown
        return cls(operands, unknown or lack_contents, lack_contents)


NO_OPERANDS = DeviceOperands([], False, False)


def _view(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Runs a view operator: the result shares its operand's memory.

    Views are by far the most frequent operators, hence this short path.
    """
    tensor = args[0]
    inner = tensor._payload
    results = func(inner, *args[1:], **kwargs)
    if results is inner:
        return tensor
    return map_tensors(results, lambda t: wrap(t, tensor._claim, tensor._memory))


def _on_host(operation: Invocation) -> Any:
    """Runs an operator on plain CPU tensors; a large result gets a shape and no contents."""
    plan = operation.plan
    if plan.name in ("is_pinned", "_pin_memory"):
        return plan.name == "_pin_memory" and operation.args[0]
    if plan.device_position is not None and not plan.mutates and plan.name != "_to_copy":
        result = shape_or_none(operation)
        if isinstance(result, torch.Tensor) and not fits(result):
            return _wrap_results(plan, result, CPU, NO_OPERANDS, deferred_call(operation, result))
    return operation.run()


def _wrap_results(
    plan: OperatorPlan,
    results: Any,
    claim: torch.device,
    operands: DeviceOperands,
    call: Call | None,
) -> Any:
    """Wraps an operator's results as device tensors; marks them where unknown or deferred."""
    shared_memory = operands.tensors[0]._memory if plan.view and operands.tensors else None
    operand_by_payload = {id(t._payload): t for t in operands.tensors}
    indices = {id(result): index for index, result in enumerate(tensors_in(results))}

    def wrapped(result: torch.Tensor) -> torch.Tensor:
        operand = operand_by_payload.get(id(result))
        if operand is not None:
            return operand
        cause = getattr(result, UNCOMPUTED, None)
        is_computed = not operands.unknown and cause is None
        if claim.type == CPU.type and not result.is_meta and is_computed:
            return result
        tensor: DeviceTensor = wrap(result, claim, shared_memory)
        memory = tensor._memory
        if shared_memory is None and operands.unknown:
            memory.mark_unknown(
                _truth_of(plan, operands.tensors),
                tensor_io.unknown_cause(operands.tensors),
                tensor_io.unknown_reason(operands.tensors),
            )
        elif cause is not None:
            memory.mark_unknown(None, cause, None)
        elif plan.uninitialised and not tensors.VALUES_ARE_REAL:
            memory.unknown = memory.blank = True
        if call is not None and (operands.unknown or result.is_meta):
            memory.recipe = Recipe(call, indices[id(result)])
        return tensor

    return map_tensors(results, wrapped)


def _truth_of(plan: OperatorPlan, operands: Sequence[DeviceTensor]) -> bool | None:
    """The assumed value of an operator's unknown result; None without one."""
    if plan.agrees is not None:
        return plan.agrees if any(t.dtype.is_floating_point for t in operands) else None
    truth = next((t._memory.truth for t in operands if t._memory.truth is not None), None)
    if truth is None or plan.carries is None:
        return None
    return truth is plan.carries


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


def _first_shape(value: Any) -> str:
    tensor = next(tensors_in(value), None)
    return "?" if tensor is None else "x".join(map(str, tensor.shape)) or "1"


def _placeholder(tensor: DeviceTensor) -> torch.Tensor:
    """A tensor of the same shape and type, for operators that ignore its contents."""
    shape = shape_alone(tensor._payload)
    if not fits(shape):
        return shape
    size, stride = shape.size(), shape.stride()
    return torch.empty_strided(size, stride, dtype=shape.dtype, device=CPU)
