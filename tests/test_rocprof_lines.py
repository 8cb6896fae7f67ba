"""Measured data on lines of the assembly, held against llvm-objdump and the text itself."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from att_files import OBJDUMP, Cost, Listed, listed, write_trace
from hypothesis import given
from hypothesis import strategies as st
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.objects import disasm
from kinspect.inspector.model import (
    Artifact,
    Function,
    Instruction,
    KernelReport,
    MeasuredLine,
    SourceLoc,
    SpillSlot,
)
from kinspect.inspector.model.recording import CodePlace, Samples, Traced
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import Context
from kinspect.inspector.pipeline.collecting import Request, collect
from kinspect.inspector.profile.placing.addresses import (
    AddressMap,
    addresses_of,
    align,
    disassembled,
)
from kinspect.inspector.profile.placing.line_measures import measure_of, with_lines
from kinspect.inspector.profile.placing.lines import (
    Landing,
    Unplaced,
    land,
    measured_lines,
    missing,
    position,
)
from kinspect.inspector.profile.placing.sequence import in_sequence
from kinspect.inspector.profile.placing.stalls import source_costs
from kinspect.inspector.profile.placing.stalls import stalls as stalled_lines
from kinspect.inspector.profile.reading import read
from msgspec.structs import replace

# One worker: what the fixtures compile would else be compiled by each.
pytestmark = pytest.mark.xdist_group("rocprof_lines")

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "data" / "isa"
ARCHS = ("gfx90a", "gfx950", "gfx1201")
needs_objdump = pytest.mark.skipif(OBJDUMP is None, reason="no llvm-objdump-22")


def text_of(arch: str, name: str = "attend") -> Path:
    return DATA / f"{name}.triton39.{arch}.amdgcn"


def function_of(arch: str) -> Function:
    (function,) = parse_text(text_of(arch).read_text(), "k").kernels
    return function


def reported(arch: str, *kinds: str) -> KernelReport:
    path = text_of(arch)
    paths = {"amdgcn": path, "hsaco": path.with_suffix(".hsaco")}
    artifacts = {kind: Artifact(kind, "", 0, paths[kind]) for kind in kinds}
    return analyze_text(path.read_text(), Context(str(path), artifacts=artifacts))[0]


def by_hand(text: str, symbol: str, code: Sequence[Listed]) -> dict[int, int]:
    """Address -> line, by walking through the text and objdump's output side by side."""
    lines = text.split("\n")
    first = lines.index(next(line for line in lines if line.startswith(f"{symbol}:")))
    stop = next(n for n in range(first, len(lines)) if lines[n].startswith(".Lfunc_end"))
    body = [
        (number + 1, lines[number].split()[0])
        for number in range(first + 1, stop)
        if re.match(r"\s+[a-z]\w+(\s|$)", lines[number])
    ]
    found, at = {}, 0
    for instruction in code:
        if at < len(body) and instruction.mnemonic in (body[at][1], ".long"):
            found[instruction.address] = body[at][0]
            at += 1
        else:
            assert instruction.mnemonic in ("s_nop", "s_code_end"), instruction
    assert at == len(body)
    return found


def place(offset: int | None, text: str | None, comment: str | None = None) -> CodePlace:
    return CodePlace(None, None, 1, offset, text, comment)


def traced(code: Sequence[Listed], cycles: Mapping[int, int] | None = None) -> list[Traced]:
    """What a trace says of code; padding is not executed."""
    return [
        Traced(place(c.address, c.text, c.source), 1, 4 + stall, stall, 1)
        for c in code
        if c.mnemonic not in ("s_nop", "s_code_end")
        for stall in [(cycles or {}).get(c.address, 0)]
    ]


def stalls(landing: Landing) -> tuple[int, int]:
    """On lines, and on none."""
    return (
        sum(line.stall_cycles or 0 for line in landing.lines),
        sum(one.stall_cycles for one in landing.unplaced),
    )


# ------------------------------------------------------------------------------ addresses


