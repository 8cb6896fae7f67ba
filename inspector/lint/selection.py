"""Selects the rules that a run applies, by the words of `--select`, `--ignore` and the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from ..base.errors import FaultsError
from .catalogue import nearest
from .former_rules import FORMER
from .ranking import SEVERITIES
from .rule import Pack, Rule

PREVIEW = "preview"
"""Stands for the rules that are not yet proved, as a tag would."""

Elsewhere = Callable[[], "dict[str, str]"]
"""Ids, names and tags of the rules of packs that are not asked -> the pack; called on the way to an
error alone."""


def union(packs: Sequence[Pack]) -> Pack:
    """Joins the rules of several packs in one pack; a rule that is in two of them is applied once.

    Where packs override it in different ways, the graver severity counts, whatever their order.

    Raises:
        KinspectError: two packs understand different things by one id.
    """
    if len(packs) == 1:
        return packs[0]
    rules: dict[str, Rule] = {}
    faults = []
    for pack in packs:
        for rule in pack.rules:
            first = rules.setdefault(rule.text.id, rule)
            if (first.file, first.line) == (rule.file, rule.line):
                rules[rule.text.id] = min(first, rule, key=_severity_rank)
            elif first.text != rule.text:
                faults.append(
                    f"{rule.text.id} is one rule in {first.file}:{first.line} and another in"
                    f" {rule.file}:{rule.line} (as {pack.name} has it)"
                )
    if faults:
        raise FaultsError(faults, "ask one of these packs, or rename the rule")
    name, file = "+".join(p.name for p in packs), " ".join(p.file for p in packs)
    return Pack(name, "; ".join(p.description for p in packs), tuple(rules.values()), file)


def _severity_rank(rule: Rule) -> int:
    return SEVERITIES.index(rule.text.severity)


class Words(Struct, frozen=True):
    """The words that may name rules: ids, names, prefixes of ids, tags.

    Args:
        besides: words that stand for something else than a pack's rules -> the id of that.
    """

    rules: tuple[Rule, ...]
    elsewhere: Elsewhere
    besides: Mapping[str, str] = field(default_factory=dict)

    def ids(self, word: str) -> frozenset[str]:
        """The rules that a word selects; none if it is unknown.

        An id or name is that rule alone, even where it begins another's id.
        """
        if word in self.besides:
            return frozenset({self.besides[word]})
        if exact := self.exact(word):
            return exact
        return frozenset(
            r.text.id
            for r in self.rules
            if word in r.text.tags
            or (word == PREVIEW and r.text.status == PREVIEW)
            or (word and r.text.id.startswith(word))
        )

    def exact(self, word: str) -> frozenset[str]:
        """The rules whose id or name it is; none if it is another word."""
        return frozenset(r.text.id for r in self.rules if word in (r.text.id, r.text.name))

    def all_of(self, words: Iterable[str]) -> frozenset[str]:
        return frozenset(id_ for word in words for id_ in self.ids(word))

    def fault(self, word: str, *, lenient: bool = False) -> str | None:
        """The fault of a word; None if it selects a rule.

        `lenient`: words of packs that are not asked are no fault.
        """
        if self.ids(word) or word in FORMER or (word == PREVIEW and lenient):
            return None
        elsewhere = self.elsewhere()
        if word in elsewhere:
            pack_name = elsewhere[word]
            text = f"{word} stands in the pack {pack_name}: add --rules {pack_name}"
            return None if lenient else text
        return f"no rule {word}{self._near(word)}"

    def fault_of_name(self, word: str) -> str | None:
        """Returns the fault of a word that must be one rule's id or name; None if it is."""
        if word in self.besides or word in FORMER or self.exact(word):
            return None
        if self.ids(word):
            return f"{word} is not a single rule: write ids or names"
        return None if word in self.elsewhere() else f"no rule {word}{self._near(word)}"

    def _near(self, word: str) -> str:
        own_words = [w for r in self.rules for w in (r.text.id, r.text.name, *r.text.tags)]
        return nearest(word, [*own_words, *self.besides, *self.elsewhere()])


def chosen(pack: Pack, words: Words, select: Sequence[str] | None, ignore: Sequence[str]) -> Pack:
    """The pack's rules that are selected (None: all) and not ignored.

    Preview rules are asked only where they are selected, by id, by name or by `preview`: what is
    not yet proved is not to fail a build unasked.
    """
    if select is None:
        chosen_ids = frozenset(r.text.id for r in pack.rules if r.text.status != PREVIEW)
    else:
        named = {w for w in select if w == PREVIEW or words.exact(w)}
        selected = words.all_of(select)
        chosen_ids = words.all_of(named) | {
            r.text.id for r in pack.rules if r.text.status != PREVIEW and r.text.id in selected
        }
    left_out = words.all_of(ignore)
    rules = tuple(r for r in pack.rules if r.text.id in chosen_ids and r.text.id not in left_out)
    return Pack(pack.name, pack.description, rules, pack.file)
