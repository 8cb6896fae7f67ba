"""`kinspect passes`: lists the compiler's passes over a kernel, and their changes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

import click
from msgspec.structs import replace

from ..base.errors import KinspectError
from ..base.limits import natural
from ..base.named_files import file_text
from ..base.staging import scratch_folder
from ..base.streams import dump_json
from ..capture.resolving import resolve, split
from ..compile.llvm_passes import DUMP, TIMING, MachinePass, machine_passes, pass_times
from ..compile.passes import CompilerPass, PassDump, diff, read_passes
from ..compile.pool import Compiler, CompileResult
from ..model import Variant
from ..pipeline.capturing import variants_of
from ..pipeline.jobs import Request, settings_of
from ..pipeline.naming import label_of
from ..pipeline.reading import load_saved, requested_kernels
from ..pipeline.sweep_point import ALREADY_COMPILED, check_names
from ..present.document import Column, Columns, Section, table
from .declared import command, option
from .options import OUTPUT, format_option, result_stream, write_form
from .target_options import ScriptCommand, TargetOptions, targets

Environment = tuple[tuple[str, str], ...]


@command(cls=ScriptCommand)
def passes(
    points: str | None = option(
        "What pass P changed, or what changed between before P and before Q.",
        "--diff",
        metavar="P[..Q]",
    ),
    changed: bool = option("List only passes that changed something."),
    thing: str | None = option(
        "Which passes made, changed or removed it: a source line, a value, an operation.",
        "--of",
        metavar="LINE|%VALUE|OP|OP@LINE",
    ),
    llvm: bool = option("LLVM's code generator: pressure, spills and time of each pass."),
    timed: bool = option(
        "CPU time of each stage, and the time of each pass with the operations that it is given.",
        "--time",
    ),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
    target: TargetOptions = targets("TARGET", point=True),
) -> None:
    """What each compiler pass did to a kernel: name, operation, changed or not, size.

    TARGET is a .py or .ttir file, which is compiled, a .kinspect file, or a file with an
    MLIR dump (MLIR_ENABLE_DUMP=1). A point is the number or the name of a pass; a name means the
    first pass of that name. Debug locations and value names do not count as changes.
    """
    if sum((points is not None, thing is not None, llvm, timed)) > 1:
        raise click.UsageError("--diff, --of, --llvm and --time exclude one another")
    request = target.request(passes=True)
    (name,) = target.targets
    if llvm or timed:
        (_write_llvm if llvm else _write_costs)(name, request, form, output)
        return
    dump = _dump(name, request)
    if thing is not None:
        from ..compare.passhistory import history_of
        from ..formats.pass_history import history_document

        history = history_of(dump, thing)
        write_form(form, history_document(history), history, output)
    elif points is not None:
        with result_stream(output) as stream:
            _write_diff(dump, points, form, stream)
    else:
        listed = [p for p in dump.passes if p.changed is not False or not changed]
        fields = {"passes": [_entry(p) for p in listed]}
        write_form(form, (Section((table(_COLUMNS, listed),)),), fields, output)


def _dump(target: str, request: Request) -> PassDump:
    """Returns the passes of a saved report or MLIR dump, or of a compile of the target."""
    path, _ = split(target)
    if request.point and path.is_file() and path.suffix not in (".py", ".ttir"):
        message, hint = ALREADY_COMPILED
        raise KinspectError(f"{path}: {message}", hint)
    if path.suffix == ".kinspect" and path.is_file():
        return _saved_dump(path, request)
    if path.is_file() and path.suffix not in (".py", ".ttir"):
        return read_passes(path)
    with Compiler(settings_of(request)) as compiler:
        result = _compiled(compiler, _variant(target, request, compiler))
    ends = [(s.stage, s.dump_bytes) for s in result.stages if s.dump_bytes is not None]
    return read_passes(result.artifacts["passes"].path, ends)


def _variant(target: str, request: Request, compiler: Compiler) -> Variant:
    """Returns the one kernel that a target has."""
    (file_target, *further) = resolve(target)
    if further or file_target.kind not in ("script", "ttir"):
        raise KinspectError(f"{target}: not one compilable file", "pass a .py or .ttir file")
    variants, errors = variants_of(file_target, request, compiler)
    check_names(variants, request, compiler)
    return _only(variants, target, [e.message for e in errors])


def _compiled(compiler: Compiler, variant: Variant) -> CompileResult:
    """Compiles a variant."""
    result = compiler.compile(variant)
    if result.error is not None:
        raise KinspectError(f"{variant.kernel}: {result.error.message}", result.error.hint)
    return result


def _write_llvm(target: str, request: Request, form: str, output: Path | None) -> None:
    """Compiles twice, for the dump and for the times, which the dump would distort."""
    from ..formats.pass_history import llvm_document

    with Compiler(settings_of(request)) as compiler:
        variant = _variant(target, request, compiler)
    passes_run = _machine_passes(variant, request)
    if not passes_run:
        raise KinspectError(
            "this Triton's LLVM prints no machine code", "Triton 3.9 does; see --python"
        )
    _, text = _compiled_with(TIMING, variant, request)
    times = pass_times(text)
    fields = {"passes": passes_run, "times": times}
    write_form(form, llvm_document(passes_run, times), fields, output)


def _write_costs(target: str, request: Request, form: str, output: Path | None) -> None:
    """Compiles once more for the machine code and for the times, which dumps would distort."""
    from ..compare.blame.compiles import cpu_seconds
    from ..compare.pass_costs import pass_costs
    from ..formats.pass_history import costs_document, costs_fields

    with Compiler(settings_of(request)) as compiler:
        variant = _variant(target, request, compiler)
        dump = read_passes(_compiled(compiler, variant).artifacts["passes"].path, changes=False)
    passes_run = _machine_passes(variant, request)
    result, text = _compiled_with(TIMING, variant, request)
    times = pass_times(text)
    if not times:
        raise KinspectError("this Triton's compiler reports no times", "see --python")
    told = cpu_seconds(result), pass_costs(times, dump, passes_run)
    write_form(form, costs_document(*told), costs_fields(*told), output)


def _machine_passes(variant: Variant, request: Request) -> tuple[MachinePass, ...]:
    """The machine code after each pass; empty where this Triton's LLVM prints none."""
    return machine_passes(_compiled_with(DUMP, variant, request)[1])


