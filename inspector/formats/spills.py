"""Spill slots in words: where each is stored and reloaded, and the knobs that bear on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..explain import view
from ..model import KernelReport, MemoryOp, SpillSlot, value_of

MOST_SLOTS = 5
_MOST_LINES = 3


def spill_lines(kernel: KernelReport) -> list[str]:
    """A title, the slots that hurt most and the knobs; nothing where no hot loop has spills."""
    hot = {loop.id for loop in kernel.loops if loop.hot}
    slots = [slot for slot in kernel.spills if not hot.isdisjoint(slot.loops)]
    if not slots:
        return []
    ops = {op.line: op for op in kernel.memory_ops}
    labels = {loop.id: loop.header_label or loop.id for loop in kernel.loops}
    lines = [f"Spills in hot loops: {view.plural(len(slots), 'slot')}"]
    for slot in slots[:MOST_SLOTS]:
        parts = [
            f"{verb} {_places(at, ops, labels, hot)}"
            for verb, at in (("stored", slot.stores), ("reloaded", slot.reloads))
            if at
        ]
        lines.append(f"  {_name(slot)}: {', '.join(parts)}")
    if len(slots) > MOST_SLOTS:
        lines.append(f"  and {view.plural(len(slots) - MOST_SLOTS, 'more slot')} (--format json)")
    knobs = value_of(kernel.metrics, "knobs")
    if isinstance(knobs, str):
        lines.append(f"  knobs: {knobs}")
    return lines


def _name(slot: SpillSlot) -> str:
    return f"slot {'?' if slot.offset is None else slot.offset} ({slot.size} B)"


def _places(
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
    text = f"ISA {', '.join(str(line) for line in at[:_MOST_LINES])}"
    text += f" and {len(at) - _MOST_LINES} more" if len(at) > _MOST_LINES else ""
    text += f" in {labels[loop]}" if loop is not None else ""
    text += f" ({source})" if source else ""
    elsewhere = len(lines) - len(at)
    return f"{text} and {view.plural(elsewhere, 'time')} elsewhere" if elsewhere else text
