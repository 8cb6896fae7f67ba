"""Captures the kernels of a file that TorchInductor generated, without running the file."""

from __future__ import annotations

import ast
import importlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from ..failures import front_end_error
from ..frontend import definition, lower, parameters, plain
from ..lowering import UnknownOptionError, target
from ..parsed.refusals import RefusedError
from ..parsed.types import check_type
from ..records import Emit, error, note
from ..sampling import said_of_sample, spread
from ..syntax import parse
from ..world.device import Device
from ..world.driver import activate
from .calls import Launch, launches_of, numels, sizes_of
from .functions import KernelFile
from .grids import grid_of
from .metadata import Arguments, MetadataError, arguments, device_name, device_type, triton_meta
from .source import USERS, KernelSource, SourceError, kernels_of, parsed
from .tuning import OPTIONS, Configs, TuningError, configs_of, split

STATED_OPTIONS = ("enable_fp_fusion",)
"""Compile options that Inductor writes into the metadata for Triton."""
FOREIGN = (
    "generated for {device}: attributes are as for it; on ROCm, Inductor also marks pointers to "
    "storages within 2 GB, which lets AMD's backend use buffer instructions"
)


def capture(request: dict[str, Any], emit: Emit) -> None:
    """Emits the specialisations that a generated file would compile, for each target.

    Args:
        request: `path`, `archs`, `devices` (gfx name -> what is known of it), `wanted` (patterns of
            kernel names), `max_configs`, `axes`, `all_configs`, `finished` (numbers of the
            specialisations that earlier children came to) and, where torch.compile generated it
            in a script, `origin` (`function`, `file`, `line` and `lines`: name of an operation ->
            file and line).
        emit: takes `{"begin": n, ...}` before each, then `{"variant": ...}` or `{"error": ...}`.
    """
    path = os.path.abspath(request["path"])
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = stream.read()
        sources = list(kernels_of(text, path))
        tree = parsed(text, path, 1)
    except SourceError as failure:
        emit(error("capture", failure.message, failure.hint))
        return
    if not sources:
        emit(_empty(path, text))
        return
    kernels = [source for source in sources if isinstance(source, KernelSource)]
    if request.get("origin"):  # the script's own were recorded as it launched them
        kernels = [source for source in kernels if source.heuristic != USERS]
    selected = _selected(kernels, request.get("wanted") or ())
    for unread in (source for source in sources if isinstance(source, SourceError)):
        emit(error("capture", unread.message, unread.hint))
    if kernels and not selected:
        names = ", ".join(dict.fromkeys(k.name for k in kernels))
        patterns = " and ".join(request["wanted"])
        emit(error("capture", f"{path}: no kernel matches {patterns}", f"it has {names}"))
        return
    launches = launches_of(tree)
    work = _Work(path, request, emit)
    for kernel in selected:
        work.kernel(kernel, list(launches.get(kernel.name, ())))