def _compiled_with(
    environment: Environment, variant: Variant, request: Request
) -> tuple[CompileResult, str]:
    """Compiles with some variables set, and returns what the compiler wrote to stderr besides."""
    # The dump of a large kernel has hundreds of megabytes: it does not belong in the store.
    with scratch_folder() as folder:
        settings = replace(
            settings_of(request), passes=False, cache_dir=folder, environment=environment
        )
        with Compiler(settings) as compiler:
            result = _compiled(compiler, variant)
            return result, file_text(result.artifacts["stderr"].path)


def _saved_dump(path: Path, request: Request) -> PassDump:
    kernel_names = (request.kernel,) if request.kernel is not None else ()
    selected = requested_kernels(load_saved(path), kernel_names, request.archs)
    kernels = [k for k in selected if "passes" in k.artifacts]
    if len(kernels) != 1:
        names = ", ".join(k.id.rpartition("::")[2].partition("#")[0] for k in kernels[:8])
        raise KinspectError(
            f"{path}: {len(kernels)} of its kernels with a pass dump are asked for",
            f"choose one with --kernel and --arch: {names}" if kernels else "see --kernel, --arch",
        )
    return read_passes(kernels[0].artifacts["passes"].path)


def _only(variants: Sequence[Variant], target: str, errors: Sequence[str]) -> Variant:
    if not variants:
        raise KinspectError(f"{target}: {errors[0] if errors else 'no kernel in it'}", "")
    if len(variants) > 1:
        names = ", ".join(label_of(v) for v in variants[:8]) + (", …" if len(variants) > 8 else "")
        raise KinspectError(
            f"{target}: it has {len(variants)} kernels", f"choose one with --kernel: {names}"
        )
    return variants[0]


def _write_diff(dump: PassDump, points: str, form: str, stream: TextIO) -> None:
    """Writes the change by pass P, or between the states before P and before Q (`P..Q`)."""
    first, dots, second = points.partition("..")
    left = _point(dump, first)
    right = _point(dump, second) if dots else left + 1
    if right == len(dump.passes) and not dots:
        raise KinspectError(
            f"pass {left} is the last one: the dump does not hold what it made",
            "its result is the next stage's artifact",
        )
    text = diff(dump, left, right)
    if form == "json":
        dump_json({"before": left, "after": right, "diff": text}, stream)
    else:
        stream.write(text or "no difference\n")


def _point(dump: PassDump, text: str) -> int:
    """Returns the index of a pass by its number or name; of several, the first."""
    text = text.strip()
    index = natural(text)
    if index is not None:
        if index < len(dump.passes):
            return index
        raise KinspectError(f"no pass {index}", f"passes count from 0 to {len(dump.passes) - 1}")
    for candidate in dump.passes:
        if text in (candidate.cli, candidate.name):
            return candidate.index
    import difflib

    names = sorted({name for item in dump.passes for name in (item.cli, item.name)})
    near = difflib.get_close_matches(text, names, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else "see `kinspect passes TARGET`"
    raise KinspectError(f"no pass named {text!r}", hint)


def _entry(item: CompilerPass) -> dict[str, object]:
    return {
        "index": item.index,
        "class": item.name,
        "name": item.cli,
        "options": item.options,
        "stage": item.stage,
        "operation": item.op,
        "function": item.function,
        "bytes": item.size,
        "changed": item.changed,
    }


_CHANGED = {True: "changed", False: "", None: "?"}
_COLUMNS: Columns = (
    (Column("#", right=True), lambda item: str(item.index)),
    ("stage", lambda item: item.stage),
    (Column("pass", shrinks=True), lambda item: item.cli or item.name),
    (Column("on", rank=2), lambda item: item.function or item.op),
    ("changed", lambda item: _CHANGED[item.changed]),
    (Column("bytes before", right=True, rank=1), lambda item: f"{item.size:,}"),
    (Column("options", shrinks=True, rank=3), lambda item: item.options),
)
