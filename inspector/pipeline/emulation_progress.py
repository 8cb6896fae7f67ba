"""The progress of a launch that is executed, in words, with an estimate of the rest."""

from __future__ import annotations

import time
from collections.abc import Callable

from ..explain.view import plural

LONG_SECONDS = 60.0
"""A launch that takes longer is worth a warning."""
_SETTLED_SECONDS = 2.0
"""From here on the first workgroups say how long the others take."""


class LaunchProgress:
    """Watches a launch (`emulator.lockstep.Watch`)."""

    def __init__(
        self, kernel: str, workgroups: int, say: Callable[[str], None], warn: Callable[[str], None]
    ) -> None:
        self._kernel = kernel
        self._workgroups = workgroups
        self._say = say
        self._warn = warn
        self._has_warned = False
        self._started = time.monotonic()

    def __call__(self, ended: int, of: int) -> None:
        seconds = time.monotonic() - self._started
        in_all = seconds * of / ended if ended else None
        size = plural(self._workgroups, "workgroup")
        if in_all is None:
            self._say(f"emulating {self._kernel}: {size}")
        else:
            left = in_words(in_all - seconds)
            self._say(f"emulating {self._kernel}: {100 * ended // of} % of {size}, {left} left")
        expected = in_all if in_all is not None and seconds >= _SETTLED_SECONDS else seconds
        if not self._has_warned and expected >= LONG_SECONDS:
            self._has_warned = True
            known = f"about {in_words(expected)}" if expected > seconds else "more than a minute"
            self._warn(f"emulating {self._kernel}, {size}, takes {known}")


def in_words(seconds: float) -> str:
    """`40 s`, `3 min`, `2.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
