"""Verdicts on figures that differ: cliffs, hot loops, tolerances, what cannot be compared.

Occupancy comes from the model of occupancy itself, which other tests hold against LLVM.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest
from kinspect.inspector import machines
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.compare.diff import diff_view
from kinspect.inspector.compare.diff.diff_results import DiffReport, FigureChange, KernelDiff
from kinspect.inspector.compare.diff.reports import (
    DiffOptions,
    NamedReport,
    diff_kernels,
    diff_reports,
)
from kinspect.inspector.compare.diff.tolerances import JUDGED, Tolerances, tolerances_of
from kinspect.inspector.formats import diff_json
from kinspect.inspector.metrics.given_metrics import US as TIME_US
from kinspect.inspector.metrics.occupancy import metrics
from kinspect.inspector.model import (
    Demand,
    ErrorRecord,
    Finding,
    KernelReport,
    LoopHeader,
    LoopReport,
    Metric,
    Report,
    SourceLoc,
    Variant,
)
from kinspect.inspector.model.time import KernelTime
from kinspect.inspector.present import diff as present
from msgspec.structs import replace

NONE = Tolerances({})
MIRRORED = {"regression": "improvement", "improvement": "regression"}


def metric(name: str, value: Any, unit: str = "") -> Metric:
    return Metric(name, value, unit, "derived")


def loop(
    *, ident: str = "L0", line: int = 10, unroll: int | None = 1, hot: bool = True, **counts: Any
) -> LoopReport:
    """A hot loop; `mfma=16` is `count.mfma`, a full name is itself."""
    found = {"instructions": 100, "mfma": 0, "wmma": 0, "scratch_load": 0, "scratch_store": 0}
    found |= {"full_wait": 4, "barrier": 1, "acc_move": 0, **counts}
    named = {k if "." in k else f"count.{k}": v for k, v in found.items()}
    return LoopReport(
        id=ident,
        depth=1,
        parent=None,
        header=LoopHeader(100 + line, None),
        lines=((100 + line, 200 + line),),
        source=(SourceLoc("k.py", line), SourceLoc("k.py", line + 1)),
        hot=hot,
        unroll=unroll,
        metrics={name: metric(name, value) for name, value in named.items()},
    )


def kernel(
    *loops: LoopReport,
    vgprs: int = 100,
    sgprs: int = 30,
    lds: int | None = 16384,
    waves: int = 4,
    arch: str = "gfx942",
    name: str = "k",
    findings: tuple[Finding, ...] = (),
    **figures: Any,
) -> KernelReport:
    """A report whose occupancy follows from its registers and LDS."""
    asked = Demand(
        vgprs=vgprs,
        agprs=0,
        sgprs=sgprs,
        lds_bytes=lds,
        waves_per_workgroup=waves,
        wave_size=64,
        cu_mode=False,
        llvm="triton",
        vgprs_requested=vgprs,
        compiler_lds=0,
    )
    stated = {
        "vgpr_count": vgprs,
        "sgpr_count": sgprs,
        "lds_bytes": lds,
        "vgpr_spill_count": 0,
        "scratch_bytes": 0,
        "code_bytes": 4096,
        "instruction_count": 900,
        "waves_per_workgroup": waves,
        "empty": False,
        **figures,
    }
    return KernelReport(
        id=f"{name}.py::{name}@{arch}",
        name=name,
        arch=arch,
        source=SourceLoc(f"{name}.py", 1),
        variant=None,
        artifacts={},
        metrics={
            **metrics(machines.load(arch), asked, None),
            **{n: metric(n, v, "bytes" * n.endswith("_bytes")) for n, v in stated.items()},
        },
        loops=loops,
        main_loop=loops[0].id if loops else None,
        memory_ops=(),
        waits=(),
        findings=findings,
    )


def compared(left: KernelReport, right: KernelReport, *tolerances: str) -> KernelDiff:
    return diff_kernels(left, right, tolerances_of(tolerances))


def change(pair: KernelDiff, name: str) -> FigureChange:
    (one,) = [c for c in pair.changes if c.name == name]
    return one


# --------------------------------------------------------------------------- steps


def test_equal_reports_are_the_same() -> None:
    pair = compared(kernel(loop()), kernel(loop()))
    assert (pair.verdict, pair.changes) == ("same", ())


def test_a_rise_in_vgprs_that_costs_no_wave_is_neutral() -> None:
    pair = compared(kernel(loop(), vgprs=208), kernel(loop(), vgprs=216))
    assert pair.verdict == "neutral"
    found = change(pair, "vgpr_count")
    assert found.judgement == "neutral"
    assert found.why == "208 → 216 VGPRs: still 2 waves/SIMD"


def test_vgprs_over_a_step_are_a_regression_by_the_waves() -> None:
    pair = compared(kernel(loop(), vgprs=128), kernel(loop(), vgprs=136))
    assert pair.verdict == "regression"
    assert change(pair, "occupancy.waves_per_eu").why == "4 → 3 waves/SIMD: limited by VGPRs"
    assert change(pair, "vgpr_count").why == "128 → 136 VGPRs: 4 → 3 waves/SIMD"
    assert not change(pair, "vgpr_count").matters  # one loss is not counted twice


def test_fewer_vgprs_for_a_few_more_sgprs_are_an_improvement() -> None:
    pair = compared(kernel(loop(), vgprs=208, sgprs=26), kernel(loop(), vgprs=128, sgprs=30))
    assert pair.verdict == "improvement"
    assert change(pair, "vgpr_count").judgement == "improvement"
    assert change(pair, "sgpr_count").judgement == "neutral"
    assert change(pair, "occupancy.waves_per_eu").left == 2
    assert change(pair, "occupancy.waves_per_eu").right == 4


def test_fewer_vgprs_bought_with_spills_in_the_loop_are_mixed() -> None:
    before = kernel(loop(), vgprs=208)
    after = kernel(loop(scratch_load=8, scratch_store=8), vgprs=128, vgpr_spill_count=16)
    pair = compared(before, after)
    assert pair.verdict == "mixed"
    assert {c.name for c in pair.of("regression", matters=True)} == {
        "count.scratch_load",
        "count.scratch_store",
    }


def test_lds_matters_where_a_workgroup_less_is_resident() -> None:
    # 64 KiB: 24 KiB fit twice and 20 KiB three times; 4 waves on 4 SIMDs are one of each.
    pair = compared(kernel(loop(), lds=20 << 10), kernel(loop(), lds=24 << 10))
    assert pair.verdict == "regression"
    assert change(pair, "lds_bytes").judgement == "regression"
    assert change(pair, "occupancy.waves_per_eu").why == "3 → 2 waves/SIMD: limited by LDS"
    pair = compared(kernel(loop(), lds=22 << 10), kernel(loop(), lds=30 << 10))
    assert pair.verdict == "neutral"
    assert change(pair, "lds_bytes").why == "22528 → 30720 bytes LDS: still 2 waves/SIMD"


def test_what_does_not_limit_is_not_blamed() -> None:
    # 160 VGPRs would have left three workgroups as well.
    pair = compared(kernel(loop(), lds=20 << 10), kernel(loop(), lds=40 << 10, vgprs=160))
    assert change(pair, "lds_bytes").judgement == "regression"
    found = change(pair, "vgpr_count")
    assert found.judgement == "neutral"
    assert found.why == "100 → 160 VGPRs: the 3 → 1 waves/SIMD are not from this"
    # The option asks for more VGPRs than are used: fewer used are not what costs the waves.
    asked = kernel(loop(), vgprs=250, vgpr_count=120)
    pair = compared(kernel(loop(), vgprs=128), asked)
    assert change(pair, "occupancy.waves_per_eu").judgement == "regression"
    assert change(pair, "vgpr_count").judgement == "neutral"


def test_a_kernel_that_no_longer_fits_cannot_be_launched() -> None:
    pair = compared(kernel(loop(), lds=32 << 10), kernel(loop(), lds=80 << 10))
    assert pair.verdict == "regression"
    assert "cannot be launched" in change(pair, "occupancy.waves_per_eu").why


def test_where_one_side_cannot_be_launched_no_other_figure_counts() -> None:
    spilling = kernel(loop(count__scratch_load=40), vgpr_spill_count=40)
    too_large = kernel(loop(), lds=98304)
    assert compared(spilling, too_large).verdict == "regression"
    assert compared(too_large, spilling).verdict == "improvement"


def test_code_over_the_instruction_cache_is_said_and_does_not_decide() -> None:
    size = machines.load("gfx942").icache_bytes
    assert size == 65536
    pair = compared(kernel(loop(), code_bytes=size), kernel(loop(), code_bytes=size + 4))
    assert pair.verdict == "neutral"
    assert change(pair, "code_bytes").judgement == "regression"
    assert "no longer fits" in change(pair, "code_bytes").why
    pair = compared(kernel(loop(), code_bytes=100), kernel(loop(), code_bytes=size))
    assert change(pair, "code_bytes").judgement == "neutral"


def test_a_kernel_that_compiles_to_nothing() -> None:
    pair = compared(kernel(), kernel(empty=True))
    assert pair.verdict == "regression"
    assert change(pair, "empty").why == "it compiles to nothing now"


# --------------------------------------------------------------------------- hot loops


def test_spills_outside_of_hot_loops_are_neutral() -> None:
    pair = compared(kernel(loop()), kernel(loop(), vgpr_spill_count=40, scratch_bytes=160))
    assert pair.verdict == "neutral"
    assert change(pair, "vgpr_spill_count").why == "0 → 40 spilled VGPRs: none in a hot loop"


def test_spills_in_a_hot_loop_are_a_regression() -> None:
    pair = compared(kernel(loop()), kernel(loop(scratch_load=1), vgpr_spill_count=1))
    assert pair.verdict == "regression"
    assert change(pair, "count.scratch_load").judgement == "regression"
    total = change(pair, "vgpr_spill_count")
    assert "judged there" in total.why
    assert (total.judgement, total.matters) == ("regression", False)


def test_spills_gone_from_a_hot_loop_are_a_gain_that_the_verdict_names() -> None:
    spilling = loop(scratch_load=9, scratch_store=3, mfma=16, **{"cycles.mfma": 256})
    before = kernel(spilling, vgpr_spill_count=12)
    after = kernel(loop(mfma=16, **{"cycles.mfma": 512}))
    pair = compared(before, after)
    assert pair.verdict == "mixed"
    total = change(pair, "vgpr_spill_count")
    assert (total.judgement, total.matters) == ("improvement", False)
    words = diff_view.reason_in_short(pair)
    assert words.startswith("worse: 256 → 512 ")
    assert "; better: 9 → 0 loads from scratch, 3 → 0 stores to scratch" in words


def test_what_a_figure_is_per_can_be_said_apart() -> None:
    pair = compared(
        kernel(loop(instructions=100, mfma=16)), kernel(loop(instructions=300, mfma=16))
    )
    count = change(pair, "count.instructions")
    assert count.basis
    assert count.basis in count.figures
    assert count.basis not in count.brief
    assert count.brief.startswith("100 → 300 ")
    assert count.figures.replace(f" {count.basis}", "") == count.brief


def test_spills_of_a_kernel_without_loops_count() -> None:
    before = kernel(**{"count.scratch_load": 0, "count.scratch_store": 0})
    after = kernel(**{"count.scratch_load": 3, "count.scratch_store": 3})
    assert compared(before, after).verdict == "regression"


def test_a_loop_that_is_not_hot_does_not_count() -> None:
    cold = loop(ident="L1", line=50, hot=False)
    worse = loop(ident="L1", line=50, hot=False, scratch_load=9, instructions=500)
    assert compared(kernel(loop(), cold), kernel(loop(), worse)).verdict == "neutral"


def test_instructions_within_the_tolerance_are_neutral() -> None:
    pair = compared(kernel(loop()), kernel(loop(instructions=105)))
    assert pair.verdict == "neutral"
    assert "within the tolerance" in change(pair, "count.instructions").why
    assert compared(kernel(loop()), kernel(loop(instructions=106))).verdict == "regression"
    assert compared(kernel(loop(instructions=106)), kernel(loop())).verdict == "improvement"


def test_instructions_beside_matrix_work_that_takes_longer_do_not_decide() -> None:
    def busy(instructions: int, cycles: int) -> KernelReport:
        return kernel(loop(instructions=instructions, mfma=8, **{"cycles.mfma": cycles}))

    # 4 cycles each: 80 instructions take 320 of the matrix unit's 400 cycles, 120 would take 480.
    hidden = compared(busy(60, 400), busy(80, 400))
    assert hidden.verdict == "neutral"
    assert "beside at least 400 cycles" in change(hidden, "count.instructions").why
    assert compared(busy(60, 400), busy(120, 400)).verdict == "regression"
    # Who sets a budget means it.
    assert compared(busy(60, 400), busy(80, 400), "count.instructions=5%").verdict == "regression"


def test_an_unrolled_loop_is_compared_per_source_iteration() -> None:
    before = kernel(loop(unroll=1, instructions=100, mfma=16))
    after = kernel(loop(unroll=4, instructions=360, mfma=64))
    pair = compared(before, after)
    assert pair.verdict == "improvement"
    assert change(pair, "count.instructions").why.startswith("100 → 90 instructions per source")
    assert not [c for c in pair.changes if c.name == "count.mfma"]


def test_a_loop_unrolled_by_unknown_factors_is_compared_by_its_work() -> None:
    work = {"mfma": 8, "bytes.global_load": 64}
    twice = {"mfma": 16, "bytes.global_load": 128}
    before = kernel(loop(unroll=None, instructions=100, **work))
    pair = compared(before, kernel(loop(unroll=None, instructions=200, **twice)))
    assert pair.verdict == "neutral"
    assert pair.loops[0].basis.divisors == (1, 2)
    other = kernel(loop(unroll=None, instructions=200, **(twice | {"mfma": 8})))
    assert compared(before, other).verdict == "unknown"


def test_larger_tiles_are_not_compared_per_source_iteration() -> None:
    def tile(size: int, **counts: int) -> KernelReport:
        variant = Variant(
            kernel="k", arch="gfx942", wave_size=64, ttir="", options={}, constexprs={"BLOCK": size}
        )
        return replace(kernel(loop(**counts)), variant=variant)

    before = tile(64, instructions=100, mfma=8)
    pair = compared(before, tile(128, instructions=200, mfma=16))
    assert pair.verdict == "neutral"
    assert pair.loops[0].basis.divisors == (1, 2)
    assert compared(before, tile(64, instructions=200, mfma=16)).verdict == "regression"


def test_twice_the_waves_share_the_work() -> None:
    before = kernel(loop(instructions=100, mfma=16), waves=4)
    after = kernel(loop(instructions=52, mfma=8), waves=8)
    pair = compared(before, after)
    assert change(pair, "count.instructions").judgement == "neutral"
    assert "all waves" in change(pair, "count.instructions").why


def test_redundant_matrix_work_is_a_regression() -> None:
    before = kernel(loop(mfma=16, **{"cycles.mfma": 256}))
    after = kernel(loop(mfma=16, **{"cycles.mfma": 512}))
    assert compared(before, after).verdict == "regression"
    unknown = kernel(loop(mfma=16, **{"cycles.mfma": None}))
    assert compared(before, unknown).verdict == "unknown"
    # Where no cycles are known of either, their number tells.
    more = kernel(loop(mfma=32, **{"cycles.mfma": None}))
    assert compared(unknown, more).verdict == "regression"


def test_bank_conflicts_that_go_outweigh_no_instruction_more() -> None:
    """Padding LDS costs address arithmetic: that alone is no verdict on what it is for."""
    conflicting = loop(instructions=59, **{"lds.conflict_cycles": 248})
    padded = loop(instructions=63, **{"lds.conflict_cycles": 0})
    pair = compared(kernel(conflicting), kernel(padded))
    assert pair.verdict == "mixed"
    gone = change(pair, "lds.conflict_cycles")
    assert (gone.judgement, gone.matters) == ("improvement", True)
    # Twice the work of an iteration may take twice the cycles.
    twice = kernel(loop(mfma=32, **{"lds.conflict_cycles": 32}), waves=4)
    half = kernel(loop(mfma=16, **{"lds.conflict_cycles": 16}), waves=8)
    assert "lds.conflict_cycles" not in {c.name for c in compared(half, twice).changes}


def test_matrix_instructions_are_named_and_judged_by_their_cycles() -> None:
    def with_kind(name: str, cycles: int) -> KernelReport:
        return kernel(loop(mfma=8, **{"cycles.mfma": cycles, "matrix.instructions": {name: 8}}))

    same = compared(with_kind("v_mfma_a", 128), with_kind("v_mfma_b", 128))
    assert same.verdict == "neutral"
    assert change(same, "matrix.instructions").why == "8 × v_mfma_a → 8 × v_mfma_b"
    assert compared(with_kind("v_mfma_a", 128), with_kind("v_mfma_b", 256)).verdict == "regression"
    none = kernel(loop(mfma=0, **{"cycles.mfma": 0, "matrix.instructions": {}}))
    gone = compared(with_kind("v_mfma_a", 128), none)
    assert change(gone, "matrix.instructions").judgement == "regression"


def test_narrower_loads_are_a_regression_unless_next_to_nothing() -> None:
    def wide(bits: float) -> KernelReport:
        return kernel(loop(**{"vector_bits.global_load.mean": bits}))

    assert compared(wide(128), wide(64)).verdict == "regression"
    assert compared(wide(64), wide(128)).verdict == "improvement"
    assert compared(wide(96), wide(91)).verdict == "neutral"


def test_copies_into_lds_are_wide_where_the_target_has_no_wider_ones() -> None:
    plain = {"global_load": 8, "vector_bits.global_load.mean": 128.0}
    written = {"lds_write": 8, "vector_bits.lds_write.mean": 128.0}
    dwords = {"lds_direct": 32, "vector_bits.lds_direct.mean": 32.0}
    through_registers = kernel(loop(**plain, **written))
    copied = kernel(loop(global_load=0, lds_write=0, **dwords, **{"vectorized.lds_direct": 1.0}))
    for pair in (compared(through_registers, copied), compared(copied, through_registers)):
        for name in ("vector_bits.global_load.mean", "vector_bits.lds_write.mean"):
            found = change(pair, name)
            assert found.judgement == "neutral"
            assert "as wide as the target can" in found.figures
    narrow = kernel(loop(global_load=0, lds_write=0, **dwords, **{"vectorized.lds_direct": 0.0}))
    pair = compared(through_registers, narrow)
    assert change(pair, "vector_bits.global_load.mean").judgement == "regression"
    halves = kernel(loop(**{**plain, "vector_bits.global_load.mean": 16.0}))
    assert change(compared(halves, copied), "vector_bits.global_load.mean").judgement != "neutral"


def test_more_full_waits_are_said_and_do_not_decide() -> None:
    pair = compared(kernel(loop()), kernel(loop(full_wait=9)))
    assert pair.verdict == "neutral"
    assert change(pair, "count.full_wait").judgement == "regression"


def test_a_hot_loop_that_has_gone_is_unknown() -> None:
    pair = compared(kernel(loop(), loop(ident="L1", line=60)), kernel(loop()))
    assert pair.verdict == "unknown"
    assert "L1 at k.py:60 has no counterpart" in change(pair, "loop").why


def test_loops_are_paired_by_their_source_not_their_order() -> None:
    first, second = loop(ident="L0", line=10), loop(ident="L1", line=60, instructions=300)
    moved = loop(ident="L0", line=60, instructions=300), loop(ident="L1", line=10)
    pair = compared(kernel(first, second), kernel(*moved))
    assert not pair.changes
    assert [(p.left.id, p.right.id) for p in pair.loops if p.left and p.right] == [
        ("L0", "L1"),
        ("L1", "L0"),
    ]


def test_loops_of_an_edited_source_are_paired_by_their_order() -> None:
    first, second = loop(ident="L0", line=10), loop(ident="L1", line=30, instructions=300)
    # Twenty lines more before the loops: the first one stands where the second one stood.
    moved = loop(ident="L0", line=30), loop(ident="L1", line=50, instructions=300)
    assert not compared(kernel(first, second), kernel(*moved)).changes
    # And twenty lines more above the kernel.
    lower = replace(kernel(*moved), source=SourceLoc("k.py", 21))
    pair = compared(kernel(first, second, loop(ident="L2", line=90)), lower)
    assert [(p.left and p.left.id, p.right and p.right.id) for p in pair.loops] == [
        ("L0", "L0"),
        ("L1", "L1"),
        ("L2", None),
    ]


# --------------------------------------------------------------------------- findings, targets


def finding(rule: str, severity: Any, fingerprint: str = "") -> Finding:
    return Finding(
        rule=rule,
        severity=severity,
        confidence="certain",
        message="said",
        evidence={},
        locations=(),
        fix="",
        fingerprint=fingerprint or rule,
    )


def test_new_errors_decide_and_new_warnings_do_not() -> None:
    error, warning = finding("KI001", "error"), finding("KI002", "warning")
    assert compared(kernel(loop()), kernel(loop(), findings=(error,))).verdict == "regression"
    pair = compared(kernel(loop()), kernel(loop(), findings=(warning,)))
    assert pair.verdict == "neutral"
    assert change(pair, "findings.KI002").why == "warning KI002: 1 new"


def test_findings_that_only_moved_are_no_change() -> None:
    here, there = finding("KI001", "error", "a"), finding("KI001", "error", "b")
    assert not compared(kernel(findings=(here,)), kernel(findings=(there,))).changes


def test_two_targets_are_shown_and_not_judged() -> None:
    before = kernel(loop(), vgprs=128)
    after = kernel(loop(instructions=300), vgprs=250, arch="gfx950")
    pair = compared(before, after)
    assert pair.verdict == "neutral"
    assert {c.judgement for c in pair.changes} == {"shown"}
    assert any("not judged" in note for note in pair.notes)
    # Spills are spills everywhere.
    spilled = kernel(loop(scratch_load=4), arch="gfx950")
    assert compared(before, spilled).verdict == "regression"


# --------------------------------------------------------------------------- unknown, tolerances


def test_unknown_on_one_side_is_unknown_not_equal() -> None:
    pair = compared(kernel(loop()), kernel(loop(), lds=None))
    assert pair.verdict == "unknown"
    assert change(pair, "occupancy.waves_per_eu").judgement == "unknown"
    report = DiffReport({}, "a", "b", (pair,))
    assert report.not_compared() == ["k on gfx942: unknown: occupancy.waves_per_eu"]


def test_a_change_from_unknown_to_none_is_no_regression() -> None:
    none, some = (kernel(loop(**{"lds.conflict_cycles": n})) for n in (0, 4))
    unknown = kernel(loop(**{"lds.conflict_cycles": None}))
    assert compared(unknown, none).verdict == "neutral"
    assert compared(unknown, some).verdict == compared(none, unknown).verdict == "unknown"
    before, after = kernel(vgpr_spill_count=None), kernel(vgpr_spill_count=0)
    assert compared(before, after, "vgpr_spill_count=0").verdict == "neutral"
    assert compared(after, before, "vgpr_spill_count=0").verdict == "unknown"


def test_without_lds_on_both_sides_the_vgprs_still_tell() -> None:
    pair = compared(kernel(loop(), lds=None, vgprs=128), kernel(loop(), lds=None, vgprs=136))
    assert pair.verdict == "regression"
    assert change(pair, "occupancy.by_vgpr").judgement == "regression"


def test_no_code_is_unknown() -> None:
    assert compared(kernel(), kernel(instruction_count=None)).verdict == "unknown"
    both = kernel(instruction_count=None)
    assert compared(both, both).verdict == "unknown"


def test_a_stated_tolerance_is_a_budget() -> None:
    before, after = kernel(loop(), vgprs=200), kernel(loop(), vgprs=212)
    assert compared(before, after).verdict == "neutral"
    assert compared(before, after, "vgpr_count=5%").verdict == "regression"
    assert compared(before, after, "vgpr_count=6%").verdict == "neutral"
    assert compared(before, after, "vgpr_count=12").verdict == "neutral"
    assert compared(before, after, "vgpr_count=11").verdict == "regression"
    lds = kernel(loop(), lds=18 << 10)
    assert compared(kernel(loop()), lds, "lds_bytes=1024").verdict == "regression"
    waits = kernel(loop(full_wait=5))
    assert compared(kernel(loop()), waits, "count.full_wait=0").verdict == "regression"
    assert compared(kernel(loop()), kernel(loop(instructions=140)), "count.instructions=50%").of(
        "neutral"
    )


def test_a_tolerance_of_the_waves_allows_no_kernel_that_cannot_launch() -> None:
    before, after = kernel(loop(), vgprs=128), kernel(loop(), vgprs=136)
    assert compared(before, after, "occupancy.waves_per_eu=1").verdict == "neutral"
    over = kernel(loop(), lds=80 << 10)
    assert (
        compared(kernel(loop(), vgprs=500), over, "occupancy.waves_per_eu=9").verdict != "neutral"
    )


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("vgpr_count", "not NAME=NUMBER"),
        ("vgpr_count=-1", "not NAME=NUMBER"),
        ("vgpr_count=much", "not NAME=NUMBER"),
        ("vgpr_cout=1", "did you mean vgpr_count?"),
        ("count.valu=1", "not a figure that diff judges"),
    ],
)
def test_wrong_tolerances_are_refused(typed: str, said: str) -> None:
    with pytest.raises(KinspectError, match=said.replace("?", r"\?")):
        tolerances_of([typed])
    with pytest.raises(KinspectError, match="twice"):
        tolerances_of(["vgpr_count=1", "vgpr_count=2"])


# --------------------------------------------------------------------------- both ways, forms


def cases() -> list[tuple[KernelReport, KernelReport]]:
    return [
        (kernel(loop(), vgprs=208), kernel(loop(), vgprs=216)),
        (kernel(loop(), vgprs=208, sgprs=26), kernel(loop(), vgprs=128, sgprs=30)),
        (kernel(loop(), lds=20 << 10), kernel(loop(scratch_load=4), lds=24 << 10)),
        (kernel(loop(instructions=106)), kernel(loop(), vgprs=300)),
        (kernel(loop(unroll=1)), kernel(loop(unroll=2, instructions=190))),
        (kernel(loop()), kernel(loop(), findings=(finding("KI001", "error"),))),
        (kernel(loop()), kernel(loop(), lds=None)),
        (kernel(loop(), code_bytes=65536), kernel(loop(), code_bytes=70000)),
    ]


@pytest.mark.parametrize(("left", "right"), cases())
def test_the_other_way_round_mirrors_every_judgement(
    left: KernelReport, right: KernelReport
) -> None:
    there = {c.name: (c.judgement, c.matters) for c in compared(left, right).changes}
    back = {c.name: (c.judgement, c.matters) for c in compared(right, left).changes}
    assert back == {n: (MIRRORED.get(j, j), m) for n, (j, m) in there.items()}


def report_of(*kernels: KernelReport, errors: tuple[ErrorRecord, ...] = ()) -> Report:
    return Report("t", {"name": "kinspect", "analysis": "1"}, kernels, errors)


def diff(left: Report, right: Report) -> DiffReport:
    return diff_reports(
        NamedReport("A", left), NamedReport("B", right), DiffOptions(NONE), lambda _: None
    )


def test_a_report_lists_the_worst_first_and_names_what_is_missing() -> None:
    better = kernel(loop(instructions=80), name="better")
    worse = kernel(loop(instructions=150), name="worse")
    was = [kernel(loop(), name=n) for n in ("better", "same", "worse", "gone")]
    now = [kernel(loop(), name="new"), kernel(loop(), name="same"), better, worse]
    found = diff(report_of(*was), report_of(*now))
    assert [p.left.name for p in found.pairs] == ["worse", "better", "same"]
    assert [a.label for a in found.only_left] == ["gone"]
    assert [a.label for a in found.only_right] == ["new"]
    assert found.not_compared() == ["only in A: gone on gfx942", "only in B: new on gfx942"]
    assert found.not_compared(allow_new=True) == ["only in A: gone on gfx942"]
    stream = io.StringIO()
    present.write_text(found, stream)
    text = stream.getvalue()
    assert "3 pairs: 1 regressed, 1 improved, 1 same; 1 only in A; 1 only in B" in text
    assert text.index("worse") < text.index("better")


def test_why_a_kernel_is_missing_is_said() -> None:
    error = ErrorRecord("k.py", "gone on gfx942", "compile", "it crashed", "")
    found = diff(report_of(kernel(name="gone")), report_of(errors=(error,)))
    assert found.only_left[0].why == "compile: it crashed"
    assert any("it crashed" in line for line in found.not_compared())


def test_nothing_in_common_fails_closed() -> None:
    assert diff(report_of(), report_of()).not_compared() == ["there is not one pair of kernels"]


def test_reports_of_two_versions_of_the_analysis_are_noted() -> None:
    other = replace(report_of(kernel()), tool={"analysis": "2"})
    assert any("different versions" in note for note in diff(report_of(kernel()), other).notes)


def test_json_holds_everything() -> None:
    found = diff(report_of(kernel(loop(), vgprs=128)), report_of(kernel(loop(), vgprs=136)))
    stream = io.StringIO()
    diff_json.write(found, stream)
    data = json.loads(stream.getvalue())
    assert data["schema_version"] == 1
    assert data["counts"]["regression"] == 1
    (pair,) = data["pairs"]
    changes = {c["name"]: c for c in pair["changes"]}
    assert changes["occupancy.waves_per_eu"]["values"] == [4, 3]
    assert pair["loops"][0]["per"] == [1, 1]
    assert pair["sides"][0]["metrics"]["vgpr_count"]["value"] == 128


def test_markdown_folds_what_regressed() -> None:
    found = diff(report_of(kernel(loop(), vgprs=128)), report_of(kernel(loop(), vgprs=136)))
    stream = io.StringIO()
    present.write_markdown(found, stream)
    text = stream.getvalue()
    assert "<summary><code>k</code>  gfx942  k.py:1  regressed</summary>" in text
    assert text.count("<details>") == text.count("</details>") == 1


def timed(report: KernelReport, us: float, **passed: int) -> KernelReport:
    """A report with the time of a launch that passes these numbers."""
    time = KernelTime(
        us=us, low=us / 2, high=us * 2, cycles=us * 2100, mhz=2100, gpu="MI300X", workgroups=304,
        rounds=1, resident=1, limiter="memory bandwidth", units={}, stalls=(), warm_us=None,
        lines=(), savings=(),
    )  # fmt: skip
    variant = Variant(
        options={}, wave_size=64, kernel="k", arch="gfx942", ttir="", values=passed or None
    )
    metrics = {**report.metrics, TIME_US: metric(TIME_US, us, "us")}
    return replace(report, time=time, variant=variant, metrics=metrics)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [(100, 104, "neutral"), (100, 70, "improvement"), (100, 130, "regression")],
)
def test_where_times_are_known_they_decide(before: float, after: float, verdict: str) -> None:
    left, right = kernel(loop(), vgprs=128), kernel(loop(), vgprs=136)
    assert compared(left, right).verdict == "regression", "a wave less, and no time"
    pair = compared(timed(left, before), timed(right, after))
    assert pair.verdict == verdict
    assert pair.time is not None
    budgeted = compared(timed(left, before), timed(right, after), "vgpr_count=1%")
    assert budgeted.verdict == ("mixed" if verdict == "improvement" else "regression")


def test_times_of_other_launches_decide_nothing() -> None:
    left, right = kernel(loop(), vgprs=128), kernel(loop(), vgprs=128)
    pair = compared(timed(left, 100, n=1024), timed(right, 200, n=2048))
    assert pair.time is None
    assert pair.verdict != "regression"
    assert "other launches, of which times are not compared: n 1024 | 2048" in pair.remarks


@pytest.mark.parametrize(("after", "is_doubted"), [(190, False), (90, True), (600, True)])
def test_a_stated_launch_that_moves_other_bytes_is_doubted(after: int, is_doubted: bool) -> None:
    sides = []
    for moved in (200, after):
        report = timed(kernel(loop(), vgprs=128), 100)
        assert report.time is not None
        time = replace(report.time, memory_bytes=moved * 10**6)
        sides.append(replace(report, time=time, variant=None))
    remarks = " ".join(compared(*sides).remarks)
    assert (f"moves {after} MB of memory, 200 before: the same work?" in remarks) is is_doubted


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ((1900.0, 2100.0), (1700.0, 2100.0), ""),  # of the power limit, which is no assumption
        ((1400.0, None), (1400.0, None), ""),
        (
            (1400.0, None),
            (1900.0, 2100.0),
            "times are not compared, they assume MI300X at 1,400 MHz and MI300X at its own clock",
        ),
    ],
)
def test_times_of_two_clocks_decide_nothing(
    before: tuple[float, float | None], after: tuple[float, float | None], said: str
) -> None:
    sides = []
    for us, (mhz, peak) in ((100, before), (60, after)):
        side = timed(kernel(loop(), vgprs=128), us)
        assert side.time is not None
        time = replace(side.time, mhz=mhz, peak_mhz=peak, gpu="MI300X")
        sides.append(replace(side, time=time))
    pair = compared(*sides)
    assert (pair.time is None) == bool(said)
    assert (said in pair.remarks) == bool(said)
    assert pair.verdict == ("neutral" if said else "improvement")


def test_every_judged_figure_can_regress() -> None:
    """No entry of the table is dead: a stated tolerance makes each of them decide."""
    kernel_figures = {n: j for n, j in JUDGED.items() if j.where == "kernel"}
    kernel_figures.pop("occupancy.waves_per_eu")
    for name in kernel_figures:
        worse: Mapping[str, Any] = {name: 70000}
        before, after = kernel(loop(), **{name: 50000}), kernel(loop(), **worse)
        assert compared(before, after, f"{name}=10%").verdict == "regression", name
    for name, judged in JUDGED.items():
        if judged.where == "loop":
            low, high = kernel(loop(**{name: 10})), kernel(loop(**{name: 100}))
            sides = (low, high) if judged.better == "less" else (high, low)
            assert compared(*sides, f"{name}=10%").verdict == "regression", name


def test_rows_of_a_scorecard_are_judged_by_their_figures() -> None:
    spilling = loop(scratch_load=9, scratch_store=3, instructions=200)
    pair = compared(kernel(spilling, vgpr_spill_count=12), kernel(loop(instructions=300)))
    (loops,) = pair.loops
    judged = {
        row.label: diff_view.row_judgement(pair, loops, row) for row in diff_view.scorecards(loops)
    }
    assert judged["instructions"] == "regression"
    assert judged["scratch"] == "improvement"
    assert judged["VALU"] == "neutral"
