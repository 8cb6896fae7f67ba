"""What an id names (`kinspect show ID`) for a terminal, in full: nothing is cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from ..explain import loop_view, view
from ..explain.trials_view import tried_lines
from ..lint.rule import RuleText, show
from ..model import Access, Finding, KernelReport, Location, LoopReport, MemoryOp
from ..printable import one_line
from .paper import Line, Paper, paper_for, print_wrapped

_INDENT = "  "


def write_findings(
    findings: Sequence[Finding],
    rule: RuleText | None,
    kernel: KernelReport,
    stream: TextIO,
    *,
    color: bool | None = None,
) -> None:
    """Writes findings of one fingerprint: message, figures, places, why, cure and references."""
    paper = paper_for(stream, color)
    for finding in findings:
        name = f" {rule.name}" if rule is not None else ""
        heading = f"{finding.fingerprint}  {finding.severity}  {finding.rule}{name}"
        paper.print(Line(f"finding {heading}", "bold"))
        _kernel_line(paper, kernel)
        _paragraph(paper, "", finding.message)
        _paragraph(paper, "confidence: ", finding.confidence)
        if finding.saves_percent is not None:
            _paragraph(paper, "cure saves at most: ", f"{finding.saves_percent:g} %")
        for metric, value in finding.evidence.items():
            _paragraph(paper, f"{metric} = ", show(value))
        for location in finding.locations:
            _paragraph(paper, "at ", _place(location))
        _paragraph(paper, "cure: ", finding.advice)
        for line in tried_lines(finding):
            _paragraph(paper, "", line)
    if rule is not None:
        _paragraph(paper, "why: ", rule.explain)
        for reference in rule.references:
            _paragraph(paper, "see ", f"{reference.title}: {reference.url}")


def write_loop(
    loop: LoopReport, kernel: KernelReport, stream: TextIO, *, color: bool | None = None
) -> None:
    """Writes a loop's place and its metrics; zeros, of which most are, are left out."""
    paper = paper_for(stream, color)
    main = ", the main one" if loop.id == kernel.main_loop else ""
    hot = "hot loop" if loop.hot else "loop"
    paper.print(Line(f"{hot} {loop.id}{main}: {loop_view.loop_title(loop)}", "bold"))
    _kernel_line(paper, kernel)
    for name, metric in loop.metrics.items():
        if metric.value != 0:
            _paragraph(paper, f"{name} = ", f"{show(metric.value)} {metric.unit}".rstrip())


def write_access(
    op: MemoryOp, kernel: KernelReport, stream: TextIO, *, color: bool | None = None
) -> None:
    """Writes what is known of a memory access, and of the TTGIR that it stems from."""
    paper = paper_for(stream, color)
    width = f"  {op.bits} bits a lane" if op.bits is not None else ""
    heading = f"access {op.mnemonic}  ISA {op.line}  {view.place(op.source)}{width}"
    paper.print(Line(heading.rstrip(), "bold"))
    _kernel_line(paper, kernel)
    if op.loop is not None:
        _paragraph(paper, "loop: ", op.loop)
    _paragraph(paper, "", op.note)
    if op.use is not None:
        names = ("lanes", "cycles", "cycles_ideal", "conflicts", "lines", "lines_ideal", "bytes")
        for name in (*names, "waste", "addresses", "origin"):
            value = getattr(op.use, name)
            if value is not None:
                _paragraph(paper, f"{name} = ", view.show(value))
        _paragraph(paper, "not known: ", op.use.unknown)
    for access in kernel.accesses:
        if op.line in access.lines:
            _access(paper, access)


def _access(paper: Paper, access: Access) -> None:
    shape = "×".join(map(str, access.shape))
    tile = f"{access.op} of {shape} {access.dtype} in {access.layout}"
    _paragraph(paper, f"TTGIR {access.line}: ", tile)
    for name in ("bits", "widest", "per_thread", "contiguity", "divisibility", "mask"):
        value = getattr(access, name)
        if value is not None:
            _paragraph(paper, f"{name} = ", str(value))
    _paragraph(paper, "limited by ", access.limited_by or "")
    _paragraph(paper, "", access.reason)
    _paragraph(paper, "cure: ", access.fix)


def _kernel_line(paper: Paper, kernel: KernelReport) -> None:
    configuration = view.configuration(kernel)
    place = view.place(kernel.source)
    parts = (f"in {kernel.name}", kernel.arch or "unknown target", place, configuration)
    _paragraph(paper, "", "  ".join(filter(None, parts)))


def _place(location: Location) -> str:
    names = {"amdgcn": "ISA", "source": "", "ttgir": "TTGIR"}
    kind = names.get(location.kind, location.kind)
    file = f"{location.file}:" if location.file and location.kind == "source" else ""
    place = f"{kind} {file}{location.line or ''}".strip()
    return f"{place}  {location.text.strip()}"


def _paragraph(paper: Paper, head: str, text: str) -> None:
    if text:
        line = Line(f"{_INDENT}{head}{one_line(text)}")
        print_wrapped(paper, line, _INDENT * 2)
