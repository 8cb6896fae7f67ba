"""One launch by several processes: the same as by one, and races between them are not lost."""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulated import OUT, emulator
from kinspect.inspector.emulator import processes
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator, LaunchOutcome
from kinspect.inspector.emulator.memory import Buffer
from kinspect.inspector.emulator.processes import NotIndependentError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

GROUPS = 80
"""Of 16 waves each: five slices."""
COPY = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
s_lshl_b32 s3, s2, 12
v_lshl_add_u32 v1, v0, 2, s3
ds_write_b32 v1, v0
s_waitcnt lgkmcnt(0)
global_load_dword v2, v1, s[4:5]
s_waitcnt vmcnt(0)
v_cmp_gt_u32_e32 vcc, 500, v0
s_cbranch_vccz .LBB0_1
v_add_u32_e32 v2, s2, v2
.LBB0_1:
global_store_dword v1, v2, s[4:5]
s_waitcnt vmcnt(0)
"""
"""Adds its number to what a workgroup finds, but in the last waves; LDS only holds the first."""
FIRST_AND_LAST = """
s_load_dwordx2 s[4:5], s[0:1], 0x0
v_lshlrev_b32_e32 v1, 2, v0
v_mov_b32_e32 v2, s2
s_waitcnt lgkmcnt(0)
s_cmp_eq_u32 s2, 0
s_cbranch_scc1 .LBB0_1
s_cmp_eq_u32 s2, 79
s_cbranch_scc0 .LBB0_2
.LBB0_1:
global_store_dword v1, v2, s[4:5]
s_waitcnt vmcnt(0)
.LBB0_2:
"""


def shared(elements: int) -> Buffer:
    """Memory that forks have in common, all 1."""
    memory = np.frombuffer(mmap.mmap(-1, 4 * elements + 16), np.uint8)
    memory[: 4 * elements].view(np.uint32)[:] = 1
    return Buffer(OUT, 4 * elements, memory, "out")


def launched(kernel: Emulator, count: int) -> tuple[LaunchOutcome, np.ndarray[Any, Any]]:
    """Executes all workgroups by some processes: outcome, and what memory holds."""
    out = shared(1024 * GROUPS)
    outcome = kernel.run(
        Launch((GROUPS, 1, 1), (1024, 1, 1), 65536, struct.pack("<Q", OUT), processes=count),
        [out],
    )
    assert out.words is not None
    assert out.words.written
    return outcome, out.data[: out.size].view(np.uint32)


def counted(kernel: Emulator) -> tuple[object, ...]:
    """Everything that a launch leaves with its kernel."""
    assert kernel.counts is not None
    runs = [(block.runs, block.taken, block.divided) for block in kernel.code.blocks]
    return runs, {
        key: (c.waves, c.lanes, c.lines, c.least_lines, c.conflicts)
        for key, c in kernel.counts.accesses.items()
    }


@pytest.mark.parametrize("count", [2, 3, 8])
def test_several_do_what_one_does(count: int) -> None:
    one, several = emulator(COPY), emulator(COPY)
    for _ in range(2):  # counts go on
        (alone, expected), (together, values) = launched(one, 1), launched(several, count)
        np.testing.assert_array_equal(values, expected)
        assert together.footprint == alone.footprint
        np.testing.assert_array_equal(together.executed, alone.executed)
        assert sorted(t.detail for t in together.troubles) == sorted(
            t.detail for t in alone.troubles
        )
        assert {t.kind for t in alone.troubles} == {"outside_lds"}  # found by a fork
        assert counted(several) == counted(one)


def test_forks_do_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    began = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: began.append(0) or fork())
    launched(emulator(COPY), 4)
    assert len(began) == 3


def test_workgroups_that_race_are_executed_by_one_process() -> None:
    kernel = emulator(FIRST_AND_LAST)
    before = counted(kernel)
    with pytest.raises(NotIndependentError):
        launched(kernel, 2)
    assert counted(kernel) == before
    outcome, _ = launched(kernel, 2)  # it is known by now
    assert {trouble.kind for trouble in outcome.troubles} == {"global_race"}
    assert counted(kernel) == (lambda fresh: (launched(fresh, 1), counted(fresh))[1])(
        emulator(FIRST_AND_LAST)
    )


def test_a_fork_that_dies_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    children = []
    fork = os.fork

    def noted_fork() -> int:
        children.append(fork())
        return children[-1]

    def die(*_: object) -> bytes:
        os._exit(3)

    monkeypatch.setattr(os, "fork", noted_fork)
    monkeypatch.setattr(processes.pickle, "dumps", die)
    with pytest.raises(NotIndependentError):
        launched(emulator(COPY), 2)
    (child,) = children
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)  # it is not left behind


@pytest.mark.parametrize(
    "instruction",
    [
        "global_atomic_add v5, v2, s[4:5] sc1",
        "global_load_dword v5, v1, s[4:5] sc1",
        "s_memtime s[6:7]",
    ],
)
def test_workgroups_that_may_talk_stay_together(instruction: str) -> None:
    assert emulator(COPY).is_divisible
    assert not emulator(COPY + instruction + "\n").is_divisible


SCRIPT = """
import torch, triton
import triton.language as tl

@triton.jit
def first_and_last(out, n):
    pid = tl.program_id(0)
    old = tl.load(out)
    if (pid == 0) | (pid == n - 1):
        tl.store(out, old + pid + 1)

out = torch.full((4,), 7, device="cuda", dtype=torch.int32)
first_and_last[(1024,)](out, 1024, num_warps=2)
print(out.tolist())
"""


def test_a_race_of_a_script_is_told(tmp_path: Path, emulating_tool: Callable[..., Any]) -> None:
    """The launch that failed leaves nothing: memory is as one process makes it."""
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(SCRIPT)
    done = emulating_tool(
        "emulate", "script.py", "--arch", "gfx942", "--format", "json", "-o", "p.json"
    )
    assert "[1032, 7, 7, 7]" in done.stdout
    (kernel,) = json.loads((tmp_path / "p.json").read_text())["kernels"]
    assert [finding["kind"] for finding in kernel["findings"]] == ["global_race"]
    assert kernel["launches"] == 1
    assert kernel["waves"] == 2048
