"""Tells recordings of profilers from targets to analyse, and reads them."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import KinspectError
from ..base.named_files import allow_target
from ..capture.resolving import named, resolve
from ..model.recording import Recording
from ..profile import reading
from ..profile.running import manifest

_DATA_SUFFIXES = (".json", ".gz", ".db", ".csv")
"""Of files that a profiler may have written, and of no target to analyse."""


def is_recording(path: Path) -> bool:
    """Tells whether a profiler wrote this file or something in this folder.

    Such a folder is no target to analyse, whatever lies beside the recording: sources of kernels
    there would be run.

    Raises:
        KinspectError: no file can be called so; it cannot be told, as in a folder with too many
            files, or one that holds both a run of `kinspect profile` and scripts.
    """
    named(str(path))
    if path.name == manifest.NAME or (path / manifest.NAME).is_file():
        return True
    if path.is_dir():
        if reading.knows(path):
            return True
        run = reading.run_below(path)
        if run is not None and any(path.rglob("*.py")):
            raise KinspectError(
                f"{path} holds both a recording ({run}) and scripts",
                "name the recording's folder, or the scripts",
            )
        return False
    if path.suffix in _DATA_SUFFIXES:  # a report of ours may have such a name as well
        return path.is_file() and reading.knows(path)
    try:
        resolve(str(path))
    except KinspectError:
        return path.is_file() and reading.knows(path)
    return False


def read(path: Path) -> Recording:
    """Reads a run of kinspect by its manifest, anything else by its files.

    Raises:
        KinspectError: nothing can be read there.
    """
    named(str(path))
    if path.is_file() and path.name == manifest.NAME:
        path = path.parent
    allow_target(path)
    if path.is_dir() and (path / manifest.NAME).is_file():
        return manifest.run_recording(path)
    return reading.read(path)
