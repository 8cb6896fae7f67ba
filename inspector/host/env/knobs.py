"""Environment variables that matter to tuning: what the guides recommend, and how they are set.

`knobs.yaml` lists the variables; its head explains the kinds (want, choice, off, code).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from ...base.documents import yaml_loader
from ...base.errors import KinspectError
from .host import MachineFact, Verdict

GROUP = "environment variables"
_FILE = Path(__file__).parent / "knobs.yaml"
_KINDS = ("want", "choice", "off", "code")
_OFF_VALUES = ("", "0", "off", "false", "no")


class Knob(Struct, frozen=True):
    """One variable, as the file describes it."""

    name: str  # of the variable
    kind: str  # `want`, `choice`, `off` or `code`
    value: str | None  # what the guides set it to; None for `off` and `code`
    gpu: bool  # whether it matters only on a machine with an AMD GPU
    why: str  # what it does, in one line
    source: str  # the guide, with its address


@lru_cache(maxsize=1)
def knobs() -> tuple[Knob, ...]:
    """Reads the variables of the file.

    Raises:
        KinspectError: the file is faulty; the message names the entry.
    """
    document = _document()
    return tuple(_knob(entry, document["sources"]) for entry in document["variables"])


def source(name: str) -> str:
    """Returns the guide that the file lists under a name, with its address."""
    return str(_document()["sources"][name])


def judge(environ: Mapping[str, str], has_gpu: bool) -> Iterator[MachineFact]:
    """Yields a fact per variable: how it is set in an environment, and what to do about it."""
    for knob in knobs():
        yield _JUDGES[knob.kind](knob, environ.get(knob.name), has_gpu)


def is_on(value: str | None) -> bool:
    """Tells whether a switch is set to anything but off."""
    return value is not None and value.strip().lower() not in _OFF_VALUES


@lru_cache(maxsize=1)
def _document() -> dict[str, Any]:
    document: dict[str, Any] = yaml.load(_FILE.read_text(encoding="utf-8"), Loader=yaml_loader())
    return document


def _knob(entry: Mapping[str, Any], sources: Mapping[str, str]) -> Knob:
    """Checks an entry of the file and returns its variable."""
    name, kind = entry.get("name"), entry.get("kind")
    if not name or kind not in _KINDS or entry.get("from") not in sources:
        raise KinspectError(
            f"{_FILE.name}: {name or entry}: needs a name, a kind of {', '.join(_KINDS)} and a"
            " source that is listed",
            "mend the entry",
        )
    if (kind in ("want", "choice")) != ("value" in entry):
        raise KinspectError(f"{_FILE.name}: {name}: `value` goes with want and choice alone")
    return Knob(
        name=name,
        kind=kind,
        value=entry.get("value"),
        gpu=bool(entry.get("gpu")),
        why=entry["why"],
        source=sources[entry["from"]],
    )


def _fact(
    knob: Knob,
    value: str | None,
    verdict: Verdict,
    *,
    expected: str,
    advice: str,
    settable: bool = True,
) -> MachineFact:
    return MachineFact(
        group=GROUP,
        name=knob.name,
        value=value,
        verdict=verdict,
        expected=expected,
        advice=advice,
        source=knob.source,
        settable=settable,
    )


def _judge_wanted(knob: Knob, value: str | None, has_gpu: bool) -> MachineFact:
    expected, advice = str(knob.value), knob.why
    if value == knob.value:
        verdict = Verdict.GOOD
    else:
        verdict = Verdict.CHANGE if has_gpu or not knob.gpu else Verdict.ABSENT
        advice = f"export {knob.name}={knob.value}: {knob.why}"
    return _fact(knob, value, verdict, expected=expected, advice=advice)


def _judge_choice(knob: Knob, value: str | None, has_gpu: bool) -> MachineFact:
    if value == knob.value:
        verdict = Verdict.GOOD
    elif has_gpu or not knob.gpu or value is not None:
        verdict = Verdict.CHOICE
    else:
        verdict = Verdict.ABSENT
    return _fact(knob, value, verdict, expected=f"{knob.value}, if it fits", advice=knob.why)


def _judge_off(knob: Knob, value: str | None, has_gpu: bool) -> MachineFact:
    if not is_on(value):
        return _fact(knob, value, Verdict.GOOD, expected="unset", advice="")
    advice = f"unset {knob.name} to measure: {knob.why}"
    return _fact(knob, value, Verdict.CHANGE, expected="unset", advice=advice)


def _judge_code(knob: Knob, value: str | None, has_gpu: bool) -> MachineFact:
    if value is None:
        return _fact(knob, value, Verdict.GOOD, expected="", advice="", settable=False)
    return _fact(knob, value, Verdict.CHOICE, expected="", advice=knob.why, settable=False)


_JUDGES = {"want": _judge_wanted, "choice": _judge_choice, "off": _judge_off, "code": _judge_code}
