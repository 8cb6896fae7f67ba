"""The report for people at a terminal: one screen per kernel, worst first, a table when many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from ..explain import loop_view, occupancy_view, registers_view, time_view, view
from ..explain.emulated_view import emulated_lines
from ..explain.lds_map import map_lines
from ..explain.table import Column, rows_of
from ..explain.trials_view import tried_lines
from ..model import Finding, KernelReport, MemoryOp, Report, SpillSlot, int_of, value_of
from .paper import Line, Paper, paper_for, print_table, print_wrapped

BAR_WIDTH = 20
DETAILS_UP_TO = 3
"""With more kernels than this, a table comes first and only the worst is shown in full."""
_MOST_SLOTS = 5
_MOST_SLOT_LINES = 3

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def write(
    report: Report,
    stream: TextIO,
    *,
    details: bool = False,
    every: bool = False,
    color: bool | None = None,
) -> None:
    """Prints the report.

    Args:
        report: the report.
        stream: where it is written.
        details: every kernel in full, however many there are.
        every: what saves too little to be a finding as well.
        color: whether there are colours; None: on a terminal that has them.
    """
    paper = paper_for(stream, color)
    kernels = report.kernels
    if len(kernels) > 1:
        _table(paper, kernels)
    in_full = kernels if details or len(kernels) <= DETAILS_UP_TO else kernels[:1]
    for kernel in in_full:
        paper.print(Line())
        _kernel(paper, kernel, every)
    if len(in_full) < len(kernels):
        paper.print(Line())
        left_out = len(kernels) - len(in_full)
        hint = (
            f"  {view.plural(left_out, 'more kernel')}: --kernel NAME shows one, --details all of"
            " them, --format json is for machines"
        )
        paper.print(Line(hint, "dim"))


def _table(paper: Paper, kernels: tuple[KernelReport, ...]) -> None:
    """Prints a table with one line per kernel."""
    files = {view.path_of(k) for k in kernels}
    columns = [
        Column("file", lambda k: view.file_name(view.path_of(k)) if len(files) > 1 else ""),
        Column("kernel", lambda k: k.name),
        Column("case", lambda k: (k.variant.case or "") if k.variant else ""),
        Column("arch", lambda k: k.arch or view.UNKNOWN),
        Column("time", lambda k: time_view.amount(k.time.us) if k.time else "", right=True),
        Column("VGPRs", lambda k: view.show(value_of(k.metrics, "vgpr_count")), right=True),
        Column("spills", lambda k: view.show(value_of(k.metrics, "vgpr_spill_count")), right=True),
        Column("in loop", lambda k: str(view.hot_scratch(k)), right=True),
        Column("LDS", lambda k: view.kib(int_of(k.metrics, "lds_bytes")), right=True),
        Column(
            "waves/EU",
            lambda k: view.show(value_of(k.metrics, "occupancy.waves_per_eu")),
            right=True,
        ),
        Column("limited by", lambda k: view.show(value_of(k.metrics, "occupancy.limiter"))),
        Column("MFMA/iter", _matrix, right=True),
        Column("full waits", _full_waits, right=True),
        Column("findings", _marks),
        Column("assumed", view.assumption_mark),
    ]
    print_table(paper, rows_of(columns, kernels), margin="")


def _matrix(kernel: KernelReport) -> str:
    loop = loop_view.main_loop(kernel)
    return str(view.count(loop.metrics, "mfma", "wmma")) if loop else "–"


def _full_waits(kernel: KernelReport) -> str:
    loop = loop_view.main_loop(kernel)
    return str(view.count(loop.metrics, "full_wait")) if loop else "–"


def _marks(kernel: KernelReport) -> str:
    letters = {"error": "E", "warning": "W", "info": "N"}
    parts = []
    for severity, letter in letters.items():
        n = sum(f.severity == severity for f in kernel.findings)
        if n:
            parts.append(f"{n}{letter}")
    return " ".join(parts)


def _kernel(paper: Paper, kernel: KernelReport, every: bool) -> None:
    """Prints a kernel in full."""
    title = Line(kernel.name, style="bold")
    title.append(f"  {kernel.arch or 'unknown target'}")
    if kernel.source is not None:
        title.append(f"  {view.place(kernel.source)}")
    if kernel.variant is not None and kernel.variant.case:
        title.append(f"  [{kernel.variant.case}]")
    paper.print(title)
    configuration = view.configuration(kernel)
    if configuration:
        paper.print(Line(f"  {configuration}", style="dim"))
    if kernel.time is not None:
        line = Line(f"  {time_view.summary(kernel.time)}", style="bold")
        print_wrapped(paper, line, "    ")
        if where := time_view.where(kernel.time):
            print_wrapped(paper, Line(f"  {where}"), "    ")
    if kernel.no_time:
        print_wrapped(paper, Line(f"  no time: {kernel.no_time}", style="dim"), "    ")
    if assumed := view.assumed(kernel):
        print_wrapped(paper, Line(f"  {assumed}", style="yellow"), "    ")
    if emulated := view.emulated(kernel):
        print_wrapped(paper, Line(f"  {emulated}", style="dim"), "    ")
    paper.print(Line())
    _resources(paper, kernel)
    _loops(paper, kernel)
    _memory(paper, kernel)
    _spills(paper, kernel)
    _lds_map(paper, kernel)
    _measured(paper, kernel)
    _emulated(paper, kernel)
    _findings(paper, kernel, every)


def _resources(paper: Paper, kernel: KernelReport) -> None:
    """Prints registers, LDS and code, with bars, and the occupancy."""
    m = kernel.metrics
    vgprs, limit = int_of(m, "vgpr_count"), int_of(m, "vgpr_limit")
    line = _gauge("VGPRs", view.show(vgprs), view.show(limit), vgprs, limit)
    line.append(f"   AGPRs {view.show(value_of(m, 'agpr_count'))}")
    line.append(f"   SGPRs {view.show(value_of(m, 'sgpr_count'))}")
    spills = int_of(m, "vgpr_spill_count")
    line.append(f"   spills {view.show(spills)}", style="yellow" if spills else "")
    scratch = int_of(m, "scratch_bytes")
    line.append(f"   scratch {view.kib(scratch)}", style="yellow" if scratch else "")
    paper.print(line)
    if live := view.live_registers(kernel):
        held = registers_view.held_text(kernel.live_peak) if kernel.live_peak else ""
        text = f"  {'':<11} {live}{': ' if held else ''}{held}"
        print_wrapped(paper, Line(text, style="dim"), " " * 16)
    lds, lds_limit = int_of(m, "lds_bytes"), int_of(m, "lds_limit")
    line = _gauge("LDS", _kib_number(lds), view.kib(lds_limit), lds, lds_limit)
    if lds is None and m.get("lds_bytes") is not None:
        line.append(m["lds_bytes"].note, "dim")
    line.append(f"   code {view.kib(int_of(m, 'code_bytes'))}")
    paper.print(line)
    first, *details = occupancy_view.occupancy_lines(kernel)
    paper.print(Line(f"  {'Occupancy':<11} {first}"))
    for text in details:
        paper.print(Line(f"  {'':<11} {text}", style="dim"))


def _gauge(label: str, used: str, limit: str, n: int | None, total: int | None) -> Line:
    line = Line(f"  {label:<8}{used:>6} of {limit:<10}")
    if n is not None and total:
        filled = min(BAR_WIDTH, max(1 if n else 0, round(BAR_WIDTH * n / total)))
        style = "red" if n > total * 0.9 else "green"
        line.append("▇" * filled, style=style)
        line.append("▁" * (BAR_WIDTH - filled), style="dim")
    return line


def _kib_number(size: int | None) -> str:
    return view.kib(size).removesuffix(" KiB")


def _loops(paper: Paper, kernel: KernelReport) -> None:
    """Prints the figures of the main loop and one more hot loop, or of a kernel without loops."""
    loops = [loop for loop in kernel.loops if loop.hot]
    main = loop_view.main_loop(kernel)
    paper.print(Line())
    unread = view.unread(kernel)
    if unread:
        print_wrapped(
            paper, Line(f"  {unread[0].upper()}{unread[1:]}", style="bold yellow"), "    "
        )
    if main is None:
        if int_of(kernel.metrics, "instruction_count") is None:
            paper.print(Line("  No code was read: loops, instructions and accesses are unknown"))
            return
        paper.print(Line(f"  {view.no_loop(kernel)}; the whole kernel:", style="bold"))
        _scorecard(paper, loop_view.scorecard(kernel.metrics))
        return
    loops.sort(key=lambda loop: loop.id != main.id)
    for loop in loops[:2]:
        line = Line("  Hot loop" if loop is main else "  and", style="bold")
        line.append(f"  {loop.id}  {loop_view.loop_title(loop)}", style="")
        paper.print(line)
        _scorecard(paper, loop_view.scorecard(loop.metrics))
    if len(loops) > 2:
        paper.print(
            Line(f"  and {view.plural(len(loops) - 2, 'more hot loop')} (--format json)", "dim")
        )


def _scorecard(paper: Paper, pairs: list[tuple[str, str]]) -> None:
    line = Line("    ")
    for label, figure in pairs:
        cell = f"{label} {figure}"
        if len(line.plain) + len(cell) > paper.width:
            paper.print(line)
            line = Line("    ")
        hurts = label == "scratch" and figure != "0"
        line.append(cell, style="bold red" if hurts else "")
        line.append("   ")
    paper.print(line)


def _memory(paper: Paper, kernel: KernelReport) -> None:
    """Prints the accesses of the main loop, or of the kernel, and why some are narrow."""
    rows = loop_view.memory_rows(kernel.memory_ops, kernel.main_loop)
    if not rows:
        return
    where = "in the hot loop" if kernel.main_loop else "in the kernel"
    columns = [
        Column(f"Memory {where}", lambda r: f"{r.count:>3} × {r.mnemonic}"),
        Column("bits", lambda r: view.show(r.bits), right=True),
        Column("source", lambda r: r.places),
        Column("note", lambda r: r.note),
    ]
    paper.print(Line())
    print_table(paper, rows_of(columns, rows))
    for text in loop_view.narrow_accesses(kernel):
        print_wrapped(paper, Line(f"  narrow: {text}", style="dim"), "          ")


def _spills(paper: Paper, kernel: KernelReport) -> None:
    lines = spill_lines(kernel)
    if lines:
        paper.print(Line())
    print_table(paper, lines, indent=" " * 8)


def _lds_map(paper: Paper, kernel: KernelReport) -> None:
    """Prints the map of LDS where that limits the occupancy, or is more than there is."""
    used, limit = int_of(kernel.metrics, "lds_bytes"), int_of(kernel.metrics, "lds_limit")
    exceeds = used is not None and limit is not None and used > limit
    if exceeds or value_of(kernel.metrics, "occupancy.limiter") == "lds":
        lines = map_lines(kernel)
        if lines:
            paper.print(Line())
        print_table(paper, lines, indent=" " * 8)


def spill_lines(kernel: KernelReport) -> list[str]:
    """Returns a title, the worst slots and the knobs; nothing if no hot loop has spills."""
    hot = {loop.id for loop in kernel.loops if loop.hot}
    slots = [slot for slot in kernel.spills if not hot.isdisjoint(slot.loops)]
    if not slots:
        return []
    ops = {op.line: op for op in kernel.memory_ops}
    labels = {loop.id: loop.header.label or loop.id for loop in kernel.loops}
    places = int_of(kernel.metrics, "spills.hot_slots")
    count = len(slots) if places is None else places
    in_turn = f" for {len(slots)} values in turn" if len(slots) > count else ""
    lines = [f"Spills in hot loops: {view.plural(count, 'slot')}{in_turn}"]
    if values := registers_view.spilled_in_hot_loops(kernel.spilled_values):
        lines.append(f"  {values}")
    for slot in slots[:_MOST_SLOTS]:
        parts = [
            f"{verb} {_slot_places(at, ops, labels, hot)}"
            for verb, at in (("stored", slot.stores), ("reloaded", slot.reloads))
            if at
        ]
        lines.append(f"  {_slot_name(slot)}: {', '.join(parts)}")
    if len(slots) > _MOST_SLOTS:
        lines.append(f"  and {len(slots) - _MOST_SLOTS} more (--format json)")
    knobs = value_of(kernel.metrics, "knobs")
    if isinstance(knobs, str):
        lines.append(f"  knobs: {knobs}")
    return lines


def _slot_name(slot: SpillSlot) -> str:
    return f"slot {'?' if slot.offset is None else slot.offset} ({slot.size} B)"


def _slot_places(
    lines: Sequence[int],
    ops: Mapping[int, MemoryOp],
    labels: Mapping[str, str],
    hot: set[str],
) -> str:
    """`ISA 1502, 1640 in .LBB0_4 (fa.py:88)`: those of one loop and line, a hot one if any."""
    groups: dict[tuple[str | None, str], list[int]] = {}
    for line in lines:
        op = ops.get(line)
        source = view.place(op.source.in_user_code) if op is not None and op.source else ""
        groups.setdefault((op.loop if op is not None else None, source), []).append(line)
    ranked = sorted(groups.items(), key=lambda item: item[0][0] not in hot)
    (loop, source), at = ranked[0]
    text = f"ISA {', '.join(str(line) for line in at[:_MOST_SLOT_LINES])}"
    text += f" and {len(at) - _MOST_SLOT_LINES} more" if len(at) > _MOST_SLOT_LINES else ""
    text += f" in {labels[loop]}" if loop is not None else ""
    text += f" ({source})" if source else ""
    elsewhere = len(lines) - len(at)
    return f"{text} and {view.plural(elsewhere, 'time')} elsewhere" if elsewhere else text


def _measured(paper: Paper, kernel: KernelReport) -> None:
    """Prints the measured lines of a report that was joined with a recording."""
    if kernel.measured_lines:
        from ..profile.placing.stalls import stalls
        from .profile_text import stall_table

        stall_table(paper, stalls(kernel))


def _emulated(paper: Paper, kernel: KernelReport) -> None:
    """Prints the emulator's counts of a report of `--emulate`."""
    lines = emulated_lines(kernel)
    if lines:
        paper.print(Line())
    print_table(paper, lines, indent=" " * 6)