@needs_objdump
@pytest.mark.parametrize("arch", ARCHS)
def test_every_instruction_has_the_address_that_objdump_gives_it(arch: str) -> None:
    path = text_of(arch)
    text, code = path.read_text(), listed(path.with_suffix(".hsaco"), "attend")
    found = addresses_of([function_of(arch)], disassembled(path.with_suffix(".hsaco")))
    assert found is not None
    assert found.exact
    assert found.notes == ()
    truth = by_hand(text, "attend", code)
    assert {a: i.line for a, i in found.instructions.items()} == truth
    printed = {c.address: c.text for c in code}
    lines = text.split("\n")
    for address, line in truth.items():
        written = lines[line - 1].partition(";")[0].split(None, 1)
        if ".L" in lines[line - 1] or printed[address].startswith(".long") or len(written) < 2:
            continue  # labels, what objdump needs another option for, s_endpgm
        registers = re.findall(r"[asv]\[?\d[\d:]*", printed[address])
        assert re.findall(r"[asv]\[?\d[\d:]*", written[1]) == registers or arch == "gfx1201"


@needs_objdump
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_device_functions_have_addresses_too(arch: str) -> None:
    path = text_of(arch, "calls")
    program = parse_text(path.read_text(), "k")
    found = addresses_of(program.functions, disassembled(path.with_suffix(".hsaco")))
    assert found is not None
    for function in program.functions:
        symbol = function.symbol or function.name
        code = [
            c
            for c in listed(path.with_suffix(".hsaco"), symbol)
            if c.mnemonic not in ("s_nop", "s_code_end")
        ]
        assert len(code) > 20
        mine = [i for i in function.instructions if i.mnemonic not in ("s_nop", "s_code_end")]
        assert [i.line for i in mine] == [found.instructions[c.address].line for c in code]


def parsed_code(*instructions: str) -> tuple[Instruction, ...]:
    text = "k:\n" + "".join(f"\t{one}\n" for one in (*instructions, "s_endpgm"))
    (function,) = parse_text(text, "k").functions
    return function.instructions


def addressed(instructions: Sequence[Instruction]) -> list[Instruction]:
    return [replace(one, address=4 * n) for n, one in enumerate(instructions)]


def test_one_other_operation_is_a_difference() -> None:
    names = [f"v_mov_b32 v{n}, v1" for n in range(9)]
    text = parsed_code(*names, "v_exp_f32 v0, v0", "v_mul_f32 v0, v0, v0")
    code = addressed(parsed_code(*names, "v_log_f32 v0, v0", "v_mul_f32 v0, v0, v0"))
    found = align(text, code)
    assert (found.exact, found.instructions) == (False, {})
    (note,) = found.notes
    assert f"line {text[9].line} (v_exp_f32), where the code object has v_log_f32 at 0x24" in note
    padded = addressed(parsed_code(*names, "s_nop 0", "v_exp_f32 v0, v0", "v_mul_f32 v0, v0, v0"))
    found = align(text, padded)
    assert found.exact
    assert list(found.instructions.values()) == list(text)


@needs_objdump
def test_code_of_another_kernel_is_not_laid_beside() -> None:
    other = disassembled(text_of("gfx942", "calls").with_suffix(".hsaco")).kernels[0]
    found = align(function_of("gfx950").instructions, other.instructions)
    assert found.instructions == {}
    assert "another build" in found.notes[0]
    assert addresses_of([function_of("gfx950")], disassembled(
        text_of("gfx942", "calls").with_suffix(".hsaco")
    )) == AddressMap({}, {}, False, (
        f"attend is not in {text_of('gfx942', 'calls').with_suffix('.hsaco')}",
    ))  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> Mapping[str, tuple[Function, dict[int, str], dict[int, int]]]:
    """Per target: the function, texts by address, lines by address."""
    if OBJDUMP is None:
        pytest.skip("no llvm-objdump-22")
    found = {}
    for arch in ARCHS:
        path = text_of(arch)
        code = listed(path.with_suffix(".hsaco"), "attend")
        truth = by_hand(path.read_text(), "attend", code)
        found[arch] = (function_of(arch), {c.address: c.text for c in code}, truth)
    return found


