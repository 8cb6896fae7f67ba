"""Reading whole lines at once gives what reading every token gives, errors included."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.ttgir import lines
from kinspect.inspector.ttgir.lexer import Cursor
from kinspect.inspector.ttgir.parser import _parse, parse_ttgir

DATA = Path(__file__).parent / "data" / "ttgir"
FILES = sorted(DATA.glob("*.tt*ir"))
TEXTS = [path.read_text() for path in FILES]

PIECES = (
    *'<>(){}[]"%#~!@^:,=-x0/\n ',
    "//",
    " loc(#loc1)",
    "\n#loc1 = loc(unknown)\n",
    '\n#loc1 = loc("a"(#loc))\n',
    "\n    %a, %b = tt.split %x : tensor<4x2xf32, #blocked> -> tensor<4xf32> loc(#loc1)\n",
    "\n    %c:2 = tt.call @f(%c0_i32) : (i32) -> (i32, tensor<0x4xf32>) loc(#loc1)\n",
    "\n    %d = arith.constant 0xFF800000 : f32 loc(#loc1)\n",
    "\n    %d = arith.constant dense<0x7F800000> : tensor<4x!tt.ptr<f16>, #blocked> loc(#loc1)\n",
    "\n    tt.return loc(#loc1)\n",
    '\n    tt.print "%d: " {hex = false} : %a : i32 loc(#loc1)\n',
    "\n#blocked = #ttg.blocked<{order = [0]}>\n",
    "tensor<64xf32, #ttg.slice<{dim = 1, parent = #undefined}>>",
    "tensor<64x64xf16, #blocked, #blocked>",
    "tensor<0x16xi8>",
    "!tt.ptr<f16, 1>",
    "!_.1 <<<",
    "%arg0#1",
    "\x00",
    "é",
)


def outcome(text: str, *, whole: bool) -> str:
    """What comes of reading a text: the module, or the error."""
    try:
        if whole:
            return repr(parse_ttgir(text, "x.ttgir"))
        return repr(_parse(Cursor(text, "x.ttgir"), "x.ttgir"))
    except KinspectError as error:
        return f"error: {error}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_real_files_read_the_same(path: Path) -> None:
    text = path.read_text()
    expected = outcome(text, whole=False)
    assert not expected.startswith("error")
    assert outcome(text, whole=True) == expected


def test_most_statements_of_real_files_are_read_as_lines() -> None:
    """Else this test, and the speed, would be about nothing."""
    shares = []
    for path in FILES:
        text = path.read_text()
        if "loc(#loc" not in text:
            continue  # printed without locations, or in the generic form
        cursor = Cursor(text, path.name, whole_lines=True)
        module = _parse(cursor, path.name)
        shares.append(len(cursor.line_statements) / len(module.ops))
    assert shares
    assert max(shares) > 0.8


@given(st.data())
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_files_come_to_the_same(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(TEXTS))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.sampled_from((0, 0, 1, 5, 60)))
        text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + cut :]
    assert outcome(text, whole=True) == outcome(text, whole=False)


@pytest.mark.parametrize(
    "text",
    [
        # A line that looks like a statement inside of brackets, and a location in them.
        "tt.call @f(\n  arith.addi %a, %b : i32 loc(#loc)\n) : () -> ()\n",
        'tt.call @f(\n#loc = loc("a":1:2)\n) : () -> ()\n',
        # A region opened on the line before, and one that is not closed.
        "module {\n  tt.return loc(#loc)\n}\n",
        "module {\n  tt.return loc(#loc)\n",
        # Aliases that are defined twice, or after their use.
        'tt.return loc(#loc)\n#loc = loc("a":1:2)\n#loc = loc(fused["b":3:4])\n',
        "#l = #ttg.blocked<{order = [0]}>\n%a = tt.f %b : tensor<4xf32, #l> loc(#loc)\n"
        "#l = #ttg.blocked<{order = [1]}>\n%c = tt.f %b : tensor<4xf32, #l> loc(#loc)\n",
        "%a = tt.f %b : tensor<4xf32, #l> loc(#loc)\n#l = #ttg.blocked<{order = [0]}>\n",
        # What is no type, but holds one.
        "%a = tt.f %b : tensor<4xi32>or<4xi32, #l> loc(#loc)\n",
        "%a = tt.f %b, !tt.ptr<f32>#x : i32 loc(#loc)\n",
        # A comment that hides the end of a line.
        "%a = tt.f %b : i32 // loc(#loc)\n",
        "%a:3 = tt.f %b#1, %b#0 : i32 loc(#loc)\n%c = tt.g %a#2 : i32 loc(#loc)\n",
        '#loc = loc("a":0:0)\n#loc1 = loc(callsite(#loc at #loc1))\ntt.return loc(#loc1)\n',
    ],
)
def test_odd_texts_come_to_the_same(text: str) -> None:
    assert outcome(text, whole=True) == outcome(text, whole=False)


def test_a_line_is_taken_apart() -> None:
    line = "  %a, %b = tt.split %x : tensor<4x2xf32, #l> -> !tt.ptr<f32> loc(#loc3)"
    found = lines.statement(line)
    assert found is not None
    assert found.form == "%, % = tt.split % : ~ -> ~"
    assert found.names == ("%a", "%b", "%x")
    assert found.types == ("tensor<4x2xf32, #l>", "!tt.ptr<f32>")
    assert found.loc == "#loc3"
    assert lines.numbered(found.form) == "%0, %1 = tt.split %2 : !_.0 -> !_.1"
    assert lines.statement('tt.print "%d" loc(#loc3)') is None
    assert lines.statement("scf.for %i = %a to %b {") is None
