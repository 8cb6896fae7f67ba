"""The code that launches a file's kernels, for the hint where the file itself launches none."""

from __future__ import annotations

import ast
import functools
import os
import re
from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from typing import NamedTuple

from ..checkout import checkout_of, folders_in
from ..syntax import parse

MAX_FILES = 3000
"""Python files of a checkout that are looked at."""
MAX_BYTES = 1 << 20
"""Longer files are not read: they are data."""
_AROUND = re.compile(r"^(?:test|bench|benchmark|example)_|_(?:test|tests|bench|benchmark|example)$")
"""What the name of a test, benchmark or example has besides that of what it runs."""


def calls_that_launch(tree: ast.Module, kernels: Collection[str]) -> dict[str, str]:
    """The names at the top of a file that lead to a launch and that no other such name uses.

    Returns:
        Name -> its call with the names of its parameters, as `norm(x, weight, eps)`.
    """
    calls: dict[str, str] = {}
    used: dict[str, set[str]] = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name not in kernels:
            name, calls[node.name] = node.name, f"{node.name}({_parameters(node)})"
        elif isinstance(node, ast.ClassDef):
            name = node.name
            forward = next(
                (f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "forward"),
                None,
            )
            if forward is None:
                continue
            applied = any(_names(base) & {"Function"} for base in node.bases)
            calls[name] = f"{name}{'.apply' if applied else '()'}({_parameters(forward)})"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id  # `norm = Norm.apply`
            owner = next(
                (
                    n
                    for n in calls
                    if isinstance(node.value, ast.Attribute) and _names(node.value.value) == {n}
                ),
                None,
            )
            if owner is None:
                continue
            calls[name] = name + calls[owner].partition(".apply")[2]
        else:
            continue
        used[name] = _names(node) - {name}
    leading: set[str] = set()
    while added := {n for n in used if used[n] & {*kernels, *leading}} - leading:
        leading |= added
    inner = {n for caller in leading for n in used[caller]}
    outer = [n for n in calls if n in leading - inner] or sorted(leading)
    return {n: calls[n] for n in sorted(outer, key=lambda n: n.startswith("_"))}


def device_functions(tree: ast.Module, kernels: Collection[str]) -> set[str]:
    """Those of a file's `@triton.jit` functions that are no kernels.

    Others of them call these, or they return a value.
    """
    nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in kernels]
    called = {
        inner.id
        for node in nodes
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and inner.id != node.name
    }
    return {n.name for n in nodes if n.name in called or any(map(_returns, ast.walk(n)))}


def _returns(node: ast.AST) -> bool:
    return isinstance(node, ast.Return) and node.value is not None


def stated_arguments(tree: ast.Module, kernels: Collection[str]) -> tuple[str, str, str]:
    """The last kernel of a file.

    Returns:
        Its name, the names of its arguments, as text, and a --signature that may fit.
    """
    nodes = [n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name in kernels]
    kernel = [node for node in nodes if node.name not in device_functions(tree, kernels)][-1]
    parameters = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    pointers = _pointers(kernel)
    texts = []
    for parameter in parameters:
        if parameter.annotation and "constexpr" in _names(parameter.annotation):
            texts.append("64")
        else:
            texts.append("*fp16:16" if parameter.arg in pointers else "i32")
    return kernel.name, ", ".join(p.arg for p in parameters), ", ".join(texts)


def _pointers(kernel: ast.FunctionDef) -> set[str]:
    """The names in a kernel that are loaded from or stored to, and those that these begin with."""
    found: set[str] = set()
    origins: dict[str, set[str]] = {}
    for node in ast.walk(kernel):
        if isinstance(node, ast.Call) and node.args and isinstance(node.func, ast.Attribute):
            if re.match(r"load|store|atomic_|make_", node.func.attr):
                found.add(_first_name(node.args[0]))
        elif isinstance(node, ast.Assign):
            origins.setdefault(_first_name(node.targets[0]), set()).add(_first_name(node.value))
    while added := {name for n in found for name in origins.get(n, ())} - found:
        found |= added
    return found


