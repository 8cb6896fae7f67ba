"""A launch's time in words, the same in all formats.

The words for a line at which a kernel stalls: why it waited, and what analysis says of it.

The stalls themselves lie above this room (`profile/placing/`), so their fields are named here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Protocol

from ..model import Access, KernelReport, SourceLoc, TimeChange, WaitOp
from ..model.time import BOUNDS, LEAST, CostGone, KernelTime, LoopTime, Saving, StallReason
from . import view
from .quantities import and_more, scaled
from .view import place

_NAMES: Final = {
    "vector": "VALU", "matrix": "matrix", "lds": "LDS", "l1": "L1", "l2": "L2", "l3": "L3",
    "memory": "memory",
}  # fmt: skip
_CHANGES: Final[dict[CostGone, str]] = {
    "scratch": "no spills to scratch",
    "lines": "accesses at their fewest cache lines",
    "conflicts": "no bank conflicts",
    "wide accesses": "16 bytes a lane with each access",
    "earlier loads": "loads of loops begun an iteration earlier",
    "repeated products": "no matrix products that another wave does too",
    "memory latency": "no memory latency",
    "memory bandwidth": "no limit of bandwidth (fewer bytes)",
    "memory": "no loads and stores at all",
    "lds": "no LDS accesses",
    "barriers": "no barriers",
    "vector work": "no vector instructions",
    "matrix work": "no matrix instructions",
    "occupancy": "twice the resident workgroups",
    "workgroups": "workgroups spread evenly over the compute units",
    "launch": "no launch",
}
STALLS: Final[dict[StallReason, str]] = {
    "issue": "instructions", "dependency": "dependencies", "vector": "VALU busy",
    "matrix": "matrix busy", "lds": "LDS", "memory": "memory", "barrier": "barriers",
    "scalar": "scalar loads", "icache": "instruction fetch", "launch": "launch",
    "tail": "idle units",
}  # fmt: skip
_BUSY: Final = 0.01
_SIGNS: Final = "█▓▒░"
"""Of the foremost reasons in a bar; the rest of the time is dotted."""


def amount(us: float) -> str:
    """Microseconds as they are read: `41 µs`, `4.1 µs`, `3,100 µs`."""
    return f"{us:,.0f} µs" if us >= 10 else f"{us:.2g} µs"


def figure(value: float, unit: str) -> str:
    """A figure of a launch as it is read: `41 µs`, `351,300 cycles`, `2,100 MHz`."""
    return amount(value) if unit == "us" else f"{value:,.0f} {unit}"


def ratio(of: float | None) -> str:
    """`1.14 ×`; "" where it is not known."""
    return f"{of:.2f} ×" if of is not None else ""


def estimate(time: KernelTime) -> str:
    """`41 µs (29–55, estimated)`."""
    low, high = amount(time.low).removesuffix(" µs"), amount(time.high).removesuffix(" µs")
    return f"{amount(time.us)} ({low}–{high}, estimated)"


def guessed(kernel: KernelReport) -> str:
    """That a launch goes by values that nobody knows; empty where it does not."""
    made_up = kernel.time.goes_by_made_up if kernel.time is not None else ()
    if not made_up:
        return ""
    return f"a guess: made-up {', '.join(made_up)} values decide addresses, masks or loops"


def busiest(time: KernelTime) -> list[tuple[str, float]]:
    """The units that do anything, by name, and the share of the time that they are busy."""
    return [(_NAMES[unit], share) for unit, share in _busiest(time)]


def _busiest(time: KernelTime) -> list[tuple[str, float]]:
    ranked = sorted(time.units.items(), key=lambda item: -item[1])
    return [(unit, share) for unit, share in ranked if share >= _BUSY]


def busy_units(time: KernelTime, most: int | None = None) -> str:
    """`memory 38 % (134 MB, 1.6 TB/s), matrix 4 %`: units that do anything, the busiest first."""
    moved = ""
    if time.memory_bytes:
        rate = time.memory_bytes / time.us * 1e6
        moved = f" ({scaled(time.memory_bytes)}B, {scaled(rate)}B/s)"
    told = [
        f"{_NAMES[unit]} {100 * share:.0f} %{moved if unit == 'memory' else ''}"
        for unit, share in _busiest(time)[:most]
    ]
    return ", ".join(told) or "hardly any"


def where(time: KernelTime, most: int = 3) -> str:
    """The lines that take most: `50 % at gemm.py:15 (memory)`."""
    parts = [
        f"{100 * row.share:.0f} % at {place(row.source)} ({STALLS[row.reason]})"
        for row in time.lines
        if row.source is not None
    ]
    return ", ".join(parts[:most])


def iteration(loop: LoopTime) -> str:
    """`L0 gemm.py:14: 1,169 cycles for 4 waves, 30 iterations, limited by memory latency`."""
    where = place(loop.source) if loop.source is not None else f"code line {loop.line}"
    parts = []
    if loop.cycles is not None:
        parts.append(f"{loop.cycles:,.0f} cycles for {loop.waves} waves")
    if loop.l2_cycles is not None:
        parts.append(f"{loop.l2_cycles:,.0f} with all data in the L2")
    if loop.iterations is not None:
        parts.append(f"{loop.iterations:,.0f} iterations")
    parts.append(f"limited by {loop.limiter}")
    if loop.share is not None:
        parts.append(f"{100 * loop.share:.0f} % of the time")
    return f"{loop.loop} {where}: {', '.join(parts)}"


def saved(saving: Saving) -> str:
    """`-39 % 25 µs`: what a change saves, and what is left."""
    return f"{-saving.percent:.0f} % {amount(saving.us)}"


def stall_bar(time: KernelTime, width: int, most: int = len(_SIGNS)) -> tuple[str, str]:
    """A launch's time as a bar of its foremost reasons, and what each sign of it stands for."""
    bar, words = "", []
    for sign, stall in zip(_SIGNS[:most], time.stalls, strict=False):
        bar += sign * round(width * stall.share)
        words.append(f"{sign} {STALLS[stall.reason]} {100 * stall.share:.0f} %")
    return f"{bar:·<{width}}", "  ".join(words)


