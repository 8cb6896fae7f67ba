"""Compiles a kernel again with changed settings, for the recompile form.

Options that only the backend reads are set on the same TTIR. A constexpr needs the front end: the
file is captured again and the kernel launched with the new values, as in a sweep. A kernel of a HIP
source is compiled with other macros and attributes, as trials do.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..inspector.base.documents import python_tree
from ..inspector.base.errors import KinspectError
from ..inspector.base.named_files import file_text, named_bytes
from ..inspector.capture.resolving import resolve
from ..inspector.capture.sweep_axes import (
    BACKEND_ONLY,
    Axis,
    Value,
    refused_name,
    unresolved_names,
    values_of,
)
from ..inspector.capture.targets import Target
from ..inspector.compare.points import compile_job
from ..inspector.compare.trials import hip_changes
from ..inspector.compare.trials.hip_changes import is_hip
from ..inspector.compile.hip.flags import database_flags
from ..inspector.compile.hip.templates import arguments_of, template_kernels
from ..inspector.compile.pool import Compiler
from ..inspector.model import Change, ChangeKind, ErrorRecord, KernelReport, Variant
from ..inspector.pipeline.capturing import COMPILED, variants_of
from ..inspector.pipeline.hip_sources import options_of
from ..inspector.pipeline.jobs import Job, Request, settings_of
from ..inspector.pipeline.naming import portable

OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
"""The options in the form, whether or not the launch stated them."""
DEFAULTS: Mapping[str, Value] = {"waves_per_eu": 0, "matrix_instr_nonkdim": 0}
"""The backend's values of options that a launch does not state."""


Work = tuple[KernelReport, Mapping[str, Value] | Variant, Request]
"""The kernel; its changed settings, or the variant to compile in its place; the kernel's run."""


class KernelSetting(Struct, frozen=True):
    """A setting of a kernel that can be changed.

    Attributes:
        value: the kernel's value; None where it is unknown.
        kind: an option of the compiler, a constexpr, or a macro or template parameter of a HIP
            source.
    """

    name: str
    value: Value | None
    kind: ChangeKind


def settings_of_kernel(report: KernelReport, request: Request) -> list[KernelSetting]:
    """The settings of a kernel that can be changed: options, then constexprs or macros.

    Args:
        request: the run that compiled it.

    Raises:
        KinspectError: the kernel was read and not compiled, so that nothing can be changed.
    """
    if is_hip(report):
        return list(_settings_of_source(report, request))
    variant = _variant(report)
    options = [name for name in OPTIONS if name not in variant.signature]
    options = [n for n in options if n != "kpack" or n in variant.options]
    settings = [
        KernelSetting(name, _plain(variant.options.get(name, DEFAULTS.get(name))), "option")
        for name in options
    ]
    specialised = _specialised(report, variant)
    constexprs = {k: _plain(v) for k, v in variant.constexprs.items() if k not in specialised}
    settings += [KernelSetting(k, v, "constexpr") for k, v in constexprs.items() if v is not None]
    return settings


def _settings_of_source(report: KernelReport, request: Request) -> Iterator[KernelSetting]:
    path = targets_of(report, request)[0].path
    own = options_of(request)
    stated = hip_changes.stated_values((*database_flags(path), *own.defining))
    bounds = stated.get(hip_changes.BOUNDS)
    workgroup = report.metrics.get("workgroup_size")
    if bounds is None and workgroup is not None and workgroup.origin == "estimated":
        bounds = str(workgroup.value)  # no launch is known: it is what the code allows at most
    yield KernelSetting(hip_changes.BOUNDS, _number(bounds), "option")
    yield KernelSetting(hip_changes.WAVES, own.waves_per_eu, "option")
    source = _text(path, "its source")
    for name, value in hip_changes.open_macros(source).items():
        yield KernelSetting(name, _number(stated.get(name, str(value))), "macro")
    for name, text in arguments_of(report.name, [*template_kernels(source)]).items():
        yield KernelSetting(name, _number(text), "macro")


def _specialised(report: KernelReport, variant: Variant) -> frozenset[str]:
    """Arguments that are constant because the launch passed 1: no value can be set for them.

    Triton's signature calls them constexprs, as it does those that the kernel declares; which are
    which stands in the source. Empty where that cannot be read.
    """
    ones = {name for name, value in variant.constexprs.items() if type(value) is int and value == 1}
    if not ones or report.source is None:
        return frozenset()
    try:
        tree = python_tree(named_bytes(report.source.file) or b"")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    name = variant.kernel.rpartition(".")[2]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            parameters = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            return frozenset(
                parameter.arg
                for parameter in parameters
                if parameter.arg in ones
                and "constexpr" not in ast.unparse(parameter.annotation or ast.Constant(""))
            )
    return frozenset()


