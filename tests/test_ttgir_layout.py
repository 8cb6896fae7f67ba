"""Layout algebra against Triton's own: every conversion is compared on random layouts and shapes.

Two independent sources: Triton's `to_linear_layout`, and the type that MLIR's verifier says a
transpose should have had (which also covers layouts that the former does not, and Triton 3.4,
recorded in `layouts-3.4.json`). Counts of matrix instructions are compared with compiled ISA.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.model import Layout
from kinspect.inspector.ttgir.layouts import (
    contig_per_thread,
    elements_per_thread,
    to_linear,
    type_to_linear,
)
from kinspect.inspector.ttgir.linear import LinearLayout, rank, solve
from kinspect.inspector.ttgir.parser import parse_ttgir
from kinspect.inspector.ttgir.redundant_work import copies, dot_work
from kinspect.inspector.ttgir.shared_buffers import shared_offset

DATA = Path(__file__).parent / "data" / "ttgir"
CASES = 80

Case = tuple[str, list[int], int, int]
"""A layout's text, the tensor's shape, waves per workgroup, lanes per wave."""


def layout_of(text: str) -> Layout:
    module = parse_ttgir(f"module {{\n%0 = test.op : tensor<2xf16, {text}>\n}}", text)
    layout = module.ops[0].result_types[0].layout
    assert layout is not None
    return layout


# ------------------------------------------------------------------ Triton as the oracle


@cache
def mlir_context() -> Any:
    pytest.importorskip("triton", minversion="3.9")
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    context = ir.context()
    ir.load_dialects(context)
    make_backend(GPUTarget("hip", "gfx950", 64)).load_dialects(context)
    return context


def module_of(body: str, argument: str, warps: int, lanes: int, workgroups: int = 1) -> str:
    return (
        f'module attributes {{"ttg.num-ctas" = {workgroups} : i32, '
        f'"ttg.num-warps" = {warps} : i32, '
        f'"ttg.threads-per-warp" = {lanes} : i32}} {{\ntt.func @f(%x: {argument}) {{\n'
        f"{body}\ntt.return\n}}\n}}\n"
    )


def triton_linear(case: Case, folder: Path) -> tuple[Any, ...] | None:
    """Register, lane, warp and block bases by Triton; None where it rejects the layout."""
    from triton._C.libtriton import gluon_ir, ir

    text, shape, warps, lanes = case
    of = f"tensor<{'x'.join(map(str, shape))}xf16, {text}>"
    path = folder / "m.mlir"
    path.write_text(
        module_of(
            f'%v = "ub.poison"() <{{value = #ub.poison}}> : () -> {of}',
            *("i32", warps, lanes, workgroups_of(text)),
        )
    )
    try:
        module = ir.parse_mlir_module(str(path), mlir_context())
    except RuntimeError:
        return None
    values: list[Any] = []
    module.walk(lambda op: values.append(op.get_result(0)) if op.get_num_results() else None)
    builder = gluon_ir.GluonOpBuilder(mlir_context())
    attribute = builder.get_gluon_layout_from_tensor(values[0])._to_ir(builder)
    linear = builder.to_linear_layout(attribute, shape)
    bases = (linear.reg_bases, linear.lane_bases, linear.warp_bases, linear.block_bases)
    return tuple(tuple(map(tuple, part)) for part in bases)


def workgroups_of(text: str) -> int:
    """Of the cluster that a layout's text speaks of."""
    cluster = re.search(r"CGALayout = (\[\[[^a-z]*\]\])", text)
    return 1 << len(json.loads(cluster[1])) if cluster else 1


def inferred_transpose(of: str, wrong: str, op: str, folder: Path, capfd: Any) -> str | None:
    """The type that MLIR says the transpose of a value has, from its complaint about `wrong`."""
    from triton._C.libtriton import ir

    path = folder / "t.mlir"
    body = f'%r = "{op}"(%x) <{{order = array<i32: 1, 0>}}> : ({of}) -> {wrong}'
    path.write_text(module_of(body, of, 4, 64))
    capfd.readouterr()
    with pytest.raises(RuntimeError):
        ir.parse_mlir_module(str(path), mlir_context())
    match = re.search(r"inferred type\(s\) '(.*?)' are", capfd.readouterr().err)
    return match[1] if match else None


