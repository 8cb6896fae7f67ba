"""The baseline: a committed file of known findings that each run is compared with.

One line for one kind of finding, sorted, so that a change of the file reads well in a review and
two branches merge. Findings are recognised by their fingerprint, which survives unrelated edits.
Several findings may share one (those of two kernels of one id): they are counted. A finding whose
figures got worse is not known.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from msgspec import Meta, Struct, ValidationError, convert, field, to_builtins
from msgspec.structs import replace

from ..base import limits
from ..base.documents import json_value
from ..base.errors import KinspectError
from ..base.named_files import file_bytes
from ..base.writing import reason, replacing_text
from ..model import Finding
from ..model.numbers import Real
from .engine import LINE_AFTER_FILE
from .lint_results import CheckedKernel
from .worsening import SAVING, worsened

SCHEMA_VERSION = 1
MOST_BYTES = 256 << 20
"""Of a baseline's file: a million findings have about that."""
_MOST_FINDINGS = 1_000_000  # the findings that are gone are listed one by one
_AGAIN = "make it anew with --update-baseline after moving it away, or restore it"
_SPECIALISATION = re.compile(r"#[0-9a-f]{12}$")
"""At the end of a kernel's id: the hash of signature, constexprs and options."""


class BaselineEntry(Struct, frozen=True, omit_defaults=True):
    """Findings of one fingerprint: `count` of them are known.

    `figures` are the worst of them and `line` is the text of their source line; baselines of
    earlier versions have neither.
    """

    kernel: str
    rule: str
    message: str
    fingerprint: Annotated[str, Meta(min_length=1)]
    count: Annotated[int, Meta(ge=1)]
    figures: Mapping[str, int | Real] = field(default_factory=dict)
    line: str = ""


class Baseline(Struct, frozen=True):
    """The known findings, by fingerprint."""

    entries: Mapping[str, BaselineEntry]


EMPTY = Baseline(MappingProxyType({}))


class Compared(Struct, frozen=True):
    """A run's findings divided by a baseline.

    Args:
        kernels: these, their findings divided into new and known ones. What got worse is new, and
            its message says so.
        gone: entries with the number of findings that are no longer there.
        unchecked: how many entries are of kernels or rules that the run did not look at.
        left: by fingerprint, how many findings of an entry stay in an updated baseline where the
            run found none of this fingerprint.
    """

    found: tuple[CheckedKernel, ...]
    kernels: tuple[CheckedKernel, ...]
    gone: tuple[BaselineEntry, ...]
    unchecked: int
    left: Mapping[str, int]
    worse: int


def compare(
    baseline: Baseline, kernels: Sequence[CheckedKernel], rules: Collection[str]
) -> Compared:
    """Divides a run's findings into new and known ones.

    A finding is known by its fingerprint, or, where options of one kernel's launch changed, by
    rule, kernel and line. Of several with one fingerprint the first count as known. Findings of
    rules that the run did not ask cannot have gone.
    """
    remaining = Counter({key: entry.count for key, entry in baseline.entries.items()})
    checked_ids = {kernel.id for kernel in kernels}
    former = _former(baseline, kernels)
    divided, worse = [], 0
    for kernel in kernels:
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in kernel.findings:
            key = finding.fingerprint
            if remaining[key] <= 0:
                key = former.get(key, key)
            if remaining[key] <= 0:
                new.append(finding)
                continue
            remaining[key] -= 1
            figures = kernel.figures.get(finding.fingerprint, ())
            change = worsened(figures, baseline.entries[key].figures)
            worse += bool(change)
            if change:
                new.append(_with_change(finding, change))
            else:
                known.append(finding)
        divided.append(replace(kernel, findings=tuple(new), known=tuple(known)))
    gone, unchecked, left = [], 0, dict[str, int]()
    for key, entry in baseline.entries.items():
        if entry.kernel not in checked_ids or entry.rule not in rules:
            unchecked += remaining[key] > 0
            left[key] = remaining[key]
        elif remaining[key] > 0:
            gone.append(replace(entry, count=remaining[key]))
    return Compared(tuple(kernels), tuple(divided), tuple(gone), unchecked, left, worse)


def _with_change(finding: Finding, change: str) -> Finding:
    plural = finding.plural_message and f"{finding.plural_message} ({change})"
    return replace(finding, message=f"{finding.message} ({change})", plural_message=plural)


_Identity = tuple[str, str, str, frozenset[str]]


def _former(baseline: Baseline, kernels: Iterable[CheckedKernel]) -> dict[str, str]:
    """Fingerprint of a finding that the baseline lacks -> that of the entry it is known by.

    That is where one specialisation of a kernel took the place of one other: the same rule found
    something at the same line of both.
    """
    checked_ids = {kernel.id for kernel in kernels}
    before: dict[_Identity, list[BaselineEntry]] = {}
    for entry in baseline.entries.values():
        if entry.kernel not in checked_ids and entry.line:
            identity = _identity(entry.rule, entry.kernel, entry.line, entry.figures)
            before.setdefault(identity, []).append(entry)
    after: dict[_Identity, dict[str, str]] = {}
    for kernel in kernels if before else ():
        for finding in kernel.findings:
            if finding.fingerprint not in baseline.entries:
                names = [figure.name for figure in kernel.figures.get(finding.fingerprint, ())]
                identity = _identity(finding.rule, kernel.id, _line_of(finding), names)
                after.setdefault(identity, {})[finding.fingerprint] = kernel.id
    former: dict[str, str] = {}
    for identity, found in after.items():
        entries = before.get(identity, [])
        if len(set(found.values())) == 1 and len({entry.kernel for entry in entries}) == 1:
            former.update(zip(found, (entry.fingerprint for entry in entries), strict=False))
    return former


