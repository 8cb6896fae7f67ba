"""Suggests calls of a file's functions that lead to a kernel launch.

Used in the hint for a file that only defines kernels. A call is guessed from the function's text
for the user to correct; it is never run.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from .docstrings import Shape, extents, stated_shape

EXAMPLE_EXTENTS: Mapping[int, str] = {
    0: "",
    1: "1024",
    2: "1024, 1024",
    3: "8, 1024, 64",
    4: "2, 8, 1024, 64",
}
"""Number of dimensions -> extents of the example tensor."""
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
FLOAT_NAMES = ("alpha", "beta", "eps", "prob", "scale")
MOST_FOLLOWED = 4
"""How many nested calls within the file a parameter is followed through."""
BFLOAT16 = "bfloat16"
SCALARS: Mapping[str, str] = {"int": "1024", "float": "1.0", "bool": "True", "str": "'...'"}


@dataclass
class _Function:
    """A function, or a subclass of `torch.autograd.Function`, that can be called.

    Args:
        name: what a caller writes: `f`, `Attention.apply`.
        node: its definition; for a class that of its `forward`.
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
class _File:
    """A file's functions and kernels, by name."""

    functions: Mapping[str, _Function]
    kernels: Mapping[str, ast.FunctionDef]


def suggested_calls(tree: ast.Module, kernels: Collection[str]) -> list[str]:
    """Calls that would lead to a launch, of the functions that no other such function calls.

    Args:
        tree: the file.
        kernels: names of its `@triton.jit` functions.
    """
    functions = dict(_functions(tree, kernels))
    leading = {name for name, function in functions.items() if function.launches}
    count = -1
    while count != len(leading):
        count = len(leading)
        leading |= {name for name, candidate in functions.items() if candidate.calls & leading}
    inner = {
        name for caller in leading for name in functions[caller].calls & leading if name != caller
    }
    outer = [name for name in functions if name in leading - inner] or sorted(leading)
    outer.sort(key=lambda name: name.startswith("_"))
    file = _File(functions, {name: node for name, node in _kernels(tree) if name in kernels})
    return [_call(functions[name], file) for name in outer]


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
    """Guessed argument types of a file's last kernel that no other kernel calls.

    For a file without a function that launches; None if there is no such kernel.

    Args:
        tree: the file.
        kernels: names of its `@triton.jit` functions.
    """
    defined = {name: node for name, node in _kernels(tree) if name in kernels}
    called = {
        _last_name(inner.func)
        for node in defined.values()
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call)
    }
    outer = [name for name in defined if name not in called]
    if not outer:
        return None
    kernel = defined[outer[-1]]
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    fixed = [p.arg for p in parameters if p.annotation and _last_name(p.annotation) == "constexpr"]
    types = tuple(_guessed_type(kernel, p.arg) for p in parameters if p.arg not in fixed)
    return StatedTypes(outer[-1], types, tuple(fixed))


def _guessed_type(kernel: ast.FunctionDef, name: str) -> str:
    if _is_pointer(kernel, name):
        return "*i32:16" if _holds_indices(kernel, name) else "*fp16:16"
    return "fp32" if any(float_name in name for float_name in FLOAT_NAMES) else "i32"


def _kernels(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node


def _functions(tree: ast.Module, kernels: Collection[str]) -> Iterator[tuple[str, _Function]]:
    """The functions, autograd functions and aliases of their `apply` that a module defines."""
    classes: dict[str, _Function] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in kernels:
            yield node.name, _with_calls(_Function(node.name, node), node, kernels)
        elif isinstance(node, ast.ClassDef) and any(
            _last_name(base) == "Function" for base in node.bases
        ):
            forward = next(
                (f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "forward"),
                None,
            )
            if forward is not None:
                function = _Function(f"{node.name}.apply", forward, is_bound=True)
                classes[node.name] = _with_calls(function, node, kernels)
                yield node.name, classes[node.name]
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            if not (isinstance(target, ast.Name) and isinstance(value, ast.Attribute)):
                continue
            named = classes.get(_last_name(value.value))
            if value.attr == "apply" and named is not None:
                alias = _Function(target.id, named.node, True, {_last_name(value.value)})
                yield target.id, alias


def _with_calls(function: _Function, node: ast.AST, kernels: Collection[str]) -> _Function:
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Call):
            continue
        called = inner.func
        if isinstance(called, ast.Subscript):
            # NAME[grid](...), wrap_triton(NAME)[grid](...)
            names = {_last_name(inside) for inside in ast.walk(called.value)}
            function.launches |= not names.isdisjoint(kernels)
        elif isinstance(called, ast.Attribute):
            owner = _last_name(called.value)
            function.launches |= called.attr in ("run", "warmup") and owner in kernels
            if called.attr == "apply":
                function.calls.add(owner)
        elif isinstance(called, ast.Name):
            function.calls.add(called.id)
    return function


