"""The stable JSON report, `schema_version` 1: writing it, and reading it back.

Compatibility: within version 1 keys are only added, never renamed, removed or given another
meaning; a reader must ignore keys that it does not know. `report.schema.json` beside this file
describes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from kinspect.inspector.errors import KinspectError
from kinspect.inspector.model import (
    Access,
    Artifact,
    ErrorRecord,
    Finding,
    KernelReport,
    Location,
    LoopReport,
    MemoryOp,
    Metric,
    Report,
    SourceLoc,
    SpillSlot,
    Variant,
    WaitOp,
)

SCHEMA_VERSION = 1


def write(report: Report, stream: TextIO) -> None:
    """Writes the report as one indented JSON document."""
    json.dump(to_dict(report), stream, indent=1, ensure_ascii=False)
    stream.write("\n")


def to_dict(report: Report) -> dict[str, Any]:
    """The report as plain JSON values."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": dict(report.tool),
        "target": report.target,
        "errors": [
            {**error_fields(e), **({"output": e.output} if e.output else {})} for e in report.errors
        ],
        "notes": list(report.notes),
        "kernels": [_kernel(k) for k in report.kernels],
    }


def error_fields(error: ErrorRecord) -> dict[str, Any]:
    """What could not be reported, as every JSON form of ours spells it."""
    return {
        "file": error.file,
        "kernel": error.kernel,
        "stage": error.stage,
        "message": error.message,
        "hint": error.hint,
    }


def _kernel(k: KernelReport) -> dict[str, Any]:
    return {
        "id": k.id,
        "name": k.name,
        "arch": k.arch,
        "source": _place(k.source),
        "variant": _variant(k.variant),
        "artifacts": {
            kind: {"sha256": a.sha256, "bytes": a.size} for kind, a in k.artifacts.items()
        },
        "metrics": metrics_dict(k.metrics),
        "loops": [_loop(loop) for loop in k.loops],
        "main_loop": k.main_loop,
        "memory_ops": [
            {
                "line": m.line,
                "mnemonic": m.mnemonic,
                "class": m.cls,
                "bits": m.bits,
                "loop": m.loop,
                "depth": m.depth,
                "source": _place(m.source),
                **({"note": m.note} if m.note else {}),
            }
            for m in k.memory_ops
        ],
        "waits": [
            {
                "line": w.line,
                "counter": w.counter,
                "n": w.n,
                "loop": w.loop,
                "verdict": w.verdict,
                "could_be": w.could_be,
                "waits_for": list(w.waits_for) if w.waits_for is not None else None,
                "slack": w.slack,
                "slack_cycles": w.slack_cycles,
                "source": _place(w.source),
            }
            for w in k.waits
        ],
        "accesses": [_access(a) for a in k.accesses],
        "spills": [
            {
                "offset": s.offset,
                "bytes": s.size,
                "stores": list(s.stores),
                "reloads": list(s.reloads),
                "loops": list(s.loops),
                "source": [_place(at) for at in s.source],
            }
            for s in k.spills
        ],
        "findings": [_finding(f) for f in k.findings],
        "notes": list(k.notes),
    }


def _access(a: Access) -> dict[str, Any]:
    return {
        "op": a.op,
        "line": a.line,
        "class": a.cls,
        "source": _place(a.source),
        "dtype": a.dtype,
        "shape": list(a.shape),
        "layout": a.layout,
        "lines": list(a.lines),
        "loop": a.loop,
        "bits": a.bits,
        "widest": a.widest,
        "per_thread": a.per_thread,
        "contiguity": a.contiguity,
        "divisibility": a.divisibility,
        "mask": a.mask,
        "limited_by": a.limited_by,
        "reason": a.reason,
        "fix": a.fix,
    }


