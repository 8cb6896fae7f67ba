"""The recommended rules: each says enough to act on, fires where it should and nowhere else.

The metrics are synthetic: a sound GEMM, changed in the one respect that a rule is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from kinspect.inspector.lint.catalogue import Catalogue
from kinspect.inspector.lint.engine import evaluate
from kinspect.inspector.lint.schema import Pack, Rule, load_default
from kinspect.inspector.model import (
    Finding,
    KernelReport,
    LoopReport,
    Metric,
    MetricSpec,
    MetricValue,
    SourceLoc,
)

WORDS = (
    "valu", "salu", "mfma", "wmma", "global_load", "global_store", "lds_read", "lds_write",
    "lds_direct", "scratch_load", "scratch_store", "atomic", "wait", "barrier", "nop", "acc_move",
    "branch", "cross_lane", "smem_load",
)  # fmt: skip


def _specs() -> tuple[MetricSpec, ...]:
    kernel = {
        "vgpr_allocated": "registers",
        "lds_bytes": "bytes",
        "lds_limit": "bytes",
        "waves_per_workgroup": "waves",
        "empty": "bool",
        "occupancy.waves_per_eu": "waves/EU",
        "occupancy.workgroups_per_cu": "workgroups",
        "occupancy.limiter": "name",
        "occupancy.next_step": "mapping",
        "matrix.upcast": "mapping",
        "matrix.off_unit": "mapping",
        "inline_asm.dropped": "mapping",
        "inline_asm.optimised_away": "mapping",
    }
    both = {
        "count.*": "instructions",
        "count.full_wait": "instructions",
        "count.instructions": "instructions",
        "vector_bits.*.min": "bits/lane",
        "vector_bits.*.mean": "bits/lane",
        "cycles.mfma": "cycles",
    }
    return (
        *(MetricSpec(name, unit, "derived", "kernel", "") for name, unit in kernel.items()),
        *(MetricSpec(name, unit, "derived", "both", "") for name, unit in both.items()),
    )


PACK: Pack = load_default(Catalogue.of(_specs(), WORDS))

NO_DOTS: Mapping[str, MetricValue] = {
    "matrix.upcast": {"dots": 0, "of": 2, "asked": None, "used": None, "instruction": None},
    "matrix.off_unit": {"dots": 0, "of": 2, "element": None, "supported": None, "at": None},
}
NO_ASSEMBLY: Mapping[str, MetricValue] = {
    "inline_asm.dropped": {"pieces": 0, "of": 1, "text": None, "at": None},
    "inline_asm.optimised_away": {"pieces": 0, "of": 1, "text": None, "at": None},
}
KERNEL: Mapping[str, MetricValue] = {
    **NO_DOTS,
    **NO_ASSEMBLY,
    "empty": False,
    "vgpr_allocated": 128,
    "lds_bytes": 32768,
    "lds_limit": 65536,
    "waves_per_workgroup": 8,
    "occupancy.waves_per_eu": 4,
    "occupancy.workgroups_per_cu": 2,
    "occupancy.limiter": "lds",
    "occupancy.next_step": None,
    "count.scratch_load": 0,
    "count.scratch_store": 0,
}
LOOP: Mapping[str, MetricValue] = {
    "count.instructions": 200,
    "count.valu": 61,
    "count.salu": 24,
    "count.mfma": 32,
    "count.wmma": 0,
    "cycles.mfma": 1024,
    "count.acc_move": 0,
    "count.nop": 2,
    "count.wait": 14,
    "count.full_wait": 6,
    "count.scratch_load": 0,
    "count.scratch_store": 0,
    "count.global_load": 4,
    "vector_bits.global_load.min": 128,
    "vector_bits.global_load.mean": 128.0,
    "count.lds_read": 16,
    "vector_bits.lds_read.min": 64,
    "vector_bits.lds_read.mean": 64.0,
    "count.lds_write": 4,
    "vector_bits.lds_write.min": 128,
    "vector_bits.lds_write.mean": 128.0,
}


@dataclass(frozen=True)
class Case:
    """A change to the sound GEMM, and whether the rule fires on it. `hot` is the loop's."""

    rule: str
    fires: bool
    kernel: Mapping[str, MetricValue] = field(default_factory=dict)
    loop: Mapping[str, MetricValue] = field(default_factory=dict)
    hot: bool = True
    says: str = ""


def fail(rule: str, says: str, **changes: object) -> Case:
    return Case(rule, True, says=says, **changes)  # type: ignore[arg-type]


