"""What cures save: which findings it makes of matches, how grave, in what order; what is a fact."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kinspect
import lxml.html
import pytest
from kinspect.inspector.cli.main import main
from kinspect.inspector.explain import view
from kinspect.inspector.explain.trials_view import findings_summary
from kinspect.inspector.formats import agent
from kinspect.inspector.formats.html.kernel import page_kernels
from kinspect.inspector.formats.html.page import write_report
from kinspect.inspector.lint.engine import Judgement, evaluate, judge
from kinspect.inspector.lint.packs import Pack, PackError, parse_pack
from kinspect.inspector.model import KernelReport, LaneUse, MemoryOp, Report
from kinspect.inspector.model.time import Removal, Removed
from kinspect.inspector.present.report import write_markdown, write_text
from kinspect.inspector.report import json_brief, json_write
from kinspect.inspector.report.json_read import SavedReport
from kinspect.inspector.timing.gone_sites import sites_of
from msgspec.structs import replace

from .test_lint_engine import access, kernel, loop, named, pack, rule, timed
from .test_lint_subjects import CATALOGUE

SMALL = Path(__file__).parent / "data" / "small_gfx942.s"


def priced(
    rules: Pack,
    report: KernelReport,
    prices: Mapping[str, float | None],
    *,
    is_users: bool = False,
) -> Judgement:
    """What a pack says where work of a kind takes some percent of the launch's time."""
    judged = rules if is_users else shipped(rules)
    return judge(judged, timed(report), price=lambda removal: prices[removal.what])


def shipped(rules: Pack) -> Pack:
    """A pack as if it came with kinspect: severities follow from the time."""
    own = tuple(replace(rule, is_severity_stated=False) for rule in rules.rules)
    return replace(rules, rules=own)


# --------------------------------------------------------------------------- severity


@pytest.mark.parametrize(
    ("percent", "severity", "doubt"),
    [
        (10.0, "warning", ""),
        (9.9, "info", ""),
        (3.0, "info", ""),
        (2.9, "info", "it would save 2.9 % of the launch"),
        (0.0, "info", "it would save 0 % of the launch"),
        (None, "error", ""),
    ],
)
def test_a_severity_is_what_the_cure_saves(
    percent: float | None, severity: str, doubt: str
) -> None:
    rules = pack(rule(severity="error", removes="vector"))
    said = priced(rules, kernel(loops=[loop(count__scratch_load=3)]), {"vector": percent})
    told = [(f.severity, f.saves_percent, f.doubt) for f in (*said.findings, *said.leads)]
    assert told == [(severity, percent, doubt)]
    assert bool(said.leads) == bool(doubt)


@pytest.mark.parametrize("severity", ["error", "info"])
def test_a_severity_that_a_users_pack_states_stays(tmp_path: Path, severity: str) -> None:
    """Of its own rules, and of those that it overrides."""
    own = pack(rule(removes="vector", severity=severity))
    said = priced(own, kernel(loops=[loop(count__scratch_load=3)]), {"vector": 0.5}, is_users=True)
    assert [(f.severity, f.saves_percent) for f in said.findings] == [(severity, 0.5)]
    (tmp_path / "base.yaml").write_text(
        rule(removes="vector", require="count.valu == 0", message="many")
    )
    text = f"extends: base.yaml\noverride: {{T001: {{severity: {severity}}}}}\n"
    rules = parse_pack(text, str(tmp_path / "t.yaml"), CATALOGUE)
    for percent in (0.0, 50.0):
        report = kernel(loops=[loop(count__valu=3)])
        said = priced(rules, report, {"vector": percent}, is_users=True)
        assert [(f.severity, f.saves_percent) for f in said.findings] == [(severity, percent)]


