"""Applies the comments that suppress findings, in the source files of a lint run's kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..base import named_files
from ..lint.lint_results import CheckedKernel, Suppressed, Suppression
from ..model import ErrorRecord, Finding
from .inputs import MOST_TEXT_BYTES
from .jobs import Request
from .lint_judge import Judged, PlacedFinding
from .lint_plan import LintPlan
from .naming import portable

if TYPE_CHECKING:
    from ..lint.suppress import Marks

_MARK = "kinspect:"
"""Stands in every comment that suppresses; `lint.suppress` is imported for files that have it."""


class Comments:
    """The suppressions of the files that a run's kernels came from."""

    def __init__(self, plan: LintPlan) -> None:
        self._plan = plan
        self._local_names: dict[tuple[str, str], str | None] = {}  # of files with suppressions
        self._marks: dict[str, Marks] = {}  # file -> its suppressions
        self._without_marks: set[str] = set()  # files that were read and have none
        self._used: dict[str, set[tuple[int, str]]] = {}  # file -> (line, rule) that left one out
        self._covered_lines: dict[str, set[int]] = {}  # file -> lines that kernels came from

    def apply(self, judged: Judged) -> CheckedKernel:
        """Returns the kernel with its findings; those that are suppressed are apart."""
        kernel = judged.kernel
        headers = list(self._header_lines(kernel))
        for file, lines in judged.source_lines.items():
            name = self._local_name(file, kernel)
            if name is not None:
                self._covered_lines.setdefault(name, set()).update(lines)
        for name, line in headers:
            self._covered_lines.setdefault(name, set()).add(line)
        findings, suppressed = [], []
        for placed in judged.findings:
            suppression = self._suppression_of(placed, kernel, headers) or placed.setting
            if suppression is None:
                findings.append(placed.finding)
            else:
                suppressed.append(Suppressed(placed.finding, suppression))
        return replace(kernel, findings=tuple(findings), suppressed=tuple(suppressed))

    @property
    def source_files(self) -> set[str]:
        """The files that the kernels so far name as their source."""
        return {file for file, _ in self._local_names}

    def unused(self, request: Request, errors: Sequence[ErrorRecord]) -> Iterator[Suppression]:
        """Yields the suppressions that suppressed nothing, by file and line.

        Args:
            errors: what it could not look at: suppressions there may have a use.
        """
        if not self._marks:
            return
        from ..lint.suppress import Coverage, unused

        rule_names = {n for r in self._plan.rules.values() for n in (r.text.id, r.text.name)}
        analysed = _analysed_paths(request, errors)
        for name, marks in sorted(self._marks.items()):
            yield from unused(
                marks,
                self._used.get(name, set()),
                Coverage(_is_below(name, analysed), frozenset(self._covered_lines.get(name, ()))),
                rule_names,
                self._plan.words.fault_of_name,
                narrowed=self._plan.narrowed,
            )

    def _suppression_of(
        self, placed: PlacedFinding, kernel: CheckedKernel, headers: Sequence[tuple[str, int]]
    ) -> Suppression | None:
        """Returns the comment that suppresses a finding; None if there is none."""
        places = []
        for file, line in placed.places:
            name = self._local_name(file, kernel)
            if name is not None:
                places.append((name, line))
        if placed.of_kernel:
            places += headers
        return self._match(placed.finding, places) if places else None

    def _match(self, finding: Finding, places: Sequence[tuple[str, int]]) -> Suppression | None:
        from ..lint.suppress import match

        rule = self._plan.rules[finding.rule].text
        return match((rule.id, rule.name), places, self._marks, self._used)

    def _header_lines(self, kernel: CheckedKernel) -> Iterator[tuple[str, int]]:
        """Yields (file, line) where a comment applies to the kernel as a whole."""
        places: list[tuple[str, int | None]] = []
        if kernel.source is not None:
            places.append((kernel.source.file, kernel.source.line))
        if _is_users_assembly(kernel):
            places.append((kernel.file, None))
        for file, line in places:
            name = self._local_name(file, kernel)
            if name is not None:
                yield from ((name, n) for n in self._marks[name].header(line, kernel.name))

    def _local_name(self, file: str, kernel: CheckedKernel) -> str | None:
        """Returns the name of a file on this machine if it has suppressions; else None."""
        key = (file, kernel.file)
        if key not in self._local_names:
            readable = file != kernel.artifact or _is_users_assembly(kernel)
            name = _existing_name(file, kernel.file) if readable else None
            self._local_names[key] = name if name is not None and self._has_marks(name) else None
        return self._local_names[key]

    def _has_marks(self, name: str) -> bool:
        """Tells whether a file has suppressions; reads it the first time."""
        if name not in self._marks and name not in self._without_marks:
            marks = _read_marks(name)
            if marks is None:
                self._without_marks.add(name)
            else:
                self._marks[name] = marks
        return name in self._marks


def _is_users_assembly(kernel: CheckedKernel) -> bool:
    """Tells whether the assembly is the user's own file, not the output of a compile."""
    return kernel.artifact is not None and kernel.artifact == kernel.file


def _existing_name(file: str, target: str) -> str | None:
    """Returns the name of a source file on this machine; None if it is not there."""
    for name in (file, target) if file.endswith(f"/{target}") else (file,):
        if named_files.is_named(name):
            return portable(name)
    return None


def _read_marks(name: str) -> Marks | None:
    """Returns the suppressions in a file; None if there are none, or it cannot be read."""
    text = named_files.named_text(name, MOST_TEXT_BYTES)
    if text is None or _MARK not in text:
        return None
    from ..lint.suppress import NO_MARKS, in_text

    marks = in_text(text, name)
    return None if marks == NO_MARKS else marks


def _analysed_paths(request: Request, errors: Sequence[ErrorRecord]) -> list[Path]:
    """Returns the files and folders of which a run has analysed everything."""
    if request.kernel is not None:
        return []
    failed = {Path(error.file).resolve() for error in errors if error.file}
    paths = [Path(target).resolve() for target in request.targets if "::" not in target]
    return [
        path
        for path in paths
        if not any(path == failure or path in failure.parents for failure in failed)
    ]


def _is_below(file: str, paths: Sequence[Path]) -> bool:
    """Tells whether a file is one of these paths or in one of these folders."""
    resolved = Path(file).resolve()
    return any(resolved == path or path in resolved.parents for path in paths)
