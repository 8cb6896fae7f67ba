"""A lint report as JUnit XML, for CI systems that show test results.

A suite is a file, a case a kernel's specialisation; it fails by findings at or above `fail_on`.
Valid by the schemas of Jenkins and of Ant, which is the stricter: no case has more than one
`failure`, none has output of its own, so findings that fail nothing stand in the suite's output.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timezone
from typing import TextIO
from xml.sax.saxutils import escape, quoteattr

from ..lint.results import SEVERITIES, CheckedKernel, LintReport
from ..model import ErrorRecord, Finding
from ..printable import one_line, printable_columns
from . import lint_view as view

_UNKNOWN_FILE = "(no file)"


def write(report: LintReport, stream: TextIO, *, date: datetime | None = None) -> None:
    """Writes the document.

    Args:
        report: the result.
        stream: the output.
        date: the date of the suites; None for the time of the call.
    """
    # The schemas demand a time without a zone, and a duration, which a static check does not have.
    when = (date or datetime.now(timezone.utc)).strftime("%Y-%m-%dT%H:%M:%S")
    by_file: dict[str, list[CheckedKernel | ErrorRecord]] = {}
    for kernel in report.kernels:
        by_file.setdefault(_name(kernel.file), []).append(kernel)
    for error in report.errors:
        by_file.setdefault(_name(error.file or ""), []).append(error)
    stream.write('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n')
    failing = set(map(id, report.failing))
    for number, (file, cases) in enumerate(by_file.items()):
        stream.write("\n".join(_suite(report, number, file, cases, failing, when)) + "\n")
    stream.write("</testsuites>\n")


def _suite(
    report: LintReport,
    number: int,
    file: str,
    cases: list[CheckedKernel | ErrorRecord],
    failing: set[int],
    when: str,
) -> list[str]:
    """Returns the suite of a file.

    Args:
        report: the result.
        number: of the suite.
        file: the file.
        cases: its kernels and errors.
        failing: ids of the findings that fail the run.
        when: the suite's date.
    """
    lines: list[str] = []
    output: list[str] = []
    failures = errors = 0
    names: dict[str, int] = {}  # how often each was given: CI systems tell cases by their names
    for case in cases:
        if isinstance(case, ErrorRecord):
            errors += 1
            lines += _broken(case, file)
            continue
        grave = [f for f in case.findings if id(f) in failing]
        failures += bool(grave)
        name = view.name_of(case)
        names[name] = names.get(name, 0) + 1
        name += f" #{names[name]}" if names[name] > 1 else ""
        lines += _case(report, case, name, grave, file)
        output += _output(report, case, failing)
    attributes = {
        "name": file,
        "package": file.rpartition("/")[0],
        "id": str(number),
        "tests": str(len(cases)),
        "failures": str(failures),
        "errors": str(errors),
        "skipped": "0",
        "time": "0",
        "timestamp": when,
        "hostname": "localhost",
    }
    properties = {
        "kinspect": report.tool.get("version", ""),
        "packs": ", ".join(report.packs),
        "fail_on": report.fail_on,
    }
    return [
        f"  <testsuite{_attributes(attributes)}>",
        "    <properties>",
        *(
            f"      <property{_attributes({'name': k, 'value': v})}/>"
            for k, v in properties.items()
        ),
        "    </properties>",
        *lines,
        f"    <system-out>{_text(output)}</system-out>",
        "    <system-err></system-err>",
        "  </testsuite>",
    ]


def _case(
    report: LintReport, kernel: CheckedKernel, name: str, grave: list[Finding], file: str
) -> list[str]:
    """Returns the test case of a kernel; `grave` are its findings that fail the run."""
    head = f"    <testcase{_attributes({'name': name, **_where(file)})}"
    if not grave:
        return [f"{head}/>"]
    # Findings come errors first.
    worst = min((f.severity for f in grave), key=SEVERITIES.index)
    message = f"{view.tally_of(grave)}: {grave[0].message}"
    lines = [line for finding in grave for line in _finding(report, kernel, finding)]
    return [
        f"{head}>",
        f"      <failure{_attributes({'message': message, 'type': worst})}>"
        f"{_text(lines)}</failure>",
        "    </testcase>",
    ]


def _broken(error: ErrorRecord, file: str) -> list[str]:
    name = error.kernel or "(whole file)"
    text = [error.message, error.hint, error.output]
    return [
        f"    <testcase{_attributes({'name': name, **_where(file)})}>",
        f"      <error{_attributes({'message': error.message, 'type': error.stage})}>"
        f"{_text(t for t in text if t)}</error>",
        "    </testcase>",
    ]


def _output(report: LintReport, kernel: CheckedKernel, failing: set[int]) -> list[str]:
    """Returns the findings of a kernel that do not fail the run, as text."""
    reported = [("", f) for f in kernel.findings if id(f) not in failing]
    reported += [("known: ", f) for f in kernel.known]
    reported += [("suppressed: ", s.finding) for s in kernel.suppressed]
    name = view.name_of(kernel)
    return [
        f"{name}: {state}{line}" if n == 0 else f"  {line}"
        for state, finding in reported
        for n, line in enumerate(_finding(report, kernel, finding)[:2])
    ]


def _finding(report: LintReport, kernel: CheckedKernel, finding: Finding) -> list[str]:
    place = view.place_of(kernel, finding)
    where = f"{place.file}:{place.line}" if place.line else place.file
    word = view.WORDS[finding.severity]
    lines = [f"{word} {view.title_of(report, finding.rule)} {where}", f"  {finding.message}"]
    return [*lines, f"  fix: {finding.advice}"] if finding.fix else lines


def _where(file: str) -> dict[str, str]:
    return {"classname": file, "time": "0"}


def _name(file: str) -> str:
    return one_line(file) or _UNKNOWN_FILE


def _attributes(values: dict[str, str]) -> str:
    return "".join(f" {k}={quoteattr(one_line(v))}" for k, v in values.items())


def _text(lines: Iterable[str]) -> str:
    return escape("\n".join(map(printable_columns, lines)))