def ok(rule: str, **changes: object) -> Case:
    return Case(rule, False, **changes)  # type: ignore[arg-type]


def step(**fields: int | str) -> dict[str, MetricValue]:
    return {"occupancy.next_step": fields, "occupancy.waves_per_eu": 2, "vgpr_allocated": 136}


def widths(cls: str, count: int, least: int, mean: float) -> dict[str, MetricValue]:
    return {
        f"count.{cls}": count,
        f"vector_bits.{cls}.min": least,
        f"vector_bits.{cls}.mean": mean,
    }


def upcast(dots: int) -> dict[str, MetricValue]:
    fields = {"asked": "float8e4nv (OCP e4m3)", "used": "float16", "at": "gemm.py:16"}
    name = "v_mfma_f32_32x32x8_f16"
    return {"matrix.upcast": {"dots": dots, "of": 2, **fields, "instruction": name}}


def off_unit(supported: bool | None) -> dict[str, MetricValue]:
    fields = {"element": "float32", "supported": supported, "at": "gemm.py:16"}
    return {"matrix.off_unit": {"dots": 1, "of": 2, **fields}}


def assembly(name: str) -> dict[str, MetricValue]:
    fields = {"text": "s_sleep 1", "at": "gemm.py:12"}
    return {f"inline_asm.{name}": {"pieces": 1, "of": 1, **fields}}


NO_MATRIX: Mapping[str, MetricValue] = {"count.mfma": 0, "cycles.mfma": 0}
SPILLS: Mapping[str, MetricValue] = {"count.scratch_load": 12, "count.scratch_store": 4}

