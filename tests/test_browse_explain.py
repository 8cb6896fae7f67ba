"""What is said of instructions and findings: every one has words, and figures are the report's."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest
from kinspect.inspector import machines
from kinspect.inspector.explain.code.explanations import (
    explain_finding,
    explain_instruction,
    meaning,
)
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.mnemonics import CLASSES, lookup
from kinspect.inspector.lint.packs import DEFAULT_PACK, load_named
from kinspect.inspector.model import (
    Access,
    Finding,
    Function,
    Instruction,
    KernelReport,
    Location,
    SourceLoc,
    SpillSlot,
)
from kinspect.inspector.pipeline.analysis import analyze_text, catalogue, recommended_pack
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context
from msgspec.structs import replace

DATA = Path(__file__).parent / "data" / "isa"
ATTEND = DATA / "attend.triton39.gfx90a.amdgcn"


@functools.cache
def attend() -> tuple[KernelReport, Function]:
    text = ATTEND.read_text("utf-8")
    report = analyze_text(
        text, Context(str(ATTEND), analysis=AnalysisOptions(rules=recommended_pack()))
    )[0]
    return report, parse_text(text, "k").functions[0]


def first(cls: str) -> Instruction:
    return next(inst for inst in attend()[1].instructions if inst.cls == cls)


@pytest.mark.parametrize("path", sorted(DATA.glob("*.[as]*")), ids=lambda p: p.name)
def test_every_instruction_of_real_code_has_a_sentence(path: Path) -> None:
    for function in parse_text(path.read_text("utf-8"), path.name).functions:
        for inst in function.instructions:
            if inst.op.cls == "unknown":
                continue
            told = meaning(inst.op, inst.operands)
            assert re.fullmatch(r"\S.*\.", told), inst.mnemonic
            assert "{" not in told
            lines = explain_instruction(inst).split("\n")
            assert lines[0] == inst.mnemonic
            assert lines[1] == told
            assert CLASSES[inst.cls] in lines[2]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("v_mfma_f32_16x16x32_fp8_bf8", ["A is 16 × 32", "B 32 × 16", "E4M3", "E5M2"]),
        ("v_mfma_f32_32x32x4_2b_bf16", ["A is 32 × 4", "bfloat16", "2 blocks"]),
        ("v_mfma_i32_32x32x16_i8", ["signed 8-bit", "sums in signed 32-bit integers"]),
        ("v_mfma_f64_16x16x4f64", ["A is 16 × 4", "of 64-bit floats"]),
        ("v_smfmac_f32_16x16x32_f16", ["A half zeros"]),
        ("v_wmma_f32_16x16x16_f16", ["A is 16 × 16", "of 16-bit floats; sums in 32-bit floats"]),
        ("v_exp_f32", ["2 to the power of x", "32-bit floats"]),
        ("v_cvt_f16_f32", ["Converts 32-bit floats to 16-bit floats"]),
        ("v_addc_co_u32", ["a + b", "carry of the step before"]),
        ("v_add_co_u32", ["a + b", "the carry of it"]),
        ("v_subrev_f32", ["b - a"]),
        ("v_sub_f32", ["a - b"]),
        ("s_cmp_lg_u32", ["not equal", "scalar condition"]),
        ("v_cmp_nlt_f32", ["not less than"]),
        ("v_cmpx_lt_i32", ["less than", "EXEC"]),
        ("v_ashrrev_i32", ["right", "sign"]),
        ("v_lshrrev_b32", ["right", "zeros"]),
        ("v_lshlrev_b32", ["left"]),
        ("ds_read2st64_b64", ["64 elements apart"]),
        ("ds_read_b64_tr_b16", ["transposes"]),
        ("ds_bpermute_b32", ["lane that it names"]),
        ("ds_add_u32", ["indivisible"]),
        ("global_load_lds_dwordx4", ["straight into LDS"]),
        ("buffer_store_dword", ["Stores"]),
        ("scratch_load_dword", ["spill"]),
        ("s_load_dwordx4", ["SGPRs"]),
        ("s_cbranch_execz", ["no lane is active"]),
        ("s_barrier_signal", ["arrived"]),
        ("v_max3_f32", ["Largest of three"]),
        ("v_pk_fma_f32", ["two packed"]),
        ("v_readfirstlane_b32", ["first active lane"]),
    ],
)
def test_sentences_say_what_isa_documents_say(name: str, words: list[str]) -> None:
    told = meaning(lookup(name))
    assert all(word in told for word in words), told


def test_operands_may_change_what_it_does() -> None:
    op = lookup("buffer_load_dword")
    assert "LDS" in meaning(op, "v1, s[0:3], 0 offen lds")
    assert "LDS" not in meaning(op, "v1, v2, s[0:3], 0 offen")
    assert "other lanes" in meaning(lookup("v_add_f32_dpp"), "v1, v2, v3 row_shr:1")
    assert meaning(lookup("s_never_heard_of")) == ""


def test_a_line_of_text_is_explained_before_anything_is_parsed() -> None:
    told = explain_instruction(".LBB0_1:  ds_read_b128 v[0:3], v4 offset:16 ; x")
    assert told.startswith("ds_read_b128\nLoads from LDS")
    assert "128 bits per lane" in told
    for line in ("", "  ; only words", "label:", ".loc 1 2 3", "nonsense here"):
        assert explain_instruction(line) == ""


def test_cycles_are_those_of_the_machine_file() -> None:
    on = {arch: replace(attend()[0], arch=arch) for arch in ("gfx90a", "gfx942")}
    for arch, figure in (("gfx90a", 64), ("gfx942", 32)):
        told = explain_instruction("v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], 0", on[arch])
        assert machines.load(arch).mfma_cycles["v_mfma_f32_32x32x8f16"] == figure
        assert f"{figure} cycles ({arch})" in told
    told = explain_instruction("v_exp_f32_e32 v1, v2", on["gfx942"])
    assert f"{machines.load('gfx942').transcendental_cycles[64]} cycles in wave64" in told
    assert "cycles" not in explain_instruction("v_exp_f32_e32 v1, v2")
    assert "not known" in explain_instruction("v_mfma_f32_99x99x9_f16 a0, v0, v1, 0", on["gfx942"])


def test_waits_tell_what_they_wait_for() -> None:
    report, function = attend()
    told_of = 0
    for wait in report.waits:
        inst = next(i for i in function.instructions if i.line == wait.line)
        told = explain_instruction(inst, report)
        assert f"{wait.counter} ≤ {wait.n}" in told
        assert "In this kernel:" in told
        if wait.waits_for:
            assert f"waits for ISA line {wait.waits_for[0]}" in told
            told_of += 1
        if wait.verdict == "over-strict" and wait.could_be is not None:
            assert f"{wait.counter}({wait.could_be}) would do" in told
    assert told_of > 3


def test_what_the_report_says_of_a_line_is_told() -> None:
    report, _ = attend()
    load = first("global_load")
    access = Access(
        *("tt.load", 33, "global_load", SourceLoc("k.py", 3), "f16", (64, 64), "blocked"),
        lines=(load.line,),
        bits=16,
        widest=128,
        limited_by="order",
        reason="the layout runs the other way",
        fix="transpose it",
    )
    slot = SpillSlot(8, 4, (load.line,), (1, 2), (), ())
    finding = Finding(
        rule="KI009",
        severity="warning",
        confidence="likely",
        message="a message",
        evidence={},
        locations=(Location("amdgcn", None, load.line),),
        fix="a fix",
        fingerprint="x",
    )
    known = replace(report, accesses=(access,), spills=(slot,), findings=(finding,))
    told = explain_instruction(load, known)
    assert "tt.load (TTGIR 33)" in told
    assert "16 of 128 bits per lane: the layout runs the other way" in told
    assert "fix: transpose it" in told
    assert "offset 8: 4 bytes, 1 store and 2 reloads" in told
    assert "KI009 (warning): a message" in told
    other = next(i for i in attend()[1].instructions if i.cls == "salu")
    assert "In this kernel" not in explain_instruction(other, known)


def test_a_finding_is_told_with_its_rule() -> None:
    rules = {rule.text.id: rule.text for rule in load_named(DEFAULT_PACK, catalogue()).rules}
    report, _ = attend()
    assert report.findings
    for finding in report.findings:
        rule = rules[finding.rule]
        told = explain_finding(finding, rules)
        severity = "note" if finding.severity == "info" else finding.severity
        assert told.startswith(f"{finding.rule} {rule.name}   {severity}")
        assert finding.message in told
        assert " ".join(rule.explain.split()) in told
        assert " ".join(finding.fix.split()) in told
        for reference in rule.references:
            assert reference.url in told
        for at in finding.locations:
            assert at.line is None or str(at.line) in told
        alone = explain_finding(finding)
        assert finding.message in alone
        assert "References" not in alone


def test_figures_of_a_finding_are_shown_and_what_is_not_known_is_not_zero() -> None:
    finding = Finding(
        rule="X1",
        severity="info",
        confidence="certain",
        message="m",
        evidence={"a": None, "b": 0.25, "c": {"v_x": 3}, "d": True, "e": 1},
        locations=(
            Location("source", "/k/a.py", 4, "  x = 1"),
            Location("ttgir", None, 9),
            Location("amdgcn", None, None),
        ),
        fix="",
        fingerprint="x",
    )
    units = {"b": "cycles", "c": "mapping", "e": "bytes"}
    told = explain_finding(finding, unit_of=lambda name: units.get(name, ""))
    known = ("a  -", "b  0.25 cycles", "c  v_x 3", "d  yes", "e  1 byte")
    for line in (*known, "/k/a.py:4   x = 1", "TTGIR 9"):
        assert line in told.split("\n"), told
    assert "What to change" not in told
