"""The accesses and lines that a finding names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from msgspec.structs import replace

from ..model import (
    EVERYWHERE,
    CodePosition,
    KernelReport,
    LaneUse,
    Location,
    LoopReport,
    MemoryOp,
    Metric,
    SourceLoc,
)
from .nodes import MetricName
from .rule import Rule
from .subjects import Place

MAX_ACCESSES = 5
"""Most memory accesses that a finding about a kernel or loop lists."""
MAX_SOURCE_LINES = 3
"""Most source lines that a finding without accesses lists."""
MAX_MATCHES = 20
"""Most assembly lines that a finding about instructions or waits lists; it counts all of them."""

_SCRATCH = frozenset(("scratch_load", "scratch_store"))
_SPILLS, _PRIVATE_ARRAYS = "spills", "private_arrays"
"""Families of metrics that count accesses of scratch by their purpose."""

_AT = ("_at", ".at")
"""Endings of figures that say where something is; others name lines beside it."""

SourceText = Callable[[SourceLoc], "str | None"]
"""Returns the text of a source line; None where it cannot be read."""


def further_lines(accesses: Sequence[MemoryOp]) -> tuple[int, ...]:
    """The lines of all accesses that a rule finds fault with; empty where its locations suffice.

    Scratch accesses are all at fault; of others, which are sorted, the last ones may be good.
    """
    if any(access.cls not in _SCRATCH for access in accesses):
        return ()
    return all_of(sorted(access.line for access in accesses), MAX_ACCESSES)


def all_of(lines: Sequence[int], most: int) -> tuple[int, ...]:
    """The lines, where they are more than the locations list."""
    return tuple(dict.fromkeys(lines)) if len(lines) > most else ()


def access_locations(
    accesses: Sequence[MemoryOp], source_text: SourceText | None
) -> Iterator[Location]:
    """Yields the accesses that a rule is about, and the expressions that they stem from."""
    places = [Place(op.line, op.mnemonic, op.source) for op in accesses[:MAX_ACCESSES]]
    return places_of(places, source_text)


def position_locations(
    positions: Sequence[CodePosition], source_text: SourceText | None
) -> Iterator[Location]:
    """Yields the first instruction of each position, and the expressions."""
    places = (Place(next(iter(p.lines), 0), p.text, p.source) for p in positions[:MAX_ACCESSES])
    return places_of(list(places), source_text)


def whole_locations(
    kernel: KernelReport, loop: LoopReport | None, source_text: SourceText | None
) -> Iterator[Location]:
    """Yields the position of a loop, or of the kernel."""
    sources: Sequence[SourceLoc] = ()
    if loop is not None:
        yield Location("amdgcn", None, loop.header.line, loop.header.label or "")
        sources = loop.source[:MAX_SOURCE_LINES]
    elif kernel.source is not None:
        sources = (kernel.source,)
    yield from _sources(sources, source_text)


def places_of(places: Sequence[Place], source_text: SourceText | None) -> Iterator[Location]:
    """Yields the lines of the assembly, then the expressions of the source."""
    for place in places:
        if place.line:
            yield Location("amdgcn", None, place.line, place.text)
    sources = (place.source for place in places)
    yield from _sources((loc.in_user_code for loc in sources if loc is not None), source_text)


def _sources(sources: Iterable[SourceLoc], source_text: SourceText | None) -> Iterator[Location]:
    """Yields the distinct lines, each with the column of the first expression in it."""
    columns: dict[tuple[str, int], int | None] = {}
    for source in sources:
        columns.setdefault((source.file, source.line), source.column)
    for (file, line), column in columns.items():
        text = (source_text(SourceLoc(file, line)) if source_text else None) or ""
        if column is not None and not text.isascii():  # compilers count bytes
            column = (
                len(text.encode("utf-8", "replace")[: column - 1].decode("utf-8", "ignore")) + 1
            )
        yield Location("source", file, line, text, column)


def named_positions(
    rule: Rule, kernel: KernelReport, loop: LoopReport | None, shares: Mapping[int, float]
) -> list[CodePosition]:
    """The positions that a rule's message names, the costliest first; else those of what it needs.

    `shares`: line of the assembly -> share of the launch's time. Where no time is known, those in
    the main loop come first.
    """
    positions: list[CodePosition] = []
    names = (*rule.message.names, *rule.fix.names)
    for name in sorted(names, key=lambda name: not name.name.endswith(_AT)):
        own = [p for p in _positions(name, kernel, loop) if p.key == (name.field or "")]
        positions += own if positions else _costliest_first(own, kernel, shares)
    if not positions:
        needed = chain.from_iterable(_positions(n, kernel, loop) for n in rule.require.names)
        told = [position for position in needed if not position.key.endswith(EVERYWHERE)]
        positions = _costliest_first(told, kernel, shares)
    return list(dict.fromkeys(positions))


def worked_lines(
    rule: Rule, kernel: KernelReport, loop: LoopReport | None, shares: Mapping[int, float]
) -> tuple[int, ...]:
    """The lines of all instructions that the message names, those of other loops included."""
    names = (*rule.message.names, *rule.fix.names)
    everywhere = [
        position
        for name in names
        for position in _positions(name, kernel, loop)
        if position.key == f"{name.field or ''}{EVERYWHERE}"
    ]
    found = everywhere or named_positions(rule, kernel, loop, shares)
    return tuple(dict.fromkeys(line for position in found for line in position.lines))


def _positions(
    name: MetricName, kernel: KernelReport, loop: LoopReport | None
) -> Iterator[CodePosition]:
    """The positions of a metric; of those in several loops the instructions in the finding's."""
    metrics: Mapping[str, Metric] = {}
    if name.source == "kernel":
        metrics = kernel.metrics
    elif name.source == "loop" and loop is not None:
        metrics = loop.metrics
    elif name.source == "loop" and not kernel.loops:
        metrics = kernel.metrics
    metric = metrics.get(name.metric)
    for position in metric.positions if metric is not None else ():
        inside = tuple(n for n in position.lines if loop is None or _is_in(loop, n))
        yield replace(position, lines=inside or position.lines)


