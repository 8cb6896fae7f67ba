"""Why accesses are narrow: planted reasons are named, and predicted widths are those of the code.

The widths that the facts allow are computed from the TTGIR alone. What they are held against is
the machine code: an instruction is as wide as its mnemonic says.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from kinspect.inspector.metrics.access_reasons import explain_global
from kinspect.inspector.metrics.alignment_reasons import argument_indivisible
from kinspect.inspector.metrics.narrow_reasons import LaunchedArgument
from kinspect.inspector.model import Access, Artifact, KernelReport, Report
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from kinspect.inspector.ttgir.axes.analysis import analyze
from kinspect.inspector.ttgir.axes.graph import functions
from kinspect.inspector.ttgir.axes.widths import Layouts, limits_of, needed_values, tile_of
from kinspect.inspector.ttgir.parser import parse_ttgir

# `run` and `products` are compiled once
pytestmark = [pytest.mark.xdist_group("accesses"), pytest.mark.usefixtures("shared_guests")]

ROOT = Path(__file__).parent.parent
FILE = ROOT / "tests" / "data" / "access_kernels.py"
GLOBAL = ("global_load", "global_store", "lds_direct")
FEW = ("gemm_all_types", "softmax")
# This file's own table of the widths that mnemonics state.
WIDTHS = {
    "byte": 8, "ubyte": 8, "sbyte": 8, "u8": 8, "i8": 8, "b8": 8,
    "short": 16, "ushort": 16, "sshort": 16, "u16": 16, "i16": 16, "b16": 16,
    "dword": 32, "b32": 32, "dwordx2": 64, "b64": 64, "dwordx3": 96, "b96": 96,
    "dwordx4": 128, "b128": 128,
}  # fmt: skip
MNEMONIC = re.compile(
    r"^\s+((?:buffer|global|flat)_(?:load|store)_(?:lds_)?(?:d16_(?:hi_)?)?(\w+))"
)


def text(artifact: Artifact) -> str:
    return artifact.path.read_text()


def case(run: Report, name: str) -> KernelReport:
    (found,) = [k for k in run.kernels if k.variant is not None and k.variant.case == name]
    return found


def one(kernel: KernelReport, cls: str) -> Access:
    (found,) = [a for a in kernel.accesses if a.cls == cls]
    return found


@pytest.fixture(scope="module")
def run() -> Report:
    pytest.importorskip("triton")
    found = collect(Request((str(FILE),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return found


@pytest.fixture(scope="module")
def products() -> dict[tuple[str, str], KernelReport]:
    """(architecture, case) -> the file's products on other targets."""
    pytest.importorskip("triton")
    found: dict[tuple[str, str], KernelReport] = {}
    for kernel in ("product", "scores"):
        request = Request((str(FILE),), ("gfx950", "gfx1100"), kernel=kernel, passes=False, jobs=2)
        for its in collect(request).kernels:
            assert its.arch is not None
            assert its.variant is not None
            found[its.arch, str(its.variant.case)] = its
    return found


# --------------------------------------------------------------------------- planted reasons


