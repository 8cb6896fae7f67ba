"""Guesses from a function's text which of its parameters are tensors, and of what rank."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .docstring_shapes import Shape, stated_shape

TENSOR_ATTRIBUTES = frozenset(
    (
        *("T", "contiguous", "data_ptr", "device", "dim", "dtype", "element_size", "flatten"),
        *("is_contiguous", "is_cuda", "mT", "ndim", "new_empty", "numel", "permute", "reshape"),
        *("shape", "size", "squeeze", "stride", "t", "to", "transpose", "unsqueeze", "view"),
    )
)
ACCESSES = frozenset(
    ("atomic_add", "atomic_max", "load", "make_block_ptr", "make_tensor_descriptor", "store")
)
MAX_DEPTH = 4
"""How many nested calls within the file a parameter is followed into."""


@dataclass
class LaunchingFunction:
    """A function, or a subclass of `torch.autograd.Function`, that can be called.

    Args:
        name: the name in a call: `f`, `Attention.apply`.
        node: its definition; that of `forward` for a class.
        is_bound: whether its first parameter (`ctx`) is not passed by the caller.
        calls: names of the functions that it calls.
        launches: whether it launches a kernel itself.
    """

    name: str
    node: ast.FunctionDef | ast.AsyncFunctionDef
    is_bound: bool = False
    calls: set[str] = field(default_factory=set)
    launches: bool = False


@dataclass(frozen=True)
class File:
    """A file's functions and kernels, by name."""

    functions: Mapping[str, LaunchingFunction]
    kernels: Mapping[str, ast.FunctionDef]


