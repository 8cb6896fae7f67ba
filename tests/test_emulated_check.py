"""`kinspect check --device emulated`: compiled code is executed; what it must not do is told."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

pytestmark = pytest.mark.xdist_group(name="check")

KERNEL = '''"""Doubles a vector; "unmasked" forgets the mask, "triples" is wrong."""

import triton
import triton.language as tl


@triton.jit
def double_kernel(x_ptr, out_ptr, n, factor, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        mask = offsets < n
        tl.store(out_ptr + offsets, factor * tl.load(x_ptr + offsets, mask=mask), mask=mask)
    else:
        tl.store(out_ptr + offsets, factor * tl.load(x_ptr + offsets))


def launch(x, mode, config):
    import torch

    out = torch.empty_like(x)
    factor = 3.0 if mode == "triples" else 2.0
    double_kernel[(triton.cdiv(x.numel(), 256),)](
        x, out, x.numel(), factor, MASKED=mode != "unmasked", BLOCK=256
    )
    return out


def make_inputs(case, device="cpu"):
    import torch

    return {"x": torch.arange(1000, dtype=torch.float32, device=device), "mode": case["name"],
            "config": {"waves_per_eu": 2}}


def reference(x, mode, config):
    return 2 * x


CASES = [{"name": n, "atol": 0.0, "rtol": 0.0} for n in ("right", "unmasked", "triples")]
'''


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("emulated")
    path: Path = folder / "double.py"
    path.write_text(KERNEL)
    done = subprocess.run(
        [sys.executable, "-m", "kinspect.inspector.cli", "check", str(path), "--device",
         "emulated", "--arch", "gfx942,gfx1100", "--format", "json"],
        capture_output=True, text=True, timeout=280, check=False, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_what_the_code_does_decides(checked: Any, arch: str) -> None:
    (kernel,) = [k for k in checked["kernels"] if k["arch"] == arch]
    cases = {case["name"]: case for case in kernel["cases"]}
    assert cases["right"]["status"] == "passed"
    assert cases["right"]["max_abs_error"] == 0
    assert cases["triples"]["status"] == "failed"
    # 1000 elements of 4 bytes; the last workgroup's block of 256 ends 24 elements later.
    assert cases["unmasked"]["status"] == "failed"
    message = cases["unmasked"]["message"]
    assert "outside" in message
    assert "x_ptr" in message
    assert "double.py:14" in message


def test_the_devices_are_named(checked: Any) -> None:
    assert [(d["kind"], d["arch"]) for d in checked["devices"]] == [
        ("emulated", "gfx942"),
        ("emulated", "gfx1100"),
    ]


def test_a_target_is_for_emulation_alone(tool: Any) -> None:
    done = tool("check", "vector_add", "--arch", "gfx942")
    assert done.returncode == 2
    assert "--arch is for --device emulated" in done.stderr
    unknown = tool("check", "vector_add", "--device", "emulated", "--arch", "gfx9999")
    assert unknown.returncode == 2
    assert "unknown target" in unknown.stderr
