"""`kinspect try`: cures are compiled, and what came of them is told as it is."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kinspect.inspector import formats
from kinspect.inspector import report as report_room
from kinspect.inspector.base import limits
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.resolving import resolve_all
from kinspect.inspector.capture.sweep_axes import Axis
from kinspect.inspector.cli.main import main
from kinspect.inspector.compare.sweep.figures import Figures
from kinspect.inspector.compare.times import EQUAL, is_faster, time_change
from kinspect.inspector.compare.trials import capturing, trial_run
from kinspect.inspector.compare.trials.candidates import Candidates
from kinspect.inspector.compare.trials.capturing import other_work
from kinspect.inspector.compare.trials.combining import Tried, best_two
from kinspect.inspector.compare.trials.outcome import (
    PlacedFinding,
    TrialOutcome,
    is_gone,
    kin_of,
    run_trial,
)
from kinspect.inspector.compare.trials.planning import judging_pack
from kinspect.inspector.compare.trials.space import Space, own_space, space_of
from kinspect.inspector.compare.trials.trial_results import TrialRow
from kinspect.inspector.compare.trials.trial_run import TrialDone, Trials, TryRequest, with_trials
from kinspect.inspector.compile.pool import Compiler, CompileSettings
from kinspect.inspector.explain import time_view, trials_view
from kinspect.inspector.explain.code.explanations import explain_finding
from kinspect.inspector.formats import try_agent, try_json
from kinspect.inspector.formats.html.kernel import page_kernels
from kinspect.inspector.formats.html.page import write_report
from kinspect.inspector.lint.nodes import Values
from kinspect.inspector.lint.packs import bundled_packs, load_packs
from kinspect.inspector.lint.ranking import in_order
from kinspect.inspector.lint.rule import Cure, Pack, compile_template
from kinspect.inspector.model import Change, Report, Trial, Variant
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline.analysis import catalogue
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Job, request_for, timing
from kinspect.inspector.present import trials as trials_text
from kinspect.inspector.present.report import write_markdown, write_text
from kinspect.inspector.report import json_write
from kinspect.inspector.report.json_read import SavedReport
from msgspec.structs import replace

pytest.importorskip("triton")
pytestmark = [pytest.mark.xdist_group("try"), pytest.mark.usefixtures("shared_guests")]

SCHEMA = json.loads((Path(formats.__file__).parent / "try.schema.json").read_bytes())
REPORT_SCHEMA = json.loads((Path(report_room.__file__).parent / "report.schema.json").read_bytes())
SMALL = Path(__file__).parent / "data" / "small_gfx942.s"
COLUMN_SUMS = Path(__file__).parents[1] / "docs" / "examples" / "column_sums.py"

SPILLING = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def scaled(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        weight = tl.load(y_ptr + offsets)
        total = tl.zeros((BLOCK,), tl.float32)
        for step in range(n):
            row = tl.load(x_ptr + step * BLOCK + offsets)
            total += row * weight
        tl.store(out_ptr + offsets, total)

    x, y, out = (torch.empty(1 << 20, device="cuda") for _ in range(3))
    scaled[(64,)](x, y, out, 100, BLOCK=4096, num_warps=1, waves_per_eu=4)
"""
"""64 elements of each of two tensors for a lane, and no more than 128 registers allowed."""

PRODUCT = """
    import torch
    import triton
    import triton.language as tl

    CONFIGS = [
        triton.Config({"BLOCK_M": m, "BLOCK_N": 64, "BLOCK_K": 128}, num_warps=4, num_stages=4)
        for m in (64, 32)
    ]

    @triton.autotune(CONFIGS, key=["k"])
    @triton.jit
    def product(
        a, b, c, n, k,
        BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    ):
        rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
        cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
        depth = tl.arange(0, BLOCK_K)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for at in range(0, k, BLOCK_K):
            left = tl.load(a + rows[:, None] * k + (at + depth)[None, :])
            right = tl.load(b + (at + depth)[:, None] * n + cols[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + rows[:, None] * n + cols[None, :], total.to(tl.float16))

    a, b, c = (torch.empty((1024, 1024), device="cuda", dtype=torch.float16) for _ in range(3))
    product[lambda meta: (1024 // meta["BLOCK_M"], 1024 // meta["BLOCK_N"])](a, b, c, 1024, 1024)
"""
"""Three stages of 64x128 and 128x64 in float16: 96 KiB of LDS where there are 64."""


def target(folder: Path, source: str) -> Path:
    pytest.importorskip("torch")
    path = folder / "kernels.py"
    path.write_text(textwrap.dedent(source))
    return path


def request_of(path: Path, *rules: str, kernel: str | None = None, **more: Any) -> TryRequest:
    pack, ids = judging_pack(rules)
    run = request_for(
        (str(path),),
        archs=("gfx942",),
        kernel=kernel,
        jobs=2,
        analysis=timing(AnalysisOptions(rules=pack)),
    )
    return TryRequest(run, pack, ids, **{"budget": 600.0, **more})


def with_cures(request: TryRequest, rule_id: str, *cures: Cure) -> TryRequest:
    """A request in which a rule has other cures."""
    rules = tuple(
        replace(rule, text=replace(rule.text, cures=cures)) if rule.text.id == rule_id else rule
        for rule in request.pack.rules
    )
    return replace(request, pack=replace(request.pack, rules=rules), rules=frozenset({rule_id}))


def tried(request: TryRequest, report: Report, work: trial_run.Work | None = None) -> Trials:
    trials = Trials(request, report)
    for _ in trials.events(None, work):
        pass
    return trials


def outcomes(trials: Trials, rule: str) -> dict[str, Trial]:
    """The changes tried for the first kernel's finding of a rule, in the order they are told."""
    kernel = trials.result().kernels[0].kernel
    (finding,) = (finding for finding in kernel.findings if finding.rule == rule)
    return {named(trial): trial for trial in finding.trials}


def told_first(trials: Trials) -> str:
    """The line on the best change for the first kernel's spills."""
    findings = trials.result().kernels[0].kernel.findings
    (finding,) = (finding for finding in findings if finding.rule == "KI037")
    line = trials_view.tried_lines(finding)[0]
    assert re.match(
        r"tried: \w+ \d+ → \d+.*: [\d,]+ → [\d,]+ µs \(-\d+ %; .*\), gone, 0 spills", line
    )
    return line


