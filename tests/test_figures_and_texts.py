"""Figures and texts that outsiders found wrong, each with what is right."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import in_process
import pytest
from kept_compiles import collect_kept
from kinspect.inspector.compare.sweep.figures import figures_of
from kinspect.inspector.compare.sweep.swept_points import PER_WORK, loss
from kinspect.inspector.explain.occupancy_view import occupancy_lines
from kinspect.inspector.lint.packs import bundled_packs, load_named
from kinspect.inspector.model import Demand, KernelReport, Metric
from kinspect.inspector.pipeline.analysis import catalogue
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

LLVM_MC, READELF = shutil.which("llvm-mc-22"), shutil.which("llvm-readelf-22")
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
{metadata} .end_amdgpu_metadata
"""
METADATA = """\
---
amdhsa.version: [1, 2]
amdhsa.kernels:
  - .name: k
    .symbol: k.kd
    .kernarg_segment_size: 0
    .kernarg_segment_align: 8
    .group_segment_fixed_size: {lds}
    .private_segment_fixed_size: 0
    .wavefront_size: {wave_size}
    .sgpr_count: 8
    .vgpr_count: {vgprs}
    .agpr_count: 0
    .max_flat_workgroup_size: 1024
...
"""
WGP_MODE = "\t\t.amdhsa_wavefront_size32 1\n\t\t.amdhsa_workgroup_processor_mode {mode}\n"
CDNA = "\t\t.amdhsa_accum_offset {vgprs}\n"


def kinspect(*arguments: object, status: int | None = 0) -> str:
    done = in_process.kinspect(*map(str, arguments), cwd=Path.cwd())
    assert status is None or done.returncode == status, done.stdout + done.stderr
    return done.stdout


def report_of(values: Mapping[str, int | str]) -> KernelReport:
    """A report of figures alone."""
    metrics = {name: Metric(name, value, "", "derived") for name, value in values.items()}
    return KernelReport(
        id="k",
        name="k",
        arch="gfx1100",
        source=None,
        variant=None,
        artifacts={},
        metrics=metrics,
        loops=(),
        main_loop=None,
        memory_ops=(),
        waits=(),
        findings=(),
    )


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
    metadata = METADATA.format(vgprs=256, wave_size=size, lds=0)
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
    kernel = replace(report_of(values), demand=Demand(vgprs=16, cu_mode=cu_mode))
    assert occupancy_lines(kernel) == [
        f"16 waves/SIMD = 32 workgroups/{unit}: limited by the workgroup limit of a {unit} with 2 "
        "waves/workgroup",
        f"6,144 workgroups in 2 rounds on {96 if cu_mode else 48} {unit}s: 100 % of their places "
        "used",
    ]


# --------------------------------------------------------------------------- no access is 0

LOOP = """\
	s_load_dwordx4 s[4:7], s[0:1], 0x0
	v_lshlrev_b32_e32 v1, 2, v0
	s_mov_b32 s8, 64
	s_waitcnt lgkmcnt(0)
.Lloop:
{body}	s_add_i32 s8, s8, -1
	s_cmp_lg_u32 s8, 0
	s_cbranch_scc1 .Lloop
	s_endpgm
"""
LOAD = "\tglobal_load_dword v2, v1, s[4:5]\n\ts_waitcnt vmcnt(0)\n"
STORE = "\tglobal_store_dword v1, v2, s[6:7]\n"
EXCHANGE = "\tds_write_b32 v1, v2\n\tds_read_b32 v2, v1\n\ts_waitcnt lgkmcnt(0)\n"
BODIES = {
    "exchange": LOAD + EXCHANGE + STORE,
    "plain": LOAD + STORE,
    "lds": EXCHANGE,
    "flat": "\tflat_load_dword v2, v[4:5]\n\ts_waitcnt vmcnt(0) lgkmcnt(0)\n" + STORE,
}


def assembly(name: str, folder: Path) -> Path:
    """A loop in LDS and global memory, by its body."""
    lds = 1024 if "ds_" in BODIES[name] else 0
    directives = f"{CDNA.format(vgprs=8)}\t\t.amdhsa_group_segment_fixed_size {lds}\n"
    metadata = METADATA.format(vgprs=8, wave_size=64, lds=lds)
    text = KERNEL.format(arch="gfx942", vgprs=8, directives=directives, metadata=metadata)
    path = folder / f"{name}.s"
    path.write_text(text.replace("\ts_endpgm\n", LOOP.format(body=BODIES[name])))
    return path


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        ("plain", {"lds.conflict_cycles": 0, "lds.data_cycles": 0, "cache.lines": 4}),
        ("lds", {"lds.conflict_cycles": 0, "cache.lines": 0, "cache.lines_ideal": 0}),
        ("lds", {"cache.line_use": None}),  # a share of nothing
        ("flat", {"lds.conflict_cycles": None}),  # may be of the LDS
    ],
)
def test_no_access_takes_nothing(
    name: str, figures: Mapping[str, int | None], tmp_path: Path
) -> None:
    (kernel,) = collect(Request((str(assembly(name, tmp_path)),), jobs=1)).kernels
    (loop,) = kernel.loops
    assert {figure: loop.metrics[figure].value for figure in figures} == figures