CASES = (
    fail("KI001", "12 × scratch load and 4 × scratch store", kernel=SPILLS, loop=SPILLS),
    fail("KI001", "0 × scratch load and 11 ", loop={"count.scratch_store": 11}),
    ok("KI001", loop={"count.scratch_store": 10}),
    ok("KI001", kernel=SPILLS),
    ok("KI001", kernel=SPILLS, loop=SPILLS, hot=False),
    ok("KI001", loop={"count.scratch_load": None}),
    fail("KI002", "0 × scratch load and 10 ", loop={"count.scratch_store": 10}),
    fail("KI002", "1 × scratch load", loop={"count.scratch_load": 1}),
    ok("KI002", loop=SPILLS),
    ok("KI002", loop={"count.scratch_load": 1}, hot=False),
    fail("KI003", "12 × scratch load and 4 × scratch store, none in", kernel=SPILLS),
    fail("KI003", "12 × scratch load", kernel=SPILLS, loop=SPILLS, hot=False),
    ok("KI003", kernel=SPILLS, loop=SPILLS),
    ok("KI003"),
    fail("KI004", "compiled to nothing", kernel={"empty": True}),
    ok("KI004", kernel={"empty": None}),
    fail("KI005", "98,304 bytes of LDS per workgroup, 65,536", kernel={"lds_bytes": 98304}),
    ok("KI005", kernel={"lds_bytes": 65536}),
    ok("KI005", kernel={"lds_bytes": None}),
    ok("KI005", kernel={"lds_bytes": 98304, "lds_limit": 163840}),
    fail("KI016", "not one workgroup fits", kernel={"occupancy.workgroups_per_cu": 0}),
    ok("KI016", kernel={"occupancy.workgroups_per_cu": 1}),
    ok("KI016", kernel={"occupancy.workgroups_per_cu": None}),
    ok("KI016", kernel={"occupancy.workgroups_per_cu": 0, "lds_bytes": 98304}),
    fail("KI006", "VGPR count by 2 ", kernel=step(resource="vgpr", reduce_by=2, gives=4)),
    fail("KI006", "from 2 to 4 waves", kernel=step(resource="vgpr", reduce_by=8, gives=4)),
    fail(
        "KI006",
        "VGPR count by 12 ",
        kernel={**step(resource="vgpr", reduce_by=12, gives=2), "vgpr_allocated": 264},
    ),
    ok("KI006", kernel=step(resource="vgpr", reduce_by=9, gives=4)),
    ok("KI006", kernel=step(resource="lds", reduce_by=2, gives=4)),
    ok("KI006", kernel=step(resource="vgpr", reduce_by=2, gives=4, also_lds=4096)),
    ok("KI006", kernel=step(resource="vgpr", reduce_by=2, gives=4, also_sgpr=4)),
    ok(
        "KI006",
        kernel={**step(resource="vgpr", reduce_by=2, gives=7), "occupancy.waves_per_eu": 6},
    ),
    fail(
        "KI007",
        "0.50 waves/EU: 1 × 2 waves fit at a time (limited by lds)",
        kernel={
            "occupancy.waves_per_eu": 0.5,
            "occupancy.workgroups_per_cu": 1,
            "waves_per_workgroup": 2,
        },
    ),
    ok("KI007", kernel={"occupancy.waves_per_eu": 1, "occupancy.workgroups_per_cu": 1}),
    # What cannot be launched at all is another rule's matter.
    ok("KI007", kernel={"occupancy.waves_per_eu": 0, "occupancy.workgroups_per_cu": 0}),
    ok("KI007", kernel={"occupancy.waves_per_eu": None, "occupancy.workgroups_per_cu": None}),
    fail("KI008", "9 × copy between VGPRs and AGPRs", loop={"count.acc_move": 9}),
    fail("KI008", "beside 0 × MFMA", loop={**NO_MATRIX, "count.acc_move": 1}),
    ok("KI008", loop={"count.acc_move": 8}),
    ok("KI008", loop=NO_MATRIX),
    fail("KI009", "16 bits per lane on average", loop=widths("global_load", 32, 16, 16.0)),
    fail("KI009", "40 bits per lane", loop=widths("global_load", 10, 8, 40.0)),
    ok("KI009", loop=widths("global_load", 9, 16, 115.5)),  # one scale beside eight wide loads
    ok("KI009", loop=widths("global_load", 4, 32, 32.0)),
    ok("KI009", loop=widths("global_load", 3, 16, 16.0)),  # scales of a quantised dot
    fail("KI009", "1 × global load", loop={**widths("global_load", 1, 16, 16.0), **NO_MATRIX}),
    ok("KI009", loop={"vector_bits.global_load.min": None}),
    fail("KI010", "32 bits per lane on average", loop=widths("global_load", 8, 32, 32.0)),
    ok("KI010", loop=widths("global_load", 8, 64, 64.0)),
    ok("KI010", loop=widths("global_load", 1, 32, 32.0)),  # an index, a pointer
    ok("KI010", loop=widths("global_load", 32, 16, 16.0)),  # KI009 says so already
    fail("KI011", "64 × LDS read", loop=widths("lds_read", 64, 16, 16.0)),
    fail(
        "KI011",
        "32 bits per lane",
        loop={**widths("lds_read", 8, 32, 32.0), **NO_MATRIX, "count.wmma": 16},
    ),
    ok("KI011", loop=widths("lds_read", 20, 16, 104.0)),
    ok("KI011", loop=widths("lds_read", 2, 32, 32.0)),  # a reduction across waves
    ok("KI011", loop={**widths("lds_read", 64, 32, 32.0), **NO_MATRIX}),
    fail("KI012", "8 × LDS write", loop=widths("lds_write", 8, 32, 32.0)),
    ok("KI012", loop=widths("lds_write", 8, 64, 64.0)),
    ok("KI012", loop=widths("lds_write", 2, 32, 32.0)),
    fail("KI013", "33 of 40 waits", loop={"count.full_wait": 33, "count.wait": 40}),
    ok("KI013", loop={"count.full_wait": 32}),
    ok("KI013", loop={**NO_MATRIX, "count.full_wait": 14}),
    fail("KI014", "11 s_nop among 200 instructions", loop={"count.nop": 11}),
    ok("KI014", loop={"count.nop": 10}),
    ok("KI014", loop={"count.nop": 4, "count.instructions": 40}),
    ok("KI014", loop={**NO_MATRIX, "count.nop": 50}),
    fail("KI015", "300 vector instructions take at least 1,200", loop={"count.valu": 300}),
    ok("KI015", loop={"count.valu": 256}),
    ok("KI015", loop={"count.valu": 300, "cycles.mfma": None}),
    ok("KI015", loop={**NO_MATRIX, "count.valu": 300}),
    ok("KI015", loop={**NO_MATRIX, "count.wmma": 16, "cycles.mfma": 512, "count.valu": 300}),
    fail("KI017", "1 of 2 dots take float8e4nv (OCP e4m3) operands", kernel=upcast(1)),
    fail("KI017", "in float16 with v_mfma_f32_32x32x8_f16 (first at gemm.py", kernel=upcast(2)),
    ok("KI017", kernel=upcast(0)),
    ok("KI017", kernel={"matrix.upcast": None}),
    fail("KI018", "though this GPU has matrix instructions for float32", kernel=off_unit(True)),
    ok("KI018", kernel=off_unit(False)),
    ok("KI018", kernel=off_unit(None)),
    ok("KI018", kernel={"matrix.off_unit": None}),
    fail("KI019", "matrix unit does not take float32 (first at gemm", kernel=off_unit(False)),
    ok("KI019", kernel=off_unit(True)),
    ok("KI019", kernel=off_unit(None)),
    fail(
        "KI020",
        '1 of 1 pieces of inline assembly are not in the code: "s_sleep 1" at gemm.py:12',
        kernel=assembly("dropped"),
    ),
    ok("KI020", kernel=assembly("optimised_away")),
    ok("KI020", kernel={**assembly("dropped"), "empty": True}),  # KI004 says more
    ok("KI020", kernel={"inline_asm.dropped": None}),
    fail("KI021", "1 of 1 pieces of pure inline assembly", kernel=assembly("optimised_away")),
    ok("KI021", kernel=assembly("dropped")),
    ok("KI021", kernel={**assembly("optimised_away"), "empty": True}),
)


