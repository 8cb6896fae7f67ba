"""Selects a file's cases by pattern, and explains why none matches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..kernel_patterns import choosing, matches
from .case import Case, did_you_mean

_MAX_LISTED = 8
"""How many cases a message lists."""


class Selection:
    """Selects the cases that match all patterns.

    `patterns`: of a kernel's name or qualified name, of a case's name, or of `kernel[case]`;
    without any, all cases are selected.
    `qualnames`: kernel -> qualified name of its function.
    """

    def __init__(self, patterns: Sequence[str], qualnames: Mapping[str, str]) -> None:
        self.patterns = tuple(patterns)
        self._qualnames = qualnames

    def selected(self, raw_cases: Sequence[Any]) -> list[tuple[int, Any]]:
        """Index and value of the selected entries of `KINSPECT_CASES`, valid or not."""
        return [
            (index, raw)
            for index, raw in enumerate(raw_cases)
            if matches(self.patterns, self._names(*identity(raw)))
        ]

    def _names(self, kernel: str | None, case: str | None) -> list[str]:
        names = (kernel, case, self._qualnames.get(kernel or ""), label(kernel, case))
        return [name for name in names if name is not None]

    def unmatched(self, raw_cases: Sequence[Any], file: str, home: str | None) -> tuple[str, str]:
        """Message and hint for patterns that no case of a file matches."""
        identities = [identity(raw) for raw in raw_cases]
        labels = [text for text in (label(*pair) for pair in identities) if text is not None]
        hint = "add cases to KINSPECT_CASES"
        if labels:
            hint = f"there is {listed(labels)}: {choosing(file, home, self.patterns, labels)}"
        with_cases = {kernel for kernel, _ in identities}
        for kernel, qualname in self._qualnames.items():
            if kernel not in with_cases and matches(self.patterns, (kernel, qualname)):
                return f"kernel {kernel!r} has no case in KINSPECT_CASES", hint
        choices = [
            *self._qualnames,
            *(name for pair in identities for name in pair if name),
            *labels,
        ]
        patterns_text = " and ".join(map(repr, self.patterns))
        is_single = len(self.patterns) == 1
        suggestion = did_you_mean(self.patterns, dict.fromkeys(choices)) if is_single else ""
        return f"no kernel or case matches {patterns_text}{suggestion}", hint


def not_for(cases: Sequence[Case], archs: Sequence[str]) -> tuple[str, str]:
    """Message and hint where all selected cases are for other targets."""
    requested = ", ".join(archs)
    hint = "name one of those with --arch, or widen the case's 'archs'"
    targets = [(case.name, ", ".join(case.archs or ()) or "no target at all") for case in cases]
    if len(targets) == 1:
        return f"case {targets[0][0]!r} is only for {targets[0][1]}, not {requested}", hint
    texts = [f"{name!r} is only for {archs_text}" for name, archs_text in targets]
    return f"no case is for {requested}: {listed(texts, '; ')}", hint


def identity(raw: Any) -> tuple[str | None, str | None]:
    """Kernel and name of an entry of `KINSPECT_CASES`, as far as it states them."""
    if not isinstance(raw, dict):
        return None, None
    kernel, name = raw.get("kernel"), raw.get("name")
    return (
        kernel if isinstance(kernel, str) and kernel else None,
        name if isinstance(name, str) and name else None,
    )


def label(kernel: str | None, case: str | None) -> str | None:
    """The label of a case: `kernel[case]`, or the part of it that is known."""
    return f"{kernel}[{case}]" if kernel and case else kernel or case


def listed(texts: Iterable[str], separator: str = ", ") -> str:
    """The first texts, without repetitions, and an ellipsis if there are more."""
    texts = list(dict.fromkeys(texts))
    ellipsis = ["…"] if len(texts) > _MAX_LISTED else []
    return separator.join([*texts[:_MAX_LISTED], *ellipsis])
