"""The accesses and lines that a finding names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType

from ..model import KernelReport, LaneUse, Location, LoopReport, MemoryOp, SourceLoc
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


def locations_of(
    accesses: Sequence[MemoryOp],
    kernel: KernelReport,
    loop: LoopReport | None,
    source_text: SourceText | None,
) -> Iterator[Location]:
    """Yields the accesses that a rule is about, or else the position of the loop or kernel."""
    accesses = accesses[:MAX_ACCESSES]
    places: list[SourceLoc] = []
    for access in accesses:
        yield Location("amdgcn", None, access.line, access.mnemonic)
        if access.source is not None:
            places.append(access.source.in_user_code)
    if not accesses and loop is not None:
        yield Location("amdgcn", None, loop.header.line, loop.header.label or "")
        places.extend(loop.source)
    if not accesses and loop is None and kernel.source is not None:
        places.append(kernel.source)
    distinct = dict.fromkeys((place.file, place.line) for place in places)
    for file, line in list(distinct)[: MAX_ACCESSES if accesses else MAX_SOURCE_LINES]:
        text = source_text(SourceLoc(file, line)) if source_text else None
        yield Location("source", file, line, text or "")


def places_of(places: Sequence[Place], source_text: SourceText | None) -> Iterator[Location]:
    """Yields the lines of the assembly, then the distinct lines of the source."""
    for place in places:
        yield Location("amdgcn", None, place.line, place.text)
    sources = [place.source.in_user_code for place in places if place.source is not None]
    for file, line in dict.fromkeys((source.file, source.line) for source in sources):
        text = source_text(SourceLoc(file, line)) if source_text else None
        yield Location("source", file, line, text or "")


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


def _rank(ranked: tuple[float, int, MemoryOp]) -> tuple[float, int]:
    return ranked[:2]


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
        ranked = [(-badness(op.use), op.line, op) for op in in_loop if op.use is not None]
        return [op for rank, _, op in sorted(ranked, key=_rank) if rank < 0]
    ops = [op for op in in_loop if is_named(op)]
    widest = max((op.bits for op in ops if op.bits is not None), default=0)
    return sorted(ops, key=lambda op: (widest if op.bits is None else op.bits, op.line))
