"""Where a wrapper launches its kernels, and with what sizes, as far as its text says."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..parsed.literals import Construction, UnreadableError, dotted, read

MULTI_KERNEL = "async_compile.multi_kernel"


@dataclass(frozen=True)
class WrapperLaunch:
    """One `kernel.run(...)`.

    Args:
        args: values of the positional arguments; None for one known only in a run (a tensor).
        grid: the value of `grid=`; None without one.
    """

    line: int
    args: tuple[Any, ...]
    grid: Any


def launches_of(tree: ast.Module) -> Mapping[str, Sequence[WrapperLaunch]]:
    """The launches in the wrapper's functions, by the name of the kernel's variable."""
    module_constants = dict(_constants(tree.body))
    groups = _multi_kernels(tree)
    launches: dict[str, list[WrapperLaunch]] = {}
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = {**module_constants, **dict(_constants(list(ast.walk(function))))}
        for node in ast.walk(function):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            kernel = dotted(node.func.value)
            if node.func.attr != "run" or kernel is None:
                continue
            launch = _launch(node, names)
            for name in groups.get(kernel, (kernel,)):
                if launch not in launches.setdefault(name, []):
                    launches[name].append(launch)
    return launches


def numels(function: ast.FunctionDef, names: Sequence[str]) -> dict[str, int]:
    """The sizes that a kernel's own body states: `xnumel = 24`."""
    numel_names = [name for name in names if name.endswith("numel")]
    return {n: v for n, v in _constants(function.body) if n in numel_names and type(v) is int}


def sizes_of(launch: WrapperLaunch, names: Sequence[str]) -> dict[str, int]:
    """The sizes (`xnumel`, `r0_numel`, ...) that a launch passes as plain numbers.

    `names` are those of its arguments, in order.
    """
    passed = zip(names, launch.args)
    return {n: v for n, v in passed if n.endswith("numel") and type(v) is int}


def _launch(node: ast.Call, names: Mapping[str, Any]) -> WrapperLaunch:
    grid = next((k.value for k in node.keywords if k.arg == "grid"), None)
    return WrapperLaunch(
        node.lineno,
        tuple(_value(arg, names) for arg in node.args),
        _value(grid, names) if grid is not None else None,
    )


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    """The value of an argument; None where the text does not state it."""
    try:
        value = read(node, names)
    except UnreadableError:
        return None
    return value if isinstance(value, (int, float, tuple, list, Construction)) else None


def _constants(nodes: Sequence[ast.AST]) -> Iterator[tuple[str, Any]]:
    """Names assigned exactly once, to a constant: `s0 = 64`, `meta0 = {...}`."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    assigned.setdefault(target.id, []).append(node.value)
    for name, values in assigned.items():
        if len(values) == 1 and isinstance(values[0], (ast.Constant, ast.Dict)):
            try:
                yield name, read(values[0])
            except UnreadableError:
                continue


def _multi_kernels(tree: ast.Module) -> dict[str, tuple[str, ...]]:
    """The kernels among which a run chooses, by the name under which they are launched."""
    groups = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        target, call = node.targets[0], node.value
        if dotted(call.func) == MULTI_KERNEL and isinstance(target, ast.Name):
            members = [n.id for a in call.args for n in ast.walk(a) if isinstance(n, ast.Name)]
            groups[target.id] = tuple(members)
    return groups
