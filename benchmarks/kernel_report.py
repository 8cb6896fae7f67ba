"""Writes kernels/REPORT.md, what kinspect says of the bundled kernels: `python -m
benchmarks.kernel_report [NAME...]`.

Every compile case of every kernel for five targets, without a GPU. What was compiled before comes
from the store. With names, or where something could not be compiled, the report goes to stdout.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kinspect.inspector.base.version import VERSION
from kinspect.inspector.bench.suite import catalogue
from kinspect.inspector.bench.suite.catalogue import KernelFile
from kinspect.inspector.metrics.subject import MATRIX_CLASSES
from kinspect.inspector.model import KernelReport, LoopReport, MemoryOp, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

ROOT = Path(__file__).parent.parent
OUTPUT = ROOT / "kernels" / "REPORT.md"
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
AIMED = "gfx942"
WIDE = 128
SCRATCH = ("scratch_load", "scratch_store")
LOADS = frozenset({"global_load", "lds_direct"})
UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class CompileRow:
    """One case on one target, as the report shows it.

    Args:
        file: the kernel file's name.
        kernel: the function.
        case: name of the case.
        arch: target.
        default: the file's first case for this target.
        vgprs: VGPRs used, AGPRs among them.
        spills: spilled VGPRs.
        hot_spills: scratch accesses in one iteration of the hot loops.
        lds: bytes.
        waves: resident waves per SIMD.
        workgroups: resident workgroups per CU.
        matrix: matrix instructions of one iteration of the main loop; None without a loop.
        loads: widths of the global loads in the hot loops (without one: of all), in bits.
        narrow: source lines of those narrower than `WIDE`.
    """

    file: str
    kernel: str
    case: str
    arch: str
    default: bool
    vgprs: int | None
    spills: int | None
    hot_spills: int
    lds: int | None
    waves: int | None
    workgroups: int | None
    matrix: int | None
    loads: tuple[int, ...]
    narrow: tuple[str, ...]


def main() -> int:
    """Writes the report; 1 where a case does not compile."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="kernels; all without any")
    parser.add_argument("--output", type=Path, help="file to write")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    kernels = [catalogue.find(name) for name in options.names] or catalogue.bundled()
    targets = tuple(str(kernel.path) for kernel in kernels)
    report = collect(Request(targets, archs=ARCHS, jobs=options.jobs, passes=False))
    text = "\n".join(document(kernels, report)) + "\n"
    output = options.output or (None if options.names else OUTPUT)
    if output is None:
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")
    return 1 if report.errors else 0


def document(kernels: Sequence[KernelFile], report: Report) -> Iterator[str]:
    """The lines of the report."""
    rows = rows_of(report)
    version = next((k.variant.triton_version for k in report.kernels if k.variant), None)
    yield "# What kinspect says of the bundled kernels"
    yield ""
    yield (
        f"Made by `python -m benchmarks.kernel_report` with kinspect {VERSION} and Triton"
        f" {version or 'unknown'}, without a GPU: facts of the compiled code, no times."
    )
    yield ""
    yield from summary(kernels, rows, report)
    for kernel in kernels:
        mine = [row for row in rows if row.file == kernel.name]
        yield ""
        yield f"## {kernel.name}"
        yield ""
        yield f"{kernel.summary}. Answers to: {kernel.answers_to}."
        yield ""
        yield from table(mine)


def summary(
    kernels: Sequence[KernelFile], rows: Sequence[CompileRow], report: Report
) -> Iterator[str]:
    """What misses the aims, and what they are."""
    defaults = [row for row in rows if row.default and row.arch == AIMED]
    yield (
        f"{len(rows)} compiles of {len(kernels)} kernels for {', '.join(ARCHS)}. The first case of"
        f" a file for {AIMED} is its default configuration there (**bold** in the tables)."
    )
    yield ""
    yield "## Aims, and what misses them"
    yield ""
    yield from _misses("Every case compiles", (_error(e.kernel, e.message) for e in report.errors))
    without = {k.name for k in kernels} - {row.file for row in defaults}
    yield from _misses(f"Every kernel has a case for {AIMED}", sorted(without))
    yield from _misses(
        f"No spill inside a hot loop of a default configuration on {AIMED}",
        (f"{_label(r)}: {r.hot_spills} scratch accesses" for r in defaults if r.hot_spills),
    )
    yield from _misses(
        f"Global loads of {WIDE} bits in the hot loop of a default configuration on {AIMED}",
        (
            f"{_label(r)}: {_widths(r.loads)} bits, at {', '.join(r.narrow) or 'unknown lines'}"
            for r in defaults
            if r.narrow
        ),
    )
    yield from _misses(
        "At least one resident workgroup per CU",
        (f"{_label(r)} on {r.arch}: {r.workgroups}" for r in rows if (r.workgroups or 0) < 1),
    )
    others = [r for r in rows if r.hot_spills and not (r.default and r.arch == AIMED)]
    if others:
        yield ""
        yield f"Spills inside hot loops elsewhere, {len(others)} compiles:"
        yield ""
        yield from (f"- {_label(r)} on {r.arch}: {r.hot_spills}" for r in others)


