"""A kernel as the page's template wants it: words, rows and plots; no figure is computed here.

The kernels of an HTML page: reports with their occupancy levels, code and source lines.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ... import machines
from ...base import named_files
from ...base.errors import KinspectError
from ...explain import (
    loop_view,
    occupancy_view,
    profile_view,
    quantities,
    registers_view,
    time_view,
    view,
)
from ...explain.emulated_view import emulated_lines
from ...explain.lds_map import map_lines
from ...isa.mnemonics import CLASSES
from ...metrics.line_bounds import register_pressure
from ...metrics.occupancy import Level, occupancy
from ...model import (
    KernelReport,
    LoopReport,
    MemoryOp,
    Metric,
    RegisterPressure,
    SourceLoc,
    WaitOp,
    int_of,
    number_of,
)
from ...model.time import KernelTime
from ...pipeline.analysis import source_reader
from ...present import kernel as of_kernel
from ...present.document import Block, Section
from ...profile.placing.stalls import stalls
from . import svg

MOST_WAITS = 60
MOST_CODE = 400
_CLASSES: Sequence[tuple[str, tuple[str, ...]]] = (
    ("matrix", ("mfma", "wmma")),
    ("vector", ("valu", "acc_move", "cross_lane")),
    ("scalar", ("salu", "branch", "smem_load", "smem_store")),
    ("global", ("global_load", "global_store", "atomic")),
    ("LDS", ("lds_read", "lds_write", "lds_atomic", "lds_direct", "lds_direct_store")),
    ("scratch", ("scratch_load", "scratch_store")),
    ("wait, barrier", ("wait", "alu_wait", "barrier", "barrier_signal")),
)
"""Groups of instruction classes, in the order of the style sheet's colours; the rest is "other"."""
_COUNT = "count."
_ACCESSES: Sequence[tuple[str, str]] = (
    ("global_load", "global loads"),
    ("global_store", "global stores"),
    ("lds_read", "LDS reads"),
    ("lds_write", "LDS writes"),
    ("lds_direct", "loads to LDS"),
    ("scratch_load", "scratch loads"),
    ("scratch_store", "scratch stores"),
)
_WIDTHS = (8, 16, 32, 64, 96, 128)
_MOST_STALLS = 40
"""How many lines the table of stalls has."""


def context(drawn: PageKernel, anchor: str) -> dict[str, Any]:
    """The template's values for a kernel; `anchor` is the id of its section."""
    kernel = drawn.kernel
    main = loop_view.main_loop(kernel)
    measured = stalls(kernel)
    return {
        "anchor": anchor,
        "name": kernel.name,
        "label": profile_view.kernel_label(kernel),
        "arch": kernel.arch or view.UNKNOWN,
        "place": view.place(kernel.source),
        "screen": [_blocks(section) for section in of_kernel.first_screen(kernel, whole=True)],
        "stall_bar": _stall_bar(kernel.time),
        "source": _source(drawn),
        "occupancy": occupancy_view.occupancy_lines(kernel),
        "registers": _registers(drawn),
        "pressure": _pressure(drawn),
        "plots": [plot for plot in _plots(drawn) if plot],
        "mix": _mix(kernel, main),
        "vectors": _vectors(kernel, main),
        "loops": [_loop(loop) for loop in kernel.loops if loop.hot],
        "waits": _waits(kernel, main),
        "lds_map": map_lines(kernel),
        "narrow": loop_view.narrow_accesses(kernel, limit=8),
        "stalls": of_kernel.stall_table(measured, _MOST_STALLS) if measured else None,
        "emulated": emulated_lines(kernel),
        "code": _code(drawn, main),
        "measured": list(profile_view.measured_rows(kernel.metrics, kernel.metrics)),
        "metrics": [
            (name, quantities.scaled(m.value), m.unit, m.origin, m.note)
            for name, m in kernel.metrics.items()
            if not name.startswith(_COUNT)
        ],
    }


def _loop(loop: LoopReport) -> dict[str, Any]:
    return {
        "id": loop.id,
        "title": loop_view.loop_title(loop),
        "card": [(row.label, row.text) for row in loop_view.scorecard(loop.metrics)],
    }


