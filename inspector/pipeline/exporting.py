"""Kernels with all that their compile needs, for a reproducer: captured, or of saved files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.named_files import file_text
from ..capture.resolving import resolve_all
from ..compile.diagnostics import can_name_files
from ..compile.pool import Compiler
from ..compile.reproducer import Reproducer
from ..lint.rule import NO_RULES
from ..model import ErrorRecord, KernelReport, Variant
from .analysis_options import AnalysisOptions
from .capturing import COMPILED, variants_of
from .collecting import collect
from .inputs import read_text
from .jobs import Request, settings_of
from .naming import label_of
from .sweep_point import check_names

_MOST_NAMED = 8
_STAGES = ("ttir", "ttgir")


class NothingCapturedError(KinspectError):
    """Why there is no kernel, as the record of it says."""

    def __init__(self, name: str, record: ErrorRecord) -> None:
        super().__init__(f"{name}: {record.message}", record.hint)
        self.record = record


_FILE_OPTIONS = frozenset({"extern_libs", "ir_override"})


def reproducer_of(request: Request) -> Reproducer:
    """The only kernel that a request names, compiled if it can be.

    Raises:
        KinspectError: there is none, or more than one; or nothing can be compiled at all.
    """
    errors: list[ErrorRecord] = []
    targets = resolve_all(request.targets, request.archs)
    if all(target.kind not in COMPILED for target in targets):
        return _only([*_saved(request, errors)], request, errors)
    with Compiler(settings_of(request)) as compiler:
        version = compiler.toolchain().triton_version
        variants = []
        for target in targets:
            of_target, failures = variants_of(target, request, compiler)
            if target.kind != "script":
                for variant in of_target:
                    _refuse_files(variant, variant.ttir or "")
            variants += of_target
            errors += failures
        check_names(variants, request, compiler)
        captured = [Reproducer(v, label_of(v), version, None) for v in variants]
        chosen = _only(captured, request, errors)
        result = compiler.compile(chosen.variant)
    if result.error is not None:
        return replace(chosen, failure=result.error.message)
    return replace(chosen, assembly=_assembly(result.artifacts["amdgcn"].path))


def _saved(request: Request, errors: list[ErrorRecord]) -> Iterator[Reproducer]:
    """The kernels of saved reports and of Triton's caches whose IR is at hand."""
    nothing_more = AnalysisOptions(rules=NO_RULES, lanes=False, races=False, values=False)
    report = collect(replace(request, analysis=nothing_more))
    errors += report.errors
    for kernel in report.kernels:
        variant, stage = kernel.variant, _stage(kernel)
        if variant is None or stage is None:
            continue
        ir = read_text(kernel.artifacts[stage].path)
        _refuse_files(variant, ir)
        amdgcn = kernel.artifacts.get("amdgcn")
        yield Reproducer(
            variant=replace(
                variant,
                options=_own_options(variant),
                ttir=ir,
                stage=stage,
            ),
            label=label_of(variant),
            triton=variant.triton_version,
            assembly=_assembly(amdgcn.path) if amdgcn is not None else None,
        )


def _refuse_files(variant: Variant, ir: str) -> None:
    if can_name_files(ir):
        raise KinspectError(
            f"{label_of(variant)}: its inline assembly has directives that read files into the"
            " code of whoever runs the reproducer",
            "export it from its script",
        )


def _own_options(variant: Variant) -> dict[str, Any]:
    """The options of a saved kernel without those that name files, as a stranger's report may."""
    return {n: value for n, value in variant.options.items() if n not in _FILE_OPTIONS}


def _stage(kernel: KernelReport) -> str | None:
    """The earliest stage of which the text is there."""
    return next((stage for stage in _STAGES if stage in kernel.artifacts), None)


def _assembly(path: Path) -> str:
    return file_text(path)


def _only(kernels: list[Reproducer], request: Request, errors: list[ErrorRecord]) -> Reproducer:
    """The one there is."""
    name = " ".join(request.targets)
    if len(kernels) == 1:
        remarks = tuple(dict.fromkeys(error.message for error in errors))
        return replace(kernels[0], notes=remarks)
    if kernels:
        labels = [f"{kernel.label} on {kernel.variant.arch}" for kernel in kernels]
        listed = ", ".join(labels[:_MOST_NAMED]) + (", …" if len(labels) > _MOST_NAMED else "")
        raise KinspectError(
            f"{name}: it has {len(kernels)} kernels",
            f"choose one with --kernel and --arch: {listed}",
        )
    if errors:
        raise NothingCapturedError(name, errors[0])
    raise KinspectError(
        f"{name}: there is no kernel in it that Triton can compile again",
        "name a script, a .ttir file, a trace, or a report saved with --save",
    )
