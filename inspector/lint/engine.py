"""Applies a pack to a kernel's report: values in, findings out. Nothing is read or printed here."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from kinspect.inspector.lint.catalogue import HOT_LOOPS
from kinspect.inspector.lint.expr import Values
from kinspect.inspector.lint.schema import Pack, Rule
from kinspect.inspector.model import (
    Finding,
    KernelReport,
    Location,
    LoopReport,
    MemoryOp,
    MetricValue,
    SourceLoc,
)

MAX_ACCESSES = 5
MAX_SOURCE_LINES = 3

SourceText = Callable[[SourceLoc], "str | None"]
"""Gives the text of a source line, None where it is not at hand."""

_RANK: Mapping[str, int] = MappingProxyType({"error": 0, "warning": 1, "info": 2})
_LINE_AFTER_FILE = re.compile(r"(\.\w+):\d+(?::\d+)?")


def evaluate(
    pack: Pack, kernel: KernelReport, source_text: SourceText | None = None
) -> tuple[Finding, ...]:
    """Everything the pack has to say of a kernel.

    A rule whose conditions cannot be decided, because a metric they need is unknown, says nothing.

    Args:
        pack: the rules.
        kernel: the report to judge; its own findings are ignored.
        source_text: looks up source lines, for the locations and a steadier fingerprint.

    Returns:
        Findings, errors first; those of one severity in the order of the loops, those of the
        kernel as a whole before them.

    Raises:
        KinspectError: a condition compares a mapping's field with a value of another kind.
    """
    of_kernel = _kernel_values(kernel)
    of_loops = [_loop_values(loop) for loop in kernel.loops]
    found: list[tuple[tuple[int, int, str], Finding]] = []
    for rule in pack.rules:
        for ordinal, loop in _subjects(rule, kernel):
            values = Values(of_kernel, of_loops[ordinal] if loop else {})
            if rule.when is not None and rule.when.evaluate(values) is not True:
                continue
            if rule.require.evaluate(values) is not False:
                continue
            finding = _finding(rule, kernel, loop, ordinal, values, source_text)
            found.append(((_RANK[finding.severity], ordinal, finding.rule), finding))
    found.sort(key=lambda item: item[0])
    return tuple(finding for _, finding in found)


def _subjects(rule: Rule, kernel: KernelReport) -> Iterator[tuple[int, LoopReport | None]]:
    """What the rule looks at: the kernel as ordinal -1, or its loops as 0, 1, ..."""
    if rule.text.scope == "kernel":
        yield -1, None
        return
    for ordinal, loop in enumerate(kernel.loops):
        if loop.hot or not rule.text.hot_only:
            yield ordinal, loop


def _kernel_values(kernel: KernelReport) -> dict[str, MetricValue]:
    values = {name: metric.value for name, metric in kernel.metrics.items()}
    hot = [loop for loop in kernel.loops if loop.hot]
    for name in kernel.metrics:
        if name.startswith("count."):
            counts = [loop.metrics[name].value if name in loop.metrics else None for loop in hot]
            known = [c for c in counts if isinstance(c, int)]
            values[HOT_LOOPS + name] = sum(known) if len(known) == len(counts) else None
    return values


def _loop_values(loop: LoopReport) -> dict[str, MetricValue]:
    values = {name: metric.value for name, metric in loop.metrics.items()}
    return values | {"hot": loop.hot, "depth": loop.depth, "unroll": loop.unroll}


def _finding(
    rule: Rule,
    kernel: KernelReport,
    loop: LoopReport | None,
    ordinal: int,
    values: Values,
    source_text: SourceText | None,
) -> Finding:
    locations = tuple(_locations(rule, kernel, loop, source_text))
    text = next((place.text for place in locations if place.kind == "source" and place.text), "")
    return Finding(
        rule=rule.text.id,
        severity=rule.text.severity,
        confidence=rule.text.confidence,
        message=rule.message.render(values),
        evidence={r.name: r.evaluate(values) for r in rule.names},
        locations=locations,
        fix=rule.text.fix,
        fingerprint=fingerprint(rule.text.id, kernel.id, ordinal, text),
    )


def fingerprint(rule: str, kernel_id: str, ordinal: int, source_line: str) -> str:
    """What a finding is recognised by after unrelated edits: no line number goes into it.

    Args:
        rule: the rule's id.
        kernel_id: the kernel's id; a line number after its file name is dropped.
        ordinal: the loop's place among the kernel's loops, -1 for the kernel as a whole.
        source_line: text of the source line; its indentation does not matter.

    Returns:
        16 hexadecimal digits of a SHA-256.
    """
    parts = (rule, _LINE_AFTER_FILE.sub(r"\1", kernel_id), str(ordinal), source_line.strip())
    import hashlib  # loads OpenSSL: only where there is a finding

    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _locations(
    rule: Rule, kernel: KernelReport, loop: LoopReport | None, source_text: SourceText | None
) -> Iterator[Location]:
    """The accesses that the rule is about; without any, where the loop or kernel stands."""
    accesses = _accesses(rule, kernel, loop)
    places: list[SourceLoc] = []
    for access in accesses:
        yield Location("amdgcn", access.line, text=access.mnemonic)
        if access.source is not None:
            places.append(access.source.in_user_code)
    if not accesses and loop is not None:
        yield Location("amdgcn", loop.header_line, text=loop.header_label or "")
        places.extend(loop.source)
    if not accesses and loop is None and kernel.source is not None:
        places.append(kernel.source)
    distinct = dict.fromkeys((place.file, place.line) for place in places)
    for file, line in list(distinct)[: MAX_ACCESSES if accesses else MAX_SOURCE_LINES]:
        text = source_text(SourceLoc(file, line)) if source_text else None
        yield Location("source", line, file, text or "")


def _accesses(rule: Rule, kernel: KernelReport, loop: LoopReport | None) -> list[MemoryOp]:
    """The narrowest memory accesses of the classes that the requirement names."""
    classes = {part for r in rule.require.names for part in r.name.split(".")}
    ops = [
        op for op in kernel.memory_ops if op.cls in classes and (loop is None or op.loop == loop.id)
    ]
    wide = max((op.bits for op in ops if op.bits is not None), default=0)
    return sorted(ops, key=lambda op: (wide if op.bits is None else op.bits, op.line))[
        :MAX_ACCESSES
    ]
