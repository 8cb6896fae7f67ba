"""Opens the user's editor at a line, and gives the terminal back to the UI afterwards."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct
from textual.app import App, SuspendNotSupported

from ..inspector.errors import KinspectError

_VARIABLES = ("VISUAL", "EDITOR")
"""What names the editor; the first that is set counts."""


def _plus(file: str, line: int) -> list[str]:
    return [f"+{line}", file]


def _colon(file: str, line: int) -> list[str]:
    return [f"{file}:{line}"]


def _goto(file: str, line: int) -> list[str]:
    return ["--goto", f"{file}:{line}"]


def _option(file: str, line: int) -> list[str]:
    return ["--line", str(line), file]


class _Style(Struct, frozen=True):
    """How a kind of editors wants the line, and whether it has a window of its own."""

    arguments: Callable[[str, int], list[str]]
    window: bool
    names: tuple[str, ...]


_STYLES = (
    _Style(
        _plus,
        False,
        (
            *("vi", "vim", "nvim", "view", "vimx", "nvi", "elvis", "vile"),
            *("nano", "pico", "micro", "ne", "joe", "jed", "mg", "kak", "ed"),
            *("emacs", "emacsclient", "zile", "qe"),
        ),
    ),
    _Style(_plus, True, ("gvim", "mvim", "gedit", "xed", "pluma", "geany")),
    _Style(_colon, False, ("hx", "helix", "amp", "lapce-term")),
    _Style(_colon, True, ("subl", "sublime_text", "zed", "zeditor", "lapce")),
    _Style(
        _goto,
        True,
        ("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf", "code-server"),
    ),
    _Style(_option, True, ("kate", "kwrite", "pycharm", "charm", "idea", "clion", "mate")),
)
_STYLE_OF: Mapping[str, _Style] = MappingProxyType(
    {name: style for style in _STYLES for name in style.names}
)


class Command(Struct, frozen=True):
    """What is to be run.

    Attributes:
        words: the program and its arguments.
        name: of the editor, for messages.
        window: whether it has a window of its own, so that the terminal stays the UI's.
        at_line: whether it can be told the line.
    """

    words: tuple[str, ...]
    name: str
    window: bool
    at_line: bool


def editor_command(environment: Mapping[str, str], file: Path, line: int | None) -> Command:
    """What opens a file in the user's editor.

    Args:
        environment: where `VISUAL` and `EDITOR` stand.
        file: the file; it has to exist.
        line: counted from 1; None for wherever the editor begins.

    Raises:
        KinspectError: no editor is named, it is not installed, or there is no such file.
    """
    if not file.is_file():
        raise KinspectError(f"{file}: no such file", "it was made elsewhere, or has gone since")
    variable = next((name for name in _VARIABLES if environment.get(name, "").strip()), None)
    if variable is None:
        raise KinspectError("no editor is named", "set EDITOR, e.g. export EDITOR=vim")
    try:
        words = shlex.split(environment[variable])
    except ValueError as error:
        raise KinspectError(f"{variable}: {error}", "check its quotes") from None
    if not words or shutil.which(words[0], path=environment.get("PATH")) is None:
        raise KinspectError(f"{variable} names {words[0] if words else '?'}, which is not there")
    name = Path(words[0]).name
    style = _STYLE_OF.get(name) or _STYLE_OF.get(name.partition(".")[0])
    # An absolute path is never taken for an option.
    path = str(file.absolute())
    if style is None:
        return Command((*words, path), name, False, line is None)
    arguments = [path] if line is None else style.arguments(path, line)
    return Command((*words, *arguments), name, style.window, True)


def open_editor(app: App[object], file: str | Path, line: int | None) -> bool:
    """Opens the user's editor; the UI stands still until it is closed, unless it has a window.

    Whatever goes wrong is told in one line.

    Args:
        app: the application.
        file: what to open.
        line: counted from 1; None for the beginning.

    Returns:
        Whether the editor was started and ended well.
    """
    try:
        command = editor_command(os.environ, Path(file).expanduser(), line)
        if command.window:
            _start(command)
        else:
            _wait_for(app, command)
    except KinspectError as error:
        message = f"{error.message}; {error.hint}" if error.hint else error.message
        app.notify(message, severity="warning", markup=False)
        return False
    if not command.at_line:
        app.notify(f"{command.name} cannot be told the line: it is {line}", markup=False)
    return True


def _start(command: Command) -> None:
    """Starts an editor that has a window of its own; nobody waits for it."""
    with _start_errors(command):
        subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _wait_for(app: App[object], command: Command) -> None:
    """Leaves the terminal to the editor until it ends."""
    try:
        status = _suspended(app, command.words)
    except SuspendNotSupported:
        raise KinspectError(
            f"{command.name} cannot be opened from here", "this terminal cannot be lent to it"
        ) from None
    if isinstance(status, OSError):
        raise KinspectError(f"{command.name} cannot be started: {status.strerror}")
    if status:
        how = f"ended with {status}" if status > 0 else f"was ended by signal {-status}"
        raise KinspectError(f"{command.name} {how}")
    app.refresh()


def _suspended(app: App[object], words: Sequence[str]) -> int | OSError:
    """The editor's exit status. Nothing is raised inside: the UI would not come back."""
    status: int | OSError = 0
    with app.suspend(), _no_interrupt():
        try:
            status = subprocess.call(words)
        except OSError as error:
            status = error
    return status


@contextmanager
def _start_errors(command: Command) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise KinspectError(f"{command.name} cannot be started: {error.strerror}") from None


@contextmanager
def _no_interrupt() -> Iterator[None]:
    """Ctrl-C is the editor's while it runs: it must not end the UI behind it.

    A handler that does nothing is not inherited by the editor, as ignoring the signal would be.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        with suppress(TypeError):  # a handler that was not set from Python
            signal.signal(signal.SIGINT, previous_handler)
