"""The guest's loop: answers one request after the other until the host closes its end.

Operations:

    hello    -> the result of `about.describe`
    capture  -> any number of {"record": ...}, then {"output": tail of what the user's code printed}
    compile  -> {"outcome": ..., "stage": last stage begun, "result": ... or null}
    suite    -> any number of {"record": ...}, then {"output": ...} or {"problem": ..., "hint": ...}

This process imports Triton; only forked children load the user's files and compile.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
from typing import Any

from . import about, lowering
from .capturing import Capturing
from .forked import RECORDS, Channel, HostGoneError, run_recorded
from .process_tree import adopt_orphans
from .suite.running import SuiteRun


def serve(requests_fd: int, replies_fd: int, warm: bool = False) -> int:
    """Answers requests until the host closes its end; returns the exit status.

    `warm`: whether to import Triton before the first request.
    """
    channel = Channel(requests_fd, replies_fd)
    server = Server(channel)

    def stop(number: int, frame: object) -> None:
        # A callback or a bare `except` may swallow the exception: hence the flag.
        channel.stopped = True
        raise HostGoneError

    adopt_orphans()
    signal.signal(signal.SIGTERM, stop)  # `run_forked` then ends the running job
    try:
        if warm:
            with contextlib.suppress(Exception):  # the first request reports it
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
    """Dispatches requests, and warms up each target once."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._warm: set[str] = set()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Serves one request.

        Raises:
            ValueError: the operation is unknown.
            HostGoneError: the host has closed its end.
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
        return SuiteRun(self._channel, request).run()

    def _compile(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = str(request["folder"])
        arch = str(request["arch"])
        if arch not in self._warm:
            # If it fails, it fails in the child too, which reports the error.
            with contextlib.suppress(Exception):
                lowering.warm(arch)
            self._warm.add(arch)
        stage = result = None

        def take(record: dict[str, Any]) -> None:
            nonlocal stage, result
            stage, result = record.get("stage", stage), record.get("result")

        try:
            _, end = run_recorded(
                functools.partial(lowering.compile_ttir, request),
                self._channel,
                folder=folder,
                output=os.path.join(folder, lowering.STDOUT),
                stderr=os.path.join(folder, lowering.STDERR),
                take=take,
                time_limit=float(request["time_limit"]),
                memory_limit=request.get("memory_limit"),
                most_data=request.get("most_data"),
            )
            return {"outcome": end.describe(), "stage": stage, "result": result}
        finally:
            shutil.rmtree(os.path.join(folder, lowering.SCRATCH), ignore_errors=True)
            for name in (lowering.STDOUT, RECORDS):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(folder, name))
