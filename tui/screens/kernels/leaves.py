"""The leaves of the kernels' table: the session's kernels and failures, each with its figures."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from ....inspector.model import ErrorRecord
from ...session import Session, SessionKernel
from .columns import COLUMNS, Value

_UNITS = {"num_warps": "w", "num_stages": "s"}
"""Settings whose value is followed by a letter in place of their name."""


class Leaf(Struct, frozen=True):
    """One kernel or one failure, with everything that rows, filters and sorting need.

    Attributes:
        entry: the kernel; None for a failure.
        error: the failure; None for a kernel.
        values: column -> figure.
        before: the kernel in the previous run; None if there is none to compare with.
        former: column -> figure in the previous run.
        text: the lower-case text that a filter's words are searched in.
        stale: whether it stems from the previous run and the present one has not replaced it yet.
        left_over: whether the present run has ended without replacing it.
        removed: the name of its file if that was removed; "" otherwise.
    """

    key: str
    entry: SessionKernel | None
    error: ErrorRecord | None
    values: Mapping[str, Value]
    before: SessionKernel | None
    former: Mapping[str, Value]
    text: str
    arch: str
    case: str
    stale: bool = False
    left_over: bool = False
    removed: str = ""

    @property
    def changed(self) -> bool:
        """Whether a figure differs from the previous run's."""
        return self.before is not None and self.former != self.values


class Leaves:
    """Makes the leaves of a session, and reuses those whose report has not changed."""

    def __init__(self) -> None:
        self._cache: dict[str, Leaf] = {}

    def of(self, session: Session) -> list[Leaf]:
        """The leaves of a session: kernels in the order of the targets, then failures."""
        leaves = [self._leaf(entry, session) for entry in session.ordered()]
        self._cache = {leaf.key: leaf for leaf in leaves}
        leaves += [_failure(f"!{n}", error) for n, error in enumerate(session.errors)]
        return leaves

    def _leaf(self, entry: SessionKernel, session: Session) -> Leaf:
        """The leaf of a kernel: the cached one, updated where the session has changed around it."""
        key = entry.key
        cached = self._cache.get(key)
        former_entry, stale = session.before(entry), key in session.stale
        left_over, removed_file = session.left_over(key), session.removed_file(entry)
        removed = removed_file.name if removed_file is not None else ""
        if cached is None or cached.entry is None or cached.entry.report is not entry.report:
            return Leaf(
                key=key,
                entry=entry,
                error=None,
                values=figures(entry),
                before=former_entry,
                former=figures(former_entry) if former_entry is not None else {},
                text=_searched(entry),
                arch=entry.report.arch or "unknown target",
                case=short_case(entry.case),
                stale=stale,
                left_over=left_over,
                removed=removed,
            )
        age = (stale, left_over, removed)
        same_age = (cached.stale, cached.left_over, cached.removed) == age
        if cached.before is former_entry and same_age and cached.entry is entry:
            return cached
        former = figures(former_entry) if former_entry is not None else {}
        return replace(
            cached,
            entry=entry,
            before=former_entry,
            former=former,
            stale=stale,
            left_over=left_over,
            removed=removed,
        )


def _failure(key: str, error: ErrorRecord) -> Leaf:
    """The leaf of a failure, whose kernel reads `name[case] on arch`."""
    name, _, arch = (error.kernel or "").partition(" on ")
    case = name.partition("[")[2].removesuffix("]") or name
    parts = (error.file, error.kernel, error.stage, error.message, "failed")
    text = " ".join(part for part in parts if part).lower()
    return Leaf(
        key=key,
        entry=None,
        error=error,
        values={},
        before=None,
        former={},
        text=text,
        arch=arch or "unknown target",
        case=short_case(case),
    )


def figures(entry: SessionKernel) -> dict[str, Value]:
    """Column -> a kernel's figure in it."""
    return {name: column.read(entry) for name, column in COLUMNS.items()}


def _searched(entry: SessionKernel) -> str:
    """The lower-case text that filters search: names, configuration, rules of findings."""
    report, variant = entry.report, entry.report.variant
    parts = [report.name, entry.path, report.arch or "", entry.case]
    if variant is not None:
        parts.append(variant.qualname or "")
        parts += [f"{k}={v}" for k, v in variant.constexprs.items()]
        parts += [f"{k}={v}" for k, v in variant.options.items()]
    parts += [finding.rule for finding in report.findings]
    return " ".join(parts).lower()


def short_case(case: str) -> str:
    """An abbreviated case, `BM=64 BN=128 8w 2s`; the strip below the table shows it in full."""
    parts = []
    for part in case.split(", "):
        name, equals, value = part.partition("=")
        parts.append(f"{value}{_UNITS[name]}" if equals and name in _UNITS else part)
    return " ".join(parts)
