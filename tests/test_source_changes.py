"""Changes of the source that `kinspect try` makes on TTIR give what the changed source gives."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import kinspect
import pytest
from kinspect.benchmarks.seeded_checks import CHECKS
from kinspect.inspector.compare.trials.argument_changes import with_constant
from kinspect.inspector.compare.trials.capturing import changed_variant
from kinspect.inspector.compare.trials.source_changes import (
    EXP2,
    EXPONENTIAL,
    RANGE_STAGES,
    has_exponentials,
    loop_stages,
    with_source_changes,
)
from kinspect.inspector.model import Change

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("shared_guests")

FIXTURES = Path(__file__).parent.parent / "rules" / "fixtures"
SEEDED = Path(__file__).parent.parent / "benchmarks" / "seeded"
IN_BASE_TWO = Change("source", EXPONENTIAL, EXP2, EXPONENTIAL)


def case(file: str, name: str) -> kinspect.Kernel:
    analysis = kinspect.compile(FIXTURES / file, arch="gfx942", kernel=f"*[{name}]")
    return analysis.kernel


def ttir_of(kernel: kinspect.Kernel) -> str:
    ttir = kernel.code("ttir")
    assert ttir is not None
    return ttir


def instructions(amdgcn: str) -> list[str]:
    """The kernel's instructions, without labels, comments and directives."""
    body = amdgcn.split("s_endpgm", 1)[0]
    lines = (line.split(";")[0].strip() for line in body.splitlines())
    return [line for line in lines if re.match(r"(?!amdgcn|amdhsa)[a-z]\w+(\s|$)", line)]


def compiled(ttir: str, like: kinspect.Kernel, folder: Path) -> str:
    """AMDGCN of TTIR by Triton itself, with the options of a kernel."""
    metadata = json.loads(like.code("metadata") or "")
    (folder / "changed.ttir").write_text(ttir)
    target = triton.backends.compiler.GPUTarget("hip", "gfx942", 64)
    options = {name: metadata[name] for name in ("num_warps", "num_stages", "waves_per_eu")}
    made = triton.compile(str(folder / "changed.ttir"), target=target, options=options)
    return str(made.asm["amdgcn"])


def test_exponentials_in_base_two_are_those_of_the_source(tmp_path: Path) -> None:
    """The fixture holds the same sum written with tl.exp2."""
    powers = case("exponentials.py", "sum_of_powers")
    before = case("exponentials.py", "sum_of_exponentials")
    changed = with_source_changes(ttir_of(before), [IN_BASE_TWO])
    assert has_exponentials(ttir_of(before))
    assert not has_exponentials(changed)
    assert instructions(compiled(changed, before, tmp_path)) == instructions(powers.code() or "")


def test_scalars_flags_and_layouts_stay_as_they_are() -> None:
    ttir = """
    %1 = math.exp %0 fastmath<fast> : f64 loc(#loc18)
    %2 = math.exp %y : tensor<128x1xf32, #blocked> loc(#loc2)
    %3 = math.exp2 %2 : tensor<128x1xf32, #blocked> loc(#loc2)
"""
    assert (
        with_source_changes(ttir, [IN_BASE_TWO])
        == """
    %log2_e_of_line_1 = arith.constant 1.4426950408889634 : f64 loc(#loc18)
    %scaled_of_line_1 = arith.mulf %0, %log2_e_of_line_1 fastmath<fast> : f64 loc(#loc18)
    %1 = math.exp2 %scaled_of_line_1 fastmath<fast> : f64 loc(#loc18)
    %log2_e_of_line_2 = arith.constant dense<1.44269502> : tensor<128x1xf32, #blocked> loc(#loc2)
    %scaled_of_line_2 = arith.mulf %y, %log2_e_of_line_2 : tensor<128x1xf32, #blocked> loc(#loc2)
    %2 = math.exp2 %scaled_of_line_2 : tensor<128x1xf32, #blocked> loc(#loc2)
    %3 = math.exp2 %2 : tensor<128x1xf32, #blocked> loc(#loc2)
"""
    )


def test_stages_of_a_range_are_those_of_the_source(tmp_path: Path) -> None:
    """The fixture holds the same loop with one stage and with three."""
    one, three = case("latency.py", "scan"), case("latency.py", "scan_staged")
    assert loop_stages(ttir_of(one)).stated == (1,)
    assert loop_stages(ttir_of(one)).override_the_option
    changed = with_source_changes(ttir_of(one), [Change("source", RANGE_STAGES, 3, 1)])
    assert instructions(compiled(changed, one, tmp_path)) == instructions(three.code() or "")
    assert instructions(one.code() or "") != instructions(three.code() or "")


