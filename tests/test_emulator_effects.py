"""What each instruction is said to read and write, against what it does when it is executed."""

from __future__ import annotations

import re
import zlib
from typing import Any, Final

import numpy as np
import pytest
from emulated import code_of, run_lines
from kinspect.inspector.emulator.registry import NotCoveredError
from kinspect.inspector.emulator.waves import Waves
from kinspect.inspector.isa.dataflow.effects import RegisterEffect, effect_of
from kinspect.inspector.isa.dataflow.operands import EXEC, M0, SCALAR_BIT, VCC, VECTOR_REGISTERS
from test_emulator_witness import FORMS

Array = np.ndarray[Any, Any]

SCALARS: Final = 104
"""SGPRs that are looked at, and VCC."""
VECTORS: Final = 300


def _has(rows: int, row: int) -> bool:
    return bool(rows >> row & 1)


def _registers(rng: np.random.Generator, lanes: int) -> tuple[Array, Array]:
    vectors = rng.integers(0, 1 << 32, (VECTORS, lanes), np.uint32)
    scalars = rng.integers(0, 1 << 32, VCC + 2, np.uint32)
    return vectors, scalars


def _executed(arch: str, line: str, vectors: Array, scalars: Array) -> Waves:
    return run_lines(
        arch, line, dict(enumerate(vectors)),
        dict(enumerate(scalars[:SCALARS])),
        vcc=int(scalars[VCC]) | int(scalars[VCC + 1]) << 32, accum_offset=256,
    )  # fmt: skip


