"""Talks to a guest that runs kernel files, for `check`, `bench` and `kernels`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..base.errors import KinspectError
from ..compile.worker import START_SECONDS, Worker


def records(
    worker: Worker, message: Mapping[str, Any], time_limit: float, steps: int
) -> Iterator[dict[str, Any]]:
    """Yields the records of a request, which may take `steps` times the limit of a step.

    Raises:
        KinspectError: the guest cannot run the request.
        WorkerLostError: the guest itself ended, or took too long.
    """
    limit = START_SECONDS + steps * time_limit
    for reply in worker.stream({**message, "time_limit": time_limit}, limit):
        if "record" in reply:
            yield reply["record"]
        elif "problem" in reply:
            raise KinspectError(reply["problem"], reply["hint"])


def crash_message(record: Mapping[str, Any], time_limit: float) -> str:
    """Says how a case's process ended, with which configuration, and its last line of output."""
    config = record.get("config")
    configuration = f" with {', '.join(f'{k}={v}' for k, v in config.items())}" if config else ""
    if record["lost"]["reason"] == "timeout":
        return f"it took longer than {time_limit:g} s (--time-limit){configuration}"
    return f"its process {how_lost(record['lost'])}{configuration}{last_output(record)}"


def how_lost(lost: Mapping[str, Any]) -> str:
    """Says how a process was lost, as a predicate: `was ended by SIGSEGV`."""
    if lost["reason"] == "timeout":
        return "took too long"
    if lost["reason"] == "signal":
        return f"was ended by {lost['signal'] or 'signal ' + str(lost['code'])}"
    return f"ended with status {lost['code'] or 0}"


def last_output(record: Mapping[str, Any]) -> str:
    """Returns a colon and the last line that a lost process printed; empty if there is none."""
    printed = [line.strip() for line in str(record.get("output", "")).splitlines() if line.strip()]
    return ": " + printed[-1] if printed else ""
