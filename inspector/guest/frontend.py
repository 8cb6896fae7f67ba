"""Triton's front end: one specialisation of a kernel to optimised TTIR. Runs in a forked child.

The same steps as `triton.compile` takes for a launch, up to the end of the `ttir` stage.
"""

from __future__ import annotations

import importlib
import inspect
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .cases.case import BoundCase, Case, KernelParameter, TuningConfig, check_options
from .lowering import parse_options, target
from .mlir_errors import mlir_errors
from .parsed.building import DEFINITION_ATTRIBUTE
from .records import one_line

ALWAYS_STATED = ("num_warps", "num_stages")
"""Options that a variant states even where they are Triton's defaults."""
DEFINITION = re.compile(r"\s*(async\s+)?def\s")


class TritonKernels:
    """The `@triton.jit` functions of one module, by name."""

    def __init__(self, module: Any) -> None:
        self._jit_function = importlib.import_module("triton.runtime.jit").JITFunction
        self.by_name: dict[str, Any] = {}
        self._decorated: dict[str, Any] = {}
        for name, value in vars(module).items():
            kernel = self._unwrapped(value)
            if kernel is not None:
                self.by_name[name] = kernel
                self._decorated[name] = value
        self.defined_here = [
            name for name, k in self.by_name.items() if k.fn.__module__ == module.__name__
        ]

    @property
    def qualnames(self) -> dict[str, str]:
        """Name in the module -> qualified name of the function."""
        return {name: kernel.fn.__qualname__ for name, kernel in self.by_name.items()}

    def first_config(self, name: str) -> TuningConfig | None:
        """The first config of an autotuned kernel; None where it is not autotuned."""
        autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner
        for layer in layers(self._decorated[name]):
            if isinstance(layer, autotuner) and layer.configs:
                config = layer.configs[0]
                names = self.by_name[name].arg_names
                values = {
                    **config.kwargs,
                    "num_warps": config.num_warps,
                    "num_stages": config.num_stages,
                }
                return TuningConfig(
                    {n: _stated(v) for n, v in values.items() if n in names},
                    {n: _stated(v) for n, v in values.items() if n not in names},
                )
        return None

    def reachable(self) -> list[Any]:
        """The JITFunctions of the module and of its kernels' global names."""
        kernels = list(self.by_name.values())
        for kernel in self.by_name.values():
            kernels += filter(None, map(self._unwrapped, kernel.fn.__globals__.values()))
        return kernels

    def _unwrapped(self, value: Any) -> Any:
        """The JITFunction under autotuners and heuristics; None if there is none."""
        jit_functions = (layer for layer in layers(value) if isinstance(layer, self._jit_function))
        return next(jit_functions, None)


def layers(value: Any) -> Iterator[Any]:
    """A decorated value, and the values that its decorators wrap, from the outside in."""
    visited: set[int] = set()
    while value is not None and id(value) not in visited:
        visited.add(id(value))
        yield value
        # Read from the instance: the __getattr__ of other classes may do anything.
        value = getattr(value, "__dict__", {}).get("fn") if not inspect.isclass(value) else None


def parameters(kernel: Any) -> list[KernelParameter]:
    """The parameters of a JITFunction, in order."""
    return [
        KernelParameter(
            name=param.name,
            constexpr=bool(param.is_constexpr),
            default=(_unwrap_constexpr(param.default),) if param.has_default else None,
            specialize=not param.do_not_specialize,
            align=not param.do_not_specialize_on_alignment,
        )
        for param in kernel.params
    ]


def unspecialised(kernel: Any) -> dict[str, str]:
    """Parameters that launches do not specialise on 1 or divisibility by 16 -> the reason.

    An annotation with a type (`stride: int`) fixes the type before the value is looked at;
    `do_not_specialize` prevents both (`create_function_from_signature` in Triton's runtime/jit.py).
    Where an argument has both, a value of 1 is noted only without either.
    """
    reasons = {}
    for param in kernel.params:
        if param.is_constexpr:
            continue
        if param.do_not_specialize and param.annotation_type:
            reasons[param.name] = "do_not_specialize and annotation"
        elif param.do_not_specialize:
            reasons[param.name] = "do_not_specialize"
        elif param.annotation_type:
            reasons[param.name] = "annotation"
        elif param.do_not_specialize_on_alignment:
            reasons[param.name] = "do_not_specialize_on_alignment"
    return reasons


def definition(kernel: Any) -> tuple[str, int]:
    """File and line of the kernel's `def`, below its decorators."""
    recorded: tuple[str, int] | None = getattr(kernel, DEFINITION_ATTRIBUTE, None)
    if recorded is not None:
        return recorded
    # Triton stores the text when it decorates: a generated file may be deleted by now.
    lines, start = getattr(kernel, "raw_src", None), getattr(kernel, "starting_line_number", None)
    if lines is None or start is None:
        lines, start = inspect.getsourcelines(kernel.fn)
    offset = next((i for i, line in enumerate(lines) if DEFINITION.match(line)), 0)
    return kernel.fn.__code__.co_filename, start + offset


