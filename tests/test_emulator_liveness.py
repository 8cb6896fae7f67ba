"""Live registers: against all paths through small programs, against executions in which every
register that is not live holds garbage, and against what LLVM allocated and found live itself."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from emulated import on_some_targets
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow import code_registers
from kinspect.inspector.isa.dataflow.definitions import START, Definitions
from kinspect.inspector.isa.dataflow.execution_target import initial_registers, target_of
from kinspect.inspector.isa.dataflow.liveness import Liveness, liveness
from kinspect.inspector.isa.dataflow.operands import SCALAR_BIT, rows_of, vector_bits
from kinspect.inspector.machines.loader import load as load_machine
from kinspect.inspector.model import Function

Array = np.ndarray[Any, Any]

HEAD: Final = """
.amdgcn_target "amdgcn-amd-amdhsa--{arch}"
.text
.globl k
.type k,@function
k:
{code}
    s_endpgm
.Lend:
.size k, .Lend-k
.rodata
.amdhsa_kernel k
  .amdhsa_next_free_vgpr 64
  .amdhsa_next_free_sgpr 64
  {offset}
.end_amdhsa_kernel
"""


def function_of(code: str, arch: str = "gfx942") -> Function:
    offset = ".amdhsa_accum_offset 32" if arch.startswith("gfx9") else ""
    (function,) = parse_text(HEAD.format(arch=arch, code=code, offset=offset), "k.s").kernels
    return function


def live_of(code: str, arch: str = "gfx942") -> tuple[Function, Liveness]:
    function = function_of(code, arch)
    return function, liveness(function, load_machine(arch))


def names(rows: int) -> set[str]:
    return {f"v{r}" if r < SCALAR_BIT else f"s{r - SCALAR_BIT}" for r in rows_of(rows)}


class EmptiedMeanwhile(dict[Any, Any]):
    """A dictionary that another thread empties when this one has seen its keys."""

    def __iter__(self) -> Iterator[Any]:
        keys = list(self.keys())
        self.clear()
        return iter(keys)


def test_registers_are_worked_out_in_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run analyses several kernels at a time."""
    monkeypatch.setattr(code_registers, "_RECENT", EmptiedMeanwhile())
    for number in range(4):
        function = function_of(f"v_mov_b32 v{number}, 0")
        registers = code_registers.registers_of(function, target_of(function, "gfx942"))
        assert registers.effects[0].writes == vector_bits(number, 1)


# ---------------------------------------------------------------------- all paths

PROGRAMS: Final = {
    "loop": """
        v_mov_b32 v1, 0
        v_mov_b32 v2, 5
        v_mov_b32 v9, 7
        s_mov_b32 s4, 10
    .L1:
        v_add_u32 v3, v1, v0
        v_mul_lo_u32 v1, v3, v2
        s_sub_i32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 .L1
        v_add_u32 v4, v1, v9
        global_store_dword v0, v4, s[0:1]""",
    "diamond": """
        v_mov_b32 v1, 1
        v_mov_b32 v2, 2
        s_cmp_eq_u32 s2, 0
        s_cbranch_scc1 .L2
        v_add_u32 v3, v1, v1
        s_branch .L3
    .L2:
        v_add_u32 v3, v2, v0
        v_mov_b32 v2, v3
    .L3:
        v_add_u32 v4, v3, v2
        global_store_dword v0, v4, s[0:1]""",
    "nest": """
        v_mov_b32 v5, 0
        s_mov_b32 s4, 3
    .L4:
        v_mov_b32 v6, v0
        s_mov_b32 s5, 3
    .L5:
        v_add_u32 v5, v5, v6
        v_add_u32 v6, 1, v6
        s_sub_i32 s5, s5, 1
        s_cmp_lg_u32 s5, 0
        s_cbranch_scc1 .L5
        s_sub_i32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 .L4
        global_store_dword v0, v5, s[0:1]""",
    "tuples": """
        global_load_dwordx4 v[4:7], v0, s[0:1]
        s_waitcnt vmcnt(0)
        v_lshl_add_u64 v[8:9], v[4:5], 0, v[6:7]
        v_pk_add_f16 v4, v8, v9
        v_mfma_f32_4x4x4_16b_f16 a[0:3], v[4:5], v[6:7], 0
        s_nop 7
        v_accvgpr_read_b32 v1, a2
        global_store_dword v0, v1, s[0:1]""",
    "halves": """
        v_mov_b32 v1, 1
        v_mov_b32 v2, 2
        s_mov_b32 s4, 3
    .L6:
        v_fma_mixlo_f16 v1, v0, v0, v0
        v_fma_mixhi_f16 v2, v0, v0, v0
        v_lshlrev_b32 v3, 16, v1
        v_and_b32 v4, 0xffff0000, v2
        v_add_u32 v5, v3, v4
        s_sub_i32 s4, s4, 1
        s_cmp_lg_u32 s4, 0
        s_cbranch_scc1 .L6
        v_alignbit_b32 v1, v1, v2, 16
        v_fma_mixhi_f16 v1, v0, v0, v0
        v_lshrrev_b32 v6, 16, v1
        global_store_dword v5, v6, s[0:1]""",
}


