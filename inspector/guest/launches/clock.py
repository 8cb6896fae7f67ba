"""Interrupts a script that runs out of time, or that has shown all it has."""

from __future__ import annotations

import signal
import time

from .endings import IdleError, OutOfTimeError
from .readback import Readback
from .recorder import Recorder

TICK_SECONDS = 0.5
"""Between two looks at the recorder."""
IDLE_SECONDS = 60.0
"""A script that worked this long (CPU time) and launched nothing new has most likely shown all."""
MANY_LAUNCHES = 500
REPEATING_SECONDS = 15.0
"""The same for one that made so many launches meanwhile, all known: a training loop."""
MARGIN_SECONDS = 5.0
"""How long before the end of its time a script is stopped, to write out what it left."""


class Clock:
    """Raises `OutOfTimeError` or `IdleError` in the script, by a timer (SIGALRM).

    Args:
        deadline: when the parent kills this process, by `time.monotonic`.
        recorder: counts specialisations and launches; it is not interrupted at its own work.
        readback: executes launches; nor is that.
    """

    def __init__(self, deadline: float, recorder: Recorder, readback: Readback) -> None:
        start = time.monotonic()
        self._deadline = deadline - min(MARGIN_SECONDS, (deadline - start) / 4)
        self._recorder = recorder
        self._readback = readback
        # As they were when the last new specialisation came, or the script was interrupted.
        self._specialisations = 0
        self._launches = 0
        self._cpu_seconds = time.process_time()

    def start(self) -> None:
        """Sets off the timer; a script that uses SIGALRM itself is left to the parent's limit."""
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)

    def stop(self) -> None:
        """Ends it."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _tick(self, number: int, frame: object) -> None:
        """The signal's handler: what it raises comes up in the script's code."""
        recorder, now = self._recorder, time.process_time()
        specialisations = recorder.captured + recorder.failed
        if specialisations != self._specialisations:
            self._specialisations = specialisations
            self._restart(now)
        if recorder.busy or self._readback.busy:
            return
        if time.monotonic() > self._deadline:
            raise OutOfTimeError
        is_repeating = recorder.launched - self._launches >= MANY_LAUNCHES
        limit = REPEATING_SECONDS if is_repeating else IDLE_SECONDS
        if specialisations and now - self._cpu_seconds > limit:
            self._restart(now)  # of several tests, only the one at work ends
            raise IdleError(f"nothing new was launched for {limit:.0f} s")

    def _restart(self, cpu_seconds: float) -> None:
        self._cpu_seconds = cpu_seconds
        self._launches = self._recorder.launched
