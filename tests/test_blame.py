"""Which layer of two Tritons is responsible for a figure, and the history of things in passes.

Verdicts are pure and always tested. Compiles by two Tritons need a second one:
`KINSPECT_TRITONS=3.6=/path/to/python pytest tests/test_blame.py`.
"""

from __future__ import annotations

import io
import json
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from blame_kernels import GEMM
from kinspect.inspector.base.streams import dump_json
from kinspect.inspector.capture.resolving import resolve
from kinspect.inspector.compare.blame.blamed_layers import (
    Blame,
    Layer,
    Share,
    SlowPass,
    Step,
    differing_metric,
    guilty_of,
    noise_of,
    shares_of,
    verdict_of,
)
from kinspect.inspector.compare.blame.compiles import seconds_from_ttir, slow_pass
from kinspect.inspector.compare.blame.exchanges import (
    defaults_of,
    differences,
    exchanged,
    newer_spellings,
    with_attributes,
)
from kinspect.inspector.compare.blame.pass_bisection import guilty_passes
from kinspect.inspector.compare.blame.swaps import blame
from kinspect.inspector.compile.code_text import normal_amdgcn
from kinspect.inspector.compile.llvm_passes import PassTime, machine_passes, pass_times
from kinspect.inspector.compile.passes import read_passes
from kinspect.inspector.compile.pool import Compiler, CompileResult, LateStart, LlvmInputs
from kinspect.inspector.compile.tritons import known_tritons
from kinspect.inspector.formats import blame as formats
from kinspect.inspector.model import Variant
from kinspect.inspector.pipeline.capturing import variants_of
from kinspect.inspector.pipeline.jobs import Request, settings_of
from kinspect.inspector.present import text
from msgspec.structs import replace

OLDER = next((label for label in known_tritons() if label.startswith("3.6")), None)
needs_older = pytest.mark.skipif(OLDER is None, reason="needs Triton 3.6, see KINSPECT_TRITONS")


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("blame") / "product.py"
    path.write_text(textwrap.dedent(GEMM))
    return path