def paths(function: Function, most: int) -> Iterator[list[int]]:
    """Runs of instructions from the beginning, each block at most `most` times."""

    def walk(number: int, path: list[int], times: dict[int, int]) -> Iterator[list[int]]:
        block = function.blocks[number]
        path = [*path, *range(block.start, block.stop)]
        times = {**times, number: times.get(number, 0) + 1}
        following = [s for s in block.successors if times.get(s, 0) < most]
        if not following:
            yield path
        for successor in following:
            yield from walk(successor, path, times)

    yield from walk(0, [], {})


@pytest.mark.parametrize("name", PROGRAMS)
def test_live_is_what_some_path_has_written_and_some_path_reads(name: str) -> None:
    function, live = live_of(PROGRAMS[name])
    start = function.resources.wave_start
    assert start is not None
    read_later, written_before = [0] * len(live.before), [0] * len(live.before)
    for path in paths(function, 3):
        written = initial_registers(start, live.target)
        for index in path:
            written_before[index] |= written
            written |= live.effects[index].writes
        for at, index in enumerate(path):
            low, high = 0, 0
            for later in path[at:]:
                effect = live.effects[later]
                read_later[index] |= effect.reads_low & ~low | effect.reads_high & ~high
                low, high = low | effect.low, high | effect.high
    for index, before in enumerate(live.before):
        assert names(before) == names(read_later[index] & written_before[index]), index


def test_halves_and_lanes_that_a_write_leaves_stay_live() -> None:
    _, live = live_of("""
        v_mov_b32 v1, 0
        v_mov_b32 v2, 0
        v_mov_b32 v3, 0
        v_cvt_pk_fp8_f32 v1, v0, v0 op_sel:[0,0,1]
        v_fma_mixlo_f16 v2, v0, v0, v0
        v_cmp_eq_u32 vcc, 0, v0
        s_and_saveexec_b64 s[4:5], vcc
        v_mov_b32 v3, 1
        s_or_b64 exec, exec, s[4:5]
        v_add3_u32 v4, v1, v2, v3
        global_store_dword v0, v4, s[0:1]""")
    assert {"v1", "v2", "v3"} <= names(live.before[3])  # each keeps a half, or lanes
    assert "v3" in names(live.before[7])
    overwritten, whole = live_of("""
        v_mov_b32 v1, 0
        global_load_dword v1, v0, s[0:1]
        s_waitcnt vmcnt(0)
        global_store_dword v0, v1, s[0:1]""")
    assert "v1" not in names(whole.before[1])
    dead = [inst.index for inst in whole.dead_writes(overwritten.instructions)]
    assert dead == [0]


def test_what_lives_through_a_loop_untouched() -> None:
    function, live = live_of(PROGRAMS["loop"])
    (loop,) = function.loops
    blocks = [function.blocks[number] for number in loop.blocks]
    assert {"v9"} <= names(live.untouched(blocks)) <= {"v9", "s0", "s1"}


def test_a_branch_on_exec_lets_a_write_end_the_old_value() -> None:
    _, live = live_of("""
        v_mov_b32 v3, 0
        v_cmp_eq_u32 vcc, 0, v0
        s_and_saveexec_b64 s[4:5], vcc
        s_cbranch_execz .L6
        v_mov_b32 v3, 1
        v_add_u32 v3, v3, v0
        global_store_dword v0, v3, s[0:1]
    .L6:
        s_endpgm""")
    assert "v3" not in names(live.before[4])


@pytest.mark.parametrize("name", PROGRAMS)
def test_definitions_and_uses_are_those_of_all_paths(name: str) -> None:
    function, live = live_of(PROGRAMS[name])
    flow = Definitions(function, live)
    rows = set(rows_of(functools.reduce(operator.or_, (e.reads | e.writes for e in live.effects))))
    count = len(live.effects)
    for row in rows:
        definitions: list[set[int]] = [set() for _ in range(count)]
        uses: list[set[int]] = [set() for _ in range(count)]
        reads, ends = (
            [
                {half for half, rows in enumerate(halves) if rows >> row & 1}
                for halves in ((getattr(e, low), getattr(e, high)) for e in live.effects)
            ]
            for low, high in (("reads_low", "reads_high"), ("low", "high"))
        )
        for path in paths(function, 3):
            current = [{START}, {START}]
            for at, index in enumerate(path):
                definitions[index] |= current[0] | current[1]
                if live.effects[index].writes >> row & 1:
                    for half in (0, 1):
                        if half in ends[index]:
                            current[half] = {index}
                        elif not ends[index]:
                            current[half] = current[half] | {index}
                left = {0, 1}
                for later in path[at:]:
                    if reads[later] & left:
                        uses[index].add(later)
                    left -= ends[later]
        for index in range(count):
            assert flow.before(index, row) == definitions[index], (row, index)
            assert set(flow.after(index, row)) == uses[index], (row, index)


