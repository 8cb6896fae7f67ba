"""The pictures of the pages on ideas, each drawn from an analysis of a small example.

All figures in them are kinspect's own. `draw` makes one by its name, `PICTURES` has the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import kinspect
import numpy as np
from kinspect.inspector.emulator.access_figures import phases_of
from kinspect.inspector.emulator.grid import Launch
from kinspect.inspector.emulator.launch import Emulator
from kinspect.inspector.emulator.memory import buffer_of
from kinspect.inspector.emulator.waves import Waves
from kinspect.inspector.explain.layout_pictures import RegisterPicture, register_picture
from kinspect.inspector.explain.loop_view import bounds, main_loop, unit_name
from kinspect.inspector.explain.time_view import STALLS
from kinspect.inspector.explain.view import plural
from kinspect.inspector.isa.assembly import parse_text
from kinspect.inspector.isa.dataflow.operands import EXEC
from kinspect.inspector.lanes.addresses import Places, places_of
from kinspect.inspector.machines import load
from kinspect.inspector.metrics.exposed_latency import LATENCY, PLAYED, PlayedStep, timeline
from kinspect.inspector.metrics.lanes import lane_uses
from kinspect.inspector.model import Function, Instruction, LaneUse, Machine, value_of
from kinspect.inspector.pipeline.analysis import analyze_text
from kinspect.inspector.pipeline.analysis_options import AnalysisOptions, Context, Overrides
from kinspect.inspector.pipeline.jobs import timing
from kinspect.inspector.ttgir.parser import parse_ttgir
from kinspect.inspector.ttgir.redundant_work import DotWork, dot_work
from msgspec import Struct

from .drawing import FLIGHT, IDLE, MARK, OTHER, WORK, Drawing, lane_color

EXAMPLES = Path(__file__).parent / "examples"
WIDTH = 720.0
ARCH = "gfx942"


# ------------------------------------------------------------------------------- occupancy

VGPRS, LDS_BYTES, WAVES = 130, 32768, 8
"""The kernel of the page on occupancy, and the registers that would give it the next step."""


def _occupancy(vgprs: int) -> Any:
    return kinspect.occupancy(ARCH, vgprs=vgprs, lds_bytes=LDS_BYTES, waves_per_workgroup=WAVES)


def _next_vgprs() -> int:
    """The most registers with which another workgroup is resident."""
    return int(VGPRS - _occupancy(VGPRS).next_step.reduce_by)


def occupancy_steps() -> Drawing:
    """Waves over registers: what the registers admit, and what whole workgroups make of it."""
    machine = load(ARCH)
    drawing = Drawing("Resident waves of a SIMD over the VGPRs of a lane", WIDTH, 300)
    most = machine.vgpr_addressable
    left, right, top, bottom = 52.0, WIDTH - 20, 62.0, 248.0

    def at(vgprs: float, waves: float) -> tuple[float, float]:
        across = left + (right - left) * vgprs / most
        return across, bottom - (bottom - top) * waves / machine.max_waves

    drawing.legend(
        left,
        20,
        {
            "registers alone": OTHER,
            f"whole workgroups of {WAVES} waves": WORK,
            "registers of the two kernels below": MARK,
        },
    )
    alone = _levels(1)
    for levels, fill in ((alone, OTHER), (_levels(WAVES), WORK)):
        before = 0.0
        for waves, vgprs in levels:
            (x0, y), (x1, _) = at(before, waves), at(vgprs, waves)
            tip = f"up to {vgprs} VGPRs: {waves:g} waves"
            drawing.box(x0, y, x1 - x0, bottom - y, fill, tip=tip, edge=False)
            before = vgprs
    for waves in range(0, machine.max_waves + 1, 2):
        x, y = at(0, waves)
        drawing.line((left, y), (right, y), soft=True)
        drawing.text(x - 8, y + 4, str(waves), anchor="end")
    shown = 0.0
    for _, vgprs in alone:
        x = at(vgprs, 0)[0]
        if x - shown > 30:
            drawing.line((x, bottom), (x, bottom + 4))
            drawing.text(x, bottom + 18, str(vgprs), anchor="middle")
            shown = x
    drawing.text((left + right) / 2, bottom + 38, "VGPRs of a lane", anchor="middle", soft=True)
    drawing.text(left, top - 12, "waves on a SIMD", soft=True)
    by_lds = _occupancy(VGPRS).by_lds
    (x, y), end = at(most, by_lds), at(0, by_lds)
    drawing.line(end, (x, y), dashed=True)
    drawing.text(
        x, y - 6, f"LDS: {LDS_BYTES // 1024} KiB each admit {by_lds:g} waves", anchor="end"
    )
    for vgprs in (_next_vgprs(), VGPRS):
        x, y = at(vgprs, _occupancy(vgprs).waves_per_eu)
        drawing.dot(x, y, tip=f"{vgprs} VGPRs: {_occupancy(vgprs).waves_per_eu:g} waves")
        below = vgprs < VGPRS
        x += -10 if below else 10
        drawing.text(x, y + 18, str(vgprs), anchor="end" if below else "start", on_box=True)
    x, y = at((most + _levels(WAVES)[-1][1]) / 2, 0)
    drawing.text(x, y - 12, "no workgroup fits", anchor="middle", on_box=True)
    return drawing


def _levels(waves_per_workgroup: int) -> list[tuple[float, int]]:
    """(waves of a SIMD, the most VGPRs with which they fit), the fewest VGPRs first."""
    result = kinspect.occupancy(ARCH, vgprs=1, waves_per_workgroup=waves_per_workgroup)
    return [(level.waves_per_eu, level.vgprs) for level in result.levels]


def occupancy_cu() -> Drawing:
    """A CU's SIMDs with the waves of each workgroup, for two numbers of registers."""
    machine = load(ARCH)
    drawing = Drawing("The wave slots of a compute unit's SIMDs", WIDTH, 322)
    drawing.legend(
        20,
        22,
        {
            "workgroup 0": lane_color(4, 8),
            "workgroup 1": lane_color(2, 8),
            "room for a wave, not for a workgroup": "dashed",
            "no registers left": "none",
        },
    )
    panel, gap = 330.0, 20.0
    for number, vgprs in enumerate((VGPRS, _next_vgprs())):
        _compute_unit(drawing, machine, vgprs, 20 + number * (panel + gap), panel)
    return drawing


