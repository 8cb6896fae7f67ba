"""Where a kernel stalls, by measurement, with what static analysis says of the same place.

Pure words over a report that was joined with a recording: each measured line with the findings,
wait verdicts, narrow accesses and spills that stand on it. A load's latency shows at the wait that
waits for it, so a wait names its loads.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinspect.inspector.model import KernelReport, MeasuredLine, SourceLoc, WaitOp
from kinspect.inspector.render import view

MOST_LOADS = 3


@dataclass(frozen=True, slots=True)
class Stall:
    """A line of the assembly that cost something. `share` is of all the kernel's, %."""

    line: int
    mnemonic: str
    loop: str | None
    source: SourceLoc | None
    stall_cycles: int | None
    samples: int | None
    share: float | None
    beside: tuple[str, ...]

    @property
    def place(self) -> str:
        return view.place(self.source)


def cost(line: MeasuredLine) -> int:
    """What a line is sorted by: stall cycles, else samples that found it not issued."""
    if line.stall_cycles is not None:
        return line.stall_cycles
    if line.samples is not None:
        return line.samples - (line.issued or 0)
    return 0


def stalls(report: KernelReport) -> list[Stall]:
    """The lines that cost something, dearest first; empty where nothing was measured by line."""
    total = sum(cost(line) for line in report.measured_lines)
    said = _said(report)
    found = [
        Stall(
            line=line.line,
            mnemonic=line.mnemonic,
            loop=line.loop,
            source=line.source.in_user_code if line.source is not None else None,
            stall_cycles=line.stall_cycles,
            samples=line.samples,
            share=100 * cost(line) / total if total else None,
            beside=(*_reasons(line), *said.get(line.line, ())),
        )
        for line in report.measured_lines
        if cost(line) > 0
    ]
    found.sort(key=lambda stall: (-(stall.share or 0), stall.line))
    return found


def _reasons(line: MeasuredLine) -> tuple[str, ...]:
    """The two most frequent reasons of its samples."""
    if not line.reasons:
        return ()
    total = sum(line.reasons.values())
    top = sorted(line.reasons.items(), key=lambda item: -item[1])[:2]
    return (", ".join(f"{name.replace('_', ' ')} {100 * n / total:.0f} %" for name, n in top),)


def _said(report: KernelReport) -> dict[int, list[str]]:
    """What static analysis says of each line."""
    said: dict[int, list[str]] = {}
    for finding in report.findings:
        lines = {at.line for at in finding.locations if at.kind == "amdgcn" and at.line is not None}
        for line in lines:
            said.setdefault(line, []).append(f"{finding.rule} {finding.severity}")
    mnemonics = {op.line: (op.mnemonic, op.source) for op in report.memory_ops}
    for wait in report.waits:
        words = _wait(wait, mnemonics)
        if words:
            said.setdefault(wait.line, []).append(words)
    for access in report.accesses:
        if access.limited_by is None or not access.lines:
            continue
        for line in access.lines:
            said.setdefault(line, []).append(
                f"{access.bits or view.UNKNOWN} of {access.widest or view.UNKNOWN} bits, "
                f"limited by {access.limited_by}"
            )
    for slot in report.spills:
        for line in {*slot.stores, *slot.reloads}:
            said.setdefault(line, []).append("spill")
    return {line: list(dict.fromkeys(texts)) for line, texts in said.items()}


def _wait(wait: WaitOp, mnemonics: dict[int, tuple[str, SourceLoc | None]]) -> str:
    words = []
    if wait.verdict is not None and wait.verdict != "needed":
        enough = f", {wait.counter}({wait.could_be}) would do" if wait.could_be is not None else ""
        words.append(f"{wait.verdict} wait{enough}")
    loads = [mnemonics[at] for at in wait.waits_for or () if at in mnemonics]
    if loads:
        places = dict.fromkeys(
            f"{name} {view.place(at.in_user_code if at is not None else None)}".strip()
            for name, at in loads
        )
        more = f" and {len(places) - MOST_LOADS} more" if len(places) > MOST_LOADS else ""
        words.append(f"waits for {', '.join(list(places)[:MOST_LOADS])}{more}")
    return "; ".join(words)
