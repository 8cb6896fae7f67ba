"""The wait dataflow against a machine that runs every path (`counter_machine.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import counter_machine
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.inspector import machines
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.waitflow import ranges
from kinspect.inspector.isa.waitflow.counters import decode_wait
from kinspect.inspector.isa.waitflow.registers import named
from kinspect.inspector.isa.waitflow.steps import CounterSteps, steps_of
from kinspect.inspector.isa.waitflow.verdicts import JudgedWait, judge
from kinspect.inspector.model import Function, Instruction, Metric
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context

Waits = Mapping[int, Mapping[str, int]]

HEAD = '.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.text\n.globl k\n.type k,@function\nk:\n'
TAIL = "s_endpgm\n.Lend:\n.size k, .Lend-k\n"


def function_of(arch: str, body: str) -> Function:
    return parse_text(HEAD.format(arch=arch) + body + TAIL, "k.s").functions[0]


def waits_in(function: Function, arch: str) -> dict[int, dict[str, int]]:
    machine = machines.load(arch)
    found = {}
    for inst in function.instructions:
        if inst.cls == "wait":
            fields, maxima = machine.waitcnt_fields, machine.counters
            found[inst.index] = decode_wait(inst.op.name, inst.operands, fields, maxima)
    return found


def judged(
    function: Function, arch: str, waits: Waits, maxima: Mapping[str, int] | None = None
) -> tuple[tuple[JudgedWait, ...], set[tuple[int, int]]]:
    maxima = machines.load(arch).counters if maxima is None else maxima

    def known(inst: Instruction) -> Mapping[str, int]:
        return waits.get(inst.index, {})

    steps: CounterSteps = steps_of(function, maxima, known)
    found = judge(steps, function, maxima)
    return found.waits, {(m.index, m.producer) for m in found.missing}


def verdicts_of(arch: str, body: str) -> list[tuple[str, int, str, int | None]]:
    function = function_of(arch, body)
    verdicts, missing = judged(function, arch, waits_in(function, arch))
    assert not missing
    return [(v.counter, v.n, v.verdict, v.could_be) for v in verdicts]


# ------------------------------------------------------------------------------ by hand


def test_a_wait_for_the_register_that_is_used_is_needed() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    global_load_dword v4, v[2:3], off
    s_waitcnt vmcnt(1)
    v_add_f32_e32 v5, v1, v1
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v5, v4, v4
    """
    assert verdicts_of("gfx942", body) == [
        ("vmcnt", 1, "needed", None),
        ("vmcnt", 0, "needed", None),
    ]


def test_a_drained_counter_says_what_would_do() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    global_load_dword v4, v[2:3], off
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v5, v1, v1
    """
    assert verdicts_of("gfx942", body) == [("vmcnt", 0, "over-strict", 1)]


SKIPPED_TWICE = """
    s_cmp_eq_u32 s4, 0
    s_cbranch_scc1 .Lmul
    global_load_dword v1, v[2:3], off
.Lmul:
    v_mul_f32_e32 v9, v9, v9
    {between}
    s_cmp_{second} s4, 0
    s_cbranch_scc{taken} .Lstore
    global_load_dword v4, v[2:3], off
.Lstore:
    s_waitcnt vmcnt(1)
    v_add_f32_e32 v5, v1, v1
"""


def missing_in(arch: str, body: str) -> set[str]:
    """Lines of the function that touch a register too early."""
    function = function_of(arch, body)
    _, missing = judged(function, arch, waits_in(function, arch))
    return {function.instructions[index].operands for index, _ in missing}


@pytest.mark.parametrize(
    ("second", "taken"),
    [("eq_u32", 1), ("lg_u32", 0), ("lg_i32", 0), ("gt_u32", 0), ("le_u32", 1)],
)
def test_what_is_skipped_under_one_condition_is_skipped_together(second: str, taken: int) -> None:
    body = SKIPPED_TWICE.format(between="", second=second, taken=taken)
    assert missing_in("gfx942", body) == set()


@pytest.mark.parametrize(
    ("between", "second", "taken"),
    [
        ("", "eq_u32", 0),  # the other way round
        ("", "gt_u32", 1),  # another condition
        ("s_sub_u32 s4, s4, 1", "eq_u32", 1),  # another value
        ("s_load_dword s4, s[0:1], 0x0\ns_waitcnt lgkmcnt(0)", "eq_u32", 1),
        ("v_readfirstlane_b32 s4, v9", "eq_u32", 1),
        ("s_swappc_b64 s[30:31], s[6:7]\nglobal_load_dword v1, v[2:3], off", "eq_u32", 1),
    ],
)
def test_a_condition_that_changed_joins_nothing(between: str, second: str, taken: int) -> None:
    body = SKIPPED_TWICE.format(between=between, second=second, taken=taken)
    assert missing_in("gfx942", body) == {"v5, v1, v1"}


SKIPPED_BELOW_3 = """
    s_cmp_eq_u32 s4, 0
    s_cbranch_scc1 .Lstore
    s_cmp_le_u32 s4, 2
    s_cbranch_scc1 .Lfew
    global_load_dword v1, v[2:3], off
