"""Where a wrapper launches its kernels, and with what sizes, as far as its text says.

Grids of generated kernels, computed from what their file states.

From torch 2.7 on the metadata name a `grid_type` (torch/_inductor/runtime/triton_heuristics.py
has one class for each); before, `call()` passed `grid=grid(xnumel)` with each launch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

from ..syntax import Construction, UnreadableError, dotted, read

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


MAX_Y = 65535
"""Limit of a grid's second dimension, as Inductor has it (`get_max_y_grid`)."""

Grid = Optional[tuple[int, ...]]  # noqa: UP045  (evaluated: Python 3.9)
Sizes = Mapping[str, Any]
"""Numels (`xnumel`) and the constants of one configuration (`XBLOCK`)."""


class UnknownSizeError(Exception):
    """A size that is known only at run time."""


def grid_of(stated: Any, meta: Mapping[str, Any], sizes: Sizes, passed: tuple[Any, ...]) -> Grid:
    """A launch's grid; None where it depends on values known only at run time.

    `stated` is the launch's `grid=`, `meta` its `inductor_meta`, `passed` its positional arguments:
    for a `FixedGrid` the grid comes last.
    """
    try:
        if stated is not None:
            grid = _from_grid_argument(stated, sizes)
        else:
            kind = meta.get("grid_type")
            shape = _SHAPES.get(kind or _default_grid_type(sizes))
            grid = shape(meta, sizes, passed) if shape is not None else None
    except UnknownSizeError:
        return None
    if grid is None or not all(type(n) is int and n > 0 for n in grid):
        return None
    while len(grid) > 1 and grid[-1] == 1:
        grid = grid[:-1]
    return tuple(grid)


def _default_grid_type(sizes: Sizes) -> str:
    """The `grid_type` that files without one imply: a grid dimension for each of x, y and z."""
    if "znumel" in sizes:
        return "Grid3D"
    return "Grid2D" if "ynumel" in sizes else "Grid1D"


def _from_grid_argument(stated: Any, sizes: Sizes) -> Grid:
    """The grid that the `grid=` of a launch states, as torch 2.6 and older wrote it."""
    if isinstance(stated, (tuple, list)):
        return tuple(stated)
    if not isinstance(stated, Construction):
        return None
    name, args = stated.name.rpartition(".")[2], stated.args
    numels = dict(zip(("xnumel", "ynumel", "znumel"), args))
    all_sizes = {**sizes, **numels}
    if name == "grid":
        return _SHAPES[_default_grid_type(numels)]({}, all_sizes, ())
    if name == "split_scan_grid" and len(args) == 2:
        return _split_scan({}, {**sizes, "xnumel": args[0], "r0_numel": args[1]}, ())
    if name == "cooperative_reduction_grid":
        return _cooperative({}, all_sizes, ())
    tiles = args[-1] if args else None
    if name in ("mm_grid", "bmm_grid") and isinstance(tiles, Mapping):
        *batch, m, n = args[:-1]
        tiled = _blocks(m, tiles.get("BLOCK_M")) * _blocks(n, tiles.get("BLOCK_N"))
        return (tiled, *batch)
    return None


def _size(sizes: Sizes, name: str) -> int:
    value = sizes.get(name)
    if type(value) is not int:
        raise UnknownSizeError(name)
    return value


def _blocks(numel: Any, block: Any) -> int:
    """How many blocks cover `numel` elements; a block size of None counts as 1."""
    if type(numel) is not int or (block is not None and type(block) is not int):
        raise UnknownSizeError
    return -(-numel // (block or 1))


def _blocks_along(sizes: Sizes, dimension: str) -> int:
    """How many blocks cover the elements of dimension `x`, `y` or `z`."""
    return _blocks(_size(sizes, f"{dimension}numel"), sizes.get(f"{dimension.upper()}BLOCK"))


def _split_rows(rows: int) -> tuple[int, int]:
    """Spreads a second dimension of `rows` workgroups over two, where it exceeds `MAX_Y`."""
    layers = _blocks(rows, MAX_Y)
    return _blocks(rows, layers), layers


def _dimensions(names: str) -> Callable[[Any, Sizes, Any], Grid]:
    def shape(meta: Any, sizes: Sizes, passed: Any) -> Grid:
        return tuple(_blocks_along(sizes, name) for name in names)

    return shape


def _overflowing(meta: Any, sizes: Sizes, passed: Any) -> Grid:
    return (_blocks_along(sizes, "x"), *_split_rows(_blocks_along(sizes, "y")))


def _cooperative(meta: Any, sizes: Sizes, passed: Any) -> Grid:
    return (_size(sizes, "RSPLIT"), _blocks_along(sizes, "x"))


def _split_scan(meta: Any, sizes: Sizes, passed: Any) -> Grid:
    block = sizes.get("R0_BLOCK", sizes.get("RBLOCK"))
    return (_blocks(sizes.get("r0_numel", sizes.get("rnumel")), block), _size(sizes, "xnumel"))


def _mixed(meta: Any, sizes: Sizes, passed: Any) -> Grid:
    return (_blocks(_size(sizes, "xnumel"), _size(sizes, "RSPLIT_SIZE")),)


def _fixed(meta: Mapping[str, Any], sizes: Sizes, passed: tuple[Any, ...]) -> Grid:
    stated = meta.get("fixed_grid") or ()
    names = meta.get("extra_launcher_args") or ()
    launcher_args = dict(zip(names, passed[-len(names) :])) if len(passed) >= len(names) else {}
    return tuple(launcher_args.get(n, n) for n in stated) or None


def _combined(meta: Mapping[str, Any], sizes: Sizes, passed: Any) -> Grid:
    """The grid of several kernels in one, laid along x one after the other or in turns."""
    combo = meta.get("combo_grid_meta") or {}
    all_sizes = {**(combo.get("default_config") or {}), **sizes}
    count = combo.get("num_kernels") or 0
    widths, rows = [], []
    for number in range(count):
        numel = combo.get(f"xnumel_{number}") or sizes.get(f"xnumel_{number}")
        block = all_sizes.get("XBLOCK", all_sizes.get(f"XBLOCK_{number}"))
        widths.append(_blocks(numel, 1 if combo.get(f"no_x_dim_{number}") else block))
        if f"ynumel_{number}" in combo:
            rows.append(combo[f"ynumel_{number}"] or sizes.get(f"ynumel_{number}"))
    if not widths:
        return None
    in_turns = meta.get("grid_type") == "RoundRobinComboKernelGrid"
    width = max(widths) * count if in_turns else sum(widths)
    width = max(width, combo.get("min_blocks") or 0)
    if not rows:
        return (width,)
    return (width, *_split_rows(max(_blocks(n, all_sizes.get("YBLOCK")) for n in rows)))


_SHAPES: Mapping[str, Callable[[Any, Sizes, Any], Grid]] = {
    "Grid1D": _dimensions("x"),
    "Grid2D": _dimensions("xy"),
    "Grid3D": _dimensions("xyz"),
    "BatchMatmulGrid3D": _dimensions("zyx"),
    "Grid2DWithYZOverflow": _overflowing,
    "CooperativeReductionGrid": _cooperative,
    "SplitScanGrid": _split_scan,
    "MixOrderReductionGrid": _mixed,
    "FixedGrid": _fixed,
    "SequentialComboKernelGrid": _combined,
    "RoundRobinComboKernelGrid": _combined,
}
