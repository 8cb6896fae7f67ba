"""Finds the kernels in a file of TorchInductor's generated code.

Two sorts of files: the wrapper (`output_code.py`), which holds each kernel's source as a string and
launches them from `call()`, and the single-kernel modules that Inductor writes into its cache.
Nothing of them is run to find that out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..syntax import Construction, UnreadableError, dotted, parse, read

HEURISTICS = frozenset(
    {
        "pointwise",
        "reduction",
        "persistent_reduction",
        "cooperative_reduction",
        "split_scan",
        "template",
        "foreach",
        "user_autotune",
        "fixed_config",
    }
)
"""Decorators with which Inductor says how a kernel's block sizes are chosen."""
USERS = "user_autotune"
"""Decorator of the user's own kernels, which Inductor calls and has not written."""
UNNAMED = frozenset({"triton_", "triton", "Placeholder.DESCRIPTIVE_NAME"})
KERNEL_PATH = re.compile(r"#\s*kernel path:\s*(\S+\.py)\s*$")
NODES = re.compile(r"#.*Source Nodes:\s*\[([^\]]*)\]")
ORIGINS = re.compile(r"#.*Original ATen:\s*\[([^\]]*)\]")
MAX_COMMENT_LINES = 200
"""Lines of comment above a kernel that may name its path (a graph fragment can be long)."""


class SourceError(Exception):
    """A file, or a kernel in it, that cannot be read: a one-line message and a hint."""

    def __init__(self, message: str, hint: str, line: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line


@dataclass(frozen=True)
class KernelSource:
    """One kernel's source and what its decorator says.

    Args:
        name: what the wrapper calls it, the function's own name otherwise.
        verbatim: whether the lines of `text` are lines of the file.
        stored_at: path of the single-kernel module that Inductor wrote; None if not stated.
        origins: the operators it was fused from, as the comment above it lists them.
    """

    name: str
    function: str
    text: str
    line: int
    verbatim: bool
    heuristic: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    stored_at: str | None = None
    origins: str = ""
    nodes: tuple[str, ...] = ()


def kernels_of(text: str, path: str) -> Iterator[KernelSource | SourceError]:
    """The kernels of a file, in its order; an error for each one that cannot be read.

    Raises:
        SourceError: the file is not Python.
    """
    tree = parsed(text, path, 1)
    lines = text.split("\n")
    sources = list(_sources(tree))
    for variable, call, inner in sources:
        yield _wrapped_kernel(path, lines, variable, call, inner)
    if not sources:
        for node in _decorated(tree):
            yield _kernel_source(node, path, variable=node.name, text=text, line=1, verbatim=True)


def parsed(text: str, path: str, line: int) -> ast.Module:
    """The syntax tree of a module that begins at `line` of a file.

    Raises:
        SourceError: it is not Python.
    """
    try:
        tree = parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # MemoryError: brackets or operators nested beyond what the parser goes down.
        error_line = (getattr(error, "lineno", None) or 1) + line - 1
        raise SourceError(
            f"{path}:{error_line}: {type(error).__name__}: {getattr(error, 'msg', error)}",
            "mend the file",
        ) from None
    ast.increment_lineno(tree, line - 1)
    return tree


def heuristic_of(node: ast.FunctionDef) -> ast.Call | None:
    """The decorator that says how a kernel's block sizes are chosen; None without one."""
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call):
            name = dotted(decorator.func) or ""
            if name.rpartition(".")[2] in HEURISTICS:
                return decorator
    return None


