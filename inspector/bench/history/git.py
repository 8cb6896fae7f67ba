"""The git commit of a folder, which names a run in the history where the user gives no label.

A checkout's own configuration may name commands: filters, hooks, monitors, transports. None of them
is run.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...base.lifetimes import run_to_end
from ...base.programs import absolute_folders, find_program

GIT_SECONDS = 10.0
_MEMORY = 1 << 30
"""Bytes of data: a setting may name a file without end."""
_SETTINGS = (
    "core.attributesFile=",
    "core.excludesFile=",
    "core.fsmonitor=",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "diff.external=",
    "submodule.recurse=false",
)
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # for git before 2.39.4, which fetches what a checkout lacks
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_NAME = re.compile(r"filter\.([\w.-]+)\.\w+")


def commit(folder: Path | None = None) -> str | None:
    """The commit that a folder's checkout stands at, with `+` where files differ from it.

    Args:
        folder: None for the current one.

    Returns:
        Ten digits or more; None outside of a checkout, without git, or where it cannot be told
        whether files differ: in time, or without a filter whose name cannot be passed to git.
    """
    commit_hash = _git(folder, _SETTINGS, "rev-parse", "--short=10", "HEAD")
    if not commit_hash:
        return None
    settings = _without_filters(folder)
    if settings is None:
        return None
    status = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=all")
    changed = _git(folder, settings, *status)
    if changed is None:
        return None
    return f"{commit_hash}+" if changed else commit_hash


def _without_filters(folder: Path | None) -> Sequence[str] | None:
    """`_SETTINGS`, and such as switch off each filter of the checkout; None if one cannot be."""
    names = _git(folder, _SETTINGS, "config", "--null", "--name-only", "--get-regexp", r"^filter\.")
    matches = [_NAME.fullmatch(name) for name in (names or "").split("\0") if name]
    settings = list(_SETTINGS)
    for match in matches:
        if match is None:
            return None
        settings += (f"filter.{match[1]}.{key}=" for key in ("clean", "smudge", "process"))
        settings.append(f"filter.{match[1]}.required=false")
    return settings


def _git(folder: Path | None, settings: Sequence[str], *arguments: str) -> str | None:
    """Returns git's output; None if it fails, is missing or takes too long."""
    git = find_program("git")
    if git is None:
        return None
    words = [word for setting in settings for word in ("-c", setting)]
    try:
        process = run_to_end(
            [git, "--no-pager", "--no-optional-locks", *words, *arguments],
            GIT_SECONDS,
            folder=folder,
            environment={**os.environ, **_ENVIRONMENT, "PATH": absolute_folders()},
            memory=_MEMORY,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if process.returncode:
        return None
    return process.stdout.decode("utf-8", "replace").strip()
