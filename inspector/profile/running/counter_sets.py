"""The counters that the user asks for, by named sets (`sets.yaml`) or names, and the passes of the
program that record them.

Each pass runs the whole program once, so that there should be few. A block of the hardware counts
a limited number of counters at a time; a derived counter needs its operands, which the counters of
a pass share. The counters of a group stay together, so that ratios are of one pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


class Hardware(Struct, frozen=True):
    """The counting capacity of a target.

    Attributes:
        block: returns the block of a hardware counter; None if unknown, which means no limit.
        limit: returns how many counters a block counts at a time; None if unknown.
    """

    operands: Callable[[str], Iterable[str]]  # returns the hardware counters that a counter needs
    block: Callable[[str], str | None]
    limit: Callable[[str], int | None]

    def excess(self, names: Iterable[str]) -> dict[str, tuple[int, int]]:
        """Block -> number of needed counters and limit, for blocks whose limit is exceeded."""
        operands_of: dict[str, set[str]] = {}
        for name in names:
            for operand in self.operands(name):
                block = self.block(operand)
                if block is not None:
                    operands_of.setdefault(block, set()).add(operand)
        exceeded = {}
        for block, operands in operands_of.items():
            capacity = self.limit(block)
            if capacity is not None and len(operands) > capacity:
                exceeded[block] = (len(operands), capacity)
        return exceeded


def of_arch(arch: str) -> Hardware:
    """The hardware of a target, by the tables of `counters`."""
    return Hardware(
        operands=lambda name: counters.operands(name, arch),
        block=counters.block_of,
        limit=lambda block: counters.limit(block, arch),
    )


def split(
    groups: Sequence[CounterGroup], hardware: Hardware, clock: str | None = None
) -> tuple[tuple[str, ...], ...]:
    """The counters of each pass.

    The largest groups are placed first, each into the pass that it shares most counters with and
    that still holds it: the same groups give the same passes, in whatever order they come.

    `groups`: whose counters must stay together.
    `hardware`: the target's counters; each pass must fit its registers.

    Raises:
        KinspectError: a group fits no pass by itself.
    """
    passes: list[dict[str, None]] = []
    for group in sorted(
        groups,
        key=lambda candidate_group: (
            -len(candidate_group.counters),
            sorted(candidate_group.counters),
        ),
    ):
        _refuse(group, hardware)
        best: dict[str, None] | None = None
        shared = -1
        for candidate in passes:
            common = sum(name in candidate for name in group.counters)
            if common > shared and not hardware.excess([*candidate, *group.counters]):
                best, shared = candidate, common
        if best is None:
            best = {}
            passes.append(best)
        best.update(dict.fromkeys(group.counters))
    if clock is not None:
        for pass_counters in passes:
            if not hardware.excess([*pass_counters, clock]):
                pass_counters[clock] = None
    return tuple(tuple(pass_counters) for pass_counters in passes)


def _refuse(group: CounterGroup, hardware: Hardware) -> None:
    """Raises KinspectError if a group does not fit in a pass."""
    exceeded = hardware.excess(group.counters)
    if not exceeded:
        return
    block, (count, capacity) = min(exceeded.items())
    if len(group.counters) == 1:
        demand = f"{group.counters[0]} takes {count} counters of {block}"
    else:
        demand = f"{', '.join(group.counters)} ({group.name}) take {count} counters of {block}"
    raise KinspectError(
        f"{demand} in one pass, and the hardware has {capacity}",
        "ask for its operands one by one, by --counters",
    )
