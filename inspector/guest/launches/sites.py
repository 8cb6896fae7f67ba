"""Where in the user's code a launch was asked for."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any

LIBRARIES = ("triton", "torch", "helion")


class Sites:
    """Finds call sites: the first frame outside of Triton, PyTorch, Helion and this package.

    Args:
        generated: where code is kept that a compiler wrote, which is not the user's.
    """

    def __init__(self, generated: Sequence[str] = ()) -> None:
        folders = [*generated, os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        for name in LIBRARIES:
            spec = importlib.util.find_spec(name)
            folders += list(spec.submodule_search_locations or ()) if spec is not None else []
        self._libraries = tuple(os.path.join(os.path.abspath(f), "") for f in folders)
        self._known: dict[str, bool] = {}

    def current(self) -> dict[str, Any] | None:
        """`{"file", "line"}` of the code that is launching; None where there is none of the user's.

        Code without a file (`exec` of a string) is passed over: nobody could open it.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            users = self._known.get(name)
            if users is None:
                users = self._known[name] = self._is_users(name)
            if users:
                return {"file": os.path.abspath(name), "line": frame.f_lineno}
            frame = frame.f_back
        return None

    def _is_users(self, name: str) -> bool:
        return not name.startswith("<") and not os.path.abspath(name).startswith(self._libraries)
