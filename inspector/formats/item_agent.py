"""What an id names for coding agents: as text, within a kernel's share of tokens."""

from __future__ import annotations

from typing import TextIO

from ..explain.items import NamedItem
from ..explain.view import plural
from ..lint.rule import RuleText
from ..model import Report
from ..present import text
from . import agent, item_text
from .agent_calls import SHELL, AgentCalls

_LEFT_OUT = 80
"""Bytes of the line on what is left out."""


def write(
    named: NamedItem,
    rule: RuleText | None,
    stream: TextIO,
    *,
    details: bool = False,
    calls: AgentCalls = SHELL,
) -> None:
    """Writes it; of a kernel its report in the agent format; `details`: all metrics of a loop."""
    if named.is_kernel:
        agent.write(Report("", {}, (named.kernel,), ()), stream, calls, whole=True)
        return
    document = item_text.document(named, rule, details=details, calls=calls)
    budget = agent.Budget()
    budget.left -= _LEFT_OUT
    lines = list(text.plain_lines(document))
    fitting = 0
    while fitting < len(lines) and (details or budget.takes([lines[fitting]])):
        fitting += 1
    left = len(lines) - fitting
    more = [f"  {plural(left, 'more line')}"] if left else []
    agent.write_lines([*lines[:fitting], *more], stream)
