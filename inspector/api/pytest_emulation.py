"""A pytest session on an emulated GPU, in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .. import machines
from ..formats import emulation as text
from ..machines.loader import DEFAULT_ARCH
from ..pipeline.emulation import EmulationRequest
from ..pipeline.emulation import emulate as run_emulation
from .executing import ended_with_this_process

FINDINGS = 1
"""Pytest's own status where a test failed."""


def run_session(
    arguments: Sequence[str], folder: Path, arch: str | None, variables: Mapping[str, str]
) -> int:
    """Runs pytest, prints what kernels did, and returns the exit status.

    That is pytest's own; 1 where it succeeds and a kernel did what it must not.

    Args:
        arguments: pytest's command line.
        folder: where it was given.
        arch: the emulated GPU; None: the default one.
        variables: set in the process that runs the session.

    Raises:
        KinspectError: the target is unknown, or the interpreter cannot be started.
    """
    environment = {**os.environ, **variables}
    if str(folder) in sys.path:  # as `python -m pytest` puts it there
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), inherited)))
    request = EmulationRequest(
        path=folder,
        argv=tuple(arguments),
        arch=machines.load(arch or DEFAULT_ARCH).arch,
        is_pytest_session=True,
    )
    sys.stdout.flush()
    result = run_emulation(request, environment, ended_with_this_process)
    text.write_text(result, sys.stdout)
    sys.stdout.flush()
    if not result.status and any(kernel.findings for kernel in result.kernels):
        return FINDINGS
    return result.status