def _sources(tree: ast.Module) -> Iterator[tuple[str, ast.Call, tuple[str, int]]]:
    """Variable, call, source and its line of every `x = async_compile.triton([name,] source)`."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        call = node.value
        target = node.targets[0]
        if dotted(call.func) != "async_compile.triton" or not isinstance(target, ast.Name):
            continue
        texts = [*call.args, *(k.value for k in call.keywords if k.arg == "source_code")]
        strings = [
            (a.value, a.lineno)
            for a in texts
            if isinstance(a, ast.Constant) and isinstance(a.value, str)
        ]
        if strings:
            # Before torch 2.1 the source was the only argument; then the name came first.
            yield target.id, call, max(strings, key=lambda s: len(s[0]))


def _wrapped_kernel(
    path: str, lines: list[str], variable: str, call: ast.Call, inner: tuple[str, int]
) -> KernelSource | SourceError:
    """A kernel of a wrapper, or why it cannot be read."""
    text, line = inner
    try:
        decorated = _decorated(parsed(text, path, line))
        if not decorated:
            raise SourceError(
                f"{path}:{line}: no function with one of Inductor's decorators in its source",
                "kinspect reads sources made by torch 2.0 or newer for Triton",
            )
        return _kernel_source(
            decorated[0],
            path,
            variable=variable,
            text=text,
            line=line,
            verbatim=_is_verbatim(lines, line, text),
            comment=_comment_above(lines, call.lineno),
        )
    except SourceError as error:
        return SourceError(f"kernel {variable}: {error.message}", error.hint, call.lineno)


def _kernel_source(
    node: ast.FunctionDef,
    path: str,
    *,
    variable: str,
    text: str,
    line: int,
    verbatim: bool,
    comment: Sequence[str] = (),
) -> KernelSource:
    """A kernel's source with what its decorator and the comment above it say."""
    heuristic, keywords = _decorator_arguments(node, path)
    stated = (keywords.get("inductor_meta") or {}).get("kernel_name")
    names = [variable, stated, node.name]
    nodes = _stated(NODES, comment) or ""
    return KernelSource(
        name=next((n for n in names if isinstance(n, str) and n not in UNNAMED), node.name),
        function=node.name,
        text=text,
        line=line,
        verbatim=verbatim,
        heuristic=heuristic,
        keywords=keywords,
        stored_at=_stated(KERNEL_PATH, comment),
        origins=_stated(ORIGINS, comment) or "",
        nodes=tuple(name.strip() for name in nodes.split(",") if name.strip()),
    )


def _stated(pattern: re.Pattern[str], comment: Sequence[str]) -> str | None:
    """What the first line of a comment that fits a pattern states: the pattern's group."""
    return next((match[1] for match in map(pattern.search, comment) if match), None)


def _decorator_arguments(node: ast.FunctionDef, path: str) -> tuple[str, dict[str, Any]]:
    """The name and the keyword arguments of a kernel's decorator."""
    decorator = heuristic_of(node)
    assert decorator is not None  # see `_decorated`
    try:
        call = read(decorator)
    except UnreadableError as error:
        raise SourceError(
            f"{path}:{decorator.lineno}: not plain data: {error}", "restore what Inductor wrote"
        ) from None
    assert isinstance(call, Construction)
    keywords = dict(call.kwargs)
    if call.args:  # never more than the first: size_hints, or the configs of a user's kernel
        is_users = "configs" in call.name or "user" in call.name
        keywords.setdefault("configs" if is_users else "size_hints", call.args[0])
    return call.name.rpartition(".")[2], keywords


def _decorated(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module that have one of Inductor's decorators."""
    return [n for n in tree.body if isinstance(n, ast.FunctionDef) and heuristic_of(n) is not None]


def _is_verbatim(lines: list[str], line: int, text: str) -> bool:
    """Whether a string's lines are the file's own from `line` on, apart from the quotes."""
    inner = text.split("\n")
    if len(inner) == 1 or line - 1 + len(inner) > len(lines):
        return False
    middle = lines[line : line + len(inner) - 2]
    return lines[line - 1].endswith(inner[0]) and middle == inner[1:-1]


def _comment_above(lines: list[str], line: int) -> list[str]:
    """The lines of comment that end right above a line, last one first."""
    comments = []
    for text in reversed(lines[max(0, line - 1 - MAX_COMMENT_LINES) : line - 1]):
        if not text.startswith("#"):
            break
        comments.append(text)
    return comments
