"""`kinspect tui`: the terminal UI on targets, or on the history."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..inspector.base.errors import KinspectError
from ..inspector.capture.resolving import resolve, split
from ..inspector.cli.declared import command, option
from ..inspector.cli.options import EMULATE
from ..inspector.cli.target_options import ScriptCommand, TargetOptions, targets
from .page_table import PAGES

if TYPE_CHECKING:
    from ..inspector.pipeline.jobs import Request

_WITH_KEY = tuple(name for name, spec in PAGES.items() if spec.key)
_TEXTS = (".s", ".S", ".asm", ".amdgcn", ".ttgir")


@command(cls=ScriptCommand)
def tui(
    page: str | None = option("The page to begin with.", type=click.Choice(_WITH_KEY)),
    watch: bool = option("Analyse a file again when it is saved."),
    no_passes: bool = option("Do not record the MLIR dump (faster compiles)."),
    no_time: bool = option("Do not estimate how long launches take."),
    web: bool = option("Serve it to a browser on this machine (kinspect[web])."),
    port: int = option(
        "Of the server that --web starts, on 127.0.0.1.",
        type=click.IntRange(1, 65535),
        default=8000,
        show_default=True,
    ),
    emulate: bool = EMULATE,
    target: TargetOptions = targets("[TARGET...]", nargs=-1, point=True),
) -> int:
    """Browse kernels in the terminal: from the table to the line that hurts.

    TARGET: as for `kinspect analyze`; the first may be a profiler's run (a folder of `kinspect
    profile`, or what `kinspect profile import` reads).  Without one the history is shown.  F1 on
    every page lists its keys.  tui.toml holds your own keys and colours; see
    docs/guides/terminal.md.
    """
    _check(target.targets, target.archs)
    if web:
        from .web import serve

        return serve(port)

    def request() -> Request:
        from ..inspector.pipeline.jobs import BESIDE, timing

        analysis = None if no_time else timing(**BESIDE, savings=True)
        return target.request(passes=not no_passes, emulate=emulate, analysis=analysis)

    from . import terminal
    from . import web as browser
    from .preferences import load

    preferences = load()
    in_browser = browser.in_browser()
    if not in_browser:
        terminal.prepare()
    from .app import KinspectApp
    from .application import Opening

    text = _text_file(target.targets) if target.kernel is None else None
    opening = Opening(
        request if target.targets else None, page, watch, text=text, preferences=preferences
    )
    app = KinspectApp(opening)
    return terminal.status_of(app, app.run()) if in_browser else terminal.run(app)


def _check(names: Sequence[str], archs: Sequence[str]) -> None:
    """Checks targets and archs before the screen opens; folders may take long and are skipped."""
    for number, target in enumerate(names):
        if split(target)[0].is_dir():
            continue
        try:
            resolve(target)
        except KinspectError:
            is_recording = number == 0 and Path(target).exists() and _is_recording(target)
            if not is_recording:
                raise
    if archs:
        from ..inspector.machines.loader import targets_named

        targets_named(archs)


def _is_recording(target: str) -> bool:
    from ..inspector.pipeline.recording_input import is_recording

    return is_recording(Path(target))


def _text_file(names: Sequence[str]) -> Path | None:
    """The only target, if it is a file of assembly or IR, which can be shown unanalysed."""
    path = Path(names[0]) if len(names) == 1 else None
    return path if path is not None and path.is_file() and path.suffix in _TEXTS else None