def test_a_half_that_nothing_reads_is_not_live() -> None:
    _, live = live_of(PROGRAMS["halves"])
    assert not {"v1", "v2"} & names(live.before[3])
    assert {"v1", "v2"} <= names(live.before[6])


# ---------------------------------------------------------------------- garbage in what is dead


@pytest.mark.parametrize(
    ("name", "arch"),
    on_some_targets(["divide", "scan", "gemm", "sort", "collatz", "histogram"]),
)
def test_registers_that_are_not_live_may_hold_anything(
    name: str, arch: str, tmp_path: Path
) -> None:
    pytest.importorskip("triton")
    from test_emulator_whole_kernels import Compiled, same_bits

    compiled = Compiled(name, arch, tmp_path)
    function = compiled.emulator.code.function
    live = liveness(function, load_machine(arch))
    resources = function.resources
    needed = [(live.vgprs(i), live.agprs(i), live.sgprs(i)) for i in range(len(live.before))]
    vgprs, agprs, sgprs = (max(column) for column in zip(*needed, strict=True))
    assert vgprs + agprs <= (resources.vgpr_count or 0)
    assert sgprs <= (resources.sgpr_count or 0)
    rng = np.random.default_rng(3)
    spoiled = 0

    def spoiling(step: Any, dead_vectors: Array, dead_scalars: Array) -> Any:
        def run(waves: Any) -> None:
            garbage = rng.integers(0, 1 << 32, (len(dead_vectors), 1, waves.lanes), np.uint32)
            kept = ~waves.bits[None]
            waves.u32[dead_vectors] = (waves.u32[dead_vectors] & kept) | (garbage & waves.bits)
            waves.scalar[dead_scalars] = rng.integers(
                0, 1 << 32, (len(dead_scalars), waves.count), np.uint32
            )
            step(waves)

        return run

    for block in compiled.emulator.code.blocks:
        steps = []
        for registers, step, site in block.steps:
            before = live.before[site]
            vectors = [r for r in range(compiled.emulator.code.vector_registers)
                       if not before >> r & 1]  # fmt: skip
            scalars = [r for r in range(102) if not before >> (SCALAR_BIT + r) & 1]
            spoiled += len(vectors)
            steps.append((registers, spoiling(step, np.array(vectors, int),
                                              np.array(scalars, int)), site))  # fmt: skip
        block.steps = steps
    expected = np.ascontiguousarray(compiled.case.expected(compiled.case.buffers))
    assert same_bits(compiled.emulated(checks=False), expected)
    assert spoiled > 100


@pytest.mark.slow
@pytest.mark.parametrize(("name", "arch"), on_some_targets(["divide", "sort", "histogram"]))
def test_every_register_live_at_the_peak_is_needed(name: str, arch: str, tmp_path: Path) -> None:
    """Garbage in any of them changes the results: no renaming needs fewer registers than that.

    Kernels with masks are left out: what their idle lanes would hold is needed on no path that a
    run takes.
    """
    pytest.importorskip("triton")
    from test_emulator_whole_kernels import Compiled, same_bits

    compiled = Compiled(name, arch, tmp_path)
    code = compiled.emulator.code
    live = liveness(code.function, load_machine(arch))
    sites = {site for block in code.blocks for _, _, site in block.steps}
    peak = max(sites, key=lambda site: live.vgprs(site) + live.agprs(site))
    rows = [row for row in rows_of(live.before[peak]) if row < SCALAR_BIT]
    assert len(rows) > 2
    spoiled: list[int] = []
    rng = np.random.default_rng(3)

    def spoiling(step: Any) -> Any:
        def run(waves: Any) -> None:
            for row in spoiled:
                shape = waves.u32[row].shape
                waves.u32[row] ^= rng.integers(0, 1 << 32, shape, np.uint32)
            step(waves)

        return run

    for block in code.blocks:
        block.steps = [
            (registers, spoiling(step) if site == peak else step, site)
            for registers, step, site in block.steps
        ]
    expected = np.ascontiguousarray(compiled.case.expected(compiled.case.buffers))
    assert same_bits(compiled.emulated(checks=False), expected)
    idle = []
    for row in rows:
        spoiled[:] = [row]
        try:
            changed = not same_bits(compiled.emulated(checks=False), expected)
        except Exception:  # an address that points nowhere
            changed = True
        if not changed:
            idle.append(row)
    assert not idle
