"""The emulator's process: the command that starts it, and the targets that it supports."""

from __future__ import annotations

from pathlib import Path

from ..base.programs import python_child

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
