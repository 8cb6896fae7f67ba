"""Memory bandwidth: read a vector, or copy it, with a given number of workgroups.

Shapes and layouts
    x [n], contiguous, n up to 2³⁰. Blocks of BLOCK values are dealt out to the workgroups in turn:
    block j goes to workgroup j mod `workgroups`.
Dtypes
    float32. The read form takes the bits for integers, so that NaN is data like any other.
Formula
    mode "copy"  out = x, bit for bit
    mode "read"  out[w] int64 = Σ over the BLOCK places of (the int32 sum, modulo 2³², of the bits
                 that workgroup w has read at this place of its blocks): one instruction per value
                 keeps the compiler from dropping the loads, and no order changes the result.

Moves 4·n bytes reading, 8·n copying. The figure as a function of the number of workgroups says how
many it takes to fill the memory's pipes: far more bytes must be under way than one CU can ask for.

Answers to: hbm-bw-test.py of ROCm/triton's perf-kernels.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    import torch


@triton.jit
def copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Copy x [n] to out. Grid: (workgroups,)."""
    pid = tl.program_id(0)
    workgroups = tl.num_programs(0)
    full_blocks = n // BLOCK
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    for _ in range(pid, full_blocks, workgroups):
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))
        offsets += workgroups * BLOCK
    # The ragged end alone is masked: a mask in the loop would cost a comparison for each value.
    if pid == full_blocks % workgroups:
        offsets = full_blocks * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


@triton.jit
def read_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Sum up the bits of each workgroup's share of x [n]. Grid: (workgroups,)."""
    pid = tl.program_id(0)
    workgroups = tl.num_programs(0)
    full_blocks = n // BLOCK
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    bits = tl.zeros((BLOCK,), dtype=tl.int32)
    for _ in range(pid, full_blocks, workgroups):
        bits += tl.load(x_ptr + offsets).to(tl.int32, bitcast=True)
        offsets += workgroups * BLOCK
    if pid == full_blocks % workgroups:
        offsets = full_blocks * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
        bits += x.to(tl.int32, bitcast=True)
    tl.store(out_ptr + pid, tl.sum(bits.to(tl.int64), 0))


KERNELS = {"copy": copy_kernel, "read": read_kernel}
CONFIGS = {
    "hip": {"BLOCK": 16384, "num_warps": 8},
    "cuda": {"BLOCK": 16384, "num_warps": 8},
}


def compute_units(device: torch.device | str) -> int:
    """Number of CUs (SMs) of a GPU, or of cores where there is none."""
    import torch

    if torch.device(device).type != "cuda":
        return os.cpu_count() or 1
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _options(config: dict[str, Any] | None) -> dict[str, Any]:
    import torch

    return {**CONFIGS["hip" if torch.version.hip else "cuda"], **(config or {})}


