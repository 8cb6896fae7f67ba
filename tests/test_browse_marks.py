"""Marks of assembly lines, held against LLVM's comments, brute force and the report."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector import machines
from kinspect.inspector.explain.code.marks import LineMarks
from kinspect.inspector.explain.code.reading import KernelReading, kernel_of, reading_of
from kinspect.inspector.explain.code.texts import Texts, lines_of
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.waitflow.counters import decode_wait
from kinspect.inspector.isa.waitflow.slack import outstanding_counts
from kinspect.inspector.model import Finding, Function, Instruction, KernelReport, Location
from kinspect.inspector.pipeline.analysis import analyze_text, recommended_pack
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context
from msgspec.structs import replace

DATA = Path(__file__).parent / "data" / "isa"
COMPILED = sorted(p for p in DATA.glob("*.[as]*") if "handwritten" not in p.name)
HEAD = '.amdgcn_target "amdgcn-amd-amdhsa--{arch}"\n.text\n.globl k\n.type k,@function\nk:\n'
TAIL = "s_endpgm\n.Lend:\n.size k, .Lend-k\n"


def text_of(arch: str, body: str) -> str:
    return HEAD.format(arch=arch) + body + TAIL


def reading_of_text(text: str, report: KernelReport | None = None) -> KernelReading:
    return reading_of(report, Texts({"amdgcn": lines_of(text)}, {"amdgcn": "k.s"}, {}))


@functools.cache
def opened(path: Path) -> tuple[KernelReport, KernelReading]:
    text = path.read_text("utf-8")
    report = analyze_text(
        text, Context(str(path), analysis=AnalysisOptions(rules=recommended_pack()))
    )[0]
    return report, reading_of_text(text, report)


def line_of(text: str, part: str, number: int = 0) -> int:
    return [n for n, line in enumerate(text.split("\n")) if part in line][number]


# ------------------------------------------------------------------------------ loops


@pytest.mark.parametrize("path", COMPILED, ids=lambda p: p.name)
def test_depths_are_those_that_llvm_notes_beside_its_blocks(path: Path) -> None:
    report, reading = opened(path)
    lines = reading.texts.lines["amdgcn"]
    function = reading.function
    assert function is not None
    block_begins = re.compile(r"(?:\.LBB\d+_\d+:|; %bb\.\d+:)")
    stated: dict[int, int] = {}
    here: int | None = None
    for number in range(function.line_first - 1, function.line_last - 1):
        line = lines[number]
        if block_begins.match(line):
            here = 0
        if here is not None and (found := re.search(r"(?:Header: |Header=\w+ )Depth=(\d+)", line)):
            # A block's own loop stands first or last; those around it are less deep.
            if "Child Loop" not in line:
                here = max(here, int(found[1]))
        elif here is not None and re.match(r"\s+[a-z]\w+(\s|$)", line):
            stated[number] = here
    for line, depth in stated.items():
        assert reading.marks.depth(line) == depth, lines[line]
    assert bool(report.loops) == any(stated.values())


def test_a_loops_lines_are_those_of_the_report() -> None:
    checked = 0
    for path in COMPILED:
        report, reading = opened(path)
        assert reading.function is not None
        starts = tuple(sorted(loop.header.line - 1 for loop in report.loops))
        assert reading.marks.loop_starts == starts
        for inst in reading.function.instructions:
            around = [
                loop for loop in report.loops if any(a <= inst.line <= b for a, b in loop.lines)
            ]
            deepest = max(around, key=lambda loop: loop.depth, default=None)
            assert reading.marks.loop(inst.line - 1) == (deepest.id if deepest else None)
            checked += deepest is not None
    assert checked > 500


def test_labels_and_directives_belong_to_what_follows_them() -> None:
    text = text_of(
        "gfx942",
        "s_nop 0\n.Lloop:\n.loc 1 2 3\ns_add_u32 s0, s0, 1\ns_cbranch_scc1 .Lloop\n.Lout:\n"
        "s_nop 1\n",
    )
    marks = reading_of_text(text).marks
    depths = [marks.depth(n) for n in range(line_of(text, "s_nop 0"), line_of(text, "s_nop 1") + 1)]
    assert depths == [0, 1, 1, 1, 1, 0, 0]
    assert marks.depth(0) == marks.depth(10_000) == 0
    assert marks.loop(10_000) is None


def test_every_instruction_has_its_class() -> None:
    text = (DATA / "calls.llvm22.gfx90a.s").read_text("utf-8")
    marks = reading_of_text(text).marks
    for number, line in enumerate(lines_of(text)):
        if re.match(r"\s+[a-z]\w+(\s|$)", line):
            assert marks.cls(number) is not None, line
            if "s_waitcnt" in line:
                assert marks.cls(number) == "wait"
        else:
            assert marks.cls(number) is None, line


# ------------------------------------------------------------------------------ counts

# Who counts where, stated here anew: mnemonic -> counters.
GFX9 = {
    "global_load_dword v1, v[2:3], off": ("vmcnt",),
    "global_store_dword v[2:3], v1, off": ("vmcnt",),
    "buffer_load_dword v4, v5, s[4:7], 0 offen": ("vmcnt",),
    "scratch_store_dword off, v1, s0": ("vmcnt",),
    "ds_read_b32 v6, v7": ("lgkmcnt",),
    "ds_write_b32 v7, v6": ("lgkmcnt",),
    "s_load_dword s8, s[10:11], 0x0": ("lgkmcnt",),
    "flat_load_dword v8, v[2:3]": ("vmcnt", "lgkmcnt"),
    "v_add_f32_e32 v9, v9, v9": (),
    "s_add_u32 s0, s0, 1": (),
}
GFX12 = {
    "global_load_b32 v1, v[2:3], off": ("loadcnt",),
    "global_store_b32 v[2:3], v1, off": ("storecnt",),
    "ds_load_b32 v6, v7": ("dscnt",),
    "s_load_b32 s8, s[10:11], 0x0": ("kmcnt",),
    "v_add_f32_e32 v9, v9, v9": (),
}
WAITS9 = {
    "s_waitcnt vmcnt(0)": {"vmcnt": 0},
    "s_waitcnt vmcnt(2)": {"vmcnt": 2},
    "s_waitcnt lgkmcnt(1)": {"lgkmcnt": 1},
    "s_waitcnt vmcnt(1) lgkmcnt(0)": {"vmcnt": 1, "lgkmcnt": 0},
}
WAITS12 = {
    "s_wait_loadcnt 0x1": {"loadcnt": 1},
    "s_wait_dscnt 0x0": {"dscnt": 0},
    "s_wait_kmcnt 0x0": {"kmcnt": 0},
    "s_wait_loadcnt_dscnt 0x102": {"loadcnt": 1, "dscnt": 2},
}


@given(
    st.one_of(
        st.tuples(
            st.just("gfx90a"),
            st.lists(st.sampled_from([*GFX9, *WAITS9, *GFX9]), min_size=1, max_size=40),
        ),
        st.tuples(
            st.just("gfx1201"),
            st.lists(st.sampled_from([*GFX12, *WAITS12, *GFX12]), min_size=1, max_size=40),
        ),
    )
)
def test_counts_of_straight_line_code_are_those_of_a_walk(case: tuple[str, list[str]]) -> None:
    arch, code = case
    text = text_of(arch, "\n".join(code) + "\n")
    marks = reading_of_text(text).marks
    first = line_of(text, "k:") + 1
    raising, waits = {**GFX9, **GFX12}, {**WAITS9, **WAITS12}
    under_way: dict[str, int] = {}
    for number, statement in enumerate(code):
        for counter in raising.get(statement, ()):
            most = machines.load(arch).counters[counter]
            under_way[counter] = min(under_way.get(counter, 0) + 1, most)
        for counter, n in waits.get(statement, {}).items():
            under_way[counter] = min(under_way.get(counter, 0), n)
        shown = {c: n for c, n in marks.outstanding(first + number).items() if n}
        assert shown == {c: n for c, n in under_way.items() if n}, text


def waits_of(inst: Instruction) -> Mapping[str, int]:
    return decode_wait(inst.op.name, inst.operands) if inst.cls == "wait" else {}


def most_by_running(function: Function, maxima: Mapping[str, int]) -> list[dict[str, int] | None]:
    """The largest counts after each instruction, over all states that a machine can come to."""
    most: list[dict[str, int] | None] = [None] * len(function.instructions)
    seen: set[tuple[int, tuple[tuple[str, int], ...]]] = set()
    work: list[tuple[int, tuple[tuple[str, int], ...]]] = [(0, ())]
    ends = {block.stop - 1: block for block in function.blocks}
    while work:
        state = work.pop()
        if state in seen:
            continue
        seen.add(state)
        place, counts = state
        now = dict(counts)
        inst = function.instructions[place]
        text = f"{inst.mnemonic} {inst.operands}".strip()
        for counter in GFX9.get(text, ()):
            now[counter] = min(now.get(counter, 0) + 1, maxima[counter])
        for counter, n in WAITS9.get(text, {}).items():
            now[counter] = min(now.get(counter, 0), n)
        known = most[place] or {}
        most[place] = {c: max(now.get(c, 0), known.get(c, 0)) for c in sorted({*now, *known})}
        after = tuple(sorted((c, n) for c, n in now.items() if n))
        if place in ends:
            work += [(function.blocks[s].start, after) for s in ends[place].successors]
        else:
            work.append((place + 1, after))
    return most


STATEMENTS = st.sampled_from([*GFX9, *WAITS9])
BLOCKS = st.lists(
    st.tuples(st.lists(STATEMENTS, max_size=4), st.sampled_from("jbf"), st.integers(0, 5)),
    min_size=1,
    max_size=6,
)


@given(BLOCKS)
def test_counts_of_branching_code_are_those_of_all_ways_through_it(
    blocks: list[tuple[list[str], str, int]],
) -> None:
    """Any blocks that jump, branch or fall through; the counters end at 3, so that loops do too."""
    body = ""
    for number, (statements, kind, target) in enumerate(blocks):
        body += f".L{number}:\n" + "".join(f"{s}\n" for s in statements)
        to = f".L{target % len(blocks)}\n"
        body += {"j": "s_branch " + to, "b": "s_cbranch_scc1 " + to, "f": ""}[kind]
    function = parse_text(text_of("gfx90a", body), "k.s").functions[0]
    maxima = {"vmcnt": 3, "lgkmcnt": 3}
    counted = outstanding_counts(function, maxima, waits_of)
    expected = most_by_running(function, maxima)
    for inst, found, wanted in zip(function.instructions, counted, expected, strict=True):
        shown = None if found is None else {c: n for c, n in found.items() if n}
        told = None if wanted is None else {c: n for c, n in wanted.items() if n}
        assert shown == told, (inst, body)


def test_no_wait_leaves_more_than_it_says() -> None:
    checked = 0
    for path in COMPILED:
        report, reading = opened(path)
        for wait in report.waits:
            if wait.verdict == "missing":
                continue
            left = reading.marks.outstanding(wait.line - 1).get(wait.counter, 0)
            assert left is None or left <= wait.n, (path.name, wait)
            checked += 1
    assert checked > 100


def test_a_line_without_instruction_has_what_the_last_one_left() -> None:
    text = text_of("gfx942", "global_load_dword v1, v[2:3], off\n.loc 1 2 3\n; x\ns_nop 0\n")
    marks = reading_of_text(text).marks
    at = line_of(text, "global_load")
    assert [marks.outstanding(n) for n in range(at, at + 4)] == [{"vmcnt": 1}] * 4
    assert marks.outstanding(at - 1) == {}  # before the kernel
    assert marks.outstanding(10_000) == {}


def test_what_is_not_known_is_none() -> None:
    unknown = ".text\n.globl k\n.type k,@function\nk:\nglobal_load_dword v1, v[2:3], off\n"
    text = unknown + "s_waitcnt vmcnt(0)\ns_endpgm\n"
    assert reading_of_text(text).marks.outstanding(4) == {"vmcnt": None}
    text = text_of("gfx942", "ds_read_b32 v1, v2\ns_branch .La\ns_mov_b32 s5, 7\n.La:\ns_nop 0\n")
    marks = reading_of_text(text).marks
    assert marks.outstanding(line_of(text, "s_mov")) == {"lgkmcnt": None}  # never reached
    assert marks.outstanding(line_of(text, "s_nop 0")) == {"lgkmcnt": 1}


# ------------------------------------------------------------------------------ waits


def test_a_wait_leads_to_its_loads_and_they_lead_back() -> None:
    body = """\
