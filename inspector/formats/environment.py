"""`kinspect env`: the table of facts, plans and what became of them, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TextIO

from msgspec import to_builtins

from ..base.streams import dump_json
from ..host.env.changing import ChangeResult
from ..host.env.host import MachineFact, MachineReport, Verdict
from ..host.env.knobs import GROUP
from ..host.env.settings import SettingChange, command
from ..present.document import Column, Columns, Document, Listing, Section, paragraphs, table, words

SCHEMA = 1
UNKNOWN = "–"


def check_document(report: MachineReport, every: bool) -> Document:
    """The facts by group, and what to do; `every`: also variables that need not be set."""
    columns: Columns = (
        ("", lambda fact: fact.name),
        (Column("", shrinks=True), lambda fact: UNKNOWN if fact.value is None else fact.value),
        ("", lambda fact: fact.verdict.value),
        (Column("", shrinks=True), _remark),
    )
    sections = [
        Section((table(columns, listed),), words(group, "strong"))
        for group, facts in groupby(report.facts, key=lambda fact: fact.group)
        if (listed := [fact for fact in facts if every or not _is_silent(fact)])
    ]
    worth = report.worth_changing
    advice = Listing(
        tuple(
            line
            for fact in worth
            for line in (f"{fact.name}: {fact.advice}", f"  {fact.source}")
            if line.strip()
        )
    )
    count = f"{len(worth)} worth changing" if worth else "nothing is worth changing"
    make = "`kinspect env set` shows the changes, `kinspect env set --yes` makes them"
    hint = paragraphs((make,)) if any(fact.settable for fact in worth) else ()
    return (*sections, Section((advice, *hint), words(count, "strong"), is_subject=True))


def check_fields(report: MachineReport) -> dict[str, Any]:
    """All facts as JSON values; an unknown value is null."""
    return {
        "schema": SCHEMA,
        "kind": "environment",
        "worth_changing": [f.name for f in report.worth_changing],
        "gpus": [{"node": g.node, "arch": g.arch, "name": g.name or None} for g in report.gpus],
        "facts": [_fact_value(f) for f in report.facts],
    }


def write_plan(changes: Sequence[SettingChange], stream: TextIO) -> None:
    """Writes what `env set` would do, a line per change."""
    for change in changes:
        stream.write(
            f"{change.name}: {_value_text(change.before)} -> {_value_text(change.after)}\n"
        )
        stream.write(f"  {command(change, change.after)}\n")


def write_results(results: Sequence[ChangeResult], stream: TextIO, *, back: bool) -> None:
    """Prints the results of changes, or of undoing them."""
    for result in results:
        change = result.change
        way = (change.after, change.before) if back else (change.before, change.after)
        remark = f": {result.next_step}" if result.next_step else ""
        stream.write(
            f"{change.name}: {_value_text(way[0])} -> {_value_text(way[1])}"
            f"  {result.outcome.value}{remark}\n"
        )


def write_results_json(results: Sequence[ChangeResult], stream: TextIO) -> None:
    """Writes the outcomes of changes, as JSON."""
    changes = [
        {**to_builtins(each.change), "outcome": each.outcome.value, "said": each.next_step or None}
        for each in results
    ]
    dump_json({"schema": SCHEMA, "kind": "environment_changes", "changes": changes}, stream)


def shell_lines(changes: Sequence[SettingChange], *, back: bool) -> Iterator[str]:
    """Lines for `eval`, of the variables alone."""
    for change in changes:
        if change.is_variable:
            yield command(change, change.before if back else change.after)


def _is_silent(fact: MachineFact) -> bool:
    offered = fact.expected != "" and fact.verdict in (Verdict.CHOICE, Verdict.ABSENT)
    fine = fact.verdict is Verdict.GOOD and fact.expected in ("", "unset")
    return fact.group == GROUP and fact.value is None and (offered or fine)


def _remark(fact: MachineFact) -> str:
    if fact.verdict is Verdict.CHANGE:
        return f"should be {fact.expected}" if fact.expected else ""
    if fact.verdict is Verdict.GOOD:
        return ""
    return fact.advice


def _value_text(value: str | None) -> str:
    return "unset" if value is None else value


def _fact_value(fact: MachineFact) -> dict[str, Any]:
    fields = to_builtins(fact)
    return {**fields, **{name: fields[name] or None for name in ("expected", "advice", "source")}}