def test_stages_of_a_loop_that_states_none_are_those_of_its_source(tmp_path: Path) -> None:
    """The launch option does nothing there: Triton pipelines loops without tl.dot if they ask."""
    one, three = case("latency.py", "scan"), case("latency.py", "scan_staged")
    silent = re.sub(r" \{tt.num_stages = 1 : i32\}", "", ttir_of(one))
    assert loop_stages(silent).silent == 1
    changed = with_source_changes(silent, [Change("source", RANGE_STAGES, 3)])
    assert instructions(compiled(changed, one, tmp_path)) == instructions(three.code() or "")


@pytest.mark.parametrize(
    ("end", "changed"),
    [
        ("}", "} {tt.num_stages = 3 : i32}"),
        ("} loc(#loc1)", "} {tt.num_stages = 3 : i32} loc(#loc1)"),
        ("} {tt.flatten}", "} {tt.flatten, tt.num_stages = 3 : i32}"),
        ("} {tt.num_stages = 1 : i32}", "} {tt.num_stages = 3 : i32}"),
    ],
)
def test_every_innermost_loop_states_its_stages(end: str, changed: str) -> None:
    loop = "scf.for %i = %c0 to %n step %c1  : i32 {"
    text, wanted = (f"  {loop}\n    {loop}\n    {last}\n  }}\n" for last in (end, changed))
    assert with_source_changes(text, [Change("source", RANGE_STAGES, 3)]) == wanted


def test_loops_that_say_nothing_of_stages_are_left_to_the_option() -> None:
    loops = loop_stages("""
    %a = scf.for %i = %c0 to %n step %c1 iter_args(%x = %y) -> (f32)  : i32 {
      scf.for %j = %c0 to %n step %c1  : i32 {
        scf.if %p {
        } loc(#loc1)
      } {tt.num_stages = 3 : i32, tt.warp_specialize} loc(#loc2)
    } loc(#loc3)
    scf.for %j = %c0 to %n step %c1  : i32 {
    }
""")
    assert loops.stated == (3,)
    assert loops.silent == 1, "an outer loop is not pipelined"
    assert not loops.override_the_option


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("05_transposed_copy", Change("source", "do_not_specialize", None)),
        ("09_paged_gather", Change("argument", "page_size", 16)),
    ],
)
def test_what_is_noted_of_arguments_is_that_of_the_source(
    name: str, change: Change, tmp_path: Path
) -> None:
    """The counterpart of a seeded kernel is its source with this change."""
    script = SEEDED / f"{name}.py"
    (tmp_path / "good.py").write_text(CHECKS[name].counterpart(script.read_text()))
    before = kinspect.compile(script, arch="gfx942").kernel
    good = kinspect.compile(tmp_path / "good.py", arch="gfx942").kernel
    assert before.variant is not None
    changed = changed_variant(before.variant, [change], before.variant)
    found = instructions(compiled(changed.ttir, before, tmp_path))
    # Where arguments lie differs: a constexpr is none.
    assert vector_mnemonics(found) == vector_mnemonics(instructions(good.code() or ""))
    assert vector_mnemonics(found) != vector_mnemonics(instructions(before.code() or ""))


def vector_mnemonics(lines: list[str]) -> Counter[str]:
    return Counter(line.split()[0] for line in lines if not line.startswith("s_"))


def test_an_argument_is_replaced_where_it_is_used_alone() -> None:
    """Names that begin alike stay, and so does the signature."""
    ttir = (
        "module {\n"
        '  tt.func public @f(%n: i64 loc("n"), %n_2: i32 {tt.divisibility = 16 : i32}) {\n'
        "    %0 = arith.addi %n, %n : i64\n    %1 = arith.addi %n_2, %n_2 : i32\n  }\n}\n"
    )
    changed = with_constant(ttir, "n", 7).splitlines()
    assert changed[1] == ttir.splitlines()[1]
    assert changed[2:5] == [
        "    %n_as_constant = arith.constant 7 : i64",
        "    %0 = arith.addi %n_as_constant, %n_as_constant : i64",
        "    %1 = arith.addi %n_2, %n_2 : i32",
    ]
    assert with_constant(ttir, "none", 7) == ttir
