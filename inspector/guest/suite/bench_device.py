"""Describes the GPU that kernels run on: name, target, driver and clocks."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Optional

QUERY_SECONDS = 10.0

Query = Callable[[Sequence[str]], Optional[str]]  # noqa: UP045  (evaluated, in Python 3.9 too)
"""Runs a command and returns its output; None if it is missing or failed."""


def query(command: Sequence[str]) -> str | None:
    """Output of a command; None if it is missing or failed."""
    try:
        program = shutil.which(command[0], path=_absolute_path())
        if program is None:
            return None
        words = [program, *command[1:]]
        completed = subprocess.run(
            words, capture_output=True, text=True, timeout=QUERY_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return completed.stdout if completed.returncode == 0 else None


def _absolute_path() -> str:
    """PATH without the folders that are relative to the working one."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, folders))


def describe(torch: Any) -> dict[str, Any]:
    """Name, target and size of the current GPU, and the versions of the software on it."""
    properties = torch.cuda.get_device_properties(0)
    hip = torch.version.hip
    if hip:
        arch = str(getattr(properties, "gcnArchName", "")).partition(":")[0] or None
    else:
        arch = f"sm_{properties.major}{properties.minor}"
    return {
        "device": {
            "name": torch.cuda.get_device_name(0),
            "arch": arch,
            "backend": "hip" if hip else "cuda",
            "compute_units": properties.multi_processor_count,
            "memory_bytes": properties.total_memory,
        },
        "versions": {
            "python": platform.python_version(),
            "torch": str(torch.__version__),
            "triton": _version("triton"),
            "driver": driver(torch),
            "cuda": torch.version.cuda,
            "hip": hip,
        },
    }


def driver(torch: Any, query: Query = query) -> str | None:
    """The driver's version; None if unknown."""
    if torch.version.hip:
        try:
            with open("/sys/module/amdgpu/version", encoding="ascii") as stream:
                return stream.read().strip() or None
        except OSError:
            return None
    reply = query([*_nvidia_smi(torch), "--query-gpu=driver_version"])
    return reply.strip().splitlines()[0].strip() if reply and reply.strip() else None


def clocks(torch: Any, query: Query = query) -> dict[str, int | None]:
    """Present clocks in MHz: `core_mhz`, `core_max_mhz`, `memory_mhz`; None for unknown ones."""
    none: dict[str, int | None] = {"core_mhz": None, "core_max_mhz": None, "memory_mhz": None}
    if torch.version.hip:
        return {**none, **_amd_clocks(query)}
    reply = query([*_nvidia_smi(torch), "--query-gpu=clocks.sm,clocks.max.sm,clocks.mem"])
    if not reply or not reply.strip():
        return none
    figures = [_number(cell) for cell in reply.strip().splitlines()[0].split(",")]
    return dict(zip(none, figures)) if len(figures) == len(none) else none


def _nvidia_smi(torch: Any) -> list[str]:
    """The command for torch's device 0, which CUDA_VISIBLE_DEVICES may have reordered."""
    command = ["nvidia-smi", "--format=csv,noheader,nounits"]
    uuid = str(getattr(torch.cuda.get_device_properties(0), "uuid", "") or "")
    if uuid:
        command.append("--id=" + (uuid if uuid.startswith(("GPU-", "MIG-")) else f"GPU-{uuid}"))
    return command


def _amd_clocks(query: Query) -> dict[str, int | None]:
    reply = query(["rocm-smi", "--showclocks", "--json"])
    try:
        cards = json.loads(reply or "")
        card = next(value for key, value in sorted(cards.items()) if key.startswith("card"))
    except (ValueError, AttributeError, StopIteration):
        return {}
    figures: dict[str, int | None] = {}
    for key, value in card.items():
        if "sclk clock speed" in key:
            figures["core_mhz"] = _number(str(value))
        elif "mclk clock speed" in key:
            figures["memory_mhz"] = _number(str(value))
    return figures


def _number(text: str) -> int | None:
    match = re.search(r"\d+", text)
    return int(match[0]) if match is not None else None


def _version(name: str) -> str | None:
    try:
        module = __import__(name)
    except ImportError:
        return None
    return str(getattr(module, "__version__", "")) or None
