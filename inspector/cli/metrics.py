"""`kinspect metrics list`: lists the metrics of the catalogue."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter
from pathlib import Path

import click

from ..base.errors import KinspectError
from ..lint.catalogue import ENGINE_VALUES, nearest
from ..metrics.catalogue import specs
from ..model import MetricSpec
from ..present.document import Column, Columns, Section, paragraphs, table, words
from .declared import argument, command
from .options import OUTPUT, format_option, write_form

_ALONE = "without a group"


@click.group()
def metrics() -> None:
    """The metrics that a report may hold."""


@command("list", group=metrics)
def list_metrics(
    patterns: tuple[str, ...] = argument("[PATTERN]...", nargs=-1),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> None:
    """The names of all metrics, or what is known of some.

    PATTERN is part of a name, or a name with shell wildcards ('bound.*'; '*' for all). If no name
    matches, it is a metric with one of its fields (lds.conflicts.pad), or part of a meaning.  With
    it, unit, origin, scope and meaning are printed; JSON always has them.

    A `*` in a name stands for a mnemonic class (count.mfma) or a wait counter (waits.vmcnt). The
    list ends with names that only rules use, of a loop, access or wait (op.*, access.*, wait.*).
    """
    catalogue = (*specs(), *ENGINE_VALUES)
    chosen = _matching(catalogue, patterns) if patterns else catalogue
    fields = [{name: getattr(spec, name) for name in _FIELDS} for spec in chosen]
    document = (Section((table(_COLUMNS, fields),)),) if patterns else tuple(_names(chosen))
    write_form(form, document, {"metrics": fields}, output)


def _matching(catalogue: Sequence[MetricSpec], patterns: Sequence[str]) -> list[MetricSpec]:
    """The metrics that any of the patterns selects, in the order of the catalogue."""
    chosen: set[str] = set()
    for pattern in patterns:
        names = {spec.name for spec in catalogue if _is_named(spec.name, pattern)}
        names = names or {
            spec.name
            for spec in catalogue
            if pattern.startswith(f"{spec.name}.") or pattern.lower() in spec.description.lower()
        }
        if not names:
            raise KinspectError(
                f"no metric {pattern}{nearest(pattern, (spec.name for spec in catalogue))}",
                "`kinspect metrics list` has the names of all",
            )
        chosen |= names
    return [spec for spec in catalogue if spec.name in chosen]


def _is_named(name: str, pattern: str) -> bool:
    # A pattern of the catalogue, such as count.*, is selected by its members, too.
    return (
        pattern in name
        or fnmatchcase(name, pattern)
        or ("*" in name and fnmatchcase(pattern, name))
    )


def _names(catalogue: Sequence[MetricSpec]) -> Iterator[Section]:
    """The names by the group that is their first part, and how to go on."""
    groups: dict[str, list[str]] = {}
    for spec in catalogue:
        group, dot, _ = spec.name.partition(".")
        groups.setdefault(group if dot else _ALONE, []).append(spec.name)
    for group, names in sorted(groups.items()):
        title = words(f"{group} ({len(names)})", "strong")
        yield Section(paragraphs(("  ".join(names),)), title)
    hint = "`kinspect metrics list PATTERN` has unit, origin, scope and meaning; '*': of all"
    yield Section(paragraphs((hint,)))


_FIELDS = ("name", "unit", "origin", "scope", "description")
_COLUMNS: Columns = [
    (Column(name, shrinks=name == "description", rank=rank), itemgetter(name))
    for name, rank in zip(_FIELDS, (0, 0, 1, 2, 0), strict=True)
]
