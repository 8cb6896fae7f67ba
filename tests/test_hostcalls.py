"""What kernels print: the host's side of hostcalls, against the C library and a compiled kernel."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.emulator import hostcall
from kinspect.inspector.emulator.device_printf import formatted
from kinspect.inspector.emulator.registry import NotCoveredError

Tool = Callable[..., Any]

SCRIPT = """
import torch
import triton
import triton.language as tl


@triton.jit
def tell(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK))
    tl.device_print("x", x)


x = torch.arange(128, device="cuda") / 4 - 2
print("before")
tell[(2,)](x, BLOCK=64, num_warps=1)
print("behind")
"""


def _words(form: str, arguments: tuple[Any, ...]) -> list[int]:
    """A message as `__ockl_printf_append_*` builds it."""
    parts = []
    for value in (form, *arguments):
        if isinstance(value, str):
            raw = value.encode() + b"\0"
            parts.append(raw.ljust((len(raw) + 7) // 8 * 8, b"\0"))
        else:
            parts.append(struct.pack("<d" if isinstance(value, float) else "<q", value))
    return list(struct.unpack(f"<{sum(map(len, parts)) // 8}Q", b"".join(parts)))


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        ("pid (%u, %i) idx (%2u) x: %f\n", (1, -2, 3, -0.25)),
        ("%lli|%llx|%#o|%hhd|%hu|%08.3f|%+d|%-6i|%5%|", (-5, 255, 8, 300, 70000, 2.5, 7, 9)),
        ("%8.3s|%s|%c|%*d|%.*f", ("abcdef", "twelve bytes", 65, 6, 42, 2, 1.0)),
        ("%e %G %a %08f %-7F| %+f", (12345.678, 1e-9, 0.15625, float("inf"), -float("nan"), 1.0)),
        ("%p %p", (0, 0x1234)),
    ],
)
def test_printf_writes_what_the_c_library_writes(form: str, arguments: tuple[Any, ...]) -> None:
    form = form.replace("%5%", "%%")
    passed = [
        ctypes.c_double(value) if isinstance(value, float)
        else value.encode() if isinstance(value, str) else ctypes.c_longlong(value)
        for value in arguments
    ]  # fmt: skip
    text = ctypes.create_string_buffer(256)
    ctypes.CDLL(None).snprintf(text, ctypes.c_size_t(256), form.encode(), *passed)
    assert formatted(_words(form, arguments)) == text.value.decode()


def test_what_no_compiler_writes_ends() -> None:
    """The packets are the kernel's own memory."""
    calls = hostcall.HostCalls()
    words = calls._words
    ready, header = hostcall._READY_STACK // 8, hostcall._HEADERS // 8
    words[ready], words[header] = 1 << 20, 1 << 20  # the first packet, which follows itself
    with pytest.raises(NotCoveredError, match="does not end"):
        calls.serve()
    slot = hostcall._PAYLOADS // 8
    words[header : header + 3] = 0, 1, 2
    for descriptor, said in ((7 << 8, "not begun"), (hostcall._BEGIN | hostcall._END, "an empty")):
        words[ready], words[slot] = 1 << 20, descriptor
        with pytest.raises(NotCoveredError, match=said):
            calls.serve()


@pytest.mark.parametrize("arch", ["gfx942", pytest.param("gfx1100", marks=pytest.mark.slow)])
def test_a_kernel_prints(emulating_tool: Tool, tmp_path: Path, arch: str) -> None:
    """Every element once, between what the script prints, and nothing is found."""
    pytest.importorskip("triton")
    script = tmp_path / "tell.py"
    script.write_text(SCRIPT)
    run = emulating_tool("emulate", str(script), "--arch", arch)
    assert run.returncode == 0, run.stdout + run.stderr
    before, *lines = run.stdout.partition("behind")[0].splitlines()
    assert before == "before"
    expected = [
        f"pid ({number // 64}, 0, 0) idx ({number % 64:2}) x: {number / 4 - 2:f}"
        for number in range(128)
    ]
    assert sorted(lines) == sorted(expected)
    # Each wave's lanes come in their order.
    first = [line for line in lines if line.startswith("pid (0,")]
    assert first[:32] in (expected[:32], expected[32:64])
