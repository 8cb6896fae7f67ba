"""Finds the user's line that a launch comes from."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

LIBRARIES = ("triton", "torch", "helion")
"""Packages whose frames are skipped."""


class Sites:
    """Finds call sites: the first frame outside of Triton, PyTorch, Helion and this package.

    `generated`: folders of code that a compiler generated, which is not the user's.
    """

    def __init__(self, generated: Sequence[str] = ()) -> None:
        folders = [*generated, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        for name in LIBRARIES:
            spec = importlib.util.find_spec(name)
            folders += list(spec.submodule_search_locations or ()) if spec is not None else []
        self._libraries = tuple(os.path.join(os.path.abspath(f), "") for f in folders)
        self._is_users_by_file: dict[str, bool] = {}

    def current(self) -> dict[str, Any] | None:
        """`{"file", "line"}` of the user's code that is launching; None if there is none.

        Frames of code without a file (`exec` of a string) are skipped.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            is_users = self._is_users_by_file.get(name)
            if is_users is None:
                is_users = self._is_users_by_file[name] = self._is_users(name)
            if is_users:
                return {"file": os.path.abspath(name), "line": frame.f_lineno}
            frame = frame.f_back
        return None

    def _is_users(self, name: str) -> bool:
        return not name.startswith("<") and not os.path.abspath(name).startswith(self._libraries)
