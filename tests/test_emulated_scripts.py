"""What public scripts need of a launch: constants of the program, odd scalars, recovery."""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.emulator.operands import decode
from kinspect.inspector.emulator.relocations import resolved
from kinspect.inspector.guest.emulation.process import (
    EmulationError,
    EmulatorProcess,
    SharedBuffer,
)
from kinspect.inspector.isa.asm.constants import read_constants
from kinspect.inspector.limits import LimitError

Tool = Callable[..., Any]

SCRIPT = """
import math

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


seen = []
hooks = triton.knobs.runtime
hooks.kernel_load_end_hook.add(lambda module, function, name, *rest: seen.append(name))
hooks.launch_enter_hook.add(lambda metadata: seen.append(metadata.get().get("elements")))
hooks.launch_exit_hook.add(lambda metadata: seen.append(float(y[0])))


@triton.jit(launch_metadata=lambda grid, kernel, args: {"elements": grid[0] * args.get("BLOCK", 0)})
def bessel(x_ptr, scale, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, libdevice.j0(tl.load(x_ptr + offsets)) * scale)


x = torch.linspace(0, 30, 64, device="cuda")
for scale in (2.0, 0.5, math.inf, -math.inf, math.nan):
    y = x.clone()
    compiled = bessel[(1,)](y, scale, BLOCK=64)
    torch.testing.assert_close(y, torch.special.bessel_j0(x) * float(scale), equal_nan=True)
try:
    bessel[(1,)](x, 1.0, BLOCK=64, num_warps=64)
except triton.runtime.errors.OutOfResources as error:
    print(error)
print(seen[:5])
again, y = y, x.clone()
compiled[(1,)](y, scale)
torch.testing.assert_close(y, again, rtol=0, atol=0, equal_nan=True)


@triton.jit
def halve(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, tl.load(x_ptr + offsets) // 2)


counts = torch.arange(-64, 0, device="cuda")
halve[(1,)](triton.reinterpret(counts, tl.uint64), BLOCK=64)
assert counts.tolist() == [(2**64 - 64 + n) // 2 for n in range(64)], counts
rows = torch.tensor([[x[0], x[1]], (x[3], 5)], device="cuda")
assert rows.is_cuda and rows.dtype == torch.float32, rows
assert rows.tolist() == [x[:2].tolist(), [x[3].item(), 5.0]], rows
"""

CALLS = """
import sys

import torch
import triton
import triton.language as tl


@triton.jit(noinline=True)
def smooth(x, rounds):
    for _ in range(rounds):
        x = x * x + 0.25
    return x


@triton.jit
def twice(x_ptr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    mean = smooth(smooth(tl.sum(x, 0) / BLOCK, pid), 1)
    tl.device_assert(mean < 1000.0, "too large")
    tl.store(x_ptr + offsets, x + mean)


x = torch.rand(256, device="cuda")
expected = x.clone().view(4, 64)
for row in range(4):
    mean = expected[row].mean()
    for _ in range(row + 1):
        mean = mean**2 + 0.25
    expected[row] += mean
twice[(4,)](x, BLOCK=64, num_warps=2, debug=True)
torch.testing.assert_close(x.view(4, 64), expected)
print("right", flush=True)
x.fill_(100)
twice[(4,)](x, BLOCK=64, num_warps=2, debug=True)
"""

DATA = """
        .text
        .long 7
        .section .rodata,"a",@progbits
        .p2align 2, 0x0
table:
        .long 0x3f800000                      ; float 1
        .short 258
        .byte 9
text:
        .asciz "a\\n\\"b\\\\;\\101"
jumps:
        .long .LBB0_1-jumps
        .amdhsa_kernel k
          .amdhsa_next_free_vgpr 8
        .end_amdhsa_kernel
last:
        .zero 2, 1
        .quad -2
        .section .debug_str,"MS",@progbits,1
        .long 5
"""

EMULATOR = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "load" in message:
        print(json.dumps({"loaded": 1}), flush=True)
    elif message["launch"]["dies"]:
        sys.exit(3)
    else:
        print(json.dumps({"written": [], "memory": message["memory"]}), flush=True)