def _findings(paper: Paper, kernel: KernelReport, every: bool) -> None:
    paper.print(Line())
    if kernel.findings or int_of(kernel.metrics, "instruction_count") is not None:
        paper.print(Line(f"  {view.findings_summary(kernel)}", style="bold"))
    for finding in kernel.findings:
        print_wrapped(paper, _finding(finding), "              ")
        last = [f for f in kernel.findings if (f.rule, f.fix) == (finding.rule, finding.fix)][-1]
        if finding is last and finding.advice:  # a fix that several findings share is said once
            advice = Line(f"            → {finding.advice}", style="dim")
            print_wrapped(paper, advice, "              ")
        for text in tried_lines(finding):
            print_wrapped(paper, Line(f"            → {text}"), "              ")
    if every and kernel.leads:
        paper.print(Line(f"  {view.leads_summary(kernel)}", style="bold"))
    for lead in kernel.leads if every else ():
        print_wrapped(paper, _lead(lead), "              ")
        if lead.advice:
            print_wrapped(
                paper, Line(f"            → {lead.advice}", style="dim"), "              "
            )
    for note in kernel.notes:
        print_wrapped(paper, Line(f"  note: {note}", style="dim"), "    ")


def _finding(finding: Finding) -> Line:
    line = Line(f"    {finding.severity:<8}", _STYLES[finding.severity])
    return _with_message(line, finding)


def _lead(lead: Finding) -> Line:
    return _with_message(Line(f"    {'fact':<8}", "dim"), lead)


def _with_message(line: Line, finding: Finding) -> Line:
    where = view.finding_place(finding)
    saving = f"{view.saving(finding)}  " if finding.saves_percent is not None else ""
    told = f"{finding.rule}  {saving}{finding.message}"
    line.append(told + (f"  ({where})" if where else ""))
    return line