@pytest.mark.parametrize(
    "removes",
    [None, "{what: vector, part: count.valu / 9}", "{what: vector, part: 1 / count.mfma}"],
)
def test_what_has_no_known_part_is_not_priced(removes: str | None) -> None:
    """`count.valu` is unknown, and nothing is divided by 0."""
    report = kernel(loops=[loop(count__scratch_load=3, count__mfma=0)])
    said = priced(pack(rule(removes=removes)), report, {})
    assert [(f.severity, f.saves_percent) for f in said.findings] == [("warning", None)]


def test_the_order_of_findings() -> None:
    rules = pack(
        named("E1", severity="error"),
        named("W1", removes="vector"),
        named("N1", severity="info"),
        named("W2"),
        named("W3", removes="matrix"),
        named("N2", removes="lds"),
        named("F1", removes="loads"),
        named("F2", removes="stores"),
    )
    prices = {"vector": 12.0, "matrix": 70.0, "lds": 4.0, "loads": 0.4, "stores": 2.0}
    said = priced(rules, kernel(loops=[loop(count__scratch_load=9)]), prices)
    assert [f.rule for f in said.findings] == ["E1", "W3", "W1", "N2", "W2", "N1"]
    assert [f.rule for f in said.leads] == ["F2", "F1"]


@pytest.mark.parametrize(
    ("prices", "told", "below"),
    [
        ({"vector": 3.1}, ["S1", "L1"], []),
        ({"vector": 2.9}, ["L1"], []),
        ({}, ["L1"], []),  # what it saves is not known
    ],
)
def test_what_is_small_is_told_for_what_it_saves_alone(
    prices: Mapping[Removed, float], told: list[str], below: list[str]
) -> None:
    """Without a time its size decides; a saved report says what it saves."""
    rules = shipped(
        pack(
            named("S1", untimed="count.scratch_load > 9", removes="vector"),
            named("L1", untimed="count.scratch_load > 8", removes="lds"),
        )
    )
    untimed = kernel(loops=[loop(count__scratch_load=9)])
    assert [f.rule for f in judge(rules, untimed).findings] == ["L1"]
    report = timed(untimed)
    said = judge(rules, report, price=lambda goes: {"lds": 3.0, **prices}.get(goes.what))
    assert ([f.rule for f in said.findings], [f.rule for f in said.leads]) == (told, below)
    saved = replace(report, findings=said.findings, leads=said.leads)
    assert evaluate(rules, saved) == said.findings


def test_what_is_small_covers_no_other_rule_of_its_cause() -> None:
    small = named("R1", cause="a", untimed="count.scratch_load > 9", removes="lds")
    rules = shipped(pack(small, named("R2", cause="a", removes="vector")))
    report = timed(kernel(loops=[loop(count__scratch_load=9)]))
    for lds, told in ((2.0, "R2"), (40.0, "R1")):
        prices = {"lds": lds, "vector": 20.0}
        said = judge(rules, report, price=lambda goes, prices=prices: prices[goes.what])
        assert [f.rule for f in said.findings] == [told]


def test_a_kind_of_work_that_takes_little_is_not_simulated_in_parts() -> None:
    parted = "{what: vector, part: 0.5}"
    names = ("S1", "S2", "S3")
    rules = pack(*(named(name, untimed="count.scratch_load > 9", removes=parted) for name in names))
    asked: list[Removal] = []

    def price(removal: Removal) -> float:
        asked.append(removal)
        return 2.0

    judge(shipped(rules), timed(kernel(loops=[loop(count__scratch_load=9)])), price=price)
    assert set(asked) == {Removal("vector")}


def test_what_repeats_a_remedy_comes_last() -> None:
    """One rule with one fix takes one of the first places, however many loops it is about."""
    rules = pack(named("R1", removes="vector"), named("R2", removes="lds"))
    loops = [loop(f"L{n}", count__scratch_load=9) for n in range(2)]
    said = priced(rules, kernel(loops=loops), {"vector": 60.0, "lds": 20.0})
    assert [f.rule for f in said.findings] == ["R1", "R2", "R1", "R2"]