@pytest.mark.parametrize(("before", "after"), [("exchange", "plain"), ("plain", "plain")])
def test_an_exchange_that_goes_is_no_unknown(before: str, after: str, tmp_path: Path) -> None:
    paths = assembly(before, tmp_path), assembly(after, tmp_path)
    output = kinspect("diff", *paths, "--fail-on", "regression")
    assert "unknown" not in output


def test_products_that_no_matrix_unit_does_are_the_worst_without_a_loop_too() -> None:
    counts = {"count.mfma": 0, "count.wmma": 0, "cycles.mfma": 0, "count.full_wait": 2}
    figures = figures_of(report_of({**counts, "work.macs": 4096, "waves_per_workgroup": 4}))
    assert (figures.matrix_per_iteration, figures.full_waits_per_iteration) == (0, 2)
    columns = ("matrix_cycles_per_work", "full_waits_per_work")
    objectives = [o for o in PER_WORK["mac"] if o.column in columns]
    assert [loss(figures, objective) for objective in objectives] == [math.inf, math.inf]


# --------------------------------------------------------------------------- kernel metadata

BLOCK = METADATA.format(wave_size=64, lds=96, vgprs=7).removeprefix("---\n").removesuffix("...\n")
BLOCKS = {
    "usual": f"---\n{BLOCK}...\n",
    "ends with a second separator": f"---\n{BLOCK}---\n",
    "ends with both": f"---\n{BLOCK}...\n---\n",
    "has no end": f"---\n{BLOCK}",
    "has no beginning": f"{BLOCK}...\n",
    "begins twice": f"---\n--- # c\n{BLOCK}...\n",
    "a second document": f"---\n{BLOCK}---\nfoo: bar\n...\n",
    "a damaged second document": f"---\n{BLOCK}...\n---\n[ {{\n",
    "text behind the end": f"---\n{BLOCK}... # c\nfoo bar\n",
    "comments of YAML": f"%YAML 1.2\n--- # c\n# c\n{BLOCK.replace('96', '96 # c')}--- # c\n",
    "comments of the assembler": "---\n; c\n" + BLOCK.replace(" 96", " 96 // c") + "---\n",
    "a comment's sign in quotes": f'---\namdhsa.printf: ["1:1:4:a;b//c"]\n{BLOCK}---\n',
    "tabs": "---\n" + BLOCK.replace("size: 96", "size:\t96\t") + "---\n",
    "quotes": "---\n" + BLOCK.replace(".name: k", "\".name\": 'k'") + "---\n",
    "a number in quotes": "---\n" + BLOCK.replace(" 96", ' "96"') + "---\n",
    "other line ends": f"---\n{BLOCK}---\n".replace("\n", "\r\n"),
    "blank lines": "\n---\n\n" + BLOCK.replace("\n", "\n\n") + "\n---\n",
}


@pytest.mark.parametrize("name", BLOCKS)
def test_metadata_is_read_as_llvm_reads_it(name: str, tmp_path: Path) -> None:
    text = KERNEL.format(
        arch="gfx942", vgprs=8, directives=CDNA.format(vgprs=8), metadata=BLOCKS[name]
    )
    source = tmp_path / "k.s"
    source.write_bytes(text.encode())
    (kernel,) = collect(Request((str(source),), jobs=1)).kernels
    assert kernel.name == "k"
    assert not [note for note in kernel.notes if "metadata" in note]
    assert (kernel.metrics["lds_bytes"].value, kernel.metrics["vgpr_count"].value) == (96, 7)
    if LLVM_MC is None or READELF is None:
        pytest.skip("needs LLVM 22's tools")
    built = tmp_path / "k.o"
    target = ("-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-filetype=obj")
    subprocess.run([LLVM_MC, *target, source, "-o", built], check=True)
    notes = subprocess.check_output([READELF, "--notes", built], text=True)
    figures = dict(re.findall(r"\.(name|group_segment_fixed_size|vgpr_count): +(\S+)", notes))
    assert figures == {"name": "k", "group_segment_fixed_size": "96", "vgpr_count": "7"}


# --------------------------------------------------------------------------- VGPRs asked for


