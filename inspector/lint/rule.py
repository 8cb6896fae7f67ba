"""Rules and packs as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from ..model import Trials
from .catalogue import Scope
from .nodes import Expression, MetricName
from .template import Template


class Reference(Struct, frozen=True, kw_only=True):
    """A public document that a rule rests on."""

    title: str
    url: str


class RuleText(Struct, frozen=True, kw_only=True):
    """A rule as written: the keys of its YAML mapping, their types and defaults.

    A finding is made where `when` holds and `require` does not.

    Args:
        id: never reused: a rule that is withdrawn leaves a gap.
        name: the same for people, `words-joined-by-dashes`.
        severity: how much it matters if true.
        scope: what the rule looks at: the kernel as a whole, each loop, each memory access
            (instruction) or each wait.
        require: the condition that must hold.
        message: what is wrong, with figures in braces.
        confidence: how surely the static figures show it.
        when: the condition under which the rule applies; always without one.
        explain: why it matters, for a newcomer.
        fix: what to change; may hold figures in braces, as the message does.
        references: documents that the rule rests on.
        status: `preview` rules are not yet proved on real kernels.
        hot_only: only in the loops that do the kernel's work; not for scope kernel.
        tags: subjects, such as memory, registers, waits, matrix, launch, correctness.
        tried: what came of the fix on real kernels; all 0 where nobody tried it, left out where
            the author does not say.
        superseded_by: ids of rules that say the same fact better: where one of them finds
            something at the same place, this one is silent.
        prevents_launch: what it finds keeps the kernel from running at all; then only rules that
            do the same, and those tagged correctness, speak.
    """

    id: str
    name: str
    severity: Literal["error", "warning", "info"]
    scope: Scope
    require: str
    message: str
    confidence: Literal["certain", "likely", "possible"] = "certain"
    when: str | None = None
    explain: str = ""
    fix: str = ""
    references: tuple[Reference, ...] = ()
    status: Literal["preview", "stable"] = "stable"
    hot_only: bool = True
    tags: tuple[str, ...] = ()
    tried: Trials | None = None
    superseded_by: tuple[str, ...] = ()
    prevents_launch: bool = False


class Override(Struct, frozen=True, kw_only=True):
    """What a pack changes of a rule that it takes over from another.

    Args:
        severity: in place of the rule's own.
        confidence: in place of the rule's own.
        enabled: false leaves the rule out.
    """

    severity: Literal["error", "warning", "info"] | None = None
    confidence: Literal["certain", "likely", "possible"] | None = None
    enabled: bool = True


class PackText(Struct, frozen=True, kw_only=True):
    """A pack as written: the keys of its YAML mapping, their types and defaults.

    Args:
        pack: its name; that of the file without one.
        description: in one line.
        extends: packs whose rules come first: the name of one that ships with kinspect, or the
            path of a file, from this file's folder.
        override: id of one of their rules -> what changes of it.
        rules: the pack's own.
    """

    pack: str = ""
    description: str = ""
    extends: str | tuple[str, ...] = ()
    override: Mapping[str, Override] = field(default_factory=dict)
    rules: tuple[RuleText, ...] = ()


class Rule(Struct, frozen=True):
    """A rule ready to be applied.

    Args:
        text: as written, with what packs that extend its own override.
        when: the condition under which it applies.
        require: the condition that must hold.
        message: what is wrong.
        fix: what to change.
        line: where it stands in its file.
        file: the pack's file, as errors call it.
        pack: the pack's name.
    """

    text: RuleText
    when: Expression | None
    require: Expression
    message: Template
    fix: Template
    line: int
    file: str
    pack: str

    @property
    def names(self) -> tuple[MetricName, ...]:
        """The metrics that the rule judges by and tells, each once, the decisive ones first."""
        when = self.when.names if self.when else ()
        return tuple(dict.fromkeys((*self.require.names, *when, *self.message.names)))


class Pack(Struct, frozen=True):
    """The rules of one file, those of the packs that it extends first."""

    name: str
    description: str
    rules: tuple[Rule, ...]
    file: str
