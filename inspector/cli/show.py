"""`kinspect show`: prints a kernel's code, with marks or as it is; opens what an id names."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
from msgspec import Struct

from ..base.errors import KinspectError
from ..base.limits import natural
from ..explain.items import ItemId, parsed
from ..model import KernelReport, RegisterPressure, Report
from ..pipeline.analysis_options import AnalysisOptions
from .collected import CASE_HELP, only_kernel
from .declared import Options, command, option
from .options import COLOR, OUTPUT, format_option, result_stream
from .progress import print_problems
from .target_options import ScriptCommand, TargetOptions, targets

if TYPE_CHECKING:
    from ..explain.code.reading import KernelReading, MarkedLine
    from ..explain.code.texts import Texts
    from ..explain.items import NamedItem
    from .show_item import ShownItem

_CONTEXT = 2
"""Lines before and after one that a finding points at."""
_FLAGS = {"amdgcn": "--isa", "ttgir": "--ttgir", "ttir": "--ttir", "llir": "--llir"}


_KIND: Any = Options(
    [
        click.Option(["kind", _FLAGS[kind]], flag_value=kind, help=text)
        for kind, text in (
            ("amdgcn", "The assembly.  [this one]"),
            ("ttgir", "Triton's GPU IR."),
            ("ttir", "Triton's IR."),
            ("llir", "LLVM's IR."),
        )
    ],
    lambda values: values.pop("kind"),
)


def line_range(
    ctx: click.Context, parameter: click.Parameter, value: str | None
) -> tuple[int, int | None] | None:
    """Parses `A:B`, `A:` (to the end), `:B` or `A`: the first and last line, from 1."""
    if value is None:
        return None
    first, colon, last = value.partition(":")
    numbers = [natural(part) or 0 for part in (first or "1", last or first)]
    if not value.strip(":") or min(numbers) < 1:
        raise click.BadParameter(f"{value[:60]!r} is not A:B, lines from 1 on")
    start = numbers[0]
    end = numbers[1] if last or not colon else None
    if end is not None and end < start:
        raise click.BadParameter(f"{value!r}: line {end} comes before line {start}")
    return start, end


@command(cls=ScriptCommand)
def show(
    kind: str | None = _KIND,
    lines: tuple[int, int | None] | None = option(
        "Only these lines.  [the kernel's]", callback=line_range, metavar="A:B"
    ),
    plain: bool = option("The text as it is, such as an assembler takes it."),
    details: bool = option("Of a loop's id: all metrics, and the code."),
    case: str | None = option(CASE_HELP, metavar="TEXT"),
    form: str = format_option("text", "agent", "json"),
    output: Path | None = OUTPUT,
    target: TargetOptions = targets("TARGET|ID", point=True),
    color: bool | None = COLOR,
) -> None:
    """Print a kernel's code with what is known of its lines, or what an id stands for.

    Next to each instruction of the assembly are its live VGPRs (and AGPRs) with a bar, its loop
    and its line of the source. Rules with a finding there are named. In the bar, ┊ marks the most
    registers that each occupancy admits. Lines that only serve debuggers are left out. The IRs
    have the line of the source and the rules. Line numbers are those of the file.

    With --plain the text itself is printed, the whole file unless --lines selects lines.
    TARGET is what `kinspect analyze` takes.

    ID is one that --format agent of `analyze` or `lint` printed, or a fingerprint of JSON or SARIF.
    It names a finding (1bf6c8: figures, places, why, fix, code), a kernel (eb3938: its report, or
    its code with the options above), a loop (eb3938.L0: its main figures; with --isa its code, with
    --details all of both) or a memory access (eb3938.M41). With --format agent they take 2,000
    tokens at most. The files of the id's run are analysed again, with the options of that run.
    """
    item = _item_id(target.targets[0])
    if item is not None:
        as_code = bool(kind or plain or lines)
        _refuse_selection(target, case)
        from .show_item import opened

        output = output.absolute() if output is not None else None
        with opened(target.targets[0], item) as shown:
            named = shown.named
            if not as_code or _is_loops_code(named, kind, lines, plain):
                with result_stream(output) as stream:
                    what = _Part(details or as_code, details or not as_code)
                    notes = _write_item(shown, stream, form, color, what)
                print_problems((), notes)
                return
            if not named.is_kernel:
                raise KinspectError(
                    f"{named.id} is not a kernel", f"`kinspect show {named.kernel_id}` is one"
                )
            _show_code(named.kernel, kind, lines, plain, form, output, color)
        return
    if details or form == "agent":
        raise KinspectError(
            f"{target.targets[0]} is a file", "name an id, or choose lines by --isa and --lines"
        )
    marked = not plain
    kernel = only_kernel(
        target,
        case,
        AnalysisOptions(lanes=marked, races=marked, values=marked),
        is_shown=lambda kernel: True,
        nothing=("there is no kernel in it", "see `kinspect analyze` for what it takes"),
    )
    _show_code(kernel, kind, lines, plain, form, output, color)


def _show_code(
    kernel: KernelReport,
    kind: str | None,
    lines: tuple[int, int | None] | None,
    plain: bool,
    form: str,
    output: Path | None,
    color: bool | None,
) -> None:
    """Prints one of a kernel's texts; arguments as for the command."""
    chosen = kind or "amdgcn"
    from ..explain.code import texts as code_texts

    texts = code_texts.texts_of(kernel)
    if chosen == "ttir":
        texts = code_texts.with_ttir(texts, kernel)
    if plain:
        with result_stream(output, log=False) as stream:
            _write_plain(kernel, chosen, lines, texts, stream)
        return
    from ..explain.code.reading import reading_of

    reading = reading_of(kernel, texts)
    _check(chosen, reading.texts)
    with result_stream(output) as stream:
        _write_marked(kernel, chosen, lines, reading, stream, form=form, color=color)
    print_problems((), reading.notes)


