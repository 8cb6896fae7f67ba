"""Matrix instructions of the emulator: layouts by their published formulas, values by numpy.

Where element (row, k) lies is written down here element by element; the expected product is
numpy's, of small numbers whose sums are exact in every format.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from kinspect.inspector.emulator import numbers
from kinspect.inspector.emulator.matrix_products import MatrixProduct
from kinspect.inspector.emulator.program import PreparedCode, prepare
from kinspect.inspector.emulator.registry import NotCoveredError
from kinspect.inspector.emulator.waves import WaveIds, Waves
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.execution_target import ExecutionTarget
from kinspect.inspector.isa.dataflow.operands import EXEC, vector_bits

Array = np.ndarray[Any, Any]
Place = Callable[[int, int], tuple[int, int]]
"""(row or column, k) -> (lane, number of the element in that lane)."""

A, B, INDEX, SCALE_A, SCALE_B = 32, 64, 100, 101, 102
"""First registers of the operands; C and D begin at 0."""
BITS = {
    "f32": 32, "xf32": 32, "f16": 16, "bf16": 16, "i8": 8, "u8": 8, "i4": 4, "u4": 4,
    "fp8": 8, "bf8": 8, "fp6": 6, "bf6": 6, "fp4": 4,
}  # fmt: skip


def encoded(kind: str, values: Array, arch: str) -> Array:
    """Bits of numbers that the format has."""
    if kind in ("f32", "xf32"):
        return values.astype(np.float32).view(np.uint32)
    if kind == "f16":
        return values.astype(np.float16).view(np.uint16).astype(np.uint32)
    if kind == "bf16":
        return values.astype(np.float32).view(np.uint32) >> 16
    if kind[0] in "iu":
        integers: Array = values.astype(np.int64) & ((1 << BITS[kind]) - 1)
        return integers
    table = numbers.SMALL[f"{kind}_fnuz" if arch == "gfx942" and BITS[kind] == 8 else kind]
    bits = [np.flatnonzero(table == np.float32(x))[0] for x in values.ravel()]
    small: Array = np.array(bits).reshape(values.shape)
    return small


def some(kind: str, shape: tuple[int, ...], seed: int) -> Array:
    """Small numbers that the kind has."""
    rng = np.random.default_rng(seed)
    if kind[0] in "iu":
        half = 1 << (BITS[kind] - 1)
        low = -half if kind[0] == "i" else 0
        return rng.integers(low, low + 2 * half, shape)
    return rng.integers(-2, 3, shape).astype(np.float64)


def laid(matrix: Array, kind: str, place: Place, lanes: int, arch: str) -> Array:
    """The registers [register, lane] that hold a matrix [row, k]."""
    width = BITS[kind]
    bits = encoded(kind, matrix, arch)
    where = {(i, k): place(i, k) for i in range(len(matrix)) for k in range(matrix.shape[1])}
    words = np.zeros(((max(e for _, e in where.values()) + 1) * width // 32, lanes), np.uint64)
    for (i, k), (lane, element) in where.items():
        register, shift = divmod(element * width, 32)
        words[register, lane] |= np.uint64(int(bits[i, k]) << shift & 0xFFFFFFFF)
        if shift + width > 32:
            words[register + 1, lane] |= np.uint64(int(bits[i, k]) >> (32 - shift))
    return words.astype(np.uint32)


def together(parts: Iterable[Array]) -> Array:
    """Registers that hold what each part puts there, one beside the other."""
    whole: Array = np.bitwise_or.reduce(list(parts))
    return whole


def operand(first: int, count: int) -> str:
    return f"v{first}" if count == 1 else f"v[{first}:{first + count - 1}]"


MAXIMA = {"vmcnt": 63, "lgkmcnt": 15, "loadcnt": 63, "storecnt": 63, "dscnt": 63, "kmcnt": 31}


def code_of(arch: str, lines: list[str], lanes: int | None = None) -> PreparedCode:
    """The steps of some lines of assembly; the lanes are those of the target if not told."""
    body = "".join(f"\t{line}\n" for line in lines)
    text = (
        f'.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.text\n.globl f\n.type f,@function\nf:\n'
        f"{body}\ts_endpgm\n.Lend:\n.size f, .Lend-f\n"
    )
    (function,) = parse_text(text, "f.s").functions
    generation = int(arch[3:-2])
    target = ExecutionTarget(arch, generation, lanes or (64 if generation == 9 else 32))
    return prepare(function, target, MAXIMA)


def run(
    arch: str,
    lines: list[str],
    rows: dict[int, Array],
    *,
    lanes: int | None = None,
    active: int | None = None,
    count: int = 1,
) -> Waves:
    """`count` waves after some lines; `rows`: register -> [lane] before; `active`: EXEC."""
    code = code_of(arch, lines, lanes)
    each = np.arange(count)
    waves = Waves.new(128, code.target.lanes, WaveIds(each, each, each), None)
    for row, words in rows.items():
        waves.u32[row] = words.view(np.uint32) if words.dtype == np.float32 else words
    if active is not None:
        waves.scalar[EXEC : EXEC + code.target.lanes // 32] = active
        waves.exec_changed()
    with np.errstate(all="ignore"):
        for _, step, _ in code.blocks[0].steps:
            step(waves)
    return waves


def executed(
    arch: str, line: str, registers: dict[int, Array], *, lanes: int | None = None
) -> Waves:
    """One wave after an instruction; `registers`: the first of some -> [register, lane]."""
    return run(arch, [line], _rows(registers), lanes=lanes)


def _rows(registers: dict[int, Array]) -> dict[int, Array]:
    return {first + n: words[n] for first, words in registers.items() for n in range(len(words))}


# ---------------------------------------------------------------------- CDNA


def cdna(rows: int, blocks: int, held: int, block: int = 0) -> Place:
    """AMD's calculator: lane = (k // held) * M * B + block * M + i, element k % held."""
    return lambda i, k: (k // held * rows * blocks + block * rows + i, k % held)


def cdna_result(rows: int, blocks: int) -> Iterator[tuple[int, int, int, int, int]]:
    """(block, row, column, register, lane) of every 32-bit result."""
    for lane in range(64):
        for register in range(rows * rows * blocks // 64):
            if rows == 4:
                yield lane // 4, register, lane % 4, register, lane
            elif rows == 16:
                row = 4 * (lane // 16) + register % 4
                yield register // 4, row, lane % 16, register, lane
            else:
                row = 8 * (register % 16 // 4) + 4 * (lane // 32) + register % 4
                yield register // 16, row, lane % 32, register, lane


MFMA = [
    ("gfx90a", "v_mfma_f32_32x32x1f32", 32, 1, 2, "f32", 1),
    ("gfx90a", "v_mfma_f32_16x16x1f32", 16, 1, 4, "f32", 1),
    ("gfx90a", "v_mfma_f32_4x4x1f32", 4, 1, 16, "f32", 1),
    ("gfx90a", "v_mfma_f32_32x32x2f32", 32, 2, 1, "f32", 1),
    ("gfx90a", "v_mfma_f32_16x16x4f16", 16, 4, 4, "f16", 2),
    ("gfx90a", "v_mfma_f32_32x32x8f16", 32, 8, 1, "f16", 2),
    ("gfx90a", "v_mfma_f32_32x32x2bf16", 32, 2, 2, "bf16", 1),
    ("gfx90a", "v_mfma_f32_16x16x8bf16", 16, 8, 1, "bf16", 1),
    ("gfx90a", "v_mfma_f32_16x16x16bf16_1k", 16, 16, 1, "bf16", 2),
    ("gfx90a", "v_mfma_f32_4x4x4bf16_1k", 4, 4, 16, "bf16", 2),
    ("gfx90a", "v_mfma_i32_32x32x4i8", 32, 4, 2, "i8", 1),
    ("gfx90a", "v_mfma_i32_16x16x16i8", 16, 16, 1, "i8", 1),
    ("gfx942", "v_mfma_f32_32x32x4_2b_bf16", 32, 4, 2, "bf16", 2),
    ("gfx942", "v_mfma_f32_4x4x4_16b_f16", 4, 4, 16, "f16", 2),
    ("gfx942", "v_mfma_f32_16x16x16_f16", 16, 16, 1, "f16", 2),
    ("gfx942", "v_mfma_f32_16x16x8_xf32", 16, 8, 1, "xf32", 2),
    ("gfx942", "v_mfma_f32_32x32x4_xf32", 32, 4, 1, "xf32", 2),
    ("gfx942", "v_mfma_i32_16x16x32_i8", 16, 32, 1, "i8", 2),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_bf8", 16, 32, 1, "fp8", 2),
    ("gfx942", "v_mfma_f32_32x32x16_bf8_fp8", 32, 16, 1, "bf8", 2),
    ("gfx950", "v_mfma_f32_16x16x32_fp8_fp8", 16, 32, 1, "fp8", 2),
    ("gfx950", "v_mfma_f32_16x16x32_f16", 16, 32, 1, "f16", 4),
    ("gfx950", "v_mfma_f32_32x32x16_bf16", 32, 16, 1, "bf16", 4),
    ("gfx950", "v_mfma_i32_16x16x64_i8", 16, 64, 1, "i8", 4),
    ("gfx950", "v_mfma_i32_32x32x32_i8", 32, 32, 1, "i8", 4),
]


@pytest.mark.parametrize("case", MFMA, ids=lambda case: f"{case[0]}-{case[1]}")
def test_mfma(case: tuple[str, str, int, int, int, str, int]) -> None:
    arch, name, rows, depth, blocks, kind, count = case
    b_kind = {"fp8_bf8": "bf8", "bf8_fp8": "fp8"}.get(name[-7:], kind)
    held = 32 * count // BITS[kind]
    a = some(kind, (blocks, rows, depth), 1)
    b = some(b_kind, (blocks, depth, rows), 2)
    c = some("i8", (blocks, rows, rows), 3)
    integer = "_i32_" in name
    start = np.zeros((rows * rows * blocks // 64, 64), np.int32 if integer else np.float32)
    for block, row, column, register, lane in cdna_result(rows, blocks):
        start[register, lane] = c[block, row, column]
    registers = {
        0: start.view(np.uint32),
        A: together(laid(a[n], kind, cdna(rows, blocks, held, n), 64, arch) for n in range(blocks)),
        B: together(
            laid(b[n].T, b_kind, cdna(rows, blocks, held, n), 64, arch) for n in range(blocks)
        ),
    }
    result = operand(0, len(start))
    waves = executed(
        arch, f"{name} {result}, {operand(A, count)}, {operand(B, count)}, {result}", registers
    )
    words = waves.i32 if integer else waves.f32
    expected = a @ b + c
    for block, row, column, register, lane in cdna_result(rows, blocks):
        assert words[register, 0, lane] == expected[block, row, column]


def test_exec_plays_no_part() -> None:
    ones = np.full(64, np.float32(1))
    line = "v_mfma_f32_32x32x2_f32 v[0:15], v32, v33, 1.0"
    waves = run("gfx942", [line], {32: ones, 33: ones}, active=5)
    assert (waves.f32[:16] == 3).all()


def test_broadcast_of_blocks() -> None:
    """cbsz:2 abid:3: of every four blocks of A, all take the last one."""
    lane = np.arange(64).astype(np.float32)
    line = "v_mfma_f32_4x4x1f32 v[0:3], v32, v33, 0 cbsz:2 abid:3"
    waves = run("gfx90a", [line], {32: lane, 33: lane * 0 + 1})
    for at, register in itertools.product(range(64), range(4)):
        block = at // 4 // 4 * 4 + 3
        assert waves.f32[register, 0, at] == 4 * block + register


@pytest.mark.parametrize(
    ("blgp", "taken"),
    [
        (1, lambda lane: lane % 32),
        (2, lambda lane: 32 + lane % 32),
        (3, lambda lane: (lane + 16) % 64),
        (4, lambda lane: lane % 16),
        (5, lambda lane: 16 + lane % 16),
        (6, lambda lane: 32 + lane % 16),
        (7, lambda lane: 48 + lane % 16),
    ],
)
def test_lanes_of_b(blgp: int, taken: Callable[[int], int]) -> None:
    lane = np.arange(64).astype(np.float32)
    line = f"v_mfma_f32_4x4x1f32 v[0:3], v32, v33, 0 blgp:{blgp}"
    waves = run("gfx90a", [line], {32: lane * 0 + 1, 33: lane})
    assert waves.f32[0, 0].tolist() == [taken(at) for at in range(64)]


@pytest.mark.parametrize(
    ("line", "signs"),
    [
        ("v_mfma_f64_16x16x4_f64 v[0:7], v[32:33], v[34:35], v[0:7]", (1, 1, 1)),
        ("v_mfma_f64_16x16x4_f64 v[0:7], v[32:33], v[34:35], v[0:7] neg:[1,0,1]", (-1, 1, -1)),
        ("v_mfma_f64_4x4x4_4b_f64 v[0:1], v[32:33], v[34:35], v[0:1] neg:[0,1,0]", (1, -1, 1)),
    ],
)
def test_f64(line: str, signs: tuple[int, int, int]) -> None:
    rows, blocks = (16, 1) if "16x16" in line else (4, 4)
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 64))  # lane l: row l % M of block l // M % B, k = l // (M * B)
    pairs = 4 if rows == 16 else 1
    c = rng.standard_normal((pairs, 64))
    registers = {0: _words_of(c), 32: _words_of(a[None]), 34: _words_of(b[None])}
    waves = executed("gfx942", line, registers)
    words = waves.u32[: 2 * pairs, 0].astype(np.uint64)
    result = (words[0::2] | words[1::2] << np.uint64(32)).view(np.float64)
    for pair, lane in itertools.product(range(pairs), range(64)):
        if rows == 16:
            row, column, block = 4 * pair + lane // 16, lane % 16, 0
        else:
            row, column, block = lane // 16, lane % 4, lane // 4 % 4
        at = [k * rows * blocks + block * rows for k in range(4)]
        dot = sum(a[k + row] * b[k + column] for k in at)
        expected = signs[0] * signs[1] * dot + signs[2] * c[pair, lane]
        assert result[pair, lane] == pytest.approx(expected, rel=1e-14)


def _words_of(values: Array) -> Array:
    wide = values.view(np.uint64)
    low, high = wide.astype(np.uint32), (wide >> np.uint64(32)).astype(np.uint32)
    return np.stack([low, high], 1).reshape(-1, 64)


# ---------------------------------------------------------------------- f8f6f4 and scales

FORMATS = ("fp8", "bf8", "fp6", "bf6", "fp4")


def runs(kind: str, rows: int, lanes: int) -> Place:
    """Groups of lanes take turns at K: runs of 16 of 8 bits, of 32 of 4 and 6 bits."""
    run, groups = 16 if BITS[kind] == 8 else 32, lanes // rows
    return lambda i, k: (k // run % groups * rows + i, k // (run * groups) * run + k % run)


@pytest.mark.parametrize("shape", [(16, 128), (32, 64)], ids=str)
@pytest.mark.parametrize("kinds", list(itertools.product(FORMATS, FORMATS)), ids="-".join)
def test_f8f6f4(shape: tuple[int, int], kinds: tuple[str, str]) -> None:
    """Without scales, and with those of bytes 1 and 2 of their registers."""
    rows, depth = shape
    a, b = some(kinds[0], (rows, depth), 1), some(kinds[1], (depth, rows), 2)
    registers = {
        A: laid(a, kinds[0], runs(kinds[0], rows, 64), 64, "gfx950"),
        B: laid(b.T, kinds[1], runs(kinds[1], rows, 64), 64, "gfx950"),
    }
    rng = np.random.default_rng(3)
    exponents = rng.integers(-3, 4, (2, depth // 32, rows))  # in lane (K block) * rows + row
    for first, at, shift in ((SCALE_A, 0, 8), (SCALE_B, 1, 16)):
        registers[first] = (0x33000033 | (exponents[at].reshape(1, 64) + 127) << shift).astype(
            np.uint32
        )
    result = operand(0, rows * rows // 64)
    formats = f"cbsz:{FORMATS.index(kinds[0])} blgp:{FORMATS.index(kinds[1])}"
    operands = f"{result}, {operand(A, len(registers[A]))}, {operand(B, len(registers[B]))}, 1.0"
    name = f"f32_{rows}x{rows}x{depth}_f8f6f4"
    plain = executed("gfx950", f"v_mfma_{name} {operands} {formats}", registers)
    scales = f"v{SCALE_A}, v{SCALE_B} op_sel:[1,0,0] op_sel_hi:[0,1,0]"
    scaled = executed("gfx950", f"v_mfma_scale_{name} {operands}, {scales} {formats}", registers)
    factors = np.repeat(2.0**exponents, 32, 1)
    for waves, expected in (
        (plain, a @ b + 1), (scaled, (a * factors[0].T) @ (b * factors[1]) + 1),
    ):  # fmt: skip
        for _, row, column, register, lane in cdna_result(rows, 1):
            assert waves.f32[register, 0, lane] == expected[row, column]


def test_a_scale_that_is_no_number() -> None:
    registers = {
        A: np.full((8, 64), 0x38383838, np.uint32), B: np.full((8, 64), 0x38383838, np.uint32),
        SCALE_A: np.where(np.arange(64) == 3, 0xFF, 0)[None], SCALE_B: np.full((1, 64), 254),
    }  # fmt: skip
    line = (
        f"v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], {operand(A, 8)}, {operand(B, 8)}, 0, "
        f"v{SCALE_A}, v{SCALE_B} op_sel_hi:[0,0,0]"
    )
    waves = executed("gfx950", line, registers)
    for _, row, _, register, lane in cdna_result(16, 1):
        value = waves.f32[register, 0, lane]
        assert np.isnan(value) if row == 3 else value == 128


# ---------------------------------------------------------------------- sparse A


def sparse(kind: str, rows: int, depth: int, seed: int) -> tuple[Array, Array, Array]:
    """A in full [row, k], its elements [row, k / 2] and which K of four each one is."""
    rng = np.random.default_rng(seed)
    which = np.sort([[rng.permutation(4)[:2] for _ in range(depth // 4)] for _ in range(rows)])
    kept = some(kind, (rows, depth // 4, 2), seed)
    full = np.zeros((rows, depth // 4, 4))
    np.put_along_axis(full, which, kept, 2)
    return full.reshape(rows, depth), kept.reshape(rows, -1), which.reshape(rows, -1)


def index_register(which: Array, place: Place, first_bit: int, lanes: int) -> Array:
    words = np.full(lanes, 0, np.uint64)
    for row, element in np.ndindex(which.shape):
        lane, at = place(row, element)
        words[lane] |= np.uint64(int(which[row, element]) << (first_bit + 2 * at))
    return words.astype(np.uint32)[None]


SMFMAC = [
    ("v_smfmac_f32_16x16x32_f16", 16, 32, "f16", " abid:3", 24),
    ("v_smfmac_f32_32x32x16_bf16", 32, 16, "bf16", " cbsz:1 abid:2", 0),
    ("v_smfmac_i32_16x16x64_i8", 16, 64, "i8", " abid:1", 16),
    ("v_smfmac_f32_32x32x32_fp8_bf8", 32, 32, "fp8", "", 0),
]


@pytest.mark.parametrize("case", SMFMAC, ids=lambda case: case[0])
def test_smfmac(case: tuple[str, int, int, str, str, int]) -> None:
    name, rows, depth, kind, modifiers, first_bit = case
    b_kind = "bf8" if name.endswith("bf8") else kind
    full, kept, which = sparse(kind, rows, depth, 5)
    b = some(b_kind, (depth, rows), 6)
    held = depth // (64 // rows)
    registers = {
        A: laid(kept, kind, cdna(rows, 1, held // 2), 64, "gfx942"),
        B: laid(b.T, b_kind, cdna(rows, 1, held), 64, "gfx942"),
        INDEX: index_register(which, cdna(rows, 1, held // 2), first_bit, 64),
    }
    _check_sparse("gfx942", name, registers, modifiers, full @ b, rows)


def _check_sparse(
    arch: str, name: str, registers: dict[int, Array], modifiers: str, expected: Array, rows: int
) -> None:
    count = rows * rows // 64
    line = (
        f"{name} {operand(0, count)}, {operand(A, len(registers[A]))}, "
        f"{operand(B, len(registers[B]))}, v{INDEX}{modifiers}"
    )
    integer = "_i32_" in name
    start = np.full((count, 64), 7, np.int32 if integer else np.float32)
    waves = executed(arch, line, {**registers, 0: start.view(np.uint32)})
    words = waves.i32 if integer else waves.f32
    for _, row, column, register, lane in cdna_result(rows, 1):
        assert words[register, 0, lane] == expected[row, column] + 7


@pytest.mark.parametrize("rows", [16, 32])
@pytest.mark.parametrize("kind", ["f16", "i8"])
def test_smfmac_of_twice_the_depth(kind: str, rows: int) -> None:
    """gfx950 (ROCm's rocjitsu): B in runs of 8 K, the groups taking turns; A's own order.

    Of 16 bits A is in the order of K. Of 8 bits a lane of A holds runs of 8 K, two of them where
    B's halves are, then the two of the next group.
    """
    groups, wide = 64 // rows, 2 if kind == "i8" else 1
    depth = 16 * groups * wide
    full, kept, which = sparse(kind, rows, depth, 8)
    b = some(kind, (depth, rows), 9)

    def place_b(i: int, k: int) -> tuple[int, int]:
        return k // 8 % groups * rows + i, k // (8 * groups) * 8 + k % 8

    def place_a(i: int, element: int) -> tuple[int, int]:
        k = 2 * element  # of the four's first half: its run of 8 K is what matters
        lane, at = place_b(0, k // 8 * 8)
        run = at // 8  # of B's lane; two runs of 8 bits, one of 16 bits, make a half
        chunk = run // wide * groups + lane // rows  # in the order in which A has them
        return chunk // 2 * rows + i, chunk % 2 * 4 * wide + run % wide * 4 + element % 4

    registers = {
        A: laid(kept, kind, place_a, 64, "gfx950"),
        B: laid(b.T, kind, place_b, 64, "gfx950"),
        INDEX: index_register(which, place_a, 0, 64),
    }
    out = "i32" if kind == "i8" else "f32"
    name = f"v_smfmac_{out}_{rows}x{rows}x{depth}_{kind}"
    _check_sparse("gfx950", name, registers, "", full @ b, rows)


def test_what_no_index_names_plays_no_part() -> None:
    infinite = np.zeros((4, 64), np.uint32)
    infinite[0] = 0x7C00  # K 0 of every lane
    registers = {
        A: np.full((2, 64), 0x3C003C00, np.uint32), B: infinite,
        INDEX: np.full((1, 64), 0b11_10_11_10),
    }  # fmt: skip
    waves = executed(
        "gfx942", "v_smfmac_f32_16x16x32_f16 v[0:3], v[32:33], v[64:67], v100", registers
    )
    assert (waves.f32[:4] == 0).all()


# ---------------------------------------------------------------------- RDNA


def rdna_result(arch: str, lanes: int) -> Iterator[tuple[int, int, int, int]]:
    """(row, column, register, lane) of every 32-bit result."""
    for lane, register in itertools.product(range(lanes), range(256 // lanes)):
        if arch.startswith("gfx11"):
            row = lanes // 16 * register + lane // 16
        else:
            row = 8 * (lane // 16 % 2) + register + 4 * (lane // 32)
        yield row, lane % 16, register, lane


def rdna(arch: str, lanes: int, depth: int, copy: int = 0) -> Place:
    """gfx11: every 16 lanes hold all K. gfx12: the groups hold K in turn."""
    if arch.startswith("gfx11"):
        return lambda i, k: (16 * copy + i, k)
    held = depth // (lanes // 16)
    return lambda i, k: (k // held * 16 + i, k % held)


WMMA = [
    ("gfx1100", 32, "v_wmma_f32_16x16x16_f16", 16, ("f16", "f16"), ""),
    ("gfx1100", 64, "v_wmma_f32_16x16x16_bf16", 16, ("bf16", "bf16"), ""),
    ("gfx1100", 32, "v_wmma_i32_16x16x16_iu8", 16, ("i8", "u8"), " neg_lo:[1,0,0]"),
    ("gfx1151", 64, "v_wmma_i32_16x16x16_iu4", 16, ("u4", "i4"), " neg_lo:[0,1,0]"),
    ("gfx1201", 32, "v_wmma_f32_16x16x16_f16", 16, ("f16", "f16"), ""),
    ("gfx1201", 64, "v_wmma_f32_16x16x16_bf16", 16, ("bf16", "bf16"), ""),
    ("gfx1201", 32, "v_wmma_f32_16x16x16_fp8_bf8", 16, ("fp8", "bf8"), ""),
    ("gfx1201", 64, "v_wmma_f32_16x16x16_bf8_bf8", 16, ("bf8", "bf8"), ""),
    ("gfx1201", 32, "v_wmma_i32_16x16x16_iu8", 16, ("u8", "u8"), ""),
    ("gfx1201", 32, "v_wmma_i32_16x16x32_iu4", 32, ("i4", "i4"), " neg_lo:[1,1,0]"),
    ("gfx1201", 64, "v_wmma_i32_16x16x32_iu4", 32, ("i4", "u4"), " neg_lo:[1,0,0]"),
    ("gfx1250", 32, "v_wmma_f32_16x16x4_f32", 4, ("f32", "f32"), ""),
    ("gfx1250", 32, "v_wmma_f32_16x16x32_bf16", 32, ("bf16", "bf16"), " matrix_a_reuse"),
    ("gfx1250", 32, "v_wmma_f32_16x16x64_fp8_bf8", 64, ("fp8", "bf8"), ""),
    ("gfx1250", 32, "v_wmma_f32_16x16x128_bf8_fp8", 128, ("bf8", "fp8"), ""),
    ("gfx1250", 32, "v_wmma_i32_16x16x64_iu8", 64, ("i8", "i8"), " neg_lo:[1,1,0]"),
]


def rdna_operands(
    arch: str, lanes: int, depth: int, kinds: tuple[str, str], a: Array, b: Array
) -> dict[int, Array]:
    copies = range(lanes // 16 if arch.startswith("gfx11") else 1)
    return {
        first: together(
            laid(matrix, kind, rdna(arch, lanes, depth, copy), lanes, arch) for copy in copies
        )
        for first, matrix, kind in ((A, a, kinds[0]), (B, b.T, kinds[1]))
    }


@pytest.mark.parametrize("case", WMMA, ids=lambda case: f"{case[0]}-{case[1]}-{case[2]}")
def test_wmma(case: tuple[str, int, str, int, tuple[str, str], str]) -> None:
    arch, lanes, name, depth, kinds, modifiers = case
    a, b = some(kinds[0], (16, depth), 1), some(kinds[1], (depth, 16), 2)
    registers = rdna_operands(arch, lanes, depth, kinds, a, b)
    integer = "_i32_" in name
    start = np.full((256 // lanes, lanes), -3, np.int32 if integer else np.float32)
    result = operand(0, len(start))
    line = (
        f"{name} {result}, {operand(A, len(registers[A]))}, {operand(B, len(registers[B]))}, "
        f"{result}{modifiers}"
    )
    waves = executed(arch, line, {**registers, 0: start.view(np.uint32)}, lanes=lanes)
    words = waves.i32 if integer else waves.f32
    expected = a @ b - 3
    for row, column, register, lane in rdna_result(arch, lanes):
        assert words[register, 0, lane] == expected[row, column]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@pytest.mark.parametrize("half", [0, 1])
def test_half_results_of_gfx11(kind: str, half: int) -> None:
    """Each takes one half of a register, and leaves the other."""
    a, b = some(kind, (16, 16), 1), some(kind, (16, 16), 2)
    registers = rdna_operands("gfx1100", 32, 16, (kind, kind), a, b)
    c = some("f16", (8, 32), 3)
    start = encoded(kind, c, "gfx1100").astype(np.uint32) << (16 * half) | 0xABCD << 16 * (1 - half)
    line = f"v_wmma_{kind}_16x16x16_{kind} v[0:7], v[32:39], v[64:71], v[0:7] op_sel:[0,0,{half}]"
    waves = executed("gfx1100", line, {**registers, 0: start})
    for row, column, register, lane in rdna_result("gfx1100", 32):
        word = int(waves.u32[register, 0, lane])
        expected = (a @ b)[row, column] + c[register, lane]
        assert word >> (16 * half) & 0xFFFF == encoded(kind, np.array(expected), "gfx1100")
        assert word >> (16 * (1 - half)) & 0xFFFF == 0xABCD


@pytest.mark.parametrize(("arch", "lanes"), [("gfx1201", 32), ("gfx1201", 64), ("gfx1250", 32)])
@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_half_results_of_gfx12(arch: str, lanes: int, kind: str) -> None:
    """Two rows share a register."""
    depth = 32 if arch == "gfx1250" else 16
    a, b = some(kind, (16, depth), 1), some(kind, (depth, 16), 2)
    registers = rdna_operands(arch, lanes, depth, (kind, kind), a, b)
    c = some("f16", (256 // lanes, lanes), 3)
    bits = encoded(kind, c, arch).astype(np.uint32)
    start = bits[0::2] | bits[1::2] << 16
    result = operand(0, len(start))
    line = (
        f"v_wmma_{kind}_16x16x{depth}_{kind} {result}, {operand(A, len(registers[A]))}, "
        f"{operand(B, len(registers[B]))}, {result}"
    )
    waves = executed(arch, line, {**registers, 0: start}, lanes=lanes)
    for row, column, register, lane in rdna_result(arch, lanes):
        word = int(waves.u32[register // 2, 0, lane]) >> 16 * (register % 2) & 0xFFFF
        expected = (a @ b)[row, column] + c[register, lane]
        assert word == encoded(kind, np.array(expected), arch)


def test_half_results_are_rounded_once() -> None:
    """2048 + 1 + 2^-11: to f16 after the sum, 2050; a sum rounded before would be 2048."""
    a, b = np.zeros((16, 16)), np.zeros((16, 16))
    a[:, 0], b[0], a[:, 1], b[1] = 1, 1, 2**-11, 1
    registers = rdna_operands("gfx1201", 32, 16, ("f16", "f16"), a, b)
    start = encoded("f16", np.full((4, 32), 2048.0), "gfx1201").astype(np.uint32) * 0x10001
    line = "v_wmma_f16_16x16x16_f16 v[0:3], v[32:35], v[64:67], v[0:3]"
    waves = executed("gfx1201", line, {**registers, 0: start})
    assert (waves.u32[:4].view(np.float16) == 2050).all()


def test_wider_c_than_d() -> None:
    a, b = some("bf16", (16, 32), 1), some("bf16", (32, 16), 2)
    registers = rdna_operands("gfx1250", 32, 32, ("bf16", "bf16"), a, b)
    c = np.full((8, 32), np.float32(3))
    line = "v_wmma_bf16f32_16x16x32_bf16 v[0:3], v[32:39], v[64:71], v[16:23]"
    waves = executed("gfx1250", line, {**registers, 16: c.view(np.uint32)})
    for row, column, register, lane in rdna_result("gfx1250", 32):
        word = int(waves.u32[register // 2, 0, lane]) >> 16 * (register % 2) & 0xFFFF
        assert word == encoded("bf16", np.array((a @ b)[row, column] + 3), "gfx1250")


def test_signs_of_floats() -> None:
    """neg_lo and neg_hi of A: its even and odd elements; of C: negated, its magnitude first."""
    a, b = some("f16", (16, 16), 1), some("f16", (16, 16), 2)
    registers = rdna_operands("gfx1100", 32, 16, ("f16", "f16"), a, b)
    line = (
        "v_wmma_f32_16x16x16_f16 v[0:7], v[32:39], v[64:71], v[0:7] neg_lo:[1,0,1] neg_hi:[0,1,1]"
    )
    start = np.full((8, 32), np.float32(-5)).view(np.uint32)
    waves = executed("gfx1100", line, {**registers, 0: start})
    a[:, 0::2] *= -1
    b[1::2] *= -1
    for row, column, register, lane in rdna_result("gfx1100", 32):
        assert waves.f32[register, 0, lane] == (a @ b)[row, column] - 5


@pytest.mark.parametrize("clamp", [False, True])
def test_integers_wrap_or_saturate(clamp: bool) -> None:
    full = np.full((4, 32), 0x7F7F7F7F)
    start = np.full((8, 32), 2**31 - 1)
    line = "v_wmma_i32_16x16x16_iu8 v[0:7], v[32:35], v[64:67], v[0:7] neg_lo:[1,1,0]"
    waves = executed("gfx1100", line + " clamp" * clamp, {0: start, A: full, B: full})
    total = 2**31 - 1 + 16 * 127 * 127
    assert (waves.i32[:8] == (2**31 - 1 if clamp else total - 2**32)).all()


@pytest.mark.parametrize("kinds", [("fp8", "fp8"), ("fp4", "fp8"), ("bf6", "fp4")], ids="-".join)
def test_scaled_wmma(kinds: tuple[str, str]) -> None:
    """Four scales in the lane of their row: lanes 16 to 31 for A here, 0 to 15 for B."""
    a, b = some(kinds[0], (16, 128), 1), some(kinds[1], (128, 16), 2)
    exponents = np.random.default_rng(3).integers(-3, 4, (2, 16, 4))
    octets = np.zeros((2, 32, 4), np.uint8)
    octets[0, 16:], octets[1, :16] = exponents[0] + 127, exponents[1] + 127
    registers = {
        A: laid(a, kinds[0], runs(kinds[0], 16, 32), 32, "gfx1250"),
        B: laid(b.T, kinds[1], runs(kinds[1], 16, 32), 32, "gfx1250"),
        SCALE_A: octets[0].view(np.uint32).T, SCALE_B: octets[1].view(np.uint32).T,
    }  # fmt: skip
    formats = " ".join(
        f"matrix_{which}_fmt:MATRIX_FMT_{kind.upper()}"
        for which, kind in zip("ab", kinds, strict=True)
    )
    line = (
        f"v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], {operand(A, len(registers[A]))}, "
        f"{operand(B, len(registers[B]))}, 0, v{SCALE_A}, v{SCALE_B} {formats} "
        "matrix_a_scale:MATRIX_SCALE_ROW1"
    )
    waves = executed("gfx1250", line, registers)
    factors = np.repeat(2.0**exponents, 32, 2)
    expected = (a * factors[0]) @ (b * factors[1].T)
    for row, column, register, lane in rdna_result("gfx1250", 32):
        assert waves.f32[register, 0, lane] == expected[row, column]


def test_wmma_of_32_rows() -> None:
    """The second 16 rows lie in the next registers; 8 scales of 16 K each, A's in 32 lanes."""
    a, b = some("fp4", (32, 128), 1), some("fp4", (128, 16), 2)
    exponents = np.random.default_rng(3).integers(-3, 4, (32, 8))
    octets = (exponents + 127).astype(np.uint8)
    halves = [laid(a[n : n + 16], "fp4", runs("fp4", 16, 32), 32, "gfx1250") for n in (0, 16)]
    registers = {
        A: np.concatenate(halves),
        B: laid(b.T, "fp4", runs("fp4", 16, 32), 32, "gfx1250"),
        SCALE_A: octets.view(np.uint32).T,
        SCALE_A + 2: np.full((2, 32), 0x7F7F7F7F),
    }
    line = (
        f"v_wmma_scale16_f32_32x16x128_f4 v[0:15], {operand(A, 16)}, {operand(B, 8)}, 0, "
        f"{operand(SCALE_A, 2)}, {operand(SCALE_A + 2, 2)}"
    )
    waves = executed("gfx1250", line, registers)
    expected = (a * np.repeat(2.0**exponents, 16, 1)) @ b
    for lane, register in itertools.product(range(32), range(16)):
        row = 16 * (register // 8) + 8 * (lane // 16) + register % 8
        assert waves.f32[register, 0, lane] == expected[row, lane % 16]


SWMMAC = [
    (32, "v_swmmac_f32_16x16x32_f16", ("f16", "f16"), " index_key:1", 16),
    (64, "v_swmmac_f32_16x16x32_bf16", ("bf16", "bf16"), " index_key:3", 24),
    (32, "v_swmmac_f32_16x16x32_fp8_bf8", ("fp8", "bf8"), "", 0),
    (64, "v_swmmac_f32_16x16x32_bf8_bf8", ("bf8", "bf8"), " index_key:2", 16),
    (32, "v_swmmac_i32_16x16x32_iu8", ("i8", "u8"), " index_key:1 neg_lo:[1,0,0]", 16),
]


@pytest.mark.parametrize("case", SWMMAC, ids=lambda case: f"{case[0]}-{case[1]}")
def test_swmmac(case: tuple[int, str, tuple[str, str], str, int]) -> None:
    lanes, name, kinds, modifiers, first_bit = case
    full, kept, which = sparse(kinds[0], 16, 32, 5)
    b = some(kinds[1], (32, 16), 6)
    held = 32 // (lanes // 16)

    def place(each: int) -> Place:
        return lambda i, k: (k // each * 16 + i, k % each)

    registers = {
        A: laid(kept, kinds[0], place(held // 2), lanes, "gfx1201"),
        B: laid(b.T, kinds[1], place(held), lanes, "gfx1201"),
        INDEX: index_register(which, place(held // 2), first_bit, lanes),
    }
    integer = "_i32_" in name
    start = np.full((256 // lanes, lanes), 7, np.int32 if integer else np.float32)
    line = (
        f"{name} {operand(0, len(start))}, {operand(A, len(registers[A]))}, "
        f"{operand(B, len(registers[B]))}, v{INDEX}{modifiers}"
    )
    waves = executed("gfx1201", line, {**registers, 0: start.view(np.uint32)}, lanes=lanes)
    words = waves.i32 if integer else waves.f32
    for row, column, register, lane in rdna_result("gfx1201", lanes):
        assert words[register, 0, lane] == (full @ b)[row, column] + 7


# ---------------------------------------------------------------------- special values


def one_product(arch: str, kind: str, a: int, b: int) -> float:
    """The product of one element of A and one of B, all others 0."""
    registers = {A: np.zeros((2, 64), np.uint32), B: np.zeros((2, 64), np.uint32)}
    registers[A][0, 0], registers[B][0, 0] = a, b
    name = {
        ("gfx942", "f16"): "v_mfma_f32_16x16x16_f16", ("gfx90a", "f16"): "v_mfma_f32_16x16x16f16",
        ("gfx942", "bf16"): "v_mfma_f32_16x16x16_bf16",
        ("gfx90a", "bf16"): "v_mfma_f32_16x16x16bf16_1k",
        ("gfx942", "xf32"): "v_mfma_f32_16x16x8_xf32",
    }[arch, kind]  # fmt: skip
    waves = executed(arch, f"{name} v[0:3], v[32:33], v[64:65], 0", registers)
    return float(waves.f32[0, 0, 0])


def test_special_values() -> None:
    assert one_product("gfx942", "f16", 0x7C00, 0x3C00) == np.inf
    assert one_product("gfx942", "f16", 0xFC00, 0x3C00) == -np.inf
    assert np.isnan(one_product("gfx942", "f16", 0x7C00, 0x0000))
    assert np.isnan(one_product("gfx942", "f16", 0x7E00, 0x3C00))
    assert one_product("gfx942", "f16", 0x7BFF, 0x3C00) == 65504
    assert one_product("gfx942", "bf16", 0x7F80, 0xBF80) == -np.inf
    assert one_product("gfx942", "xf32", 0x3F801FFF, 0x3F800000) == 1, "13 bits are dropped"


def test_subnormals() -> None:
    """gfx942 keeps them; gfx90a takes them as 0, of bf16 too, and writes none."""
    assert one_product("gfx942", "f16", 0x0001, 0x3C00) == 2.0**-24
    assert one_product("gfx90a", "f16", 0x0001, 0x3C00) == 0
    assert one_product("gfx942", "bf16", 0x0040, 0x3F80) == 2.0**-127
    assert one_product("gfx90a", "bf16", 0x0040, 0x3F80) == 0
    assert one_product("gfx942", "bf16", 0x1F80, 0x1F80) == 2.0**-128
    assert one_product("gfx90a", "bf16", 0x1F80, 0x1F80) == 0


# ---------------------------------------------------------------------- steps that share


def test_products_that_share_operands_and_accumulators() -> None:
    """What a block keeps from one product to the next changes no bit."""
    lines = [
        "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[36:37], 0",
        "v_mfma_f32_32x32x8_f16 v[16:31], v[32:33], v[38:39], 0.5",
        "v_mfma_f32_32x32x8_f16 v[0:15], v[34:35], v[36:37], v[0:15]",
        "v_mfma_f32_32x32x8_f16 v[16:31], v[34:35], v[38:39], v[16:31]",
        "v_mov_b32_e32 v32, v34",  # an operand changes
        "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[36:37], v[0:15]",
        "v_add_f32_e32 v3, v3, v3",  # an accumulator is looked at
        "v_mfma_f32_32x32x8_f16 v[0:15], v[34:35], v[36:37], v[0:15]",
        "v_mfma_f32_32x32x8_f16 v[16:31], v[34:35], v[34:35], v[16:31]",
        "v_mfma_f32_16x16x16_f16 v[16:19], v[34:35], v[36:37], v[16:19]",  # another order
        "v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[36:37], v[0:15]",  # a result as operand
        "v_mfma_i32_32x32x16_i8 v[40:55], v[32:33], v[36:37], v[0:15]",
        "v_mfma_i32_32x32x16_i8 v[40:55], v[34:35], v[36:37], v[40:55]",
        "v_mfma_i32_32x32x16_i8 v[40:55], v[34:35], v[38:39], v[40:55]",
    ]
    rng = np.random.default_rng(7)
    start = {row: rng.standard_normal(128).astype(np.float16).view(np.uint32) for row in range(64)}
    block = run("gfx942", lines, start, count=2)
    apart = start
    for line in lines:
        state = run("gfx942", [line], apart, count=2)
        apart = {row: state.u32[row].copy() for row in range(64)}
    for row in range(64):
        assert np.array_equal(block.u32[row], apart[row]), row
    steps = code_of("gfx942", lines).blocks[0].steps
    assert sum(isinstance(step, MatrixProduct) for _, step, _ in steps) == 1, (
        "the others are linked"
    )


@pytest.mark.parametrize("awaited", [32, 0], ids=["operand", "accumulator"])
def test_nothing_is_kept_of_registers_that_a_load_may_yet_write(awaited: int) -> None:
    """A load that no wait has covered arrives between two products: the second sees it."""
    line = "v_mfma_f32_32x32x2_f32 v[0:15], v32, v33, v[0:15]"
    code = code_of("gfx942", [line, line])
    zero = np.zeros(1, np.int64)
    waves = Waves.new(64, 64, WaveIds(zero, zero, zero), None)
    waves.f32[32:34] = 1
    waves.outstanding.registers = vector_bits(awaited, 1)
    (_, first, _), (_, second, _) = code.blocks[0].steps
    first(waves)
    waves.f32[awaited] = 3
    second(waves)
    assert (waves.f32[0] == (5 if awaited == 0 else 8)).all()
    assert (waves.f32[1] == (4 if awaited == 0 else 8)).all()


def test_infinities_and_subnormals_among_many() -> None:
    """The fast way from float16 to float32 leaves special values to the table."""
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 1 << 16, (2, 2, 64)).astype(np.uint32)  # finite and not
    words = bits[0] | bits[1] << 16
    identity = np.zeros((2, 64), np.uint32)
    for k in range(8):  # B = the first 8 columns of the identity
        lane, element = k // 4 * 32 + k, k % 4
        identity[element // 2, lane] = 0x3C00 << 16 * (element % 2)
    only = np.isfinite(bits.astype(np.uint16).view(np.float16)).all(0)
    words = np.where(only, words, 0)
    line = "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[64:65], 0"
    waves = executed("gfx942", line, {A: words, B: identity})
    halves = np.ascontiguousarray(words.T).view(np.float16).reshape(2, 32, 4)
    for _, row, column, register, lane in cdna_result(32, 1):
        if column < 8:
            expected = halves[column // 4, row, column % 4]
            assert waves.f32[register, 0, lane] == np.float32(expected)


REFUSED = [
    ("gfx90a", "v_mfma_f32_4x4x1f32 v[0:3], v32, v33, 0 cbsz:2 abid:4"),
    ("gfx942", "v_mfma_f32_32x32x8_f16 v[0:15], v[32:33], v[34:35], 0 cbsz:1"),
    ("gfx942", "v_mfma_f32_16x16x32_fp8_fp8 v[0:3], v[32:33], v[34:35], 0 blgp:1"),
    ("gfx950", "v_mfma_ld_scale_b32 v20, v21"),
    ("gfx1201", "v_swmmac_i32_16x16x64_iu4 v[0:7], v[32:33], v[34:37], v40"),
    ("gfx1250", "v_swmmac_f32_16x16x64_f16 v[0:7], v[32:39], v[40:55], v60"),
    (
        "gfx1250",
        "v_wmma_f32_16x16x128_f8f6f4 v[0:7], v[16:31], v[32:39], 0 matrix_b_fmt:MATRIX_FMT_FP4",
    ),
    (
        "gfx1250",
        "v_wmma_scale_f32_16x16x128_f8f6f4 v[0:7], v[16:31], v[32:47], 0, v1, v2 "
        "matrix_a_scale_fmt:MATRIX_SCALE_FMT_E5M3",
    ),
]


@pytest.mark.parametrize(("arch", "line"), REFUSED)
def test_what_is_not_covered_is_refused(arch: str, line: str) -> None:
    with pytest.raises(NotCoveredError):
        run(arch, [line], {})
