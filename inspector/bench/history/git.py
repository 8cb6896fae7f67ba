"""The git commit of a folder, which names a run in the history where the user gives no label."""

from __future__ import annotations

import subprocess
from pathlib import Path

GIT_SECONDS = 10.0


def commit(folder: Path | None = None) -> str | None:
    """The commit that a folder's checkout stands at, with `+` where files differ from it.

    Args:
        folder: None for the current one.

    Returns:
        Ten digits or more; None outside of a checkout, or without git.
    """
    commit_hash = _git(folder, "rev-parse", "--short=10", "HEAD")
    if not commit_hash:
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return f"{commit_hash}+" if changed else commit_hash


def _git(folder: Path | None, *arguments: str) -> str | None:
    """Returns git's output; None if it fails, is missing or takes too long."""
    try:
        process = subprocess.run(
            ["git", "--no-optional-locks", *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return process.stdout.strip() if process.returncode == 0 else None