def _blocks(section: Section) -> list[tuple[str, Block]]:
    return [(type(block).__name__, block) for block in section.blocks]


def _stall_bar(time: KernelTime | None) -> str:
    """What the time goes to, as one bar; "" where no time is known."""
    if time is None:
        return ""
    pieces = (
        svg.Piece(time_view.STALLS[stall.reason], round(100 * stall.share), colour)
        for colour, stall in enumerate(time.stalls)
    )
    return svg.bars("where the time goes", [svg.Bar("time", tuple(pieces))])


def _source(drawn: PageKernel) -> list[dict[str, Any]]:
    """The source with the share of the time that each line takes; none where that is not known."""
    kernel = drawn.kernel
    if kernel.time is None:
        return []
    timed = {(row.source.file, row.source.line): row for row in kernel.time.lines if row.source}
    files = {file for file, number in drawn.source if (file, number) in timed}
    largest = max((line.share for line in timed.values()), default=0)
    rules: dict[tuple[str, int], set[str]] = {}
    for finding in kernel.findings:
        for at in finding.locations:
            if at.file is not None and at.line is not None:
                rules.setdefault((at.file, at.line), set()).add(finding.rule)
    rows = []
    for (file, number), text in sorted(drawn.source.items()):
        if file not in files:
            continue
        line = timed.get((file, number))
        rows.append(
            {
                "number": number,
                "text": text,
                "share": _percent(line.share) if line is not None else "",
                "reason": time_view.STALLS[line.reason] if line is not None else "",
                "heat": round(100 * line.share / largest) if line is not None else 0,
                "rules": sorted(rules.get((file, number), ())),
            }
        )
    return rows


def _plots(drawn: PageKernel) -> Iterable[str]:
    m = drawn.kernel.metrics
    waves = number_of(m, "occupancy.waves_per_eu")
    for unit, use, of in (
        ("VGPRs", number_of(m, "vgpr_allocated"), attrgetter("vgprs")),
        ("LDS bytes", number_of(m, "lds_bytes"), attrgetter("lds_bytes")),
    ):
        known = [svg.Level(x.waves_per_eu, of(x)) for x in drawn.levels if of(x) is not None]
        current = svg.Level(waves, use) if use is not None and waves is not None else None
        yield svg.occupancy_steps(f"occupancy over {unit}", unit, known, current)


def _registers(drawn: PageKernel) -> list[str]:
    """Returns what the registers hold where most are live, and how far the next occupancy is."""
    peak = drawn.kernel.live_peak
    if peak is None:
        return []
    amount = registers_view.amount_text(peak, drawn.kernel)
    lines = [f"{amount}, {registers_view.place_text(peak)}", registers_view.held_text(peak)]
    if drawn.pressure is not None:
        lines.append(registers_view.steps_text(drawn.pressure, has_agprs=peak.agprs > 0))
    return [line for line in lines if line]


def _pressure(drawn: PageKernel) -> str:
    """Draws the registers that the live values need along the code; "" where that is unknown."""
    pressure = drawn.pressure
    if pressure is None:
        return ""
    lines = [line for line, _, _ in pressure.counts]
    stretches = [
        svg.Stretch(f"hot loop {loop.id}", bisect_left(lines, first), bisect_right(lines, last))
        for loop in drawn.kernel.loops
        if loop.hot
        for first, last in loop.lines
    ]
    budgets = [
        (f"{view.show(waves)} waves/SIMD", registers) for waves, registers in pressure.budgets
    ]
    if pressure.allocated is not None:
        budgets.append(("allocated", pressure.allocated))
    return svg.curve(
        "live registers", pressure.needs, budgets=budgets, stretches=stretches, most=pressure.most
    )


def _mix(kernel: KernelReport, main: LoopReport | None) -> str:
    stacks = [svg.Bar("kernel", tuple(_pieces(kernel.metrics)))]
    if main is not None:
        stacks.append(svg.Bar(f"main loop {main.id}", tuple(_pieces(main.metrics))))
    return svg.bars("instruction mix", stacks)


