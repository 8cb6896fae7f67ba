"""Writes profiles of emulated kernels: as text with the hottest lines, and as JSON."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from typing import TextIO

import msgspec

from ..explain.table import Column, rows_of
from ..explain.view import plural
from ..pipeline.emulated_code import CodeResult
from ..pipeline.emulation import EmulationResult
from ..pipeline.emulation_profile import (
    AccessProfile,
    EmulationFinding,
    EmulationProfile,
    LineCount,
)

SCHEMA_VERSION = 1
MOST_LINES = 12
"""Most source lines of a kernel that the text shows."""


def write_json(result: EmulationResult, stream: TextIO) -> None:
    """Writes everything as JSON."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "origin": "emulated",
        "status": result.status,
        "complete": result.complete,
        "launches": result.launches,
        "notes": result.notes,
        "kernels": result.kernels,
    }
    stream.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode())
    stream.write("\n")


def write_text(result: EmulationResult, stream: TextIO) -> None:
    """Writes a table for each kernel: its executed instructions by line, and its findings."""
    for kernel in result.kernels:
        _write_kernel(kernel, stream)
    for note in result.notes:
        stream.write(f"note: {note}\n")
    findings = sum(len(kernel.findings) for kernel in result.kernels)
    ending = "" if result.complete else "; the script did not come to its end"
    stream.write(
        f"{plural(len(result.kernels), 'kernel')}, {plural(result.launches, 'launch')} executed, "
        f"{plural(findings, 'finding') if findings else 'no findings'}{ending}\n"
    )


