"""Puts a kernel's loops and memory accesses into words, for every output that people read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ..model import (
    Access,
    KernelReport,
    LoopReport,
    MemoryOp,
    Metric,
    SourceLoc,
    int_of,
    number_of,
    value_of,
)
from .occupancy_view import cannot_launch
from .view import count, file_name, place, show

_MOST_LINES = 4
_UNITS = {
    "matrix": "matrix unit",
    "vector": "VALU",
    "transcendental": "transcendentals",
    "scalar": "SALU",
    "vmem": "VMEM issue",
    "lds": "LDS banks",
    "lds_port": "LDS ports",
    "l1": "cache lines",
    "issue": "one wave's issue",
    "latency": "dependency chain",
}
"""Unit of a `bound.UNIT` metric -> its name in words."""
_CLASS_ORDER = (
    *("scratch_load", "scratch_store", "global_load", "lds_direct", "global_store", "atomic"),
    *("lds_read", "lds_write"),
)
"""Instruction classes in the order of the memory table; any other class comes last."""


class MemoryRow(Struct, frozen=True):
    """Accesses of one mnemonic and width in one loop.

    Args:
        bits: accessed by each lane; None if unknown.
        places: source lines, as `gemm.py:17,18`.
    """

    count: int
    mnemonic: str
    bits: int | None
    places: str
    note: str


class ScorecardRow(Struct, frozen=True):
    """A line of a region's scorecard; `metrics` names the figures that changes are judged by."""

    label: str
    text: str
    metrics: tuple[str, ...] = ()


def main_loop(kernel: KernelReport) -> LoopReport | None:
    """The loop that the report names as the kernel's main loop."""
    return next((loop for loop in kernel.loops if loop.id == kernel.main_loop), None)


def loop_title(loop: LoopReport) -> str:
    """A loop's source lines, ISA lines, unroll factor and depth."""
    return "   ".join(loop_title_parts(loop))


def loop_title_parts(loop: LoopReport, *, with_unknown: bool = True) -> tuple[str, ...]:
    """The parts of a loop's title; `with_unknown`: also that an unroll factor is unknown."""
    spans = ", ".join(f"{a}–{b}" for a, b in loop.lines[:3])
    if len(loop.lines) > 3:
        spans += ", …"
    parts = [source_span(loop.source), f"ISA {spans}"]
    if loop.unroll is None and with_unknown and count(loop.metrics, "mfma", "wmma"):
        parts.append("? source iterations per ISA iteration")
    elif loop.unroll is not None:
        parts.append(
            "1 source iteration per ISA iteration"
            if loop.unroll == 1
            else f"{loop.unroll} source iterations per ISA iteration"
        )
    if loop.depth > 1:
        parts.append(f"depth {loop.depth}")
    return tuple(part for part in parts if part)


def source_span(locations: Sequence[SourceLoc]) -> str:
    """`gemm.py:16–21`: the range of lines in the file that most of the places are in."""
    by_file: dict[str, list[int]] = {}
    for loc in locations:
        by_file.setdefault(loc.file, []).append(loc.line)
    if not by_file:
        return ""
    name, lines = max(by_file.items(), key=lambda item: len(item[1]))
    first, last = min(lines), max(lines)
    return f"{file_name(name)}:{first}" + (f"–{last}" if last > first else "")


