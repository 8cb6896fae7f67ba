"""Results of checks: a table per kernel as text, and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from msgspec import to_builtins

from ..base.streams import dump_json
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
from ..explain.view import plural
from ..present import text
from ..present.document import Block, Column, Columns, Section, Span, paragraphs, table

SCHEMA_VERSION = 1
UPCAST = (
    "bfloat16 inputs are rounded to bfloat16 and handed over as float32: the bf16 dot of Triton's"
    " interpreter is wrong"
)
RESULT_TEXTS = {PASSED: "ok", SKIPPED: "skipped", FAILED: "FAILED", ERROR: "ERROR"}


def write_kernel(kernel: KernelCheck, stream: TextIO) -> None:
    """Writes a kernel's cases as a table, with the failures below it."""
    arch = f" on {kernel.arch}" if kernel.arch else ""
    counts = f"{arch}   {_counts(_count([kernel]))}   {kernel.seconds:.1f} s"
    failed = [f"{c.case}: {c.message}" for c in kernel.cases if c.message and c.status != SKIPPED]
    note = f"note: {UPCAST}" if any(case.upcast for case in kernel.cases) else ""
    blocks: tuple[Block, ...] = (
        table(_COLUMNS, kernel.cases),
        *paragraphs((*failed, kernel.problem, note)),
    )
    title = (Span(kernel.name, "strong"), Span(counts))
    text.show((Section(blocks, title, is_subject=True), Section(())), stream)
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
    """Writes everything as JSON, with null for what is unknown or not finite."""
    upcast = any(case.upcast for kernel in kernels for case in kernel.cases)
    result = {
        "schema_version": SCHEMA_VERSION,
        "tool": dict(tool),
        "device": devices[0] if devices else None,
        "devices": devices,
        "summary": {**_count(kernels), "seconds": round(seconds, 3)},
        "interrupted": interrupted,
        "notes": [UPCAST] if upcast else [],
        "kernels": [_kernel(kernel) for kernel in kernels],
    }
    dump_json(result, stream)


def _kernel(kernel: KernelCheck) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "file": kernel.path,
        "arch": kernel.arch or None,
        "problem": kernel.problem or None,
        "seconds": round(kernel.seconds, 3),
        "cases": [_case(case) for case in kernel.cases],
    }


_NAMES = {
    "case": "name",
    "max_abs": "max_abs_error",
    "max_rel": "max_rel_error",
    "share": "share_of_tolerance",
}


def _case(case: CaseCheck) -> dict[str, Any]:
    """Returns a case as JSON values; errors that are not finite, and empty texts, are null."""
    fields = {_NAMES.get(name, name): value for name, value in to_builtins(case).items()}
    for name, value in fields.items():
        if value == "" or (isinstance(value, float) and not math.isfinite(value)):
            fields[name] = None
    return fields


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


_COLUMNS: Columns = (
    ("case", lambda case: case.case),
    ("result", lambda case: RESULT_TEXTS.get(case.status, case.status.upper())),
    (Column("max abs error", right=True), lambda case: _error(case.max_abs)),
    (
        Column("atol", right=True, rank=1),
        lambda case: _error(case.atol) if case.max_abs is not None else "",
    ),
    (Column("max rel error", right=True, rank=2), lambda case: _error(case.max_rel)),
    (
        Column("rtol", right=True, rank=3),
        lambda case: _error(case.rtol) if case.max_rel is not None else "",
    ),
    (Column("of allowed", right=True), _share),
    (
        Column("s", right=True, rank=4),
        lambda case: f"{case.seconds:.2f}" if case.seconds is not None else "",
    ),
    (Column("", shrinks=True), lambda case: case.message if case.status == SKIPPED else ""),
)
