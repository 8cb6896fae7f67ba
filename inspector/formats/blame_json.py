"""Which layer of two Tritons is responsible for a figure, as JSON."""

from __future__ import annotations

from typing import TextIO

from msgspec import to_builtins

from ..base.streams import dump_json
from ..compare.blame.results import Blame

SCHEMA_VERSION = 1


def write(blame: Blame, stream: TextIO) -> None:
    """Writes an object with the keys of `blame.schema.json`."""
    verdict = blame.verdict
    document = {
        "schema_version": SCHEMA_VERSION,
        "kernel": blame.kernel,
        "arch": blame.arch,
        "left": {"label": blame.left, "triton_version": blame.versions[0]},
        "right": {"label": blame.right, "triton_version": blame.versions[1]},
        "metric": blame.metric,
        "time": to_builtins(blame.time),
        "no_time": blame.no_time,
        "verdict": {
            "layers": list(verdict.layers),
            "pass": verdict.pass_name,
            "only_left": list(verdict.only_left),
            "only_right": list(verdict.only_right),
            "pass_options": verdict.pass_options,
            "options": {name: list(pair) for name, pair in verdict.options.items()},
            "change": verdict.change,
            "share": verdict.share,
            "bisected": verdict.bisected,
            "slow_pass": to_builtins(verdict.slow_pass),
        },
        "shares": to_builtins(blame.shares),
        "steps": to_builtins(blame.steps),
    }
    dump_json(document, stream)