.Lfew:
    {between}
    s_cmp_{second}
    s_cbranch_scc1 .Lstore
    s_waitcnt vmcnt(0)
.Lstore:
    v_add_f32_e32 v5, v1, v1
"""


@pytest.mark.parametrize(
    ("between", "second", "missing"),
    [
        ("", "lt_u32 s4, 3", False),
        ("", "lt_u32 s4, 4", True),  # 3 loads and does not wait
        ("", "gt_u32 3, s4", False),
        ("", "eq_u32 s4, 1", False),
        ("", "eq_u32 s4, 3", True),
        ("s_sub_u32 s6, s4, 1", "eq_i32 s6, 0", False),
        ("s_sub_u32 s6, s4, 1", "eq_i32 s6, 2", True),
        ("s_mov_b32 s6, s4\ns_add_u32 s6, s6, 2", "eq_u32 s6, 4", False),
        ("s_mov_b32 s6, s4\ns_add_u32 s6, s6, 2", "eq_u32 s6, 5", True),
        ("s_mul_i32 s4, s4, 2", "le_u32 s4, 2", True),  # nothing is known of a product
        ("s_sub_u32 s4, s4, 1", "eq_i32 s4, 0", True),  # nor of what counts
        ("", "lt_i32 s4, 3", True),  # 0x80000000 is less
    ],
)
def test_values_that_comparisons_leave_decide_others(
    between: str, second: str, missing: bool
) -> None:
    body = SKIPPED_BELOW_3.format(between=between, second=second)
    assert bool(missing_in("gfx942", body)) == missing


COMPARED = st.tuples(
    st.sampled_from(("eq", "lt", "le")),
    st.sampled_from(("i32", "u32")),
    st.integers(-3, 3),
    st.booleans(),  # the number stands first
    st.booleans(),  # it comes out true
)


@given(st.lists(COMPARED, max_size=6), st.integers(-5, 5))
def test_ranges_hold_the_values_that_pass_all_comparisons(
    comparisons: list[tuple[str, str, int, bool, bool]], plus: int
) -> None:
    """Beside both ends of the signed and the unsigned numbers, one value after the other."""
    tried = [n % 2**32 for edge in (0, 2**31) for n in range(edge - 12, edge + 12)]
    known: ranges.Ranges | None = frozenset()
    for kind, type_, number, first, outcome in comparisons:
        operands = f"{number}, s4" if first else f"s4, {number}"
        found = ranges.compared(kind, type_, operands)
        assert found is not None
        if known is not None:
            known = ranges.narrowed(known, *found, outcome)

    def passes(value: int) -> bool:
        for kind, type_, number, first, outcome in comparisons:
            pair = [value, number % 2**32]
            if type_ == "i32":
                pair = [n - 2**32 if n >= 2**31 else n for n in pair]
            left, right = reversed(pair) if first else pair
            holds = {"eq": left == right, "lt": left < right, "le": left <= right}[kind]
            if holds != outcome:
                return False
        return True

    register = named("s4")[0]
    kept = [value for value in tried if passes(value)]
    if known is None:
        assert kept == []
        return
    values = dict(known).get(register, ranges.ALL)
    assert [v for v in tried if any(a <= v <= b for a, b in values)] == kept
    moved = dict(ranges.after([ranges.RegisterChange(1, register, plus)], known)).get(1, ranges.ALL)
    sums = [(value + plus) % 2**32 for value in tried]
    shifted = [any(a <= one <= b for a, b in moved) for one in sums]
    assert [value for value, inside in zip(tried, shifted, strict=True) if inside] == kept


def test_a_flat_load_is_over_when_memory_says_so() -> None:
    """Whoever writes assembly knows that the address does not lie in LDS."""
    body = "flat_load_dword v1, v[2:3]\n{wait}\nv_add_f32_e32 v5, v1, v1\n"
    assert missing_in("gfx942", body.format(wait="s_waitcnt vmcnt(0)")) == set()
    assert missing_in("gfx942", body.format(wait="s_waitcnt lgkmcnt(0)")) == {"v5, v1, v1"}
    assert missing_in("gfx942", body.format(wait="s_nop 0")) == {"v5, v1, v1"}


def test_far_away_registers_may_count_what_is_outstanding() -> None:
    ladder = "".join(
        f"s_cmp_eq_u32 s{8 + k}, 0\ns_cbranch_scc1 .L{k}\nv_mov_b32_e32 v9, 0\n.L{k}:\n"
        for k in range(40)
    )
    near = "".join(ladder.partition(".L9:\n")[:2])
    body = "global_load_dword v1, v[2:3], off\n{}v_add_f32_e32 v5, v1, v1\n"
    assert missing_in("gfx942", body.format(near)) == {"v5, v1, v1"}
    assert missing_in("gfx942", body.format(ladder)) == set()


def test_nothing_outstanding_is_idle() -> None:
    assert verdicts_of("gfx942", "s_waitcnt vmcnt(0) lgkmcnt(0)\n") == [
        ("vmcnt", 0, "idle", None),
        ("lgkmcnt", 0, "idle", None),
    ]


def test_a_barrier_needs_what_was_written_to_lds() -> None:
    body = """
    ds_write_b32 v0, v1
    s_waitcnt lgkmcnt(0)
    s_nop 0
    s_barrier
    """
    assert verdicts_of("gfx942", body) == [("lgkmcnt", 0, "ordering", None)]


def test_a_read_before_a_barrier_is_needed_by_its_use_behind() -> None:
    body = """
    ds_read_b32 v1, v0
    s_waitcnt lgkmcnt(0)
    s_barrier
    v_add_u32_e32 v2, v1, v1
    """
    assert verdicts_of("gfx942", body) == [("lgkmcnt", 0, "needed", None)]
    unused = body.replace("v1, v1", "v3, v3")
    assert verdicts_of("gfx942", unused) == [("lgkmcnt", 0, "ordering", None)]


def test_scalar_loads_come_in_any_order() -> None:
    body = """
    s_load_dword s4, s[0:1], 0x0
    s_load_dword s5, s[0:1], 0x4
    s_waitcnt lgkmcnt(0)
    s_add_i32 s6, s4, s4
    """
    assert verdicts_of("gfx942", body) == [("lgkmcnt", 0, "needed", None)]


def test_scalar_and_lds_traffic_share_a_counter_but_not_an_order() -> None:
    # LLVM gives up here and waits for 0: the first of two reads needs only lgkmcnt(1).
    body = """
    ds_read_b32 v1, v0
    s_load_dword s4, s[0:1], 0x0
    ds_read_b32 v2, v0 offset:4
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v3, v1
    s_waitcnt lgkmcnt(0)
    v_mov_b32_e32 v3, v2
    s_mov_b32 s5, s4
    """
    function = function_of("gfx942", body)
    waits = waits_in(function, "gfx942")
    first = min(waits)
    loosened = {**waits, first: {"lgkmcnt": 1}}
    verdicts, missing = judged(function, "gfx942", loosened)
    assert not missing
    assert verdicts[0].verdict == "needed"


def test_a_wait_before_the_loop_serves_the_loop() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    s_waitcnt vmcnt(0)
    .LBB0_1:
    v_add_f32_e32 v5, v1, v5
    s_add_i32 s0, s0, -1
    s_cmp_lg_u32 s0, 0
    s_cbranch_scc1 .LBB0_1
    """
    assert verdicts_of("gfx942", body) == [("vmcnt", 0, "needed", None)]