def _last_name(node: ast.AST) -> str:
    """The last part of a dotted name; empty for any other expression."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


# --------------------------------------------------------------------------- arguments


def _call(function: _Function, file: _File) -> str:
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
        keyword + _argument(parameter, uses[parameter.arg], sizes)
        for parameter, keyword in arguments
    ]
    return f"{function.name}({', '.join(texts)})"


def _uses(function: _Function, parameter: ast.arg, file: _File) -> _Uses:
    uses = _Uses(parameter.arg, file)
    uses.read(function.node)
    return uses


def _argument(parameter: ast.arg, uses: _Uses, sizes: Mapping[Shape, str]) -> str:
    annotation = parameter.annotation
    annotated_type = _last_name(annotation) if annotation is not None else ""
    if annotated_type in SCALARS:
        return SCALARS[annotated_type]
    if annotated_type != "Tensor" and not uses.is_tensor and uses.is_number:
        is_float = any(float_name in parameter.arg for float_name in FLOAT_NAMES)
        return SCALARS["float" if is_float else "int"]
    rank = uses.rank if uses.rank is not None else max(2, uses.least_rank)
    extents_text = EXAMPLE_EXTENTS.get(rank, EXAMPLE_EXTENTS[4])
    shape = uses.shape or ()
    if shape and len(shape) >= uses.least_rank and uses.rank in (None, len(shape)):
        extents_text = sizes[shape]
    dtype = f", dtype={uses.dtype!r}" if uses.dtype is not None else ""
    return f"T({extents_text}{dtype})"


def _parameter(
    function: ast.FunctionDef | ast.AsyncFunctionDef, position: int | None, keyword: str | None
) -> str | None:
    names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    if position is None:
        return keyword if keyword in names else None
    return names[position] if position < len(names) else None


def _is_pointer(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether a kernel loads from, or stores to, what a parameter points at."""
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and node.args and _last_name(node.func) in ACCESSES:
            address_expressions: list[ast.AST] = [node.args[0]]
        elif isinstance(node, ast.AugAssign):  # x += ...
            address_expressions = [node.target]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
            target_name = _last_name(node.targets[0])  # pointers = x + ...
            is_address = target_name == name or target_name.lower().endswith(
                ("ptr", "ptrs", "pointers")
            )
            address_expressions = [node.value] if is_address else []
        else:
            continue
        if any(
            _last_name(inner) == name
            for address in address_expressions
            for inner in ast.walk(address)
        ):
            return True
    return name.lower().endswith(("ptr", "pointer"))


def _holds_indices(kernel: ast.FunctionDef, name: str) -> bool:
    """Whether values loaded through a parameter are used in an address or as a loop bound."""
    assignments = [
        (_last_name(node.targets[0]), node.value)
        for node in ast.walk(kernel)
        if isinstance(node, ast.Assign) and len(node.targets) == 1
    ]
    load_results = {target for target, value in assignments if any(_load_addresses(value))}
    address_expressions: list[ast.AST] = []
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and node.args and _last_name(node.func) in ACCESSES:
            address_expressions.append(node.args[0])
        elif isinstance(node, ast.Call) and _last_name(node.func) == "range":
            address_expressions += node.args
    parameters = [*kernel.args.posonlyargs, *kernel.args.args]
    pointers = {
        parameter.arg for parameter in parameters if _is_pointer(kernel, parameter.arg)
    } - load_results
    address_expressions += [
        value
        for target, value in assignments
        if target in pointers and isinstance(value, ast.BinOp)
    ]
    loaded: set[str] = set()
    count = -1
    while count != len(loaded):
        count = len(loaded)
        for target, value in assignments:
            loaded_nodes = {inner for load in _load_addresses(value) for inner in ast.walk(load)}
            loads_parameter = any(_last_name(inner) == name for inner in loaded_nodes)
            uses_loaded = any(
                _last_name(inner) in loaded for inner in {*ast.walk(value)} - loaded_nodes
            )
            if target and target not in pointers and (loads_parameter or uses_loaded):
                loaded.add(target)
    nested_loads = [load for place in address_expressions for load in _load_addresses(place)]
    if any(_last_name(inner) == name for load in nested_loads for inner in ast.walk(load)):
        return True
    return any(
        _last_name(inner) in loaded for place in address_expressions for inner in ast.walk(place)
    )


