"""Which layer of two Tritons is responsible for a figure, and the history of things in passes.

Verdicts are pure and always tested. Compiles by two Tritons need a second one:
`KINSPECT_TRITONS=3.6=/path/to/python pytest tests/test_blame.py`.
"""

from __future__ import annotations

import io
import json
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.compare.blame.respelling import newer_spellings
from kinspect.inspector.compare.blame.results import Blame, Layer, Step
from kinspect.inspector.compare.blame.swaps import blame
from kinspect.inspector.compare.blame.verdicts import differing_metric, shares_of, verdict_of
from kinspect.inspector.compile.llvm_passes import machine_passes, pass_times
from kinspect.inspector.compile.tritons import known_tritons
from kinspect.inspector.formats import blame_json, blame_text
from kinspect.inspector.pipeline.jobs import Request

GEMM = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def product(a, b, c, N, K, M: tl.constexpr, BK: tl.constexpr):
        rows = tl.program_id(0) * M + tl.arange(0, M)
        columns = tl.program_id(1) * M + tl.arange(0, M)
        inner = tl.arange(0, BK)
        at_a = a + rows[:, None] * K + inner[None, :]
        at_b = b + inner[:, None] * N + columns[None, :]
        total = tl.zeros((M, M), tl.float32)
        for _ in range(0, K, BK):
            total += tl.dot(tl.load(at_a), tl.load(at_b))
            at_a += BK
            at_b += BK * N
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))

    x = torch.empty((4096, 4096), dtype=torch.float16, device="cuda")
    product[(32, 32)](x, x, x, 4096, 4096, 128, 64, num_warps=4)