@pytest.fixture(scope="module")
def smaller(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with an eighth of the code: its dumps are long, whatever the kernel."""
    path = tmp_path_factory.mktemp("blame") / "smaller.py"
    text = textwrap.dedent(GEMM).replace("128, 64, num_warps", "64, 32, num_warps")
    assert "64, 32" in text
    path.write_text(text)
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
    verdict = verdict_of(guilty_of(shares), shares, None, True, {})
    assert verdict.layers == ("ttgir", "llvm_ir")
    assert verdict.share == pytest.approx(30 / 34)


def test_no_change_has_no_layer() -> None:
    shares = shares_of([_step(4), _step(4, "llvm")], "vgpr_spill_count")
    assert guilty_of(shares) is None
    assert verdict_of(None, shares, None, True, {}).layers == ()


def test_a_compile_s_time_changes_only_by_more_than_it_varies() -> None:
    shares = (Share(("llvm_ir",), 0.1), Share(("llvm",), 0.02))
    assert guilty_of(shares, noise_of("compile_seconds", 1.0, 1.12)) is None
    assert guilty_of(shares, noise_of("compile_seconds", 0.5, 0.62)) == shares[0]
    assert guilty_of(shares, noise_of("vgpr_count", 1.0, 1.12)) == shares[0]


def test_the_time_is_explained_where_the_model_tells_it_apart() -> None:
    def steps(us: float) -> list[Step]:
        first, last = _step(4), _step(8, "llvm")
        times = replace(first, metrics={**first.metrics, "time.us": 100.0})
        return [times, replace(last, metrics={**last.metrics, "time.us": us})]

    assert differing_metric(steps(150)) == "time.us"
    assert differing_metric(steps(60)) == "time.us"
    assert differing_metric(steps(105)) == "vgpr_spill_count"
    assert differing_metric([_step(4), _step(4, "llvm")]) == "vgpr_spill_count"
    slower = guilty_of(shares_of(steps(150), "time.us"), noise_of("time.us", 100, 150))
    assert slower == Share(("llvm",), 50)
    assert guilty_of(shares_of(steps(105), "time.us"), noise_of("time.us", 100, 105)) is None


def test_an_unknown_figure_has_no_share() -> None:
    shares = shares_of([_step(4), _step(None, "llvm"), _step(5, "llvm_ir")], "vgpr_spill_count")
    assert [share.delta for share in shares] == [None, None]


def test_changed_defaults_are_named() -> None:
    shares = shares_of([_step(0), _step(9, "option_default")], "vgpr_spill_count")
    verdict = verdict_of(guilty_of(shares), shares, None, True, {"waves_per_eu": (0, 2)})
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


def test_the_dialect_s_older_name_and_copies_into_lds_are_respelled() -> None:
    older = (
        "%x = amdgpu.buffer_load_to_local %a[%o] mask = %m into %l {contiguity = 8 : i32}"
        " : <f16>[tensor<128x64xi32, #linear>]  -> <128x64xf16, #shared, #smem, mutable>\n"
    )
    since_3_6, since_3_9 = newer_spellings(older)
    assert since_3_6 == older.replace("amdgpu.", "amdg.")
    assert " : !tt.ptr<f16>[tensor<128x64xi32" in since_3_9


def test_waves_of_a_wmma_layout_are_respelled_as_steps() -> None:
    older = "#mma = #ttg.amd_wmma<{version = 1, isTranspose = true, warpsPerCTA = [2, 4]}>\n"
    # As Triton 3.7 prints it for the same kernel.
    steps = "ctaLayout = {warp = [[0, 1], [0, 2], [1, 0]]}"
    assert newer_spellings(older) == (older.replace("warpsPerCTA = [2, 4]", steps),)
    (single,) = newer_spellings(older.replace("[2, 4]", "[1, 1]"))
    assert "ctaLayout = {warp = []}" in single


LLVM_IR = """\
define amdgpu_kernel void @f(ptr addrspace(1) inreg readonly %0, i32 inreg %1) local_unnamed_addr #0 !dbg !4 {
declare i32 @llvm.amdgcn.workitem.id.x() #1
attributes #0 = { nounwind "amdgpu-no-wwm" "amdgpu-waves-per-eu"="2" "uniform-work-group-size"="true" }
attributes #1 = { nounwind "amdgpu-waves-per-eu"="2" }
"""  # noqa: E501


def test_attributes_that_the_other_triton_sets_replace_those_that_this_one_set() -> None:
    ours = {"amdgpu-waves-per-eu": "2", "uniform-work-group-size": "true"}
    theirs = {"amdgpu-waves-per-eu": "2,2", "amdgpu-sched-strategy": "coexec"}
    changed = with_attributes(LLVM_IR, ours, theirs)
    assert changed is not None
    group = (
        '{ nounwind "amdgpu-no-wwm" "amdgpu-sched-strategy"="coexec" "amdgpu-waves-per-eu"="2,2" }'
    )
    assert f"attributes #0 = {group}\n" in changed
    # Other functions keep theirs.
    assert 'attributes #1 = { nounwind "amdgpu-waves-per-eu"="2" }\n' in changed
    assert with_attributes(LLVM_IR, ours, ours) == LLVM_IR
    assert with_attributes("define void @f() {\n", ours, theirs) is None


def test_what_two_tritons_give_llvm_is_exchanged_one_thing_at_a_time() -> None:
    ours = LlvmInputs(("a",), "-real-true16", {"amdgpu-waves-per-eu": "2"})
    theirs = LlvmInputs(("a", "b"), "", {"amdgpu-waves-per-eu": "2", "amdgpu-x": "1"})
    assert differences(ours, theirs) == {
        "flags": ("a", "a, b"),
        "features": ("-real-true16", ""),
        "amdgpu-x": (None, "1"),
    }
    assert exchanged(ours, theirs, "flags") == replace(ours, flags=("a", "b"))
    assert exchanged(ours, theirs, "features") == replace(ours, features="")
    assert exchanged(ours, theirs, "amdgpu-x").attributes == theirs.attributes
    assert exchanged(theirs, ours, "amdgpu-x").attributes == ours.attributes
    assert differences(ours, ours) == {}


def test_the_pass_whose_time_grows_most_among_the_levels_that_both_have() -> None:
    before = (PassTime("llvm", "Greedy Register Allocator", 1.0, 0.5),)
    after = (
        PassTime("mlir", "Membar", 9.0, 0.9),
        PassTime("llvm", "Greedy Register Allocator", 1.5, 0.5),
        PassTime("llvm", "Machine Instruction Scheduler", 0.7, 0.2),
    )
    assert slow_pass(before, after) == SlowPass("llvm", "Machine Instruction Scheduler", 0.0, 0.7)
    assert slow_pass((), after) is None
    shrunk = slow_pass(after[1:2], before)
    assert shrunk == SlowPass("llvm", "Greedy Register Allocator", 1.5, 1.0)


def test_times_from_ttir_include_those_that_made_the_input() -> None:
    first = {"ttgir": 1.0, "llir": 2.0, "amdgcn": 4.0, "hsaco": 8.0}
    own = {"amdgcn": 0.5, "hsaco": 0.25}
    assert seconds_from_ttir(own, "llir", first) == 3.75
    assert seconds_from_ttir(first, "source", {}) == 15
    assert seconds_from_ttir(own, "ttgir", first) is None


def test_a_build_without_a_switch_is_one_without_what_it_switches() -> None:
    variant = replace(VARIANT, options={"num_warps": 8})
    left = CompileResult(
        variant,
        metadata={"num_warps": 8, "waves_per_eu": 0, "arch": "gfx942"},
        switches={"AMDGCN_USE_BUFFER_OPS": True},
    )
    right = CompileResult(
        variant,
        metadata={"num_warps": 4, "waves_per_eu": 2, "arch": "gfx950"},
        switches={"AMDGCN_USE_BUFFER_OPS": True, "TRITON_HIP_USE_ASYNC_COPY": True, "NEW": False},
    )
    shared = frozenset(("num_warps", "waves_per_eu", "arch"))
    defaults = defaults_of(left, right, shared, variant)
    assert defaults.options == {"waves_per_eu": (0, 2)}
    assert defaults.switches == {"TRITON_HIP_USE_ASYNC_COPY": (False, True)}
    assert defaults.environment() == (("TRITON_HIP_USE_ASYNC_COPY", "0"),)
    assert defaults.left_options(variant).options == {"num_warps": 8, "waves_per_eu": 0}
    assert defaults.only("waves_per_eu").environment() == ()
    assert not defaults_of(left, replace(right, switches=None, metadata={}), shared, variant)


VARIANT = Variant(kernel="f", arch="gfx942", wave_size=64, ttir="", options={})


@pytest.fixture(scope="module")
def compiled(script: Path) -> Iterator[tuple[Compiler, Variant]]:
    """A compiler with pass dumps, and the variant of the script for gfx950."""
    pytest.importorskip("triton")
    request = Request((str(script),), ("gfx950",), passes=True)
    with Compiler(settings_of(request)) as compiler:
        ((variant,), _) = variants_of(resolve(str(script))[0], request, compiler)
        yield compiler, variant


def test_switches_are_decided_for_the_target(compiled: tuple[Compiler, Variant]) -> None:
    compiler, variant = compiled
    on = {}
    for arch in ("gfx942", "gfx950"):
        result = compiler.compile(replace(variant, arch=arch))
        assert result.switches is not None
        on[arch] = result.switches
    # Triton 3.9: asynchronous copies are the default of gfx950 alone.
    assert [on[arch]["TRITON_HIP_USE_ASYNC_COPY"] for arch in on] == [False, True]
    assert [on[arch]["AMDGCN_USE_BUFFER_OPS"] for arch in on] == [True, True]
    off = replace(variant, environment={"TRITON_HIP_USE_ASYNC_COPY": "0"})
    switches = compiler.compile(off).switches
    assert switches is not None
    assert not switches["TRITON_HIP_USE_ASYNC_COPY"]


def test_each_stage_s_cpu_time_is_measured(compiled: tuple[Compiler, Variant]) -> None:
    compiler, variant = compiled
    stages = compiler.compile(variant, anew=True).stages
    assert [stage.stage for stage in stages] == ["ttgir", "llir", "amdgcn", "hsaco"]
    assert all(stage.cpu_seconds is not None for stage in stages)
    assert sum(stage.cpu_seconds or 0 for stage in stages) > 0


@pytest.mark.slow
def test_the_rest_of_the_passes_makes_the_same_code(compiled: tuple[Compiler, Variant]) -> None:
    """Whatever the point at which the passes on TTGIR are interrupted."""
    compiler, variant = compiled
    whole = compiler.compile(variant)
    dump = read_passes(
        whole.artifacts["passes"].path,
        [(s.stage, s.dump_bytes) for s in whole.stages if s.dump_bytes is not None],
        changes=False,
    )
    inside = [item for item in dump.passes if item.stage == "ttgir"]
    code = normal_amdgcn(whole.artifacts["amdgcn"].path.read_text())
    for index in (1, len(inside) // 2, len(inside) - 1):
        unfinished = replace(variant, ttir=dump.text(inside[index].index), stage="ttgir")
        rest = compiler.compile(unfinished, late_start=LateStart(index, len(inside)))
        assert rest.error is None, rest.error
        assert normal_amdgcn(rest.artifacts["amdgcn"].path.read_text()) == code
    unfinished = replace(variant, ttir=dump.text(inside[1].index), stage="ttgir")
    refused = compiler.compile(unfinished, late_start=LateStart(1, len(inside) + 1))
    assert refused.error is not None


def test_a_text_says_nothing_of_how_it_is_compiled(compiled: tuple[Compiler, Variant]) -> None:
    compiler, variant = compiled
    whole = compiler.compile(variant)
    code = normal_amdgcn(whole.artifacts["amdgcn"].path.read_text())
    module = whole.artifacts["ttgir"].path.read_text()
    for line in ('{"skipped": 0, "passes": 31}', '{"skipped": 0, "passes": 0}', "x"):
        text = f"// kinspect: {line}\n{module}"
        result = compiler.compile(replace(variant, ttir=text, stage="ttgir"))
        assert result.error is None, result.error
        assert normal_amdgcn(result.artifacts["amdgcn"].path.read_text()) == code
    given = {"metadata": dict(whole.metadata), "llvm": {"flags": ["load=/x.so"], "features": ""}}
    text = f"; kinspect: {json.dumps(given, default=str)}\n"
    text += whole.artifacts["llir"].path.read_text()
    alone = compiler.compile(replace(variant, ttir=text, stage="llir"))
    assert alone.error is not None
    assert "without the metadata" in alone.error.message
    start = LateStart(metadata=whole.metadata)
    result = compiler.compile(replace(variant, ttir=text, stage="llir"), late_start=start)
    assert result.error is None, result.error
    assert result.llvm is not None
    assert whole.llvm is not None
    assert result.llvm.flags == whole.llvm.flags


@pytest.mark.slow
def test_features_are_handed_to_the_code_generator_in_place_of_triton_s(
    compiled: tuple[Compiler, Variant],
) -> None:
    compiler, variant = compiled
    radeon = replace(variant, arch="gfx1100", wave_size=32)
    whole = compiler.compile(radeon)
    assert whole.llvm is not None
    assert whole.llvm.attributes["amdgpu-flat-work-group-size"] == "1,128"
    code = []
    for features in (whole.llvm.features, "-real-true16"):
        text = whole.artifacts["llir"].path.read_text()
        start = LateStart(metadata=whole.metadata, flags=whole.llvm.flags, features=features)
        result = compiler.compile(replace(radeon, ttir=text, stage="llir"), late_start=start)
        assert result.error is None, result.error
        assert result.llvm is not None
        assert result.llvm.features == features
        code.append(result.artifacts["amdgcn"].path.read_text())
    assert normal_amdgcn(code[0]) == normal_amdgcn(whole.artifacts["amdgcn"].path.read_text())
    # Halves of registers are operands in one of the modes alone.
    assert [re.search(r"\bv\d+\.[lh]\b", text) is not None for text in code] == [True, False]


def test_the_pass_between_the_last_points_with_each_figure_is_found(tmp_path: Path) -> None:
    names = ("convert-triton-to-tritongpu", "coalesce", "accelerate", "pipeline", "cse")
    dumps = []
    for side in range(2):
        path = tmp_path / f"{side}.mlir"
        path.write_text("".join(
            f"// -----// IR Dump Before P: {name} ('builtin.module' operation) //----- //\n{name}\n"
            for name in names
        ) + "// -----// IR Dump Before P: convert-scf-to-cf ('builtin.module' operation) //----- //\nx\n")  # fmt: skip # noqa: E501
        dumps.append(read_passes(path, changes=False))
    asked = []

    def measure(text: str, skipped: int, passes: int) -> float | None:
        asked.append((text.strip(), skipped, passes))
        # `accelerate` of the right build makes 9 of the 5; the module before `coalesce` is refused.
        return None if skipped == 1 else 9.0 if skipped <= 2 else 5.0

    guilty = guilty_passes((dumps[0], dumps[1]), (5.0, 9.0), measure)
    assert guilty is not None
    assert (guilty.name, guilty.only_left, guilty.only_right) == ("accelerate", (), ())
    assert all(text == names[skipped] and passes == 5 for text, skipped, passes in asked)
    assert guilty_passes((dumps[0], dumps[1]), (5.0, 9.0), lambda *_: None) is None


@needs_older
@pytest.mark.slow
def test_the_report_fits_its_schema(script: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    result = _blame(script, "gfx942", None)
    stream = io.StringIO()
    dump_json(formats.fields(result), stream)
    schema = json.loads((Path(formats.__file__).parent / "blame.schema.json").read_text())
    jsonschema.validate(json.loads(stream.getvalue()), schema)
    told = io.StringIO()
    text.show(formats.document(result), told)
    assert "exchanged" in told.getvalue()


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


@pytest.mark.slow
def test_llvm_allocates_no_fewer_registers_than_are_live(
    smaller: Path, run_json: Callable[..., Any]
) -> None:
    report = run_json("passes", smaller, "--llvm")
    live = [item for item in report["passes"] if item["pressure"] is not None]
    (final,) = report["passes"][-1:]
    assert live[-1]["pressure"] <= final["vgprs"] + final["agprs"]
    assert "greedy" in [item["cli"] for item in report["passes"]]
    assert {time["level"] for time in report["times"]} == {"mlir", "llvm"}


def test_the_time_of_a_pass_stands_beside_what_it_is_given(
    smaller: Path, run_json: Callable[..., Any]
) -> None:
    report = run_json("passes", smaller, "--time")
    assert set(report["stages"]) == {"ttgir", "llir", "amdgcn", "hsaco"}
    cost = {item["name"]: item for item in report["passes"]}
    dumped = {item["class"] for item in run_json("passes", smaller)["passes"]}
    assert len(dumped & cost.keys()) >= 0.9 * len(dumped)
    # The kernel has two loads and a dot, which stand as such until they are lowered.
    converted = cost["ConvertTritonAMDGPUToLLVM"]
    assert converted["runs"] == 1
    assert 50 < converted["operations"] < 1000
    assert converted["microseconds_each"] == pytest.approx(
        1e6 * converted["seconds"] / converted["operations"]
    )
    # After it a module has thousands, most of them LLVM's.
    later = cost["ReconcileUnrealizedCastsPass"]
    assert later["operations"] > 5 * converted["operations"]
    assert all(name.startswith("llvm.") for name in later["kinds"])
    assert cost["Machine Instruction Scheduler"]["operations"] > 200


@pytest.fixture
def run_json(capsys: pytest.CaptureFixture[str], shared_guests: None) -> Callable[..., Any]:
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
