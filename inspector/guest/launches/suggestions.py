"""Suggests calls of a file's functions that lead to a kernel launch.

They are shown in the hint for a file that only defines kernels. A call is guessed from the
function's text, for the user to correct; it is never run.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from .docstring_shapes import Shape, extents
from .parameter_uses import (
    File,
    LaunchingFunction,
    ParameterUses,
    holds_indices,
    is_pointer,
    last_name,
)

EXAMPLE_EXTENTS: Mapping[int, str] = {
    0: "",
    1: "1024",
    2: "1024, 1024",
    3: "8, 1024, 64",
    4: "2, 8, 1024, 64",
}
"""Number of dimensions -> extents of the example tensor."""
FLOAT_NAMES = ("alpha", "beta", "eps", "prob", "scale")
BFLOAT16 = "bfloat16"
SCALARS: Mapping[str, str] = {"int": "1024", "float": "1.0", "bool": "True", "str": "'...'"}


def suggested_calls(tree: ast.Module, kernels: Collection[str]) -> list[str]:
    """Calls of the functions that lead to a launch and that no other such function calls.

    Args:
        tree: the file.
        kernels: names of its `@triton.jit` functions.
    """
    functions = dict(_functions(tree, kernels))
    launching = {name for name, function in functions.items() if function.launches}
    count = -1
    while count != len(launching):
        count = len(launching)
        launching |= {name for name, candidate in functions.items() if candidate.calls & launching}
    inner = {
        name
        for caller in launching
        for name in functions[caller].calls & launching
        if name != caller
    }
    outer = [name for name in functions if name in launching - inner] or sorted(launching)
    outer.sort(key=lambda name: name.startswith("_"))
    file = File(functions, {name: node for name, node in _kernels(tree) if name in kernels})
    return [_call_text(functions[name], file) for name in outer]


@dataclass(frozen=True)
class StatedTypes:
    """Guessed types of a kernel's arguments, as `--signature` and `-D` take them.

    Args:
        kernel: its name.
        types: types of the arguments that are not constexprs.
        constexprs: names of the constexpr arguments.
    """

    kernel: str
    types: tuple[str, ...]
    constexprs: tuple[str, ...]


def suggested_types(tree: ast.Module, kernels: Collection[str]) -> StatedTypes | None:
    """Guessed argument types of a file's last kernel that no other kernel calls, or None.

    They are for files without a function that launches.

    Args:
        tree: the file.
        kernels: names of its `@triton.jit` functions.
    """
    defined = {name: node for name, node in _kernels(tree) if name in kernels}
    called = {
        last_name(inner.func)
        for node in defined.values()
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call)
    }
    outer = [name for name in defined if name not in called]
    if not outer:
        return None
    kernel = defined[outer[-1]]
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    constexprs = [
        p.arg for p in parameters if p.annotation and last_name(p.annotation) == "constexpr"
    ]
    types = tuple(_guessed_type(kernel, p.arg) for p in parameters if p.arg not in constexprs)
    return StatedTypes(outer[-1], types, tuple(constexprs))


def _guessed_type(kernel: ast.FunctionDef, name: str) -> str:
    """The likely type of a kernel's argument, as `--signature` takes it."""
    if is_pointer(kernel, name):
        return "*i32:16" if holds_indices(kernel, name) else "*fp16:16"
    return "fp32" if any(float_name in name for float_name in FLOAT_NAMES) else "i32"