def _pieces(metrics: Mapping[str, Metric]) -> Iterable[svg.Piece]:
    remaining = {
        name.removeprefix(_COUNT): int_of(metrics, name) or 0
        for name in metrics
        if name.removeprefix(_COUNT) in CLASSES
    }
    for colour, (title, classes) in enumerate(_CLASSES):
        count = sum(remaining.pop(cls, 0) for cls in classes)
        if count:
            yield svg.Piece(title, count, colour)
    unclassified = sum(remaining.values())
    if unclassified:
        yield svg.Piece("other", unclassified, svg.COLOURS - 1)


def _vectors(kernel: KernelReport, main: LoopReport | None) -> str:
    ops = [op for op in kernel.memory_ops if main is None or op.loop == main.id]
    return svg.bars(
        "widths of memory accesses, bits per lane",
        [svg.Bar(title, tuple(_widths(ops, cls))) for cls, title in _ACCESSES],
    )


def _widths(ops: Sequence[MemoryOp], cls: str) -> Iterable[svg.Piece]:
    counts = Counter(op.bits for op in ops if op.cls == cls)
    for bits in sorted(counts, key=lambda b: b or 0):
        name = f"{bits} bits" if bits is not None else "no fixed width"
        # Narrow ones are red, the widest green: colours 5 down to 0 of the style sheet.
        colour = 6 if bits is None else 5 - _WIDTHS.index(bits) if bits in _WIDTHS else 7
        yield svg.Piece(name, counts[bits], colour)


def _waits(kernel: KernelReport, main: LoopReport | None) -> list[dict[str, str]]:
    """Returns the waits of the main loop, then others that are over-strict or missing."""
    costs = {line.line: line for line in kernel.measured_lines}
    sources = {op.line: op for op in kernel.memory_ops}

    def row(wait: WaitOp) -> dict[str, str]:
        """Returns the cells of a wait."""
        measured = costs.get(wait.line)
        loads = [sources[line] for line in wait.waits_for or () if line in sources]
        places = dict.fromkeys(view.place(op.source) or f"line {op.line}" for op in loads)
        stall = measured.stall_cycles if measured is not None else None
        samples = measured.samples if measured is not None else None
        return {
            "line": str(wait.line),
            "what": f"{wait.counter}({wait.n})",
            "loop": wait.loop or "",
            "verdict": wait.verdict or view.UNKNOWN,
            "could_be": f"{wait.counter}({wait.could_be})" if wait.could_be is not None else "",
            "for": ", ".join(list(places)[:4]) + (" …" if len(places) > 4 else ""),
            "source": view.place(wait.source),
            "stall": quantities.scaled(stall) if stall is not None else "",
            "samples": quantities.scaled(samples) if samples is not None else "",
        }

    inside = [w for w in kernel.waits if main is not None and w.loop == main.id]
    faulty = [
        w for w in kernel.waits if w not in inside and w.verdict in ("over-strict", "missing")
    ]
    return [row(wait) for wait in (*inside, *faulty)][:MOST_WAITS]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.005 else ""


def _cost(cost: float | None, *, is_share: bool) -> str:
    if cost is None:
        return ""
    return _percent(cost) if is_share else quantities.scaled(cost)


def _code(drawn: PageKernel, main: LoopReport | None) -> list[dict[str, Any]]:
    kernel = drawn.kernel
    if not drawn.code or main is None:
        return []
    rules_by_line: dict[int, list[str]] = {}
    for finding in kernel.findings:
        for line in finding.isa_lines:
            rules_by_line.setdefault(line, []).append(finding.rule)
    live = {}
    if drawn.pressure is not None:
        counts = zip(drawn.pressure.counts, drawn.pressure.needs, strict=True)
        live = {line: need for (line, _, _), need in counts}
    costs = {line.line: line for line in kernel.measured_lines}
    cost_of = {stall.line: stall.cost for stall in stalls(kernel)}
    predicted = kernel.time.instructions if kernel.time is not None and not cost_of else ()
    share_of = {instruction.line: instruction.share for instruction in predicted}
    highest_cost = max((cost_of or share_of).values(), default=0)
    rows = []
    for first, last in main.lines:
        for number in range(first, last + 1):
            text = drawn.code.get(number, "").rstrip()
            if not text.strip() or text.strip().startswith((".loc", ".Ltmp", ";")):
                continue
            measured = costs.get(number)
            source = measured.source if measured is not None else None
            key = (source.file, source.line) if source is not None else None
            cost = (cost_of or share_of).get(number)
            heat = round(100 * cost / highest_cost) if cost is not None else 0
            rows.append(
                {
                    "number": number,
                    "text": text.replace("\t", " ").strip(),
                    "live": live.get(number, ""),
                    "findings": sorted(set(rules_by_line.get(number, ()))),
                    "cost": _cost(cost, is_share=not cost_of),
                    "heat": heat,
                    "source": view.place(source),
                    "python": drawn.source.get(key, "").strip() if key is not None else "",
                }
            )
    return rows[:MOST_CODE]


