"""TTIR/TTGIR parsing: structure, types, attributes and locations.

The independent source is MLIR itself: a module that fails verification is printed in the generic
form, where every operand and result type is explicit, so both forms of one module must agree.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kinspect.inspector.model import Layout, SourceLoc, TtgirModule, TtgirOp
from kinspect.inspector.ttgir import queries, redundant_work
from kinspect.inspector.ttgir.parser import parse_ttgir

DATA = Path(__file__).parent / "data" / "ttgir"
FIXTURES = sorted(DATA.glob("*.ttgir"))


def load_kernels() -> ModuleType:
    pytest.importorskip("triton")
    if "ttgir_kernels" not in sys.modules:
        spec = importlib.util.spec_from_file_location("ttgir_kernels", DATA / "kernels.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["ttgir_kernels"] = module
        spec.loader.exec_module(module)
    return sys.modules["ttgir_kernels"]


@cache
def compiled(job: str, arch: str) -> dict[str, str]:
    kernels = load_kernels()
    texts: dict[str, str] = kernels.compile_stages(kernels.JOBS[job], arch)
    return texts


@cache
def mlir_context() -> Any:
    pytest.importorskip("triton")
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("hip", "gfx942", 64)).load_dialects(context)
    return context


def generic_form(text: str, folder: Path) -> tuple[str, list[str]]:
    """MLIR's generic listing of a module and the names of its operations, walked by MLIR."""
    from triton._C.libtriton import ir

    path = folder / "module.mlir"
    path.write_text(text)
    context = mlir_context()
    module = ir.parse_mlir_module(str(path), context)
    names: list[str] = []
    module.walk(lambda op: names.append(op.get_name()))
    # A module may only carry attributes of a dialect: this one fails to verify, and MLIR prints
    # what fails to verify in the generic form.
    module.set_attr("unprefixed", ir.builder(context).get_unit_attr())
    return str(module), names


def find(module: TtgirModule, name: str) -> TtgirOp:
    return next(op for op in module.ops if op.name == name)


def in_module(body: str, header: str = "") -> TtgirModule:
    return parse_ttgir(f"{header}\nmodule {{\n{body}\n}}\n", "test.ttgir")


# ------------------------------------------------------------------ against MLIR's own listing


def assert_same_operations(text: str, tmp_path: Path) -> None:
    ours = parse_ttgir(text, "custom")
    listing, names = generic_form(text, tmp_path)
    theirs = parse_ttgir(listing, "generic")
    assert '"builtin.module"() ({' in listing
    assert sorted(names) == sorted([op.name for op in ours.ops] + ["builtin.module"])
    assert len(ours.ops) == len(theirs.ops)
    for a, b in zip(ours.ops, theirs.ops, strict=True):
        where = f"line {a.line}: {a.name}"
        assert (a.name, a.depth, a.parent) == (b.name, b.depth, b.parent), where
        assert [t.text for t in a.result_types] == [t.text for t in b.result_types], where
        assert [t.text for t in a.operand_types] == [t.text for t in b.operand_types], where
    assert ours.notes == ()


@pytest.mark.parametrize("arch", ["gfx942", "gfx950", "gfx1100", "gfx1250"])
@pytest.mark.parametrize(
    "job",
    ["softmax", "attention", "atomics", "zoo", "gemm_int4", "gemm_mxfp4", "descriptors"],
)
def test_operations_equal_mlirs_generic_listing(job: str, arch: str, tmp_path: Path) -> None:
    texts = compiled(job, arch)
    assert_same_operations(texts["ttgir"], tmp_path)
    if arch == "gfx942":
        assert_same_operations(texts["ttir"], tmp_path)