def _item_id(text: str) -> ItemId | None:
    """The parts of an id; None where it is a target."""
    item = parsed(text)
    if item is not None and os.path.lexists(text):
        raise KinspectError(
            f"{text}: an id, and something here has that name", f"name the latter as ./{text}"
        )
    return item


def _refuse_selection(target: TargetOptions, case: str | None) -> None:
    """Refuses options that choose among kernels."""
    if target.archs or target.kernel or target.point or case is not None:
        raise KinspectError(
            f"{target.targets[0]} names one kernel",
            "drop --arch, --kernel, --set and --case, or name a file",
        )


class _Part(Struct, frozen=True):
    """What of a loop is printed."""

    code: bool
    metrics: bool


def _is_loops_code(
    named: NamedItem, kind: str | None, lines: tuple[int, int | None] | None, plain: bool
) -> bool:
    """Whether options ask for the assembly of a loop, and for nothing else."""
    return named.loop is not None and kind == "amdgcn" and lines is None and not plain


def _write_item(
    shown: ShownItem, stream: TextIO, form: str, color: bool | None, part: _Part
) -> tuple[str, ...]:
    """Writes what an id names, with the code that it is about; returns notes on that."""
    from ..formats import item_json, item_text
    from ..present import text

    named = shown.named
    kernel = named.kernel
    if form == "agent" and part.metrics:
        from ..formats import item_agent

        item_agent.write(named, shown.rule, stream, details=part.code, calls=shown.calls)
        return ()
    if named.is_kernel:
        if form == "json":
            item_json.write_kernel(kernel, stream)
        else:
            from ..present.report import write_text

            report = Report("", {}, (kernel,), ())
            write_text(report, stream, details=True, every=True, color=color)
        return ()
    from ..explain.code.reading import reading_of
    from ..explain.code.texts import texts_of
    from ..metrics.line_bounds import register_pressure

    reading = reading_of(kernel, texts_of(kernel))
    pressure = register_pressure(kernel)
    lines = _lines_of_item(named, reading, pressure)
    if form == "json":
        if named.loop is not None:
            item_json.write_loop(named.loop, kernel, lines, stream)
        elif named.access is not None:
            item_json.write_access(named.access, kernel, lines, stream)
        else:
            item_json.write_findings(named.findings, shown.rule, kernel, lines, stream)
        return reading.notes
    if named.loop is None or part.metrics:
        text.show(item_text.document(named, shown.rule, details=part.code), stream, color)
    if named.loop is not None and not part.code:
        return ()
    if lines:
        from ..formats import code_text

        if named.loop is None or part.metrics:
            stream.write("\n")
        code_text.write(lines, kernel, "ISA", pressure, stream, color=color)
    return reading.notes