@pytest.mark.parametrize(
    ("name", "cls", "bits", "limited_by", "says", "fix"),
    [
        ("unknown_stride", "global_load", 16, "contiguity", "stride_col is not known to be 1",
         "stride_col as tl.constexpr"),
        ("indivisible_pitch", "global_load", 16, "divisibility",
         "K is not known to be divisible by 8", "multiple of 16"),
        ("masked_by_element", "global_load", 16, "mask",
         "the mask offsets < n may change from element to element along dim 0: n is not", "Pad n"),
        ("masked_by_element", "global_store", 16, "mask", "offsets < n", "drop the mask"),
        ("wrapped", "global_load", 16, "contiguity", "% n", "tl.max_contiguous"),
        ("every_second", "global_load", 16, "contiguity", "lie 2 apart", "tl.split"),
        ("unaligned", "global_load", 16, "divisibility", "x is not known to be aligned", "view"),
        ("told_of_argument", "global_load", 16, "divisibility", "K is not known", "K // 16 * 16"),
        ("counted_parts", "global_load", 16, "divisibility",
         "size_of_part = size // parts is not known to be divisible by 8", "size_of_part // 8 * 8"),
        ("few_elements", "global_load", 32, "tile", "only 1 element of 32 bits", "num_warps"),
        ("small_type", "global_load", 32, "dtype", "4 elements of 8 bits", "Enlarge the block"),
        ("transposed", "global_store", 128, None, "", ""),
    ],
)  # fmt: skip
def test_a_planted_reason_is_named(
    run: Report, name: str, cls: str, bits: int, limited_by: str | None, says: str, fix: str
) -> None:
    access = one(case(run, name), cls)
    assert (access.bits, access.limited_by) == (bits, limited_by), access
    assert says in access.reason
    assert fix in access.fix
    assert access.source is not None
    assert access.source.file == str(FILE)


def test_neighbours_that_count_down_get_no_hint_that_would_be_false(run: Report) -> None:
    """Each element lies before the one before it: what else is in the way is named beside it."""
    access = one(case(run, "counted_down"), "global_load")
    assert (access.bits, access.limited_by) == (16, "contiguity")
    assert "back falls by one from element to element along dim 0" in access.reason
    assert "the alignment limits as well: pitch is not known to be divisible by 8" in access.reason
    assert "the mask allows no more: the elements that it compares fall by one" in access.reason
    assert "step by one" not in access.reason
    assert (access.fix, access.widest) == ("", 16)
    assert "KI024" not in {finding.rule for finding in case(run, "counted_down").findings}


@pytest.mark.parametrize(
    ("name", "limited_by", "says"),
    [
        ("compared", "mask", "partner is not known to be divisible by"),
        ("windows", "divisibility", "they move by 1 from iteration to iteration"),
        ("place_in_page", "divisibility", "first = program_id(x) % page is not known"),
    ],
)
def test_what_takes_every_number_gets_no_hint_to_round_it(
    run: Report, name: str, limited_by: str, says: str
) -> None:
    """`partner // 8 * 8` makes other pairs, and no multiple of 8 counts by one."""
    access = one(case(run, name), "global_load")
    assert (access.bits, access.limited_by, access.fix) == (16, limited_by, ""), access
    assert says in access.reason
    assert not {"KI025", "KI026"} & {finding.rule for finding in case(run, name).findings}


def test_a_stride_that_cannot_be_one_is_not_called_unknown(run: Report) -> None:
    """What is advised instead is compiled beside it."""
    load = one(case(run, "one_column"), "global_load")
    assert load.reason == "neighbouring elements along dim 0 lie pitch apart"
    assert "constexpr" not in load.fix
    assert "Store the tensor contiguous along this dimension" in load.fix
    assert (len(load.lines), load.bits) == (8, 16)
    for name, loads in (("one_column_turned", 1), ("eight_columns", 8)):
        better = one(case(run, name), "global_load")
        assert (len(better.lines), better.bits) == (loads, 128)
    store = one(case(run, "one_column_written"), "global_store")
    assert store.reason == "neighbouring elements along dim 0 lie pitch apart"
    assert "load" not in store.fix


def test_loads_and_stores_of_one_cause_are_counted_and_advised_apart(run: Report) -> None:
    kernel = case(run, "turned_pairs")
    classes = {op.line: op.cls for op in kernel.memory_ops}
    seen = {}
    for finding in kernel.findings:
        if finding.rule == "KI024":
            lines = [at.line for at in finding.locations if at.kind == "amdgcn"]
            (cls,) = {classes[line] for line in lines}
            assert finding.evidence["matches"] == len(lines)
            seen[cls] = finding
    assert set(seen) == {"global_load", "global_store"}
    assert "tl.split" in seen["global_load"].fix
    assert "tl.join" not in seen["global_load"].fix
    assert "tl.join" in seen["global_store"].fix
    for words in ("Load", "loads", "tl.split"):
        assert words not in seen["global_store"].fix
    for cls in seen:
        (joined,) = [a for a in case(run, "joined_pairs").accesses if a.cls == cls]
        assert joined.bits == 128


