"""The limits of a GPU target."""

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