def _costliest_first(
    positions: Sequence[CodePosition], kernel: KernelReport, shares: Mapping[int, float]
) -> list[CodePosition]:
    """Positions by the time that their instructions take; equals as `named_positions` says."""
    main = next((loop for loop in kernel.loops if loop.id == kernel.main_loop), None)

    def rank(position: CodePosition) -> tuple[float, bool]:
        in_main = main is not None and any(_is_in(main, line) for line in position.lines)
        return -sum(shares.get(line, 0.0) for line in position.lines), not in_main

    return sorted(positions, key=rank)


def _is_in(loop: LoopReport, line: int) -> bool:
    return any(first <= line <= last for first, last in loop.lines)


_BADNESS: Mapping[str, Callable[[LaneUse], float]] = MappingProxyType(
    {
        "lds.conflict_cycles": lambda use: use.conflicts or 0.0,
        "lds.conflicts.known": lambda use: use.conflicts or 0.0,
        "cache.lines": lambda use: (use.lines or 0.0) - (use.lines_ideal or 0.0),
        "cache.waste.known": lambda use: (
            0.0 if use.at_edge else (use.lines or 0.0) - (use.lines_ideal or 0.0)
        ),
        "cache.uniform_loads.curable": lambda use: float(use.addresses == 1 and use.lines == 1),
        "cache.waste.across": lambda use: (
            (use.lines or 0.0) - (use.lines_ideal or 0.0) if use.across and not use.at_edge else 0.0
        ),
    }
)
"""Figures of what lanes touch -> the share of one access in them."""
OF_LANES = frozenset(("op.side_by_side", "op.joint_bits", *_BADNESS))
"""What is read of the lanes of single accesses."""


def named_figure(rule: Rule) -> str | None:
    """The figure of `_BADNESS` that a requirement names."""
    named = {name.name for name in rule.require.names}
    return next((figure for figure in _BADNESS if figure in named), None)


def accesses_of(rule: Rule, kernel: KernelReport, loop: LoopReport | None) -> list[MemoryOp]:
    """Returns the accesses that a requirement is about, the worst first.

    If it names a figure of `_BADNESS`, they are sorted by that; otherwise they are the narrowest
    of the classes that it names.
    """
    classes = {word for metric in rule.require.names for word in metric.name.split(".")}
    spills = {line for slot in kernel.spills for line in (*slot.stores, *slot.reloads)}

    def is_named(op: MemoryOp) -> bool:
        if op.cls in classes:
            return True
        family = _SPILLS if op.line in spills else _PRIVATE_ARRAYS
        return op.cls in _SCRATCH and family in classes

    in_loop = [op for op in kernel.memory_ops if loop is None or op.loop == loop.id]
    figure = named_figure(rule)
    if figure is not None:
        badness = _BADNESS[figure]
        bad = [(badness(op.use), op) for op in in_loop if op.use is not None]
        worst_first = sorted(bad, key=lambda each: (-each[0], each[1].line))
        return [op for share, op in worst_first if share > 0]
    ops = [op for op in in_loop if is_named(op)]
    widest = max((op.bits for op in ops if op.bits is not None), default=0)
    return sorted(ops, key=lambda op: (widest if op.bits is None else op.bits, op.line))
