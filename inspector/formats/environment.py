"""`kinspect env`: the table of facts, plans and what became of them, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, TextIO

from ..base.streams import dump_json
from ..explain.table import Column, rows_of
from ..host.env.changing import ChangeResult
from ..host.env.facts import MachineFact, MachineReport, Verdict
from ..host.env.knobs import GROUP
from ..host.env.settings import SettingChange, command

SCHEMA = 1
UNKNOWN = "–"
_WIDEST, _WIDEST_REMARK = 44, 100
"""Characters of a value and a remark; JSON has them whole."""


def write_check(report: MachineReport, stream: TextIO, every: bool) -> None:
    """The facts by group, and what to do.

    Args:
        report: the facts.
        stream: where to.
        every: variables that are not set and need not be as well.
    """
    for group, facts in groupby(report.facts, key=lambda fact: fact.group):
        listed = [f for f in facts if every or not _is_silent(f)]
        if listed:
            stream.write(f"{group}\n")
            stream.writelines(f"  {line}\n" for line in rows_of(_COLUMNS, listed)[1:])
            stream.write("\n")
    worth = report.worth_changing
    if not worth:
        stream.write("nothing is worth changing\n")
        return
    stream.write(f"{len(worth)} worth changing\n")
    for fact in worth:
        stream.write(f"  {fact.name}: {fact.advice}\n")
        if fact.source:
            stream.write(f"    {fact.source}\n")
    if any(fact.settable for fact in worth):
        stream.write("`kinspect env set` shows the changes, `kinspect env set --yes` makes them\n")


def write_check_json(report: MachineReport, stream: TextIO) -> None:
    """Writes all facts as JSON; an unknown value is null."""
    value = {
        "schema": SCHEMA,
        "kind": "environment",
        "worth_changing": [f.name for f in report.worth_changing],
        "gpus": [{"node": g.node, "arch": g.arch, "name": g.name or None} for g in report.gpus],
        "facts": [_fact_value(f) for f in report.facts],
    }
    dump_json(value, stream)


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
    value = {
        "schema": SCHEMA,
        "kind": "environment_changes",
        "changes": [
            {
                **_change_value(result.change),
                "outcome": result.outcome.value,
                "said": result.next_step or None,
            }
            for result in results
        ],
    }
    dump_json(value, stream)


def shell_lines(changes: Sequence[SettingChange], *, back: bool) -> Iterator[str]:
    """Lines for `eval`, of the variables alone."""
    for change in changes:
        if change.is_variable:
            yield command(change, change.before if back else change.after)


def _is_silent(fact: MachineFact) -> bool:
    """A variable that is not set and need not be."""
    offered = fact.expected != "" and fact.verdict in (Verdict.CHOICE, Verdict.ABSENT)
    fine = fact.verdict is Verdict.GOOD and fact.expected in ("", "unset")
    return fact.group == GROUP and fact.value is None and (offered or fine)


def _short(text: str | None, width: int = _WIDEST) -> str:
    if text is None:
        return UNKNOWN
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _remark(fact: MachineFact) -> str:
    if fact.verdict is Verdict.CHANGE:
        return f"should be {fact.expected}" if fact.expected else ""
    if fact.verdict is Verdict.GOOD:
        return ""
    return _short(fact.advice, _WIDEST_REMARK)


def _value_text(value: str | None) -> str:
    return "unset" if value is None else value


def _fact_value(fact: MachineFact) -> dict[str, Any]:
    return {
        "group": fact.group,
        "name": fact.name,
        "value": fact.value,
        "expected": fact.expected or None,
        "verdict": fact.verdict.value,
        "advice": fact.advice or None,
        "source": fact.source or None,
        "settable": fact.settable,
    }


def _change_value(change: SettingChange) -> dict[str, str | None]:
    return {
        "name": change.name,
        "target": change.target,
        "before": change.before,
        "after": change.after,
    }


_COLUMNS = [
    Column("", lambda fact: fact.name),
    Column("", lambda fact: _short(fact.value)),
    Column("", lambda fact: fact.verdict.value),
    Column("", _remark),
]
