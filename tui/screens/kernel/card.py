"""The content of the card beside the panes: the loop and the line under the cursor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ....inspector.explain import lds_map, loop_view, registers_view, time_view, trials_view, view
from ....inspector.model import Access, Finding, KernelReport, LoopReport, RegisterPressure, WaitOp
from ...widgets.scorecard import Card, CardBlock, CardFact
from .pane_text import SIGNS

if TYPE_CHECKING:
    from ....inspector.explain.code.line_figures import LineFigures
    from ....inspector.explain.code.reading import KernelReading
    from .line_costs import Costs

_MOST_LINES = 6
_MOST_ROWS = 8
_MOST_SPILLED = 4
_MOST_SAVINGS = 4
_VERDICTS = {
    "needed": "needed",
    "ordering": "for order alone",
    "over-strict": "stricter than it has to be",
    "idle": "nothing is outstanding that it could wait for",
    "missing": "missing: a register is used before it has surely arrived",
}


def loop_at(report: KernelReport, reading: KernelReading, line: int) -> LoopReport | None:
    """The kernel's innermost loop at a line of its assembly."""
    function = reading.function
    if function is None or not function.line_first <= line + 1 <= function.line_last:
        return None
    loop_id = reading.marks.loop(line)
    return next((loop for loop in report.loops if loop.id == loop_id), None)


def card_of(report: KernelReport, loop: LoopReport | None, *, in_full: bool = False) -> Card:
    """The scorecard of a loop, or of the whole kernel, with its memory accesses."""
    memory = [
        CardFact(
            f"{row.count} × {row.mnemonic}", f"{view.show(row.bits)} bits {_locations(report, row)}"
        )
        for row in loop_view.memory_rows(report.memory_ops, loop.id if loop else None)
    ]
    if len(memory) > _MOST_ROWS and not in_full:
        memory = [
            *memory[: _MOST_ROWS - 1],
            CardFact("", f"and {len(memory) - _MOST_ROWS + 1} more"),
        ]
    metrics = loop.metrics if loop is not None else report.metrics
    mix = [CardFact(row.label, row.text) for row in loop_view.scorecard(metrics)]
    if report.measured_lines:
        from .line_costs import region_facts

        mix = [*region_facts(report, loop), *mix]
    spilled = _spilled_values(report, loop, None if in_full else _MOST_SPILLED)
    lds = [CardFact(row.place, row.about) for row in lds_map.map_rows(report)]
    where = "Memory in this loop" if loop is not None else "Memory outside of loops"
    return Card(
        _title(report, loop),
        loop_view.loop_title_parts(loop) if loop is not None else (),
        loop_view.loop_title_parts(loop, with_unknown=False) if loop is not None else (),
        CardBlock("", tuple(mix)),
        (
            CardBlock("What would save time", tuple(_savings(report, in_full=in_full))),
            CardBlock("Spilled values", tuple(spilled)),
            CardBlock(where, tuple(memory)),
            CardBlock(lds_map.map_title(report) if lds else "", tuple(lds)),
        ),
    )


def _savings(report: KernelReport, *, in_full: bool) -> Iterator[CardFact]:
    """What the launch would take with one cost gone, the most first."""
    if report.time is not None:
        for saving in report.time.savings[: None if in_full else _MOST_SAVINGS]:
            yield CardFact(time_view.saved(saving), time_view.change_of(saving))


def _spilled_values(
    report: KernelReport, loop: LoopReport | None, limit: int | None
) -> list[CardFact]:
    """What the spills of a loop, or of the kernel, hold: most traffic in hot loops first."""
    values = [v for v in report.spilled_values if loop is None or loop.id in v.loops]
    if loop is not None:
        values.sort(key=lambda value: -registers_view.traffic_in(value, loop.id))
    facts = []
    for value in values[:limit]:
        traffic = registers_view.hot_traffic(value, loop.id if loop is not None else None) or (
            f"{view.plural(value.stores, 'store')}, {view.plural(value.reloads, 'reload')},"
            " none in a hot loop"
        )
        facts.append(CardFact(registers_view.spilled_name(value), traffic))
    if limit is not None and len(values) > limit:
        facts.append(CardFact("", f"and {len(values) - limit} more"))
    return facts


def _locations(report: KernelReport, row: loop_view.MemoryRow) -> str:
    """The source lines of accesses, without the name of the kernel's own file."""
    own_file = view.file_name(report.source.file) if report.source is not None else ""
    return row.places.removeprefix(own_file) if own_file else row.places