def scorecard(metrics: Mapping[str, Metric], *, apart: bool = False) -> list[ScorecardRow]:
    """A region's instruction mix, always in the same order.

    Args:
        apart: kinds of matrix instructions and their cycles have rows, not a remark in brackets,
            and the bound has no remark.
    """
    redundancy = number_of(metrics, "matrix.redundancy") or 1
    work = ScorecardRow("matrix work", f"{redundancy:.3g} × needed", ("matrix.redundancy",))
    instructions = show(value_of(metrics, "count.instructions"))
    return [
        ScorecardRow("instructions", instructions, ("count.instructions",)),
        *_matrix(metrics, apart=apart),
        ScorecardRow("VALU", str(count(metrics, "valu"))),
        ScorecardRow("SALU", str(count(metrics, "salu"))),
        ScorecardRow(
            "LDS",
            f"{count(metrics, 'lds_read')} reads {count(metrics, 'lds_write')} writes"
            + (f" {count(metrics, 'lds_direct')} direct" if count(metrics, "lds_direct") else ""),
        ),
        ScorecardRow(
            "global",
            f"{count(metrics, 'global_load')} loads {count(metrics, 'global_store')} stores"
            + (f" {count(metrics, 'atomic')} atomics" if count(metrics, "atomic") else ""),
        ),
        ScorecardRow(
            "scratch",
            f"{count(metrics, 'scratch_load')} loads {count(metrics, 'scratch_store')} stores"
            if count(metrics, "scratch_load", "scratch_store")
            else "0",
            ("count.scratch_load", "count.scratch_store"),
        ),
        ScorecardRow("AGPR moves", str(count(metrics, "acc_move")), ("count.acc_move",)),
        ScorecardRow("s_nop", str(count(metrics, "nop"))),
        ScorecardRow(
            "waits",
            f"{count(metrics, 'wait')}, of them {count(metrics, 'full_wait')} full",
            ("count.full_wait",),
        ),
        ScorecardRow("barriers", str(count(metrics, "barrier")), ("count.barrier",)),
        *([work] if redundancy > 1 else []),
        *_bound(metrics, apart=apart),
    ]


def _matrix(metrics: Mapping[str, Metric], *, apart: bool) -> Iterator[ScorecardRow]:
    """The scorecard's rows on matrix instructions."""
    matrix, cycles = count(metrics, "mfma", "wmma"), int_of(metrics, "cycles.mfma")
    label = "WMMA" if count(metrics, "wmma") else "MFMA"
    mnemonics = value_of(metrics, "matrix.instructions")
    kinds = mnemonics if isinstance(mnemonics, Mapping) else {}
    if apart:
        yield ScorecardRow(label, str(matrix))
        for kind, number in kinds.items():
            yield ScorecardRow(f"  {kind}", show(number))
        shown = show(value_of(metrics, "cycles.mfma"))
        yield ScorecardRow("  cycles of the matrix unit", shown, ("cycles.mfma",))
        return
    details = [*kinds, *([f"{cycles} cycles"] if matrix and cycles is not None else [])]
    yield ScorecardRow(label, f"{matrix} ({', '.join(details)})" if details else str(matrix))


def unit_name(unit: str) -> str:
    """The unit that bounds a loop, in words."""
    return _UNITS.get(unit, unit)


def bounds(metrics: Mapping[str, Metric]) -> list[tuple[str, float]]:
    """A hot loop's known lower bounds as (unit, cycles), the largest first."""
    figures = ((unit, number_of(metrics, f"bound.{unit}")) for unit in _UNITS)
    known = [(unit, cycles) for unit, cycles in figures if cycles]
    return sorted(known, key=lambda item: -item[1])


def _bound(metrics: Mapping[str, Metric], *, apart: bool) -> Iterator[ScorecardRow]:
    """The scorecard's row for the largest bound, with the two next; none where none is known."""
    known = bounds(metrics)
    if not known:
        return
    (unit, cycles), *smaller = known
    details = [f"{unit_name(other)} {figure:.0f}" for other, figure in smaller[:2]]
    known_units = dict(known)
    unknown = [
        unit_name(other)
        for other in _UNITS
        if f"bound.{other}" in metrics
        and value_of(metrics, f"bound.{other}") is None
        # RDNA's port rates are not published; the bank bound covers the same accesses.
        and not (other == "lds_port" and "lds" in known_units)
    ]
    details += [f"{', '.join(unknown)} unknown"] if unknown else []
    details.append(f"{show(value_of(metrics, 'bound.waves'))} waves/SIMD")
    covered = number_of(metrics, "bound.covered")
    named = value_of(metrics, "bound.unit") is not None
    if covered is not None and covered < 100:
        details.append(f"without code under conditions, {100 - covered:.0f} % of the instructions")
        longest = value_of(metrics, "bound.longest")
        if not named and isinstance(longest, Mapping) and longest["unit"] is not None:
            by = unit_name(str(longest["unit"]))
            details.append(f"with it {show(longest['cycles'])} by {by}")
    by = f" by {unit_name(unit)}" if named else " at least"
    remark = "" if apart else f" ({', '.join(details)})"
    yield ScorecardRow("bound", f"{cycles:.0f} cycles{by}{remark}", ("bound.cycles",))