def test_a_missing_wait_names_its_producer() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    ds_read_b32 v4, v0
    s_waitcnt lgkmcnt(0)
    v_add_f32_e32 v5, v1, v4
    """
    function = function_of("gfx942", body)
    _, missing = judged(function, "gfx942", waits_in(function, "gfx942"))
    assert missing == {(3, 0)}


def test_stores_have_a_counter_of_their_own_from_gfx10_on() -> None:
    body = """
    global_load_b32 v1, v[2:3], off
    global_store_b32 v[2:3], v4, off
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v5, v1, v1
    """
    assert verdicts_of("gfx1100", body) == [("vmcnt", 0, "needed", None)]


def test_halves_of_a_register_are_registers_of_their_own_from_gfx11_on() -> None:
    body = """
    ds_load_u8_d16 v1, v0
    ds_load_u8_d16_hi v1, v0 offset:32
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v2, v1
    """
    assert verdicts_of("gfx1100", body) == [("lgkmcnt", 0, "needed", None)]
    function = function_of("gfx90a", body.replace("load", "read"))
    _, missing = judged(function, "gfx90a", waits_in(function, "gfx90a"))
    assert missing == {(1, 0)}


@pytest.mark.parametrize(
    ("reader", "early"),
    [
        ("ds_store_b16 v4, v1", False),
        ("ds_store_b8 v4, v1 offset:16", False),
        ("global_store_b16 v[4:5], v1, off", False),
        ("buffer_store_b16 v1, v4, s[0:3], 0 offen", False),
        ("v_mov_b16_e32 v4.l, v1.l", False),
        ("v_mov_b16_e32 v1.l, v4.h", False),
        ("ds_store_b16_d16_hi v4, v1", True),
        ("global_store_d16_hi_b16 v[4:5], v1, off", True),
        ("buffer_store_d16_hi_b16 v1, v4, s[0:3], 0 offen", True),
        ("v_mov_b16_e32 v4.l, v1.h", True),
        ("v_mov_b32_e32 v4, v1", True),
        ("ds_store_b16 v1, v4", True),
        ("ds_store_b32 v4, v1", True),
    ],
)
def test_who_reads_the_other_half_of_a_register_need_not_wait(reader: str, early: bool) -> None:
    """LLVM 22 has no wait there: halves are registers of their own (SIInsertWaitcnts on gfx11)."""
    body = f"""
    global_load_d16_hi_b16 v1, v[2:3], off
    {reader}
    """
    function = function_of("gfx1100", body)
    _, missing = judged(function, "gfx1100", waits_in(function, "gfx1100"))
    assert missing == ({(1, 0)} if early else set())


def test_split_counters_of_gfx12() -> None:
    body = """
    s_load_b32 s4, s[0:1], 0x0
    global_load_b32 v1, v[2:3], off
    ds_load_b32 v6, v0
    s_wait_loadcnt_dscnt 0x0
    v_add_f32_e32 v5, v1, v6
    s_wait_kmcnt 0x0
    s_mov_b32 s5, s4
    """
    assert [v[2] for v in verdicts_of("gfx1201", body)] == ["needed"] * 3


def test_each_split_counter_covers_its_own_kind_only() -> None:
    loads = {
        "s_load_b32 s4, s[0:1], 0x0": ("s_mov_b32 s5, s4", "kmcnt"),
        "global_load_b32 v1, v[2:3], off": ("v_mov_b32_e32 v5, v1", "loadcnt"),
        "ds_load_b32 v6, v0": ("v_mov_b32_e32 v5, v6", "dscnt"),
    }
    for arch in ("gfx1201", "gfx1250"):
        for load, (use, right) in loads.items():
            for counter in ("kmcnt", "loadcnt", "dscnt", "storecnt"):
                function = function_of(arch, f"{load}\ns_wait_{counter} 0x0\n{use}\n")
                _, missing = judged(function, arch, waits_in(function, arch))
                assert missing == (set() if counter == right else {(2, 0)})


def test_async_and_tensor_copies_of_gfx1250() -> None:
    body = """
    global_load_async_to_lds_b128 v1, v[2:3], off
    global_load_b32 v5, v[2:3], off
    tensor_load_to_lds s[0:3], s[4:11]
    s_wait_asynccnt 0x0
    s_wait_tensorcnt 0x0
    s_wait_loadcnt 0x0
    s_barrier_signal -1
    s_barrier_wait -1
    ds_load_b32 v6, v0
    s_wait_dscnt 0x0
    v_add_f32_e32 v7, v6, v5
    """
    assert verdicts_of("gfx1250", body) == [
        ("asynccnt", 0, "ordering", None),
        ("tensorcnt", 0, "ordering", None),
        ("loadcnt", 0, "needed", None),
        ("dscnt", 0, "needed", None),
    ]


def test_an_async_copy_is_not_over_before_its_wait() -> None:
    # Two copies, and the barrier needs the first alone: the second may stay under way.
    body = """
    global_load_async_to_lds_b128 v1, v[2:3], off
    global_load_async_to_lds_b128 v4, v[2:3], off
    s_wait_asynccnt 0x1
    s_barrier_signal -1
    s_barrier_wait -1
    s_wait_asynccnt 0x0
    s_barrier_signal -1
    s_barrier_wait -1
    """
    assert verdicts_of("gfx1250", body) == [
        ("asynccnt", 1, "ordering", None),
        ("asynccnt", 0, "ordering", None),
    ]


def test_a_wait_that_another_repeats_could_be_looser() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    global_load_dword v4, v[2:3], off
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v5, v1, v1
    s_waitcnt vmcnt(0)
    v_add_f32_e32 v5, v4, v4
    """
    assert verdicts_of("gfx942", body) == [
        ("vmcnt", 0, "over-strict", 1),
        ("vmcnt", 0, "idle", None),
    ]