def named(trial: Trial | TrialRow) -> str:
    return " ".join(f"{change.name}={change.value}" for change in trial.change)


@pytest.fixture(scope="module")
def spilling(tmp_path_factory: pytest.TempPathFactory) -> tuple[TryRequest, Report]:
    request = request_of(target(tmp_path_factory.mktemp("spilling"), SPILLING), "KI037")
    return request, collect(request.run)


@pytest.fixture(scope="module")
def spilling_tried(spilling: tuple[TryRequest, Report]) -> Trials:
    return tried(*spilling)


# ------------------------------------------------------------------ what came of options


def test_a_spill_is_cured_and_its_price_told(spilling_tried: Trials) -> None:
    told = outcomes(spilling_tried, "KI037")
    cure = told["waves_per_eu=0"]
    assert (cure.gone, cure.helped, cure.failure) == (True, True, "")
    before, after = cure.diff["vgpr_spill_count"]
    assert before
    assert after == 0
    assert cure.metrics["vgpr_spill_count"] == cure.metrics["scratch_in_loops"] == 0
    assert cure.diff["occupancy.waves_per_eu"] == (4, 2)
    assert cure.time is not None
    assert cure.time.verdict == "faster"
    assert (cure.time.before_us, cure.time.us) == cure.diff["time.us"]


def test_the_time_is_that_of_the_launch_with_the_change(
    spilling: tuple[TryRequest, Report], spilling_tried: Trials
) -> None:
    """As a plain analysis of what was compiled says."""
    (kernel,) = spilling_tried.result().kernels
    told = outcomes(spilling_tried, "KI037")
    assert kernel.metrics["time.us"] == spilling[1].kernels[0].metrics["time.us"].value
    variants = {named_changes(c): v for _, c, v in spilling_tried.variants()}
    for name in ("waves_per_eu=0", "num_warps=2"):
        axes = tuple(Axis(c.name, (c.value,)) for c in told[name].change)
        (alone,) = collect(replace(spilling[0].run, point=axes)).kernels
        assert alone.time is not None
        assert told[name].metrics["time.us"] == alone.time.us
        assert variants[name].passed is not None


def test_the_assembly_of_a_plain_compile_says_the_same(spilling_tried: Trials) -> None:
    """Of what is called cured, by text and without the analysis."""
    variants = {named_changes(c): v for _, c, v in spilling_tried.variants()}
    with Compiler(CompileSettings(read_store=False)) as compiler:
        for name, trial in outcomes(spilling_tried, "KI037").items():
            text = compiler.compile(variants[name]).artifacts["amdgcn"].path.read_text()
            assert trial.gone == ("scratch_" not in text)
            assert f".vgpr_spill_count: {trial.metrics['vgpr_spill_count']}\n" in text


def named_changes(changes: Any) -> str:
    return " ".join(f"{change.name}={change.value}" for change in changes)


def test_the_fastest_comes_first_and_the_best_two_together(spilling_tried: Trials) -> None:
    told = list(outcomes(spilling_tried, "KI037").values())
    times: list[Any] = [trial.metrics["time.us"] for trial in told]
    known = [us for us in times if us is not None]
    assert known == sorted(known) == times[: len(known)]
    best: list[Any] = [trial.change for trial in told if len(trial.change) == 1]
    (pair,) = (trial.change for trial in told if len(trial.change) == 2)
    assert pair[0] == best[0][0]


ADDED = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def added(x, y, out, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, at < n) + tl.load(y + at, at < n), at < n)

    x, y, out = (torch.empty(1 << 22, device="cuda") for _ in range(3))
    for n, block in ((1 << 14, 128), (1 << 22, 64)):
        grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)
        added[grid](x, y, out, n, BLOCK=block, num_warps=2)
"""
"""Half of its lanes repeat the others' work; its larger block is launched for less, first."""


def test_configurations_beside_are_tried_whatever_is_found(tmp_path: Path) -> None:
    request = request_of(target(tmp_path, ADDED))
    report = collect(request.run)
    kernel = tried(request, report).result().kernels[1]
    rows = {named_changes(row.change): row for row in kernel.rows}
    assert {"num_warps=4", "num_warps=1", "BLOCK=128", "BLOCK=32"} <= rows.keys()
    larger = rows["BLOCK=128"].trial
    assert larger.time is not None
    source = textwrap.dedent(ADDED).replace("(1 << 14, 128), (1 << 22, 64)", "(1 << 22, 128),")
    (alone,) = collect(request_of(target(tmp_path, source)).run).kernels
    assert alone.time is not None
    assert larger.time.us == alone.time.us
    named = tried(request_of(target(tmp_path, ADDED), "KI049"), report).result().kernels
    assert "BLOCK=32" not in {named_changes(row.change) for each in named for row in each.rows}


def test_what_other_rules_find_anew_is_named(spilling_tried: Trials) -> None:
    for trial in outcomes(spilling_tried, "KI037").values():
        assert "KI037" not in trial.new


THIN = """
    import torch
    import triton
    import triton.language as tl

    @triton.jit
    def thin(a, b, c, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
        rows, cols, depth = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
        total = tl.zeros((M, N), tl.float32)
        for at in range(0, k, K):
            left = tl.load(a + rows[:, None] * k + (at + depth)[None, :])
            right = tl.load(b + (at + depth)[:, None] * n + cols[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + rows[:, None] * n + cols[None, :], total)

    a, b = (torch.empty((1024, 1024), device="cuda", dtype=torch.float16) for _ in range(2))
    c = torch.empty((1024, 1024), device="cuda")
    thin[(8192,)](a, b, c, 1024, 1024, 16, 32, 64, num_warps=8)
"""
"""Two blocks of 16x16 for eight waves."""


