"""Opens the user's editor at a line; afterwards the UI has the terminal again."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec import Struct
from textual.app import App, SuspendNotSupported

from ..inspector.base.errors import KinspectError
from ..inspector.base.programs import find_program

_VARIABLES = ("VISUAL", "EDITOR")
"""Environment variables that name the editor; the first that is set counts."""


_PLUS, _COLON = ("+{line}", "{file}"), ("{file}:{line}",)
_STYLES: tuple[tuple[tuple[str, ...], bool, str], ...] = (
    (_PLUS, False, "vi vim nvim view vimx nvi elvis vile nano pico micro ne joe jed mg kak ed"),
    (_PLUS, False, "emacs emacsclient zile qe"),
    (_PLUS, True, "gvim mvim gedit xed pluma geany"),
    (_COLON, False, "hx helix amp lapce-term"),
    (_COLON, True, "subl sublime_text zed zeditor lapce"),
    (
        ("--goto", "{file}:{line}"),
        True,
        "code code-insiders codium vscodium cursor windsurf code-server",
    ),
    (
        ("--line", "{line}", "{file}"),
        True,
        "kate kwrite pycharm charm idea clion mate",
    ),
)
"""How programs take a file and a line, and whether they open a window of their own."""
_STYLE_OF = {name: style for style in _STYLES for name in style[2].split()}


class Command(Struct, frozen=True):
    """The command that opens a file in an editor.

    Attributes:
        window: whether it opens a window of its own, so that the UI keeps the terminal.
        at_line: whether the command states the line, if there is one to state.
    """

    words: tuple[str, ...]
    name: str
    window: bool
    at_line: bool


def editor_command(environment: Mapping[str, str], file: Path, line: int | None) -> Command:
    """The command that opens a file in the user's editor.

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
    program = find_program(words[0], environment.get("PATH")) if words else None
    if program is None:
        raise KinspectError(f"{variable} names {words[0] if words else '?'}, which is not there")
    name = Path(words[0]).name
    words[0] = program
    style = _STYLE_OF.get(name) or _STYLE_OF.get(name.partition(".")[0])
    # Absolute, so that a name that starts with - or + is not taken for an option.
    path = str(file.absolute())
    if style is None:
        return Command((*words, path), name, False, line is None)
    arguments, window, _ = style
    filled = [path] if line is None else [a.format(file=path, line=line) for a in arguments]
    return Command((*words, *filled), name, window, True)


def open_editor(app: App[object], file: str | Path, line: int | None) -> bool:
    """Opens a file in the user's editor; failures are shown as a message.

    The UI waits until an editor that runs in the terminal is closed; it does not wait for one that
    has a window of its own.

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
        message = str(error)
        app.notify(message, severity="warning", markup=False)
        return False
    if not command.at_line:
        app.notify(f"{command.name} cannot be told the line: it is {line}", markup=False)
    return True


def _start(command: Command) -> None:
    """Starts an editor that has a window of its own, without waiting for it."""
    with _start_errors(command):
        subprocess.Popen(
            command.words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _wait_for(app: App[object], command: Command) -> None:
    """Runs an editor in the terminal and waits until it ends."""
    try:
        status = _suspended(app, command.words)
    except SuspendNotSupported:
        raise KinspectError(
            f"{command.name} cannot be opened from here", "this terminal cannot be lent to it"
        ) from None
    if isinstance(status, OSError):
        raise KinspectError(f"{command.name} cannot be started: {status.strerror}")
    if status:
        ending = f"ended with {status}" if status > 0 else f"was ended by signal {-status}"
        raise KinspectError(f"{command.name} {ending}")
    app.refresh()


def _suspended(app: App[object], words: Sequence[str]) -> int | OSError:
    """Suspends the UI and runs a program; returns its exit status or why it did not start.

    An exception within `suspend` would leave the UI suspended.
    """
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
    """Keeps a Ctrl-C that is meant for the editor from ending the UI behind it.

    The signal gets an empty handler instead of SIG_IGN, which the editor would inherit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous_handler = signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        yield
    finally:
        with suppress(TypeError):  # None: the previous handler was not set from Python
            signal.signal(signal.SIGINT, previous_handler)
