"""The baseline: a committed file of known findings that each run is compared with.

One line for one kind of finding, sorted, so that a change of the file reads well in a review and
two branches merge. Findings are recognised by their fingerprint, which survives unrelated edits.
Several findings may share one (those of two kernels of one id): they are counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..base import limits
from ..base.documents import json_value
from ..base.errors import KinspectError
from ..base.named_files import file_bytes
from ..base.writing import reason, replacing_text
from ..model import Finding
from .results import CheckedKernel

SCHEMA_VERSION = 1
MOST_BYTES = 256 << 20
"""Of a baseline's file: a million findings have about that."""
_MOST_FINDINGS = 1_000_000  # the findings that are gone are listed one by one
_AGAIN = "make it anew with --update-baseline after moving it away, or restore it"
_TYPES: Mapping[str, type] = MappingProxyType(
    {"kernel": str, "rule": str, "message": str, "fingerprint": str, "count": int}
)


class BaselineEntry(Struct, frozen=True):
    """Findings of one fingerprint: `count` of them are known."""

    kernel: str
    rule: str
    message: str
    fingerprint: str
    count: int


class Baseline(Struct, frozen=True):
    """The known findings, by fingerprint."""

    entries: Mapping[str, BaselineEntry]


EMPTY = Baseline(MappingProxyType({}))


class Compared(Struct, frozen=True):
    """A run's findings divided by a baseline.

    Args:
        kernels: as they were, their findings divided into new and known ones.
        gone: entries with the number of findings that are no longer there.
        unchecked: how many entries are of kernels or rules that the run did not look at.
    """

    kernels: tuple[CheckedKernel, ...]
    gone: tuple[BaselineEntry, ...]
    unchecked: int


def compare(
    baseline: Baseline, kernels: Sequence[CheckedKernel], rules: Collection[str]
) -> Compared:
    """Divides a run's findings into new and known ones.

    Args:
        baseline: what is known.
        kernels: what the run found, in the order of the report: of several findings with one
            fingerprint the first count as known.
        rules: ids of the rules that the run asked: others cannot have gone.
    """
    remaining = Counter({key: entry.count for key, entry in baseline.entries.items()})
    divided = []
    for kernel in kernels:
        new: list[Finding] = []
        known: list[Finding] = []
        for finding in kernel.findings:
            is_known = remaining[finding.fingerprint] > 0
            remaining[finding.fingerprint] -= is_known
            (known if is_known else new).append(finding)
        divided.append(replace(kernel, findings=tuple(new), known=tuple(known)))
    checked_ids = {kernel.id for kernel in kernels}
    gone, unchecked = [], 0
    for key, entry in baseline.entries.items():
        if entry.kernel not in checked_ids or entry.rule not in rules:
            unchecked += 1
        elif remaining[key] > 0:
            gone.append(replace(entry, count=remaining[key]))
    return Compared(tuple(divided), tuple(gone), unchecked)


def updated(baseline: Baseline, compared: Compared) -> Baseline:
    """Returns the baseline with the run's findings added and those that are gone removed.

    Entries of kernels and rules that the run did not look at stay.
    """
    counts = Counter({key: entry.count for key, entry in baseline.entries.items()})
    for entry in compared.gone:
        counts[entry.fingerprint] -= entry.count
    entries = dict(baseline.entries)
    for kernel in compared.kernels:
        counts.update(finding.fingerprint for finding in kernel.findings)
        for finding in (*kernel.findings, *kernel.known):
            key = finding.fingerprint
            entries[key] = BaselineEntry(
                kernel=kernel.id,
                rule=finding.rule,
                message=finding.message,
                fingerprint=key,
                count=0,
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
        entry = _entry(item, f"{name}: finding {number}")
        # After a merge both sides' lines may stand there: the same finding twice, not two.
        earlier = entries.get(entry.fingerprint)
        if earlier is None or earlier.count < entry.count:
            entries[entry.fingerprint] = entry
    if sum(entry.count for entry in entries.values()) > _MOST_FINDINGS:
        raise KinspectError(f"{name}: baseline of over {_MOST_FINDINGS:,} findings", _AGAIN)
    return Baseline(entries)


def _entry(item: Any, where: str) -> BaselineEntry:
    if not isinstance(item, dict):
        raise KinspectError(f"{where}: not a mapping", _AGAIN)
    values: dict[str, Any] = {key: item.get(key) for key in _TYPES}
    for key, expected_type in _TYPES.items():
        if not isinstance(values[key], expected_type) or isinstance(values[key], bool):
            raise KinspectError(f"{where}: {key} is missing or of a wrong type", _AGAIN)
    entry = BaselineEntry(**values)
    if entry.count < 1 or not entry.fingerprint:
        raise KinspectError(f"{where}: its count or fingerprint is empty", _AGAIN)
    return entry


def render(baseline: Baseline) -> str:
    """Returns the file's text: one line per entry, sorted by kernel and rule."""
    entries = sorted(
        baseline.entries.values(), key=lambda e: (e.kernel, e.rule, e.message, e.fingerprint)
    )
    lines = [
        json.dumps({key: getattr(entry, key) for key in _TYPES}, ensure_ascii=False)
        for entry in entries
    ]
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