def _identity(rule: str, kernel: str, line: str, figures: Iterable[str]) -> _Identity:
    """What stays of a finding when options of the launch change: no hash of the kernel's id."""
    bare = LINE_AFTER_FILE.sub(r"\1", _SPECIALISATION.sub("", kernel))
    return rule, bare, line, frozenset(figures) - {SAVING}


def _line_of(finding: Finding) -> str:
    anchor = finding.anchor
    return anchor.text.strip() if anchor is not None and anchor.kind == "source" else ""


def updated(baseline: Baseline, compared: Compared) -> Baseline:
    """Returns the baseline with the run's findings added and those that are gone removed.

    Entries of kernels and rules that the run did not look at stay.
    """
    counts = Counter(compared.left)
    entries = dict(baseline.entries)
    figures: dict[str, dict[str, float]] = {}
    for kernel in compared.found:
        for finding in kernel.findings:
            key = finding.fingerprint
            counts[key] += 1
            of_entry = figures.setdefault(key, {})
            for figure in kernel.figures.get(key, ()):
                most = max if figure.rises else min
                of_entry[figure.name] = most(of_entry.get(figure.name, figure.value), figure.value)
            entries[key] = BaselineEntry(
                kernel=kernel.id,
                rule=finding.rule,
                message=finding.message,
                fingerprint=key,
                count=0,
                figures=of_entry,
                line=_line_of(finding),
            )
    return Baseline(
        {key: replace(e, count=counts[key]) for key, e in entries.items() if counts[key] > 0}
    )


# --------------------------------------------------------------------------- the file


def read(path: Path) -> Baseline:
    """Reads a baseline.

    Raises:
        KinspectError: there is none, it cannot be read, is damaged, or of a later schema version.
    """
    try:
        data = file_bytes(path, MOST_BYTES, pipes=True)
        with limits.reading(str(path), len(data)):
            return parse(data.decode("utf-8"), str(path))
    except FileNotFoundError:
        raise KinspectError(
            f"{path}: no such baseline", "write the first one with --update-baseline"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else error
        raise KinspectError(f"{path}: baseline cannot be read ({problem})", _AGAIN) from None


def parse(text: str, name: str) -> Baseline:
    """Reads a baseline's text; `name` is what errors call it.

    Raises:
        KinspectError: it is damaged, or of a later schema version.
    """
    data = json_value(text, f"{name}: baseline", _AGAIN)
    version = data.get("schema_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise KinspectError(
            f"{name}: baseline of schema version {version}; this kinspect knows {SCHEMA_VERSION}",
            "update kinspect",
        )
    if version != SCHEMA_VERSION or not isinstance(data.get("findings"), list):
        raise KinspectError(f"{name}: not a baseline of kinspect", _AGAIN)
    entries: dict[str, BaselineEntry] = {}
    for number, item in enumerate(data["findings"], 1):
        try:
            entry = convert(item, BaselineEntry)
        except (ValidationError, UnicodeError) as error:  # a text with half a surrogate
            raise KinspectError(f"{name}: finding {number}: {error}", _AGAIN) from None
        # After a merge both sides' lines may stand there: the same finding twice, not two.
        earlier = entries.get(entry.fingerprint)
        if earlier is None or earlier.count < entry.count:
            entries[entry.fingerprint] = entry
    if sum(entry.count for entry in entries.values()) > _MOST_FINDINGS:
        raise KinspectError(f"{name}: baseline of over {_MOST_FINDINGS:,} findings", _AGAIN)
    return Baseline(entries)


def render(baseline: Baseline) -> str:
    """Returns the file's text: one line per entry, sorted by kernel and rule."""
    entries = sorted(
        baseline.entries.values(), key=lambda e: (e.kernel, e.rule, e.message, e.fingerprint)
    )
    lines = [json.dumps(to_builtins(entry), ensure_ascii=False) for entry in entries]
    listed = ",\n  ".join(lines)
    body = f"[\n  {listed}\n ]" if lines else "[]"
    return f'{{\n "schema_version": {SCHEMA_VERSION},\n "findings": {body}\n}}\n'


def write(baseline: Baseline, path: Path) -> None:
    """Writes the file; an existing one is replaced only once the new one is complete.

    Raises:
        KinspectError: the file cannot be written.
    """
    try:
        with replacing_text(path) as out:
            out.write(render(baseline))
    except OSError as error:
        raise KinspectError(
            f"{path}: baseline cannot be written ({reason(error)})", "check --baseline"
        ) from None
