"""Thread traces of code that is not at hand: what their waves stall at, and two held together."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from att_files import Cost, Listed, write_trace
from kinspect.inspector.cli.recordings import read
from kinspect.inspector.compare import profiles
from kinspect.inspector.explain.profile_view import unplaced_stalls
from kinspect.inspector.model import Metric
from kinspect.inspector.model.recording import Profile
from kinspect.inspector.present.profile import stalled_at
from kinspect.inspector.profile.trace_metrics import SPAN, stall_class

Tool = Callable[..., Any]
CODE = [
    Listed(0x100 + 8 * number, text, "mix.hip:7")
    for number, text in enumerate(
        [
            "global_load_dwordx4 v[2:5], v[0:1], off",
            "s_waitcnt vmcnt(0)",
            "v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15]",
            "s_barrier",
            "s_endpgm",
        ]
    )
]


def profiled(folder: Path, barrier: int, kernel: str = "mix", dispatch: int = 42) -> Profile:
    """A trace whose waves stall 60 cycles at a wait, and as many as `barrier` says at a barrier."""
    costs = {0x108: Cost(stall=60), 0x118: Cost(stall=barrier)}
    write_trace(folder, kernel, CODE, costs, dispatch=dispatch)
    return read(folder, {"joined": (), "skip_warmup": None})


def test_a_trace_tells_what_stalls_without_code(tool_in_process: Tool, tmp_path: Path) -> None:
    profile = profiled(tmp_path, 140)
    (kernel,) = profile.kernels
    figures = {name: metric.value for name, metric in kernel.metrics.items()}
    # Five instructions of four cycles each, and the second wave begins 16 cycles later.
    assert figures["measured.span_cycles"] == 5 * 4 + 60 + 140 + 16
    assert figures["measured.stalls.barrier"] == 70
    assert figures["measured.stalls.memory_wait"] == 30
    first, second = unplaced_stalls(profile, 12)
    assert (first.address, first.instruction, first.cycles) == ("0x118", "s_barrier", 280)
    assert (second.instruction, second.hits, second.share) == ("s_waitcnt vmcnt(0)", 2, 30)
    run = tool_in_process("profile", "import", tmp_path)
    assert run.returncode == 0, run.stderr
    assert "s_waitcnt vmcnt(0)" in run.stdout
    assert re.search(
        r"barriers +70 %  ▇{14}▁{6}\n +waits for memory +30 %  ▇{6}▁{14}\n", run.stdout
    )
    assert "--with TARGET names" in run.stdout


@pytest.mark.parametrize(
    ("barrier", "state", "change"), [(140, "same", 0), (130, "unsure", -10), (20, "faster", -120)]
)
def test_traces_are_compared_by_their_spans(
    tool_in_process: Tool, tmp_path: Path, barrier: int, state: str, change: int
) -> None:
    before = profiled(tmp_path / "before", 140, "void ns::mix<4>(float*)")
    after = profiled(tmp_path / "after", barrier, "_ZN2ns3mixILi4EEEvPf")
    (pair,) = profiles.compare(before, after).kernels
    spans = pair.median
    assert (pair.state, spans.unit, spans.left, spans.right) == (state, "cycles", 236, 236 + change)
    stalled = [figure.name for figure in pair.metrics]
    assert stalled == ([] if barrier == 140 else ["stalls.barrier", "stalls.memory_wait"])
    run = tool_in_process("profile", "compare", tmp_path / "before", tmp_path / "after")
    assert "236 cycles" in run.stdout


def test_the_spans_of_several_traces_are_averaged(tmp_path: Path) -> None:
    profiled(tmp_path, 40, dispatch=1)
    (kernel,) = profiled(tmp_path, 140, dispatch=2).kernels
    assert kernel.metrics[SPAN].value == 5 * 4 + 60 + 90 + 16


@pytest.mark.parametrize(
    ("text", "cls"),
    [
        ("s_waitcnt lgkmcnt(0)", "lds_wait"),
        ("s_waitcnt vmcnt(3) lgkmcnt(0)", "memory_wait"),
        ("s_wait_loadcnt 0x0", "memory_wait"),
        ("s_wait_dscnt 0x0", "lds_wait"),
        ("s_wait_kmcnt\t0x0", "lds_wait"),
        ("s_wait_asynccnt 0x0", "memory_wait"),  # gfx1250: memory to LDS
        ("s_wait_tensorcnt 0x0", "memory_wait"),
        ("s_wait_storecnt_dscnt 0x0", "memory_wait"),
        ("s_waitcnt_vscnt null, 0x0", "memory_wait"),
        ("s_wait_idle", "memory_wait"),
        ("s_waitcnt 0", "memory_wait"),
        ("ds_read_b64 v[0:1], v2", "lds"),
        ("v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]", "matrix"),
        ("v_add_f32_e32 v0, v1, v2", "vector"),
        ("s_barrier", "barrier"),
        ("s_nop 0", "other"),
        ("", "other"),
    ],
)
def test_classes_of_what_waves_stall_at(text: str, cls: str) -> None:
    assert stall_class(text) == cls


def test_bars_are_of_reasons_for_which_waves_stall() -> None:
    name = "measured.stalls.barrier"
    assert not stalled_at({name: Metric(name, 0.0, "cycles", "measured")}, []).blocks
    (bars,) = stalled_at({name: Metric(name, 5.0, "cycles", "measured")}, []).blocks
    assert "barriers" in str(bars)