"""
OLDER = next((label for label in known_tritons() if label.startswith("3.6")), None)
needs_older = pytest.mark.skipif(OLDER is None, reason="needs Triton 3.6, see KINSPECT_TRITONS")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blame") / "product.py"
    path.write_text(textwrap.dedent(GEMM))
    return path


def _step(spills: float | None, *layers: Layer, problem: str | None = None) -> Step:
    metrics = {} if spills is None else {"vgpr_spill_count": spills}
    return Step("ttir", "a", "b", "a", layers, metrics, {}, problem)


def test_shares_sum_to_the_change_and_the_first_half_is_responsible() -> None:
    steps = [
        _step(4),
        _step(10, "llvm"),
        _step(None, "llvm_ir", problem="does not parse"),
        _step(40, "ttgir", "llvm_ir"),
        _step(40, "option_default"),
        _step(38, "front_end"),
    ]
    shares = shares_of(steps, "vgpr_spill_count")
    assert [(s.layers, s.delta) for s in shares] == [
        (("front_end",), -2),
        (("option_default",), 0),
        (("ttgir", "llvm_ir"), 30),
        (("llvm",), 6),
    ]
    assert differing_metric(steps) == "vgpr_spill_count"
    verdict = verdict_of(shares, None, True, {})
    assert verdict.layers == ("ttgir", "llvm_ir")
    assert verdict.share == pytest.approx(30 / 34)


def test_no_change_has_no_layer() -> None:
    shares = shares_of([_step(4), _step(4, "llvm")], "vgpr_spill_count")
    assert verdict_of(shares, None, True, {}).layers == ()


def test_an_unknown_figure_has_no_share() -> None:
    shares = shares_of([_step(4), _step(None, "llvm"), _step(5, "llvm_ir")], "vgpr_spill_count")
    assert [share.delta for share in shares] == [None, None]


def test_changed_defaults_are_named() -> None:
    shares = shares_of([_step(0), _step(9, "option_default")], "vgpr_spill_count")
    verdict = verdict_of(shares, None, True, {"waves_per_eu": (0, 2)})
    assert (verdict.layers, verdict.options) == (("option_default",), {"waves_per_eu": (0, 2)})


def test_buffer_accesses_and_barriers_are_respelled() -> None:
    older = (
        "%x = amdg.buffer_load %a[%o], %m : tensor<4x64xf16, #blocked> loc(#l)\n"
        "amdg.buffer_store %x, %c[%o] : tensor<64xi32, #blocked> loc(#l)\n"
        "rocdl.sched.barrier 1 loc(#l)\nrocdl.sched.barrier 16 loc(#l)\n"
    )
    (newer,) = newer_spellings(older)
    assert "%m : !tt.ptr<f16> -> tensor<4x64xf16" in newer
    assert "[%o] : !tt.ptr<i32> -> tensor<64xi32" in newer
    assert "barrier non_mem_non_sideeffect" in newer
    assert "barrier 16" in newer
    assert newer_spellings(newer) == ()


@needs_older
@pytest.mark.slow
def test_async_copies_double_lds_since_3_7_on_gfx950(script: Path) -> None:
    # Triton's own pull request 9087: num_stages buffers of LDS in place of num_stages - 1.
    result = _blame(script, "gfx950", "lds_bytes")
    assert result.verdict.layers == ("ttgir",)
    assert result.verdict.pass_name == "tritonamdgpu-pipeline"
    assert result.verdict.change == "content"
    assert result.verdict.share == 1
    first, *_, last = [step.metrics["lds_bytes"] for step in result.steps]
    assert last >= 2 * first


@pytest.mark.slow
def test_spills_of_3_7_on_gfx950_are_the_code_generator_s() -> None:
    # Reported with triton-lang/triton pull request 11249: attention spills since 3.7.
    labels = {label[:3]: label for label in known_tritons()}
    if not {"3.6", "3.7"} <= labels.keys():
        pytest.skip("needs Triton 3.6 and 3.7, see KINSPECT_TRITONS")
    path = Path(__file__).parents[1] / "kernels" / "flash_attn.py"
    request = Request((str(path),), ("gfx950",), "*d256_causal_128x64*")
    result = blame(request, (labels["3.6"], labels["3.7"]), "vgpr_spill_count")
    assert result.verdict.layers == ("llvm",)
    assert result.verdict.share is not None
    assert result.verdict.share > 0.9
    first, *_, last = [step.metrics["vgpr_spill_count"] for step in result.steps]
    assert last > 4 * first


@needs_older
@pytest.mark.slow
def test_the_report_fits_its_schema(script: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    result = _blame(script, "gfx942", None)
    stream = io.StringIO()
    blame_json.write(result, stream)
    schema = json.loads((Path(blame_json.__file__).parent / "blame.schema.json").read_text())
    jsonschema.validate(json.loads(stream.getvalue()), schema)
    text = io.StringIO()
    blame_text.write(result, text)
    assert "exchanged" in text.getvalue()


@pytest.mark.slow
def test_one_triton_twice_is_responsible_for_nothing(script: Path) -> None:
    pytest.importorskip("triton")
    request = Request((str(script),), ("gfx942",), passes=True)
    result = blame(request, (sys.executable, sys.executable))
    assert result.verdict.layers == ()
    assert all(step.problem is None for step in result.steps)
    # Every exchange, LLVM IR and TTGIR handed in included, gives the same figures.
    assert all(step.metrics == result.steps[0].metrics for step in result.steps)


def _blame(script: Path, arch: str, metric: str | None) -> Blame:
    assert OLDER is not None
    return blame(Request((str(script),), (arch,)), (OLDER, sys.executable), metric)


# ------------------------------------------------------------------ passes


@pytest.mark.parametrize(
    ("thing", "maker"),
    [("local_alloc", "tritonamdgpu-pipeline"), ("ttg.local_alloc", "tritonamdgpu-pipeline")],
)
def test_the_pass_that_makes_an_operation(
    script: Path, thing: str, maker: str, run_json: Callable[..., Any]
) -> None:
    history = run_json("passes", script, "--of", thing)
    assert history["at_start"] == 0
    first = history["events"][0]
    assert (first["name"], first["deed"], first["before"]) == (maker, "made", 0)
    bytes_after = [item["after"]["local_alloc_bytes"] for item in history["figures"]]
    assert bytes_after[-1] == 2 * 128 * 64 * 2  # one buffer for each operand


def test_the_layout_of_a_line_of_loads_widens_in_coalesce(
    script: Path, run_json: Callable[..., Any]
) -> None:
    line = str(textwrap.dedent(GEMM).splitlines().index(
        "        total += tl.dot(tl.load(at_a), tl.load(at_b))") + 1)  # fmt: skip
    history = run_json("passes", script, "--of", line)
    assert "tritongpu-coalesce" in [event["name"] for event in history["events"]]
    widths = {
        item["name"]: (item["before"]["load_elements"], item["after"]["load_elements"])
        for item in reversed(history["figures"])
    }
    assert widths["tritongpu-coalesce"] == (1, 8)


def test_llvm_allocates_no_fewer_registers_than_are_live(
    script: Path, run_json: Callable[..., Any]
) -> None:
    report = run_json("passes", script, "--llvm")
    live = [item for item in report["passes"] if item["pressure"] is not None]
    (final,) = report["passes"][-1:]
    assert live[-1]["pressure"] <= final["vgprs"] + final["agprs"]
    assert "greedy" in [item["cli"] for item in report["passes"]]
    assert {time["level"] for time in report["times"]} == {"mlir", "llvm"}


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    pytest.importorskip("triton")

    def run(command: str, script: Path, *arguments: str) -> Any:
        from kinspect.inspector.cli.main import main

        status = main([command, str(script), "--arch", "gfx942", *arguments, "--format", "json"])
        captured = capsys.readouterr()
        assert status == 0, captured.err
        return json.loads(captured.out)

    return run


MACHINE_CODE = """\
# *** IR Dump After Machine Instruction Scheduler (machine-scheduler) ***:
# Machine code for function f: NoPHIs, TracksLiveness

