"""The emulator's counts for the lines of a kernel's texts, as the kernel page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ....inspector.explain.code.links import Links
from ....inspector.model import Emulated, EmulatedLine
from ...widgets.scorecard import CardFact
from .costs import Costs, by_line, severity


class EmulatedCosts(Costs):
    """How often each line was executed: by each wave in the assembly, elsewhere in shares."""

    def __init__(self, emulated: Emulated, links: Links) -> None:
        self._lines = by_line(emulated.lines)  # line of the assembly -> its counts
        self._waves = emulated.waves  # the number of waves that were executed
        assembly = {line: emulated_line.executed for line, emulated_line in self._lines.items()}
        source: Counter[int] = Counter()
        ttgir: Counter[int] = Counter()
        for line, count in assembly.items():
            for source_line in links.related("amdgcn", line, "source")[:1]:
                source[source_line] += count
            for ttgir_line in links.related("amdgcn", line, "ttgir"):
                ttgir[ttgir_line] += count
        total = sum(line.executed for line in emulated.lines)
        super().__init__(
            "executed instructions",
            {
                kind: {line: 100 * count / total for line, count in counts.items()}
                for kind, counts in (("amdgcn", assembly), ("source", source), ("ttgir", ttgir))
            },
            {n: _amount(line.executed / self._waves) for n, line in self._lines.items()},
        )

    def facts(self, kind: str, line: int) -> Iterator[CardFact]:
        """The facts about a line's executions; none if it was not executed."""
        share = self.share(kind, line)
        if share is None:
            return
        text = f"{share:.1f} % of the {self.measure}"
        if kind == "amdgcn":
            emulated_line = self._lines[line]
            per_wave = _amount(emulated_line.executed / self._waves)
            yield CardFact("emulated", f"{per_wave} × for each wave, {text}", severity(share))
            yield from (CardFact("", access) for access in _access_costs(emulated_line))
        else:
            place = "" if kind == "source" else ", its source line"
            yield CardFact("emulated", f"{text}{place}", severity(share))

    def explanation(self, kind: str, line: int) -> str:
        """The facts about a line's executions as paragraphs; "" if it was not executed."""
        lines = [f"  {fact.text}" for fact in self.facts(kind, line)]
        return "\n".join(["Emulated, a few workgroups", *lines]) if lines else ""


def _amount(count: float) -> str:
    """A count per wave in at most six columns."""
    if count >= 10_000:
        return f"{count / 1000:.0f}k"
    return f"{count:.0f}" if count >= 100 or count == int(count) else f"{count:.2g}"


def _access_costs(line: EmulatedLine) -> Iterator[str]:
    """The mean memory costs of an execution: lanes, cache lines, bank conflicts."""
    if line.active_lanes is not None:
        yield f"{100 * line.active_lanes:.0f} % of its lanes active"
    if line.cache_lines is not None and line.least_cache_lines is not None:
        yield f"{line.cache_lines:.1f} cache lines, {line.least_cache_lines:.1f} would do"
    if line.conflict_cycles is not None:
        yield f"{line.conflict_cycles:.1f} cycles of LDS bank conflicts"
