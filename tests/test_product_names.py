"""Products as names of targets: `--arch mi300x`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kinspect
import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.machines import load
from kinspect.inspector.machines.loader import targets_named
from kinspect.inspector.machines.products import all_products, find_product
from kinspect.inspector.pipeline.jobs import request_for, timing

Tool = Callable[..., Any]
GEMM = Path(__file__).parents[1] / "docs" / "examples" / "gemm.amdgcn"
ARGUMENTS = f"{', '.join(['f16[65536]=zeros'] * 3)}, i32 256"
LAUNCH = ("--grid", "4", "--workgroup", "256", "--args", ARGUMENTS, "--lds", "16384")


@pytest.mark.parametrize(
    ("typed", "arch"),
    [
        ("mi300x", "gfx942"), ("MI300X", "gfx942"), ("AMD Instinct MI300X", "gfx942"),
        ("mi325x", "gfx942"), ("mi355x", "gfx950"), ("mi250x", "gfx90a"), ("mi210", "gfx90a"),
        ("RX 7900 XTX", "gfx1100"), ("rx7900xtx", "gfx1100"), ("rx-7900-xtx", "gfx1100"),
        ("7900XTX", "gfx1100"), ("AMD Radeon RX 9070 XT", "gfx1201"), ("w7900", "gfx1100"),
        ("Radeon PRO W7900", "gfx1100"),
    ],
)  # fmt: skip
def test_a_product_is_a_name_of_its_target(typed: str, arch: str) -> None:
    assert load(typed) is load(arch)


def test_every_product_is_found_by_its_own_name_alone() -> None:
    for product in all_products():
        assert find_product(product.name) == find_product(product.typed) == product


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("mi300", "mi300x"), ("RX 7900 XTXX", "rx7900xtx"), ("gfx943", "gfx942"), ("", "arch list")],
)
def test_an_unknown_name_is_compared_with_products_too(typed: str, hint: str) -> None:
    with pytest.raises(KinspectError, match="unknown target") as caught:
        load(typed)
    assert hint in caught.value.hint


def test_a_request_has_targets_and_is_timed_for_their_products() -> None:
    request = request_for((), archs=("MI325X", "gfx1100", "mi355x", "GFX942:xnack-"),
                          analysis=timing())  # fmt: skip
    assert request.archs == ("gfx942", "gfx1100", "gfx950")
    assert request.analysis.time is not None
    assert request.analysis.time.products == {"gfx942": "MI325X", "gfx950": "MI355X"}


def test_two_products_of_one_target_are_refused() -> None:
    with pytest.raises(KinspectError, match="MI300X and MI325X are both gfx942"):
        targets_named(("mi300x", "mi325x"))
    assert targets_named(("mi300x", "gfx942", "MI300X"))[0] == ("gfx942",)


@pytest.mark.parametrize(
    ("words", "gpu"),
    [
        (("--arch", "gfx942"), "MI300X"),
        (("--arch", "mi325x"), "MI325X"),
        (("--arch", "mi325x", "--gpu", "mi300a"), "MI300A"),
    ],
)
def test_the_product_is_that_of_the_time(
    tool_in_process: Tool, words: tuple[str, ...], gpu: str
) -> None:
    run = tool_in_process("time", GEMM, *LAUNCH, "--no-savings", *words, "--format", "json")
    assert run.returncode == 0, run.stderr
    (kernel,) = json.loads(run.stdout)["kernels"]
    assert (kernel["arch"], kernel["time"]["gpu"]) == ("gfx942", gpu)


def test_a_product_to_time_for_implies_its_target(tool_in_process: Tool) -> None:
    assert request_for((), analysis=timing(gpu="MI355X")).archs == ("gfx950",)
    both = request_for((), archs=("gfx942", "mi355x"), analysis=timing(gpu="AMD Instinct MI355X"))
    assert both.archs == ("gfx942", "gfx950")
    with pytest.raises(KinspectError, match="MI355X is gfx950, and --arch says gfx942, gfx1100"):
        request_for((), archs=("mi300x", "gfx1100"), analysis=timing(gpu="MI355X"))
    with pytest.raises(KinspectError, match="MI999: no known product"):
        request_for((), analysis=timing(gpu="MI999"))
    refused = tool_in_process("time", GEMM, *LAUNCH, "--gpu", "mi355x")
    assert "it is for gfx942, not gfx950" in refused.stderr
    assert "drop --arch and --gpu" in refused.stderr


def test_analyze_takes_product_and_clock(tool_in_process: Tool) -> None:
    words = ("--gpu", "mi325x", "--clock", "1234", "--no-try", "--format", "json", "--details")
    run = tool_in_process("analyze", GEMM, *LAUNCH, *words)
    assert run.returncode == 0, run.stderr
    (kernel,) = json.loads(run.stdout)["kernels"]
    assert (kernel["time"]["gpu"], kernel["time"]["mhz"]) == ("MI325X", 1234)
    assert "the stated clock of 1,234 MHz" in kernel["time"]["assumed"]


def test_commands_and_functions_take_products(tool_in_process: Tool) -> None:
    shown = tool_in_process("arch", "show", "RX 7900 XTX")
    assert ["arch", "gfx1100"] in [line.split() for line in shown.stdout.splitlines()]
    occupancy = tool_in_process("occupancy", "--arch", "mi300x", "--vgpr", "128")
    assert occupancy.returncode == 0, occupancy.stderr
    refused = tool_in_process("analyze", GEMM, "--arch", "mi355x")
    assert "it is for gfx942, not gfx950" in refused.stderr
    text = GEMM.read_text()
    assert kinspect.analyze(text, arch="mi300x").kernel.arch == "gfx942"


def test_settings_take_products(tool_in_process: Tool, tmp_path: Path) -> None:
    (tmp_path / "gemm.amdgcn").write_bytes(GEMM.read_bytes())
    for product, status in (("mi300x", 1), ("mi355x", 0)):
        (tmp_path / "pyproject.toml").write_text(
            f'[tool.kinspect]\narch = ["{product}"]\n[[tool.kinspect.kernel]]\nmatch = "*"\n'
            f'arch = "{product}"\nbudget = {{ vgpr_count = 1 }}\n'
        )
        run = tool_in_process("lint", "gemm.amdgcn")
        assert run.returncode == status, (product, run.stdout, run.stderr)
