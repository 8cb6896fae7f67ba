"""The list of kernel files, or one of them, as documents and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, to_builtins

from ..bench.suite.catalogue import KernelFile
from ..bench.suite.checks import Description
from ..present.document import (
    Code,
    Column,
    Columns,
    Document,
    Figure,
    Figures,
    Section,
    Span,
    table,
    words,
)

FIGURES = ("name", "atol", "rtol", "slow", "needs")
"""Keys of a case that are not part of its shape."""
UNKNOWN = "–"


class KernelEntry(Struct, frozen=True):
    """A line of the list; counts are None where they are not known."""

    kernel: KernelFile
    cases: int | None
    bench: int | None


def list_document(entries: Sequence[KernelEntry]) -> Document:
    """A line for each kernel."""
    columns: Columns = (
        ("kernel", lambda entry: entry.kernel.name),
        (Column("cases", right=True, rank=1), lambda entry: _counted(entry.cases)),
        (Column("shapes", right=True, rank=2), lambda entry: _counted(entry.bench)),
        (Column("what it is", shrinks=True), lambda entry: entry.kernel.summary),
        (Column("answers to", shrinks=True, rank=3), lambda entry: entry.kernel.answers_to),
    )
    return (Section((table(columns, entries),)),)


def list_fields(entries: Sequence[KernelEntry]) -> dict[str, Any]:
    """The list of kernels as JSON values."""
    kernels = [
        {**_head(entry.kernel), "cases": entry.cases, "bench_shapes": entry.bench}
        for entry in entries
    ]
    return {"kernels": kernels}


def document(kernel: KernelFile, description: Description | None) -> Document:
    """A kernel's docstring, cases, benchmark shapes, tuning space and compile cases."""
    title = (Span(kernel.name, "strong"), Span(f"  {kernel.path}"))
    head = Section((Code(tuple(kernel.docstring.splitlines())),), title, is_subject=True)
    if description is None:
        return (head,)
    points = math.prod(map(len, description.tuning.values()))
    tuning = tuple(
        Figure(name, words(", ".join(map(str, values))))
        for name, values in description.tuning.items()
    )
    parts = (
        (f"cases ({len(description.cases)})", table(_CASES, description.cases)),
        (f"benchmark shapes ({len(description.bench)})", table(_CASES, description.bench)),
        (f"tuning space ({points} configurations)", Figures(tuning)),
        (f"compile cases ({len(description.compiled)})", table(_COMPILED, description.compiled)),
    )
    return (
        head,
        *(Section((block,), words(title, "strong")) for title, block in parts if block.rows),
    )


def fields(kernel: KernelFile, description: Description | None) -> dict[str, Any]:
    """What is known of a kernel as JSON values; tables that are not known are null."""
    facts: dict[str, Any] = dict.fromkeys(("cases", "bench", "tuning", "compile_cases"))
    if description is not None:
        facts = to_builtins(description)
        facts["compile_cases"] = facts.pop("compiled")
    return {**_head(kernel), "docstring": kernel.docstring, **facts}


def _head(kernel: KernelFile) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "summary": kernel.summary,
        "answers_to": kernel.answers_to or None,
        "file": str(kernel.path),
    }


def _shape(entry: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{name}={_plain(value)}" for name, value in entry.items() if name not in FIGURES
    )


def _remark(entry: Mapping[str, Any]) -> str:
    needs = entry.get("needs")
    return ", ".join(
        [*(["slow"] if entry.get("slow") else []), *([f"needs {needs}"] if needs else [])]
    )


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_plain(v)}" for k, v in value.items()) + "}"
    return str(value)


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else ""


def _counted(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


_CASES: Columns = (
    ("name", lambda case: str(case["name"])),
    ("shape", _shape),
    (Column("atol", right=True), lambda case: _number(case.get("atol"))),
    (Column("rtol", right=True), lambda case: _number(case.get("rtol"))),
    ("", _remark),
)
_COMPILED: Columns = (
    ("name", lambda case: str(case["name"])),
    ("kernel", lambda case: str(case["kernel"])),
    ("archs", lambda case: ", ".join(case["archs"] or ("all",))),
)