0B\tbb.0 (%ir-block.1):
\t  successors: %bb.1(0x80000000); %bb.1(100.00%)
16B\t  undef %1.sub0:vreg_64 = V_MOV_B32_e32 0, implicit $exec
32B\t  %1.sub1:vreg_64 = V_MOV_B32_e32 1, implicit $exec
48B\t  %2:vreg_128 = GLOBAL_LOAD_DWORDX4 %1:vreg_64, 0, 0, implicit $exec

64B\tbb.1 (%ir-block.2):
\t; predecessors: %bb.0, %bb.1
\t  successors: %bb.1(0x40000000), %bb.2(0x40000000); %bb.1(50.00%), %bb.2(50.00%)
80B\t  %3:vgpr_32 = V_ADD_U32_e64 %2.sub0:vreg_128, %1.sub1:vreg_64, 0, implicit $exec
96B\t  SI_SPILL_V32_SAVE %3:vgpr_32, %stack.0, $sgpr32, 0 :: (store (s32) into %stack.0)
100B\t  SI_SPILL_S32_SAVE %9:sgpr_32, %stack.1, $sgpr32 :: (store (s32) into %stack.1)

128B\tbb.2:
144B\t  %4:vgpr_32 = SI_SPILL_V32_RESTORE %stack.0, $sgpr32, 0 :: (load (s32) from %stack.0)
160B\t  $vgpr7 = COPY %4:vgpr_32

# End machine code for function f.
"""


def test_machine_code_is_read_by_lanes_and_through_loops() -> None:
    (item,) = machine_passes(MACHINE_CODE)
    # In the loop %2.sub0 and %1.sub1 live on, with %3 beside them; at the load %1 and one lane of
    # %2: the other three are never read, and neither is %1.sub0 behind it.
    assert item.pressure == 3
    assert (item.spill_stores, item.spill_reloads, item.vgprs) == (1, 1, 8)
    assert (item.cli, item.function, item.instructions) == ("machine-scheduler", "f", 8)


def test_times_of_repeated_passes_are_summed_and_pipelines_left_out() -> None:
    report = """\
===---===
                         ... Execution time report ...
  Total Execution Time: 0.3 seconds
  ----Wall Time----  ----Name----
    0.0700 ( 33.3%)  'tt.func' Pipeline
    0.0700 ( 33.3%)    CSEPass
    0.0300 ( 10.0%)  CSEPass
    0.3000 (100.0%)  Total
===---===
                          Pass execution timing report
  Total Execution Time: 0.5 seconds (0.5 wall clock)
   ---User Time---   --System Time--   --User+System--   ---Wall Time---  --- Name ---
   0.1 ( 24.9%)   0.0 (  0.0%)   0.1 ( 24.9%)   0.2000 ( 26.4%)  Greedy Register Allocator
   0.1 ( 24.9%)   0.0 (  0.0%)   0.1 ( 24.9%)   0.1000 ( 13.4%)  Greedy Register Allocator #2
   0.5 (100.0%)   0.0 (100.0%)   0.5 (100.0%)   0.5000 (100.0%)  Total
"""
    times = [(time.level, time.name, time.seconds) for time in pass_times(report)]
    assert times == [("llvm", "Greedy Register Allocator", 0.3), ("mlir", "CSEPass", 0.1)]
