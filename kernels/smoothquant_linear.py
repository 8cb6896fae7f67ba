"""Linear layers and batched products of SmoothQuant: int8 in, int32 sums, int8 or float32 out.

Shapes and layouts
    a [M, K] activations, b [N, K] weights, d [N] bias, e [M, N]; batched a [B, M, K],
    b [B, N, K], e [B, M, N]. Any sizes and strides; contiguous along K, as SmoothQuant keeps both,
    is what the matrix cores want. e is contiguous.
Dtypes
    The letters before the dtypes in a form's name say which operands have them:
    form                 a, b   d        e        ReLU   used for
    linear_abde_i8       int8   int8     int8     no     projections to Q, K, V
    linear_relu_abde_i8  int8   int8     int8     yes    the first layer of an MLP
    linear_ab_i8_de_f32  int8   float32  float32  no     output projection, second layer of an MLP
    bmm_abe_i8           int8   –        int8     –      probabilities times V, batched
    bmm_ab_i8_e_f32      int8   –        float32  –      Q times Kᵀ, batched
Formula
    e = relu(alpha·(a @ bᵀ) + beta·d), alpha and beta float32, the product an int32. An int8 e is
    rounded to the nearest, halves away from zero, and saturated to [−128, 127].

Work: 2·B·M·N·K integer operations.

Answers to: the int8 linear and BMM kernels of torch-int and its ROCm port (Linear_ABDE_I8,
Linear_ReLU_ABDE_I8, Linear_AB_I8_DE_F32, BMM_ABE_I8, BMM_AB_I8_E_F32).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def quantise(x):
    """Round to int8, halves away from zero, and saturate."""
    x = tl.minimum(tl.maximum(x, -128.0), 127.0)
    whole = x.to(tl.int32)  # towards zero
    # Not trunc(x ± 0.5): that sum would itself be rounded, and lift 0.49999997 to 1.
    rest = x - whole.to(tl.float32)
    return (whole + (rest >= 0.5).to(tl.int32) - (rest <= -0.5).to(tl.int32)).to(tl.int8)


@triton.jit
def smoothquant_kernel(
    a_ptr, b_ptr, d_ptr, e_ptr, M, N, K, alpha, beta,
    stride_ab, stride_am, stride_ak, stride_bb, stride_bn, stride_bk, stride_eb, stride_em,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    GROUP_M: tl.constexpr, EVEN_K: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    """One program computes one BLOCK_M × BLOCK_N tile of one matrix of e.

    d_ptr is None where there is no bias. EVEN_K says that K is a multiple of BLOCK_K, so that no
    load needs a mask. Grid: (⌈M/BLOCK_M⌉·⌈N/BLOCK_N⌉, B).
    """
    # Walk the tiles in groups of GROUP_M rows: programs that run at the same time then share rows
    # of a and b in the L2 cache.
    pid = tl.program_id(0)
    batch = tl.program_id(1).to(tl.int64)  # batch·stride may pass 2³¹
    tiles_m = tl.cdiv(M, BLOCK_M)
    tiles_n = tl.cdiv(N, BLOCK_N)
    first_m = pid // (GROUP_M * tiles_n) * GROUP_M
    group_rows = tl.minimum(tiles_m - first_m, GROUP_M)
    pid_m = first_m + pid % (GROUP_M * tiles_n) % group_rows
    pid_n = pid % (GROUP_M * tiles_n) // group_rows

    # Rows and columns beyond the edge wrap around: they read something valid that is never stored.
    offs_m = (pid_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offs_n = (pid_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + batch * stride_ab + offs_m[:, None] * stride_am + offs_k * stride_ak
    b_ptrs = b_ptr + batch * stride_bb + offs_k[:, None] * stride_bk + offs_n * stride_bn

    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for k in range(0, K, BLOCK_K):
        if EVEN_K:
            a = tl.load(a_ptrs)
            b = tl.load(b_ptrs)
        else:
            a = tl.load(a_ptrs, mask=offs_k[None, :] < K - k, other=0)
            b = tl.load(b_ptrs, mask=offs_k[:, None] < K - k, other=0)
        acc = tl.dot(a, b, acc, out_dtype=tl.int32)
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    e = acc.to(tl.float32) * alpha
    if d_ptr is not None:
        e += (tl.load(d_ptr + offs_n).to(tl.float32) * beta)[None, :]
    if RELU:
        e = tl.maximum(e, 0.0)
    if e_ptr.dtype.element_ty == tl.int8:
        e = quantise(e)

    rows = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = pid_n * BLOCK_N + tl.arange(0, BLOCK_N)
    e_ptrs = e_ptr + batch * stride_eb + rows[:, None] * stride_em + cols
    tl.store(e_ptrs, e, mask=(rows[:, None] < M) & (cols[None, :] < N))


class Form(NamedTuple):
    """What tells one of the five forms from the others; dtypes by their name in torch."""

    dims: int
    d: str | None
    e: str
    relu: bool = False


FORMS = {
    "linear_abde_i8": Form(dims=2, d="int8", e="int8"),
    "linear_relu_abde_i8": Form(dims=2, d="int8", e="int8", relu=True),
    "linear_ab_i8_de_f32": Form(dims=2, d="float32", e="float32"),
    "bmm_abe_i8": Form(dims=3, d=None, e="int8"),
    "bmm_ab_i8_e_f32": Form(dims=3, d=None, e="float32"),
}

_TILE = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128, "GROUP_M": 8}

# On AMD, four waves let two workgroups share a CU, so that one computes while the other waits.
CONFIGS = {
    "hip": {**_TILE, "num_warps": 4, "num_stages": 2, "matrix_instr_nonkdim": 16},
    "cuda": {**_TILE, "num_warps": 8, "num_stages": 3},
}


def default_config(backend: str, M: int, N: int, K: int) -> dict[str, Any]:
    """Block sizes and launch options for one shape on "hip" or "cuda"."""
    wide = backend == "cuda" and N >= 256  # Hopper's widest instruction: half the reads of a
    return {**CONFIGS[backend], **({"BLOCK_N": 256} if wide else {})}


def launch(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    form: str = "linear_abde_i8",
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Compute one of the five forms.

    Args:
        a: [M, K] or, batched, [B, M, K] int8, any strides.
        b: [N, K] or [B, N, K] int8, any strides.
        d: [N], int8 or float32 as the form says, contiguous; None for the batched forms.
        alpha: factor of the product.
        beta: factor of d.
        form: one of FORMS.
        config: block sizes and launch options that replace those of default_config.

    Returns:
        [M, N] or [B, M, N], int8 or float32 as the form says.

    Raises:
        ValueError: shapes, dtypes or the form do not go together.
    """
    import torch

    if form not in FORMS:
        raise ValueError(f"form must be one of {', '.join(FORMS)}, not {form!r}")
    dims, d_dtype, e_dtype, relu = FORMS[form]
    int8 = a.dtype == b.dtype == torch.int8
    if not int8 or not a.ndim == b.ndim == dims or a.shape[-1] != b.shape[-1]:
        raise ValueError(
            f"{form} takes int8 matrices of {dims} dimensions and one K, not a {tuple(a.shape)} "
            f"{a.dtype} and b {tuple(b.shape)} {b.dtype}"
        )
    if dims == 3 and a.shape[0] != b.shape[0]:
        raise ValueError(f"a has {a.shape[0]} matrices, b {b.shape[0]}")
    (m, k), n = a.shape[-2:], b.shape[-2]
    if max(m * k, n * k, m * n) >= 2**31:
        raise ValueError("a matrix of 2³¹ elements or more is beyond 32-bit offsets")
    if (d is None) != (d_dtype is None):
        raise ValueError(f"{form} takes {'no' if d_dtype is None else 'a'} bias d")
    if d is not None and (
        tuple(d.shape) != (n,) or d.dtype != getattr(torch, str(d_dtype)) or not d.is_contiguous()
    ):
        raise ValueError(
            f"d must be {d_dtype} of shape {(n,)} and contiguous, not {d.dtype} of shape "
            f"{tuple(d.shape)}"
        )

    backend = "hip" if torch.version.hip else "cuda"
    options = {**default_config(backend, m, n, k), **(config or {})}
    e = torch.empty((*a.shape[:-1], n), dtype=getattr(torch, e_dtype), device=a.device)
    batched = [x if dims == 3 else x[None] for x in (a, b, e)]
    strides = [stride for x in batched for stride in x.stride()]
    tiles = triton.cdiv(m, options["BLOCK_M"]) * triton.cdiv(n, options["BLOCK_N"])
    smoothquant_kernel[(tiles, batched[0].shape[0])](
        a, b, d, e, m, n, k, alpha, beta, *strides[:-1],
        EVEN_K=k % options["BLOCK_K"] == 0, RELU=relu, **options,
    )  # fmt: skip
    return e