def metrics_dict(metrics: Mapping[str, Metric]) -> dict[str, Any]:
    """`{NAME: {value, unit, origin}}`, with a `note` where there is one."""
    return {
        name: {
            "value": m.value,
            "unit": m.unit,
            "origin": m.origin,
            **({"note": m.note} if m.note else {}),
        }
        for name, m in metrics.items()
    }


def _place(loc: SourceLoc | None) -> dict[str, Any] | None:
    if loc is None:
        return None
    out: dict[str, Any] = {"file": loc.file, "line": loc.line}
    if loc.column is not None:
        out["column"] = loc.column
    if loc.inlined_at is not None:
        out["inlined_at"] = _place(loc.inlined_at)
    return out


def _variant(v: Variant | None) -> dict[str, Any] | None:
    if v is None:
        return None
    return {
        "case": v.case,
        "signature": dict(v.signature),
        "constexprs": dict(v.constexprs),
        "attrs": {name: dict(attrs) for name, attrs in v.attrs.items()},
        "options": dict(v.options),
        "wave_size": v.wave_size,
        "grid": list(v.grid) if v.grid is not None else None,
        "call_site": _place(v.call_site),
        "qualname": v.qualname,
        "triton_version": v.triton_version,
        "tuning": dict(v.tuning) if v.tuning is not None else None,
        "launches": v.launches,
        "notes": list(v.notes),
    }


def _loop(loop: LoopReport) -> dict[str, Any]:
    return {
        "id": loop.id,
        "depth": loop.depth,
        "parent": loop.parent,
        "header": {"line": loop.header_line, "label": loop.header_label},
        "lines": [list(span) for span in loop.lines],
        "source": [_place(s) for s in loop.source],
        "hot": loop.hot,
        "unroll": loop.unroll,
        "metrics": metrics_dict(loop.metrics),
    }


def _finding(f: Finding) -> dict[str, Any]:
    return {
        "rule": f.rule,
        "severity": f.severity,
        "confidence": f.confidence,
        "message": f.message,
        "evidence": dict(f.evidence),
        "locations": [
            {"kind": at.kind, "file": at.file, "line": at.line, "text": at.text}
            for at in f.locations
        ],
        "fix": f.fix,
        "fingerprint": f.fingerprint,
    }


# --------------------------------------------------------------------------- reading


def read(text: str | bytes, name: str, artifact_folder: Path | None = None) -> Report:
    """Reads a saved report.

    Args:
        text: the JSON document.
        name: what to call it in errors.
        artifact_folder: where its artifacts lie by sha256, if they came with it.

    Raises:
        KinspectError: it is not a kinspect report, or of a later schema version.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KinspectError(
            f"{name}: not valid JSON ({error})", "pass a report made by kinspect"
        ) from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise KinspectError(
            f"{name}: not a kinspect report of schema version {SCHEMA_VERSION} (found {version!r})",
            "make it again with `kinspect analyze --format json`",
        )
    try:
        return _report(data, artifact_folder)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise KinspectError(
            f"{name}: damaged report ({type(error).__name__}: {error})",
            "make it again with `kinspect analyze --format json`",
        ) from None


def _report(data: dict[str, Any], folder: Path | None) -> Report:
    return Report(
        target=data["target"],
        tool=data["tool"],
        kernels=tuple(_read_kernel(k, folder) for k in data["kernels"]),
        errors=tuple(
            ErrorRecord(
                e["file"], e["kernel"], e["stage"], e["message"], e["hint"], e.get("output", "")
            )
            for e in data["errors"]
        ),
        notes=tuple(data.get("notes", ())),
    )


def _read_kernel(k: dict[str, Any], folder: Path | None) -> KernelReport:
    return KernelReport(
        id=k["id"],
        name=k["name"],
        arch=k["arch"],
        source=_read_place(k["source"]),
        variant=_read_variant(k["variant"], k["name"], k["arch"]),
        artifacts={
            kind: Artifact(kind, a["sha256"], a["bytes"], folder / a["sha256"])
            for kind, a in k["artifacts"].items()
            if folder is not None
        },
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
    )