# ------------------------------------------------------------------ random layouts


class Draw:
    """Random layouts in MLIR's spelling."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def power(self, low: int, high: int) -> int:
        return 1 << self.random.randint(low, high)

    def pick(self, *values: Any) -> Any:
        return self.random.choice(values)

    def split(self, total: int, dims: int) -> list[int]:
        sizes = [1] * dims
        while total > 1:
            sizes[self.random.randrange(dims)] *= 2
            total //= 2
        return sizes

    def shape(self, dims: int) -> list[int]:
        return [self.power(0, 8 if dims < 3 else 5) for _ in range(dims)]

    def cluster(self, dims: int) -> str:
        """How 2 or 4 workgroups share a tensor, or the same part of it; mostly there is one."""
        bases, reached = [], [0] * dims
        for _ in range(self.pick(0, 0, 0, 1, 2)):
            dim = self.random.randrange(dims + 1)
            bases.append([1 << reached[dim] if d == dim else 0 for d in range(dims)])
            if dim < dims:
                reached[dim] += 1
        return f", CGALayout = {bases}" if bases else ""

    def blocked(self, dims: int, warps: int, lanes: int) -> str:
        order = self.random.sample(range(dims), dims)
        return (
            f"#ttg.blocked<{{sizePerThread = {self.split(self.power(0, 4), dims)}, "
            f"threadsPerWarp = {self.split(lanes, dims)}, "
            f"warpsPerCTA = {self.split(warps, dims)}, order = {order}{self.cluster(dims)}}}>"
        )

    def mfma(self, dims: int, warps: int) -> str:
        m, n, k = self.pick(
            (32, 32, 8),
            (32, 32, 64),
            (16, 16, 16),
            (16, 16, 128),
            (16, 16, 4),
            (64, 4, 4),
            (4, 64, 4),
        )
        transposed = "true" if m == 64 else self.pick("true", "false")
        extra = self.pick("", "", ", elementBitWidth = 64")
        if self.random.random() < 0.4:
            tiles = [1] * (dims - 2) + self.split(self.power(0, 2), 2)
            extra = f", tilesPerWarp = {tiles}{extra}"
        return (
            f"#ttg.amd_mfma<{{version = {self.pick(1, 2, 3, 4)}, "
            f"warpsPerCTA = {self.split(warps, dims)}, instrShape = [{m}, {n}, {k}], "
            f"isTransposed = {transposed}{extra}}}>"
        )

    def wmma(self, dims: int, warps: int) -> tuple[str, int]:
        version = self.pick(1, 2, 3)
        shapes = [(16, 16, 16)] if version < 3 else [(16, 16, 4), (16, 16, 32), (16, 16, 128)]
        if version == 3 and dims == 2:
            shapes.append((32, 16, 128))
        reached = [0] * dims
        bases = []
        registers = self.random.randint(0, 2)
        for _ in range(registers + warps.bit_length() - 1):
            dim = self.random.randrange(dims)
            bases.append([1 << reached[dim] if d == dim else 0 for d in range(dims)])
            reached[dim] += 1
        self.random.shuffle(bases)
        register = f"register = {bases[:registers]}, " if registers else ""
        rank = "" if dims == 2 else f", rank = {dims}"
        return (
            f"#ttg.amd_wmma<{{version = {version}, isTranspose = {self.pick('true', 'false')}, "
            f"ctaLayout = {{{register}warp = {bases[registers:]}}}, "
            f"instrShape = {list(self.pick(*shapes))}{rank}{self.cluster(dims)}}}>"
        ), version


def blocked(draw: Draw) -> Case:
    dims, warps, lanes = draw.pick(1, 2, 2, 3), draw.power(0, 3), draw.pick(32, 64)
    return draw.blocked(dims, warps, lanes), draw.shape(dims), warps, lanes


def slice_of_blocked(draw: Draw) -> Case:
    dims, warps, lanes = draw.pick(2, 3), draw.power(0, 3), draw.pick(32, 64)
    parent = draw.blocked(dims, warps, lanes)
    dim = draw.random.randrange(dims)
    return f"#ttg.slice<{{dim = {dim}, parent = {parent}}}>", draw.shape(dims - 1), warps, lanes


def blocked_operand(draw: Draw) -> Case:
    dims, warps, lanes = draw.pick(2, 2, 3), draw.power(0, 3), draw.pick(32, 64)
    parent = draw.blocked(dims, warps, lanes)
    text = f"#ttg.dot_op<{{opIdx = {draw.pick(0, 1)}, parent = {parent}}}>"
    return text, draw.shape(dims), warps, lanes


def linear(draw: Draw) -> Case:
    dims, warps = draw.pick(2, 3), draw.power(0, 3)
    shape = draw.shape(dims)
    own = to_linear(layout_of(draw.blocked(dims, warps, 64)), shape)
    assert own is not None
    text = ", ".join(
        f"{name} = {[list(basis) for basis in getattr(own, name)]}"
        for name in ("register", "lane", "warp", "block")
    )
    other = draw.pick(shape, draw.shape(dims))
    return f"#ttg.linear<{{{text}}}>", other, warps, 64


def mfma(draw: Draw) -> Case:
    dims, warps = draw.pick(2, 2, 3), draw.power(0, 3)
    return draw.mfma(dims, warps), draw.shape(dims), warps, 64


def slice_of_mfma(draw: Draw) -> Case:
    text, shape, warps, lanes = mfma(draw)
    dim = draw.random.randrange(len(shape))
    return f"#ttg.slice<{{dim = {dim}, parent = {text}}}>", shape[1:], warps, lanes


def mfma_operand(draw: Draw) -> Case:
    text, shape, warps, lanes = mfma(draw)
    width = draw.power(1, 5)
    operand = f"#ttg.dot_op<{{opIdx = {draw.pick(0, 1)}, parent = {text}, kWidth = {width}}}>"
    return operand, shape, warps, lanes


def wmma(draw: Draw) -> Case:
    dims, warps = draw.pick(2, 2, 3), draw.power(0, 3)
    return draw.wmma(dims, warps)[0], draw.shape(dims), warps, 32


def slice_of_wmma(draw: Draw) -> Case:
    text, shape, warps, lanes = wmma(draw)
    dim = draw.random.randrange(len(shape))
    return f"#ttg.slice<{{dim = {dim}, parent = {text}}}>", shape[1:], warps, lanes


def wmma_operand(draw: Draw) -> Case:
    dims, warps = draw.pick(2, 2, 3), draw.power(0, 3)
    parent, version = draw.wmma(dims, warps)
    width = draw.pick(*{1: (8, 16), 2: (4, 8, 16), 3: (2, 8, 16)}[version])
    text = f"#ttg.dot_op<{{opIdx = {draw.pick(0, 1)}, parent = {parent}, kWidth = {width}}}>"
    return text, draw.shape(dims), warps, 32


@pytest.mark.parametrize(
    "make",
    [
        blocked,
        slice_of_blocked,
        blocked_operand,
        linear,
        mfma,
        slice_of_mfma,
        mfma_operand,
        wmma,
        slice_of_wmma,
        wmma_operand,
    ],
    ids=lambda make: make.__name__,
)
def test_linear_layout_equals_tritons(make: Callable[[Draw], Case], tmp_path: Path) -> None:
    mlir_context()
    draw = Draw(20)
    compared = 0
    for _ in range(CASES):
        case = make(draw)
        expected = triton_linear(case, tmp_path)
        if expected is None:
            continue
        ours = to_linear(layout_of(case[0]), case[1])
        assert ours is not None, case
        assert (ours.register, ours.lane, ours.warp, ours.block) == expected, case
        compared += 1
    assert compared > CASES * 0.7


@pytest.mark.parametrize(
    "row", json.loads((DATA / "layouts-3.4.json").read_text()), ids=lambda row: str(row["shape"])
)
def test_matrix_layouts_of_triton_3_4(row: dict[str, Any]) -> None:
    module = parse_ttgir(f"module {{\n%0 = test.op : {row['transposed']}\n}}", "recorded")
    expected = type_to_linear(module.ops[0].result_types[0])
    ours = to_linear(layout_of(row["layout"]), row["shape"])
    assert ours is not None
    assert expected is not None

    def flip(bases: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(reversed(basis)) for basis in bases)

    assert flip(ours.lane) == expected.lane
    assert flip(ours.warp) == expected.warp
    assert [b for b in flip(ours.register) if any(b)] == [b for b in expected.register if any(b)]


# ------------------------------------------------------------------ shared memory


def swizzled(draw: Draw) -> tuple[str, list[int]]:
    dims = draw.pick(1, 2, 2, 3)
    text, shape = phased(draw, "swizzled_shared", dims)
    return text.replace("}>", f"{draw.cluster(dims)}}}>"), shape


def phased(draw: Draw, kind: str, dims: int) -> tuple[str, list[int]]:
    order = draw.random.sample(range(dims), dims)
    shape = [draw.power(2, 6 if dims < 3 else 4) for _ in range(dims)]
    vec, per_phase, max_phase = draw.power(0, 3), draw.power(0, 2), draw.power(0, 4)
    return (
        f"#ttg.{kind}<{{vec = {vec}, perPhase = {per_phase}, maxPhase = {max_phase}, "
        f"order = {order}}}>"
    ), shape


def offset_bases(draw: Draw, *, swizzles: bool) -> tuple[list[list[int]], list[int]]:
    """Offsets whose bits step along the dimensions in a random order, some with two at once."""
    dims = draw.pick(1, 2, 2, 3)
    shape = [draw.power(2, 6 if dims < 3 else 4) for _ in range(dims)]
    steps = [
        [1 << bit if d == dim else 0 for d in range(dims)]
        for dim in range(dims)
        for bit in range(shape[dim].bit_length() - 1)
    ]
    draw.random.shuffle(steps)
    for i, step in enumerate(steps[1:], 1):
        if (
            swizzles and draw.random.random() < 0.3
        ):  # a swizzle: steps along what lower bits step along, too
            steps[i] = [a ^ b for a, b in zip(step, draw.pick(*steps[:i]), strict=True)]
    return steps, shape


def shared_linear(draw: Draw) -> tuple[str, list[int]]:
    bases, shape = offset_bases(draw, swizzles=True)
    if draw.pick(True, False):
        return f"#ttg.shared_linear<{{offset = {bases}}}, alignment = 16>", shape
    last = f"{{offset = {bases[:-1]}, block = {bases[-1:]}}}"
    return f"#ttg.shared_linear<{last}, alignment = 16>", shape


def padded(draw: Draw) -> tuple[str, list[int]]:
    gaps = f"[{draw.power(3, 4)}:+{draw.power(0, 3)}, {draw.power(5, 7)}:+{draw.power(0, 4)}]"
    if draw.pick(True, False):
        bases, shape = offset_bases(draw, swizzles=False)
        return f"#ttg.padded_shared<{gaps} {{offset = {bases}, block = []}}>", shape
    dims = draw.pick(1, 2, 3)
    shape, order = [draw.power(2, 5) for _ in range(dims)], draw.random.sample(range(dims), dims)
    return f"#ttg.padded_shared<{gaps} {{order = {order}, shape = {shape}}}>", shape


@pytest.mark.parametrize("make", [swizzled, shared_linear, padded], ids=lambda make: make.__name__)
def test_shared_offsets_equal_tritons(
    make: Callable[[Draw], tuple[str, list[int]]], tmp_path: Path
) -> None:
    """Element by element; of padded layouts Triton gives the offsets without padding."""
    mlir_context()
    draw = Draw(4)
    compared = 0
    for _ in range(CASES // 2):
        text, shape = make(draw)
        dims = "x".join(map(str, shape))
        expected = triton_shared(
            f"!ttg.memdesc<{dims}xf16, {text}, #ttg.shared_memory, mutable>", shape, tmp_path
        )
        if expected is None:
            continue
        offsets, blocks = (spanned(bases, len(shape)) for bases in expected)
        ours = layout_of(text)
        for offset, inner in enumerate(offsets):
            gaps = sum(
                offset // interval * gap for interval, gap in ours.params.get("intervals", ())
            )
            for block in blocks:
                where = tuple(int(at) for at in inner ^ block)
                assert shared_offset(ours, shape, where) == offset + gaps, (text, shape, where)
        compared += 1
    assert compared > CASES // 2 * 0.7


def test_rotating_offsets_equal_tritons(tmp_path: Path, capfd: Any) -> None:
    """Triton's Python side cannot name a rotating layout; its verifier of transposes does."""
    mlir_context()
    draw = Draw(4)
    for _ in range(CASES // 4):
        text, shape = phased(draw, "amd_rotating_shared", 2)
        rows, columns = shape
        of, wrong = (
            f"!ttg.memdesc<{dims}xf16, {text}, #ttg.shared_memory, mutable>"
            for dims in (f"{rows}x{columns}", f"{columns}x{rows}")
        )
        inferred = inferred_transpose(of, wrong, "ttg.memdesc_trans", tmp_path, capfd)
        assert inferred is not None, text
        (op,) = parse_ttgir(f"module {{\n%0 = test.op : {inferred}\n}}", "inferred").ops
        layout = op.result_types[0].layout
        assert layout is not None
        assert layout.kind == "shared_linear"
        ours = layout_of(text)
        for offset, (column, row) in enumerate(spanned(layout.params["offset"], 2)):
            assert shared_offset(ours, shape, (int(row), int(column))) == offset, (text, shape)


def triton_shared(of: str, shape: list[int], folder: Path) -> tuple[Any, Any] | None:
    """Offset and block bases by Triton; None where it rejects the layout."""
    from triton._C.libtriton import gluon_ir, ir

    path = folder / "s.mlir"
    workgroups = workgroups_of(of)
    if re.search(r"block = \[\[", of):
        workgroups = 2
    path.write_text(module_of(f'%v = "ttg.local_alloc"() : () -> {of}', "i32", 4, 64, workgroups))
    try:
        module = ir.parse_mlir_module(str(path), mlir_context())
    except RuntimeError:
        return None
    values: list[Any] = []
    module.walk(lambda op: values.append(op.get_result(0)) if op.get_num_results() else None)
    builder = gluon_ir.GluonOpBuilder(mlir_context())
    layout = builder.get_gluon_layout_from_memdesc(values[0])
    if hasattr(layout, "interval_padding_pairs"):
        return layout.offset_bases, layout.cga_layout
    linear = builder.to_linear_layout(layout._to_ir(builder), shape)
    return linear.offset_bases, linear.block_bases


def test_padding_is_inserted_per_interval() -> None:
    layout = layout_of(
        "#ttg.padded_shared<[64:+8, 256:+16] {offset = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16], "
        "[0, 32], [4, 0], [1, 0], [2, 0]], block = []}>"
    )
    # Rows stand in the order 0, 4, 1, 5, 2, 6, 3, 7 of 64 elements; 8 more after every row, and
    # 16 more after every fourth.
    for place, row in enumerate((0, 4, 1, 5, 2, 6, 3, 7)):
        gaps = place * 8 + place // 4 * 16
        assert shared_offset(layout, (8, 64), (row, 3)) == place * 64 + 3 + gaps
    older = layout_of("#ttg.padded_shared<[64:+4] {order = [1, 0], shape = [8, 64]}>")
    assert shared_offset(older, (2, 8, 64), (5, 1)) == 5 * 64 + 1 + 5 * 4


def test_offsets_that_cannot_be_known_are_none() -> None:
    swizzled = layout_of(
        "#ttg.swizzled_shared<{vec = 4, perPhase = 1, maxPhase = 8, order = [1, 0]}>"
    )
    assert shared_offset(swizzled, (16, 64), (16, 0)) is None
    assert shared_offset(swizzled, (16,), (1, 1)) is None
    assert shared_offset(None, (16, 64), (0, 0)) is None
    assert (
        shared_offset(layout_of("#ttg.nvmma_shared<{swizzlingByteWidth = 128}>"), (8, 8), (0, 0))
        is None
    )
    assert shared_offset(layout_of("#ttg.swizzled_shared<{vec = 4}>"), (8, 8), (0, 0)) is None


# ------------------------------------------------------------------ properties and figures


@given(st.integers(0, 10_000))
def test_a_layout_covers_its_tensor_evenly(seed: int) -> None:
    draw = Draw(seed)
    text, shape, warps, lanes = draw.pick(blocked, mfma, wmma)(draw)
    layout = to_linear(layout_of(text), shape)
    assert layout is not None
    assert (1 << len(layout.lane), 1 << len(layout.warp)) == (lanes, warps)
    # Linear: the bases span the tensor, so that every element has equally many holders.
    size = 1
    for extent in shape:
        size *= extent
    assert 1 << rank((*layout.register, *layout.lane, *layout.warp, *layout.block)) == size
    run = contig_per_thread(layout_of(text), shape)
    assert run is not None
    assert layout.distinct_elements_per_thread % run == 0


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=6), st.integers(0, 63))
def test_solve_inverts_the_sum_of_bases(bases: list[tuple[int, int]], index: int) -> None:
    index &= (1 << len(bases)) - 1
    layout = LinearLayout((8, 8), tuple(bases), (), ())
    target = layout.apply(index, 0, 0)
    found = solve(target, bases)
    assert found is not None
    assert layout.apply(found, 0, 0) == target


