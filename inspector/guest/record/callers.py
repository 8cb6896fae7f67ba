"""Reads off the stack who asked Triton for a specialisation, and with what arguments."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from .values import encode

MAX_FRAMES = 200


@dataclass
class Caller:
    """The code that asked for a specialisation.

    Args:
        run: local variables `kwargs` and `bound_args` of `JITFunction.run`; None outside a launch.
        call_site: `file` and `line` of the user's statement; None if no frame is the user's.
        tuning: the autotuner's configuration that the launch tries; None outside of tuning.
    """

    run: dict[str, Any] | None = None
    call_site: dict[str, Any] | None = None
    tuning: dict[str, Any] | None = None


class CallerReader:
    """Knows the frames of one Triton."""

    def __init__(self, triton: Any, jit: Any, autotuner: Any) -> None:
        self._run_code: CodeType = jit.JITFunction.run.__code__
        self._tuner_codes = (autotuner.Autotuner.run.__code__, autotuner.Autotuner._bench.__code__)
        self._library_folders = tuple(
            os.path.dirname(os.path.abspath(m.__file__ or "")) + os.sep
            for m in (triton, sys.modules[__name__])
        )

    def caller(self) -> Caller:
        """The code on this thread's stack that asked for the specialisation."""
        caller = Caller()
        for frame in _stack():
            code = frame.f_code
            if code is self._run_code and caller.run is None:
                names = frame.f_locals
                if "kwargs" in names and "bound_args" in names:
                    caller.run = {n: names[n] for n in ("kwargs", "bound_args")}
            elif code in self._tuner_codes:
                caller.call_site = None  # the frames so far were those of a benchmark
                caller.tuning = caller.tuning or _tuning(frame.f_locals)
            elif caller.call_site is None and self._is_users(code.co_filename):
                file = os.path.abspath(code.co_filename)
                caller.call_site = {"file": file, "line": frame.f_lineno}
        return caller

    def _is_users(self, file: str) -> bool:
        """Whether a file is neither Triton's, torch's, the recorder's nor code without a file."""
        return not (file.startswith(("<", *self._library_folders)) or _in_torch(file))


def _stack() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    for _ in range(MAX_FRAMES):
        if frame is None:
            return
        yield frame
        frame = frame.f_back


def _in_torch(file: str) -> bool:
    torch = sys.modules.get("torch")
    folder = os.path.dirname(getattr(torch, "__file__", None) or "")
    return folder != "" and file.startswith(folder + os.sep)


def _tuning(names: Mapping[str, Any]) -> dict[str, Any] | None:
    """The configuration that an autotuner is trying, from the local variables of its methods."""
    config, tuner = names.get("config"), names.get("self")
    if config is None:
        return None
    values = config.all_kwargs()
    return {
        "config": {str(name): encode(value) for name, value in values.items()},
        "configs": len(getattr(tuner, "configs", ())),
        "key": [str(name) for name in getattr(tuner, "keys", None) or ()],
    }
