"""Rules about instructions and waits: what they read, what one finding gathers, in what order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.base.errors import KinspectError
from kinspect.inspector.isa.mnemonics import CLASSES
from kinspect.inspector.isa.waitflow.counters import COUNTERS
from kinspect.inspector.lint.catalogue import ENGINE_VALUES, Catalogue
from kinspect.inspector.lint.engine import evaluate
from kinspect.inspector.lint.finding_places import MAX_MATCHES
from kinspect.inspector.lint.nodes import Expression, Values
from kinspect.inspector.lint.packs import Pack, parse_pack
from kinspect.inspector.metrics.catalogue import specs
from kinspect.inspector.model import (
    Access,
    Finding,
    KernelReport,
    LaneUse,
    LoopHeader,
    LoopReport,
    MemoryOp,
    Metric,
    MetricValue,
    SourceLoc,
    SpillSlot,
    WaitOp,
)
from msgspec.structs import replace

from .kernel_times import kernel_time

CATALOGUE = Catalogue.of(specs(), [*CLASSES, *COUNTERS])
ANYWHERE = {"tags": "[correctness]"}
"""What makes a rule look outside of hot loops where no time is known."""


def pack(**changes: str) -> Pack:
    fields = {
        "id": "T001",
        "name": "a-rule",
        "severity": "warning",
        "scope": "instruction",
        "require": "op.bits >= 128",
        "message": '"{matches} × {op.mnemonic}"',
    } | changes
    text = "- " + "\n  ".join(f"{key}: {value}" for key, value in fields.items() if value) + "\n"
    return parse_pack(text, "t.yaml", CATALOGUE)


def waits(**changes: str) -> Pack:
    message = '"{matches} × {wait.counter}({wait.n}): {wait.slack}"'
    return pack(**{"scope": "wait", "message": message, **changes})


def fault(**changes: str) -> str:
    with pytest.raises(KinspectError) as caught:
        pack(**changes)
    return caught.value.message


def loop(name: str, *, hot: bool = True, **values: MetricValue) -> LoopReport:
    metrics = {key.replace("__", "."): value for key, value in values.items()}
    return LoopReport(
        id=name,
        depth=int(name[1:]) + 1,
        parent=None,
        header=LoopHeader(100, ".LBB0_1"),
        lines=((100, 900),),
        source=(SourceLoc("k.py", 16),),
        hot=hot,
        unroll=2,
        metrics={key: Metric(key, value, "", "derived") for key, value in metrics.items()},
    )


def kernel(
    loops: Sequence[LoopReport] = (),
    ops: Sequence[MemoryOp] = (),
    waiting: Sequence[WaitOp] = (),
    accesses: Sequence[Access] = (),
    spills: Sequence[SpillSlot] = (),
    values: Mapping[str, MetricValue] | None = None,
) -> KernelReport:
    return KernelReport(
        id="k.py::k@gfx942#0123",
        name="k",
        arch="gfx942",
        source=SourceLoc("k.py", 8),
        variant=None,
        artifacts={},
        metrics={n: Metric(n, v, "", "derived") for n, v in (values or {}).items()},
        loops=tuple(loops),
        main_loop=None,
        memory_ops=tuple(ops),
        waits=tuple(waiting),
        findings=(),
        accesses=tuple(accesses),
        spills=tuple(spills),
    )


def op(
    line: int, bits: int | None, where: str | None = "L0", cls: str = "global_load", at: int = 17
) -> MemoryOp:
    depth = 0 if where is None else int(where[1:]) + 1
    return MemoryOp(line, f"{cls}_b{bits}", cls, bits, where, depth, SourceLoc("k.py", at))


def wait(
    line: int,
    verdict: str | None = "needed",
    *,
    n: int = 0,
    where: str | None = "L0",
    slack: int | None = None,
    counter: str = "vmcnt",
) -> WaitOp:
    return WaitOp(
        line=line,
        counter=counter,
        n=n,
        loop=where,
        source=SourceLoc("k.py", 18),
        verdict=verdict,
        could_be=None,
        waits_for=None,
        slack=slack,
    )


def access(lines: tuple[int, ...], **changes: object) -> Access:
    made = Access(
        op="tt.load",
        line=42,
        cls="global_load",
        source=SourceLoc("k.py", 21),
        dtype="f16",
        shape=(64, 64),
        layout="blocked sizePerThread=[1,8] order=[1,0]",
        lines=lines,
        loop="L0",
        bits=16,
        widest=128,
        per_thread=8,
        contiguity=1,
        divisibility=2,
        limited_by="contiguity",
        reason="stride_ak is not known to be 1",
        fix="make stride_ak a constexpr",
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def one(found: tuple[Finding, ...]) -> Finding:
    assert len(found) == 1
    return found[0]


def isa_lines(finding: Finding) -> list[int | None]:
    return [at.line for at in finding.locations if at.kind == "amdgcn"]


# --------------------------------------------------------------------------- what one finding is


def test_what_matches_in_a_loop_is_one_finding_the_narrowest_first() -> None:
    ops = [op(110, 64), op(111, 128), op(112, 16, at=18), op(113, 64), op(114, None)]
    found = one(evaluate(pack(), kernel([loop("L0")], ops)))
    assert found.message == "3 × global_load_b16"
    assert isa_lines(found) == [112, 110, 113]
    assert [at.line for at in found.locations if at.kind == "source"] == [18, 17]
    assert found.evidence == {"matches": 3, "op.bits": 16, "op.mnemonic": "global_load_b16"}


def test_loops_are_told_apart_and_cold_code_is_left_out_unless_asked_for() -> None:
    loops = [loop("L0", hot=False), loop("L1"), loop("L2")]
    ops = [op(50, 8, None), op(60, 16, "L0"), op(70, 32, "L1"), op(80, 64, "L2")]
    report = kernel(loops, ops)
    assert [f.message for f in evaluate(pack(), report)] == [
        "1 × global_load_b32",
        "1 × global_load_b64",
    ]
    everywhere = evaluate(pack(**ANYWHERE), report)
    assert [isa_lines(f) for f in everywhere] == [[50], [60], [70], [80]]
    assert len({f.fingerprint for f in everywhere}) == 4
    cold = evaluate(pack(when="not op.hot and op.depth == 0"), report)
    assert [isa_lines(f) for f in cold] == [[50]]
    priced = evaluate(pack(removes="wide accesses"), replace(report, time=kernel_time()))
    assert [isa_lines(f) for f in priced] == [[50], [60], [70], [80]]


def test_many_matches_are_counted_and_some_listed() -> None:
    found = one(evaluate(pack(), kernel([loop("L0")], [op(100 + i, 32) for i in range(50)])))
    assert found.message == "50 × global_load_b32"
    assert isa_lines(found) == list(range(100, 100 + MAX_MATCHES))


def test_missing_waits_come_first_then_over_strict_ones_then_the_least_slack() -> None:
    waiting = [
        wait(110, "needed", slack=2),
        wait(111, "needed", slack=0),
        wait(112, "over-strict", slack=90),
        wait(113, "missing", slack=40),
        wait(114, "needed", slack=None),
        wait(115, "ordering", slack=1),
    ]
    report = kernel([loop("L0")], waiting=waiting)
    found = one(evaluate(waits(require="not wait.full"), report))
    assert isa_lines(found) == [113, 112, 111, 115, 110, 114]
    assert found.message == "6 × vmcnt(0): 40"
    assert found.locations[0].text == "vmcnt(0)"
    straight = waits(when='wait.verdict == "needed" and wait.slack < 3', require="wait.n > 0")
    assert isa_lines(one(evaluate(straight, report))) == [111, 110]


def test_waits_outside_of_hot_loops_are_left_out_unless_asked_for() -> None:
    loops = [loop("L0", hot=False), loop("L1")]
    waiting = [wait(50, where=None), wait(60, where="L0"), wait(70, where="L1")]
    report = kernel(loops, waiting=waiting)
    assert isa_lines(one(evaluate(waits(require="not wait.full"), report))) == [70]
    everywhere = evaluate(waits(require="not wait.full", **ANYWHERE), report)
    assert [isa_lines(f) for f in everywhere] == [[50], [60], [70]]
    cold = waits(require="wait.hot", when="wait.depth == 1")
    assert [isa_lines(f) for f in evaluate(cold, report)] == [[60]]


def test_one_mnemonic_of_two_widths() -> None:
    ops = [replace(op(110 + i, bits), mnemonic="x") for i, bits in enumerate((128, 8))]
    assert isa_lines(one(evaluate(pack(), kernel([loop("L0")], ops)))) == [111]


def test_fingerprints_outlive_moved_lines_and_further_matches() -> None:
    def mark(report: KernelReport, text: str = "  a = tl.load(p)") -> str:
        return one(evaluate(pack(), report, lambda at: text)).fingerprint

    base = mark(kernel([loop("L0")], [op(110, 16), op(120, 64)]))
    assert mark(kernel([loop("L0")], [op(310, 16, at=33), op(420, 64), op(430, 32)])) == base
    assert mark(kernel([loop("L0")], [op(110, 16)]), "a = tl.load(p)") == base
    assert mark(kernel([loop("L0")], [op(110, 16)]), "a = tl.load(q)") != base


def test_findings_of_one_rule_on_one_line_have_fingerprints_of_their_own() -> None:
    loads, stores = [op(110, 16), op(111, 16)], [replace(op(112, 32), cls="global_store")]
    rules = pack(when='op.kind in ("global_load", "global_store")')

    def marks(ops: list[MemoryOp]) -> list[str]:
        findings = evaluate(rules, kernel([loop("L0")], ops), lambda at: "copy(p, q)")
        return [finding.fingerprint for finding in findings]

    alone, both = marks(loads), marks([*loads, *stores])
    assert len(set(both)) == 2
    assert alone == both[:1] == marks(stores)  # whichever is cured: the one that is left is known
    wider = [replace(stores[0], bits=8)]  # the worst comes first
    assert marks([*loads, *wider]) == both


# --------------------------------------------------------------------------- what rules read


def test_the_access_behind_an_instruction_and_its_line() -> None:
    rules = pack(
        when='access.limited_by in ("contiguity", "divisibility") and access.contiguity == 1',
        require="access.bits == access.widest",
        message='"{access.dtype} {access.layout}: {access.reason}; {access.mask}"',
        fix='"{access.fix} in {matches} places"',
    )
    ops = [op(110, 16), op(111, 16), op(112, 16)]
    report = kernel([loop("L0")], ops, accesses=[access((110, 112))])
    found = one(evaluate(rules, report))
    assert found.message == (
        "f16 blocked sizePerThread=[1,8] order=[1,0]: stride_ak is not known to be 1; unknown"
    )
    assert found.fix == "make stride_ak a constexpr in 2 places"
    assert isa_lines(found) == [110, 112]
    assert [(at.file, at.line) for at in found.locations if at.kind == "source"] == [("k.py", 21)]
    told_nothing = access((110,), reason="", fix="", layout="")
    for name in ("reason", "fix", "layout"):
        blank = pack(require=f"access.{name} is not none", message="blank")
        assert evaluate(blank, kernel([loop("L0")], ops[:1], accesses=[told_nothing])), name


def test_of_two_accesses_at_one_line_the_one_of_the_instructions_class() -> None:
    store = access((110, 111), cls="lds_write", reason="the store")
    load = access((110, 111), reason="the load")
    ops = [op(110, 16), op(111, 16, cls="lds_write"), op(112, 16)]
    rules = pack(require="access.reason is none", message='"{access.reason}"', when="op.bits < 99")
    for both in ([store, load], [load, store]):
        for kind, said in (("global_load", "the load"), ("lds_write", "the store")):
            narrow = [o for o in ops if o.cls == kind]
            report = kernel([loop("L0")], narrow, accesses=both)
            assert one(evaluate(rules, report)).message == said


def test_the_users_line_not_the_librarys() -> None:
    call = SourceLoc("k.py", 30)
    inlined = SourceLoc("/lib/triton/language/standard.py", 43, 1, inlined_at=call)
    ops = [replace(op(110, 16), source=inlined)]
    found = one(evaluate(pack(), kernel([loop("L0")], ops)))
    assert [(at.file, at.line) for at in found.locations if at.kind == "source"] == [("k.py", 30)]


def test_spill_code_is_told_apart() -> None:
    ops = [op(110, 32, cls="scratch_load"), op(111, 32, cls="scratch_load"), op(112, 32)]
    slot = SpillSlot(4, 4, (90,), (111,), ("L0",), ())
    report = kernel([loop("L0")], ops, spills=[slot])
    assert isa_lines(one(evaluate(pack(require="not op.spill"), report))) == [111]


def test_metrics_of_the_loop_and_of_the_kernel() -> None:
    loops = [loop("L0", count__mfma=4), loop("L1", count__valu=1)]
    ops = [op(50, 16, None), op(110, 16, "L0"), op(210, 16, "L1")]
    report = kernel(loops, ops, values={"count.mfma": 99, "vgpr_count": 130})

    def lines(when: str) -> list[list[int | None]]:
        return [isa_lines(f) for f in evaluate(pack(**ANYWHERE, when=when), report)]

    assert lines("count.mfma == 4") == [[110]]
    assert lines("count.mfma is none") == [[50], [210]]  # the kernel's does not stand in
    assert lines("kernel.count.mfma == 99 and vgpr_count == 130") == [[50], [110], [210]]
    assert lines("hot and unroll == 2 and depth == 2") == [[210]]
    shown = pack(message='"{count.mfma} of {kernel.count.mfma}"')
    finding = evaluate(shown, report)[0]
    assert finding.message == "4 of 99"
    assert finding.evidence["kernel.count.mfma"] == 99


def test_loop_rules_can_ask_for_the_kernels_figure_too() -> None:
    rules = pack(
        scope="loop", require="2 * count.mfma >= kernel.count.mfma", message="little of it"
    )
    report = kernel([loop("L0", count__mfma=4)], values={"count.mfma": 99})
    assert one(evaluate(rules, report)).evidence == {"count.mfma": 4, "kernel.count.mfma": 99}


@pytest.mark.parametrize("scope", ["instruction", "wait"])
def test_every_name_has_a_value_where_the_model_has_one(scope: str) -> None:
    """A name that the engine forgets to supply would be unknown for ever, and its rules silent."""
    report = kernel(
        [loop("L0")],
        [
            replace(
                op(110, 16), use=LaneUse(lanes=64, lines=1, lines_ideal=1, bytes=128), joint_bits=64
            )
        ],
        [
            WaitOp(
                line=111,
                counter="vmcnt",
                n=0,
                loop="L0",
                source=None,
                verdict="over-strict",
                could_be=3,
                waits_for=(110,),
                slack=7,
                slack_cycles=64,
            ),
            WaitOp(line=112, counter="vmcnt", n=0, loop="L0", source=None, verdict="missing"),
        ],
        [access((110,), mask=1)],
    )
    counts = ("matches", "wider")  # for messages alone
    names = [s.name for s in ENGINE_VALUES if s.scope == scope and s.name not in counts]
    assert len(names) == {"instruction": 23, "wait": 10}[scope]
    for name in names:
        rules = pack(scope=scope, require=f"{name} is none", message="known")
        assert one(evaluate(rules, report)).message == "known", name


# --------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"scope": "loop", "require": "wait.n > 0"},
            "wait.n is known of waits only; this rule's scope is loop",
        ),
        (
            {"scope": "wait", "message": "x", "require": "op.bits > 0"},
            "op.bits is known of instructions only; this rule's scope is wait",
        ),
        (
            {"scope": "kernel", "message": "x", "require": "access.mask > 0"},
            "access.mask is known of instructions only; this rule's scope is kernel",
        ),
        (
            {"scope": "kernel", "message": '"{matches}"', "require": "vgpr_count > 0"},
            "matches is known of instructions and waits only; this rule's scope is kernel",
        ),
        ({"require": "matches < 3"}, "matches is for message, fix and removes"),
        ({"require": "op.bit > 3"}, "unknown metric op.bit (did you mean op.bits?)"),
        ({"require": "acess.mask > 3"}, "did you mean access.mask?"),
        ({"require": "kernel.cuont.mfma > 3"}, "did you mean kernel.count.mfma?"),
        ({"require": "kernel.op.bits > 3"}, "unknown metric kernel.op.bits"),
        ({"require": "kernel.hot"}, "unknown metric kernel.hot"),
        ({"require": "op.bits == 'b'"}, "`op.bits` is number and `'b'` is text"),
        ({"require": "op.spill > 3"}, "`op.spill` is boolean"),
        (
            {"require": 'access.limited_by != "contigity"'},
            'access.limited_by is never "contigity" (did you mean contiguity?)',
        ),
        (
            {"require": 'access.limited_by not in ("mask", "contigity")'},
            'access.limited_by is never "contigity" (did you mean contiguity?)',
        ),
        (
            {"require": 'op.hot and "zzz" == access.limited_by'},
            "(it is broadcast, contiguity, divisibility, dtype, layout, mask, order, tile)",
        ),
        ({"require": 'op.kind == "global_laod"'}, "(did you mean global_load?)"),
        ({"fix": '"{op.bit} bits"'}, "unknown metric op.bit (did you mean op.bits?)"),
        ({"fix": '"a } alone"'}, "a brace without its partner"),
    ],
)
def test_what_is_refused(changes: dict[str, str], message: str) -> None:
    assert message in fault(**changes)


def test_texts_that_a_name_can_stand_for_are_those_of_the_model() -> None:
    for verdict in ("needed", "over-strict", "ordering", "idle", "missing"):
        assert waits(require=f'wait.verdict != "{verdict}"')
    for name in CLASSES:
        assert pack(require=f'op.kind != "{name}"')


# --------------------------------------------------------------------------- against brute force

PLACES = st.sampled_from([None, "L0", "L1", "L2"])
OPS = st.lists(
    st.tuples(
        st.sampled_from([None, 8, 16, 32, 64, 128]),
        PLACES,
        st.sampled_from(["global_load", "lds_read"]),
    ),
    max_size=30,
)


@given(OPS, st.booleans(), st.sampled_from([16, 64, 128]))
def test_groups_hold_what_a_plain_search_finds(
    drawn: list[tuple[int | None, str | None, str]], hot_only: bool, limit: int
) -> None:
    ops = [op(100 + i, bits, where, cls) for i, (bits, where, cls) in enumerate(drawn)]
    loops = [loop("L0"), loop("L1", hot=False), loop("L2")]
    rules = pack(
        when='op.kind == "global_load"',
        require=f"op.bits >= {limit}",
        **({} if hot_only else ANYWHERE),
    )
    found = evaluate(rules, kernel(loops, ops))
    wanted: dict[str | None, list[tuple[int, int]]] = {}
    for o in ops:
        if o.cls != "global_load" or o.bits is None or o.bits >= limit:
            continue
        if hot_only and o.loop not in ("L0", "L2"):
            continue
        wanted.setdefault(o.loop, []).append((o.bits, o.line))
    assert sorted(f.evidence["matches"] for f in found) == sorted(len(w) for w in wanted.values())
    for finding, where in zip(found, sorted(wanted, key=lambda w: w or ""), strict=True):
        narrowest_first = [line for _, line in sorted(wanted[where])]
        listed = isa_lines(finding)
        assert listed[0] == narrowest_first[0]
        assert set(listed) <= set(narrowest_first)
        assert len(listed) == min(len(narrowest_first), MAX_MATCHES)


def test_what_is_alike_is_judged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of a rule is the number of kinds, not of instructions."""
    judged = []
    evaluate_one = Expression.evaluate

    def counted(self: Expression, values: Values) -> object:
        judged.append(self.text)
        return evaluate_one(self, values)

    monkeypatch.setattr(Expression, "evaluate", counted)
    ops = [op(100 + i, (16, 64, 128)[i % 3]) for i in range(900)]
    rules = pack(when="op.bits < 100", require="op.bits >= 64", message="narrow")
    assert one(evaluate(rules, kernel([loop("L0")], ops))).evidence["matches"] == 300
    assert sorted(judged) == ["op.bits < 100"] * 3 + ["op.bits >= 64"] * 2


