"""Programs and Python children that kinspect starts by itself: never one of the working folder."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from collections.abc import Mapping

from .errors import KinspectError


def absolute_folders(path: str | None = None) -> str:
    """PATH, or the folders of `path`, without relative and empty ones: the working folder's."""
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, folders))


def find_program(name: str, path: str | None = None) -> str | None:
    """The absolute path of a program, or None.

    Args:
        path: folders as in PATH, of which the absolute ones count; None: those of the environment.
    """
    if os.sep in name:
        return shutil.which(os.path.abspath(name))
    return shutil.which(name, path=absolute_folders(path)) if name else None


def find_interpreter(python: str, environment: Mapping[str, str]) -> str:
    """The absolute path of the interpreter that the user named.

    Raises:
        KinspectError: there is none in PATH's absolute folders, or it cannot be run.
    """
    program = find_program(python, environment.get("PATH"))
    if program is None:
        why = os.strerror(errno.EACCES if os.path.exists(python) else errno.ENOENT)
        raise KinspectError(
            f"the interpreter {python} cannot be started: {why}",
            "name one that has Triton with --python",
        )
    return program


def python_child(module: str, function: str = "main") -> list[str]:
    """The command of a child of this interpreter that calls a function of a module.

    It finds modules where this process does, and not in the folder that it is started in. Not by
    -m: pickles of classes in `__main__` could not be read by the other process.
    """
    paths = [path for path in sys.path if path]
    code = f"import sys; sys.path[:] = {paths!r}; from {module} import {function}; {function}()"
    return [sys.executable, "-c", code]


WITHOUT_FOLDER = "import sys; sys.path[:] = [path for path in sys.path if path]; "
"""Begins code for `python -c` of any interpreter: it imports nothing of the working folder."""