def test_a_result_stored_as_the_instruction_leaves_it_is_not_blamed_on_its_stride(
    products: dict[tuple[str, str], KernelReport],
) -> None:
    """A lane of WMMA holds every second row alone: with another pitch its stores are as narrow."""
    store = one(products["gfx1100", "scores"], "global_store")
    assert (store.bits, store.divisibility, store.limited_by) == (32, 4, "layout")
    assert "the matrix instruction leaves each lane 1 neighbour" in store.reason


def test_a_gather_names_the_load_of_its_indices(run: Report) -> None:
    index, gather = (a for a in case(run, "gathered").accesses if a.cls == "global_load")
    assert index.limited_by is None
    assert gather.limited_by == "contiguity"
    assert index.source is not None
    assert f"loaded from memory (line {index.source.line})" in gather.reason


@pytest.mark.parametrize("name", ["told", "told_of_range", "wide"])
def test_wide_accesses_have_nothing_to_explain(run: Report, name: str) -> None:
    for cls in ("global_load", "global_store"):
        access = one(case(run, name), cls)
        assert (access.bits, access.limited_by, access.reason, access.fix) == (128, None, "", "")


def test_lds_in_a_product(run: Report) -> None:
    """Operands are read in the kWidth neighbours that an instruction takes; the loop is told."""
    kernel = case(run, "product")
    reads = [a for a in kernel.accesses if a.cls == "lds_read" and a.limited_by]
    assert reads
    assert all("kWidth 4" in a.reason for a in reads)
    assert any(a.loop is not None for a in kernel.accesses)
    by_line = {op.line: op for op in kernel.memory_ops}
    for access in kernel.accesses:
        assert {by_line[n].cls for n in access.lines} <= {access.cls}
        for n in access.lines:
            assert by_line[n].source == access.source


def test_without_ttgir_nothing_is_claimed(run: Report, tmp_path: Path) -> None:
    kernel = case(run, "unknown_stride")
    path = tmp_path / "k.s"
    path.write_text(text(kernel.artifacts["amdgcn"]))
    (alone,) = collect(Request((str(path),), (), passes=False, jobs=1)).kernels
    assert alone.accesses == ()


# --------------------------------------------------------------------------- predicted widths


def predicted(kernel: KernelReport) -> dict[tuple[str, int], set[int]]:
    """Widths that the TTGIR alone foretells: (class, user's line) -> bits."""
    found: dict[tuple[str, int], set[int]] = {}
    for graph in functions(parse_ttgir(text(kernel.artifacts["ttgir"]), kernel.name)):
        tiles = [t for t in map(tile_of, graph.ops) if t is not None and t.cls in GLOBAL]
        axes = analyze(graph, needed_values(tiles))
        for tile in tiles:
            limits = limits_of(tile, axes, Layouts())
            assert limits is not None, tile.op
            assert tile.op.loc is not None
            found.setdefault((tile.cls, tile.op.loc.outermost.line), set()).add(limits.width)
    return found


def disagreements(kernels: Sequence[KernelReport]) -> tuple[int, list[str]]:
    """How many source lines were compared, and those whose code has another width."""
    compared, wrong = 0, []
    for kernel in kernels:
        code = text(kernel.artifacts["amdgcn"]).splitlines()
        foretold = predicted(kernel)
        seen: dict[tuple[str, int], set[int]] = {}
        for op in kernel.memory_ops:
            match = MNEMONIC.match(code[op.line - 1])
            if op.cls in GLOBAL and match is not None and op.source is not None:
                key = (op.cls, op.source.outermost.line)
                seen.setdefault(key, set()).add(WIDTHS[match[2]])
        for key, widths in foretold.items():
            if key not in seen:
                continue  # uniform loads become scalar ones, dead ones nothing
            compared += 1
            if seen[key] != widths:
                case_name = kernel.variant.case if kernel.variant is not None else ""
                wrong.append(f"{kernel.name} {case_name} {kernel.arch} {key}: {seen[key]} {widths}")
    return compared, wrong


