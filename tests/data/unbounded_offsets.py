"""Sums of rows of tensors of any size, by offsets that are bounded or not."""

import triton
import triton.language as tl


@triton.jit
def rows(x, y, index, n, stride, BOUNDED: tl.constexpr, KIND: tl.constexpr, BLOCK: tl.constexpr):
    if BOUNDED != "no":
        tl.assume(stride >= 0)
        tl.assume(n >= 0)
    if BOUNDED == "twice":
        tl.assume(stride < 65536)
        tl.assume(n < 4096)
    at = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32)
    for row in range(n):
        if KIND == "counted":
            start = row * stride
        elif KIND == "wide":
            start = row.to(tl.int64) * stride
        else:
            place = tl.load(index + row)
            if BOUNDED == "twice":
                tl.assume(place >= 0)
                tl.assume(place < 4096)
            start = place * stride
        acc += tl.load(x + (start + at))
    tl.store(y + at, acc)


def _case(kind, bounded):
    return {
        "name": f"{kind}_{bounded}",
        "kernel": "rows",
        "signature": {
            "x": "*fp32:16",
            "y": "*fp32:16",
            "index": "*i32:16",
            "n": "i32",
            "stride": "i32:16",
        },
        "constexprs": {"BOUNDED": bounded, "KIND": kind, "BLOCK": 1024},
        "options": {"num_warps": 4},
        "archs": ["gfx942"],
        "small_tensors": False,
    }


KINSPECT_CASES = [
    _case("counted", "no"),
    _case("counted", "once"),
    _case("counted", "twice"),
    _case("wide", "no"),
    _case("loaded", "no"),
    _case("loaded", "twice"),
]
