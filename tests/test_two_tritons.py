"""Two compiles of one kernel compared: where they begin to differ, on real compiles.

Those of one Triton with different options always run. Those of two Tritons need a second one:
`KINSPECT_TRITONS=3.6=/path/to/python pytest tests/test_two_tritons.py`.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.base.streams import dump_json
from kinspect.inspector.capture.targets import Target
from kinspect.inspector.cli.tritons import compare_tritons
from kinspect.inspector.compare.passdiff import kind_of
from kinspect.inspector.compare.stages import Comparison, Side, compare
from kinspect.inspector.compare.tritons import Build, BuildsReport, KernelComparison, compare_builds
from kinspect.inspector.compile import code_text, mlir_text
from kinspect.inspector.compile.mlir_content import content_of
from kinspect.inspector.compile.passes import read_passes
from kinspect.inspector.compile.pool import Compiler, CompileResult, CompileSettings
from kinspect.inspector.compile.tritons import VARIABLE, known_tritons, resolve
from kinspect.inspector.formats import tritons as render
from kinspect.inspector.model import ErrorRecord, SourceLoc, Variant
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.capturing import variants_of
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.present import text
from msgspec.structs import replace

pytest.importorskip("triton")
KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"

# ------------------------------------------------------------------ one Triton, two compiles


@pytest.fixture(scope="module")
def compiler() -> Iterator[Compiler]:
    with Compiler(CompileSettings(passes=True)) as one:
        yield one


@pytest.fixture(scope="module")
def gemm(compiler: Compiler) -> Variant:
    request = Request((str(KERNELS),), ("gfx942",), "gemm")
    variants, errors = variants_of(Target(KERNELS, "script", None, {}), request, compiler)
    assert not errors
    return variants[0]


@pytest.fixture(scope="module")
def side(compiler: Compiler) -> Callable[[str, Variant], Side]:
    def make(label: str, variant: Variant) -> Side:
        result = compiler.compile(variant)
        assert result.error is None, result.error
        return Side(label, result.artifacts, _ends(result), _report(result))

    return make


def _ends(result: CompileResult) -> tuple[tuple[str, int], ...]:
    return tuple((s.stage, s.dump_bytes) for s in result.stages if s.dump_bytes is not None)


def _report(result: CompileResult) -> Any:
    context = Context(
        "k.py", metadata=result.metadata, variant=result.variant, artifacts=result.artifacts
    )
    (report,) = analyze_text(result.artifacts["amdgcn"].path.read_text(), context)
    return report


def _with(variant: Variant, **options: Any) -> Variant:
    return replace(variant, options={**variant.options, **options})


def _figure(found: Comparison, name: str, scope: str = "kernel") -> tuple[Any, Any]:
    (one,) = [f for f in found.figures if (f.name, f.scope) == (name, scope)]
    return one.left, one.right


def test_the_same_compile_has_no_difference(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    one = side("a", gemm)
    found = compare(one, replace(one, label="b"))
    assert found.same
    assert (found.stage, found.excerpt, found.passes) == (None, "", ())
    assert [s.stage for s in found.stages] == ["ttir", "ttgir", "llir", "amdgcn"]
    assert all(s.same for s in found.stages)
    assert all(f.same for f in found.figures)
    assert _figure(found, "count.mfma", "main loop")[0] > 0


def test_debug_locations_and_value_names_are_no_difference(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    # Another file, other lines, other argument and value names: the code is the same.
    ttir = re.sub(r'loc\("[^"]*\.py":(\d+):', r'loc("elsewhere.py":9\1:', gemm.ttir)
    ttir = re.sub(r"%(\w*[a-z]\w*)", r"%\1_renamed", ttir)
    assert "renamed" in ttir
    assert "elsewhere" in ttir
    moved = side("moved", replace(gemm, ttir=ttir))
    one = side("one", gemm)
    assert moved.artifacts["amdgcn"].sha256 != one.artifacts["amdgcn"].sha256
    found = compare(one, moved)
    assert found.same, (found.stage, found.excerpt)


def test_more_stages_differ_first_in_the_pipeliner(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    found = compare(side("one", _with(gemm, num_stages=1)), side("two", _with(gemm, num_stages=2)))
    assert not found.same
    assert found.stage == "ttgir"
    assert {s.stage: s.same for s in found.stages}["ttir"]
    last = found.passes[-1]
    assert last.name == "tritonamdgpu-schedule-loops"
    assert last.stage == "ttgir"
    assert last.lasts
    assert not last.order_only
    steps = {step.name: (step.left, step.right) for step in found.steps}
    assert steps["tritongpu-coalesce"] == (0, 0)
    assert steps["tritonamdgpu-schedule-loops"] != (0, 0)
    assert found.cause.startswith("pass tritonamdgpu-schedule-loops")
    assert found.excerpt.startswith("--- one, before tritonamdgpu-pipeline")
    assert any(line.startswith("+") and "loop.stage" in line for line in found.excerpt.splitlines())


def test_the_pass_named_is_where_the_dumps_part(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    """Held against the dumps themselves: the states before it are equal, those after it differ."""
    one = side("default", gemm)
    other = side("16", _with(gemm, matrix_instr_nonkdim=16))
    found = compare(one, other)
    assert found.stage == "ttgir"
    (where,) = found.passes
    assert where.name == "tritonamdgpu-accelerate-matmul"
    # Its own options are the difference.
    assert where.options is not None
    assert "matrix-instruction-size=16" in where.options[1]
    dumps = [read_passes(s.artifacts["passes"].path) for s in (one, other)]
    assert where.before is not None
    before = [mlir_text.normal_mlir(d.text(i)) for d, i in zip(dumps, where.before, strict=True)]
    after = [mlir_text.normal_mlir(d.text(i)) for d, i in zip(dumps, where.after, strict=True)]
    assert before[0] == before[1]
    assert after[0] != after[1]
    assert where.after == (where.before[0] + 1, where.before[1] + 1)


@pytest.mark.parametrize(
    "options", [{"waves_per_eu": 2}, {"llvm_fn_attrs": "amdgpu-sched-strategy=max-ilp"}]
)
def test_attributes_differ_first_in_llvm_ir(
    gemm: Variant, side: Callable[[str, Variant], Side], options: dict[str, Any]
) -> None:
    try:
        other = side("attributes", _with(gemm, **options))
    except AssertionError as error:
        pytest.skip(f"this Triton lacks the option: {error}")
    found = compare(side("plain", gemm), other)
    assert found.stage == "llir"
    assert found.passes == ()
    assert "LLVM's optimiser" in found.cause
    assert "amdgpu-" in found.excerpt


# ------------------------------------------------------------------ order, attributes, contents


def _stage_of(found: Comparison, name: str) -> tuple[bool | None, str | None]:
    (one,) = [s for s in found.stages if s.stage == name]
    return one.same, one.kind


def test_an_attribute_is_a_difference_and_called_one(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    """What the launch says of a pointer's alignment decides how wide accesses are."""
    attribute = "{tt.divisibility = 16 : i32}"
    line = next(line for line in gemm.ttir.splitlines() if "tt.func" in line)
    assert attribute in line
    aligned = line.replace(attribute, "{tt.divisibility = 8 : i32}", 1)
    found = compare(
        side("16", gemm), side("8", replace(gemm, ttir=gemm.ttir.replace(line, aligned)))
    )
    assert _stage_of(found, "ttir") == (False, "attributes")
    assert found.stage == "ttir"
    shown = [line for line in found.excerpt.splitlines() if line[:1] in "+-"][2:]
    assert len(shown) == 2
    assert all("tt.func" in line for line in shown)


