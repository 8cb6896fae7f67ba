"""Describes kernel files by what only loading them tells: cases, benchmark shapes, spaces."""

from __future__ import annotations

import os
from typing import Any

from ..frontend import plain
from ..loading import LoadError, load
from ..records import Emit, one_line
from .kernel_file import entries


def run(request: dict[str, Any], emit: Emit) -> None:
    """Describes the files `request["paths"]`, each a step.

    Emits for each `{"described": {...}}` with `path`, `cases`, `bench`, `tuning` and `compiled`, or
    with `path`, `problem` and `hint`. All files are loaded in this process.
    """
    for number, path in enumerate(request["paths"], start=1):
        if number in request["finished"]:
            continue
        emit({"begin": number, "path": path})
        try:
            emit({"described": _described(path)})
        except LoadError as error:
            problem = {"path": path, "problem": one_line(error.message), "hint": error.hint}
            emit({"described": problem})


def _described(path: str) -> dict[str, Any]:
    module = load(os.path.abspath(path))
    compiled = getattr(module, "KINSPECT_CASES", None) or ()
    return {
        "path": path,
        "cases": _table(module, "CASES"),
        "bench": _table(module, "BENCH"),
        "tuning": plain(getattr(module, "TUNING", None) or {}),
        "compiled": [
            {"name": case.get("name"), "kernel": case.get("kernel"), "archs": case.get("archs")}
            for case in compiled
            if isinstance(case, dict)
        ],
    }


def _table(module: Any, name: str) -> list[dict[str, Any]]:
    if getattr(module, name, None) is None:
        return []
    return [dict(plain(entry)) for entry in entries(module, name)]
