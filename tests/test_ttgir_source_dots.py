"""The dots of a TTIR text, read alone: the same as in the whole, and never less than it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.model import TtgirModule, TtgirOp
from kinspect.inspector.ttgir import lowered
from kinspect.inspector.ttgir.lowered import CONVERSIONS, read_dots
from kinspect.inspector.ttgir.parser import parse_ttgir
from kinspect.inspector.ttgir.queries import DOTS

DATA = Path(__file__).parent / "data" / "ttgir"

TEXT = """\
#loc = loc("gemm.py":3:0)
#loc1 = loc("gemm.py":9:20)
#loc2 = loc("lib.py":4:5)
#loc3 = loc(callsite(#loc2 at #loc1))
#loc4 = loc("acc"(#loc3))
module {
  tt.func public @gemm(%a: tensor<16x32xf8E4M3FN>, %b: tensor<32x16xf16>) {
    %cst = arith.constant dense<0.000000e+00> : tensor<16x16xf32> loc(#loc)
    %0 = tt.fp_to_fp %a : tensor<16x32xf8E4M3FN> -> tensor<16x32xf16> loc(#loc4)
    %acc = tt.dot %0, %b, %cst, inputPrecision = tf32 : tensor<16x32xf16> * tensor<32x16xf16> \
-> tensor<16x16xf32> loc(#loc4)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
"""


def loaded(name: str, path: Path) -> ModuleType:
    pytest.importorskip("triton", minversion="3.9")
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules[name]


def wanted(module: TtgirModule) -> list[TtgirOp]:
    return [op for op in module.ops if op.name in DOTS | CONVERSIONS]


def assert_same(text: str) -> None:
    ours, whole = wanted(read_dots(text, "own")), wanted(parse_ttgir(text, "whole"))
    assert whole
    assert len(ours) == len(whole)
    for a, b in zip(ours, whole, strict=True):
        assert (a.name, a.line, a.loc, a.operands, a.results) == (
            *(b.name, b.line, b.loc, b.operands, b.results),
        )
        assert a.attributes == b.attributes
        assert a.result_types == b.result_types
        # A scaled dot's elements stand in its attributes.
        printed = 1 if a.name in CONVERSIONS else 2 if a.name == "tt.dot" else 0
        assert a.operand_types[:printed] == b.operand_types[:printed]


@pytest.mark.parametrize("job", ["attention", "gemm_int4", "gemm_mxfp4"])
def test_dots_are_read_as_in_the_whole(job: str) -> None:
    pytest.importorskip("triton")
    jobs = loaded("ttgir_kernels", DATA / "kernels.py")
    text = jobs.compile_stages(jobs.JOBS[job], "gfx942")["ttir"]
    assert_same(text)
    assert len(read_dots(text, "own").ops) < len(parse_ttgir(text, "whole").ops)


def test_positions_go_through_names_and_call_sites() -> None:
    assert_same(TEXT)
    dot = read_dots(TEXT, "own").ops[-1]
    assert dot.loc is not None
    assert dot.loc.outermost.line == 9


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (" loc(#loc4)\n    tt.return", ' loc("gemm.py":9:20)\n    tt.return'),
        ('#loc4 = loc("acc"(#loc3))', "#loc4 = loc(fused[#loc1, #loc2])"),
        ("%acc = tt.dot", "// tt.dot\n    %acc = tt.dot"),
    ],
    ids=["own location", "fused location", "comment"],
)
def test_odd_texts_are_read_whole(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert lowered._ops(text, "own") is None
    assert_same(text)


def test_without_a_dot_nothing_is_read() -> None:
    assert read_dots("not MLIR", "own").ops == ()
    with pytest.raises(KinspectError, match="own:2: cannot read the MLIR"):
        read_dots("tt.dot of nothing {", "own")
