"""Kernels compiled by several Tritons: the values that such a run gives."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ...model import ErrorRecord, KernelReport, SourceLoc, Variant
from ..stages import Comparison


class Build(Struct, frozen=True):
    """One Triton of the run: what the user called it, and what it is."""

    label: str
    python: str
    triton_version: str
    triton_key: str


class KernelComparison(Struct, frozen=True):
    """One kernel compiled by two of the builds.

    Args:
        kernel: its name, with the case in brackets where it has one.
        arch: gfx name of the target.
        file: the target as the user named it.
        source: where the kernel stands.
        variant: the specialisation, as the first build's front end made it.
        left: the first build, as an index into the run's builds.
        right: the other.
        same_ttir: both compiled the first build's TTIR. Otherwise the other one does not
            understand that, and each compiled what its own front end made.
        comparison: None where a build failed: see `errors`.
        errors: label of a build -> why it failed.
        notes: what else is to be said.
        reports: of the left build and of the right; None where it failed.
    """

    kernel: str
    arch: str
    file: str
    source: SourceLoc | None
    variant: Variant
    left: int
    right: int
    same_ttir: bool
    comparison: Comparison | None
    errors: Mapping[str, ErrorRecord]
    notes: tuple[str, ...] = ()
    reports: tuple[KernelReport | None, KernelReport | None] = (None, None)


class BuildsReport(Struct, frozen=True):
    """The result of one run.

    Args:
        target: what was compared, as the user named it.
        tool: name -> version of what made the report.
        builds: the first is what the others are compared with.
        kernels: one entry for each kernel and each build but the first.
        errors: what could not be captured.
    """

    target: str
    tool: Mapping[str, str]
    builds: tuple[Build, ...]
    kernels: tuple[KernelComparison, ...]
    errors: tuple[ErrorRecord, ...]
