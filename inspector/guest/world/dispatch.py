"""Runs every torch operator of a script: on values for small tensors, on shapes for large ones.

Torch's C++ code sees only CPU and meta tensors. This module keeps track of the device that each
tensor claims to be on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch._C import DispatchKey
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode

from . import collectives, payloads, precision, unknowns
from . import tensors as device_tensors
from .assumptions import LOG, UnknownFloat, unknown_array
from .deferred import Call, Deferred, Recipe, geometry_of, is_whole
from .launched import Execute, Launches
from .plans import OVERWRITING, SHAPED, Plan, plan_of
from .refused import RefusedError
from .rerunning import Rerunning
from .shapes import META, Shapes
from .tensors import READ_LIMIT, Addresses, DeviceTensor, Memory, bytes_of, fits, host_dtype

CPU = torch.device("cpu")
DEVICE_TYPES = ("cuda", "hip")
KERNEL_KEYS = ("CUDA", "CompositeExplicitAutograd", "CPU", "CompositeImplicitAutograd")
"""Dispatch keys under which a library may register an operator's Python kernel, likeliest first."""

TOO_LARGE = "too large to be computed here"
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {"_local_scalar_dense": "the value of", "item": "the value of", "is_nonzero": "the truth of"}
)
"""Operator that reads a tensor -> what it asks for, as the start of a message."""
MOST_LOGGED_ELEMENTS = 16
"""Elements of an array that a note about a read value shows at most."""
COMPARING = frozenset(("allclose", "equal"))
"""Operators that compare whole tensors and return one bool to the host."""
_WITHOUT_A_MODE = frozenset(("cond", "invoke_subgraph", "scan", "strict_mode"))
"""Higher-order operators that refuse to run while a dispatch mode is active (torch 2.13)."""
OVERRIDE_KEYS = ("CUDA", "AutogradCUDA")
"""Dispatch keys under which libraries replace torch's own kernels by Triton kernels."""


