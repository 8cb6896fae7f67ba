"""Reading the JSON report back, of `schema_version` 1 or 2.

A saved sweep holds thousands of kernels, each of some hundred kilobytes: the text is cut into
kernels first, and each is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from sys import intern
from typing import Any, Final

from msgspec import Struct, convert

from ..documents import json_value
from ..errors import KinspectError
from ..model import (
    Access,
    Artifact,
    Demand,
    Emulated,
    ErrorRecord,
    Finding,
    KernelReport,
    LdsBuffer,
    LivePeak,
    LoopReport,
    MeasuredLine,
    MemoryOp,
    Metric,
    Report,
    SourceLoc,
    SpilledValue,
    SpillSlot,
    Unread,
    UntouchedValues,
    Variant,
    WaitOp,
)
from ..printable import printable
from .json_types import JsonFailure, JsonKernel, Tool

SCHEMA_VERSION = 2
"""Of what is written."""
_READ_VERSIONS = (1, 2)
_AGAIN = "make it again with `kinspect analyze --format json --details`, or --save"


def read(text: str | bytes, name: str, artifact_folder: Path | None = None) -> Report:
    """Reads a saved report.

    Args:
        text: the JSON document.
        name: what to call it in errors.
        artifact_folder: where its artifacts lie by sha256, if they came with it.

    Raises:
        KinspectError: it is not a kinspect report, or of a later schema version.
    """
    return SavedReport.open(text, name, artifact_folder).report()


class SavedReport(Struct, frozen=True):
    """A saved report whose kernels are read one by one.

    Args:
        name: what it is called in errors.
        target, tool, errors, notes: as in `Report`.
        folder: where its artifacts lie by sha256, if they came with it.
        kinds: which of them; None: all.
        entries: the kernels: JSON texts, or values where the text had to be read as a whole.
    """

    name: str
    target: str
    tool: Mapping[str, str]
    errors: tuple[ErrorRecord, ...]
    notes: tuple[str, ...]
    folder: Path | None
    entries: Sequence[Any]
    kinds: frozenset[str] | None = None

    @classmethod
    def open(
        cls,
        text: str | bytes,
        name: str,
        folder: Path | None = None,
        kinds: frozenset[str] | None = None,
    ) -> SavedReport:
        """Reads all but the kernels; arguments and errors as for `read`."""
        data = _cut(text)
        if data is None:
            hint = "pass a report made by kinspect"
            data = json_value(text, name, hint, infinite_as_text=True)  # of older versions
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version not in _READ_VERSIONS or not isinstance(data, dict):
            raise KinspectError(
                f"{name}: not a kinspect report of schema version 1 or {SCHEMA_VERSION}"
                f" (found {version!r})",
                _AGAIN,
            )
        if data.get("details") is False:
            raise KinspectError(f"{name}: a report without details", _AGAIN)
        try:
            entries = tuple(convert(data.pop("kernels"), list[Any]))  # each is read when asked for
            data = _clean(data)
            errors = tuple(_read_error(e) for e in convert(data["errors"], list[JsonFailure]))
            notes = tuple(convert(data.get("notes", []), list[str]))
            target, tool = convert(data["target"], str), convert(data["tool"], Tool)
            return cls(
                name=name,
                target=target,
                tool=tool,
                errors=errors,
                notes=notes,
                folder=folder,
                entries=entries,
                kinds=kinds,
            )
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise _damaged(name, error) from None

    def report(self) -> Report:
        """Returns the complete report."""
        return Report(self.target, self.tool, tuple(self.kernels()), self.errors, self.notes)

    def kernels(self) -> Iterator[KernelReport]:
        """Yields the kernels in order.

        Raises:
            KinspectError: one is damaged; those before it have been yielded.
        """
        for entry in self.entries:
            try:
                data = _kernel(entry)
                artifacts = self._artifacts(data)
                kernel = _read_kernel(data, artifacts)
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
                raise _damaged(self.name, error) from None
            yield kernel

    def digests(self) -> set[str]:
        """Returns the sha256 of the artifacts that its kernels name."""
        digests: set[str] = set()
        for entry in self.entries:
            try:
                digests.update(a.sha256 for a in self._artifacts(_kernel(entry)).values())
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
                raise _damaged(self.name, error) from None
        return digests

    def _artifacts(self, kernel: dict[str, Any]) -> dict[str, Artifact]:
        if self.folder is None:
            return {}
        return {
            kind: Artifact(kind, a["sha256"], a["bytes"], self.folder / _digest(a["sha256"]))
            for kind, a in kernel["artifacts"].items()
            if self.kinds is None or kind in self.kinds
        }


def _digest(text: str) -> str:
    """A sha256, and nothing that leads out of the folder that it is a name in."""
    if len(text) != 64 or not set(text) <= set("0123456789abcdef"):
        raise ValueError(f"{text!r} is no sha256")
    return text


def _kernel(entry: Any) -> Any:
    """Returns a kernel's values, of the types that the schema states, with all texts harmless."""
    from msgspec import Raw, json

    if not isinstance(entry, Raw):
        return _clean(convert(entry, JsonKernel))
    data = bytes(entry)
    value = json.decode(data, type=JsonKernel)
    # Only what is spelled out or is not ASCII can steer: most texts need no second look.
    return value if data.isascii() and b"\\" not in data and b"\x7f" not in data else _clean(value)