def metrics(values: Mapping[str, MetricValue]) -> dict[str, Metric]:
    return {name: Metric(name, value, "", "derived") for name, value in values.items()}


def report(case: Case) -> KernelReport:
    loop = LoopReport(
        id="L0",
        depth=1,
        parent=None,
        header_line=447,
        header_label=".LBB0_3",
        lines=((447, 612),),
        source=(SourceLoc("gemm.py", 16),),
        hot=case.hot,
        unroll=1,
        metrics=metrics({**LOOP, **case.loop}),
    )
    return KernelReport(
        id="gemm.py:matmul:gfx942:0123abcd",
        name="matmul",
        arch="gfx942",
        source=SourceLoc("gemm.py", 8),
        variant=None,
        artifacts={},
        metrics=metrics({**KERNEL, **case.kernel}),
        loops=(loop,),
        main_loop=None,
        memory_ops=(),
        waits=(),
        findings=(),
    )


def judge(case: Case) -> dict[str, Finding]:
    return {finding.rule: finding for finding in evaluate(PACK, report(case))}


@pytest.mark.parametrize("case", [c for c in CASES if c.fires], ids=lambda c: f"{c.rule}-{c.says}")
def test_fires_alone_and_says_why(case: Case) -> None:
    found = judge(case)
    assert set(found) == {case.rule}
    assert case.says in found[case.rule].message
    assert found[case.rule].fix
    assert found[case.rule].evidence
    assert found[case.rule].locations


@pytest.mark.parametrize("case", [c for c in CASES if not c.fires], ids=lambda c: c.rule)
def test_stays_silent(case: Case) -> None:
    assert case.rule not in judge(case)


def test_a_sound_kernel_has_no_findings() -> None:
    assert judge(ok("none")) == {}


def test_a_kernel_of_which_nothing_is_known_has_no_findings() -> None:
    nothing = Case(
        "none",
        False,
        kernel=dict.fromkeys(KERNEL),
        loop=dict.fromkeys(LOOP),
    )
    assert judge(nothing) == {}


@pytest.mark.parametrize("rule", PACK.rules, ids=lambda rule: rule.text.id)
def test_every_rule_is_complete(rule: Rule) -> None:
    text = rule.text
    assert re.fullmatch(r"KI\d{3}", text.id)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)+", text.name)
    assert len(text.explain.split()) >= 30, "a newcomer needs more than that"
    assert len(text.fix.split()) >= 10, "say what to change"
    assert text.references
    for reference in text.references:
        assert len(reference.title) > 10
        assert re.match(
            r"https://(rocm\.docs\.amd|www\.amd|gpuopen|llvm)\.(com|org)/", reference.url
        )
    for prose in (text.explain, text.fix, text.message):
        assert not re.search(r"\s{2,}|\n", prose), "folded text has single spaces"
    fires = [case for case in CASES if case.rule == text.id and case.fires]
    silent = [case for case in CASES if case.rule == text.id and not case.fires]
    assert fires
    assert silent


def test_ids_and_names_are_unique_and_ascend() -> None:
    ids = [rule.text.id for rule in PACK.rules]
    assert ids == sorted(set(ids))
    assert len({rule.text.name for rule in PACK.rules}) == len(ids)
    assert {case.rule for case in CASES} == set(ids)


def test_the_pack_agrees_with_the_metrics_that_exist() -> None:
    from kinspect.inspector.isa.mnemonics import CLASSES
    from kinspect.inspector.metrics.catalogue import specs

    pack = load_default(Catalogue.of(specs(), CLASSES))
    assert [rule.text for rule in pack.rules] == [rule.text for rule in PACK.rules]
