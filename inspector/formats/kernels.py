"""Writes the list of kernel files, or one of them, as text and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from msgspec import Struct

from ..bench.suite.catalogue import KernelFile
from ..bench.suite.checks import Description
from ..explain.table import Column, rows_of

FIGURES = ("name", "atol", "rtol", "slow", "needs")
"""Keys of a case that are not part of its shape."""
UNKNOWN = "–"


class KernelEntry(Struct, frozen=True):
    """A line of the list; counts are None where they are not known."""

    kernel: KernelFile
    cases: int | None
    bench: int | None


def write_list(entries: Sequence[KernelEntry], stream: TextIO) -> None:
    """Writes one line per kernel."""
    stream.writelines(f"{line}\n" for line in rows_of(COLUMNS, entries))


def write_list_json(entries: Sequence[KernelEntry], stream: TextIO) -> None:
    """Writes the list of kernels as JSON."""
    kernels = [
        {**_head(entry.kernel), "cases": entry.cases, "bench_shapes": entry.bench}
        for entry in entries
    ]
    _dump({"kernels": kernels}, stream)


def write_one(kernel: KernelFile, description: Description | None, stream: TextIO) -> None:
    """Writes a kernel's docstring, cases, benchmark shapes and tuning space."""
    stream.write(f"{kernel.name}   {kernel.path}\n\n{kernel.docstring}\n")
    if description is None:
        return
    for title, table in (("Cases", description.cases), ("Benchmark shapes", description.bench)):
        if table:
            stream.write(f"\n{title} ({len(table)})\n")
            stream.writelines(f"  {line}\n" for line in rows_of(_CASE_COLUMNS, table))
    if description.tuning:
        points = math.prod(map(len, description.tuning.values()))
        stream.write(f"\nTuning space ({points} configurations)\n")
        width = max(map(len, description.tuning))
        for name, values in description.tuning.items():
            stream.write(f"  {name:<{width}}  {', '.join(map(str, values))}\n")
    if description.compiled:
        stream.write(f"\nCompile cases ({len(description.compiled)})\n")
        stream.writelines(f"  {line}\n" for line in rows_of(COMPILED, description.compiled))


def write_one_json(kernel: KernelFile, description: Description | None, stream: TextIO) -> None:
    """Writes what is known of a kernel as JSON; tables that are not known are null."""
    facts: dict[str, Any] = dict.fromkeys(("cases", "bench", "tuning", "compile_cases"))
    if description is not None:
        facts = {
            "cases": list(description.cases),
            "bench": list(description.bench),
            "tuning": dict(description.tuning),
            "compile_cases": list(description.compiled),
        }
    _dump({**_head(kernel), "docstring": kernel.docstring, **facts}, stream)


def _head(kernel: KernelFile) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "summary": kernel.summary,
        "answers_to": kernel.answers_to or None,
        "file": str(kernel.path),
    }


def _dump(value: Mapping[str, Any], stream: TextIO) -> None:
    json.dump(value, stream, indent=1, default=str)
    stream.write("\n")


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


_CASE_COLUMNS = (
    Column("name", lambda case: str(case["name"])),
    Column("shape", _shape),
    Column("atol", lambda case: _number(case.get("atol")), right=True),
    Column("rtol", lambda case: _number(case.get("rtol")), right=True),
    Column("", _remark),
)
COLUMNS = [
    Column("kernel", lambda entry: entry.kernel.name),
    Column("cases", lambda entry: _counted(entry.cases), right=True),
    Column("shapes", lambda entry: _counted(entry.bench), right=True),
    Column("what it is", lambda entry: entry.kernel.summary),
    Column("answers to", lambda entry: entry.kernel.answers_to),
]
COMPILED = [
    Column("name", lambda case: str(case["name"])),
    Column("kernel", lambda case: str(case["kernel"])),
    Column("archs", lambda case: ", ".join(case["archs"] or ("all",))),
]
