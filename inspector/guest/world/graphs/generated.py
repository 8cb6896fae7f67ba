"""What Inductor wrote for one graph, and where in the script that comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Generated:
    """What Inductor wrote for one graph.

    Args:
        text: the wrapper, with the kernels' sources.
        function: name of the compiled function.
        file: where it is defined.
        line: its first.
        lines: name of each operation -> file and line of the script that it comes from.
    """

    text: str
    function: str
    file: str
    line: int
    lines: dict[str, tuple[str, int]]
