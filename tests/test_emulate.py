"""`kinspect emulate`: scripts run on an emulated GPU; their values, output and status are real."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinspect
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

Tool = Callable[..., Any]


@pytest.fixture
def tool(emulating_tool: Tool) -> Tool:
    return emulating_tool


SCRIPT = """
import sys

import torch
import triton
import triton.language as tl


@triton.jit
def scan_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0)
    tl.store(out_ptr + offsets, tl.cumsum(x, 0), mask=offsets < n)


@triton.jit
def gemm_kernel(a_ptr, b_ptr, c_ptr, K, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    rows, cols, ks = tl.arange(0, BLOCK), tl.arange(0, BLOCK), tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK_K):
        a = tl.load(a_ptr + rows[:, None] * K + k + ks[None, :])
        b = tl.load(b_ptr + (k + ks)[:, None] * BLOCK + cols[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + rows[:, None] * BLOCK + cols[None, :], acc)


x = torch.arange(1000, device="cuda", dtype=torch.int32)
out = torch.empty_like(x)
scan_kernel[(1,)](x, out, x.numel(), BLOCK=1024)
# What a kernel wrote decides: only a real value takes this branch.
assert out[-1].item() == 499500
assert torch.equal(out, torch.cumsum(x, 0).to(torch.int32))

torch.manual_seed(0)
a = torch.randn(64, 256, device="cuda", dtype=torch.float16)
b = torch.randn(256, 64, device="cuda", dtype=torch.float16)
c = torch.empty(64, 64, device="cuda")
gemm_kernel[(1,)](a, b, c, 256, BLOCK=64, BLOCK_K=32, num_warps=4)
torch.testing.assert_close(c, a.float() @ b.float(), atol=1e-3, rtol=1e-3)
print("last", int(out[-1]), torch.cuda.get_device_name())
if len(sys.argv) > 1:
    out.fill_(0)
    scan_kernel[(1,)](x[:10], out[995:], 10, BLOCK=16)
sys.exit(3)
"""

CODE = """
.amdgcn_target "amdgcn-amd-amdhsa--gfx942"
.text
.globl add_five
.type add_five,@function
add_five:
  s_load_dwordx4 s[4:7], s[0:1], 0x0
  s_load_dword s8, s[0:1], 0x10
  s_lshl_b32 s9, s2, 6
  v_add_u32_e32 v0, s9, v0
  v_lshlrev_b32_e32 v1, 2, v0
  s_waitcnt lgkmcnt(0)
  v_cmp_gt_i32_e32 vcc, s8, v0
  s_and_saveexec_b64 s[10:11], vcc
  s_cbranch_execz .LBB0_2
  global_load_dword v2, v1, s[4:5]
  s_waitcnt vmcnt(0)
  v_add_u32_e32 v3, 5, v2
  global_store_dword v1, v3, s[6:7]
.LBB0_2:
  s_endpgm
.Lend:
  .size add_five, .Lend-add_five
.rodata
.amdhsa_kernel add_five
  .amdhsa_next_free_vgpr 8
  .amdhsa_next_free_sgpr 32
  .amdhsa_accum_offset 8
  .amdhsa_user_sgpr_count 2
  .amdhsa_user_sgpr_kernarg_segment_ptr 1
.end_amdhsa_kernel
"""
# A launch of more than that is refused by the runtime.
SMALL_WORKGROUPS = """
.amdgpu_metadata
---
amdhsa.kernels:
  - .name: add_five
    .symbol: add_five.kd
    .max_flat_workgroup_size: 64
amdhsa.version: [1, 2]
...
.end_amdgpu_metadata
"""


TESTS = """
import pytest
import torch
import triton
import triton.language as tl


@triton.jit
def negate(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, -tl.load(x_ptr + offsets, offsets < n), offsets < n)


@pytest.mark.parametrize("n", [1, 100])
def test_right(n):
    x = torch.ones(n, device="cuda")
    negate[(1,)](x, n, BLOCK=128)
    assert (x == -1).all()


def test_wrong():
    x = torch.ones(4, device="cuda")
    negate[(1,)](x, 3, BLOCK=128)
    assert (x == -1).all()
"""


@pytest.mark.parametrize("arch", ["gfx942", pytest.param("gfx1201", marks=pytest.mark.slow)])
def test_a_script_meets_real_values(tool: Tool, tmp_path: Path, arch: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = tool("emulate", "script.py", "--arch", arch, "--format", "json", "-o", "profile.json")
    assert done.returncode == 3, done.stderr
    assert done.stdout.startswith("last 499500 AMD")
    profile = json.loads((tmp_path / "profile.json").read_text())
    assert profile["origin"] == "emulated"
    assert profile["complete"] is True
    assert profile["launches"] == 2
    kernels = {kernel["name"]: kernel for kernel in profile["kernels"]}
    gemm = kernels["gemm_kernel"]
    assert (gemm["workgroups"], gemm["waves"]) == (1, 4)
    assert gemm["findings"] == []
    # 64 * 64 * 256 multiply-accumulates, by instructions of 32x32x8 (gfx942) or 16x16x16.
    matrix, each = ("mfma", 32 * 32 * 8) if arch == "gfx942" else ("wmma", 16 * 16 * 16)
    assert gemm["executed"][matrix] == 64 * 64 * 256 // each
    assert gemm["executed"]["instructions"] == sum(
        count for name, count in gemm["executed"].items() if name != "instructions"
    )
    by_line = {line["line"]: line["classes"] for line in gemm["lines"]}
    dot = 1 + SCRIPT.splitlines().index("        acc = tl.dot(a, b, acc)")
    assert by_line[dot][matrix] == gemm["executed"][matrix]


def test_what_must_not_happen_is_told(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    done = tool("emulate", "script.py", "--", "past the end")
    assert done.returncode == 3
    assert re.search(
        r"^the script FAILED, status 3: sys\.exit\(3\) at script\.py:\d+; ", done.stdout, re.M
    )
    # out[995:] has 5 elements of 4 bytes to the end, and 10 are stored.
    assert "outside: writes 4 bytes" in done.stdout
    assert "0 bytes past the end of out_ptr" in done.stdout


def test_tests_run_in_pytest(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "test_negate.py").write_text(TESTS)
    done = tool("emulate", "test_negate.py", "--", "-q")
    assert done.returncode == 1
    assert "1 failed, 2 passed" in done.stdout
    verdict = "1 test FAILED, status 1: test_negate.py::test_wrong: "
    (line,) = (line for line in done.stdout.splitlines() if line.startswith(verdict))
    place = 1 + TESTS.splitlines().index("def test_wrong():") + 3
    assert f" at test_negate.py:{place}; 2 kernels, 3 launches, 3 workgroups executed in " in line
    assert line.endswith(" s, no findings")


@pytest.mark.slow
def test_any_file_is_one_of_tests_where_a_test_is_named(tool: Tool, tmp_path: Path) -> None:
    """As pytest has it."""
    (tmp_path / "06-negate.py").write_text(TESTS + "if __name__ == '__main__': raise SystemExit(7)")
    done = tool("emulate", "06-negate.py::test_right", "--", "-q", "-k", "100")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed, 1 deselected" in done.stdout


def test_a_sample_is_no_result(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(
        SCRIPT.split("# What a kernel")[0].replace("(1,)", "(100,)")
    )
    done = tool("emulate", "script.py", "--sample", "3")
    assert done.returncode == 0, done.stderr
    assert "results are not real; 1 kernel, 1 launch, 3 workgroups of 100 executed" in done.stdout


@pytest.mark.slow
def test_agents_are_told_that_a_sample_is_no_result(tool: Tool, tmp_path: Path) -> None:
    script = SCRIPT.split("# What a kernel")[0].replace("(1,)", "(100,)")
    (tmp_path / "script.py").write_text(script)
    done = tool("emulate", "script.py", "--sample", "1", "--format", "agent")
    verdict = "no findings in the workgroups that were executed: results are not real\n"
    assert verdict in done.stdout


SPIN = """
import torch
import triton
import triton.language as tl


@triton.jit
def wait_for_flag(flag_ptr, out_ptr):
    while tl.atomic_cas(flag_ptr, 1, 1) != 1:
        pass
    tl.store(out_ptr, 1)


flag, out = torch.zeros(2, device="cuda", dtype=torch.int32), torch.zeros(1, device="cuda")
wait_for_flag[(2,)](flag, out)
"""


def test_a_hang_is_a_finding_with_its_place(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "spin.py").write_text(SPIN)
    done = tool("emulate", "spin.py", "--time-limit", "0.5", "--format", "json", "-o", "p.json")
    assert done.returncode == 1
    assert "it took longer than 0.5 s: waves" in done.stderr
    assert "spin on flag_ptr + 0 bytes, at global_atomic_cmpswap" in done.stderr
    profile = json.loads((tmp_path / "p.json").read_text())
    (kernel,) = profile["kernels"]
    assert (kernel["launches"], kernel["given_up"], kernel["workgroups"]) == (1, 1, 0)
    finding = next(f for f in kernel["findings"] if "spin on flag_ptr + 0 bytes" in f["detail"])
    assert finding["kind"] == "hang"
    assert finding["source_line"] == 1 + SPIN.splitlines().index(
        "    while tl.atomic_cas(flag_ptr, 1, 1) != 1:"
    )


@pytest.mark.parametrize(
    "killed", ["os.getpid()", pytest.param("os.getppid()", marks=pytest.mark.slow)]
)
def test_what_was_executed_before_a_kill_is_kept(killed: str, tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "s.py").write_text(
        "import os, time, torch, triton\nimport triton.language as tl\n"
        "@triton.jit\ndef one(x):\n    tl.store(x, 1.0)\n"
        "one[(2,)](torch.zeros(4, device='cuda'))\n"
        f"os.kill({killed}, 9)\ntime.sleep(60)\n"
    )
    done = tool("emulate", "s.py")
    assert done.returncode == 137
    assert "status 137 (SIGKILL); 1 kernel, 1 launch, " in done.stdout + done.stderr


def test_a_script_that_does_not_end_is_ended(tmp_path: Path) -> None:
    """At the second signal, or some seconds after the first one: also one that is stopped."""
    (tmp_path / "s.py").write_text(
        "import os, signal, torch, triton\nimport triton.language as tl\n"
        "@triton.jit\ndef one(x):\n    tl.store(x, 1.0)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "one[(2,)](torch.zeros(4, device='cuda'))\n"
        "print('launched', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)\n"
    )
    command = [Path(sys.executable).with_name("kinspect"), "emulate", "s.py"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "launched\n"
    process.terminate()
    time.sleep(0.2)
    process.terminate()
    printed, _ = process.communicate(timeout=20)
    assert process.returncode == 143
    assert "status 143 (SIGTERM); 1 kernel, 1 launch, " in printed


def test_code_is_launched(tool_in_process: Tool, tmp_path: Path) -> None:
    """Assembly whose every value is known: v3 = argument's element + 5, for 100 of 128 lanes."""
    tool = tool_in_process
    (tmp_path / "add.s").write_text(CODE)
    arguments = "i32[128]=arange, i32[128]=zeros, i32 100"
    done = tool("emulate", "add.s", "--grid", "2", "--workgroup", "64", "--args", arguments)
    assert done.returncode == 0, done.stderr
    verdict, buffer, *_ = done.stdout.splitlines()
    assert verdict.startswith("passed: no findings; add_five on gfx942: 2 workgroups executed in ")
    assert buffer.strip().startswith("argument 0: ")
    assert "instructions executed" not in done.stdout
    launch = ("--grid", "2", "--block", "64", "--args", arguments)
    profile = tool("emulate", "add.s", "--profile", *launch)
    assert profile.stdout.startswith("passed: no findings; ")
    assert "add_five on gfx942   1 launch, 2 workgroups, 2 waves" in profile.stdout
    assert " instructions executed: " in profile.stdout
    assert "argument 1: i32[128]   100 elements changed; 0 to 104" in done.stdout
    short = tool("emulate", "add.s", "--grid", "2", "--block", "64", "--args",
                 "i32[90], i32[128]=zeros, i32 100")  # fmt: skip
    assert short.returncode == 1
    assert "past the end of argument 0: i32[90], 10 lanes" in short.stdout
    wrong = tool("emulate", "add.s", "--block", "64", "--args", "i33[9]")
    assert wrong.returncode == 2
    assert "argument 0, 'i33[9]', is not understood" in wrong.stderr
    (tmp_path / "small.s").write_text(CODE + SMALL_WORKGROUPS)
    large = tool("emulate", "small.s", "--grid", "1", "--block", "64,2", "--args", arguments)
    assert large.returncode == 2
    assert "a workgroup of 128 work-items, and the code is made for 64 at most" in large.stderr
    # An argument left out would be read as 0.
    stated = CODE.replace("  .amdhsa_accum", "  .amdhsa_kernarg_size 24\n  .amdhsa_accum")
    (tmp_path / "stated.s").write_text(stated)
    whole = tool("emulate", "stated.s", "--grid", "2", "--block", "64", "--args", arguments)
    assert whole.returncode == 0, whole.stderr
    (tmp_path / "none.s").write_text(
        re.sub(r"\.amdhsa_kernel.*?\.end_amdhsa_kernel", "", CODE, flags=re.S)
    )
    none = tool("emulate", "none.s", "--args", arguments)
    assert (none.returncode, "it has no kernel" in none.stderr) == (2, True)
    missing = tool("emulate", "stated.s", "--block", "64", "--args", "i32[128], i32[128]")
    assert missing.returncode == 2
    assert "--args gives 16" in missing.stderr
    for options, message in (
        (("--args", "i32[99999999999]"), "argument 0, 'i32[99999999999]', takes more than 2 GiB"),
        (("--args", "i32 4294967296"), "argument 0: 'i32 4294967296' has more than 32 bits"),
        (("--args", "i8 -129"), "argument 0: 'i8 -129' has more than 8 bits"),
        (("--args", arguments, "--lds", "70000"), "70,000 bytes of LDS, and a workgroup of gfx942"),
    ):
        refused = tool("emulate", "add.s", "--block", "64", *options)
        assert refused.returncode == 2
        assert message in refused.stderr


def test_a_target_that_cannot_be_run_is_an_input_error(tool_in_process: Tool) -> None:
    missing = tool_in_process("emulate", "nothing.py")
    assert missing.returncode == 2
    assert "there is no such file" in missing.stderr
    unknown = tool_in_process("emulate", "nothing.py", "--arch", "gfx9999")
    assert unknown.returncode == 2
    assert "unknown target" in unknown.stderr


NEGATED = (
    TESTS.split("@pytest")[0].replace("import pytest\n", "")
    + """
import os, sys

x = torch.ones(100, device="cuda")
negate[(1,)](x, 100, BLOCK=128)
how = sys.argv[1]
if how == "bare":
    assert (x == 1).all()
elif how == "message":
    assert (x == 1).all(), "49.5 %\\n\\tdiffer"
elif how == "text":
    sys.exit("no such result")
elif how == "aborts":
    os.abort()
elif how == "outside":
    negate[(1,)](x, 128, BLOCK=128)
"""
)


@pytest.mark.slow
def test_a_copy_of_a_script_is_told_by_its_own_name(tool: Tool, tmp_path: Path) -> None:
    # Triton's cache knows a kernel by its text: what was compiled for the first file is there.
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(NEGATED)
        cache = {"TRITON_CACHE_DIR": str(tmp_path / "cache")}
        done = tool("emulate", name, "--", "outside", env=cache)
        line = next(line for line in done.stdout.splitlines() if "outside: " in line)
        assert Path(line.split(":")[0].strip()).name == name


@pytest.mark.parametrize(
    ("how", "status", "verdict"),
    [
        pytest.param(
            "bare",
            1,
            "the script FAILED, status 1: AssertionError: assert (x == 1).all() at s.py:{}",
            marks=pytest.mark.slow,
        ),
        ("message", 1, "the script FAILED, status 1: AssertionError: 49.5 % differ at s.py:{}"),
        pytest.param(
            "text",
            1,
            "the script FAILED, status 1: sys.exit: no such result at s.py:{}",
            marks=pytest.mark.slow,
        ),
        ("aborts", 134, "the script FAILED, status 134 (SIGABRT)"),
        ("outside", 0, "FAILED: 2 findings, though the script's status is 0"),
        ("nothing", 0, "passed: status 0 of the script, no findings"),
    ],
)
def test_whether_a_script_passed_is_said_first(
    tmp_path: Path, emulating_forks: None, how: str, status: int, verdict: str
) -> None:
    """In Python, and with it in the agent format; of wrong results no emulator has findings."""
    (tmp_path / "s.py").write_text(NEGATED)
    places = {"bare": "    assert (x == 1).all()", "text": '    sys.exit("no such result")'}
    place = places.get(how, '    assert (x == 1).all(), "49.5 %\\n\\tdiffer"')
    run = kinspect.emulate(tmp_path / "s.py", [how], arch="gfx942")
    assert (run.status, run.passed) == (status, how == "nothing")
    first, *rest = str(run).splitlines()
    assert first == verdict.format(1 + NEGATED.splitlines().index(place))
    assert len(str(run)) < 6_000
    assert len(repr(run)) < 100
    assert run.to_dict()["exit_status"] == run.exit_status
    assert run._repr_html_().count("<") == 2
    if how == "message":
        assert f"  {place}" in rest
        assert "  AssertionError: 49.5 %" in rest
        assert [f.test for f in run.failures] == [None]
    assert bool(run.findings) is (how == "outside")
    assert [f for kernel in run.kernels for f in kernel.findings] == [*run.findings]
    assert ("finding negate: " in str(run)) is bool(run.findings)


def test_code_that_fails_says_so_first(tmp_path: Path) -> None:
    (tmp_path / "add.s").write_text(CODE)
    right = kinspect.emulate_code(
        tmp_path / "add.s",
        "i32[128]=arange, i32[128]=zeros, i32 100",
        grid=(2, 1, 1),
        block=(64, 1, 1),
    )
    assert (right.passed, str(right).splitlines()[0]) == (True, "passed: no findings")
    wrong = kinspect.emulate_code(
        tmp_path / "add.s", "i32[90], i32[128]=zeros, i32 100", grid=(2, 1, 1), block=(64, 1, 1)
    )
    assert (wrong.passed, len(wrong.findings)) == (False, 1)
    assert str(wrong).startswith("FAILED: 1 finding\nfinding add_five: ")
    assert "past the end of argument 0" in wrong._repr_html_()