class _Work:
    """The specialisations of one file's kernels, numbered in the order in which they come."""

    def __init__(self, path: str, request: Mapping[str, Any], emit: Emit) -> None:
        self._path = path
        self._request = request
        self._emit = emit
        self._file = KernelFile(path, bool(request.get("trust") or request.get("origin")))
        self._driver = activate(target(request["archs"][0]))
        self._finished = set(request.get("finished") or ())
        self._number = 0

    def kernel(self, kernel: KernelSource, launches: Sequence[Launch]) -> None:
        """Emits what a kernel is compiled to, or why it cannot be."""
        try:
            function = self._file.function(kernel)
            meta = triton_meta(kernel.keywords)
            stated_arguments = arguments(meta, function.arg_names)
        except SourceError as failure:
            self._emit(error("capture", failure.message, failure.hint, kernel.name))
            return
        except MetadataError as failure:
            self._refuse(kernel, str(failure))
            return
        for arch in self._request["archs"]:
            device = Device.of((self._request.get("devices") or {}).get(arch) or arch)
            try:
                configs = configs_of(kernel, self._path, function.arg_names, device)
            except TuningError as failure:
                message = f"{self._path}:{kernel.line}: kernel {kernel.name}: {failure.message}"
                self._emit(error("capture", message, failure.hint, kernel=kernel.name, arch=arch))
                continue
            for values in self._points(kernel, configs, function):
                self._number += 1
                if self._number in self._finished:
                    continue
                self._emit({"begin": self._number, "kernel": kernel.name, "arch": arch})
                self._driver.target = target(arch)
                notes = self._notes(kernel, configs, values, meta)
                launch = launches[0] if launches else None
                record = self._variant(
                    kernel,
                    function,
                    stated_arguments,
                    meta=meta,
                    values=values,
                    arch=arch,
                    launch=launch,
                )
                if "variant" in record:
                    record["variant"]["notes"] = notes
                    record["variant"]["launches"] = len(launches) or None
                self._emit(record)

    def _points(
        self, kernel: KernelSource, configs: Configs, function: Any
    ) -> Iterator[Mapping[str, Any]]:
        """The configurations to look at: those of the kernel, or a sweep's around its first."""
        axes: Mapping[str, Sequence[Any]] = self._request.get("axes") or {}
        names = [n for n in axes if any(p.name == n and p.constexpr for p in parameters(function))]
        max_configs = self._request.get("max_configs")
        chosen = configs.values
        if names and not self._request.get("all_configs"):
            chosen = chosen[:1]
        elif max_configs is not None and len(chosen) > max_configs:
            self._emit(note(said_of_sample(kernel.name, max_configs, len(chosen), "configs")))
            chosen = tuple(chosen[place] for place in spread(chosen, max_configs))
        for config in chosen:
            for point in itertools.product(*(axes[name] for name in names)):
                yield {**config, **dict(zip(names, point))}

    def _variant(
        self,
        kernel: KernelSource,
        function: Any,
        stated_arguments: Arguments,
        *,
        meta: Mapping[str, Any],
        values: Mapping[str, Any],
        arch: str,
        launch: Launch | None,
        trusted: bool = False,
    ) -> dict[str, Any]:
        """The record of one specialisation: its variant, or the error of the front end.

        Args:
            kernel: the kernel as the file holds it.
            function: its JITFunction.
            stated_arguments: what its metadata say of its arguments.
            meta: the metadata for Triton.
            values: block sizes and options of one configuration.
            arch: gfx name of the target.
            launch: its first launch in the wrapper, for grid and sizes; None without one.
            trusted: whether `function` comes from running the kernel's module.
        """
        names = function.arg_names
        tuned, options = split(values, names)
        stated = {n: meta[n] for n in STATED_OPTIONS if meta.get(n) is not None}
        defaults = {p.name: p.default[0] for p in parameters(function) if p.default is not None}
        try:
            signature, constants, attributes = stated_arguments.specialised(names, tuned, defaults)
            compiler = importlib.import_module("triton.compiler.compiler")
            for kind in signature.values():
                check_type(kind)
            for value in constants.values():
                self._file.check(value)
            source = compiler.ASTSource(function, signature, constants, attributes)
            variant = lower(source, arch, {**stated, **options})
        except RefusedError as failure:
            if self._file.trust and not trusted:
                imported = self._file.imported(kernel)
                return self._variant(
                    kernel,
                    imported,
                    stated_arguments,
                    meta=meta,
                    values=values,
                    arch=arch,
                    launch=launch,
                    trusted=True,
                )
            refused = self._file.refusal(kernel, failure)
            return error("capture", refused.message, refused.hint, kernel.name)
        except MetadataError as failure:
            return self._refusal(kernel, str(failure))
        except UnknownOptionError as failure:
            hint = "its options are " + ", ".join(failure.option_names)
            return error("capture", f"this Triton has no option {failure}", hint, kernel.name)
        except Exception as failure:
            place = f"{self._path}:{kernel.line}"
            return front_end_error(
                failure, kernel.name, None, arch=arch, functions=(function,), fallback=place
            )
        file, line = definition(function)
        passed = [p.name for p in parameters(function) if not p.constexpr]
        sizes = {**numels(_definition(kernel), names), **constants}
        if launch is not None:
            sizes = {**sizes_of(launch, passed), **sizes}
        grid = grid_of(
            launch.grid if launch is not None else None,
            kernel.keywords.get("inductor_meta") or {},
            sizes,
            launch.args if launch is not None else (),
        )
        variant.update(
            kernel=kernel.name,
            qualname=kernel.function,
            case=None,
            file=file if kernel.verbatim else self._path,
            line=line if kernel.verbatim else kernel.line,
            grid=list(grid) if grid is not None else None,
            call_site=self._call_site(kernel, launch),
            tuning={n: plain(v) for n, v in {**_of_template(kernel), **tuned, **options}.items()},
            key=f"{self._number}",
            generator=None if kernel.heuristic == USERS else "inductor",
        )
        return {"variant": variant}

    def _notes(
        self,
        kernel: KernelSource,
        configs: Configs,
        values: Mapping[str, Any],
        meta: Mapping[str, Any],
    ) -> list[str]:
        notes = [f"block sizes: {configs.said_by}"]
        stated = kernel.keywords.get("inductor_meta") or {}
        if stated.get("coordinate_descent_tuning") and not configs.by_a_run:
            notes.append("a run would go on from there by coordinate descent")
        if device_type(meta) not in (None, "hip"):
            notes.append(FOREIGN.format(device=device_name(meta)))
        origin = self._request.get("origin")
        if origin is not None:
            place = f"{os.path.basename(origin['file'])}:{origin['line']}"
            notes.insert(0, f"generated by torch.compile of {origin['function']} ({place})")
        if kernel.origins:
            notes.append(f"fused from {kernel.origins}")
        return notes

    def _call_site(self, kernel: KernelSource, launch: Launch | None) -> dict[str, Any] | None:
        """The user's operation that the kernel comes from, or its launch in the wrapper."""
        origin = self._request.get("origin")
        if origin is None:
            return {"file": self._path, "line": launch.line} if launch is not None else None
        places = [origin["lines"][name] for name in kernel.nodes if name in origin["lines"]]
        file, line = places[0] if places else (origin["file"], origin["line"])
        return {"file": os.path.abspath(file), "line": line}

    def _refuse(self, kernel: KernelSource, text: str) -> None:
        self._emit(self._refusal(kernel, text))

    def _refusal(self, kernel: KernelSource, text: str) -> dict[str, Any]:
        message = f"{self._path}:{kernel.line}: kernel {kernel.name}: {text}"
        hint = "its metadata must be those of torch 2.0 or newer, as Inductor wrote them"
        return error("capture", message, hint, kernel.name)


def _of_template(kernel: KernelSource) -> Mapping[str, Any]:
    """The tile that a template was filled in for: in its text those are plain constants."""
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
    """The kernels whose names match; `kernel[label]` waits for the label, which the host gives."""
    names = [pattern.partition("[")[0] for pattern in patterns]
    return [
        kernel
        for kernel in kernels
        if all(
            any(fnmatchcase(n, pattern) for n in (kernel.name, kernel.function))
            for pattern in names
        )
    ]


def _empty(path: str, text: str) -> dict[str, Any]:
    calls = "extern_kernels." in text or "aten." in text
    why = ": it calls only library kernels" if calls else ""
    return error(
        "capture",
        f"{path}: Inductor generated no Triton kernel in it{why}",
        "pass the output_code.py of a graph that has some (device cuda, not cpu)",
    )