def make_ttir(kernel: Any, case: Case, bound: BoundCase, arch: str) -> dict[str, Any]:
    """Runs the front end over a stated case.

    Raises:
        CaseError: see `options.check_options`.
        UnknownOptionError: see `lowering.parse_options`.
        Exception: any error of the front end.
    """
    compiler = importlib.import_module("triton.compiler.compiler")
    backend = compiler.make_backend(target(arch))
    check_options(case, backend.parse_options({}).__dict__)
    options = dict(case.options)
    if getattr(kernel, "debug", None):  # launches pass on @triton.jit(debug=True)
        options.setdefault("debug", True)
    attributes = _attributes(backend, bound)
    source = compiler.ASTSource(
        kernel,
        dict(bound.signature),
        dict(bound.constants),
        {(kernel.arg_names.index(name),): pairs for name, pairs in attributes.items()},
    )
    return lower(source, arch, options)


def lower(source: Any, arch: str, options_stated: Mapping[str, Any]) -> dict[str, Any]:
    """Takes one specialisation to optimised TTIR.

    `source`: a `triton.compiler.ASTSource`.
    `options_stated`: options that the launch or case states; the backend fills in the others.

    Returns:
        The fields of a variant: `ttir`, `stage` (its kind: `ttir`, or `ttgir` of Gluon kernels),
        `notes` (warnings), `options` (the stated ones and `ALWAYS_STATED`), `signature`,
        `constexprs`, `attrs`, `arch` and `wave_size`.

    Raises:
        UnknownOptionError: see `lowering.parse_options`.
        MLIRError: the verifier refuses an operation.
        Exception: any other error of the front end.
    """
    gpu = target(arch)
    backend = importlib.import_module("triton.compiler.compiler").make_backend(gpu)
    options = parse_options(backend, dict(options_stated))
    stage, module, notes = _run_first_stage(source, backend, options, gpu)
    stated = {name: getattr(options, name) for name in ALWAYS_STATED if hasattr(options, name)}
    names = source.fn.arg_names
    return {
        "ttir": str(module),
        "stage": stage,
        "notes": notes,
        "arch": gpu.arch,
        "wave_size": gpu.warp_size,
        "options": {name: plain(value) for name, value in {**options_stated, **stated}.items()},
        "signature": {name: type_text(kind) for name, kind in source.signature.items()},
        "constexprs": {_argument_name(names, k): plain(v) for k, v in source.constants.items()},
        "attrs": {_argument_name(names, k): dict(v) for k, v in source.attrs.items() if v},
    }


def _run_first_stage(
    source: Any, backend: Any, options: Any, gpu: Any
) -> tuple[str, Any, list[str]]:
    ir = importlib.import_module("triton._C.libtriton").ir
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    available = {
        "target": gpu,
        "options": options,
        "codegen_fns": backend.get_codegen_implementation(options),
        "module_map": backend.get_module_map(),
        "context": context,
    }
    # `target` joined make_ir's parameters with Triton 3.5.
    make_ir_parameters = inspect.signature(source.make_ir).parameters
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    stage, run = next(iter(stages.items()))
    with warnings.catch_warnings(record=True) as warnings_caught:
        warnings.simplefilter("always")
        with mlir_errors():
            module = source.make_ir(**{name: available[name] for name in make_ir_parameters})
            module = run(module, {"target": gpu, **options.__dict__})
    return stage, module, list(dict.fromkeys(one_line(w.message) for w in warnings_caught))


def type_text(kind: Any) -> str:
    """The type of an argument as text; of a tuple, `(i32, *fp16)`."""
    if isinstance(kind, (tuple, list)):
        return "(" + ", ".join(map(type_text, kind)) + ")"
    return str(kind)


def _argument_name(names: Sequence[str], key: Any) -> str:
    """The name of an argument from ASTSource's key: `x` for `(2,)`, `x[1]` for `(2, 1)`."""
    if isinstance(key, str):
        return key
    position, *indices = key if isinstance(key, (tuple, list)) else (key,)
    return "".join([names[position], *(f"[{n}]" for n in indices)])


def _attributes(backend: Any, bound: BoundCase) -> Mapping[str, list[list[Any]]]:
    """Triton's attributes of each argument, as a launch would pass them."""
    knobs = importlib.import_module("triton.knobs")
    buffer_ops = bool(knobs.amd.use_buffer_ops)  # without them launches ignore storage sizes
    attributes = {}
    for name, type_name in bound.signature.items():
        letters = "D" if name in bound.divisible else ""
        letters += "S" if name in bound.small and buffer_ops else ""
        if type_name != "constexpr":
            attributes[name] = backend.parse_attr(letters)
    return attributes


def plain(value: Any) -> Any:
    """A constexpr or option as JSON can hold it: dtypes, functions and infinities become names."""
    value = _unwrap_constexpr(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    name = getattr(value, "name", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)


def _stated(value: Any) -> Any:
    """The same, to compile with."""
    value = _unwrap_constexpr(value)
    return value if isinstance(value, float) else plain(value)


def _unwrap_constexpr(value: Any) -> Any:
    core = importlib.import_module("triton.language.core")
    return value.value if isinstance(value, core.constexpr) else value