MOST_IN_FULL = 60
"""Kernels beyond this are in the table alone: a page of thousands opens in no browser."""
_MOST_BYTES = 64 << 20
"""A larger file of assembly is not read."""
_AROUND = 2
"""Lines of the source that are shown before and after those that take time."""
_MOST_LINES = 200


class PageKernel(Struct, frozen=True):
    """A kernel as the page shows it: with its occupancy levels, highest first, and its code.

    `code` holds lines of the assembly by number (1-based); `source` those of the user's files by
    (file, line). `pressure` is None where the live registers are not known.
    """

    kernel: KernelReport
    levels: tuple[Level, ...] = ()
    code: Mapping[int, str] = field(default_factory=dict)
    source: Mapping[tuple[str, int], str] = field(default_factory=dict)
    pressure: RegisterPressure | None = None


def page_kernels(reports: Iterable[KernelReport]) -> list[PageKernel]:
    """Adds levels and code to kernels; files that are gone from the disk are left out.

    Only those that the page shows in full have code: a library's file may hold thousands of them.
    """
    read = source_reader()
    kernels = []
    files: dict[Path, Mapping[int, str]] = {}  # several kernels may be in one
    for number, report in enumerate(reports):
        if number >= MOST_IN_FULL:
            kernels.append(PageKernel(report))
            continue
        places = {
            (line.source.file, line.source.line): line.source
            for line in report.measured_lines
            if line.source is not None
        }
        places.update({(at.file, at.line): at for at in _timed_places(report)})
        texts = {key: read(location) for key, location in places.items()}
        kernels.append(
            PageKernel(
                report,
                _levels(report),
                _page_kernels_code(report, files),
                {key: text for key, text in texts.items() if text is not None},
                register_pressure(report),
            )
        )
    return kernels


def _timed_places(report: KernelReport) -> list[SourceLoc]:
    """The lines of the file that most of the time goes to, from its first such line to its last."""
    shares: dict[str, float] = {}
    lines: dict[str, list[int]] = {}
    for line in report.time.lines if report.time is not None else ():
        if line.source is not None:
            file = line.source.file
            shares[file] = shares.get(file, 0.0) + line.share
            lines.setdefault(file, []).append(line.source.line)
    if not shares:
        return []
    file = max(shares, key=shares.__getitem__)
    first, last = max(1, min(lines[file]) - _AROUND), max(lines[file]) + _AROUND
    return [SourceLoc(file, number) for number in range(first, min(last, first + _MOST_LINES) + 1)]


def _levels(report: KernelReport) -> tuple[Level, ...]:
    """The reachable occupancies of a kernel; none if its target or launch is unknown."""
    if report.demand is None or report.arch not in machines.names():
        return ()
    try:
        return occupancy(machines.load(report.arch), report.demand).levels
    except KinspectError:
        return ()


def _page_kernels_code(
    report: KernelReport, files: dict[Path, Mapping[int, str]]
) -> Mapping[int, str]:
    artifact = report.artifacts.get("amdgcn")
    path = artifact.path if artifact is not None else Path(report.file)
    if artifact is None and path.suffix not in (".s", ".asm", ".amdgcn"):
        return {}
    if path not in files:
        text = _text(path) if artifact is not None else named_files.named_text(path, _MOST_BYTES)
        files[path] = dict(enumerate((text or "").splitlines(), 1))
    return files[path]


def _text(artifact: Path) -> str | None:
    try:
        return named_files.file_text(artifact, _MOST_BYTES)
    except OSError:
        return None