def memory_rows(ops: Iterable[MemoryOp], loop: str | None) -> list[MemoryRow]:
    """The accesses in `loop` (None: outside all loops) by mnemonic and width, spills first."""
    groups: dict[tuple[str, str, int | None], list[MemoryOp]] = {}
    for op in ops:
        if op.loop == loop:
            groups.setdefault((op.cls, op.mnemonic, op.bits), []).append(op)
    ordered = sorted(
        groups.items(),
        key=lambda item: (
            _CLASS_ORDER.index(item[0][0]) if item[0][0] in _CLASS_ORDER else len(_CLASS_ORDER),
            item[0][2] or 0,
            item[0][1],
        ),
    )
    return [
        MemoryRow(len(accesses), mnemonic, bits, _places(accesses), _memory_note(cls, accesses))
        for (cls, mnemonic, bits), accesses in ordered
    ]


def _places(ops: Sequence[MemoryOp]) -> str:
    by_file: dict[str, set[int]] = {}
    for op in ops:
        if op.source is not None:
            loc = op.source.in_user_code
            by_file.setdefault(file_name(loc.file), set()).add(loc.line)
    texts = []
    for name, lines in sorted(by_file.items()):
        numbers = [str(n) for n in sorted(lines)]
        ellipsis = ",…" if len(numbers) > _MOST_LINES else ""
        texts.append(f"{name}:{','.join(numbers[:_MOST_LINES])}{ellipsis}")
    return " ".join(texts)


def narrow_accesses(kernel: KernelReport, limit: int = 3) -> list[str]:
    """Lines on why accesses in hot loops are narrow, the narrowest first.

    A reason that a finding already gives is left out, and copies of one source access share a line.
    A kernel that cannot launch has worse problems and gets no lines. Of more than `limit` the last
    one counts those left out.
    """
    if cannot_launch(kernel):
        return []
    hot = {loop.id for loop in kernel.loops if loop.hot}
    messages = [finding.message for finding in kernel.findings]
    lines: dict[str, int] = {}
    for access in kernel.accesses:
        if access.limited_by is None or access.bits is None or access.loop not in hot:
            continue
        if access.widest is not None and access.bits >= access.widest:
            continue  # the tile is too small for a wider access
        if not any(access.reason in message for message in messages):
            lines.setdefault(_narrow(access), access.bits)
    texts = sorted(lines, key=lambda text: lines[text])
    if len(texts) > limit:
        omitted = len(texts) - limit + 1
        texts = [*texts[: limit - 1], f"and {omitted} more (--format json)"]
    return texts


def _narrow(access: Access) -> str:
    """A line on a narrow access: its width, the widest possible, the reason and the fix."""
    loc = access.source.in_user_code if access.source is not None else None
    where = f" at {place(loc)}" if loc is not None else ""
    layout = access.layout.partition(" of ")[0]
    return (
        f"{access.op}{where} ({layout}): {show(access.bits)} of {show(access.widest)} bits –"
        f" {access.reason}{f' → {access.fix}' if access.fix else ''}"
    )


def _memory_note(cls: str, accesses: Sequence[MemoryOp]) -> str:
    """The flaw of accesses of an instruction class, in words; "" if none is known."""
    if cls.startswith("scratch"):
        return "register spill or private array"
    if cls == "lds_direct":
        return "global memory to LDS, past the registers"
    uses = [op.use for op in accesses if op.use is not None]
    cycles, ideal = (
        sum(getattr(use, name) or 0 for use in uses) for name in ("cycles", "cycles_ideal")
    )
    if cycles > ideal:
        return f"bank conflicts: {cycles:,.0f} cycles for {ideal:,.0f}"
    lines = sum(use.lines or 0 for use in uses)
    needed = sum(use.lines_ideal or 0 for use in uses)
    if lines > needed:
        return f"{lines:,.0f} cache lines where {needed:,.0f} would do"
    return ""
