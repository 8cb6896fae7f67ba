"""Programs and Python children that kinspect starts by itself: never one of the working folder."""

from __future__ import annotations

import os
import shutil
import sys


def find_program(name: str, path: str | None = None) -> str | None:
    """The absolute path of a program, or None.

    Args:
        name: its name, or a path.
        path: folders as in PATH; None: those of the environment. Relative and empty ones, which
            stand for the working folder, are left out.
    """
    if os.sep in name:
        return shutil.which(os.path.abspath(name))
    folders = (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders)))


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