def test_statements_in_another_order_are_told_apart(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    """Two that rest on neither each other: the contents are the same."""
    one = side("as written", gemm)
    lines = gemm.ttir.splitlines()
    at = next(n for n, line in enumerate(lines) if "arith.constant" in line)
    assert "arith.constant" in lines[at + 1]
    lines[at], lines[at + 1] = lines[at + 1], lines[at]
    swapped = side("swapped", replace(gemm, ttir="\n".join(lines)))
    found = compare(one, swapped)
    assert _stage_of(found, "ttir") == (False, "order")
    if found.stage != "ttir":  # what came of it later is no matter of order
        assert any("the order of operations alone" in note for note in found.notes)


def test_operands_that_change_places_are_no_matter_of_order() -> None:
    """Both have the same lines but for the values' names."""
    text = (
        "module {\n  tt.func @k(%a: i32, %b: i32) {\n    %c = arith.muli %a, %a : i32\n"
        "    %d = arith.addi %a, %b : i32\n    %e = arith.subi %c, %d : i32\n"
        "    tt.return\n  }\n}"
    )
    same, swapped = content_of(text), content_of(text.replace("%c, %d", "%d, %c"))
    assert kind_of(same, swapped, printed_alike=True) == "operations"
    lines = text.splitlines()
    lines[2], lines[3] = lines[3], lines[2]
    reordered = content_of("\n".join(lines))
    assert kind_of(same, reordered, printed_alike=True) == "order"
    renamed = content_of(text.replace("%c", "%x").replace("%d", "%c"))
    assert (same.full, same.bare_digest) == (renamed.full, renamed.bare_digest)


def test_a_constexpr_is_a_difference_of_contents(
    gemm: Variant, compiler: Compiler, side: Callable[[str, Variant], Side]
) -> None:
    text = KERNELS.read_text().replace('"BLOCK_K": 32', '"BLOCK_K": 64')
    with tempfile.TemporaryDirectory() as folder:
        edited = Path(folder) / KERNELS.name
        edited.write_text(text)
        request = Request((str(edited),), ("gfx942",), "gemm")
        variants, errors = variants_of(Target(edited, "script", None, {}), request, compiler)
    assert not errors
    found = compare(side("32", gemm), side("64", variants[0]))
    assert found.stage == "ttir"
    assert _stage_of(found, "ttir") == (False, "operations")


def test_what_versions_print_in_other_ways_is_no_difference(
    gemm: Variant, side: Callable[[str, Variant], Side], tmp_path: Path
) -> None:
    """Triton 3.6 prints no pointer type and numbers for masks where 3.9 has both as words."""
    one = side("3.9", gemm)
    ttgir = one.artifacts["ttgir"].path.read_text()
    older = ttgir.replace(" : !tt.ptr<f16> -> ", " : ").replace(" : !tt.ptr<f16>, ", " : ")
    older = older.replace("{contiguity = 4 : i32} ", "")
    for name, number in (("none", "0"), ("non_mem_non_sideeffect", "1")):
        older = older.replace(f"rocdl.sched.barrier {name}", f"rocdl.sched.barrier {number}")
    assert older != ttgir
    metadata = json.loads(one.artifacts["metadata"].path.read_bytes())

    def printed_by(version: str, text: str) -> Side:
        changed = dict(one.artifacts)
        for kind, content in (
            ("ttgir", text),
            ("metadata", json.dumps({**metadata, "triton_version": version})),
        ):
            path = tmp_path / f"{version}.{kind}"
            path.write_text(content)
            changed[kind] = replace(changed[kind], path=path)
        return Side(version, changed, report=one.report)

    found = compare(one, printed_by("3.6.0", older))
    assert found.stage is None
    assert found.same
    assert any("how attributes and pointer types are printed" in note for note in found.notes)
    # By one version they mean something.
    found = compare(one, printed_by(str(metadata["triton_version"]), older))
    assert _stage_of(found, "ttgir") == (False, "attributes")
    # And other operations are a difference whatever printed them.
    found = compare(one, printed_by("3.6.0", older.replace("arith.muli", "arith.addi", 1)))
    assert _stage_of(found, "ttgir") == (False, "operations")


def test_a_missing_stage_is_said_and_the_rest_compared(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    one = side("one", _with(gemm, num_stages=1))
    two = side("two", _with(gemm, num_stages=2))
    bare = {k: v for k, v in two.artifacts.items() if k in ("ttir", "amdgcn")}
    found = compare(one, replace(two, artifacts=bare))
    assert {s.stage: s.same for s in found.stages} == {
        "ttir": True,
        "ttgir": None,
        "llir": None,
        "amdgcn": False,
    }
    assert found.stage == "amdgcn"
    assert "two has no ttgir: not compared" in found.notes
    assert found.excerpt.startswith("--- amdgcn of one\n+++ amdgcn of two")
    without = {k: v for k, v in two.artifacts.items() if k != "passes"}
    found = compare(one, replace(two, artifacts=without))
    assert found.stage == "ttgir"
    assert found.cause == "Triton's passes on TTGIR"
    assert any("no pass dump" in note for note in found.notes)


def test_figures_are_those_of_the_reports(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    one, two = side("one", _with(gemm, num_stages=1)), side("two", _with(gemm, num_stages=2))
    found = compare(one, two)
    for name in ("vgpr_count", "lds_bytes", "code_bytes", "occupancy.waves_per_eu"):
        assert one.report is not None
        assert two.report is not None
        assert _figure(found, name) == tuple(
            s.report.metrics[name].value for s in (one, two) if s.report is not None
        )
    names = {f.name for f in found.figures if f.scope == "kernel"}
    assert "count.mfma" in names
    assert "count.wmma" not in names, "0 on both sides"
    assert compare(replace(one, report=None), two).figures == ()


# ------------------------------------------------------------------ normal forms

LLVM = """\
; ModuleID = 'LLVMDialectModule'
source_filename = "x"
target triple = "amdgcn-amd-amdhsa"
declare i32 @llvm.amdgcn.workitem.id.x() #1
define amdgpu_kernel void @k(ptr addrspace(1) nocapture %0, i32 %n) #0 !dbg !4 {
  %3 = tail call i32 @llvm.amdgcn.workitem.id.x(), !dbg !5
  br label %loop, !dbg !5

loop:                                             ; preds = %2
  %5 = phi i32 [ %3, %2 ], [ %6, %loop ]
  %6 = add i32 %5, 1
  br i1 true, label %loop, label %7, !llvm.loop !6

7:                                                ; preds = %loop
  ret void, !dbg !5
}
attributes #0 = { nounwind "amdgpu-waves-per-eu"="2" "target-cpu"="gfx942" }
attributes #1 = { nounwind }
!llvm.module.flags = !{!0}
!0 = !{i32 2, !"Debug Info Version", i32 3}
!4 = distinct !DISubprogram(name: "k", line: 1)
!5 = !DILocation(line: 5, column: 3, scope: !4)
!6 = distinct !{!6, !7}
!7 = !{!"llvm.loop.unroll.disable"}
"""
ASM = """\
\t.text
\t.globl\tk ; -- Begin function k
k:
.Lfunc_begin0:
\t.loc\t1 5 0 ; k.py:5:0
.LBB0_1: ; =>This Inner Loop
\tv_add_f32_e32 v1, v1, v2 ; comment
\ts_cbranch_scc1 .LBB0_1
.Ltmp0:
\ts_endpgm
\t.section\t.debug_info,"",@progbits
\t.long\t5
\t.amdgpu_metadata
  - .agpr_count:     0
    .vgpr_count:     4
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%5", "%five"),
        ("loop", "body"),
        ("line: 5", "line: 50"),
        ("nocapture", "captures(none)"),
        ('nounwind "amdgpu-waves-per-eu"="2"', '"amdgpu-waves-per-eu"="2" nounwind'),
        ("#0", "#7"),
        ("; preds", "; predecessors"),
        ("amdgcn-amd-amdhsa", "amdgpu9.42-amd-amdhsa"),
    ],
)
def test_llvm_ir_that_says_the_same(old: str, new: str) -> None:
    text = LLVM
    if old == "loop":
        text = LLVM.replace("!llvm.loop", "!llvm.L").replace("llvm.loop.", "llvm.L.")
    changed = text.replace(old, new)
    assert changed != text
    assert code_text.normal_llvm(changed) == code_text.normal_llvm(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("add i32 %5, 1", "add i32 %5, 2"),
        ("add i32 %5, 1", "add i32 %3, 1"),
        ("[ %6, %loop ]", "[ %5, %loop ]"),
        ('"amdgpu-waves-per-eu"="2"', '"amdgpu-waves-per-eu"="3"'),
        ("unroll.disable", "unroll.full"),
        ("label %7,", "label %loop,"),
        ("i32 %n", "i64 %n"),
    ],
)
def test_llvm_ir_that_says_something_else(old: str, new: str) -> None:
    assert code_text.normal_llvm(LLVM.replace(old, new, 1)) != code_text.normal_llvm(LLVM)


def test_assembly_is_its_code_and_stated_figures() -> None:
    assert code_text.plain_amdgcn(ASM).splitlines() == [
        "k:",
        ".LBB0_1:",
        "  v_add_f32_e32 v1, v1, v2",
        "  s_cbranch_scc1 .LBB0_1",
        "  s_endpgm",
        "- .agpr_count:     0",
        ".vgpr_count:     4",
    ]
    same = ASM.replace(".LBB0_1", ".LBB0_9").replace("; comment", "").replace("k.py", "j.py")
    assert code_text.normal_amdgcn(same) == code_text.normal_amdgcn(ASM)
    for old, new in (("v2", "v3"), ("count:     4", "count:     5"), ("scc1 .LBB0_1", "scc1 .L2")):
        assert code_text.normal_amdgcn(ASM.replace(old, new)) != code_text.normal_amdgcn(ASM)


def test_layouts_of_mlir_are_spelled_out_and_old_spellings_known() -> None:
    one = '#a = #ttg.blocked<{order = [0]}>\nmodule {\n  %0 = "x"() : tensor<4xf32, #a>\n}'
    assert mlir_text.normal_mlir(one) == mlir_text.normal_mlir(one.replace("#a", "#blocked7"))
    assert mlir_text.normal_mlir(one) != mlir_text.normal_mlir(one.replace("[0]", "[1]"))
    old = "#mma = #ttg.amd_mfma<{versionMajor = 3, versionMinor = 0, instrShape = [32, 32]}>"
    new = "#mma = #ttg.amd_mfma<{version = 3, instrShape = [32, 32, 8]}>"
    assert mlir_text.spells_older(old)
    assert not mlir_text.spells_older(new)
    assert mlir_text.older_spelling(old) == mlir_text.older_spelling(new)


# ------------------------------------------------------------------ labels


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Interpreters that are only files, by label: one stated, two in the data folder."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    found = {}
    for label in ("3.5.0", "3.5.1"):
        python = tmp_path / "data" / "kinspect" / "tritons" / label / "bin" / "python"
        python.parent.mkdir(parents=True)
        python.touch()
        found[label] = str(python)
    monkeypatch.setenv(VARIABLE, f"3.3=/opt/a/python{os.pathsep}mine=/opt/b/python")
    return {**found, "3.3": "/opt/a/python", "mine": "/opt/b/python"}


@pytest.mark.skipif(sys.platform != "linux", reason="the data folder is elsewhere")
def test_labels_are_found_in_all_three_places(fake: dict[str, str]) -> None:
    own = metadata.version("triton")
    assert known_tritons() == {**fake, own: sys.executable}
    assert resolve("mine").python == fake["mine"]
    assert resolve("3.3").python == fake["3.3"]
    assert resolve("3.3.1").python == fake["3.3"], "3.3 may be 3.3.1: its Triton decides"
    assert resolve("3.5").python == fake["3.5.1"], "the newest"
    assert resolve("3.5.0").python == fake["3.5.0"]
    assert resolve(own.rpartition(".")[0]).python == sys.executable
    assert resolve(sys.executable).python == sys.executable


def test_an_unknown_label_says_what_is_known_and_how_to_add_one(fake: dict[str, str]) -> None:
    for name in ("3.2", "nightly", "35", "3.51"):
        with pytest.raises(KinspectError) as caught:
            resolve(name)
        text = str(caught.value)
        assert "\n" not in text
        assert name in text
        assert "/opt/b/python" in text
        assert VARIABLE in text
    with pytest.raises(KinspectError, match="no such interpreter"):
        resolve("/no/such/python")


def test_a_malformed_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "3.6")
    with pytest.raises(KinspectError, match=r"KINSPECT_TRITONS: '3\.6' is not LABEL=PATH"):
        resolve("3.4")


def test_a_label_must_be_what_the_interpreter_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"2.1={sys.executable}")
    own = metadata.version("triton")
    request = Request((str(KERNELS),), ("gfx942",), "gemm")
    with pytest.raises(KinspectError, match=rf"'2\.1' names .* which has Triton {own}"):
        compare_builds(request, [sys.executable, "2.1"])


# ------------------------------------------------------------------ the command's body


def test_the_same_triton_twice(capsys: pytest.CaptureFixture[str]) -> None:
    request = Request((str(KERNELS),), ("gfx942",), "gemm", jobs=2)
    own = metadata.version("triton")
    assert compare_tritons(request, [own, sys.executable], "text", None) == 0
    text = capsys.readouterr().out
    assert "no difference: every stage says the same" in text
    assert "are the same Triton" in text
    assert compare_tritons(request, [own, sys.executable], "json", None) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema_version"] == 1
    assert [t["triton_version"] for t in found["tritons"]] == [own, own]
    (one,) = found["comparisons"]
    assert one["same"]
    assert one["first_stage"] is None
    assert one["same_ttir"]


def made(kernels: int, found: Comparison | None) -> BuildsReport:
    """A run's report with so many comparisons."""
    build = Build("3.9", "/a/python", "3.9.0", "k")
    error = ErrorRecord("k.py", "gemm", "compile", "gemm failed: because", "try this")
    one = KernelComparison(
        kernel="gemm[case]",
        arch="gfx942",
        file="k.py",
        source=SourceLoc("/a/k.py", 7),
        variant=Variant(
            kernel="gemm", arch="gfx942", wave_size=64, ttir="", options={"num_warps": 4}
        ),
        left=0,
        right=1,
        same_ttir=True,
        comparison=found,
        errors={} if found is not None else {"3.6": error},
    )
    builds = (build, replace(build, label="mine", triton_version="3.6.0"))
    return BuildsReport("k.py", {"name": "kinspect"}, builds, (one,) * kernels, ())


def test_both_forms_of_differences_and_of_failures(
    gemm: Variant, side: Callable[[str, Variant], Side]
) -> None:
    import jsonschema

    schema = json.loads((Path(render.__file__).parent / "comparison.schema.json").read_text())
    two = [side(f"stages {n}", _with(gemm, num_stages=n)) for n in (1, 2)]
    for found in (compare(*two), compare(two[0], two[0]), None):
        for kernels in (1, 2, 9):
            report = made(kernels, found)
            stream = io.StringIO()
            dump_json(render.fields(report), stream)
            jsonschema.validate(json.loads(stream.getvalue()), schema)
            stream = io.StringIO()
            text.show(render.document(report), stream)
            told = stream.getvalue()
            assert "gemm[case]  gfx942" in told
            # Many are a table of one line each, but for those that failed.
            in_full = kernels <= 4 or found is None
            assert (
                "3.9 (Triton 3.9.0)" in told or "3.9 and mine (Triton 3.6.0)" in told
            ) is in_full
            assert ("one kernel in full" in told) is (kernels == 9)
            assert ("3.6: gemm failed: because" in told) is (found is None)
            assert told.count("3.9 | mine") == (kernels if kernels > 1 else 0)


def test_what_cannot_be_compared_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(KinspectError, match="one Triton alone"):
        compare_builds(Request((str(KERNELS),)), ["3.9"])
    compiled = tmp_path / "k.s"
    compiled.write_text(ASM)
    with pytest.raises(KinspectError, match="compiled already"):
        compare_builds(Request((str(compiled),)), ["3.9", "3.6"])
    with pytest.raises(KinspectError, match="--format md"):
        compare_tritons(Request((str(KERNELS),)), ["3.9", "3.6"], "md", None)


# ------------------------------------------------------------------ really two

OWN = metadata.version("triton")
OTHERS = [label for label in known_tritons() if label != OWN]
needs_another = pytest.mark.skipif(not OTHERS, reason=f"no second Triton in {VARIABLE}")

BY_VERSION = """
import triton
import triton.language as tl

NEW = tl.constexpr(hasattr(tl, "map_elementwise"))


@triton.jit
def twice(x):
    return x + x


@triton.jit
def double(x, y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    value = tl.load(x + at)
    if NEW:
        value = tl.map_elementwise(twice, value)
    else:
        value = value + value
    tl.store(y + at, value)


KINSPECT_CASES = [{
    "name": "only", "kernel": "double", "constexprs": {"BLOCK": 256},
    "signature": {"x": "*fp32:16", "y": "*fp32:16"},
}]
"""


@needs_another
@pytest.mark.parametrize("label", OTHERS)
def test_two_tritons_of_one_kernel(label: str, capsys: pytest.CaptureFixture[str]) -> None:
    request = Request((str(KERNELS),), ("gfx942",), "gemm", jobs=2)
    report: BuildsReport = compare_builds(request, [OWN, label])
    (one,) = report.kernels
    assert one.same_ttir
    assert not one.errors
    assert one.comparison is not None
    # Of this GEMM 3.6 to 3.9 make TTGIR that differs in spelling and order alone.
    stage = "llir" if label.startswith(("3.6", "3.7", "3.8")) else "ttgir"
    assert one.comparison.stage == stage
    assert one.comparison.passes
    assert one.comparison.passes[-1].stage == stage
    assert one.comparison.excerpt
    left, right = _figure(one.comparison, "code_bytes")
    assert left
    assert right
    assert compare_tritons(request, [OWN, label], "text", None) == 0
    text = capsys.readouterr().out
    assert f"first stage that differs: {stage}, by" in text
    assert f"{OWN} and {label} (Triton" in text


@needs_another
@pytest.mark.parametrize("label", OTHERS)
def test_ttir_that_the_other_does_not_understand(label: str, tmp_path: Path) -> None:
    script = tmp_path / "by_version.py"
    script.write_text(BY_VERSION)
    request = Request((str(script),), ("gfx942",), jobs=2)
    (one,) = compare_builds(request, [OWN, label]).kernels
    if one.same_ttir:
        pytest.skip(f"{label} understands tt.map_elementwise")
    assert one.comparison is not None, one.errors
    assert f"TTIR of {OWN} does not parse in {label}: " in one.notes[0]
    assert "map_elementwise" in one.notes[0]
    # Each front end made its own TTIR: that is where they part.
    assert one.comparison.stage == "ttir"
    assert one.comparison.cause == "Triton's front end"
