"""A comparison as JSON, `schema_version` 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from msgspec import to_builtins

from ..base.streams import dump_json
from ..compare.diff.results import (
    Alone,
    DiffReport,
    FigureChange,
    IsaDifference,
    KernelDiff,
    LoopPair,
    label_of,
)
from ..compare.stages import Comparison
from ..model import KernelReport, LoopReport, MetricValue
from ..report.json_write import error_fields, metrics_dict

SCHEMA_VERSION = 1


def write(report: DiffReport, stream: TextIO) -> None:
    """Writes the comparison as one indented JSON document."""
    dump_json(to_dict(report), stream)


def to_dict(report: DiffReport) -> dict[str, Any]:
    """The comparison as plain JSON values; lists of two are left and right."""
    return {
        "schema_version": SCHEMA_VERSION,
        "tool": dict(report.tool),
        "left": report.left,
        "right": report.right,
        "tolerances": dict(report.tolerances),
        "counts": {str(verdict): n for verdict, n in report.counts.items()},
        "pairs": [_pair(pair) for pair in report.pairs],
        "only_left": [_alone(unpaired) for unpaired in report.only_left],
        "only_right": [_alone(unpaired) for unpaired in report.only_right],
        "errors": [{"side": side, **error_fields(error)} for side, error in report.errors],
        "notes": list(report.notes),
    }


def _pair(pair: KernelDiff) -> dict[str, Any]:
    return {
        "kernel": label_of(pair.left),
        "verdict": pair.verdict,
        "time": to_builtins(pair.time),
        "matched_by": pair.matched_by or None,
        "sides": [_side(pair.left), _side(pair.right)],
        "changes": [_change(change) for change in pair.changes],
        "loops": [_loops(loops) for loops in pair.loops],
        "stages": _stages(pair.comparison) if pair.comparison is not None else None,
        "isa": [_isa(difference) for difference in pair.isa],
        "notes": list(pair.remarks),
    }


def _side(kernel: KernelReport) -> dict[str, Any]:
    variant = kernel.variant
    return {
        "id": kernel.id,
        "name": kernel.name,
        "arch": kernel.arch,
        "case": variant.case if variant is not None else None,
        "options": dict(variant.options) if variant is not None else None,
        "metrics": metrics_dict(kernel.metrics),
    }


def _change(change: FigureChange) -> dict[str, Any]:
    return {
        "name": change.name,
        "unit": change.unit,
        "loop": change.loop,
        "values": [_plain(change.left), _plain(change.right)],
        "judgement": change.judgement,
        "matters": change.matters,
        "why": change.why,
    }


def _loops(pair: LoopPair) -> dict[str, Any]:
    return {
        "sides": [_loop(pair.left), _loop(pair.right)],
        "per": list(pair.per) if pair.per is not None else None,
        "basis": pair.basis,
        "work_unit": pair.shared.work,
        "bound_per_work": list(bound) if (bound := pair.bound_per_work) is not None else None,
        "bound_units": [side.unit if side is not None else None for side in pair.bounds],
    }


def _loop(loop: LoopReport | None) -> dict[str, Any] | None:
    if loop is None:
        return None
    return {
        "id": loop.id,
        "header": {"line": loop.header.line, "label": loop.header.label},
        "source": [{"file": index.file, "line": index.line} for index in loop.source],
        "hot": loop.hot,
        "unroll": loop.unroll,
        "metrics": metrics_dict(loop.metrics),
    }


def _stages(comparison: Comparison) -> dict[str, Any]:
    return {
        "stages": [{"stage": s.stage, "same": s.same, "kind": s.kind} for s in comparison.stages],
        "first": comparison.stage,
        "made_by": comparison.cause or None,
        "excerpt": comparison.excerpt,
        "notes": list(comparison.notes),
    }


def _isa(difference: IsaDifference) -> dict[str, Any]:
    """Returns the JSON fields of a difference of code."""
    return {
        "loop": difference.loop,
        "same": difference.common,
        "only": list(difference.only),
        "lines": [
            {
                "place": line.place or None,
                "counts": {name: list(side_counts) for name, side_counts in line.counts.items()},
                "lines": list(line.lines),
            }
            for line in difference.lines
        ],
    }


def _alone(unpaired: Alone) -> dict[str, Any]:
    return {
        "kernel": unpaired.label,
        "arch": unpaired.arch,
        "id": unpaired.report.id,
        "why": unpaired.why,
    }


def _plain(value: MetricValue) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