def changes(settings: Iterable[KernelSetting], typed: Mapping[str, str]) -> dict[str, Value]:
    """The settings whose typed value differs from the kernel's, with the new values.

    Raises:
        KinspectError: a text is not a single value, or not of the kind that the setting takes.
    """
    changed: dict[str, Value] = {}
    for setting in settings:
        text = typed.get(setting.name, "").strip()
        if not text:
            continue
        values = values_of(text, f"{setting.name}={text}")
        if len(values) != 1:
            raise KinspectError(f"{setting.name}: one value, not {len(values)}", "type one value")
        value = values[0]
        if isinstance(setting.value, str):
            value = text
        is_number = isinstance(setting.value, int | float) and not isinstance(setting.value, bool)
        if setting.kind == "option" and (type(value) is not int or value < 0):
            raise KinspectError(f"{setting.name}: a whole number from 0 on, not {text}")
        if is_number and isinstance(value, str):
            raise KinspectError(f"{setting.name}: a number, not {text}")
        if isinstance(setting.value, bool) and value not in (True, False):
            raise KinspectError(f"{setting.name}: true or false, not {text}")
        if value != setting.value or isinstance(value, bool) != isinstance(setting.value, bool):
            changed[setting.name] = value
    return changed


def work_of(report: KernelReport, changed: Mapping[str, Value], request: Request) -> Work:
    """What a child process is given to compile a kernel with changed settings."""
    if not is_hip(report):
        return report, changed, request
    changes = [Change("macro", name, value) for name, value in changed.items()]
    return report, hip_changes.variant_of(report), changed_run(report, changes, request)


def changed_run(report: KernelReport, changes: Sequence[Change], request: Request) -> Request:
    """The run that compiles a kernel with some changes: of a HIP source they are part of it."""
    if not is_hip(report):
        return request
    own = hip_changes.changed(options_of(request), changes)
    point = tuple(Axis(name, (value,)) for name, value in own.values.items())
    return replace(request, capture=replace(request.capture, argv=own.flags), hip=own, point=point)


def recompile(work: Work, send: Callable[[str, Any], None]) -> None:
    """Recompiles a kernel, in a child process, and sends its report."""
    report, changed, request = work
    if isinstance(changed, Variant):
        # As trials do, whose compile is in the store; a dump of passes would need another one.
        request = replace(request, passes=False)
    with compiler_for(request) as compiler:
        try:
            if isinstance(changed, Variant):
                send("progress", "compiling")
                new_report = compiled_variant(report, changed, request, compiler)
            else:
                new_report = recompiled(
                    report, changed, request, compiler, lambda text: send("progress", text)
                )
        except BaseException:
            compiler.abort()
            raise
    send("result", new_report)


def recompiled(
    report: KernelReport,
    changed: Mapping[str, Value],
    request: Request,
    compiler: Compiler,
    on_progress: Callable[[str], None],
) -> KernelReport:
    """Compiles a kernel with changed settings and analyses it.

    Raises:
        KinspectError: a setting cannot have its value, or the compile failed.
    """
    old = _variant(report)
    path = report.file
    _check_names(changed, old, compiler, path)
    options = {k: v for k, v in changed.items() if k not in old.signature and k in BACKEND_ONLY}
    constexprs = {k: v for k, v in changed.items() if k not in options}
    base = old
    if constexprs:
        on_progress("capturing")
        base = _captured(report, old, constexprs, request, compiler)
    elif not old.ttir:
        base = replace(old, ttir=_text(report.artifacts["ttir"].path, "its TTIR"))
    inherited = {
        k: v for k, v in old.options.items() if k in BACKEND_ONLY and k not in old.signature
    }
    variant = replace(base, options={**base.options, **inherited, **options}, case=old.case)
    on_progress("compiling")
    return compiled_variant(report, variant, request, compiler)


def compiled_variant(
    report: KernelReport, variant: Variant, request: Request, compiler: Compiler
) -> KernelReport:
    """Compiles a variant in place of a kernel and analyses it.

    Raises:
        KinspectError: the compile failed.
    """
    path = report.file
    analysis = replace(request.analysis, sample=None)  # recompiled code is not emulated
    job = Job((0, 0), path, variant, compiler.settings, request.overrides, analysis)
    if is_hip(report):
        job = replace(job, hip=options_of(request))
    outcome = compile_job(job, compiler)
    if outcome.error is not None:
        raise KinspectError(f"{outcome.error.stage}: {outcome.error.message}", outcome.error.hint)
    if not outcome.reports:
        raise KinspectError("the compile gave no kernel", "run again; the store may be damaged")
    return outcome.reports[0]


