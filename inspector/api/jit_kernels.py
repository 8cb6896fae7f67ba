"""Specialisations of a `@triton.jit` function that the calling program holds.

Triton's front end runs here, in the caller's own interpreter, where the function and what it refers
to live. What follows it runs in workers, as for files.

The arguments of a kernel call, kept so that the emulator can execute a few workgroups.
`kinspect.T`: stands in for a tensor among the arguments of a kernel.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from operator import index
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..capture.labels import labelled
from ..capture.options import MOST_CONFIGS
from ..capture.records import refusal_of, variant_of_record
from ..model import Parameter, Passed, PassedMemory, Variant

Grid = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]] | None
"""Workgroups of a launch, or a function of its arguments by name, as in `kernel[grid](...)`."""


def is_jit_kernel(target: object) -> bool:
    """Tells whether something is a kernel of Triton, under its autotuner and heuristics or not."""
    return not isinstance(target, (str, bytes, Path)) and bool(_layers(target))


def variants_of(
    kernel: Any,
    args: Sequence[Any],
    named: Mapping[str, Any],
    archs: Sequence[str],
    grid: Grid = None,
    *,
    arguments: bool = False,
) -> list[Variant]:
    """The specialisations that a call would launch, for each target.

    Args:
        kernel: the function; of an autotuned one, all configurations are taken up to MOST_CONFIGS.
        args: positional arguments of the launch.
        named: arguments by name, and options of the backend such as `num_warps`.
        archs: gfx names of the targets.
        grid: workgroups of the launch, or a function of the arguments that returns them.
        arguments: whether what the call passes is kept, so that it can be executed.

    Raises:
        KinspectError: the arguments do not fit, or Triton's front end refuses the kernel.
    """
    layers = _layers(kernel)
    jit_function = layers[-1]
    configurations = _configurations(layers[:-1], jit_function, args, dict(named))
    variants = []
    for arch in archs:
        for tuning, values in configurations:
            variant = _variant(jit_function, args, values, arch, arguments)
            extents = _extents(grid, {**_by_position(jit_function, args), **values})
            variants.append(replace(variant, tuning=tuning or None, grid=extents))
    return labelled(variants)


def _by_position(jit_function: Any, args: Sequence[Any]) -> dict[str, Any]:
    return dict(zip(jit_function.arg_names, args, strict=False))


def _extents(grid: Grid, launch: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The workgroups of a launch with these arguments; None where they are not stated."""
    extents = grid(launch) if callable(grid) else grid
    return tuple(map(int, extents)) if extents is not None else None


class Launch(Struct, frozen=True):
    """A kernel that the program holds, and what it is called with.

    Args:
        kernel: the function, with its decorators.
        args: positional arguments.
        named: arguments by name, and options of the backend.
        grid: workgroups, or a function of the arguments that returns them.
    """

    kernel: Any
    args: tuple[Any, ...]
    named: Mapping[str, Any]
    grid: Grid = None

    def at(self, base: Variant, point: Mapping[str, Any]) -> Variant:
        """The specialisation with other constexprs; heuristics follow, an autotuner does not.

        Args:
            base: the specialisation as it is launched.
            point: constexpr -> value, those of the autotuner's configuration among them.

        Raises:
            KinspectError: Triton's front end refuses it.
        """
        *decorators, jit_function = _layers(self.kernel)
        launch = {**_by_position(jit_function, self.args), **self.named, **point}
        heuristics = [layer for layer in decorators if not hasattr(layer, "configs")]
        ((_, values),) = _configurations(heuristics, jit_function, (), launch)
        variant = _variant(jit_function, (), values, base.arch, base.passed is not None)
        return replace(variant, grid=_extents(self.grid, values))


def parameter_names(kernel: Any) -> frozenset[str]:
    """The names of a kernel's parameters."""
    return frozenset(_layers(kernel)[-1].arg_names)


def _layers(value: Any) -> list[Any]:
    """Decorators around a kernel, from the outside in, and its JITFunction; empty without one."""
    layers = []
    for layer in import_module("..guest.frontend", __package__).layers(value):
        layers.append(layer)
        # By name: without a kernel, Triton need not be there.
        if any(base.__name__ == "JITFunction" for base in type(layer).__mro__):
            return layers
    return []


