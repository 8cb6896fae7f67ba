"""Figures and texts that outsiders found wrong, each with what is right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from kinspect.inspector.explain.occupancy_view import occupancy_lines
from kinspect.inspector.lint.schema import bundled_packs, load_named
from kinspect.inspector.model import Demand, KernelReport, Metric
from kinspect.inspector.pipeline.analysis import catalogue

KINSPECT = [sys.executable, "-m", "kinspect.inspector.cli"]
KERNEL = """\
	.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
	.text
	.globl k
	.p2align 8
	.type k,@function
k:
	s_endpgm
.Lend:
	.size k, .Lend-k
	.amdhsa_kernel k
		.amdhsa_next_free_vgpr {vgprs}
		.amdhsa_next_free_sgpr 8
{directives}	.end_amdhsa_kernel
	.amdgpu_metadata
{metadata}	.end_amdgpu_metadata
"""
METADATA = """\
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: 0
    .private_segment_fixed_size: 0
    .wavefront_size: {wave_size}
    .sgpr_count: 8
    .vgpr_count: {vgprs}
    .max_flat_workgroup_size: 1024
...
"""
WGP_MODE = "\t\t.amdhsa_wavefront_size32 1\n\t\t.amdhsa_workgroup_processor_mode {mode}\n"
CDNA = "\t\t.amdhsa_accum_offset {vgprs}\n"


def kinspect(*arguments: object, status: int | None = 0) -> str:
    command = [*KINSPECT, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done.stdout


# --------------------------------------------------------------------------- CU or WGP


@pytest.mark.parametrize("form", ["text", "json", "sarif", "github", "junit", "md", "agent"])
@pytest.mark.parametrize(
    ("arch", "directives", "unit"),
    [
        ("gfx1100", WGP_MODE.format(mode=1), "WGP"),
        ("gfx1100", WGP_MODE.format(mode=0), "CU"),
        ("gfx942", CDNA.format(vgprs=256), "CU"),
    ],
)
def test_what_workgroups_fit_on_has_the_name_of_the_target(
    arch: str, directives: str, unit: str, form: str, tmp_path: Path
) -> None:
    size = 64 if arch == "gfx942" else 32
    metadata = METADATA.format(vgprs=256, wave_size=size)
    text = KERNEL.format(arch=arch, vgprs=256, directives=directives, metadata=metadata)
    (tmp_path / "k.s").write_text(text)
    output = kinspect(
        *("lint", tmp_path / "k.s", "--waves", 1024 // size, "--format", form, "--select", "KI016"),
        status=1,
    )
    assert f"not one workgroup fits on a {unit}: " in output


def test_no_text_of_a_rule_puts_workgroups_on_a_cu() -> None:
    """Which of CU and WGP it is only the machine file and the code know."""
    for name in bundled_packs():
        for rule in load_named(name, catalogue()).rules:
            for text in (rule.text.message, rule.text.fix):
                counts = "{occupancy.workgroups_per_cu}" in text or "workgroup fits" in text
                assert not counts or " CU" not in text.replace("{gpu.cus} CUs", ""), rule.text.id


@pytest.mark.parametrize(("cu_mode", "unit"), [(True, "CU"), (False, "WGP")])
def test_occupancy_and_rounds_name_the_unit(cu_mode: bool, unit: str) -> None:
    values: Mapping[str, int | str] = {
        "occupancy.waves_per_eu": 16,
        "occupancy.workgroups_per_cu": 32,
        "occupancy.limiter": "workgroups",
        "waves_per_workgroup": 2,
        "grid.workgroups": 6144,
        "tail.rounds": 2,
        "tail.efficiency": 100,
        "gpu.cus": 96,
        "gpu.units": 96 if cu_mode else 48,
    }
    metrics = {name: Metric(name, value, "", "derived") for name, value in values.items()}
    kernel = KernelReport(
        *("k", "k", "gfx1100", None, None, {}, metrics, (), None, (), (), ()),
        demand=Demand(vgprs=16, cu_mode=cu_mode),
    )
    assert occupancy_lines(kernel) == [
        f"16 waves/EU = 32 workgroups/{unit}: limited by the workgroup limit of a {unit} with 2 "
        "waves/workgroup",
        f"6,144 workgroups in 2 rounds on {96 if cu_mode else 48} {unit}s: 100 % of their places "
        "used",
    ]
