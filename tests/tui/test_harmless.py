"""Names, messages and paths of strangers are shown as they are: they steer nothing."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from kinspect.inspector.model import ErrorRecord, Report
from kinspect.tui.screens.dialogue import ExplainScreen
from msgspec.structs import replace
from textual.pilot import Pilot
from tui_screens import text_of

Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]
EVIL = "\x1b]0;owned\x07\x9b31m\u202e[bold red on blue][@click=app.quit]x[/]\udcff"


def steering(pilot: Pilot[Any]) -> set[str]:
    """What of the screen a terminal would obey, or could not be written to one."""
    steering = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return {c for c in text_of(pilot.app) if unicodedata.category(c) in steering} - {"\n"}


async def test_every_page(opened: Make, report: Report) -> None:
    kernel = report.kernels[0]
    finding = replace(kernel.findings[0], message=f"m{EVIL}", fix=f"f{EVIL}")
    hostile = replace(
        kernel, name=f"n{EVIL}", notes=(f"n{EVIL}",), findings=(finding, *kernel.findings[1:])
    )
    error = ErrorRecord(f"f{EVIL}.s", f"k{EVIL}", "compile", f"m{EVIL}", f"h{EVIL}", f"o{EVIL}")
    of = replace(report, kernels=(hostile, *report.kernels[1:]), errors=(error,))
    async with opened(of=of) as pilot:
        assert "[bold red on blue]" in text_of(pilot.app)
        for page in ("kernels", "findings", "occupancy", "profile", "passes"):
            pilot.app.action_page(page)
            await pilot.pause()
            assert steering(pilot) == set(), page


async def test_a_message_is_no_markup(opened: Make) -> None:
    async with opened() as pilot:
        pilot.app.notify(f"a{EVIL}")
        pilot.app.screen.notify(f"b{EVIL}", title="said")
        await pilot.pause()
        assert [n.markup for n in pilot.app._notifications] == [False, False]
        assert steering(pilot) == set()


async def test_the_title_of_a_frame_is_no_markup(opened: Make) -> None:
    async with opened() as pilot:
        pilot.app.push_screen(ExplainScreen(f"t{EVIL}", "text"))
        await pilot.pause()
        assert "[@click=app.quit]" in text_of(pilot.app)
        assert steering(pilot) == set()
