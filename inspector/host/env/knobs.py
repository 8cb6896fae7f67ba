"""Environment variables: what the guides say of them (`knobs.yaml`) and what they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

import yaml
from msgspec import Struct

from ...errors import KinspectError
from .facts import Fact, Verdict

GROUP = "environment variables"
_FILE = Path(__file__).parent / "knobs.yaml"
_KINDS = ("want", "choice", "off", "code")
_OFF = ("", "0", "off", "false", "no")


class Knob(Struct, frozen=True):
    """One variable, as the file states it."""

    name: str
    kind: str
    value: str | None
    gpu: bool
    why: str
    source: str


@lru_cache(maxsize=1)
def knobs() -> tuple[Knob, ...]:
    """All variables that are looked at.

    Raises:
        KinspectError: the file is faulty; the message names the entry.
    """
    document = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    sources = document["sources"]
    variables = []
    for entry in document["variables"]:
        name, kind = entry.get("name"), entry.get("kind")
        if not name or kind not in _KINDS or entry.get("from") not in sources:
            raise KinspectError(
                f"{_FILE.name}: {name or entry}: needs a name, a kind of {', '.join(_KINDS)} and a"
                " source that is listed",
                "mend the entry",
            )
        if (kind in ("want", "choice")) != ("value" in entry):
            raise KinspectError(f"{_FILE.name}: {name}: `value` goes with want and choice alone")
        variables.append(
            Knob(
                name,
                kind,
                entry.get("value"),
                bool(entry.get("gpu")),
                entry["why"],
                sources[entry["from"]],
            )
        )
    return tuple(variables)


def source(name: str) -> str:
    """A source by its name in the file."""
    document = yaml.safe_load(_FILE.read_text(encoding="utf-8"))
    return str(document["sources"][name])


def judge(environ: Mapping[str, str], has_gpu: bool) -> Iterator[Fact]:
    """A fact for each variable."""
    for knob in knobs():
        yield _JUDGES[knob.kind](knob, environ.get(knob.name), has_gpu)


def is_on(value: str | None) -> bool:
    """Whether a switch is set to anything but off."""
    return value is not None and value.strip().lower() not in _OFF


def _fact(
    knob: Knob, value: str | None, verdict: Verdict, expected: str, advice: str, settable: bool
) -> Fact:
    return Fact(GROUP, knob.name, value, verdict, expected, advice, knob.source, settable)


def _want(knob: Knob, value: str | None, has_gpu: bool) -> Fact:
    if value == knob.value:
        return _fact(knob, value, Verdict.GOOD, str(knob.value), knob.why, True)
    verdict = Verdict.CHANGE if has_gpu or not knob.gpu else Verdict.ABSENT
    advice = f"export {knob.name}={knob.value}: {knob.why}"
    return _fact(knob, value, verdict, str(knob.value), advice, True)


def _choice(knob: Knob, value: str | None, has_gpu: bool) -> Fact:
    verdict = Verdict.CHOICE if has_gpu or not knob.gpu or value is not None else Verdict.ABSENT
    if value == knob.value:
        verdict = Verdict.GOOD
    return _fact(knob, value, verdict, f"{knob.value}, if it fits", knob.why, True)


def _off(knob: Knob, value: str | None, has_gpu: bool) -> Fact:
    if is_on(value):
        advice = f"unset {knob.name} to measure: {knob.why}"
        return _fact(knob, value, Verdict.CHANGE, "unset", advice, True)
    return _fact(knob, value, Verdict.GOOD, "unset", "", True)


def _code(knob: Knob, value: str | None, has_gpu: bool) -> Fact:
    verdict = Verdict.GOOD if value is None else Verdict.CHOICE
    return _fact(knob, value, verdict, "", knob.why if value is not None else "", False)


_JUDGES = {"want": _want, "choice": _choice, "off": _off, "code": _code}