@pytest.mark.parametrize(
    ("prices", "told", "below"),
    [
        ({"vector": 60.0, "lds": 1.0}, ["R2"], []),
        ({"vector": 20.0, "lds": 40.0}, ["R1"], []),
        ({"vector": 22.9, "lds": 20.0}, ["R1"], []),  # about as much
        ({"vector": 23.0, "lds": 20.0}, ["R2"], []),
        ({"vector": 2.0, "lds": 1.0}, [], ["R1"]),
        ({"vector": 60.0}, ["R2"], []),  # what R1 saves is not known
        ({"vector": 1.0}, ["R1"], []),
        ({}, ["R1"], []),
    ],
)
def test_the_rule_of_a_cause_speaks_that_saves_most(
    prices: Mapping[Removed, float], told: list[str], below: list[str]
) -> None:
    rules = pack(named("R1", cause="a", removes="lds"), named("R2", cause="a", removes="vector"))
    report = timed(kernel(loops=[loop(count__scratch_load=9)]))
    said = judge(shipped(rules), report, price=lambda goes: prices.get(goes.what))
    assert ([f.rule for f in said.findings], [f.rule for f in said.leads]) == (told, below)
    saved = replace(report, findings=said.findings, leads=said.leads)
    assert evaluate(shipped(rules), saved) == said.findings


def test_in_each_loop_another_rule_of_a_cause_may_speak() -> None:
    rules = pack(named("R1", cause="a", removes="lds"), named("R2", cause="a", removes="vector"))
    report = timed(kernel(loops=[loop(f"L{n}", count__scratch_load=9) for n in range(2)]))
    prices = {
        ("lds", "L0"): 50.0,
        ("lds", "L1"): 1.0,
        ("vector", "L0"): 20.0,
        ("vector", "L1"): 8.0,
    }
    said = judge(rules, report, price=lambda goes: prices[goes.what, goes.loops[0]])
    assert [(f.rule, f.saves_percent) for f in said.findings] == [("R1", 50.0), ("R2", 8.0)]


def test_a_saved_report_keeps_what_cures_save() -> None:
    """Rules that are asked of it later find the savings by the fingerprints."""
    rules = shipped(pack(named("R1", removes="lds"), named("R2", removes="vector"), named("R3")))
    report = timed(kernel(loops=[loop(count__scratch_load=9)]))
    said = priced(rules, report, {"vector": 60.0, "lds": 1.0})
    saved = replace(report, findings=said.findings, leads=said.leads)
    assert evaluate(rules, saved) == said.findings
    assert {f.rule for f in evaluate(rules, report)} == {"R1", "R2", "R3"}


# --------------------------------------------------------------------------- what goes

OPS = (
    *(access(line, "global_load", 32, "L0", 17) for line in (110, 111)),
    access(210, "global_load", 64, "L1", 17),
    replace(access(220, "lds_read", 64, "L1", 17), use=LaneUse(64, conflicts=4.0)),
    access(221, "lds_read", 64, "L1", 17),
)


def access_rule(**changes: str) -> dict[str, str]:
    return {"scope": "instruction", "require": "op.bits >= 128", "message": "narrow", **changes}


GLOBAL = access_rule(when='op.kind == "global_load"')


