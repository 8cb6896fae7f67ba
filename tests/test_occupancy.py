"""Occupancy: against LLVM's own output point by point, and against brute force."""

from __future__ import annotations

import csv
import itertools
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.machines import load, names
from kinspect.inspector.metrics.occupancy import SPECS, Occupancy, metrics, occupancy
from kinspect.inspector.model import Demand, Machine

SAMPLE = Path(__file__).parent / "data" / "recorded/llvm_occupancy_sample.csv"
LLC = shutil.which("llc-22")
# LLVM 20 dropped the pre-production steppings of gfx942, whose features are the same.
CPU = {"gfx940": "gfx942", "gfx941": "gfx942"}


def of(arch: str, **demand: object) -> Occupancy:
    return occupancy(load(arch), Demand(**demand))  # type: ignore[arg-type]


# --------------------------------------------------------------------------- known points


def test_whole_workgroups_count_and_the_next_step_is_two_registers() -> None:
    got = of("gfx942", vgprs=130, sgprs=30, lds_bytes=32768, waves_per_workgroup=8)
    assert (got.compiler, got.waves_per_eu, got.workgroups_per_cu) == (3, 2, 1)
    assert (got.limiter, got.by_vgpr, got.by_lds) == ("vgpr", 3, 4)
    assert got.next_step is not None
    assert (got.next_step.resource, got.next_step.reduce_by, got.next_step.gives) == ("vgpr", 2, 4)


def test_lds_hidden_from_the_compiler() -> None:
    hidden = of(
        "gfx942", vgprs=224, lds_bytes=48 * 1024, waves_per_workgroup=2, llvm="triton",
        compiler_lds=0,
    )  # fmt: skip
    assert (hidden.compiler, hidden.waves_per_eu, hidden.limiter) == (2, 0.5, "lds")
    known = of("gfx942", vgprs=224, lds_bytes=48 * 1024, waves_per_workgroup=2, llvm="triton")
    assert known.compiler == 1


def test_unified_file_counts_agprs_after_a_multiple_of_four() -> None:
    # 129 VGPRs end at 132; with 124 AGPRs that is 256, two waves of 512 registers.
    assert of("gfx90a", vgprs=129, agprs=124).by_vgpr == 2
    assert of("gfx90a", vgprs=129, agprs=125).by_vgpr == 1
    assert of("gfx908", vgprs=128, agprs=128).by_vgpr == 2  # a file of its own


def test_boundary_168_shows_granule_8() -> None:
    assert of("gfx942", vgprs=168).by_vgpr == 3
    assert of("gfx942", vgprs=169).by_vgpr == 2


def test_wgp_mode_doubles_the_lds_and_the_simds() -> None:
    wgp = of("gfx1100", vgprs=64, lds_bytes=65536, waves_per_workgroup=8, wave_size=32)
    cu = of("gfx1100", vgprs=64, lds_bytes=65536, waves_per_workgroup=8, wave_size=32, cu_mode=True)
    assert (wgp.unit, wgp.workgroups_per_cu, wgp.waves_per_eu) == ("WGP", 2, 4)
    assert (cu.unit, cu.workgroups_per_cu, cu.waves_per_eu) == ("CU", 1, 4)


def test_barriers_limit_pairs_of_waves_on_gfx906_only() -> None:
    # 10 waves x 4 SIMDs / 2 would be 20 workgroups, a CU has 16 barriers.
    got = of("gfx906", vgprs=8, sgprs=8, lds_bytes=0, waves_per_workgroup=2)
    assert (got.workgroups_per_cu, got.limiter, got.next_step) == (16, "workgroups", None)
    assert of("gfx942", vgprs=8, lds_bytes=0, waves_per_workgroup=2).limiter == "waves"


def test_unknown_is_none_never_zero() -> None:
    got = of("gfx942", vgprs=100, waves_per_workgroup=4)
    assert got.waves_per_eu is got.workgroups_per_cu is got.limiter is got.next_step is None
    assert got.by_vgpr == 4
    assert got.note == "LDS unknown"
    assert of("gfx942", vgprs=None, lds_bytes=0, waves_per_workgroup=4).by_vgpr is None
    no_waves = of("gfx942", vgprs=100, lds_bytes=1024)
    assert no_waves.compiler is None
    assert no_waves.waves_per_eu is None


