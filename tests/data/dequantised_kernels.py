"""A product of 4-bit weights whose scales and zeros are gathered per row, as GPTQ kernels do it."""

import triton
import triton.language as tl


@triton.jit
def dequantised(
    a, b, scale, zero, g, c, K, stride_am, stride_bk, stride_sk, stride_zk, stride_cm,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Scales and zeros are converted to the layout of the weights; these pass LDS once."""
    om = tl.program_id(0) * BM + tl.arange(0, BM)
    on = tl.program_id(1) * BN + tl.arange(0, BN)
    ok = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    ap = a + om[:, None] * stride_am + ok[None, :]
    bp = b + (ok // 8)[:, None] * stride_bk + on[None, :]
    gp = g + ok
    for _ in range(0, K, BK):
        group = tl.load(gp)
        s = tl.load(scale + group[:, None] * stride_sk + on[None, :])
        z = tl.load(zero + group[:, None] * stride_zk + (on // 8)[None, :])
        z = (z >> ((on % 8) * 4)[None, :]) & 15
        x = tl.load(ap)
        q = tl.load(bp)
        q = (q >> ((ok % 8) * 4)[:, None]) & 15
        acc = tl.dot(x, ((q - z) * s).to(tl.float16), acc)
        ap += BK
        bp += (BK // 8) * stride_bk
        gp += BK
    tl.store(c + om[:, None] * stride_cm + on[None, :], acc.to(tl.float16))


_ARGUMENTS = {"a": "*fp16:16", "b": "*i32:16", "scale": "*fp16:16", "zero": "*i32:16"}
_ARGUMENTS |= {"g": "*i32:16", "c": "*fp16:16"}
_STRIDES = ("K", "stride_am", "stride_bk", "stride_sk", "stride_zk", "stride_cm")

KINSPECT_CASES = [
    {
        "name": f"stages_{stages}",
        "kernel": "dequantised",
        "signature": {**_ARGUMENTS, **dict.fromkeys(_STRIDES, "i32:16")},
        "constexprs": {"BM": 64, "BN": columns, "BK": 32},
        "options": {"num_warps": warps, "num_stages": stages},
    }
    for columns, stages, warps in ((64, 4, 4), (128, 2, 8))
]