def _kernels(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions at the top of a file, by name."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


def _functions(
    tree: ast.Module, kernels: Collection[str]
) -> Iterator[tuple[str, LaunchingFunction]]:
    """The functions, autograd functions and aliases of their `apply` that a module defines."""
    classes: dict[str, LaunchingFunction] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in kernels:
            yield node.name, _add_calls(LaunchingFunction(node.name, node), node, kernels)
        elif isinstance(node, ast.ClassDef) and any(
            last_name(base) == "Function" for base in node.bases
        ):
            forward = next(
                (f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "forward"),
                None,
            )
            if forward is not None:
                function = LaunchingFunction(f"{node.name}.apply", forward, is_bound=True)
                classes[node.name] = _add_calls(function, node, kernels)
                yield node.name, classes[node.name]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if not (isinstance(target, ast.Name) and isinstance(value, ast.Attribute)):
                continue
            named = classes.get(last_name(value.value))
            if value.attr == "apply" and named is not None:
                alias = LaunchingFunction(target.id, named.node, True, {last_name(value.value)})
                yield target.id, alias


def _add_calls(
    function: LaunchingFunction, node: ast.AST, kernels: Collection[str]
) -> LaunchingFunction:
    """Adds the calls and launches within a node to a function, and returns the function."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        called = inner.func
        if isinstance(called, ast.Subscript):
            # NAME[grid](...), wrap_triton(NAME)[grid](...)
            names = {last_name(inside) for inside in ast.walk(called.value)}
            function.launches |= not names.isdisjoint(kernels)
        elif isinstance(called, ast.Attribute):
            owner = last_name(called.value)
            function.launches |= called.attr in ("run", "warmup") and owner in kernels
            if called.attr == "apply":
                function.calls.add(owner)
        elif isinstance(called, ast.Name):
            function.calls.add(called.id)
    return function


def _call_text(function: LaunchingFunction, file: File) -> str:
    """A call of a function with example arguments."""
    signature = function.node.args
    positional = [*signature.posonlyargs, *signature.args]
    required = positional[: len(positional) - len(signature.defaults)]
    arguments = [(parameter, "") for parameter in required[function.is_bound :]]
    arguments += [
        (parameter, f"{parameter.arg}=")
        for parameter, default in zip(signature.kwonlyargs, signature.kw_defaults)
        if default is None
    ]
    uses = {parameter.arg: _uses(function, parameter, file) for parameter, _ in arguments}
    sizes = extents(
        parameter_uses.shape for parameter_uses in uses.values() if parameter_uses.shape is not None
    )
    if any(
        parameter_uses.dtype == BFLOAT16 for parameter_uses in uses.values()
    ):  # tensors of different 16-bit float types cannot be mixed
        for parameter_uses in uses.values():
            parameter_uses.dtype = parameter_uses.dtype or BFLOAT16
    texts = [
        keyword + _argument_text(parameter, uses[parameter.arg], sizes)
        for parameter, keyword in arguments
    ]
    return f"{function.name}({', '.join(texts)})"


def _uses(function: LaunchingFunction, parameter: ast.arg, file: File) -> ParameterUses:
    uses = ParameterUses(parameter.arg, file)
    uses.read(function.node)
    return uses


def _argument_text(parameter: ast.arg, uses: ParameterUses, sizes: Mapping[Shape, str]) -> str:
    """An example argument: a number, or `T(...)` for a tensor.

    Args:
        parameter: with its annotation.
        uses: its uses in the function.
        sizes: shape of a docstring -> extents as numbers.
    """
    annotation = parameter.annotation
    annotated_type = last_name(annotation) if annotation is not None else ""
    if annotated_type in SCALARS:
        return SCALARS[annotated_type]
    if annotated_type != "Tensor" and not uses.is_tensor and uses.is_number:
        is_float = any(float_name in parameter.arg for float_name in FLOAT_NAMES)
        return SCALARS["float" if is_float else "int"]
    rank = uses.rank if uses.rank is not None else max(2, uses.min_rank)
    extents_text = EXAMPLE_EXTENTS.get(rank, EXAMPLE_EXTENTS[4])
    shape = uses.shape or ()
    if shape and len(shape) >= uses.min_rank and uses.rank in (None, len(shape)):
        extents_text = sizes[shape]
    dtype = f", dtype={uses.dtype!r}" if uses.dtype is not None else ""
    return f"T({extents_text}{dtype})"