"""


@pytest.mark.xdist_group(name="emulate")
@pytest.mark.parametrize("arch", ["gfx942", "gfx1201"])
def test_tables_and_scalars_that_are_not_finite(tool: Tool, tmp_path: Path, arch: str) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(SCRIPT)
    run = tool("emulate", "script.py", "--arch", arch)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "7 launches executed, no findings" in run.stdout + run.stderr
    threads = 64 * (64 if arch == "gfx942" else 32)
    assert f"threads, Required: {threads}, Hardware limit: 1024" in run.stdout
    assert "['bessel', 64, 2.0, 64, 0.5]" in run.stdout


@pytest.mark.xdist_group(name="emulate")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
def test_functions_are_called_and_assertions_fail(tool: Tool, tmp_path: Path, arch: str) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(CALLS)
    run = tool("emulate", "script.py", "--arch", arch)
    assert run.returncode == 1
    assert "right\n" in run.stdout, run.stdout + run.stderr
    assert "device assertion failed: 'too large', in " in run.stderr
    assert "the kernel stopped itself: s_trap 2 (line " in run.stderr
    assert "2 launches executed, no findings" in run.stdout + run.stderr


def test_data_is_read_as_the_assembler_lays_it_out() -> None:
    constants = read_constants(DATA, "data.s")
    data, symbols = constants.data, constants.symbols
    assert symbols == {"table": 0, "text": 7, "last": 15}
    assert data[:7] == struct.pack("<IHB", 0x3F800000, 258, 9)
    assert data[7:15] == b'a\n"b\\;A\0'
    assert data[15:] == b"\1\1" + struct.pack("<q", -2)


@pytest.mark.parametrize(
    "directive", [".zero 99999999999", ".fill 4000000000, 8, 0", ".p2align 60", ".p2align 99999999"]
)
def test_no_directive_gets_all_the_memory(directive: str) -> None:
    with pytest.raises(LimitError, match=r"bomb\.s: its constants take more than 64 MiB"):
        read_constants(f".rodata\nbomb:\n\t.byte 1\n\t{directive}\n", "bomb.s")
    harmless = read_constants(".rodata\nlast:\n\t.byte 1\n\t.fill 0, 99999999999, 0\n", "a.s")
    assert (harmless.data, harmless.symbols) == (b"\1", {})


@pytest.mark.parametrize(
    "lines",
    [
        ["s_getpc_b64 s[0:1]", "s_add_u32 s0, s0, t@rel32@lo+12",
         "s_addc_u32 s1, s1, t@rel32@hi+20"],
        ["s_getpc_b64 s[0:1]", "s_wait_alu depctr_sa_sdst(0)", "s_sext_i32_i16 s1, s1",
         "s_add_co_u32 s0, s0, t@rel32@lo+20", "s_wait_alu depctr_sa_sdst(0)",
         "s_add_co_ci_u32 s1, s1, t@rel32@hi+32"],
        ["s_get_pc_i64 s[0:1]", "s_add_nc_u64 s[0:1], s[0:1], t@rel64+12"],
    ],
)  # fmt: skip
def test_addresses_of_constants_lie_behind_the_program_counter(lines: list[str]) -> None:
    """8 bytes past the table's beginning, as LLVM writes it for each generation."""
    decoded = [decode(*line.split(" ", 1), (), 0) for line in ["s_nop 0", *lines]]
    table = 0x7E03_0000_0000
    added = 2  # the program counter that the emulator gives: the index behind s_getpc
    for parts, before in zip(resolved(decoded, {"t": table}), decoded, strict=True):
        for operand, was in zip(parts.operands, before.operands, strict=True):
            if operand.integer is not None and "@rel" in was.text:
                added += operand.integer << (32 if "@hi" in was.text else 0)
    assert added & (1 << 64) - 1 == table + 8


def test_after_the_emulators_end_another_one_begins(tmp_path: Path) -> None:
    """With its own memory, and the kernels loaded again."""
    script = tmp_path / "emulator.py"
    script.write_text(EMULATOR)
    process = EmulatorProcess([sys.executable, str(script)])
    array = (ctypes.c_char * 100_000)()
    buffers = [SharedBuffer(ctypes.addressof(array), 100_000, "x")]
    process.load("k", "", "gfx942")
    with pytest.raises(EmulationError, match="status 3"):
        process.launch({"dies": True}, buffers)
    process.load("k", "", "gfx942")
    assert process.launch({"dies": False}, buffers)["memory"] >= 100_000
    process.close()
