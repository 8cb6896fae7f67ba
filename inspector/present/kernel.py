"""A kernel's report as a document: a first screen with what decides its time, then the details."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..explain import loop_view, occupancy_view, registers_view, time_view, view
from ..explain.emulated_view import emulated_lines
from ..explain.lds_map import map_lines
from ..explain.quantities import scaled
from ..explain.trials_view import fastest_text, findings_summary, tried_lines
from ..lint.ranking import place_in_order, rank
from ..model import Finding, KernelReport, MemoryOp, SpillSlot, int_of, value_of
from ..profile.placing.stalls import Stall, stalls
from .document import (
    Block,
    Column,
    Figure,
    Figures,
    Item,
    Items,
    Listing,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    Tone,
    table,
    words,
)

MOST_STALLS: Final = 15
"""Lines of the table of measured stalls."""
_MOST_SLOTS: Final = 5
_MOST_SLOT_LINES: Final = 3
"""Spill slots in the details, and lines of each that store or reload it."""
_MOST_FINDINGS: Final = 5
"""Findings of a first screen; the details have them all."""
_MOST_OPTIONS: Final = 72
"""Characters of the options on a first screen."""
_BAR: Final = 16
"""Characters of the bar of stalls."""
_MOST_REASONS: Final = 3
"""Reasons of stalls, lines and units that a first screen names."""
_NEARLY_ALL: Final = 0.9
"""Share of a resource from which on its figure is marked."""
_MARKS: Final = {"error": "error", "warning": "warning", "info": "note"}


def title(kernel: KernelReport) -> Text:
    """Name, target, place, case and launch."""
    parts = [kernel.arch or "unknown target"]
    if kernel.source is not None:
        parts.append(view.place(kernel.source))
    if kernel.variant is not None and kernel.variant.case:
        parts.append(f"[{kernel.variant.case}]")
    if launch := launch_text(kernel):
        parts.append(launch)
    return (Span(kernel.name, "strong"), Span("".join(f"  {part}" for part in parts)))


def launch_text(kernel: KernelReport) -> str:
    """`launched at attention.py:18, 2,048 workgroups, 3 times`; empty where nothing is known."""
    variant = kernel.variant
    parts = []
    if variant is not None and variant.call_site is not None:
        at = _place(variant.call_site.file, variant.call_site.line, kernel)
        parts.append(f"launched at {at}")
    workgroups = int_of(kernel.metrics, "grid.workgroups")
    if workgroups is not None:
        parts.append(view.plural(workgroups, "workgroup"))
    if variant is not None and (variant.launches or 1) > 1:
        parts.append(f"{variant.launches:,} times")
    return ", ".join(parts)


def first_screen(
    kernel: KernelReport, *, every: bool = False, whole: bool = False
) -> Iterator[Section]:
    """How long a kernel takes, why, and what would make it faster.

    `every`: what saves too little to be a finding as well; `whole`: all findings and options.
    """
    blocks: list[Block] = []
    configuration = view.configuration(kernel)
    if len(configuration) > _MOST_OPTIONS and not whole:
        configuration = f"{configuration[:_MOST_OPTIONS].rpartition('  ')[0]}  …"
    if configuration:
        blocks.append(Paragraph(words(configuration, "weak")))
    if answer := verdict(kernel):
        blocks.append(Paragraph(answer))
    blocks += [Paragraph(text) for text in grounds(kernel)]
    blocks.append(Figures(tuple(why(kernel))))
    yield Section(tuple(blocks), title(kernel), is_subject=True)
    found = [
        *_findings(kernel, every=every, whole=whole),
        *(Paragraph(words(f"note: {note}", "weak")) for note in kernel.notes),
    ]
    if found:
        yield Section(tuple(found))


def details(kernel: KernelReport) -> Iterator[Section]:
    """Registers, LDS, hot loops, accesses, spills, and what was measured or emulated."""
    yield _resources(kernel)
    yield from _loops(kernel)
    for found in (_accesses(kernel), _spills(kernel), _buffers(kernel)):
        if found is not None:
            yield found
    if kernel.measured_lines and (measured := stalls(kernel)):
        yield Section((stall_table(measured),))
    if lines := emulated_lines(kernel):
        yield _listing(lines)


def verdict(kernel: KernelReport) -> Text:
    """`41 µs (29–55, estimated)  limited by memory latency`, or why no time is known."""
    if kernel.time is not None:
        estimate, limiter = time_view.estimate(kernel.time), kernel.time.limiter
        return words(f"{estimate}  limited by {limiter}", "strong")
    return words(f"no time: {kernel.no_time}", "weak") if kernel.no_time else ()


def grounds(kernel: KernelReport) -> Iterator[Text]:
    """What a report rests on: what was assumed, not read or emulated."""
    for text in (time_view.guessed(kernel), view.assumed(kernel), view.unread(kernel)):
        if text:
            yield words(text, "warning")
    if emulated := view.emulated(kernel):
        yield words(emulated, "weak")


def why(kernel: KernelReport) -> Iterator[Figure]:
    """Where the time goes, and the figures that decide it."""
    time, metrics = kernel.time, kernel.metrics
    if time is not None:
        bar, reasons = time_view.stall_bar(time, _BAR, _MOST_REASONS)
        yield Figure("time", (Span(f"{bar}  {reasons}"),))
        lines = [
            f"{100 * row.share:.0f} % {_place(row.source.file, row.source.line, kernel)}"
            f" ({time_view.STALLS[row.reason]})"
            for row in time.lines
            if row.source is not None
        ]
        if lines:
            yield Figure("lines", words(", ".join(lines[:_MOST_REASONS])))
        yield Figure("busy", words(time_view.busy_units(time, _MOST_REASONS)))
        if time.warm_us is not None:
            warm = f"{time_view.amount(time.warm_us)} with the data in the Infinity Cache"
            yield Figure("warm", words(warm))
    yield Figure("waves", words(occupancy_view.in_short(kernel)))
    if launch := occupancy_view.occupancy_words(kernel).launch:
        yield Figure("", words(launch, "weak"))
    spills, scratch = int_of(metrics, "vgpr_spill_count"), int_of(metrics, "scratch_bytes")
    used, limit = value_of(metrics, "vgpr_count"), value_of(metrics, "vgpr_limit")
    text = [Span(f"{view.show(used)} of {view.show(limit)} VGPRs, {_registers(kernel)}spills ")]
    text.append(Span(view.show(spills), "warning" if spills else ""))
    if scratch:
        text.append(Span(f", scratch {view.kib(scratch)}", "warning"))
    lds, lds_limit = int_of(metrics, "lds_bytes"), int_of(metrics, "lds_limit")
    text.append(Span(f", LDS {view.kib(lds)} of {view.kib(lds_limit)}"))
    yield Figure("uses", tuple(text))
    if spilled := registers_view.spills_sentence(kernel):
        yield Figure("spill", words(spilled, "warning"))


def _registers(kernel: KernelReport) -> str:
    agprs = int_of(kernel.metrics, "agpr_count")
    return f"of them {agprs} AGPRs, " if agprs else ""


def _findings(kernel: KernelReport, *, every: bool, whole: bool) -> Iterator[Block]:
    findings, leads = kernel.findings, kernel.leads
    shown = findings if whole or every else findings[:_MOST_FINDINGS]
    if shown:
        yield _items(shown, kernel)
    elif int_of(kernel.metrics, "instruction_count") is not None:
        yield Paragraph(words(findings_summary(kernel), "strong"))
        if kernel.time is not None and (costs := time_view.could_save(kernel.time)):
            yield Paragraph(words(f"worth looking for: {costs}"))
    if len(shown) < len(findings):
        more = view.plural(len(findings) - len(shown), "more finding")
        yield Paragraph(words(f"{more}: --details", "weak"))
    if leads and every:
        yield Paragraph(words(view.leads_summary(kernel), "strong"))
        yield _items(leads, kernel)
    elif leads and findings:
        yield Paragraph(words(f"{view.leads_summary(kernel)}: --all", "weak"))


def _items(findings: Sequence[Finding], kernel: KernelReport) -> Items:
    items = [item(finding, kernel, findings) for finding in findings]
    if kernel.fastest is not None and findings is not kernel.leads:
        place = sum(is_before(finding, kernel.fastest_percent) for finding in findings)
        mark = Span(f"-{kernel.fastest_percent:.0f} %", "info")
        told = f"tried, and no finding asks for it: {fastest_text(kernel.fastest)}"
        items.insert(place, Item(mark, "", told))
    return Items(tuple(items))


def is_before(finding: Finding, percent: float) -> bool:
    """Whether a finding is told before a change that saves so many percent of the launch."""
    return rank(finding) <= place_in_order("info", percent)


def item(finding: Finding, kernel: KernelReport, shown: Sequence[Finding]) -> Item:
    """A finding: what its cure saves, where, what it is, and what to do.

    A fix that several of those `shown` share is told at the first.
    """
    mark = view.saving(finding) or _MARKS[finding.severity]
    first = next(one for one in shown if (one.rule, one.fix) == (finding.rule, finding.fix))
    below = [Span(text) for text in tried_lines(finding)]
    if finding is first and finding.advice:
        below.append(Span(finding.advice, "weak"))
    return Item(
        Span(mark, "weak" if finding.doubt else finding.severity),
        _finding_place(finding, kernel),
        finding.message,
        finding.rule,
        tuple(below),
    )


def _finding_place(finding: Finding, kernel: KernelReport) -> str:
    for location in finding.locations:
        if location.file and location.line:
            return _place(location.file, location.line, kernel)
    return view.finding_place(finding)


def _place(file: str, line: int, kernel: KernelReport) -> str:
    """`:41` in the kernel's own file, else `norm.py:41`."""
    own = kernel.source is not None and kernel.source.file == file
    return f":{line}" if own else f"{view.file_name(file)}:{line}"


