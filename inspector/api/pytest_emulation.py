"""A pytest session on an emulated GPU, in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from .. import machines
from ..base.errors import KinspectError
from ..base.lifetimes import signals_for
from ..base.streams import plain
from ..formats.emulation import document
from ..machines.loader import DEFAULT_ARCH
from ..pipeline.emulation import EmulationRequest
from ..pipeline.emulation import emulate as run_emulation
from ..present import text
from .executing import ended_with_this_process

_NEEDED = {
    "torch": "torch --index-url https://download.pytorch.org/whl/cpu",
    "triton": "triton",
}
"""Modules without which nothing can be emulated -> what pip is told."""


def run_session(
    arguments: Sequence[str], folder: Path, arch: str | None, variables: Mapping[str, str]
) -> int:
    """Runs pytest, prints what kernels did, and returns the exit status.

    That is pytest's own; 1 where it succeeds and a kernel did what it must not. Ctrl-C ends the
    session as usual, and SIGTERM and SIGHUP, sent to this process, are passed on to it.

    Args:
        arguments: pytest's command line.
        folder: where it was given.
        arch: the emulated GPU; None: the default one.
        variables: set in the process that runs the session.

    Raises:
        KinspectError: the target is unknown, or the interpreter cannot be started or lacks Triton.
    """
    for module, package in _NEEDED.items():
        if importlib.util.find_spec(module) is None:
            hint = f"`{sys.executable} -m pip install {package}`"
            raise KinspectError(f"{module} is not installed", hint)
    environment = {**os.environ, **variables}
    if str(folder) in sys.path:  # as `python -m pytest` puts it there
        inherited = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(folder), inherited)))
    request = EmulationRequest(
        path=folder,
        argv=tuple(arguments),
        arch=machines.load(arch or DEFAULT_ARCH).arch,
        is_pytest_session=True,
        advice="for fewer tests: pytest --kinspect-emulate -k NAME",
    )
    sys.stdout.flush()
    is_main = threading.current_thread() is threading.main_thread()  # only there signals arrive
    ending = partial(signals_for, repeated=signal.SIGTERM)
    signals = ending if is_main else ended_with_this_process
    result = run_emulation(request, environment, signals)
    out = plain(sys.stdout)
    text.show(document(result), out)
    out.flush()
    return result.exit_status
