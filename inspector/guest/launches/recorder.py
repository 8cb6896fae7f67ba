"""Stands in for `triton.compile` and records each specialisation that a launch asks for.

Triton's own `JITFunction.run` does the rest: it binds and specialises the arguments, parses the
options, calls the compiler and evaluates the grid. So the compiler's input is exactly what it would
be on a machine with the GPU.
"""

from __future__ import annotations

import ast
import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from ..cases.case import did_you_mean
from ..failures import front_end_error
from ..frontend import definition, lower, unspecialised
from ..lowering import UnknownOptionError, target
from ..records import Emit, error, note
from ..world.assumptions import LOG
from .kernel import StandInKernel, replace_compiler
from .passed import passed
from .readback import Launch
from .writes import written_by_source, written_places

LAUNCHER = "triton.runtime.jit"
"""Module of `JITFunction.run`, the only caller that specialises arguments by their values."""
MOST_GRIDS = 16
"""Most different grids that are recorded for one specialisation."""


@dataclass
class Origin:
    """Where a specialisation came from, apart from the compiler's own input.

    Args:
        tuning: the autotuner's configuration, or the point of a sweep.
        notes: changes that were needed to compile it at all, such as dropped options.
    """

    tuning: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Specialisation:
    """One kernel for one set of types, constants and options.

    Args:
        key: hash that identifies it.
        selected: whether the user asked for this kernel.
        pending: its record until it is written out; then None.
        launches: number of launches so far.
        types: types of its arguments; `constexpr` for those that are not parameters of its TTIR.
        written_places: indices, among the TTIR's parameters, of the pointers that it writes to;
            None if it may write to any.
        grids: grid -> number of launches.
        names: names of its arguments.
    """

    key: str
    selected: bool = False
    pending: dict[str, Any] | None = None
    launches: int = 0
    types: tuple[Any, ...] = ()
    written_places: frozenset[int] | None = None
    grids: dict[tuple[int, ...], int] = field(default_factory=dict)
    names: tuple[str, ...] = ()


