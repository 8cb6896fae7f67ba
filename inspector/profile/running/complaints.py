"""What a profiler's error text means, and what to do next."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import yaml
from msgspec import Struct
from msgspec.structs import replace

_NO_FAILURE = re.compile(r"^.*Opened result file:.*$", re.MULTILINE)
"""Logged as an error, and none."""


class Complaint(Struct, frozen=True):
    """What a profiler complained of.

    `fatal`: ends the pass. `profilers`: the failure is the profiler's, not the program's.
    """

    message: str
    hint: str
    fatal: bool = True
    profilers: bool = True


class _Rule(Struct, frozen=True):
    pattern: re.Pattern[str]
    complaint: Complaint


@cache
def _rules() -> tuple[_Rule, ...]:
    rows = yaml.safe_load(
        files(__package__).joinpath("complaints.yaml").read_text(encoding="utf-8")
    )
    return tuple(
        _Rule(
            re.compile(row["pattern"], re.MULTILINE),
            Complaint(
                row["message"],
                row["hint"],
                row.get("fatal", True),
                row.get("by", "profiler") == "profiler",
            ),
        )
        for row in rows
    )


def complaints(text: str) -> tuple[Complaint, ...]:
    """What is complained of in a program's or profiler's error output; of the fatal, the first."""
    text = _NO_FAILURE.sub("", text)
    complained: list[Complaint] = []
    for rule in _rules():
        match = rule.pattern.search(text)
        if match is None:
            continue
        complaint = rule.complaint
        if complaint.fatal and any(former.fatal for former in complained):
            continue  # what follows from the first
        detail = next((word for word in match.groupdict().values() if word), None)
        message = f"{complaint.message}: {detail}" if detail else complaint.message
        complained.append(replace(complaint, message=message))
    return tuple(complained)