def _compute_unit(
    drawing: Drawing, machine: Machine, vgprs: int, left: float, width: float
) -> None:
    result = _occupancy(vgprs)
    top, slot = 92.0, 22.0
    column = width / machine.eus
    waves = f"{result.waves_per_eu:g} waves on a SIMD"
    drawing.text(left, 54, f"{vgprs} VGPRs: {waves}", bold=True)
    for simd in range(machine.eus):
        x = left + simd * column
        drawing.text(x + (column - 8) / 2, top - 10, f"SIMD {simd}", anchor="middle", soft=True)
        residents = [
            (group, wave)
            for group in range(result.workgroups_per_cu)
            for wave in range(simd, WAVES, machine.eus)
        ]
        for place in range(machine.max_waves):
            y = top + place * slot
            if place < len(residents):
                group, wave = residents[place]
                drawing.box(x, y, column - 8, slot - 4, lane_color(4 - 2 * group, 8))
                drawing.text(
                    x + (column - 8) / 2, y + 13, f"wave {wave}", anchor="middle", on_box=True
                )
            else:
                fits = place < result.by_vgpr
                drawing.box(x, y, column - 8, slot - 4, dashed=fits, faint=not fits)
    y = top + machine.max_waves * slot + 24
    pool = machine.lds_pool
    drawing.text(left, y - 6, f"LDS: {pool // 1024} KiB", soft=True)
    drawing.box(left, y, width - 8, 18)
    for group in range(result.workgroups_per_cu):
        share = (width - 8) * LDS_BYTES / pool
        drawing.box(left + group * share, y, share, 18, lane_color(4 - 2 * group, 8))
        drawing.text(
            left + (group + 0.5) * share,
            y + 13,
            f"{LDS_BYTES // 1024} KiB",
            anchor="middle",
            on_box=True,
        )


# ----------------------------------------------------------------------------------- waits


class _Played(Struct, frozen=True):
    """Tiles of one loop, as one wave computes them.

    Args:
        steps: the instructions of these tiles, and of those before and after.
        start: the clock at which the tiles begin.
        cycles: for which they take.
        stalled: of these the wave stands still.
    """

    steps: tuple[PlayedStep, ...]
    start: int
    cycles: int
    stalled: int


_TILES = 2
_MFMA_OF_TILE = 8


