"""The process that runs the pipeline for the UI: `PYTHON feeder.py`, started by `feed.Feed`.

It reads the request from its standard input and writes events to its standard output, pickled;
`None` is the last. When its input is closed or a signal arrives, it ends its compilers and itself.
It has a single thread, because the pipeline forks this process to read many files.
"""

import os
import sys

SECONDS = 5
"""Time that the pipeline has to end its compilers before SIGALRM ends the process."""


def main() -> int:
    """Runs one request.

    Returns:
        The exit status.
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    # A script's folder comes first in sys.path: our module names would shadow those of others.
    if sys.path and os.path.abspath(sys.path[0]) == folder:
        del sys.path[0]
    import contextlib
    import fcntl
    import pickle
    import signal
    from types import FrameType

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Further signals are ignored; the alarm limits how long the compilers may take to end.
        for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGIO):
            signal.signal(caught, signal.SIG_IGN)
        signal.alarm(SECONDS)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of other code must not get between two events
    try:
        sys.path[:] = pickle.load(sys.stdin.buffer)
        request = pickle.load(sys.stdin.buffer)
        # The kernel says when the other end is closed, even if the UI was killed.
        signal.signal(signal.SIGIO, interrupt)
        fcntl.fcntl(0, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC)
        from importlib import import_module

        feed = import_module("kinspect.tui.feeding").feed

        feed(request, channel)
    except (KeyboardInterrupt, EOFError, BrokenPipeError):
        return 1
    finally:
        with contextlib.suppress(OSError):
            channel.flush()
    return 0


if __name__ == "__main__":
    # Ends at once: nothing is left to clean up.
    os._exit(main())