@given(arch=st.sampled_from(ARCHS), share=st.integers(1, 100), seed=st.integers(0, 2**32))
def test_order_alone_never_places_wrongly(
    rows: Mapping[str, tuple[Function, dict[int, str], dict[int, int]]],
    arch: str,
    share: int,
    seed: int,
) -> None:
    """Any part of the instructions: each is on its line, or its line is among those left open."""
    function, texts, truth = rows[arch]
    chance = random.Random(seed)
    some = {a: t for a, t in texts.items() if a in truth and chance.randrange(100) < share}
    found = in_sequence([function], some)
    assert found.problem is None
    assert {a: i.line for a, i in found.instructions.items()} == {
        a: truth[a] for a in found.instructions
    }
    for address, among in found.candidates.items():
        assert truth[address] in {i.line for i in among}
        assert len(among) > 1
    assert {*found.instructions, *found.candidates, *found.unknown} == some.keys()
    if share == 100:
        assert len(found.instructions) == len(some)


@pytest.mark.parametrize("arch", ARCHS)
def test_order_alone_places_whole_code(
    rows: Mapping[str, tuple[Function, dict[int, str], dict[int, int]]], arch: str
) -> None:
    """With the padding, as a thread trace has it."""
    function, texts, truth = rows[arch]
    found = in_sequence([function], texts)
    assert {a: i.line for a, i in found.instructions.items()} == truth


def test_a_later_instruction_decides_on_an_earlier_one() -> None:
    """Two equal loads, then a multiplication: the load 4 bytes before it is the second."""
    source = "k:\n\tv_mov_b32 v0, v1\n\ts_mov_b32 s0, s1\n\tv_mov_b32 v0, v1\n"
    source += "\tv_mul_f32 v0, v0, v0\n\tv_mov_b32 v0, v1\n\ts_endpgm\n"
    (function,) = parse_text(source, "k").functions
    lines = [i.line for i in function.instructions]
    found = in_sequence([function], {0x104: "v_mov_b32_e32 v0, v1", 0x108: "v_mul_f32 v0, v0, v0"})
    assert {a: i.line for a, i in found.instructions.items()} == {0x104: lines[2], 0x108: lines[3]}
    # 8 bytes before it is still the second: the first is three instructions before.
    found = in_sequence([function], {0x100: "v_mov_b32_e32 v0, v1", 0x108: "v_mul_f32 v0, v0, v0"})
    assert found.instructions[0x100].line == lines[2]
    found = in_sequence([function], {0x100: "v_mov_b32_e32 v0, v1", 0x10C: "v_mul_f32 v0, v0, v0"})
    assert {i.line for i in found.candidates[0x100]} == {lines[0], lines[2]}
    # Two multiplications there are not.
    found = in_sequence([function], {0x100: "v_mul_f32 v0, v0, v0", 0x104: "v_mul_f32 v0, v0, v0"})
    assert found.instructions == {}
    assert found.problem is not None


@pytest.mark.slow
@needs_objdump
def test_bundled_kernels_have_all_their_addresses() -> None:
    """Their first cases on five targets: with the code object, and by order alone."""
    pytest.importorskip("triton")
    targets = tuple(str(ROOT / "kernels" / f"{name}.py") for name in ("softmax", "flash_attn"))
    archs = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
    kernels = collect(Request(targets, archs, passes=False, jobs=2)).kernels
    assert len({k.arch for k in kernels}) == len(archs)
    for report in kernels:
        text = report.artifacts["amdgcn"].path.read_text()
        path = report.artifacts["hsaco"].path
        (function,) = parse_text(text, "k").kernels
        symbol = function.symbol or function.name
        true16 = ("--mattr=+real-true16",) if report.arch == "gfx1201" else ()
        code = listed(path, symbol, *true16)
        truth = by_hand(text, symbol, code)
        found = addresses_of([function], disassembled(path))
        assert found is not None
        assert found.exact, (report.id, found.notes)
        assert {a: i.line for a, i in found.instructions.items()} == truth, report.id
        placed = in_sequence([function], {c.address: c.text for c in code})
        assert placed.problem is None, report.id
        assert {a: i.line for a, i in placed.instructions.items()}.items() <= truth.items(), (
            report.id
        )
        assert len(placed.instructions) > 0.98 * len(truth), report.id
        if true16:  # a profiler that cannot decode them
            placed = in_sequence([function], {c.address: c.text for c in listed(path, symbol)})
            assert placed.problem is None, report.id
            assert {a: i.line for a, i in placed.instructions.items()}.items() <= truth.items(), (
                report.id
            )