def _load_addresses(value: ast.AST) -> Iterator[ast.AST]:
    """The addresses that an expression loads from."""
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and node.args and _last_name(node.func) == "load":
            yield node.args[0]


class _Uses(ast.NodeVisitor):
    """What a function's text tells about one of its parameters: tensor or number, rank, dtype.

    Args:
        name: the parameter's name.
        file: the file's other functions, into which calls with the parameter are followed.
        depth: number of calls followed so far.
    """

    def __init__(self, name: str, file: _File, depth: int = 0) -> None:
        self._name = name
        self._file = file
        self._depth = depth
        self.is_tensor = self.is_number = False
        self.rank: int | None = None
        self.least_rank = 0
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
        taken_apart = bool(parts) and self._is_shape(node.value)
        if taken_apart and not any(isinstance(part, ast.Starred) for part in parts):
            self.rank = len(parts)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self._is_shape(node.value):
            self._note_index(node.slice)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func
        is_method_call = isinstance(called, ast.Attribute) and self._is_parameter(called.value)
        if is_method_call and node.args and _last_name(called) in ("size", "stride"):
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
            if isinstance(dtype, ast.Attribute) and _last_name(dtype.value) == "torch":
                self.dtype = dtype.attr
        if any(map(self._is_parameter, (left_side, *node.comparators))):
            constants = [o for o in (left_side, *node.comparators) if isinstance(o, ast.Constant)]
            self.is_number |= any(type(o.value) in (int, float) for o in constants)
        self.generic_visit(node)

    def _follow_argument(
        self, called: ast.AST, argument_index: int | None, keyword: str | None
    ) -> None:
        """Reads the called function or kernel, if it is in the file, for the parameter's use there.

        Args:
            called: the called expression.
            argument_index: index of the positional argument; None for a keyword argument.
            keyword: name of the keyword argument.
        """
        if self._depth >= MOST_FOLLOWED:
            return
        if isinstance(called, ast.Subscript):
            called_names = {_last_name(node) for node in ast.walk(called.value)}
            kernel = next(
                (self._file.kernels[name] for name in called_names & set(self._file.kernels)), None
            )
            name = _parameter(kernel, argument_index, keyword) if kernel is not None else None
            if kernel is not None and name is not None:
                if _is_pointer(kernel, name):
                    self.is_tensor = True
                else:
                    self.is_number = True
            return
        owner = (
            called.value if isinstance(called, ast.Attribute) and called.attr == "apply" else called
        )
        function = self._file.functions.get(_last_name(owner))
        if function is None:
            return
        position = argument_index + function.is_bound if argument_index is not None else None
        name = _parameter(function.node, position, keyword)
        if name is None:
            return
        callee_uses = _Uses(name, self._file, self._depth + 1)
        callee_uses.read(function.node)
        self.shape = self.shape or callee_uses.shape
        self.is_tensor |= callee_uses.is_tensor
        self.is_number |= callee_uses.is_number
        self.rank = self.rank if self.rank is not None else callee_uses.rank
        self.least_rank = max(self.least_rank, callee_uses.least_rank)
        self.dtype = self.dtype or callee_uses.dtype

    def _is_parameter(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == self._name

    def _is_shape(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):  # x.size()
            node = node.func
        return (
            isinstance(node, ast.Attribute)
            and node.attr in ("shape", "size")
            and self._is_parameter(node.value)
        )

    def _note_index(self, index: ast.AST) -> None:
        if isinstance(index, ast.Constant) and isinstance(index.value, int) and index.value >= 0:
            self.least_rank = max(self.least_rank, index.value + 1)
