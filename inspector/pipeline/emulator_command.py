"""The emulator's process: its command, the targets that it has, and what scripts ask of a GPU."""

from __future__ import annotations

from pathlib import Path

from ..base.programs import python_child
from ..model import Machine

FAMILIES = ("gfx90a", "gfx942", "gfx950", "gfx11", "gfx12")
"""Prefixes of the gfx names that the emulator supports."""


def emulator_command(profile: Path | None = None, processes: int | None = None) -> list[str]:
    """Returns the command of the process that executes launches, for a guest to start.

    Args:
        processes: how many processes may execute a launch; None for one per core.
    """
    command = python_child("kinspect.inspector.pipeline.emulating")
    if profile is not None:
        command += ["--profile", str(profile)]
    return command if processes is None else [*command, "--processes", str(processes)]


def why_not_emulated(arch: str) -> str:
    """Returns why launches for a target cannot be executed here; "" if they can."""
    if not arch.startswith(FAMILIES):
        return f"the emulator does not know {arch}"
    return ""


def device_facts(machine: Machine) -> dict[str, object]:
    """Returns the properties of the GPU that a script may query; see `guest/world/device.py`."""
    return {
        "arch": machine.arch,
        "wave_size": machine.wave_sizes[0],
        "name": f"AMD {machine.name.split(',')[0]}",
        "compute_units": machine.cus,
        "lds_bytes": machine.lds_max,
        "clock_khz": machine.clock_mhz * 1000 if machine.clock_mhz is not None else None,
    }
