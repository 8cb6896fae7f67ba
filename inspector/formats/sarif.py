"""A lint report as SARIF 2.1.0, for code scanning and for editors.

Code scanning shows one alert per result, so that the findings of a kernel's specialisations at one
place become one result, which lists them. GitHub accepts 25,000 results per run, and shows a result
only in a file of the repository.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TextIO
from urllib.parse import quote

from ..base.printable import printable_columns
from ..base.streams import dump_json
from ..explain.view import SEVERITY_TEXTS
from ..lint.lint_results import LintReport, Suppression
from ..lint.rule import Rule
from ..model import ErrorRecord
from ..present import lint_view as view
from ..present import markdown
from ..present.lint_view import MergedFindings, ShownPlace
from .github import path_in_repository, repository_root

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
ROOT = "%SRCROOT%"
FINGERPRINT = "kinspect/v1"
MOST_RESULTS = 25_000
"""GitHub's limit on the results of a run."""
MOST_RELATED = 10
"""Most lines of the assembly that a result lists."""
MOST_TAGS = 20
"""GitHub's limit on the tags of a rule."""
MOST_LISTED = 100
"""Most specialisations that a result lists."""
_PRECISION = MappingProxyType({"certain": "very-high", "likely": "high", "possible": "medium"})
_PROBLEM = MappingProxyType({"error": "error", "warning": "warning", "info": "recommendation"})
_STATES: tuple[view.State, ...] = ("new", "known", "suppressed")


def write(
    report: LintReport, stream: TextIO, *, root: Path | None = None, limit: int = MOST_RESULTS
) -> None:
    """Writes a log with one run: the worst results, with paths from the root of the repository."""
    dump_json(to_dict(report, root or repository_root(), limit), stream)


def to_dict(report: LintReport, root: Path, limit: int = MOST_RESULTS) -> dict[str, Any]:
    """Returns the log as JSON values."""
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [_run(report, _SarifFiles(root), limit)]}


def _run(report: LintReport, files: _SarifFiles, limit: int) -> dict[str, Any]:
    groups = view.groups(report, _STATES)
    rules = {rule: index for index, rule in enumerate(report.rules)}
    prints = _Fingerprints(files)
    results = [
        _result(report, group, rules=rules, files=files, fingerprint=prints.fingerprint_of(group))
        for group in groups[:limit]
    ]
    return {
        "tool": {"driver": _driver(report)},
        "automationDetails": {"id": _category(report)},
        "invocations": [_invocation(report, files, omitted=len(groups) - len(results))],
        "originalUriBaseIds": {ROOT: {"description": {"text": "The root of the repository."}}},
        "columnKind": "unicodeCodePoints",
        "results": results,
        "properties": {
            "target": printable_columns(report.target),
            "packs": list(report.packs),
            "failOn": report.fail_on,
            "baseline": report.baseline,
            "gone": list(report.gone),
        },
    }


def _invocation(report: LintReport, files: _SarifFiles, omitted: int) -> dict[str, Any]:
    """Returns how the run went: errors, notes, and how many results were left out."""
    notices = [_error(error, files) for error in report.errors]
    if omitted:
        notices.append(_notice(f"{omitted} results of lesser weight are left out"))
    notices += [_notice(note) for note in report.notes]
    return {
        "executionSuccessful": not report.errors,
        "toolExecutionNotifications": notices,
        "toolConfigurationNotifications": [
            _unused(suppression, files) for suppression in report.unused
        ],
    }


def _driver(report: LintReport) -> dict[str, Any]:
    driver: dict[str, Any] = {
        "name": "kinspect",
        "version": report.tool.get("version", ""),
        "rules": [_rule(rule) for rule in report.rules.values()],
    }
    if "uri" in report.tool:
        driver["informationUri"] = report.tool["uri"]
    return driver


def _category(report: LintReport) -> str:
    """Returns the run's category: code scanning replaces the alerts of its last run."""
    archs = "+".join(sorted({kernel.arch for kernel in report.kernels if kernel.arch}))
    return (
        "/".join(word for word in ("kinspect", printable_columns(report.target), archs) if word)
        + "/"
    )


