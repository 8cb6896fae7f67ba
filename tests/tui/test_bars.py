"""Bars of text."""

from __future__ import annotations

import pytest
from kinspect.tui.widgets.bars import bar


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "▁▁▁▁"),
        (0.25, "▇▁▁▁"),
        (0.5, "▇▇▁▁"),
        (0.625, "▇▇▄▁"),
        (0.99, "▇▇▇▆"),
        (1, "▇▇▇▇"),
        (7, "▇▇▇▇"),
        (-1, "▁▁▁▁"),
        (0.01, "▂▁▁▁"),
        (None, "    "),
    ],
)
def test_a_share_as_cells(share: float | None, text: str) -> None:
    assert "".join(piece for piece, _ in bar(share, 4)) == text


def test_the_rest_is_drawn_as_such() -> None:
    assert bar(0.5, 4, "good") == (("▇▇", "good"), ("▁▁", "track"))
    assert bar(1, 4) == (("▇▇▇▇", "bar"),)
    assert bar(0.5, 0) == (("", ""),)
