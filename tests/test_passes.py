"""The splitter of MLIR pass dumps, on a real dump and on texts made for the purpose."""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.capture.script import capture_script
from kinspect.inspector.compile.mlir_text import canonical, strip_locations, unified_diff
from kinspect.inspector.compile.passes import PassDump, diff, read_passes
from kinspect.inspector.compile.pool import Compiler, CompileResult, CompileSettings

pytestmark = pytest.mark.xdist_group("passes")

KERNELS = Path(__file__).parent / "data" / "guest_kernels.py"

# ------------------------------------------------------------------ a real dump


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    pytest.importorskip("triton")
    settings = CompileSettings(cache_dir=tmp_path_factory.mktemp("store"), passes=True)
    with Compiler(settings) as compiler:
        with compiler.worker() as worker:
            (variant,), _ = capture_script(worker, KERNELS, ["gfx942"], ("gemm",))
        result = compiler.compile(variant)
    assert result.error is None
    return result


@pytest.fixture(scope="module")
def dump(compiled: CompileResult) -> PassDump:
    ends = [(s.stage, s.dump_bytes) for s in compiled.stages if s.dump_bytes is not None]
    return read_passes(compiled.artifacts["passes"].path, ends)


def test_every_header_is_a_pass_and_the_dump_is_whole(
    compiled: CompileResult, dump: PassDump
) -> None:
    content = compiled.artifacts["passes"].path.read_text()
    headers = re.findall(r"^// -----// IR Dump Before (\w+)", content, re.M)
    assert [p.name for p in dump.passes] == headers
    assert len(headers) > 40
    # The last page of the dump is written by C's exit() alone.
    assert dump.text(len(headers) - 1).rstrip().splitlines()[-1].startswith("#loc")
    assert {p.kernel for p in dump.passes} == {"gemm"}
    assert {p.run for p in dump.passes} == {0}
    assert {p.op for p in dump.passes} == {"builtin.module", "tt.func"}
    first = dump.passes[0]
    assert first.cli == "convert-triton-to-tritongpu"
    assert "num-warps=4" in first.options
    assert {p.function for p in dump.passes if p.op == "tt.func"} == {"@gemm"}


def test_stages_meet_at_the_ttgir_artifact(compiled: CompileResult, dump: PassDump) -> None:
    stages = [p.stage for p in dump.passes]
    boundary = stages.index("llir")
    assert stages == ["ttgir"] * boundary + ["llir"] * (len(stages) - boundary)
    artifact = compiled.artifacts["ttgir"].path.read_text()
    assert canonical(dump.text(boundary)) == canonical(artifact)
    assert dump.passes[boundary - 1].cli == "symbol-dce"
    assert canonical(dump.text(0)) == canonical(compiled.variant.ttir)


def test_stages_are_the_same_without_the_compilers_notes(
    compiled: CompileResult, dump: PassDump
) -> None:
    assert read_passes(compiled.artifacts["passes"].path) == dump


def test_changed_agrees_with_the_diff(dump: PassDump) -> None:
    for one in dump.passes[:-1]:
        assert one.changed == bool(diff(dump, one.index, one.index + 1)), one.name
    assert dump.passes[-1].changed is None
    by_name = {p.name: p.changed for p in dump.passes}
    assert by_name["TritonAMDGPUAccelerateMatmul"]
    assert by_name["ConvertTritonAMDGPUToLLVM"]
    assert not by_name["LLVMDIScope"]  # debug information alone


def test_the_diff_of_a_pass_shows_what_it_did(dump: PassDump) -> None:
    index = next(p.index for p in dump.passes if p.name == "TritonAMDGPUAccelerateMatmul")
    text = diff(dump, index, index + 1)
    added = [line for line in text.splitlines() if line.startswith("+")]
    removed = [line for line in text.splitlines() if line.startswith("-")]
    assert any("#ttg.amd_mfma" in line for line in added)
    assert any("tt.dot" in line for line in removed)
    assert any("tt.dot" in line for line in added)
    assert "loc(" not in text
    # The loads move down by the lines put in before them, and are not shown for that.
    assert not any("tt.load" in line for line in added + removed)


def test_no_such_pass(dump: PassDump) -> None:
    with pytest.raises(KinspectError, match="no pass 999"):
        diff(dump, 0, 999)


# ------------------------------------------------------------------ dumps made by hand

HEADER = "// -----// IR Dump Before {} ('builtin.module' operation) //----- //\n"


def module(name: str, body: str) -> str:
    return f"module {{\n  tt.func public @{name}() {{\n{body}  }}\n}}\n\n\n"


def test_older_headers_and_several_compiles(tmp_path: Path) -> None:
    states = [
        ("Inliner (inline)", "a", "    %0 = x.y\n"),
        ("ConvertTritonToTritonGPU (convert-triton-to-tritongpu)", "a", "    %1 = x.y\n"),
        ("CSE (cse)", "a", "    %1 = x.z\n"),
        ("SCFToControlFlowPass (convert-scf-to-cf)", "a", "    %1 = x.z\n"),
        ("Inliner (inline)", "a", "    %0 = x.y\n"),
        ("CSEPass: cse", "b", "    %0 = x.y\n"),
    ]
    path = tmp_path / "dump.mlir"
    path.write_text(
        "noise before\n" + "".join(HEADER.format(h) + module(k, b) for h, k, b in states)
    )
    found = read_passes(path).passes
    assert [(p.name, p.cli) for p in found] == [
        ("Inliner", "inline"),
        ("ConvertTritonToTritonGPU", "convert-triton-to-tritongpu"),
        ("CSE", "cse"),
        ("SCFToControlFlowPass", "convert-scf-to-cf"),
        ("Inliner", "inline"),
        ("CSEPass", "cse"),
    ]
    assert [p.stage for p in found] == ["ttir", "ttgir", "ttgir", "llir", "ttir", "ttir"]
    assert [p.run for p in found] == [0, 0, 0, 0, 1, 2]
    assert [p.kernel for p in found] == ["a"] * 5 + ["b"]
    assert [p.changed for p in found] == [False, True, False, None, None, None]