# ------------------------------------------------------------------------------ landing


@needs_objdump
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("kinds", [("amdgcn", "hsaco"), ("amdgcn",), ()])
def test_cycles_land_on_their_lines(arch: str, kinds: tuple[str, ...]) -> None:
    """With the code object, with the text alone, and with no more than the file analysed."""
    code = listed(text_of(arch).with_suffix(".hsaco"), "attend")
    truth = by_hand(text_of(arch).read_text(), "attend", code)
    cycles = {c.address: 100 + n for n, c in enumerate(code) if c.mnemonic.startswith("s_wait")}
    report = reported(arch, *kinds)
    landing = measured_lines(report, traced=traced(code, cycles))
    assert stalls(landing) == (sum(cycles.values()), 0)
    by_line = {line.line: line for line in landing.lines}
    assert len(by_line) == len(landing.lines) == len(traced(code))
    assert [line.line for line in landing.lines] == sorted(by_line)
    for c in code:
        if c.mnemonic in ("s_nop", "s_code_end"):
            continue
        line = by_line[truth[c.address]]
        assert (line.address, line.stall_cycles) == (c.address, cycles.get(c.address, 0))
        assert (line.hits, line.idle_cycles, line.samples) == (1, 1, None)
        if c.source and line.source is not None:
            assert line.source.line == int(c.source.rpartition(":")[2])
            assert Path(line.source.file).name == Path(c.source.rpartition(":")[0]).name
        inner = [x for x in report.loops if any(a <= line.line <= b for a, b in x.lines)]
        assert line.loop in (None, *(x.id for x in inner))
    deepest = max(report.loops, key=lambda x: x.depth)
    (span,) = deepest.lines
    inside = [line for line in landing.lines if span[0] <= line.line <= span[1]]
    assert {line.loop for line in inside} == {deepest.id}
    assert bool(landing.notes) == ("hsaco" not in kinds)


@needs_objdump
def test_a_saved_code_object_stands_in_for_the_reports_own() -> None:
    path = text_of("gfx950").with_suffix(".hsaco")
    code = listed(path, "attend")
    # No texts: only addresses can tell.
    bare = [replace(t, place=replace(t.place, text=None)) for t in traced(code)]
    landing = measured_lines(reported("gfx950", "amdgcn"), traced=bare, saved=[path])
    assert len(landing.lines) == len(bare)
    assert landing.notes == ()
    without = measured_lines(reported("gfx950", "amdgcn"), traced=bare)
    assert without.lines == ()
    assert {u.why for u in without.unplaced} == {"no instruction was recorded with the address"}


@needs_objdump
def test_without_a_disassembler_the_order_of_texts_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code = listed(text_of("gfx950").with_suffix(".hsaco"), "attend")
    monkeypatch.setattr(disasm, "find_disassemblers", lambda: ())
    landing = measured_lines(reported("gfx950", "amdgcn", "hsaco"), traced=traced(code))
    assert len(landing.lines) == len(traced(code))
    assert any("no disassembler found" in note for note in landing.notes)
    assert any("by their texts and order" in note for note in landing.notes)


@needs_objdump
def test_a_report_of_a_code_object_has_its_own_lines() -> None:
    path = text_of("gfx90a").with_suffix(".hsaco")
    code = listed(path, "attend")
    report = replace(reported("gfx90a", "hsaco"), id=f"{path}::attend@gfx90a")
    landing = measured_lines(report, traced=traced(code))
    listing = {i.line: i for f in disassembled(path).kernels for i in f.instructions}
    assert len(landing.lines) == len(traced(code))
    assert all(listing[line.line].address == line.address for line in landing.lines)


@needs_objdump
def test_padding_is_no_sign_of_another_build() -> None:
    """A short kernel may have more padding before its entry than instructions."""
    code = listed(text_of("gfx90a").with_suffix(".hsaco"), "attend")
    padding = [c for c in code if c.mnemonic == "s_nop"]
    assert len(padding) > 50
    rows = traced(code[:20]) + [Traced(place(c.address, c.text), 0, 0, 0, 0) for c in padding]
    landing = measured_lines(reported("gfx90a", "amdgcn", "hsaco"), traced=rows)
    assert landing.notes == ()
    assert sum(line.hits or 0 for line in landing.lines) == len(traced(code[:20]))


