"""The result of a lint run: findings, and which are new, known or suppressed.

A kernel's report is large and a run may hold thousands of them: what is kept of a kernel is its
findings and what names it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from ..model import ErrorRecord, Finding, SourceLoc
from .ranking import SEVERITIES
from .rule import Rule
from .worsening import WeighedFigure

FailOn = Literal["error", "warning", "info", "never"]


class Suppression(Struct, frozen=True):
    """A comment that asks for findings to be left out, where it stands.

    Args:
        rules: ids or names it speaks of; empty for all.
        scope: `line` (the line it stands on, or the next where it stands alone), or `file`.
        note: set where it is reported as unused and there is more to say than that nothing was
            found: `no rule KI99 (did you mean KI009?)`.
    """

    file: str
    line: int
    rules: tuple[str, ...]
    scope: Literal["line", "file"]
    reason: str = ""
    note: str = ""


class Suppressed(Struct, frozen=True):
    """A finding that is left out, and the comment or setting that asked for it."""

    finding: Finding
    by: Suppression | str  # text: the setting, e.g. "pyproject.toml: [[tool.kinspect.kernel]] 2"


class CheckedKernel(Struct, frozen=True):
    """One kernel as lint saw it.

    Args:
        target: what a command is given to find it again.
        artifact: the assembly's file, for locations of kind `amdgcn`; None where there is none that
            a user could open.
        all_read: whether all of its code was read; what rules do not say proves nothing where not.
        to_try: fingerprints of the findings for which `kinspect try` compiles something; empty
            where nobody asked.
        figures: fingerprint -> how bad a finding is; empty where there is no baseline.
    """

    id: str
    name: str
    case: str | None
    arch: str | None
    file: str
    target: str
    source: SourceLoc | None
    artifact: str | None
    findings: tuple[Finding, ...]
    known: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    all_read: bool = True
    to_try: frozenset[str] = frozenset()
    figures: Mapping[str, tuple[WeighedFigure, ...]] = field(default_factory=dict)


class LintReport(Struct, frozen=True):
    """The result of one run.

    Args:
        unused: suppressions that left nothing out; `rules` are then those of the comment that did
            not, `note` why, where that is worth saying.
        gone: fingerprints of the baseline that this run did not find, though it saw their kernel.
    """

    target: str
    tool: Mapping[str, str]
    packs: tuple[str, ...]
    rules: Mapping[str, Rule]
    fail_on: FailOn
    kernels: tuple[CheckedKernel, ...]
    errors: tuple[ErrorRecord, ...] = ()
    unused: tuple[Suppression, ...] = ()
    baseline: str | None = None
    gone: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    @property
    def failing(self) -> tuple[Finding, ...]:
        """The new findings at or above `fail_on`."""
        return tuple(f for k in self.kernels for f in k.findings if self.fails(f))

    def fails(self, finding: Finding) -> bool:
        """Tells whether a new finding is severe enough to fail the run."""
        if self.fail_on == "never":
            return False
        return SEVERITIES.index(finding.severity) <= SEVERITIES.index(self.fail_on)
