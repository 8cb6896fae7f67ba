"""Sweeps end to end: axes through the front end and past it, tables, errors, the store."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kinspect.inspector import formats as render
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.options import CaptureOptions
from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.capture.sweep_axes import BACKEND_ONLY, Axis, axes_of
from kinspect.inspector.compare.sweep.sweeping import SweepRequest, collect, run_point
from kinspect.inspector.compare.sweep.swept_points import PointResult, Sweep
from kinspect.inspector.compile.pool import Compiler, CompileSettings
from kinspect.inspector.pipeline.jobs import Request, request_for, timing
from msgspec.structs import replace

pytest.importorskip("triton")
pytestmark = [pytest.mark.xdist_group("sweep"), pytest.mark.usefixtures("shared_guests")]

KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"
SCHEMA = json.loads((Path(render.__file__).parent / "sweep.schema.json").read_bytes())
SETTINGS = ("num_warps=2,4", "num_stages=0,1", "BLOCK=64,256")

SCRIPT = """
import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK": block}, num_warps=warps) for block in (128, 512) for warps in (2, 4)
]

@triton.autotune(CONFIGS, key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def scale(x_ptr, n, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + at, tl.load(x_ptr + at) * factor)
    else:
        tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) * factor, mask=at < n)

x = torch.ones(384, device="cuda")
scale[lambda meta: (triton.cdiv(384, meta["BLOCK"]),)](x, 384, 2.0)
"""


def request_of(
    target: Path, *settings: str, kernel: str | None = None, autotune: bool = False, **more: Any
) -> SweepRequest:
    run = Request((str(target),), ("gfx942",), kernel=kernel, jobs=2)
    return SweepRequest(run, axes_of(settings), autotune, **more)


def values(sweep: Sweep) -> list[dict[str, Any]]:
    return [dict(line.values) for table in sweep.tables for line in table.lines]


@pytest.fixture(scope="module")
def gemm() -> Sweep:
    return collect(request_of(KERNELS, *SETTINGS, kernel="gemm[square]"))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("script") / "scale.py"
    path.write_text(SCRIPT)
    return path


# ------------------------------------------------------------------ the product


def test_the_whole_product_in_the_order_it_was_typed(gemm: Sweep) -> None:
    assert gemm.counts.missing == 0
    assert not gemm.errors
    (table,) = gemm.tables
    assert (table.kernel, table.case, table.arch) == ("gemm", "square", "gfx942")
    assert table.names == ("num_warps", "num_stages", "BLOCK")
    assert values(gemm) == [
        {"num_warps": w, "num_stages": s, "BLOCK": b}
        for w in (2, 4)
        for s in (0, 1)
        for b in (64, 256)
    ]


def test_figures_are_those_of_a_report_on_the_same_variant(gemm: Sweep) -> None:
    """Read off the assembly of a separate compile, without the analysis."""
    line = next(li for li in gemm.tables[0].lines if li.values["BLOCK"] == 64)
    with Compiler(CompileSettings(read_store=False)) as compiler:
        artifacts = compiler.compile(line.row.point.variant).artifacts
        assembly = artifacts["amdgcn"].path.read_text()
        metadata = json.loads(artifacts["metadata"].path.read_bytes())
    figures = line.row.figures
    assert figures is not None
    stated = dict(
        text.strip().removeprefix(".").split(":", 1)
        for text in assembly.splitlines()
        if text.strip().startswith((".vgpr_count:", ".sgpr_count:", ".vgpr_spill_count:"))
    )
    assert figures.vgprs == int(stated["vgpr_count"])
    assert figures.sgprs == int(stated["sgpr_count"])
    assert figures.vgpr_spills == int(stated["vgpr_spill_count"])
    assert figures.lds_bytes == metadata["shared"]
    assert figures.waves_per_workgroup == metadata["num_warps"] == line.values["num_warps"]
    assert figures.isa_sha256 == artifacts["amdgcn"].sha256
    body = assembly[assembly.index("s_cbranch") :]
    assert 0 < (figures.matrix_per_iteration or 0) <= body.count("v_mfma")


def test_equal_code_is_marked(gemm: Sweep) -> None:
    """Triton pipelines from two stages on: 0 and 1 are the same code."""
    lines = gemm.tables[0].lines
    first = {(li.values["num_warps"], li.values["BLOCK"]): li.number for li in lines[::-1]}
    for line in lines:
        same = first[line.values["num_warps"], line.values["BLOCK"]]
        assert line.same_as == (same if line.values["num_stages"] == 1 else None)


def test_what_cannot_launch_says_why_and_is_not_on_the_front(gemm: Sweep) -> None:
    lines = gemm.tables[0].lines
    for line in lines:
        figures = line.row.figures
        assert figures is not None
        assert figures.lds_bytes is not None
        over = figures.lds_bytes > 65536  # of a gfx942 CU
        assert (figures.cannot_launch is not None) == over
        if over:
            assert "LDS" in str(figures.cannot_launch)
            assert not line.pareto
    assert any(line.pareto for line in lines)


def test_matrix_work_that_waves_repeat_does_not_win() -> None:
    """Attention with 64×32 tiles and head size 256, by MFMAs of 16×16 and of 32×32.

    Per matrix cycle the latter wait less often, since they do half as much again for nothing.
    """
    file = Path(__file__).parents[1] / "kernels" / "flash_attn.py"
    name = "flash_attn_kernel[d256_causal_64x32_preload_v]"
    (table,) = collect(request_of(file, "matrix_instr_nonkdim=16,32", kernel=name)).tables
    small, large = (line.row.figures for line in table.lines)
    assert small is not None
    assert large is not None
    assert (small.matrix_cycles_per_iteration, large.matrix_cycles_per_iteration) == (1024, 1536)
    needed = 64 * 32 * 256 + 64 * 256 * 32  # M·N·K of Q·Kᵀ and of P·V
    assert small.work_per_iteration == large.work_per_iteration == needed
    for figures in (small, large):
        assert figures.full_waits_per_iteration is not None
        waits = figures.full_waits_per_iteration * 4 * 1e6 / needed  # of four waves
        assert figures.full_waits_per_work == pytest.approx(waits, abs=1e-3)
    assert [line.pareto for line in table.lines] == [True, False]


def test_a_second_sweep_is_answered_from_the_store(gemm: Sweep) -> None:
    again = collect(request_of(KERNELS, *SETTINGS, kernel="gemm[square]"))
    assert all(row.from_store for row in again.rows)
    assert [r.figures for r in again.rows] == [r.figures for r in gemm.rows]
    assert [li.pareto for li in again.tables[0].lines] == [li.pareto for li in gemm.tables[0].lines]


def test_a_compile_with_its_pass_dump_serves_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path))
    request = request_of(KERNELS, "num_warps=4", kernel="row_sum")
    with Compiler(CompileSettings(passes=True)) as compiler, compiler.worker() as worker:
        (variant,), _ = capture_script(worker, KERNELS, ["gfx942"], ["row_sum"])
        compiler.compile(replace(variant, options={**variant.options, "num_warps": 4}))
    first, second = collect(request), collect(request)
    assert [row.from_store for row in first.rows + second.rows] == [True, True]
    assert first.rows[0].figures == second.rows[0].figures
    assert len(list(tmp_path.glob("artifacts-*/*/*"))) == 1  # and no other compile was made
    assert len(list(tmp_path.glob("artifacts-*/*/*/figures-*"))) == 1


def test_damaged_notes_are_worked_out_again(gemm: Sweep) -> None:
    point = gemm.rows[2].point
    with Compiler(CompileSettings()) as compiler:
        folder = compiler.store.get(compiler.key(point.variant)).artifacts["ttir"].path.parent  # type: ignore[union-attr]
        (note,) = folder.glob("figures-*")
        note.write_bytes(note.read_bytes()[:-5])
        from kinspect.inspector.pipeline.analysis_options import Overrides
        from kinspect.inspector.pipeline.jobs import Job

        job = Job((0, 0), point.file, point.variant, compiler.settings, Overrides())
        outcome = run_point(job, compiler)
        assert outcome.figures == gemm.rows[2].figures
        assert outcome.from_store  # the compile itself was there
        assert note.read_bytes().endswith(b"}")


@pytest.mark.parametrize("name", sorted(BACKEND_ONLY - {"instruction_sched_variant"}))
def test_the_front_end_does_not_read_what_is_set_behind_it(name: str, tmp_path: Path) -> None:
    """One TTIR serves all values of these options: that is why they need no front end."""
    other = {
        "allow_flush_denorm": True,
        "enable_fp_fusion": False,
        "kpack": 2,
        "llvm_fn_attrs": "noinline",
        "matrix_instr_nonkdim": 32,
        "num_stages": 3,
        "num_warps": 8,
        "schedule_hint": "attention",
        "waves_per_eu": 2,
        "wgp_cu_mode": "cu",
    }[name]
    path = tmp_path / "kernels.py"
    text = KERNELS.read_text()
    assert '"options": {"num_warps": 4}' in text
    options = f'"options": {{"{name}": {other!r}}}'
    path.write_text(text.replace('"options": {"num_warps": 4}', options))
    with Compiler(CompileSettings()) as compiler, compiler.worker() as worker:
        if name not in compiler.toolchain().options:
            pytest.skip("this Triton has no such option")
        (plain,), errors = capture_script(worker, KERNELS, ["gfx942"], ["square"])
        (varied,), more = capture_script(worker, path, ["gfx942"], ["square"])
    assert not errors + more
    assert varied.options[name] == other
    assert varied.ttir.replace(str(path), str(KERNELS)) == plain.ttir


# ------------------------------------------------------------------ scripts and autotuners


def test_axes_of_an_autotuned_script_replace_one_configuration(script: Path) -> None:
    found = collect(request_of(script, "BLOCK=64,256", "num_warps=1,4"))
    assert not found.errors
    (table,) = found.tables
    assert table.names[:2] == ("BLOCK", "num_warps")
    assert [(v["BLOCK"], v["num_warps"]) for v in values(found)] == [
        (64, 1),
        (64, 4),
        (256, 1),
        (256, 4),
    ]
    assert "EVEN" in table.names  # the heuristic saw each value: 384 is a multiple of 64 only
    assert [v["EVEN"] for v in values(found)] == [True, True, False, False]
    assert all(row.figures is not None for row in found.rows)


PARTS = """
import torch, triton, triton.language as tl

