"""From what the user asked for (sets and names) to groups of counters that must stay together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from msgspec import Struct

from ...errors import KinspectError
from ..figures import counters


class Group(Struct, frozen=True):
    """Counters that are read in one pass; `name` is for messages."""

    name: str
    counters: tuple[str, ...]


@cache
def _tables() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = yaml.safe_load(
        files(__package__).joinpath("sets.yaml").read_text(encoding="utf-8")
    )
    return loaded


def names() -> Mapping[str, str]:
    """The named sets, and what each is for."""
    return {name: str(row["text"]) for name, row in _tables()["sets"].items()}


def clock(arch: str) -> str | None:
    """The counter of clocks, which every ratio over time is divided by; None where unknown."""
    name = str(_tables()["clock"])
    return name if name in counters.known(arch) else None


def parse(text: str) -> tuple[str, ...]:
    """`occupancy,SQ_WAVES SQ_INSTS_VALU` as words; commas or spaces stand between them."""
    return tuple(dict.fromkeys(word for word in re.split(r"[,\s]+", text) if word))


def groups(words: Sequence[str], arch: str) -> tuple[Group, ...]:
    """The groups that sets and counters make on a target; none is there twice.

    Args:
        words: names of sets and of counters, as `parse` gives them.
        arch: such as gfx942.

    Raises:
        KinspectError: a word is neither, or a set has nothing on this target.
    """
    by_counters: dict[frozenset[str], Group] = {}
    for word in words:
        row = _tables()["sets"].get(word)
        for group in _of_set(word, row, arch) if row else (_of_name(word, arch),):
            by_counters.setdefault(frozenset(group.counters), group)
    # A group whose counters all stand in another one asks for nothing new.
    return tuple(
        group
        for key, group in by_counters.items()
        if not any(key < shorter for shorter in by_counters)
    )


def _of_set(name: str, row: Mapping[str, Any], arch: str) -> list[Group]:
    existing = counters.known(arch)
    ticking = clock(arch)
    chosen_groups = []
    for text in row["groups"]:
        chosen: list[str] | None = []
        for item in str(text).split():
            options = item.removesuffix("?").split("|")
            counter = next((option for option in options if option in existing), None)
            if counter is None and not item.endswith("?"):
                chosen = None
                break
            if counter is not None and chosen is not None:
                chosen.append(counter)
        if chosen:
            chosen_groups.append(Group(name, (*chosen, *([ticking] if ticking else []))))
    if not chosen_groups:
        raise KinspectError(
            f"--counters {name}: none of its counters are known on {arch}",
            "name counters of your own (rocprofv3 -L lists them)",
        )
    return chosen_groups


def _of_name(name: str, arch: str) -> Group:
    bare = re.sub(r"\[.*\]$|:.*$", "", name)
    if bare in counters.known(arch) or (
        counters.is_guessed(arch) and counters.block_of(bare) is not None
    ):
        return Group(name, (name,))
    import difflib  # only on the way to an error

    near = difflib.get_close_matches(bare.lower(), list(_tables()["sets"]), n=1)
    near += counters.nearest(bare, arch)
    sets = ", ".join(_tables()["sets"])
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise KinspectError(
        f"--counters {name}: no counter of that name on {arch}, and no set",
        f"{hint}sets are {sets}",
    )
