"""Copies whose strides and indices the kernel makes by `//` and `%`."""

import triton
import triton.language as tl


@triton.jit
def taken_apart(x, y, width, pitch, BLOCK: tl.constexpr):
    """Rows of `width` elements that lie `pitch` apart."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    row = at // width
    tl.store(y + at, tl.load(x + row * pitch + at % width))


@triton.jit
def parts_of_rows(x, y, width, parts, EIGHTS: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    pitch = width // parts
    if EIGHTS:
        pitch = pitch // 8 * 8
    rows, cols = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + rows[:, None] * pitch + cols[None, :])
    tl.store(y + rows[:, None] * N + cols[None, :], tile)


@triton.jit
def step_of_rest(x, y, width, parts, BLOCK: tl.constexpr):
    step = width % parts
    at = tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at * step))


def _case(name, kernel, sizes, first, second, **types):
    scalars = {first: types.get(first, "i32:16"), second: types.get(second, "i32:16")}
    return {
        "name": name,
        "kernel": kernel,
        "signature": {"x": "*fp16:16", "y": "*fp16:16", **scalars},
        "constexprs": sizes,
        "options": {"num_warps": 4},
        "archs": ["gfx942"],
    }


KINSPECT_CASES = [
    _case("any_width", "taken_apart", {"BLOCK": 2048}, "width", "pitch", width="i32"),
    _case("sixteens", "taken_apart", {"BLOCK": 2048}, "width", "pitch"),
    _case("parts", "parts_of_rows", {"EIGHTS": False, "M": 64, "N": 64}, "width", "parts"),
    _case("eighths", "parts_of_rows", {"EIGHTS": True, "M": 64, "N": 64}, "width", "parts"),
    _case("rest", "step_of_rest", {"BLOCK": 2048}, "width", "parts"),
]