@triton.jit
def add_up(x, y, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at))

x, y = (torch.empty(1 << 20, device="cuda") for _ in range(2))
add_up[lambda meta: (meta["SPLIT"],)](x, y, BLOCK=256, SPLIT=4096)
"""


def test_points_that_access_what_is_not_passed_have_no_time(tmp_path: Path) -> None:
    """Where all do, they are compared all the same: the launch is the user's own."""
    pytest.importorskip("torch")
    path = tmp_path / "parts.py"
    path.write_text(PARTS)
    told = {
        values: [
            (row.figures.time_us is not None, row.figures.no_time)
            for row in timed_rows(path, f"SPLIT={values}")
            if row.figures is not None
        ]
        for values in ("2048,4096,65536", "32768,65536")
    }
    outside = "parts.py:7 accesses memory outside of all arguments"
    assert told["2048,4096,65536"] == [(True, None), (True, None), (False, outside)]
    assert told["32768,65536"] == [(True, None), (True, None)]


def timed_rows(path: Path, *settings: str) -> list[PointResult]:
    run = request_for((str(path),), archs=("gfx942",), jobs=2, analysis=timing())
    (table,) = collect(SweepRequest(run, axes_of(settings))).tables
    return [line.row for line in table.lines]


def test_the_files_own_configurations(script: Path) -> None:
    found = collect(request_of(script, autotune=True))
    configs = {(v["BLOCK"], v["num_warps"]) for v in values(found)}
    assert configs == {(128, 2), (128, 4), (512, 2), (512, 4)}
    both = collect(request_of(script, "waves_per_eu=0,1", autotune=True))
    assert len(both.rows) == 8