def test_real_code_line_by_line(small_asm: Path) -> None:
    """Against the text of the assembly, read with a pattern."""
    from kinspect.inspector.pipeline.analysis import analyze_text
    from kinspect.inspector.pipeline.analysis_options import Context

    text = small_asm.read_text()
    (report,) = analyze_text(text, Context(str(small_asm)))

    def lines(rules: Pack) -> list[int | None]:
        return sorted(n or 0 for f in evaluate(rules, report) for n in isa_lines(f))

    def matching(pattern: str) -> list[int]:
        return [n for n, t in enumerate(text.splitlines(), 1) if re.match(pattern, t)]

    anywhere = {**ANYWHERE, "message": "x"}
    for kind, pattern in (
        ("global_load", r"\s*(global|buffer|flat)_load_"),
        ("lds_read", r"\s*ds_read"),
        ("global_store", r"\s*(global|buffer|flat)_store_"),
    ):
        rules = pack(when=f'op.kind == "{kind}"', require="op.depth < 0", **anywhere)
        assert lines(rules) == matching(pattern), kind
    wide = pack(when='op.kind == "global_load"', require="op.bits < 128", **anywhere)
    assert lines(wide) == matching(r"\s*(global|buffer|flat)_load_dwordx4")
    full = waits(when='wait.counter == "vmcnt"', require="not wait.full", **anywhere)
    assert lines(full) == matching(r"\s*s_waitcnt .*vmcnt\(0\)")
    assert lines(full)
    assert lines(wide)