@pytest.fixture(scope="module")
def thin_tried(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    request = request_of(target(tmp_path_factory.mktemp("thin"), THIN), "KI042")
    cure = Cure(option="num_warps", values=(4,))
    nonkdim = Cure(option="matrix_instr_nonkdim", values=(32,))
    request = with_cures(request, "KI042", cure, nonkdim)
    return tried(request, collect(request.run))


def test_what_helped_is_taken_further_as_long_as_it_helps(thin_tried: Trials) -> None:
    """Half the waves again while the launch gets faster, to a quarter of what helped at most."""
    (kernel,) = thin_tried.result().kernels
    times: dict[Any, Any] = {
        row.change[0].value: row.trial.metrics["time.us"]
        for row in kernel.rows[1:]
        if [change.name for change in row.change] == ["num_warps"]
    }
    times[8] = kernel.metrics["time.us"]
    assert 4 in times
    assert is_faster(times[4], times[8])
    assert 2 in times
    assert (1 in times) == is_faster(times[2], times[4])
    assert set(times) <= {8, 4, 2, 1}


def test_every_form_has_the_best_first(thin_tried: Trials) -> None:
    result = thin_tried.result()
    (kernel,) = result.kernels
    times: list[Any] = [row.trial.metrics["time.us"] for row in kernel.rows[1:]]
    assert times == sorted(times)
    best = [row for row in kernel.rows if row.trial.front]
    assert best
    for row in kernel.rows:
        is_near = not is_faster(min(times), row.trial.metrics["time.us"])  # type: ignore[arg-type]
        assert (row in best) == (is_near and row.trial.same_as is None)
    advised = [trials_view.steps_text(row.change) for row in kernel.advised]
    assert advised
    assert all(row.trial.time.verdict == "faster" for row in kernel.advised if row.trial.time)
    stream = io.StringIO()
    try_agent.write(result, stream)
    lines = stream.getvalue().splitlines()
    named_in = [line for line in lines if line.startswith("faster ")]
    assert [re.sub(r"( for [^:]+)?: .*", "", line)[7:] for line in named_in] == advised
    told = [line.partition(": ")[2] for line in lines if line.startswith("  tried: ")]
    assert told
    assert not [line for line in named_in if line.partition(": ")[2] in told]  # once is enough
    stream = io.StringIO()
    trials_text.write(result, stream, color=False)
    text = stream.getvalue()
    marked = re.findall(r"^  \*  (\S.*?)  ", text, re.M)
    assert marked == [trials_view.steps_text(row.change) for row in best]
    first = kernel.advised[0].trial.time
    assert first is not None
    assert time_view.difference(first) in text
    (document,) = try_json.to_dict(result)["kernels"]
    assert [row["front"] for row in document["tried"]] == [r.trial.front for r in kernel.rows]
    assert document["tried"][1]["time"]["us"] == times[0]


def test_times_that_the_model_does_not_tell_apart_are_equal() -> None:
    least, most = 100 / (1 + EQUAL), 100 * (1 + EQUAL)
    verdicts = {
        us: time_change(100, us).verdict for us in (least - 1, least + 1, most - 1, most + 1)
    }
    assert list(verdicts.values()) == ["faster", "equal", "equal", "slower"]
    change = time_change(41, 29)
    assert change.low < change.percent == -29.3 < change.high < 0
    assert time_view.difference(change).startswith("41 → 29 µs (-29 %; -")
    assert time_view.difference(time_change(4.12, 4.1)) == "4.1 → 4.1 µs (equal)"


def test_equal_code_is_on_the_front_once(thin_tried: Trials, spilling_tried: Trials) -> None:
    for trials in (thin_tried, spilling_tried):
        for row in trials.result().kernels[0].rows:
            assert not (row.trial.front and row.trial.same_as is not None)


def test_a_second_run_compiles_nothing(
    spilling: tuple[TryRequest, Report], spilling_tried: Trials
) -> None:
    again = tried(*spilling).result()
    assert all(row.from_store for row in again.kernels[0].rows)
    assert [row.trial for row in again.kernels[0].rows] == [
        row.trial for row in spilling_tried.result().kernels[0].rows
    ]


# ------------------------------------------------------------------ constexprs and environment


@pytest.fixture(scope="module")
def product_tried(tmp_path_factory: pytest.TempPathFactory) -> Trials:
    path = target(tmp_path_factory.mktemp("product"), PRODUCT)
    request = request_of(path, "KI005", kernel="product[BLOCK_M=64]")
    return tried(request, collect(request.run))


def test_a_tile_of_the_file_is_made_smaller(product_tried: Trials) -> None:
    """BLOCK_M has 32 in another configuration; BLOCK_K is halved, for the dot has its extent."""
    told = outcomes(product_tried, "KI005")
    assert {"num_stages=2", "num_stages=1", "BLOCK_M=32", "BLOCK_N=32", "BLOCK_K=64"} <= set(told)
    # 64x128 and 128x64 in float16, once and in three of four stages.
    assert told["num_stages=2"].metrics["lds_bytes"] == 32768
    assert told["BLOCK_K=64"].metrics["lds_bytes"] == 49152
    assert told["BLOCK_K=64"].gone is True
    assert told["BLOCK_M=32"].metrics["lds_bytes"] == 73728
    assert (told["BLOCK_M=32"].gone, told["BLOCK_M=32"].launches) == (False, False)


def test_other_settings_of_the_configuration_stay(product_tried: Trials) -> None:
    variants = {named_changes(c): v for _, c, v in product_tried.variants()}
    half = variants["BLOCK_K=64"]
    assert {name: half.constexprs[name] for name in ("BLOCK_M", "BLOCK_N")} == {
        "BLOCK_M": 64,
        "BLOCK_N": 64,
    }
    assert half.options["num_stages"] == 4


def test_the_environment_of_a_change_reaches_the_compiler(
    spilling: tuple[TryRequest, Report],
) -> None:
    request = with_cures(spilling[0], "KI037", Cure(env="AMDGCN_USE_BUFFER_OPS", values=("0",)))
    trials = tried(request, spilling[1])
    ((_, _, variant),) = trials.variants()
    assert variant.environment == {"AMDGCN_USE_BUFFER_OPS": "0"}
    plain = replace(variant, environment={})
    with Compiler() as compiler:
        assert compiler.key(variant) != compiler.key(plain)
        texts = [compiler.compile(v).artifacts["amdgcn"].path.read_text() for v in (variant, plain)]
    assert ["buffer_load" in text for text in texts] == [False, True]


def test_a_point_without_such_a_constexpr_is_left_out(
    spilling: tuple[TryRequest, Report],
) -> None:
    request, report = spilling
    (kernel,) = report.kernels
    (found,) = resolve_all(request.run.targets)
    base = kernel.variant
    assert base is not None
    points: list[dict[str, Any]] = [{"BLOCK": 2048}, {"NONE": 1}]
    with Compiler() as compiler:
        variants, errors = capturing.capture_points(
            pattern="scaled",
            arch="gfx942",
            target=found,
            points=points,
            like={},
            request=request.run,
            compiler=compiler,
            seconds=100,
        )
    assert not errors
    assert [variant.constexprs["BLOCK"] for variant in variants] == [2048]
    assert capturing.most_like(base, points[0], variants) is not None
    assert capturing.most_like(base, points[1], variants) is None


# ------------------------------------------------------------------ what goes wrong


CRASH = "__attribute__((constructor)) static void crash(void) { __builtin_trap(); }"


def test_a_change_that_fails_is_a_row(spilling: tuple[TryRequest, Report], tmp_path: Path) -> None:
    """One crashes the compiler, one is no number to it, one does nothing; the last one cures."""
    compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang", "clang-22"))), None)
    if compiler is None:
        pytest.skip("no C compiler")
    (tmp_path / "crash.c").write_text(CRASH)
    library = tmp_path / "crash.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(library), str(tmp_path / "crash.c")], check=True
    )
    request = with_cures(
        spilling[0],
        "KI037",
        Cure(env="TRITON_AMD_CODEGEN_PATH", values=(str(library),)),
        Cure(option="llvm_fn_attrs", values=("amdgpu-waves-per-eu=abc",)),
        Cure(env="TRITON_NOTHING_READS_THIS", values=("1",)),
        Cure(option="waves_per_eu", values=(0,)),
    )
    told = outcomes(tried(request, spilling[1]), "KI037")
    crashed = told[f"TRITON_AMD_CODEGEN_PATH={library}"]
    assert crashed.gone is None
    assert crashed.failure
    assert not crashed.metrics
    assert told["llvm_fn_attrs=amdgpu-waves-per-eu=abc"].failure
    assert told["TRITON_NOTHING_READS_THIS=1"].same_code
    assert told["TRITON_NOTHING_READS_THIS=1"].gone is False
    assert told["waves_per_eu=0"].helped


