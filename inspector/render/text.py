"""The report for people at a terminal: one screen per kernel, worst first, a table when many.

Colour goes through rich alone, so NO_COLOR, non-terminals and TERM=dumb are respected.
"""

from __future__ import annotations

from typing import TextIO

from kinspect.inspector.model import ErrorRecord, Finding, KernelReport, Report
from kinspect.inspector.render import view
from kinspect.inspector.render.table import Column, rows_of
from rich.console import Console
from rich.text import Text

BAR_WIDTH = 20
WIDTH = 110
"""Lines are no longer than this even on a wider terminal."""
DETAILS_UP_TO = 3
"""With more kernels than this, a table comes first and only the worst is shown in full."""

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def write(
    report: Report, stream: TextIO, *, details: bool = False, color: bool | None = None
) -> None:
    """Prints the report. `details` shows every kernel in full, however many there are."""
    console = console_for(stream, color)
    kernels = report.kernels
    if len(kernels) > 1:
        _table(console, kernels)
    shown = kernels if details or len(kernels) <= DETAILS_UP_TO else kernels[:1]
    for kernel in shown:
        console.print()
        _kernel(console, kernel)
    if len(shown) < len(kernels):
        console.print()
        rest = len(kernels) - len(shown)
        console.print(
            f"  {view.plural(rest, 'more kernel')}: --kernel NAME shows one, --details all of them,"
            " --format json is for machines",
            style="dim",
        )
    if report.errors:
        console.print()
        for error in report.errors:
            console.print(error_line(error))


def console_for(stream: TextIO, color: bool | None = None) -> Console:
    """A console on `stream`: as wide as the terminal, 110 columns elsewhere."""
    probe = Console(file=stream, highlight=False, soft_wrap=True)
    if probe.is_terminal:
        return Console(file=stream, highlight=False, soft_wrap=True, no_color=color is False)
    return Console(
        file=stream, highlight=False, soft_wrap=True, width=WIDTH, force_terminal=color or None
    )


def error_line(error: ErrorRecord) -> Text:
    """One failed kernel or file: where, at which stage, what, and what to do next."""
    where = " ".join(part for part in (error.file, error.kernel) if part)
    line = Text("  failed ", style="bold red")
    line.append(f"{where}  " if where else "", style="bold")
    line.append(f"{error.stage}: {error.message}", style="")
    if error.hint:
        line.append(f"; {error.hint}", style="dim")
    return line


# --------------------------------------------------------------------------- many kernels


def _table(console: Console, kernels: tuple[KernelReport, ...]) -> None:
    columns = [
        Column("kernel", lambda k: k.name),
        Column("case", lambda k: (k.variant.case or "") if k.variant else ""),
        Column("arch", lambda k: k.arch or view.UNKNOWN),
        Column("VGPRs", lambda k: view.show(view.value(k.metrics, "vgpr_count")), right=True),
        Column(
            "spills", lambda k: view.show(view.value(k.metrics, "vgpr_spill_count")), right=True
        ),
        Column("in loop", lambda k: str(view.hot_scratch(k)), right=True),
        Column("LDS", lambda k: view.kib(view.integer(k.metrics, "lds_bytes")), right=True),
        Column(
            "waves/EU",
            lambda k: view.show(view.value(k.metrics, "occupancy.waves_per_eu")),
            right=True,
        ),
        Column("limited by", lambda k: view.show(view.value(k.metrics, "occupancy.limiter"))),
        Column("MFMA/iter", _matrix, right=True),
        Column("full waits", _full_waits, right=True),
        Column("findings", _marks),
    ]
    for index, line in enumerate(rows_of(columns, kernels)):
        console.print(Text(line, style="bold" if index == 0 else ""))


def _matrix(kernel: KernelReport) -> str:
    loop = view.main_loop(kernel)
    return str(view.count(loop.metrics, "mfma", "wmma")) if loop else "–"


def _full_waits(kernel: KernelReport) -> str:
    loop = view.main_loop(kernel)
    return str(view.count(loop.metrics, "full_wait")) if loop else "–"


def _marks(kernel: KernelReport) -> str:
    letters = {"error": "E", "warning": "W", "info": "N"}
    parts = []
    for severity, letter in letters.items():
        n = sum(f.severity == severity for f in kernel.findings)
        if n:
            parts.append(f"{n}{letter}")
    return " ".join(parts)


# --------------------------------------------------------------------------- one kernel


def _kernel(console: Console, kernel: KernelReport) -> None:
    title = Text(kernel.name, style="bold")
    title.append(f"  {kernel.arch or 'unknown target'}")
    if kernel.source is not None:
        title.append(f"  {view.place(kernel.source)}")
    if kernel.variant is not None and kernel.variant.case:
        title.append(f"  [{kernel.variant.case}]")
    console.print(title)
    configuration = view.configuration(kernel)
    if configuration:
        console.print(Text(f"  {configuration}", style="dim"))
    console.print()
    _resources(console, kernel)
    _loops(console, kernel)
    _memory(console, kernel)
    _findings(console, kernel)