def _clean(value: Any) -> Any:
    """A report's value with all of its texts harmless."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _cut(text: str | bytes) -> dict[str, Any] | None:
    """A document's top-level values, its kernels as texts; None if that cannot be had so.

    What comes of it then (NaN, which Python writes and JSON does not have; another encoding) or
    does not is for the standard library to say.
    """
    from msgspec import DecodeError, Raw, json

    try:
        top = json.decode(text, type=dict[str, Raw])
        kernels = json.decode(top.pop("kernels"), type=list[Raw])
        data: dict[str, Any] = {key: json.decode(value) for key, value in top.items()}
    except (DecodeError, UnicodeError, KeyError, RecursionError):
        return None
    data["kernels"] = kernels
    return data


def _damaged(name: str, error: Exception) -> KinspectError:
    return KinspectError(
        f"{name}: damaged report ({type(error).__name__}: {error})",
        _AGAIN,
    )


def _read_error(error: JsonFailure) -> ErrorRecord:
    return ErrorRecord(
        file=error["file"],
        kernel=error["kernel"],
        stage=error["stage"],
        message=error["message"],
        hint=error["hint"],
        output=error.get("output", ""),
    )


def _read_kernel(kernel: dict[str, Any], artifacts: Mapping[str, Artifact]) -> KernelReport:
    """Converts a kernel; keys that older versions did not write have defaults."""
    return KernelReport(
        id=kernel["id"],
        name=kernel["name"],
        arch=kernel["arch"],
        source=convert(kernel["source"], SourceLoc | None),
        variant=_read_variant(kernel["variant"], kernel["name"], kernel["arch"]),
        artifacts=artifacts,
        metrics=_read_metrics(kernel["metrics"]),
        loops=tuple(_read_loop(loop) for loop in kernel["loops"]),
        main_loop=kernel["main_loop"],
        memory_ops=convert(kernel["memory_ops"], tuple[MemoryOp, ...]),
        waits=convert(kernel["waits"], tuple[WaitOp, ...]),
        findings=convert(kernel["findings"], tuple[Finding, ...]),
        leads=convert(kernel.get("leads", ()), tuple[Finding, ...]),
        notes=tuple(kernel["notes"]),
        accesses=convert(kernel.get("accesses", ()), tuple[Access, ...]),
        live_peak=convert(kernel.get("live_peak"), LivePeak | None),
        spilled_values=convert(kernel.get("spilled_values", ()), tuple[SpilledValue, ...]),
        untouched=convert(kernel.get("untouched", ()), tuple[UntouchedValues, ...]),
        dead_writes=tuple(kernel.get("dead_writes", ())),
        spills=convert(kernel.get("spills", ()), tuple[SpillSlot, ...]),
        lds_buffers=convert(kernel.get("lds_buffers", ()), tuple[LdsBuffer, ...]),
        measured_lines=convert(kernel.get("measured_lines", ()), tuple[MeasuredLine, ...]),
        unread=convert(kernel.get("unread", ()), tuple[Unread, ...]),
        demand=convert(kernel.get("demand"), Demand | None),
        emulated=convert(kernel.get("emulated"), Emulated | None),
    )


def _read_metrics(metrics: dict[str, Any]) -> dict[str, Metric]:
    """Converts figures; equal ones of all kernels are one object, as are their names.

    Of thousands of kernels most figures are equal: this halves what a report takes in memory.
    """
    read = {}
    for name, entry in metrics.items():
        value, note = entry["value"], entry.get("note", "")
        metric = Metric(intern(name), value, intern(entry["unit"]), entry["origin"], note)
        if not isinstance(value, dict):
            key = name, type(value), value, metric.unit, metric.origin, note
            if len(_KNOWN_METRICS) >= _MOST_KNOWN_METRICS:
                _KNOWN_METRICS.clear()
            metric = _KNOWN_METRICS.setdefault(key, metric)
        read[metric.name] = metric
    return read


_KNOWN_METRICS: Final[dict[tuple[object, ...], Metric]] = {}
_MOST_KNOWN_METRICS: Final = 1 << 14


def _read_loop(loop: dict[str, Any]) -> LoopReport:
    """Converts a loop."""
    return LoopReport(
        id=loop["id"],
        depth=loop["depth"],
        parent=loop["parent"],
        header_line=loop["header"]["line"],
        header_label=loop["header"]["label"],
        lines=tuple((first, last) for first, last in loop["lines"]),
        source=convert(loop["source"], tuple[SourceLoc, ...]),
        hot=loop["hot"],
        unroll=loop["unroll"],
        metrics=_read_metrics(loop["metrics"]),
        irreducible=loop.get("irreducible", False),
    )


def _read_variant(variant: dict[str, Any] | None, kernel: str, arch: str | None) -> Variant | None:
    if variant is None:
        return None
    # The TTIR is an artifact of its own, not part of the report.
    return convert({**variant, "kernel": kernel, "arch": arch or "", "ttir": ""}, Variant)
