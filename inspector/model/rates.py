"""What the timing model needs of a GPU target beyond its limits."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class Rates(Struct, frozen=True):
    """Latencies, bandwidths and queues of one gfx target, from `machines/rates.yaml`.

    Cycles are clocks of the compute unit; None stands for what is not published.
    """

    valu_to_memory: float  # from a vector instruction to an LDS or memory access of its wave
    valu_to_scalar: float  # from a vector instruction to the scalar one that reads its result
    branch_taken: float  # from a branch to the wave's next instruction
    branch_not_taken: float
    quarter_rate: float  # of a wide integer product or 64-bit shift
    matrix_result: float  # added to the passes where another unit reads the result
    lds_latency: float  # added to the cycles of the LDS
    lds_queue: int  # LDS instructions of a pair of SIMDs that wait before issue stalls
    memory_queue: int  # memory instructions of a SIMD that wait before issue stalls
    scalar_hit: float
    scalar_miss: float  # the first load of kernel arguments
    l1_latency: float
    l2_latency: float
    l3_latency: float
    memory_latency: float
    store_latency: float
    l1_bytes: int
    l1_ways: int
    l1_data_bytes_per_clk: float
    l1_bytes_in_flight: float | None  # requested bytes at which loads stall
    cu_l2_bytes_per_clk: float  # of one CU
    cu_memory_bytes_per_clk: float  # of one CU, beyond the L2
    l2_bytes_per_s: float  # of the device
    l3_bytes_per_s: float | None  # None where there is no L3
    memory_share: float  # of the peak of the device memory that can be reached
    icache_line_bytes: int
    icache_miss: float
    workgroup_start: float  # between the first instructions of two workgroups of a CU
    launch_us: float  # of a kernel that does nothing
    matrix_share: float  # of the peak clock that stays where all matrix units are busy
    power_besides: float  # of the power limit, at the peak clock, that the rest of the chip takes
    ranges: Mapping[str, tuple[float, float]]  # where sources disagree
    sources: Mapping[str, str]
    transcendental: float | None = None  # None: as the machine file has it
    double: float | None = None  # vector instructions of float64; None: at full rate
    l1_wide_lanes_per_clk: float | None = None  # of accesses wider than a dword; None: no limit
    line_request: float | None = None  # between two requests for one line, by its channel of the L2
