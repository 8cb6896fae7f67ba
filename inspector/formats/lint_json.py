"""A lint report as JSON, `schema_version` 1; its form is described by `lint.schema.json`.

Nothing is merged or left out: whatever the report holds is in it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, TextIO

from ..base.streams import dump_json
from ..lint.lint_results import CheckedKernel, LintReport, Suppressed, Suppression
from ..lint.ranking import SEVERITIES
from ..lint.rule import RuleText
from ..report.json_write import error_fields, fields_of, finding_fields, plain

SCHEMA_VERSION = 1


def write(report: LintReport, stream: TextIO) -> None:
    """Writes the document, and a line end."""
    dump_json(to_dict(report), stream)


def to_dict(report: LintReport) -> dict[str, Any]:
    """The document as plain values."""
    new = Counter(finding.severity for kernel in report.kernels for finding in kernel.findings)
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "lint",
        **fields_of(report, "tool", "target", "packs", "fail_on"),
        "summary": {
            "kernels": len(report.kernels),
            **{severity: new[severity] for severity in SEVERITIES},
            "failing": len(report.failing),
            "known": sum(len(k.known) for k in report.kernels),
            "suppressed": sum(len(k.suppressed) for k in report.kernels),
            "errors": len(report.errors),
        },
        "rules": [rule_fields(rule.text) for rule in report.rules.values()],
        "kernels": [_kernel(kernel) for kernel in report.kernels],
        "errors": [error_fields(error) for error in report.errors],
        "unused_suppressions": [plain(s) for s in report.unused],
        "baseline": (
            None
            if report.baseline is None
            else {"file": report.baseline, "gone": list(report.gone)}
        ),
        "notes": list(report.notes),
    }


def rule_fields(rule: RuleText) -> dict[str, Any]:
    """A rule: its keys as in a pack, but `tried`, which is `fix_tried`."""
    fields: dict[str, Any] = plain(rule)
    tried = fields.pop("tried")
    return {**fields, "fix_tried": tried}


def _kernel(kernel: CheckedKernel) -> dict[str, Any]:
    """Returns the JSON fields of a kernel and its findings, by state."""
    source = kernel.source
    return {
        **fields_of(kernel, "id", "name", "case", "arch", "file"),
        "source": None if source is None else fields_of(source, "file", "line", "column"),
        "artifact": kernel.artifact,
        "findings": [finding_fields(f) for f in kernel.findings],
        "known": [finding_fields(f) for f in kernel.known],
        "suppressed": [_suppressed(s) for s in kernel.suppressed],
    }


def _suppressed(suppressed: Suppressed) -> dict[str, Any]:
    by = suppressed.by
    comment = plain(by) if isinstance(by, Suppression) else None
    return {
        "finding": finding_fields(suppressed.finding),
        "comment": comment,
        "setting": by if isinstance(by, str) else None,
    }
