"""What a lint report says, in groups: shared by its renderers.

A library has a kernel in dozens of specialisations, and what a rule says of one it mostly says of
all. Findings of one rule at one place, whose messages differ in their numbers alone, are one group.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from ..explain.view import plural
from ..lint.results import SEVERITIES, CheckedKernel, LintReport, Severity, Suppression
from ..lint.rule import RuleText
from ..model import Finding
from ..printable import one_line

State = Literal["new", "known", "suppressed"]

WORDS: Mapping[str, str] = MappingProxyType(
    {"error": "error", "warning": "warning", "info": "note"}
)
"""Severity -> what people and CI systems call it."""
_CONFIDENCE = ("certain", "likely", "possible")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_FIELD = re.compile(r"\{[^{}]*\}")


class Place(Struct, frozen=True):
    """Where a finding points; `line` is None where only the file is known.

    `text` is what stands there: the whole line if `whole`, else a part of it.
    """

    file: str
    line: int | None
    text: str = ""
    whole: bool = False


class Occurrence(Struct, frozen=True):
    """A finding and the kernel it is of."""

    kernel: CheckedKernel
    finding: Finding


class Group(Struct, frozen=True):
    """What one rule says at one place, with everything that it says it of.

    Args:
        state: whether the findings count, are in the baseline, or are left out.
        place: of all of them.
        occurrences: at least one, in the order of the report.
        by: what asked for them to be left out.
    """

    state: State
    place: Place
    occurrences: tuple[Occurrence, ...]
    by: Suppression | str | None = None

    @property
    def first(self) -> Finding:
        return self.occurrences[0].finding

    @property
    def kernel(self) -> CheckedKernel:
        return self.occurrences[0].kernel


def groups(report: LintReport, states: Sequence[State] = ("new",)) -> list[Group]:
    """The findings in these states, merged, the worst first."""
    by_key: dict[tuple[object, ...], list[Occurrence]] = {}
    for kernel in report.kernels:
        for state, finding, by in _all(kernel):
            if state in states:
                at = place_of(kernel, finding)
                shape = _NUMBER.sub("#", finding.message)
                key = (state, finding.rule, finding.severity, at, shape, by, kernel.name)
                by_key.setdefault(key, []).append(Occurrence(kernel, finding))
    merged = [
        Group(key[0], key[3], tuple(occurrences), key[5])  # type: ignore[arg-type]
        for key, occurrences in by_key.items()
    ]
    return sorted(merged, key=_weight)


def _all(kernel: CheckedKernel) -> Iterator[tuple[State, Finding, Suppression | str | None]]:
    for finding in kernel.findings:
        yield "new", finding, None
    for finding in kernel.known:
        yield "known", finding, None
    for suppressed in kernel.suppressed:
        yield "suppressed", suppressed.finding, suppressed.by


def _weight(group: Group) -> tuple[object, ...]:
    first = group.first
    return (
        SEVERITIES.index(first.severity),
        _CONFIDENCE.index(first.confidence),
        first.rule,
        group.place.file,
        group.place.line or 0,
        group.kernel.name,
    )


def place_of(kernel: CheckedKernel, finding: Finding) -> Place:
    """The place that says most."""
    return places(kernel, finding)[0]


def places(kernel: CheckedKernel, finding: Finding) -> list[Place]:
    """Where a user may look, the best first: source before assembly, a line before a file."""
    source_places = [
        Place(at.file, at.line, at.text, True)
        for at in finding.locations
        if at.kind == "source" and at.file and at.line
    ][:1]
    if kernel.source is not None:
        source_places.append(Place(kernel.source.file, kernel.source.line))
    return [*source_places, *assembly_of(kernel, finding)[:1], Place(kernel.file, None)]


def assembly_of(kernel: CheckedKernel, finding: Finding) -> tuple[Place, ...]:
    """The places in the assembly, if a user could open it."""
    if kernel.artifact is None:
        return ()
    return tuple(
        Place(kernel.artifact, at.line, at.text)
        for at in finding.locations
        if at.kind == "amdgcn" and at.line
    )


def name_of(kernel: CheckedKernel) -> str:
    """A kernel's specialisation in words: `matmul gfx942 small`."""
    return " ".join(part for part in (kernel.name, kernel.arch, kernel.case) if part)


