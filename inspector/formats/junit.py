"""A lint report as JUnit XML, for CI systems that show test results.

A suite is a file and a case is one specialisation of a kernel, which fails by its findings at or
above `fail_on`. Valid by the schemas of Jenkins and of Ant, which is the stricter: no case has more
than one `failure`, none has output of its own, so findings that fail nothing stand in the suite's
output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from msgspec import Struct

from ..base.printable import one_line, printable_columns
from ..explain.view import SEVERITY_TEXTS, severities
from ..lint.lint_results import CheckedKernel, LintReport
from ..lint.ranking import SEVERITIES
from ..model import ErrorRecord, Finding
from ..present import lint_view as view

_UNKNOWN_FILE = "(no file)"
_WHOLE_FILE = "(whole file)"
"""The name of the case of a file that could not be linted, where no kernel of it is to blame."""


class _Case(Struct, frozen=True):
    """A kernel that passed, failed, or could not be linted.

    Args:
        outcome: the element in the case: `failure`, `error`, or "" for a case that passed.
        type: severity of the worst finding of a failure, stage of an error.
    """

    name: str
    outcome: str = ""
    type: str = ""
    message: str = ""
    text: Sequence[str] = ()


class _Suite(Struct, frozen=True):
    """A file, the cases of its kernels, and in `output` the findings that fail none of them."""

    file: str
    cases: Sequence[_Case]
    output: Sequence[str]

    def count(self, outcome: str) -> int:
        """How many cases have this outcome."""
        return sum(case.outcome == outcome for case in self.cases)


def write(report: LintReport, stream: TextIO, *, date: datetime | None = None) -> None:
    """Writes the document; the suites are of a date, None: of now."""
    # The schemas demand a time without a zone, and a duration, which a static check does not have.
    timestamp = (date or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%S")
    properties = {
        "kinspect": report.tool.get("version", ""),
        "packs": ", ".join(report.packs),
        "fail_on": report.fail_on,
    }
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
    for suite_id, suite in enumerate(_suites(report)):
        stream.write("\n".join(_suite_lines(suite, suite_id, timestamp, properties)) + "\n")
    stream.write("</testsuites>\n")


def _suites(report: LintReport) -> Iterator[_Suite]:
    by_file: dict[str, list[CheckedKernel | ErrorRecord]] = {}
    for kernel in report.kernels:
        by_file.setdefault(_file_name(kernel.file), []).append(kernel)
    for error in report.errors:
        by_file.setdefault(_file_name(error.file or ""), []).append(error)
    for file, results in by_file.items():
        yield _suite(report, file, results)


def _suite(report: LintReport, file: str, results: Iterable[CheckedKernel | ErrorRecord]) -> _Suite:
    cases: list[_Case] = []
    output: list[str] = []
    name_counts: Counter[str] = Counter()  # CI systems tell cases by their names
    for result in results:
        if isinstance(result, ErrorRecord):
            cases.append(_error_case(result))
            continue
        name = view.name_of(result)
        name_counts[name] += 1
        numbered = f"{name} #{name_counts[name]}" if name_counts[name] > 1 else name
        cases.append(_kernel_case(report, result, numbered))
        output += _output(report, result)
    return _Suite(file, cases, output)


def _kernel_case(report: LintReport, kernel: CheckedKernel, name: str) -> _Case:
    """Returns the case of a kernel, which fails if any finding fails the run."""
    failing = [finding for finding in kernel.findings if report.fails(finding)]
    if not failing:
        return _Case(name)
    return _Case(
        name=name,
        outcome="failure",
        type=min((finding.severity for finding in failing), key=SEVERITIES.index),
        # Findings come errors first.
        message=f"{severities(finding.severity for finding in failing)}: {failing[0].message}",
        text=[line for finding in failing for line in _finding_lines(report, kernel, finding)],
    )


def _error_case(error: ErrorRecord) -> _Case:
    return _Case(
        name=error.kernel or _WHOLE_FILE,
        outcome="error",
        type=error.stage,
        message=error.message,
        text=[text for text in (error.message, error.hint, error.output) if text],
    )


def _output(report: LintReport, kernel: CheckedKernel) -> list[str]:
    """Returns the findings of a kernel that do not fail the run, as text."""
    findings = [("", finding) for finding in kernel.findings if not report.fails(finding)]
    findings += [("known: ", finding) for finding in kernel.known]
    findings += [("suppressed: ", suppressed.finding) for suppressed in kernel.suppressed]
    name = view.name_of(kernel)
    lines: list[str] = []
    for state, finding in findings:
        title, message = _finding_lines(report, kernel, finding)[:2]
        lines += [f"{name}: {state}{title}", f"  {message}"]
    return lines


def _finding_lines(report: LintReport, kernel: CheckedKernel, finding: Finding) -> list[str]:
    """Returns a finding as text: its title and place, its message, and its fix if it has one."""
    place = view.place_of(kernel, finding)
    numbers = (place.line, finding.column_in(place.file, place.line))
    position = ":".join((place.file, *(str(number) for number in numbers if number)))
    severity = SEVERITY_TEXTS[finding.severity]
    lines = [f"{severity} {view.title_of(report, finding.rule)} {position}", f"  {finding.message}"]
    return [*lines, f"  fix: {finding.advice}"] if finding.fix else lines


def _file_name(file: str) -> str:
    return one_line(file) or _UNKNOWN_FILE


def _suite_lines(
    suite: _Suite, suite_id: int, timestamp: str, properties: Mapping[str, str]
) -> Iterator[str]:
    attributes = {
        "name": suite.file,
        "package": suite.file.rpartition("/")[0],
        "id": str(suite_id),
        "tests": str(len(suite.cases)),
        "failures": str(suite.count("failure")),
        "errors": str(suite.count("error")),
        "skipped": "0",
        "time": "0",
        "timestamp": timestamp,
        "hostname": "localhost",
    }
    yield f"  <testsuite{_attributes(attributes)}>"
    yield "    <properties>"
    for name, value in properties.items():
        yield f"      <property{_attributes({'name': name, 'value': value})}/>"
    yield "    </properties>"
    for case in suite.cases:
        yield from _case_lines(case, suite.file)
    yield f"    <system-out>{_text(suite.output)}</system-out>"
    yield "    <system-err></system-err>"
    yield "  </testsuite>"


def _case_lines(case: _Case, file: str) -> Iterator[str]:
    attributes = _attributes({"name": case.name, "classname": file, "time": "0"})
    if not case.outcome:
        yield f"    <testcase{attributes}/>"
        return
    yield f"    <testcase{attributes}>"
    outcome = f"{case.outcome}{_attributes({'message': case.message, 'type': case.type})}"
    yield f"      <{outcome}>{_text(case.text)}</{case.outcome}>"
    yield "    </testcase>"


def _attributes(values: Mapping[str, str]) -> str:
    """Returns attributes as they stand in a tag, each after a blank; line breaks become blanks."""
    return "".join(f" {name}={quoteattr(one_line(value))}" for name, value in values.items())


def _text(lines: Iterable[str]) -> str:
    """Returns the text of an element, without characters that XML does not allow."""
    return escape("\n".join(map(printable_columns, lines)))