@pytest.mark.parametrize(
    ("used", "requested", "words"),
    [
        # 512 registers hold two waves with 169 to 256 of them, 8 with up to 64.
        (41, 169, "2 waves/SIMD by the VGPRs asked for: 176, of which 41 are used"),
        (169, 169, "2 waves/SIMD by VGPRs"),
        (41, 64, "8 waves/SIMD by VGPRs"),
    ],
)
def test_what_limits_waves_where_the_lds_is_not_known(
    used: int, requested: int, words: str, tmp_path: Path
) -> None:
    (kernel,) = collect(Request((str(asking(used, requested, tmp_path)),), jobs=1)).kernels
    note = " with 4 waves/workgroup" if "asked" in words else ""
    assert occupancy_lines(kernel)[0] == f"at most {words}{note}   (LDS unknown)"


def test_diff_names_the_request(tmp_path: Path) -> None:
    paths = asking(41, 64, tmp_path), asking(41, 169, tmp_path)
    output = kinspect("diff", *paths, "--fail-on", "never")
    assert "8 → 2 waves/SIMD: limited by the VGPRs that the kernel asks for" in output


def asking(used: int, requested: int, folder: Path) -> Path:
    """A kernel of dynamic LDS, of 256 work-items at most, by its VGPRs."""
    metadata = METADATA.format(vgprs=used, wave_size=64, lds=0).replace("1024", "256")
    directives = CDNA.format(vgprs=-(-requested // 4) * 4)
    text = KERNEL.format(arch="gfx942", vgprs=requested, directives=directives, metadata=metadata)
    path = folder / f"k{used}-{requested}.s"
    path.write_text(text.replace("\ts_endpgm\n", "\tds_write_b32 v1, v2\n\ts_endpgm\n"))
    return path


# --------------------------------------------------------------------------- narrow writes

NARROW = """
import torch, triton, triton.language as tl

@triton.jit
def scores(q, k, o, sk, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, W: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    x = tl.load(q + m[:, None] * D + d[None, :])
    for j in range(0, n, BN):
        c = j + tl.arange(0, BN)
        y = tl.load(k + c[None, :] * (sk // W * W) + d[:, None])
        tl.store(o + m[:, None] * n + c[None, :], tl.dot(x, y).to(tl.float16))

half = dict(dtype=torch.float16, device="cuda")
q, k, o = (torch.empty(4096, columns, **half) for columns in (64, 72, 4096))
for W in 1, 8:
    scores[(64,)](q, k, o, 72, 4096, BM=64, BN=32, D=64, W=W, num_warps=4, num_stages=1)
"""


@pytest.mark.parametrize("arch", ["gfx942", "gfx1151"])
def test_a_write_as_narrow_as_its_load_says_so(arch: str, tmp_path: Path) -> None:
    """With sk // 8 * 8 the load is wide, and the write with it: nothing else was changed."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    (tmp_path / "narrow.py").write_text(NARROW)
    request = Request((str(tmp_path / "narrow.py"),), (arch,), passes=False, jobs=1)
    for kernel in collect_kept(request).kernels:
        assert kernel.variant is not None
        writes = {a.bits: a for a in kernel.accesses if a.cls == "lds_write"}
        if kernel.variant.constexprs["W"] == 8:
            assert 16 not in writes
            continue
        assert "the load that brings the tile (line 11) takes 1 element at" in writes[16].reason
        assert writes[16].fix.startswith("Make that load wider")


# --------------------------------------------------------------------------- loads into LDS

WIDE = "\tglobal_load_dwordx4 v[4:7], v1, s[4:5]\n"
HALF = "\tglobal_load_dwordx2 v[2:3], v1, s[4:5]\n"
INTO_LDS = "\ts_mov_b32 m0, 0\n\tglobal_load_lds_dwordx4 v1, s[4:5]\n"
NARROW_INTO_LDS = INTO_LDS.replace("x4", "")


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (7 * WIDE + HALF, 7 * INTO_LDS + HALF, None),  # 120 bits in the mean, before and after
        (8 * WIDE, 8 * INTO_LDS, None),
        (7 * WIDE + HALF, 7 * NARROW_INTO_LDS + HALF, "120 → 36 bits per load from memory"),
        (7 * INTO_LDS + HALF, 7 * WIDE + HALF, None),
        (8 * WIDE, 8 * HALF, "128 → 64 bits per load from memory"),
    ],
)
def test_loads_into_lds_count_among_the_loads(
    before: str, after: str, words: str | None, tmp_path: Path
) -> None:
    texts = []
    for side, loads in (("before", before), ("after", after)):
        BODIES[side] = f"{loads}\ts_waitcnt vmcnt(0)\n"
        texts.append(assembly(side, tmp_path).with_suffix(".s"))
        texts[-1].write_text(texts[-1].read_text().replace("gfx942", "gfx950"))
    output = kinspect("diff", *texts, "--fail-on", "never")
    told = [line for line in output.splitlines() if "bits per load" in line]
    assert (told == []) if words is None else (len(told) == 1 and words in told[0])
