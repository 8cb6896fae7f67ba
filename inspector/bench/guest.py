"""Talks to a guest that runs kernel files: what `check`, `bench` and `kernels` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..compile.worker import START_SECONDS, Worker
from ..errors import KinspectError


def records(
    worker: Worker, message: Mapping[str, Any], time_limit: float, steps: int
) -> Iterator[dict[str, Any]]:
    """The records of one request, which may take `steps` times the limit of one step.

    Raises:
        KinspectError: the guest cannot do it at all.
        WorkerLostError: the guest itself ended, or took too long.
    """
    limit = START_SECONDS + steps * time_limit
    for reply in worker.stream({**message, "time_limit": time_limit}, limit):
        if "record" in reply:
            yield reply["record"]
        elif "problem" in reply:
            raise KinspectError(reply["problem"], reply["hint"])


def crash(record: Mapping[str, Any], time_limit: float) -> str:
    """How a case's process ended, the configuration at work, and the last that it said."""
    config = record.get("config")
    at = f" with {', '.join(f'{k}={v}' for k, v in config.items())}" if config else ""
    if record["lost"]["reason"] == "timeout":
        return f"it took longer than {time_limit:g} s (--time-limit){at}"
    return f"its process {end(record['lost'])}{at}{tail(record)}"


def end(lost: Mapping[str, Any]) -> str:
    """How a process was lost, as a predicate: `was ended by SIGSEGV`."""
    if lost["reason"] == "timeout":
        return "took too long"
    if lost["reason"] == "signal":
        return f"was ended by {lost['signal'] or 'signal ' + str(lost['code'])}"
    return f"ended with status {lost['code'] or 0}"


def tail(record: Mapping[str, Any]) -> str:
    """The last line that a lost process printed, after a colon; empty where there is none."""
    printed = [line.strip() for line in str(record.get("output", "")).splitlines() if line.strip()]
    return ": " + printed[-1] if printed else ""
