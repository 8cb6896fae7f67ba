"""Facts on an assembly or code object besides its own contents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from ..model import Artifact, Variant
from .analysis_options import AnalysisOptions


class Overrides(Struct, frozen=True):
    """Facts on a launch that the user states, where the files do not have them."""

    lds_bytes: int | None = None
    waves_per_workgroup: int | None = None
    workgroup: tuple[int, int, int] | None = None
    grid: tuple[int, int, int] | None = None
    llvm: str | None = None
    cu_mode: bool | None = None
    time_us: float | None = None


class Context(Struct, frozen=True):
    """Facts on an assembly or code object besides its own contents.

    Args:
        arch: the target to assume where the file does not name one, and to insist on where it does.
        patterns: only kernels whose name is all of these (shell wildcards allowed).
        ttir: the TTIR that was lowered to that TTGIR; None for the variant's own.
        code_object: the code object of the same compile, to check an assembly's figures with.
    """

    path: str
    arch: str | None = None
    patterns: tuple[str, ...] = ()
    metadata: Mapping[str, Any] | None = None
    ttgir: str | None = None
    ttir: str | None = None
    variant: Variant | None = None
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    code_object: Path | None = None
    overrides: Overrides = Overrides()
    notes: tuple[str, ...] = ()
    analysis: AnalysisOptions = AnalysisOptions()