def before_and_after(change: TimeChange) -> str:
    """`41 → 29 µs`."""
    return f"{amount(change.before_us).removesuffix(' µs')} → {amount(change.us)}"


def difference(change: TimeChange) -> str:
    """`41 → 29 µs (-29 %; -42 to -13 %)`, the range as that of measured differences, or `equal`."""
    times = before_and_after(change)
    if change.verdict == "equal":
        return f"{times} (equal)"
    return f"{times} ({change.percent:+.0f} %; {change.low:+.0f} to {change.high:+.0f} %)"


def could_save(time: KernelTime) -> str:
    """`-15 % 16 bytes a lane with each access`: costs whose end would save anything to speak of."""
    parts = [
        f"-{saving.percent:.0f} % {change_of(saving)}"
        for saving in time.savings
        if saving.change not in BOUNDS and saving.percent >= LEAST
    ]
    return ", ".join(parts)


def change_of(saving: Saving) -> str:
    """What is taken away, in words."""
    return _CHANGES[saving.change]


def against(time: KernelTime, measured_us: float) -> str:
    """What the model makes of a measured time."""
    ratio = measured_us / time.us
    if time.low <= measured_us <= time.high:
        return f"measured {amount(measured_us)}: within the model's range ({ratio:.2f} × its time)"
    if measured_us < time.low:
        warm = time.warm_us
        if warm is not None and measured_us >= warm * time.low / time.us:
            return (
                f"measured {amount(measured_us)}: as with the data in the Infinity Cache"
                f" ({amount(warm)})"
            )
        return (
            f"measured {amount(measured_us)}: {ratio:.2f} × the model's time, which it does not"
            " explain; another clock or other data?"
        )
    rest = measured_us - time.us
    return (
        f"measured {amount(measured_us)}: {ratio:.2f} × the model's time; {amount(rest)} are not"
        " explained (a lower clock, other kernels beside it, TLB misses, atomics that meet)"
    )


_MOST_LOADS = 3
"""How many of the loads that a wait waits for are named."""
_MOST_REASONS = 2


class AwaitedLoad(Protocol):
    """A memory operation that a wait waits for."""

    @property
    def line(self) -> int: ...
    @property
    def mnemonic(self) -> str | None: ...
    @property
    def source(self) -> SourceLoc | None: ...


class StaticFacts(Protocol):
    """Results of static analysis for a line."""

    @property
    def rules(self) -> tuple[str, ...]: ...
    @property
    def waits(self) -> tuple[WaitOp, ...]: ...
    @property
    def waits_for(self) -> Sequence[AwaitedLoad]: ...
    @property
    def access(self) -> Access | None: ...
    @property
    def spill(self) -> str | None: ...


class MeasuredStall(Protocol):
    """A line that cost something."""

    @property
    def reasons(self) -> Mapping[str, int]: ...
    @property
    def static(self) -> StaticFacts | None: ...


def remarks_beside(stall: MeasuredStall) -> str:
    """What stands beside a stall in a table: its reasons, then what static analysis says."""
    reasons = top_reasons(stall.reasons)
    return "; ".join([*([reasons] if reasons is not None else []), *static_remarks(stall.static)])


def top_reasons(reasons: Mapping[str, int]) -> str | None:
    """The two most frequent reasons of a line's samples with their shares; None without any."""
    if not reasons:
        return None
    total = sum(reasons.values())
    top = sorted(reasons.items(), key=lambda item: -item[1])[:_MOST_REASONS]
    return ", ".join(f"{name.replace('_', ' ')} {100 * n / total:.0f} %" for name, n in top)


def static_remarks(facts: StaticFacts | None) -> Iterator[str]:
    """Yields what static analysis says of a line: rules, waits, access, spill."""
    if facts is None:
        return
    yield from facts.rules
    for wait in facts.waits:
        if wait.verdict not in (None, "needed"):
            yield _verdict(wait)
    if facts.waits_for:
        loads = dict.fromkeys(
            f"{load.mnemonic or ''} {_position(load.source, load.line)}".strip()
            for load in facts.waits_for
        )
        yield f"waits for {and_more(list(loads), _MOST_LOADS)}"
    if facts.access is not None:
        bits, widest = view.show(facts.access.bits), view.show(facts.access.widest)
        yield f"{bits} of {widest} bits, limited by {facts.access.limited_by}"
    if facts.spill is not None:
        yield f"spill {facts.spill}"


def _verdict(wait: WaitOp) -> str:
    """Returns the judgement of a wait, with the value of its counter that would do."""
    enough = f", {wait.counter}({wait.could_be}) would do" if wait.could_be is not None else ""
    return f"{wait.verdict} wait{enough}"


def _position(source: SourceLoc | None, line: int) -> str:
    return view.place(source.in_user_code) if source is not None else f"line {line}"