def _title(report: KernelReport, loop: LoopReport | None) -> str:
    if loop is None:
        return "Whole kernel"
    if loop.id == report.main_loop:
        return f"Main loop {loop.id}"
    return f"Hot loop {loop.id}" if loop.hot else f"Loop {loop.id}"


def facts_of(
    report: KernelReport,
    reading: KernelReading,
    kind: str,
    line: int,
    costs: Costs | None = None,
    pressure: RegisterPressure | None = None,
    predicted: LineFigures | None = None,
) -> CardBlock:
    """The facts about a line of one of the texts: findings, costs, instruction, accesses."""
    findings = reading.marks.findings(line, kind)
    # The slot before the findings, which say the same of all spills; a low card has both.
    spill = list(_spill(reading, line)) if kind == "amdgcn" else []
    facts = [
        *spill[:1],
        *(
            CardFact(SIGNS[finding.severity], _sentence(finding, reading), finding.severity)
            for finding in findings
        ),
        *spill[1:],
    ]
    if costs is not None:
        facts += costs.facts(kind, line)
    if predicted is not None and (share := predicted.weights.get(kind, {}).get(line)):
        text = f"{share:.1f} % of stalls, {predicted.text(kind, line)}"
        facts.append(CardFact("predicted", text))
    facts += [CardFact(f"LDS {row.place}", row.about) for row in lds_rows_at(report, kind, line)]
    # A narrow access with its reason says what to change, so it goes before what has none.
    accesses = _accesses(report, kind, line)
    facts += [fact for access in accesses if access.reason for fact in _width(access)]
    if kind == "amdgcn":
        facts += _instruction(reading, line)
        if pressure is not None and (live := registers_view.live_text(pressure, line + 1)):
            facts.append(CardFact("live", live))
    facts += [fact for access in accesses if not access.reason for fact in _width(access)]
    if not findings:
        facts.append(CardFact("", f"{trials_view.findings_summary(report)} in the kernel", "dim"))
    return CardBlock("This line", tuple(facts))


def source_fact(reading: KernelReading, kind: str, line: int, lines: Sequence[str]) -> CardFact:
    source = reading.links.nearest(kind, line, "source")
    if source is None:
        return CardFact("source", "stems from no line of it", "dim", brief=True)
    return CardFact(f"line {source + 1}", " ".join(lines[source].split()), brief=True)


def _sentence(finding: Finding, reading: KernelReading) -> str:
    text = f"{finding.rule} {' '.join(finding.message.split())}"
    places, lines = reading.marks.places(finding)
    if places < 2:
        return text
    where = f"{places} places"
    return f"{text} ({where}, {view.plural(lines, 'line')})" if lines else f"{text} ({where})"


def _spill(reading: KernelReading, line: int) -> Iterator[CardFact]:
    """The facts about a spill: its slot, what that holds, where else it is accessed."""
    slot = reading.marks.spill(line)
    if slot is None:
        return
    is_store = line + 1 in slot.stores
    place = "" if slot.offset is None else f"{slot.offset}:{slot.offset + slot.size - 1}"
    verb = "spills to" if is_store else "reloads"
    yield CardFact(verb, f"scratch {place}".rstrip(), brief=True)
    if slot.value is not None:
        yield CardFact("value", registers_view.parked_text(slot.value))
    for title, numbers in (("stored at", slot.stores), ("reloaded at", slot.reloads)):
        if numbers:
            yield CardFact(title, f"ISA {line_list([number - 1 for number in numbers])}")
    for loop in slot.loops:
        counts = [
            view.plural(count, word)
            for numbers, word in ((slot.stores, "store"), (slot.reloads, "reload"))
            if (count := sum(reading.marks.loop(number - 1) == loop for number in numbers))
        ]
        yield CardFact(f"in {loop}", f"{', '.join(counts)} an iteration")


def _instruction(reading: KernelReading, line: int) -> Iterator[CardFact]:
    """The facts about an instruction: class, outstanding operations, waits and producers."""
    marks = reading.marks
    inst = marks.instruction(line)
    if inst is None:
        return
    bits = f", {inst.op.bits} bits" if inst.op.bits is not None else ""
    location = f"  {view.place(inst.loc.in_user_code)}" if inst.loc is not None else ""
    yield CardFact(inst.mnemonic, f"{inst.cls}{bits}{location}")
    for wait in marks.wait(line):
        yield CardFact(f"{wait.counter}({wait.n})", _verdict(wait), _severity(wait))
    if marks.producers(line):
        yield CardFact("waits for", f"ISA {line_list(marks.producers(line))}")
    counts = marks.outstanding(line)
    if counts:
        counters = ", ".join(f"{name} {'-' if n is None else n}" for name, n in counts.items())
        yield CardFact("outstanding", counters)
    if marks.waiters(line):
        yield CardFact("waited for", f"at ISA {line_list(marks.waiters(line))}")