@pytest.mark.parametrize(
    ("demand", "reason"),
    [
        ({"vgprs": 40, "lds_bytes": 98304, "waves_per_workgroup": 4}, "98304 B of LDS"),
        ({"vgprs": 300, "lds_bytes": 0, "waves_per_workgroup": 16}, "room for 4 waves"),
        ({"vgprs": 600, "lds_bytes": 0, "waves_per_workgroup": 1}, "600 VGPRs are more"),
        ({"vgprs": 40, "lds_bytes": 0, "waves_per_workgroup": 17}, "1024 work-items"),
    ],
)
def test_cannot_launch_says_why(demand: dict[str, int], reason: str) -> None:
    got = occupancy(load("gfx942"), Demand(**demand))
    assert got.workgroups_per_cu == got.waves_per_eu == 0
    assert got.cannot_launch is not None
    assert reason in got.cannot_launch


def test_impossible_input_is_refused() -> None:
    with pytest.raises(KinspectError, match="no wave32"):
        of("gfx942", vgprs=1, wave_size=32)
    with pytest.raises(KinspectError, match="vgprs is -1"):
        of("gfx942", vgprs=-1)
    with pytest.raises(KinspectError, match="waves_per_workgroup is 0"):
        of("gfx942", vgprs=1, waves_per_workgroup=0)
    with pytest.raises(KinspectError, match="known models: 22, triton"):
        of("gfx942", vgprs=1, llvm="13")


def test_inflated_request_is_told_apart_from_use() -> None:
    got = of("gfx942", vgprs=11, vgprs_requested=97, lds_bytes=0, waves_per_workgroup=4)
    assert got.by_vgpr == 4
    assert "97 VGPRs are asked for, 11 used" in got.note
    assert got.next_step is not None
    assert got.next_step.reduce_by == 1  # of the request: 96 would allow 5
    # No register of the kernel has to go: the option is what limits.
    assert (got.limiter, got.next_step.resource) == ("waves_per_eu", "waves_per_eu")


def test_a_request_above_a_use_that_limits_alike_is_not_to_blame() -> None:
    got = of("gfx942", vgprs=100, vgprs_requested=120, lds_bytes=0, waves_per_workgroup=4)
    assert (got.by_vgpr, got.limiter) == (4, "vgpr")
    assert got.next_step is not None
    assert (got.next_step.resource, got.next_step.reduce_by) == ("vgpr", 4)


def test_a_request_for_what_another_limit_leaves_free_is_not_to_blame() -> None:
    """LLVM asks for as many registers as the waves that LDS admits may have."""
    use = {"vgprs": 54, "vgprs_requested": 169, "waves_per_workgroup": 4}
    got = of("gfx90a", lds_bytes=32768, **use)
    assert (got.waves_per_eu, got.by_vgpr, got.limiter) == (2, 2, "lds")
    got = of("gfx90a", lds_bytes=16384, **use)
    assert (got.waves_per_eu, got.by_vgpr, got.limiter) == (2, 2, "waves_per_eu")


def test_a_request_rounded_by_the_kernel_descriptor_is_no_inflation() -> None:
    got = of(
        "gfx942", vgprs=130, vgprs_requested=136, sgprs=30, lds_bytes=32768, waves_per_workgroup=8
    )
    assert got.note == ""
    assert got.next_step is not None
    assert got.next_step.reduce_by == 2


def test_metrics_have_the_catalogued_names_and_units() -> None:
    got = metrics(
        load("gfx942"), Demand(130, sgprs=30, lds_bytes=32768, waves_per_workgroup=8), stated=3
    )
    assert set(got) == {spec.name for spec in SPECS}
    assert all(got[spec.name].unit == spec.unit for spec in SPECS)
    assert (got["occupancy.compiler"].value, got["occupancy.compiler"].origin) == (3, "compiler")
    assert got["occupancy.next_step"].value == {"resource": "vgpr", "reduce_by": 2, "gives": 4}
    assert got["occupancy.waves_per_eu"].origin == "derived"


