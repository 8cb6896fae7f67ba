"""The constexprs of a kernel that may be changed: its tiles and switches, with their values.

A tile is a block size that the file itself varies (in `TUNING` or an autotuner's configurations),
or one by its name that a dot has as an extent, a loop as its step or a program's number as its
factor. A block that holds a whole row
or head must not be cut: without any of these nothing says that one may be.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ...base.documents import literal, python_tree
from ...base.limits import BASE_BYTES
from ...base.named_files import named_bytes
from ...model import KernelReport, Scalar, Variant

TUNING = "TUNING"
SMALLEST_OF_A_DOT = 16
_TILE = re.compile(
    r"(?i)^(BLOCK|TILE|SIZ_B|B[A-Z]$|B[A-Z]_SIZE$|.*_BLOCK(_SIZE)?$|.*_TILE(_SIZE)?$)"
)
_NO_TILE = re.compile(r"(?i)MODEL|HEAD|STRIDE|GROUP|DIM|^BLOCK_(SIZE_)?D|NUM_|^N_")
_SPLITS = re.compile(r"(?i)(^|_)SPLITS?(_|$)")
_STEM = re.compile(r"(?i)^(BLOCK_SIZE_|BLOCK_|TILE_SIZE_|TILE_|B)")
_DOT = re.compile(r"\btt\.dot(?:_scaled)?\b.*")
_CONSTANT = re.compile(r"(?P<name>%[\w.]+) = arith\.constant (?P<value>\d+) : i(?:32|64)\b")
_STEP = re.compile(r"\bscf\.for .* step (?P<step>%[\w.]+)")
_INTEGER = re.compile(r"\s*(?P<name>%[\w.]+) = arith\.constant (?P<value>-?\d+) : i\d+\b")
_SCALAR = re.compile(
    r"\s*(?P<result>%[\w.]+) = (?P<name>tt\.get_program_id|arith\.\w+) (?P<operands>[^:]*) : i\d+\b"
)
_VALUE = re.compile(r"%[\w.]+")
_TENSOR = re.compile(r"tensor<((?:\d+x)+)")


class Space(Struct, frozen=True):
    """What may be changed of one kernel's constexprs.

    Args:
        tiles: block sizes -> the values that the file names for them; none: it names none.
        steps: the tiles by which a loop advances: half of one divides what it divides.
        parts: the tiles that a program takes by its number: the launch has as many as it needs.
        splits: into how many parts the launch cuts work that one program could do.
    """

    tiles: Mapping[str, tuple[int, ...]]
    switches: tuple[str, ...]
    has_dots: bool
    steps: frozenset[str] = frozenset()
    parts: frozenset[str] = frozenset()
    splits: frozenset[str] = frozenset()

    def scaled(self, name: str, value: int, factor: float) -> int | None:
        """The value to try for a tile or a split; None where there is none in that direction.

        The file's own next value, else the product, if a dot can have that extent.
        """
        own = self.tiles.get(name, ())
        stated = sorted(v for v in own if (v < value if factor < 1 else v > value))
        if stated:
            return stated[-1] if factor < 1 else stated[0]
        is_split = name in self.splits
        scaled, least = value * factor, SMALLEST_OF_A_DOT if self.has_dots and not is_split else 1
        is_free = self.has_dots or is_split or name in self.parts
        is_known = is_free or (name in self.steps and factor < 1)
        return int(scaled) if is_known and scaled == int(scaled) and scaled >= least else None


def space_of(kernel: KernelReport, own: Mapping[str, Sequence[Scalar]]) -> Space:
    """What may be changed of a kernel.

    Args:
        own: the file's own values: name -> values.
    """
    variant = kernel.variant
    if variant is None or variant.stage != "ttir" or variant.generator is not None:
        return Space({}, (), False)
    extents = _dot_extents(variant.ttir)
    loop_steps, factors = _loop_steps(variant.ttir), _program_factors(variant.ttir)
    tiles: dict[str, tuple[int, ...]] = {}
    steps, parts, splits = set[str](), set[str](), set[str]()
    switches = []
    for name, value in variant.constexprs.items():
        values = own.get(name, ())
        if isinstance(value, bool):
            if all(isinstance(v, bool) for v in values) and len(set(values)) > 1:
                switches.append(name)
        elif isinstance(value, int) and is_split(name):
            splits.add(name)
        elif isinstance(value, int) and value >= 1 and _TILE.match(name):
            numbers = tuple(v for v in values if isinstance(v, int) and not isinstance(v, bool))
            is_tile = not _NO_TILE.search(name) and not _is_whole(name, value, variant)
            # The compiler drops a factor of 1.
            is_part = is_tile and value in factors | {1}
            if len(set(numbers)) > 1 or is_part or (is_tile and value in extents | loop_steps):
                tiles[name] = numbers
            if is_tile and value in loop_steps:
                steps.add(name)
            if is_part:
                parts.add(name)
    return Space(
        tiles=tiles,
        switches=tuple(switches),
        has_dots=bool(extents),
        steps=frozenset(steps),
        parts=frozenset(parts),
        splits=frozenset(splits),
    )


def is_split(name: str) -> bool:
    """Whether a constexpr says into how many parts a launch cuts work: `SPLIT_K`, `NUM_SPLITS`."""
    return _SPLITS.search(name) is not None


def _is_whole(name: str, value: int, variant: Variant) -> bool:
    """Whether a block is as long as the size that it is a block of, such as BK of K."""
    stem = _STEM.sub("", name).upper()
    sizes = {**variant.constexprs, **(variant.values or {})}
    return any(
        size != name and size.upper() in (stem, f"N_{stem}") and sizes[size] == value
        for size in sizes
    )


def own_space(path: str, kernels: Iterable[KernelReport]) -> dict[str, dict[str, list[Scalar]]]:
    """Kernel -> name -> values that a file itself names for its constexprs.

    Returns:
        What `TUNING` and the configurations of autotuners say; the former for every kernel.
    """
    stated = _tuning(path)
    spaces: dict[str, dict[str, list[Scalar]]] = {}
    for kernel in kernels:
        space = spaces.setdefault(kernel.name, {name: list(v) for name, v in stated.items()})
        tuning = kernel.variant.tuning if kernel.variant is not None else None
        for name, value in (tuning or {}).items():
            if isinstance(value, int | float | str | bool):
                values = space.setdefault(name, [])
                values += [] if value in values else [value]
    return spaces


def _tuning(path: str) -> dict[str, list[Scalar]]:
    """The names and values of a file's `TUNING`; none where it is not written as a literal."""
    try:
        data = named_bytes(path, BASE_BYTES) if path.endswith(".py") else None
        body = python_tree(data).body if data is not None else []
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    for statement in body:
        if not isinstance(statement, ast.Assign):
            continue
        if any(isinstance(t, ast.Name) and t.id == TUNING for t in statement.targets):
            try:
                value = literal(statement.value)
            except ValueError:
                return {}
            if isinstance(value, dict):
                return {
                    name: list(values)
                    for name, values in value.items()
                    if isinstance(name, str) and isinstance(values, list | tuple)
                }
    return {}


