"""One run written in two formats side by side: counted once."""

from __future__ import annotations

from pathlib import Path

from ..builder import Builder


def is_twin(path: Path, other: Path, builder: Builder) -> bool:
    """Whether what a file holds was read already, from another file of the same run.

    A profiler that is asked for several formats writes `4242_results.json` and `4242_results.db`
    of the same dispatches. Where the first was damaged, the second is read as well: that some
    dispatches are then counted twice is said.
    """
    if str(other) not in {part.path for part in builder.parts}:
        return False
    if str(other) in {error.file for error in builder.errors}:
        builder.note(
            f"{path.name} holds the same run as {other.name}, which is damaged: dispatches that "
            "are in both count twice; import the better file alone"
        )
        return False
    builder.note(f"{path.name} holds the same run as {other.name}, which was read")
    return True
