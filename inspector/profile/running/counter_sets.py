"""Reads the counters that the user asks for: named sets (`sets.yaml`), and names of counters."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from ...base.documents import own_yaml
from ...base.errors import KinspectError
from ..figures import counters

_FILE = Path(__file__).with_name("sets.yaml")


class CounterGroup(Struct, frozen=True):
    """Counters that are read in one pass; `name` is for messages."""

    name: str
    counters: tuple[str, ...]


@cache
def _tables() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = own_yaml(_FILE)
    return loaded


def names() -> Mapping[str, str]:
    """The named sets, and what each is for."""
    return {name: str(row["text"]) for name, row in _tables()["sets"].items()}


def clock(arch: str) -> str | None:
    """The counter of clocks, which every ratio over time is divided by; None where unknown."""
    name = str(_tables()["clock"])
    return name if name in counters.known(arch) else None


def parse(text: str) -> tuple[str, ...]:
    """The words in `occupancy,SQ_WAVES SQ_INSTS_VALU`, separated by commas or spaces."""
    return tuple(dict.fromkeys(word for word in re.split(r"[,\s]+", text) if word))


def groups(words: Sequence[str], arch: str) -> tuple[CounterGroup, ...]:
    """The groups of counters for some sets and counters on a target, without duplicates.

    Args:
        words: names of sets and of counters, as `parse` gives them.
        arch: such as gfx942.

    Raises:
        KinspectError: a word is neither, or a set has nothing on this target.
    """
    by_counters: dict[frozenset[str], CounterGroup] = {}
    for word in words:
        row = _tables()["sets"].get(word)
        for group in _of_set(word, row, arch) if row else (_of_name(word, arch),):
            by_counters.setdefault(frozenset(group.counters), group)
    # A group whose counters are all in another group adds nothing.
    return tuple(
        group
        for key, group in by_counters.items()
        if not any(key < shorter for shorter in by_counters)
    )


def _of_set(name: str, row: Mapping[str, Any], arch: str) -> list[CounterGroup]:
    """Returns the groups of a set that the target has, each with the clock counter."""
    existing = counters.known(arch)
    clock_counter = clock(arch)
    existing_groups = []
    for text in row["groups"]:
        names = _existing(str(text), existing)
        if names:
            existing_groups.append(
                CounterGroup(name, (*names, *([clock_counter] if clock_counter else [])))
            )
    if not existing_groups:
        raise KinspectError(
            f"--counters {name}: none of its counters are known on {arch}",
            "name counters (rocprofv3 -L lists them)",
        )
    return existing_groups


def _existing(text: str, existing: Collection[str]) -> list[str]:
    """Returns the counters of a group's text (`A|B C?`) that exist; none if one is missing.

    `A|B` is the first of both that exists; `C?` may be missing.
    """
    names: list[str] = []
    for item in text.split():
        choices = item.removesuffix("?").split("|")
        counter = next((choice for choice in choices if choice in existing), None)
        if counter is not None:
            names.append(counter)
        elif not item.endswith("?"):
            return []
    return names


def _of_name(name: str, arch: str) -> CounterGroup:
    """Returns a group of one counter."""
    bare = re.sub(r"\[.*\]$|:.*$", "", name)
    if bare in counters.known(arch) or (
        counters.is_guessed(arch) and counters.block_of(bare) is not None
    ):
        return CounterGroup(name, (name,))
    import difflib  # only on the way to an error

    suggestions = difflib.get_close_matches(bare.lower(), list(_tables()["sets"]), n=1)
    suggestions += counters.nearest(bare, arch)
    sets = ", ".join(_tables()["sets"])
    hint = f"did you mean {', '.join(suggestions)}? " if suggestions else ""
    raise KinspectError(
        f"--counters {name}: no counter of that name on {arch}, and no set",
        f"{hint}sets are {sets}",
    )
