"""`kinspect tui`: the terminal UI on targets, or on the history."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.capture.targets import resolve
from kinspect.inspector.cli.capturing import ScriptCommand, capture_options
from kinspect.inspector.cli.options import compile_options, split_list
from kinspect.inspector.errors import KinspectError

if TYPE_CHECKING:
    from kinspect.inspector.runs.jobs import Request

_FIRST = ("kernels", "findings", "compare", "passes", "occupancy", "profile", "history")
_TEXTS = (".s", ".S", ".asm", ".amdgcn", ".ttgir")


@click.command(cls=ScriptCommand)
@click.argument("targets", metavar="[TARGET...]", nargs=-1)
@click.option("--arch", "archs", metavar="A[,B...]", help="Targets to compile for.  [gfx942]")
@click.option("--kernel", help="Only this kernel (also as TARGET::KERNEL), or cases like NAME*.")
@click.option("--page", type=click.Choice(_FIRST), help="The page to begin with.")
@click.option("--watch", is_flag=True, help="Analyse a file again when it is saved.")
@click.option("--no-passes", is_flag=True, help="Do not record the MLIR dump (faster compiles).")
@compile_options
@click.option("--web", is_flag=True, help="Serve it to a browser on this machine (kinspect[web]).")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=8000,
    show_default=True,
    help="Of the server that --web starts, on 127.0.0.1.",
)
@capture_options
def tui(
    targets: tuple[str, ...],
    archs: str | None,
    kernel: str | None,
    page: str | None,
    watch: bool,
    no_passes: bool,
    jobs: int | None,
    python: str | None,
    time_limit: float,
    web: bool,
    port: int,
    capture: CaptureOptions,
) -> int:
    """Browse kernels in the terminal: from the table to the line that hurts.

    TARGET: as for `kinspect analyze`; the first may be a profiler's run (a folder of `kinspect
    profile`, or what `kinspect profile import` reads).  Without one the history is shown.  F1 on
    every page tells its keys.
    """
    _check(targets, archs)
    if web:
        from kinspect.tui.web import serve

        return serve(port)

    def request() -> Request:
        from kinspect.inspector.runs.jobs import Request

        return Request(
            targets=targets,
            archs=split_list(archs),
            kernel=kernel,
            python=python or sys.executable,
            jobs=jobs or os.cpu_count() or 1,
            passes=not no_passes,
            time_limit=time_limit,
            capture=capture,
        )

    from kinspect.tui import terminal
    from kinspect.tui import web as browser

    in_browser = browser.served()
    if not in_browser:
        terminal.prepare()
    from kinspect.tui.app import KinspectApp, Opening

    text = _text(targets) if kernel is None else None
    app = KinspectApp(Opening(request if targets else None, page, watch, text=text))
    return terminal.status_of(app, app.run()) if in_browser else terminal.run(app)


def _check(targets: Sequence[str], archs: str | None) -> None:
    """Whatever can be seen to be wrong at a glance is told before the screen opens."""
    for number, target in enumerate(targets):
        if Path(target.partition("::")[0]).is_dir():  # what lies in a folder may take a while
            continue
        try:
            resolve(target)
        except KinspectError:
            if number or not Path(target).exists() or not _recorded(target):
                raise
    if archs is not None:
        from kinspect.inspector import machines

        for arch in split_list(archs):
            machines.load(arch)


def _recorded(target: str) -> bool:
    """Whether it is a profiler's file; only asked of what is no target otherwise."""
    from kinspect.inspector.runs import profiling

    return profiling.is_recording(Path(target))


def _text(targets: Sequence[str]) -> Path | None:
    """The one file named, if it is a text that can be read before anything is known of it."""
    path = Path(targets[0]) if len(targets) == 1 else None
    return path if path is not None and path.is_file() and path.suffix in _TEXTS else None
