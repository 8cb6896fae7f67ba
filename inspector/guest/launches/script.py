"""Runs a file so that it launches its kernels: as a script, as tests, or by stated calls."""

from __future__ import annotations

import importlib.util
import inspect
import io
import os
import re
import shlex
import sys
import tokenize
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from ..kernel_patterns import KernelFilter, choosing, command
from ..loading import as_main, import_file, make_imports_work
from ..records import Emit, error, one_line
from ..syntax import parse
from .endings import user_line
from .launching_code import (
    calls_that_launch,
    device_functions,
    files_that_launch,
    is_test,
    stated_arguments,
)
from .project import Project, is_own
from .request import ScriptRequest
from .tests import is_test_file, run_tests

MAX_CALLS = 4
"""How many functions a hint names."""
MAX_FILES = 2
"""How many files a hint names."""
MAX_NAMES = 6
"""How many kernels a message names."""
COMMENT = re.compile(r"#\s*kinspect:\s*call\s+(?P<call>.+)")
"""A comment that states a call to make in the file."""
ENTRIES = ("main", "run", "benchmark", "bench", "test")
"""Names of functions that are called where a file launched nothing, if they need no arguments."""


@dataclass
class Script:
    """One file, and how to run it.

    Args:
        project: the file and the user's other files.
        request: the run; the file's comments may state calls too.
        world: makes the tensors for calls.
        emit: takes errors of single calls and tests.
        kernel_filter: muted while the file is loaded only for its calls.
    """

    project: Project
    request: ScriptRequest
    world: Any
    emit: Emit
    kernel_filter: KernelFilter
    _module: ModuleType | None = None

    def read(self) -> Callable[[], None]:
        """Reads the file; returns the function that runs it, to be called in the stand-in world.

        Raises:
            OSError: the file cannot be read.
        """
        path = self.project.path
        with open(path, "rb") as stream:
            source = stream.read()
        calls = self.request.calls or stated_calls(source)
        if calls:
            return lambda: self._call(calls)
        if is_test_file(path, source):
            return self._test
        return self._run

    def try_harder(self) -> None:
        """Runs benchmarks, likely functions and tests, where the main part launched nothing."""
        module = self._module
        if module is None:
            return
        values = list(vars(module).values())
        testing: Any = importlib.import_module("triton.testing")
        mark = getattr(testing, "Mark", None)
        for value in values:
            if mark is not None and isinstance(value, mark):
                self._try(value.run)
        own_functions = [
            v for v in values if isinstance(v, FunctionType) and v.__module__ == module.__name__
        ]
        for function in own_functions:
            if function.__name__ in ENTRIES and not _required_parameters(function):
                self._try(function)
        if any(function.__name__.startswith("test_") for function in own_functions):
            run_tests(self.project.path, self.emit, self.request.max_sets)

    def explain(self, failure: BaseException) -> None:
        """Prints a traceback without our own frames to the script's own output."""
        if isinstance(failure, (SyntaxError, SystemExit)):
            return  # the error's message says everything
        trace = failure.__traceback__
        while trace is not None and not self.project.owns_code(trace.tb_frame.f_code):
            trace = trace.tb_next
        told = traceback.TracebackException(type(failure), failure, trace)
        pending: list[traceback.TracebackException | None] = [told]
        while pending:
            link = pending.pop()
            if link is not None:
                frames = [frame for frame in link.stack if not is_own(frame.filename)]
                link.stack = traceback.StackSummary.from_list(frames)
                pending += [link.__cause__, link.__context__]
        sys.stderr.write("".join(told.format()))

    def nothing_launched(
        self, other_kernels: Iterable[str], patterns: Sequence[str]
    ) -> dict[str, Any]:
        """The error of a file that launched no kernel, or none that a pattern selects."""
        path = self.project.path
        home, launched = self.request.home, list(other_kernels)
        if launched:
            selection = " and ".join(map(repr, patterns))
            message = f"{path}: no kernel it launches matches {selection}"
            hint = f"it launches {_shortened(launched)}: {choosing(path, home, patterns, launched)}"
            return error("capture", message, hint, ran_well=True)
        names = self._defined_kernels()
        if not names:
            message = f"{path} neither launches nor defines a @triton.jit kernel"
            hint = "name the file that launches the kernels; what can be named says"
            hint += " `kinspect analyze --help`"
            return error("capture", message, hint, ran_well=True)
        kernels = [name for name in names if name not in self._device_functions(path, names)]
        if not kernels:
            message = f"{path} has no kernel, only what kernels call: {_shortened(names)}"
            hint = "name a file that launches a kernel; what can be named says"
            hint += " `kinspect analyze --help`"
            return error("capture", message, hint, ran_well=True)
        message = f"{path} launched nothing; it defines {_shortened(kernels)}"
        ways, files = self._suggestions(path, kernels)
        start = ["give the script arguments after --", "state cases as KINSPECT_CASES"]
        hint = "; or ".join([*start, *ways])
        return error("capture", message, hint, ran_well=True, launchers=files)

    def _device_functions(self, path: str, names: Sequence[str]) -> set[str]:
        try:
            with open(path, "rb") as stream:
                return device_functions(parse(stream.read(), path), names)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            return set()

    def _suggestions(self, path: str, kernels: Sequence[str]) -> tuple[list[str], list[str]]:
        """Commands: a call, the types of the arguments, or a file that launches the kernels; and
        all such files.
        """
        home = self.request.home
        try:
            with open(path, "rb") as stream:
                tree = parse(stream.read(), path)
            calls = calls_that_launch(tree, kernels)
            kernel, arguments, signature = stated_arguments(tree, kernels)
            files = files_that_launch(path, {*calls, *kernels})
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError, IndexError):
            return ["name a file that launches them"], []
        ways = []
        if calls:
            named = [*calls.values()][:MAX_CALLS]
            others = f" (or {', '.join(named[1:])})" if named[1:] else ""
            ways.append(
                f"say what to call{others}, T(2, 1024, 64, dtype='bf16') being a tensor: "
                f"{command(path, home, '--call', shlex.quote(named[0]))}"
            )
        if not files:
            options = ("--signature", shlex.quote(signature))
            ways.append(
                f"state types and values of {arguments}, with yours in place of these: "
                f"{command(f'{path}::{kernel}', home, *options)}"
            )
        if importlib.util.find_spec("pytest") is None:
            files.sort(key=lambda runner: is_test(runner.file))
        told = files[:MAX_FILES]
        if told:
            # The likeliest is the last: it is a line of its own.
            by = told[0].by and os.path.relpath(told[0].by, home)
            way = f"it is launched by {by}, which a file calls" if by else "run a file that uses it"
            further = [os.path.relpath(runner.file, home) for runner in told[1:]]
            also = f", {' or '.join(further)} or" if further else ""
            ways.append(f"{way}{also}: {command(told[0].file, home)}")
        return ways, [runner.file for runner in files]

    def _run(self) -> None:
        _ignore_breakpoints()
        path = self.project.path
        sys.argv = [path, *self.request.argv]
        module = self._module = as_main(path)
        exec(self.project.compile_file(path), module.__dict__)

    def _test(self) -> None:
        sys.argv = [self.project.path]
        make_imports_work(self.project.path)
        run_tests(self.project.path, self.emit, self.request.max_sets)

    def _call(self, calls: Sequence[str]) -> None:
        self.kernel_filter.muted = True  # launches of the file itself are left out
        module = import_file(self.project.path)
        self.kernel_filter.muted = False
        sys.argv = [self.project.path, *self.request.argv]
        make_calls(calls, module, self.world.tensor, self.project, self.emit)

    def _try(self, function: Callable[[], Any]) -> None:
        try:
            function()
        except Exception as failure:
            name = getattr(function, "__name__", "benchmark")
            site = user_line(failure, self.project)
            message = f"{name}() ended with {type(failure).__name__}: {failure}"
            self.emit(error("capture", message, "call what works with --call", place=site))

    def _defined_kernels(self) -> list[str]:
        jit: Any = importlib.import_module("triton.runtime.jit")
        # Triton 3.7 and newer register all JITFunctions.
        functions = list(getattr(jit, "_triton_jit_function_registry", {}).values())
        module_values = vars(self._module).values() if self._module is not None else ()
        functions += [
            value
            for value in map(_undecorated, module_values)
            if isinstance(value, jit.JITFunction)
        ]
        path = os.path.realpath(self.project.path)
        return sorted(
            {f.__name__ for f in functions if os.path.realpath(f.fn.__code__.co_filename) == path}
        )


