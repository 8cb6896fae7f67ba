"""Interrupts a script that runs out of time, or that has long launched nothing new."""

from __future__ import annotations

import signal
import time

from .endings import IdleError, OutOfTimeError
from .readback import Readback
from .recorder import SpecialisationRecorder
from .request import WRITING_SECONDS

TICK_SECONDS = 0.5
"""Interval at which the recorder's counts are looked at."""
IDLE_SECONDS = 60.0
"""CPU time without a new specialisation after which a script is stopped."""
MANY_LAUNCHES = 500
"""Launches of known specialisations by which a script counts as repeating: a training loop."""
REPEATING_SECONDS = 15.0
"""CPU time without a new specialisation after which a repeating script is stopped."""


class ScriptClock:
    """Raises `OutOfTimeError` or `IdleError` in the script, by a timer (SIGALRM).

    Args:
        deadline: when the parent kills this process, by `time.monotonic`.
        recorder: counts specialisations and launches; never interrupted while it is busy.
        readback: executes launches; never interrupted while it is busy.
    """

    def __init__(
        self, deadline: float, recorder: SpecialisationRecorder, readback: Readback
    ) -> None:
        start = time.monotonic()
        self._deadline = deadline - min(WRITING_SECONDS, (deadline - start) / 4)
        self._recorder = recorder
        self._readback = readback
        # Values at the last new specialisation, or at the last interrupt.
        self._specialisations = 0
        self._launches = 0
        self._cpu_seconds = time.process_time()

    def start(self) -> None:
        """Starts the timer; for a script that uses SIGALRM itself only the parent's limit holds."""
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_SECONDS, TICK_SECONDS)

    def stop(self) -> None:
        """Stops the timer."""
        signal.setitimer(signal.ITIMER_REAL, 0)

    def _tick(self, number: int, frame: object) -> None:
        """Handles the signal: an exception that it raises appears in the script's code."""
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
            self._restart(now)  # the exception may end only one of several tests
            raise IdleError(f"nothing new was launched for {limit:.0f} s")

    def _restart(self, cpu_seconds: float) -> None:
        self._cpu_seconds = cpu_seconds
        self._launches = self._recorder.launched
