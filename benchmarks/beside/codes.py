"""Assembly and code objects, few and many, small and large."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kinspect.inspector.model import KernelReport
from kinspect.inspector.pipeline import forked
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request

from ..lint import tool, varied
from .measuring import ARCH, ROOT, Bench, Step, growth, table


def assembly(bench: Bench) -> Iterator[str]:
    """One assembly and one code object, small and large."""
    kernels = bundled(bench)
    small = min(kernels, key=lambda k: abs(k.artifacts["amdgcn"].size - 60_000))
    for size, members in ((60_000, [small]), (1_000_000, enough(kernels, 1_000_000))):
        source, code = bench.folder / f"{size}.s", bench.folder / f"{size}.hsaco"
        loops = bench.folder / f"{size}.loops.s"
        problem = ""
        if len(members) == 1:
            shutil.copyfile(small.artifacts["amdgcn"].path, source)
            shutil.copyfile(small.artifacts["hsaco"].path, code)
        else:
            source.write_text(joined(members))
            problem = assembled(members, code)
        loops.write_text("".join(map(hot_loops, members)))
        mca = ["llvm-mca-22", "-mtriple=amdgcn", f"-mcpu={ARCH}", str(loops)]
        analyze = [*tool(), "analyze"]
        steps = [
            Step("`kinspect analyze x.s`", [*analyze, str(source)]),
            Step("`llvm-mca-22` on the hot loops", mca, absent(mca[0])),
            Step("`kinspect analyze x.hsaco`", [*analyze, str(code)], problem),
            Step(
                "`llvm-objdump-22 -d x.hsaco`",
                ["llvm-objdump-22", "-d", str(code)],
                problem or absent("llvm-objdump-22"),
            ),
        ]
        note = (
            "llvm-mca does other work: it simulates 100 iterations of the hot loops alone;"
            " llvm-objdump disassembles and says nothing of the code."
            + (" The joined code object has no line tables." if len(members) > 1 else "")
        )
        title = f"Assembly of {source.stat().st_size / 1e3:.0f} kB, kernels: {len(members)}"
        yield from table(title, note, bench.measured(steps))
        yield ""


def absent(program: str) -> str:
    """Why a program of the system cannot be run; empty if it can."""
    return "" if shutil.which(program) else "not installed"


def bundled(bench: Bench) -> list[KernelReport]:
    """Bundled kernels as compiled for one target, the smallest first; from the user's store."""
    names = ("vector_add", "gemm_all_types") if bench.quick else ("",)
    targets = tuple(str(ROOT / "kernels" / (f"{name}.py" if name else "")) for name in names)
    report = collect(Request(targets, (ARCH,), passes=False, python=sys.executable))
    kernels = [k for k in report.kernels if {"amdgcn", "hsaco"} <= set(k.artifacts)]
    return sorted(kernels, key=lambda kernel: kernel.artifacts["amdgcn"].size)


def enough(kernels: Sequence[KernelReport], size: int) -> list[KernelReport]:
    """Kernels, some several times, whose assembly has so many bytes together."""
    taken: list[KernelReport] = []
    while size > 0:
        taken.append(kernels[len(taken) % len(kernels)])
        size -= taken[-1].artifacts["amdgcn"].size
    return taken


def parts(kernels: Sequence[KernelReport]) -> Iterator[str]:
    """Assembly of each kernel, its labels and its name met once."""
    for number, kernel in enumerate(kernels):
        text = kernel.artifacts["amdgcn"].path.read_text()
        text = text.replace(kernel.name, f"{kernel.name}_{number}")
        yield re.sub(r"\.L([A-Za-z_]+)(\d)", rf".L{number}x\1\2", text)


def joined(kernels: Sequence[KernelReport]) -> str:
    """One file of many kernels."""
    texts = list(parts(kernels))
    return "\n".join([texts[0], *(re.sub(r"\s\.amdgcn_target.*\n", "\n", t) for t in texts[1:])])


