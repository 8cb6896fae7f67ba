"""Loads that bring the same more than once, against the addresses that the source computes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.model import KernelReport, Scalar
from kinspect.inspector.pipeline.jobs import Request

SCRIPT = Path(__file__).parent.parent / "rules" / "fixtures" / "repeated.py"


@pytest.fixture(scope="module")
def kernels() -> dict[str, KernelReport]:
    pytest.importorskip("triton")
    found = collect_kept(Request((str(SCRIPT),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return {k.variant.case: k for k in found.kernels if k.variant is not None and k.variant.case}


def value_of(kernel: KernelReport, name: str) -> Mapping[str, Scalar]:
    value = kernel.metrics[name].value
    assert isinstance(value, Mapping)
    return value


@pytest.mark.parametrize(
    ("case", "group", "rows", "columns"),
    [("one_group", 64, 32, 64), ("groups_of_four", 4, 32, 64), ("one_group_small", 64, 32, 16)],
)
def test_different_addresses_are_counted(
    kernels: dict[str, KernelReport], case: str, group: int, rows: int, columns: int
) -> None:
    """Of the tiles that the loop goes over the one at 3 * rows has as many as any."""
    value = value_of(kernels[case], "loads.alike")
    addresses = {
        (3 * rows + down) // group * columns + across
        for down in range(rows)
        for across in range(columns)
    }
    assert (value["loads"], value["name"]) == (1, "scale")
    assert (value["elements"], value["distinct"]) == (rows * columns, len(addresses))
    assert value["shape"] == f"{rows}x{columns}"


def test_packed_numbers_share_their_bytes(kernels: dict[str, KernelReport]) -> None:
    """Rows lie further apart than a tile of bytes is long."""
    value = value_of(kernels["nibbles"], "loads.alike")
    addresses = {(row, k // 2) for row in range(16) for k in range(128)}
    assert (value["elements"], value["distinct"], value["packed"]) == (16 * 128, len(addresses), 2)
    assert value["name"] == "pair"
    assert value_of(kernels["nibbles_once"], "loads.alike") == {"loads": 0}
    (each, once) = (kernels[name].loops[0].metrics for name in ("nibbles", "nibbles_once"))
    loads = [int(str(loop["count.global_load"].value)) for loop in (each, once)]
    assert loads[0] >= 3 * loads[1]  # the cure, compiled
    assert value_of(kernels["one_group"], "loads.alike")["packed"] is None