@needs_objdump
def test_addresses_counted_from_elsewhere_do_not_matter() -> None:
    """None of them is in the code object: texts and order place them all the same."""
    code = listed(text_of("gfx90a").with_suffix(".hsaco"), "attend")
    truth = by_hand(text_of("gfx90a").read_text(), "attend", code)
    moved = [
        replace(t, place=replace(t.place, offset=(t.place.offset or 0) + 0x100000))
        for t in traced(code)
    ]
    landing = measured_lines(reported("gfx90a", "amdgcn", "hsaco"), traced=moved)
    found = {(line.address or 0) - 0x100000: line.line for line in landing.lines}
    ran = {t.place.offset for t in traced(code)}
    assert found == {address: line for address, line in truth.items() if address in ran}
    assert any("not at their addresses" in note for note in landing.notes)


@needs_objdump
def test_a_recording_of_another_build_is_not_forced_on() -> None:
    """The same kernel compiled for another target: its code is no guide to these lines."""
    code = listed(text_of("gfx950").with_suffix(".hsaco"), "attend")
    cycles = {c.address: 10 for c in code}
    landing = measured_lines(reported("gfx90a", "amdgcn", "hsaco"), traced=traced(code, cycles))
    assert sum(stalls(landing)) == 10 * len(traced(code))
    assert landing.lines == ()
    assert any("another build" in note for note in landing.notes)
    assert any("has no place in it" in note for note in landing.notes)
    assert any(f"{10 * len(traced(code)):,} of them stalled" in note for note in landing.notes)


@needs_objdump
def test_a_single_contradiction_is_left_out() -> None:
    code = listed(text_of("gfx90a").with_suffix(".hsaco"), "attend")
    rows = traced(code)
    rows[40] = replace(rows[40], place=replace(rows[40].place, text="s_sleep 1"), stall=7)
    landing = measured_lines(reported("gfx90a", "amdgcn", "hsaco"), traced=rows)
    assert len(landing.lines) == len(rows) - 1
    (lost,) = landing.unplaced
    assert (lost.place.text, lost.stall_cycles) == ("s_sleep 1", 7)
    assert "is at this address" in lost.why


def test_places_that_are_lost_for_one_reason_are_told_together() -> None:
    lost = [
        Unplaced(place(8, "s_barrier"), "another order", hits=1, stall_cycles=9),
        Unplaced(place(16, "s_nop 0"), "another order", hits=1, stall_cycles=7),
        Unplaced(place(None, "s_endpgm"), "no such code", hits=1),
    ]
    assert missing(lost)[1:] == [
        "on no line: `s_barrier` at 0x8, `s_nop 0` at 0x10: another order",
        "on no line: `s_endpgm`: no such code",
    ]


@given(seed=st.integers(0, 2**32))
def test_nothing_is_lost(parsed: tuple[tuple[Function, ...], AddressMap], seed: int) -> None:
    """Whatever was recorded: it is on a line or listed, to the cycle and the sample."""
    chance = random.Random(seed)
    functions, found = parsed
    texts = ["s_waitcnt vmcnt(0)", "s_endpgm", "no_such_thing v0", "", None]
    places = [
        place(
            chance.choice([None, 0, chance.choice(sorted(found.instructions))]),
            chance.choice(texts),
        )
        for _ in range(chance.randrange(1, 30))
    ]
    samples = [
        Samples(p, chance.choice(["host_trap", "stochastic"]), chance.randrange(9), None)
        for p in places
    ]
    cycles = [Traced(p, 1, chance.randrange(9), chance.randrange(9), None) for p in places]
    landing = land(functions, chance.choice([None, found]), samples, cycles)
    lines, lost = landing.lines, landing.unplaced
    assert sum(s.count for s in samples) == sum(x.samples or 0 for x in lines) + sum(
        x.samples for x in lost
    )
    assert sum(t.latency for t in cycles) == sum(x.latency_cycles or 0 for x in lines) + sum(
        x.latency_cycles for x in lost
    )
    assert sum(t.hits for t in cycles) == sum(x.hits or 0 for x in lines) + sum(
        x.hits for x in lost
    )