class Recorder:
    """Takes the place of Triton's compiler in a script.

    Args:
        arch: gfx name of the target.
        emit: takes the records.
        suspended: makes a context with the unpatched torch, for Triton's front end.
        origin: called for each new specialisation; says where it comes from.
        is_selected: (name, qualified name) -> whether the user asked for that kernel.
        finished: keys of specialisations that an earlier run recorded, or crashed at.
        launched: called with each launch.
        generated: folders of code that a compiler generated.
        only_new: launches of `finished` specialisations were counted before: do not report them.
        arguments: whether to record the arguments of each specialisation's first launch.
    """

    def __init__(
        self,
        arch: str,
        emit: Emit,
        suspended: Callable[[], AbstractContextManager[None]],
        origin: Callable[[], Origin],
        is_selected: Callable[[str, str], bool],
        finished: Collection[str] = (),
        launched: Callable[[Launch], None] = lambda launch: None,
        generated: Sequence[str] = (),
        *,
        only_new: bool = False,
        arguments: bool = False,
    ) -> None:
        self.arch = arch
        self.captured = 0
        self.failed = 0
        self.refused = 0
        self.launched = 0
        self.busy = False
        self._emit = emit
        self._suspended = suspended
        self._origin = origin
        self._is_selected = is_selected
        self._finished = frozenset(finished)
        self._report_launch = launched
        self._only_new = only_new
        self._arguments = arguments
        self._sites = Sites(generated)
        self._by_key: dict[str, Specialisation] = {}
        self._target = target(arch)
        compiler = importlib.import_module("triton.compiler.compiler")
        self._compile = compiler.compile
        backend = compiler.make_backend(self._target)
        self._defaults: dict[str, Any] = dict(backend.parse_options({}).__dict__)

    def install(self) -> None:
        """Replaces Triton's compiler by `compile`."""
        replace_compiler(self.compile)

    def compile(
        self, src: Any, target: Any = None, options: Any = None, _env_vars: Any = None
    ) -> Any:
        """Called by launches; same parameters and kind of result as `triton.compile`."""
        self.busy = True
        try:
            # Other callers (Inductor, Helion) pass types and attributes that they chose themselves.
            caller = sys._getframe(1).f_globals.get("__name__")
            return self._stand_in_kernel(src, dict(options or {}), by_launch=caller == LAUNCHER)
        finally:
            self.busy = False

    def _stand_in_kernel(self, src: Any, options: Mapping[str, Any], *, by_launch: bool) -> Any:
        self.flush()
        function = getattr(src, "fn", None)
        if function is None:  # the path of an IR file
            return self._compile(src, target=self._target, options=dict(options))
        stated = {
            name: value
            for name, value in options.items()
            if name not in self._defaults or value != self._defaults[name]
        }
        with self._suspended():
            key = self._key(src, stated)
            spec = self._by_key.get(key)
            if spec is None:
                spec = self._by_key[key] = Specialisation(key)
            if not spec.selected and self._is_selected(function.__name__, _qualname(function)):
                spec.selected = True
                self._record(spec, src, function, stated, by_launch=by_launch)
        return StandInKernel(
            src.name,
            lambda grid, values: self._launched(spec, src, stated, grid, values),
            lambda: self._really_compile(src, stated),
        )

    def flush(self) -> None:
        """Writes out the specialisations that were compiled but not launched so far."""
        for spec in self._by_key.values():
            self._write(spec, None)

    def expect(self, count: int) -> None:
        """Adds to the count: specialisations in code that torch.compile generated."""
        self.captured += count

    def finish(self) -> None:
        """Writes out what is still pending once the script has ended."""
        self.flush()
        launches = {
            spec.key: {
                "count": spec.launches,
                "grids": [[list(grid), count] for grid, count in spec.grids.items()],
            }
            for spec in self._by_key.values()
            if spec.selected and not (self._only_new and spec.key in self._finished)
        }
        self._emit({"launches": launches, "arch": self.arch})

    def _record(
        self,
        spec: Specialisation,
        src: Any,
        function: Any,
        stated: Mapping[str, Any],
        *,
        by_launch: bool,
    ) -> None:
        if spec.key in self._finished:
            self.captured += 1
            if self._only_new:  # otherwise the front end may have crashed on it
                with contextlib.suppress(Exception):
                    _note_arguments(spec, src, lower(src, self.arch, stated)["ttir"])
            return
        name = function.__name__
        origin = self._origin()
        self._emit({"begin": spec.key, "kernel": name, "arch": self.arch})
        try:
            file, line = definition(function)
            variant = lower(src, self.arch, stated)
        except UnknownOptionError as failure:
            suggestion = did_you_mean(failure.names, failure.option_names)
            message = f"this Triton has no option {failure}{suggestion}"
            hint = "its options are " + ", ".join(failure.option_names)
            self._fail(error("frontend", message, hint, name, arch=self.arch))
        except Exception as failure:
            # Not raised in the script, which would then end before its other kernels.
            record = front_end_error(
                failure, name, _tuning_text(origin.tuning), self.arch, [function]
            )
            if type(failure).__name__ == "CompileTimeAssertionFailure" and origin.tuning:
                # Triton's autotuner silently skips a configuration that fails like this.
                summary = f"{name}[{record['error']['case']}] is refused by the kernel itself"
                self.refused += 1
                self._emit(note(f"{summary}: {record['error']['message']}"))
                raise
            _note_arguments(spec, src, None)
            self._fail(record)
        else:
            variant.update(
                key=spec.key,
                kernel=name,
                case=None,
                qualname=_qualname(function),
                file=file,
                line=line,
                call_site=self._sites.current(),
                tuning=dict(origin.tuning) if origin.tuning else None,
                notes=[*variant["notes"], *origin.notes],
                assumptions=LOG.records(),
                emulated=LOG.emulated_records(),
                unspecialised=unspecialised(function) if by_launch else None,
            )
            _note_arguments(spec, src, variant["ttir"])
            spec.pending = variant
            self.captured += 1

    def _fail(self, record: dict[str, Any]) -> None:
        self.failed += 1
        self._emit(record)

    def _launched(
        self,
        spec: Specialisation,
        src: Any,
        stated: Mapping[str, Any],
        grid: tuple[int, ...],
        values: Sequence[Any],
    ) -> None:
        self.launched += 1
        if self._arguments and spec.pending is not None and len(values) >= len(spec.types) > 0:
            # Before `launched` marks what the kernel overwrites as unknown.
            spec.pending["passed"] = passed(spec.types, values[len(values) - len(spec.types) :])
        types = spec.types or tuple(src.signature.values())
        launch = Launch(spec.key, src, stated, types, spec.written_places, grid, values)
        self._report_launch(launch)
        if not spec.selected:
            return
        if spec.pending is not None and len(values) >= len(spec.names) > 0:
            named_values = zip(spec.names, spec.types, values[len(values) - len(spec.names) :])
            spec.pending["values"] = {
                name: int(value)
                for name, kind, value in named_values
                if kind != "constexpr" and type(value) in (bool, int)
            }
        spec.launches += 1
        if grid in spec.grids or len(spec.grids) < MOST_GRIDS:
            spec.grids[grid] = spec.grids.get(grid, 0) + 1
        self._write(spec, grid)

    def _write(self, spec: Specialisation, grid: tuple[int, ...] | None) -> None:
        variant, spec.pending = spec.pending, None
        if variant is not None:
            variant["grid"] = list(grid) if grid is not None else None
            self._emit({"variant": variant})

    def _key(self, src: Any, stated: Mapping[str, Any]) -> str:
        options = sorted((name, repr(value)) for name, value in stated.items())
        try:
            source = src.hash()
        except Exception:
            # Triton may fail to find the kernel's dependencies; the front end then reports why.
            source = repr((id(src.fn), src.signature, src.constants, src.attrs))
        return hashlib.sha256(repr((source, options)).encode()).hexdigest()

    def _really_compile(self, src: Any, stated: Mapping[str, Any]) -> Any:
        with self._suspended():
            return self._compile(src, target=self._target, options=dict(stated))