def test_figures_of_known_layouts() -> None:
    row_major = layout_of(
        "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 16], warpsPerCTA = [4, 1], "
        "order = [1, 0]}>"
    )
    assert contig_per_thread(row_major, (128, 64)) == 8
    assert contig_per_thread(row_major, (128, 64), dim=0) == 1
    assert elements_per_thread(row_major, (128, 64)) == 64
    assert contig_per_thread(row_major, (128, 4)) == 4
    # Wide enough for the whole row: registers step on where the lanes leave off.
    one_row = layout_of(
        "#ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [64, 1], warpsPerCTA = [4, 1], "
        "order = [1, 0]}>"
    )
    assert contig_per_thread(one_row, (256, 32)) == 32
    accumulator = layout_of(
        "#ttg.amd_mfma<{version = 3, warpsPerCTA = [2, 2], instrShape = [32, 32, 8], "
        "isTransposed = true}>"
    )
    assert contig_per_thread(accumulator, (128, 128)) == 4
    assert elements_per_thread(accumulator, (128, 128)) == 64


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (
            "#ttg.nvidia_mma<{versionMajor = 2, warpsPerCTA = [4, 1], instrShape = [16, 8]}>",
            (64, 64),
        ),
        ("#ttg.blocked<{sizePerThread = [1, 8]}>", (64, 64)),
        (
            "#ttg.blocked<{sizePerThread = [3], threadsPerWarp = [64], warpsPerCTA = [4], "
            "order = [0]}>",
            (64,),
        ),
        (
            "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], "
            "order = [0], CTAsPerCGA = [2], CTASplitNum = [2], CTAOrder = [0]}>",
            (64,),
        ),
        (  # no target has both MFMA and clusters
            "#ttg.amd_mfma<{version = 4, warpsPerCTA = [1, 4], instrShape = [16, 16, 32], "
            "isTransposed = true, CGALayout = [[0, 1]]}>",
            (64, 64),
        ),
        ("#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 4], instrShape = [8, 8, 8]}>", (64, 64)),
        ("#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>", (64, 64)),
        ("#ttg.amd_wmma<{version = 9, ctaLayout = {warp = []}}>", (64, 64)),
        ("#ttg.amd_wmma<{version = 2, ctaLayout = 5}>", (64, 64)),
        ("#ttg.slice<{dim = 7, parent = #ttg.blocked<{order = [0]}>}>", (64,)),
    ],
)
def test_layouts_that_are_not_known_are_none(text: str, shape: tuple[int, ...]) -> None:
    assert to_linear(layout_of(text), shape) is None
    assert elements_per_thread(layout_of(text), shape) is None


