"""A lint report as workflow commands, which GitHub shows beside the lines of a pull request.

Of one step it shows ten errors, ten warnings and ten notices: the worst are given as annotations,
the rest as lines of the log, and the last notice is the summary.

Names of files as a CI system wants them: relative to the root of the repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

from ..base.named_files import is_users_own
from ..base.printable import one_line, printable_columns
from ..base.streams import no_commands, underneath
from ..lint.lint_results import LintReport
from ..present import lint_view as view
from ..present.lint_view import MergedFindings

MOST = 10
"""The number of annotations of one severity that GitHub shows of a step."""
_COMMANDS: Mapping[str, str] = MappingProxyType(
    {"error": "error", "warning": "warning", "info": "notice"}
)


def write(
    report: LintReport, stream: TextIO, *, root: Path | None = None, limit: int = MOST
) -> None:
    """Writes a line per finding, at most so many annotations of one severity, and a summary.

    Paths are relative to the root; None: that of the current folder's repository.
    """
    folder = root or repository_root()
    stream = underneath(stream)  # the wrapper would spell its commands out
    # The summary is a notice too, and must not be dropped.
    remaining = {"error": limit, "warning": limit, "notice": limit - 1}
    log: list[str] = []
    for command, properties, message in _annotations(report, folder):
        if remaining[command] > 0:
            remaining[command] -= 1
            stream.write(annotation(command, properties, message))
        else:
            log.append(_plain(command, properties, message))
    stream.writelines(log)
    failing = len(report.failing)
    verdict = f"; {failing} at or above {report.fail_on}" if failing else ""
    text = f"{view.summary(report)}{verdict}"
    stream.write(annotation("notice", {"title": "kinspect lint"}, text))


def _annotations(report: LintReport, root: Path) -> Iterator[tuple[str, dict[str, str], str]]:
    for error in report.errors:
        problem = ": ".join(part for part in (error.kernel, error.stage, error.message) if part)
        properties = _file(error.file, None, root) if error.file else {}
        yield (
            "error",
            {**properties, "title": "kinspect could not lint this"},
            f"{problem}; {error.hint}" if error.hint else problem,
        )
    for group in view.groups(report):
        yield (
            _COMMANDS[group.first.severity],
            {**_properties(group, root), "title": view.title_of(report, group.first.rule)},
            _message(group, root),
        )
    for unused in report.unused:
        yield (
            "warning",
            {**_file(unused.file, unused.line, root), "title": "unused suppression"},
            view.unused(unused),
        )


def _message(group: MergedFindings, root: Path) -> str:
    occurrences = view.other_occurrences(group)
    kernel = view.name_of(group.kernel)
    text = f"{group.first.message} ({kernel}{', ' + occurrences if occurrences else ''})"
    if path_in_repository(group.place.file, root) is None:
        line = f":{group.place.line}" if group.place.line else ""
        text += f" at {group.place.file}{line}"
    return f"{text}. Fix: {group.first.advice}" if group.first.fix else text


def _properties(group: MergedFindings, root: Path) -> dict[str, str]:
    """Returns the best place that is in the repository; GitHub shows no other."""
    for place in view.places(group.kernel, group.first):
        properties = _file(place.file, place.line, root)
        if properties:
            column = group.first.column_in(place.file, place.line)
            return properties | ({"col": str(column)} if column else {})
    return {}


def _file(file: str, line: int | None, root: Path) -> dict[str, str]:
    below = path_in_repository(file, root)
    if below is None:
        return {}
    return {"file": below, "line": str(line)} if line else {"file": below}


def annotation(command: str, properties: Mapping[str, str], message: str) -> str:
    """Returns a workflow command with its line end; its parts may hold any text."""
    listed = ",".join(f"{k}={_property(v)}" for k, v in properties.items() if v)
    return f"::{command}{' ' + listed if listed else ''}::{_data(message)}\n"


def _data(text: str) -> str:
    shown = no_commands(printable_columns(text), "x")  # it stands within a line
    return shown.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _plain(command: str, properties: Mapping[str, str], message: str) -> str:
    """Returns a line of the log that no runner takes for a command, whatever the message holds."""
    where = ":".join(part for k in ("file", "line", "col") if (part := properties.get(k)))
    text = one_line(f"{where} {properties['title']}: {message}")
    return no_commands(f"{command} {text}\n")


WORKSPACE = "GITHUB_WORKSPACE"
"""Variable with the folder that GitHub's runner checks the repository out into."""
_REPOSITORY = ".git"


def repository_root() -> Path:
    """The root of the repository that the current folder lies in.

    Returns:
        `GITHUB_WORKSPACE` if it holds the folder, else the nearest folder above with a repository,
        else the folder itself.
    """
    start = Path.cwd()
    stated = os.environ.get(WORKSPACE)
    if stated and path_in_repository(str(start), Path(stated)) is not None:
        return Path(stated)
    for candidate in (start, *start.parents):
        if is_users_own(candidate, _REPOSITORY):
            return candidate
    return start


def path_in_repository(file: str, root: Path) -> str | None:
    """A file's path from a root with forward slashes; None if it does not lie below."""
    path = os.path.join(os.getcwd(), file)
    try:
        real = os.path.realpath(path)
    except ValueError:  # no file can have such a name: it holds a NUL, or is no text
        return None
    # First without resolving links: a link in the repository is the file that the user knows.
    for name, base in (
        (os.path.normpath(path), os.path.normpath(root)),
        (real, os.path.realpath(root)),
    ):
        if name == base:
            return "."
        if name.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(name, base).replace(os.sep, "/")
    return None
