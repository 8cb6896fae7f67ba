"""The comments of the source files that a lint run's kernels came from.

Few files have any: what reads them is imported for the first that has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..lint.results import CheckedKernel, Suppressed, Suppression
from ..model import ErrorRecord, Finding
from . import analysis
from .jobs import MOST_TEXT_BYTES, Request
from .lint_judge import Judged
from .lint_plan import Plan

if TYPE_CHECKING:
    from ..lint.suppress import Marks

_MARK = "kinspect:"


class Comments:
    """The suppressions of the files that a run's kernels came from."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._names: dict[tuple[str, str], str | None] = {}
        self._marks: dict[str, Marks] = {}
        self._without: set[str] = set()
        self._used: dict[str, set[tuple[int, str]]] = {}
        self._lines: dict[str, set[int]] = {}

    def applied(self, judged: Judged) -> CheckedKernel:
        """A kernel with its findings, those left out apart."""
        kernel = judged.kernel
        headers = list(self._headers(kernel))
        for file, lines in judged.source_lines.items():
            name = self._look(file, kernel)
            if name is not None:
                self._lines.setdefault(name, set()).update(lines)
        for name, line in headers:
            self._lines.setdefault(name, set()).add(line)
        findings, left_out = [], []
        for placed in judged.findings:
            places = [(self._look(file, kernel), line) for file, line in placed.places]
            known_places = [(name, line) for name, line in places if name is not None]
            if placed.of_kernel:
                known_places += headers
            by = (
                self._match(placed.finding, known_places) if known_places else None
            ) or placed.setting
            if by is None:
                findings.append(placed.finding)
            else:
                left_out.append(Suppressed(placed.finding, by))
        return replace(kernel, findings=tuple(findings), suppressed=tuple(left_out))

    def _match(self, finding: Finding, places: Sequence[tuple[str, int]]) -> Suppression | None:
        from ..lint.suppress import match

        text = self._plan.rules[finding.rule].text
        return match((text.id, text.name), places, self._marks, self._used)

    def unused(self, request: Request, errors: Sequence[ErrorRecord]) -> Iterator[Suppression]:
        """The suppressions that left nothing out, by file and line."""
        if not self._marks:
            return
        from ..lint.suppress import Coverage, unused

        rule_names = {n for r in self._plan.rules.values() for n in (r.text.id, r.text.name)}
        whole = _whole(request, errors)
        for name, marks in sorted(self._marks.items()):
            yield from unused(
                marks,
                self._used.get(name, set()),
                Coverage(_below(name, whole), frozenset(self._lines.get(name, ()))),
                rule_names,
                self._plan.words.unnamed,
                narrowed=self._plan.narrowed,
            )

    def _headers(self, kernel: CheckedKernel) -> Iterator[tuple[str, int]]:
        """The lines by which the kernel as a whole is meant."""
        places = [(kernel.source.file, kernel.source.line)] if kernel.source is not None else []
        for file, line in (*places, *([(kernel.file, None)] if _own_listing(kernel) else [])):
            name = self._look(file, kernel)
            if name is not None:
                yield from ((name, n) for n in self._marks[name].header(line, kernel.name))

    def _look(self, file: str, kernel: CheckedKernel) -> str | None:
        """Reads a file's comments, once; its name from here, None where there are none.

        Only what users write is read: not the compiler's own listings.
        """
        key = (file, kernel.file)
        if key not in self._names:
            own = file != kernel.artifact or _own_listing(kernel)
            name = _local_name(file, kernel.file) if own else None
            self._names[key] = name if name is not None and self._has_marks(name) else None
        return self._names[key]

    def _has_marks(self, name: str) -> bool:
        if name not in self._marks and name not in self._without:
            marks = _marks(name)
            if marks is None:
                self._without.add(name)
            else:
                self._marks[name] = marks
        return name in self._marks


def _own_listing(kernel: CheckedKernel) -> bool:
    """Whether the assembly is the user's file, not one that the compiler made on the way."""
    return kernel.artifact is not None and kernel.artifact == kernel.file


def _local_name(file: str, named: str) -> str | None:
    """A source file's name from here; None where there is none.

    A report that was saved in another checkout names the files of that; the same file here is the
    one by which its target was named.
    """
    for name in (file, named) if file.endswith(f"/{named}") else (file,):
        try:
            if Path(name).is_file():
                return analysis.portable(name)
        except (OSError, ValueError):
            continue
    return None


def _marks(name: str) -> Marks | None:
    try:
        if Path(name).stat().st_size > MOST_TEXT_BYTES:
            return None
        text = Path(name).read_text("utf-8", "replace")
    except OSError:
        return None  # not readable: it asks for nothing
    if _MARK not in text:
        return None
    from ..lint.suppress import NO_MARKS, in_text

    marks = in_text(text, name)
    return None if marks == NO_MARKS else marks


def _whole(request: Request, errors: Sequence[ErrorRecord]) -> list[Path]:
    """The files and folders that a run has looked at without leaving anything out."""
    if request.kernel is not None:
        return []
    failed = {Path(e.file).resolve() for e in errors if e.file}
    paths = [Path(text).resolve() for text in request.targets if "::" not in text]
    return [p for p in paths if not any(p == f or p in f.parents for f in failed)]


def _below(file: str, targets: Sequence[Path]) -> bool:
    path = Path(file).resolve()
    return any(path == target or target in path.parents for target in targets)
