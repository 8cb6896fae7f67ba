"""Loads kernel files, reads their tables, and adapts inputs to the backend."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import math
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from ..loading import LoadError, load

REQUIRED = ("launch", "reference", "make_inputs")
"""Functions without which a file cannot be checked."""
ALLOCATIONS = (
    *("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"),
)
"""PyTorch's functions that allocate memory without filling it."""
BACKENDS = {"hip": "amd", "cuda": "nvidia"}
"""Platform of a PyTorch build -> Triton's backend for it."""
JITTED_CLASSES = (
    ("triton.runtime.jit", "JITFunction"),
    ("triton.runtime.interpreter", "InterpretedFunction"),
)
"""(module, class) of jitted functions, on a GPU and in the interpreter."""
OCP_CAPABILITY = (8, 9)
"""The first NVIDIA generation with float8 (Ada); Triton refuses the types on older ones."""


@dataclasses.dataclass(frozen=True)
class Backend:
    """The device and software that kernels run on.

    Args:
        device: torch's name of the device: `cpu` (Triton's interpreter, the emulator) or `cuda`.
        kind: `interpreter`, `hip` or `cuda`.
        arch: gfx name, or `sm_90`; empty for the interpreter.
        emulated: whether code for `arch` is executed on the CPU.
    """

    device: str
    kind: str
    name: str
    arch: str
    emulated: bool = False

    @property
    def interpreted(self) -> bool:
        """Whether Triton's interpreter runs the kernels."""
        return self.kind == "interpreter"


def backend_of(device: str, arch: str = "") -> Backend:
    """The backend behind a device.

    `device`: `cpu`, `cuda` or `emulated`.

    Raises:
        LoadError: PyTorch sees no GPU.
    """
    torch = importlib.import_module("torch")
    if device == "cpu":
        return Backend("cpu", "interpreter", "Triton's interpreter on the CPU", "")
    if device == "emulated":
        return Backend("cpu", "hip", f"{arch}, emulated on the CPU", arch, emulated=True)
    if not torch.cuda.is_available():
        raise LoadError(
            f"PyTorch {torch.__version__} sees no GPU",
            "check on the CPU with --device cpu, or name another interpreter with --python",
        )
    properties = torch.cuda.get_device_properties(0)
    if torch.version.hip:
        arch = str(properties.gcnArchName).partition(":")[0]
        return Backend("cuda", "hip", str(properties.name), arch)
    return Backend("cuda", "cuda", str(properties.name), f"sm_{properties.major}{properties.minor}")


def load_kernel(path: str) -> ModuleType:
    """Loads a kernel file.

    Raises:
        LoadError: it cannot be loaded, or lacks a function or table that a check needs.
    """
    module = load(path)
    missing = [name for name in REQUIRED if not callable(getattr(module, name, None))]
    if missing:
        raise LoadError(
            f"{path} has no {', '.join(f'{name}()' for name in missing)}",
            "a kernel file has launch(), reference(), make_inputs() and CASES",
        )
    entries(module, "CASES")
    return module


def entries(module: Any, table: str) -> list[dict[str, Any]]:
    """The entries of CASES or BENCH, each with a name.

    Raises:
        LoadError: the table is missing or is no list of dicts with unique names.
    """
    file = getattr(module, "__file__", "the file")
    rows = getattr(module, table, None)
    if not isinstance(rows, (list, tuple)) or not all(isinstance(e, dict) for e in rows):
        raise LoadError(f"{file} has no {table}, a list of dicts", f"add {table} to the file")
    names = [entry.get("name") for entry in rows]
    if table == "BENCH":  # shapes go without names in small files: numbers will do
        names = [str(index) if name is None else name for index, name in enumerate(names, start=1)]
    for name in names:
        if not isinstance(name, str) or not name or names.count(name) > 1:
            raise LoadError(
                f"{file}: the entries of {table} need names, each its own (found {name!r})",
                'give every entry a unique "name"',
            )
    return [{**entry, "name": name} for entry, name in zip(rows, names)]


def check_tolerances(path: str, cases: list[dict[str, Any]]) -> None:
    """Checks that every case states by how much its result may differ.

    Raises:
        LoadError: one does not.
    """
    for case in cases:
        for key in ("atol", "rtol"):
            if not isinstance(case.get(key), (int, float)):
                raise LoadError(
                    f"{path}: the case {case['name']!r} of CASES has no number for {key}",
                    'give every case "atol" and "rtol", by which a result may differ',
                )


def interpretable(value: Any) -> Any:
    """The value with float32 in place of bfloat16, in nested tensors and dtypes.

    The interpreter's bf16 dot is wrong; the values are still rounded to bfloat16.
    """
    torch = importlib.import_module("torch")
    if isinstance(value, torch.Tensor):
        return value.float() if value.dtype == torch.bfloat16 else value
    if value is torch.bfloat16:
        return torch.float32
    return map_values(interpretable, value)


