"""The emulator's counts for the lines of a kernel's texts, as the kernel page shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from ....inspector.explain.code.links import Links
from ....inspector.explain.view import HOT, WARM
from ....inspector.model import Emulated, EmulatedLine
from ...widgets.code import Cell
from ...widgets.scorecard import Fact
from .measured import Costs, dearest_first
from .text import WIDTH, cell

HEADING = "  exec "
WHAT = "executed instructions"


def costs_of(emulated: Emulated, links: Links) -> Costs:
    """Executions by line of each text: of the assembly for each wave, elsewhere in shares."""
    total = sum(line.executed for line in emulated.lines)
    executed = {line.line - 1: line for line in emulated.lines}
    source: Counter[int] = Counter()
    ttgir: Counter[int] = Counter()
    for number, line in executed.items():
        for place in links.related("amdgcn", number, "source")[:1]:
            source[place] += line.executed
        for place in links.related("amdgcn", number, "ttgir"):
            ttgir[place] += line.executed
    shares: dict[str, Mapping[int, float]] = {
        kind: {place: 100 * count / total for place, count in counts.items()}
        for kind, counts in (
            ("amdgcn", {number: line.executed for number, line in executed.items()}),
            ("source", source),
            ("ttgir", ttgir),
        )
    }
    return Costs(
        what=WHAT,
        shares=shares,
        dearest={kind: dearest_first(by_line) for kind, by_line in shares.items()},
        cells={"amdgcn": _cells(emulated)},
        executed=executed,
        waves=emulated.waves,
    )


def _cells(emulated: Emulated) -> dict[int, Cell]:
    """Line -> its executions per wave, coloured by their share of the largest count."""
    largest = max((line.executed for line in emulated.lines), default=1)
    return {
        line.line - 1: (
            f"{_amount(line.executed / emulated.waves):>{WIDTH - 1}} ",
            cell(100 * line.executed / largest * HOT / 50)[1],
        )
        for line in emulated.lines
    }


def _amount(times: float) -> str:
    if times >= 10_000:
        return f"{times / 1000:.0f}k"
    return f"{times:.0f}" if times >= 100 or times == int(times) else f"{times:.2g}"


def of_line(costs: Costs, kind: str, line: int) -> Iterator[Fact]:
    """The facts about a line's executions; none if it was not executed."""
    share = costs.share(kind, line)
    if share is None:
        return
    style = "error" if share >= HOT else "warning" if share >= WARM else ""
    words = f"{share:.1f} % of the {costs.what}"
    if kind == "amdgcn":
        executed = costs.executed[line]
        per_wave = _amount(executed.executed / costs.waves)
        yield Fact("emulated", f"{per_wave} × for each wave, {words}", style)
        yield from (Fact("", text) for text in _access(executed))
    else:
        origin = "" if kind == "source" else ", its source line"
        yield Fact("emulated", f"{words}{origin}", style)


def explained(costs: Costs, kind: str, line: int) -> str:
    """The facts about a line's executions as paragraphs; "" if it was not executed."""
    lines = [f"  {fact.text}" for fact in of_line(costs, kind, line)]
    return "\n".join(["Emulated, a few workgroups", *lines]) if lines else ""


def _access(line: EmulatedLine) -> Iterator[str]:
    """The mean memory costs of an execution: lanes, cache lines, bank conflicts."""
    if line.active_lanes is not None:
        yield f"{100 * line.active_lanes:.0f} % of its lanes active"
    if line.cache_lines is not None and line.least_cache_lines is not None:
        yield f"{line.cache_lines:.1f} cache lines, {line.least_cache_lines:.1f} would do"
    if line.conflict_cycles is not None:
        yield f"{line.conflict_cycles:.1f} cycles of LDS bank conflicts"
