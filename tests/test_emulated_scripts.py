"""What public scripts need of a launch: constants of the program, odd scalars, recovery."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.limits import LimitError
from kinspect.inspector.emulator.linking import resolved
from kinspect.inspector.guest.emulation.process import (
    EmulationError,
    EmulatorProcess,
    LaunchBuffer,
)
from kinspect.inspector.isa.asm.constants import read_constants
from kinspect.inspector.isa.dataflow.operands import decode

Tool = Callable[..., Any]


@pytest.fixture
def tool(emulating_tool: Tool) -> Tool:
    return emulating_tool


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
import json, sys, time
for line in sys.stdin:
    message = json.loads(line)
    if "end" in message:
        break
    if "load" in message:
        reply = {"loaded": 1}
    elif "idle" in message:
        reply = {}
    elif message["launch"].get("dies"):
        sys.exit(3)
    else:
        time.sleep(message["launch"].get("seconds", 0))
        with open(int(sys.argv[1]), "r+b", buffering=0, closefd=False) as memory:
            (buffer,) = message["buffers"]
            memory.seek(buffer["offset"])
            contents = memory.read(buffer["size"])
            memory.seek(buffer["offset"])
            memory.write(bytes(buffer["size"]))
        values = sorted(set(contents))
        reply = {"written": [], "memory": message["memory"], "values": values}
        reply["value"] = message["launch"].get("value")
    print(json.dumps({**reply, "request": message["request"]}), flush=True)
"""


@pytest.mark.parametrize("arch", ["gfx942", pytest.param("gfx1201", marks=pytest.mark.slow)])
def test_tables_and_scalars_that_are_not_finite(tool: Tool, tmp_path: Path, arch: str) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(SCRIPT)
    run = tool("emulate", "script.py", "--arch", arch)
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"^passed: .*, 7 launches, 7 workgroups executed in ", run.stdout, re.M)
    threads = 64 * (64 if arch == "gfx942" else 32)
    assert f"threads, Required: {threads}, Hardware limit: 1024" in run.stdout
    assert "['bessel', 64, 2.0, 64, 0.5]" in run.stdout


@pytest.mark.parametrize(
    "arch",
    [
        "gfx1100",
        pytest.param("gfx90a", marks=pytest.mark.slow),
        pytest.param("gfx942", marks=pytest.mark.slow),
    ],
)
def test_functions_are_called_and_assertions_fail(tool: Tool, tmp_path: Path, arch: str) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(CALLS)
    run = tool("emulate", "script.py", "--arch", arch)
    assert run.returncode == 1
    assert "right\n" in run.stdout, run.stdout + run.stderr
    assert "device assertion failed: 'too large', in " in run.stderr
    assert "the kernel stopped itself: s_trap 2 (line " in run.stderr
    assert re.search(r", 2 launches, \d+ workgroups executed in .*, no findings$", run.stdout, re.M)


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


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[EmulatorProcess]:
    """A process that answers as the emulator does, and executes nothing."""
    script = tmp_path / "emulator.py"
    script.write_text(EMULATOR)
    process = EmulatorProcess([sys.executable, str(script)])
    yield process
    process.close()


def seen(process: EmulatorProcess, value: int, seconds: float = 0) -> tuple[int, list[int]]:
    """What the emulator sees of a launch with a value: argument, and contents of the buffer."""
    size = 5000 * value
    array = (ctypes.c_char * size).from_buffer(bytearray([value]) * size)
    buffer = LaunchBuffer(ctypes.addressof(array), size, "x")
    reply = process.launch({"value": value, "seconds": seconds}, [buffer])
    return reply["value"], reply["values"]


def test_after_the_emulators_end_another_one_begins(emulator: EmulatorProcess) -> None:
    """With its own memory, and the kernels loaded again."""
    array = (ctypes.c_char * 100_000)()
    buffers = [LaunchBuffer(ctypes.addressof(array), 100_000, "x")]
    emulator.load("k", "", "gfx942")
    with pytest.raises(EmulationError, match="status 3"):
        emulator.launch({"dies": True}, buffers)
    emulator.load("k", "", "gfx942")
    assert emulator.launch({"dies": False}, buffers)["memory"] >= 100_000


def test_threads_share_the_emulator(emulator: EmulatorProcess) -> None:
    values = [1 + number % 9 for number in range(40)]
    with ThreadPoolExecutor(4) as threads:
        replies = list(threads.map(lambda value: seen(emulator, value, 0.002), values))
    assert replies == [(value, [value]) for value in values]


def test_forked_children_share_the_emulator(emulator: EmulatorProcess) -> None:
    def replies_are_right(first: int) -> bool:
        values = [1 + (first + 2 * number) % 9 for number in range(10)]
        return all(seen(emulator, value, 0.002) == (value, [value]) for value in values)

    emulator.share()
    children = []
    for number in range(5):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = 0 if replies_are_right(number) else 2
                emulator.close()  # must not end what the others use
            finally:
                os._exit(status)
        children.append(child)
    is_right = replies_are_right(0)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 5
    assert is_right


def test_a_launch_that_is_cut_off_spoils_no_other_one(emulator: EmulatorProcess) -> None:
    """As where a test takes longer than pytest-timeout lets it, or a forked child is killed."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError

    seen(emulator, 1)  # it has started
    previous = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(TimeoutError):
            seen(emulator, 2, 0.5)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert seen(emulator, 3) == (3, [3])

    emulator.share()
    child = os.fork()
    if child == 0:
        try:
            seen(emulator, 4, 0.5)
        finally:
            os._exit(1)
    time.sleep(0.1)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert seen(emulator, 5) == (5, [5])


def test_the_emulator_ends_while_a_child_goes_on(emulator: EmulatorProcess) -> None:
    """The child has the pipe, which stays open as long as it lives."""
    emulator.share()
    waits, goes_on = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(goes_on)
        os.read(waits, 1)
        os._exit(0)
    try:
        emulator.close()
    finally:
        os.close(goes_on)
        os.waitpid(child, 0)