def tensors_of(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The tensors in a nested value, each with its path: `q`, `weights[0]`, `scales.k`."""
    torch = importlib.import_module("torch")
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from tensors_of(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from tensors_of(inner, f"{name}[{index}]")


def deep_copy(value: Any) -> Any:
    """A nested value with its tensors copied."""
    torch = importlib.import_module("torch")
    return value.clone() if isinstance(value, torch.Tensor) else map_values(deep_copy, value)


def map_values(function: Any, value: Any) -> Any:
    """A dict, list or tuple with a function applied to its values; any other value unchanged."""
    if isinstance(value, Mapping):
        return {key: function(inner) for key, inner in value.items()}
    if type(value) in (list, tuple):
        return type(value)(function(inner) for inner in value)
    return value


def unsupported(case: Mapping[str, Any], inputs: Any, backend: Backend) -> str | None:
    """Why the backend cannot run a case: its `needs`, or the dtypes of its inputs; None if it can.

    Raises:
        LoadError: the case's `needs` is unknown.
    """
    torch = importlib.import_module("torch")
    needs = case.get("needs")
    if needs not in (None, "fnuz"):
        raise LoadError(
            f"case {case['name']!r} needs {needs!r}", 'the only thing to need is "fnuz"'
        )
    dtypes = {tensor.dtype for _, tensor in tensors_of(inputs)}
    dtypes.update(v for v in _values(inputs) if isinstance(v, torch.dtype))
    fnuz = [str(d) for d in dtypes if "fnuz" in str(d)]
    if (needs == "fnuz" or fnuz) and backend.kind == "cuda":
        return "NVIDIA's backend has no float8 fnuz types"
    if backend.kind == "cuda" and any("float8" in str(d) for d in dtypes):
        major, minor = int(backend.arch[3:-1]), int(backend.arch[-1])
        if (major, minor) < OCP_CAPABILITY:
            return f"{backend.arch} has no float8 types (sm_89 and later have)"
    return None


def _values(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for inner in value:
            yield from _values(inner)
    else:
        yield value


def fitting(module: Any, inputs: Mapping[str, Any], backend: Backend) -> dict[str, Any]:
    """The inputs, with `config` reduced to options of this backend and the kernels' parameters."""
    config = inputs.get("config")
    if not isinstance(config, Mapping):
        return dict(inputs)
    own_options = options_of(BACKENDS.get(backend.kind, ""))
    foreign = frozenset().union(*map(options_of, BACKENDS.values())) - own_options
    foreign -= parameters_of(module)
    fitting_config = {name: value for name, value in config.items() if name not in foreign}
    return {**inputs, "config": fitting_config}


@functools.lru_cache(maxsize=8)
def options_of(name: str) -> frozenset[str]:
    """Names of the launch options of a Triton backend; none if this Triton lacks it."""
    try:
        compiler = importlib.import_module(f"triton.backends.{name}.compiler")
    except ImportError:
        return frozenset()
    classes = [
        value
        for attribute, value in vars(compiler).items()
        if attribute.endswith("Options") and dataclasses.is_dataclass(value)
    ]
    return frozenset(field.name for value in classes for field in dataclasses.fields(value))


@contextlib.contextmanager
def launches_watched(watch: Callable[[Any, Mapping[str, Any]], None]) -> Iterator[None]:
    """Calls `watch` with the function and the keyword arguments of each launch inside the context.

    Launches count on a GPU, in the emulator and in Triton's interpreter.
    """
    patched = []
    for module_name, class_name in JITTED_CLASSES:
        try:
            jitted_class = getattr(importlib.import_module(module_name), class_name)
        except ImportError:  # the interpreter needs NumPy, which may be missing
            continue
        patched.append((jitted_class, jitted_class.run))
        jitted_class.run = _watched(jitted_class.run, watch)
    try:
        yield
    finally:
        for jitted_class, original in patched:
            jitted_class.run = original


def unfilled_memory(fill: str) -> Any:
    """A context in which memory that torch allocates holds NaN (`fill="nan"`) or zeros (`"zero"`).

    A kernel that writes nothing could otherwise return what the oracle left in memory.
    """
    torch = importlib.import_module("torch")
    overrides = importlib.import_module("torch.overrides")
    owners = (torch, torch.Tensor)
    makers = [getattr(o, name) for o in owners for name in ALLOCATIONS if hasattr(o, name)]

    # Entering a first TorchDispatchMode, the alternative, would import for seconds.
    class Filled(overrides.TorchFunctionMode):  # type: ignore[name-defined,misc]
        def __torch_function__(
            self, function: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            if any(function is maker for maker in makers) and result.numel():
                result.fill_(_poison(torch, result.dtype) if fill == "nan" else 0)
            return result

    return Filled()


def _poison(torch: Any, dtype: Any) -> Any:
    """The value that no right result has: NaN, or the largest integer."""
    if dtype.is_floating_point or dtype.is_complex:
        return math.nan
    return True if dtype == torch.bool else torch.iinfo(dtype).max


def innermost(error: BaseException) -> BaseException:
    """The exception behind Triton's wrappers of it."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _watched(original: Any, watch: Callable[[Any, Mapping[str, Any]], None]) -> Any:
    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        watch(function, kwargs)
        return original(function, *args, **kwargs)

    return run


def parameters_of(module: Any) -> frozenset[str]:
    """Names of the parameters of all kernels of a module."""
    names: set[str] = set()
    for value in vars(module).values():
        names.update(getattr(value, "arg_names", None) or ())
    return frozenset(names)
