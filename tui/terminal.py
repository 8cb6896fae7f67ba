"""Runs the application so that the terminal is left as it was found, whatever ends it.

Textual restores the terminal when the application ends by itself. What it does not see are signals,
a page that never gives the thread back, and threads that the process would wait for at its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from ..inspector.errors import KinspectError

if TYPE_CHECKING:
    from .app import KinspectApp

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
GRACE_SECONDS = 4.0
"""How long the application may take to end once it was asked to."""
_RESTORED = (
    "\x1b[?2004l"  # no bracketed paste
    "\x1b[?7h"  # lines wrap
    "\x1b[?2048l"  # sizes are not told in the input
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l"  # no mouse
    "\x1b[<u"  # keys as before
    "\x1b[?1049l"  # the screen that was there before
    "\x1b[?1004l"  # focus is not told
    "\x1b[?25h"  # a cursor
    "\x1b[0m"
)


def prepare() -> None:
    """Makes sure that there is a terminal; comes before the application, which reads the settings.

    Raises:
        KinspectError: there is none.
    """
    # Textual writes to stderr.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise KinspectError("tui: needs a terminal", "use `kinspect analyze` in a pipe or in CI")
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise KinspectError(
            "tui: this terminal cannot place text on the screen",
            "set TERM to what it is, or use `kinspect analyze`",
        )
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # set to nothing is not set, says no-color.org
    # Ctrl-C comes as a signal then, so that it works even while a page is busy.
    os.environ.setdefault("TEXTUAL_ALLOW_SIGNALS", "1")


def run(app: KinspectApp) -> int:
    """Runs the application to its end; the exit status.

    Raises:
        KinspectError: it ended by a fault of its own; the terminal has been restored.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    ending = Ending(lambda status: loop.call_soon_threadsafe(app.leave, status))
    with ending.held(lambda: app.suspended):
        # A loop of ours: asyncio's own way would wait here for threads that are still at work.
        result = app.run(loop=loop)
    status = status_of(app, result)
    _leave_threads(status)
    return status


def status_of(app: KinspectApp, result: int | None) -> int:
    """The exit status of an application that has ended.

    Raises:
        KinspectError: it ended by a fault of its own.
    """
    if app.fault:
        raise KinspectError(
            app.fault,
            "please report it with the output of the same command under KINSPECT_TRACEBACK=1",
        )
    return app.return_code or result or 0


def _leave_threads(status: int) -> None:
    """Ends the process here if the interpreter would wait for a thread, a compile's perhaps."""
    other_threads = [t for t in threading.enumerate() if t is not threading.current_thread()]
    if any(not thread.daemon or "ThreadPoolExecutor" in thread.name for thread in other_threads):
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


class Ending:
    """What signals do while the application runs: it is asked to end, and then made to.

    Args:
        ask: asks it to end with that status; called in a signal handler.
    """

    def __init__(self, ask: Callable[[int], Any]) -> None:
        self._ask = ask
        self._asked = False
        self._fd = sys.stdin.fileno()
        self._before = termios.tcgetattr(self._fd)

    @contextlib.contextmanager
    def held(self, lent: Callable[[], bool]) -> Iterator[None]:
        """Handles signals within; the terminal's settings are those of before afterwards.

        Args:
            lent: whether another program has the terminal, whose Ctrl-C is not for us.
        """

        def handle(number: int, frame: FrameType | None) -> None:
            if number in (signal.SIGINT, signal.SIGQUIT) and lent():
                return
            # Ctrl-C is the key that quits; the others are no way to end well.
            status = 0 if number == signal.SIGINT else 128 + number
            if self._asked:
                self._end(128 + number)
            self._asked = True
            watch = threading.Timer(GRACE_SECONDS, self._end, (128 + number,))
            watch.daemon = True
            watch.start()
            self._ask(status)

        handlers = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield
        except BaseException:
            self.restore()
            raise
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSANOW, self._before)
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def restore(self) -> None:
        """Puts the terminal back by hand; never waits for a terminal that has gone."""
        with contextlib.suppress(OSError):
            os.write(self._fd, _RESTORED.encode())
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSANOW, self._before)

    def _end(self, status: int) -> None:
        self.restore()
        os._exit(status)
