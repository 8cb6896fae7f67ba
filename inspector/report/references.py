"""What the parts of a kernel say of its loops: a saved report may say anything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..model import KernelReport, LoopReport

_FINGERPRINT = re.compile(r"[0-9a-f]{16}")
_LOOP = re.compile(r"L[0-9]{1,9}")


def check_references(kernel: KernelReport) -> None:
    """Checks ids and fingerprints, which commands name, and what names loops.

    Loops have different ids and nest, and all that names a loop names one of them.

    Raises:
        ValueError: what is wrong, in words.
    """
    for finding in kernel.facts:
        if not _FINGERPRINT.fullmatch(finding.fingerprint):
            raise ValueError(f"{finding.fingerprint[:60]!r} is not a fingerprint of a finding")
    depths = _depths(kernel.loops)
    for part, ids in _named_loops(kernel):
        for name in ids:
            if name is not None and name not in depths:
                raise ValueError(f"{part} names loop {name[:60]!r}, which there is not")


def _depths(loops: Iterable[LoopReport]) -> dict[str, int]:
    """The depth of each loop; of parents it is one less, so that none lies in itself."""
    depths: dict[str, int] = {}
    for loop in loops:
        if not _LOOP.fullmatch(loop.id):
            raise ValueError(f"{loop.id[:60]!r} is not an id of a loop")
        if loop.id in depths:
            raise ValueError(f"there are two loops {loop.id[:60]!r}")
        depths[loop.id] = loop.depth
    for loop in loops:
        around = 0 if loop.parent is None else depths.get(loop.parent)
        if around is None or loop.depth != around + 1:
            parent = repr(loop.parent[:60]) if loop.parent is not None else "none"
            raise ValueError(f"loop {loop.id[:60]!r} of depth {loop.depth} in {parent}")
    return depths


def _named_loops(kernel: KernelReport) -> Iterator[tuple[str, Iterable[str | None]]]:
    """Yields the parts of a kernel that name loops, each with the different ids."""
    yield "main_loop", (kernel.main_loop,)
    yield "memory_ops", {op.loop for op in kernel.memory_ops}
    yield "waits", {wait.loop for wait in kernel.waits}
    yield "accesses", {access.loop for access in kernel.accesses}
    yield "spills", {loop for slot in kernel.spills for loop in slot.loops}
    yield "spilled_values", {loop for value in kernel.spilled_values for loop in value.loops}
    yield (
        "spilled_values",
        {traffic.loop for value in kernel.spilled_values for traffic in value.by_loop},
    )
    yield "untouched", {values.loop for values in kernel.untouched}
    yield "measured_lines", {line.loop for line in kernel.measured_lines}
    if kernel.live_peak is not None:
        yield "live_peak", (kernel.live_peak.loop,)
