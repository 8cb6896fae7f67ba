"""The server's side of a run over kernel files: forks the children that load and launch them.

This process imports Triton and PyTorch but never uses a device, so that each child starts with both
imported and uses the device itself. If a case crashes or hangs, another child continues after it.

A mode's module has `run(request, emit)`. It emits `{"begin": n, ...}` before the n-th step (counted
from 1, the same in every child), skips the steps in `request["finished"]`, and may end early with
`{"again": True}` to be started anew for the others.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from typing import Any

from ..forked import Channel, ChildOutcome, run_recorded
from ..missing_modules import install_hint
from ..records import Follower, one_line, tail_of, writer

INTERNAL = frozenset({"end", "again"})
"""Records that are not forwarded to the host."""


class SuiteRun:
    """One run.

    `request`: `mode`, `folder` (scratch; the host removes it), `time_limit` (seconds for each
    step), `imports` (modules to import before any child starts), and the keys of the mode's module.
    """

    def __init__(self, channel: Channel, request: dict[str, Any]) -> None:
        self._channel = channel
        self._request = request
        self._folder = str(request["folder"])
        self._output = os.path.join(self._folder, "output.txt")
        self._limit = float(request["time_limit"])

    def run(self) -> dict[str, Any]:
        """Runs everything; returns the reply that ends the stream of records."""
        for name in self._request.get("imports") or ():
            try:
                importlib.import_module(name)
            except Exception as error:
                return {
                    "problem": f"{name} cannot be imported by {sys.executable}: {one_line(error)}",
                    "hint": install_hint(error, name),
                }
        module = importlib.import_module("." + self._request["mode"], __package__)
        request = {**self._request, "finished": []}
        while True:
            count_before = len(request["finished"])
            last_record, end, begin_record = self._child(module.run, request)
            if "end" in last_record:
                return {"output": tail_of(self._output)}
            if "again" not in last_record:
                self._send(
                    {"lost": end.describe(), **begin_record, "output": tail_of(self._output)}
                )
            if len(request["finished"]) == count_before:  # another child would get no further
                return {"output": tail_of(self._output)}

    def _child(
        self, run: Any, request: dict[str, Any]
    ) -> tuple[dict[str, Any], ChildOutcome, dict[str, Any]]:
        """Runs one child; returns its last record, how it ended, and its last `begin` record."""
        begin_record: dict[str, Any] = {}
        step_start = time.monotonic()

        def take(record: dict[str, Any]) -> None:
            nonlocal begin_record, step_start
            if "begin" in record:
                request["finished"].append(record["begin"])
                begin_record, step_start = record, time.monotonic()
            if not INTERNAL.intersection(record):
                self._send(record)

        def too_long() -> float | None:
            seconds = time.monotonic() - step_start
            return seconds if seconds > self._limit else None

        last_record, end = run_recorded(
            functools.partial(_run, run, dict(request)),
            self._channel,
            folder=self._folder,
            output=self._output,
            take=take,
            too_long=too_long,
        )
        return last_record, end, begin_record

    def _send(self, record: dict[str, Any]) -> None:
        self._channel.send({"record": record})


def _run(run: Any, request: dict[str, Any], path: str) -> None:
    emit = writer(path)
    sys.path[:] = [os.path.abspath(entry) for entry in sys.path]
    os.chdir(request["folder"])
    run(request, emit)
    follower = Follower(path)
    follower.new_records()
    if "again" not in follower.last:
        emit({"end": True})