def assembled(kernels: Sequence[KernelReport], path: Path) -> str:
    """Writes a code object of many kernels, without line tables; why that failed, if it did."""
    code, metadata, target = [], [], f"amdgcn-amd-amdhsa--{ARCH}"
    for text in parts(kernels):
        body, _, rest = text.partition("\t.section\t.debug_abbrev")
        code.append(
            re.sub(r"(?m)^\s*\.(amdgcn_target|amdhsa_code\w+|file|loc|cfi_\w+)\b.*\n", "", body)
        )
        match = re.search(r"amdhsa\.kernels:\n(.*?)^amdhsa\.target", rest, re.DOTALL | re.MULTILINE)
        metadata.append(match[1] if match else "")
    tail = f"amdhsa.target: {target}\namdhsa.version:\n  - 1\n  - 2\n"
    notes = f"---\namdhsa.kernels:\n{''.join(metadata)}{tail}...\n"
    head = f'\t.amdgcn_target "{target}"\n\t.amdhsa_code_object_version 5\n'
    source = path.with_suffix(".code.s")
    source.write_text(
        head + "\n".join(code) + f"\n.amdgpu_metadata\n{notes}\n.end_amdgpu_metadata\n"
    )
    command = ["clang-22", "--target=amdgcn-amd-amdhsa", f"-mcpu={ARCH}", str(source)]
    try:
        done = subprocess.run(
            [*command, "-o", str(path)], capture_output=True, text=True, check=False
        )
    except OSError:
        return "not installed (clang-22, which makes the code object)"
    if not done.returncode:
        return ""
    return f"not assembled: {next(iter(done.stderr.splitlines()), '')[-160:]}"


def hot_loops(kernel: KernelReport) -> str:
    """The hot loops of a kernel, each a region of llvm-mca."""
    lines = kernel.artifacts["amdgcn"].path.read_text().splitlines()
    regions = []
    for loop in kernel.loops:
        if loop.hot:
            name = re.sub(r"\W", "_", loop.id)
            body = [line for first, last in loop.lines for line in lines[first - 1 : last]]
            body = [line for line in body if re.match(r"\s+[a-z]", line)]
            # A comment with `;` is met twice after an instruction.
            region = [f"# LLVM-MCA-BEGIN {name}", *body, f"# LLVM-MCA-END {name}\n"]
            regions.append("\n".join(region))
    return "".join(regions)


def copies(bench: Bench) -> Iterator[str]:
    """Many small files."""
    kernel = bundled(bench)[0]
    text = kernel.artifacts["amdgcn"].path.read_text()
    counts = (1, 10, 100) if bench.quick else (1, 10, 100, 1000, 5000)
    for command in ("analyze", "lint"):
        steps, repeated = {}, []
        for number in counts:
            folder = bench.folder / f"copies-{number}"
            folder.mkdir(exist_ok=True)
            for n in range(number):
                (folder / f"{n:06}.s").write_text(varied(text, n))
            name = f"`kinspect {command} FOLDER`, {number:,} files"
            steps[number] = Step(name, [*tool(), command, str(folder)])
            repeated += [steps[number], replace(steps[number], name=f"{name}, again", keeps=True)]
        rows = bench.measured(repeated)
        note = (
            f"Copies of one kernel of {len(text) / 1e3:.0f} kB, each a text of its own. From"
            f" {forked.MIN_BYTES / 1e6:.1f} MB on several processes read them, and reports are kept"
            " for the next run."
        )
        yield from table(f"Growth: {command} of many `.s`", note, rows)
        yield ""
        yield growth(list(counts), [row for row in rows if not row.name.endswith(" again")])
        yield ""


def sizes(bench: Bench) -> Iterator[str]:
    """One file, larger and larger."""
    kernels = bundled(bench)
    steps = {}
    aims = (1_000, 10_000, 100_000, 1_000_000, 5_000_000, 20_000_000)
    for aim in aims[:4] if bench.quick else aims:
        path = bench.folder / f"size-{aim}.s"
        path.write_text(tiny(kernels[0]) if aim == aims[0] else joined(enough(kernels, aim)))
        size = path.stat().st_size
        steps[size] = Step(
            f"`kinspect analyze`, {size / 1e3:,.1f} kB", [*tool(), "analyze", str(path)]
        )
    rows = bench.measured(steps.values())
    yield from table("Growth: `analyze` of one `.s`", "Bundled kernels, joined.", rows)
    yield ""
    yield growth(list(steps), rows)


def tiny(kernel: KernelReport) -> str:
    """A kernel's code alone: no metadata, no sections of debugging, no comments."""
    body = kernel.artifacts["amdgcn"].path.read_text().partition("\t.section\t.AMDGPU.csdata")[0]
    code = re.sub(r"(?m)^\s*(\.(file|loc|cfi_\w+|set|Ltmp\d+)\b.*|;.*)\n", "", body)
    return re.sub(r"[ \t]*;.*", "", code)