def test_widths_of_planted_kernels_are_foretold(run: Report) -> None:
    compared, wrong = disagreements(run.kernels)
    assert compared >= 20
    assert not wrong


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n == "gemm_all_types" else ()) for n in FEW],
)
def test_widths_of_some_kernels_are_foretold(name: str) -> None:
    pytest.importorskip("triton")
    path = str(ROOT / "kernels" / f"{name}.py")
    kernels = collect(Request((path,), ("gfx942",), passes=False, jobs=2)).kernels
    compared, wrong = disagreements(kernels)
    assert compared >= 2 * len(kernels)
    assert not wrong


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["gfx90a", "gfx942", "gfx1100"])
@pytest.mark.parametrize("path", sorted(ROOT.glob("kernels/[a-z]*.py")), ids=lambda p: p.stem)
def test_widths_of_all_kernels_are_foretold(path: Path, arch: str) -> None:
    pytest.importorskip("triton")
    kernels = collect(Request((str(path),), (arch,), passes=False, jobs=2)).kernels
    _, wrong = disagreements(kernels)
    assert not wrong


# --------------------------------------------------------------------------- arguments of launches


@pytest.fixture(scope="module")
def launches() -> Sequence[KernelReport]:
    pytest.importorskip("triton")
    file = ROOT / "tests" / "data" / "unspecialised_launches.py"
    found = collect(Request((str(file),), ("gfx942",), passes=False, jobs=2))
    assert not found.errors
    return found.kernels


@pytest.fixture(scope="module")
def launched(launches: Sequence[KernelReport]) -> dict[str, list[Access]]:
    """Kernel -> the load of each of its specialisations, in the order of the launches."""
    loads: dict[str, list[Access]] = {}
    for kernel in launches:
        loads.setdefault(kernel.name, []).append(one(kernel, "global_load"))
    return loads


@pytest.mark.parametrize(
    ("kernel", "hidden"), [("annotated", "its annotation"), ("forbidden", "do_not_specialize")]
)
def test_what_keeps_triton_from_noting_a_one_is_named(
    launched: dict[str, list[Access]], kernel: str, hidden: str
) -> None:
    """The same launch without it is the proof: one load of 128 bits in place of 8."""
    (load,) = launched[kernel]
    assert (load.bits, len(load.lines)) == (16, 8)
    assert load.reason == f"stride is 1 in this launch, which {hidden} keeps Triton from noting"
    assert load.fix.startswith(f"Drop {hidden} or pass it as tl.constexpr")
    wide = next(one for one in launched["plain"] if one.limited_by is None)
    assert (wide.bits, len(wide.lines)) == (128, 1)


def test_a_hidden_one_of_another_dimension_is_the_reason(
    launches: Sequence[KernelReport],
) -> None:
    """The tile is stored with the other dimension contiguous, as soon as Triton may know it."""
    store = next(one(kernel, "global_store") for kernel in launches if kernel.name == "columns")
    assert store.limited_by == "contiguity"
    assert (
        store.reason == "stride is 1 in this launch, which its annotation keeps Triton from noting"
    )
    assert store.fix.startswith("Drop its annotation")


def test_a_stride_of_a_launch_that_triton_would_have_noted_is_not_one(
    launched: dict[str, list[Access]],
) -> None:
    (load,) = [one for one in launched["plain"] if one.limited_by == "contiguity"]
    assert load.reason == (
        "neighbouring elements along dim 0 lie stride apart, and stride is 3 in this launch"
    )
    assert "constexpr" not in load.fix