def faults(arch: str, line: str) -> list[str]:
    """Registers that one instruction writes or depends on without being said to."""
    code = code_of(arch, line, accum_offset=256)
    inst, parts = code.function.instructions[0], code.decoded[0]
    effect: RegisterEffect = effect_of(inst, parts, code.target)
    rng = np.random.default_rng(zlib.crc32(line.encode()))
    vectors, scalars = _registers(rng, code.target.lanes)
    other_vectors, other_scalars = _registers(rng, code.target.lanes)
    for row in range(VECTORS):
        kept = 0xFFFF * _has(effect.reads_low, row) | 0xFFFF0000 * _has(effect.reads_high, row)
        other_vectors[row] ^= (other_vectors[row] ^ vectors[row]) & np.uint32(kept)
    for row in range(len(scalars)):
        if _has(effect.reads, SCALAR_BIT + row):
            other_scalars[row] = scalars[row]
    one, other = (
        _executed(arch, line, *registers)
        for registers in ((vectors, scalars), (other_vectors, other_scalars))
    )
    wrong = [
        f"v{row} is written"
        for row in range(VECTORS)
        if not _has(effect.writes, row) and (one.u32[row, 0] != vectors[row]).any()
    ]
    rows = [*range(SCALARS), *range(VCC, VCC + code.target.lanes // 32)]
    wrong += [
        f"s{row} is written"
        for row in rows
        if not _has(effect.writes, SCALAR_BIT + row) and one.scalar[row, 0] != scalars[row]
    ]
    for halves, bits in ((effect.low, 0xFFFF), (effect.high, 0xFFFF0000)):
        wrong += [
            f"v{row} & {bits:#x} depends on what is not read"
            for row in range(VECTORS)
            if _has(halves, row) and ((one.u32[row, 0] ^ other.u32[row, 0]) & bits).any()
        ]
    wrong += [
        f"s{row} depends on what is not read"
        for row in [*rows, EXEC, M0]
        if _has(effect.low, SCALAR_BIT + row) and one.scalar[row, 0] != other.scalar[row, 0]
    ]
    return [f"{arch} {line}: {each}" for each in wrong]


@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        # Registers of which the lower, and the upper half is read.
        ("v_pk_mul_f32 v[10:11], v[2:3], v[4:5] op_sel_hi:[0,1]", {2, 4, 5}, {2, 4, 5}),
        ("v_pk_mul_f32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]", {3, 4, 5}, {3, 4, 5}),
        ("v_pk_fma_f32 v[10:11], v[2:3], v[4:5], v[6:7] op_sel_hi:[1,0,0]",
         {2, 3, 4, 6}, {2, 3, 4, 6}),
        ("v_pk_add_f32 v[10:11], v[2:3], v[4:5] op_sel:[1,1] op_sel_hi:[0,0]",
         {2, 3, 4, 5}, {2, 3, 4, 5}),
        ("v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[1,0]", {3, 4}, {3, 4}),
        ("v_pk_mov_b32 v[10:11], v[2:3], v[4:5] op_sel:[0,1]", {2, 5}, {2, 5}),
        ("v_pk_add_f16 v10, v2, v4 op_sel_hi:[0,1]", {2, 4}, {4}),
        ("v_pk_add_f16 v10, v2, v4 op_sel:[1,0]", {4}, {2, 4}),
        ("v_pk_fma_f16 v10, v2, v4, v6 op_sel:[0,1,1] op_sel_hi:[0,0,1]", {2, 4}, {4, 6}),
        ("v_pk_mul_lo_u16 v10, v2, v4 op_sel_hi:[0,0]", {2, 4}, set()),
        ("v_pk_fmac_f16 v10, v2, v4", {2, 4, 10}, {2, 4, 10}),
        ("v_fma_mix_f32 v10, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,1,0]", {4, 6}, {2, 6}),
        ("v_fma_mixlo_f16 v10, v2, v4, v6", {2, 4, 6}, {2, 4, 6}),
        ("v_lshlrev_b32 v10, 16, v2", {2}, set()),
        ("v_lshlrev_b32 v10, 15, v2", {2}, {2}),
        ("v_lshlrev_b32 v10, v2, v4", {2, 4}, {2, 4}),
        ("v_lshrrev_b32 v10, 16, v2", set(), {2}),
        ("v_lshrrev_b32 v10, 48, v2", set(), {2}),
        ("v_ashrrev_i32 v10, 24, v2", set(), {2}),
        ("v_ashrrev_i32 v10, 15, v2", {2}, {2}),
        ("v_and_b32 v10, 0xffff0000, v2", set(), {2}),
        ("v_and_b32 v10, 0xffff, v2", {2}, set()),
        ("v_and_b32 v10, 0x1ffff, v2", {2}, {2}),
        ("v_and_b32 v10, -2, v2", {2}, {2}),
        ("v_and_or_b32 v10, v2, 15, v4", {2, 4}, {4}),
        ("v_lshl_or_b32 v10, v2, 16, v4", {2, 4}, {4}),
        ("v_lshl_add_u32 v10, v2, 3, v4", {2, 4}, {2, 4}),
        ("v_alignbit_b32 v10, v2, v4, 16", {2}, {4}),
        ("v_alignbit_b32 v10, v2, v4, 8", {2, 4}, {4}),
        ("v_bfe_u32 v10, v2, 16, 8", set(), {2}),
        ("v_bfe_u32 v10, v2, 8, 8", {2}, set()),
        ("v_bfe_i32 v10, v2, 12, 8", {2}, {2}),
    ],
)  # fmt: skip
def test_of_sources_only_the_halves_that_reach_the_result_are_read(
    line: str, low: set[int], high: set[int]
) -> None:
    code = code_of("gfx942", line, accum_offset=256)
    effect = effect_of(code.function.instructions[0], code.decoded[0], code.target)
    assert {row for row in range(VECTORS) if _has(effect.reads_low, row)} == low
    assert {row for row in range(VECTORS) if _has(effect.reads_high, row)} == high
    assert {row for row in range(VECTORS) if _has(effect.reads, row)} == low | high
    assert faults("gfx942", line) == []


def test_of_a_scalar_pair_only_what_is_selected_is_read() -> None:
    line = "v_pk_mul_f32 v[10:11], v[2:3], s[4:5] op_sel_hi:[1,0]"
    code = code_of("gfx942", line, accum_offset=256)
    effect = effect_of(code.function.instructions[0], code.decoded[0], code.target)
    assert _has(effect.reads, SCALAR_BIT + 4)
    assert not _has(effect.reads, SCALAR_BIT + 5)
    assert faults("gfx942", line) == []


ARCHS: Final = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")