def _resources(kernel: KernelReport) -> Section:
    m = kernel.metrics
    vgprs, vgpr_limit = int_of(m, "vgpr_count"), int_of(m, "vgpr_limit")
    spills, scratch = int_of(m, "vgpr_spill_count"), int_of(m, "scratch_bytes")
    beside = (
        Span(f"AGPRs {view.show(value_of(m, 'agpr_count'))}"),
        Span(f"   SGPRs {view.show(value_of(m, 'sgpr_count'))}"),
        Span(f"   spills {view.show(spills)}", "warning" if spills else ""),
        Span(f"   scratch {view.kib(scratch)}", "warning" if scratch else ""),
    )
    rows = [
        Figure(
            "VGPRs",
            words(f"{view.show(vgprs)} of {view.show(vgpr_limit)}"),
            _share(vgprs, vgpr_limit),
            beside,
            _fullness(vgprs, vgpr_limit),
        )
    ]
    if live := view.live_registers(kernel):
        names = registers_view.held_text(kernel.live_peak) if kernel.live_peak else ""
        rows.append(Figure("", words(f"{live}{': ' if names else ''}{names}", "weak")))
    lds, lds_limit = int_of(m, "lds_bytes"), int_of(m, "lds_limit")
    note = m["lds_bytes"].note if lds is None and "lds_bytes" in m else ""
    code = Span(f"{note}{'   ' if note else ''}code {view.kib(int_of(m, 'code_bytes'))}")
    used = view.kib(lds).removesuffix(" KiB")
    held = words(f"{used} of {view.kib(lds_limit)}")
    share, tone = _share(lds, lds_limit), _fullness(lds, lds_limit)
    rows.append(Figure("LDS", held, share, (code,), tone))
    first, *others = occupancy_view.occupancy_lines(kernel)
    rows.append(Figure("occupancy", words(first)))
    rows += [Figure("", words(text, "weak")) for text in others]
    return Section((Figures(tuple(rows)),))