def test_the_report_counts_what_waits_are_for() -> None:
    body = """
    global_load_dword v1, v[2:3], off
    global_load_dword v4, v[2:3], off
    s_waitcnt vmcnt(1)
    v_add_f32_e32 v5, v1, v1
    .LBB0_1:
    v_add_f32_e32 v5, v4, v5
    ds_read_b32 v6, v0
    s_waitcnt lgkmcnt(0)
    v_add_f32_e32 v5, v6, v5
    s_cbranch_scc1 .LBB0_1
    s_waitcnt vmcnt(0)
    """
    text = HEAD.format(arch="gfx942") + body + TAIL
    report = next(iter(analyze_text(text, Context(path="k.s"))))
    names = ("needed", "over_strict", "ordering", "idle", "missing", "tight", "slack.min")

    def used(metrics: Mapping[str, Metric]) -> list[object]:
        return [metrics[f"wait_use.{name}"].value for name in names]

    # Nobody waits for v4 before the loop, and no register is left to wait for behind it.
    assert used(report.metrics) == [2, 0, 0, 1, 1, 2, 0]
    assert used(report.loops[0].metrics) == [1, 0, 0, 0, 1, 1, 0]
    (gap,) = [wait for wait in report.waits if wait.verdict == "missing"]
    assert (gap.line, gap.waits_for, gap.slack) == (12, (8,), None)
    needed = [wait for wait in report.waits if wait.verdict == "needed"]
    assert [(wait.slack, wait.slack_cycles) for wait in needed] == [(1, 0), (0, 0)]


