"""Captures the kernels of a file that TorchInductor generated, without running the file."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..front_end_errors import front_end_error
from ..frontend import definition, lower, parameters, plain
from ..kernel_patterns import choosing, matches, names_only
from ..lowering import UnknownOptionError, target
from ..parsed.guard import check_type
from ..parsed.library import RefusedError
from ..readable_files import read
from ..records import Emit, error, note
from ..sampling import sample_note, spread
from ..syntax import parse
from ..system_calls import deny_effects
from ..world.device import StandInDevice, activate
from .block_sizes import OPTIONS, Configs, TuningError, configs_of, split
from .functions import GeneratedFile
from .generated_source import USERS, KernelSource, SourceError, kernels_of, parsed
from .kernel_metadata import (
    KernelArguments,
    MetadataError,
    arguments,
    device_name,
    device_type,
    triton_meta,
)
from .stated_launches import WrapperLaunch, grid_of, launches_of, numels, sizes_of

STATED_OPTIONS = ("enable_fp_fusion",)
"""Compile options that Inductor writes into the metadata for Triton."""
FOREIGN = (
    "generated for {device}: attributes are as for it; on ROCm, Inductor also marks pointers to "
    "storages within 2 GB, which lets AMD's backend use buffer instructions"
)


def capture(request: dict[str, Any], emit: Emit) -> None:
    """Emits the specialisations that a generated file would compile, for each target.

    Args:
        request: `path`, `archs`, `devices` (gfx name -> what is known of it), `patterns` (of
            kernel names), `max_configs`, `axes`, `all_configs`, `finished` (numbers of the
            specialisations that earlier children began) and, where torch.compile generated the
            file in a script, `origin` (`function`, `file`, `line` and `lines`: name of an
            operation -> file and line).
        emit: takes `{"begin": number, ...}` before each specialisation, then its
            `{"variant": ...}` or `{"error": ...}`.
    """
    path = os.path.abspath(request["path"])
    if request.get("is_foreign"):
        # torch makes its cache folder as it is imported.
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = cache = os.path.abspath("torchinductor")
        os.makedirs(cache, exist_ok=True)
        folder = os.path.dirname(path)  # the choice of a run lies beside it, its entry in `triton`
        entries = os.path.join(os.path.dirname(folder), "triton")
        deny_effects((folder, entries, *request["readable"]))
    try:
        text = read(path).decode("utf-8", "replace")
        sources = list(kernels_of(text, path))
        tree = parsed(text, path, 1)
    except SourceError as failure:
        emit(error("capture", failure.message, failure.hint))
        return
    except OSError as failure:
        emit(error("capture", f"{path} cannot be read: {failure.strerror}", "name a file"))
        return
    if not sources:
        emit(_empty(path, text))
        return
    kernels = [source for source in sources if isinstance(source, KernelSource)]
    if request.get("origin"):  # the script's own kernels were recorded when it launched them
        kernels = [source for source in kernels if source.heuristic != USERS]
    selected = _selected(kernels, request.get("patterns") or ())
    for unread in (source for source in sources if isinstance(source, SourceError)):
        emit(error("capture", unread.message, unread.hint))
    if kernels and not selected:
        names, patterns = [*dict.fromkeys(k.name for k in kernels)], request["patterns"]
        hint = choosing(path, request.get("home"), patterns, names)
        message = f"{path}: no kernel matches {' and '.join(patterns)}"
        emit(error("capture", message, f"it has {', '.join(names)}: {hint}"))
        return
    launches = launches_of(tree)
    file_capture = _FileCapture(path, request, emit)
    for kernel in selected:
        file_capture.emit_kernel(kernel, list(launches.get(kernel.name, ())))


@dataclass(frozen=True)
class _Specialization:
    """One configuration of a kernel for one target.

    Args:
        launch: the kernel's first launch in the wrapper, for grid and sizes; None without one.
    """

    kernel: KernelSource
    function: Any
    arguments: KernelArguments
    meta: Mapping[str, Any]
    config: Mapping[str, Any]
    arch: str
    launch: WrapperLaunch | None


class _FileCapture:
    """Emits the specialisations of one file's kernels, numbered in the order of the file."""

    def __init__(self, path: str, request: Mapping[str, Any], emit: Emit) -> None:
        self._path = path
        self._request = request
        self._emit = emit
        self._file = GeneratedFile(path, bool(request.get("trust") or request.get("origin")))
        self._driver = activate(target(request["archs"][0]))
        self._finished = set(request.get("finished") or ())
        self._number = 0

    def emit_kernel(self, kernel: KernelSource, launches: Sequence[WrapperLaunch]) -> None:
        """Emits the variants of a kernel, or why there are none."""
        try:
            function = self._file.function(kernel)
            meta = triton_meta(kernel.keywords)
            stated_arguments = arguments(meta, function.arg_names)
        except SourceError as failure:
            self._emit(error("capture", failure.message, failure.hint, kernel.name))
            return
        except MetadataError as failure:
            self._emit(self._metadata_error(kernel, failure))
            return
        for arch in self._request["archs"]:
            device = StandInDevice.of((self._request.get("devices") or {}).get(arch) or arch)
            try:
                configs = configs_of(kernel, self._path, function.arg_names, device)
            except TuningError as failure:
                message = f"{self._path}:{kernel.line}: kernel {kernel.name}: {failure.message}"
                self._emit(error("capture", message, failure.hint, kernel=kernel.name, arch=arch))
                continue
            for config in self._sweep(kernel, configs, function):
                self._number += 1
                if self._number in self._finished:
                    continue
                self._emit({"begin": self._number, "kernel": kernel.name, "arch": arch})
                self._driver.target = target(arch)
                specialization = _Specialization(
                    kernel=kernel,
                    function=function,
                    arguments=stated_arguments,
                    meta=meta,
                    config=config,
                    arch=arch,
                    launch=launches[0] if launches else None,
                )
                record = self._record(specialization)
                if "variant" in record:
                    record["variant"]["notes"] = self._notes(kernel, configs, meta)
                    record["variant"]["launches"] = len(launches) or None
                self._emit(record)

    def _sweep(
        self, kernel: KernelSource, configs: Configs, function: Any
    ) -> Iterator[Mapping[str, Any]]:
        """The configurations to compile: the kernel's own, or a sweep around its first."""
        axes: Mapping[str, Sequence[Any]] = self._request.get("axes") or {}
        names = [n for n in axes if any(p.name == n and p.constexpr for p in parameters(function))]
        max_configs = self._request.get("max_configs")
        selected = configs.values
        if names and not self._request.get("all_configs"):
            selected = selected[:1]
        elif max_configs is not None and len(selected) > max_configs:
            self._emit(note(sample_note(kernel.name, max_configs, len(selected), "configs")))
            selected = tuple(selected[index] for index in spread(selected, max_configs))
        for config in selected:
            for point in itertools.product(*(axes[name] for name in names)):
                yield {**config, **dict(zip(names, point))}

    def _record(self, spec: _Specialization, trusted: bool = False) -> dict[str, Any]:
        """The record of one specialisation: its variant, or the error of the front end."""
        kernel = spec.kernel
        try:
            variant, constants = self._lowered(spec)
        except RefusedError as failure:
            if self._file.trust and not trusted:
                imported = self._file.imported(kernel)
                return self._record(replace(spec, function=imported), trusted=True)
            refused = self._file.refusal(kernel, failure)
            return error("capture", refused.message, refused.hint, kernel.name)
        except MetadataError as failure:
            return self._metadata_error(kernel, failure)
        except UnknownOptionError as failure:
            hint = "its options are " + ", ".join(failure.option_names)
            return error("capture", f"this Triton has no option {failure}", hint, kernel.name)
        except Exception as failure:
            return front_end_error(
                failure,
                kernel.name,
                None,
                arch=spec.arch,
                functions=(spec.function,),
                fallback=f"{self._path}:{kernel.line}",
            )
        return {"variant": {**variant, **self._variant_fields(spec, constants)}}

    def _variant_fields(
        self, spec: _Specialization, constants: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The fields of a variant that the front end does not know."""
        kernel = spec.kernel
        file, line = definition(spec.function)
        return {
            "kernel": kernel.name,
            "qualname": kernel.function,
            "case": None,
            "file": file if kernel.verbatim else self._path,
            "line": line if kernel.verbatim else kernel.line,
            "grid": _grid(spec, constants),
            "call_site": self._call_site(kernel, spec.launch),
            "tuning": _tuning(spec),
            "key": f"{self._number}",
            "generator": None if kernel.heuristic == USERS else "inductor",
        }

    def _lowered(self, spec: _Specialization) -> tuple[dict[str, Any], dict[str, Any]]:
        """A specialisation's TTIR and options, and the kernel's constants."""
        function = spec.function
        tuned, options = split(spec.config, function.arg_names)
        stated = {n: spec.meta[n] for n in STATED_OPTIONS if spec.meta.get(n) is not None}
        defaults = {p.name: p.default[0] for p in parameters(function) if p.default is not None}
        signature, constants, attributes = spec.arguments.specialised(
            function.arg_names, tuned, defaults
        )
        compiler = importlib.import_module("triton.compiler.compiler")
        for kind in signature.values():
            check_type(kind)
        for value in constants.values():
            self._file.check(value)
        self._file.verify()
        source = compiler.ASTSource(function, signature, constants, attributes)
        return lower(source, spec.arch, {**stated, **options}), constants

    def _notes(self, kernel: KernelSource, configs: Configs, meta: Mapping[str, Any]) -> list[str]:
        """Where the block sizes, the attributes and the kernel itself come from, for the user."""
        notes = [f"block sizes: {configs.provenance}"]
        stated = kernel.keywords.get("inductor_meta") or {}
        if stated.get("coordinate_descent_tuning") and not configs.by_a_run:
            notes.append("a run would go on from there by coordinate descent")
        if device_type(meta) not in (None, "hip"):
            notes.append(FOREIGN.format(device=device_name(meta)))
        origin = self._request.get("origin")
        if origin is not None:
            call = f"{os.path.basename(origin['file'])}:{origin['line']}"
            notes.insert(0, f"generated by torch.compile of {origin['function']} ({call})")
        if kernel.origins:
            notes.append(f"fused from {kernel.origins}")
        return notes

    def _call_site(
        self, kernel: KernelSource, launch: WrapperLaunch | None
    ) -> dict[str, Any] | None:
        """The user's operation that the kernel comes from, or its launch in the wrapper."""
        origin = self._request.get("origin")
        if origin is None:
            return {"file": self._path, "line": launch.line} if launch is not None else None
        operations = [origin["lines"][name] for name in kernel.nodes if name in origin["lines"]]
        file, line = operations[0] if operations else (origin["file"], origin["line"])
        return {"file": os.path.abspath(file), "line": line}

    def _metadata_error(self, kernel: KernelSource, failure: MetadataError) -> dict[str, Any]:
        message = f"{self._path}:{kernel.line}: kernel {kernel.name}: {failure}"
        hint = "its metadata must be those of torch 2.0 or newer, as Inductor wrote them"
        return error("capture", message, hint, kernel.name)


def _grid(spec: _Specialization, constants: Mapping[str, Any]) -> list[int] | None:
    """The workgroups of a specialisation's launch; None where only a run would know them."""
    kernel, launch = spec.kernel, spec.launch
    passed = [p.name for p in parameters(spec.function) if not p.constexpr]
    sizes = {**numels(_definition(kernel), spec.function.arg_names), **constants}
    if launch is not None:
        sizes = {**sizes_of(launch, passed), **sizes}
    grid = grid_of(
        launch.grid if launch is not None else None,
        kernel.keywords.get("inductor_meta") or {},
        sizes,
        launch.args if launch is not None else (),
    )
    return list(grid) if grid is not None else None


def _tuning(spec: _Specialization) -> dict[str, Any]:
    tuned, options = split(spec.config, spec.function.arg_names)
    values = {**_of_template(spec.kernel), **tuned, **options}
    return {name: plain(value) for name, value in values.items()}


def _of_template(kernel: KernelSource) -> Mapping[str, Any]:
    """The tile sizes of a template, which stand as plain numbers in the text made from it."""
    meta = kernel.keywords.get("inductor_meta") or {}
    stated = meta.get("config_args") or {}
    return {n: v for n, v in stated.items() if type(v) is int and n not in OPTIONS}


def _definition(kernel: KernelSource) -> ast.FunctionDef:
    return next(
        node
        for node in parse(kernel.text).body
        if isinstance(node, ast.FunctionDef) and node.name == kernel.function
    )


def _selected(kernels: Sequence[KernelSource], patterns: Sequence[str]) -> list[KernelSource]:
    """The kernels whose names match every pattern; the host selects among their cases."""
    names = names_only(patterns)
    return [kernel for kernel in kernels if matches(names, (kernel.name, kernel.function))]


def _empty(path: str, text: str) -> dict[str, Any]:
    """The error of a file without a Triton kernel."""
    calls = "extern_kernels." in text or "aten." in text
    why = ": it calls only library kernels" if calls else ""
    return error(
        "capture",
        f"{path}: Inductor generated no Triton kernel in it{why}",
        "pass the output_code.py of a graph that has some (device cuda, not cpu)",
    )