# --------------------------------------------------------------------------- against LLVM


def test_reproduces_every_recorded_point_of_both_models() -> None:
    wrong, models = [], set()
    with SAMPLE.open() as file:
        for row in csv.DictReader(file):
            low, high, wave = int(row["wg_min"]), int(row["wg_max"]), int(row["wave_size"])
            llvm = {"22.1.8": "22", "triton3.9.0": "triton"}[row["llvm"]]
            models.add(llvm)
            demand = Demand(
                vgprs=int(row["vgprs"]),
                agprs=int(row["agprs"]),
                sgprs=int(row["num_sgprs_for_waves_per_eu"]),
                lds_bytes=int(row["lds_bytes"]),
                waves_per_workgroup=-(-high // wave) if low == high else None,
                wave_size=wave,
                cu_mode=row["mode"].endswith("cu"),
                llvm=llvm,
                vgprs_requested=int(row["num_vgprs_for_waves_per_eu"]),
            )
            got = occupancy(load(row["arch"]), demand).compiler
            if got != int(row["occupancy_waves_per_eu"]):
                wrong.append((row, got))
    assert not wrong
    assert models == {"22", "triton"}


def _ir(name: str, vgprs: int, agprs: int, sgprs: int, lds: int, size: int, features: str) -> str:
    clobbers = [f"~{{v{vgprs - 1}}}", f"~{{s{sgprs - 1}}}"]
    clobbers += [f"~{{a{agprs - 1}}}"] if agprs else []
    use = f"store volatile i8 0, ptr addrspace(3) @lds_{name}\n" if lds else ""
    return (
        (f"@lds_{name} = internal addrspace(3) global [{lds} x i8] poison\n" if lds else "")
        + f"define amdgpu_kernel void @{name}() #{name[1:]} {{\n{use}"
        + f'call void asm sideeffect "", "{",".join(clobbers)}"()\nret void\n}}\n'
        + f'attributes #{name[1:]} = {{ "amdgpu-flat-work-group-size"="{size},{size}"'
        + f' "target-features"="{features}" }}\n'
    )


Point = tuple[str, int, int, int, int, int, str, int, bool]


def _points(machine: Machine, seed: str) -> list[Point]:
    rng, points = random.Random(seed), []
    for i in range(24):
        wave = rng.choice(machine.wave_sizes)
        cu_mode = rng.random() < 0.5
        features = "" if len(machine.wave_sizes) == 1 else f"+wavefrontsize{wave}"
        if machine.eus_cu_mode is not None and cu_mode:
            features += ",+cumode"
        waves = rng.choice([w for w in (1, 2, 3, 4, 5, 7, 8, 12, 16, 32) if w * wave <= 1024])
        lds = rng.choice([0, 0, 100, 4096, 10923, 16384, 32768, machine.lds_max])
        # LLVM gives a workgroup of so many waves no more registers than let it launch.
        room = machine.vgpr_total[wave] * machine.eus // 2 // waves
        vgprs = rng.randint(1, max(1, min(250, room // 2)))
        agprs = rng.randint(0, vgprs) if machine.agpr != "none" else 0
        sgprs = rng.randint(1, 90)
        points.append((f"k{i}", vgprs, agprs, sgprs, lds, waves * wave, features, wave, cu_mode))
    return points


def _compare(machine: Machine, points: list[Point], text: str, llvm: str) -> None:
    stated = [int(n) for n in re.findall(r"^; Occupancy: (\d+)$", text, re.M)]
    registers = [int(n) for n in re.findall(r"^; NumVGPRsForWavesPerEU: (\d+)$", text, re.M)]
    scalars = [int(n) for n in re.findall(r"^; NumSGPRsForWavesPerEU: (\d+)$", text, re.M)]
    assert len(stated) == len(registers) == len(scalars) == len(points)
    for point, printed, needed, sgprs in zip(points, stated, registers, scalars, strict=True):
        _, vgprs, agprs, _, lds, size, _, wave, cu_mode = point
        demand = Demand(vgprs, agprs, sgprs, lds, size // wave, wave, cu_mode, llvm, needed)
        assert occupancy(machine, demand).compiler == printed, point
    assert len(set(stated)) > 1


@pytest.mark.skipif(LLC is None, reason="llc-22 is not installed")
@pytest.mark.parametrize("arch", names())
def test_fresh_points_match_llvm_22(arch: str) -> None:
    """Kernels with chosen registers, LDS and workgroup size, compiled now."""
    assert LLC is not None
    machine = load(arch)
    points = _points(machine, f"llvm {arch}")
    done = subprocess.run(
        [LLC, "-mtriple=amdgcn-amd-amdhsa", f"-mcpu={CPU.get(arch, arch)}", "-o", "-"],
        input="".join(_ir(*point[:7]) for point in points),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    _compare(machine, points, done.stdout, "22")


@pytest.mark.parametrize("arch", names())
def test_fresh_points_match_tritons_llvm(arch: str) -> None:
    triton = pytest.importorskip("triton")
    if not triton.__version__.startswith("3.9."):
        pytest.skip("the model is that of Triton 3.9's LLVM")
    llvm = pytest.importorskip("triton._C.libtriton").llvm
    llvm.init_targets()
    machine = load(arch)
    points = _points(machine, f"triton {arch}")
    triple = "amdgcn-amd-amdhsa"
    source = f'target triple = "{triple}"\n' + "".join(_ir(*point[:7]) for point in points)
    cpu = CPU.get(arch, arch)
    text = llvm.translate_to_asm(source, triple, cpu, "", [], False, False, False)
    _compare(machine, points, text, "triton")


# --------------------------------------------------------------------------- against brute force


def _resident(machine: Machine, **demand: int) -> int:
    got = occupancy(machine, Demand(**demand)).workgroups_per_cu  # type: ignore[arg-type]
    assert got is not None
    return got


def _pack(machine: Machine, registers: int, lds: int, waves: int, wave: int) -> int:
    """Fills one unit with whole workgroups by the meaning of the figures, not by the formulas."""
    granule, total = machine.vgpr_granule[wave], machine.vgpr_total[wave]
    share = max(-(-registers // granule), 1) * granule
    block = machine.lds_granule["hardware"]
    taken = -(-lds // block) * block
    if registers > machine.vgpr_addressable or lds > machine.lds_max:
        return 0
    per_simd, free_lds = [0] * machine.eus, machine.lds_pool
    groups = 0
    while groups < machine.barriers or waves == 1:
        if taken > free_lds:
            break
        for _ in range(waves):
            simd = per_simd.index(min(per_simd))
            per_simd[simd] += 1
        if max(per_simd) > machine.max_waves or max(per_simd) * share > total:
            break
        free_lds -= taken
        groups += 1
    return groups


@pytest.mark.parametrize("arch", names())
def test_resident_equals_packing_whole_workgroups(arch: str) -> None:
    machine, rng = load(arch), random.Random(f"pack {arch}")
    for _ in range(150):
        wave = rng.choice(machine.wave_sizes)
        waves = rng.randint(1, machine.max_workgroup_size // wave)
        registers = rng.randint(1, machine.vgpr_addressable)
        lds = rng.choice([0, rng.randint(1, machine.lds_max + 600)])
        demand = Demand(registers, 0, None, lds, waves, wave)
        got = occupancy(machine, demand)
        assert got.workgroups_per_cu == _pack(machine, registers, lds, waves, wave), demand


@pytest.mark.parametrize("arch", ["gfx906", "gfx908", "gfx90a", "gfx950", "gfx1030", "gfx1250"])
def test_next_step_is_the_smallest_cut_that_helps(arch: str) -> None:
    machine, rng = load(arch), random.Random(f"step {arch}")
    seen = set()
    for _ in range(60):
        wave = machine.wave_sizes[0]
        use = {
            "vgprs": rng.randint(1, 256),
            "agprs": rng.choice([0, rng.randint(1, 256)]) if machine.agpr != "none" else 0,
            "lds_bytes": rng.choice([0, rng.randint(1, machine.lds_max)]),
            "waves_per_workgroup": rng.randint(1, 1024 // wave),
            "sgprs": rng.randint(1, 102),
        }
        now, step = _resident(machine, **use), occupancy(machine, Demand(**use)).next_step
        if step is None:
            # Nothing left to cut helps: not even using nothing.
            free = {**use, "vgprs": 0, "agprs": 0, "lds_bytes": 0, "sgprs": 0}
            assert _resident(machine, **free) == now
            continue
        cuts = dict([(step.resource, step.reduce_by), *step.also])
        seen.update(cuts)
        after, less = dict(use), dict(use)
        for name, key in (("sgpr", "sgprs"), ("lds", "lds_bytes")):
            after[key] -= cuts.get(name, 0)
        best = max(_splits(machine, after, cuts.get("vgpr", 0)))
        assert best > now
        assert best * use["waves_per_workgroup"] / machine.eus == step.gives
        # One less of any of the cuts, the others made in full, changes nothing.
        for name in cuts:
            less = dict(use)
            for other, key in (("sgpr", "sgprs"), ("lds", "lds_bytes")):
                less[key] -= cuts.get(other, 0) - (1 if other == name else 0) * (other in cuts)
            registers = cuts.get("vgpr", 0) - (name == "vgpr")
            assert max(_splits(machine, less, registers)) == now, (use, step, name)
    assert {"vgpr", "lds"} <= seen


def _splits(machine: Machine, use: dict[str, int], drop: int) -> list[int]:
    """Resident workgroups for every way to take `drop` registers from VGPRs and AGPRs."""
    return [
        _resident(machine, **{**use, "vgprs": use["vgprs"] - v, "agprs": use["agprs"] - drop + v})
        for v in range(drop + 1)
        if v <= use["vgprs"] and drop - v <= use["agprs"]
    ]


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1100"])
@pytest.mark.parametrize("waves", [1, 3, 8])
@pytest.mark.parametrize("llvm", ["22", "triton"])
def test_levels_state_the_most_that_reaches_them(arch: str, waves: int, llvm: str) -> None:
    machine = load(arch)
    block = machine.lds_granule["hardware"]

    def groups(vgprs: int, lds: int, sgprs: int) -> int:
        demand = Demand(vgprs, 0, sgprs, lds, waves, llvm=llvm)
        return occupancy(machine, demand).workgroups_per_cu or 0

    levels = occupancy(machine, Demand(1, 0, 1, 0, waves, llvm=llvm)).levels
    assert levels[0].workgroups == groups(1, 0, 1)
    for level in levels:
        assert level.workgroups is not None
        assert level.lds_bytes is not None
        sgprs = 102 if level.sgprs is None else level.sgprs
        assert groups(level.vgprs, level.lds_bytes, sgprs) == level.workgroups
        assert groups(level.vgprs + 1, 0, 1) < level.workgroups
        assert groups(1, level.lds_bytes + block, 1) < level.workgroups
        if level.sgprs is not None:
            assert groups(1, 0, level.sgprs + 1) < level.workgroups
    # Every occupancy that any use reaches is a level.
    reached = {
        groups(v, lds, 1)
        for v, lds in itertools.product(
            range(1, machine.vgpr_addressable + 1, 3), range(0, machine.lds_max + 1, 8192)
        )
    }
    assert reached - {0} <= {level.workgroups for level in levels}


@settings(max_examples=60, deadline=None)
@given(
    arch=st.sampled_from(names()),
    vgprs=st.integers(0, 512),
    lds=st.integers(0, 70_000),
    waves=st.integers(1, 16),
    more=st.integers(0, 64),
)
def test_using_more_never_raises_occupancy(
    arch: str, vgprs: int, lds: int, waves: int, more: int
) -> None:
    machine = load(arch)
    base = _resident(machine, vgprs=vgprs, lds_bytes=lds, waves_per_workgroup=waves)
    for grown in (
        {"vgprs": vgprs + more, "lds_bytes": lds},
        {"vgprs": vgprs, "lds_bytes": lds + 16 * more},
    ):
        assert _resident(machine, waves_per_workgroup=waves, **grown) <= base