def _undecorated(value: Any) -> Any:
    while type(value).__module__.startswith("triton.runtime") and hasattr(value, "fn"):
        inner = value.fn
        if not hasattr(inner, "fn"):  # the function itself
            break
        value = inner
    return value


def _shortened(names: Sequence[str]) -> str:
    remainder = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + remainder


def _ignore_breakpoints() -> None:
    """Disables breakpoints: stdin is empty, so a debugger would read its end and quit."""

    def pass_by(*args: Any, **kwargs: Any) -> None:
        return None

    sys.breakpointhook = pass_by
    debugger: Any = importlib.import_module("pdb")
    debugger.set_trace = debugger.Pdb.set_trace = pass_by


def _required_parameters(function: FunctionType) -> list[str]:
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind in kinds]


def stated_calls(source: bytes) -> list[str]:
    """The calls that a file's comments state; none where it cannot be tokenised."""
    if b"kinspect:" not in source:
        return []
    try:
        parse(source)  # on some invalid files Python's tokenizer would take minutes
        tokens = list(tokenize.tokenize(io.BytesIO(source).readline))
    except (tokenize.TokenError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    comments = [t.string for t in tokens if t.type == tokenize.COMMENT]
    matches = [COMMENT.match(text) for text in comments]
    return [match["call"].strip() for match in matches if match is not None]


def make_calls(
    calls: Sequence[str], module: ModuleType, tensor: Any, project: Project, emit: Emit
) -> None:
    """Evaluates each call; one that fails does not prevent the others."""
    helpers: dict[str, Any] = {"T": tensor}
    for name in ("torch", "triton"):
        try:
            helpers[name] = importlib.import_module(name)
        except ImportError:
            continue
    for text in calls:
        namespace = {**helpers, **module.__dict__, "T": tensor}
        try:
            exec(compile(text, "<call>", "exec"), namespace)
        except Exception as failure:
            site = user_line(failure, project) or f"--call {text!r}"
            hint = (
                "it is evaluated where the file's names are known; "
                "T(2, 1024, 64, dtype='bf16') makes a tensor"
            )
            message = f"the call {text!r} ended with {type(failure).__name__}: {one_line(failure)}"
            emit(error("capture", message, hint, place=site))
