"""`try` on changes of the source: what is tried is what the message and the `apply` line say."""

from __future__ import annotations

import io
import re
from pathlib import Path

import kinspect
import pytest
from click.testing import CliRunner
from kinspect.inspector.cli.group import cli
from kinspect.inspector.compare.sweep.figures import Figures
from kinspect.inspector.compare.trials.argument_changes import (
    annotated_ones,
    hidden_arguments,
    partly_aligned,
)
from kinspect.inspector.compare.trials.capturing import changed_variant
from kinspect.inspector.compare.trials.combining import Tried, best_two, pairs_across
from kinspect.inspector.compare.trials.source_changes import (
    EXP2,
    EXPONENTIAL,
    INPUT_PRECISION,
    WIDENED_OPERANDS,
)
from kinspect.inspector.formats import diff_agent, try_agent
from kinspect.inspector.model import Change
from msgspec.structs import replace
from test_source_changes import compiled, instructions, vector_mnemonics

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("shared_guests")

SOFTMAX = Path(__file__).parent / "data" / "two_obstacles.py"
UNSPECIALISED = Change("source", "do_not_specialize", None)
UNANNOTATED = Change("source", "annotation", None, arguments=("step", "out_step"))
GEMM = """
import torch, triton, triton.language as tl

@triton.jit
def product(a, b, c, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        x = tl.load(a + m[:, None] * K + start + k)
        y = tl.load(b + (start + k)[:, None] + n * K)
        total += tl.dot(x.to(tl.float32), y.to(tl.float32), input_precision="ieee")
    tl.store(c + m[:, None] * BN + n, total)

a = torch.empty((32, 4096), device="cuda", dtype=torch.float16)
b = torch.empty((256, 4096), device="cuda", dtype=torch.float16)
c = torch.empty((32, 256), device="cuda")
product[(1,)](a, b, c, 4096, BM=32, BN=256, BK=32)
"""


@pytest.fixture(scope="module")
def tried() -> kinspect.TrialResult:
    return kinspect.try_(SOFTMAX, arch="gfx942", rules=["KI024", "KI063"], budget=600)


@pytest.fixture(scope="module")
def gemm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    script = tmp_path_factory.mktemp("gemm") / "gemm.py"
    script.write_text(GEMM)
    return script


def row(result: kinspect.TrialResult, *names: str) -> kinspect.inspector.TrialRow:
    (kernel,) = result.kernels
    return next(r for r in kernel.rows if [c.name for c in r.change] == list(names))


def test_both_obstacles_are_named_and_dropped(tried: kinspect.TrialResult) -> None:
    (kernel,) = tried.kernels
    messages = [f.message for f in kernel.kernel.findings if f.rule == "KI024"]
    assert any("which do_not_specialize and its annotation keep Triton" in m for m in messages)
    assert row(tried, "do_not_specialize").cures == ()
    assert row(tried, "do_not_specialize", "annotation").cures == ("KI024",)


def test_what_is_tried_is_the_file_without_them(tmp_path: Path) -> None:
    """For both obstacles, and for one of them, which changes nothing that loads."""
    before = kinspect.compile(SOFTMAX, arch="gfx942").kernel
    source = SOFTMAX.read_text()
    without_keyword = source.replace('(do_not_specialize=["width", "step", "out_step"])', "")
    without_both = without_keyword.replace(": tl.int64", "")
    assert before.variant is not None
    for changes, text in (
        ([UNSPECIALISED], without_keyword),
        ([UNSPECIALISED, UNANNOTATED], without_both),
    ):
        (tmp_path / "after.py").write_text(text)
        after = kinspect.compile(tmp_path / "after.py", arch="gfx942").kernel
        variant = changed_variant(before.variant, changes, before.variant)
        made = instructions(compiled(variant.ttir, before, tmp_path))
        assert vector_mnemonics(made) == vector_mnemonics(instructions(after.code() or ""))


PITCHED = """
import torch, triton, triton.language as tl

@triton.jit
def rows(x, y, pitch, n, B: tl.constexpr):
    at = tl.program_id(0) * pitch + tl.arange(0, B)
    inside = tl.arange(0, B) < n
    tl.store(y + at, tl.load(x + at, mask=inside) * 2, mask=inside)

x = torch.randn((4096, 1000), device="cuda", dtype=torch.float16)
rows[(4096,)](x, torch.empty_like(x), 1000, 1000, B=1024, num_warps=1)
"""


def test_a_pitch_that_is_even_is_tried_as_a_constant(tmp_path: Path) -> None:
    script = tmp_path / "pitched.py"
    script.write_text(PITCHED)
    before = kinspect.analyze(script, arch="gfx942").kernel
    assert before.variant is not None
    assert partly_aligned(before.variant) == {"pitch": 1000, "n": 1000}
    odd = replace(before.variant, values={"pitch": 1001, "n": 1024})
    assert partly_aligned(odd) == {}
    changes = [Change("argument", name, 1000) for name in ("pitch", "n")]
    variant = changed_variant(before.variant, changes, before.variant)
    made = instructions(compiled(variant.ttir, before, tmp_path))
    script.write_text(PITCHED.replace("pitch, n,", "pitch: tl.constexpr, n: tl.constexpr,"))
    after = kinspect.analyze(script, arch="gfx942").kernel
    assert vector_mnemonics(made) == vector_mnemonics(instructions(after.code() or ""))
    loads = [line.split()[0] for line in made if "_load_" in line and line.lstrip()[0] != "s"]
    assert loads == ["buffer_load_dwordx4"] * 2


