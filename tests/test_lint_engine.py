"""Packs: how they are checked when loaded. The engine: which findings it makes, and where."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec.structs
import pytest
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.compare.trials.candidates import loop_of
from kinspect.inspector.lint.catalogue import Catalogue
from kinspect.inspector.lint.engine import evaluate, fingerprint
from kinspect.inspector.lint.packs import Pack, load_pack, parse_pack
from kinspect.inspector.model import (
    CodePosition,
    Finding,
    InstructionTime,
    KernelReport,
    LoopHeader,
    LoopReport,
    MemoryOp,
    Metric,
    MetricSpec,
    MetricValue,
    SourceLoc,
    WaitOp,
)

from .kernel_times import kernel_time

CATALOGUE = Catalogue.of(
    (
        MetricSpec("vgpr_count", "registers", "compiler", "kernel", ""),
        MetricSpec("occupancy.next_step", "mapping", "derived", "kernel", ""),
        MetricSpec("count.*", "instructions", "derived", "both", ""),
        MetricSpec("vector_bits.*.min", "bits/lane", "derived", "both", ""),
        MetricSpec("loads.passes", "mapping", "derived", "kernel", ""),
        MetricSpec("wide_addresses", "mapping", "derived", "loop", ""),
    ),
    words=("mfma", "valu", "scratch_load", "scratch_store", "global_load"),
)


def metrics(values: Mapping[str, MetricValue]) -> dict[str, Metric]:
    return {name: Metric(name, value, "", "derived") for name, value in values.items()}


def loop(
    name: str = "L0", *, hot: bool = True, depth: int = 1, line: int = 100, **counts: MetricValue
) -> LoopReport:
    values = {key.replace("__", "."): value for key, value in counts.items()}
    source = (SourceLoc("k.py", 16), SourceLoc("k.py", 17))
    return LoopReport(
        id=name,
        depth=depth,
        parent=None,
        header=LoopHeader(line, f".LBB0_{line}"),
        lines=((line, line + 50),),
        source=source,
        hot=hot,
        unroll=2,
        metrics=metrics(values),
    )


def kernel(
    values: Mapping[str, MetricValue] | None = None,
    loops: Sequence[LoopReport] = (),
    memory_ops: Sequence[MemoryOp] = (),
    name: str = "k.py:matmul:gfx942:0123abcd",
) -> KernelReport:
    return KernelReport(
        id=name,
        name="matmul",
        arch="gfx942",
        source=SourceLoc("k.py", 8),
        variant=None,
        artifacts={},
        metrics=metrics(values or {}),
        loops=tuple(loops),
        main_loop=None,
        memory_ops=tuple(memory_ops),
        waits=(),
        findings=(),
    )


def rule(**changes: object) -> str:
    fields = {
        "id": "T001",
        "name": "a-rule",
        "severity": "warning",
        "scope": "loop",
        "require": "count.scratch_load == 0",
        "message": '"{count.scratch_load} reloads"',
        "fix": "spill less",
    }
    fields |= {key: value for key, value in changes.items() if value is not None}
    lines = [f"{key}: {value}" for key, value in fields.items() if value != ""]
    return "- " + "\n  ".join(lines) + "\n"


def pack(*rules: str) -> Pack:
    return parse_pack("".join(rules), "t.yaml", CATALOGUE)


def timed(report: KernelReport) -> KernelReport:
    return msgspec.structs.replace(report, time=kernel_time())


def one(found: tuple[Finding, ...]) -> Finding:
    assert len(found) == 1
    return found[0]


# --------------------------------------------------------------------------- findings


def test_a_finding_carries_the_rule_and_its_evidence() -> None:
    rules = pack(
        rule(
            confidence="likely",
            when="count.mfma > 0 and vgpr_count > 100",
            message='"{count.scratch_load} of {occupancy.next_step.reduce_by}"',
        )
    )
    step = {"resource": "vgpr", "reduce_by": 2, "gives": 4}
    found = one(
        evaluate(
            rules,
            kernel(
                {"vgpr_count": 130, "count.mfma": 99, "occupancy.next_step": step},
                [loop(count__scratch_load=3, count__mfma=16)],
            ),
        )
    )
    assert (found.rule, found.severity, found.confidence) == ("T001", "warning", "likely")
    assert found.message == "3 of 2"
    assert found.fix == "spill less"
    assert found.evidence == {
        "count.scratch_load": 3,
        "count.mfma": 16,
        "vgpr_count": 130,
        "occupancy.next_step.reduce_by": 2,
    }


@pytest.mark.parametrize(
    ("changes", "spills", "expected"),
    [
        ({}, 0, 0),
        ({}, 1, 1),
        ({}, None, 0),  # unknown: nothing to say
        ({"when": "count.mfma > 8"}, 1, 0),
        ({"when": "count.mfma > 0"}, 1, 1),
        ({"when": "count.valu > 0"}, 1, 0),  # the condition itself is unknown
        ({"require": "count.scratch_load == 0 or count.valu > 3"}, 1, 0),
        ({"require": "count.scratch_load == 0 and count.valu > 3"}, 1, 1),  # false either way
    ],
)
def test_when_and_require(changes: dict[str, object], spills: int | None, expected: int) -> None:
    report = kernel(loops=[loop(count__scratch_load=spills, count__mfma=4)])
    assert len(evaluate(pack(rule(**changes)), report)) == expected


@pytest.mark.parametrize(
    ("changes", "told", "told_with_time"),
    [
        ({}, [2], [2]),
        ({"removes": "vector"}, [2], [1, 2]),
        ({"tags": "[correctness]"}, [1, 2], [1, 2]),
        ({"removes": "vector", "when": "hot"}, [2], [2]),
        ({"when": "not hot and depth == 1 and unroll == 2"}, [1], [1]),
    ],
)
def test_loops_that_rules_look_at(
    changes: dict[str, str], told: list[int], told_with_time: list[int]
) -> None:
    loops = [
        loop("L0", hot=False, line=10, count__scratch_load=1),
        loop("L1", hot=True, depth=2, line=20, count__scratch_load=2),
    ]
    report = kernel(loops=loops)
    for asked, wanted in ((report, told), (timed(report), told_with_time)):
        found = evaluate(pack(rule(**changes)), asked)
        assert [f.evidence["count.scratch_load"] for f in found] == wanted


def test_loops_that_one_change_cures_are_one_finding() -> None:
    loops = [
        loop("L0", line=10, count__scratch_load=1, count__valu=10),
        loop("L1", line=100, count__scratch_load=4, count__valu=10),
        loop("L2", line=200, count__scratch_load=0, count__valu=10),
    ]
    removes = "{what: scratch, part: count.scratch_load / count.valu}"
    together = pack(rule(cured_together="true", removes=removes))
    report = kernel(loops=loops)
    (finding,) = evaluate(together, report)
    assert finding.message == "4 reloads; the same in 1 other loop"
    lines = [place.line for place in finding.locations if place.kind == "amdgcn"]
    assert lines == [100, 10]
    apart = evaluate(pack(rule(removes=removes)), report)
    assert [f.message for f in apart] == ["1 reloads", "4 reloads"]
    (alone,) = evaluate(together, kernel(loops=loops[:1]))
    assert "other" not in alone.message
    assert alone.fingerprint == finding.fingerprint == apart[0].fingerprint


def test_what_a_remainder_repeats_is_left_out() -> None:
    main = loop("L0", line=10, count__scratch_load=4)
    rest = loop("L1", line=100, count__scratch_load=1, loop__remainder=True)
    together = pack(rule(cured_together="true"))
    assert [f.message for f in evaluate(together, kernel(loops=[main, rest]))] == ["4 reloads"]
    assert [f.message for f in evaluate(together, kernel(loops=[rest]))] == ["1 reloads"]


def test_kernel_rules_see_the_sum_over_hot_loops() -> None:
    outside = pack(
        rule(
            scope="kernel",
            when="hot_loops.count.scratch_load == 0",
            message='"{hot_loops.count.scratch_load} of {count.scratch_load}"',
        )
    )
    always = pack(
        rule(
            scope="kernel",
            require="hot_loops.count.scratch_load < 0",
            message='"{hot_loops.count.scratch_load}"',
        )
    )
    whole = {"count.scratch_load": 9}
    cold, hot = loop("L0", hot=False, count__scratch_load=5), loop("L1", count__scratch_load=2)
    also, silent = loop("L2", count__scratch_load=1), loop("L3", count__scratch_load=None)
    assert one(evaluate(outside, kernel(whole, [cold]))).message == "0 of 9"
    assert evaluate(outside, kernel(whole, [cold, hot])) == ()
    assert one(evaluate(always, kernel(whole, [cold, hot, also]))).message == "3"
    assert evaluate(always, kernel(whole, [hot, silent])) == ()  # an unknown part, an unknown sum


def test_sorted_by_severity_then_loop() -> None:
    rules = pack(
        rule(id="A1", severity="info"),
        rule(id="B1", severity="error", require="count.mfma == 0"),
        rule(id="C1"),
        rule(id="D1", scope="kernel", require="vgpr_count < 100"),
    )
    busy = {"count__scratch_load": 1, "count__mfma": 1}
    report = kernel({"vgpr_count": 130}, [loop("L0", **busy), loop("L1", **busy)])
    found = evaluate(rules, report)
    assert [f.rule for f in found] == ["B1", "B1", "D1", "C1", "A1", "C1", "A1"]
    assert evaluate(rules, report) == found


# --------------------------------------------------------------------------- places


def access(line: int, cls: str, bits: int | None, where: str | None, source: int) -> MemoryOp:
    call = SourceLoc("k.py", source)
    inlined = SourceLoc("/lib/triton/language/standard.py", 43, 13, inlined_at=call)
    return MemoryOp(line, f"{cls}_b{bits}", cls, bits, where, 1, inlined)


def test_a_rule_about_a_class_points_at_its_narrowest_accesses() -> None:
    ops = [
        access(50, "global_load", 8, None, 3),  # outside the loop
        access(110, "global_load", 128, "L0", 17),
        access(111, "global_load", None, "L0", 17),
        *(access(112 + i, "global_load", 16, "L0", 18) for i in range(4)),
        access(120, "scratch_load", 32, "L0", 19),  # only `when` is about this class
    ]
    rules = pack(
        rule(
            require="vector_bits.global_load.min >= 32",
            when="count.scratch_load > 0",
            message="narrow",
        )
    )
    loops = [loop(count__scratch_load=1, vector_bits__global_load__min=16)]
    texts = {17: "    a = tl.load(p)", 18: "    b = tl.load(q)"}
    found = one(evaluate(rules, kernel(loops=loops, memory_ops=ops), lambda at: texts.get(at.line)))
    isa = [(at.line, at.text) for at in found.locations if at.kind == "amdgcn"]
    assert [line for line, _ in isa] == [112, 113, 114, 115, 110]
    assert isa[0][1] == "global_load_b16"
    source = [(at.file, at.line, at.text) for at in found.locations if at.kind == "source"]
    assert source == [("k.py", 18, "    b = tl.load(q)"), ("k.py", 17, "    a = tl.load(p)")]


def test_a_rule_about_a_class_in_the_whole_kernel_lists_accesses_anywhere() -> None:
    rules = pack(rule(scope="kernel"))
    ops = [access(50 + i, "scratch_load", 32, None, 3) for i in range(9)]
    found = one(evaluate(rules, kernel({"count.scratch_load": 9}, memory_ops=ops)))
    assert [at.line for at in found.locations] == [50, 51, 52, 53, 54, 3]


def test_other_loop_rules_point_at_the_loop() -> None:
    found = one(
        evaluate(
            pack(rule(require="count.mfma > 9", message="few")),
            kernel(loops=[loop(line=447, count__mfma=1)]),
        )
    )
    assert [(at.kind, at.line, at.file, at.text) for at in found.locations] == [
        ("amdgcn", 447, None, ".LBB0_447"),
        ("source", 16, "k.py", ""),
        ("source", 17, "k.py", ""),
    ]


def test_other_kernel_rules_point_at_the_kernel() -> None:
    rules = pack(rule(scope="kernel", require="vgpr_count < 100", message="many"))
    found = one(evaluate(rules, kernel({"vgpr_count": 130})))
    assert [(at.kind, at.line, at.file) for at in found.locations] == [("source", 8, "k.py")]
    nowhere = msgspec.structs.replace(kernel({"vgpr_count": 130}), source=None)
    assert one(evaluate(rules, nowhere)).locations == ()


def position(key: str, column: int | None, *lines: int, at: int = 20) -> CodePosition:
    return CodePosition(key, SourceLoc("k.py", at, column), lines, "v_rcp_f32")


PATH = "loads.passes"
"""A metric of kernels that names two lines."""
NAMED = rule(
    scope="kernel",
    require=f"{PATH}.loads == 0",
    message=f'"{{{PATH}.loads}} again at {{{PATH}.at}}, first at {{{PATH}.first_at}}"',
)


def passes(*positions: CodePosition, loops: Sequence[LoopReport] = ()) -> KernelReport:
    value = {"loads": 1, "at": "k.py:20", "first_at": "k.py:30"}
    report = kernel(loops=loops)
    metric = Metric(PATH, value, "mapping", "derived", positions=positions)
    return msgspec.structs.replace(report, metrics={PATH: metric})


def places_in(finding: Finding) -> list[tuple[str, int | None, int | None]]:
    return [(at.kind, at.line, at.column) for at in finding.locations]


def test_a_rule_points_at_the_expressions_that_its_message_names() -> None:
    other = position("other_at", 1, 90)
    report = passes(other, position("first_at", 9, 60, at=30), position("at", 5, 70, 71))
    found = one(evaluate(pack(NAMED), report, lambda at: f"line {at.line}"))
    assert places_in(found) == [
        ("amdgcn", 70, None), ("amdgcn", 60, None), ("source", 20, 5), ("source", 30, 9),
    ]  # fmt: skip
    assert found.locations[0].text == "v_rcp_f32"
    assert found.isa_lines == (70, 71, 60)


def test_what_stands_beside_it_comes_behind() -> None:
    message = f'"behind {{{PATH}.behind}}: {{{PATH}.at}}"'
    rules = pack(rule(scope="kernel", require=f"{PATH}.loads == 0", message=message))
    report = passes(position("behind", 9, 60, at=30), position("at", 5, 70))
    assert places_in(one(evaluate(rules, report)))[:2] == [
        ("amdgcn", 70, None), ("amdgcn", 60, None),
    ]  # fmt: skip


def test_a_rule_that_names_no_line_points_at_what_it_needs() -> None:
    rules = pack(rule(scope="kernel", require=f"{PATH}.loads == 0", message="again"))
    found = one(evaluate(rules, passes(position("at", 5, 70))))
    assert places_in(found) == [("amdgcn", 70, None), ("source", 20, 5)]


def test_the_costliest_expression_comes_first() -> None:
    """By the time of its instructions, else in the main loop, else the first."""
    cheap, dear = position("at", 5, 10, 11), position("at", 30, 120, 121)
    report = passes(cheap, dear)
    assert places_in(one(evaluate(pack(NAMED), report)))[0] == ("amdgcn", 10, None)
    in_loop = msgspec.structs.replace(passes(cheap, dear, loops=[loop(line=100)]), main_loop="L0")
    assert places_in(one(evaluate(pack(NAMED), in_loop)))[0] == ("amdgcn", 120, None)
    shares = (InstructionTime(11, 0.3), InstructionTime(120, 0.1), InstructionTime(121, 0.1))
    with_time = msgspec.structs.replace(in_loop, time=kernel_time(instructions=shares))
    assert places_in(one(evaluate(pack(NAMED), with_time)))[0] == ("amdgcn", 10, None)


def test_of_an_expression_in_two_loops_the_instructions_are_those_of_the_findings_loop() -> None:
    rules = pack(rule(require="wide_addresses.saved == 0", message='"{wide_addresses.at}"'))
    value = {"saved": 1, "at": "k.py:20"}
    metric = Metric(
        "wide_addresses", value, "mapping", "derived", positions=(position("at", 5, 20, 110, 111),)
    )
    first = msgspec.structs.replace(loop(line=100), metrics={"wide_addresses": metric})
    found = one(evaluate(rules, kernel(loops=[first])))
    assert found.isa_lines == (110, 111)
    without = msgspec.structs.replace(metric, positions=(position("at", 5),))
    first = msgspec.structs.replace(first, metrics={"wide_addresses": without})
    found = one(evaluate(rules, kernel(loops=[first])))
    assert places_in(found) == [("source", 20, 5), ("amdgcn", 100, None)]


def test_a_finding_on_the_kernel_is_of_no_loop_wherever_it_points() -> None:
    """`kinspect try` holds it against those of the changed kernel, in whatever loop they are."""
    report = passes(position("at", 30, 120), loops=[loop(line=100)])
    whole = one(evaluate(pack(NAMED), report))
    assert whole.isa_lines == (120,)
    assert loop_of(whole, report) is None
    of_loop = loop(line=100, count__scratch_load=1)
    report = kernel(loops=[of_loop])
    assert loop_of(one(evaluate(pack(rule()), report)), report) == of_loop


def test_a_column_counts_characters() -> None:
    text = "é = 1; x = 2"
    report = passes(position("at", len("é = 1; ".encode()) + 1, 70))
    found = one(evaluate(pack(NAMED), report, lambda _: text))
    assert text[(found.column_in("k.py", 20) or 0) - 1 :] == "x = 2"
    assert found.column_in("k.py", 21) is None


# --------------------------------------------------------------------------- identity


def test_fingerprints_do_not_tell_how_exact_a_place_is() -> None:
    """They are those of before findings pointed at expressions: baselines hold them."""
    texts = {8: "def matmul(", 20: "y = x / n", 30: "y = a / b"}

    def prints(*positions: CodePosition) -> tuple[str, str]:
        found = one(evaluate(pack(NAMED), passes(*positions), lambda at: texts.get(at.line)))
        return found.fingerprint, found.anchor.text if found.anchor is not None else ""

    whole = prints()
    assert whole == (fingerprint("T001", kernel().id, -1, "def matmul("), "def matmul(")
    assert prints(position("at", 5, 70)) == prints(position("at", 9, 70, at=30)) == whole


def test_fingerprint_outlives_moved_lines() -> None:
    rules = pack(rule())
    ops = [access(120, "scratch_load", 32, "L0", 19)]
    moved = [access(220, "scratch_load", 32, "L0", 29)]

    def mark(report: KernelReport, text: str = "  acc += tl.dot(a, b)") -> str:
        return one(evaluate(rules, report, lambda at: text)).fingerprint

    base = mark(kernel(loops=[loop(count__scratch_load=3)], memory_ops=ops))
    later = kernel(loops=[loop(line=200, count__scratch_load=5)], memory_ops=moved)
    assert mark(later) == base
    assert mark(later, "acc += tl.dot(a, b)") == base  # indentation
    assert mark(later, "acc = tl.dot(a, b, acc)") != base
    assert len(base) == 16
    assert int(base, 16) >= 0


def test_fingerprint_tells_apart() -> None:
    base = fingerprint("KI001", "a/k.py:matmul:gfx942:0123", 0, "x")
    others = {
        fingerprint("KI002", "a/k.py:matmul:gfx942:0123", 0, "x"),
        fingerprint("KI001", "a/k.py:matmul:gfx90a:0123", 0, "x"),
        fingerprint("KI001", "a/k.py:matmul:gfx942:4567", 0, "x"),
        fingerprint("KI001", "a/k.py:matmul:gfx942:0123", 1, "x"),
        fingerprint("KI001", "a/k.py:matmul:gfx942:0123", 0, "y"),
    }
    assert len(others | {base}) == 6
    for numbered in ("a/k.py:8:matmul:gfx942:0123", "a/k.py:8:4:matmul:gfx942:0123"):
        assert fingerprint("KI001", numbered, 0, "x") == base


def test_packs_travel_between_processes() -> None:
    rules = pack(rule(), rule(id="T002", scope="kernel", require="vgpr_count < 100"))
    again = pickle.loads(pickle.dumps(rules))
    assert again == rules


# --------------------------------------------------------------------------- loading


def faults(text: str) -> list[str]:
    with pytest.raises(KinspectError) as caught:
        parse_pack(text, "t.yaml", CATALOGUE)
    assert caught.value.exit_code == 2
    assert caught.value.hint
    return caught.value.message.splitlines()


def test_both_forms_of_a_pack() -> None:
    bare = pack(rule())
    full = parse_pack(
        "pack: mine\ndescription: ours\nrules:\n" + "\n".join("  " + x for x in rule().split("\n")),
        "t.yaml",
        CATALOGUE,
    )
    assert (bare.name, bare.description) == ("t", "")
    assert (full.name, full.description) == ("mine", "ours")
    assert [r.text for r in full.rules] == [r.text for r in bare.rules]
    text = bare.rules[0].text
    assert (text.confidence, text.status, text.removes) == ("certain", "stable", None)
    assert (text.when, text.explain, text.references) == (None, "", ())


def test_references_are_titles_and_addresses() -> None:
    text = rule() + "  references:\n    - {title: A guide, url: 'https://example.org/g'}\n"
    (reference,) = pack(text).rules[0].text.references
    assert (reference.title, reference.url) == ("A guide", "https://example.org/g")


def test_every_fault_of_a_pack_at_once() -> None:
    text = """\