def _verdict(wait: WaitOp) -> str:
    verdict = _VERDICTS.get(wait.verdict or "", wait.verdict or "not known whether it is needed")
    if wait.could_be is not None:
        verdict += f"; {wait.counter}({wait.could_be}) would do"
    if wait.slack is not None:
        verdict += f"; {view.plural(wait.slack, 'instruction')} after what it waits for"
    return verdict


def _severity(wait: WaitOp) -> str:
    if wait.verdict == "missing":
        return "error"
    return "warning" if wait.verdict in ("over-strict", "idle") else ""


def waits_of(report: KernelReport, reading: KernelReading, loop: LoopReport | None) -> CardBlock:
    """All waits of a loop, or of the code outside of loops, with what each waits for.

    How many wait for which class of instructions comes first.
    """
    waits = [wait for wait in report.waits if wait.loop == (loop.id if loop is not None else None)]
    facts = [
        CardFact(f"for {cls or 'nothing known'}", view.plural(number, "wait"))
        for cls, number in _awaited_classes(waits, reading).most_common()
    ]
    facts += [
        CardFact(f"ISA {wait.line}", f"{wait.counter}({wait.n}): {_verdict(wait)}{awaited}")
        for wait in waits
        for awaited in [_awaited(wait, reading)]
    ]
    where = f"Waits in {loop.id}" if loop is not None else "Waits outside of loops"
    return CardBlock(where, tuple(facts))


def _awaited_classes(waits: Iterable[WaitOp], reading: KernelReading) -> Counter[str]:
    """Class of instructions -> the waits that wait for some; "" for none that are known."""
    counts: Counter[str] = Counter()
    for wait in waits:
        awaited = [reading.marks.instruction(line - 1) for line in wait.waits_for or ()]
        counts.update({inst.cls for inst in awaited if inst is not None} or {""})
    return counts


def _awaited(wait: WaitOp, reading: KernelReading) -> str:
    """What a wait waits for: lines of the assembly by mnemonic and place in the source."""
    lines: dict[str, list[str]] = {}
    for line in wait.waits_for or ():
        inst = reading.marks.instruction(line - 1)
        place = view.place(inst.loc.in_user_code) if inst is not None and inst.loc else ""
        what = f"{inst.mnemonic} {place}".rstrip() if inst is not None else ""
        lines.setdefault(what, []).append(str(line))
    if not lines:
        return ""
    return "; for " + ", ".join(f"{' '.join(n)} {what}".rstrip() for what, n in lines.items())


def _accesses(report: KernelReport, kind: str, line: int) -> list[Access]:
    if kind == "ttgir":
        return [access for access in report.accesses if access.line == line + 1]
    return [access for access in report.accesses if kind == "amdgcn" and line + 1 in access.lines]


def lds_rows_at(report: KernelReport, kind: str, line: int) -> list[lds_map.LdsRow]:
    """The buffers of LDS that a line of the source or of the TTGIR makes."""
    return [
        row
        for row in lds_map.map_rows(report)
        if line + 1 == (row.buffer.line if kind == "ttgir" else _source_line(report, kind, row))
    ]


def _source_line(report: KernelReport, kind: str, row: lds_map.LdsRow) -> int | None:
    """The line of the kernel's own file that makes a buffer; None in another text or file."""
    source, own = row.buffer.source, report.source
    if kind != "source" or source is None or own is None or source.file != own.file:
        return None
    return source.line


def _width(access: Access) -> Iterator[CardFact]:
    """The facts about an access: how wide it is and, if that is narrow, why."""
    width = f"{view.show(access.bits)} of {view.show(access.widest)} bits"
    if access.reason:
        yield CardFact("narrow", f"{width}: {access.reason} → {access.fix}", "warning")
        yield CardFact(access.op, f"{access.dtype}, {access.layout}")
    else:
        yield CardFact(access.op, f"{width}, {access.dtype}, {access.layout}")


def line_list(lines: Sequence[int]) -> str:
    """Lines, counted from 1, as a short list."""
    ellipsis = f", … ({len(lines)})" if len(lines) > _MOST_LINES else ""
    return ", ".join(str(line + 1) for line in lines[:_MOST_LINES]) + ellipsis