@pytest.mark.parametrize(
    ("changes", "removals"),
    [
        ({"removes": "vector"}, [Removal("vector", 1.0, ("L0",)), Removal("vector", 1.0, ("L1",))]),
        (
            {"removes": "{what: vector, part: count.valu / 40}", "cured_together": "true"},
            [Removal("vector", 0.5, ("L1", "L0"))],
        ),
        (
            {"scope": "kernel", "removes": "{what: scratch, part: 7}"},
            [Removal("scratch", 1.0)],
        ),
        (
            {"scope": "kernel", "removes": "{what: occupancy, part: 7}"},
            [Removal("occupancy", 7.0)],
        ),
        (
            {"scope": "kernel", "removes": "{what: scratch, part: count.valu - 10}"},
            [Removal("scratch", 0.0)],
        ),
        (
            GLOBAL | {"removes": "{what: loads, part: matches / 4}"},
            [Removal("loads", 0.5, ("L0",), (110, 111)), Removal("loads", 0.25, ("L1",), (210,))],
        ),
        (
            GLOBAL | {"removes": "{what: loads, part: matches / 4}", "cured_together": "true"},
            [Removal("loads", 0.5, ("L0", "L1"), (110, 111, 210))],
        ),
        (
            {"require": "lds.conflicts.known == 0", "removes": "conflicts"},
            [Removal("conflicts", 1.0, ("L1",), (220,))],
        ),
    ],
)
def test_the_work_that_a_cure_takes_away(changes: dict[str, str], removals: list[Removal]) -> None:
    asked: list[Removal] = []
    loops = [
        loop("L0", count__scratch_load=1, count__valu=4),
        loop("L1", line=200, count__scratch_load=1, count__valu=20, lds__conflicts={"known": 4}),
    ]
    report = kernel({"count.scratch_load": 2, "count.valu": 9}, loops, OPS)
    rules = parse_pack(rule(**{"message": "much", **changes}), "t.yaml", CATALOGUE)
    judge(rules, timed(report), price=lambda removal: asked.append(removal))
    assert asked == removals


def test_code_outside_of_loops_goes_with_that_inside() -> None:
    asked: list[Removal] = []
    ops = [MemoryOp(50, "global_load_b8", "global_load", 8, None, 0, None), *OPS[:2]]
    together = GLOBAL | {"cured_together": "true", "removes": "loads"}
    report = timed(kernel(loops=[loop("L0")], memory_ops=ops))
    judge(parse_pack(rule(**together), "t.yaml", CATALOGUE), report, price=asked.append)
    assert asked == [Removal("loads", 1.0, (), (50, 110, 111))]


@pytest.mark.parametrize(
    ("loops", "sites"),
    [
        ((), range(8)),
        (("L0",), [0, 1, 6, 7]),
        (("L1",), [2, 5]),
        (("L0", "L2"), [0, 1, 3, 4, 6, 7]),
    ],
)
def test_a_loop_s_code_is_its_own(loops: tuple[str, ...], sites: Any) -> None:
    """That of loops in it is theirs, unless they are asked for as well."""
    nested = [("L0", range(6)), ("L1", (1, 2, 3)), ("L2", (2,))]
    bounds = [(0, 2), (2, 3), (3, 5), (5, 6), (6, 7), (7, 8)]
    function = SimpleNamespace(
        instructions=[SimpleNamespace(line=n) for n in range(8)],
        loops=[
            SimpleNamespace(id=name, depth=depth, blocks=tuple(blocks))
            for depth, (name, blocks) in enumerate(nested)
        ],
        blocks=[SimpleNamespace(index=i, start=a, stop=b) for i, (a, b) in enumerate(bounds)],
    )
    timing: Any = SimpleNamespace(function=function)
    assert sites_of(timing, Removal("vector", 1.0, loops)) == frozenset(sites)
    assert sites_of(timing, Removal("vector", 1.0, loops, (0, 2))) == {0, 2} & set(sites)


@pytest.mark.parametrize(
    ("removes", "fault"),
    [
        ("vectors", "Invalid enum value 'vectors'"),
        ("{what: vector, part: count.mfna}", "unknown metric count.mfna"),
        ("{what: vector, part: count.mfma > 0}", "this is a boolean, not a number"),
        ("{what: vector, part: 0}", "part is larger than 0"),
        ("{what: vector, near: 1}", "unknown field `near`"),
        ("{part: 1}", "missing required field `what`"),
    ],
)
def test_faults(removes: str, fault: str) -> None:
    with pytest.raises(PackError, match=fault):
        pack(rule(removes=removes))


# --------------------------------------------------------------------------- what is printed


