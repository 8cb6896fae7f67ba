"""The recommended rules at their limits: what they say, and what they leave to each other.

The metrics are synthetic: a sound GEMM, changed in the one respect that a rule is about. That the
rules find what they are about in compiled kernels is shown by `test_rule_fixtures.py`.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from kinspect.inspector.lint.engine import evaluate
from kinspect.inspector.lint.packs import DEFAULT_PACK, Pack, Rule, load_named
from kinspect.inspector.model import (
    Finding,
    KernelReport,
    LaneUse,
    LoopHeader,
    LoopReport,
    MemoryOp,
    Metric,
    MetricValue,
    SourceLoc,
)
from kinspect.inspector.pipeline.analysis import catalogue
from plain_english import IDIOM

PACK: Pack = load_named(DEFAULT_PACK, catalogue())

NO_DOTS: Mapping[str, MetricValue] = {
    "matrix.upcast": {
        "dots": 0,
        "of": 2,
        "scaled": 0,
        "asked": None,
        "used": None,
        "instruction": None,
    },
    "matrix.off_unit": {"dots": 0, "of": 2, "element": None, "supported": None, "at": None},
}
NO_ASSEMBLY: Mapping[str, MetricValue] = {
    "inline_asm.dropped": {"pieces": 0, "of": 1, "text": None, "at": None},
}
KERNEL: Mapping[str, MetricValue] = {
    **NO_DOTS,
    **NO_ASSEMBLY,
    "empty": False,
    "vgpr_allocated": 128,
    "vgpr_count": 128,
    "vgpr_limit": 512,
    "vgpr_pool": 512,
    "lds_bytes": 32768,
    "lds_limit": 65536,
    "waves_per_workgroup": 8,
    "occupancy.waves_per_eu": 4,
    "occupancy.workgroups_per_cu": 2,
    "occupancy.limiter": "lds",
    "occupancy.by_lds": 4,
    "lds.holders": None,
    "lds.largest": None,
    "occupancy.next_step": None,
    "option.waves_per_eu": 0,
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
    "cycles.valu": 244,
    "count.acc_move": 0,
    "count.nop": 2,
    "count.wait": 14,
    "count.full_wait": 6,
    "count.scratch_load": 0,
    "count.scratch_store": 0,
    "calls": 0,
    "spills.reloads": 0,
    "spills.stores": 0,
    "private_arrays.loads": 0,
    "private_arrays.stores": 0,
    "private_arrays.indexed": 0,
    "count.lds_read": 16,
    "vector_bits.lds_read.min": 64,
    "vector_bits.lds_read.mean": 64.0,
    "count.lds_write": 4,
    "vector_bits.lds_write.min": 128,
    "vector_bits.lds_write.mean": 128.0,
}
WIDE = (128,) * 4


@dataclass(frozen=True)
class Case:
    """A change to the sound GEMM, and whether the rule fires on it.

    Args:
        rule: the rule.
        fires: whether it finds fault.
        kernel: changed metrics of the kernel.
        loop: changed metrics of its loop.
        loads: bits per lane of each global load in the loop.
        hot: whether the loop is.
        says: part of the message.
        beside: rules that rightly find fault as well.
    """

    rule: str
    fires: bool
    kernel: Mapping[str, MetricValue] = field(default_factory=dict)
    loop: Mapping[str, MetricValue] = field(default_factory=dict)
    loads: tuple[int, ...] = WIDE
    hot: bool = True
    says: str = ""
    beside: frozenset[str] = frozenset()


def fail(rule: str, says: str, **changes: object) -> Case:
    return Case(rule, True, says=says, **changes)  # type: ignore[arg-type]


def ok(rule: str, **changes: object) -> Case:
    return Case(rule, False, **changes)  # type: ignore[arg-type]


def step(**fields: int | str) -> dict[str, MetricValue]:
    return {"occupancy.next_step": fields, "occupancy.waves_per_eu": 2, "vgpr_allocated": 136}


def upcast(dots: int) -> dict[str, MetricValue]:
    fields = {"asked": "float8e4nv (OCP e4m3)", "used": "float16", "at": "gemm.py:16"}
    name = "v_mfma_f32_32x32x8_f16"
    return {"matrix.upcast": {"dots": dots, "of": 2, "scaled": 0, **fields, "instruction": name}}


def off_unit(supported: bool | None) -> dict[str, MetricValue]:
    fields = {"element": "float32", "supported": supported, "at": "gemm.py:16"}
    return {"matrix.off_unit": {"dots": 1, "of": 2, "bare_loops": 0, **fields}}


def assembly(name: str) -> dict[str, MetricValue]:
    fields = {"text": "s_sleep 1", "at": "gemm.py:12"}
    return {f"inline_asm.{name}": {"pieces": 1, "of": 1, **fields}}


def occupancy(waves_per_eu: float | None, workgroups: int | None) -> dict[str, MetricValue]:
    return {
        "occupancy.waves_per_eu": waves_per_eu,
        "occupancy.workgroups_per_cu": workgroups,
        "waves_per_workgroup": 2,
    }


PARKED: Mapping[str, MetricValue] = {
    "count.mfma": 0,
    "count.acc_move": 12,
    "instruction_count": 240,
    "agpr_count": 12,
    "arch_vgpr_count": 256,
}


def spilled(loads: int | None = 0, stores: int | None = 0) -> dict[str, MetricValue]:
    """Accesses of scratch that are spills."""
    return {
        "count.scratch_load": loads,
        "spills.reloads": loads,
        "count.scratch_store": stores,
        "spills.stores": stores,
    }


SPILLS: Mapping[str, MetricValue] = spilled(12, 4)
KEPT_OUT: Mapping[str, MetricValue] = {
    "option.waves_per_eu": 2,
    "occupancy.waves_per_eu": 1,
    "occupancy.by_lds": 1,
}
ARRAY: Mapping[str, MetricValue] = {
    "count.scratch_load": 12,
    "count.scratch_store": 4,
    "private_arrays.loads": 12,
    "private_arrays.stores": 4,
    "private_arrays.indexed": 9,
}
MANY: Mapping[str, MetricValue] = {"count.instructions": 2000}

CASES = (
    fail("KI001", "12 loads and 4 stores of spilled", kernel=SPILLS, loop=SPILLS),
    fail("KI001", "0 loads and 11 stores", loop=spilled(stores=11)),
    fail("KI001", "33 loads", loop={**MANY, **spilled(33)}),
    ok("KI001", loop=spilled(stores=10)),
    ok("KI001", kernel=SPILLS),
    ok("KI001", kernel=SPILLS, loop=SPILLS, hot=False),
    ok("KI001", loop=spilled(None)),
    fail("KI003", "12 scratch loads and 4 scratch stores, none", kernel=SPILLS),
    fail("KI003", "12 scratch loads", kernel=SPILLS, loop=SPILLS, hot=False),
    ok("KI003", kernel=SPILLS, loop=SPILLS),
    fail("KI004", "compiled to nothing", kernel={"empty": True}),
    ok("KI004", kernel={"empty": None}),
    ok("KI004", kernel={"empty": True, "matrix.upcast": None}),  # no kernel of Triton's
    fail("KI005", "98,304 bytes of LDS per workgroup exceed", kernel={"lds_bytes": 98304}),
    ok("KI005", kernel={"lds_bytes": 65536}),
    ok("KI005", kernel={"lds_bytes": None}),
    fail("KI006", "from 2 to 4 waves", kernel=step(resource="vgpr", reduce_by=8, gives=4)),
    fail(
        "KI006",
        "12 of 264 VGPRs fewer",
        kernel={**step(resource="vgpr", reduce_by=12, gives=2), "vgpr_allocated": 264},
    ),
    ok("KI006", kernel=step(resource="vgpr", reduce_by=9, gives=4)),
    fail(
        "KI007",
        "0.50 waves/SIMD: 1 × 2 waves fit at a time (limited by lds)",
        kernel=occupancy(0.5, 1),
    ),
    ok("KI007", kernel=occupancy(1, 1)),
    # What cannot be launched at all is another rule's matter.
    ok("KI007", kernel=occupancy(0, 0)),
    ok("KI007", kernel=occupancy(None, None)),
    fail("KI008", "12 of 240 instructions copy", kernel=PARKED, loop={"count.acc_move": 11}),
    # Of one cause the first rule speaks: KI003, the least of them, is the last.
    fail("KI008", "beyond 256 VGPRs", kernel={**SPILLS, **PARKED}, loop={"count.acc_move": 11}),
    ok("KI008", kernel=PARKED, loop={"count.acc_move": 10}),
    ok("KI008", kernel={**PARKED, "count.mfma": 80}, loop={"count.acc_move": 20}),
    fail("KI009", "32 × global_load_b16 of 16 bits per lane", loads=(16,) * 32),
    fail("KI009", "2 × global_load_b8 of 8 bits", loads=(128, 32, 16, 8)),
    fail("KI009", "1 × global_load_b16 of 16 bits", loads=(16, *WIDE)),
    ok("KI009", loads=(32,) * 4),
    fail("KI016", "not one workgroup fits", kernel={"occupancy.workgroups_per_cu": 0}),
    ok("KI016", kernel={"occupancy.workgroups_per_cu": 1}),
    ok("KI016", kernel={"occupancy.workgroups_per_cu": None}),
    ok("KI016", kernel={"occupancy.workgroups_per_cu": 0, "lds_bytes": 98304}),
    fail("KI017", "1 of 2 dots takes float8e4nv (OCP e4m3) operands", kernel=upcast(1)),
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
        '1 of 1 piece of inline assembly is not in the code: "s_sleep 1" at gemm.py:12',
        kernel=assembly("dropped"),
    ),
    ok("KI020", kernel={**assembly("dropped"), "empty": True}),  # KI004 says more
    ok("KI020", kernel={"inline_asm.dropped": None}),
    fail(
        "KI037",
        "waves_per_eu=3 makes the hot loops spill: up to 28 loads and 4 stores",
        kernel={**SPILLS, "option.waves_per_eu": 3},
        loop=spilled(28, 4),
    ),
    ok("KI037", kernel={**SPILLS, "option.waves_per_eu": 3}, loop=spilled(1, 1)),
    # The waves that were asked for do not come: that is another rule's word, and the only one.
    fail(
        "KI038",
        "(up to 120 loads, 54 stores per iteration), but occupancy is only 1 (limited by lds)",
        kernel={**SPILLS, **KEPT_OUT},
        loop=spilled(120, 54),
    ),
    ok("KI038", kernel={**SPILLS, **KEPT_OUT}, loop=spilled(2)),
    ok("KI038", kernel={**SPILLS, **KEPT_OUT, "option.waves_per_eu": 1}, loop=SPILLS),
    ok("KI038", kernel={**SPILLS, **KEPT_OUT, "occupancy.waves_per_eu": None}, loop=SPILLS),
    fail(
        "KI039",
        "12 loads and 4 stores of a private array in scratch per iteration, 9 at a run-time index",
        kernel=ARRAY,
        loop=ARRAY,
    ),
    ok("KI001", kernel=ARRAY, loop=ARRAY),
    ok("KI039", kernel=SPILLS, loop=SPILLS),
    # On RDNA a lane may address a sixth of the pool: a demand for two waves caps nothing.
    ok(
        "KI037",
        kernel={**SPILLS, "option.waves_per_eu": 2, "vgpr_limit": 256, "vgpr_pool": 1536},
        loop=SPILLS,
    ),
    # Eight waves are two on each SIMD whatever is asked for.
    ok("KI037", kernel={**SPILLS, "option.waves_per_eu": 2}, loop=SPILLS),
)


def metrics(values: Mapping[str, MetricValue]) -> dict[str, Metric]:
    return {name: Metric(name, value, "", "derived") for name, value in values.items()}


def widths(loads: tuple[int, ...]) -> dict[str, MetricValue]:
    return {
        "count.global_load": len(loads),
        "vector_bits.global_load.min": min(loads),
        "vector_bits.global_load.mean": sum(loads) / len(loads),
    }


def report(case: Case) -> KernelReport:
    source = SourceLoc("gemm.py", 16)
    loop = LoopReport(
        id="L0",
        depth=1,
        parent=None,
        header=LoopHeader(447, ".LBB0_3"),
        lines=((447, 612),),
        source=(source,),
        hot=case.hot,
        unroll=1,
        metrics=metrics({**LOOP, **widths(case.loads), **case.loop}),
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
        memory_ops=tuple(
            MemoryOp(
                *(450 + at, f"global_load_b{bits}", "global_load", bits, "L0", 1, source),
                use=neighbours(bits),
            )
            for at, bits in enumerate(case.loads)
        ),
        waits=(),
        findings=(),
    )


def neighbours(bits: int) -> LaneUse:
    """64 lanes whose elements lie side by side, in lines of 128 bytes."""
    size = 64 * bits / 8
    lines = max(1.0, size / 128)
    return LaneUse(lanes=64, lines=lines, lines_ideal=lines, bytes=size, addresses=64)


def judge(case: Case) -> dict[str, Finding]:
    return {finding.rule: finding for finding in evaluate(PACK, report(case))}


@pytest.mark.parametrize("case", [c for c in CASES if c.fires], ids=lambda c: f"{c.rule}-{c.says}")
def test_fires_alone_and_says_why(case: Case) -> None:
    found = judge(case)
    assert set(found) == {case.rule} | case.beside
    assert case.says in found[case.rule].message
    assert found[case.rule].fix
    assert found[case.rule].evidence
    assert found[case.rule].locations


@pytest.mark.parametrize("case", [c for c in CASES if not c.fires], ids=lambda c: c.rule)
def test_stays_silent(case: Case) -> None:
    assert case.rule not in judge(case)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"lds_bytes": 131072}, "KI005"),
        ({"occupancy.workgroups_per_cu": 0, "occupancy.waves_per_eu": 0}, "KI016"),
    ],
)
def test_of_a_kernel_that_cannot_launch_only_that_is_said(
    changed: Mapping[str, MetricValue], said: str
) -> None:
    worst = {**SPILLS, **upcast(2), "option.waves_per_eu": 3}
    spilling = Case(said, True, kernel=worst, loop=SPILLS)
    assert len(judge(spilling)) > 1
    assert set(judge(Case(said, True, kernel={**worst, **changed}, loop=SPILLS))) == {said}
    # What makes results wrong matters all the same.
    wrong = {**worst, **changed, "empty": True}
    assert set(judge(Case(said, True, kernel=wrong, loop=SPILLS))) == {said, "KI004"}


def test_a_sound_kernel_has_no_findings() -> None:
    assert judge(ok("none")) == {}


def test_a_kernel_of_which_nothing_is_known_has_no_findings() -> None:
    unknown = {**LOOP, **widths(WIDE)}
    nothing = Case("none", False, kernel=dict.fromkeys(KERNEL), loop=dict.fromkeys(unknown))
    assert judge(nothing) == {}


@pytest.mark.parametrize("rule", PACK.rules, ids=lambda rule: rule.text.id)
def test_every_rule_is_written_with_care(rule: Rule) -> None:
    text = rule.text
    assert re.fullmatch(r"KI\d{3}", text.id)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", text.name)
    assert text.cause
    assert len(text.explain.split()) >= 30, "a newcomer needs more than that"
    assert len(text.fix.split()) >= 10 or text.fix == "{access.fix}", "say what to change"
    assert all(len(reference.title) > 10 for reference in text.references)
    for prose in (text.explain, text.fix, text.message):
        assert not re.search(r"\s{2,}|\n", prose), "folded text has single spaces"


_FIGURE = re.compile(r"\{[^{}]*\}")


def _words(text: str) -> int:
    """Words of a text with all of its optional parts, a figure being one."""
    return len(_FIGURE.sub("X", text.replace("[[", "").replace("]]", "")).split())


@pytest.mark.parametrize("name", ["recommended", "strict", "guide"])
def test_what_is_printed_is_short_and_plain(name: str) -> None:
    texts = [rule.text for rule in load_named(name, catalogue()).rules if rule.pack == name]
    assert texts
    assert not {text.id: _words(text.fix) for text in texts if _words(text.fix) > 40}
    assert statistics.median(_words(text.fix) for text in texts) <= 20
    assert not {text.id: _words(text.message) for text in texts if _words(text.message) > 25}
    printed = {text.id: _FIGURE.sub("", f"{text.message} {text.fix}") for text in texts}
    assert not {ident: idiom[0] for ident, said in printed.items() if (idiom := IDIOM.search(said))}


def test_ids_and_names_are_unique() -> None:
    assert len({rule.text.id for rule in PACK.rules}) == len(PACK.rules)
    assert len({rule.text.name for rule in PACK.rules}) == len(PACK.rules)
