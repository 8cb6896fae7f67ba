"""A real terminal for tests: programs run in tmux, on a server of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

SECONDS = 30.0
"""What a wait may take at most: machines that run tests are busy."""


class Terminal:
    """One program in one terminal; it is ended with `close`.

    Args:
        folder: for the notes that the shell takes.
        command: the program; a shell runs it, and stays when it has ended.
        size: columns and rows.
        environment: what is set for it besides.
    """

    def __init__(
        self,
        folder: Path,
        command: Sequence[str],
        size: tuple[int, int] = (100, 30),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._server = ["tmux", "-L", f"kinspect-{os.getpid()}-{uuid.uuid4().hex[:8]}"]
        self._folder = folder
        script = folder / "shell.sh"
        # tmux would have its own say in what TERM is.
        own = [f"{name}={value}" for name, value in (environment or {}).items()]
        run = shlex.join(["env", *own, *command])
        script.write_text(
            "trap : INT QUIT\n"  # they are for the program
            "echo BEFORE\n"
            "stty -g > before\n"
            f"sh -c {shlex.quote(f'echo $$ > pid; exec {run}')}\n"
            "echo STATUS=$?\n"
            "stty -g > after\n"
            "touch ended\n"
            "exec cat\n"
        )
        unwanted = {"TMUX", "TMUX_PANE", "NO_COLOR", "COLORTERM", "COLUMNS", "LINES"}
        kept = {name: value for name, value in os.environ.items() if name not in unwanted}
        width, height = map(str, size)
        place = ["-x", width, "-y", height, "-c", str(folder)]
        subprocess.run(
            [*self._server, "-f", os.devnull, "new-session", "-d", *place, "sh", str(script)],
            check=True,
            env={**kept, "TERM": "xterm-256color"},
            timeout=SECONDS,
        )

    def tmux(self, *arguments: str) -> str:
        """What a tmux command says."""
        done = subprocess.run(
            [*self._server, *arguments],
            check=True,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        return done.stdout

    def press(self, *keys: str) -> None:
        """Presses keys, as tmux names them: `Enter`, `C-c`, `F1`, `j`."""
        self.tmux("send-keys", *keys)

    def screen(self, colours: bool = False) -> str:
        """What the terminal shows; with the escape sequences for colours if wished."""
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def wait(self, what: str | Callable[[str], bool], colours: bool = False) -> str:
        """Waits until the screen shows a text, or what a function looks for; the screen."""

        def seen(screen: str) -> bool:
            return what(screen) if callable(what) else what in screen

        deadline = time.monotonic() + SECONDS
        while True:
            screen = self.screen(colours)
            if seen(screen):
                return screen
            assert time.monotonic() < deadline, f"not seen: {what!r} in\n{screen}"
            time.sleep(0.03)

    def pid(self) -> int:
        """The program's process."""
        return int((self._folder / "pid").read_text())

    def ended(self, status: int) -> str:
        """Waits for the program's end; the terminal must be as it was before. The screen."""
        screen = self.wait("STATUS=")
        deadline = time.monotonic() + SECONDS
        while not (self._folder / "ended").exists():
            assert time.monotonic() < deadline
            time.sleep(0.03)
        assert f"STATUS={status}\n" in screen, screen
        assert "BEFORE" in screen, f"the screen that was there before is gone:\n{screen}"
        flags = "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag} #{wrap_flag}"
        assert self.tmux("display-message", "-p", flags).split() == ["0", "1", "0", "0", "1"]
        before, after = ((self._folder / name).read_text() for name in ("before", "after"))
        assert before == after
        return screen

    def close(self) -> None:
        """Ends the server and all in it."""
        subprocess.run([*self._server, "kill-server"], capture_output=True, timeout=SECONDS)


def kinspect(*arguments: str) -> list[str]:
    """The command line of kinspect."""
    return [sys.executable, "-m", "kinspect.inspector.cli", *arguments]
