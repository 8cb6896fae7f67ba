"""The facts of an operation's result by those of its operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...model import TtgirOp
from . import pointwise_rules, shape_rules
from .constants import fold
from .facts import AxisFacts, no_facts, of_constant, with_shared_divisor
from .pointwise_rules import Rule

HINTS = ("tt.contiguity", "tt.divisibility", "tt.constancy")
"""Attributes that state facts, in the order of the fields of `AxisFacts`."""

RULES: Mapping[str, Rule] = {**pointwise_rules.RULES, **shape_rules.RULES}


def facts_after(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts:
    """The facts of an operation's first result.

    Args:
        op: the operation, with its hints.
        operands: the facts of its operands, in order.
    """
    shape = op.result_types[0].shape
    constant = fold(op, operands)
    facts = _by_rule(op, operands) if constant is None else of_constant(constant, shape)
    if facts is None or len(facts.contiguity) != max(1, len(shape)):
        facts = no_facts(len(shape))
    if any(name in op.attributes for name in HINTS):
        facts = _hinted(op, facts)
    return facts


def _by_rule(op: TtgirOp, operands: Sequence[AxisFacts]) -> AxisFacts | None:
    """The facts by the operation's rule; None without one, or where operands do not fit."""
    rule = RULES.get(op.name)
    if rule is None:
        return None
    try:
        return rule(op, operands)
    except (IndexError, ValueError):
        return None  # operands of different ranks, e.g. of an edited file


def _hinted(op: TtgirOp, facts: AxisFacts) -> AxisFacts:
    """Facts with those that an operation's hints state in their place."""
    rank = len(facts.contiguity)
    derived = (facts.contiguity, facts.divisibility, facts.constancy)
    contiguity, divisibility, constancy = (
        _hint(op.attributes.get(name), values, rank)
        for name, values in zip(HINTS, derived, strict=True)
    )
    return with_shared_divisor(contiguity, divisibility, constancy, facts.constant)


def _hint(hint: object, derived: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """A hint's number for each dimension: one for all or one each; else what was derived."""
    if isinstance(hint, int) and hint > 0:
        return (hint,) * rank
    if isinstance(hint, tuple) and len(hint) == rank:
        return tuple(n if isinstance(n, int) and n > 0 else 1 for n in hint)
    return derived
