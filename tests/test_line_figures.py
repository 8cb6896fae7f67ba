"""The figures beside code: from the report's fields, summed for the lines that code stems from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernel_times import kernel_time
from kinspect.inspector.explain.code.line_figures import (
    COLUMNS,
    DEFAULT,
    LineFigures,
    amount,
    chosen,
    line_figures,
)
from kinspect.inspector.explain.code.links import Links
from kinspect.inspector.explain.code.reading import KernelReading, followed_thing, reading_of
from kinspect.inspector.explain.code.texts import texts_of
from kinspect.inspector.model import (
    Access,
    Artifact,
    Emulated,
    EmulatedLine,
    InstructionTime,
    KernelReport,
    LaneUse,
    MemoryOp,
)
from kinspect.inspector.pipeline.collecting import collect
from kinspect.inspector.pipeline.jobs import Request
from msgspec.structs import replace

ISA = Path(__file__).parent / "data" / "isa"
NAME = "attend.triton39.gfx950"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> KernelReport:
    """A kernel with its source, TTGIR and assembly."""
    folder = tmp_path_factory.mktemp("figures")
    shutil.copy(ISA / "triton_kernels.py", folder)
    artifacts = {}
    for kind, place in (("ttgir", Path(__file__).parent / "tui" / "data"), ("amdgcn", ISA)):
        path = folder / f"attend.{kind}"
        text = (place / f"{NAME}.{kind}").read_text("utf-8").replace("/src/kernels", str(folder))
        path.write_text(text, "utf-8")
        artifacts[kind] = Artifact(kind, "", path.stat().st_size, path)
    kernel = collect(Request((str(folder / "attend.amdgcn"),))).kernels[0]
    return replace(kernel, artifacts=artifacts)


@pytest.fixture(scope="module")
def reading(plain: KernelReport) -> KernelReading:
    return reading_of(plain, texts_of(plain))


def figures_of(kernel: KernelReport, links: Links) -> dict[str, LineFigures]:
    return line_figures(kernel, links, shares={}, predicted={}, executed={}, cycles={})


def with_uses(kernel: KernelReport, *uses: LaneUse | None) -> KernelReport:
    """The kernel whose first accesses touch that, and the others what nobody knows."""
    ops = tuple(
        replace(op, use=uses[n] if n < len(uses) else None)
        for n, op in enumerate(kernel.memory_ops)
    )
    return replace(kernel, memory_ops=ops, accesses=(), spills=())


def test_conflicts_and_lines_are_those_of_the_accesses(
    plain: KernelReport, reading: KernelReading
) -> None:
    kernel = with_uses(
        plain,
        LaneUse(conflicts=24.0, cycles=28.0, cycles_ideal=4.0),
        LaneUse(lines=16.0, lines_ideal=4.0),
        LaneUse(conflicts=0.0, lines=4.0, lines_ideal=4.0),
        LaneUse(lines=9.0, unknown="its address"),
    )
    figures = figures_of(kernel, reading.links)
    first, second, *_ = kernel.memory_ops
    assert figures["conflicts"].weights["amdgcn"] == {first.line - 1: 24.0}
    assert figures["lines"].weights["amdgcn"] == {second.line - 1: 12.0}
    source = reading.links.related("amdgcn", second.line - 1, "source")[0]
    assert figures["lines"].weights["source"] == {source: 12.0}
    assert figures["lines"].sentence("source", source) == "12 cache lines beyond the least"
    assert figures["lines"].text("amdgcn", 0) == ""


def test_what_stems_from_one_line_is_summed_up(plain: KernelReport, reading: KernelReading) -> None:
    kernel = with_uses(plain, *[LaneUse(conflicts=2.0)] * len(plain.memory_ops))
    kernel = replace(kernel, loops=())
    figures = figures_of(kernel, reading.links)["conflicts"]
    by_source: dict[int, int] = {}
    for op in kernel.memory_ops:
        for line in reading.links.related("amdgcn", op.line - 1, "source")[:1]:
            by_source[line] = by_source.get(line, 0) + 2
    assert figures.weights["source"] == by_source
    assert len(set(by_source.values())) > 1
    hottest = figures.hottest("source", lambda line: 0)
    assert [by_source[line] for line in hottest] == sorted(by_source.values(), reverse=True)
    # Of equally hot lines those in deeper loops come first.
    assert figures.hottest("amdgcn", lambda line: line)[0] == max(figures.weights["amdgcn"])


def test_the_emulator_is_asked_where_addresses_are_not_known(
    plain: KernelReport, reading: KernelReading
) -> None:
    kernel = with_uses(plain)
    lines = [op.line for op in kernel.memory_ops[:3]]
    executed = (
        EmulatedLine(lines[0], 8, 1.0, 16.0, 8.0),
        EmulatedLine(lines[1], 8, 0.25, None, None, 3.5),
        EmulatedLine(lines[2], 8, 1.0, 8.0, 8.0, 0.0),
    )
    kernel = replace(kernel, emulated=Emulated(1, 1, 4, (), executed))
    figures = figures_of(kernel, reading.links)
    assert figures["lines"].weights["amdgcn"] == {lines[0] - 1: 8.0}
    assert figures["conflicts"].weights["amdgcn"] == {lines[1] - 1: 3.5}
    lanes = figures["lanes"]
    assert [lanes.text("amdgcn", line - 1) for line in lines] == ["100", "25", "100"]
    assert lanes.hottest("amdgcn", lambda line: 0) == (lines[1] - 1,)
    everywhere = replace(kernel, emulated=Emulated(1, 1, 4, (), executed[::2]))
    assert "lanes" not in figures_of(everywhere, reading.links)


def test_accesses_that_could_be_wider_stand_out(
    plain: KernelReport, reading: KernelReading
) -> None:
    op = next(op for op in plain.memory_ops if op.bits == 16)
    others = [other for other in plain.memory_ops if other.bits == 128]

    def access(ops: list[MemoryOp], widest: int | None) -> Access:
        lines = tuple(one.line for one in ops)
        return Access("tt.load", 1, "global_load", None, "f16", (), "", lines, widest=widest)

    kernel = replace(plain, accesses=(access([op], 128), access(others, 128)), spills=())
    bits = figures_of(kernel, reading.links)["bits"]
    assert dict(bits.weights["amdgcn"]) == {op.line - 1: 8.0}
    assert bits.sentence("amdgcn", op.line - 1) == "16 bits a lane, 8 times as many would do"
    for accesses in ((), (access([op], None),), (access(others, 128),)):
        assert "bits" not in figures_of(replace(kernel, accesses=accesses), reading.links)


def test_spills_have_their_slot_in_the_assembly(tmp_path: Path) -> None:
    (kernel,) = collect(Request((str(ISA.parent / "small_gfx942.s"),))).kernels
    reading = reading_of(kernel, texts_of(kernel))
    spill = figures_of(kernel, reading.links)["spill"]
    (slot,) = kernel.spills
    assert {spill.text("amdgcn", line - 1) for line in slot.stores} == {f"↓{slot.offset}"}
    assert {spill.text("amdgcn", line - 1) for line in slot.reloads} == {f"↑{slot.offset}"}
    assert sum(spill.weights["amdgcn"].values()) == len(slot.stores) + len(slot.reloads)


def test_waits_with_little_before_them_stand_out(
    plain: KernelReport, reading: KernelReading
) -> None:
    slack = figures_of(plain, reading.links)["slack"]
    least: dict[int, int] = {}
    for wait in plain.waits:
        if wait.slack is not None and wait.waits_for:
            least[wait.line - 1] = min(wait.slack, least.get(wait.line - 1, wait.slack))
    assert len(set(least.values())) > 1
    assert {line: int(slack.text("amdgcn", line)) for line in least} == least
    first, *_, last = slack.hottest("amdgcn", lambda line: 0)
    assert least[first] == min(least.values())
    assert least[last] == max(least.values())
    assert slack.sentence("amdgcn", first).startswith(f"{least[first]} instructions between")
    idle = tuple(replace(wait, waits_for=()) for wait in plain.waits)
    assert "slack" not in figures_of(replace(plain, waits=idle), reading.links)


def test_what_is_followed_through_the_passes(reading: KernelReading) -> None:
    def of(kind: str, part: str) -> str | None:
        lines = reading.texts.lines[kind]
        return followed_thing(
            reading, kind, next(n for n, line in enumerate(lines) if part in line)
        )

    source = reading.texts.lines["source"]
    dot = next(n for n, line in enumerate(source) if "tl.dot(q" in line) + 1
    assert of("source", "tl.dot(q") == str(dot)
    assert of("ttgir", "tt.dot") == f"tt.dot@{dot}"
    assert of("amdgcn", "v_mfma") == str(dot)
    assert of("ttgir", "scf.for").startswith("scf.for@")  # type: ignore[union-attr]


def test_live_registers_are_those_of_the_peak_of_a_line(
    plain: KernelReport, reading: KernelReading
) -> None:
    assert plain.live_peak is not None
    live = figures_of(plain, reading.links)["live"]
    peak = max(vgprs for _, vgprs, _ in plain.live_peak.counts)
    assert max(live.weights["amdgcn"].values()) == max(live.weights["source"].values()) == peak


def test_a_line_of_the_source_has_the_foremost_reason_of_its_instructions(
    plain: KernelReport, reading: KernelReading
) -> None:
    of_source: dict[int, list[int]] = {}
    for wait in plain.waits:
        for line in reading.links.related("amdgcn", wait.line - 1, "source")[:1]:
            of_source.setdefault(line, []).append(wait.line)
    source, lines = next((line, own) for line, own in of_source.items() if len(set(own)) > 2)
    first, second, third = sorted(set(lines))[:3]
    kernel = replace(plain, time=kernel_time(instructions=(InstructionTime(first, 0.1),)))
    predicted = {first: (30.0, "memory"), second: (20.0, "lds"), third: (15.0, "lds")}
    figures = line_figures(
        kernel, reading.links, shares={}, predicted=predicted, executed={}, cycles={}
    )["predicted"]
    assert figures.weights["source"] == {source: 65.0}
    assert figures.text("source", source) == "lds"
    assert figures.text("amdgcn", first - 1) == "memory"
    assert figures.sentence("source", source) == "65.0 % of the predicted stalls, mostly lds"


def test_what_a_kernel_has_no_figures_for_is_left_out(plain: KernelReport) -> None:
    bare = replace(with_uses(plain), live_peak=None, loops=(), waits=())
    assert chosen((), bare) == ()
    assert [column.name for column in chosen(("live", "no such", "lines"), plain)] == [
        "live",
        "lines",
    ]
    assert set(DEFAULT) < set(COLUMNS)
    assert all(len(column.title) <= 5 for column in COLUMNS.values())


def test_amounts_have_at_most_five_characters() -> None:
    assert [amount(figure) for figure in (0, 0.25, 3.5, 7.0, 123.4, 99_999)] == [
        *("0", "0.25", "3.5", "7", "123", "99999")
    ]
    assert [amount(figure) for figure in (123_456, 999_500, 12_345_678)] == ["123k", "1M", "12M"]


def test_what_hot_loops_execute_goes_before_what_is_executed_once(
    plain: KernelReport, reading: KernelReading
) -> None:
    hot = [loop for loop in plain.loops if loop.hot]
    assert hot

    def repeated(line: int) -> bool:
        return any(a <= line <= b for loop in hot for a, b in loop.lines)

    ops = {repeated(op.line): op.line for op in plain.memory_ops}
    inside, outside = ops[True], ops[False]
    uses = {inside: LaneUse(conflicts=2.0), outside: LaneUse(conflicts=40.0)}
    kernel = with_uses(plain, *[uses.get(op.line) for op in plain.memory_ops])
    figures = figures_of(kernel, reading.links)["conflicts"]
    lines = figures.hottest("amdgcn", lambda line: 0)
    assert [line + 1 for line in lines] == [inside, outside]
    assert figures.weights["amdgcn"] == {inside - 1: 2.0, outside - 1: 40.0}
    assert figures.sentence("amdgcn", inside - 1).endswith("in an iteration of each hot loop")
    assert figures.sentence("amdgcn", outside - 1).endswith("outside of hot loops")
    cold = replace(kernel, loops=tuple(replace(loop, hot=False) for loop in kernel.loops))
    figures = figures_of(cold, reading.links)["conflicts"]
    assert [line + 1 for line in figures.hottest("amdgcn", lambda line: 0)] == [outside, inside]
    assert figures.sentence("amdgcn", inside - 1) == "2 cycles of LDS bank conflicts"


def test_a_sum_tells_how_much_of_it_hot_loops_execute() -> None:
    figures = LineFigures(
        COLUMNS["spill"],
        {"source": {59: 60.0, 63: 53.0, 87: 125.0}},
        in_hot_loops={"source": {59: 56.0, 63: 53.0, 87: 7.0}},
    )
    assert figures.hottest("source", lambda line: 0) == (59, 63, 87)
    assert figures.sentence("source", 87).endswith(
        ": 7 in an iteration of each hot loop, 118 outside"
    )
