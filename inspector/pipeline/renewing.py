"""Kernels of an archive that an older analysis made, analysed again from their artifacts.

An archive holds what the compiler wrote beside what kinspect said of it then. Rules ask for figures
that older reports do not have; from the artifacts they can be had without a compile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from ..errors import KinspectError
from ..model import Artifact, KernelReport
from . import analysis
from .analysis import Context

KINDS = frozenset({"amdgcn", "ttgir", "ttir", "metadata", "hsaco"})
"""The artifacts that an analysis looks at."""


def is_older(tool: Mapping[str, str]) -> bool:
    """Whether a report was made by an analysis that knew less than this one."""
    stated = tool.get("analysis", "")
    return stated.isdigit() and int(stated) < analysis.ANALYSIS_VERSION


def renewed(kernel: KernelReport) -> KernelReport:
    """The kernel's report as it would be made today, findings aside; itself where it cannot be.

    What was typed for the run that made it (LDS, waves) is not in the archive: such a report is
    kept as it is, and so is one that does not say whether any was (of analysis 20 and before), or
    of code that was disassembled.
    """
    text = _text(kernel.artifacts.get("amdgcn"))
    if text is None or kernel.demand is None or kernel.demand.typed:
        return kernel
    hsaco = kernel.artifacts.get("hsaco")
    context = Context(
        path=kernel.id.partition("::")[0],
        arch=kernel.arch,
        metadata=_metadata(_text(kernel.artifacts.get("metadata"))),
        ttgir=_text(kernel.artifacts.get("ttgir")),
        ttir=_text(kernel.artifacts.get("ttir")),
        variant=kernel.variant,
        artifacts=kernel.artifacts,
        code_object=hsaco.path if hsaco is not None and hsaco.path.exists() else None,
    )
    try:
        reports = analysis.analyze_text(text, context)
    except KinspectError:
        return kernel
    if len(reports) != 1:
        return kernel
    notes = tuple(note for note in kernel.notes if note not in reports[0].notes)
    return replace(reports[0], id=kernel.id, name=kernel.name, notes=notes + reports[0].notes)


def _text(artifact: Artifact | None) -> str | None:
    if artifact is None:
        return None
    try:
        return artifact.path.read_text("utf-8", "replace")
    except OSError:
        return None


def _metadata(text: str | None) -> Mapping[str, Any] | None:
    try:
        metadata = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        return None
    return metadata if isinstance(metadata, dict) else None