def table(rows: Sequence[CompileRow]) -> Iterator[str]:
    """A Markdown table of one kernel file's cases."""
    titles = (
        *("case", "arch", "VGPRs", "spills", "in hot loops", "LDS bytes", "waves/SIMD"),
        *("workgroups/CU", "matrix/iteration", "loads, bits"),
    )
    yield "| " + " | ".join(titles) + " |"
    yield "|---|---|" + "--:|" * (len(titles) - 2)
    for row in rows:
        name = f"**{row.case}**" if row.default and row.arch == AIMED else row.case
        figures = (row.vgprs, row.spills, row.hot_spills, row.lds, row.waves, row.workgroups)
        cells = [name, row.arch, *map(_cell, (*figures, row.matrix)), _widths(row.loads)]
        yield "| " + " | ".join(cells) + " |"


def rows_of(report: Report) -> list[CompileRow]:
    """The rows in the report's order, by file."""
    rows: list[CompileRow] = []
    seen: set[tuple[str, str]] = set()
    for kernel in report.kernels:
        file = Path(kernel.file).stem
        arch = kernel.arch or ""
        rows.append(_row(kernel, file, arch, (file, arch) not in seen))
        seen.add((file, arch))
    return rows


def _row(kernel: KernelReport, file: str, arch: str, default: bool) -> CompileRow:
    hot = [loop for loop in kernel.loops if loop.hot]
    main = next((loop for loop in kernel.loops if loop.id == kernel.main_loop), None)
    loads = _loads(kernel, hot)
    narrow = [op for op in loads if (op.bits or 0) < WIDE]
    return CompileRow(
        file=file,
        kernel=kernel.name,
        case=(kernel.variant.case if kernel.variant else None) or "",
        arch=arch,
        default=default,
        vgprs=_figure(kernel, "vgpr_count"),
        spills=_figure(kernel, "vgpr_spill_count"),
        hot_spills=sum(_figure(loop, f"count.{c}") or 0 for loop in hot for c in SCRATCH),
        lds=_figure(kernel, "lds_bytes"),
        waves=_figure(kernel, "occupancy.waves_per_eu"),
        workgroups=_figure(kernel, "occupancy.workgroups_per_cu"),
        matrix=(
            sum(_figure(main, f"count.{c}") or 0 for c in MATRIX_CLASSES)
            if main is not None
            else None
        ),
        loads=tuple(sorted({op.bits for op in loads if op.bits is not None})),
        narrow=_places(narrow),
    )


def _loads(kernel: KernelReport, hot: Sequence[LoopReport]) -> list[MemoryOp]:
    """The global loads of the hot loops; of the whole kernel where there is no loop."""
    ids = {loop.id for loop in hot}
    return [op for op in kernel.memory_ops if op.cls in LOADS and (not ids or op.loop in ids)]


def _places(ops: Sequence[MemoryOp]) -> tuple[str, ...]:
    found = {(Path(op.source.file).name, op.source.line) for op in ops if op.source is not None}
    unknown = ["no known line"] * any(op.source is None for op in ops)
    return (*(f"{file}:{line}" for file, line in sorted(found)), *unknown)


def _figure(of: KernelReport | LoopReport, name: str) -> int | None:
    metric = of.metrics.get(name)
    value = metric.value if metric is not None else None
    return int(value) if isinstance(value, int | float) else None


def _misses(aim: str, misses: Iterable[str]) -> Iterator[str]:
    found = list(misses)
    yield f"- {aim}: " + ("missed by" if found else "met")
    yield from (f"  - {miss}" for miss in found)


def _error(kernel: str | None, message: str) -> str:
    return f"{kernel or 'a file'}: {message}"


def _label(row: CompileRow) -> str:
    return f"{row.file}, {row.kernel}[{row.case}]"


def _widths(bits: Sequence[int]) -> str:
    if not bits:
        return UNKNOWN
    return str(bits[0]) if bits[0] == bits[-1] else f"{bits[0]} to {bits[-1]}"


def _cell(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
