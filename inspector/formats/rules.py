"""Rules as documents and as JSON: a list, a rule in full, and the faults of packs."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TextIO

from msgspec import Struct

from ..base.streams import dump_json
from ..explain.view import plural
from ..lint.catalogue import Catalogue
from ..lint.pack_yaml import Fault
from ..lint.rule import Pack, Rule, RuleText
from ..present.document import (
    Column,
    Columns,
    Document,
    Figure,
    Figures,
    Paragraph,
    Section,
    Span,
    Table,
    Text,
    plain,
    table,
    words,
)
from .lint_json import rule_fields

SUMMARY_WIDTH = 80

_LOOKS_AT: Mapping[str, str] = MappingProxyType(
    {
        "kernel": "each kernel as a whole",
        "loop": "each loop",
        "instruction": "each memory access",
        "wait": "each wait",
    }
)


class ListedRule(Struct, frozen=True):
    """A rule as its own pack states it, and its severity in each pack."""

    rule: Rule
    packs: Mapping[str, str]

    @property
    def elsewhere(self) -> dict[str, str]:
        """The other packs that have the rule, with their severities."""
        return {name: s for name, s in self.packs.items() if name != self.rule.pack}


class CheckedPack(Struct, frozen=True):
    """A pack's file after checking: the pack, or its faults."""

    file: str
    pack: Pack | None
    faults: tuple[Fault, ...] = ()
    unreadable: str | None = None

    @property
    def sound(self) -> bool:
        return self.pack is not None


def list_document(rules: Sequence[ListedRule]) -> Document:
    """A line for each rule."""
    columns: Columns = (
        ("id", lambda listed: listed.rule.text.id),
        ("name", lambda listed: listed.rule.text.name),
        ("severity", lambda listed: listed.rule.text.severity),
        (Column("scope", rank=2), lambda listed: listed.rule.text.scope),
        (Column("status", rank=3), lambda listed: listed.rule.text.status),
        (Column("confidence", rank=4), lambda listed: listed.rule.text.confidence),
        (Column("pack", rank=1), lambda listed: listed.rule.pack),
        (Column("about", shrinks=True), lambda listed: _summary(listed.rule.text.explain)),
    )
    return (Section((table(columns, rules) if rules else Paragraph(words("no rules")),)),)


def list_fields(rules: Sequence[ListedRule]) -> dict[str, Any]:
    """The rules in full, as JSON values."""
    return {"rules": [_fields(listed) for listed in rules]}


def document(listed: ListedRule, catalogue: Catalogue) -> Document:
    """Everything about a rule."""
    text = listed.rule.text
    title = (
        Span(f"{text.id} {text.name}", "strong"),
        Span(f"  {text.severity}, {text.confidence}, {text.status}"),
    )
    conditions = Figures(tuple(Figure(*each) for each in _conditions(listed.rule)))
    reads = Table((Column("reads"), Column("unit"), Column("meaning")), _names(listed, catalogue))
    parts = (
        ("why", [words(text.explain)]),
        ("what to change", [words(_advice(text))]),
        ("references", [(Span(each.title, url=each.url),) for each in text.references]),
    )
    return (
        Section((Paragraph(words(_origin(listed))), conditions), title, is_subject=True),
        *([Section((reads,))] if reads.rows else []),
        *(
            Section(tuple(map(Paragraph, prose)), words(title, "strong"))
            for title, prose in parts
            if any(map(plain, prose))
        ),
    )


def fields(listed: ListedRule, catalogue: Catalogue) -> dict[str, Any]:
    """Everything about a rule, as JSON values."""
    names = ("name", "unit", "description")
    reads = [dict(zip(names, read, strict=True)) for read in _names(listed, catalogue)]
    return {**_fields(listed), "reads": reads}


def write_checked(files: Sequence[CheckedPack], stream: TextIO) -> None:
    """Writes each fault on a line, and for each sound file how many rules it has."""
    for checked in files:
        stream.writelines(f"{fault}\n" for fault in checked.faults)
        if checked.unreadable is not None:
            stream.write(f"{checked.unreadable}\n")
        if checked.pack is not None:
            stream.write(f"{checked.file}: {_rule_count(checked.pack)}, no faults\n")
    failed = [checked for checked in files if not checked.sound]
    if failed:
        count = sum(len(c.faults) + (c.unreadable is not None) for c in failed)
        stream.write(f"{plural(count, 'fault')} in {len(failed)} of {plural(len(files), 'file')}\n")


def write_checked_json(files: Sequence[CheckedPack], stream: TextIO) -> None:
    """Writes the faults of packs, as JSON."""
    results = [
        {
            "file": checked.file,
            "rules": None if checked.pack is None else len(checked.pack.rules),
            "error": checked.unreadable,
            "faults": checked.faults,
        }
        for checked in files
    ]
    dump_json({"files": results}, stream)


def _advice(text: RuleText) -> str:
    """Returns the fix, with the results of trying it on real kernels."""
    trials = text.tried
    if not text.fix or trials is None:
        return text.fix
    if not trials.count:
        return f"{text.fix.rstrip()} (Not tried on real kernels yet.)"
    outcome = f"helped {trials.helped}, did nothing for {trials.nothing}, made {trials.worse} worse"
    return f"{text.fix.rstrip()} (Tried on {plural(trials.count, 'kernel')}: {outcome}.)"


def _origin(listed: ListedRule) -> str:
    rule = listed.rule
    other_packs = ", ".join(
        name if severity == rule.text.severity else f"{name} (as {severity})"
        for name, severity in listed.elsewhere.items()
    )
    return f"pack {rule.pack} ({rule.file}:{rule.line})" + (
        f", also in {other_packs}" if other_packs else ""
    )


def _rule_count(pack: Pack) -> str:
    own_rules = sum(rule.file == pack.file for rule in pack.rules)
    taken_over = len(pack.rules) - own_rules
    return plural(own_rules, "rule") + (f" and {taken_over} taken over" if taken_over else "")


def _conditions(rule: Rule) -> Iterator[tuple[str, Text]]:
    text = rule.text
    for title, value in (
        ("cause", text.cause),
        ("looks at", _LOOKS_AT[text.scope]),
        ("only where", text.when or ""),
        ("requires", text.require),
        ("else says", text.message),
        ("cure takes", _removed(rule)),
        ("tags", ", ".join(text.tags)),
    ):
        if value:
            yield title, words(value)


def _removed(rule: Rule) -> str:
    removes = rule.text.removes
    if removes is None or isinstance(removes, str):
        return removes or ""
    if removes.part is None:
        return removes.what
    return f"{removes.what}, of which {' '.join(str(removes.part).split())}"


def _names(listed: ListedRule, catalogue: Catalogue) -> tuple[tuple[str, str, str], ...]:
    """The metrics that a rule reads: name, unit, meaning; those with fields once."""
    reads = {}
    for name in (*listed.rule.names, *listed.rule.fix.names):
        spec = catalogue.spec(name.metric)
        metric = name.name if name.field is None else name.name.removesuffix(f".{name.field}")
        reads[metric] = (metric, spec.unit, spec.description) if spec else (metric, "", "")
    return tuple(reads.values())


def _fields(listed: ListedRule) -> dict[str, Any]:
    rule = listed.rule
    place = {"pack": rule.pack, "file": rule.file, "line": rule.line}
    return {**rule_fields(rule.text), **place, "packs": dict(listed.packs)}


def _summary(text: str) -> str:
    words = " ".join(text.split())
    end = words.find(". ")
    return textwrap.shorten(words if end < 0 else words[:end], SUMMARY_WIDTH, placeholder=" …")