def _share(part: int | None, whole: int | None) -> float | None:
    return part / whole if part is not None and whole else None


def _fullness(part: int | None, whole: int | None) -> Tone:
    """Of a bar: nearly all is taken, or not."""
    share = _share(part, whole)
    return "bad" if share is not None and share > _NEARLY_ALL else "good"


def _loops(kernel: KernelReport) -> Iterator[Section]:
    """The figures of the hot loops, the main one first, or of a kernel without loops."""
    main = loop_view.main_loop(kernel)
    if main is None:
        if int_of(kernel.metrics, "instruction_count") is None:
            text = "No code was read: loops, instructions and accesses are unknown"
            yield Section((Paragraph(words(text)),))
        else:
            title = words(f"{view.no_loop(kernel)}; the whole kernel:", "strong")
            yield Section((_card(loop_view.scorecard(kernel.metrics)),), title)
        return
    hot = sorted((loop for loop in kernel.loops if loop.hot), key=lambda one: one.id != main.id)
    for loop in hot:
        title = (Span("Hot loop", "strong"), Span(f"  {loop.id}  {loop_view.loop_title(loop)}"))
        yield Section((_card(loop_view.scorecard(loop.metrics)),), title)


def _card(rows: Sequence[loop_view.ScorecardRow]) -> Figures:
    """Figures side by side; scratch accesses in a loop cost most."""

    def tone(row: loop_view.ScorecardRow) -> Tone:
        return "bad" if "count.scratch_load" in row.metrics and row.text != "0" else ""

    figures = (Figure(row.label, words(row.text, tone(row))) for row in rows)
    return Figures(tuple(figures), is_row=True)