@pytest.fixture(scope="module")
def parsed() -> tuple[tuple[Function, ...], AddressMap]:
    functions = (function_of("gfx90a"),)
    found = addresses_of(functions, disassembled(text_of("gfx90a").with_suffix(".hsaco")))
    assert found is not None
    return functions, found


def test_texts_without_addresses() -> None:
    """As PC sampling's CSV has them: only what is unique, or made so by its source line, lands."""
    text = text_of("gfx90a").read_text()
    lines = [line.split(";")[0].split("//")[0].strip() for line in text.split("\n")]
    where = {
        t: [n for n, x in enumerate(lines, 1) if x == t]
        for t in ("s_endpgm", "s_waitcnt vmcnt(2)", "s_waitcnt lgkmcnt(4)", "s_barrier")
    }
    assert [len(x) for x in where.values()][:2] == [1, 1]
    assert len(where["s_waitcnt lgkmcnt(4)"]) > 2
    sources = {i.line: i.loc for i in function_of("gfx90a").instructions}
    told = where["s_waitcnt lgkmcnt(4)"][0]
    at = sources[told]
    assert at is not None
    same = [n for n in where["s_waitcnt lgkmcnt(4)"] if (sources[n] or at).line == at.line]
    samples = [
        Samples(place(None, "s_endpgm"), "stochastic", 5, 2, {"WAITCNT": 3}),
        Samples(place(None, "s_waitcnt  vmcnt(2)"), "stochastic", 7, 7),
        Samples(place(None, "s_waitcnt lgkmcnt(4)"), "stochastic", 11, 0),
        Samples(
            place(None, "s_waitcnt lgkmcnt(4)", f"/else/{Path(at.file).name}:{at.line}"),
            "stochastic",
            13,
            0,
        ),
        Samples(place(None, "v_no_such v0"), "stochastic", 17, 0),
    ]
    landing = measured_lines(reported("gfx90a", "amdgcn", "hsaco"), samples)
    found = {line.line: line for line in landing.lines}
    assert found[where["s_endpgm"][0]].samples == 5
    assert found[where["s_endpgm"][0]].issued == 2
    assert found[where["s_endpgm"][0]].reasons == {"WAITCNT": 3}
    assert found[where["s_waitcnt vmcnt(2)"][0]].samples == 7
    lost = {u.samples: u for u in landing.unplaced}
    assert lost[11].lines == tuple(where["s_waitcnt lgkmcnt(4)"])
    assert lost[17].lines == ()
    if len(same) == 1:
        assert found[told].samples == 13
    else:
        assert lost[13].lines == tuple(same)
    assert any(note.startswith("28 samples" if 13 not in lost else "41 samples")
               for note in landing.notes)  # fmt: skip


def test_samples_add_up_on_a_line(parsed: tuple[tuple[Function, ...], AddressMap]) -> None:
    functions, found = parsed
    address = min(found.instructions)
    one = place(address, found.instructions[address].mnemonic)
    landing = land(
        functions,
        found,
        [
            Samples(one, "stochastic", 5, 2, {"WAITCNT": 2, "ALU_DEPENDENCY": 1}),
            Samples(replace(one, process=7), "stochastic", 4, 1, {"WAITCNT": 3}),
        ],
        [Traced(one, 1, 10, 15, 2), Traced(replace(one, process=7), 2, 20, 5, 3)],
    )
    (line,) = landing.lines
    assert (line.samples, line.issued) == (9, 3)
    assert line.reasons == {"WAITCNT": 5, "ALU_DEPENDENCY": 1}
    assert (line.hits, line.latency_cycles, line.stall_cycles, line.idle_cycles) == (3, 30, 20, 5)
    mixed = land(functions, found, [
        Samples(one, "stochastic", 5, 2), Samples(one, "host_trap", 5, None)
    ])  # fmt: skip
    assert any("two methods" in note for note in mixed.notes)


