"""Runs the application and restores the terminal, whatever ends the application.

Textual restores the terminal when the application ends by itself. It does not handle signals, a
page that blocks the event loop, and threads that keep the process from ending.
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

from ..inspector.base.errors import KinspectError
from ..inspector.base.writing import abandon

if TYPE_CHECKING:
    from .app import KinspectApp

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
GRACE_SECONDS = 4.0
"""Time that the application has to end after a signal before the process is ended."""
_RESTORING_SEQUENCES = (
    "\x1b[?2004l"  # no bracketed paste
    "\x1b[?7h"  # wrap lines
    "\x1b[?2048l"  # no reports of the window's size
    "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1015l\x1b[?1006l"  # no mouse
    "\x1b[<u"  # the keyboard's previous mode
    "\x1b[?1049l"  # the main screen
    "\x1b[?1004l"  # no reports of the focus
    "\x1b[?25h"  # show the cursor
    "\x1b[0m"  # default colours
)


def prepare() -> None:
    """Checks the terminal and sets the environment variables that Textual reads when imported.

    Raises:
        KinspectError: there is no terminal, or none that can place text on the screen.
    """
    # stderr too: Textual writes to it.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise KinspectError("tui: needs a terminal", "use `kinspect analyze` in a pipe or in CI")
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        raise KinspectError(
            "tui: this terminal cannot place text on the screen",
            "set TERM to what it is, or use `kinspect analyze`",
        )
    if os.environ.get("NO_COLOR") == "":
        del os.environ["NO_COLOR"]  # an empty value counts as unset, see no-color.org
    # Ctrl-C then arrives as a signal, so that it works even while a page is busy.
    os.environ.setdefault("TEXTUAL_ALLOW_SIGNALS", "1")


def run(app: KinspectApp) -> int:
    """Runs the application to its end and returns the exit status.

    Raises:
        KinspectError: an internal error ended the application; the terminal has been restored.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)

    def interrupt() -> None:
        """Leaves; where the application asks first, the signal is dealt with."""
        if not app.leave_or_ask():
            signals.stand_down()

    signals = SignalHandling(
        lambda status: loop.call_soon_threadsafe(app.leave, status),
        lambda: loop.call_soon_threadsafe(interrupt),
    )
    with signals.installed(lambda: app.suspended):
        # Without a loop Textual calls asyncio.run, which waits for threads that are still at work.
        result = app.run(loop=loop)
    status = status_of(app, result)
    _leave_threads(app, status)
    return status


def status_of(app: KinspectApp, result: int | None) -> int:
    """The exit status of an application that has ended.

    Raises:
        KinspectError: an internal error ended the application.
    """
    if app.fault:
        raise KinspectError(
            app.fault,
            "please report it with the output of the same command under KINSPECT_TRACEBACK=1",
        )
    return app.return_code or result or 0


def _leave_threads(app: KinspectApp, status: int) -> None:
    """Ends the process at once if the interpreter would wait for a thread, such as a compile's.

    An export that such a thread is still writing is given up, and named on stderr.
    """
    for path in sorted(app.exporting):
        sys.stderr.write(f"kinspect: {path} was not written: the export was aborted\n")
    other_threads = [t for t in threading.enumerate() if t is not threading.current_thread()]
    if any(not thread.daemon or "ThreadPoolExecutor" in thread.name for thread in other_threads):
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        abandon()
        os._exit(status)


class SignalHandling:
    """Ends the application on a signal, gracefully at first and then by force.

    The first signal calls `leave`, or `interrupt` for Ctrl-C; a second one, or GRACE_SECONDS, ends
    the process, unless `stand_down` is called in between.

    Args:
        leave: ends the application with an exit status; called in a signal handler.
        interrupt: ends the application or asks whether to; called in a signal handler.
    """

    def __init__(self, leave: Callable[[int], Any], interrupt: Callable[[], Any]) -> None:
        self._leave = leave
        self._interrupt = interrupt
        self._signalled = False
        self._forced_end: threading.Timer | None = None
        self._fd = sys.stdin.fileno()
        self._terminal_settings = termios.tcgetattr(self._fd)

    @contextlib.contextmanager
    def installed(self, is_suspended: Callable[[], bool]) -> Iterator[None]:
        """Handles signals within the context and restores the terminal's settings at its end."""

        def handle(number: int, frame: FrameType | None) -> None:
            if number in (signal.SIGINT, signal.SIGQUIT) and is_suspended():
                return
            if self._signalled:
                self._end(128 + number)
            self._signalled = True
            self._forced_end = threading.Timer(GRACE_SECONDS, self._end, (128 + number,))
            self._forced_end.daemon = True
            self._forced_end.start()
            if number == signal.SIGINT:  # the key that quits; others end the process with a failure
                self._interrupt()
            else:
                self._leave(128 + number)

        handlers = {number: signal.signal(number, handle) for number in SIGNALS}
        try:
            yield
        except BaseException:
            self.restore()
            raise
        finally:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._fd, termios.TCSANOW, self._terminal_settings)
            for number, handler in handlers.items():
                signal.signal(number, handler)

    def stand_down(self) -> None:
        """Takes the last signal as answered: the process goes on."""
        if self._forced_end is not None:
            self._forced_end.cancel()
        self._signalled = False

    def restore(self) -> None:
        """Restores the terminal without Textual; never waits, even if the terminal has gone."""
        with contextlib.suppress(OSError):
            os.write(self._fd, _RESTORING_SEQUENCES.encode())
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._fd, termios.TCSANOW, self._terminal_settings)

    def _end(self, status: int) -> None:
        abandon()
        self.restore()
        os._exit(status)
