"""Takes the place of `triton.compile`: records what a launch asks for, and what it passes.

Triton's own `JITFunction.run` does everything else: it binds and specialises the arguments, parses
the options, calls the compiler and evaluates the grid. So the compiler's input is the same as on a
machine with the GPU.

With the arguments the kernel can be executed later: numbers, addresses and sizes of tensors, and
the contents of short integer tensors where they are known, for indices and lengths decide a
kernel's control flow. Contents of floating-point tensors are not recorded.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import ctypes
import hashlib
import importlib
import math
import sys
import textwrap
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from ..cases.case import did_you_mean
from ..emulation.arguments import parameters
from ..front_end_errors import front_end_error
from ..frontend import definition, lower, unspecialised
from ..lowering import UnknownOptionError, target
from ..records import Emit, error, note
from ..world.assumptions import LOG
from .project import Sites
from .readback import ScriptLaunch
from .request import ScriptRequest
from .stand_in_kernel import StandInKernel, replace_compiler
from .written_parameters import written_by_source, written_indices

LAUNCHER = "triton.runtime.jit"
"""Module of `JITFunction.run`, the only caller that specialises arguments by their values."""
MAX_GRIDS = 16
"""How many different grids are recorded for one specialisation."""
_MUCH_LARGER = 1.1
"""Times the work of the launch before from which on a launch is recorded in its place."""


@dataclass
class Origin:
    """The part of a specialisation's origin that the compiler's input does not tell.

    `tuning`: the autotuner's configuration, or the point of a sweep.
    `notes`: changes without which it would not compile, such as dropped options.
    """

    tuning: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()


@dataclass
class Specialisation:
    """One kernel for one set of types, constants and options.

    Args:
        options: the compile options that differ from the defaults.
        pending: its record until it is written out; then None.
        types: types of its arguments; `constexpr` for those that are not parameters of its TTIR.
        names: names of its arguments.
        written_indices: indices, among the TTIR's parameters, of the pointers that it writes to;
            None if it may write to any.
        grids: grid -> number of launches.
        alike: how many of the numbers that are asked for the recorded launch passes; -1 for none.
        sizes: grid and whole numbers of the last launch.
        work: that of the recorded launch, as `_work` has it.
        largest: the launch to record in place of the first, where that is written out.
    """

    key: str
    src: Any
    options: Mapping[str, Any]
    types: tuple[Any, ...]
    names: tuple[str, ...]
    selected: bool = False
    pending: dict[str, Any] | None = None
    launches: int = 0
    written_indices: frozenset[int] | None = None
    grids: dict[tuple[int, ...], int] = field(default_factory=dict)
    alike: int = -1
    sizes: tuple[object, ...] = ()
    work: float = 0.0
    largest: dict[str, Any] | None = None


class SpecialisationRecorder:
    """Takes the place of Triton's compiler in a script.

    Args:
        suspended: returns a context with the unpatched torch, for Triton's front end.
        origin: returns the origin of the specialisation that is about to be compiled.
        is_selected: (name, qualified name) -> whether the user asked for that kernel.

    Attributes:
        failed: specialisations that the front end refused.
        refused: configurations that the kernel's own static_assert refused.
        busy: whether a kernel is at the front end or the compiler.
    """

    def __init__(
        self,
        request: ScriptRequest,
        *,
        emit: Emit,
        suspended: Callable[[], AbstractContextManager[None]],
        origin: Callable[[], Origin],
        is_selected: Callable[[str, str], bool],
        launched: Callable[[ScriptLaunch], None],
    ) -> None:
        self.arch = request.arch
        self.captured = 0
        self.failed = 0
        self.refused = 0
        self.launched = 0
        self.busy = False
        self._emit = emit
        self._suspended = suspended
        self._origin = origin
        self._is_selected = is_selected
        self._finished = frozenset(request.finished)
        self._report_launch = launched
        # What an earlier run recorded was counted there.
        self._only_new = bool(request.reversed)
        self._keeps_arguments = request.arguments
        self._like = request.like
        # A sweep's points are sent with their largest launch, which is known at the end alone.
        self._holds = bool(request.like or request.axes or request.points)
        self._sites = Sites((request.generated,))
        self._by_key: dict[str, Specialisation] = {}
        self._target = target(request.arch)
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

    def _stand_in_kernel(self, src: Any, resolved: Mapping[str, Any], *, by_launch: bool) -> Any:
        self.flush()
        function = getattr(src, "fn", None)
        if function is None:
            return self._compile(src, target=self._target, options=dict(resolved))
        options = {
            name: value
            for name, value in resolved.items()
            if name not in self._defaults or value != self._defaults[name]
        }
        with self._suspended():
            key = self._key(src, options)
            spec = self._by_key.get(key)
            if spec is None:
                types, names = tuple(src.signature.values()), tuple(src.signature)
                spec = Specialisation(key, src, options, types, names)
                self._by_key[key] = spec
            if not spec.selected and self._is_selected(function.__name__, _qualname(function)):
                spec.selected = True
                self._record(spec, by_launch=by_launch)
        return StandInKernel(
            src.name,
            lambda grid, values: self._record_launch(spec, grid, values),
            lambda: self._really_compile(src, options),
        )

    def flush(self) -> None:
        """Writes out the specialisations that were compiled but not launched so far."""
        if not self._holds:
            self._write_all()

    def _write_all(self) -> None:
        for spec in self._by_key.values():
            self._write(spec)

    def expect(self, count: int) -> None:
        """Adds to the count: specialisations in code that torch.compile generated."""
        self.captured += count

    def finish(self) -> None:
        """Writes out the pending specialisations and all launches, once the script has ended."""
        self._write_all()
        launches = {
            spec.key: {
                "count": spec.launches,
                "grids": [[list(grid), count] for grid, count in spec.grids.items()],
                "largest": spec.largest,
            }
            for spec in self._by_key.values()
            if spec.selected and not (self._only_new and spec.key in self._finished)
        }
        self._emit({"launches": launches, "arch": self.arch})

    def _record(self, spec: Specialisation, *, by_launch: bool) -> None:
        if spec.key in self._finished:
            self.captured += 1
            if self._only_new:  # otherwise the front end may have crashed on it
                with contextlib.suppress(Exception):
                    _note_written(spec, lower(spec.src, self.arch, spec.options)["ttir"])
            return
        function, origin = spec.src.fn, self._origin()
        self._emit({"begin": spec.key, "kernel": function.__name__, "arch": self.arch})
        variant = self._lowered(spec, origin.tuning)
        if variant is None:
            return
        variant.update(
            key=spec.key,
            kernel=function.__name__,
            case=None,
            qualname=_qualname(function),
            call_site=self._sites.current(),
            tuning=dict(origin.tuning) if origin.tuning else None,
            notes=[*variant["notes"], *origin.notes],
            assumptions=LOG.records(),
            emulated=LOG.emulated_records(),
            unspecialised=unspecialised(function) if by_launch else None,
        )
        _note_written(spec, variant["ttir"])
        spec.pending = variant
        self.captured += 1

    def _lowered(
        self, spec: Specialisation, tuning: Mapping[str, Any] | None
    ) -> dict[str, Any] | None:
        """The result of the front end with `file` and `line`; None where it refuses the kernel."""
        function = spec.src.fn
        name = function.__name__
        try:
            file, line = definition(function)
            return {**lower(spec.src, self.arch, spec.options), "file": file, "line": line}
        except UnknownOptionError as failure:
            suggestion = did_you_mean(failure.names, failure.option_names)
            message = f"this Triton has no option {failure}{suggestion}"
            hint = "its options are " + ", ".join(failure.option_names)
            self._fail(error("frontend", message, hint, name, arch=self.arch))
        except Exception as failure:
            case = _tuning_text(tuning)
            record = front_end_error(failure, name, case, self.arch, [function])
            if type(failure).__name__ == "CompileTimeAssertionFailure" and tuning:
                self.refused += 1
                reason = record["error"]["message"]
                self._emit(note(f"{name}[{case}] is refused by the kernel itself: {reason}"))
                raise
            _note_written(spec, None)
            self._fail(record)
        return None

    def _fail(self, record: dict[str, Any]) -> None:
        self.failed += 1
        self._emit(record)

    def _record_launch(
        self, spec: Specialisation, grid: tuple[int, ...], values: Sequence[Any]
    ) -> None:
        self.launched += 1
        if spec.selected:
            self._note_launch(spec, grid, values)
        launch = ScriptLaunch(
            key=spec.key,
            src=spec.src,
            options=spec.options,
            types=spec.types,
            written_indices=spec.written_indices,
            grid=grid,
            values=values,
        )
        self._report_launch(launch)
        if not spec.selected:
            return
        spec.launches += 1
        if grid in spec.grids or len(spec.grids) < MAX_GRIDS:
            spec.grids[grid] = spec.grids.get(grid, 0) + 1
        if not self._holds:
            self._write(spec)

    def _note_launch(
        self, spec: Specialisation, grid: tuple[int, ...], values: Sequence[Any]
    ) -> None:
        """Records a launch, unless one before is more like the one that is asked for, or as large.

        Before `launched` marks what the kernel overwrites as unknown.
        """
        sizes = (grid, *(value for value in values if type(value) is int))
        if sizes == spec.sizes:
            return
        spec.sizes = sizes
        is_whole = len(values) >= len(spec.names) > 0
        numbers = _integer_arguments(spec, values) if is_whole else {}
        alike = sum(numbers.get(name) == number for name, number in self._like.items())
        has_all = len(values) >= len(spec.types) > 0
        passed = values[len(values) - len(spec.types) :] if has_all else ()
        work = _work(spec.types, grid, passed)
        if alike < spec.alike or (alike == spec.alike and work <= _MUCH_LARGER * spec.work):
            return
        launch: dict[str, Any] = {"grid": list(grid)}
        if is_whole:
            launch["values"] = numbers
        if self._keeps_arguments and has_all:
            launch["passed"] = recorded_arguments(spec.types, passed)
        spec.alike, spec.work = alike, work
        if spec.pending is not None:
            spec.pending.update(launch, call_site=self._sites.current())
        else:
            spec.largest = {**launch, "call_site": self._sites.current()}

    def _write(self, spec: Specialisation) -> None:
        variant, spec.pending = spec.pending, None
        if variant is not None:
            variant.setdefault("grid", None)
            self._emit({"variant": variant})

    def _key(self, src: Any, options: Mapping[str, Any]) -> str:
        sorted_options = sorted((name, repr(value)) for name, value in options.items())
        try:
            source = src.hash()
        except Exception:
            # Triton may fail to find the kernel's dependencies; the front end then reports why.
            source = repr((id(src.fn), src.signature, src.constants, src.attrs))
        return hashlib.sha256(repr((source, sorted_options)).encode()).hexdigest()

    def _really_compile(self, src: Any, options: Mapping[str, Any]) -> Any:
        with self._suspended():
            return self._compile(src, target=self._target, options=dict(options))


def _work(types: Sequence[Any], grid: Sequence[int], values: Sequence[Any]) -> float:
    """How much a launch does, for comparisons: its programs times the bytes of its tensors."""
    size = 0
    with contextlib.suppress(Exception):  # a user's own tensor class may raise anything
        for _, value in parameters(types, values):
            tensor = getattr(value, "base", value)
            if hasattr(tensor, "numel"):
                size += int(tensor.numel()) * int(tensor.element_size())
    return float(math.prod(grid) * max(1, size))


def _integer_arguments(spec: Specialisation, values: Sequence[Any]) -> dict[str, int]:
    named_values = zip(spec.names, spec.types, values[len(values) - len(spec.names) :])
    return {
        name: int(value)
        for name, kind, value in named_values
        if kind != "constexpr" and type(value) in (bool, int)
    }


def _note_written(spec: Specialisation, ttir: str | None) -> None:
    """Stores which of a kernel's arguments it writes to."""
    if not all(isinstance(kind, str) for kind in spec.types):  # a tuple is several parameters
        return
    if ttir is not None:
        spec.written_indices = written_indices(ttir)
        return
    with contextlib.suppress(SyntaxError, TypeError, AttributeError, OSError):
        tree = ast.parse(textwrap.dedent(spec.src.fn.src))
        function = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
        written_names = written_by_source(function)
        pairs = zip(spec.names, spec.types)
        parameter_names = [name for name, kind in pairs if kind != "constexpr"]
        spec.written_indices = frozenset(
            index for index, name in enumerate(parameter_names) if name in written_names
        )