def test_assembly_that_is_gone(tmp_path: Path) -> None:
    report = reported("gfx90a", "amdgcn", "hsaco")
    gone = Artifact("amdgcn", "", 0, tmp_path / "gone.amdgcn")
    report = replace(report, artifacts={**report.artifacts, "amdgcn": gone})
    landing = measured_lines(report, traced=[Traced(place(256, "s_nop 0"), 1, 4, 3, 0)])
    assert landing.lines == ()
    assert stalls(landing) == (0, 3)
    assert "gone.amdgcn" in landing.notes[0]
    assert measured_lines(report) == Landing(())


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ("/a/b.py:12", SourceLoc("/a/b.py", 12)),
        ("/a/b.py:12:5", SourceLoc("/a/b.py", 12)),
        ("/in/n.py:3 -> /a/b.py:12", SourceLoc("/in/n.py", 3)),
        ("/a/b.py:0", None),
        ("", None),
        ("nothing", None),
        (None, None),
    ],
)
def test_positions_that_profilers_write(comment: str | None, expected: SourceLoc | None) -> None:
    assert position(comment) == expected


# ------------------------------------------------------------------------------ beside


@pytest.fixture(scope="module")
def traced_kernel(tmp_path_factory: pytest.TempPathFactory) -> tuple[KernelReport, dict[int, int]]:
    """A bundled kernel of which rules find fault, traced; and the stalls put on its lines."""
    pytest.importorskip("triton")
    if OBJDUMP is None:
        pytest.skip("no llvm-objdump-22")
    target = str(ROOT / "kernels" / "layernorm.py")
    kernels = collect(
        Request((target,), ("gfx942",), kernel="layernorm_kernel", passes=False)
    ).kernels
    report = next(
        k for k in kernels if k.findings and any(w.verdict == "over-strict" for w in k.waits)
    )
    text = report.artifacts["amdgcn"].path.read_text()
    code = listed(report.artifacts["hsaco"].path, report.name)
    addresses = {line: a for a, line in by_hand(text, report.name, code).items()}
    strict = next(w for w in report.waits if w.verdict == "over-strict")
    narrow = next(a for a in report.accesses if a.limited_by and a.cls == "global_load")
    waiting = next(w for w in report.waits if narrow.lines[0] in (w.waits_for or ()))
    put = {strict.line: 900, waiting.line: 500, narrow.lines[0]: 40, narrow.lines[-1]: 3}
    costs = {c.address: Cost(0) for c in code if c.mnemonic in ("s_nop", "s_code_end")}
    costs.update({addresses[line]: Cost(1, stall) for line, stall in put.items()})
    run = tmp_path_factory.mktemp("traced")
    write_trace(run, report.name, code, costs, waves=2)
    (trace,) = read(run, names=("att",)).traces
    landing = measured_lines(report, traced=trace.lines)
    assert stalls(landing) == (2 * sum(put.values()), 0)
    return with_lines(report, landing.lines), put


def test_stalls_stand_beside_what_rules_found(
    traced_kernel: tuple[KernelReport, dict[int, int]],
) -> None:
    report, put = traced_kernel
    found = {stall.line: stall for stall in stalled_lines(report)}
    assert list(found) == sorted(put, key=lambda n: -put[n])
    total = sum(put.values())
    for line, stall in put.items():
        assert found[line].stall_cycles == found[line].cost == 2 * stall
        assert found[line].share == pytest.approx(100 * stall / total)
        rules = [
            f.rule
            for f in report.findings
            if any(x.line == line and x.kind == "amdgcn" for x in f.locations)
        ]
        facts = found[line].static
        assert set(facts.rules if facts else ()) == set(rules)
    strict = next(w for w in report.waits if w.verdict == "over-strict")
    facts = found[strict.line].static
    assert facts is not None
    assert strict in facts.waits
    assert [a.line for a in facts.waits_for] == list(
        dict.fromkeys(n for w in facts.waits for n in w.waits_for or ())
    )
    operations = {op.line: op for op in report.memory_ops}
    for awaited in facts.waits_for:
        assert awaited.mnemonic == operations[awaited.line].mnemonic
        assert awaited.source == operations[awaited.line].source is not None
    narrow = next(a for a in report.accesses if a.limited_by and a.cls == "global_load")
    facts = found[narrow.lines[0]].static
    assert facts is not None
    assert facts.access == narrow


