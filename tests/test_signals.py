"""Tests rest on no signal disposition that they happen to be started with."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

SENT = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM)
WAIT = "print('ready', flush=True); import time; time.sleep(60)"


@pytest.mark.parametrize("number", SENT)
def test_commands_that_tests_start_heed_signals(number: signal.Signals) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", WAIT], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(20) == -number
    finally:
        process.kill()
        process.communicate()


def test_and_so_they_do_in_the_background() -> None:
    """As `make test &` in a script, and under nohup."""
    one = f"{Path(__file__)}::{test_commands_that_tests_start_heed_signals.__name__}"
    pytest_command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", one]
    done = subprocess.run(
        ["sh", "-c", 'trap "" INT QUIT HUP; exec "$@"', "sh", *pytest_command],
        cwd=Path(__file__).parent.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
