"""The identity of a set of changes."""

from __future__ import annotations

from collections.abc import Iterable

from ...model import Change


def key_of(changes: Iterable[Change]) -> tuple[tuple[str, str, str], ...]:
    """What tells one set of changes from another: of the source also what it is made to."""
    return tuple(
        sorted(
            (c.kind, c.name, repr((c.value, c.before) if c.kind == "source" else c.value))
            for c in changes
        )
    )
