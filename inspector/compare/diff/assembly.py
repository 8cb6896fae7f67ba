"""The assembly of a reported kernel: of its artifacts, or of the file that it was read from."""

from __future__ import annotations

from pathlib import Path

from ...capture.resolving import resolve
from ...errors import KinspectError
from ...explain.view import path_of
from ...model import KernelReport
from ...named_files import file_bytes
from ...pipeline.inputs import read_text
from ...pipeline.reading import artifact_text


def assembly_of(report: KernelReport) -> str | None:
    """The assembly of a kernel; None if it has gone since the report was made."""
    text = text_of_artifacts(report)
    if text is not None:
        return text
    try:
        targets = resolve(path_of(report))
        if len(targets) == 1 and targets[0].kind == "asm":
            return read_text(targets[0].path)
        if len(targets) == 1 and targets[0].kind == "code_object":
            return _disassembly(targets[0].path)
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
