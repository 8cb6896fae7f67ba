"""A comparison as JSON, `schema_version` 1."""

from __future__ import annotations

from typing import Any, TextIO

from ..base.streams import dump_json
from ..compare.diff.diff_results import DiffReport, IsaDifference, KernelDiff, LoopPair, label_of
from ..compare.stages import Comparison
from ..model import KernelReport, LoopReport
from ..report.json_write import error_fields, fields_of, metrics_dict

SCHEMA_VERSION = 1


def write(report: DiffReport, stream: TextIO) -> None:
    """Writes the comparison as one indented JSON document."""
    dump_json(to_dict(report), stream)


def to_dict(report: DiffReport) -> dict[str, Any]:
    """The comparison as plain JSON values; lists of two are left and right."""
    alone = {
        side: [
            {
                "kernel": unpaired.label,
                "arch": unpaired.arch,
                "id": unpaired.report.id,
                "why": unpaired.why,
            }
            for unpaired in getattr(report, side)
        ]
        for side in ("only_left", "only_right")
    }
    return {
        "schema_version": SCHEMA_VERSION,
        **fields_of(report, "tool", "left", "right", "tolerances"),
        "counts": {str(verdict): n for verdict, n in report.counts.items()},
        "pairs": [_pair(pair) for pair in report.pairs],
        **alone,
        "errors": [{"side": side, **error_fields(error)} for side, error in report.errors],
        "notes": list(report.notes),
    }


def _pair(pair: KernelDiff) -> dict[str, Any]:
    return {
        "kernel": label_of(pair.left),
        **fields_of(pair, "verdict", "time"),
        "matched_by": pair.matched_by or None,
        "sides": [_side(pair.left), _side(pair.right)],
        "changes": [
            {
                **fields_of(change, "name", "unit", "loop"),
                "values": [*fields_of(change, "left", "right").values()],
                **fields_of(change, "judgement", "matters", "why"),
            }
            for change in pair.changes
        ],
        "loops": [_loops(loops) for loops in pair.loops],
        "stages": _stages(pair.comparison) if pair.comparison is not None else None,
        "isa": [_isa(difference) for difference in pair.isa],
        "notes": list(pair.remarks),
    }


def _side(kernel: KernelReport) -> dict[str, Any]:
    variant = kernel.variant
    return {
        **fields_of(kernel, "id", "name", "arch"),
        "case": variant.case if variant is not None else None,
        "options": dict(variant.options) if variant is not None else None,
        "metrics": metrics_dict(kernel.metrics),
    }


def _loops(pair: LoopPair) -> dict[str, Any]:
    return {
        "sides": [_loop(pair.left), _loop(pair.right)],
        "per": list(pair.basis.divisors) if pair.basis.divisors is not None else None,
        "basis": pair.basis.words,
        "work_unit": pair.basis.work,
        "bound_per_work": list(bound) if (bound := pair.bound_per_work) is not None else None,
        "bound_units": [side.unit if side is not None else None for side in pair.bounds],
    }


def _loop(loop: LoopReport | None) -> dict[str, Any] | None:
    if loop is None:
        return None
    return {
        **fields_of(loop, "id", "header"),
        "source": [fields_of(position, "file", "line") for position in loop.source],
        **fields_of(loop, "hot", "unroll"),
        "metrics": metrics_dict(loop.metrics),
    }


def _stages(comparison: Comparison) -> dict[str, Any]:
    return {
        "stages": [fields_of(stage, "stage", "same", "kind") for stage in comparison.stages],
        "first": comparison.stage,
        "made_by": comparison.cause or None,
        "excerpt": comparison.excerpt,
        "notes": list(comparison.notes),
    }


def _isa(difference: IsaDifference) -> dict[str, Any]:
    return {
        "loop": difference.loop,
        "same": difference.common,
        "only": list(difference.only),
        "lines": [
            {
                "place": line.place or None,
                "counts": {name: list(counts) for name, counts in line.counts.items()},
                "lines": list(line.lines),
            }
            for line in difference.lines
        ],
    }