def further(group: Group) -> str:
    """What else the group holds, in words; empty if it holds one finding."""
    n = len(group.occurrences) - 1
    if n < 1:
        return ""
    same_message = len({occurrence.finding.message for occurrence in group.occurrences}) == 1
    if len({occurrence.kernel.case for occurrence in group.occurrences}) == 1:
        archs = list(
            dict.fromkeys(occurrence.kernel.arch or "?" for occurrence in group.occurrences)
        )
        if len(archs) == len(group.occurrences):
            return f"{'also' if same_message else 'similar'} on {', '.join(archs[1:])}"
    return f"and {plural(n, 'more specialisation')}{'' if same_message else ', with other figures'}"


def message_of(group: Group, of_several: bool = False) -> str:
    """The message, with what else it holds of; and which one it is of, if it is of several."""
    kernel = group.kernel
    specialisation = (
        " ".join(part for part in (kernel.arch, kernel.case) if part) if of_several else ""
    )
    qualifiers = ", ".join(part for part in (specialisation, further(group)) if part)
    return one_line(f"{group.first.message} ({qualifiers})" if qualifiers else group.first.message)


def rule_of(report: LintReport, rule: str) -> RuleText | None:
    definition = report.rules.get(rule)
    return definition.text if definition is not None else None


def title_of(report: LintReport, rule: str) -> str:
    """`KI001 spills-in-hot-loop`."""
    text = rule_of(report, rule)
    return one_line(f"{rule} {text.name}" if text is not None else rule)


def tally(counts: Mapping[Severity, int]) -> str:
    """`3 errors, 1 note`; `no findings` if there is nothing."""
    parts = [plural(counts[s], WORDS[s]) for s in SEVERITIES if counts.get(s)]
    return ", ".join(parts) or "no findings"


def tally_of(findings: Iterable[Finding]) -> str:
    severities = [f.severity for f in findings]
    return tally({s: severities.count(s) for s in SEVERITIES})


def summary(report: LintReport) -> str:
    """The run in one line."""
    line = f"{tally(report.tally())} in {plural(len(report.kernels), 'kernel')}"
    known_count = sum(len(k.known) for k in report.kernels)
    suppressed = sum(len(k.suppressed) for k in report.kernels)
    extras = [f"{known_count} known"] if known_count else []
    extras += [f"{suppressed} suppressed"] if suppressed else []
    extras += (
        [f"{plural(len(report.errors), 'target')} could not be linted"] if report.errors else []
    )
    return f"{line}; {', '.join(extras)}" if extras else line


def comment(suppression: Suppression) -> str:
    """A suppression as a user writes it: `kinspect: ignore[KI001]`."""
    word = "ignore-file" if suppression.scope == "file" else "ignore"
    rules = f"[{', '.join(suppression.rules)}]" if suppression.rules else ""
    return f"kinspect: {word}{rules}"


def unused(suppression: Suppression) -> str:
    """What to say of a suppression that left nothing out."""
    reason = suppression.note or "it leaves nothing out"
    return f"unused {comment(suppression)}: {reason}"


def general_fix(text: RuleText) -> str:
    """A rule's fix where no finding is at hand: its figures are dots."""
    return _FIELD.sub("…", text.fix)


# --------------------------------------------------------------------------- files

WORKSPACE = "GITHUB_WORKSPACE"
"""Where GitHub's runner checks the repository out: its files are named from there."""
_REPOSITORY = ".git"


def root_of(environment: Mapping[str, str] | None = None, folder: Path | None = None) -> Path:
    """The root of the repository that `folder` lies in.

    Args:
        environment: None for the process's own.
        folder: None for the current one.

    Returns:
        `GITHUB_WORKSPACE` if it holds the folder, else the nearest folder above with a repository,
        else the folder itself.
    """
    start = Path.cwd() if folder is None else folder
    stated = (os.environ if environment is None else environment).get(WORKSPACE)
    if stated and relative(str(start), Path(stated)) is not None:
        return Path(stated)
    for candidate in (start, *start.parents):
        if (candidate / _REPOSITORY).exists():
            return candidate
    return start


def relative(file: str, root: Path, folder: Path | None = None) -> str | None:
    """A file's path from `root` with forward slashes; None if it does not lie below.

    Args:
        file: as the user or the compiler named it; a relative name counts from `folder`.
        root: an absolute folder.
        folder: None for the current one.
    """
    path = os.path.join(os.getcwd() if folder is None else folder, file)
    try:
        real = os.path.realpath(path)
    except ValueError:  # no file can have such a name: it holds a NUL, or is no text
        return None
    # As written first: a link inside of the repository is the file that the user knows.
    for name, base in (
        (os.path.normpath(path), os.path.normpath(root)),
        (real, os.path.realpath(root)),
    ):
        if name == base:
            return "."
        if name.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(name, base).replace(os.sep, "/")
    return None