# ------------------------------------------------------------------------- generated programs

ARCHS = {"gfx942": ("vmcnt", "lgkmcnt"), "gfx1100": ("vmcnt", "lgkmcnt"), "gfx1201": ()}
REGISTER = st.integers(0, 3)


def _load(arch: str, n: int) -> str:
    return f"global_load_{'dword' if arch == 'gfx942' else 'b32'} v{n}, v[10:11], off"


def _lds(arch: str, n: int) -> str:
    return f"ds_{'read' if arch == 'gfx942' else 'load'}_b32 v{n}, v12"


def _scalar(arch: str, n: int) -> str:
    return f"s_load_{'dword' if arch == 'gfx942' else 'b32'} s{n}, s[10:11], 0x0"


def _store(arch: str, n: int) -> str:
    return f"global_store_{'dword' if arch == 'gfx942' else 'b32'} v[10:11], v{n}, off"


def _use(_: str, n: int) -> str:
    return f"v_mov_b32_e32 v13, v{n}"


def _use_scalar(_: str, n: int) -> str:
    return f"s_mov_b32 s13, s{n}"


def _wait(arch: str, n: int) -> str:
    if arch == "gfx1201":
        return f"s_wait_{('loadcnt', 'dscnt', 'kmcnt', 'loadcnt')[n]} {n}"
    return f"s_waitcnt {('vmcnt', 'lgkmcnt')[n % 2]}({n // 2})"


KINDS = (_load, _load, _lds, _scalar, _store, _use, _use, _use_scalar, _wait, _wait)
PIECES = st.lists(st.tuples(st.sampled_from(KINDS), REGISTER), min_size=1, max_size=7)


def text_of(arch: str, pieces: list[tuple[object, int]]) -> str:
    return "".join(f"{make(arch, n)}\n" for make, n in pieces)  # type: ignore[operator]


@st.composite
def programs(draw: st.DrawFn) -> tuple[str, Function]:
    """Straight lines, loops and branches over them, in any nesting of two."""
    arch = draw(st.sampled_from(sorted(ARCHS)))
    parts = [text_of(arch, draw(PIECES)) for _ in range(4)]
    branch = "s_cbranch_scc1"
    shape = draw(st.sampled_from(["straight", "loop", "diamond", "both"]))
    if shape == "loop":
        parts[1] = f".LBB0_1:\n{parts[1]}{branch} .LBB0_1\n"
    elif shape == "diamond":
        parts[1] = f"{branch} .LBB0_2\n{parts[1]}s_branch .LBB0_3\n"
        parts[2] = f".LBB0_2:\n{parts[2]}.LBB0_3:\n"
    elif shape == "both":
        parts[0] += ".LBB0_1:\n"
        parts[1] = f"{branch} .LBB0_2\n{parts[1]}"
        parts[2] = f".LBB0_2:\n{parts[2]}{branch} .LBB0_1\n"
    return arch, function_of(arch, "".join(parts))