def _first_name(node: ast.AST) -> str:
    """The leftmost name of a sum or call, as that of `x + row * stride`; empty without one."""
    while isinstance(node, (ast.BinOp, ast.Subscript)):
        node = node.left if isinstance(node, ast.BinOp) else node.value
    if isinstance(node, ast.Call) and node.args:
        return _first_name(node.args[0])
    return node.id if isinstance(node, ast.Name) else ""


class Runner(NamedTuple):
    """A file that runs by itself and leads to a launch.

    `by`: `file:line` of the code between that uses the file with the kernels; None without any.
    """

    file: str
    by: str | None


def files_that_launch(path: str, names: Collection[str]) -> list[Runner]:
    """The files of a checkout that run by themselves and use one of these names of a file.

    A library between is looked through, one deep. Files that are called like this one come first,
    then scripts before tests; of each the nearest. They are found by their text: whether they
    launch anything is seen when they run.
    """
    path = os.path.realpath(path)
    top, package = checkout_of(path)
    texts = {file: _text(file) for file in islice(_python_files(top), MAX_FILES) if file != path}
    direct = _users(texts, [path], package, names)
    between: dict[str, str] = {}
    for file in direct:
        if not _runs_alone(file, texts[file]):
            between.update(_definitions_that_use(file, texts[file], names))
    modules = [by.rpartition(":")[0] for by in between.values()]
    indirect = _users(texts, modules, package, between) if between else []
    found = {file: Runner(file, None) for file in direct if _runs_alone(file, texts[file])}
    for file in indirect:
        if _runs_alone(file, texts[file]):
            used = next(name for name in between if re.search(rf"\b{name}\b", texts[file]))
            found.setdefault(file, Runner(file, between[used]))
    return sorted(found.values(), key=functools.partial(_order, path))


def _users(
    texts: Mapping[str, str], modules: Collection[str], package: str | None, names: Collection[str]
) -> list[str]:
    """The files that import one of these files, or their package, and have one of these words."""
    stems = (os.path.splitext(os.path.basename(module))[0] for module in modules)
    sources = "|".join(sorted(map(re.escape, filter(None, {*stems, package}))))
    imported = re.compile(rf"^\s*(?:from|import)\s+[\w.]*\b(?:{sources})\b", re.MULTILINE)
    word = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b")
    return [file for file, text in texts.items() if imported.search(text) and word.search(text)]


def _runs_alone(file: str, text: str) -> bool:
    return is_test(file) or "__main__" in text


def is_test(file: str) -> bool:
    """Whether a file is called as tests are."""
    return os.path.basename(file).startswith("test_") or file.endswith("_test.py")


def _definitions_that_use(file: str, text: str, names: Collection[str]) -> dict[str, str]:
    try:
        tree = parse(text.encode(), file)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found: dict[str, str] = {}
    for node in getattr(tree, "body", ()):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for inner in ast.walk(node):
                name = getattr(inner, "id", None) or getattr(inner, "attr", None)
                if name in names and node.name not in names:
                    found.setdefault(node.name, f"{file}:{getattr(inner, 'lineno', node.lineno)}")
    return found


def _order(path: str, runner: Runner) -> tuple[bool, bool, bool, int, str]:
    stem, name = (os.path.splitext(os.path.basename(f))[0].strip("_") for f in (path, runner.file))
    is_named_so = _AROUND.sub("", name) == stem
    distance = os.path.relpath(runner.file, os.path.dirname(path)).count(os.sep)
    return not is_named_so, is_test(runner.file), runner.by is not None, distance, runner.file


def _python_files(folder: str) -> Iterator[str]:
    pending = [folder]
    while pending:
        folder = pending.pop(0)
        try:
            with os.scandir(folder) as entries:
                yield from sorted(
                    e.path
                    for e in entries
                    if e.name.endswith(".py")
                    and e.is_file(follow_symlinks=False)
                    and e.stat(follow_symlinks=False).st_size <= MAX_BYTES
                )
        except OSError:
            continue
        pending += folders_in(folder)


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def _names(node: ast.AST) -> set[str]:
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return found | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """The parameters that have no default, without `self` and `ctx`."""
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = [a.arg for a in positional[: len(positional) - len(arguments.defaults)]]
    needed += [
        f"{a.arg}={a.arg}"
        for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults)
        if default is None
    ]
    return ", ".join(needed[1:] if needed[:1] in (["self"], ["ctx"]) else needed)