@pytest.mark.parametrize(
    ("arch", "line", "vector", "scalar"),
    [
        ("gfx1100", "ds_storexchg_rtn_b32 v7, v1, v2", 1 << 7, ()),
        ("gfx1201", "ds_storexchg_2addr_rtn_b32 v[6:7], v1, v2, v3", 3 << 6, ()),
        ("gfx1100", "ds_store_b32 v1, v2", 0, ()),
        ("gfx1100", "s_sendmsg_rtn_b32 s3, sendmsg(MSG_RTN_GET_REALTIME)", 0, (3,)),
        ("gfx942", "s_sendmsg sendmsg(MSG_INTERRUPT)", 0, ()),
        ("gfx942", "s_call_b64 s[4:5], 4", 0, (4, 5)),
        ("gfx942", "tbuffer_store_format_x v1, v2, s[4:7], 0 offen", 0, ()),
        ("gfx90a", "s_scratch_store_dword s2, s[4:5], 0x4", 0, ()),
        ("gfx90a", "s_set_gpr_idx_on s3, gpr_idx(SRC0)", 0, ()),
        ("gfx90a", "s_set_gpr_idx_idx s3", 0, ()),
        ("gfx90a", "s_rfe_b64 s[4:5]", 0, ()),
        ("gfx1201", "s_alloc_vgpr s3", 0, ()),
    ],
)
def test_results_are_those_of_amds_tables(
    arch: str, line: str, vector: int, scalar: tuple[int, ...]
) -> None:
    """AMD's machine-readable ISA, operands that an instruction writes; M0 and EXEC aside."""
    code = code_of(arch, line, accum_offset=256)
    effect = effect_of(code.function.instructions[0], code.decoded[0], code.target)
    assert effect.writes & VECTOR_REGISTERS == vector
    assert tuple(n for n in range(100) if _has(effect.writes, SCALAR_BIT + n)) == scalar


def _check(arch: str, step: int) -> None:
    pairs = (line.split(" ", 1) for line in FORMS.read_text().splitlines())
    wrong, tried = [], 0
    for line in [line for target, line in pairs if target == arch][::step]:
        try:
            wrong += faults(arch, line)
            tried += 1
        except NotCoveredError:
            continue
    assert not wrong, "\n".join(wrong)
    assert tried > 100 / step, tried


@pytest.mark.parametrize("arch", ARCHS)
def test_effects_are_what_instructions_do(arch: str) -> None:
    _check(arch, 16)


_OVERLAPPING: Final = re.compile(r"(?<![\w.\[])(v)(?:\[(\d+):(\d+)\]|(\d+))(?![\w.])")
_APART_ONLY: Final = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac", "v_swap", "v_permlane16_swap",
                      "v_permlane32_swap", "v_mqsad", "v_qsad", "v_mad_u64", "v_mad_i64",
                      "v_mad_co")  # fmt: skip
"""Instructions whose result may lie on no source, or not on a part of one."""


def onto_a_source(line: str) -> tuple[str, int, int, int] | None:
    """The line with its result in the registers of a source; first rows of both, their number."""
    if line.startswith(_APART_ONLY) or " :: " in line:
        return None
    found = [
        (
            match,
            int(match[2] or match[4]),
            int(match[3] or match[4]) - int(match[2] or match[4]) + 1,
        )
        for match in _OVERLAPPING.finditer(line)
    ]
    if not found or line.split(None, 1)[1].find(found[0][0][0]) != 0:
        return None
    result, first, count = found[0]
    for source, row, width in found[1:]:
        if width == count and row != first:
            moved = line[: result.start()] + source[0] + line[result.end() :]
            return moved, first, row, count
    return None


@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100", "gfx1201"])
def test_a_result_may_lie_on_a_source(arch: str, step: int) -> None:
    lines = dict.fromkeys(
        line.split(" ", 1)[1]
        for line in FORMS.read_text().splitlines()
        if line.startswith(f"{arch} ")
    )
    wrong, tried = [], 0
    for line in list(lines)[::step]:
        moved = onto_a_source(line)
        if moved is None:
            continue
        other, first, row, count = moved
        lanes = 64 if arch.startswith("gfx9") else 32
        vectors, scalars = _registers(np.random.default_rng(zlib.crc32(line.encode())), lanes)
        vectors[first : first + count] = vectors[row : row + count]  # what it may keep of it
        try:
            apart, onto = (_executed(arch, each, vectors, scalars) for each in (line, other))
        except NotCoveredError:
            continue
        tried += 1
        if (apart.u32[first : first + count, 0] != onto.u32[row : row + count, 0]).any():
            wrong.append(f"{arch} {other}")
    assert not wrong, "\n".join(wrong)
    assert tried > 50 / step, tried


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_effects_of_every_form(arch: str) -> None:
    _check(arch, 1)