def test_python_lines_carry_the_stalls_of_their_instructions(
    traced_kernel: tuple[KernelReport, dict[int, int]],
) -> None:
    report, put = traced_kernel
    costs = source_costs(report)
    assert sum(c.stall_cycles or 0 for c in costs) <= 2 * sum(put.values())
    assert sum(c.share or 0 for c in costs) <= 100.0001
    # The position by the text itself: the .loc before the instruction, its last call site in the
    # kernel's file.
    lines = report.artifacts["amdgcn"].path.read_text().split("\n")
    expected: dict[int, int] = {}
    for line, stall in put.items():
        before = next(lines[n] for n in range(line - 2, 0, -1) if re.match(r"\s+\.loc\s", lines[n]))
        at = [int(n) for n in re.findall(r"layernorm\.py:(\d+)", before)]
        if at:
            expected[at[0]] = expected.get(at[0], 0) + 2 * stall
    assert expected
    found = {c.line: c.stall_cycles for c in costs if c.file.endswith("layernorm.py")}
    assert {line: found[line] for line in expected} == expected
    ordered = [c.stall_cycles or 0 for c in costs]
    assert ordered == sorted(ordered, reverse=True)
    pointed = {rule for c in costs for rule in c.rules}
    assert pointed <= {f.rule for f in report.findings}
    assert pointed


def test_sums_of_kernel_and_loops(traced_kernel: tuple[KernelReport, dict[int, int]]) -> None:
    report, put = traced_kernel
    stall = report.metrics["measured.stall_cycles"]
    assert (stall.value, stall.unit, stall.origin) == (2 * sum(put.values()), "cycles", "measured")
    executed = [line for line in report.measured_lines if line.mnemonic != "s_nop"]
    assert report.metrics["measured.hits"].value == 2 * len(executed)
    assert "measured.samples" not in report.metrics
    outside = [line for line in report.measured_lines if line.loop is None]
    for name, of in (
        ("measured.stall_cycles", lambda line: line.stall_cycles),
        ("measured.latency_cycles", lambda line: line.latency_cycles),
        ("measured.hits", lambda line: line.hits),
    ):
        inside = sum(int(str(loop.metrics[name].value)) for loop in report.loops)
        assert inside + sum(of(line) or 0 for line in outside) == report.metrics[name].value
    for loop in report.loops:
        share = loop.metrics["measured.stall_share"]
        own = loop.metrics["measured.stall_cycles"].value
        assert share.value == pytest.approx(100 * float(str(own)) / (2 * sum(put.values())))
        assert share.note.startswith(f"100 · stall cycles {own} / {2 * sum(put.values())}")
    assert with_lines(report, ()) is report


def line_of(number: int, **figures: int | None) -> MeasuredLine:
    return MeasuredLine(number, None, "s_nop", None, None, **figures)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([line_of(1, stall_cycles=3), line_of(2, samples=4, issued=1)], "stall cycles"),
        ([line_of(1, stall_cycles=0), line_of(2, samples=4, issued=1)], "samples not issued"),
        ([line_of(1, samples=4, issued=4), line_of(2, samples=4)], "samples"),
        ([line_of(1, stall_cycles=0)], None),
        ([], None),
    ],
)
def test_what_shares_are_of(lines: list[MeasuredLine], expected: str | None) -> None:
    assert measure_of(lines) == expected


def test_spills_and_lines_without_measurement() -> None:
    report = reported("gfx90a", "amdgcn")
    slot = SpillSlot(0, 4, (20,), (30, 31), (), ())
    wait = report.waits[0]
    report = with_lines(
        replace(report, spills=(slot,)),
        (line_of(30, samples=6, issued=1), line_of(wait.line, samples=5, issued=5)),
    )
    (stall,) = stalled_lines(report)
    assert (stall.line, stall.samples, stall.share) == (30, 6, 100.0)
    assert stall.static is not None
    assert stall.static.spill == "reload"
    assert report.metrics["measured.samples"].value == 11
    assert "measured.stall_cycles" not in report.metrics
    loops = {loop.id: loop for loop in report.loops}
    assert all("measured.samples" not in loop.metrics for loop in loops.values())