global_load_dword v1, v[2:3], off
global_load_dword v4, v[2:3], off
ds_read_b32 v7, v8
s_waitcnt vmcnt(1)
v_add_f32_e32 v5, v1, v1
s_waitcnt vmcnt(0) lgkmcnt(0)
v_add_f32_e32 v5, v4, v7
"""
    text = text_of("gfx942", body)
    for report in (None, analyze_text(text, Context("k.s"))[0]):
        marks = reading_of_text(text, report).marks
        first = line_of(text, "global_load")
        assert marks.producers(first + 3) == (first,)
        assert marks.producers(first + 5) == (first + 1, first + 2)
        assert marks.waiters(first) == (first + 3,)
        assert marks.waiters(first + 1) == marks.waiters(first + 2) == (first + 5,)
        assert marks.producers(first) == marks.waiters(first + 4) == ()


def test_producers_are_what_the_report_says_and_memory_operations_all() -> None:
    memory = re.compile(r"\s+(global|buffer|flat|scratch|ds|s_load|s_buffer|s_store|tensor|image)")
    checked = 0
    for path in COMPILED:
        report, reading = opened(path)
        lines = reading.texts.lines["amdgcn"]
        said: dict[int, set[int]] = {}
        for wait in report.waits:
            assert wait in reading.marks.wait(wait.line - 1)
            if wait.waits_for and wait.verdict != "missing":
                said.setdefault(wait.line - 1, set()).update(at - 1 for at in wait.waits_for)
        for line in range(len(lines)):
            producers = reading.marks.producers(line)
            if line in said:
                assert set(producers) == said[line]
                checked += 1
            for at in producers:
                assert memory.match(lines[at]), lines[at]
                assert line in reading.marks.waiters(at)
            for at in reading.marks.waiters(line):
                assert line in reading.marks.producers(at)
    assert checked > 60


# ------------------------------------------------------------------------------ findings


def test_findings_stand_at_their_lines() -> None:
    report, _ = opened(COMPILED[1])
    found = Finding(
        rule="KI001",
        severity="error",
        confidence="certain",
        message="bad",
        evidence={},
        locations=(
            Location("amdgcn", None, 12),
            Location("amdgcn", None, 12),
            Location("amdgcn", None, 30),
            Location("source", "/src/kernels/triton_kernels.py", 7),
            Location("source", "/src/other.py", 9),
            Location("ttgir", None, None),
        ),
        fix="fix",
        fingerprint="f",
    )
    marks = LineMarks(replace(report, findings=(found,)), source="kernels/triton_kernels.py")
    assert marks.finding_lines() == (11, 29)
    assert marks.findings(11) == (found,)
    assert marks.findings(12) == ()
    assert marks.finding_lines("source") == (6,)
    assert marks.findings(6, "source") == (found,)
    assert marks.finding_lines("ttgir") == ()


def test_findings_of_a_report_are_all_there() -> None:
    seen = 0
    for path in COMPILED:
        report, reading = opened(path)
        for finding in report.findings:
            for at in finding.locations:
                if at.kind == "amdgcn" and at.line is not None:
                    assert finding in reading.marks.findings(at.line - 1)
                    assert at.line - 1 in reading.marks.finding_lines()
                    seen += 1
    assert seen >= 3


# ------------------------------------------------------------------------------ which function


def test_of_several_kernels_it_is_the_reported_one() -> None:
    path = DATA / "calls.llvm22.gfx90a.s"
    program = parse_text(path.read_text("utf-8"), path.name)
    reports = analyze_text(path.read_text("utf-8"), Context(str(path)))
    assert len(reports) > 1
    for report in reports:
        function = kernel_of(program.functions, report)
        assert function is not None
        assert function.name == report.name
    assert kernel_of(program.functions, None) in program.kernels
    assert kernel_of((), reports[0]) is None


def test_a_text_that_is_no_assembly_is_noted() -> None:
    reading = reading_of_text("hello\nworld\n")
    assert reading.function is None
    assert reading.notes
    assert reading.marks.loop_starts == ()
