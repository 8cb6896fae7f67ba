"""Writes rules as text, Markdown and JSON: a list, a rule in full, and the faults of packs."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TextIO

from msgspec import Struct, to_builtins

from ..base.streams import dump_json
from ..explain.table import Column, rows_of
from ..explain.view import plural
from ..lint.catalogue import Catalogue
from ..lint.document import Fault
from ..lint.rule import Pack, Rule, RuleText
from ..present.markdown import address, code, inline, table

WIDTH = 96
SUMMARY_WIDTH = 80

_LOOKS_AT: Mapping[str, str] = MappingProxyType(
    {
        "kernel": "each kernel as a whole",
        "loop": "each loop",
        "instruction": "each memory access",
        "wait": "each wait",
    }
)

_CODE = frozenset({"Only where", "Requires", "Else says"})
"""Titles of conditions that are written as code in Markdown."""


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


def write_list(rules: Sequence[ListedRule], stream: TextIO) -> None:
    """Writes one line per rule."""
    if not rules:
        stream.write("no rules\n")
        return
    stream.writelines(f"{line}\n" for line in rows_of(_COLUMNS, rules))


def write_list_md(rules: Sequence[ListedRule], stream: TextIO) -> None:
    """Writes the rules as a Markdown table."""
    titles = [column.title for column in _COLUMNS]
    rows = ([column.text(listed) for column in _COLUMNS] for listed in rules)
    stream.writelines(f"{line}\n" for line in table(titles, rows))


def write_list_json(rules: Sequence[ListedRule], stream: TextIO) -> None:
    """Writes the rules in full, as JSON."""
    dump_json({"rules": [_fields(listed) for listed in rules]}, stream)


def write_one(listed: ListedRule, catalogue: Catalogue, stream: TextIO) -> None:
    """Writes everything about a rule, as text."""
    text = listed.rule.text
    traits = ", ".join((text.severity, text.confidence, text.status))
    stream.write(f"{text.id}  {text.name}   {traits}\n")
    stream.write(f"{_origin(listed)}\n\n")
    for title, value in _conditions(listed.rule):
        stream.write(_hanging(title, value))
    names = _names(listed.rule, catalogue)
    if names:
        stream.write("\nReads\n")
        stream.writelines(f"  {line}\n" for line in rows_of(_NAMES, names)[1:])
    for title, prose in (("Why", text.explain), ("What to change", _advice(text))):
        if prose:
            filled = textwrap.fill(
                prose, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
            )
            stream.write(f"\n{title}\n{filled}\n")
    if text.references:
        stream.write("\nReferences\n")
        stream.writelines(f"  {r.title}\n    {r.url}\n" for r in text.references)


def write_one_md(listed: ListedRule, catalogue: Catalogue, stream: TextIO) -> None:
    """Writes everything about a rule, as Markdown."""
    text = listed.rule.text
    traits = ", ".join((text.severity, text.confidence, text.status))
    lines = [
        f"# {inline(f'{text.id} {text.name}')}",
        "",
        inline(f"{traits}. {_origin(listed)}"),
        "",
    ]
    for title, value in _conditions(listed.rule):
        lines.append(f"- {title}: {code(value) if title in _CODE else inline(value)}")
    names = _names(listed.rule, catalogue)
    if names:
        rows = ((code(name), unit, meaning) for name, unit, meaning in names)
        lines += ["", *table(("reads", "unit", "meaning"), rows)]
    for title, prose in (("Why", text.explain), ("What to change", _advice(text))):
        if prose:
            lines += ["", f"## {title}", "", *map(inline, prose.strip().splitlines())]
    if text.references:
        lines += ["", "## References", ""]
        lines += [f"- [{inline(r.title)}](<{address(r.url)}>)" for r in text.references]
    stream.write("\n".join(lines) + "\n")


def write_one_json(listed: ListedRule, catalogue: Catalogue, stream: TextIO) -> None:
    """Writes everything about a rule, as JSON."""
    reads = [
        {"name": name, "unit": unit, "description": meaning}
        for name, unit, meaning in _names(listed.rule, catalogue)
    ]
    dump_json({**_fields(listed), "reads": reads}, stream)


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
            "faults": [
                {"file": f.file, "line": f.line, "column": f.column, "message": f.message}
                for f in checked.faults
            ],
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


def _conditions(rule: Rule) -> list[tuple[str, str]]:
    text = rule.text
    conditions = [
        ("Cause", text.cause),
        ("Looks at", _LOOKS_AT[text.scope]),
        ("Only where", " ".join((text.when or "").split())),
        ("Requires", " ".join(text.require.split())),
        ("Else says", " ".join(text.message.split())),
        ("Cure takes", _removed(rule)),
        ("Tags", ", ".join(text.tags)),
    ]
    return [(title, value) for title, value in conditions if value]


def _removed(rule: Rule) -> str:
    """What the cure of a rule takes away, in words."""
    removes = rule.text.removes
    if removes is None or isinstance(removes, str):
        return removes or ""
    if removes.part is None:
        return removes.what
    return f"{removes.what}, of which {' '.join(str(removes.part).split())}"


def _names(rule: Rule, catalogue: Catalogue) -> list[tuple[str, str, str]]:
    """Returns the metrics that a rule reads: name, unit, meaning; those with fields once."""
    reads = {}
    for name in (*rule.names, *rule.fix.names):
        spec = catalogue.spec(name.metric)
        metric_name = name.name if name.field is None else name.name.removesuffix(f".{name.field}")
        reads[metric_name] = (
            metric_name,
            spec.unit if spec else "",
            spec.description if spec else "",
        )
    return list(reads.values())


def _fields(listed: ListedRule) -> dict[str, Any]:
    """Returns a rule as JSON values."""
    rule = listed.rule
    text = rule.text
    return {
        "id": text.id,
        "name": text.name,
        "cause": text.cause,
        "severity": text.severity,
        "confidence": text.confidence,
        "status": text.status,
        "scope": text.scope,
        "cured_together": text.cured_together,
        "when": text.when,
        "require": text.require,
        "message": text.message,
        "explain": text.explain,
        "fix": text.fix,
        "fix_tried": None if text.tried is None else to_builtins(text.tried),
        "removes": to_builtins(text.removes),
        "cures": to_builtins(text.cures),
        "prevents_launch": text.prevents_launch,
        "tags": list(text.tags),
        "references": [{"title": r.title, "url": r.url} for r in text.references],
        "pack": rule.pack,
        "file": rule.file,
        "line": rule.line,
        "packs": dict(listed.packs),
    }


def _summary(text: str) -> str:
    """Returns the first sentence, shortened if it is long."""
    words = " ".join(text.split())
    end = words.find(". ")
    return textwrap.shorten(words if end < 0 else words[:end], SUMMARY_WIDTH, placeholder=" …")


def _hanging(title: str, value: str) -> str:
    lead = f"{title:<12}"
    filled = textwrap.fill(
        value,
        WIDTH,
        initial_indent=lead,
        subsequent_indent=" " * len(lead),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return f"{filled}\n"


_COLUMNS = [
    Column("id", lambda listed: listed.rule.text.id),
    Column("name", lambda listed: listed.rule.text.name),
    Column("severity", lambda listed: listed.rule.text.severity),
    Column("scope", lambda listed: listed.rule.text.scope),
    Column("status", lambda listed: listed.rule.text.status),
    Column("confidence", lambda listed: listed.rule.text.confidence),
    Column("pack", lambda listed: listed.rule.pack),
    Column("what it is about", lambda listed: _summary(listed.rule.text.explain)),
]
_NAMES = [
    Column("name", lambda entry: entry[0]),
    Column("unit", lambda entry: entry[1]),
    Column("meaning", lambda entry: entry[2]),
]