def _rule(rule: Rule) -> dict[str, Any]:
    text = rule.text
    links = [f"- {markdown.link(reference.title, reference.url)}" for reference in text.references]
    fix = view.general_fix(text)
    why = "\n\n".join(markdown.inline(paragraph) for paragraph in text.explain.split("\n\n"))
    what = f"**What to do.** {markdown.inline(fix)}" if fix else ""
    markdown_sections = [why, what, "\n".join(links)]
    text_sections = [text.explain, f"What to do: {fix}" if fix else ""]
    name = text.name.replace("-", " ")
    descriptor = {
        "id": text.id,
        "name": text.name,
        "shortDescription": {"text": f"{name[:1].upper()}{name[1:]}."},
        "fullDescription": {"text": printable_columns(text.explain or text.name)},
        "help": {
            "text": printable_columns(
                "\n\n".join(section for section in text_sections if section) or text.name
            ),
            "markdown": printable_columns(
                "\n\n".join(section for section in markdown_sections if section) or text.name
            ),
        },
        "defaultConfiguration": {"level": SEVERITY_TEXTS[text.severity]},
        "properties": {
            "tags": list(dict.fromkeys(("performance", *text.tags, text.status)))[:MOST_TAGS],
            "precision": _PRECISION[text.confidence],
            "problem.severity": _PROBLEM[text.severity],
            "status": text.status,
            "scope": text.scope,
        },
    }
    if text.references:
        descriptor["helpUri"] = text.references[0].url
    return descriptor


def _result(
    report: LintReport,
    group: MergedFindings,
    *,
    rules: Mapping[str, int],
    files: _SarifFiles,
    fingerprint: str,
) -> dict[str, Any]:
    """Returns the result for a rule's findings at one place; `rules` has the rules' indices."""
    finding = group.first
    shown_at, related = files.anchor(group)
    occurrences = view.other_occurrences(group)
    kernel = view.name_of(group.kernel)
    message = f"{finding.message} ({kernel}{', ' + occurrences if occurrences else ''})"
    logical_location = {
        "name": printable_columns(group.kernel.name),
        "fullyQualifiedName": printable_columns(kernel),
        "kind": "function",
    }
    result: dict[str, Any] = {
        "ruleId": finding.rule,
        "level": SEVERITY_TEXTS[finding.severity],
        "message": {"text": printable_columns(message)},
        "locations": [
            {
                "physicalLocation": files.physical(
                    shown_at, finding.column_in(shown_at.file, shown_at.line)
                ),
                "logicalLocations": [logical_location],
            }
        ],
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "suppressions": _suppressions(group),
        "properties": _properties(group),
    }
    if finding.rule in rules:
        result["ruleIndex"] = rules[finding.rule]
    if report.baseline is not None:
        result["baselineState"] = "unchanged" if group.state == "known" else "new"
    if related:
        result["relatedLocations"] = [
            {"id": number, "physicalLocation": files.physical(place), "message": {"text": text}}
            for number, (place, text) in enumerate(related, 1)
        ]
    return result


def _properties(group: MergedFindings) -> dict[str, Any]:
    finding = group.first
    return {
        "confidence": finding.confidence,
        "specialisations": [
            {
                "kernel": printable_columns(occurrence.kernel.id),
                "fingerprint": occurrence.finding.fingerprint,
            }
            for occurrence in group.occurrences[:MOST_LISTED]
        ],
        "count": len(group.occurrences),
        "evidence": {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in finding.evidence.items()
        },
        "fix": printable_columns(finding.advice),
    }


def _suppressions(group: MergedFindings) -> list[dict[str, Any]]:
    """Returns the suppressions of a result; empty, which means "not suppressed", without one."""
    if group.state != "suppressed":
        return []
    if isinstance(group.by, Suppression):
        reason = group.by.reason or f"{view.comment(group.by)} in line {group.by.line}"
        return [{"kind": "inSource", "justification": printable_columns(reason)}]
    return [{"kind": "external", "justification": printable_columns(group.by or "")}]