def small(arch: str) -> dict[str, int]:
    """Counters that are full soon: the machine then has few states, and the limit shows."""
    return dict.fromkeys(counter_machine.LIMITS[counter_machine.generation(arch)], 3)


@given(programs())
@settings(max_examples=300, deadline=None)
def test_missing_is_what_the_machine_runs_into(program: tuple[str, Function]) -> None:
    arch, function = program
    waits = waits_in(function, arch)
    _, missing = judged(function, arch, waits, small(arch))
    assert missing == counter_machine.explore(function, arch, waits, small(arch))


@given(st.sampled_from(sorted(ARCHS)), PIECES)
@settings(max_examples=150, deadline=None)
def test_the_machine_is_right_about_what_may_be_under_way(
    arch: str, pieces: list[tuple[object, int]]
) -> None:
    function = function_of(arch, text_of(arch, pieces))
    waits = waits_in(function, arch)
    exact = counter_machine.explore_completions(function, arch, waits)
    assert counter_machine.explore(function, arch, waits) == exact


@given(programs())
@settings(max_examples=300, deadline=None)
def test_a_verdict_is_what_loosening_shows(program: tuple[str, Function]) -> None:
    arch, function = program
    waits = waits_in(function, arch)
    before = counter_machine.explore(function, arch, waits, small(arch))
    verdicts, _ = judged(function, arch, waits, small(arch))
    for verdict in verdicts:

        def early(n: int, verdict: JudgedWait = verdict) -> set[tuple[int, int]]:
            changed = {**waits, verdict.index: {**waits[verdict.index], verdict.counter: n}}
            return counter_machine.explore(function, arch, changed, small(arch))

        if verdict.verdict == "needed":
            continue
        # Whatever is not needed may be as loose as is said, or be gone.
        loosest = 3 if verdict.could_be is None else verdict.could_be
        if verdict.verdict == "ordering":
            loosest = verdict.n
        assert early(loosest) <= before, verdict
        if verdict.could_be is not None and not before:
            assert early(verdict.could_be + 1) > before, verdict


def test_the_report_holds_verdicts_and_what_is_missing(small_asm: Path) -> None:
    text = small_asm.read_text()
    report = next(iter(analyze_text(text, Context(path="small.s"))))
    assert {wait.verdict for wait in report.waits} <= {"needed", "ordering", "over-strict", "idle"}
    assert "needed" in {wait.verdict for wait in report.waits}
    without = "\n".join(line for line in text.splitlines() if "s_waitcnt vmcnt" not in line)
    damaged = next(iter(analyze_text(without, Context(path="small.s"))))
    gaps = [wait for wait in damaged.waits if wait.verdict == "missing"]
    assert gaps
    assert all(gap.waits_for and gap.counter == "vmcnt" for gap in gaps)


def test_damaged_operands_cost_nothing() -> None:
    body = "global_load_dword v[0:999999999], v[2:3], off\ns_waitcnt vmcnt(0)\n" * 2
    assert len(verdicts_of("gfx942", body)) == 2


def test_a_mask_of_32_lanes_leaves_the_upper_half_of_vcc_alone() -> None:
    body = "s_load_b32 vcc_hi, s[0:1], 0x0\nv_div_fmas_f32 v1, v2, v3, v4\ns_wait_kmcnt 0x0\n"
    tail = "s_mov_b32 s2, vcc_hi\n"
    kernel = ".rodata\n.amdhsa_kernel k\n.amdhsa_next_free_vgpr 8\n.amdhsa_next_free_sgpr 8\n{}"
    kernel += ".end_amdhsa_kernel\n"
    for wave32, missing in ((1, set()), (0, {"v1, v2, v3, v4"})):
        text = HEAD.format(arch="gfx1201") + body + tail + TAIL
        text += kernel.format(f".amdhsa_wavefront_size32 {wave32}\n")
        function = parse_text(text, "k.s").functions[0]
        _, found = judged(function, "gfx1201", waits_in(function, "gfx1201"))
        assert {function.instructions[index].operands for index, _ in found} == missing