def _accesses(kernel: KernelReport) -> Section | None:
    """The accesses of the main loop, or of the kernel, and why some are narrow."""
    rows = loop_view.memory_rows(kernel.memory_ops, kernel.main_loop)
    if not rows:
        return None
    where = "in the hot loop" if kernel.main_loop else "in the kernel"
    accesses = table(
        (
            (Column(f"Memory {where}"), lambda row: f"{row.count} × {row.mnemonic}"),
            (Column("bits", right=True), lambda row: view.show(row.bits)),
            (Column("source", shrinks=True), lambda row: row.places),
            (Column("note", shrinks=True), lambda row: row.note),
        ),
        rows,
    )
    narrow = (
        Paragraph(words(f"narrow: {text}", "weak")) for text in loop_view.narrow_accesses(kernel)
    )
    return Section((accesses, *narrow))


def stall_table(lines: Sequence[Stall], most: int = MOST_STALLS) -> Table:
    """The measured lines that cost most, each with what analysis says of it."""
    return table(
        (
            (Column("where it stalls"), lambda stall: f"line {stall.line}"),
            (
                Column("%", right=True),
                lambda stall: f"{stall.share:.1f}" if stall.share is not None else "",
            ),
            (
                Column("cycles", right=True),
                lambda stall: scaled(stall.stall_cycles) if stall.stall_cycles is not None else "",
            ),
            (
                Column("samples", right=True),
                lambda stall: scaled(stall.samples) if stall.samples is not None else "",
            ),
            (Column("instruction", shrinks=True), lambda stall: stall.mnemonic),
            (Column("loop", rank=1), lambda stall: stall.loop or ""),
            (Column("source", shrinks=True), lambda stall: view.place(stall.source)),
            (Column("beside it", rank=2, shrinks=True), time_view.remarks_beside),
        ),
        lines[:most],
    )


def _listing(lines: Sequence[str]) -> Section:
    return Section((Listing(tuple(lines[1:])),), words(lines[0], "strong"))


def _buffers(kernel: KernelReport) -> Section | None:
    """The map of LDS where that limits the occupancy, or is more than there is."""
    used, limit = int_of(kernel.metrics, "lds_bytes"), int_of(kernel.metrics, "lds_limit")
    exceeds = used is not None and limit is not None and used > limit
    if not exceeds and value_of(kernel.metrics, "occupancy.limiter") != "lds":
        return None
    lines = map_lines(kernel)
    return _listing(lines) if lines else None


def _spills(kernel: KernelReport) -> Section | None:
    lines = spill_lines(kernel)
    return _listing(lines) if lines else None


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
    lines: Sequence[int], ops: Mapping[int, MemoryOp], labels: Mapping[str, str], hot: set[str]
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