def test_an_unforeseen_error_is_that_of_its_change(
    spilling: tuple[TryRequest, Report],
) -> None:
    def work(job: Job) -> TrialOutcome:
        if job.variant.options["num_warps"] == 2:
            raise ZeroDivisionError
        return run_trial(job)

    told = outcomes(tried(*spilling, work), "KI037")
    assert "ZeroDivisionError" in told["num_warps=2"].failure
    assert told["waves_per_eu=0"].helped


def test_no_budget_tries_nothing(spilling: tuple[TryRequest, Report]) -> None:
    result = tried(replace(spilling[0], budget=0.0), spilling[1]).result()
    (kernel,) = result.kernels
    assert result.out_of_budget
    assert result.missing == kernel.missing > 0
    assert [row.change for row in kernel.rows] == [()]


def test_an_interrupt_keeps_what_is_done(spilling: tuple[TryRequest, Report]) -> None:
    def work(job: Job) -> TrialOutcome:
        if job.variant.options["waves_per_eu"]:
            raise KinspectError("this one ends later than the interrupt comes", "")
        return run_trial(job)

    trials = Trials(replace(spilling[0], run=replace(spilling[0].run, jobs=1)), spilling[1])
    events = trials.events(None, work)
    for event in events:
        if isinstance(event, TrialDone):
            break
    with pytest.raises(KeyboardInterrupt):
        _thrown(events)
    result = trials.result()
    assert result.tried >= 1
    assert "waves_per_eu=0" in [named(row) for row in result.kernels[0].rows]


def _thrown(events: Iterator[object]) -> None:
    events.throw(KeyboardInterrupt)  # type: ignore[attr-defined]


def test_stages_that_a_loop_states_itself_are_changed_in_the_source(tmp_path: Path) -> None:
    """The launch option changes nothing of such a loop."""
    source = SPILLING.replace("range(n)", "tl.range(n, num_stages=1)")
    request = request_of(target(tmp_path, source), "KI037")
    request = with_cures(request, "KI037", Cure(option="num_stages", values=(3,)))
    result = tried(request, collect(request.run)).result()
    assert [named(row) for row in result.kernels[0].rows] == ["", "tl.range's num_stages=3"]
    changed = result.kernels[0].rows[1].trial
    assert changed.same_as is None, "the loop is pipelined"
    stream = io.StringIO()
    trials_text.write(result, stream)
    assert "Changes of the source were made on the TTIR" in stream.getvalue()


def test_stages_of_a_range_are_tried_where_the_loop_states_none(tmp_path: Path) -> None:
    """As KI054 advises; the option leaves loops without tl.dot as they are."""
    request = request_of(target(tmp_path, SPILLING), "KI037")
    request = with_cures(request, "KI037", Cure(source="range_stages"))
    result = tried(request, collect(request.run)).result()
    names = ["", "tl.range's num_stages=2", "tl.range's num_stages=3"]
    assert sorted(named(row) for row in result.kernels[0].rows) == names
    assert all(row.trial.same_as is None for row in result.kernels[0].rows[1:])


def test_rules_that_advise_stages_of_a_range_try_them() -> None:
    packs = load_packs(bundled_packs(), catalogue())
    rules = {rule.text.id: rule.text for pack in packs for rule in pack.rules}
    advising = {
        name for name, text in rules.items() if re.search(r"tl\.range\([^)]*num_st", text.fix)
    }
    trying = {name for name, text in rules.items() if Cure(source="range_stages") in text.cures}
    assert advising == trying == {"KI054", "KI069", "KG007"}


def test_advice_that_was_tried_in_vain_leaves_the_fix() -> None:
    """`num_stages={lds.conflicts.stages}` stands in brackets: they go, the rest stays."""
    path = Path(__file__).parent.parent / "rules" / "fixtures" / "dots.py"
    request = request_of(path, "KI043", kernel="turned")
    report = collect(request.run)
    kernel = next(k for k in report.kernels if k.variant is not None and k.variant.case == "turned")
    report = replace(report, kernels=(kernel,))

    def advice(work: trial_run.Work | None = None) -> str:
        kernels = tried(request, report, work).result().kernels
        return next(f.fix for f in kernels[0].kernel.findings if f.rule == "KI043")

    assert "Set num_stages=1" in advice()
    unchanged = advice(lambda job: run_trial(replace(job, variant=kernel.variant)))
    assert unchanged == "", "nothing else was advised"


