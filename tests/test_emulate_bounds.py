"""What a launch may ask of the emulator: it is refused, or ends, before it takes the machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinspect
import pytest

IOTA = (Path(__file__).parent.parent / "docs" / "examples" / "iota.s").read_text()
ARGUMENTS = ("--args", "i32[64]=zeros")
BIG_PRIVATE = IOTA.replace(
    ".amdhsa_kernel iota", ".amdhsa_kernel iota\n\t.amdhsa_private_segment_fixed_size 4294967295"
).replace("\tv_", "\tscratch_store_dword off, v0, off\n\tv_", 1)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        (IOTA, ("--grid", "60000000"), "a grid of 60,000,000 workgroups; the emulator executes"),
        (IOTA, ("--grid", "60000,60000"), "a grid of 3,600,000,000 workgroups"),
        (IOTA, ("--grid", "60000,60000", "--sample", "2"), "a grid of 3,600,000,000 workgroups"),
        (IOTA, ("--grid", "1000000000"), "a dimension has at most 4,294,967,295 work-items"),
        (IOTA, ("--block", "100000"), "a workgroup of 100,000 work-items"),
        (BIG_PRIVATE, (), "4,294,967,295 bytes of private memory for each work-item"),
    ],
)
def test_too_large_a_launch_says_what_was_asked_for(
    text: str, options: tuple[str, ...], said: str, tmp_path: Path, tool_in_process: Any
) -> None:
    (tmp_path / "k.s").write_text(text)
    done = tool_in_process("emulate", "k.s", *ARGUMENTS, "--block", "64", *options, cwd=tmp_path)
    assert said in done.stderr
    assert done.returncode == 2
    assert "internal error" not in done.stderr


def test_a_launch_below_nothing_or_of_nothing_is_refused(tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text(IOTA)
    for grid, block in (((1, 1, -1), (64, 1, 1)), ((1, 1, 1), (-8, -8, 1))):
        with pytest.raises(kinspect.KinspectError, match="below 0"):
            kinspect.emulate_code(tmp_path / "k.s", "i32[64]=zeros", grid=grid, block=block)
    lines = [line for line in IOTA.splitlines() if not line.startswith(("\tv_", "\ts_", "\tg"))]
    (tmp_path / "k.s").write_text("\n".join(lines) + "\n")
    with pytest.raises(kinspect.KinspectError, match="no instruction"):
        kinspect.emulate_code(tmp_path / "k.s", "i32[64]=zeros", block=(64, 1, 1))


def test_absurd_numbers_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "k.s").write_text(IOTA)
    with pytest.raises(kinspect.KinspectError, match="takes more than"):
        kinspect.emulate_code(tmp_path / "k.s", f"i32[{'9' * 5000}]=zeros", block=(64, 1, 1))
    (tmp_path / "k.s").write_text(IOTA.replace("\ts_endpgm", "\tv_mov_b32 v1, .\n\ts_endpgm", 1))
    with pytest.raises(kinspect.KinspectError, match="not carry out"):
        kinspect.emulate_code(tmp_path / "k.s", "i32[64]=zeros", block=(64, 1, 1))


def test_a_sample_of_a_large_grid_is_executed(tmp_path: Path, tool_in_process: Any) -> None:
    (tmp_path / "k.s").write_text(IOTA)
    words = ("--block", "64", "--grid", "50000000", "--sample", "3")
    done = tool_in_process("emulate", "k.s", *ARGUMENTS, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_many_small_workgroups_end_at_the_time_limit(tmp_path: Path, tool_in_process: Any) -> None:
    (tmp_path / "k.s").write_text(IOTA)
    words = ("--block", "64", "--grid", "30000000", "--time-limit", "1")
    done = tool_in_process("emulate", "k.s", *ARGUMENTS, *words, cwd=tmp_path)
    assert "1 launch given up" in done.stdout
    assert done.returncode == 125  # no finding, but not what was asked for either


def test_code_that_takes_too_long_to_read_is_refused(
    tmp_path: Path, tool_in_process: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_READ_SECONDS", "0.5")
    (tmp_path / "k.s").write_text(
        IOTA.replace("\ts_endpgm", ".rept 200000\n\tv_add_u32 v0, v0, v0\n.endr\n\ts_endpgm")
    )
    done = tool_in_process("emulate", "k.s", *ARGUMENTS, "--block", "64", cwd=tmp_path)
    assert "reading it takes more than" in done.stderr
    assert done.returncode == 2


def test_a_script_is_told_so_too(tmp_path: Path, emulating_tool: Callable[..., Any]) -> None:
    pytest.importorskip("triton")
    (tmp_path / "script.py").write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\ndef k(x):\n    tl.store(x, 1.0)\n"
        "k[(2**31 - 1, 65535)](torch.zeros(4, device='cuda'))\n"
    )
    done = emulating_tool("emulate", "script.py")
    assert "a dimension has at most" in done.stdout
    assert done.returncode == 1
