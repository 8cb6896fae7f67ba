"""Colours and folds: true of every line of every text that the tests have."""

from __future__ import annotations

import ast
import io
import re
import time
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.explain.code.folds import HIDDEN_FIRST, all_folds
from kinspect.inspector.explain.code.highlighting import CLASS_STYLES, STRING, spans, within_strings
from kinspect.inspector.explain.code.texts import TEXTS, lines_of
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.mnemonics import CLASSES, lookup
from kinspect.tui.widgets.code import CodeView

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data"
KINDS = {".s": "amdgcn", ".amdgcn": "amdgcn", ".ttgir": "ttgir", ".ll": "llir", ".py": "source"}
FILES = sorted(
    [path for path in DATA.rglob("*") if path.suffix in KINDS]
    + list((ROOT / "kernels").glob("*.py"))[:6]
)
SHEETS = (CodeView.DEFAULT_CSS, (ROOT / "tui" / "kinspect.tcss").read_text("utf-8"))
STYLES = {name for sheet in SHEETS for name in re.findall(r"\.code--([\w-]+)", sheet)}


def lines_in(path: Path) -> list[str]:
    return lines_of(path.read_text("utf-8"))


def check(kind: str, line: str, cls: str | None = None) -> None:
    at = 0
    for start, stop, name in spans(kind, line, cls):
        assert at <= start < stop <= len(line), (kind, line, start, stop)
        assert name in STYLES, name
        at = stop


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_pieces_are_in_order_disjoint_and_within_the_line(path: Path) -> None:
    lines = lines_in(path)
    kind = KINDS[path.suffix]
    for line in lines:
        check(kind, line)
    coloured = sum(bool(spans(kind, line)) for line in lines if line.strip())
    assert coloured > 0.5 * sum(bool(line.strip()) for line in lines)


def test_names_of_instructions_tell_what_the_table_says_of_them() -> None:
    """Before a text is analysed its colours are guessed; they must not change afterwards."""
    word = re.compile(r"\s*([a-z]\w*_\w*)(?:\s|$)")
    seen = {
        match[1]
        for path in FILES
        if KINDS[path.suffix] == "amdgcn"
        for match in map(word.match, lines_in(path))
        if match is not None
    }
    known = {name: lookup(name).cls for name in seen}
    told = {name: cls for name, cls in known.items() if cls != "unknown"}
    assert len(told) > 150
    for name, cls in told.items():
        assert spans("amdgcn", f"  {name} v0", None) == spans("amdgcn", f"  {name} v0", cls), name


@given(st.sampled_from(TEXTS), st.text(max_size=60), st.sampled_from([None, "valu", STRING]))
def test_so_they_are_in_any_line(kind: str, line: str, cls: str | None) -> None:
    check(kind, line.replace("\n", " "), cls)


@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.sampled_from(
            [
                *('"', "'", '"""', "\\", ";", "//", "/*", "#", "loc(", ")", "(", "%a", "v[0:", "]"),
                *(
                    ".loc",
                    "s_nop",
                    "x:",
                    "0x1f",
                    "1.5e-3",
                    "tensor<",
                    "64xf32",
                    "!dbg !1",
                    " ",
                    "@f",
                ),
            ]
        ),
        max_size=12,
    ),
)
def test_so_they_are_in_broken_lines(kind: str, pieces: list[str]) -> None:
    check(kind, "".join(pieces))


def shown(kind: str, line: str, cls: str | None = None) -> list[tuple[str, str]]:
    return [(line[start:stop], name) for start, stop, name in spans(kind, line, cls)]


