"""The rules whose findings are tried, and by which changed kernels are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

from msgspec.structs import replace

from ...base.errors import KinspectError
from ...lint.catalogue import nearest
from ...lint.former import FORMER, what_became_of
from ...lint.rule import Pack, Rule
from ...lint.schema import bundled_packs, load_packs
from ...lint.selection import Words
from ...pipeline.analysis import catalogue, default_pack


@cache
def bundled_rules() -> Mapping[str, Rule]:
    """Id -> rule of any bundled pack: those that `try --for` takes."""
    rules: dict[str, Rule] = {}
    for bundled in load_packs(bundled_packs(), catalogue()):
        for rule in bundled.rules:
            rules.setdefault(rule.text.id, rule)
    return MappingProxyType(rules)


def judging_pack(words: Sequence[str]) -> tuple[Pack, frozenset[str] | None]:
    """The default rules with those that the user names, of any pack, preview rules too.

    Returns:
        The pack, and the ids of the rules that were named; None where none were: all are tried.

    Raises:
        KinspectError: a word names no rule.
    """
    pack = default_pack()
    if not words:
        return pack, None
    rules = bundled_rules()
    known = Words(tuple(rules.values()), dict)
    ids: set[str] = set()
    for word in words:
        named = known.ids(FORMER.get(word) or word)
        if not named:
            raise KinspectError(
                what_became_of(word) or f"{word}: no such rule{nearest(word, rules)}",
                "`kinspect rules list --rules strict` has the ids, names and tags",
            )
        ids |= named
    own = {rule.text.id for rule in pack.rules}
    named_rules = tuple(rule for key, rule in rules.items() if key in ids and key not in own)
    return replace(pack, rules=(*pack.rules, *named_rules)), frozenset(ids)
