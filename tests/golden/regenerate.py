"""Makes the golden reports afresh: `python tests/golden/regenerate.py`; review the difference.

The input is hand-written and small, so that every figure in the goldens can be checked by eye. The
lint reports are over that kernel and a compiled one, by rules of their own (`lint_small.yaml`).
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from kinspect.inspector.formats import github, junit, lint_json, sarif
from kinspect.inspector.lint.engine import evaluate
from kinspect.inspector.lint.lint_results import CheckedKernel, LintReport, Suppressed, Suppression
from kinspect.inspector.lint.packs import load_pack
from kinspect.inspector.model import ErrorRecord, Finding, KernelReport, Location, Report, SourceLoc
from kinspect.inspector.pipeline.analysis import catalogue
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present import lint
from kinspect.inspector.present.report import write_markdown, write_text
from kinspect.inspector.report import json_write as json_v1
from msgspec.structs import replace

HERE = Path(__file__).parent
INPUT = HERE.parent / "data" / "small_gfx942.s"
FOLDER = INPUT.parent
COMPILED = tuple(f"isa/attend.triton39.{arch}.amdgcn" for arch in ("gfx90a", "gfx950", "gfx1201"))
BUILT_IN, LIES_IN = "/src/kernels/", "isa/"
"""The folder in which the compiled kernel's source was compiled, and where it is now."""


def reports() -> dict[str, str]:
    """File name -> contents of each golden."""
    with _at(FOLDER):  # files are named from the current folder
        found = collect(Request((INPUT.name,)))
        made = {name: _render(write, found) for name, write in WRITERS.items()}
        checked = lint_report()
        return made | {name: _render(write, checked) for name, write in LINT_WRITERS.items()}


def _render(write: Callable[[Any, TextIO], None], report: Report | LintReport) -> str:
    stream = io.StringIO()
    write(report, stream)
    # The path of the checkout is not part of the report's form.
    return stream.getvalue().replace(str(FOLDER) + "/", "").replace(report.tool["version"], "V")


@contextmanager
def _at(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# --------------------------------------------------------------------------- lint


def lint_report() -> LintReport:
    """Real findings, one of them known and one suppressed; to be called in `FOLDER`.

    The source of the kernel for gfx1201 is left where it was compiled: not in the repository.
    """
    pack = load_pack(HERE / "lint_small.yaml", catalogue())
    kernels = collect(Request((*COMPILED, INPUT.name))).kernels
    checked = [_checked(kernel, evaluate(pack, kernel, source_text)) for kernel in kernels]
    gfx90a, gfx950, gfx1201, small = checked
    comment = Suppression("isa/triton_kernels.py", 22, ("T003",), "line", "it is long on purpose")
    return LintReport(
        target="isa small_gfx942.s",
        tool={"name": "kinspect", "version": "V"},
        packs=(pack.name,),
        rules={rule.text.id: rule for rule in pack.rules},
        fail_on="error",
        kernels=(
            _without(gfx90a, "T003", suppressed=comment),
            gfx950,
            _without(gfx1201, "T003", known=True),
            small,
        ),
        errors=(
            ErrorRecord("bad.py", "scan", "compile", "line 3: expected a block", "mend it", "Tra…"),
        ),
        unused=(Suppression("isa/triton_kernels.py", 3, (), "file"),),
        baseline="baseline.json",
        gone=("0123456789abcdef",),
        notes=("1 configuration was left out",),
    )


def source_text(at: SourceLoc) -> str | None:
    lines = (FOLDER / "isa" / "triton_kernels.py").read_text().splitlines()
    return lines[at.line - 1] if at.file.startswith(BUILT_IN) else None


def _checked(kernel: KernelReport, findings: tuple[Finding, ...]) -> CheckedKernel:
    file = kernel.file
    moved = kernel.arch != "gfx1201"
    source = kernel.source
    if source is not None and moved:
        source = replace(source, file=source.file.replace(BUILT_IN, LIES_IN))
    return CheckedKernel(
        id=kernel.id,
        name=kernel.name,
        case=None,
        arch=kernel.arch,
        file=file,
        target=file,
        source=source,
        artifact=file,
        findings=tuple(_moved(f) for f in findings) if moved else findings,
    )


def _moved(finding: Finding) -> Finding:
    anchor = finding.anchor
    return replace(
        finding,
        locations=tuple(map(_moved_place, finding.locations)),
        anchor=_moved_place(anchor) if anchor is not None else None,
    )


def _moved_place(at: Location) -> Location:
    return replace(at, file=at.file.replace(BUILT_IN, LIES_IN)) if at.file else at


def _without(
    kernel: CheckedKernel, rule: str, known: bool = False, suppressed: Suppression | None = None
) -> CheckedKernel:
    """The kernel with the findings of a rule among the known or suppressed ones."""
    taken = tuple(f for f in kernel.findings if f.rule == rule)
    assert taken, f"{rule} finds nothing in {kernel.id}"
    return replace(
        kernel,
        findings=tuple(f for f in kernel.findings if f.rule != rule),
        known=taken if known else (),
        suppressed=tuple(Suppressed(f, suppressed) for f in taken) if suppressed else (),
    )


WRITERS: dict[str, Callable[[Report, TextIO], None]] = {
    "small.json": json_v1.write,
    "small.md": write_markdown,
    "small.txt": write_text,
}
LINT_WRITERS: dict[str, Callable[[LintReport, TextIO], None]] = {
    "lint_small.github": partial(github.write, root=FOLDER),
    "lint_small.json": lint_json.write,
    "lint_small.junit.xml": partial(junit.write, date=datetime(2026, 1, 2, 3, 4, 5)),
    "lint_small.md": lint.write_markdown,
    "lint_small.sarif": partial(sarif.write, root=FOLDER),
    "lint_small.txt": lint.write,
    "lint_small_details.txt": partial(lint.write, details=True),
}


if __name__ == "__main__":
    for name, contents in reports().items():
        (HERE / name).write_text(contents)