def test_shapes_that_are_not_powers_of_two_are_none() -> None:
    layout = layout_of(
        "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>"
    )
    assert to_linear(layout, (96,)) is None
    assert to_linear(None, (64,)) is None


@pytest.mark.parametrize(
    "make",
    [
        blocked, slice_of_blocked, blocked_operand, linear, mfma, slice_of_mfma, mfma_operand,
        wmma, slice_of_wmma, wmma_operand,
    ],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_copies_are_the_holders_of_an_element(make: Callable[[Draw], Case], tmp_path: Path) -> None:
    """Every register of every lane of every wave by Triton's own layout: who holds element 0."""
    mlir_context()
    draw = Draw(7)
    compared = 0
    while compared < CASES // 3:
        case = make(draw)
        expected = triton_linear(case, tmp_path)
        if expected is None:
            continue
        text, shape, _, _ = case
        of = f"tensor<{'x'.join(map(str, shape))}xf16, {text}>"
        ours = copies(parse_ttgir(f"module {{\n%0 = test.op : {of}\n}}", of).ops[0].result_types[0])
        assert ours is not None
        register, lane, wave = (spanned(bases, len(shape)) for bases in expected[:3])
        points = register[:, None, None] ^ lane[None, :, None] ^ wave[None, None, :]
        _, lanes, waves = holders = np.nonzero((points == 0).all(-1))
        assert ours.times == len(holders[0]), case
        assert ours.waves == len(set(waves)), case
        assert ours.lanes == len(set(lanes[waves == 0])), case
        compared += 1


def spanned(bases: Sequence[Sequence[int]], dims: int) -> np.ndarray[Any, Any]:
    """The coordinates of each index, [index, dimension]."""
    points = np.zeros((1, dims), np.int64)
    for basis in bases:
        points = np.concatenate([points, points ^ np.array(basis)])
    return points


@pytest.mark.parametrize("make", [mfma, wmma], ids=lambda make: make.__name__)
def test_repeated_products_are_the_holders_of_the_result(
    make: Callable[[Draw], Case], tmp_path: Path
) -> None:
    """Where K fills an instruction: a dot's multiply-accumulates over those that it needs."""
    mlir_context()
    draw = Draw(11)
    compared = set()
    while len(compared) < CASES // 2:
        case = make(draw)
        expected = triton_linear(case, tmp_path)
        if expected is None or len(case[1]) != 2:
            continue
        text, (m, n), _, _ = case
        a, b, c = (
            f"tensor<{shape}, {layout}>"
            for shape, layout in (
                (f"{m}x512xf16", f"#ttg.dot_op<{{opIdx = 0, parent = {text}, kWidth = 8}}>"),
                (f"512x{n}xf16", f"#ttg.dot_op<{{opIdx = 1, parent = {text}, kWidth = 8}}>"),
                (f"{m}x{n}xf32", text),
            )
        )
        body = f"%0 = tt.dot %x, %y, %z : {a} * {b} -> {c}"
        module = parse_ttgir(module_of(body, f"{a}, %y: {b}, %z: {c}", case[2], case[3]), text)
        work = dot_work(module.ops[1])
        assert work is not None, case
        registers, lanes, waves, workgroups = (
            1 << rank(bases) if i == 3 else 1 << len(bases) for i, bases in enumerate(expected)
        )
        assert work.redundancy == registers * lanes * waves * workgroups / (m * n), case
        compared.add((text, m, n, work.redundancy))
    assert len({redundancy for *_, redundancy in compared}) > 4
