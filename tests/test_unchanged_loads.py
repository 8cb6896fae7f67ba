"""Loads of a loop that bring the same value each time, in code that clang made of known sources."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

FIXTURE = Path(__file__).parent.parent / "rules" / "fixtures" / "hip_unchanged_gfx942.s"


@pytest.mark.parametrize(
    ("name", "loads"),
    [
        ("scaled", 1),
        ("scaled_restrict", 0),  # in front of the loop
        ("scaled_in_place", 0),  # the loop may store to it
        ("scaled_in_turn", 1),  # a barrier changes nothing: no part of the kernel stores to it
        ("scaled_until", 0),  # volatile
        ("scaled_powers", 1),
        ("summed_where", 1),
    ],
)
def test_loads_of_unchanged_memory(name: str, loads: int) -> None:
    context = Context(path=str(FIXTURE), patterns=(name,))
    (kernel,) = analyze_text(FIXTURE.read_text("utf-8"), context)
    found = []
    for loop in kernel.loops:
        value = loop.metrics["loads.unchanged"].value
        assert isinstance(value, Mapping)
        found.append(value["loads"])
    assert sum(found) == loads
