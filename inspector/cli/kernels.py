"""`kinspect kernels list|show`: shows the bundled kernels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from ..base.errors import KinspectError
from ..bench.suite import catalogue
from ..bench.suite.catalogue import KernelFile
from ..bench.suite.checks import Description
from ..formats import kernels as text
from .declared import argument, command, option
from .group import ShowingGroup
from .options import OUTPUT, format_option, write_form

PYTHON = option(
    "Interpreter that loads the files for facts that are not in their text.  [this one]",
    metavar="PATH",
)


@click.group(cls=ShowingGroup)
def kernels() -> None:
    """The kernels that come with kinspect."""


@command("list", group=kernels)
def list_kernels(
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
    python: str | None = PYTHON,
) -> None:
    """Every bundled kernel: what it is, what it answers to, its cases and benchmark shapes."""
    bundled = catalogue.bundled()
    counts = {k.path: (k.entries("CASES"), k.entries("BENCH")) for k in bundled}
    # Tables that are built up by code are counted by loading the file, in another process.
    computed = [k for k in bundled if None in counts[k.path]]
    for path, description in _described(computed, python).items():
        counts[path] = (len(description.cases), len(description.bench))
    entries = [text.KernelEntry(kernel, *counts[kernel.path]) for kernel in bundled]
    write_form(form, text.list_document(entries), text.list_fields(entries), output)


@command("show", group=kernels)
def show_kernel(
    name: str = argument(),
    form: str = format_option("text", "json"),
    output: Path | None = OUTPUT,
    python: str | None = PYTHON,
) -> None:
    """One kernel: its docstring, file, cases, benchmark shapes, tuning space and compile cases.

    NAME is a bundled kernel or the path of a kernel file.
    """
    kernel = catalogue.find(name)
    description = _described([kernel], python).get(kernel.path)
    document, fields = text.document(kernel, description), text.fields(kernel, description)
    write_form(form, document, fields, output)


def _described(files: Sequence[KernelFile], python: str | None) -> dict[Path, Description]:
    """Loads kernel files; returns file -> description. Errors are written to stderr."""
    if not files:
        return {}
    from ..bench.checking import describe

    try:
        answers = describe(files, python)
    except KinspectError as error:
        sys.stderr.write(f"kinspect: note: some figures are not known: {error}\n")
        return {}
    for path, answer in answers.items():
        if isinstance(answer, str):
            sys.stderr.write(f"kinspect: note: {path}: {answer}\n")
    return {path: answer for path, answer in answers.items() if isinstance(answer, Description)}
