"""What the lines of a kernel's texts cost, measured or emulated, as the kernel page shows it.

Imported where something was measured or emulated: the first page of a file does not wait for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from ....inspector.explain.view import HOT, WARM
from ...widgets.scorecard import CardFact


class Costs(ABC):
    """Costs by line; lines count from 0.

    Args:
        shares: kind of text -> line -> its share of the kernel's total, %. Lines of the source and
            of the TTGIR have what all instructions of that source line cost together.
        executed: line of the assembly -> executions of a wave, as a text, where they are counted.
    """

    def __init__(
        self,
        measure: str,
        shares: Mapping[str, Mapping[int, float]],
        executed: Mapping[int, str] | None = None,
    ) -> None:
        self.measure = measure
        self.shares = shares
        self.executed = executed or {}

    def share(self, kind: str, line: int) -> float | None:
        """A line's share of the kernel's total, %; None where nothing is known of it."""
        return self.shares.get(kind, {}).get(line)

    @abstractmethod
    def facts(self, kind: str, line: int) -> Iterator[CardFact]:
        """The facts about a line's cost, for the card; none where nothing is known of it."""

    @abstractmethod
    def explanation(self, kind: str, line: int) -> str:
        """All that is known of a line's cost, as text; "" without any."""


class _OfLine(Protocol):
    @property
    def line(self) -> int: ...


OfLine = TypeVar("OfLine", bound=_OfLine)


def by_line(items: Iterable[OfLine]) -> dict[int, OfLine]:
    """Line, counted from 0 as in panes -> the item of it, whose own `line` counts from 1."""
    return {item.line - 1: item for item in items}


def severity(share: float) -> str:
    """The style of a fact about a line with this share, %."""
    return "error" if share >= HOT else "warning" if share >= WARM else ""