def waits() -> Drawing:
    """The same tiles, each loaded when it is needed, and one tile ahead."""
    drawing = Drawing("A wave that waits for each load, and one that loads ahead", WIDTH, 296)
    drawing.legend(
        20,
        22,
        {"MFMA": WORK, "the wave waits": IDLE, "a load is in flight": FLIGHT},
    )
    pictures = [(name, _played(name)) for name in ("load_then_use", "load_ahead")]
    scale = (WIDTH - 150) / max(played.cycles for _, played in pictures)
    for number, (name, played) in enumerate(pictures):
        _timeline(drawing, name, played, 58 + number * 118, scale)
    return drawing


@cache
def _function(file: str, name: str) -> Function:
    text = (EXAMPLES / file).read_text()
    return next(f for f in parse_text(text, file).functions if f.name == name)


def _instruction(step: PlayedStep, function: Function) -> Instruction:
    return function.instructions[step.index]


def _played(name: str) -> _Played:
    function = _function("waits.s", name)
    (loop,) = function.loops
    code = [
        inst
        for number in loop.blocks
        for inst in function.instructions[
            function.blocks[number].start : function.blocks[number].stop
        ]
    ]
    steps = timeline(code, load(ARCH))
    tiles = sum(inst.cls == "mfma" for inst in code) // _MFMA_OF_TILE
    first = len(code) * (PLAYED // 2)
    shown = steps[first : first + len(code) * _TILES // tiles]
    end = shown[-1].arrival + shown[-1].stalled + shown[-1].cycles
    start = shown[0].arrival
    stalled = sum(step.stalled for step in shown)
    return _Played(tuple(steps), start, end - start, stalled)


def _timeline(drawing: Drawing, name: str, played: _Played, top: float, scale: float) -> None:
    function = _function("waits.s", name)
    left, start, end = 112.0, played.start, played.start + played.cycles

    def x(clock: float) -> float:
        return left + (min(max(clock, start), end) - start) * scale

    stalled = f"waiting for {played.stalled:,} of them" if played.stalled else "without waiting"
    drawing.text(
        20, top + 4, f"{name}: {_TILES} tiles in {played.cycles:,} cycles, {stalled}", bold=True
    )
    lanes_of_loads: dict[int, int] = {}
    drawing.text(left - 10, top + 33, "the wave", anchor="end")
    drawing.box(left, top + 16, x(end) - left, 26, OTHER)
    for step in played.steps:
        inst = _instruction(step, function)
        issue = step.arrival + step.stalled
        if inst.cls == "global_load":
            # The registers that it loads tell a load from the next one's.
            row = lanes_of_loads.setdefault(len(lanes_of_loads), len(lanes_of_loads) % 2)
            begin, there = step.arrival, step.arrival + LATENCY
            if there > start and begin < end:
                y = top + 50 + 18 * row
                tip = f"{inst.mnemonic} {inst.operands}: cycles {begin - start} to {there - start}"
                drawing.box(x(begin), y, x(there) - x(begin), 14, FLIGHT, tip=tip)
        if not start <= step.arrival < end:
            continue
        if step.stalled:
            tip = f"{inst.mnemonic} {inst.operands}: {step.stalled} cycles"
            drawing.box(x(step.arrival), top + 16, x(issue) - x(step.arrival), 26, IDLE, tip=tip)
            middle = (x(step.arrival) + x(issue)) / 2
            drawing.text(middle, top + 33, f"{step.stalled} cycles", anchor="middle", on_box=True)
        elif inst.cls == "mfma":
            drawing.box(x(issue), top + 16, step.cycles * scale, 26, WORK, tip=inst.mnemonic)
    drawing.text(left - 10, top + 71, "its loads", anchor="end")


# ------------------------------------------------------------------------------- LDS banks


class _Access(Struct, frozen=True):
    """The only access of an example, and where its lanes lie."""

    use: LaneUse
    places: Places


def _access(name: str) -> _Access:
    function, machine = _function("lanes.s", name), load(ARCH)
    threads = (64, 1, 1)
    located = places_of(function, machine, threads)
    assert located is not None
    (places,) = located.places
    return _Access(lane_uses(function, machine, threads)[places.site], places)


def banks() -> Drawing:
    """Which lanes meet in a bank, without and with padding."""
    drawing = Drawing("Lanes of a wave over the banks of LDS", WIDTH, 390)
    _banks(drawing, "column", "rows of 32 words", 24)
    _banks(drawing, "column_padded", "rows of 33 words", 326)
    return drawing


def _banks(drawing: Drawing, name: str, rows: str, top: float) -> None:
    access = _access(name)
    where = access.places.where[0, 0]
    phases = phases_of(ARCH, access.places.size, 64, writes=access.places.writes)
    count = len(phases.groups)
    figures = f"{access.use.cycles:g} cycles"
    if access.use.conflicts:
        figures += f", {access.use.cycles_ideal:g} without conflicts"
    drawing.text(20, top, f"A column of a tile with {rows}: {figures}", bold=True)
    left, cell, height = 76.0, (WIDTH - 96) / phases.banks, 7.0
    drawing.text(left - 10, top + 24, "bank", anchor="end", soft=True)
    for bank in range(0, phases.banks, 4):
        drawing.text(left + (bank + 0.5) * cell, top + 24, str(bank), anchor="middle", soft=True)
    filled: dict[int, list[int]] = {}
    for lane in phases.groups[0]:
        dwords = filled.setdefault(int(where[lane]) // 4 % phases.banks, [])
        if lane not in dwords:
            dwords.append(lane)
    deepest = max(map(len, filled.values()))
    height = 7.0 if deepest > 2 else 16.0
    drawing.box(left - 2, top + 30, phases.banks * cell + 2, height * deepest + 4, faint=True)
    for bank in range(phases.banks):
        x = left + bank * cell
        for depth, lane in enumerate(filled.get(bank, ())):
            tip = f"lane {lane}: byte {where[lane]}, bank {bank}"
            y = top + 32 + depth * height
            drawing.box(x, y, cell - 2, height, lane_color(lane, 64), tip=tip)
            if deepest <= 2:
                drawing.text(
                    x + (cell - 2) / 2, y + 12, str(lane), anchor="middle", on_box=True, size=10
                )
    group = phases.groups[0]
    drawing.text(left - 10, top + 44, "cycle 1", anchor="end", soft=True)
    if deepest > 2:
        drawing.text(left - 10, top + 31 + deepest * height, f"{deepest}", anchor="end", soft=True)
        x = left + len(filled) * cell + 10
        drawing.text(
            x, top + 58, f"Lanes {group[0]} to {group[-1]} need {deepest} words of one bank,"
        )
        drawing.text(
            x, top + 76, f"which gives one word a cycle. {phases.banks - 1} banks are idle."
        )
        drawing.text(
            x, top + 102, f"Shown is one of {count} phases, each of {len(group)} lanes.", soft=True
        )


# ----------------------------------------------------------------------------- cache lines


def cache_lines() -> Drawing:
    """The lines that a wave's load touches, strided and contiguous."""
    drawing = Drawing("Lanes of a wave over cache lines", WIDTH, 306)
    bottom = _lines(drawing, "strided", "8 KiB from lane to lane", 24)
    _lines(drawing, "contiguous", "2 bytes from lane to lane", bottom + 40)
    return drawing


def _lines(drawing: Drawing, name: str, words: str, top: float) -> float:
    access = _access(name)
    use, size = access.use, access.places.size
    line = load(ARCH).cache_line_bytes
    assert line is not None
    assert use.lines is not None
    assert use.waste is not None
    where = access.places.where[0, 0]
    first = int(where[0]) // line * line
    used = f"{100 - use.waste:.2g} % of their bytes" if use.lines > 1 else "all of its bytes"
    drawing.text(
        20, top, f"{words}: {plural(int(use.lines), 'cache line')}, {used} used", bold=True
    )
    of_line: dict[int, list[int]] = {}
    for lane, byte in enumerate(where):
        of_line.setdefault((int(byte) - first) // line, []).append(lane)
    numbers = sorted(of_line)
    drawn = numbers if len(numbers) <= 4 else [*numbers[:3], None, numbers[-1]]
    left, scale, height = 110.0, (WIDTH - 110 - 110) / line, 22.0
    y = top + 14
    for number in drawn:
        if number is None:
            left_out = len(numbers) - len(drawn) + 1
            drawing.text(left, y + 14, f"… and {left_out} more lines", soft=True)
            y += height + 4
            continue
        lanes = of_line[number]
        drawing.text(
            left - 10, y + 15, f"line {numbers.index(number) + 1}", anchor="end", soft=True
        )
        drawing.box(left, y, line * scale, height - 2, OTHER, tip=f"{line} bytes are fetched")
        for lane in lanes:
            x = left + (int(where[lane]) - first) % line * scale
            tip = f"lane {lane}: byte {int(where[lane]) - first}"
            drawing.box(x, y, size * scale, height - 2, lane_color(lane, 64), tip=tip)
        label = f"lane {lanes[0]}" if len(lanes) == 1 else f"lanes {lanes[0]}–{lanes[-1]}"
        drawing.text(left + line * scale + 10, y + 15, label)
        y += height + 4
    drawing.text(left, y + 12, "byte 0", soft=True)
    drawing.text(left + line * scale, y + 12, str(line), anchor="end", soft=True)
    return y + 12


# -------------------------------------------------------------------------- repeated work


def redundancy() -> Drawing:
    """The waves that compute each block of a product: more than blocks of rows, and as many."""
    drawing = Drawing("The waves that compute each block of a product", WIDTH, 330)
    text = (EXAMPLES / "few_rows.ttgir").read_text()
    fewer = text.replace("warpsPerCTA = [8, 1]", "warpsPerCTA = [2, 1]")
    fewer = fewer.replace('"ttg.num-warps" = 8', '"ttg.num-warps" = 2')
    most = max(work.issued for work, _ in map(_product, (text, fewer)))
    for number, module in enumerate((text, fewer)):
        work, picture = _product(module)
        _shared_tile(drawing, work, picture, 20 + number * 360, most)
    return drawing


def _product(text: str) -> tuple[DotWork, RegisterPicture]:
    """The work of the module's product, and the layout of its result."""
    module = parse_ttgir(text, "few_rows.ttgir")
    (op,) = (op for op in module.ops if op.name == "tt.dot")
    result = op.result_types[0]
    assert result.layout is not None
    work, picture = dot_work(op), register_picture(result.layout, result.shape)
    assert work is not None
    assert picture is not None
    return work, picture


def _shared_tile(
    drawing: Drawing, work: DotWork, picture: RegisterPicture, left: float, most: int
) -> None:
    rows, columns = picture.shape
    extents = {cover.name: cover.instruction for cover in work.covers}
    deep, wide = extents["M"], extents["N"]
    width, height = 300.0, 150.0
    cell_width, cell_height = width * wide / columns, height * deep / rows
    times = f"{work.redundancy:g} times" if work.redundancy > 1 else "once"
    drawing.text(left, 24, f"{work.waves} waves: each block is computed {times}", bold=True)
    for row in range(0, rows, deep):
        y = 62 + row / deep * cell_height
        drawing.text(
            left + 30,
            y + cell_height / 2 + 4,
            f"{row}–{row + deep - 1}",
            anchor="end",
            size=10,
            soft=True,
        )
        for column in range(0, columns, wide):
            x = left + 36 + column / wide * cell_width
            waves = sorted({holder.warp for holder in picture.holders.all_at((row, column))})
            stripe = (cell_height - 4) / len(waves)
            for number, wave in enumerate(waves):
                top = y + number * stripe
                drawing.box(x, top, cell_width - 4, stripe, lane_color(wave, 8))
                drawing.text(
                    x + (cell_width - 4) / 2,
                    top + stripe / 2 + 4,
                    f"wave {wave}",
                    anchor="middle",
                    on_box=True,
                    size=11,
                )
            if row == 0:
                drawing.text(
                    x + (cell_width - 4) / 2,
                    52,
                    f"{column}–{column + wide - 1}",
                    anchor="middle",
                    size=10,
                    soft=True,
                )
    y = 62 + height + 22
    bar = width / most
    drawing.text(left + 36, y, "multiply-accumulates that the product needs", soft=True)
    drawing.box(left + 36, y + 6, work.needed * bar, 16, WORK)
    drawing.text(left + 44 + work.needed * bar, y + 19, f"{work.needed:,}")
    drawing.text(left + 36, y + 44, "that its waves carry out", soft=True)
    drawing.box(left + 36, y + 50, work.issued * bar, 16, IDLE if work.redundancy > 1 else WORK)
    inside = work.issued == most
    drawing.text(
        left + 44 + (0 if inside else work.issued * bar), y + 63, f"{work.issued:,}", on_box=inside
    )


# ---------------------------------------------------------------------------------- bounds


_GEMM_LDS = 8192
"""Bytes that Triton states in its metadata, beside the assembly."""


def loop_bounds() -> Drawing:
    """What each unit takes at least for an iteration of the GEMM, as it was compiled once."""
    file = EXAMPLES / "gemm.amdgcn"
    context = Context(file.name, overrides=Overrides(lds_bytes=_GEMM_LDS))
    (kernel,) = analyze_text(file.read_text(), context)
    loop = main_loop(kernel)
    assert loop is not None
    figures = bounds(loop.metrics)
    of_wave: Any = value_of(loop.metrics, "bound.wave")
    waves = value_of(loop.metrics, "bound.waves")
    drawing = Drawing(
        "Cycles that each unit takes for an iteration", WIDTH, 66 + 30 * len(figures) + 14
    )
    left, height = 160.0, 30.0
    scale = (WIDTH - left - 90) / figures[0][1]
    drawing.legend(
        20,
        22,
        {
            "the bound": MARK,
            f"all {waves:g} waves of a SIMD": OTHER,
            "of these, one wave that has the CU for itself": WORK,
        },
    )
    for number, (unit, cycles) in enumerate(figures):
        y = 48 + number * height
        drawing.text(left - 10, y + 15, unit_name(unit), anchor="end")
        drawing.box(left, y, cycles * scale, 20, OTHER if number else MARK)
        own = of_wave.get(unit) or 0
        drawing.box(left, y + 12, min(own, cycles) * scale, 8, WORK, tip=f"one wave: {own:g}")
        drawing.text(left + cycles * scale + 10, y + 15, f"{cycles:,.0f}", bold=not number)
    drawing.text(
        left, 48 + len(figures) * height + 14, "cycles of an iteration, at least", soft=True
    )
    return drawing


_GEMM_ARGUMENTS = ", ".join(["f16[1048576]=zeros"] * 3) + ", i32 1024"


def stall_reasons() -> Drawing:
    """Where the time of the GEMM's launch goes, and what it would take with one cost gone."""
    file = EXAMPLES / "gemm.amdgcn"
    overrides = Overrides(lds_bytes=_GEMM_LDS, workgroup=(256, 1, 1), grid=(16, 16, 1))
    options = timing(AnalysisOptions(), arguments=_GEMM_ARGUMENTS, savings=True)
    (kernel,) = analyze_text(
        file.read_text(), Context(str(file), overrides=overrides, analysis=options)
    )
    time = kernel.time
    assert time is not None
    rows = time.stalls[:_REASONS]
    savings = time.savings[:_REASONS]
    left, height = 160.0, 30.0
    top = 76 + len(rows) * height
    drawing = Drawing(
        f"Where {time.us:.0f} µs go, and what would save how much",
        WIDTH,
        top + len(savings) * height + 10,
    )
    most = max(saving.percent for saving in savings)
    scale = (WIDTH - left - 110) / max(rows[0].share, most / 100)
    drawing.text(left, 22, f"share of {time.us:.0f} µs on {time.gpu}, by reason", soft=True)
    for number, stall in enumerate(rows):
        y = 34 + number * height
        drawing.text(left - 10, y + 15, STALLS[stall.reason], anchor="end")
        drawing.box(left, y, stall.share * scale, 20, OTHER if number else MARK)
        drawing.text(left + stall.share * scale + 10, y + 15, f"{100 * stall.share:.0f} %")
    drawing.text(left, top - 14, "saved with one cost gone", soft=True)
    for number, saving in enumerate(savings):
        y = top + number * height
        drawing.text(left - 10, y + 15, saving.change, anchor="end")
        drawing.box(left, y, saving.percent / 100 * scale, 20, WORK)
        text = f"{saving.percent:.0f} %: {saving.us:.0f} µs"
        drawing.text(left + saving.percent / 100 * scale + 10, y + 15, text)
    return drawing


_REASONS = 6
"""Rows of each half of the picture of a launch's time."""


# -------------------------------------------------------------------------------- emulator


class _Operation(Struct, frozen=True):
    """An operation of the emulator.

    Args:
        site: index of the instruction.
        lanes: wave -> how many of its lanes take part.
    """

    site: int
    lanes: dict[int, int]


_COLOURS = {
    "scalar": OTHER,
    "vector": WORK,
    "memory": FLIGHT,
    "barrier": MARK,
}


def lockstep() -> Drawing:
    """What the emulator carries out at a time: an instruction, for all waves that stand at it."""
    function = _function("lockstep.s", "lockstep")
    operations = _executed(function)
    waves = sorted({wave for operation in operations for wave in operation.lanes})
    left, column, row = 82.0, (WIDTH - 100) / len(operations), 30.0
    top = 190.0
    drawing = Drawing(
        "Instructions of four waves, in the order in which they are carried out",
        WIDTH,
        top + len(waves) * row + 40,
    )
    drawing.legend(
        20,
        22,
        {
            "scalar": OTHER,
            "vector": WORK,
            "LDS and memory": FLIGHT,
            "barrier": MARK,
        },
    )
    for wave in waves:
        drawing.text(left - 12, top + wave * row + 18, f"wave {wave}", anchor="end")
    for number, operation in enumerate(operations):
        inst = function.instructions[operation.site]
        x = left + number * column
        drawing.text(x + column / 2 + 4, top - 8, inst.mnemonic, mono=True, upright=True, size=11)
        for wave, lanes in operation.lanes.items():
            y, height = top + wave * row, row - 6
            share = height if inst.mnemonic.startswith("s_") else height * lanes / 64
            tip = f"wave {wave}: {inst.mnemonic} {inst.operands}, {lanes} lanes"
            drawing.box(x, y, column - 5, height, faint=True)
            drawing.box(x, y + height - share, column - 5, share, _COLOURS[_kind(inst)], tip=tip)
    y = top + len(waves) * row + 14
    parted = [n for n, operation in enumerate(operations) if len(operation.lanes) < len(waves)]
    x0, x1 = left + parted[0] * column, left + (parted[-1] + 1) * column - 5
    drawing.line((x0, y - 8), (x0, y - 3), (x1, y - 3), (x1, y - 8))
    drawing.text((x0 + x1) / 2, y + 12, "the waves have parted", anchor="middle")
    drawing.text(
        WIDTH - 24, y + 12, "a low box: only some lanes are active", anchor="end", soft=True
    )
    return drawing


def _kind(inst: Instruction) -> str:
    if inst.mnemonic.startswith("s_barrier"):
        return "barrier"
    if inst.mnemonic.startswith(("ds_", "global_", "s_load")):
        return "memory"
    return "vector" if inst.mnemonic.startswith("v_") else "scalar"


def _executed(function: Function) -> list[_Operation]:
    """The operations of one workgroup of four waves, in order."""
    emulator = Emulator(function, load(ARCH))
    operations: list[_Operation] = []

    def noted(step: Callable[[Waves], Any], sites: Sequence[int]) -> Callable[[Waves], Any]:
        def run(waves: Waves) -> Any:
            active = [
                int(low).bit_count() + int(high).bit_count()
                for low, high in zip(waves.scalar[EXEC], waves.scalar[EXEC + 1], strict=True)
            ]
            lanes = dict(zip(waves.wave.tolist(), active, strict=True))
            operations.extend(_Operation(site, lanes) for site in sites)
            return step(waves)

        return run

    for block in emulator.code.blocks:
        last = len(block.steps) - 1
        for number, (registers, step, site) in enumerate(block.steps):
            end = [block.leave.site] if number == last and block.leave.site > site else []
            block.steps[number] = registers, noted(step, [site, *end]), site
    address = 1 << 40
    memory = buffer_of(np.zeros(256, np.uint32), address)
    launch = Launch(
        grid=(1, 1, 1),
        threads=(256, 1, 1),
        lds_bytes=1024,
        arguments=address.to_bytes(8, "little"),
        checks=False,
    )
    emulator.run(launch, [memory])
    return operations


PICTURES: dict[str, Callable[[], Drawing]] = {
    "explanation/occupancy-steps.svg": occupancy_steps,
    "explanation/occupancy-cu.svg": occupancy_cu,
    "explanation/waits-timeline.svg": waits,
    "explanation/lds-banks.svg": banks,
    "explanation/lines.svg": cache_lines,
    "explanation/waves-of-rows.svg": redundancy,
    "explanation/units.svg": loop_bounds,
    "explanation/stall-reasons.svg": stall_reasons,
    "explanation/lockstep.svg": lockstep,
}
"""Address in the site -> what draws it."""