@pytest.mark.parametrize("content", ["", "no dump here\n"])
def test_a_file_without_a_dump(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.mlir"
    path.write_text(content)
    with pytest.raises(KinspectError, match="no MLIR pass dump"):
        read_passes(path)
    with pytest.raises(KinspectError, match="cannot be read"):
        read_passes(tmp_path / "missing")


# ------------------------------------------------------------------ comparing texts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%0 = a.b %x : i32 loc(#loc3)", "%0 = a.b %x : i32"),
        (
            'f(%a: i32 loc("a"(#loc)), %b: i32 loc("b(("(#loc1))) loc(unknown)',
            "f(%a: i32, %b: i32)",
        ),
        ("x loc(callsite(#loc1 at fused<#di>[#loc2]))", "x"),
        ('#loc = loc("f.py":1:2)\n#loc1 = loc("x"(#loc))\n%0 = y', "%0 = y"),
        ('#di_file = #llvm.di_file<"f">\nx', "x"),
        ("#blocked = #ttg.blocked<{order = [0]}>", "#blocked = #ttg.blocked<{order = [0]}>"),
        ('a.b {text = "loc(kept)"}', 'a.b {text = "loc(kept)"}'),
    ],
)
def test_locations_are_stripped(text: str, expected: str) -> None:
    assert strip_locations(text) == expected


OPERATION = st.tuples(st.sampled_from("fgh"), st.lists(st.integers(0, 30), max_size=3))


def program(operations: list[tuple[str, list[int]]], names: list[str]) -> str:
    """A straight-line text: each operation uses results of earlier ones, by the given names."""
    lines = []
    for n, (kind, uses) in enumerate(operations):
        operands = ", ".join(names[u % n] for u in uses) if n else ""
        lines.append(f"    {names[n]} = d.{kind} {operands} : i32 loc(#loc{n})")
    return "\n".join(lines)


@given(st.lists(OPERATION, min_size=1, max_size=10), st.randoms(use_true_random=False))
def test_renaming_is_no_change_and_rewiring_is(
    operations: list[tuple[str, list[int]]], rng: random.Random
) -> None:
    plain = [f"%{n}" for n in range(len(operations))]
    other = [f"%{rng.choice('abc')}_{n}" for n in rng.sample(range(100), len(operations))]
    before, renamed = program(operations, plain), program(operations, other)
    assert canonical(before) == canonical(renamed)
    assert unified_diff(before, renamed, "a", "b") == ""
    for n, (kind, uses) in enumerate(operations):
        rewired = [(u + 1) % n if n else u for u in uses]
        if n > 1 and uses and [u % n for u in uses] != rewired:
            changed = [*operations[:n], (kind, rewired), *operations[n + 1 :]]
            text = program(changed, other)
            assert canonical(text) != canonical(before)
            shown = unified_diff(before, text, "a", "b").splitlines()
            body = [line for line in shown[2:] if line[0] in "+-"]
            assert [line[0] for line in body] == ["-", "+"]
            assert f"{other[n]} = " in body[1]


def test_renamed_layout_aliases_are_no_change() -> None:
    before = "#blocked = #ttg.b<1>\n%0 = x : tensor<4xf32, #ttg.slice<{parent = #blocked}>>"
    after = (
        "#blocked = #ttg.b<2>\n#blocked1 = #ttg.b<1>\n"
        "%0 = x : tensor<4xf32, #ttg.slice<{parent = #blocked1}>>\n%1 = y : #blocked"
    )
    shown = unified_diff(before, after, "a", "b").splitlines()
    assert [line for line in shown if line[0] in "+-"] == [
        "--- a",
        "+++ b",
        "+#blocked = #ttg.b<2>",
        "+%1 = y : #blocked",
    ]


def test_hunks_count_their_lines() -> None:
    old = [f"op{n}" for n in range(40)]
    new = [*old[:5], "new", *old[5:30], *old[32:]]
    shown = unified_diff("\n".join(old), "\n".join(new), "a", "b").splitlines()
    assert [line for line in shown if line.startswith("@@")] == [
        "@@ -3,6 +3,7 @@",
        "@@ -28,8 +29,6 @@",
    ]


def test_large_modules_do_not_take_quadratic_time() -> None:
    old = [f"    %{n} = llvm.add %{n // 2}, %{n // 3} : i{n % 7}" for n in range(30_000)]
    new = [line for n, line in enumerate(old) if n % 1000 != 17]
    start = time.process_time()
    assert unified_diff("\n".join(old), "\n".join(new), "a", "b")
    assert canonical("\n".join(old)) != canonical("\n".join(new))
    assert time.process_time() - start < 10
