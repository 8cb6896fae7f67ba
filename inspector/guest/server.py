"""The guest's loop: one request, one reply, until the host goes away.

Operations:

    hello    -> what `about.describe` says
    capture  -> any number of {"record": ...}, then {"output": tail of what the user's code printed}
    compile  -> {"outcome": ..., "stage": last stage begun, "result": ... or null}
    suite    -> any number of {"record": ...}, then {"output": ...} or {"problem": ..., "hint": ...}

This process imports Triton but neither loads the user's files nor compiles: forked children do.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import signal
from typing import Any

from . import about, lowering
from .capturing import Capturing
from .channel import Channel
from .forked import HostGoneError, Outcome, adopt_orphans, run_forked
from .suite.running import Running


def serve(requests_fd: int, replies_fd: int, warm: bool = False) -> int:
    """Answers requests until the host closes its end; returns the exit status.

    `warm`: Triton is imported before the first request rather than by it.
    """
    channel = Channel(requests_fd, replies_fd)
    server = Server(channel)

    def stop(number: int, frame: object) -> None:
        # The exception may come to naught in a callback or a bare `except`: hence the flag.
        channel.stopped = True
        raise HostGoneError

    adopt_orphans()
    signal.signal(signal.SIGTERM, stop)  # ends the job at work on the way out
    try:
        if warm:
            with contextlib.suppress(Exception):  # the first request will tell
                lowering.warm_front_end()
        while not channel.stopped:
            request = channel.receive()
            if request is None:
                return 0
            try:
                reply = server.answer(request)
            except Exception as error:
                reply = {"failure": f"{type(error).__name__}: {error}"}
            channel.send(reply)
    except (HostGoneError, BrokenPipeError):
        pass
    return 0


class Server:
    """Dispatches requests; remembers which targets have been warmed up."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._warm: set[str] = set()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Serves one request.

        Raises:
            ValueError: an operation this guest does not know.
            HostGoneError: nobody is left to be answered.
        """
        operations = {
            "hello": self._hello,
            "capture": self._capture,
            "compile": self._compile,
            "suite": self._suite,
        }
        operation = operations.get(str(request.get("op")))
        if operation is None:
            raise ValueError(f"unknown operation {request.get('op')!r}")
        return operation(request)

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        return about.describe()

    def _capture(self, request: dict[str, Any]) -> dict[str, Any]:
        return Capturing(self._channel, request).run()

    def _suite(self, request: dict[str, Any]) -> dict[str, Any]:
        return Running(self._channel, request).run()

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = str(request["folder"])
        arch = str(request["arch"])
        if arch not in self._warm:
            # Costs every child the same if it fails; then the child is there to say why.
            with contextlib.suppress(Exception):
                lowering.warm(arch)
            self._warm.add(arch)
        outcome: Outcome | None = None
        try:
            outcome = run_forked(
                functools.partial(lowering.compile_ttir, request),
                self._channel,
                stdout=os.path.join(folder, lowering.STDOUT),
                stderr=os.path.join(folder, lowering.STDERR),
                time_limit=float(request["time_limit"]),
                memory_limit=request.get("memory_limit"),
            )
            stages = _read_lines(os.path.join(folder, lowering.PROGRESS))
            result = _read_json(os.path.join(folder, lowering.RESULT))
            return {
                "outcome": outcome.describe(),
                "stage": stages[-1]["stage"] if stages else None,
                "result": result,
            }
        finally:
            shutil.rmtree(os.path.join(folder, lowering.SCRATCH), ignore_errors=True)
            for name in (lowering.STDOUT, lowering.PROGRESS, lowering.RESULT):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))


def _read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as stream:
            return json.load(stream)
    except (FileNotFoundError, json.JSONDecodeError):  # the child did not come to its end
        return None


def _read_lines(path: str) -> list[dict[str, Any]]:
    """The complete lines of a JSON-lines file; a last line that was cut off is left out."""
    try:
        with open(path, encoding="utf-8") as stream:
            return [json.loads(line) for line in stream if line.endswith("\n")]
    except FileNotFoundError:
        return []
