"""What an id names (`kinspect show ID`) as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from ..explain.code.reading import MarkedLine
from ..lint.rule import RuleText
from ..model import Finding, KernelReport, LoopReport, MemoryOp
from ..report.json_write import fields_of, finding_fields, kernel_dict, loop_fields, plain
from .code_json import line_fields

SCHEMA_VERSION = 1


def write_findings(
    findings: Sequence[Finding],
    rule: RuleText | None,
    kernel: KernelReport,
    lines: Sequence[MarkedLine],
    stream: TextIO,
) -> None:
    """Writes findings of one fingerprint, why their rule asks, and the code that they are about."""
    fields = {
        "findings": [finding_fields(finding) for finding in findings],
        "rule": rule and fields_of(rule, "id", "name", "explain", "references"),
    }
    _write("finding", fields, kernel, lines, stream)


def write_kernel(kernel: KernelReport, stream: TextIO) -> None:
    """Writes all of a kernel's report."""
    json.dump(
        {"schema_version": SCHEMA_VERSION, "kind": "kernel", "kernel": kernel_dict(kernel)},
        stream,
        ensure_ascii=False,
    )
    stream.write("\n")


def write_loop(
    loop: LoopReport, kernel: KernelReport, lines: Sequence[MarkedLine], stream: TextIO
) -> None:
    """Writes a loop with all of its metrics, and its code."""
    _write("loop", {"loop": loop_fields(loop)}, kernel, lines, stream)


def write_access(
    op: MemoryOp, kernel: KernelReport, lines: Sequence[MarkedLine], stream: TextIO
) -> None:
    """Writes a memory access and the operations of the TTGIR that it stems from."""
    accesses = [plain(access) for access in kernel.accesses if op.line in access.lines]
    _write("access", {"access": plain(op), "ttgir": accesses}, kernel, lines, stream)


def _write(
    kind: str,
    fields: Mapping[str, Any],
    kernel: KernelReport,
    lines: Sequence[MarkedLine],
    stream: TextIO,
) -> None:
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "kernel": fields_of(kernel, "id", "name", "arch", "source"),
        **fields,
        "lines": [line_fields(line) for line in lines],
    }
    json.dump(document, stream, ensure_ascii=False)
    stream.write("\n")