pack: mine
rules:
  - id: T001
    name: first
    severity: fatal
    scope: loop
    require: count.scrach_load == 0
    message: "{count.mfam} MFMA"
    whenn: hot
  - id: 2
    severity: error
    scope: kernel
    require: count.mfma + "a" > 0
    message: fine
    cured_together: true
    references: [{title: x, link: y}, 5]
  - just text
"""
    assert faults(text) == [
        "t.yaml:9:5: unknown key whenn (did you mean when?)",
        "t.yaml:5:15: Invalid enum value 'fatal'",
        "t.yaml:7:14: unknown metric count.scrach_load (did you mean count.scratch_load?)",
        "t.yaml:8:16: unknown metric count.mfam (did you mean count.mfma?)",
        "t.yaml:10:5: name missing",
        "t.yaml:10:9: Expected `str`, got `int`",
        "t.yaml:16:29: unknown key link (known: title, url)",
        "t.yaml:16:18: url missing",
        "t.yaml:16:39: a mapping with title, url goes here, or a name in the pack's documents",
        "t.yaml:15:21: cured_together is for rules of scope loop or instruction",
        't.yaml:13:27: `"a"` is text, a number is needed here',
        "t.yaml:17:5: a mapping with id, name, severity, scope, require, message, confidence, "
        "when, untimed, cause, removes, explain, fix, references, status, cured_together, tags, "
        "tried, prevents_launch, cures, cures_only, improves goes here",
    ]


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ("count.mfam > 0", "6:12"),
        ("  count.mfam > 0", "6:14"),
        ('"count.mfam > 0"', "6:13"),
        ("'1 > 0 and count.mfam > 0'", "6:23"),
        ("count.mfma > 0 and\n    1 > 0 and\n    count.mfam > 0", "8:5"),
        (">-\n    count.mfma > 0\n    and count.mfam > 0", "8:9"),
        ("|\n    count.mfma > 0\n      and count.mfam > 0", "8:11"),
        ("> # folded\n\n    count.mfam > 0", "8:5"),
    ],
)
def test_places_hold_in_every_yaml_style(condition: str, place: str) -> None:
    head = "- id: T001\n  name: ü\n  severity: info\n  scope: loop\n  message: é\n"
    fault = f"t.yaml:{place}: unknown metric count.mfam (did you mean count.mfma?)"
    assert faults(f"{head}  require: {condition}\n") == [fault]


def test_columns_count_characters() -> None:
    text = rule(message='"ü é {count.mfam}"')
    assert faults(text)[0].startswith("t.yaml:6:18: unknown metric count.mfam")


@pytest.mark.parametrize(
    ("key", "instead"), [("worth", "`removes`"), ("saves", "`removes`"),
                         ("superseded_by", "`cause`"), ("hot_only", "`op.hot`")]
)  # fmt: skip
def test_keys_that_are_gone(key: str, instead: str) -> None:
    (fault,) = faults(rule(**{key: "[x]"}))
    assert fault.startswith(f"t.yaml:8:3: {key} is gone: ")
    assert instead in fault


def test_ids_are_taken_once() -> None:
    assert faults(rule() + rule(name="other")) == ["t.yaml:8:3: id T001 is taken by line 1"]
    assert "t.yaml:1:7: an id is a letter" in faults(rule(id='"has space"'))[0]


def test_a_key_stands_once() -> None:
    assert faults(rule() + "  fix: another\n") == ["t.yaml:8:3: `fix` stands here twice"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "t.yaml:1:1: a pack is a mapping"),
        ("just text", "t.yaml:1:1: a pack is a mapping"),
        ("pack: mine\n", "t.yaml:1:1: a pack needs `rules:`"),
        ("pack: mine\nrules: 5\n", "t.yaml:2:8: a pack needs `rules:`"),
        ("rules: []\nrulez: []\n", "t.yaml:2:1: unknown key rulez (did you mean rules?)"),
        ("rules: [\n", "t.yaml:2:1: "),
        ("a: b: c\n", "t.yaml:1:5: mapping values are not allowed"),
        ("\0", "t.yaml:1:1: "),
        (
            rule(name="!!python/object/apply:os.getcwd []"),
            "t.yaml:2:9: this tag has no meaning here",
        ),
        (rule(name="2020-13-45"), "t.yaml:2:9: "),
        (rule(require="true"), "t.yaml:5:12: Expected `str`, got `bool`"),
        (rule(require="none"), "t.yaml:5:12: this is a none, not a condition"),
        (rule(require='""'), "t.yaml:5:13: empty"),
        (rule(scope="kernel", require="unroll > 1"), "t.yaml:5:12: unroll is known of loops only"),
        (rule(references="[]") + "  ? [a]\n  : b\n", "t.yaml:9:5: unknown key None"),
        (rule(references="text"), "t.yaml:8:15: references are a list"),
    ],
)
def test_unusable_packs(text: str, expected: str) -> None:
    assert faults(text)[0].startswith(expected)


def test_files(tmp_path: Path) -> None:
    good, binary = tmp_path / "mine.yaml", tmp_path / "x.bin"
    good.write_text(rule())
    binary.write_bytes(b"\xff\xfe\x00")
    assert load_pack(good, CATALOGUE).name == "mine"
    for path in (tmp_path / "none.yaml", binary, tmp_path):
        with pytest.raises(KinspectError, match="cannot read rule pack") as caught:
            load_pack(path, CATALOGUE)
        assert str(path) in caught.value.message


def test_importing_the_engine_stays_cheap() -> None:
    code = (
        "import sys; import kinspect.inspector.lint.engine; "
        "print(sorted({'difflib', 'importlib.resources', 'torch', 'triton', 'rich'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


# --------------------------------------------------------------------------- one fact, one finding


def named(id_: str, **changes: object) -> str:
    return rule(id=id_, name=f"rule-{id_.lower()}", **changes)


def wait(line: int, slack: int) -> WaitOp:
    return WaitOp(
        line=line,
        counter="vmcnt",
        n=0,
        loop="L0",
        source=SourceLoc("k.py", 16),
        verdict="needed",
        slack=slack,
    )


WAITS = Catalogue.of(
    (
        MetricSpec("vgpr_count", "registers", "compiler", "kernel", ""),
        MetricSpec("count.*", "instructions", "derived", "both", ""),
    ),
    words=("vmcnt", "mfma", "scratch_load", "lds_read", "lds_write", "global_load"),
)


def ids(rules: str, report: KernelReport) -> list[tuple[str, str]]:
    found = evaluate(parse_pack(rules, "t.yaml", WAITS), report)
    return [(finding.rule, finding.severity) for finding in found]


def test_rules_of_one_cause_have_one_finding_in_a_loop() -> None:
    """That of the first in the pack, as grave as it is."""
    both = loop("L0", count__scratch_load=3, count__mfma=2)
    second_alone = loop("L1", count__scratch_load=3, count__mfma=0)
    first = named("T1", severity="info", cause="a b", require="count.mfma == 0")
    second = named("T2", severity="error", cause="a b")
    third = named("T3", cause="c")
    report = kernel(loops=[both, second_alone])
    told = [("T2", "error"), ("T3", "warning"), ("T1", "info"), ("T3", "warning")]
    assert ids(first + second + third, report) == told
    assert ids(second + first, report) == [("T2", "error")] * 2
    without = named("T1", require="count.mfma == 0") + named("T2")
    assert len(ids(without, kernel(loops=[both]))) == 2


def test_a_kernel_rule_and_any_loop_are_one_place() -> None:
    report = kernel({"vgpr_count": 9}, [loop("L0", count__scratch_load=3)])
    of_loop = named("T1", cause="a")
    of_kernel = named("T2", cause="a", scope="kernel", require="vgpr_count < 8", message="many")
    assert ids(of_kernel + of_loop, report) == [("T2", "warning")]
    assert ids(of_loop + of_kernel, report) == [("T1", "warning")]


def test_of_waits_only_the_same_lines_are_one_place() -> None:
    words = {"cause": "a", "scope": "wait", "message": '"{matches} waits"'}
    closer = named("T2", require="wait.slack >= 4", **words)
    close = named("T1", require="wait.slack >= 8", **words)
    waits = (wait(110, 2), wait(120, 3), wait(130, 6))
    report = msgspec.structs.replace(kernel(loops=[loop(count__mfma=1)]), waits=waits)
    found = evaluate(parse_pack(closer + close, "t.yaml", WAITS), report)
    assert {f.rule: isa_lines(f) for f in found} == {"T1": [130], "T2": [110, 120]}
    assert {f.rule: f.message for f in found} == {"T1": "1 waits", "T2": "2 waits"}


@pytest.mark.parametrize(
    ("require", "told"),
    [("count.lds_read < 1", ["ds_write_b16"]), ("count.mfma > 9", None)],
)
def test_a_loop_rule_about_one_class_leaves_the_others_to_be_told(
    require: str, told: list[str] | None
) -> None:
    """One that names no class is about all accesses of the loop."""
    of_loop = named("T2", cause="a", require=require, message="reads")
    of_access = named(
        "T1", cause="a", scope="instruction", require="op.bits >= 64", message='"{matches}"'
    )
    ops = [
        MemoryOp(101, "ds_read_u16", "lds_read", 16, "L0", 1, None),
        MemoryOp(102, "ds_write_b16", "lds_write", 16, "L0", 1, None),
    ]
    report = kernel(loops=[loop(count__lds_read=1, count__mfma=1)], memory_ops=ops)
    found = evaluate(parse_pack(of_loop + of_access, "t.yaml", WAITS), report)
    texts = {f.rule: [at.text for at in f.locations if at.kind == "amdgcn"] for f in found}
    assert "T2" in texts
    assert texts.get("T1") == told


def isa_lines(finding: Finding) -> list[int | None]:
    return [at.line for at in finding.locations if at.kind == "amdgcn"]


def test_accesses_that_one_change_widens_are_one_finding() -> None:
    thin = named(
        "T1",
        scope="instruction",
        require="op.bits >= 128",
        message='"{matches} of {op.bits}[[, {wider} of more]]"',
    )
    ops = [
        MemoryOp(50, "global_load_b64", "global_load", 64, None, 0, None),
        MemoryOp(101, "global_load_b64", "global_load", 64, "L0", 1, None),
        MemoryOp(102, "global_store_b32", "global_store", 32, "L0", 1, None),
        MemoryOp(201, "global_load_b64", "global_load", 64, "L1", 1, None),
        MemoryOp(202, "global_load_b64", "global_load", 64, "L1", 1, None),
    ]
    loops = [loop("L0", count__mfma=40), loop("L1", line=200, count__mfma=40)]
    report = kernel(loops=loops, memory_ops=ops)
    apart = evaluate(parse_pack(thin, "t.yaml", WAITS), report)
    assert sorted(f.message for f in apart) == ["1 of 32", "1 of 64", "2 of 64"]
    together = thin.replace("  fix:", "  cured_together: true\n  fix:")
    (found,) = evaluate(parse_pack(together, "t.yaml", WAITS), report)
    assert (found.message, found.evidence["matches"]) == ("4 of 32, 3 of more", 4)
    assert isa_lines(found) == [102, 101, 201, 202]
    # The message is about the narrowest, wherever it stands.
    more = [*ops, MemoryOp(203, "global_store_b16", "global_store", 16, "L1", 1, None)]
    (found,) = evaluate(parse_pack(together, "t.yaml", WAITS), kernel(loops=loops, memory_ops=more))
    assert found.message == "5 of 16, 4 of more"
    # Those in a remainder are left out.
    rest = kernel(loops=[loops[0], loop("L1", line=200, loop__remainder=True)], memory_ops=ops)
    (found,) = evaluate(parse_pack(together, "t.yaml", WAITS), rest)
    assert isa_lines(found) == [102, 101]


def test_a_fix_says_what_came_of_it() -> None:
    report = kernel(loops=[loop(count__scratch_load=3)])

    def advice(tried: str | None) -> str:
        return one(evaluate(pack(rule(tried=tried)), report)).advice

    assert advice(None) == "spill less"
    assert advice("{}") == "spill less (not tried)"
    assert advice("{helped: 3}") == "spill less (tried: helped 3 of 3)"
    tried = "{helped: 3, nothing: 1, worse: 2}"
    assert advice(tried) == "spill less (tried: helped 3 of 6, made 2 worse)"
    for wrong in ("{helped: -1}", "{helped: many}", "{cured: 1}", "5"):
        with pytest.raises(KinspectError):
            pack(rule(tried=wrong))


def test_wordings_go_with_a_figure() -> None:
    text = (
        "{vgpr_count} {vgpr_count | register is | registers are} spilled[[ {count.valu | at | by}]]"
    )
    rules = pack(rule(message=f'"{text}"'))

    def message(registers: int, **figures: int) -> str:
        loops = [loop(count__scratch_load=3, **figures)]
        return one(evaluate(rules, kernel({"vgpr_count": registers}, loops))).message

    assert message(1) == "1 register is spilled"
    assert message(2, count__valu=1) == "2 registers are spilled at"
    assert message(2, count__valu=0) == "2 registers are spilled by"
    (finding,) = evaluate(rules, kernel({"vgpr_count": 1}, [loop(count__scratch_load=3)]))
    assert finding.plural_message == "1 registers are spilled"
    for wrong in ("{vgpr_count | register}", "{vgpr_count | a | b | c}"):
        with pytest.raises(KinspectError, match="wordings or two"):
            pack(rule(message=f'"{wrong}"'))


def test_an_optional_part_goes_with_its_figures() -> None:
    rules = pack(rule(message='"spills[[, {vgpr_count} registers]]"'))
    spilling = [loop(count__scratch_load=3)]
    assert one(evaluate(rules, kernel({"vgpr_count": 9}, spilling))).message == (
        "spills, 9 registers"
    )
    assert one(evaluate(rules, kernel({"vgpr_count": None}, spilling))).message == "spills"
    plain = pack(rule(message='"as [[tool.kinspect]] says"'))
    assert one(evaluate(plain, kernel({}, spilling))).message == "as [[tool.kinspect]] says"
    with pytest.raises(KinspectError, match="unknown metric vgpr_cuont"):
        pack(rule(message='"spills[[, {vgpr_cuont} registers]]"'))
