"""The limits of a GPU target.

What the timing model needs of a GPU target beyond its limits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct


class Machine(Struct, frozen=True):
    """One gfx target's limits, from `machines/<arch>.yaml`.

    Register totals are 32-bit registers per SIMD and lane for the given wave size. LDS figures are
    bytes; `lds_pool` is what one workgroup scheduling unit (CU, or WGP in WGP mode) shares and
    `lds_max` what one workgroup may ask for. Cycles are clocks of one SIMD.
    """

    arch: str
    name: str
    family: str
    wave_sizes: tuple[int, ...]
    max_waves: int  # per SIMD
    eus: int  # SIMDs that a workgroup is spread over: 4 on gfx9; 4 in WGP mode, 2 in CU mode
    eus_cu_mode: int | None  # None where there is no CU/WGP choice
    vgpr_total: Mapping[int, int]  # wave size -> registers per SIMD
    vgpr_granule: Mapping[int, int]
    vgpr_addressable: int
    vgpr_encoding_granule: Mapping[int, int]
    agpr: Literal["none", "separate", "unified"]
    sgpr_total: int | None  # None where SGPRs never limit
    sgpr_granule: int | None
    sgpr_addressable: int
    lds_pool: int
    lds_pool_cu_mode: int | None
    lds_max: int
    lds_granule: Mapping[str, int]  # LLVM model name -> allocation granule, bytes
    barriers: int
    barriers_cu_mode: int | None
    max_workgroup_size: int
    # LLVM model name -> (most SGPRs, waves), waves falling; beyond the last step its waves hold
    sgpr_steps: Mapping[str, tuple[tuple[int, int], ...]]
    counters: Mapping[str, int]  # wait counter -> its largest value
    # counter -> bit fields (lowest bit, width) of s_waitcnt's number, least significant part first
    waitcnt_fields: Mapping[str, tuple[tuple[int, int], ...]]
    icache_bytes: int | None  # instruction cache, shared by the CUs that the figure's source names
    lds_banks: int | None  # of 4 bytes each
    lds_bytes_per_clk: int | None  # per CU
    cache_line_bytes: int | None  # of the vector cache next to the CU
    valu_cycles: Mapping[int, int]  # wave size -> clocks of a full-rate vector operation
    transcendental_cycles: Mapping[int, int]
    issue_cycles: int | None  # from one instruction of a wave to its next at least
    valu_per_issue: int | None  # vector instructions that waves of a SIMD issue together at most
    # valu, transcendental, salu -> clocks at least until what needs the result can issue
    result_cycles: Mapping[str, int]
    # read, write (addresses included) -> what a pair of SIMDs exchanges with the LDS; may be empty
    lds_port_bytes_per_clk: Mapping[str, int]
    l1_bytes_per_clk: int | None  # of the lines that the cache next to the CU looks up
    l2_bytes_per_clk: int | None  # of the whole device
    cus: int | None
    xcds: int | None  # dies with an L2 each, to which workgroups are dealt round robin; 1: one L2
    l2_bytes: int | None  # of one XCD
    l3_bytes: int | None  # behind the L2 of all XCDs (Infinity Cache); 0: there is none
    clock_mhz: int | None
    # mnemonic -> clocks of the SIMD's matrix unit; `NAME:narrow`: both operands are 4 or 6 bits
    mfma_cycles: Mapping[str, int]
    sources: Mapping[str, str]  # field -> where the figure comes from


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