def test_a_stride_of_nought_is_that_of_an_expanded_tensor(
    launched: dict[str, list[Access]],
) -> None:
    """The gradient of a sum is one: what a test's `.sum().backward()` passes says little."""
    (load,) = [one for one in launched["plain"] if one.limited_by == "broadcast"]
    assert "stride is 0 in this launch, of a tensor that is expanded" in load.reason


def test_an_alignment_that_triton_would_have_noted_is_not_there(
    launched: dict[str, list[Access]],
) -> None:
    narrow, wide = sorted(launched["rows"], key=lambda load: load.bits or 0)
    assert narrow.reason.startswith("pitch is not a multiple of 16 in this launch (2056), so not")
    assert "if it always is a multiple of 8, compute with pitch // 8 * 8" in narrow.fix
    assert (wide.bits, wide.limited_by) == (128, None)
    (bounded,) = launched["bounded_rows"]  # 2052: what is padded would be let through
    assert (bounded.bits, bounded.widest) == (16, 64)
    assert bounded.fix == "If it always is a multiple of 4, compute with pitch // 4 * 4."
    for kernel, hidden in (
        ("forbidden_rows", "do_not_specialize"),
        ("forbidden_bound", "do_not_specialize_on_alignment"),
    ):
        (load,) = launched[kernel]
        assert f"which {hidden} keeps Triton from noting" in load.reason
        assert load.fix.startswith(f"Take it out of {hidden}")


def test_a_row_of_a_few_elements_is_no_size_to_pad() -> None:
    """Rows of 8 columns padded to 16: the loop of a kernel went from 320 to 514 instructions."""
    assert argument_indivisible("pitch", LaunchedArgument("", "", 8), 4).fix == ""
    assert argument_indivisible("pitch", LaunchedArgument("", "", 11), 4).fix


PAIRS = """
import triton, triton.language as tl

@triton.jit
def every_other(x, y, n, SHIFT: tl.constexpr, B: tl.constexpr):
    t = tl.program_id(0) * B + tl.arange(0, B)
    offset = (tl.program_id(1) * n + t) * 2
    tl.store(y + t, tl.load(x + offset + SHIFT))

@triton.jit
def both(x, y, n, SHIFT: tl.constexpr, B: tl.constexpr):
    at = (tl.program_id(1) * n + tl.program_id(0) * B) * 2 + tl.arange(0, 2 * B)
    one, other = tl.split(tl.reshape(tl.load(x + at + SHIFT // 2 * 2), (B, 2)))
    tl.store(y + tl.program_id(0) * B + tl.arange(0, B), one + other)

KINSPECT_CASES = [
    {"name": f"{kernel}{shift}", "kernel": kernel, "constexprs": {"SHIFT": shift, "B": 1024},
     "signature": {"x": "*fp32:16", "y": "*fp32:16", "n": "i32:16"}}
    for kernel in ("every_other", "both") for shift in (0, 1, 2, 4, -1)
]
"""


def test_the_width_of_pairs_is_what_loading_both_gives(tmp_path: Path) -> None:
    """`x + offset - 2` is 8 bytes off 16: 128 bits were promised, and 64 came."""
    (tmp_path / "pairs.py").write_text(PAIRS)
    found = collect(Request((str(tmp_path / "pairs.py"),), ("gfx942",), passes=False, jobs=2))
    loads = {
        kernel.variant.case: next(a for a in kernel.accesses if a.cls == "global_load")
        for kernel in found.kernels
        if kernel.variant is not None
    }
    for shift, width in ((0, 128), (1, 128), (2, 64), (4, 128), (-1, 64)):
        assert (loads[f"every_other{shift}"].bits, loads[f"every_other{shift}"].widest) == (
            32,
            width,
        )
        assert loads[f"both{shift}"].bits == width


