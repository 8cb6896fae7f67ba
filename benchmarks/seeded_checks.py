"""Whether a change has repaired a seeded kernel: asked of what Triton alone makes of it.

Nothing here comes from kinspect. Each check names the change of the source that its author would
make, which must pass it while the seeded kernel must not (`tests/test_agent_loop.py`), and what
both were measured to have: gfx942, Triton 3.9.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from msgspec import Struct

from .plain_triton import PlainCode

LDS_OF_A_CU = 65_536
_LANES = 64
_ACCESS = r"(?:global|buffer)_(?:load|store)_"
_NARROW = _ACCESS + r"(?:[us]?byte|[us]?short|dword)(?:_d16\w*)?"
_DENORMALS = r"v_(?:ldexp_f32|cndmask_b32|cmp_\w+?)(?:_e32|_e64)?"
_LDS_READ = r"ds_read\w*"
_DIVISION = r"v_(?:rcp|mul_hi)_\w+"
_FLOAT64 = r"v_(?:add|mul|fma|fmac)_f64\w*"


class Check(Struct, frozen=True):
    """How a kernel is seen to be repaired.

    Args:
        figure: what is counted, for the table.
        count: counts it.
        most: what the repaired kernel has at most.
        seeded: what was counted in the seeded kernel.
        good: what was counted in its counterpart.
        edits: the counterpart: texts of the source and what stands in their place.
    """

    figure: str
    count: Callable[[PlainCode], float]
    most: float
    seeded: float
    good: float
    edits: tuple[tuple[str, str], ...]

    def repaired(self, code: PlainCode) -> bool:
        """Whether the fault is gone, and nothing is spilled or too large instead."""
        return self.count(code) <= self.most and code.spills == 0 and code.shared <= LDS_OF_A_CU

    def counterpart(self, source: str) -> str:
        """The source without the fault.

        Raises:
            ValueError: a text is not there.
        """
        for before, after in self.edits:
            if before not in source:
                raise ValueError(f"no {before!r} in the source")
            source = source.replace(before, after)
        return source


def _spills(code: PlainCode) -> float:
    return code.spills


def _products(code: PlainCode) -> float:
    """Multiply-accumulates of an iteration that are made, to those that are needed."""
    tile = code.constants
    needed = tile["BLOCK_M"] * tile["BLOCK_N"] * tile["BLOCK_K"]
    return float(code.products_per_iteration() / needed)


def _lds(code: PlainCode) -> float:
    return code.shared


def _narrow(code: PlainCode) -> float:
    return code.count(_NARROW)


def _denormals(code: PlainCode) -> float:
    return code.in_loops(_DENORMALS)


def _half_reads(code: PlainCode) -> float:
    """LDS reads in the loop of less than 16 bytes a lane."""
    return code.in_loops(_LDS_READ) - code.in_loops(r"ds_read_b128")


def _lanes(code: PlainCode) -> float:
    """Lanes to elements of the tile."""
    tile = code.constants
    return float(code.num_warps * _LANES / (tile["BLOCK_M"] * tile["BLOCK_N"]))


def _divisions(code: PlainCode) -> float:
    return code.in_loops(_DIVISION)


def _float64(code: PlainCode) -> float:
    return code.count(_FLOAT64)


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "01_attention_forward": Check(
            "spilled VGPRs", _spills, 0, 171, 0, ((", waves_per_eu=4", ""),)
        ),
        "02_split_k_gemm": Check(
            "products made / needed", _products, 1, 8, 1, (("num_warps=8", "num_warps=4"),)
        ),
        "03_dequant_gemm": Check(
            "bytes of LDS", _lds, LDS_OF_A_CU, 73_728, 24_576, (("num_stages=4", "num_stages=2"),)
        ),
        "04_layer_norm": Check(
            "spilled VGPRs", _spills, 0, 640, 0, (("BLOCK_SIZE=65536", "BLOCK_SIZE=8192"),)
        ),
        "05_transposed_copy": Check(
            "accesses of at most 4 bytes a lane",
            _narrow,
            0,
            32,
            0,
            (('(do_not_specialize=["stride_xm", "stride_xn", "stride_yn", "stride_ym"])', ""),),
        ),
        "06_online_softmax": Check(
            "instructions for denormals in loops",
            _denormals,
            0,
            96,
            0,
            (
                ("tl.exp(highest - new)", "tl.exp2(1.44269504 * (highest - new))"),
                ("tl.exp(x - new)", "tl.exp2(1.44269504 * (x - new))"),
                ("tl.exp(highest - row_max)", "tl.exp2(1.44269504 * (highest - row_max))"),
                ("tl.exp(x - row_max)", "tl.exp2(1.44269504 * (x - row_max))"),
            ),
        ),
        "07_float8_gemm": Check(
            "LDS reads under 16 bytes in the loop", _half_reads, 0, 8, 0, (("kpack=1", "kpack=2"),)
        ),
        "08_column_reduction": Check(
            "lanes / elements of the tile", _lanes, 1, 4, 1, (("num_warps=16", "num_warps=4"),)
        ),
        "09_paged_gather": Check(
            "instructions of divisions in the loop",
            _divisions,
            0,
            20,
            0,
            ((" page_size, stride_page", " page_size: tl.constexpr, stride_page"),),
        ),
        "10_causal_conv1d": Check(
            "64-bit floating-point operations",
            _float64,
            0,
            16,
            0,
            (("tap * C + channels)\n", "tap * C + channels).to(tl.float32)\n"),),
        ),
    }
)
"""Script -> its check."""
