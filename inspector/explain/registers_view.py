"""What a kernel's registers hold where most of them are live, for people."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from ..model import (
    KernelReport,
    LivePeak,
    LiveValue,
    Metric,
    ParkedValue,
    RegisterPressure,
    SpilledValue,
    UntouchedValues,
    int_of,
)
from .view import place, plural, show

MOST_ROWS = 12
"""Values that have a row of their own."""
_MOST_LOOPS = 3
_MOST_NAMED = 6
_MOST_SPILLED = 4
_FEW = 2
"""Values with at most so many registers share a row, unless they are accumulators."""
KINDS: Mapping[str, str] = MappingProxyType(
    {
        "accumulator": "result of a dot",
        "operand": "operand of a dot",
        "loaded": "loaded from memory",
        "exchanged": "read from LDS",
        "value": "",
        "address": "address",
        "constant": "constant",
        "argument": "as the wave starts",
    }
)
"""Kind of a live value -> what the table calls it."""
UNNAMED, _ADDRESSES, _OTHERS = "-", "addresses", "others"
_BARS = "▁▂▃▄▅▆▇█"
_PARTS = "▏▎▍▌▋▊▉"
"""Blocks of one to seven eighths of a character, from the left."""
_BUDGET = "┊"


class HeldRow(Struct, frozen=True):
    """A row of the table: registers of one value, of all addresses, or of all small values.

    Args:
        name: of the variable, `addresses`, `others`, or `-` where nothing says.
        what: what it is, with its shape; of several values their names and counts.
        vgprs, agprs, scratch: as for `LiveValue`.
    """

    name: str
    what: str
    place: str
    vgprs: int
    agprs: int
    scratch: int

    @property
    def total(self) -> int:
        """Registers and parked dwords together."""
        return self.vgprs + self.agprs + self.scratch


def held_rows(peak: LivePeak) -> list[HeldRow]:
    """The values at a peak, the largest first; addresses together, and so are small values."""
    addresses = [value for value in peak.values if value.kind == "address"]
    others = [value for value in peak.values if value.kind != "address"]
    small = [v for v in others if _size(v) <= _FEW and v.kind != "accumulator"]
    large = [value for value in others if value not in small]
    small += large[MOST_ROWS:]
    rows = [_row(value) for value in large[:MOST_ROWS]]
    for name, values in ((_ADDRESSES, addresses), (_OTHERS, small)):
        if values:
            rows.append(_together(name, values))
    return sorted(rows, key=lambda row: (row.name == _OTHERS, -row.total))


def _size(value: LiveValue) -> int:
    return value.vgprs + value.agprs + value.scratch


def _row(value: LiveValue) -> HeldRow:
    what = " ".join(part for part in (KINDS[value.kind], value.type) if part)
    counts = value.vgprs, value.agprs, value.scratch
    return HeldRow(value.name or UNNAMED, what, place(value.source), *counts)


def _together(name: str, values: Sequence[LiveValue]) -> HeldRow:
    """Returns one row for several values: their sums, and the largest of them by name."""
    counts: Counter[str] = Counter()
    for value in values:
        counts[value.name or place(value.source) or "unnamed"] += _size(value)
    listed = sorted(counts.items(), key=lambda item: -item[1])
    what = ", ".join(f"{label} {count}" for label, count in listed[:6])
    what = f"{'of ' if name == _ADDRESSES else ''}{what}{', …' if len(listed) > 6 else ''}"
    files = ("vgprs", "agprs", "scratch")
    return HeldRow(name, what, "", *(sum(getattr(v, file) for v in values) for file in files))


def hot_traffic(value: SpilledValue, loop: str | None = None) -> str:
    """`60 reloads, 4 stores in L0 and 8 reloads in L1`, or of one hot loop; "" where there is none.

    Reports without the traffic of each loop have the sum alone.
    """
    loops = [item for item in value.by_loop if loop in (None, item.loop)]
    if not loops:
        counts = _traffic_counts(value.hot_reloads, value.hot_stores)
        together = " together" if len(value.loops) > 1 else ""
        return f"{counts} in {', '.join(value.loops)}{together}" if counts else ""
    ranked = sorted(loops, key=lambda item: -(item.reloads + item.stores))
    shown = sorted(ranked[:_MOST_LOOPS], key=loops.index)
    parts = [f"{_traffic_counts(item.reloads, item.stores)} in {item.loop}" for item in shown]
    if rest := ranked[_MOST_LOOPS:]:
        parts.append(f"some in {plural(len(rest), 'more loop')}")
    return " and ".join(parts)


def traffic_in(value: SpilledValue, loop: str) -> int:
    """Stores and reloads of a spilled value in one iteration of a hot loop."""
    return sum(item.reloads + item.stores for item in value.by_loop if item.loop == loop)


def _traffic_counts(reloads: int, stores: int) -> str:
    counts = ((reloads, "reload"), (stores, "store"))
    return ", ".join(plural(count, word) for count, word in counts if count)


def spilled_name(value: SpilledValue | LiveValue) -> str:
    """Its name or the line that makes it; an address is called one."""
    name = value.name or place(value.source) or "unnamed"
    return f"{name} (address)" if value.kind == "address" else name


def spilled_in_hot_loops(values: Sequence[SpilledValue]) -> str:
    """`q 69 reloads in L0, L1, acc 8 reloads, 8 stores in L0`; "" where nothing is."""
    hot = [value for value in values if value.hot_reloads or value.hot_stores]
    parts = [f"{spilled_name(value)} {hot_traffic(value)}" for value in hot[:_MOST_SPILLED]]
    if more := hot[_MOST_SPILLED:]:
        parts.append(f"and {plural(len(more), 'more value')}")
    return "; ".join(parts)


def spills_sentence(kernel: KernelReport) -> str:
    """`364 registers: 85 reloads, 12 stores in an iteration of L1 (fa.py:64); 473 reloads, 120
    stores in all of the code`: the counts of spills beside one another; "" without spills.
    """
    whole = _spill_accesses(kernel.metrics)
    registers = int_of(kernel.metrics, "vgpr_spill_count")
    if not whole and not registers:
        return ""
    hot = [(_spill_accesses(loop.metrics), loop.id) for loop in kernel.loops if loop.hot]
    parts = [
        f"{counts} in an iteration of {loop}{_most_spills_at(kernel, loop)}"
        for counts, loop in hot[:_MOST_LOOPS]
        if counts
    ]
    head = f"{plural(registers, 'register')}: " if registers else ""
    inside = " and ".join(parts) or "none in a hot loop"
    if not whole or [counts for counts, _ in hot if counts] == [whole]:
        return f"{head}{inside}"
    return f"{head}{inside}; {whole} in all of the code"


def _spill_accesses(metrics: Mapping[str, Metric]) -> str:
    reloads, stores = (int_of(metrics, f"spills.{of}") or 0 for of in ("reloads", "stores"))
    return _traffic_counts(reloads, stores)


def _most_spills_at(kernel: KernelReport, loop: str) -> str:
    """` (fa.py:64)`: the line of the source that most of a loop's spills stem from."""
    lines = {line for slot in kernel.spills for line in (*slot.stores, *slot.reloads)}
    places = Counter(
        place(op.source.in_user_code)
        for op in kernel.memory_ops
        if op.loop == loop and op.line in lines and op.source is not None
    )
    return f" ({places.most_common(1)[0][0]})" if places else ""


