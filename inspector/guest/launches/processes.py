"""Notes that Python processes which the script starts are not followed.

A forked child runs in the same stand-in world. A process that starts afresh, as a command or by
multiprocessing's `spawn`, does not, and its launches are not seen.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.process
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from .project import Project

PYTHON = re.compile(r"python[0-9.]*")
SHELLS = frozenset(("ash", "bash", "dash", "sh", "zsh"))
SHEBANG_BYTES = 256
MAX_COMMAND_LENGTH = 80
MAX_NOTES = 4
NOT_FOLLOWED = (
    "is another process, which is not followed: kernels that it launches are not seen; name what it"
    " runs as a target of its own"
)


_ours = 0
"""How many `ours` contexts are entered."""


@contextlib.contextmanager
def ours() -> Iterator[None]:
    """Keeps processes that this package starts inside from being noted."""
    global _ours
    _ours += 1
    try:
        yield
    finally:
        _ours -= 1


def watch(project: Project, note: Callable[[str], None], outcome: str = NOT_FOLLOWED) -> None:
    """Notes each Python process that the script starts from now on, up to `MAX_NOTES`."""
    sites: set[str] = set()

    def note_process(process_text: str) -> None:
        site = _user_line(project)
        if site is None or site in sites or len(sites) >= MAX_NOTES:
            return
        sites.add(site)
        note(f"{site}: {process_text} {outcome}")

    def audit(event: str, args: Sequence[Any]) -> None:
        command = [] if _ours else _command(event, args)
        if command and _is_python(command[0]):
            note_process(f"`{_shortened(command)}`")

    sys.addaudithook(audit)
    kind: Any = multiprocessing.process.BaseProcess
    start = kind.start

    def start_noted(process: Any) -> None:
        method = process._start_method or multiprocessing.get_start_method()
        if method != "fork":
            note_process(f"what multiprocessing starts by {method}")
        start(process)

    kind.start = start_noted


def _command(event: str, args: Sequence[Any]) -> list[str]:
    if event == "os.system":
        return _words(args[0])
    if event in ("os.exec", "os.posix_spawn", "subprocess.Popen"):
        argv = args[1]
        if isinstance(argv, (str, bytes, os.PathLike)):
            return _words(os.fspath(argv))
        words = [os.fsdecode(word) for word in argv or ()]
        is_shell = words[1:2] == ["-c"] and len(words) > 2 and os.path.basename(words[0]) in SHELLS
        return _words(words[2]) if is_shell else words
    return []


def _words(command: str | bytes) -> list[str]:
    try:
        return shlex.split(os.fsdecode(command))
    except ValueError:
        return []


def _is_python(program: str) -> bool:
    """Whether a program is Python's interpreter, or a script for it such as torchrun."""
    path = shutil.which(program) or program
    is_ours = os.path.realpath(path) == os.path.realpath(sys.executable)
    if is_ours or PYTHON.fullmatch(os.path.basename(program)):
        return True
    try:
        with open(path, "rb") as stream:
            head = stream.read(SHEBANG_BYTES)
    except OSError:
        return False
    return head.startswith(b"#!") and b"python" in head.partition(b"\n")[0]


def _shortened(command: Sequence[str]) -> str:
    text = " ".join([os.path.basename(command[0]), *command[1:]])
    return text if len(text) <= MAX_COMMAND_LENGTH else f"{text[: MAX_COMMAND_LENGTH - 3]}..."


def _user_line(project: Project) -> str | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not project.owns_code(frame.f_code):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else None
