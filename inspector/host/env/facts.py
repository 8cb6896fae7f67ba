"""The facts that `kinspect env` finds out, as values."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field


class Verdict(str, Enum):
    """The verdict on a fact.

    `choice` is what the guides offer for some kinds of work, or what changes compiled code: neither
    is better.
    """

    GOOD = "good"
    CHANGE = "worth changing"
    CHOICE = "your choice"
    UNKNOWN = "unknown"
    ABSENT = "not here"


class MachineFact(Struct, frozen=True):
    """One line of the table."""

    group: str  # heading
    name: str  # as `env set` takes it, where it can be set
    value: str | None  # what it is; None where it is not known or not there
    verdict: Verdict  # what is thought of it
    expected: str = ""  # what it should be, or may be
    advice: str = ""  # why, and what to do
    source: str = ""  # where the advice comes from
    settable: bool = False  # whether `env set` can change it


class InstalledGpu(Struct, frozen=True):
    """A GPU of the driver's topology: node, target and, where it is known, its card's folder."""

    node: int
    arch: str
    name: str = ""
    card: str | None = None


class MachineReport(Struct, frozen=True):
    """All facts, in the order of their groups."""

    facts: tuple[MachineFact, ...]
    gpus: tuple[InstalledGpu, ...] = field(default=())

    @property
    def worth_changing(self) -> tuple[MachineFact, ...]:
        return tuple(f for f in self.facts if f.verdict is Verdict.CHANGE)
