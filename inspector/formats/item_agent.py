"""What an id names for coding agents: as text, within a kernel's share of tokens."""

from __future__ import annotations

from collections.abc import Sequence
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
    shown: Sequence[str] = list(text.plain_lines(document))
    left = 0
    if not details:
        shown, left = agent.Budget().fitting(shown, _LEFT_OUT)
    more = [f"  {plural(left, 'more line')}"] if left else []
    agent.write_lines([*shown, *more], stream)
