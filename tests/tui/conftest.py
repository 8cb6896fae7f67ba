"""What the tests of the terminal UI share: an application on real reports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.model import Report
from kinspect.inspector.pipeline import analysis
from kinspect.inspector.pipeline import collecting as pipeline
from kinspect.inspector.pipeline.events import Reported
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.session import RunProgress
from msgspec.structs import replace
from textual.pilot import Pilot

DATA = Path(__file__).parent.parent / "data" / "isa"
NAMES = (
    "attend.triton39.gfx90a.amdgcn",
    "attend.triton39.gfx950.amdgcn",
    "calls.triton39.gfx942.amdgcn",
    "handwritten.gfx90a.s",
    "../small_gfx942.s",
)


STABLE_SINCE = frozenset(f"KI{number:03}" for number in (
    8, 9, 36, 46, 47, 48, 51, 52, 53, 54, 55, 56, 58, 59, 60, 61, 63, 64, 65, 67, 68, 69,
    71, 73, 74, 75, 76, 78, 79, 81, 82, 83, 84, 85, 86, 88, 90, 91, 92, 93, 94, 95, 97, 98,
    99, 100, 103, 104, 105, 106, 107, 108, 109, 110, 112, 113, 114, 116, 117, 118, 120,
))  # fmt: skip
"""Rules that came out of preview after the screens were written: what they find is left out, so
that screens change with the interface alone."""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's settings or history."""
    monkeypatch.setenv("KINSPECT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("KINSPECT_DATA_DIR", str(tmp_path / "data"))


# In preview, and so silent: pages need findings of every kind to show.
SHOWN = ("KI003", "KI008", "KI012", "KI013", "KI015", "KI031", "KI033")


@contextmanager
def _rules_with_findings() -> Iterator[None]:
    """What is analysed in the block is asked some rules that are not proved yet."""
    pack = analysis.recommended_pack()
    asked = tuple(
        rule
        for rule in pack.rules
        if rule.text.id in SHOWN
        or (rule.text.status != "preview" and rule.text.id not in STABLE_SINCE)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(analysis, "default_pack", lambda: replace(pack, rules=asked))
        yield


@pytest.fixture(autouse=True, scope="module")
def _rules_of_screens(shared_guests: None) -> Iterator[None]:
    """For the modules here alone: other tests of the same process ask the rules as they are.

    What they compile is compiled in guests that tests share.
    """
    with _rules_with_findings():
        yield


@pytest.fixture(scope="session")
def report() -> Report:
    """A few small kernels, analysed now."""
    with _rules_with_findings():
        return pipeline.collect(Request(tuple(str(DATA / name) for name in NAMES)))


Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]


@pytest.fixture
def opened(report: Report) -> Make:
    """Opens the application on reports that are there already.

    `async with opened(size=(80, 24), page="kernels") as pilot`; `pilot.app` is the application.
    """

    @asynccontextmanager
    async def make(
        size: tuple[int, int] = (120, 40),
        page: str | None = "kernels",
        of: Report | None = None,
        opening: Opening | None = None,
    ) -> AsyncIterator[Pilot[Any]]:
        app = KinspectApp(opening or Opening(None, page))
        shown = of if of is not None else report
        if opening is None:
            for index, kernel in enumerate(shown.kernels):
                app.session.take(Reported((index, 0), kernel))
            app.session.errors.extend(shown.errors)
            app.session.progress = RunProgress(len(shown.kernels), 0, len(shown.kernels))
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            yield pilot

    return make
