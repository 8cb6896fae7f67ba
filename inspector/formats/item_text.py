"""What an id names (`kinspect show ID`) as a document.

All but a loop in full: that has some 150 metrics, of which a few say what it does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from ..explain import loop_view, view
from ..explain.items import NamedItem
from ..explain.trials_view import tried_lines
from ..explain.view import plural
from ..lint.rule import RuleText, show
from ..model import Access, Finding, KernelReport, Location, LoopReport, MemoryOp, Metric
from ..present.document import Document, Section, paragraphs, words
from .agent_calls import SHELL, AgentCalls

_INDENT = "  "
MOST_OF_LOOP = 1_600
"""Bytes of a loop's figures."""
_FIRST = ("bound.", "cycles.", "count.", "lds.", "cache.", "live.", "matrix.", "work.")
"""Beginnings of names of a loop's metrics, what matters most first; others come after these."""


def document(
    named: NamedItem, rule: RuleText | None, *, details: bool = False, calls: AgentCalls = SHELL
) -> Document:
    """A loop, an access, or findings of one fingerprint.

    Of a loop's metrics those that matter, and how to get the rest, unless `details` are asked for.
    """
    if named.loop is not None:
        return (_loop(named, named.loop, details, calls),)
    if named.access is not None:
        return (_memory_access(named.access, named.kernel),)
    return tuple(_findings(named.findings, rule, named.kernel))


def _findings(
    findings: Sequence[Finding], rule: RuleText | None, kernel: KernelReport
) -> Iterator[Section]:
    """Message, figures, places, why, cure and references."""
    name = f" {rule.name}" if rule is not None else ""
    for finding in findings:
        saved = finding.saves_percent
        lines = (
            _of_kernel(kernel),
            finding.message,
            f"confidence: {finding.confidence}",
            f"saves: {saved:g} % of the launch" if saved is not None else "",
            *(f"{metric} = {show(value)}" for metric, value in finding.evidence.items()),
            *(f"at {_place(location)}" for location in finding.locations),
            f"fix: {finding.advice}" if finding.advice else "",
            *tried_lines(finding),
        )
        heading = f"{finding.fingerprint}  {finding.severity}  {finding.rule}{name}"
        yield _section(f"finding {heading}", lines)
    if rule is not None:
        why = f"why: {rule.explain}" if rule.explain else ""
        see = (f"see {reference.title}: {reference.url}" for reference in rule.references)
        yield Section(paragraphs((why, *see)))


def _loop(named: NamedItem, loop: LoopReport, details: bool, calls: AgentCalls) -> Section:
    """A loop's place and its metrics; zeros, of which most are, are left out."""
    kernel = named.kernel
    main = ", the main one" if loop.id == kernel.main_loop else ""
    hot = "hot loop" if loop.hot else "loop"
    metrics = [metric for metric in loop.metrics.values() if metric.value != 0]
    shown = metrics if details else _first_figures(metrics)
    lines = [_of_kernel(kernel), *(f"{metric.name} = {_figure(metric)}" for metric in shown)]
    if left := len(metrics) - len(shown):
        lines.append(f"{plural(left, 'more metric')}: {calls.rest_of(named.id)}")
    if not details and loop.lines:
        first, last = loop.lines[0][0], loop.lines[-1][1]
        lines.append(f"code: {calls.code_of_part(named.id, named.kernel_id, first, last)}")
    return _section(f"{hot} {loop.id}{main}: {loop_view.loop_title(loop)}", lines)


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


def _memory_access(op: MemoryOp, kernel: KernelReport) -> Section:
    """What is known of a memory access, and of the TTGIR that it stems from."""
    width = f"  {op.bits} bits a lane" if op.bits is not None else ""
    heading = f"access {op.mnemonic}  ISA {op.line}  {view.place(op.source)}{width}"
    lines = [_of_kernel(kernel), f"loop: {op.loop}" if op.loop is not None else "", op.note]
    if op.use is not None:
        names = ("lanes", "cycles", "cycles_ideal", "conflicts", "lines", "lines_ideal", "bytes")
        lines += _known(op.use, (*names, "waste", "addresses", "origin"))
        lines.append(f"not known: {op.use.unknown}" if op.use.unknown else "")
    for access in kernel.accesses:
        if op.line in access.lines:
            lines += _access(access)
    return _section(heading.rstrip(), lines)


def _known(value: Struct, names: Sequence[str]) -> Iterator[str]:
    """The fields that are not None."""
    told = ((name, getattr(value, name)) for name in names)
    return (f"{name} = {view.show(figure)}" for name, figure in told if figure is not None)


def _access(access: Access) -> Iterator[str]:
    shape = "×".join(map(str, access.shape))
    yield f"TTGIR {access.line}: {access.op} of {shape} {access.dtype} in {access.layout}"
    names = ("bits", "widest", "per_thread", "contiguity", "divisibility", "mask")
    yield from _known(access, names)
    yield f"limited by {access.limited_by}" if access.limited_by else ""
    yield access.reason
    yield f"fix: {access.fix}" if access.fix else ""


def _section(title: str, lines: Iterable[str]) -> Section:
    return Section(paragraphs(lines), words(title, "strong"), is_subject=True)


def _of_kernel(kernel: KernelReport) -> str:
    configuration = view.configuration(kernel)
    place = view.place(kernel.source)
    parts = (f"in {kernel.name}", kernel.arch or "unknown target", place, configuration)
    return "  ".join(filter(None, parts))


def _place(location: Location) -> str:
    names = {"amdgcn": "ISA", "source": "", "ttgir": "TTGIR"}
    kind = names.get(location.kind, location.kind)
    file = f"{location.file}:" if location.file and location.kind == "source" else ""
    place = f"{kind} {file}{location.line or ''}".strip()
    return f"{place} {location.text.strip()}"