def test_assembly_is_coloured_by_what_it_does() -> None:
    assert shown(
        "amdgcn", "  v_mfma_f32_16x16x16_f16 a[0:3], v12, s[sBase:sBase+1], -1 ; x v1"
    ) == [
        ("v_mfma_f32_16x16x16_f16", "matrix"),
        ("a[0:3]", "register"),
        ("v12", "register"),
        ("s[sBase:sBase+1]", "register"),
        ("-1", "literal"),
        ("; x v1", "comment"),
    ]
    assert shown("amdgcn", ".LBB0_3:  ds_read_b128 v[0:3], v4 offset:16") == [
        (".LBB0_3:", "label"),
        ("ds_read_b128", "lds"),
        ("v[0:3]", "register"),
        ("v4", "register"),
        ("offset", "keyword"),
        ("16", "literal"),
    ]
    assert shown("amdgcn", '  .file 1 "a;b" "k.py"') == [
        (".file", "directive"),
        ("1", "literal"),
        ('"a;b"', "string"),
        ('"k.py"', "string"),
    ]
    assert shown("amdgcn", "s_cbranch_scc0 .LBB0_3") == [
        ("s_cbranch_scc0", "branch"),
        (".LBB0_3", "name"),
    ]
    assert shown("amdgcn", "s_waitcnt vmcnt(0)")[0] == ("s_waitcnt", "wait")
    # What operands tell is known to who parsed the line.
    line = "buffer_load_dword v1, s[0:3], 0 offen lds"
    assert shown("amdgcn", line)[0][1] == "memory"
    assert shown("amdgcn", line, "lds_direct")[0][1] == "lds"


def test_every_class_of_instruction_has_a_colour_that_there_is() -> None:
    assert set(CLASS_STYLES) <= set(CLASSES)
    assert set(CLASS_STYLES.values()) <= STYLES
    assert {name for name in CLASSES if name not in CLASS_STYLES} == {
        *("nop", "hint", "message", "unknown")
    }


def test_ttgir_llvm_ir_and_python() -> None:
    line = '    %a = tt.dot %x, %y : tensor<64x32xf16, #mma> loc("n"(#loc3))'
    assert shown("ttgir", line) == [
        ("%a", "register"),
        ("tt.dot", "matrix"),
        ("%x", "register"),
        ("%y", "register"),
        ("tensor", "type"),
        ("64x32xf16", "type"),
        ("#mma", "name"),
        ('loc("n"(#loc3))', "dim"),
    ]
    assert ("ttg.convert_layout", "warning") in shown("ttgir", "%b = ttg.convert_layout %a : x")
    assert shown("llir", "  %5 = load i32, ptr addrspace(1) %p, !dbg !8") == [
        ("%5", "register"),
        ("load", "memory"),
        ("i32", "type"),
        ("ptr", "type"),
        ("addrspace", "type"),
        ("1", "literal"),
        ("%p", "register"),
        ("!dbg !8", "dim"),
    ]
    assert shown("source", "    def f(x): return tl.load(x, other=0.0)  # 'no'") == [
        ("def", "keyword"),
        ("f", "label"),
        ("return", "keyword"),
        ("tl.load", "name"),
        ("0.0", "literal"),
        ("# 'no'", "comment"),
    ]
    assert shown("source", 'ends""" + x[1]', STRING)[0] == ('ends"""', "string")


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".py"], ids=lambda p: p.name)
def test_strings_over_several_lines_are_those_of_pythons_tokenizer(path: Path) -> None:
    text = path.read_text("utf-8")
    expected = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.STRING:
            expected |= set(range(token.start[0], token.end[0]))
    assert within_strings(lines_in(path)) == expected


@pytest.mark.parametrize("kind", TEXTS)
def test_a_line_is_coloured_in_30_microseconds(kind: str) -> None:
    lines = [line for path in FILES if KINDS[path.suffix] == kind for line in lines_in(path)]
    took = []
    for _ in range(3):
        start = time.process_time()
        for line in lines:
            spans(kind, line)
        took.append((time.process_time() - start) / len(lines))
    assert min(took) < 30e-6, took


# ------------------------------------------------------------------------------ folds


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_folds_nest_and_stay_within_the_text(path: Path) -> None:
    kind, lines = KINDS[path.suffix], lines_in(path)
    function = None
    if kind == "amdgcn":
        function = parse_text(path.read_text("utf-8"), path.name).functions[0]
    found = all_folds(kind, lines, function)
    around: list[int] = []
    for fold in found:
        assert 0 <= fold.start < fold.last < len(lines), fold
        while around and around[-1] < fold.start:
            around.pop()
        assert not around or fold.last <= around[-1], fold
        around.append(fold.last)
    assert len({fold.start for fold in found}) == len(found)


