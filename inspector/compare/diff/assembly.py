"""The assembly of a reported kernel: of its artifacts, or of the file that it was read from."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import KinspectError
from ...base.named_files import file_bytes, is_named
from ...capture.targets import kind_of
from ...explain.view import path_of
from ...model import KernelReport
from ...pipeline.inputs import read_text
from ...pipeline.reading import artifact_text


def assembly_of(report: KernelReport) -> str | None:
    """The assembly of a kernel; None if it has gone since the report was made."""
    text = text_of_artifacts(report)
    if text is not None:
        return text
    path = Path(path_of(report))
    try:
        kind = kind_of(path) if is_named(path) else None
        if kind == "asm":
            return read_text(path)
        if kind == "code_object":
            return _disassembly(path)
    except (KinspectError, OSError):
        pass  # the file is gone since the report was saved
    return None


def text_of_artifacts(report: KernelReport) -> str | None:
    """The assembly among a report's artifacts; None where it cannot be read."""
    return artifact_text(report.artifacts.get("amdgcn"))


def _disassembly(path: Path) -> str | None:
    """The listing of a code object; None if the file holds several."""
    from ...isa.objects.load import load_images

    images = load_images(file_bytes(path), str(path))
    return images[0].text if len(images) == 1 else None