def test_what_is_left_for_the_source_says_so_where_no_option_helps(
    spilling: tuple[TryRequest, Report],
) -> None:
    request, report = spilling
    pack = request.pack
    rules = [replace(r, text=replace(r.text, cures_only=False)) for r in pack.rules]
    request = replace(request, pack=replace(pack, rules=tuple(rules)))
    unchanged = report.kernels[0].variant
    assert unchanged is not None
    work = lambda job: run_trial(replace(job, variant=unchanged))  # noqa: E731
    after = tried(request, report, work).result().kernels[0].kernel.findings
    finding = next(f for f in after if f.rule == "KI037")
    assert not any(trial.helped for trial in finding.trials)
    assert finding.advice.startswith("no option helps; in the source: Set waves_per_eu")
    assert "tried: helped" not in finding.advice
    assert not finding.is_refuted
    assert replace(finding, fix_is_trials=True).is_refuted
    assert not replace(finding, fix_is_trials=True).advice


@pytest.mark.parametrize(
    ("trials", "gain"),
    [
        ((), 20.0),
        (((True, 99.0), (True, 98.0)), 2.0),
        (((True, 103.0),), 0.0),
        (((False, 98.0),), 20.0),
        (((True, 80.0), (True, 99.0)), 20.0),
        (((True, 70.0),), 30.0),
    ],
)
def test_a_price_that_compiled_changes_refute_is_theirs(
    spilling: tuple[TryRequest, Report], trials: tuple[tuple[bool, float], ...], gain: float
) -> None:
    """Of changes as (whether the finding was gone, us), of a launch that takes 100 us."""
    finding = next(f for f in spilling[1].kernels[0].findings if f.rule == "KI037")
    made = tuple(Trial((), gone, time=time_change(100.0, us)) for gone, us in trials)
    priced = replace(finding, saves_percent=20.0, trials=made, fix="Sort.")
    assert priced.gain_percent == pytest.approx(gain)


@pytest.mark.parametrize(
    ("tried_in_vain", "fix"),
    [
        ((), "Enlarge the block. Lower num_warps. Sort."),
        (("num_warps",), "Enlarge the block. Sort."),
        (("tile",), "Lower num_warps. Sort."),
        (("num_warps", "tile", "tl.exp(x)"), "Sort."),
    ],
)
def test_parts_of_a_fix_that_name_options_go_with_them(
    tried_in_vain: tuple[str, ...], fix: str
) -> None:
    text = "[[Enlarge the block. ]][[Lower num_warps. ]]Sort."
    template = compile_template(text, analysis.catalogue(), "kernel")
    assert template.without(tried_in_vain).render(Values({}, {})) == fix


def test_what_is_not_known_after_a_change_is_not_called_gone(
    spilling: tuple[TryRequest, Report],
) -> None:
    def work(job: Job) -> TrialOutcome:
        outcome = run_trial(job)
        unknown = [
            replace(part, metrics=(*part.metrics, "hot_loops.count.scratch_load"))
            for part in outcome.unknown
            if not part.lines
        ]
        return replace(outcome, unknown=tuple(unknown))

    told = outcomes(tried(*spilling, work), "KI037")
    assert {trial.gone for trial in told.values()} <= {None, False}


def test_with_the_same_code_no_work_is_gone(spilling: tuple[TryRequest, Report]) -> None:
    """A rule without prices may say nothing of it, as of what is small."""
    unchanged = spilling[1].kernels[0].variant
    assert unchanged is not None

    def work(job: Job) -> TrialOutcome:
        return replace(run_trial(replace(job, variant=unchanged)), findings=())

    told = outcomes(tried(*spilling, work), "KI037")
    assert {trial.gone for trial in told.values() if trial.same_code} == {False}


def test_a_rule_that_does_not_exist_is_named() -> None:
    with pytest.raises(KinspectError, match="KI999: no such rule"):
        judging_pack(["KI999"])


def test_preview_rules_can_be_asked_for() -> None:
    pack, ids = judging_pack(["KI003"])
    assert ids == frozenset({"KI003"})
    assert "KI003" in {rule.text.id for rule in pack.rules}
    assert "KI003" not in {rule.text.id for rule in judging_pack([])[0].rules}


def untimed(request: TryRequest) -> TryRequest:
    """The same without launches."""
    run = replace(request.run, analysis=replace(request.run.analysis, time=None))
    return replace(request, run=run)


@pytest.fixture(scope="module")
def untimed_tried(spilling: tuple[TryRequest, Report]) -> Trials:
    request = untimed(spilling[0])
    return tried(request, collect(request.run))


def test_without_a_time_facts_are_told_and_why(
    untimed_tried: Trials, spilling_tried: Trials
) -> None:
    told = outcomes(untimed_tried, "KI037")
    cure = told["waves_per_eu=0"]
    assert (cure.gone, cure.helped, cure.time) == (True, True, None)
    timed = outcomes(spilling_tried, "KI037")["waves_per_eu=0"]
    assert cure.metrics == {**timed.metrics, "time.us": None}
    (kernel,) = untimed_tried.result().kernels
    assert not kernel.is_timed
    assert not any(row.trial.front for row in kernel.rows)
    for writer in (trials_text, try_agent):
        stream = io.StringIO()
        writer.write(untimed_tried.result(), stream)
        assert "time unknown: no times were asked for" in stream.getvalue()
        assert "µs" not in stream.getvalue()


def test_a_rule_that_only_fell_silent_is_not_cured(spilling: tuple[TryRequest, Report]) -> None:
    """Without a time: fewer waves and no spill; what wants more waves is not cured by that."""
    request = spilling[0]
    rules = tuple(
        replace(rule, text=replace(rule.text, improves="occupancy"))
        if rule.text.id == "KI037"
        else rule
        for rule in request.pack.rules
    )
    request = untimed(replace(request, pack=replace(request.pack, rules=rules)))
    told = outcomes(tried(request, collect(request.run)), "KI037")
    assert told["waves_per_eu=0"].metrics["vgpr_spill_count"] == 0
    assert told["waves_per_eu=0"].gone is None


def test_a_change_whose_time_is_not_known_is_no_cure_of_a_timed_kernel(
    spilling: tuple[TryRequest, Report],
) -> None:
    def work(job: Job) -> TrialOutcome:
        outcome = run_trial(job)
        assert outcome.figures is not None
        return replace(outcome, figures=replace(outcome.figures, time_us=None))

    (kernel,) = (trials := tried(*spilling, work)).result().kernels
    assert outcomes(trials, "KI037")["waves_per_eu=0"].gone
    assert not any(row.cures or row.trial.helped for row in kernel.rows)