def _configurations(
    decorators: Sequence[Any], jit_function: Any, args: Sequence[Any], named: dict[str, Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What decorators add to a launch: (the tuned values, all named values) for each choice."""
    choices: list[tuple[dict[str, Any], dict[str, Any]]] = [({}, named)]
    for decorator in decorators:
        if hasattr(decorator, "configs"):
            configs = [config.all_kwargs() for config in decorator.configs[:MOST_CONFIGS]]
            choices = [
                ({**tuning, **config}, {**values, **config})
                for tuning, values in choices
                for config in configs
            ]
        elif isinstance(getattr(decorator, "values", None), dict):
            for _, values in choices:
                for name, function in decorator.values.items():
                    launch = {**_by_position(jit_function, args), **values}
                    values[name] = function(launch)
    return choices


def _variant(
    kernel: Any, args: Sequence[Any], named: Mapping[str, Any], arch: str, arguments: bool
) -> Variant:
    """One specialisation, taken through the front end."""
    frontend = import_module("..guest.frontend", __package__)
    options = {name: value for name, value in named.items() if name not in kernel.arg_names}
    try:
        source, types, values = _source(kernel, args, named, arch)
        fields = frontend.lower(source, arch, options)
    except KinspectError:
        raise
    except Exception as error:
        raise _front_end_error(error, kernel, arch) from error
    file, line = frontend.definition(kernel)
    record = {
        **fields,
        "kernel": kernel.fn.__name__,
        "qualname": kernel.fn.__qualname__,
        "case": None,
        "file": file,
        "line": line,
        "unspecialised": frontend.unspecialised(kernel),
    }
    variant = variant_of_record(record, str(import_module("triton").__version__))
    return replace(variant, passed=passed_by(types, values)) if arguments else variant


def _source(
    kernel: Any, args: Sequence[Any], named: Mapping[str, Any], arch: str
) -> tuple[Any, list[Any], list[Any]]:
    """The compiler's input, specialised by Triton's own binder as a launch would be."""
    compiler = import_module("triton.compiler.compiler")
    jit = import_module("triton.runtime.jit")
    paths = import_module("triton._utils")
    target = import_module("..guest.lowering", __package__).target(arch)
    backend = compiler.make_backend(target)
    bind = jit.create_function_from_signature(kernel.signature, kernel.params, backend)
    try:
        bound, specialization, _ = bind(*args, **named)
    except TypeError as error:
        names = ", ".join(kernel.arg_names)
        raise KinspectError(
            f"{kernel.fn.__name__}: {error}".replace("dynamic_func()", "the launch is"),
            f"its parameters are {names}",
        ) from None
    types = [kind for kind, _ in specialization]
    attributes = ["" if kind == "constexpr" else letters for kind, letters in specialization]
    constexprs = {
        path: paths.get_iterable_path(list(bound.values()), path)
        for path in paths.find_paths_if(types, lambda _, kind: kind == "constexpr")
    }
    attrs = {
        path: backend.parse_attr(paths.get_iterable_path(attributes, path))
        for path in paths.find_paths_if(attributes, lambda _, letters: isinstance(letters, str))
    }
    signature = dict(zip((p.name for p in kernel.params), types, strict=True))
    source = compiler.ASTSource(kernel, signature, constexprs, attrs)
    return source, types, list(bound.values())


def _front_end_error(error: Exception, kernel: Any, arch: str) -> KinspectError:
    """What Triton's front end refuses, in one line with its place, and a hint."""
    lowering = import_module("..guest.lowering", __package__)
    name = kernel.fn.__name__
    if isinstance(error, lowering.UnknownOptionError):
        names = [*kernel.arg_names, *error.option_names]
        near = [get_close_matches(wrong, names, n=1) for wrong in error.names]
        meant = ", ".join(match for matches in near for match in matches)
        return KinspectError(
            f"{name} has no parameter and {arch} no option {', '.join(error.names)}",
            f"did you mean {meant}?" if meant else f"the options are {', '.join(names)}",
        )
    errors = import_module("..guest.front_end_errors", __package__)
    refusal = refusal_of(errors.front_end_error(error, name, None, arch, [kernel])["error"])
    record = refusal.as_record(Path(kernel.fn.__code__.co_filename), [arch], "")
    return KinspectError(record.message, record.hint)


_FIRST_ADDRESS = 1 << 40
"""Of the memory of stand-ins; tensors in this process lie elsewhere."""
_ALIGNMENT = 1 << 20
"""Bytes between which stand-ins begin; a page of a GPU's memory at least."""
_MOST_CONTENTS = 1 << 20
"""Bytes up to which the contents of integer tensors are taken, which decide what a kernel does."""


def passed_by(types: Sequence[Any], values: Sequence[Any]) -> Passed | None:
    """The kernel's parameters and the memory that they point to.

    Args:
        types: of the kernel's signature, `constexpr` for what is no parameter.
        values: the arguments, one for each type.

    Returns:
        None where an argument is of a kind that has no form as a parameter.
    """
    arguments = import_module("..guest.emulation.arguments", __package__)
    parameters: list[Parameter] = []
    memories: dict[int, PassedMemory] = {}
    stand_ins: dict[int, int] = {}
    free = _FIRST_ADDRESS
    try:
        for kind, value in arguments.parameters(types, values):
            if not kind.startswith("*") or value is None or isinstance(value, int):
                number = 0 if value is None else arguments.number_of(kind, value)
                parameters.append(Parameter(kind, number))
                continue
            if isinstance(value, T):
                if id(value) not in stand_ins:
                    stand_ins[id(value)] = address = free + offset(value)
                    memories[address] = PassedMemory(address, value.ptr_range(), torch_dtype(value))
                    free += _ALIGNMENT * (2 + value.ptr_range() // _ALIGNMENT)
                parameters.append(Parameter(kind, stand_ins[id(value)]))
                continue
            tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
            parameters.append(Parameter(kind, int(value.data_ptr())))
            memory = _memory(tensor)
            if memory.size:
                memories.setdefault(memory.address, memory)
    except (arguments.ArgumentError, AttributeError, TypeError, ValueError):
        return None
    return Passed(tuple(parameters), tuple(memories.values()))


def _memory(tensor: Any) -> PassedMemory:
    """The storage of a tensor of PyTorch; its contents where they are integers in this process."""
    storage = tensor.untyped_storage()
    address, size = int(storage.data_ptr()), int(storage.nbytes())
    contents = None
    is_index = not tensor.is_floating_point() and not tensor.is_complex()
    if is_index and tensor.device.type == "cpu" and 0 < size <= _MOST_CONTENTS:
        contents = ctypes.string_at(address, size)
    return PassedMemory(address, size, str(tensor.dtype).rpartition(".")[2], contents)


_ALIGNED_ADDRESS, _UNALIGNED_ADDRESS = 16, 1
"""Addresses of a storage that is a multiple of 16 bytes, on which Triton specialises, or is not."""
_BITS: Mapping[str, int] = {
    **{name: bits for bits in (16, 32, 64) for name in (f"fp{bits}", f"float{bits}")},
    **{name: bits for bits in (8, 16, 32, 64) for name in (f"i{bits}", f"int{bits}")},
    **{name: bits for bits in (8, 16, 32, 64) for name in (f"u{bits}", f"uint{bits}")},
    **dict.fromkeys(("bf16", "bfloat16"), 16),
    **dict.fromkeys(("i1", "u1", "int1", "bool"), 8),
    **dict.fromkeys(("fp8e4nv", "fp8e5", "fp8e4b8", "fp8e5b16", "fp8e4b15"), 8),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 8),
}
"""Names of Triton and of PyTorch -> bits of an element in memory."""
_TORCH: Mapping[str, str] = {
    **{f"fp{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("i1", "u1", "int1"), "bool"),
    "bf16": "bfloat16",
    "fp8e4nv": "float8_e4m3fn",
    "fp8e5": "float8_e5m2",
    "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}
"""Names of Triton -> those of PyTorch; other names are the same in both."""


class T:
    """A tensor that only has a type, a shape and an alignment; it holds no data.

    >>> x = kinspect.T(1024, 512, dtype="bf16")
    >>> x.shape, x.stride(), x.numel()
    ((1024, 512), (512, 1), 524288)

    Args:
        shape: extents, also as one tuple; rows are contiguous.
        dtype: a type as Triton or PyTorch names it: `fp16`, `float16`, `torch.float16`.
        aligned: whether its address is a multiple of 16 bytes, as PyTorch's allocations are.

    Raises:
        KinspectError: a type of unknown size, or extents that are no whole numbers.
    """

    def __init__(
        self, *shape: int | Sequence[int], dtype: Any = "fp32", aligned: bool = True
    ) -> None:
        self.shape = _stand_in_tensor_extents(shape)
        self.dtype = str(dtype)
        name = self.dtype.rpartition(".")[2]
        if name not in _BITS:
            near = ", ".join(get_close_matches(name, _BITS, n=1))
            hint = f"did you mean {near}?" if near else "name one as Triton does: fp16, i32, ..."
            raise KinspectError(f"T: {dtype!r} names no type of a tensor", hint)
        self._itemsize = _BITS[name] // 8
        self._address = _ALIGNED_ADDRESS if aligned else _UNALIGNED_ADDRESS

    def __repr__(self) -> str:
        return f"T({', '.join([*map(str, self.shape), f'dtype={self.dtype!r}'])})"

    def numel(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._itemsize

    def stride(self, dim: int | None = None) -> Any:
        """Elements between neighbours along a dimension; None: of all dimensions."""
        strides = tuple(math.prod(self.shape[number + 1 :]) for number in range(len(self.shape)))
        return strides if dim is None else strides[dim]

    def data_ptr(self) -> int:
        """An address, of which Triton looks at the alignment alone."""
        return self._address

    def ptr_range(self) -> int:
        """Bytes of its storage: Triton asks whether 32-bit offsets reach all of it."""
        return self.numel() * self._itemsize


def torch_dtype(tensor: T) -> str:
    """PyTorch's name of a stand-in's type: `float16`."""
    name = tensor.dtype.rpartition(".")[2]
    return _TORCH.get(name, name)


def offset(tensor: T) -> int:
    """Bytes at which a stand-in begins in memory that is aligned: 0, or one element."""
    return tensor.element_size() if tensor.data_ptr() == _UNALIGNED_ADDRESS else 0


def _stand_in_tensor_extents(shape: Sequence[Any]) -> tuple[int, ...]:
    """The extents, one by one or, as `torch.empty` takes them too, as one tuple."""
    extents = shape[0] if len(shape) == 1 and isinstance(shape[0], list | tuple) else shape
    try:
        sizes = tuple(map(index, extents))
    except TypeError:
        sizes = (-1,)
    if any(size < 0 for size in sizes):
        written = ", ".join(map(repr, shape))
        raise KinspectError(
            f"T({written}): extents are whole numbers",
            'write T(1024, 512, dtype="fp16")',
        )
    return sizes
