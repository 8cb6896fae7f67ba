"""`kinspect rules list|show|check|schema`: explains the rules, and checks packs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from ..base.errors import KinspectError
from ..base.streams import dump_json
from ..formats import rules as text
from ..lint.catalogue import Catalogue, nearest
from ..lint.former_rules import what_became_of
from ..lint.pack_yaml import PackError
from ..lint.packs import bundled_packs, load_named, load_pack, load_packs
from ..lint.rule import Pack
from ..pipeline.analysis import catalogue
from .declared import argument, command, option
from .group import ShowingGroup
from .options import OUTPUT, format_option, result_stream, write_form

RULES = option(
    "A pack by name or file; may be given again.  [all that ship with kinspect]",
    "--rules",
    metavar="PACK|FILE",
)


@click.group(cls=ShowingGroup)
def rules() -> None:
    """The rules that kernels are checked against."""


@command("list", group=rules)
def list_rules(
    packs: tuple[str, ...] = RULES,
    form: str = format_option("text", "json", "md"),
    output: Path | None = OUTPUT,
) -> None:
    """Every rule: id, name, severity, what it looks at, and what it is about."""
    listed = _listed(load_packs(packs or bundled_packs(), catalogue()))
    write_form(form, text.list_document(listed), text.list_fields(listed), output)


@command("show", group=rules)
def show_rule(
    rule: str = argument("ID|NAME"),
    packs: tuple[str, ...] = RULES,
    form: str = format_option("text", "json", "md"),
    output: Path | None = OUTPUT,
) -> None:
    """One rule in full: its conditions, what it reads, why it matters, what to change."""
    names = catalogue()
    became = what_became_of(rule)
    if became is not None:
        with result_stream(output) as stream:
            stream.write(f"{became}\n")
        return
    listed = _named(rule, _listed(load_packs(packs or bundled_packs(), names)))
    write_form(form, text.document(listed, names), text.fields(listed, names), output)


@command("check", group=rules)
def check_rules(
    files: tuple[str, ...] = argument("FILE...", nargs=-1, required=True),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
) -> int:
    """Check your own packs: every mistake, with file:line:column.

    Exit status: 0 no faults, 2 faults.
    """
    names = catalogue()
    checked_packs = [_checked(file, names) for file in dict.fromkeys(files)]
    with result_stream(output) as stream:
        (text.write_checked_json if form == "json" else text.write_checked)(checked_packs, stream)
    return 0 if all(checked.sound for checked in checked_packs) else 2


@command("schema", group=rules)
def print_schema(
    output: Path | None = OUTPUT,
) -> None:
    """The JSON Schema of a pack, for editors.

    With `# yaml-language-server: $schema=FILE` as its first line, a pack is completed and checked
    as it is written. Which metrics exist only `kinspect rules check` knows.
    """
    from ..lint.packschema import pack_schema

    with result_stream(output) as stream:
        dump_json(pack_schema(), stream)


def _listed(packs: Sequence[Pack]) -> list[text.ListedRule]:
    """Returns each rule once, as its own pack states it, with its severity in each pack."""
    by_origin: dict[tuple[str, str, int], text.ListedRule] = {}
    for pack in packs:
        for rule in pack.rules:
            key = (rule.text.id, rule.file, rule.line)
            earlier = by_origin.get(key)
            severities = {**(earlier.packs if earlier else {}), pack.name: rule.text.severity}
            original = earlier.rule if earlier is not None and rule.file != pack.file else rule
            by_origin[key] = text.ListedRule(original, severities)
    return list(by_origin.values())


def _named(word: str, candidates: Sequence[text.ListedRule]) -> text.ListedRule:
    for listed in candidates:
        if word.lower() in (listed.rule.text.id.lower(), listed.rule.text.name.lower()):
            return listed
    words = [w for listed in candidates for w in (listed.rule.text.id, listed.rule.text.name)]
    # Ids are in capitals, names in small letters; the user may have typed either.
    hint = nearest(word, words) or nearest(word.upper(), words)
    raise KinspectError(
        f"no rule {word}{hint}", "see `kinspect rules list`, or name your own pack with --rules"
    )


def _checked(file: str, names: Catalogue) -> text.CheckedPack:
    try:
        # A file has precedence over a bundled pack of the same name.
        is_file = os.path.isfile(file)
        pack = load_pack(Path(file), names) if is_file else load_named(file, names)
    except PackError as error:
        return text.CheckedPack(file, None, error.faults)
    except KinspectError as error:
        return text.CheckedPack(file, None, (), error.message)
    return text.CheckedPack(file, pack)
