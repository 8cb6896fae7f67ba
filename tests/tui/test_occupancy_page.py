"""The page of occupancy: what is typed, what is said, and the plots."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pytest
from kinspect.inspector import machines
from kinspect.inspector.explain.occupancy_view import occupancy_lines
from kinspect.inspector.metrics.occupancy import occupancy
from kinspect.inspector.model import Demand, KernelReport, Report
from kinspect.inspector.pipeline.events import Reported
from kinspect.tui.screens.kernel.kernel_page import KernelPage
from kinspect.tui.screens.list_chooser import ListChooser
from kinspect.tui.screens.occupancy.occupancy_answer import answer_lines, curves, why_two
from kinspect.tui.screens.occupancy.occupancy_fields import (
    FIELDS,
    Query,
    fields_after_step,
    fields_of,
    parsed,
)
from kinspect.tui.screens.occupancy.occupancy_page import FigureInput, OccupancyPage
from kinspect.tui.widgets.step_plot import StepFunction, StepPlot
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Static
from tui_kernels import BUFFERS
from tui_screens import each_size, snapshots, text_of

ASKED = (
    ("gfx942", Demand(132, 0, 30, 30000, 4)),
    ("gfx942", Demand(132, 8, 110, 0, 8)),
    ("gfx950", Demand(97, 64, None, 40000, 2)),
    ("gfx908", Demand(100, 60, 40, 16000, 4)),
    ("gfx906", Demand(65, 0, 90, 1000, 1)),
    ("gfx1100", Demand(100, 0, None, 20000, 4, 32)),
    ("gfx1100", Demand(100, 0, None, 20000, 4, 64, True)),
    ("gfx1250", Demand(300, 0, None, 100000, 8)),
    ("gfx942", Demand(100, 0, 30, 0, 4, vgprs_requested=168)),
)


def page(pilot: Pilot[Any]) -> OccupancyPage:
    found = next(s for s in pilot.app.screen_stack if isinstance(s, OccupancyPage))
    assert isinstance(found, OccupancyPage)
    return found


def field(pilot: Pilot[Any], name: str) -> FigureInput:
    return page(pilot).query_one(f"#{name}", FigureInput)


def beside(pilot: Pilot[Any], name: str) -> str:
    return str(page(pilot).query_one(f"#row-{name}").query_one(".hint", Static).render())


def wrong(pilot: Pilot[Any]) -> set[str]:
    rows = ((f.name, page(pilot).query_one(f"#row-{f.name}")) for f in FIELDS)
    return {name for name, row in rows if row.has_class("-wrong")}


def said(pilot: Pilot[Any]) -> str:
    return str(page(pilot).query_one("#answer", Static).render())


def plotted(pilot: Pilot[Any], name: str) -> StepFunction:
    return page(pilot).query_one(f"#over-{name}", StepPlot)._steps


async def test_lds_is_listed_by_address(opened: Any, report: Report) -> None:
    first, *others = report.kernels
    kernels = (replace(first, lds_buffers=BUFFERS), *others)
    async with opened(page="occupancy", of=replace(report, kernels=kernels)) as pilot:
        for kernel in kernels:
            page(pilot)._show_kernel(kernel.id)
            await pilot.pause()
            below = page(pilot).query_one("#lds-map", Static)
            assert below.display == bool(kernel.lds_buffers)
            lines = str(below.render()).splitlines()
            if kernel.lds_buffers:
                assert lines[0].startswith("LDS by address: 2 buffers in ")
                assert lines[1] == (
                    "     0..32768  q 128x128 f16, a tile, gemm.py:5..9; shares bytes with k"
                )


async def put(pilot: Pilot[Any], **figures: str | int) -> None:
    """Replaces the text of fields, as pasting does."""
    for name, figure in figures.items():
        field(pilot, name).value = str(figure)
    await pilot.pause()
    await pilot.pause()  # the plots follow the words


def only(report: Report, name: str) -> Report:
    return replace(report, kernels=tuple(k for k in report.kernels if k.name == name))


# ------------------------------------------------------------------ the page


async def test_snapshot(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        await put(pilot, vgprs=132, lds=20000)
        await snapshots(pilot, "occupancy")


async def test_wrong_input_says_so_in_place(opened: Any, report: Report) -> None:
    small = only(report, "small")
    async with opened(size=(80, 24), page="occupancy", of=small) as pilot:
        assert wrong(pilot) == set()
        for name, text, part in (
            ("vgprs", "", "needed"),
            ("vgprs", "12x", "a whole number"),
            ("vgprs", "12345678", "too much"),
            ("vgprs", "40", ""),
            ("waves", "0", "give 1 or more"),
            ("waves", "4", ""),
            ("wave_size", "32", "gfx942 has 64"),
            ("wave_size", "64", ""),
            ("mode", "wgp", "CUs alone"),
            ("mode", "abc", "cu or wgp"),
            ("mode", "", ""),
            ("arch", "gfx924", "did you mean gfx942?"),
            ("arch", "", "goes through all"),
            ("arch", "gfx942", ""),
        ):
            await put(pilot, **{name: text})
            assert wrong(pilot) == ({name} if part else set()), (name, text)
            assert part in beside(pilot, name)
            if part:
                assert part in said(pilot).replace("\n", " ")
                assert page(pilot).has_class("-stale")
        field(pilot, "vgprs").value = "-5"  # pasted: as a key, - goes to the page
        await pilot.pause()
        assert "not below 0" in beside(pilot, "vgprs")
        await pilot.press("R")
        assert not wrong(pilot)
        assert "resident" in text_of(pilot.app)
        await put(pilot, vgprs=520, lds=70000)  # what no wave can have is answered
        assert wrong(pilot) == {"vgprs", "lds"}
        assert beside(pilot, "vgprs") == "more than the 512 there are"
        assert "cannot launch: 520 VGPRs are more than the 512" in said(pilot)
        assert plotted(pilot, "vgprs").current is None


async def test_everything_follows_what_is_typed(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        field(pilot, "vgprs").focus()
        await pilot.press("end", "backspace", "backspace", *"132")
        await pilot.press("tab", "end", "backspace", "8")
        await put(pilot, sgprs="", lds=32768, waves=8, wave_size="", requested=200)
        demand = Demand(132, 8, None, 32768, 8, vgprs_requested=200)
        found = occupancy(machines.load("gfx942"), demand)
        assert found.waves_per_eu == 2
        await pilot.pause()
        assert "2 waves/SIMD = 1 workgroup/CU: limited by" in said(pilot)
        assert f"{found.compiler} waves/SIMD" in said(pilot)
        assert plotted(pilot, "vgprs").current == (132, 2)
        assert plotted(pilot, "lds").current == (32768, 2)
        assert "what if" in page(pilot).crumb()
        text = text_of(pilot.app)
        (now,) = (line for line in text.splitlines() if "◀ now" in line)
        assert now.split()[:2] == ["2", "1"]
        await put(pilot, arch="gfx1100", agprs="", requested="")
        assert "WGP" in said(pilot)
        assert plotted(pilot, "vgprs").max_y == 16


async def test_unknown_figures_stay_unknown(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=only(report, "attend")) as pilot:
        # Its file says 0 bytes of LDS while the code uses it: how much is not known.
        assert field(pilot, "lds").value == ""
        assert beside(pilot, "lds") == "unknown"
        assert "LDS unknown" in said(pilot)
        assert plotted(pilot, "vgprs").title == "waves/SIMD over VGPRs alone"
        assert plotted(pilot, "lds").current is None
        await put(pilot, waves="")
        assert "LDS -  workgroups -" in said(pilot)
        assert "needs the waves of a workgroup" in text_of(pilot.app)


async def test_keys_that_change_the_field(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        await pilot.press("i")
        assert pilot.app.focused is field(pilot, "vgprs")  # 40: a multiple of the granule, 8
        await pilot.press("plus")
        assert field(pilot, "vgprs").value == "48"
        await pilot.press("minus", "minus")
        assert field(pilot, "vgprs").value == "32"
        await put(pilot, vgprs="35")
        await pilot.press("minus")
        assert field(pilot, "vgprs").value == "32"
        field(pilot, "lds").focus()
        await pilot.press("equals_sign")
        assert field(pilot, "lds").value == "4608"
        field(pilot, "waves").focus()
        for _ in range(4):
            await pilot.press("minus")
        assert field(pilot, "waves").value == "1"
        field(pilot, "arch").focus()
        await pilot.press("plus")
        assert field(pilot, "arch").value == "gfx950"
        await pilot.press("minus", "minus")
        assert field(pilot, "arch").value == "gfx941"
        field(pilot, "mode").focus()
        await pilot.press("plus", "plus")
        assert field(pilot, "mode").value == "cu"
        field(pilot, "wave_size").focus()
        await pilot.press("plus")
        assert field(pilot, "wave_size").value == "64"
        await pilot.press("R")
        assert {f.name: field(pilot, f.name).value for f in FIELDS} == fields_of(report.kernels[-1])


async def test_keys_that_go_to_steps(opened: Any, report: Report) -> None:
    async with opened(size=(80, 24), page="occupancy", of=only(report, "small")) as pilot:
        seen = []
        for _ in range(3):
            await pilot.press("right_square_bracket")
            seen.append(field(pilot, "vgprs").value)
        assert seen == ["65", "73", "81"]  # the first that allow 7, 6 and 5 waves
        await pilot.press("left_square_bracket")
        assert field(pilot, "vgprs").value == "80"
        await put(pilot, lds=20000)
        field(pilot, "lds").focus()
        await pilot.press("left_square_bracket")
        assert field(pilot, "lds").value == "16384"
        await pilot.press("right_square_bracket")
        assert field(pilot, "lds").value == "16385"
        await pilot.press("R")
        await put(pilot, vgprs="132")
        assert "4 fewer VGPRs would give 4 waves/SIMD" in said(pilot)
        await pilot.press("T")
        await pilot.pause()
        assert field(pilot, "vgprs").value == "128"
        assert "4 waves/SIMD = " in said(pilot)


async def test_digits_are_pages_until_a_field_has_the_keys(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        here = page(pilot)
        assert "⏎ Type" in text_of(pilot.app)
        await pilot.press("plus")  # the page's keys are there without a field
        assert field(pilot, "vgprs").value == "48"
        await pilot.press("1")
        await pilot.pause()
        assert not isinstance(pilot.app.screen, OccupancyPage)
        await pilot.press("5")
        await pilot.pause()
        here = page(pilot)
        kept = field(pilot, "vgprs").value
        await pilot.press("enter", "6", "4")  # what is there is typed over
        assert pilot.app.screen is here
        assert kept != "64" == field(pilot, "vgprs").value
        assert "esc Leave the fields" in text_of(pilot.app)
        await pilot.press("escape")
        assert pilot.app.screen is here
        assert field(pilot, "vgprs").value == "64"
        await pilot.press("2")
        await pilot.pause()
        assert pilot.app.screen is not here


async def test_figures_are_told_where_a_plot_is_narrow(opened: Any, report: Report) -> None:
    """The figures stand before the words, and no unit is taken for something that is needed."""
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        async for width, _ in each_size(pilot):
            await put(pilot, vgprs=132, lds=40000, waves=4)
            text = text_of(pilot.app)
            assert "● 132 → 1  ◇ ≤ 128 → 2" not in text  # LDS alone limits here
            assert "over LDS  ● 40,000 → 1  ◆ ≤ 32,768 → 2" in text, text
            await put(pilot, vgprs=224, lds=32768)
            text = text_of(pilot.app)
            assert "over LDS  ● 32,768 → 2  ◇ ≤ 21,504 → 3" in text
            assert ("with less VGPRs" in text) == (width >= 120)
            assert "65,536 B" in text
            await put(pilot, waves="")
            assert "over VGPRs alone  ● 224 → 2" in text_of(pilot.app)


async def test_digits_are_figures_and_other_keys_the_pages(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=report) as pilot:
        field(pilot, "sgprs").focus()
        await pilot.press("end", "1")
        assert isinstance(pilot.app.screen, OccupancyPage)
        assert field(pilot, "sgprs").value.endswith("1")
        await pilot.press("down")
        assert pilot.app.focused is field(pilot, "lds")
        await pilot.press("up", "up")
        assert pilot.app.focused is field(pilot, "agprs")
        await pilot.press("tab", "enter", "shift+tab")
        assert pilot.app.focused is field(pilot, "sgprs")
        await pilot.press("q")
        assert not pilot.app.is_running or not isinstance(pilot.app.screen, OccupancyPage)


async def test_another_kernel(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=report) as pilot:
        for name in ("calls", "tensile"):
            await pilot.press("a")
            assert isinstance(pilot.app.screen, ListChooser)
            await pilot.press(*name[:4], "enter")
            (kernel,) = (k for k in report.kernels if k.name == name)
            assert pilot.app.last_kernel == kernel.id
            assert {f.name: field(pilot, f.name).value for f in FIELDS} == fields_of(kernel)
            assert page(pilot).crumb().startswith(name)
        await pilot.press("o")
        await pilot.pause()
        assert isinstance(pilot.app.screen, KernelPage)


async def test_a_new_report_does_not_take_away_what_was_typed(opened: Any, report: Report) -> None:
    (kernel,) = (k for k in report.kernels if k.name == "small")
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        more = with_vgprs(kernel, 96)
        pilot.app.session.take(Reported((0, 0), more))
        page(pilot).refresh_from_session()
        assert field(pilot, "vgprs").value == "96"  # nothing had been typed
        await put(pilot, vgprs="77")
        pilot.app.session.take(Reported((0, 0), with_vgprs(kernel, 104)))
        page(pilot).refresh_from_session()
        assert field(pilot, "vgprs").value == "77"
        await pilot.press("R")
        assert field(pilot, "vgprs").value == "104"


def with_vgprs(kernel: KernelReport, vgprs: int) -> KernelReport:
    known = {
        name: replace(metric, value=vgprs)
        for name, metric in kernel.metrics.items()
        if name in ("vgpr_count", "arch_vgpr_count", "vgpr_allocated")
    }
    agprs = {"agpr_count": replace(kernel.metrics["agpr_count"], value=0)}
    assert kernel.demand is not None
    demand = replace(kernel.demand, vgprs=vgprs, agprs=0, vgprs_requested=vgprs)
    return replace(kernel, metrics={**kernel.metrics, **known, **agprs}, demand=demand)


async def test_no_kernel(opened: Any, report: Report) -> None:
    async with opened(page="occupancy", of=replace(report, kernels=())) as pilot:
        assert "figures of your own" in text_of(pilot.app)
        assert "resident" in said(pilot)
        await pilot.press("o", "T", "R", "plus")
        assert field(pilot, "vgprs").value == "136"


# ------------------------------------------------------------------ figures


def test_a_kernels_own_figures_give_its_own_occupancy(report: Report) -> None:
    assert len(report.kernels) == 5
    for kernel in report.kernels:
        asked, bad = parsed(fields_of(kernel), kernel)
        assert asked is not None, (kernel.name, bad)
        found = asked.occupancy()
        for name in ("waves_per_eu", "workgroups_per_cu", "limiter", "by_vgpr", "by_sgpr"):
            assert getattr(found, name) == kernel.metrics[f"occupancy.{name}"].value, kernel.name
        if kernel.metrics["occupancy.waves_per_eu"].origin == "derived":
            first, *_ = answer_lines(asked, found)
            assert first.text == occupancy_lines(kernel)[0]


@pytest.mark.parametrize(("arch", "demand"), ASKED)
def test_curves_are_the_figure_of_every_point(arch: str, demand: Demand) -> None:
    machine = machines.load(arch)
    asked = Query(machine, demand)
    by_vgprs, by_lds = curves(asked, asked.occupancy())
    for vgprs in range(0, machine.vgpr_addressable + 1, 3):
        expected = occupancy(machine, replace(demand, vgprs=vgprs)).waves_per_eu
        assert by_vgprs.value_at(vgprs) == expected, vgprs
    for lds in range(0, machine.lds_max + 1, 1021):
        expected = occupancy(machine, replace(demand, lds_bytes=lds)).waves_per_eu
        assert by_lds.value_at(lds) == expected, lds
    for steps in (by_vgprs, by_lds):
        assert all(a[0] < b[0] and a[1] > b[1] for a, b in pairwise(steps.points))
        if steps.step is not None and not steps.needs:
            assert steps.current is not None
            assert (
                steps.value_at(steps.step[0])
                > steps.current[1]
                >= steps.value_at(steps.step[0] + 1)
            )


def test_a_step_of_two_resources_is_marked_in_both_plots() -> None:
    machine, demand = machines.load("gfx942"), Demand(132, 0, 30, 20000, 4)
    asked = Query(machine, demand)
    found = asked.occupancy()
    by_vgprs, by_lds = curves(asked, found)
    assert (by_vgprs.needs, by_lds.needs) == ("less LDS", "less VGPRs")
    assert by_vgprs.step is not None
    assert by_lds.step is not None
    after = replace(demand, vgprs=int(by_vgprs.step[0]), lds_bytes=int(by_lds.step[0]))
    assert occupancy(machine, after).waves_per_eu == by_vgprs.step[1] == by_lds.step[1]
    for less in (
        replace(demand, vgprs=int(by_vgprs.step[0])),
        replace(demand, lds_bytes=int(by_lds.step[0])),
    ):
        assert occupancy(machine, less).waves_per_eu == found.waves_per_eu


def test_the_next_step_reaches_what_it_says() -> None:
    dice = random.Random(7)
    taken = 0
    for _ in range(400):
        arch = dice.choice(("gfx906", "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1100"))
        machine = machines.load(arch)
        agprs = dice.choice((0, 0, dice.randrange(1, 120))) if machine.agpr != "none" else 0
        demand = Demand(
            dice.randrange(0, machine.vgpr_addressable),
            agprs,
            dice.choice((None, dice.randrange(0, 102))),
            dice.choice((0, dice.randrange(0, machine.lds_max))),
            dice.choice((1, 2, 4, 8)),
            vgprs_requested=dice.choice((None, None, dice.randrange(0, 256))),
        )
        asked = Query(machine, demand)
        found = asked.occupancy()
        changed = fields_after_step(asked, found)
        assert bool(changed) == (found.next_step is not None), demand
        if found.next_step is None:
            continue
        values = {
            "arch": arch,
            "vgprs": str(demand.vgprs),
            "agprs": str(demand.agprs),
            "sgprs": "" if demand.sgprs is None else str(demand.sgprs),
            "lds": str(demand.lds_bytes),
            "waves": str(demand.waves_per_workgroup),
            "wave_size": "",
            "mode": "",
            "requested": "" if demand.vgprs_requested is None else str(demand.vgprs_requested),
        }
        after, bad = parsed({**values, **changed}, None)
        assert after is not None, bad
        reached = after.occupancy().waves_per_eu
        assert reached is not None
        assert reached >= found.next_step.gives, (demand, changed)
        taken += 1
    assert taken > 200


def test_why_the_figures_differ_is_said_in_words() -> None:
    asked = Query(
        machines.load("gfx942"), Demand(132, 0, 30, 32768, 8, compiler_lds=0, lds_from="triton")
    )
    found = asked.occupancy()
    assert found.compiler != found.waves_per_eu
    lines = {line.label: line.text for line in answer_lines(asked, found)}
    assert lines["compiler"] == (
        f"{found.compiler} waves/SIMD: it sees neither Triton's LDS nor whole workgroups"
    )
    assert "Triton" in why_two(found, asked)[1]


# ------------------------------------------------------------------ the plot


async def test_the_plot_draws_the_function(opened: Any, report: Report) -> None:
    """Each column's line stands in the row of the function's value there."""
    async with opened(page="occupancy", of=only(report, "small")) as pilot:
        await put(pilot, vgprs="132")
        await pilot.pause()
        plot = page(pilot).query_one("#over-vgprs", StepPlot)
        steps, width = plot._steps, plot._columns
        height = plot.size.height - 3
        rows = [
            "".join(segment.text for segment in plot.render_line(y))
            for y in range(plot.size.height)
        ]
        body = [row[plot._margin :] for row in rows[1 : 1 + height]]
        for column in range(width):
            y = steps.value_at(column / (width - 1) * steps.points[-1][0])
            row = round((1 - y / steps.max_y) * (height - 1))
            assert body[row][column] in "─╰●◆", (column, y)
        labels = {row[: plot._margin - 2].strip() for row in rows[1 : 1 + height]}
        assert {"0", "8"} <= labels
        assert "● 132 → 3" in rows[0]
        assert "◆ ≤ 128 → 4" in rows[0]
        assert rows[-1].rstrip().endswith("512")
        await pilot.click(plot, offset=(3 + plot._columns // 2, 5))
        assert int(field(pilot, "vgprs").value) == pytest.approx(256, abs=6)
        await pilot.click(page(pilot).query_one("#over-lds", StepPlot), offset=(3, 5))
        assert field(pilot, "lds").value == "0"


async def test_it_is_shown_against_the_baseline(opened: Any, report: Report) -> None:
    async with opened((200, 60), "occupancy") as pilot:
        await pilot.press("b", *["plus"] * 20)
        await pilot.pause()
        assert "waves/EU 8 → 2 ✗  VGPRs 40 → 200 ✗   (small gfx942)" in said(pilot)
        await pilot.press("b")
        await pilot.pause()
        assert "(small gfx942)" not in said(pilot)