def spilled_text(value: SpilledValue) -> str:
    """`q, operand of a dot, fa.py:60: 28 reloads in L0; in all 45 reloads, 2 stores, 6 dwords`."""
    counts = ((value.reloads, "reload"), (value.stores, "store"), (value.dwords, "dword"))
    of_kernel = f"in all {', '.join(plural(count, word) for count, word in counts)}"
    traffic = "; ".join(filter(None, (hot_traffic(value), of_kernel)))
    return f"{parked_text(ParkedValue(value.name, value.kind, value.source))}: {traffic}"


def parked_text(value: ParkedValue) -> str:
    """`acc, result of a dot, attention.py:129`: what a spill slot holds."""
    parts = (value.name or "an unnamed value", KINDS[value.kind], place(value.source))
    return ", ".join(filter(None, parts))


def live_text(pressure: RegisterPressure, line: int) -> str:
    """`213 VGPRs and 16 AGPRs, which alone rule out 3 waves/SIMD (168 at most)` at a line, from 1.

    Empty where no instruction stands.
    """
    position = bisect_left(pressure.counts, (line,))
    if position == len(pressure.counts) or pressure.counts[position][0] != line:
        return ""
    _, vgprs, agprs = pressure.counts[position]
    need = pressure.needs[position]
    live = f"{show(vgprs)} VGPRs" + (f" and {show(agprs)} AGPRs" if agprs else "")
    above = next((level for level in reversed(pressure.levels) if need > level[1]), None)
    if above is None:
        return live
    waves, most = above
    return f"{live}, which alone rule out {show(waves)} waves/SIMD ({show(most)} at most)"


def held_text(peak: LivePeak) -> str:
    """`acc 96, k 55, q 40`: what holds most registers, in one line; "" where nothing has a name."""
    rows = held_rows(peak)
    listed = [(row.name, row.vgprs + row.agprs) for row in rows if row.vgprs + row.agprs]
    named = [item for item in listed if item[0] not in (UNNAMED, _OTHERS)]
    if all(name == _ADDRESSES for name, _ in named):
        return ""
    return _named_first(named, sum(count for _, count in listed))


def _named_first(counts: Iterable[tuple[str, int]], total: int) -> str:
    """`acc 96, k 55, others 14`: the largest of some counts, and what is left of the total."""
    head = sorted(counts, key=lambda item: -item[1])[:_MOST_NAMED]
    left = total - sum(count for _, count in head)
    return ", ".join(f"{name} {count}" for name, count in (*head, ("others", left)) if count)


