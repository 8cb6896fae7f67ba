"""Whether the LDS holds a loop's tiles twice, as Triton's num_stages=2 has them.

Of two stages, one is on its way: in LDS where loads are copied there directly, otherwise in
registers. With stages, tiles share no bytes of LDS with what changes its layout there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ..model import Scalar
from .subject import Subject

if TYPE_CHECKING:
    from ..ttgir.flow import DataFlow
    from ..ttgir.loop_loads import LoopLoad

NO_STAGES: Final[Mapping[str, Scalar]] = dict.fromkeys(("stages", "lds", "lds_max", "ahead"))
"""The figures of a loop of which nothing is known."""
_BYTES_OF_A_REGISTER: Final = 4
_PADDING: Final = 32
"""Of so many bytes of copied tiles, one is padding (Triton 3.9: 5,040 beside 163,840)."""


def fit_of_two_stages(
    subject: Subject, flow: DataFlow, loads: Sequence[LoopLoad]
) -> Mapping[str, Scalar]:
    """Whether the tiles that dots take from loads of their own iteration fit twice.

    `flow`: the values of its TTGIR; `loads`: the loads of its loops. The loop that loads most is
    the one that counts.

    Returns:
        `stages`: 2 where they fit; `lds` and `lds_max`, in bytes, where they do not; `ahead`, the
        registers of a lane that the stage on its way takes. All None without such tiles, or where
        their size is not known.
    """
    from ..ttgir.conversions import tile_bytes
    from ..ttgir.loop_loads import Use
    from ..ttgir.shared_buffers import shared_buffers
    from .staged import DIRECT_TO_LDS

    machine, demand = subject.machine, subject.demand
    sizes: dict[int, int] = {}  # loop -> bytes of its tiles
    for load in loads:
        if Use.DOT in load.uses and load.op.result_types:
            size = tile_bytes(load.op.result_types[0])
            if size is None:
                return NO_STAGES
            sizes[load.loop] = sizes.get(load.loop, 0) + size
    if not sizes or machine is None or not demand.waves_per_workgroup:
        return NO_STAGES
    tiles, waves = max(sizes.values()), demand.waves_per_workgroup
    copied = machine.arch in DIRECT_TO_LDS
    buffers = shared_buffers(flow)
    exchange = max((b.size or 0 for b in buffers if b.kind == "exchange" and b.in_loop), default=0)
    lds = exchange + (2 * tiles + 2 * tiles // _PADDING if copied else tiles)
    lanes = subject.function.resources.wave_size or 64
    ahead = 0 if copied else tiles // (_BYTES_OF_A_REGISTER * lanes * waves)
    if lds > machine.lds_max:
        return {**NO_STAGES, "lds": lds, "lds_max": machine.lds_max, "ahead": ahead}
    return {**NO_STAGES, "stages": 2, "ahead": ahead}
