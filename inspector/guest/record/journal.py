"""A process's journal: its records as lines of JSON in a file of its own.

The file is opened for each line and closed again: a process that is killed has left everything but
perhaps its last line, and no descriptor of ours is open while the user's code runs.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

from .unpatched import append, encode_compact

MAX_GRIDS = 64
"""Distinct grids of a specialisation that are listed; launches with others are only counted."""


class Journal:
    """Appends records to `FOLDER/<pid>-<n>.jsonl`.

    `describe`: returns the first line's record, about this process.
    """

    def __init__(self, folder: str, describe: Callable[[], dict[str, Any]]) -> None:
        self._folder = folder
        self._describe = describe
        self._path: str | None = None

    def write(self, record: dict[str, Any]) -> None:
        """Appends one record.

        Raises:
            OSError: the disk is full, or the folder is gone.
        """
        if self._path is None:
            self._path = self._fresh_path()
            self._append({"process": self._describe()})
        self._append(record)

    @property
    def begun(self) -> bool:
        """Whether a record was written."""
        return self._path is not None

    def forked(self) -> None:
        """Begins another file in a forked child: the current one is its parent's."""
        self._path = None

    def _fresh_path(self) -> str:
        # Process ids are reused, and a process that called exec() still has its own.
        number = 0
        while True:
            path = os.path.join(self._folder, f"{os.getpid()}-{number}.jsonl")
            if not os.path.exists(path):
                return path
            number += 1

    def _append(self, record: dict[str, Any]) -> None:
        append(str(self._path), encode_compact(record) + "\n")


class LaunchCounter:
    """Counts the launches of one specialisation in one process.

    Counts are written when they have grown by an eighth: those of a killed process are at most
    that much too low, and a week of launches makes some two hundred lines.

    `pointers`: returns the paths of a launch's pointer arguments with small storages.
    """

    def __init__(
        self,
        name: str,
        pointers: Callable[[tuple[Any, ...]], list[list[Any]]],
        write: Callable[[dict[str, Any]], None],
    ) -> None:
        self._name = name
        self._pointers = pointers
        self._write = write
        self.reset()

    def reset(self) -> None:
        """Starts again in a forked child, where nobody would release a lock held in the parent."""
        self._lock = threading.RLock()
        self._count = 0
        self._tuning = 0
        self._grids: dict[Any, int] = {}
        self._other_grids = 0
        self._small: list[list[list[Any]]] = []
        self._written_count = 0
        self._next_flush = 1

    def note(self, grid: Any, args: tuple[Any, ...], tuning: bool) -> None:
        """Counts one launch; cheap, since every launch waits for it.

        `grid`: one to three numbers of workgroups.
        `tuning`: whether an autotuner times this launch.
        """
        if type(grid) is not tuple:
            grid = tuple(grid)
        with self._lock:
            self._count += 1
            self._tuning += tuning
            count = self._grids.get(grid)
            if count is not None:
                self._grids[grid] = count + 1
                if self._count < self._next_flush:
                    return
            else:
                self._count_new(tuple(int(n) for n in grid))
            # A specialisation's storages seldom cross the limit: looking at each flush suffices.
            small = self._pointers(args)
            if small not in self._small and len(self._small) < MAX_GRIDS:
                self._small.append(small)
            self.flush()

    def _count_new(self, grid: tuple[int, ...]) -> None:
        """Counts a launch whose grid is new, or equals a listed one of other number types."""
        if grid in self._grids or len(self._grids) < MAX_GRIDS:
            self._grids[grid] = self._grids.get(grid, 0) + 1
        else:
            self._other_grids += 1

    def flush(self) -> None:
        """Writes the counts if they have changed since the last time."""
        if self._count == self._written_count:
            return
        grids: dict[tuple[int, ...], int] = {}
        for grid, launches in self._grids.items():
            full_grid = (*grid, 1, 1)[:3]
            grids[full_grid] = grids.get(full_grid, 0) + launches
        self._written_count = self._count
        self._next_flush = self._count + max(1, self._count // 8)
        self._write(
            {
                "launches": {
                    "id": self._name,
                    "count": self._count,
                    "tuning": self._tuning,
                    "grids": [[list(grid), launches] for grid, launches in grids.items()],
                    "other_grids": self._other_grids,
                    "small": self._small,
                }
            }
        )
