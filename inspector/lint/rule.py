"""Rules and packs as values, and messages with figures in them.

A message: `{count.scratch_load} reloads`, `{count.valu / count.mfma}`. Figures in double square
brackets are left out, with the text between those, where one is unknown: `the kernel spills[[,
{spills.hot_slots} values in hot loops]]`. Brackets without a figure are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from ..model import MetricValue, Trials
from .catalogue import Catalogue, Scope
from .expr import ExpressionError, compile_figure
from .nodes import Expression, MetricName, Values

# --------------------------------------------------------------------------- messages

_BRACED = re.compile(r"\{([^{}]*)\}")
_OPTIONAL = re.compile(r"\[\[([^\[\]]*\{[^\[\]]*)\]\]")


class Template(Struct, frozen=True):
    """Text and figures in turn; a template among them is left out where a figure is unknown."""

    parts: tuple[str | Expression | Template, ...]

    @property
    def names(self) -> tuple[MetricName, ...]:
        return tuple(r for p in self.parts if not isinstance(p, str) for r in p.names)

    def render(self, values: Values) -> str:
        return "".join(_rendered(part, values) for part in self.parts)

    def is_known(self, values: Values) -> bool:
        """Whether every figure in it is."""
        figures = (part for part in self.parts if isinstance(part, Expression))
        return all(figure.evaluate(values) is not None for figure in figures)


def _rendered(part: str | Expression | Template, values: Values) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, Template):
        return part.render(values) if part.is_known(values) else ""
    return show(part.evaluate(values))


def compile_template(text: str, catalogue: Catalogue, scope: Scope) -> Template:
    """Checks a message or fix and the metrics it names.

    Raises:
        ExpressionError: a brace stands alone, or what stands between two is no valid figure.
    """
    parts: list[str | Expression | Template] = []
    at = 0
    for match in _OPTIONAL.finditer(text):
        parts += _figures(text, at, match.start(), catalogue, scope)
        inner = _figures(text, match.start(1), match.end(1), catalogue, scope)
        parts.append(Template(tuple(inner)))
        at = match.end()
    parts += _figures(text, at, len(text), catalogue, scope)
    return Template(tuple(parts))


def _figures(
    text: str, start: int, stop: int, catalogue: Catalogue, scope: Scope
) -> list[str | Expression | Template]:
    """Text and figures of a part of the text."""
    parts: list[str | Expression | Template] = []
    at = start
    for match in _BRACED.finditer(text, start, stop):
        parts.append(_plain(text, at, match.start()))
        try:
            parts.append(compile_figure(match[1], catalogue, scope, shown=True))
        except ExpressionError as error:
            raise ExpressionError(error.message, match.start(1) + error.offset) from None
        at = match.end()
    parts.append(_plain(text, at, stop))
    return [part for part in parts if part != ""]


def _plain(text: str, start: int, stop: int) -> str:
    stray = re.search(r"[{}]", text[start:stop])
    if stray:
        raise ExpressionError("a brace without its partner", start + stray.start())
    return text[start:stop]


def show(value: MetricValue) -> str:
    """A value as people read it: thousands separated, about three significant digits."""
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {show(item)}" for key, item in value.items())
    if isinstance(value, str):
        return value
    if isinstance(value, int) or value.is_integer():
        return f"{int(value):,}"
    decimals = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{decimals}f}"


# --------------------------------------------------------------------------- rules


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
