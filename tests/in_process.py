"""The command line without a process of its own: a start of one takes a second."""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.cli.main import main


def kinspect(
    *arguments: str | Path, cwd: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command printed, and its status."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(cwd)
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main([str(argument) for argument in arguments])
    out.flush()
    err.flush()
    texts = [stream.buffer.getvalue().decode() for stream in (out, err)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(list(arguments), status, *texts)
