"""Row of a recording by the number that a file calls it by: a dispatch's id, an event's."""

from __future__ import annotations

from array import array

from msgspec import Struct, field

from ...model.recording import NONE

_ALWAYS_IN_ARRAY = 1 << 16
"""Numbers below this are kept in the array, however few there are."""
_ELEMENTS_PER_NUMBER = 16
"""A larger number goes into the array where that has at most this many elements for each number
added so far, else into a dictionary, which takes some 100 bytes for each."""


class RowIndex(Struct):
    """Number -> row of the recording, four bytes each while numbers are nearly consecutive.

    A recording has millions of dispatches, whose ids mostly count up from 0 or 1.
    """

    _array: array[int] = field(default_factory=lambda: array("i"))  # number -> row, or `NONE`
    _large: dict[int, int] = field(default_factory=dict)
    _count: int = 0  # of calls of `add`

    def add(self, number: int, row: int) -> None:
        """Sets the row of a number."""
        self._count += 1
        size = len(self._array)
        if size <= number < _ALWAYS_IN_ARRAY + _ELEMENTS_PER_NUMBER * self._count:
            # Half as long again as needed: n numbers that count up cost O(n) elements copied in
            # all, not n for each.
            size = number + number // 2 + 64
            self._array.extend(array("i", [NONE]) * (size - len(self._array)))
        if 0 <= number < size:
            self._array[number] = row
        else:
            self._large[number] = row

    def get(self, number: int) -> int:
        """Returns the row of a number; `NONE` if it has none."""
        if 0 <= number < len(self._array):
            row = self._array[number]
            if row != NONE:
                return row
        return self._large.get(number, NONE)