def test_what_would_save_little_is_tried_where_its_rule_is_asked_for(
    spilling: tuple[TryRequest, Report],
) -> None:
    request, report = spilling
    (kernel,) = report.kernels
    (spills,) = (finding for finding in kernel.findings if finding.rule == "KI037")
    others = tuple(finding for finding in kernel.findings if finding != spills)
    small = replace(report, kernels=(replace(kernel, findings=others, leads=(spills,)),))
    assert outcomes(tried(request, small), "KI037")["waves_per_eu=0"].helped
    unasked = tried(replace(request, rules=None), small).result().kernels
    assert "KI037" not in {found.rule for each in unasked for found in each.kernel.findings}


def test_a_launch_that_does_other_work_has_no_time(product_tried: Trials) -> None:
    """Half of BLOCK_M needs twice the programs; half of BLOCK_K, which the loop takes, does not."""
    (kernel,) = product_tried.result().kernels
    variants = {named_changes(c): v for _, c, v in product_tried.variants()}
    base = kernel.kernel.variant
    assert base is not None
    assert variants["BLOCK_M=32"].grid != base.grid
    assert other_work(variants["BLOCK_M=32"], base) == ""
    stated = replace(variants["BLOCK_M=32"], grid=base.grid)
    assert other_work(stated, base) == "the grid does not follow BLOCK_M"
    assert variants["BLOCK_K=64"].grid == base.grid
    assert other_work(variants["BLOCK_K=64"], base) == ""


def test_two_that_free_too_little_are_tried_together() -> None:
    """What cannot be launched comes last, and of that what has least LDS first."""

    def tried_as(name: str, lds: int, *, launches: bool, gone: bool = False) -> Tried:
        refusal = None if launches else "too much LDS"
        figures = Figures(lds_bytes=lds, cannot_launch=refusal)
        return Tried((Change("constexpr", name, 1),), gone, figures)

    half, third = tried_as("M", 128, launches=False), tried_as("N", 96, launches=False)
    least = tried_as("K", 250, launches=False)
    cure = tried_as("S", 64, launches=True, gone=True)
    assert best_two([least, half, third]) == (*third.change, *half.change)
    assert best_two([least, half, cure]) == (*cure.change, *half.change)
    assert best_two([half]) is None
    assert best_two([half, tried_as("M", 64, launches=False)]) is None, "one setting has one value"
    assert best_two([half, replace(third, same_code=True)]) is None
    assert best_two([half, Tried((Change("option", "X", 1),), None, None)]) is None


def test_what_is_not_faster_or_brings_something_graver_is_no_cure() -> None:
    cure = Trial((), True, launches=True)
    assert cure.helped, "no time is known: the finding is gone"
    assert not replace(cure, new_errors=("KI001",)).helped
    assert not replace(cure, launches=False).helped
    assert not replace(cure, gone=None).helped
    faster = replace(cure, gone=False, time=time_change(100, 50))
    assert faster.helped
    assert not replace(faster, new_errors=("KI022",)).helped
    assert not replace(faster, launches=False).helped
    assert not replace(faster, gone=True, time=time_change(100, 96)).helped, "equal"
    assert not replace(faster, gone=True, time=time_change(100, 150)).helped


def test_a_finding_is_gone_only_where_nothing_says_the_same_of_its_loop() -> None:
    pack, _ = judging_pack([])
    rules = {rule.text.id: rule for rule in pack.rules}
    loop, other = (("k.py", 1), ("k.py", 2)), (("k.py", 8), ("k.py", 9))
    before = [PlacedFinding("KI038", "error", loop), PlacedFinding("KI054", "info", other)]
    kin = kin_of(pack)

    def gone(*after: PlacedFinding) -> bool | None:
        return is_gone(before[0], rules["KI038"], before, TrialOutcome(None, after), kin)

    assert gone() is True
    assert gone(PlacedFinding("KI038", "error", loop)) is False
    assert gone(PlacedFinding("KI038", "error", other)) is True
    # KI038 supersedes KI001, which says of the same loop that it spills.
    assert gone(PlacedFinding("KI001", "error", loop)) is False
    assert gone(PlacedFinding("KI001", "error", other)) is True
    assert gone(PlacedFinding("KI038", "error")) is False, "its loop is not known"


@pytest.mark.parametrize(
    ("constexprs", "own", "tiles", "switches"),
    [
        ({"BLOCK_M": 64, "BLOCK_N": 32, "HEAD_DIM": 64}, {}, {"BLOCK_M", "BLOCK_N"}, ()),
        ({"BLOCK_D": 64, "BLOCK_DMODEL": 32}, {}, set(), ()),
        ({"BK": 64, "K": 64, "BV": 32}, {}, {"BV"}, ()),
        ({"BLOCK": 1024}, {}, set(), ()),
        ({"BLOCK_M": 1, "TILE": 1, "GROUP": 1}, {}, {"BLOCK_M", "TILE"}, ()),
        ({"BLOCK": 4096}, {}, {"BLOCK"}, ()),
        ({"BLOCK": 4096, "N": 4096}, {}, {"BLOCK"}, ()),
        ({"BLOCK_N": 4096, "N": 4096}, {}, set(), ()),
        ({"BLOCK": 1024}, {"BLOCK": [512, 1024]}, {"BLOCK"}, ()),
        ({"BLOCK": 1024}, {"BLOCK": [1024]}, set(), ()),
        ({"PRE": True, "CAUSAL": True}, {"PRE": [False, True]}, set(), ("PRE",)),
    ],
)
def test_only_tiles_are_cut(
    spilling: tuple[TryRequest, Report],
    constexprs: dict[str, Any],
    own: dict[str, list[Any]],
    tiles: set[str],
    switches: tuple[str, ...],
) -> None:
    """A block that holds a row, a head or all of a size is none, unless the file varies it."""
    (kernel,) = spilling[1].kernels
    assert kernel.variant is not None
    dot = """
    %d = tt.dot %a, %b, %c : tensor<64x32xf16> * tensor<32x64xf16> -> tensor<64x64xf32>
    %c4096_i32 = arith.constant 4096 : i32 loc(#loc1)
    scf.for %start = %c0_i32 to %length step %c4096_i32  : i32 {
    """
    variant = replace(kernel.variant, ttir=dot, constexprs=constexprs, values={})
    space = space_of(replace(kernel, variant=variant), own)
    assert (set(space.tiles), space.switches) == (tiles, switches)