class ParameterUses(ast.NodeVisitor):
    """The uses of one parameter in a function's text, and in the functions that it is passed to.

    Args:
        name: the parameter's name.
        file: the file's functions, into which calls with the parameter are followed.
        depth: number of calls followed so far.

    Attributes:
        is_tensor: whether it is used like a tensor.
        is_number: whether it is used like a number.
        rank: its number of dimensions; None if unknown.
        min_rank: the dimensions that it has at least.
        dtype: the name of the torch dtype that the text checks for; None without a check.
        shape: the extents that the docstring states; None without any.
    """

    def __init__(self, name: str, file: File, depth: int = 0) -> None:
        self._name = name
        self._file = file
        self._depth = depth
        self.is_tensor = self.is_number = False
        self.rank: int | None = None
        self.min_rank = 0
        self.dtype: str | None = None
        self.shape: Shape | None = None

    def read(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Reads a function's docstring and body."""
        names = {
            parameter.arg for parameter in ast.walk(function.args) if isinstance(parameter, ast.arg)
        }
        docstring = ast.get_docstring(function) or ""
        self.shape = stated_shape(docstring, self._name, names - {self._name})
        self.visit(function)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.is_tensor |= self._is_parameter(node.value) and node.attr in TENSOR_ATTRIBUTES
        self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        target = node.targets[0]
        parts = target.elts if isinstance(target, (ast.Tuple, ast.List)) else []
        is_unpacked = bool(parts) and self._is_shape(node.value)
        if is_unpacked and not any(isinstance(part, ast.Starred) for part in parts):
            self.rank = len(parts)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._is_shape(node.value):
            self._note_index(node.slice)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        is_method_call = isinstance(called, ast.Attribute) and self._is_parameter(called.value)
        if is_method_call and node.args and last_name(called) in ("size", "stride"):
            self._note_index(node.args[0])
        for argument_index, argument in enumerate(node.args):
            if self._is_parameter(argument):
                self._follow_argument(called, argument_index, None)
        for keyword in node.keywords:
            if self._is_parameter(keyword.value):
                self._follow_argument(called, None, keyword.arg)
        if isinstance(called, ast.Name) and called.id in ("range", "cdiv"):
            self.is_number |= any(map(self._is_parameter, node.args))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        numeric = (ast.FloorDiv, ast.Mod, ast.LShift, ast.RShift, ast.Pow)
        if isinstance(node.op, numeric):
            self.is_number |= self._is_parameter(node.left) or self._is_parameter(node.right)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left_side = node.left
        is_dtype_check = (
            isinstance(left_side, ast.Attribute)
            and left_side.attr == "dtype"
            and self._is_parameter(left_side.value)
        )
        if is_dtype_check and isinstance(node.ops[0], (ast.Eq, ast.In)):
            dtypes = node.comparators[0]
            dtype = dtypes
            if isinstance(dtypes, (ast.Tuple, ast.List, ast.Set)) and dtypes.elts:
                dtype = dtypes.elts[0]
            if isinstance(dtype, ast.Attribute) and last_name(dtype.value) == "torch":
                self.dtype = dtype.attr
        if any(map(self._is_parameter, (left_side, *node.comparators))):
            constants = [o for o in (left_side, *node.comparators) if isinstance(o, ast.Constant)]
            self.is_number |= any(type(o.value) in (int, float) for o in constants)
        self.generic_visit(node)

    def _follow_argument(
        self, called: ast.AST, argument_index: int | None, keyword: str | None
    ) -> None:
        """Adds the uses in a called function or kernel of the file, which gets the parameter.

        Args:
            called: the called expression.
            argument_index: index of the positional argument; None for a keyword argument.
            keyword: name of the keyword argument.
        """
        if self._depth >= MAX_DEPTH:
            return
        if isinstance(called, ast.Subscript):
            self._follow_launch(called, argument_index, keyword)
            return
        owner = (
            called.value if isinstance(called, ast.Attribute) and called.attr == "apply" else called
        )
        function = self._file.functions.get(last_name(owner))
        if function is None:
            return
        position = argument_index + function.is_bound if argument_index is not None else None
        name = _parameter(function.node, position, keyword)
        if name is None:
            return
        callee_uses = ParameterUses(name, self._file, self._depth + 1)
        callee_uses.read(function.node)
        self.shape = self.shape or callee_uses.shape
        self.is_tensor |= callee_uses.is_tensor
        self.is_number |= callee_uses.is_number
        self.rank = self.rank if self.rank is not None else callee_uses.rank
        self.min_rank = max(self.min_rank, callee_uses.min_rank)
        self.dtype = self.dtype or callee_uses.dtype

    def _follow_launch(
        self, called: ast.Subscript, argument_index: int | None, keyword: str | None
    ) -> None:
        """Adds the use in a kernel that is launched with the parameter; see `_follow_argument`."""
        called_names = {last_name(node) for node in ast.walk(called.value)}
        kernel = next(
            (self._file.kernels[name] for name in called_names & set(self._file.kernels)), None
        )
        name = _parameter(kernel, argument_index, keyword) if kernel is not None else None
        if kernel is not None and name is not None:
            if is_pointer(kernel, name):
                self.is_tensor = True
            else:
                self.is_number = True

    def _is_parameter(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._name

    def _is_shape(self, node: ast.AST) -> bool:
        """Whether an expression is `x.shape` or `x.size()` of the parameter."""
        if isinstance(node, ast.Call):  # x.size()
            node = node.func
        return (
            isinstance(node, ast.Attribute)
            and node.attr in ("shape", "size")
            and self._is_parameter(node.value)
        )

    def _note_index(self, index: ast.AST) -> None:
        """Raises `min_rank` by a constant index into the shape."""
        if isinstance(index, ast.Constant) and isinstance(index.value, int) and index.value >= 0:
            self.min_rank = max(self.min_rank, index.value + 1)


def is_pointer(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether a kernel loads or stores through a parameter."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in ACCESSES:
            address_expressions: list[ast.AST] = [node.args[0]]
        elif isinstance(node, ast.AugAssign):  # x += ...
            address_expressions = [node.target]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            target_name = last_name(node.targets[0])  # pointers = x + ...
            is_address = target_name == name or target_name.lower().endswith(
                ("ptr", "ptrs", "pointers")
            )
            address_expressions = [node.value] if is_address else []
        else:
            continue
        if any(
            last_name(inner) == name
            for address in address_expressions
            for inner in ast.walk(address)
        ):
            return True
    return name.lower().endswith(("ptr", "pointer"))


def holds_indices(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether values loaded through a parameter are used in an address or as a loop bound."""
    assignments = [
        (last_name(node.targets[0]), node.value)
        for node in ast.walk(kernel)
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    ]
    load_results = {target for target, value in assignments if any(_load_addresses(value))}
    address_expressions: list[ast.AST] = []
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in ACCESSES:
            address_expressions.append(node.args[0])
        elif isinstance(node, ast.Call) and last_name(node.func) == "range":
            address_expressions += node.args
    parameters = [*kernel.args.posonlyargs, *kernel.args.args]
    pointers = {
        parameter.arg for parameter in parameters if is_pointer(kernel, parameter.arg)
    } - load_results
    address_expressions += [
        value
        for target, value in assignments
        if target in pointers and isinstance(value, ast.BinOp)
    ]
    loaded = _loaded_names(name, assignments, pointers)
    nested_loads = [load for address in address_expressions for load in _load_addresses(address)]
    if any(last_name(inner) == name for load in nested_loads for inner in ast.walk(load)):
        return True
    return any(
        last_name(inner) in loaded for address in address_expressions for inner in ast.walk(address)
    )


def _loaded_names(
    name: str, assignments: Sequence[tuple[str, ast.expr]], pointers: Collection[str]
) -> set[str]:
    """The variables that hold values loaded through a parameter, or computed from such values.

    Args:
        name: the parameter.
        assignments: variable and assigned expression, of all of the kernel's assignments.
        pointers: variables that are left out.
    """
    loaded: set[str] = set()
    count = -1
    while count != len(loaded):
        count = len(loaded)
        for target, value in assignments:
            loaded_nodes = {inner for load in _load_addresses(value) for inner in ast.walk(load)}
            loads_parameter = any(last_name(inner) == name for inner in loaded_nodes)
            uses_loaded = any(
                last_name(inner) in loaded for inner in {*ast.walk(value)} - loaded_nodes
            )
            if target and target not in pointers and (loads_parameter or uses_loaded):
                loaded.add(target)
    return loaded


def _load_addresses(value: ast.AST) -> Iterator[ast.AST]:
    """The addresses that an expression loads from."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and node.args and last_name(node.func) == "load":
            yield node.args[0]


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef, position: int | None, keyword: str | None
) -> str | None:
    """The name of the parameter that gets an argument; None if the function has no such one."""
    names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    if position is None:
        return keyword if keyword in names else None
    return names[position] if position < len(names) else None


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
