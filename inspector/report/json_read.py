"""Reading the JSON report back, `schema_version` 1.

A saved sweep holds thousands of kernels, each of some hundred kilobytes: the text is cut into
kernels first, and each is read when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..documents import json_value
from ..errors import KinspectError
from ..model import (
    Access,
    Artifact,
    Assumption,
    Demand,
    ErrorRecord,
    Finding,
    KernelReport,
    LdsBuffer,
    Location,
    LoopReport,
    MeasuredLine,
    MemoryOp,
    Metric,
    Report,
    SourceLoc,
    SpillSlot,
    Trials,
    Unread,
    Variant,
    WaitOp,
)
from ..printable import printable
from .types import Failure, Kernel, Tool

SCHEMA_VERSION = 1


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
            data = json_value(text, name, "pass a report made by kinspect")
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION or not isinstance(data, dict):
            raise KinspectError(
                f"{name}: not a kinspect report of schema version {SCHEMA_VERSION}"
                f" (found {version!r})",
                "make it again with `kinspect analyze --format json`",
            )
        try:
            entries = tuple(_typed(data.pop("kernels"), list[Any]))  # each is read when asked for
            data = _clean(data)
            errors = tuple(_read_error(e) for e in _typed(data["errors"], list[Failure]))
            notes = tuple(_typed(data.get("notes", []), list[str]))
            target, tool = _typed(data["target"], str), _typed(data["tool"], Tool)
            return cls(name, target, tool, errors, notes, folder, entries, kinds)
        except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise _damaged(name, error) from None

    def report(self) -> Report:
        """All of it."""
        return Report(self.target, self.tool, tuple(self.kernels()), self.errors, self.notes)

    def kernels(self) -> Iterator[KernelReport]:
        """The kernels, in their order.

        Raises:
            KinspectError: one is damaged; those before it have been given.
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
        """The sha256 of the artifacts that its kernels name."""
        found: set[str] = set()
        for entry in self.entries:
            try:
                found.update(a.sha256 for a in self._artifacts(_kernel(entry)).values())
            except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
                raise _damaged(self.name, error) from None
        return found

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
    """A kernel's values, of the types that the schema states, with all texts harmless."""
    from msgspec import Raw, json

    if not isinstance(entry, Raw):
        return _clean(_typed(entry, Kernel))
    data = bytes(entry)
    value = json.decode(data, type=Kernel)
    # Only what is spelled out or is not ASCII can steer: most texts need no second look.
    return value if data.isascii() and b"\\" not in data and b"\x7f" not in data else _clean(value)


def _typed(value: Any, kind: Any) -> Any:
    from msgspec import convert

    return convert(value, kind)


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
        "make it again with `kinspect analyze --format json`",
    )


def _read_error(e: dict[str, Any]) -> ErrorRecord:
    return ErrorRecord(
        e["file"], e["kernel"], e["stage"], e["message"], e["hint"], e.get("output", "")
    )


def _read_kernel(k: dict[str, Any], artifacts: Mapping[str, Artifact]) -> KernelReport:
    return KernelReport(
        id=k["id"],
        name=k["name"],
        arch=k["arch"],
        source=_read_place(k["source"]),
        variant=_read_variant(k["variant"], k["name"], k["arch"]),
        artifacts=artifacts,
        metrics=_read_metrics(k["metrics"]),
        loops=tuple(_read_loop(loop) for loop in k["loops"]),
        main_loop=k["main_loop"],
        memory_ops=tuple(
            MemoryOp(
                m["line"],
                m["mnemonic"],
                m["class"],
                m["bits"],
                m["loop"],
                m["depth"],
                _read_place(m["source"]),
                m.get("note", ""),
            )
            for m in k["memory_ops"]
        ),
        waits=tuple(
            WaitOp(
                w["line"],
                w["counter"],
                w["n"],
                w["loop"],
                _read_place(w["source"]),
                w["verdict"],
                w["could_be"],
                tuple(w["waits_for"]) if w["waits_for"] is not None else None,
                w.get("slack"),
                w.get("slack_cycles"),
            )
            for w in k["waits"]
        ),
        findings=tuple(
            Finding(
                f["rule"],
                f["severity"],
                f["confidence"],
                f["message"],
                f["evidence"],
                tuple(Location(x["kind"], x["line"], x["file"], x["text"]) for x in f["locations"]),
                f["fix"],
                f["fingerprint"],
                _read_trials(f.get("fix_tried")),
            )
            for f in k["findings"]
        ),
        notes=tuple(k["notes"]),
        accesses=tuple(_read_access(a) for a in k.get("accesses", ())),
        spills=tuple(
            SpillSlot(
                s["offset"],
                s["bytes"],
                tuple(s["stores"]),
                tuple(s["reloads"]),
                tuple(s["loops"]),
                tuple(at for place in s["source"] if (at := _read_place(place)) is not None),
            )
            for s in k.get("spills", ())
        ),
        lds_buffers=tuple(
            LdsBuffer(
                b["name"],
                b["kind"],
                b["dtype"],
                tuple(b["shape"]),
                b["copies"],
                b["bytes"],
                b["line"],
                _read_place(b["source"]),
                b["in_loop"],
                b["at_peak"],
            )
            for b in k.get("lds_buffers", ())
        ),
        measured_lines=tuple(
            MeasuredLine(
                line=m["line"],
                address=m["address"],
                mnemonic=m["mnemonic"],
                loop=m["loop"],
                source=_read_place(m["source"]),
                hits=m["hits"],
                latency_cycles=m["latency_cycles"],
                stall_cycles=m["stall_cycles"],
                idle_cycles=m["idle_cycles"],
                samples=m["samples"],
                issued=m["issued"],
                reasons=m["reasons"],
            )
            for m in k.get("measured_lines", ())
        ),
        unread=tuple(Unread(u["kind"], u["count"], tuple(u["lines"])) for u in k.get("unread", ())),
        demand=None if k.get("demand") is None else Demand(**k["demand"]),
    )