def test_an_annotation_that_widens_another_integer_is_left(tmp_path: Path) -> None:
    """Without it the product would be one of 32 bits: the TTIR does not show that."""
    script = tmp_path / "narrow.py"
    script.write_text(SOFTMAX.read_text().replace(").to(tl.int64)", ")"))
    variant = kinspect.compile(script, arch="gfx942").kernel.variant
    assert variant is not None
    assert hidden_arguments(variant, "do_not_specialize") == ("width",)
    assert annotated_ones(variant, specialised=True) == ()
    own = kinspect.compile(SOFTMAX, arch="gfx942").kernel.variant
    assert own is not None
    assert annotated_ones(own, specialised=True) == ("step", "out_step")
    assert annotated_ones(own, specialised=False) == ()


def test_cures_of_different_findings_are_paired_and_alternatives_are_not(
    tried: kinspect.TrialResult,
) -> None:
    (kernel,) = tried.kernels
    (together,) = (r for r in kernel.rows if set(r.cures) == {"KI024", "KI063"})
    names_of_both = [change.name for change in together.change]
    assert names_of_both[:2] == ["do_not_specialize", "annotation"]
    assert names_of_both[2:] in ([EXPONENTIAL], ["allow_flush_denorm"])
    names = [{c.name for c in r.change} for r in kernel.rows]
    assert not any({EXPONENTIAL, "allow_flush_denorm"} <= each for each in names)
    figures = Figures()
    source = Tried((Change("source", EXPONENTIAL, EXP2),), True, figures)
    option, other = (Tried((Change("option", n, 1),), True, figures) for n in ("a", "b"))
    assert best_two([source, option]) is None
    assert best_two([option, other]) == (*option.change, *other.change)
    assert pairs_across([[source], [option]]) == [(0, 1, (*source.change, *option.change))]
    assert pairs_across([[source, option], [option]]) == []


def test_the_apply_line_is_right_to_the_letter(tried: kinspect.TrialResult) -> None:
    stream = io.StringIO()
    try_agent.write(tried.run, stream)
    lines = [line.strip() for line in stream.getvalue().splitlines()]
    assert (
        'apply source tl.exp(x)="tl.exp2(x * 1.4426950408889634)" was=tl.exp(x)'
        " at two_obstacles.py:18 two_obstacles.py:23"
    ) in lines
    dropped = (
        'source do_not_specialize was="width, step, out_step" at two_obstacles.py:9; '
        'source annotation was="step, out_step" at two_obstacles.py:9'
    )
    assert any(line.startswith("apply") and dropped in line for line in lines)
    assert any(re.match(r"faster .+ for KI024 KI063: ", line) for line in lines)
    alone = "tried: no do_not_specialize and no annotation of step, out_step: "
    assert stream.getvalue().count(alone) == 1, "of three findings that it cures"


def test_operands_are_multiplied_as_they_are_stored(gemm: Path, tmp_path: Path) -> None:
    before = kinspect.compile(gemm, arch="gfx942").kernel
    dot = 'tl.dot(x.to(tl.float32), y.to(tl.float32), input_precision="ieee")'
    assert before.variant is not None
    for change, made in (
        (Change("source", WIDENED_OPERANDS, None, "f16"), "tl.dot(x, y)"),
        (Change("source", INPUT_PRECISION, "tf32", "ieee"), dot.replace("ieee", "tf32")),
    ):
        (tmp_path / "after.py").write_text(GEMM.replace(dot, made))
        after = kinspect.compile(tmp_path / "after.py", arch="gfx942").kernel
        variant = changed_variant(before.variant, [change], before.variant)
        assert instructions(compiled(variant.ttir, before, tmp_path)) == instructions(
            after.code() or ""
        )


def test_the_cures_of_slow_products_are_those_of_their_rule(gemm: Path) -> None:
    result = kinspect.try_(gemm, arch="gfx942", rules=["KI083"])
    (kernel,) = result.kernels
    names = {change.name for r in kernel.rows for change in r.change}
    assert names == {WIDENED_OPERANDS, INPUT_PRECISION}
    assert {WIDENED_OPERANDS: None} in result.cures["KI083"]


def test_a_try_line_stands_only_where_something_can_be_tried() -> None:
    """KI044 has no cure that can be compiled; KI024 has."""
    sums = Path(__file__).parent.parent / "docs" / "examples" / "column_sums.py"
    targets = [str(sums), str(SOFTMAX), "--arch", "gfx942", "--format", "agent"]
    text = CliRunner().invoke(cli, ["analyze", *targets]).stdout
    assert "--for KI024" in text
    assert " KI044 " in text
    assert "--for KI044" not in text


def test_a_comparison_for_agents_is_lines(gemm: Path, tmp_path: Path) -> None:
    """A line for each figure, and one for each loop."""
    (tmp_path / "gemm.py").write_text(GEMM.replace(".to(tl.float32)", ""))
    diff = kinspect.diff(gemm, tmp_path / "gemm.py", arch="gfx942")
    stream = io.StringIO()
    diff_agent.write(diff.report, stream)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("diff 1 pair: ")
    assert lines[1].startswith("kernel product  gfx942")
    assert any(line.startswith(("  improvement L0 ", "  improvement minor L0 ")) for line in lines)
    assert len(stream.getvalue()) < 2500
