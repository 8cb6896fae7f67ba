"""Runs every torch operator of a script: for real on small tensors, on shapes alone beyond.

Torch's C++ sees CPU and meta tensors only. Which device a tensor claims is this module's business.
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
"""Where a library's operator may keep its Python kernel, the likeliest first."""

TOO_LARGE = "too large to be computed here"
QUESTIONS: Mapping[str, str] = MappingProxyType(
    {"_local_scalar_dense": "the value of", "item": "the value of", "is_nonzero": "the truth of"}
)
"""What an operator that reads a tensor asks for, in words."""
MOST_TOLD = 16
"""Elements of an array that are told of."""
COMPARING = frozenset(("allclose", "equal"))
_WITHOUT_A_MODE = frozenset(("cond", "invoke_subgraph", "scan", "strict_mode"))
"""Operators that call functions and insist on there being no mode (torch 2.13)."""
OVERRIDE_KEYS = ("CUDA", "AutogradCUDA")
"""Where libraries put Triton kernels in the place of torch's own."""


class DeviceMode(TorchDispatchMode):
    """Sends every operator to the dispatcher while the script runs."""

    supports_higher_order_operators = True

    def __init__(self, dispatcher: Dispatcher) -> None:
        super().__init__()
        self._dispatcher = dispatcher

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Being wrapped for torch.compile would import all of it, which takes seconds.
        return False

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """True: Dynamo traces what runs under this mode, as it would without."""
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
        """An operator that calls functions, as it does without a mode: wrap_triton, torch.cond.

        What they call on device tensors comes here again by the tensors' own class.
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
        """A tensor that claims to be on `claim`, in memory of its own unless some is given."""
        if payload.layout != torch.strided or payload.is_nested:  # nothing that a kernel takes
            return payload
        if payload.dtype.is_complex and (payload.is_conj() or payload.is_neg()):
            # Torch marks these on the outer tensor, where the mark would be missing: carry it out.
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
        """The device that a script means by `0`, `'cuda'`, `'hip:1'` or None."""
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
        """What `tensor.to(...)` gives, for any tensor and any of the method's forms."""
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
        return self.move(tensor, claim, dtype, copy, kwargs.get("memory_format"))

    def move(
        self,
        tensor: torch.Tensor,
        claim: torch.device,
        dtype: torch.dtype | None = None,
        copy: bool = False,
        memory_format: Any = None,
    ) -> torch.Tensor:
        """The tensor on a device and of a type: itself if it is so already."""
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
        """Lets `tensor` be what `new` is, as `tensor.data = new` does."""
        if not isinstance(new, DeviceTensor):
            new = self.wrap(new.detach(), tensor._claim if new.is_cpu else new.device)
        torch._C.TensorBase.data.__set__(tensor, new)
        tensor._payload, tensor._claim = new._payload, new._claim
        tensor._memory = new._memory

    # ----- reading tensors on the host

    def plain(self, tensor: torch.Tensor) -> torch.Tensor:
        """The contents as a CPU tensor; without contents, zeros that take no memory."""
        if not isinstance(tensor, DeviceTensor):
            return tensor.detach()
        with torch._C._DisableTorchDispatch():
            contents = self._contents(tensor)
            payload = tensor._payload if contents is None else contents
            if payload.is_meta:
                return torch.zeros((), dtype=payload.dtype, device=CPU).expand(payload.shape)
            return payload.detach().clone()

    def _contents(self, tensor: DeviceTensor) -> torch.Tensor | None:
        """A tensor's contents, computed now if that was put off; None where nobody knows them."""
        if not (tensor._payload.is_meta or tensor._memory.unknown):
            return tensor._payload
        if tensor._memory.recipe is None or not LOG.matters():
            return None
        return self.rerunning.contents(tensor)

    def is_unknown(self, tensor: DeviceTensor) -> bool:
        """Whether nobody can know a tensor's contents, or kernels wrote them that are not executed.

        They are executed here, where that is due.
        """
        memory = tensor._memory
        if not (memory.unknown or tensor._payload.is_meta):
            return False
        recipe = memory.recipe
        return recipe is None or (recipe.call.by_kernels and self._contents(tensor) is None)

    @staticmethod
    def reason_of(tensor: DeviceTensor) -> str | None:
        """Why nobody knows what kernels wrote to it, as one of `refused.REASONS`."""
        return tensor._memory.reason

    @staticmethod
    def _emulated(tensors: Sequence[DeviceTensor], question: str, value: Any) -> None:
        """Notes a value that was read, where kernels that were executed are behind it."""
        for tensor in tensors:
            recipe = tensor._memory.recipe
            if recipe is not None and recipe.call.by_kernels:
                LOG.emulated(f"{question} a tensor that a kernel writes", value)
                return

    @staticmethod
    def _reason(tensors: Sequence[DeviceTensor]) -> str | None:
        """Why nobody knows their contents, as one of `refused.REASONS`."""
        return next((its._memory.reason for its in tensors if its._memory.reason is not None), None)

    def read(self, tensor: DeviceTensor, how: str) -> Any:
        """What the host sees of a tensor: `tolist`, `numpy` or `repr`."""
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            if how == "repr":
                return self._repr(tensor)
            long = how == "tolist" and tensor._payload.is_meta and tensor.numel() > READ_LIMIT
            contents = None if long else self._contents(tensor)
            payload = tensor._payload if contents is None else contents
            unknown = contents is None
            if unknown:
                LOG.answer(
                    self.described((tensor,), f"{how} of"),
                    "zeros" if payload.is_meta else "…",
                    self._reason((tensor,)),
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
                few = listed if listed is not None else values.flatten()[:MOST_TOLD].tolist()
                self._emulated((tensor,), f"{how} of", few)
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
        if device is not None and device.type == META.type:  # asked for: shapes, and no more
            return func(*payloads.each(args, payloads.payload), **kwargs)
        if device is not None and device.type in DEVICE_TYPES:
            claim = self.device_of(device)
            kwargs = {**kwargs, "device": CPU}
        at = plan.device_position
        if at is not None and at < len(args) and getattr(args[at], "type", None) in DEVICE_TYPES:
            claim = self.device_of(args[at])
            args = (*args[:at], CPU, *args[at + 1 :])
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        outers = self._outers(args, kwargs)
        if claim is None:
            if self._target is not None and plan.name == "_to_copy":
                claim = self._target
            else:
                for tensor in outers:
                    if tensor._claim.type == "cuda":
                        claim = tensor._claim
                        break
        if claim is None and not outers:
            return self._on_host(func, plan, args, kwargs)
        if claim is None or claim.type == "cpu":
            claim = CPU
        else:
            for key in OVERRIDE_KEYS:
                if f"{plan.registry_name}/{key}" in torch.library._impls:
                    if device is not None:
                        kwargs = {**kwargs, "device": claim}
                    return self._python_kernel(func, key, args, kwargs)
        return self._on_device(func, plan, args, kwargs, outers, claim)

    def _outers(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[DeviceTensor]:
        tensor_class = self.tensor_class
        outers: list[DeviceTensor] = []
        for value in (*args, *kwargs.values()) if kwargs else args:
            if type(value) is tensor_class:
                outers.append(value)
            elif isinstance(value, (list, tuple)):
                outers += [inner for inner in value if type(inner) is tensor_class]
        return outers

    def _view(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Other shapes over the same memory: by far the most frequent operators."""
        tensor = args[0]
        inner = tensor._payload
        results = func(inner, *args[1:], **kwargs)
        if isinstance(results, torch.Tensor):
            if results is inner:
                return tensor
            return self.wrap(results, tensor._claim, tensor._memory)
        return payloads.one(results, lambda t: self.wrap(t, tensor._claim, tensor._memory))

    def _on_host(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        """An operator on plain CPU tensors: done for real, unless it would make a large one."""
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
        outers: list[DeviceTensor],
        claim: torch.device,
    ) -> Any:
        """An operator whose result, or one of whose operands, is on the device or large."""
        if plan.name in SHAPED and outers and args and args[0] is outers[0]:
            args, outers = (_of_shape(outers[0]), *args[1:]), outers[1:]
        hollow = unknown = False
        for tensor in outers:
            hollow = hollow or tensor._payload.is_meta
            unknown = unknown or tensor._memory.unknown
        unknown = unknown or hollow
        if outers and plan.host_read is not None:
            return self._read(func, plan, args, kwargs, unknown)
        tensor_class = self.tensor_class
        inner_args = [
            v._payload
            if type(v) is tensor_class
            else (payloads.one(v, payloads.payload) if isinstance(v, (list, tuple)) else v)
            for v in args
        ]
        inner_kwargs = kwargs
        if kwargs:
            inner_kwargs = {k: payloads.one(v, payloads.payload) for k, v in kwargs.items()}
        if unknown and unknowns.decides_shape(plan.name, args):
            known_args = self._all_known(args, kwargs)
            if known_args is not None:
                results = self._computed(func, plan, *known_args)
                question = f"how many elements {plan.name.strip('_')} finds in"
                self._emulated(outers, question, payloads.first_shape(results))
                return self._wrap_computed(func, plan, args, kwargs, results, claim)
        call = None
        if plan.mutates:
            self._preserve(plan, args, kwargs)
        if unknown and plan.mutates:  # before it does
            call = self._deferred.keep(func, plan, args, kwargs, None)
            if self._is_for_the_host(plan, args, kwargs):
                known_args = self._all_known(args, kwargs)
                self._tell_copy(plan, outers, known_args is not None)
                if known_args is not None:
                    (inner_args, inner_kwargs), hollow = known_args, False
        if plan.view:
            results = func(*inner_args, **inner_kwargs)
        elif hollow and plan.returns_arguments and not plan.changes_shape:
            results = None
        elif hollow:
            results = self._shapes.of(func, plan, inner_args, inner_kwargs)
        else:
            results = self._computed(func, plan, inner_args, inner_kwargs)
        if not plan.mutates and not plan.view and (unknown or _any_meta(results)):
            call = self._deferred.keep(func, plan, args, kwargs, results)
        if plan.mutates:
            self._follow_writes(plan, args, kwargs, outers, call)
            if plan.returns_nothing:
                return None
            if results is None:
                return payloads.arguments(plan, args, kwargs)
            if plan.returns_arguments and isinstance(results, torch.Tensor):
                return payloads.arguments(plan, args, kwargs)
        memory = outers[0]._memory if plan.view and outers else None
        outer_by_payload = {id(t._payload): t for t in outers}
        truth = payloads.truth_of(plan, outers) if unknown else None
        cause, reason = (self._cause(outers), self._reason(outers)) if unknown else ("", None)
        if unknown and unknowns.decides_shape(plan.name, args):
            question = self.described(outers, f"how many elements {plan.name.strip('_')} finds in")
            LOG.answer(question, payloads.first_shape(results), self._reason(outers))

        if plan.mutates:
            call = None  # `_follow_writes` made use of it
        places: dict[int, int] = {}
        if call is not None:
            places = {id(result): nth for nth, result in enumerate(payloads.tensors(results))}

        def outer(result: torch.Tensor) -> torch.Tensor:
            outer_tensor = outer_by_payload.get(id(result))
            if outer_tensor is not None:
                return outer_tensor
            if claim.type == CPU.type and not result.is_meta and not unknown:
                return result
            wrapped = self.wrap(result, claim, memory)
            if memory is None and unknown:
                self._taint(wrapped, truth, cause, reason)
            elif plan.uninitialised:
                wrapped._memory.unknown = wrapped._memory.blank = True
            if memory is None and call is not None:
                wrapped._memory.recipe = Recipe(call, places[id(result)])
            return wrapped

        if isinstance(results, torch.Tensor):
            return outer(results)
        return payloads.one(results, outer)

    @staticmethod
    def _is_for_the_host(plan: Plan, args: Any, kwargs: Any) -> bool:
        """Whether an operator writes to memory of the host, which carries no word of what it is."""
        targets = payloads.tensors(payloads.written(plan, args, kwargs))
        return any(not isinstance(target, DeviceTensor) for target in targets)

    def _tell_copy(self, plan: Plan, outers: Sequence[DeviceTensor], is_known: bool) -> None:
        question = f"{plan.name.strip('_')} of"
        if is_known:
            self._emulated(outers, question, "…")
        else:
            LOG.answer(self.described(outers, question), "…", self._reason(outers))

    def _read(self, func: Any, plan: Plan, args: Any, kwargs: Any, unknown: bool) -> Any:
        """What the host gets of tensors, and a note where nobody knows it."""
        tensors = self._outers(args, kwargs)
        if plan.name in COMPARING or (unknown and plan.name in QUESTIONS):
            known_args = self._all_known(args, kwargs)
            if known_args is not None:
                value = func(*known_args[0], **known_args[1])
                if unknown:
                    question = QUESTIONS.get(plan.name, f"{plan.name} of")
                    self._emulated(tensors, question, value)
                return value
        assert plan.host_read is not None
        value = plan.host_read(tensors[0], unknown)
        if not unknown or plan.name in ("is_pinned", "_pin_memory"):
            return value
        question = self.described(tensors, QUESTIONS.get(plan.name, f"{plan.name} of"))
        return LOG.answer(question, value, self._reason(tensors))

    def item(self, tensor: DeviceTensor) -> Any:
        """What `tensor.item()` gives; a float that nobody knows is noted where it is used."""
        unknown = tensor._memory.unknown or tensor._payload.is_meta
        if not unknown or not tensor.dtype.is_floating_point:
            return torch._C.TensorBase.item(tensor)
        contents = self._contents(tensor)
        if contents is not None:
            self._emulated((tensor,), "the value of", contents.item())
            return contents.item()
        with LOG:
            value = torch._C.TensorBase.item(tensor)
        question = self.described((tensor,), "the value of")
        return UnknownFloat(value, question, self._reason((tensor,)))

    @staticmethod
    def described(tensors: Sequence[DeviceTensor], question: str) -> str:
        """What was asked of tensors whose contents nobody knows, in words."""
        unknown_tensor = next(
            (t for t in tensors if t._memory.unknown or t._payload.is_meta), tensors[0]
        )
        memory = unknown_tensor._memory
        why = memory.refusal or (memory.cause if memory.unknown else TOO_LARGE)
        return f"{question} a tensor {why}"

    def _computed(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        """A result with contents if it is small, else its shape alone. No operand is hollow."""
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
            # Not every operator has a CPU kernel for every type that the device has one for.
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
        except Exception:  # no meta kernel, or one that needs values: the real one will tell
            return None

    def _all_known(self, args: Any, kwargs: Any) -> tuple[Any, Any] | None:
        """Arguments with all tensors' contents, or None."""
        contents: dict[int, torch.Tensor] = {}
        for tensor in self._outers(args, kwargs):
            tensor_contents = self._contents(tensor)
            if tensor_contents is None:
                return None
            contents[id(tensor)] = tensor_contents

        def plain(tensor: torch.Tensor) -> torch.Tensor:
            return contents.get(id(tensor), tensor)

        return payloads.each(args, plain), {k: payloads.one(v, plain) for k, v in kwargs.items()}

    def _wrap_computed(
        self, func: Any, plan: Plan, args: Any, kwargs: Any, results: Any, claim: torch.device
    ) -> Any:
        """Results whose shapes rest on contents: those that are too large lose theirs again."""
        shapes = payloads.one(results, lambda t: t if fits(t) else payloads.shape_alone(t))
        call = self._deferred.keep(func, plan, args, kwargs, shapes)
        places = {id(shape): nth for nth, shape in enumerate(payloads.tensors(shapes))}

        def outer(shape: torch.Tensor) -> torch.Tensor:
            if claim.type == CPU.type and not shape.is_meta:
                return shape
            wrapped: DeviceTensor = self.wrap(shape, claim)
            if shape.is_meta and call is not None:
                wrapped._memory.recipe = Recipe(call, places[id(shape)])
            return wrapped

        return payloads.one(shapes, outer)

    def _follow_writes(
        self, plan: Plan, args: Any, kwargs: Any, outers: list[DeviceTensor], call: Call | None
    ) -> None:
        """Follows what an operator did to its arguments: shapes, and whether contents are true.

        Args:
            plan: of the operator.
            args: its positional arguments.
            kwargs: its keyword arguments.
            outers: the device tensors among them.
            call: how to do it later, where it is not known what it did.
        """
        written_count = 0
        for position, name in plan.mutates:
            target = kwargs.get(name) if name in kwargs else None
            if target is None and position < len(args):
                target = args[position]
            for tensor in target if isinstance(target, (list, tuple)) else (target,):
                if not isinstance(tensor, torch.Tensor):
                    continue
                nth, written_count = written_count, written_count + 1
                if not isinstance(tensor, DeviceTensor):
                    continue
                memory = tensor._memory
                other_tensors = [t for t in outers if t is not tensor]
                doubtful = any(t._memory.unknown or t._payload.is_meta for t in other_tensors)
                put_off = doubtful or memory.unknown or tensor._payload.is_meta
                if doubtful:
                    memory.unknown, memory.blank = True, False
                    memory.cause = self._cause(other_tensors)
                    memory.unset = None
                elif plan.name in OVERWRITING and _is_all_set(tensor):
                    memory.unknown = memory.blank = False
                    put_off = tensor._payload.is_meta
                memory.version += 1
                memory.refusal = None
                memory.reason = self._reason(other_tensors) if doubtful else None
                memory.recipe = Recipe(call, nth) if call is not None and put_off else None
                if plan.changes_shape:
                    self._reshape(tensor)

    def _reshape(self, tensor: DeviceTensor) -> None:
        """Brings a tensor's shape in line with its payload's."""
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

    def _taint(
        self, tensor: DeviceTensor, truth: bool | None, cause: str, reason: str | None
    ) -> None:
        memory = tensor._memory
        memory.unknown, memory.blank = True, False
        memory.truth = truth
        memory.cause, memory.reason = cause, reason

    @staticmethod
    def _cause(tensors: Sequence[DeviceTensor]) -> str:
        """Why a result is unknown: as the first operand of which that is known."""
        cause = next((t._memory.cause for t in tensors if t._memory.unknown), None)
        return cause or TOO_LARGE

    def launched(
        self,
        tensors: Sequence[DeviceTensor],
        is_written: Sequence[bool],
        execute: Execute | None,
        refusal: RefusedError | None,
    ) -> None:
        """A kernel writes to some of its arguments: their contents are known once it is executed.

        Args:
            tensors: the arguments.
            is_written: of each, whether the kernel may write to it.
            execute: executes the launch; None where it cannot be.
            refusal: why it cannot be.
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
        """Keeps for launches what an operator is about to change."""
        for tensor in payloads.tensors(payloads.written(plan, args, kwargs)):
            if isinstance(tensor, DeviceTensor) and tensor._memory.holders is not None:
                self._launches.preserve(tensor._memory)

    def written_for_real(self, tensor: DeviceTensor) -> None:
        """A kernel that was executed wrote to it: its contents are what they are."""
        memory = tensor._memory
        memory.unknown = memory.blank = False
        memory.truth = memory.recipe = memory.refusal = memory.unset = None
        memory.version += 1

    def _python_kernel(self, func: Any, key: str, args: Any, kwargs: Any) -> Any:
        with self.mode:
            return func._op_dk(getattr(torch._C.DispatchKey, key), *args, **kwargs)

    def _library(self, func: Any, plan: Plan, args: Any, kwargs: Any) -> Any:
        """An operator of a library: its Python kernel, which may launch Triton kernels, is run."""
        for key in KERNEL_KEYS:
            if f"{plan.registry_name}/{key}" in torch.library._impls:
                return self._python_kernel(func, key, args, kwargs)
        if plan.registry_name.startswith("c10d/"):
            done = func._op_dk(torch._C.DispatchKey.CPU, *args, **kwargs)
            return collectives.finished(done, list(payloads.tensors(args[:1])))
        outers = self._outers(args, kwargs)
        claim = next((t._claim for t in outers if t.is_cuda), CPU)
        return self._on_device(func, plan, args, kwargs, outers, claim)


def _of_shape(tensor: DeviceTensor) -> torch.Tensor:
    """A tensor of the same shape and type, of which nobody looks at the contents."""
    shape = payloads.shape_alone(tensor._payload)
    if not fits(shape):
        return shape
    size, stride = shape.size(), shape.stride()
    return torch.empty_strided(size, stride, dtype=shape.dtype, device=CPU)


def _is_all_set(tensor: DeviceTensor) -> bool:
    """Whether all of a tensor's memory is known once it has been overwritten itself.

    `starts = torch.empty(n + 1); starts[0] = 0; starts[1:] = ...` leaves nothing unknown.
    """
    if not tensor._memory.unknown or is_whole(tensor):
        return True
    if tensor._payload.is_meta:
        return False
    geometry, memory = geometry_of(tensor._payload), tensor._memory
    count = memory.nbytes // geometry.dtype.itemsize
    if memory.unset is None:
        memory.unset = torch.ones(count, dtype=torch.bool, device=CPU)
    if memory.unset.numel() != count:  # it was written to as another type
        return False
    memory.unset.as_strided(geometry.size, geometry.stride, geometry.offset).fill_(False)
    return not bool(memory.unset.any())


def _any_meta(results: Any) -> bool:
    return any(result.is_meta for result in payloads.tensors(results))
