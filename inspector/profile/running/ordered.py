"""Puts what was read of a run into the order of its passes."""

from __future__ import annotations

from array import array
from pathlib import Path

from msgspec.structs import replace

from ...recording import Part, Recording
from .manifest import Manifest, PassRecord


def in_order(found: Recording, record: Manifest, run: Path) -> Recording:
    """Parts named after their passes, in their order; a pass that left nothing has an empty one."""
    by_pass: dict[str, list[int]] = {item.name: [] for item in record.passes}
    unowned: list[int] = []
    for number, part in enumerate(found.parts):
        owner = _owner(part, record, run)
        (by_pass[owner] if owner is not None else unowned).append(number)
    order: list[int] = []
    parts: list[Part] = []
    for item in record.passes:
        numbers = by_pass[item.name]
        for number in numbers:
            old = found.parts[number]
            name = item.name if len(numbers) == 1 else f"{item.name}/{old.name.split('/')[-1]}"
            order.append(number)
            parts.append(_ended(replace(old, name=name), item))
        if not numbers and item.status not in ("waiting", "skipped"):
            order.append(-1)
            parts.append(_ended(Part(item.name, str(run / item.folder), "none"), item))
    order += unowned
    parts += [found.parts[number] for number in unowned]
    place = {old: new for new, old in enumerate(order) if old >= 0}
    table = replace(
        found.dispatches, part=array("h", (place.get(n, n) for n in found.dispatches.part))
    )
    return replace(found, parts=tuple(parts), dispatches=table)


def _owner(part: Part, record: Manifest, run: Path) -> str | None:
    path = Path(part.path).absolute()
    for item in record.passes:
        folder = (run / item.folder).absolute()
        if path == folder or folder in path.parents:
            return item.name
    return None


def _ended(part: Part, item: PassRecord) -> Part:
    statuses = {"complete": "complete", "failed": "failed", "timeout": "timeout"}
    # One that still runs by its manifest was ended together with kinspect.
    status = statuses.get(item.status, "killed")
    return replace(part, counters=item.counters, exit_code=item.exit_code, status=status)