def _finish(
    product: torch.Tensor, d: torch.Tensor | None, alpha: float, beta: float, form: str
) -> torch.Tensor:
    """Scale an exact product, add the bias, apply ReLU, round: in the product's own precision."""
    import torch

    e = product * alpha
    if d is not None:
        e = e + d.to(e.dtype) * beta
    if FORMS[form].relu:
        e = e.clamp(min=0)
    if FORMS[form].e == "float32":
        return e.float()
    return (torch.sign(e) * torch.floor(e.abs() + 0.5)).clamp(-128, 127).to(torch.int8)


def reference(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    form: str = "linear_abde_i8",
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """The same in plain PyTorch, in float64, which holds the sums exactly; ignores `config`."""
    return _finish(a.double() @ b.double().mT, d, alpha, beta, form)


def torch_operator(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    form: str = "linear_abde_i8",
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's int8 product, one matrix at a time, and its elementwise operators for the rest."""
    import torch

    if a.ndim == 2:
        product = torch._int_mm(a, b.T)
    else:
        product = torch.stack([torch._int_mm(x, y.T) for x, y in zip(a, b, strict=True)])
    return _finish(product.float(), d, alpha, beta, form)


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    Values are uniform over [−limit, limit], by default all of int8. `layout` "column" makes a and b
    contiguous along M and N. alpha, where not given, brings e's standard deviation to about 50; it
    is a power of two, so that float32 holds alpha·(a @ bᵀ) exactly and int8 results are the same
    however they were computed.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(6)
    form = FORMS[case["form"]]
    m, n, k = case["M"], case["N"], case["K"]
    batch = (case["B"],) if form.dims == 3 else ()

    limit = case.get("limit", 127)

    def integers(*shape: int) -> torch.Tensor:
        options = {"generator": generator, "device": device, "dtype": torch.int8}
        return torch.randint(-limit, limit + 1, shape, **options)

    def matrices(rows: int) -> torch.Tensor:
        if case.get("layout") == "column":
            return integers(*batch, k, rows).mT
        return integers(*batch, rows, k)

    deviation = limit**2 / 3 * k**0.5  # of a product of K uniform values
    inputs: dict[str, Any] = {
        "a": matrices(m),
        "b": matrices(n),
        "alpha": case.get("alpha", 2.0 ** round(math.log2(50 / deviation))),
        "beta": case.get("beta", 0.5),
        "form": case["form"],
        "config": case.get("config"),
    }
    if form.d == "int8":
        inputs["d"] = integers(n)
    elif form.d == "float32":
        inputs["d"] = torch.randn(n, generator=generator, device=device)
    return inputs


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """Integer operations, and the bytes of a, b, d and e, each moved once."""
    form = FORMS[case["form"]]
    m, n, k = case["M"], case["N"], case["K"]
    batch = case["B"] if form.dims == 3 else 1
    bytes_of = {None: 0, "int8": 1, "float32": 4}
    moved = batch * (m * k + n * k + m * n * bytes_of[form.e]) + n * bytes_of[form.d]
    return {"flop": 2 * batch * m * n * k, "bytes": moved}


def _shape(form: str, M: int, N: int, K: int, **more: Any) -> dict[str, Any]:
    return {"form": form, "M": M, "N": N, "K": K, **more}


_EXACT = {"atol": 0.0, "rtol": 0.0}
_FP32 = {"atol": 1e-5, "rtol": 1e-6}
_SMALL = {"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32}

CASES = [
    {"name": "abde_i8", **_shape("linear_abde_i8", 128, 128, 256), **_EXACT},
    {"name": "relu_abde_i8", **_shape("linear_relu_abde_i8", 64, 128, 256), **_EXACT},
    {"name": "ab_i8_de_f32", **_shape("linear_ab_i8_de_f32", 64, 300, 256), **_FP32},
    {"name": "bmm_abe_i8", **_shape("bmm_abe_i8", 64, 64, 128, B=3), **_EXACT},
    {"name": "bmm_ab_i8_e_f32", **_shape("bmm_ab_i8_e_f32", 64, 64, 128, B=3), **_FP32},
    {"name": "ragged", **_shape("linear_abde_i8", 77, 93, 71), **_EXACT},
    {"name": "ragged_f32", **_shape("linear_ab_i8_de_f32", 33, 130, 200), **_FP32},
    {"name": "ragged_bmm", **_shape("bmm_abe_i8", 17, 65, 40, B=2), **_EXACT},
    {"name": "one_value", **_shape("linear_ab_i8_de_f32", 1, 1, 1), **_FP32},
    {"name": "one_token", **_shape("linear_relu_abde_i8", 1, 200, 96), **_EXACT},
    {"name": "one_matrix", **_shape("bmm_ab_i8_e_f32", 20, 30, 40, B=1), **_FP32},
    {"name": "column_major", **_shape("linear_abde_i8", 64, 80, 128, layout="column"), **_EXACT},
    {"name": "column_bmm", **_shape("bmm_abe_i8", 40, 48, 64, B=2, layout="column"), **_EXACT},
    # Quarters around 0: every fourth result lies exactly between two integers.
    {
        "name": "halves",
        **_shape("linear_abde_i8", 64, 64, 32, limit=3, alpha=0.25, beta=0.5),
        **_EXACT,
    },
    {"name": "saturated", **_shape("linear_abde_i8", 48, 64, 64, alpha=0.25), **_EXACT},
    {
        "name": "negative_factors",
        **_shape("linear_relu_abde_i8", 64, 64, 64, alpha=-(2.0**-10), beta=-1.5),
        **_EXACT,
    },
    {
        "name": "grouped",  # five rows of tiles in groups of two: the last is short
        **_shape("linear_ab_i8_de_f32", 150, 96, 64, config={**_SMALL, "GROUP_M": 2}),
        **_FP32,
    },
]

# A layer of OPT-6.7B (hidden 4096, 32 heads of 128, MLP 16384) over 2048 tokens.
BENCH = [
    {"name": "qkv_2048x4096x4096", **_shape("linear_abde_i8", 2048, 4096, 4096)},
    {"name": "fc1_2048x16384x4096", **_shape("linear_relu_abde_i8", 2048, 16384, 4096)},
    {"name": "out_2048x4096x4096", **_shape("linear_ab_i8_de_f32", 2048, 4096, 4096)},
    {"name": "fc2_2048x4096x16384", **_shape("linear_ab_i8_de_f32", 2048, 4096, 16384)},
    {"name": "pv_32x2048x128x2048", **_shape("bmm_abe_i8", 2048, 128, 2048, B=32)},
    {"name": "qk_32x2048x2048x128", **_shape("bmm_ab_i8_e_f32", 2048, 2048, 128, B=32)},
]

TUNING = {
    "BLOCK_M": [32, 64, 128, 256],
    "BLOCK_N": [32, 64, 128, 256],
    "BLOCK_K": [32, 64, 128, 256],
    "GROUP_M": [1, 4, 8, 16],
    "num_warps": [2, 4, 8],
    "num_stages": [1, 2],
    "waves_per_eu": [0, 2, 3],
    "matrix_instr_nonkdim": [16, 32],
    "kpack": [1, 2],
}


def _compile_case(
    name: str, form: str, archs: tuple[str, ...], *, even_k: bool = True, **options: int
) -> dict[str, Any]:
    """One form with matrices contiguous along K, its sizes multiples of 16 unless K is ragged."""
    _, d, e, relu = FORMS[form]
    types = {"int8": "*i8:16", "float32": "*fp32:16"}
    options = {**CONFIGS["hip"], **options}
    tile = {block: options.pop(block) for block in _TILE}
    wide = "i32:16"
    strides = ("ab", "am", "ak", "bb", "bn", "bk", "eb", "em")
    return {
        "name": name,
        "kernel": "smoothquant_kernel",
        "signature": {
            **dict.fromkeys(("a_ptr", "b_ptr"), "*i8:16"),
            **({"d_ptr": types[d]} if d else {}),
            "e_ptr": types[e],
            **dict.fromkeys(("M", "N"), wide),
            "K": wide if even_k else "i32",
            **dict.fromkeys(("alpha", "beta"), "fp32"),
            **{f"stride_{x}": "i32:1" if x in ("ak", "bk") else wide for x in strides},
        },
        "constexprs": {
            **({} if d else {"d_ptr": None}),
            **tile,
            "EVEN_K": even_k,
            "RELU": relu,
        },
        "options": options,
        "archs": list(archs),
    }


_CDNA = ("gfx90a", "gfx94*", "gfx95*")
_RDNA = ("gfx11*", "gfx12*")
# Four waves of 32 lanes are half as many threads, so the tile is smaller as well.
_WAVE32: dict[str, Any] = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "matrix_instr_nonkdim": 0}

KINSPECT_CASES = [
    *(_compile_case(f"{form}_128x128x128", form, _CDNA) for form in FORMS),
    # K is any number, so that every load is masked.
    _compile_case("ragged_k_128x128x128", "linear_abde_i8", ("gfx94*",), even_k=False),
    _compile_case("linear_abde_i8_wave32_64x64x64", "linear_abde_i8", _RDNA, **_WAVE32),
    _compile_case("bmm_ab_i8_e_f32_wave32_64x64x64", "bmm_ab_i8_e_f32", _RDNA, **_WAVE32),
]
