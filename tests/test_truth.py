"""A compile that succeeds is not yet what was asked for: the checks on every compile.

Real compiles of `data/truth_kernels.py`. What each target's matrix unit takes is stated here from
AMD's ISA documents, and the code itself is looked at with a regular expression of this file's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_compiles import collect_kept
from kinspect.inspector.compile.diagnostics import assembly_in_error, scan
from kinspect.inspector.lint.packs import DEFAULT_PACK, load_named
from kinspect.inspector.metrics.code_copies import mnemonics
from kinspect.inspector.metrics.matrix import multiplied
from kinspect.inspector.model import ErrorRecord, KernelReport, Report, SourceLoc
from kinspect.inspector.pipeline.analysis import catalogue
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.lowered import element_bits, fates
from kinspect.inspector.ttgir.parser import parse_ttgir

# One worker: what the fixtures compile would else be compiled by each.
pytestmark = pytest.mark.xdist_group("truth")

FILE = Path(__file__).parent / "data" / "truth_kernels.py"
TRUTH = ("KI017", "KI018", "KI019", "KI020")
ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
OCP, FNUZ = ("e4m3", "e5m2"), ("e4m3fnuz", "e5m2fnuz")
# CDNA3 ISA, 7.2: FP8/BF8 are fnuz; CDNA4 and RDNA4 ISA: OCP; CDNA2 and RDNA3 have neither.
NATIVE: Mapping[str, tuple[str, ...]] = {
    "gfx90a": (),
    "gfx942": FNUZ,
    "gfx950": OCP,
    "gfx1100": (),
    "gfx1201": OCP,
}
MATRIX_FLOAT32 = ("gfx90a", "gfx942", "gfx950")
DOT_LINE = 1 + next(
    n for n, text in enumerate(FILE.read_text().splitlines()) if "acc = tl.dot(x, y, acc" in text
)
EIGHT_BIT = re.compile(r"^\s+v_(?:mfma|wmma)_\w*(?:fp8|bf8|f8f6f4)", re.M)
ANY_MATRIX = re.compile(r"^\s+v_(?:mfma|wmma)_\w+", re.M)


@pytest.fixture(scope="module")
def run() -> Report:
    pytest.importorskip("triton")
    pack = load_named(DEFAULT_PACK, catalogue())  # preview rules too
    return collect_kept(
        Request((str(FILE),), ARCHS, passes=False, jobs=2, analysis=AnalysisOptions(rules=pack))
    )


@pytest.fixture(scope="module")
def kernels(run: Report) -> dict[tuple[str, str], KernelReport]:
    found = {}
    for one in run.kernels:
        assert one.variant is not None
        assert one.arch is not None
        assert one.variant.case is not None
        found[one.variant.case, one.arch] = one
    return found


def rules(kernel: KernelReport) -> set[str]:
    return {f.rule for f in kernel.findings if f.rule in TRUTH or f.severity == "error"}


def code(kernel: KernelReport) -> str:
    return kernel.artifacts["amdgcn"].path.read_text()


def failures(run: Report, case: str) -> list[ErrorRecord]:
    return [e for e in run.errors if e.kernel is not None and e.kernel.startswith(f"{case}[")]


# ------------------------------------------------------------------ dots


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kind", [*OCP, *FNUZ])
def test_8_bit_floats_that_the_matrix_unit_does_not_take(
    kernels: dict[tuple[str, str], KernelReport], kind: str, arch: str
) -> None:
    kernel = kernels[kind, arch]
    native = kind in NATIVE[arch]
    assert ("KI017" in rules(kernel)) is not native
    assert bool(EIGHT_BIT.search(code(kernel))) is native
    value = kernel.metrics["matrix.upcast"].value
    assert isinstance(value, Mapping)
    assert (value["dots"], value["of"]) == (0 if native else 1, 1)
    if native:
        return
    (finding,) = [f for f in kernel.findings if f.rule == "KI017"]
    assert f"truth_kernels.py:{DOT_LINE}" in finding.message
    assert str(value["asked"]).startswith("float8e")
    if ANY_MATRIX.search(code(kernel)):
        assert value["used"] == "float16"
        assert re.search(rf"^\s+{value['instruction']}\b", code(kernel), re.M)
        assert "KI019" not in rules(kernel)
    else:
        assert (value["used"], value["instruction"]) == ("float32", "vector instructions")
        assert "KI019" in rules(kernel)


@pytest.mark.parametrize("arch", ARCHS)
def test_a_conversion_of_the_authors_own_is_no_upcast(
    kernels: dict[tuple[str, str], KernelReport], arch: str
) -> None:
    assert rules(kernels["converted", arch]) == set()


@pytest.mark.parametrize("arch", ARCHS)
def test_int8_runs_on_every_matrix_unit(
    kernels: dict[tuple[str, str], KernelReport], arch: str
) -> None:
    assert ANY_MATRIX.search(code(kernels["int8", arch]))
    assert rules(kernels["int8", arch]) == set()


@pytest.mark.parametrize("arch", ARCHS)
def test_float32_runs_on_the_vector_unit_of_rdna(
    kernels: dict[tuple[str, str], KernelReport], arch: str
) -> None:
    kernel = kernels["float32", arch]
    on_unit = arch in MATRIX_FLOAT32
    assert bool(ANY_MATRIX.search(code(kernel))) is on_unit
    assert rules(kernel) == (set() if on_unit else {"KI019"})


def test_a_dot_too_small_for_an_instruction(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    small = kernels["short", "gfx942"]
    assert not ANY_MATRIX.search(code(small))
    assert rules(small) == {"KI018"}
    (finding,) = [f for f in small.findings if f.rule == "KI018"]
    assert "matrix instructions for float16" in finding.message
    # RDNA pads it to a whole instruction.
    assert ANY_MATRIX.search(code(kernels["short", "gfx1100"]))
    assert rules(kernels["short", "gfx1100"]) == set()


def test_scaled_dots_are_emulated_before_gfx950(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    assert rules(kernels["scaled", "gfx950"]) == set()
    assert "v_mfma_scale_f32" in code(kernels["scaled", "gfx950"])
    assert "KI017" not in rules(kernels["scaled", "gfx942"])  # its advice is for plain dots
    value = kernels["scaled", "gfx942"].metrics["matrix.upcast"].value
    assert isinstance(value, Mapping)
    assert (value["asked"], value["used"], value["scaled"]) == ("e2m1", "bfloat16", 1)


def test_without_the_ttir_nothing_is_claimed(tmp_path: Path, run: Report) -> None:
    (kernel,) = [k for k in run.kernels if k.variant and k.variant.case == "e4m3"][:1]
    path = tmp_path / "k.amdgcn"
    path.write_text(code(kernel))
    (bare,) = collect(Request((str(path),))).kernels
    for name in ("matrix.upcast", "matrix.off_unit", "inline_asm.dropped"):
        assert bare.metrics[name].value is None
        assert "TTGIR" in bare.metrics[name].note


@pytest.mark.parametrize(
    ("element", "bits"),
    [
        ("f8E4M3FN", 8),
        ("f8E5M2FNUZ", 8),
        ("e2m1", 4),
        ("e3m2", 6),
        ("e5m2", 8),
        ("bf16", 16),
        ("f16", 16),
        ("f32", 32),
        ("i8", 8),
        ("!tt.ptr<f16>", None),
    ],
)
def test_widths_of_element_types(element: str, bits: int | None) -> None:
    assert element_bits(element) == bits


@pytest.mark.parametrize(
    ("mnemonic", "types"),
    [
        ("v_mfma_f32_32x32x8bf16_1k", "bf16"),
        ("v_mfma_f32_32x32x8_f16", "f16"),
        ("v_mfma_f32_4x4x4_16b_f16", "f16"),
        ("v_mfma_f32_32x32x4_xf32", "xf32"),
        ("v_mfma_f32_16x16x32_fp8_bf8", "fp8_bf8"),
        ("v_mfma_scale_f32_32x32x64_f8f6f4", "f8f6f4"),
        ("v_mfma_i32_32x32x8i8", "i8"),
        ("v_mfma_f64_16x16x4f64", "f64"),
        ("v_wmma_i32_16x16x16_iu8", "iu8"),
        ("v_wmma_f32_16x16x16_bf8_bf8", "bf8_bf8"),
        ("v_swmmac_f32_16x16x32_bf16", "bf16"),
        ("v_fma_f32", None),
    ],
)
def test_what_a_matrix_instruction_multiplies(mnemonic: str, types: str | None) -> None:
    assert multiplied(mnemonic) == types


def test_dots_are_matched_by_place_and_left_out_where_that_is_unsure() -> None:
    def module(*dots: tuple[str, str, int | None], layout: str = "") -> str:
        lines = []
        for n, (a, b, line) in enumerate(dots):
            for name, element in zip("abc", (a, b, "f32"), strict=True):
                made = f"tensor<16x16x{element}{layout}>"
                lines.append(f'  %{name}{n} = "made"() : () -> {made}')
            place = f' loc("k.py":{line}:3)' if line else ""
            result = f"tensor<16x16xf32{layout}>"
            lines.append(f"  %d{n} = tt.dot %a{n}, %b{n}, %c{n} : {result}{place}")
        return "\n".join(["module {", *lines, "}"])

    mma = ", #ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [16, 16, 16]}>"
    asked = parse_ttgir(module(("f8E4M3FN", "f8E5M2", 1), ("f16", "f16", 2)), "a")
    made = parse_ttgir(
        module(("f16", "f16", 1), ("f16", "f16", 2), ("f16", "f16", 1), layout=mma), "b"
    )
    found = fates(asked, made)
    assert [(f.source_element, f.computed_element, f.widened) for f in found] == [
        ("f8E4M3FN", "f16", True),
        ("f16", "f16", False),
    ]
    # Without places: certain only where all dots ask for the same.
    nowhere = parse_ttgir(module(("f16", "f16", None), layout=mma), "c")
    assert fates(asked, nowhere) == ()
    alike = parse_ttgir(module(("f8E4M3FN", "f8E4M3FN", 1)), "d")
    assert [f.widened for f in fates(alike, nowhere)] == [True]


# ------------------------------------------------------------------ inline assembly


@pytest.mark.parametrize("arch", ARCHS)
def test_assembly_for_this_target_is_not_flagged(
    kernels: dict[tuple[str, str], KernelReport], arch: str
) -> None:
    kernel = kernels["assembly", arch]
    assert "v_mul_f32 " in code(kernel)
    assert rules(kernel) == set()
    value = kernel.metrics["inline_asm.dropped"].value
    assert isinstance(value, Mapping)
    assert (value["pieces"], value["of"]) == (0, 2)


def test_assembly_with_effects_that_is_not_in_the_code(
    kernels: dict[tuple[str, str], KernelReport], tmp_path: Path
) -> None:
    """LLVM drops assembly in silence at its own risk: the code is made to lack it here."""
    kernel = kernels["assembly", "gfx942"]
    text = code(kernel)
    without = re.sub(r"^\s*v_mul_f32 .*\n\s*s_nop 1\n", "", text, flags=re.M)
    assert without != text
    (tmp_path / "k.amdgcn").write_text(without)
    (tmp_path / "k.ttgir").write_text(kernel.artifacts["ttgir"].path.read_text())
    pack = load_named(DEFAULT_PACK, catalogue())
    (bare,) = collect(
        Request((str(tmp_path / "k.amdgcn"),), analysis=AnalysisOptions(rules=pack))
    ).kernels
    (finding,) = [f for f in bare.findings if f.rule == "KI020"]
    assert finding.severity == "error"
    assert "1 of 2 pieces" in finding.message
    assert '"v_mul_f32 $0, $1, $1 ; squared s_nop 1' in finding.message


@pytest.mark.parametrize(
    ("case", "text", "line"),
    [
        ("constraint", "ex2.approx.f32 $0, $1;", "value = tl.inline_asm_elementwise("),
        ("instruction", "mov.b32 $0, $1;", "value = tl.inline_asm_elementwise("),
        ("timer", "mov.u64 $0, %globaltimer;", "globaltimer()"),
        ("processor", "mov.u32 $0, %smid;", "smid()"),
    ],
)
def test_assembly_of_another_vendor_fails_and_is_named(
    run: Report, case: str, text: str, line: str
) -> None:
    found = failures(run, case)
    assert found
    assert not [k for k in run.kernels if k.variant and k.variant.case == case]
    for error in found:
        assert f'inline assembly "{text}"' in error.message
        place = re.search(r"truth_kernels\.py:(\d+)", error.message)
        assert place is not None
        # The place is in the user's own file, also for assembly of Triton's library.
        near = FILE.read_text().splitlines()[int(place[1]) - 1 :][:6]
        assert any(line in one or text in one for one in near)
        assert "AMDGPU" in error.hint
        assert "\n" not in error.message


TWO_PIECES = """
module {
  tt.func public @k(%x: tensor<4xf32>) {
    %0 = tt.elementwise_inline_asm "v_mov_b32 $0, $1" {constraints = "=v,v", pure = true} %x : tensor<4xf32> -> tensor<4xf32> loc("k.py":3:1)
    %1 = tt.elementwise_inline_asm "mov.b32 $0, $1;" {constraints = "=r,r", pure = true} %0 : tensor<4xf32> -> tensor<4xf32> loc("k.py":4:1)
    tt.return
  }
}
"""  # noqa: E501


@pytest.mark.parametrize(
    ("stderr", "line"),
    [
        ("error: couldn't allocate output register for constraint 'r'\n", 4),
        ("x:1:2: error: invalid instruction\n\tv_mov_b32 v1\n\t^\n", 3),
        ("x:1:2: error: invalid instruction\n\tmov.b32 v1, v1;\n\t^~~~\n", 4),
        ("x:1:2: error: invalid instruction\n", None),
        ("error: couldn't allocate output register for constraint 'l'\n", None),
        ("error: operand #0 does not dominate this use\n", None),
        ("", None),
    ],
)
def test_the_piece_that_an_error_is_about(stderr: str, line: int | None) -> None:
    piece = assembly_in_error(TWO_PIECES, scan(stderr))
    assert (piece.loc if piece else None) == (SourceLoc("k.py", line, 1) if line else None)


def test_quoted_lines_of_errors_are_kept_apart() -> None:
    said = scan(
        "a:1:1: error: invalid instruction\n  mov.b32 v1\n  ^\n"
        "b:2:2: warning: deprecated\n  other\n  ^\nerror: last\n"
    )
    assert said.errors == ("a:1:1: error: invalid instruction", "error: last")
    assert said.quoted == ("mov.b32 v1",)
    assert said.warnings == ("deprecated",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("v_add_f32 $0, $1, $1", ("v_add_f32",)),
        ("v_add_f32_e32 $0, $1 ; c\n\ts_nop 0 // d\n/* e\nf */ s_sleep 1", None),
        ("v_add_f32_e64 $0, $1\ns_nop 0", ("v_add_f32", "s_nop")),
        ("", ()),
        ("; only a comment", ()),
        ("1: s_branch 1b", ("s_branch",)),
        (".L_x${:uid}:\n s_nop 0", ("s_nop",)),
        ("{ .reg .b32 t; mov.b32 $0, $1; }", ()),
        (".rept 4\ns_nop 0\n.endr", None),
        (".long 0xbf800000", None),
        ("v_${2}_b32 $0, $1", None),
    ],
)
def test_instructions_of_a_piece(text: str, found: tuple[str, ...] | None) -> None:
    if "/* e" in text:
        found = ("v_add_f32", "s_nop", "s_sleep")
    assert mnemonics(text) == found


# ------------------------------------------------------------------ launches, effects, notes


def test_lds_over_the_limit_and_nothing_left(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    lds = kernels["lds", "gfx942"]
    assert rules(lds) == {"KI005"}
    (finding,) = [f for f in lds.findings if f.rule == "KI005"]
    assert "cannot be launched" in finding.message
    metadata = lds.artifacts["metadata"].path.read_text()
    shared = re.search(r'"shared": (\d+)', metadata)
    assert shared is not None
    assert finding.evidence["lds_bytes"] == int(shared[1]) > 65536
    nothing = kernels["nothing", "gfx942"]
    assert "global_store" not in code(nothing)
    assert rules(nothing) == {"KI004"}


def test_warnings_of_the_front_end_reach_the_report(
    kernels: dict[tuple[str, str], KernelReport],
) -> None:
    """Triton warns of the one conversion that its front end makes; of the others nobody does."""
    assert any("fp8e4b8" in note for note in kernels["e4m3fnuz", "gfx950"].notes)
    assert not any("fp8" in note for note in kernels["e4m3", "gfx942"].notes)


def test_sound_kernels_have_no_such_finding(
    kernels: dict[tuple[str, str], KernelReport], run: Report
) -> None:
    assert {e.kernel.partition("[")[0] for e in run.errors if e.kernel} == {
        "constraint",
        "instruction",
        "timer",
        "processor",
    }
    sound = [k for (case, _), k in kernels.items() if case in ("int8", "converted", "assembly")]
    assert len(sound) == 3 * len(ARCHS)
    assert not [k.id for k in sound if rules(k)]
