"""Needless barriers: by hand, and against every path of generated programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kinspect.inspector import machines
from kinspect.inspector.isa.barriers import needless
from kinspect.inspector.isa.waitflow.steps import steps_of
from kinspect.inspector.isa.waitflow.verdicts import judge
from kinspect.inspector.model import Function, KernelReport
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.context import Context
from kinspect.inspector.pipeline.jobs import Request
from test_waitflow import HEAD, TAIL, function_of, waits_in


def found(
    function: Function, arch: str, *, alone: bool = False, same_barriers: bool | None = True
) -> list[int] | None:
    """Indices of the barriers that could go; all waves go the same way if not said otherwise."""
    waits, maxima = waits_in(function, arch), machines.load(arch).counters
    steps = steps_of(function, maxima, lambda inst: waits.get(inst.index, {}))
    completions = judge(steps, function, maxima).completions
    gone = needless(function, completions, single_wave=alone, same_barriers=same_barriers)
    return None if gone is None else sorted(gone)


def of(body: str, arch: str = "gfx942", *, alone: bool = False) -> list[int] | None:
    return found(function_of(arch, body), arch, alone=alone)


WRITE, READ, BARRIER = "ds_write_b32 v0, v1\n", "ds_read_b32 v2, v0\n", "s_barrier\n"
LOAD, STORE = "global_load_dword v3, v[4:5], off\n", "global_store_dword v[4:5], v6, off\n"
WAIT = "s_waitcnt vmcnt(0) lgkmcnt(0)\n"
WORK = "v_add_f32_e32 v7, v8, v9\n"

# ------------------------------------------------------------------------------ by hand


@pytest.mark.parametrize(
    ("first", "second"),
    [(WRITE, READ), (READ, WRITE), (WRITE, WRITE), (STORE, LOAD), (LOAD, STORE), (STORE, STORE)],
)
def test_what_collides_needs_the_barrier(first: str, second: str) -> None:
    assert of(first + WAIT + BARRIER + second) == []


@pytest.mark.parametrize(
    ("first", "second"), [(READ, READ), (LOAD, LOAD), (WRITE, LOAD), (LOAD, WRITE), ("", READ)]
)
def test_what_does_not_collide_needs_none(first: str, second: str) -> None:
    assert of(first + WAIT + BARRIER + second) == [(first + WAIT).count("\n")]


def test_a_barrier_that_a_branch_jumps_over_is_not_judged_unless_waves_were_followed() -> None:
    """So waves begin to take turns: one of them passes a barrier more, with nothing before it."""
    staggered = f"s_cbranch_scc1 .LBB0_2\n{BARRIER}.LBB0_2:\n{READ}{WAIT}{WRITE}{WAIT}{BARRIER}"
    function = function_of("gfx942", staggered)
    assert found(function, "gfx942", same_barriers=None) is None
    assert found(function, "gfx942", same_barriers=False) is None
    assert found(function, "gfx942", same_barriers=True) == [1, 6]
    always = function_of("gfx942", f"{BARRIER}{READ}{WAIT}{BARRIER}")
    assert found(always, "gfx942", same_barriers=None) == [0, 3]
    assert found(always, "gfx942", same_barriers=False) is None


def test_of_two_barriers_in_a_row_one_could_go() -> None:
    assert of(WRITE + WAIT + BARRIER + WORK + BARRIER + READ) == [2]


def test_the_last_barrier_of_a_kernel() -> None:
    assert of(WRITE + WAIT + BARRIER + READ + WAIT + BARRIER + WORK) == [5]


def test_a_loop_brings_its_end_before_its_beginning() -> None:
    # The read of one iteration must not meet the write of the next.
    loop = ".LBB0_1:\n" + WRITE + WAIT + BARRIER + READ + WAIT + "{}s_cbranch_scc1 .LBB0_1\n"
    assert of(loop.format(BARRIER)) == []
    assert of(loop.format(BARRIER + BARRIER)) == [5]
    assert of(loop.format("")) == []


def test_an_access_lasts_until_its_wait() -> None:
    # The copy into LDS is issued before the first barrier, and there only before the second.
    copy = "buffer_load_dword v0, s[4:7], 0 offen lds\n"
    assert of(copy + BARRIER + WAIT + BARRIER + READ) == []
    assert of(copy + WAIT + BARRIER + WORK + BARRIER + READ) == [2]


def test_generic_addresses_may_lie_in_lds() -> None:
    assert of("flat_store_dword v[4:5], v6\n" + WAIT + BARRIER + READ) == []
    assert of("flat_load_dword v6, v[4:5]\n" + WAIT + BARRIER + READ) == [2]
    assert of("flat_load_dword v6, v[4:5]\n" + WAIT + BARRIER + WRITE) == []


def test_what_is_not_known_may_do_anything() -> None:
    assert of(READ + WAIT + BARRIER + "ds_frobnicate v1, v2\n") == []
    assert of(READ + WAIT + BARRIER + "s_swappc_b64 s[30:31], s[4:5]\n") == []


def test_a_wave_alone_waits_for_nobody() -> None:
    assert of(WRITE + WAIT + BARRIER + READ, alone=True) == [2]


def test_waves_that_take_turns_are_not_judged() -> None:
    assert of(BARRIER + "s_setprio 1\n" + BARRIER) is None
    assert of("s_setprio 1\n") == []


SPLIT = "s_barrier_signal -1\n{}s_barrier_wait -1\n"


def test_split_barriers() -> None:
    write, read = "ds_store_b32 v0, v1\ns_wait_dscnt 0x0\n", "ds_load_b32 v2, v0\n"
    assert of(write + SPLIT.format("") + read, "gfx1201") == []
    assert of(read + SPLIT.format("") + read, "gfx1201") == [2]
    # What stands between signal and wait is ordered by the barriers around, not by this one.
    assert of(write + SPLIT.format(read), "gfx1201") == [4]
    both = SPLIT.format("") + SPLIT.format(write) + read
    assert of(both, "gfx1201") == [1, 5]
    assert of(write + SPLIT.format("") + SPLIT.format(read) + read, "gfx1201") == [6]


def test_split_across_blocks_or_named_is_not_judged() -> None:
    apart = "s_barrier_signal -1\ns_cbranch_scc1 .LBB0_1\nv_nop\n.LBB0_1:\ns_barrier_wait -1\n"
    assert of(apart, "gfx1201") == []
    assert of("s_barrier_signal 1\ns_barrier_wait 1\n", "gfx1250") is None
    assert of("s_barrier_signal -3\ns_barrier_wait -3\n", "gfx1250") is None
    assert of("s_barrier_signal_isfirst -1\ns_barrier_wait -1\n", "gfx1201") is None


def report_of(body: str, arch: str = "gfx942", more: str = "") -> KernelReport:
    text = HEAD.format(arch=arch) + body + TAIL + more
    return next(iter(analyze_text(text, Context(path="k.s"))))


def test_the_report_counts_them() -> None:
    loop = ".LBB0_1:\n" + WRITE + WAIT + BARRIER + READ + WAIT + BARRIER + BARRIER
    report = report_of(BARRIER + loop + "s_cbranch_scc1 .LBB0_1\n")
    assert report.metrics["barriers.redundant"].value == 2
    assert report.metrics["barriers.redundant"].note == "in line 6, 13"
    assert report.loops[0].metrics["barriers.redundant"].value == 1
    unknown = report_of("s_setprio 0\n" + BARRIER)
    assert unknown.metrics["barriers.redundant"].value is None


# ------------------------------------------------------------------------- generated programs

PIECES = st.lists(
    st.sampled_from([WRITE, READ, LOAD, STORE, WAIT, WORK, BARRIER, BARRIER]), max_size=5
)
SPLIT_PIECES = st.lists(
    st.sampled_from(
        [
            "ds_store_b32 v0, v1\n",
            "ds_load_b32 v2, v0\n",
            "s_wait_dscnt 0x0\n",
            SPLIT.format(""),
            SPLIT.format("ds_load_b32 v2, v0\n"),
        ]
    ),
    max_size=4,
)


@st.composite
def programs(draw: st.DrawFn, pieces: st.SearchStrategy[list[str]]) -> str:
    parts = ["".join(draw(pieces)) for _ in range(4)]
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
    return "".join(parts)


def paths(function: Function, turns: int = 4) -> Iterator[list[int]]:
    """Every path that goes no block more often than `turns` times, as instructions."""
    todo: list[tuple[int, ...]] = [(0,)]
    while todo:
        path = todo.pop()
        blocks = [function.blocks[i] for i in path]
        if not blocks[-1].successors:
            yield [i for b in blocks for i in range(b.start, b.stop)]
        todo.extend((*path, s) for s in blocks[-1].successors if path.count(s) < turns)


Access = tuple[int, str, bool]
"""Where on the path, which memory, whether it writes."""


def accesses(function: Function, path: list[int]) -> list[Access]:
    """Each access at its issue, and again where a wait for everything ends it."""
    seen: list[Access] = []
    under_way: list[tuple[str, bool]] = []
    for place, index in enumerate(path):
        name = function.instructions[index].mnemonic
        space = {"ds": "lds", "global": "memory"}.get(name.partition("_")[0])
        if space is not None:
            writes = "write" in name or "store" in name
            seen.append((place, space, writes))
            under_way.append((space, writes))
        elif name.startswith(("s_waitcnt", "s_wait_")):
            seen += [(place, *one) for one in under_way]
            under_way = []
    return seen


def needs(function: Function) -> set[frozenset[int]]:
    """For each pair that collides on some path: the barriers that keep it apart, one is enough.

    A barrier orders a pair that comes before its signal and after its wait.
    """
    code = function.instructions
    found: set[frozenset[int]] = set()
    for path in paths(function):
        touched = accesses(function, path)
        barriers = []  # place of the signal, place of the wait, the barrier
        signal = -1
        for place, index in enumerate(path):
            name = code[index].mnemonic
            if name in ("s_barrier_signal", "s_barrier"):
                signal = place
            if name in ("s_barrier_wait", "s_barrier"):
                barriers.append((signal, place, index))
        for number, (at, space, writes) in enumerate(touched):
            for later, where, overwrites in touched[number + 1 :]:
                if space == where and (writes or overwrites):
                    found.add(frozenset(b for s, w, b in barriers if at < s and w < later))
    return found - {frozenset()}


def brute_force(function: Function) -> list[int]:
    """Barriers of which no path has need, taken away one after the other."""
    wanted = needs(function)
    code = function.instructions
    everyone = {i.index for i in code if i.mnemonic in ("s_barrier", "s_barrier_wait")}
    kept = set(everyone)
    for barrier in sorted(everyone):
        if all(one & (kept - {barrier}) for one in wanted):
            kept.discard(barrier)
    return sorted(everyone - kept)


@given(programs(PIECES))
@settings(max_examples=250)
def test_no_path_needs_what_is_called_needless(body: str) -> None:
    function = function_of("gfx942", body)
    gone = set(found(function, "gfx942") or ())
    assert all(one - gone for one in needs(function))


@given(programs(PIECES))
@settings(max_examples=250)
def test_needless_is_what_no_path_needs(body: str) -> None:
    # Without waits: where an access may last until one of them, more barriers are kept than must.
    function = function_of("gfx942", body.replace(WAIT, ""))
    assert found(function, "gfx942") == brute_force(function)


@given(programs(SPLIT_PIECES))
@settings(max_examples=150)
def test_needless_split_barriers(body: str) -> None:
    function = function_of("gfx1201", body.replace("s_wait_dscnt 0x0\n", ""))
    assert found(function, "gfx1201") == brute_force(function)
    waiting = function_of("gfx1201", body)
    gone = set(found(waiting, "gfx1201") or ())
    assert all(one - gone for one in needs(waiting))


# ------------------------------------------------------------------------- compiled code

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def total(x, y, TIMES: tl.constexpr):
    at = tl.arange(0, 512)
    value = tl.sum(tl.load(x + at))
    for _ in tl.static_range(TIMES):
        tl.debug_barrier()
    tl.store(y, value)

KINSPECT_CASES = [
    {"name": f"times{n}", "kernel": "total", "signature": {"x": "*fp32:16", "y": "*fp32:16"},
     "constexprs": {"TIMES": n}, "options": {"num_warps": 4}}
    for n in (0, 3)
]
"""


def test_barriers_of_a_compiled_kernel(tmp_path: Path) -> None:
    """A sum across waves needs its barrier; those of `tl.debug_barrier` behind it order nothing."""
    pytest.importorskip("triton")
    path = tmp_path / "total.py"
    path.write_text(KERNEL)
    report = collect(Request((str(path),), archs=("gfx942", "gfx1201"), jobs=1, passes=False))
    assert not report.errors
    seen = {
        (kernel.arch, kernel.variant.case): (
            kernel.metrics["count.barrier"].value,
            kernel.metrics["barriers.redundant"].value,
        )
        for kernel in report.kernels
        if kernel.variant is not None
    }
    for arch in ("gfx942", "gfx1201"):
        assert seen[arch, "times0"] == (1, 0)
        assert seen[arch, "times3"] == (4, 3)