def write_code_json(result: CodeResult, stream: TextIO) -> None:
    """Writes one launch of a kernel from a code file as JSON."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "origin": "emulated",
        "kernels": [result.profile],
        "buffers": result.buffers,
    }
    stream.write(msgspec.json.format(msgspec.json.encode(document), indent=1).decode())
    stream.write("\n")


def write_code_text(result: CodeResult, stream: TextIO) -> None:
    """Writes one launch of a kernel from a code file as text: its profile, and its buffers."""
    _write_kernel(result.profile, stream)
    for buffer in result.buffers:
        value_range = (
            "no numbers"
            if buffer.smallest is None
            else (f"{buffer.smallest:g} to {buffer.largest:g}")
        )
        nan = f", {buffer.nan:,} NaN" if buffer.nan else ""
        stream.write(f"{buffer.name}   {buffer.changed:,} elements changed; {value_range}{nan}\n")


def _write_kernel(kernel: EmulationProfile, stream: TextIO) -> None:
    sample_note = ""
    if kernel.workgroups < kernel.grid_workgroups:
        reason = f"{plural(kernel.given_up, 'launch')} given up" if kernel.given_up else "a sample"
        sample_note = f" of {kernel.grid_workgroups:,} ({reason}: results are not real)"
    stream.write(
        f"{kernel.name} on {kernel.arch}   {plural(kernel.launches, 'launch')}, "
        f"{plural(kernel.workgroups, 'workgroup')}{sample_note}, {plural(kernel.waves, 'wave')}\n"
    )
    executed = ", ".join(
        f"{name} {count:,}" for name, count in kernel.executed.items() if name != "instructions"
    )
    stream.write(f"  {kernel.executed['instructions']:,} instructions executed: {executed}\n")
    hottest = kernel.lines[:MOST_LINES]
    total = kernel.executed["instructions"]
    columns = [
        Column("line", _place),
        Column("executed", lambda line: f"{line.instructions:,}", right=True),
        Column("share", lambda line: f"{100 * line.instructions / total:.1f} %", right=True),
        Column("mostly", _mostly),
        Column("source", _source),
    ]
    stream.writelines(f"  {line}\n" for line in rows_of(columns, hottest))
    for text in (*_memory(kernel), *_work(kernel), *_trips(kernel), *_flow(kernel)):
        stream.write(f"  {text}\n")
    for finding in kernel.findings:
        stream.write(f"  {_finding(finding)}\n")
    stream.write("\n")


def _memory(kernel: EmulationProfile) -> Iterator[str]:
    """The cost of memory accesses: bytes and cache lines of global memory, LDS bank conflicts."""
    in_global = [access for access in kernel.accesses if access.cache_lines]
    if in_global:
        bytes_by_op = {
            op: sum(access.bytes for access in in_global if access.op == op)
            for op in ("load", "store", "atomic")
        }
        cache_lines = sum(access.cache_lines or 0 for access in in_global)
        least_cache_lines = sum(access.least_cache_lines or 0 for access in in_global)
        amounts = [f"{op}s {_bytes(number)}" for op, number in bytes_by_op.items() if number]
        excess = cache_lines / least_cache_lines
        yield f"global memory: {', '.join(amounts)}; {excess:.2f} x the least cache lines"
        worst = max(in_global, key=_wasted_lines)
        if _wasted_lines(worst) > 0:
            yield (
                f"  most wasted at {_where(worst)}: "
                f"{(worst.cache_lines or 0) / worst.waves:.1f} lines for each access of a wave, "
                f"{(worst.least_cache_lines or 0) / worst.waves:.1f} would do"
            )
    conflicting = [access for access in kernel.accesses if access.conflict_cycles]
    if conflicting:
        total = sum(access.conflict_cycles or 0 for access in conflicting)
        worst = max(conflicting, key=lambda access: access.conflict_cycles or 0)
        yield f"LDS bank conflicts: {total:,} cycles"
        yield (
            f"  most at {_where(worst)}: {(worst.conflict_cycles or 0) / worst.waves:.1f} cycles "
            "more for each access of a wave"
        )


def _work(kernel: EmulationProfile) -> Iterator[str]:
    """Distinct bytes and floating-point operations of a launch, and their ratio."""
    traffic = kernel.traffic
    if traffic is None:
        return
    per_launch = "" if kernel.launches == 1 else " of each launch, in the mean"
    yield (
        f"distinct bytes{per_launch}: {_bytes(traffic.unique_read)} read, "
        f"{_bytes(traffic.unique_written)} written"
    )
    flops = traffic.matrix_flops + traffic.vector_flops
    if flops and kernel.flops_per_byte is not None:
        yield (
            f"{_scaled(flops, 'flop')}, {kernel.flops_per_byte:.3g} for each distinct byte (all "
            "lanes taken as active)"
        )


def _flow(kernel: EmulationProfile) -> Iterator[str]:
    """Branches that divide waves' lanes, and the spread of instructions over workgroups."""
    divided = [branch for branch in kernel.branches if branch.divided]
    if divided:
        worst = max(divided, key=lambda branch: branch.divided or 0)
        divided_runs = sum(branch.divided or 0 for branch in divided)
        total = sum(branch.waves for branch in kernel.branches)
        place = f"line {worst.source_line}: " if worst.source_line else ""
        yield (
            f"branches with the lanes of a wave divided: {divided_runs:,} of {total:,}, most at "
            f"{place}{worst.instruction} ({worst.divided:,} of {worst.waves:,})"
        )
    spread = kernel.per_workgroup
    if spread is not None and spread.least != spread.most:
        yield (
            f"instructions of a workgroup: {spread.least:,} to {spread.most:,}, median "
            f"{spread.median:,}"
        )


def _wasted_lines(access: AccessProfile) -> int:
    return (access.cache_lines or 0) - (access.least_cache_lines or 0)


def _where(access: AccessProfile) -> str:
    place = f"line {access.source_line}: " if access.source_line else ""
    return f"{place}{access.instruction}"


def _bytes(number: int) -> str:
    return _scaled(number, "B")


def _scaled(number: int, unit: str) -> str:
    for letter, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {letter}{unit}"
    return f"{number} {unit}"


def _trips(kernel: EmulationProfile) -> Iterator[str]:
    if kernel.trips:
        loops = ", ".join(f"{name} {count:g}" for name, count in kernel.trips.items())
        yield f"iterations of each loop, for each time it is entered: {loops}"


def _place(count: LineCount) -> str:
    return str(count.line) if count.line else "-"


def _mostly(count: LineCount) -> str:
    return " ".join(f"{name} {number:,}" for name, number in list(count.classes.items())[:3])


def _source(count: LineCount) -> str:
    if count.file is None or not count.line:
        return ""
    return linecache.getline(count.file, count.line).strip()[:60]


def _finding(finding: EmulationFinding) -> str:
    where = f"{finding.file}:{finding.source_line}: " if finding.file else ""
    return (
        f"{where}{finding.kind}: {finding.detail} ({finding.instruction}, line {finding.line} of "
        "the assembly)"
    )