@pytest.mark.parametrize(("settings", "of"), [((), 4), (("BLOCK=64",), 2)])
def test_configurations_left_out_are_counted(
    script: Path, settings: tuple[str, ...], of: int
) -> None:
    request = request_of(script, *settings, autotune=True)
    capture = replace(CaptureOptions(), max_configs=1)
    found = collect(replace(request, run=replace(request.run, capture=capture)))
    assert len(found.rows) == 1
    assert any(f"1 of {of} autotune configs are looked at" in n for n in found.notes), found.notes


def test_a_value_that_the_front_end_refuses_costs_only_itself() -> None:
    found = collect(request_of(KERNELS, "BLOCK=48,256", kernel="row_sum"))
    assert values(found) == [{"BLOCK": 256}]
    (error,) = found.errors
    assert "BLOCK=48" in error.message
    assert "power of 2" in error.message


def test_a_ttir_file(gemm: Sweep, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ttir"
    path.write_text(gemm.rows[0].point.variant.ttir)
    found = collect(request_of(path, "num_warps=2,3,4"))
    assert [row.error is None for row in found.rows] == [True, False, True]
    assert "num_warps" in str(found.rows[1].error)
    assert found.rows[0].figures is not None
    with pytest.raises(KinspectError, match="BLOCK: not an option"):
        collect(request_of(path, "BLOCK=64"))


# ------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("num_wraps=4",), "did you mean num_warps"),
        (("BLOK=4",), "did you mean BLOCK"),
        (("debug=true",), "front end reads this option"),
        (("stride_a=1,2",), "cannot be varied here"),
        ((), "nothing to sweep"),
    ],
)
def test_refused_before_anything_is_compiled(
    settings: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINSPECT_CACHE_DIR", str(tmp_path))
    with pytest.raises(KinspectError, match=said):
        collect(request_of(KERNELS, *settings, kernel="gemm"))
    assert not list(tmp_path.glob("artifacts-*"))


def test_too_many_points_are_counted() -> None:
    with pytest.raises(KinspectError, match="16 points per kernel and target: the limit is 15"):
        collect(request_of(KERNELS, "num_warps=1,2,4,8", "waves_per_eu=0..3", most_points=15))
    with pytest.raises(KinspectError, match=r"8 points or more: the limit is 7"):
        collect(request_of(KERNELS, "num_warps=1,2,4,8", most_points=7))  # two kernels


def test_a_compiled_file_has_nothing_to_sweep(small_asm: Path) -> None:
    with pytest.raises(KinspectError, match="compiled already"):
        collect(request_of(small_asm, "num_warps=4"))


# ------------------------------------------------------------------ the command line


def run(tool: Callable[..., Any], *more: str | Path) -> Any:
    settings = [part for text in SETTINGS for part in ("--set", text)]
    return tool("sweep", KERNELS, "--kernel", "gemm", "--arch", "gfx942", *settings, *more)


def test_json_follows_its_schema(tool: Callable[..., Any], gemm: Sweep) -> None:
    done = run(tool, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    assert report["points"] == {"done": 8, "failed": 0, "from_store": 8, "missing": 0}
    (table,) = report["tables"]
    assert [row["point"] for row in table["rows"]] == values(gemm)
    known = {column["name"] for column in report["columns"]}
    assert known <= set(table["rows"][0]["figures"])
    settings = table["rows"][0]["settings"]  # what all points share as well
    assert settings.items() >= table["rows"][0]["point"].items()
    assert set(settings) > set(table["rows"][0]["point"])


def test_csv_has_units_and_sorts(tool: Callable[..., Any], gemm: Sweep) -> None:
    done = run(tool, "--format", "csv", "--sort=-vgprs")
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == 8
    assert "lds_bytes [bytes]" in rows[0]
    assert {row["types"] for row in rows} == {" ".join(gemm.tables[0].types)}
    shared = set(gemm.rows[0].point.variant.constexprs)  # whether or not it varies
    assert shared <= set(rows[0])
    vgprs = [int(row["vgprs [registers]"]) for row in rows]
    assert vgprs == sorted(vgprs, reverse=True)
    lines = gemm.tables[0].lines
    assert {int(r["number"]): int(r["pareto"]) for r in rows} == {
        li.number: int(li.pareto) for li in lines
    }


def test_text_marks_the_front_and_promises_nothing(tool: Callable[..., Any], gemm: Sweep) -> None:
    done = run(tool, "--front")
    front = [li for li in gemm.tables[0].lines if li.pareto]
    marked = [
        line for line in done.stdout.splitlines() if line.startswith("  * ") and "KiB" in line
    ]
    assert [int(line.split()[1]) for line in marked] == [li.number for li in front]
    assert "not a ranking" in " ".join(done.stdout.split())
    assert "8 from the store" in done.stdout
    assert "best" not in done.stdout.lower()


def test_an_unknown_column_is_refused_at_once(tool: Callable[..., Any]) -> None:
    done = run(tool, "--sort", "vgpr")
    assert done.returncode == 2
    assert "did you mean vgprs" in done.stderr


def test_output_goes_to_a_file(tool: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "sweep.json"
    done = run(tool, "--format", "json", "--output", path)
    assert done.stdout == ""
    jsonschema.validate(json.loads(path.read_bytes()), SCHEMA)


def test_without_dask_a_scheduler_is_one_line(tool: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "distributed.py").write_text("raise ImportError('not here')\n")
    settings = ("--set", "num_warps=4", "--scheduler", "tcp://127.0.0.1:9")
    done = tool("sweep", KERNELS, *settings, env={"PYTHONPATH": str(tmp_path)})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'kinspect[dask]'" in done.stderr


def test_options_of_the_capture_reach_it(script: Path) -> None:
    request = request_of(script, "num_warps=1")
    capture = replace(CaptureOptions(), calls=("scale[(1,)](T(64), 64, 1.0)",))
    found = collect(replace(request, run=replace(request.run, capture=capture)))
    assert all(row.figures is not None for row in found.rows)
    assert found.axes == (Axis("num_warps", (1,)),)