def _note_arguments(spec: Specialisation, src: Any, ttir: str | None) -> None:
    """Stores the types and names of a kernel's arguments, and which of them it writes to.

    Args:
        spec: the specialisation; takes the results.
        src: the compiler's input.
        ttir: its TTIR; None if the front end refused it, in which case the source is read instead.
    """
    spec.types = tuple(src.signature.values())
    spec.names = tuple(src.signature)
    if not all(isinstance(kind, str) for kind in spec.types):  # a tuple is several parameters
        return
    if ttir is not None:
        spec.written_places = written_places(ttir)
        return
    with contextlib.suppress(SyntaxError, TypeError, AttributeError, OSError):
        tree = ast.parse(textwrap.dedent(src.fn.src))
        names = written_by_source(
            next(node for node in tree.body if isinstance(node, ast.FunctionDef))
        )
        parameter_names = [
            name for name, kind in zip(spec.names, spec.types) if kind != "constexpr"
        ]
        spec.written_places = frozenset(
            index for index, name in enumerate(parameter_names) if name in names
        )


def _qualname(function: Any) -> str:
    return str(getattr(function.fn, "__qualname__", function.__name__))


def _tuning_text(tuning: Mapping[str, Any] | None) -> str | None:
    return ", ".join(f"{k}={v}" for k, v in tuning.items()) if tuning else None


# ----------------------------------------------------------------------- where it was launched


LIBRARIES = ("triton", "torch", "helion")


class Sites:
    """Finds call sites: the first frame outside of Triton, PyTorch, Helion and this package.

    Args:
        generated: folders of code that a compiler generated, which is not the user's.
    """

    def __init__(self, generated: Sequence[str] = ()) -> None:
        folders = [*generated, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        for name in LIBRARIES:
            spec = importlib.util.find_spec(name)
            folders += list(spec.submodule_search_locations or ()) if spec is not None else []
        self._libraries = tuple(os.path.join(os.path.abspath(f), "") for f in folders)
        self._users_files: dict[str, bool] = {}

    def current(self) -> dict[str, Any] | None:
        """`{"file", "line"}` of the user's code that is launching; None if there is none.

        Frames of code without a file (`exec` of a string) are skipped.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            users = self._users_files.get(name)
            if users is None:
                users = self._users_files[name] = self._is_users(name)
            if users:
                return {"file": os.path.abspath(name), "line": frame.f_lineno}
            frame = frame.f_back
        return None

    def _is_users(self, name: str) -> bool:
        return not name.startswith("<") and not os.path.abspath(name).startswith(self._libraries)
