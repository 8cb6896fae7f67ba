"""The inverse of a layout: each element's holders are exactly the indices that the layout sends to
it, by going through all registers of all lanes of all waves."""

from __future__ import annotations

import pytest
from kinspect.inspector.ttgir.layouts import Holder, elements, holders_of, to_linear
from test_ttgir_layout import (
    Draw,
    blocked,
    blocked_operand,
    layout_of,
    mfma,
    mfma_operand,
    slice_of_blocked,
    wmma_operand,
)


@pytest.mark.parametrize(
    "make",
    [blocked, blocked_operand, slice_of_blocked, mfma, mfma_operand, wmma_operand],
    ids=lambda make: make.__name__,
)
def test_holders_of_every_element(make) -> None:  # type: ignore[no-untyped-def]
    draw = Draw(5)
    compared = 0
    while compared < 10:
        text, shape, _, _ = make(draw)
        layout = to_linear(layout_of(text), shape)
        if layout is None:
            continue
        sizes = [
            range(1 << len(part))
            for part in (layout.block, layout.warp, layout.lane, layout.register)
        ]
        if len(sizes[1]) * len(sizes[2]) * len(sizes[3]) > 1 << 13:
            continue
        owners: dict[tuple[int, ...], list[Holder]] = {}
        for block, warp, lane, register in elements([len(size) for size in sizes]):
            where = layout.apply(register, lane, warp, block)
            owners.setdefault(where, []).append(Holder(block, warp, lane, register))
        holders = holders_of(layout)
        assert holders is not None
        for where in elements(shape):
            assert holders.all_at(where) == owners[where], (text, shape, where)
            assert holders.at(where).lane == min(owner.lane for owner in owners[where])
        assert holders.times == len(owners[(0,) * len(shape)])
        compared += 1