@pytest.fixture(scope="module")
def report() -> Report:
    """With a finding whose cure saves much, and a fact whose cure saves little."""
    whole = kinspect.analyze(SMALL).report
    (small,) = whole.kernels
    finding = replace(small.findings[0], rule="R1", saves_percent=27.3)
    little = {"saves_percent": 1.2, "doubt": "it would save 1.2 % of the launch"}
    lead = replace(finding, rule="R2", message="little", **little)
    return replace(whole, kernels=(replace(small, findings=(finding,), leads=(lead,)),))


def written(write: Callable[..., None], report: Report, **options: Any) -> str:
    stream = io.StringIO()
    write(report, stream, **options)
    return " ".join(stream.getvalue().split())


def as_html(report: Report, stream: io.StringIO) -> None:
    page = io.StringIO()
    write_report(report, page_kernels(report.kernels), page)
    stream.write(" ".join(lxml.html.fromstring(page.getvalue()).itertext()))


@pytest.mark.parametrize(
    ("write", "saving"),
    [
        (write_text, "-27 % ISA 22 "),
        (agent.write, "saves=27.3%"),
        (write_markdown, "**-27 %** ISA 22:"),
        (as_html, "-27 % ISA 22 R1 "),
    ],
)
def test_formats_tell_savings_and_no_facts(
    report: Report, write: Callable[..., None], saving: str
) -> None:
    told = written(write, report)
    assert saving in told
    assert "R2" not in told


def test_a_kernel_with_facts_alone(report: Report) -> None:
    (small,) = report.kernels
    alone = timed(replace(small, findings=(), spills=(), loops=()))
    told = findings_summary(alone)
    assert told == "no finding, 1 fact that would save less than 3 %"
    assert findings_summary(replace(alone, leads=())) == view.NOTHING_FOUND


def test_json(report: Report) -> None:
    (lead,) = report.kernels[0].leads
    brief = json_brief.to_dict(report)["kernels"][0]
    assert [(f["rule"], f["doubt"]) for f in brief["leads"]] == [("R2", lead.doubt)]
    stream = io.StringIO()
    json_write.write(report, stream)
    again = SavedReport.open(stream.getvalue(), "report.json").report()
    assert again.kernels[0].leads == (replace(lead, lines=(), plural_message="", anchor=None),)


def test_facts_are_told_by_all_alone(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved.json"
    with saved.open("w") as stream:
        json_write.write(report, stream)
    told = {}
    for option in ("--all", "--details"):
        assert main(["analyze", option, str(saved)]) == 0
        told[option] = " ".join(capsys.readouterr().out.split())
    fact = "1 fact that would save less than 3 % -1 % ISA 22 little R2"
    assert [fact in out for out in told.values()] == [True, False]


SCALED = """\
import torch, triton, triton.language as tl

def body(x, y, rows, pitch, stride, BLOCK: tl.constexpr):
    cols = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    for row in range(rows):
        values = tl.load(x + row * pitch + cols * stride)
        tl.store(y + row * pitch + cols * stride, values * 0.5)

narrow = triton.jit(body, do_not_specialize=["stride"])
wide = triton.jit(body)
n = 2048 * 304
x = torch.zeros((4, n), dtype=torch.float16, device="cuda")
narrow[(304,)](x, x, 4, n, 1, BLOCK=2048)
wide[(304,)](x, x, 4, n, 1, BLOCK=2048)
"""


def test_a_finding_saves_what_its_cure_gains(tmp_path: Path, shared_guests: None) -> None:
    """The same launch with the cure made, compiled and timed."""
    pytest.importorskip("triton")
    script = tmp_path / "scaled.py"
    script.write_text(SCALED)
    narrow, wide = kinspect.analyze(script, arch="gfx942")
    assert narrow.time is not None
    assert wide.time is not None
    first = narrow.findings[0]
    assert first.rule == "KI024"
    gain = 100 * (1 - wide.time.us / narrow.time.us)
    assert gain > 10
    assert first.saves_percent == pytest.approx(gain, abs=5)
    assert all(finding.rule != "KI024" for finding in wide.findings)
