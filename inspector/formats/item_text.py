"""What an id names (`kinspect show ID`) for a terminal.

All but a loop in full: that has some 150 metrics, of which a few say what it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TextIO

from ..base.printable import one_line
from ..explain import loop_view, view
from ..explain.items import NamedItem
from ..explain.trials_view import tried_lines
from ..explain.view import plural
from ..lint.rule import RuleText, show
from ..model import Access, Finding, KernelReport, Location, LoopReport, MemoryOp, Metric
from ..present.paper import Line, Paper, paper_for, print_wrapped
from .agent_calls import SHELL, AgentCalls

_INDENT = "  "
MOST_OF_LOOP = 1_600
"""Bytes of a loop's figures."""
_FIRST = ("bound.", "cycles.", "count.", "lds.", "cache.", "live.", "matrix.", "work.")
"""Beginnings of names of a loop's metrics, what matters most first; others come after these."""


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
            _paragraph(paper, "saves: ", f"{finding.saves_percent:g} % of the launch")
        for metric, value in finding.evidence.items():
            _paragraph(paper, f"{metric} = ", show(value))
        for location in finding.locations:
            _paragraph(paper, "at ", _place(location))
        _paragraph(paper, "fix: ", finding.advice)
        for line in tried_lines(finding):
            _paragraph(paper, "", line)
    if rule is not None:
        _paragraph(paper, "why: ", rule.explain)
        for reference in rule.references:
            _paragraph(paper, "see ", f"{reference.title}: {reference.url}")


def write_loop(
    named: NamedItem,
    loop: LoopReport,
    stream: TextIO,
    *,
    details: bool = False,
    calls: AgentCalls = SHELL,
    color: bool | None = None,
) -> None:
    """Writes a loop's place and its metrics; zeros, of which most are, are left out.

    Args:
        named: the loop's id, and its kernel.
        loop: that is named.
        stream: where to.
        details: writes all metrics; else the single figures that matter, and how to get the rest.
        calls: names what prints the rest.
        color: whether to; None where the stream decides.
    """
    kernel = named.kernel
    paper = paper_for(stream, color)
    main = ", the main one" if loop.id == kernel.main_loop else ""
    hot = "hot loop" if loop.hot else "loop"
    paper.print(Line(f"{hot} {loop.id}{main}: {loop_view.loop_title(loop)}", "bold"))
    _kernel_line(paper, kernel)
    metrics = [metric for metric in loop.metrics.values() if metric.value != 0]
    shown = metrics if details else _first_figures(metrics)
    for metric in shown:
        _paragraph(paper, f"{metric.name} = ", _figure(metric))
    left = len(metrics) - len(shown)
    if left:
        _paragraph(paper, f"{plural(left, 'more metric')}: ", calls.rest_of(named.id))
    if not details and loop.lines:
        first, last = loop.lines[0][0], loop.lines[-1][1]
        code = calls.code_of_part(named.id, named.kernel_id, first, last)
        _paragraph(paper, "code: ", code)


def _first_figures(metrics: Sequence[Metric]) -> list[Metric]:
    """The known single figures, those that matter most first, as far as there is room for them."""
    known = [m for m in metrics if m.value is not None and not isinstance(m.value, Mapping)]
    known.sort(key=lambda metric: _rank(metric.name))
    left = MOST_OF_LOOP
    shown = []
    for metric in known:
        left -= len(_INDENT) + len(f"{metric.name} = {_figure(metric)}\n".encode())
        if left < 0:
            break
        shown.append(metric)
    return shown


def _rank(name: str) -> int:
    return next((i for i, start in enumerate(_FIRST) if name.startswith(start)), len(_FIRST))


def _figure(metric: Metric) -> str:
    return f"{show(metric.value)} {metric.unit}".rstrip()


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
    _paragraph(paper, "fix: ", access.fix)


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