def _check_names(changed: Mapping[str, Value], old: Variant, compiler: Compiler, path: str) -> None:
    """Raises KinspectError if a changed setting is neither an option nor one of the kernel's."""
    options = frozenset(compiler.toolchain().options)
    axes = [Axis(name, (value,)) for name, value in changed.items()]
    unknown = unresolved_names(axes, options, (*old.signature, *old.constexprs))
    if unknown:
        raise refused_name(unknown[0], options, tuple(old.constexprs), path)


def compiler_for(request: Request | None) -> Compiler:
    """A compiler with a run's settings; the default ones without a request."""
    return Compiler(settings_of(request if request is not None else Request(())))


def _variant(report: KernelReport) -> Variant:
    """The variant that a kernel was compiled from; raises KinspectError without its TTIR."""
    variant = report.variant
    if variant is None or not (variant.ttir or "ttir" in report.artifacts):
        raise KinspectError(
            "it was read and not compiled here: there is nothing to compile it from",
            "open the .py file that launches it, or its .ttir",
        )
    return variant


def _text(path: Path, name: str) -> str:
    try:
        return file_text(path)
    except OSError as error:
        message = f"{name} cannot be read: {error.strerror}"
        raise KinspectError(message, "open the file that it was compiled from") from None


def targets_of(report: KernelReport, request: Request) -> list[Target]:
    """The targets of a run that a kernel is of; raises KinspectError if there are none."""
    path = report.file
    named = [target for target in _named(request) if portable(str(target.path)) == path]
    if not named:
        raise KinspectError(
            f"{path}: not run again, since it is no target here",
            f"open it: kinspect tui {shlex.quote(path)}",
        )
    return named


def _captured(
    report: KernelReport,
    old: Variant,
    changed: Mapping[str, Value],
    request: Request,
    compiler: Compiler,
) -> Variant:
    """Captures the kernel's file again with changed constexprs."""
    path = Path(report.file)
    named = targets_of(report, request)
    targets = [target for target in named if target.kind in COMPILED - {"ttir"}]
    if not targets:
        raise KinspectError(
            f"{path}: constexprs are part of its TTIR", "change options alone, or open the .py file"
        )
    # The values that the autotuner chose are fixed, so that it need not choose them again.
    tuned = {k: v for k, v in (old.tuning or {}).items() if k in old.constexprs}
    axes = {**tuned, **changed}
    capture_request = _capture_request(request, path, old, axes)
    captured: list[Variant] = []
    errors: list[ErrorRecord] = []
    for target in targets:
        variants, failures = variants_of(target, capture_request, compiler)
        captured += variants
        errors += failures
    fitting = [v for v in captured if v.kernel == old.kernel and _has(v, changed)]
    if fitting:
        return max(fitting, key=lambda variant: _likeness(variant, old, axes))
    if errors:
        raise KinspectError(f"{errors[0].stage}: {errors[0].message}", errors[0].hint)
    names = ", ".join(f"{k}={v}" for k, v in changed.items())
    raise KinspectError(
        f"{path}: {old.kernel} cannot be launched with {names} from here",
        "constexprs of a file with KINSPECT_CASES can be changed, and those of kernels that a"
        " script launches",
    )


def _named(request: Request) -> Iterator[Target]:
    for text in request.targets:
        with suppress(KinspectError):
            yield from (target for target in resolve(text) if target.fault is None)


def _has(variant: Variant, constexprs: Mapping[str, Value]) -> bool:
    return all(
        name in variant.constexprs and variant.constexprs[name] == value
        for name, value in constexprs.items()
    )


def _capture_request(
    request: Request, path: Path, old: Variant, axes: Mapping[str, Value]
) -> Request:
    """A run's request narrowed to one kernel of one file, launched with the values of the axes."""
    capture = replace(
        request.capture,
        axes={name: (value,) for name, value in axes.items()},
        like=old.values or {},
        max_configs=1,
        all_configs=False,
    )
    return replace(
        request, targets=(str(path),), archs=(old.arch,), kernel=old.kernel, capture=capture
    )


def _likeness(variant: Variant, old: Variant, axes: Mapping[str, object]) -> tuple[int, ...]:
    """A sort key that is the greater the more a variant has in common with the old one.

    A script may launch the kernel with the same constexprs several times.
    """
    unchanged = {k: v for k, v in old.constexprs.items() if k not in axes}
    return (
        variant.signature == old.signature,
        sum(variant.constexprs.get(k) == v for k, v in unchanged.items()),
        variant.attrs == old.attrs,
        variant.grid == old.grid,
    )


def _number(text: str | None) -> Value | None:
    return int(text) if text is not None and text.isdecimal() else text


def _plain(value: object) -> Value | None:
    return value if isinstance(value, bool | int | float | str) else None