def launch(
    x: torch.Tensor,
    mode: str = "copy",
    workgroups: int | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Copy or read a vector.

    Args:
        x: [n] float32, contiguous.
        mode: "copy" or "read".
        workgroups: how many share the vector; by default four for each compute unit.
        config: BLOCK and launch options that replace those of CONFIGS.

    Returns:
        The copy, like x; or the sums over each workgroup's bits, [workgroups] int64.

    Raises:
        ValueError: x is no such vector, or there is no such mode or number of workgroups.
    """
    import torch

    if mode not in KERNELS:
        raise ValueError(f"mode must be one of {', '.join(KERNELS)}, not {mode!r}")
    if x.ndim != 1 or x.dtype != torch.float32 or not x.is_contiguous():
        raise ValueError(
            f"x must be a contiguous float32 vector, not {x.dtype} of shape {tuple(x.shape)}"
        )
    if x.numel() > 2**30:
        raise ValueError(f"{x.numel()} values are more than the 2³⁰ that 32-bit offsets allow for")
    workgroups = 4 * compute_units(x.device) if workgroups is None else workgroups
    if workgroups < 1:
        raise ValueError(f"workgroups must be at least 1, not {workgroups}")
    if mode == "copy":
        out = torch.empty_like(x)
    else:
        out = torch.empty(workgroups, dtype=torch.int64, device=x.device)
    KERNELS[mode][(workgroups,)](x, out, x.numel(), **_options(config))
    return out


def reference(
    x: torch.Tensor,
    mode: str = "copy",
    workgroups: int | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """Clone x, or sum up each workgroup's share; of `config`, BLOCK alone matters."""
    import torch

    if mode == "copy":
        return x.clone()
    workgroups = 4 * compute_units(x.device) if workgroups is None else workgroups
    block = _options(config)["BLOCK"]
    rounds = triton.cdiv(x.numel(), workgroups * block)
    bits = torch.zeros(rounds * workgroups * block, dtype=torch.int32, device=x.device)
    bits[: x.numel()] = x.view(torch.int32)
    bits = bits.view(rounds, workgroups, block).sum(0, dtype=torch.int32)
    return bits.sum(1, dtype=torch.int64)


def torch_operator(
    x: torch.Tensor,
    mode: str = "copy",
    workgroups: int | None = None,
    config: dict[str, Any] | None = None,
) -> torch.Tensor:
    """PyTorch's clone; its sum for the read form, which reads as much to another end.

    Both take as many workgroups as PyTorch thinks right.
    """
    return x.clone() if mode == "copy" else x.sum()


def make_inputs(case: dict[str, Any], device: str = "cpu") -> dict[str, Any]:
    """Tensors of a CASES or BENCH entry, as the keyword arguments of launch and reference.

    The number of workgroups is `workgroups`, or `per_cu` for each compute unit of the device.
    """
    import torch

    generator = torch.Generator(device=device).manual_seed(5)
    x = torch.randn(case["n"], generator=generator, device=device)
    if case.get("specials"):
        x[:4] = torch.tensor([float("inf"), float("-inf"), -0.0, 1e-40], device=device)
    workgroups = case.get("workgroups")
    if "per_cu" in case:
        workgroups = case["per_cu"] * compute_units(device)
    return {
        "x": x,
        "mode": case["mode"],
        "workgroups": workgroups,
        "config": case.get("config"),
    }


def work(case: dict[str, Any]) -> dict[str, int | None]:
    """No arithmetic to speak of; x read once, and written once by the copy."""
    return {"flop": None, "bytes": (8 if case["mode"] == "copy" else 4) * case["n"]}


_EXACT = {"atol": 0.0, "rtol": 0.0}
_SMALL = {"BLOCK": 256}

_FORMS: dict[str, dict[str, Any]] = {
    "default": {"n": 2**16},
    "one_value": {"n": 1, "workgroups": 1},
    "one_workgroup": {"n": 3 * 16384, "workgroups": 1},
    "full_blocks": {"n": 256 * 12, "workgroups": 4, "config": _SMALL},
    "ragged": {"n": 256 * 13 + 77, "workgroups": 4, "config": _SMALL},
    "uneven_shares": {"n": 256 * 7, "workgroups": 3, "config": _SMALL},
    "idle_workgroups": {"n": 300, "workgroups": 8, "config": _SMALL},
    "specials": {"n": 1000, "workgroups": 2, "config": _SMALL, "specials": True},
}

CASES = [
    {"name": f"{mode}_{name}", "mode": mode, **case, **_EXACT}
    for mode in KERNELS
    for name, case in _FORMS.items()
]

# 1 GiB: four times the 256 MiB of an MI300X's last cache, so that it all comes from memory.
BENCH = [
    {"name": f"{mode}_{name}", "mode": mode, "n": 2**28, **share}
    for mode in KERNELS
    for name, share in (
        *((f"{2**i}_workgroups", {"workgroups": 2**i}) for i in range(12)),
        *((f"{i}_per_cu", {"per_cu": i}) for i in range(1, 5)),
    )
]

TUNING = {"BLOCK": [1024, 2048, 4096, 8192, 16384], "num_warps": [4, 8, 16], "waves_per_eu": [0, 2]}


def _compile_case(name: str, mode: str, n: str, block: int, num_warps: int) -> dict[str, Any]:
    return {
        "name": name,
        "kernel": f"{mode}_kernel",
        "signature": {
            "x_ptr": "*fp32:16",
            "out_ptr": "*fp32:16" if mode == "copy" else "*i64:16",
            "n": n,
        },
        "constexprs": {"BLOCK": block},
        "options": {"num_warps": num_warps},
    }


KINSPECT_CASES = [
    _compile_case("copy_16384", "copy", "i32:16", 16384, 8),
    _compile_case("read_16384", "read", "i32:16", 16384, 8),
    _compile_case("copy_ragged_16384", "copy", "i32", 16384, 8),
    _compile_case("copy_4096", "copy", "i32:16", 4096, 4),
]
