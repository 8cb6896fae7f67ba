"""Inductor's code for one graph, and the place in the script that it comes from."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Origin:
    """Where a graph comes from: a function that is traced, or a call of torch.compile."""

    name: str
    file: str
    line: int


@dataclass(frozen=True)
class Generated:
    """Inductor's code for one graph.

    Args:
        function: name of the compiled function, or of the module's class where torch defines it.
        file: the file in which it is defined, or where torch.compile was called.
        lines: name of each operation -> file and line of the script that it comes from.
    """

    text: str
    function: str
    file: str
    line: int
    lines: dict[str, tuple[str, int]]


def is_internal(file: str) -> bool:
    """Whether a file is one of torch's own, or of this package."""
    return os.path.abspath(file).startswith(_folders())


@cache
def _folders() -> tuple[str, ...]:
    """The folders of torch and of this package, with a separator at the end."""
    spec = importlib.util.find_spec("torch")
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    folders.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    return tuple(os.path.join(os.path.abspath(folder), "") for folder in folders)
