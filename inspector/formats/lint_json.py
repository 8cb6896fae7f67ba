"""A lint report as JSON, `schema_version` 1; its form is described by `lint.schema.json`.

Nothing is merged or left out: whatever the report holds is in it.
"""

from __future__ import annotations

from typing import Any, TextIO

from ..base.streams import dump_json
from ..lint.ranking import SEVERITIES
from ..lint.results import CheckedKernel, LintReport, Suppressed, Suppression
from ..lint.rule import Rule
from ..report.json_write import error_fields, finding_fields, plain

SCHEMA_VERSION = 1


def write(report: LintReport, stream: TextIO) -> None:
    """Writes the document, and a line end."""
    dump_json(to_dict(report), stream)


def to_dict(report: LintReport) -> dict[str, Any]:
    """The document as plain values."""
    new = report.tally()
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "lint",
        "tool": dict(report.tool),
        "target": report.target,
        "packs": list(report.packs),
        "fail_on": report.fail_on,
        "summary": {
            "kernels": len(report.kernels),
            **{severity: new[severity] for severity in SEVERITIES},
            "failing": len(report.failing),
            "known": sum(len(k.known) for k in report.kernels),
            "suppressed": sum(len(k.suppressed) for k in report.kernels),
            "errors": len(report.errors),
        },
        "rules": [_rule(rule) for rule in report.rules.values()],
        "kernels": [_kernel(kernel) for kernel in report.kernels],
        "errors": [error_fields(error) for error in report.errors],
        "unused_suppressions": [suppression_fields(s) for s in report.unused],
        "baseline": (
            None
            if report.baseline is None
            else {"file": report.baseline, "gone": list(report.gone)}
        ),
        "notes": list(report.notes),
    }


def _rule(rule: Rule) -> dict[str, Any]:
    """Returns the JSON fields of a rule."""
    text = rule.text
    return {
        "id": text.id,
        "name": text.name,
        "cause": text.cause,
        "severity": text.severity,
        "confidence": text.confidence,
        "status": text.status,
        "scope": text.scope,
        "cured_together": text.cured_together,
        "when": text.when,
        "require": text.require,
        "message": text.message,
        "explain": text.explain,
        "fix": text.fix,
        "fix_tried": plain(text.tried),
        "removes": plain(text.removes),
        "prevents_launch": text.prevents_launch,
        "tags": list(text.tags),
        "references": [{"title": r.title, "url": r.url} for r in text.references],
    }


def _kernel(kernel: CheckedKernel) -> dict[str, Any]:
    """Returns the JSON fields of a kernel and its findings, by state."""
    source = kernel.source
    return {
        "id": kernel.id,
        "name": kernel.name,
        "case": kernel.case,
        "arch": kernel.arch,
        "file": kernel.file,
        "source": None
        if source is None
        else {"file": source.file, "line": source.line, "column": source.column},
        "artifact": kernel.artifact,
        "findings": [finding_fields(f) for f in kernel.findings],
        "known": [finding_fields(f) for f in kernel.known],
        "suppressed": [_suppressed(s) for s in kernel.suppressed],
    }


def _suppressed(suppressed: Suppressed) -> dict[str, Any]:
    by = suppressed.by
    comment = suppression_fields(by) if isinstance(by, Suppression) else None
    return {
        "finding": finding_fields(suppressed.finding),
        "comment": comment,
        "setting": by if isinstance(by, str) else None,
    }


def suppression_fields(suppression: Suppression) -> dict[str, Any]:
    """A suppressing comment: its place and the rules that it suppresses."""
    return {
        "file": suppression.file,
        "line": suppression.line,
        "rules": list(suppression.rules),
        "scope": suppression.scope,
        "reason": suppression.reason,
        "note": suppression.note,
    }