def _loop_steps(ttir: str) -> set[int]:
    """The constants by which a kernel's loops advance."""
    constants = {match["name"]: int(match["value"]) for match in _CONSTANT.finditer(ttir)}
    steps = (match["step"] for match in _STEP.finditer(ttir))
    return {constants[step] for step in steps if step in constants}


def _program_factors(ttir: str) -> set[int]:
    """The constants by which numbers of the program are multiplied."""
    return {
        int(constant)
        for name, *constants in of_program_ids(ttir)
        if name == "arith.muli"
        for constant in filter(None, constants)
    }


def of_program_ids(ttir: str) -> list[tuple[str, ...]]:
    """What is computed of the numbers of the program alone: operations, and constants in them."""
    known: dict[str, str] = {}
    computed = []
    for line in ttir.splitlines():
        if (constant := _INTEGER.match(line)) is not None:
            known[constant["name"]] = constant["value"]
        elif (operation := _SCALAR.match(line)) is not None:
            operands = _VALUE.findall(operation["operands"])
            if operation["name"] == "tt.get_program_id" or "" in map(known.get, operands):
                known[operation["result"]] = ""  # of a program's number
                constants = [known.get(operand, "") for operand in operands]
                computed.append((operation["name"], *constants))
    return computed


def _dot_extents(ttir: str) -> set[int]:
    """The extents of the operands and results of a kernel's dots."""
    return {
        int(extent)
        for line in ttir.splitlines()
        if (dot := _DOT.search(line)) is not None
        for shape in _TENSOR.findall(dot[0])
        for extent in shape.rstrip("x").split("x")
    }
