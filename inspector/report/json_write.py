"""The stable JSON report, `schema_version` 1; `json_read.py` reads it back.

Compatibility: within version 1 keys are only added, never renamed, removed or given another
meaning; a reader must ignore keys that it does not know. `report.schema.json` beside this file
describes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TextIO

from msgspec import to_builtins

from ..model import (
    Access,
    ErrorRecord,
    Finding,
    KernelReport,
    LdsBuffer,
    LoopReport,
    MeasuredLine,
    Metric,
    Report,
    SourceLoc,
    Variant,
)
from .json_read import SCHEMA_VERSION, read

__all__ = (
    "SCHEMA_VERSION",
    "error_fields",
    "kernel_dict",
    "measured_line",
    "metrics_dict",
    "read",
    "to_dict",
    "write",
)


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
        "kernels": [kernel_dict(k) for k in report.kernels],
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


def kernel_dict(k: KernelReport) -> dict[str, Any]:
    """One kernel of a report."""
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
        "lds_buffers": [_lds_buffer(b) for b in k.lds_buffers],
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
        # Only a report that was joined with a profiler's recording has them.
        **(
            {"measured_lines": [measured_line(m) for m in k.measured_lines]}
            if k.measured_lines
            else {}
        ),
        # Only where something was not read or followed.
        **(
            {
                "unread": [
                    {"kind": u.kind, "count": u.count, "lines": list(u.lines)} for u in k.unread
                ]
            }
            if k.unread
            else {}
        ),
        "demand": None if k.demand is None else to_builtins(k.demand),
        "findings": [_finding(f) for f in k.findings],
        "notes": list(k.notes),
    }


def measured_line(m: MeasuredLine) -> dict[str, Any]:
    """What a profiler measured of one line of the assembly."""
    return {
        "line": m.line,
        "address": m.address,
        "mnemonic": m.mnemonic,
        "loop": m.loop,
        "source": _place(m.source),
        "hits": m.hits,
        "latency_cycles": m.latency_cycles,
        "stall_cycles": m.stall_cycles,
        "idle_cycles": m.idle_cycles,
        "samples": m.samples,
        "issued": m.issued,
        "reasons": dict(m.reasons),
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
        "assumptions": [
            {
                "what": its.what,
                "assumed": its.assumed,
                "source": _place(its.source),
                "explored": its.explored,
            }
            for its in v.assumptions
        ],
        "unspecialised": None if v.unspecialised is None else dict(v.unspecialised),
        "values": None if v.values is None else dict(v.values),
        "generator": v.generator,
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
        **({"irreducible": True} if loop.irreducible else {}),
        "metrics": metrics_dict(loop.metrics),
    }


def _lds_buffer(b: LdsBuffer) -> dict[str, Any]:
    return {
        "name": b.name,
        "kind": b.kind,
        "dtype": b.dtype,
        "shape": list(b.shape),
        "copies": b.copies,
        "bytes": b.size,
        "line": b.line,
        "source": _place(b.source),
        "in_loop": b.in_loop,
        "at_peak": b.at_peak,
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
        "fix_tried": None if f.tried is None else to_builtins(f.tried),
        "fingerprint": f.fingerprint,
    }