def _read_access(a: dict[str, Any]) -> Access:
    return Access(
        op=a["op"],
        line=a["line"],
        cls=a["class"],
        source=_read_place(a["source"]),
        dtype=a["dtype"],
        shape=tuple(a["shape"]),
        layout=a["layout"],
        lines=tuple(a["lines"]),
        loop=a["loop"],
        bits=a["bits"],
        widest=a["widest"],
        per_thread=a["per_thread"],
        contiguity=a["contiguity"],
        divisibility=a["divisibility"],
        mask=a["mask"],
        limited_by=a["limited_by"],
        reason=a["reason"],
        fix=a["fix"],
    )


def _read_metrics(metrics: dict[str, Any]) -> dict[str, Metric]:
    return {
        name: Metric(name, m["value"], m["unit"], m["origin"], m.get("note", ""))
        for name, m in metrics.items()
    }


def _read_loop(loop: dict[str, Any]) -> LoopReport:
    return LoopReport(
        id=loop["id"],
        depth=loop["depth"],
        parent=loop["parent"],
        header_line=loop["header"]["line"],
        header_label=loop["header"]["label"],
        lines=tuple((first, last) for first, last in loop["lines"]),
        source=tuple(SourceLoc(s["file"], s["line"]) for s in loop["source"]),
        hot=loop["hot"],
        unroll=loop["unroll"],
        metrics=_read_metrics(loop["metrics"]),
        irreducible=loop.get("irreducible", False),
    )


def _read_place(place: dict[str, Any] | None) -> SourceLoc | None:
    if place is None:
        return None
    inlined = _read_place(place.get("inlined_at"))
    return SourceLoc(place["file"], place["line"], place.get("column"), inlined)


def _read_variant(v: dict[str, Any] | None, kernel: str, arch: str | None) -> Variant | None:
    if v is None:
        return None
    return Variant(
        kernel=kernel,
        arch=arch or "",
        wave_size=v["wave_size"],
        ttir="",  # an artifact of its own, not part of the report
        options=v["options"],
        signature=v["signature"],
        constexprs=v["constexprs"],
        attrs=v["attrs"],
        qualname=v["qualname"],
        case=v["case"],
        grid=tuple(v["grid"]) if v["grid"] is not None else None,
        call_site=_read_place(v["call_site"]),
        triton_version=v["triton_version"],
        tuning=v.get("tuning"),
        launches=v.get("launches"),
        notes=tuple(v.get("notes", ())),
        assumptions=tuple(
            Assumption(
                its["what"],
                its["assumed"],
                _read_place(its["source"]),
                its.get("explored", False),
            )
            for its in v.get("assumptions", ())
        ),
        unspecialised=v.get("unspecialised"),
        values=v.get("values"),
        generator=v.get("generator"),
    )


def _read_trials(t: dict[str, int] | None) -> Trials | None:
    return Trials(t["helped"], t["nothing"], t["worse"]) if t is not None else None
