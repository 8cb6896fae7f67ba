"""The texts that are analysed, read within bounds."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import KinspectError
from ..base.named_files import file_bytes
from ..isa.asm.units import is_binary

MOST_TEXT_BYTES = 64 << 20
"""Text beyond this is not read: the largest kernels known are under 10 MiB."""


def read_text(path: Path) -> str:
    """Reads an assembly or IR text.

    Raises:
        KinspectError: it is binary, or too large to be one kernel's code.
    """
    size = path.stat().st_size
    if size > MOST_TEXT_BYTES:
        raise KinspectError(
            f"{path}: {size / 2**20:.0f} MiB, and at most {MOST_TEXT_BYTES >> 20} MiB are read",
            "split it, or pass the code object of one kernel",
        )
    data = file_bytes(path)
    if is_binary(data):
        raise KinspectError(
            f"{path}: a binary file, not text", "name a code object .hsaco or .co, assembly .s"
        )
    return data.replace(b"\0", b" ").decode("utf-8", "replace")