def test_a_fold_that_begins_at_the_end_of_another_is_within_it() -> None:
    """Else the lines under the inner one came back when the outer is closed."""
    lines = [
        ".set k.num_vgpr, 1",
        ".set k.num_agpr, 0",
        "  .loc 1 2 3",
        "  .loc 1 3 3",
        "  s_nop 0",
    ]
    assert visible("amdgcn", lines) == [0, 4]
    assert [(fold.start, fold.last) for fold in all_folds("amdgcn", lines)] == [(0, 3), (1, 3)]


def visible(kind: str, lines: list[str]) -> list[int]:
    """The lines that are shown at first."""
    closed = {f.start: f.last for f in all_folds(kind, lines) if f.what in HIDDEN_FIRST}
    shown, at = [], 0
    while at < len(lines):
        shown.append(at)
        at = closed.get(at, at) + 1
    return shown


@pytest.mark.parametrize(
    "path", [p for p in FILES if KINDS[p.suffix] == "amdgcn"], ids=lambda p: p.name
)
def test_at_first_no_code_is_hidden_and_no_debug_directive_shown(path: Path) -> None:
    lines = lines_in(path)
    shown = visible("amdgcn", lines)
    code = {
        inst.line - 1
        for function in parse_text(path.read_text("utf-8"), path.name).functions
        for inst in function.instructions
    }
    assert code <= set(shown)
    for number in shown:
        assert not re.match(r"\s*\.(?:loc|cfi_\w+|byte|amdhsa_next_free_vgpr)\s", lines[number])
        assert not re.match(r"\s*\.Ltmp\d+:", lines[number])
    if len(code) < 500 and len(lines) > 300:
        assert len(shown) < len(lines) * 0.8


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".ttgir"], ids=lambda p: p.name)
def test_at_first_the_table_of_positions_is_hidden(path: Path) -> None:
    lines = lines_in(path)
    shown = visible("ttgir", lines)
    operations = {n for n, line in enumerate(lines) if re.match(r"\s+\S", line)}
    assert operations <= set(shown)
    assert sum(lines[n].startswith("#loc") for n in shown) < 8
    bodies = {f.start: f.last for f in all_folds("ttgir", lines) if f.what == "region"}
    loop = next(n for n, line in enumerate(lines) if "scf.for" in line)
    assert "scf.yield" in lines[bodies[loop]]


@pytest.mark.parametrize("path", [p for p in FILES if p.suffix == ".py"], ids=lambda p: p.name)
def test_functions_fold_as_pythons_parser_sees_them(path: Path) -> None:
    text = path.read_text("utf-8")
    lines = lines_in(path)
    found = all_folds("source", lines)
    known = {fold.start: fold.last for fold in found}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            last = node.end_lineno or node.lineno
            assert known.get(node.lineno - 1, node.lineno - 1) == last - 1, node.name
    assert HIDDEN_FIRST.isdisjoint(fold.what for fold in found)


def test_the_prologue_can_be_folded_up_to_the_first_loop() -> None:
    path = DATA / "isa" / "attend.triton39.gfx90a.amdgcn"
    lines = lines_in(path)
    function = parse_text(path.read_text("utf-8"), path.name).functions[0]
    fold = next(f for f in all_folds("amdgcn", lines, function) if f.what == "prologue")
    assert lines[fold.start].startswith("attend:")
    first = min(function.blocks[loop.header].start for loop in function.loops)
    header = function.instructions[first].line - 1
    assert fold.last < header
    between = [line for line in lines[fold.last + 1 : header] if re.match(r"\s+[a-z]", line)]
    assert between == []
    assert "prologue" not in HIDDEN_FIRST


def test_metadata_of_llvm_ir_is_hidden_and_its_code_is_not() -> None:
    path = DATA / "isa" / "located.ll"
    lines = lines_in(path)
    shown = [lines[n] for n in visible("llir", lines)]
    assert any("mul i32" in line for line in shown)
    assert not any("DILocation" in line for line in shown)