def _qualname(function: Any) -> str:
    return str(getattr(function.fn, "__qualname__", function.__name__))


def _tuning_text(tuning: Mapping[str, Any] | None) -> str | None:
    return ", ".join(f"{k}={v}" for k, v in tuning.items()) if tuning else None


MAX_CONTENTS_BYTES = 1 << 20
"""Bytes up to which the contents of a tensor are recorded."""
_COMPRESSION_LEVEL = 1


def recorded_arguments(types: Sequence[Any], values: Sequence[Any]) -> dict[str, Any] | None:
    """A launch's arguments as plain values.

    `types`: of the kernel's signature; `constexpr` for arguments that are no parameters.

    Returns:
        `{"parameters": [[type, value]], "memories": [{"address", "size", "dtype", "contents"}]}`;
        a pointer's value is its address; contents are deflated, in base64. None where the kind of
        an argument is unknown.
    """
    parameters_of_launch: list[list[Any]] = []
    memories: dict[int, dict[str, Any]] = {}
    try:
        for kind, value in parameters(types, values):
            if not kind.startswith("*") or value is None or isinstance(value, int):
                parameters_of_launch.append([kind, _number(value)])
                continue
            tensor = getattr(value, "base", value)  # triton.reinterpret's wrapper
            parameters_of_launch.append([kind, int(value.data_ptr())])
            storage = tensor.untyped_storage()
            address, size = int(storage.data_ptr()), int(storage.nbytes())
            if size and address not in memories:
                memories[address] = {
                    "address": address,
                    "size": size,
                    "dtype": str(tensor.dtype).rpartition(".")[2],
                    "contents": _contents(tensor, size),
                }
    except Exception:  # a user's own tensor class may raise anything
        return None
    return {"parameters": parameters_of_launch, "memories": list(memories.values())}


def _number(value: Any) -> int | float | str:
    """A number as JSON can hold it: infinities and NaN as text, None as 0."""
    if value is None:
        return 0
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    return int(value)


def _contents(tensor: Any, size: int) -> str | None:
    memory, payload = getattr(tensor, "_memory", None), getattr(tensor, "_payload", None)
    if size > MAX_CONTENTS_BYTES or tensor.is_floating_point() or tensor.is_complex():
        return None
    if memory is None or payload is None or payload.device.type != "cpu":
        return None
    if memory.unknown or memory.recipe is not None:
        return None
    storage = payload.untyped_storage()
    available = min(size, int(storage.nbytes()))
    contents = ctypes.string_at(int(storage.data_ptr()), available)
    return base64.b64encode(zlib.compress(contents.ljust(size, b"\0"), _COMPRESSION_LEVEL)).decode()
