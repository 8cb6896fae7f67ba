"""Damaged TTGIR: an error that names the line, or a module; never another exception, never slow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import TtgirModule
from kinspect.inspector.ttgir import queries, redundant_work
from kinspect.inspector.ttgir.layouts import contig_per_thread, type_to_linear
from kinspect.inspector.ttgir.parser import parse_ttgir
from kinspect.inspector.ttgir.shared_buffers import shared_offset

DATA = Path(__file__).parent / "data" / "ttgir"
TEXTS = [
    (DATA / f"gemm_rowmax-{name}.ttgir").read_text()
    for name in ("3.0-gfx942", "3.4-gfx1201", "3.9-gfx950", "3.9-gfx1250")
]
LIMIT_S = 2.0
"""CPU time for one damaged file of about 12 KB, which takes about 5 ms undamaged."""

FRAGMENTS = (
    *'<>(){}[]"%#!@^:,=-+*?x0/\\\n\t ',
    "->",
    "loc(",
    "loc(#loc1)",
    "{a = 1}",
    "tensor<",
    "tensor<4x",
    "#blocked",
    "#ttg.slice<{dim = 9, parent = #mma}>",
    "%a:2 = ",
    '"tt.reduce"(%a) ({',
    "^bb0(%x: i32):",
    "callsite(",
    "dense<[[1], 2]>",
    "9" * 30,
    "\x00",
    "\u0663",
    "é",
)


def use(module: TtgirModule) -> None:
    """Whatever parses must not break what reads it."""
    queries.loops(module)
    for op in queries.dots(module):
        redundant_work.mfma_per_dot(op)
    for op in module.ops:
        for of in (*op.operand_types, *op.result_types):
            type_to_linear(of)
            contig_per_thread(of.layout, of.shape)
            shared_offset(of.layout, of.shape, (0,) * min(len(of.shape), 2))
    for layout in module.layouts.values():
        run = contig_per_thread(layout, (64, 64))
        assert run is None or run >= 1


def check(text: str) -> bool:
    """Parse and use a text; whether it parsed."""
    module: TtgirModule | None = None
    failure: KinspectError | None = None
    began = time.process_time()
    try:
        module = parse_ttgir(text, "fuzz.ttgir")
    except KinspectError as error:
        failure = error
    assert time.process_time() - began < LIMIT_S
    if module is None:
        assert failure is not None
        assert str(failure).startswith("fuzz.ttgir")
        assert "\n" not in str(failure)
        assert failure.hint
        return False
    assert all(op.index == index for index, op in enumerate(module.ops))
    for op in module.ops:
        assert op.parent is None or op.parent < op.index
        assert len(op.operand_types) == len(op.operands)
        assert len(op.result_types) == len(op.results)
    use(module)
    return True


@pytest.mark.parametrize("text", TEXTS, ids=["3.0", "3.4", "3.9-950", "3.9-1250"])
def test_undamaged_files_parse(text: str) -> None:
    assert check(text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), st.floats(0, 1))
def test_truncated(text: str, share: float) -> None:
    check(text[: int(len(text) * share)])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.sampled_from(TEXTS),
    st.lists(
        st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(FRAGMENTS)),
        min_size=1,
        max_size=6,
    ),
)
def test_edited(text: str, edits: list[tuple[float, int, str]]) -> None:
    for share, removed, inserted in edits:
        at = int(len(text) * share)
        text = text[:at] + inserted + text[at + removed :]
    check(text)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(TEXTS), st.data())
def test_numbers_and_lines_exchanged(text: str, data: st.DataObject) -> None:
    lines = text.splitlines()
    for _ in range(3):
        i, j = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
        lines[i], lines[j] = lines[j], lines[i]
    old = data.draw(st.sampled_from(["64", "32", "[1, 0]", "opIdx = 0", "i32", "mma"]))
    new = data.draw(st.sampled_from(["-1", "0", "3", "[]", "[[9]]", "true", '"x"', "2.5", "#mma"]))
    check("\n".join(lines).replace(old, new))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(FRAGMENTS), max_size=60).map("".join))
@example("module {\n#a = #b.c<{d = [1}>\n}")
@example("%0:5000 = test.op")
@example("test.op(%a: ")
@example("#loc = loc(fused<")
@example('"a"() <{')
def test_fragments_alone(text: str) -> None:
    check(text)
    check(f"module {{\n{text}\n}}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no MLIR operation"),
        ("module {", "not closed"),
        ("module {\n  tt.func @f() {\n    tt.return\n  }\n", "not closed"),
        ('module {\n  test.op "abc\n}', "t.ttgir:2: .*closing quote"),
        ("module {\n  %0 = test.op) : i32\n}", "t.ttgir:2: .*opening bracket"),
        ("module {\n  test.op {a = }\n}", "t.ttgir:2: .*not an attribute value"),
        ("module {\n  test.op {a = " + "[" * 5000 + "]" * 5000 + "}\n}", "nest deeper"),
        ("module {\n" + "scf.if %c {\n" * 5000, "nest deeper"),
        ("module {\n test.op loc(" + "callsite(" * 5000, "nest deeper"),
        ("\x7fELF\x02\x01\x01", "cannot read the MLIR text"),
        ("{" * 50_000, "cannot read the MLIR text"),
    ],
)
def test_errors_name_the_file_and_line(text: str, message: str) -> None:
    with pytest.raises(KinspectError, match=message) as caught:
        parse_ttgir(text, "t.ttgir")
    assert str(caught.value).startswith("t.ttgir")
    assert caught.value.hint
    assert "\n" not in str(caught.value)


def test_a_megabyte_parses_in_linear_time() -> None:
    text = (DATA / "gemm_rowmax-3.9-gfx950.ttgir").read_text()
    start = text.index("  tt.func")
    stop = text.index("\n} loc(") + 1
    function = text[start:stop]
    copies = 1_000_000 // len(function)
    big = text[:start] + function * copies + text[stop:]
    began = time.process_time()
    module = parse_ttgir(big, "big")
    took = time.process_time() - began
    assert len(module.functions) == copies
    # About 0.4 s on a quiet 2020s core; ten times that still rules out anything quadratic.
    assert took < 4


@pytest.mark.parametrize(
    "text",
    [
        "!a<" * 150_000,
        "tensor<" * 70_000,
        "tensor<" + "<>" * 200_000,
        '\\"' * 200_000,
        '@"' * 200_000,
        " " * 1_000_000,
        "module {\n" + " " * 1_000_000 + "x",
        "1x" * 200_000,
        "#a.b<" * 100_000,
        "%0 = " * 100_000,
        "module {\n" + "#a = #b.c<[" * 50_000,
        "module {\n" + "test.op {" * 50_000,
        "-" * 500_000,
    ],
    ids=lambda text: text[:14].strip(),
)
def test_hostile_text_fails_fast(text: str) -> None:
    began = time.process_time()
    with pytest.raises(KinspectError):
        parse_ttgir(text, "hostile")
    assert time.process_time() - began < 5