@pytest.mark.parametrize("path", [p for p in FIXTURES if "-3.9-" in p.name], ids=lambda p: p.stem)
def test_fixtures_equal_mlirs_generic_listing(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("triton", minversion="3.9")
    assert_same_operations(path.read_text(), tmp_path)


@pytest.mark.parametrize("job", ["zoo", "attention", "gemm_mxfp4"])
def test_attribute_values_equal_the_generic_forms(job: str, tmp_path: Path) -> None:
    text = compiled(job, "gfx950")["ttgir"]
    ours = parse_ttgir(text, "custom")
    theirs = parse_ttgir(generic_form(text, tmp_path)[0], "generic")
    compared = 0
    for a, b in zip(ours.ops, theirs.ops, strict=True):
        for key, value in a.attributes.items():
            if isinstance(value, str):
                continue  # keywords in the custom form are numbers in the generic one
            if key == "block_args":  # the two forms number names differently
                theirs_of = b.attributes[key]
                assert [len(r) for r in value] == [len(r) for r in theirs_of], (a.line, a.name)
                compared += 1
                continue
            assert repr(value) == repr(b.attributes[key]), (a.line, a.name, key)
            compared += 1
    assert compared > 40


# ------------------------------------------------------------------ fixtures of several Tritons


@pytest.mark.parametrize("path", FIXTURES, ids=lambda p: p.stem)
def test_fixture(path: Path) -> None:
    version, arch = path.stem.split("-")[1:]
    text = path.read_text()
    module = parse_ttgir(text, path.name)
    wave = 64 if arch.startswith("gfx9") else 32
    assert module.attributes["num-warps"] == 4
    assert module.attributes["threads-per-warp"] == wave
    assert module.attributes["target"] == f"hip:{arch}"
    assert module.functions == ("gemm_rowmax",)
    assert module.notes == ()

    (loop,) = [loop for loop in queries.loops(module) if loop.dots]
    (dot,) = loop.dots
    assert loop.op.name == "scf.for"
    assert loop.depth == 0
    assert redundant_work.dot_tile_shapes(dot) == redundant_work.DotTile(64, 64, 32)
    kind = "amd_mfma" if wave == 64 else "amd_wmma"
    result = dot.result_types[0]
    assert result.layout is not None
    assert (result.kind, result.element, result.shape) == ("tensor", "f32", (64, 64))
    assert result.layout.kind == kind
    assert result.layout.alias == "#mma"
    for index, operand in enumerate(dot.operand_types[:2]):
        assert operand.layout is not None
        assert operand.layout.kind == "dot_op"
        assert operand.layout.params["opIdx"] == index
        assert operand.layout.parent == result.layout

    # Every line holds at most one operation; a name at the start of a line is one of them.
    by_line = {op.line: op for op in module.ops}
    assert len(by_line) == len(module.ops)
    for number, line in enumerate(text.splitlines(), 1):
        if number in by_line:
            assert by_line[number].name.split(".")[-1] in line

    stores = queries.named(module, queries.STORES)
    assert [store.loc and store.loc.file for store in stores] == ["kernel.py"]
    files = {op.loc.file for op in module.ops if op.loc is not None}
    assert "kernel.py" in files
    assert all(file == "kernel.py" or file.startswith("triton/") for file in files)
    reduce = find(module, "tt.reduce")
    inside = [op for op in module.ops if op.parent == reduce.index]
    assert inside[-1].name == "tt.reduce.return"
    assert all(op.depth == reduce.depth + 1 for op in inside)
    if version != "3.0":
        assert reduce.loc is not None
        # The reduction is Triton's own code, called from the kernel.
        assert reduce.loc.inlined_at is not None
        assert reduce.loc.outermost.file == "kernel.py"


def test_old_and_new_spellings_have_one_kind() -> None:
    kinds = {}
    for path in FIXTURES:
        module = parse_ttgir(path.read_text(), path.name)
        kinds[path.stem] = {layout.kind for layout in module.layouts.values()}
    assert kinds["gemm_rowmax-3.0-gfx942"] == {"blocked", "amd_mfma", "swizzled_shared"}
    assert "amd_wmma" in kinds["gemm_rowmax-3.1-gfx1100"]
    assert {"swizzled_shared", "shared_memory"} <= kinds["gemm_rowmax-3.4-gfx950"]
    assert "padded_shared" in kinds["gemm_rowmax-3.9-gfx1250"]


# ------------------------------------------------------------------ pieces


def test_types() -> None:
    module = in_module(
        "tt.func @f(%a: !tt.ptr<f16, 1>, %b: !tt.ptr<tensor<16x32xbf16>>, "
        "%c: tensor<8x!tt.ptr<i8>, #b>, %d: !ttg.memdesc<2x64x32xf8E4M3FNUZ, #s, #smem, mutable, "
        "4x64x32>, %e: !ttg.async.token, %f: f64) {\n"
        "%0:6 = test.use %a, %b, %c, %d, %e, %f : i1\n tt.return\n}",
        header=(
            "#b = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], "
            "order = [0]}>\n"
            "#s = #ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 8, order = [1, 0]}>\n"
            "#smem = #ttg.shared_memory"
        ),
    )
    types = find(module, "test.use").operand_types
    facts = [(t.kind, t.element, t.shape, t.layout and t.layout.alias) for t in types]
    assert facts == [
        ("ptr", "f16", (), None),
        ("ptr", "bf16", (16, 32), None),
        ("tensor", "!tt.ptr<i8>", (8,), "#b"),
        ("memdesc", "f8E4M3FNUZ", (2, 64, 32), "#s"),
        ("token", "!ttg.async.token", (), None),
        ("scalar", "f64", (), None),
    ]
    assert find(module, "test.use").results == tuple(f"%0#{k}" for k in range(6))
    assert [t.text for t in find(module, "test.use").result_types] == ["i1"] * 6


@pytest.mark.parametrize(
    ("text", "kind", "params"),
    [
        ("#triton_gpu.shared<{vec = 8, order = [1, 0]}>", "swizzled_shared", {"vec": 8}),
        ("#triton_gpu.mfma<{nonKDim = 32, isTransposed = true}>", "amd_mfma", {"nonKDim": 32}),
        ("#triton_gpu.mma<{versionMajor = 2}>", "nvidia_mma", {"versionMajor": 2}),
        (
            "#ttg.padded_shared<[512:+8, 64:+4] {offset = [[0, 1], [1, 0]], block = []}>",
            "padded_shared",
            {"intervals": ((512, 8), (64, 4)), "offset": ((0, 1), (1, 0)), "block": ()},
        ),
        (
            "#ttg.padded_shared<[32:+4] {order = [1, 0], shape = [64, 32]}>",
            "padded_shared",
            {"intervals": ((32, 4),), "order": (1, 0), "shape": (64, 32)},
        ),
        (
            "#ttg.shared_linear<{offset = [[1], [2]], block = []}, alignment = 16>",
            "shared_linear",
            {"offset": ((1,), (2,)), "alignment": 16},
        ),
        (
            "#ttg.amd_wmma<{version = 3, ctaLayout = {warp = [[0, 1], [1, 0]]}, "
            "instrShape = [16, 16, 32]}>",
            "amd_wmma",
            {"ctaLayout": {"warp": ((0, 1), (1, 0))}, "instrShape": (16, 16, 32)},
        ),
        ("#ttg.some_new_thing<{a = -1, b = true, c}, x>", "some_new_thing", {"a": -1, "c": True}),
        ("#ttg.some_new_thing<3 ;; (>", "some_new_thing", {}),
    ],
)
def test_layouts_are_structured(text: str, kind: str, params: dict[str, object]) -> None:
    module = in_module("test.op", header=f"#x = {text}")
    layout = module.layouts["#x"]
    assert layout.kind == kind
    assert layout.text == text
    assert layout.alias == "#x"
    assert params.items() <= dict(layout.params).items()


def test_layouts_nest_and_may_stand_inline() -> None:
    inner = "#ttg.slice<{dim = 2, parent = #b}>"
    module = in_module(
        f"%0 = test.op : tensor<4xi32, #ttg.slice<{{dim = 1, parent = {inner}}}>>",
        header="#b = #ttg.blocked<{sizePerThread = [1, 1, 1]}>",
    )
    layout = module.ops[0].result_types[0].layout
    chain = []
    while layout is not None:
        chain.append((layout.kind, layout.params.get("dim"), layout.alias))
        layout = layout.parent
    assert chain == [("slice", 1, None), ("slice", 2, None), ("blocked", None, "#b")]


def test_undefined_alias_is_a_note() -> None:
    module = in_module("%0 = test.op : tensor<4xi32, #nowhere>")
    assert module.notes == ("#nowhere is used but not defined in the file",)
    layout = module.ops[0].result_types[0].layout
    assert layout == Layout("unknown", {}, "#nowhere", "#nowhere")


@pytest.mark.parametrize(
    ("loc", "expected"),
    [
        ('loc("k.py":3:7)', SourceLoc("k.py", 3, 7)),
        ('loc("k.py":3:0)', SourceLoc("k.py", 3)),
        ('loc("k.py":3:7 to :4:1)', SourceLoc("k.py", 3, 7)),
        ('loc("acc"("k.py":3:7))', SourceLoc("k.py", 3, 7)),
        ("loc(#named)", SourceLoc("k.py", 10, 2)),
        ("loc(#later)", SourceLoc("late.py", 1, 1)),
        (
            'loc(callsite("lib.py":1:2 at "k.py":9:8))',
            SourceLoc("lib.py", 1, 2, SourceLoc("k.py", 9, 8)),
        ),
        (
            'loc(callsite(callsite("c.py":1:1 at "b.py":2:1) at "a.py":3:1))',
            SourceLoc("c.py", 1, 1, SourceLoc("b.py", 2, 1, SourceLoc("a.py", 3, 1))),
        ),
        (
            'loc(callsite("c.py":1:1 at callsite("b.py":2:1 at "a.py":3:1)))',
            SourceLoc("c.py", 1, 1, SourceLoc("b.py", 2, 1, SourceLoc("a.py", 3, 1))),
        ),
        ('loc(callsite(unknown at "k.py":9:8))', SourceLoc("k.py", 9, 8)),
        ('loc(fused[unknown, "k.py":5:1, "k.py":6:1])', SourceLoc("k.py", 5, 1)),
        ('loc(fused<"CSE">["k.py":5:1])', SourceLoc("k.py", 5, 1)),
        ("loc(unknown)", None),
        ('loc("just a name")', None),
        ('loc("k.py":0:0)', None),
        ('loc("/cache/gemm.ttir":3:4)', None),
        ('loc("<unknown>":1:1)', None),
        ("loc(#missing)", None),
        ("loc(#self)", None),
    ],
)
def test_locations(loc: str, expected: SourceLoc | None) -> None:
    module = parse_ttgir(
        f'#base = loc("k.py":10:2)\n#named = loc("x"(#base))\n#self = loc("x"(#self))\n'
        f'module {{\n  test.op {loc}\n  test.next {loc}\n}}\n#later = loc("late.py":1:1)\n',
        "test.ttir",
    )
    assert [op.name for op in module.ops] == ["test.op", "test.next"]
    assert [op.loc for op in module.ops] == [expected, expected]


def test_inlined_chain_stays_short_when_a_table_doubles_it() -> None:
    lines = ['#l0 = loc("k.py":1:1)']
    lines += [f"#l{i} = loc(callsite(#l{i - 1} at #l{i - 1}))" for i in range(1, 40)]
    module = parse_ttgir("\n".join(lines) + "\nmodule {\ntest.op loc(#l39)\n}", "x")
    loc, frames = module.ops[0].loc, 0
    while loc is not None:
        loc, frames = loc.inlined_at, frames + 1
    assert 32 <= frames <= 64


def test_attributes_of_every_form() -> None:
    module = in_module(
        "%0 = tt.atomic_rmw fadd, acq_rel, gpu, %p, %v, %m {a = 1 : i32, b, "
        '"c.d" = "q\\22\\5C", e = [1, 2.5, @f, "s"], f = array<i64: 3, -4>, g = dense<[[1, 2], '
        "[3, 4]]> : tensor<2x2xi32>, h = {x = true}, i = affine_map<(d0) -> (d0)>, j = f32, "
        "k = 0xFF800000 : f32} : (!tt.ptr<f32>, f32, i1) -> f32\n"
        "%1 = tt.load %p, %m cacheModifier = cg evictionPolicy = evict_first : !tt.ptr<f32>\n"
        "%2 = arith.addf %0, %1 fastmath<nnan,ninf> : f32\n"
        "%3 = arith.constant dense<0xFF800000> : tensor<4xf32>\n"
        "%4 = arith.constant true\n"
        "%5 = arith.cmpi slt, %v, %v : tensor<4xi32>\n"
        '%6 = tt.elementwise_inline_asm "s_nop 0" {pure = true} %2 : f32 -> f32'
    )
    rmw, load, add, constant, true, cmp, asm = module.ops
    a = rmw.attributes
    assert (a["atomic_rmw_op"], a["sem"], a["scope"]) == ("fadd", "acq_rel", "gpu")
    assert (a["a"], a["b"], a["c.d"], a["e"]) == (1, True, 'q"\\', (1, 2.5, "@f", "s"))
    assert (a["f"], a["g"], a["h"]) == ((3, -4), ((1, 2), (3, 4)), {"x": True})
    assert a["i"] == "affine_map<(d0) -> (d0)>"
    assert a["j"].text == "f32"
    assert a["k"] == float("-inf")
    assert rmw.operands == ("%p", "%v", "%m")
    assert load.attributes == {"cacheModifier": "cg", "evictionPolicy": "evict_first"}
    assert load.result_types[0].text == "f32"
    assert add.attributes == {"fastmath": "nnan,ninf"}
    assert constant.attributes == {"value": float("-inf")}
    assert (true.attributes, true.result_types[0].text) == ({"value": True}, "i1")
    assert cmp.attributes == {"predicate": "slt"}
    assert cmp.result_types[0].text == "tensor<4xi1>"
    assert asm.attributes == {"asm_string": "s_nop 0", "pure": True}


def test_regions_blocks_and_isolated_scopes() -> None:
    module = in_module(
        "tt.func @f(%x: i32 {tt.divisibility = 16 : i32}) -> i64 attributes {noinline = true} {\n"
        "  ttg.warp_specialize(%x)\n"
        "  default {\n    test.a %x\n    ttg.warp_yield\n  }\n"
        "  partition0(%x_0: i32) num_warps(4) {\n    %x = test.b : f32\n    test.c %x, %x_0\n"
        "    ttg.warp_return\n  } : (i32) -> ()\n"
        "  cf.cond_br %x, ^bb1, ^bb2(%x : i32)\n"
        "^bb1:  // pred: ^bb0\n  tt.return\n"
        "^bb2(%y: i32):\n  test.d %y, %x\n"
        "  %r = scf.while (%w = %y) : (i32) -> i32 {\n    scf.condition(%x) %w : i32\n"
        "  } do {\n  ^bb0(%v: i32):\n    test.e %v\n    scf.yield %v : i32\n  }\n"
        "  scf.if %x {\n  } else {\n    scf.yield\n  }\n"
        "  tt.return\n}"
    )
    ops = {op.name: op for op in module.ops}
    assert module.functions == ("f",)
    function = ops["tt.func"]
    assert function.attributes["arg_attrs"] == ({"tt.divisibility": 16},)
    assert function.attributes["noinline"] is True
    assert [t.text for t in ops["test.c"].operand_types] == ["f32", "i32"]
    assert [t.text for t in ops["test.d"].operand_types] == ["i32", "i32"]
    assert [t.text for t in ops["test.e"].operand_types] == ["i32"]
    assert ops["cf.cond_br"].operands == ("%x", "%x")
    assert ops["scf.while"].operands == ("%y",)
    owners = {name: module.ops[op.parent].name for name, op in ops.items() if op.parent is not None}
    assert owners["test.a"] == owners["test.c"] == "ttg.warp_specialize"
    assert owners["test.e"] == owners["scf.condition"] == "scf.while"
    assert owners["test.d"] == owners["scf.if"] == "tt.func"
    assert (function.depth, ops["test.d"].depth, ops["test.e"].depth) == (0, 1, 2)


def test_text_without_debug_info_and_with_dump_headers() -> None:
    text = (DATA / "gemm_rowmax-3.9-gfx942.ttgir").read_text()
    header = "// -----// IR Dump Before X: x ('builtin.module' operation) //----- //\n"
    module = parse_ttgir(header + text, "dump")
    kept = "\n".join(line for line in text.splitlines() if not line.startswith("#loc"))
    bare_text = re.sub(r" loc\((?:[^()]|\([^()]*\))*\)", "", kept)
    assert "loc(" not in bare_text
    bare = parse_ttgir(bare_text, "bare")
    assert [op.name for op in bare.ops] == [op.name for op in module.ops]
    assert [op.result_types for op in bare.ops] == [op.result_types for op in module.ops]
    assert all(op.loc is None for op in bare.ops)