class DeviceMode(TorchDispatchMode):
    """Sends every operator to the dispatcher while the script runs."""

    supports_higher_order_operators = True

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._dispatcher = dispatcher

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
        if isinstance(func, HigherOrderOperator):
            return self._in_terms_of_others(func, args, kwargs or {})
        return self._dispatcher.run(func, args, kwargs or {})

    def _in_terms_of_others(
        self, func: HigherOrderOperator, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Runs an operator that takes functions (wrap_triton, torch.cond) as if without a mode.

        The operators that those functions call on device tensors still reach the dispatcher,
        through the tensors' own `__torch_dispatch__`.
        """
        kernel = func.py_kernels[DispatchKey.CompositeExplicitAutograd]
        if func.name() in _WITHOUT_A_MODE:
            return kernel(*args, **kwargs)
        with self:
            return kernel(*args, **kwargs)


class Dispatcher:
    """Runs operators on device tensors.

    Args:
        note: takes a remark on something approximated.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note
        self._plans: dict[Any, Plan] = {}
        self._addresses = Addresses()
        self._shapes = Shapes()
        self._deferred = Deferred()
        self.rerunning = Rerunning()
        self._launches = Launches(self._deferred)
        self._target: torch.device | None = None
        self.tensor_class: type[DeviceTensor] = type(
            "DeviceTensor", (DeviceTensor,), {"dispatcher": self}
        )
        self.mode = DeviceMode(self)

    # ----- making tensors

    def wrap(self, payload: torch.Tensor, claim: torch.device, memory: Memory | None = None) -> Any:
        """A device tensor around `payload` that claims to be on `claim`.

        It gets a new allocation unless `memory` is given. Sparse and nested tensors are returned
        unchanged: no kernel takes them.
        """
        if payload.layout != torch.strided or payload.is_nested:
            return payload
        if payload.dtype.is_complex and (payload.is_conj() or payload.is_neg()):
            # Torch keeps these two flags on the tensor object, and the wrapper would not have
            # them: resolve them into the contents.
            payload, memory = payload.resolve_conj().resolve_neg(), None
        outer = torch.Tensor._make_wrapper_subclass(
            self.tensor_class,
            payload.size(),
            strides=payload.stride(),
            storage_offset=payload.storage_offset(),
            dtype=payload.dtype,
            layout=payload.layout,
            device=CPU,
        )
        outer._payload = payload
        outer._claim = claim
        outer._memory = memory or self._addresses.allocate(bytes_of(payload))
        return outer

    @staticmethod
    def device_of(device: Any, default: str = "cpu") -> torch.device:
        """The torch device that a script means by `0`, `'cuda'`, `'hip:1'` or None (`default`)."""
        if device is None:
            device = default
        if isinstance(device, int):
            return torch.device("cuda", device)
        if not isinstance(device, torch.device):
            device = torch.device(str(device))
        if device.type in DEVICE_TYPES:
            return torch.device("cuda", device.index or 0)
        return device

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Implements `tensor.to(...)` in all of the method's forms."""
        device, dtype = kwargs.get("device"), kwargs.get("dtype")
        flags = list(args)
        for arg in args:
            if isinstance(arg, bool):
                break
            if isinstance(arg, torch.Tensor):
                device, dtype = arg.device, arg.dtype
            elif isinstance(arg, torch.dtype):
                dtype = arg
            elif arg is not None:
                device = arg
            flags.pop(0)
        like = kwargs.get("other")
        if like is not None:
            device, dtype = like.device, like.dtype
        copy = kwargs.get("copy", flags[1] if len(flags) > 1 else False)
        claim = self.device_of(device, default=str(tensor.device))
        return self.move(
            tensor, claim, dtype=dtype, copy=copy, memory_format=kwargs.get("memory_format")
        )

    def move(
        self,
        tensor: torch.Tensor,
        claim: torch.device,
        dtype: torch.dtype | None = None,
        copy: bool = False,
        memory_format: Any = None,
    ) -> torch.Tensor:
        """The tensor on device `claim` with type `dtype`: itself if nothing has to change."""
        is_there = tensor.device == claim and dtype in (None, tensor.dtype) and not copy
        if is_there and (
            memory_format in (None, torch.preserve_format)
            or tensor.is_contiguous(memory_format=memory_format)
        ):
            return tensor
        changes: dict[str, Any] = {}
        if dtype is not None:
            changes["dtype"] = dtype
        if memory_format is not None:
            changes["memory_format"] = memory_format
        if claim.type == META.type:
            return torch.empty_like(tensor, device=META, **changes)
        previous_target, self._target = self._target, claim
        try:
            moved = torch.ops.aten._to_copy.default(tensor, **changes)
        finally:
            self._target = previous_target
        return moved

    def replace(self, tensor: DeviceTensor, new: torch.Tensor) -> None:
        """Makes `tensor` share the contents, device and memory of `new`, as `tensor.data = new`."""
        if not isinstance(new, DeviceTensor):
            new = self.wrap(new.detach(), tensor._claim if new.is_cpu else new.device)
        torch._C.TensorBase.data.__set__(tensor, new)
        tensor._payload, tensor._claim = new._payload, new._claim
        tensor._memory = new._memory

    # ----- reading tensors on the host

    def plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """A CPU copy of the contents; if they are unknown, zeros expanded from one element."""
        if not isinstance(tensor, DeviceTensor):
            return tensor.detach()
        with torch._C._DisableTorchDispatch():
            contents = self._contents(tensor)
            payload = tensor._payload if contents is None else contents
            if payload.is_meta:
                return torch.zeros((), dtype=payload.dtype, device=CPU).expand(payload.shape)
            return payload.detach().clone()

    def _contents(self, tensor: DeviceTensor) -> torch.Tensor | None:
        """A tensor's contents, computed now if they were deferred; None if they are unknown."""
        if not (tensor._payload.is_meta or tensor._memory.unknown):
            return tensor._payload
        if tensor._memory.recipe is None or not LOG.matters():
            return None
        return self.rerunning.contents(tensor)

    def is_unknown(self, tensor: DeviceTensor) -> bool:
        """Whether a tensor's contents can neither be computed nor be had by executing kernels.

        If kernels that can be executed wrote the contents, this executes them.
        """
        memory = tensor._memory
        if not (memory.unknown or tensor._payload.is_meta):
            return False
        recipe = memory.recipe
        return recipe is None or (recipe.call.by_kernels and self._contents(tensor) is None)

    @staticmethod
    def reason_of(tensor: DeviceTensor) -> str | None:
        """Why the contents that kernels wrote are unknown, as one of `refused.REASONS`."""
        return tensor._memory.reason

    @staticmethod
    def _note_emulated(tensors: Sequence[DeviceTensor], question: str, value: Any) -> None:
        """Notes a value that the script read, if an executed kernel contributed to it."""
        for tensor in tensors:
            recipe = tensor._memory.recipe
            if recipe is not None and recipe.call.by_kernels:
                LOG.emulated(f"{question} a tensor that a kernel writes", value)
                return

    @staticmethod
    def _unknown_reason(tensors: Sequence[DeviceTensor]) -> str | None:
        """The first tensor's reason for unknown contents, as one of `refused.REASONS`."""
        return next(
            (tensor._memory.reason for tensor in tensors if tensor._memory.reason is not None), None
        )

    def read(self, tensor: DeviceTensor, how: str) -> Any:
        """A tensor's contents in the form that `how` names: `tolist`, `numpy` or `repr`."""
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            if how == "repr":
                return self._repr(tensor)
            too_long = how == "tolist" and tensor._payload.is_meta and tensor.numel() > READ_LIMIT
            contents = None if too_long else self._contents(tensor)
            payload = tensor._payload if contents is None else contents
            unknown = contents is None
            if unknown:
                LOG.answer(
                    self.described((tensor,), f"{how} of"),
                    "zeros" if payload.is_meta else "…",
                    self._unknown_reason((tensor,)),
                )
            if how == "tolist" and payload.is_meta:
                zero = torch.zeros((), dtype=payload.dtype, device=CPU).item()
                return unknowns.zeros(tuple(payload.shape), zero)
            if payload.is_meta:
                values = torch.zeros((), dtype=payload.dtype, device=CPU).expand(payload.shape)
            else:
                values = payload.detach().clone().resolve_conj().resolve_neg()
            values = values.to(host_dtype(values.dtype))
            listed = values.tolist() if how == "tolist" else None
            if not unknown:
                logged_values = (
                    listed
                    if listed is not None
                    else values.flatten()[:MOST_LOGGED_ELEMENTS].tolist()
                )
                self._note_emulated((tensor,), f"{how} of", logged_values)
            if how == "tolist":
                return listed
            return values.numpy().view(unknown_array()) if unknown else values.numpy()

    @staticmethod
    def _repr(tensor: DeviceTensor) -> str:
        payload = tensor._payload
        if payload.is_meta:
            text = f"tensor(..., size={tuple(payload.shape)}, dtype={payload.dtype}"
        else:
            text = repr(payload.detach())[:-1]
        return f"{text}, device='{tensor.device}')" if tensor.is_cuda else text + ")"

    # ----- running operators

    def run(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Runs one operator overload."""
        plan = self._plans.get(func)
        if plan is None:
            plan = self._plans[func] = plan_of(func)
        if plan.view and plan.native and args and type(args[0]) is self.tensor_class:
            return self._view(func, args, kwargs)
        if not plan.native:
            return self._library(func, plan, args, kwargs)
        claim = None
        device = kwargs.get("device")
        if device is not None and device.type == META.type:  # the script wants shapes only
            return func(*payloads.each(args, payloads.payload), **kwargs)
        if device is not None and device.type in DEVICE_TYPES:
            claim = self.device_of(device)
            kwargs = {**kwargs, "device": CPU}
        position = plan.device_position
        if (
            position is not None
            and position < len(args)
            and getattr(args[position], "type", None) in DEVICE_TYPES
        ):
            claim = self.device_of(args[position])
            args = (*args[:position], CPU, *args[position + 1 :])
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        device_operands = self._device_operands(args, kwargs)
        if claim is None:
            if self._target is not None and plan.name == "_to_copy":
                claim = self._target
            else:
                for tensor in device_operands:
                    if tensor._claim.type == "cuda":
                        claim = tensor._claim
                        break
        if claim is None and not device_operands:
            return self._on_host(func, plan, args, kwargs)
        if claim is None or claim.type == "cpu":
            claim = CPU
        else:
            for key in OVERRIDE_KEYS:
                if f"{plan.registry_name}/{key}" in torch.library._impls:
                    if device is not None:
                        kwargs = {**kwargs, "device": claim}
                    return self._python_kernel(func, key, args, kwargs)
        return self._on_device(func, plan, args, kwargs, device_operands, claim)

    def _device_operands(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[DeviceTensor]:
        tensor_class = self.tensor_class
        device_operands: list[DeviceTensor] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is tensor_class:
                device_operands.append(value)
            elif isinstance(value, (list, tuple)):
                device_operands += [inner for inner in value if type(inner) is tensor_class]
        return device_operands

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
            return self.wrap(results, tensor._claim, tensor._memory)
        return payloads.one(results, lambda t: self.wrap(t, tensor._claim, tensor._memory))

    def _on_host(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        """Runs an operator on plain CPU tensors; a large result gets a shape and no contents."""
        if plan.name in ("is_pinned", "_pin_memory"):
            return plan.name == "_pin_memory" and args[0]
        if plan.takes_device and not plan.mutates and plan.name != "_to_copy":
            result = self._shape_or_none(func, plan, args, kwargs)
            if isinstance(result, torch.Tensor) and not fits(result):
                large = self.wrap(result, CPU)
                call = self._deferred.keep(func, plan, args, kwargs, result)
                large._memory.recipe = None if call is None else Recipe(call, 0)
                return large
        return func(*args, **kwargs)

    def _on_device(
        self,
        func: Any,
        plan: Plan,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        device_operands: list[DeviceTensor],
        claim: torch.device,
    ) -> Any:
        """Runs an operator with an operand or a result that is on the device, or large."""
        if plan.name in SHAPED and device_operands and args and args[0] is device_operands[0]:
            args, device_operands = (
                (_placeholder(device_operands[0]), *args[1:]),
                device_operands[1:],
            )
        lacks_contents = unknown = False
        for tensor in device_operands:
            lacks_contents = lacks_contents or tensor._payload.is_meta
            unknown = unknown or tensor._memory.unknown
        unknown = unknown or lacks_contents
        if device_operands and plan.host_read is not None:
            return self._read(func, plan, args, kwargs, unknown)
        tensor_class = self.tensor_class
        inner_args = [
            value._payload
            if type(value) is tensor_class
            else (
                payloads.one(value, payloads.payload) if isinstance(value, (list, tuple)) else value
            )
            for value in args
        ]
        inner_kwargs = kwargs
        if kwargs:
            inner_kwargs = {k: payloads.one(v, payloads.payload) for k, v in kwargs.items()}
        shape_is_unknown = unknown and unknowns.decides_shape(plan.name, args)
        if shape_is_unknown:
            known_args = self._all_known(args, kwargs)
            if known_args is not None:
                results = self._computed(func, plan, *known_args)
                shape = payloads.first_shape(results)
                self._note_emulated(device_operands, _element_count_question(plan), shape)
                return self._wrap_computed(func, plan, args, kwargs, results, claim)
        call = None
        if plan.mutates:
            self._preserve(plan, args, kwargs)
        if unknown and plan.mutates:  # keep the operands as they are before the write
            call = self._deferred.keep(func, plan, args, kwargs, None)
            if self._is_for_the_host(plan, args, kwargs):
                known_args = self._all_known(args, kwargs)
                self._note_copy(plan, device_operands, known_args is not None)
                if known_args is not None:
                    (inner_args, inner_kwargs), lacks_contents = known_args, False
        if plan.view:
            results = func(*inner_args, **inner_kwargs)
        elif lacks_contents and plan.returns_arguments and not plan.changes_shape:
            results = None
        elif lacks_contents:
            results = self._shapes.of(func, plan, inner_args, inner_kwargs)
        else:
            results = self._computed(func, plan, inner_args, inner_kwargs)
        if not plan.mutates and not plan.view and (unknown or _any_meta(results)):
            call = self._deferred.keep(func, plan, args, kwargs, results)
        if plan.mutates:
            self._follow_writes(plan, args, kwargs, device_operands, call)
            if plan.returns_nothing:
                return None
            if results is None:
                return payloads.arguments(plan, args, kwargs)
            if plan.returns_arguments and isinstance(results, torch.Tensor):
                return payloads.arguments(plan, args, kwargs)
            call = None  # `_follow_writes` has attached it
        if shape_is_unknown:
            question = self.described(device_operands, _element_count_question(plan))
            reason = self._unknown_reason(device_operands)
            LOG.answer(question, payloads.first_shape(results), reason)
        return self._wrap_results(plan, results, claim, device_operands, unknown=unknown, call=call)

    def _wrap_results(
        self,
        plan: Plan,
        results: Any,
        claim: torch.device,
        device_operands: list[DeviceTensor],
        *,
        unknown: bool,
        call: Call | None,
    ) -> Any:
        """The payloads that an operator returned, as device tensors with what is known of each.

        Args:
            plan: of the operator.
            results: the payloads.
            claim: the device that the results claim to be on.
            device_operands: the operator's device tensors; a payload that belongs to one of them
                becomes that tensor again.
            unknown: whether the contents of any operand were unknown before the operator ran.
            call: the deferred call that computes the results; None if it is not deferred.
        """
        shared_memory = device_operands[0]._memory if plan.view and device_operands else None
        operand_by_payload = {id(t._payload): t for t in device_operands}
        truth = payloads.truth_of(plan, device_operands) if unknown else None
        cause, reason = "", None
        if unknown:
            cause = self._unknown_cause(device_operands)
            reason = self._unknown_reason(device_operands)
        result_indices: dict[int, int] = {}
        if call is not None:
            result_indices = {id(t): index for index, t in enumerate(payloads.tensors(results))}

        def wrapped_result(result: torch.Tensor) -> torch.Tensor:
            operand = operand_by_payload.get(id(result))
            if operand is not None:
                return operand
            if claim.type == CPU.type and not result.is_meta and not unknown:
                return result
            wrapped = self.wrap(result, claim, shared_memory)
            if shared_memory is None and unknown:
                self._mark_unknown(wrapped, truth, cause, reason)
            elif plan.uninitialised:
                wrapped._memory.unknown = wrapped._memory.blank = True
            if shared_memory is None and call is not None:
                wrapped._memory.recipe = Recipe(call, result_indices[id(result)])
            return wrapped

        if isinstance(results, torch.Tensor):
            return wrapped_result(results)
        return payloads.one(results, wrapped_result)

    @staticmethod
    def _is_for_the_host(plan: Plan, args: Any, kwargs: Any) -> bool:
        """Whether an operator writes to a plain host tensor, which cannot be marked as unknown."""
        targets = payloads.tensors(payloads.written(plan, args, kwargs))
        return any(not isinstance(target, DeviceTensor) for target in targets)

    def _note_copy(
        self, plan: Plan, device_operands: Sequence[DeviceTensor], is_known: bool
    ) -> None:
        question = f"{plan.name.strip('_')} of"
        if is_known:
            self._note_emulated(device_operands, question, "…")
        else:
            LOG.answer(
                self.described(device_operands, question),
                "…",
                self._unknown_reason(device_operands),
            )

    def _read(self, func: Any, plan: Plan, args: Any, kwargs: Any, unknown: bool) -> Any:
        """What the host reads from tensors; a value that had to be assumed is noted."""
        tensors = self._device_operands(args, kwargs)
        if plan.name in COMPARING or (unknown and plan.name in QUESTIONS):
            known_args = self._all_known(args, kwargs)
            if known_args is not None:
                value = func(*known_args[0], **known_args[1])
                if unknown:
                    question = QUESTIONS.get(plan.name, f"{plan.name} of")
                    self._note_emulated(tensors, question, value)
                return value
        assert plan.host_read is not None
        value = plan.host_read(tensors[0], unknown)
        if not unknown or plan.name in ("is_pinned", "_pin_memory"):
            return value
        question = self.described(tensors, QUESTIONS.get(plan.name, f"{plan.name} of"))
        return LOG.answer(question, value, self._unknown_reason(tensors))

    def item(self, tensor: DeviceTensor) -> Any:
        """Implements `tensor.item()`; an unknown float is noted only where the script uses it."""
        unknown = tensor._memory.unknown or tensor._payload.is_meta
        if not unknown or not tensor.dtype.is_floating_point:
            return torch._C.TensorBase.item(tensor)
        contents = self._contents(tensor)
        if contents is not None:
            self._note_emulated((tensor,), "the value of", contents.item())
            return contents.item()
        with LOG:
            value = torch._C.TensorBase.item(tensor)
        question = self.described((tensor,), "the value of")
        return UnknownFloat(value, question, self._unknown_reason((tensor,)))

    @staticmethod
    def described(tensors: Sequence[DeviceTensor], question: str) -> str:
        """A message about a read of unknown contents: `question`, and why they are unknown."""
        unknown_tensor = next(
            (t for t in tensors if t._memory.unknown or t._payload.is_meta), tensors[0]
        )
        memory = unknown_tensor._memory
        why = memory.refusal or (memory.cause if memory.unknown else TOO_LARGE)
        return f"{question} a tensor {why}"

    def _computed(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        """The result of an operator whose operands all have contents.

        A small result has contents too; of a large one only the shape is computed.
        """
        shape = None
        if plan.uninitialised:
            shape = self._shapes.of(func, plan, args, kwargs)
            return payloads.filled(shape) if fits(shape) else shape
        if not plan.mutates and not payloads.surely_small(plan, args):
            shape = self._shape_or_none(func, plan, args, kwargs)
            if shape is not None and not all(map(fits, payloads.tensors(shape))):
                return shape
        try:
            if device_tensors.ALL_CONTENTS and precision.applies(plan.name, args, kwargs):
                return precision.computed(func, plan.name, args, kwargs)
            return func(*args, **kwargs)
        except (NotImplementedError, RuntimeError) as error:
            # Some operators lack a CPU kernel for a type that GPU kernels support.
            if shape is None:
                shape = self._shape_or_none(func, plan, args, kwargs)
            in_place = plan.returns_arguments and not plan.changes_shape
            if (shape is None and not in_place) or not payloads.is_unsupported(error):
                raise
            self.note(f"{func} was not computed: {payloads.first_line(error)}")
            return None if shape is None else payloads.one(shape, payloads.filled)

    def _shape_or_none(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        try:
            return self._shapes.of(func, plan, args, kwargs)
        except Exception:  # no meta kernel, or one that needs values: run the CPU kernel instead
            return None

    def _all_known(self, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """The arguments with the contents in place of device tensors; None if any are unknown."""
        contents: dict[int, torch.Tensor] = {}
        for tensor in self._device_operands(args, kwargs):
            tensor_contents = self._contents(tensor)
            if tensor_contents is None:
                return None
            contents[id(tensor)] = tensor_contents

        def with_contents(tensor: torch.Tensor) -> torch.Tensor:
            return contents.get(id(tensor), tensor)

        return payloads.each(args, with_contents), {
            k: payloads.one(v, with_contents) for k, v in kwargs.items()
        }

    def _wrap_computed(
        self, func: Any, plan: Plan, args: Any, kwargs: Any, results: Any, claim: torch.device
    ) -> Any:
        """Wraps results whose shapes depended on contents; large ones keep only their shapes."""
        shapes = payloads.one(results, lambda t: t if fits(t) else payloads.shape_alone(t))
        call = self._deferred.keep(func, plan, args, kwargs, shapes)
        places = {id(shape): nth for nth, shape in enumerate(payloads.tensors(shapes))}

        def wrapped_shape(shape: torch.Tensor) -> torch.Tensor:
            if claim.type == CPU.type and not shape.is_meta:
                return shape
            wrapped: DeviceTensor = self.wrap(shape, claim)
            if shape.is_meta and call is not None:
                wrapped._memory.recipe = Recipe(call, places[id(shape)])
            return wrapped

        return payloads.one(shapes, wrapped_shape)

    def _follow_writes(
        self,
        plan: Plan,
        args: Any,
        kwargs: Any,
        device_operands: list[DeviceTensor],
        call: Call | None,
    ) -> None:
        """Records what an in-place operator did to its arguments' shapes and known contents.

        Args:
            plan: of the operator.
            args: its positional arguments.
            kwargs: its keyword arguments.
            device_operands: the device tensors among them.
            call: the deferred call, if the values that it writes are not known now.
        """
        written_count = 0
        for position, name in plan.mutates:
            target = kwargs.get(name) if name in kwargs else None
            if target is None and position < len(args):
                target = args[position]
            for tensor in target if isinstance(target, (list, tuple)) else (target,):
                if not isinstance(tensor, torch.Tensor):
                    continue
                target_index, written_count = written_count, written_count + 1
                if not isinstance(tensor, DeviceTensor):
                    continue
                memory = tensor._memory
                other_tensors = [t for t in device_operands if t is not tensor]
                operand_unknown = any(
                    t._memory.unknown or t._payload.is_meta for t in other_tensors
                )
                is_deferred = operand_unknown or memory.unknown or tensor._payload.is_meta
                if operand_unknown:
                    memory.unknown, memory.blank = True, False
                    memory.cause = self._unknown_cause(other_tensors)
                    memory.unset = None
                elif plan.name in OVERWRITING and _is_fully_written(tensor):
                    memory.unknown = memory.blank = False
                    is_deferred = tensor._payload.is_meta
                memory.version += 1
                memory.refusal = None
                memory.reason = self._unknown_reason(other_tensors) if operand_unknown else None
                memory.recipe = (
                    Recipe(call, target_index) if call is not None and is_deferred else None
                )
                if plan.changes_shape:
                    self._reshape(tensor)

    def _reshape(self, tensor: DeviceTensor) -> None:
        """Updates a tensor's shape after an operator resized its payload."""
        payload = tensor._payload
        if (
            payload.shape == tensor.shape
            and payload.stride() == tensor.stride()
            and payload.storage_offset() == tensor.storage_offset()
        ):
            return
        nbytes = bytes_of(payload)
        if nbytes > tensor._memory.nbytes:
            tensor._memory = self._addresses.allocate(nbytes)
        self.replace(tensor, self.wrap(payload, tensor._claim, tensor._memory))

    def _mark_unknown(
        self, tensor: DeviceTensor, truth: bool | None, cause: str, reason: str | None
    ) -> None:
        memory = tensor._memory
        memory.unknown, memory.blank = True, False
        memory.truth = truth
        memory.cause, memory.reason = cause, reason

    @staticmethod
    def _unknown_cause(tensors: Sequence[DeviceTensor]) -> str:
        """Why a result is unknown, in words: the cause of the first unknown operand."""
        cause = next((t._memory.cause for t in tensors if t._memory.unknown), None)
        return cause or TOO_LARGE

    def launched(
        self,
        tensors: Sequence[DeviceTensor],
        is_written: Sequence[bool],
        execute: Execute | None,
        refusal: RefusedError | None,
    ) -> None:
        """Marks what a launched kernel writes as unknown until the kernel is executed.

        Args:
            tensors: the kernel's tensor arguments.
            is_written: for each of them, whether the kernel may write to it.
            execute: executes the launch; None if it cannot be executed.
            refusal: why it cannot be executed.
        """
        written = [tensor for tensor, writes in zip(tensors, is_written) if writes]
        call = None
        if execute is not None and written:
            refusal = RefusedError("inputs")
            call = self._launches.keep(tensors, is_written, execute)
        for tensor in written:
            memory = tensor._memory
            if call is None:
                memory.recipe = None
            memory.unknown, memory.blank = True, False
            memory.truth = None
            memory.cause = str(refusal or RefusedError("off"))
            memory.reason = refusal.reason if call is None and refusal is not None else None
            memory.refusal = memory.unset = None
        for memory in {id(tensor._memory): tensor._memory for tensor in written}.values():
            memory.version += 1

    def _preserve(self, plan: Plan, args: Any, kwargs: Any) -> None:
        """Copies memory that pending launches still need and that an operator will overwrite."""
        for tensor in payloads.tensors(payloads.written(plan, args, kwargs)):
            if isinstance(tensor, DeviceTensor) and tensor._memory.holders is not None:
                self._launches.preserve(tensor._memory)

    def written_for_real(self, tensor: DeviceTensor) -> None:
        """Marks a tensor as known: an executed kernel has just written its contents."""
        memory = tensor._memory
        memory.unknown = memory.blank = False
        memory.truth = memory.recipe = memory.refusal = memory.unset = None
        memory.version += 1

    def _python_kernel(self, func: Any, key: str, args: Any, kwargs: Any) -> Any:
        with self.mode:
            return func._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)

    def _library(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        """Runs a library's operator through its Python kernel, which may launch Triton kernels."""
        for key in KERNEL_KEYS:
            if f"{plan.registry_name}/{key}" in torch.library._impls:
                return self._python_kernel(func, key, args, kwargs)
        if plan.registry_name.startswith("c10d/"):
            work = func._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)
            return collectives.finished(work, list(payloads.tensors(args[:1])))
        device_operands = self._device_operands(args, kwargs)
        claim = next((t._claim for t in device_operands if t.is_cuda), CPU)
        return self._on_device(func, plan, args, kwargs, device_operands, claim)


def _element_count_question(plan: Plan) -> str:
    """What an operator whose result's shape depends on contents asks for, in words."""
    return f"how many elements {plan.name.strip('_')} finds in"


def _placeholder(tensor: DeviceTensor) -> torch.Tensor:
    """A tensor of the same shape and type, for operators that ignore its contents."""
    shape = payloads.shape_alone(tensor._payload)
    if not fits(shape):
        return shape
    size, stride = shape.size(), shape.stride()
    return torch.empty_strided(size, stride, dtype=shape.dtype, device=CPU)


def _is_fully_written(tensor: DeviceTensor) -> bool:
    """Whether overwriting this view leaves no unknown element in its allocation.

    `starts = torch.empty(n + 1); starts[0] = 0; starts[1:] = ...` leaves none.
    """
    if not tensor._memory.unknown or is_whole(tensor):
        return True
    if tensor._payload.is_meta:
        return False
    geometry, memory = geometry_of(tensor._payload), tensor._memory
    count = memory.nbytes // geometry.dtype.itemsize
    if memory.unset is None:
        memory.unset = torch.ones(count, dtype=torch.bool, device=CPU)
    if memory.unset.numel() != count:  # earlier writes went through a view of another type
        return False
    memory.unset.as_strided(geometry.size, geometry.stride, geometry.offset).fill_(False)
    return not bool(memory.unset.any())


def _any_meta(results: Any) -> bool:
    return any(result.is_meta for result in payloads.tensors(results))