def _resources(console: Console, kernel: KernelReport) -> None:
    m = kernel.metrics
    vgprs, limit = view.integer(m, "vgpr_count"), view.integer(m, "vgpr_limit")
    line = _gauge("VGPRs", view.show(vgprs), view.show(limit), vgprs, limit)
    line.append(f"   AGPRs {view.show(view.value(m, 'agpr_count'))}")
    line.append(f"   SGPRs {view.show(view.value(m, 'sgpr_count'))}")
    spills = view.integer(m, "vgpr_spill_count")
    line.append(f"   spills {view.show(spills)}", style="yellow" if spills else "")
    scratch = view.integer(m, "scratch_bytes")
    line.append(f"   scratch {view.kib(scratch)}", style="yellow" if scratch else "")
    console.print(line)
    lds, lds_limit = view.integer(m, "lds_bytes"), view.integer(m, "lds_limit")
    line = _gauge("LDS", _kib_number(lds), view.kib(lds_limit), lds, lds_limit)
    code = view.integer(m, "code_bytes")
    line.append(f"   code {view.kib(code)}")
    if lds is None and m.get("lds_bytes") is not None:
        line.append(f"   ({m['lds_bytes'].note})", style="dim")
    console.print(line)
    first, *rest = view.occupancy_lines(kernel)
    console.print(f"  {'Occupancy':<11} {first}")
    for text in rest:
        console.print(Text(f"  {'':<11} {text}", style="dim"))


def _gauge(label: str, used: str, limit: str, n: int | None, of: int | None) -> Text:
    line = Text(f"  {label:<8}{used:>6} of {limit:<10}")
    if n is not None and of:
        filled = min(BAR_WIDTH, max(1 if n else 0, round(BAR_WIDTH * n / of)))
        style = "red" if n > of * 0.9 else "green"
        line.append("▇" * filled, style=style)
        line.append("▁" * (BAR_WIDTH - filled), style="dim")
    return line


def _kib_number(size: int | None) -> str:
    return view.kib(size).removesuffix(" KiB")


def _loops(console: Console, kernel: KernelReport) -> None:
    loops = [loop for loop in kernel.loops if loop.hot]
    main = view.main_loop(kernel)
    console.print()
    if main is None:
        if view.integer(kernel.metrics, "instruction_count") is None:
            console.print("  No code was read: loops, instructions and accesses are unknown")
            return
        console.print(Text("  No loop; the whole kernel:", style="bold"))
        _scorecard(console, view.scorecard(kernel.metrics))
        return
    loops.sort(key=lambda loop: loop.id != main.id)
    for loop in loops[:2]:
        line = Text("  Hot loop" if loop is main else "  and", style="bold")
        line.append(f"  {loop.id}  {view.loop_title(loop)}", style="")
        console.print(line)
        _scorecard(console, view.scorecard(loop.metrics))
    if len(loops) > 2:
        console.print(
            Text(f"  and {view.plural(len(loops) - 2, 'more hot loop')} (--format json)", "dim")
        )


def _scorecard(console: Console, pairs: list[tuple[str, str]]) -> None:
    line = Text("    ")
    for label, figure in pairs:
        cell = f"{label} {figure}"
        if len(line) + len(cell) > min(console.width, WIDTH):
            line.rstrip()
            console.print(line)
            line = Text("    ")
        hurts = label == "scratch" and figure != "0"
        line.append(cell, style="bold red" if hurts else "")
        line.append("   ")
    line.rstrip()
    console.print(line)


def _memory(console: Console, kernel: KernelReport) -> None:
    rows = view.memory_rows(kernel.memory_ops, kernel.main_loop)
    if not rows:
        return
    where = "in the hot loop" if kernel.main_loop else "in the kernel"
    columns = [
        Column(f"Memory {where}", lambda r: f"{r.count:>3} × {r.mnemonic}"),
        Column("bits", lambda r: view.show(r.bits), right=True),
        Column("source", lambda r: r.places),
        Column("note", lambda r: r.note),
    ]
    console.print()
    for index, line in enumerate(rows_of(columns, rows)):
        console.print(Text(f"  {line}".rstrip(), style="bold" if index == 0 else ""))


def _findings(console: Console, kernel: KernelReport) -> None:
    console.print()
    if kernel.findings or view.integer(kernel.metrics, "instruction_count") is not None:
        console.print(Text(f"  {view.findings_summary(kernel.findings)}", style="bold"))
    for finding in kernel.findings:
        _wrapped(console, _finding(finding), "              ")
        last = [f for f in kernel.findings if f.rule == finding.rule][-1]
        if finding is last and finding.fix:  # a fix that several findings share is said once
            _wrapped(console, Text(f"            → {finding.fix}", style="dim"), "              ")
    for note in kernel.notes:
        _wrapped(console, Text(f"  note: {note}", style="dim"), "    ")


def _finding(finding: Finding) -> Text:
    line = Text("    ")
    line.append(f"{finding.severity:<8}", style=_STYLES[finding.severity])
    where = view.finding_place(finding)
    line.append(f"{finding.rule}  {finding.message}" + (f"  ({where})" if where else ""))
    return line


def _wrapped(console: Console, line: Text, indent: str) -> None:
    """Prints a sentence over as many lines as it takes, continued under `indent`."""
    width = min(console.width, WIDTH)
    first, *rest = line.wrap(console, width)
    first.rstrip()
    console.print(first)
    tail = Text("").join([*rest])
    if tail:
        for part in tail.wrap(console, width - len(indent)):
            console.print(Text(indent) + part)
