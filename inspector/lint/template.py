"""Messages with figures in them: `{count.scratch_load} reloads`, `{count.valu / count.mfma}`.

Figures in double square brackets are left out, with the text between those, where one is unknown:
`the kernel spills[[, {spills.hot_slots} values in hot loops]]`. Brackets without a figure are text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from ..model import MetricValue
from .catalogue import Catalogue, Scope
from .expr import ExpressionError, compile_figure
from .nodes import Expression, MetricName, Values

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