BLOCKED = (
    "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [8, 8], warpsPerCTA = [4, 1],"
    " order = [1, 0]}>"
)
UNKNOWN_MASK = f"""
#b = {BLOCKED}
#c = #ttg.slice<{{dim = 0, parent = #b}}>
#r = #ttg.slice<{{dim = 1, parent = #b}}>
module attributes {{"ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32}} {{
  tt.func public @f(%x: !tt.ptr<f16>, %pitch: i32, %mask: tensor<256x64xi1, #b>) {{
    %c0 = tt.make_range {{end = 64 : i32, start = 0 : i32}} : tensor<64xi32, #c>
    %c1 = tt.expand_dims %c0 {{axis = 0 : i32}} : tensor<64xi32, #c> -> tensor<1x64xi32, #b>
    %by = tt.splat %pitch : i32 -> tensor<1x64xi32, #b>
    %c2 = arith.muli %c1, %by : tensor<1x64xi32, #b>
    %c3 = tt.broadcast %c2 : tensor<1x64xi32, #b> -> tensor<256x64xi32, #b>
    %r0 = tt.make_range {{end = 256 : i32, start = 0 : i32}} : tensor<256xi32, #r>
    %r1 = tt.expand_dims %r0 {{axis = 1 : i32}} : tensor<256xi32, #r> -> tensor<256x1xi32, #b>
    %many = arith.constant dense<4096> : tensor<256x1xi32, #b>
    %r2 = arith.muli %r1, %many : tensor<256x1xi32, #b>
    %r3 = tt.broadcast %r2 : tensor<256x1xi32, #b> -> tensor<256x64xi32, #b>
    %at = arith.addi %c3, %r3 : tensor<256x64xi32, #b>
    %base = tt.splat %x : !tt.ptr<f16> -> tensor<256x64x!tt.ptr<f16>, #b>
    %p = tt.addptr %base, %at : tensor<256x64x!tt.ptr<f16>, #b>, tensor<256x64xi32, #b>
    %tile = tt.load %p, %mask : tensor<256x64x!tt.ptr<f16>, #b>
    tt.return
  }}
}}
"""


def test_of_a_mask_nothing_may_be_known() -> None:
    """aotriton's backward kernel had one whose facts were never reached."""
    (graph,) = functions(parse_ttgir(UNKNOWN_MASK, "test"))
    (tile,) = filter(None, map(tile_of, graph.ops))
    axes = analyze(graph, [name for name in needed_values([tile]) if name != "%mask"])
    limits = limits_of(tile, axes, Layouts())
    assert limits is not None
    reason = explain_global(tile, limits, axes)
    assert reason is not None
    assert reason.text.startswith("pitch is not known to be 1")
    assert "the mask allows no more" in reason.text


@pytest.mark.parametrize(
    ("arch", "name", "advice", "rules"),
    [
        ("gfx942", "product", {"whole": None, "kpack": None}, set()),
        ("gfx942", "product_of_words", {"whole": None, "kpack": 2}, set()),
        ("gfx950", "product_of_words", {"whole": 32, "kpack": None}, {"KI043"}),
        (
            "gfx1100",
            "product_of_words",
            {"whole": None, "kpack": None},
            {"KI019", "KI043"},
        ),
    ],
)
def test_conflicts_get_the_advice_that_their_target_has(
    run: Report,
    products: dict[tuple[str, str], KernelReport],
    arch: str,
    name: str,
    advice: dict[str, int | None],
    rules: set[str],
) -> None:
    """Words lie as badly in any order, gfx950 takes no kpack; on the vector unit they lie better
    with K apart.
    """
    kernel = case(run, name) if arch == "gfx942" else products[arch, name]
    (loop,) = kernel.loops
    value = loop.metrics["lds.conflicts"].value
    assert isinstance(value, dict)
    assert value["accesses"]
    assert {field: value[field] for field in advice} == advice
    assert {finding.rule for finding in kernel.findings} & {"KI019", "KI043"} == rules
    for finding in kernel.findings:
        assert "kpack" not in finding.fix
        assert "twice as much of K" not in finding.fix
        is_across = finding.rule == "KI043" and arch == "gfx1100"
        assert ("Transpose the storage" in finding.fix) == is_across
