"""How long launches take, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from ..base.streams import dump_json
from ..model import KernelReport
from ..report.json_write import plain

SCHEMA_VERSION = 1


def write(kernels: Sequence[KernelReport], measured_us: float | None, stream: TextIO) -> None:
    """Writes an object with `kernels`.

    Each has its id, name, arch, `time` (as in reports; null where it is not known), `loop_times`,
    `measured_us` and `no_time`: the reason why there is no time.
    """
    document = {
        "schema_version": SCHEMA_VERSION,
        "kernels": [_kernel(kernel, measured_us) for kernel in kernels],
    }
    dump_json(document, stream)


def _kernel(kernel: KernelReport, measured_us: float | None) -> dict[str, Any]:
    return {
        "id": kernel.id,
        "name": kernel.name,
        "arch": kernel.arch,
        "time": None if kernel.time is None else plain(kernel.time),
        "loop_times": plain(kernel.loop_times),
        "measured_us": measured_us,
        "no_time": kernel.no_time or None,
    }
