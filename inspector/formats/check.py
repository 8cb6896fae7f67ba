"""Results of checks: a table per kernel as text, and JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from msgspec import to_builtins

from ..bench.suite.checks import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    STATUSES,
    CaseCheck,
    CheckedDevice,
    KernelCheck,
)
from ..explain.table import Column, rows_of
from ..explain.view import plural

SCHEMA_VERSION = 1
UPCAST = (
    "bfloat16 inputs are rounded to bfloat16 and handed over as float32: the bf16 dot of Triton's"
    " interpreter is wrong"
)
WORDS = {PASSED: "ok", SKIPPED: "skipped", FAILED: "FAILED", ERROR: "ERROR"}


def write_kernel(kernel: KernelCheck, stream: TextIO) -> None:
    """Writes a kernel's cases as a table, with the failures below it."""
    arch = f" on {kernel.arch}" if kernel.arch else ""
    stream.write(f"{kernel.name}{arch}   {_counts(_count([kernel]))}   {kernel.seconds:.1f} s\n")
    stream.writelines(f"  {line}\n" for line in rows_of(COLUMNS, kernel.cases) if kernel.cases)
    for case in kernel.cases:
        if case.message and case.status != SKIPPED:
            stream.write(f"  {case.case}: {case.message}\n")
    if kernel.problem:
        stream.write(f"  {kernel.problem}\n")
    if any(case.upcast for case in kernel.cases):
        stream.write(f"  note: {UPCAST}\n")
    stream.write("\n")
    stream.flush()


def write_summary(
    kernels: Sequence[KernelCheck], devices: Sequence[CheckedDevice], seconds: float, stream: TextIO
) -> None:
    """Writes the last line: how many kernels were checked, where, and how long it took."""
    cases = sum(len(kernel.cases) for kernel in kernels)
    where = f"; {_where(devices)}" if devices else ""
    stream.write(
        f"{plural(len(kernels), 'kernel')}, {plural(cases, 'case')}: {_counts(_count(kernels))};"
        f" {seconds:.1f} s{where}\n"
    )


def write_json(
    kernels: Sequence[KernelCheck],
    devices: Sequence[CheckedDevice],
    seconds: float,
    tool: Mapping[str, str],
    stream: TextIO,
    *,
    interrupted: bool = False,
) -> None:
    """Writes everything as JSON, with null for what is unknown or not finite.

    Args:
        kernels: the results.
        devices: the devices that they ran on.
        seconds: wall time of the run.
        tool: our name and version.
        stream: the output.
        interrupted: whether the run ended before all kernels were checked.
    """
    upcast = any(case.upcast for kernel in kernels for case in kernel.cases)
    result = {
        "schema_version": SCHEMA_VERSION,
        "tool": dict(tool),
        "device": to_builtins(devices[0]) if devices else None,
        "devices": to_builtins(tuple(devices)),
        "summary": {**_count(kernels), "seconds": round(seconds, 3)},
        "interrupted": interrupted,
        "notes": [UPCAST] if upcast else [],
        "kernels": [
            {
                "name": kernel.name,
                "file": kernel.path,
                "arch": kernel.arch or None,
                "problem": kernel.problem or None,
                "seconds": round(kernel.seconds, 3),
                "cases": [_case(case) for case in kernel.cases],
            }
            for kernel in kernels
        ],
    }
    json.dump(result, stream, indent=1, allow_nan=False)
    stream.write("\n")


def _case(case: CaseCheck) -> dict[str, Any]:
    """Returns a case as JSON values; errors that are not finite are null."""
    figures = {
        name: value if value is None or math.isfinite(value) else None
        for name, value in (
            ("max_abs_error", case.max_abs),
            ("max_rel_error", case.max_rel),
            ("share_of_tolerance", case.share),
            ("atol", case.atol),
            ("rtol", case.rtol),
        )
    }
    return {
        "name": case.case,
        "status": case.status,
        "message": case.message or None,
        **figures,
        "seconds": round(case.seconds, 4) if case.seconds is not None else None,
        "upcast": case.upcast,
        "detail": case.detail or None,
    }


def _count(kernels: Sequence[KernelCheck]) -> dict[str, int]:
    return {status: sum(kernel.count(status) for kernel in kernels) for status in STATUSES}


def _counts(counts: Mapping[str, int]) -> str:
    words = {"error": "with an error"}
    parts = [f"{n} {words.get(status, status)}" for status, n in counts.items() if n]
    return ", ".join(parts) or "nothing checked"


def _where(devices: Sequence[CheckedDevice]) -> str:
    names = []
    for device in devices:
        arch = f" ({device.arch})" if device.arch and device.arch not in device.name else ""
        names.append(device.name + arch)
    versions = devices[0]
    return f"{'; '.join(names)}, Triton {versions.triton}, PyTorch {versions.torch}"


def _error(value: float | None) -> str:
    if value is None:
        return ""
    return "0" if value == 0 else f"{value:.1e}"


def _share(case: CaseCheck) -> str:
    if case.share is None:
        return ""
    return f"{100 * case.share:.0f} %" if math.isfinite(case.share) else "∞"


COLUMNS = [
    Column("case", lambda case: case.case),
    Column("result", lambda case: WORDS.get(case.status, case.status.upper())),
    Column("max abs error", lambda case: _error(case.max_abs), right=True),
    Column("atol", lambda case: _error(case.atol) if case.max_abs is not None else "", right=True),
    Column("max rel error", lambda case: _error(case.max_rel), right=True),
    Column("rtol", lambda case: _error(case.rtol) if case.max_rel is not None else "", right=True),
    Column("of allowed", _share, right=True),
    Column("s", lambda case: f"{case.seconds:.2f}" if case.seconds is not None else "", right=True),
    Column("", lambda case: case.message if case.status == SKIPPED else ""),
]
