"""Names of files as a CI system wants them: relative to the root of the repository."""

from __future__ import annotations

import os
from pathlib import Path

from ..base.named_files import is_users_own

WORKSPACE = "GITHUB_WORKSPACE"
"""Variable with the folder that GitHub's runner checks the repository out into."""
_REPOSITORY = ".git"


def repository_root() -> Path:
    """The root of the repository that the current folder lies in.

    Returns:
        `GITHUB_WORKSPACE` if it holds the folder, else the nearest folder above with a repository,
        else the folder itself.
    """
    start = Path.cwd()
    stated = os.environ.get(WORKSPACE)
    if stated and path_in_repository(str(start), Path(stated)) is not None:
        return Path(stated)
    for candidate in (start, *start.parents):
        if is_users_own(candidate, _REPOSITORY):
            return candidate
    return start


def path_in_repository(file: str, root: Path) -> str | None:
    """A file's path from a root with forward slashes; None if it does not lie below."""
    path = os.path.join(os.getcwd(), file)
    try:
        real = os.path.realpath(path)
    except ValueError:  # no file can have such a name: it holds a NUL, or is no text
        return None
    # First without resolving links: a link in the repository is the file that the user knows.
    for name, base in (
        (os.path.normpath(path), os.path.normpath(root)),
        (real, os.path.realpath(root)),
    ):
        if name == base:
            return "."
        if name.startswith(base.rstrip(os.sep) + os.sep):
            return os.path.relpath(name, base).replace(os.sep, "/")
    return None