def untouched_text(passing: UntouchedValues) -> str:
    """`22 VGPRs live through L0, which does not touch them: weight 16, bias 4, others 2`."""
    counts: Counter[str] = Counter()
    for value in passing.values:
        counts[spilled_name(value)] += value.vgprs + value.agprs
    files = [
        plural(count, name)
        for count, name in ((passing.vgprs, "VGPR"), (passing.agprs, "AGPR"))
        if count
    ]
    held = _named_first(counts.items(), counts.total())
    is_one = passing.vgprs + passing.agprs == 1
    verb, them = ("lives", "it") if is_one else ("live", "them")
    return (
        f"{' and '.join(files)} {verb} through {passing.loop}, which does not touch {them}: {held}"
    )


def dead_writes_text(lines: Sequence[int]) -> str:
    """`3 vector instructions write what nothing reads: ISA 12, 40, 77`; "" where none does."""
    if not lines:
        return ""
    listed = ", ".join(map(str, lines[:_MOST_NAMED])) + (", …" if len(lines) > _MOST_NAMED else "")
    verb = "write" if len(lines) > 1 else "writes"
    return f"{plural(len(lines), 'vector instruction')} {verb} what nothing reads: ISA {listed}"


def place_text(peak: LivePeak) -> str:
    """`at ISA 1042 (ds_read2_b64, attention.py:64), in loop L0`."""
    where = place(peak.source.in_user_code) if peak.source is not None else ""
    inside = f", in loop {peak.loop}" if peak.loop is not None else ""
    named = ", ".join(part for part in (peak.instruction, where) if part)
    return f"at ISA {peak.line} ({named}){inside}"


def amount_text(peak: LivePeak, kernel: KernelReport) -> str:
    """`241 of 256 VGPRs live`, with AGPRs and parked dwords where there are any."""
    demand = kernel.demand
    files = [("VGPRs", peak.vgprs, demand.vgprs if demand is not None else None)]
    if peak.agprs or (demand is not None and demand.agprs):
        files.append(("AGPRs", peak.agprs, demand.agprs if demand is not None else None))
    counts = " and ".join(
        # Hand-written code may state fewer than it names.
        f"{show(live)} of {show(allocated)} {name}"
        if allocated is not None and allocated >= live
        else f"{show(live)} {name}"
        for name, live, allocated in files
    )
    parked = sum(value.scratch for value in peak.values)
    return f"{counts} live" + (f", {plural(parked, 'more value')} in scratch" if parked else "")


def curve_lines(counts: Sequence[tuple[int, int, int]], width: int) -> list[str]:
    """Live VGPRs and AGPRs along the code (`LivePeak.counts`) as bars, a mark under the fullest.

    Each of the `width` characters stands for the fullest of its share of the instructions.
    """
    totals = [vgprs + agprs for _, vgprs, agprs in counts]
    if not totals:
        return []
    columns = min(width, len(totals))
    shares = [
        max(totals[i * len(totals) // columns : (i + 1) * len(totals) // columns])
        for i in range(columns)
    ]
    top = max(max(totals), 1)
    bars = "".join(_BARS[min(share * len(_BARS) // (top + 1), len(_BARS) - 1)] for share in shares)
    return [bars, " " * shares.index(max(shares)) + "^"]


def steps_text(pressure: RegisterPressure, *, has_agprs: bool) -> str:
    """How far the registers are from the next occupancy; "" if unknown.

    Registers alone: LDS may hold the occupancy down whatever they are.
    """
    if pressure.level is None or pressure.allocated is None:
        return ""
    waves, most = pressure.level
    kind = "VGPRs with AGPRs" if has_agprs else "VGPRs"
    parts = [
        f"{show(pressure.allocated)} {kind} admit {show(waves)} waves/SIMD (up to {show(most)})"
    ]
    if pressure.next_level is not None and pressure.excess is not None:
        waves, most = pressure.next_level
        parts.append(
            f"{show(waves)} waves/SIMD need {show(most)} at most: "
            + (
                f"{pressure.excess} fewer live at the peak"
                if pressure.excess > 0
                else "no more than are live, only the allocation is above"
            )
        )
    return "; ".join(parts)


def pressure_bar(need: int, pressure: RegisterPressure, width: int) -> str:
    """A bar of so many registers on the kernel's scale, budget lines behind it."""
    most = max(pressure.most, 1)
    eighths = min(round(need * width * 8 / most), width * 8)
    full, part = divmod(eighths, 8)
    cells = [*"█" * full, *(_PARTS[part - 1] if part else ""), *" " * width][:width]
    for _, budget in pressure.budgets:
        column = min(budget * width // most, width - 1)
        if cells[column] == " ":
            cells[column] = _BUDGET
    return "".join(cells)