class _SarifFiles:
    """Names files in SARIF, relative to the root of the repository for those below it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._relative: dict[str, str | None] = {}

    def below(self, file: str) -> str | None:
        if file not in self._relative:
            self._relative[file] = path_in_repository(file, self._root)
        return self._relative[file]

    def anchor(self, group: MergedFindings) -> tuple[ShownPlace, list[tuple[ShownPlace, str]]]:
        """The place that a result is shown at, and further places to link, each with its label.

        Code scanning does not show places outside the repository: the result is then shown at the
        first place inside it, and the original place is linked.
        """
        kernel, place = group.kernel, group.place
        choices = view.places(kernel, group.first)
        shown_at = next(
            (choice for choice in choices if self.below(choice.file) is not None), place
        )
        related = [(place, "the source line")] if shown_at != place else []
        listing = view.assembly_of(kernel, group.first)[:MOST_RELATED]
        related += [
            (listed, f"the assembly: {printable_columns(listed.text)}".rstrip(": "))
            for listed in listing
            if listed not in (shown_at, place)
        ]
        return shown_at, related

    def physical(self, place: ShownPlace, column: int | None = None) -> dict[str, Any]:
        below = self.below(place.file)
        region: dict[str, Any] = {"startLine": place.line or 1}
        if column is not None:
            region["startColumn"] = column
        if place.complete and place.text.strip():
            region["snippet"] = {"text": printable_columns(place.text)}
        return {"artifactLocation": self.artifact(place.file, below), "region": region}

    def artifact(self, file: str, below: str | None) -> dict[str, str]:
        if below is not None:
            return {"uri": _uri(below), "uriBaseId": ROOT}
        absolute = file.startswith("/")
        return {"uri": f"file://{_uri(file)}" if absolute else _uri(file)}


def _uri(path: str) -> str:
    # A colon in the first part would be taken for a scheme, so that colons are quoted.
    return quote(path.encode("utf-8", "surrogatepass"), safe="/")


class _Fingerprints:
    """Fingerprints that stay the same when specialisations, figures or the line number change."""

    def __init__(self, files: _SarifFiles) -> None:
        self._files = files
        self._counts: dict[str, int] = {}

    def fingerprint_of(self, group: MergedFindings) -> str:
        """A hash of rule, kernel, file and text of the line, and a number for equal hashes.

        Of several kernels that share the line no name: which of them comes first may change.
        """
        file, text = _known_by(group)
        file = self._files.below(file) or file
        names = {occurrence.kernel.name for occurrence in group.occurrences}
        name = group.kernel.name if len(names) == 1 else ""
        identity = (group.first.rule, name, file, text.strip())
        key = hashlib.sha256("\0".join(identity).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        number = self._counts.get(key, 0) + 1
        self._counts[key] = number
        return f"{key}:{number}"


def _known_by(group: MergedFindings) -> tuple[str, str]:
    """The file and the line's text that fingerprints are made of, however exact the place is."""
    place, anchor = group.place, group.first.anchor
    if anchor is None:
        return place.file, place.text
    if anchor.file is not None:
        return anchor.file, anchor.text
    return place.file, anchor.text if place.file == group.kernel.artifact else place.text


def _notice(text: str, level: str = "note", locations: Sequence[Any] = ()) -> dict[str, Any]:
    notice: dict[str, Any] = {"level": level, "message": {"text": printable_columns(text)}}
    if locations:
        notice["locations"] = list(locations)
    return notice


def _error(error: ErrorRecord, files: _SarifFiles) -> dict[str, Any]:
    problem = ": ".join(word for word in (error.kernel, error.stage, error.message) if word)
    text = f"{problem}; {error.hint}" if error.hint else problem
    return _notice(text, "error", _locations([error.file] if error.file else [], files))


def _unused(suppression: Suppression, files: _SarifFiles) -> dict[str, Any]:
    place = ShownPlace(suppression.file, suppression.line)
    return _notice(
        view.unused(suppression), "warning", [{"physicalLocation": files.physical(place)}]
    )


def _locations(names: Iterable[str], files: _SarifFiles) -> list[dict[str, Any]]:
    return [
        {"physicalLocation": {"artifactLocation": files.artifact(name, files.below(name))}}
        for name in names
    ]
