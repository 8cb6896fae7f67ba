"""A kernel compiled once more with something changed: the composition behind the small form.

Options that the backend alone reads are set on the same TTIR. Constexprs go through the front end:
the file is captured again with the kernel launched with the values asked for, as a sweep does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ..inspector.capture.axes import (
    BACKEND_ONLY,
    Axis,
    Value,
    refused_name,
    unresolved_names,
    values_of,
)
from ..inspector.capture.resolving import resolve
from ..inspector.compile.pool import Compiler
from ..inspector.errors import KinspectError
from ..inspector.model import ErrorRecord, KernelReport, Variant
from ..inspector.pipeline.capturing import COMPILED, variants_of
from ..inspector.pipeline.jobs import Job, Request, compile_and_report, settings_of

OPTIONS = ("num_warps", "num_stages", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
"""The options that are asked for, whether or not the launch stated them."""
DEFAULTS: Mapping[str, Value] = {"waves_per_eu": 0, "matrix_instr_nonkdim": 0}
"""What these are where a launch does not state them."""


class Setting(Struct, frozen=True):
    """Something that can be changed: its name, its value, and what it is."""

    name: str
    value: Value | None
    constexpr: bool


def settings_of_kernel(report: KernelReport) -> list[Setting]:
    """What can be changed of a kernel: options of the backend, then its constexprs.

    Raises:
        KinspectError: it was not compiled here, so nothing can.
    """
    variant = _variant(report)
    options = [name for name in OPTIONS if name not in variant.signature]
    options = [n for n in options if n != "kpack" or n in variant.options]
    settings = [
        Setting(name, _plain(variant.options.get(name, DEFAULTS.get(name))), False)
        for name in options
    ]
    constexprs = {k: _plain(v) for k, v in variant.constexprs.items()}
    settings += [Setting(k, v, True) for k, v in constexprs.items() if v is not None]
    return settings


def changes(settings: Iterable[Setting], typed: Mapping[str, str]) -> dict[str, Value]:
    """What was typed, as far as it is not what is there.

    Raises:
        KinspectError: something that is no single value.
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
        if value != setting.value or isinstance(value, bool) != isinstance(setting.value, bool):
            changed[setting.name] = value
    return changed


def recompiled(
    report: KernelReport,
    changed: Mapping[str, Value],
    request: Request,
    compiler: Compiler,
    say: Callable[[str], None],
) -> KernelReport:
    """Compiles a kernel with some values changed, and reports on it.

    Args:
        report: the kernel as it is.
        changed: names and values.
        request: the run that it comes from: how to capture and compile.
        compiler: its workers.
        say: told what is being done.

    Raises:
        KinspectError: a name or value that cannot be set, or the compile failed.
    """
    old = _variant(report)
    options = {k: v for k, v in changed.items() if k not in old.signature and k in BACKEND_ONLY}
    constexprs = {k: v for k, v in changed.items() if k not in options}
    toolchain_options = frozenset(compiler.toolchain().options)
    axes = [Axis(name, (value,)) for name, value in changed.items()]
    unknown = unresolved_names(axes, toolchain_options, (*old.signature, *old.constexprs))
    path = report.id.partition("::")[0]
    if unknown:
        raise refused_name(unknown[0], toolchain_options, tuple(old.constexprs), path)
    base = old
    if constexprs:
        say("capturing")
        base = _captured(report, old, constexprs, request, compiler)
    elif not old.ttir:
        base = replace(old, ttir=_saved_ttir(report))
    inherited = {
        k: v for k, v in old.options.items() if k in BACKEND_ONLY and k not in old.signature
    }
    variant = replace(base, options={**base.options, **inherited, **options}, case=old.case)
    say("compiling")
    job = Job((0, 0), path, variant, compiler.settings, request.overrides, request.rules)
    outcome = compile_and_report(job, compiler)
    if outcome.error is not None:
        raise KinspectError(f"{outcome.error.stage}: {outcome.error.message}", outcome.error.hint)
    if not outcome.reports:
        raise KinspectError("the compile gave no kernel", "run again; the store may be damaged")
    return outcome.reports[0]


def compiler_for(request: Request | None) -> Compiler:
    """Workers that compile as the run does."""
    return Compiler(settings_of(request if request is not None else Request(())))


def _variant(report: KernelReport) -> Variant:
    variant = report.variant
    if variant is None or not (variant.ttir or "ttir" in report.artifacts):
        raise KinspectError(
            "it was read and not compiled here: there is nothing to compile it from",
            "open the .py file that launches it, or its .ttir",
        )
    return variant


def _saved_ttir(report: KernelReport) -> str:
    try:
        return report.artifacts["ttir"].path.read_text("utf-8", "replace")
    except OSError as error:
        raise KinspectError(f"its TTIR cannot be read: {error.strerror}", "open its .py") from None


def _captured(
    report: KernelReport,
    old: Variant,
    changed: Mapping[str, Value],
    request: Request,
    compiler: Compiler,
) -> Variant:
    """The kernel's file captured again, with other constexprs."""
    path = Path(report.id.partition("::")[0])
    targets = [target for target in resolve(str(path)) if target.kind in COMPILED - {"ttir"}]
    if not targets:
        raise KinspectError(
            f"{path}: constexprs are part of its TTIR", "change options alone, or open the .py file"
        )
    # A configuration that the autotuner chose is asked for by its values.
    tuned = {k: v for k, v in (old.tuning or {}).items() if k in old.constexprs}
    axes = {**tuned, **changed}
    capture = replace(
        request.capture,
        axes={name: (value,) for name, value in axes.items()},
        max_configs=1,
        all_configs=False,
    )
    capture_request = replace(
        request,
        targets=(str(path),),
        archs=(old.arch,),
        kernel=old.kernel,
        capture=capture,
    )
    captured: list[Variant] = []
    errors: list[ErrorRecord] = []
    for target in targets:
        variants, failed = variants_of(target, capture_request, compiler)
        captured += variants
        errors += failed
    fitting = [
        v
        for v in captured
        if v.kernel == old.kernel
        and all(k in v.constexprs and v.constexprs[k] == value for k, value in changed.items())
    ]
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


def _likeness(variant: Variant, old: Variant, axes: Mapping[str, object]) -> tuple[int, ...]:
    """How much of one specialisation is as in another: one launch of several is meant."""
    unchanged = {k: v for k, v in old.constexprs.items() if k not in axes}
    return (
        variant.signature == old.signature,
        sum(variant.constexprs.get(k) == v for k, v in unchanged.items()),
        variant.attrs == old.attrs,
        variant.grid == old.grid,
    )


def _plain(value: object) -> Value | None:
    return value if isinstance(value, bool | int | float | str) else None
