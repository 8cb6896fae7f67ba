"""Which row of a recording a profiler's number means, for tens of millions of them."""

from __future__ import annotations

from array import array

from msgspec import Struct, field

from ...recording import NONE

_NEAR = 1 << 16
_THIN = 16
"""An array is that many times larger than what is in it at the most."""


class Rows(Struct):
    """Which row belongs to a number; numbers mostly count from 1, so that an array serves."""

    _near: array[int] = field(default_factory=lambda: array("i"))
    _far: dict[int, int] = field(default_factory=dict)
    _puts: int = 0

    def get(self, number: int) -> int | None:
        """The row of a number; None where it has none."""
        if 0 <= number < len(self._near):
            row = self._near[number]
            if row != NONE:
                return row
        return self._far.get(number)

    def put(self, number: int, row: int) -> None:
        """Sets it; four bytes for each number that is near to those before it."""
        self._puts += 1
        missing = number - len(self._near)
        if missing >= 0 and number < _NEAR + _THIN * self._puts:
            self._near.extend(array("i", [NONE]) * (missing + 1))
        if 0 <= number < len(self._near):
            self._near[number] = row
        else:
            self._far[number] = row