def _lines_of_item(
    named: NamedItem, reading: KernelReading, pressure: RegisterPressure | None
) -> list[MarkedLine]:
    """The assembly that an id is about, with its neighbours where it is single lines."""
    from ..explain.code.reading import code_lines, debug_lines, marked_lines

    text = reading.texts.lines.get("amdgcn")
    if text is None:
        return []
    whole = code_lines(reading, "amdgcn")
    if named.loop is not None:
        numbers = {n for first, last in named.loop.lines for n in range(first, last + 1)}
    elif named.access is not None:
        numbers = _neighbours([named.access.line])
    else:
        numbers = _neighbours([line for finding in named.findings for line in finding.isa_lines])
    numbers = (numbers & set(whole)) - debug_lines(text)
    return [
        line for line in marked_lines(reading, "amdgcn", whole, pressure) if line.number in numbers
    ]


def _neighbours(lines: Iterable[int]) -> set[int]:
    return {n for line in lines for n in range(line - _CONTEXT, line + _CONTEXT + 1)}


def _check(kind: str, texts: Texts) -> None:
    """Refuses a text that is not there."""
    if kind not in texts.lines:
        others = ", ".join(flag for other, flag in _FLAGS.items() if other in texts.lines)
        reason = texts.missing.get(kind, "it is missing").rstrip(".")
        raise KinspectError(reason, f"there is {others}" if others else "name another target")


def _write_plain(
    kernel: KernelReport,
    kind: str,
    lines: tuple[int, int | None] | None,
    texts: Texts,
    stream: TextIO,
) -> None:
    """Writes a text as it stands in its file; of a code object its disassembly."""
    from ..pipeline.inputs import read_text

    if kind not in texts.lines:
        from ..explain.code.reading import reading_of

        listed = reading_of(kernel, texts).texts
        _check(kind, listed)
        parts = [f"{line}\n" for line in listed.lines[kind]]
    else:
        parts = read_text(Path(texts.files[kind])).splitlines(keepends=True)
    numbers = _numbers(lines, range(1, len(parts) + 1), len(parts))
    stream.writelines(parts[number - 1] for number in numbers)


def _numbers(lines: tuple[int, int | None] | None, default: range, count: int) -> range:
    """The numbers of the lines to print."""
    if lines is None:
        return default
    first, last = lines
    if first > count:
        raise KinspectError(f"--lines {first}: the text has {count} lines", "name earlier ones")
    return range(first, min(last or count, count) + 1)


def _write_marked(
    kernel: KernelReport,
    kind: str,
    lines: tuple[int, int | None] | None,
    reading: KernelReading,
    stream: TextIO,
    *,
    form: str,
    color: bool | None,
) -> None:
    """Writes the lines with their marks."""
    from ..explain.code.reading import code_lines, debug_lines, marked_lines
    from ..explain.code.texts import TITLES
    from ..metrics.line_bounds import register_pressure

    text = reading.texts.lines[kind]
    pressure = register_pressure(kernel) if kind == "amdgcn" else None
    numbers = _numbers(lines, code_lines(reading, kind), len(text))
    marked = marked_lines(reading, kind, numbers, pressure)
    if kind == "amdgcn" and lines is None:
        hidden = debug_lines(text)
        marked = [line for line in marked if line.number not in hidden]
    if form == "json":
        from ..formats import code_json

        code_json.write(marked, kernel, kind, pressure, stream)
    else:
        from ..formats import code_text

        code_text.write(marked, kernel, TITLES[kind], pressure, stream, color=color)
