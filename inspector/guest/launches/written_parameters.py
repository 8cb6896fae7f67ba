"""Finds the arguments that a kernel writes to, from its TTIR or its source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
FUNCTION = re.compile(r"^\s*tt\.func\s+public\s+@[^(]*\((.*)$")
DEFINES = re.compile(r"^\s*(%[\w$.-]+)(?::(\d+))?\s*=\s*\"?([\w.]+)\"?")
CARRIED_VALUE = re.compile(r"(%[\w$.-]+)\s*=\s*(%[\w$.-]+(?:#\d+)?)")
POINTER = re.compile(r"!tt\.(?:ptr|tensordesc)")
WRITES = re.compile(
    r"(?:tt\.store|tt\.atomic_rmw|tt\.atomic_cas|tt\.(?:experimental_)?descriptor_"
    r"(?:store|reduce|scatter))\b"
)
POINTER_FIRST = frozenset(
    ("tt.addptr", "tt.advance", "tt.make_tensor_descriptor", "tt.make_tensor_ptr")
)
"""Operations whose first operand is a pointer and the others offsets or extents."""
UNTRACKED = re.compile(r"tt\.(?:call|elementwise_inline_asm|extern_elementwise|int_to_ptr)\b")
"""Operations whose pointer operands cannot be followed."""
STORES = frozenset(("store", "store_tensor_descriptor", "scatter"))
LOADS = frozenset(("load", "load_tensor_descriptor", "gather"))


def written_by_source(function: ast.FunctionDef) -> frozenset[str]:
    """Names of the parameters that a kernel may write to, from its source.

    For kernels without TTIR. A parameter counts if a value computed from it, other than by loading,
    is stored through or passed to another function.
    """
    sources: dict[str, set[str]] = {}
    targets: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            assigned = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in assigned:
                for name in _names(target):
                    sources.setdefault(name, set()).update(_names(node.value))
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name in STORES or name.startswith("atomic_"):
                through = called.value if isinstance(called, ast.Attribute) else called
                targets |= _names(through).union(*map(_names, node.args[:1]))
            elif isinstance(called, ast.Name):  # it may store through its arguments
                targets |= set().union(*map(_names, node.args))
    while True:
        sources_of_targets = set().union(*(sources.get(name, set()) for name in targets)) - targets
        if not sources_of_targets:
            break
        targets |= sources_of_targets
    signature = function.args
    return frozenset(
        parameter.arg
        for parameter in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)
    ) & frozenset(targets)


def _names(node: ast.AST) -> set[str]:
    """The names in an expression, without those inside of loads."""
    if isinstance(node, ast.Call):
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in LOADS:
            return set()
    if isinstance(node, ast.Name):
        return {node.id}
    return set().union(*map(_names, ast.iter_child_nodes(node)))


def written_indices(ttir: str) -> frozenset[int] | None:
    """Indices of the pointer parameters that a kernel may write to.

    `ttir`: a module with one public function, as Triton prints it.

    Returns:
        The indices; None if they cannot be determined and any pointer may be written to.
    """
    parameters: list[str] = []
    reader = _TtirReader()
    for line in _statements(ttir):
        function_match = FUNCTION.match(line)
        if function_match is not None:
            if parameters:
                return None
            parameters = re.findall(r"(%[\w$.-]+):", function_match[1])
        elif UNTRACKED.search(line) and POINTER.search(line):
            return None
        else:
            reader.read(line)
    if not parameters:
        return None
    aliases = reader.aliases
    roots = {aliases.root(value) for value in reader.stored_pointers}
    return frozenset(n for n, name in enumerate(parameters) if aliases.root(name) in roots)


class _TtirReader:
    """Reads the statements of a function."""

    def __init__(self) -> None:
        self.aliases = _Aliases()
        self.stored_pointers: list[str] = []
        # For each open region, the results that its yield defines; the function's own has none.
        self._open_regions: list[tuple[str, ...]] = [()]

    def read(self, line: str) -> None:
        operands, results = self.aliases.read(line)
        if line.lstrip().startswith("}"):
            region_results = self._open_regions.pop() if self._open_regions else ()
            if line.rstrip().endswith("{"):
                self._open_regions.append(region_results)  # `} else {`
            return
        if "iter_args(" in line:
            self.aliases.join_carried(line, results)
        elif line.lstrip().startswith("scf.yield") and self._open_regions:
            for result, value in zip(self._open_regions[-1], operands):
                self.aliases.join(result, value)
        elif WRITES.search(line):
            self.stored_pointers += operands[:1]
        elif results and POINTER.search(line) and "load" not in _operation(line):
            for operand in _pointer_operands(line, operands):
                self.aliases.join(results[0], operand)
        if line.rstrip().endswith("{"):
            self._open_regions.append(results)


def _pointer_operands(line: str, operands: list[str]) -> list[str]:
    operation = _operation(line)
    if operation == "arith.select":
        return operands[1:]
    return operands[:1] if operation in POINTER_FIRST else operands


def _statements(ttir: str) -> Iterator[str]:
    """The lines of a module, without attribute aliases and locations."""
    for line in ttir.splitlines():
        if not line.startswith("#"):
            yield line.partition(" loc(")[0] if not FUNCTION.match(line) else line


def _operation(line: str) -> str:
    """The name of the operation that defines a value; empty for other lines."""
    match = DEFINES.match(line)
    return match[3] if match is not None else ""


class _Aliases:
    """Sets of SSA values that may be the same pointer (a union-find).

    Sibling regions may reuse a name: each definition is a value of its own, and a use means the
    latest one.
    """

    def __init__(self) -> None:
        self._parents: dict[str, str] = {}
        self._current_names: dict[str, str] = {}
        self._count = 0

    def read(self, line: str) -> tuple[list[str], tuple[str, ...]]:
        """The values that a statement uses, and those that it defines."""
        match = DEFINES.match(line)
        if match is None:
            return [self.current_name(name) for name in VALUE.findall(line)], ()
        used = [self.current_name(name) for name in VALUE.findall(line[match.end() :])]
        names = (
            [match[1]] if match[2] is None else [f"{match[1]}#{n}" for n in range(int(match[2]))]
        )
        return used, tuple(map(self.define, names))

    def join_carried(self, line: str, results: Sequence[str]) -> None:
        """Joins the values that a loop carries: initial value, region argument and result."""
        pairs = CARRIED_VALUE.findall(line.partition("iter_args(")[2].partition(")")[0])
        for result, (argument, initial_name) in zip(results, pairs):
            carried, initial_value = self.define(argument), self.current_name(initial_name)
            self.join(carried, initial_value)
            self.join(result, carried)

    def current_name(self, name: str) -> str:
        return self._current_names.get(name, name)

    def define(self, name: str) -> str:
        self._count += 1
        self._current_names[name] = f"{name}@{self._count}"
        return self._current_names[name]

    def root(self, value: str) -> str:
        while value in self._parents:
            value = self._parents[value]
        return value

    def join(self, value: str, other_value: str) -> None:
        value, other_value = self.root(value), self.root(other_value)
        if value != other_value:
            self._parents[value] = other_value