def test_numbers_of_parts_are_changed_where_the_launch_follows(
    spilling: tuple[TryRequest, Report],
) -> None:
    (kernel,) = spilling[1].kernels
    base = kernel.variant
    assert base is not None
    base = replace(base, constexprs={"SPLIT_K": 1, "SPLITTER": 4}, grid=(8, 1, 1))
    kernel = replace(kernel, variant=base)
    space = space_of(kernel, {})
    assert space.splits == {"SPLIT_K"}
    made = Candidates(kernel, space, options=(), environment={}, catalogue=catalogue())
    splits = [c.value for (c,) in made.neighbours() if c.name == "SPLIT_K"]
    assert splits == [2, 4, 16]
    twice = replace(base, constexprs={"SPLIT_K": 2, "SPLITTER": 4})
    assert other_work(twice, base) == "the grid does not follow SPLIT_K"
    assert other_work(replace(twice, grid=(8, 2, 1)), base) == ""


@pytest.mark.parametrize(
    "text",
    [
        "TUNING = 3",
        "TUNING = {'A': [1, [2]], 3: [4], 'B': 5}",
        "TUNING = {f(): 1}",
        "TUNING = (",
        "\0",
    ],
)
def test_an_odd_tuning_space_is_none(
    spilling: tuple[TryRequest, Report], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "odd.py"
    path.write_text(text)
    (kernel,) = spilling[1].kernels
    for space in own_space(str(path), [kernel]).values():
        assert not any(space_of(kernel, space).tiles.values())
    assert own_space(str(tmp_path / "none.py"), [kernel])[kernel.name] == {}


def test_the_file_says_which_values_a_tile_has() -> None:
    space = Space({"A": (32, 64, 256), "B": ()}, (), has_dots=True)
    assert [space.scaled("A", 64, 0.5), space.scaled("A", 64, 2.0)] == [32, 256]
    assert [space.scaled("A", 32, 0.5), space.scaled("A", 256, 2.0)] == [16, 512]
    assert [space.scaled("B", 64, 0.5), space.scaled("B", 16, 0.5)] == [32, None]
    assert replace(space, has_dots=False).scaled("B", 64, 0.5) is None
    stepping = replace(space, has_dots=False, steps=frozenset({"B"}))
    assert stepping.scaled("B", 64, 0.5) == 32
    assert stepping.scaled("B", 64, 2.0) is None, "a loop need not divide its length then"


# ------------------------------------------------------------------ what is written


def test_its_json_keeps_its_schema(spilling_tried: Trials, product_tried: Trials) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for trials in (spilling_tried, product_tried):
        result = trials.result()
        document = json.loads(json.dumps(try_json.to_dict(result)))
        jsonschema.validate(document, SCHEMA)
        helped = [t.helped for k in result.kernels for f in k.kernel.findings for t in f.trials]
        findings = [f for kernel in document["kernels"] for f in kernel["findings"]]
        assert [t["helped"] for f in findings for t in f["tried"]] == helped
        assert any(helped)


def test_a_report_has_what_was_tried_and_is_read_back(
    spilling: tuple[TryRequest, Report], spilling_tried: Trials
) -> None:
    report = with_trials(spilling[1], spilling_tried.result())
    text = json.dumps(json_write.to_dict(report))
    document = json.loads(text)
    jsonschema.validate(document, REPORT_SCHEMA)
    (finding,) = (f for f in document["kernels"][0]["findings"] if f["rule"] == "KI037")
    assert finding["tried"][0]["gone"] is True
    read = SavedReport.open(text, "saved.json").report()
    # A saved report has not all of a finding's lines, nor the wording by which equals are found.
    kept = [
        replace(f, lines=(), plural_message="", anchor=None) for f in report.kernels[0].findings
    ]
    assert list(read.kernels[0].findings) == kept


def test_every_form_of_a_report_says_what_was_tried(
    spilling: tuple[TryRequest, Report], spilling_tried: Trials
) -> None:
    report = with_trials(spilling[1], spilling_tried.result())
    for write in (write_text, write_markdown):
        stream = io.StringIO()
        write(report, stream)
        assert told_first(spilling_tried) in " ".join(stream.getvalue().split())
    page = io.StringIO()
    write_report(report, page_kernels(report.kernels), page)
    assert told_first(spilling_tried) in page.getvalue()
    (finding,) = (f for f in report.kernels[0].findings if f.rule == "KI037")
    assert told_first(spilling_tried) in explain_finding(finding)


def test_advice_that_failed_is_not_printed(spilling_tried: Trials) -> None:
    kernel = spilling_tried.result().kernels[0].kernel
    (finding,) = (finding for finding in kernel.findings if finding.rule == "KI037")
    assert finding.advice
    failed = tuple(replace(trial, launches=False) for trial in finding.trials)
    assert replace(finding, trials=failed).advice == ""
    assert replace(finding, trials=failed, fix_is_trials=False).advice


def test_the_command(
    tool_in_process: Callable[..., Any],
    spilling: tuple[TryRequest, Report],
    spilling_tried: Trials,
) -> None:
    tool, path = tool_in_process, spilling[0].run.targets[0]
    done = tool("try", path, "--for", "KI037")
    assert done.returncode == 0, done.stderr
    assert f"→ {told_first(spilling_tried)}" in " ".join(done.stdout.split())
    report = tool("analyze", path, "--try", "--no-passes")
    assert report.returncode == 0, report.stderr
    text = " ".join(report.stdout.split())
    assert f"→ {told_first(spilling_tried)}" in text
    assert tool("try", path, "--for", "KI037", "--budget", "0").returncode == 0


def test_a_report_tries_options_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the first findings of the kernel that takes longest, and no tiles."""
    monkeypatch.setattr(limits, "FEW_TRY_SECONDS", 600.0)
    for name, rows in (("longer", 4096), ("shorter", 64)):
        copy = tmp_path / f"{name}.py"
        copy.write_text(COLUMN_SUMS.read_text().replace("4096", str(rows)))

    def changes(*options: str) -> list[tuple[str, set[str]]]:
        words = ("analyze", str(tmp_path), "--arch", "gfx942", "--no-passes", "--format", "json")
        assert main((*words, "--details", *options)) == 0
        kernels = json.loads(capsys.readouterr().out)["kernels"]
        # Few options are tried: that none of all would help is not known.
        fixes = [finding["fix"] for kernel in kernels for finding in kernel["findings"]]
        assert not any(fix.startswith("no option helps") for fix in fixes)
        tried = [
            (Path(kernel["id"].partition("::")[0]).stem, change["kind"])
            for kernel in kernels
            for finding in kernel["findings"]
            for trial in finding.get("tried", ())
            for change in trial["change"]
        ]
        return sorted({(name, frozenset(k for n, k in tried if n == name)) for name, _ in tried})

    assert changes() == [("longer", {"option"})]
    assert changes("--no-try") == []
    assert main(("analyze", str(tmp_path), "--try", "--no-try")) == 2


def test_a_change_that_accesses_what_is_not_passed_has_no_time(
    spilling: tuple[TryRequest, Report],
) -> None:
    def work(job: Job) -> TrialOutcome:
        outcome = run_trial(job)
        figures = outcome.figures
        return replace(outcome, figures=figures and replace(figures, outside="k.py:9 reads beyond"))

    for trial in outcomes(tried(*spilling, work), "KI037").values():
        assert trial.time is None
        assert trial.no_time == "k.py:9 reads beyond"
        assert not trial.helped


@pytest.mark.parametrize("rules", [(), ("KI016",)])
def test_a_faster_change_that_no_finding_asks_for_is_told(
    spilling: tuple[TryRequest, Report], rules: tuple[str, ...]
) -> None:
    """Of two waves in place of one, which take half the time here."""
    request, report = spilling
    (kernel,) = report.kernels
    kept = tuple(replace(kernel.findings[0], rule=rule, saves_percent=30.0) for rule in rules)
    report = replace(report, kernels=(replace(kernel, findings=kept),))

    def work(job: Job) -> TrialOutcome:
        assert job.variant is not None
        outcome = run_trial(replace(job, variant=kernel.variant))
        figures = outcome.figures
        if job.variant.options["num_warps"] != 2 or figures is None or figures.time_us is None:
            return outcome
        halved = replace(figures, time_us=figures.time_us / 2, isa_sha256="other")
        return replace(outcome, figures=halved)

    few = replace(request, rules=None, first=2)
    told = with_trials(report, tried(few, report, work).result())
    assert told.kernels[0].fastest_percent == pytest.approx(50.0, abs=0.1)
    text = io.StringIO()
    write_text(told, text)
    places = [text.getvalue().index(word) for word in ("num_warps 1 → 2: ", *rules)]
    assert places == sorted(places)
    asked = replace(request, rules=frozenset({"KI037"}))
    assert [k.kernel.fastest for k in tried(asked, report, work).result().kernels] in ([], [None])


def test_findings_without_options_leave_the_first_places_to_others(
    spilling: tuple[TryRequest, Report],
) -> None:
    request, report = spilling
    (kernel,) = report.kernels
    (finding,) = (finding for finding in kernel.findings if finding.rule == "KI037")
    others = tuple(replace(finding, rule="KI016", fingerprint=f"{n}") for n in range(3))
    report = replace(report, kernels=(replace(kernel, findings=(*others, finding)),))
    unchanged = lambda job: run_trial(replace(job, variant=kernel.variant))  # noqa: E731
    run = tried(replace(request, rules=None, first=1), report, unchanged).result()
    assert [f.rule for f in run.kernels[0].kernel.findings if f.trials] == ["KI037"]


def test_the_finding_whose_compiled_change_saves_most_is_the_first(
    spilling_tried: Trials,
) -> None:
    (kernel,) = spilling_tried.result().kernels
    (finding,) = (f for f in kernel.kernel.findings if f.rule == "KI037")
    best = finding.trials[0].time
    assert best is not None
    told = replace(finding, saves_percent=1.0)
    assert told.gain_percent == -best.percent
    assert replace(told, saves_percent=99.0).gain_percent == 99.0
    assert replace(told, trials=()).gain_percent == 1.0
    more = replace(told, rule="KI016", trials=(), saves_percent=1 - best.percent)
    less = replace(more, rule="KI017", saves_percent=-1 - best.percent)
    assert in_order([less, told, more]) == [more, told, less]


def test_compiled_code_cannot_be_tried(tool: Callable[..., Any]) -> None:
    done = tool("try", SMALL)
    assert done.returncode == 2
    assert [line for line in done.stderr.splitlines() if "compiled already" in line]
    assert len(done.stderr.splitlines()) == 1


# ------------------------------------------------------------------ cures of packs


def test_every_cure_of_the_bundled_packs_is_complete() -> None:
    pack, _ = judging_pack(["KI", "KS", "KG"])
    cures = [cure for rule in pack.rules for cure in rule.text.cures]
    assert cures
    assert all(cure.is_complete for cure in cures)


@pytest.mark.parametrize(
    ("cure", "fault"),
    [
        ("{option: num_warps}", "a cure has one of"),
        ("{option: num_warps, env: X, values: [1]}", "a cure has one of"),
        ("{env: X, factors: [2]}", "a cure has one of"),
        ("{option: num_warps, factors: [-1]}", "larger than 0"),
        ("{option: num_warps, metric: no.such}", "no.such"),
        ("{option: num_warps, value: 3}", "value"),
    ],
)
def test_faults_of_cures_are_told(cure: str, fault: str) -> None:
    from kinspect.inspector.lint.packs import PackError, parse_pack
    from kinspect.inspector.pipeline.analysis import catalogue

    text = f"""
- id: X1
  name: x
  severity: info
  scope: kernel
  require: lds_bytes < 3
  message: m
  cures: [{cure}]
"""
    with pytest.raises(PackError, match=fault):
        parse_pack(text, "x.yaml", catalogue())


def test_a_pack_takes_cures() -> None:
    pack: Pack = judging_pack([])[0]
    (rule,) = (rule for rule in pack.rules if rule.text.id == "KI038")
    assert rule.text.cures_only
    assert rule.text.cures[0] == Cure(option="waves_per_eu", values=(0,))


def test_variants_carry_no_environment_by_themselves(
    spilling: tuple[TryRequest, Report],
) -> None:
    variant = spilling[1].kernels[0].variant
    assert isinstance(variant, Variant)
    assert variant.environment == {}
