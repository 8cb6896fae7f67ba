"""The terminal UI parses no text as markup, and no text on the screen is a button."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from kinspect.inspector.bench.history.analyses import Analysis, analysed
from kinspect.inspector.bench.history.store import FILE, History
from kinspect.inspector.model import ErrorRecord, KernelReport, Report
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.recompiling import settings_of_kernel
from kinspect.tui.screens.dialogue import ExplainScreen, FailureScreen, entitle
from kinspect.tui.screens.help import HelpScreen
from kinspect.tui.screens.history.history_page import RunScreen
from kinspect.tui.screens.list_chooser import Choice, ListChooser
from kinspect.tui.screens.recompile import RecompileScreen
from kinspect.tui.screens.trials import TrialsScreen
from msgspec.structs import replace
from textual.containers import VerticalScroll
from textual.content import Content
from textual.pilot import Pilot
from textual.screen import Screen
from textual.style import Style
from textual.widgets import Static
from tui_kernels import tuned, waves
from tui_screens import text_of, until

Make = Callable[..., AbstractAsyncContextManager[Pilot[Any]]]
TUI = Path(__file__).parents[2] / "tui"
WIDGETS = frozenset(("ContentSwitcher", "Input", "Label", "Static"))
"""Widgets of Textual that show no text as markup, these two with `markup=False`:"""
TAKE_MARKUP = frozenset(("Label", "Static"))
TITLES = frozenset(
    ("border_title", "border_subtitle", "BORDER_TITLE", "BORDER_SUBTITLE", "tooltip")
)
PARSERS = frozenset(("from_markup", "from_text", "from_rich_text", "render_str", "with_tooltip"))
MODULES = frozenset(("textual.markup", "rich.markup"))


def modules() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text("utf-8")) for path in sorted(TUI.rglob("*.py"))}


def takers(trees: Iterable[ast.Module]) -> frozenset[str]:
    """The classes whose constructors take `markup`: Textual's and those made of them."""
    bases = {
        node.name: {ast.unparse(base).rpartition(".")[2] for base in node.bases}
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    names = set(TAKE_MARKUP)
    while more := {name for name, of in bases.items() if of & names} - names:
        names |= more
    return frozenset(names)


def is_plain(value: ast.expr | None) -> bool:
    """Whether a value is text that is not parsed, or none."""
    if isinstance(value, ast.IfExp):
        return is_plain(value.body) and is_plain(value.orelse)
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "Content"
    return isinstance(value, ast.Constant) and value.value in (None, "")


def is_title(node: ast.AST) -> bool:
    name = node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
    return name in TITLES


def parsed(tree: ast.AST, markup_takers: frozenset[str] = TAKE_MARKUP) -> Iterator[str]:
    """Where Textual is given a text that it parses as markup."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            titles = any(map(is_title, (n for target in targets for n in ast.walk(target))))
            if titles and (isinstance(node, ast.AugAssign) or not is_plain(node.value)):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call):
            if _is_parsed_call(node, markup_takers):
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            names = {alias.name for alias in node.names}
            widgets = (node.module or "").startswith("textual.widgets")
            if node.module in MODULES or (widgets and names - WIDGETS):
                yield ast.unparse(node)
        elif isinstance(node, ast.Import):
            if any(a.name in MODULES or a.name.startswith("textual.widgets") for a in node.names):
                yield ast.unparse(node)
        elif isinstance(node, ast.FunctionDef) and node.name == "render":
            returned = ast.unparse(node.returns) if node.returns else None
            if returned not in ("Content", "Text"):
                yield f"render -> {returned}"


def _is_parsed_call(node: ast.Call, markup_takers: frozenset[str]) -> bool:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    markup = keywords.get("markup")
    is_off = isinstance(markup, ast.Constant) and markup.value is False
    if name in PARSERS or ((name in markup_takers or markup is not None) and not is_off):
        return True
    if name == "setattr" and any(a.value in TITLES for a in node.args if is_text(a)):
        return True
    return any(title in keywords and not is_plain(keywords[title]) for title in TITLES)


def is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_no_text_is_parsed_as_markup() -> None:
    trees = modules()
    names = takers(trees.values())
    assert "MissingText" in names
    assert [
        f"{path.relative_to(TUI)}: {text}"
        for path, tree in trees.items()
        for text in parsed(tree, names)
    ] == []


@pytest.mark.parametrize(
    "text",
    [
        "box.border_title = name",
        "box.border_title = f'of {name}'",
        "box.border_subtitle: str = 'x'",
        "box.border_title += name",
        "a, box.border_title = 1, name",
        "box.border_title = Content(a) if a else name",
        "class A(Widget):\n    BORDER_TITLE = 'a'",
        "setattr(box, 'border_title', name)",
        "line.tooltip = name",
        "line.with_tooltip(name)",
        "Input(tooltip=name)",
        "Static(name)",
        "Static(id='a')",
        "widgets.Label(name, markup=True)",
        "app.notify(name, markup=is_markup)",
        "Content.from_markup(name)",
        "Text.from_markup(name)",
        "Content.from_text(name)",
        "self.render_str(name)",
        "from textual.markup import escape",
        "import rich.markup",
        "from textual.widgets import Button",
        "from textual.widgets.option_list import Option",
        "import textual.widgets",
        "def render(self): return name",
        "def render(self) -> str: return name",
    ],
)
def test_it_would_be_seen(text: str) -> None:
    assert list(parsed(ast.parse(text)))


# --------------------------------------------------------------------------- on the screen

EVIL = "[ @click=app.bell()]x[/][@click=app.screenshot('p.svg','/x')]y[/]"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The actions of those texts that were run."""
    ran: list[str] = []
    for name in ("bell", "screenshot"):
        monkeypatch.setattr(
            KinspectApp, f"action_{name}", lambda app, *arguments, name=name: ran.append(name)
        )
    return ran


def hostile(report: Report) -> KernelReport:
    """A kernel that can be recompiled, with a text behind each of its names."""
    small = next(kernel for kernel in report.kernels if kernel.name == "small")
    kernel = tuned(small, {"BM": 64, "num_warps": 4}, waves(8, 64))
    assert kernel.variant is not None
    return replace(
        kernel,
        name=EVIL,
        arch="gfx942",
        notes=(EVIL,),
        findings=tuple(
            replace(finding, message=EVIL, fix=EVIL, rule=EVIL) for finding in kernel.findings
        ),
        variant=replace(kernel.variant, ttir="module {}", case=EVIL),
    )


async def click_on(pilot: Pilot[Any], text: str = EVIL) -> int:
    """Clicks on the start and the middle of a text, wherever the screen shows it.

    Returns:
        How often that is.
    """
    starts = [(line.find(text[:20]), y) for y, line in enumerate(text_of(pilot.app).split("\n"))]
    spots = [(x, y) for x, y in starts if x >= 0]
    for x, y in spots:
        await pilot.click(offset=(x, y))
        await pilot.click(offset=(x + 10, y))
    return len(spots)


def dialogue(name: str, app: KinspectApp) -> Screen[Any]:
    entry = next(iter(app.session.entries.values()))
    match name:
        case "failure":
            return FailureScreen(ErrorRecord(EVIL, EVIL, EVIL, EVIL, EVIL, EVIL))
        case "explanation":
            return ExplainScreen(EVIL, EVIL)
        case "recompile":
            settings = settings_of_kernel(entry.report, Request(()))
            return RecompileScreen(entry, settings, Request(()))
        case "trials":
            return TrialsScreen(entry, frozenset((EVIL,)), Request(()))
        case "list":
            return ListChooser(EVIL, [Choice("a", EVIL)], None)
    raise AssertionError(name)


class _Child:
    """Tries nothing."""

    def messages(self) -> Iterator[tuple[str, Any]]:
        return iter(())

    def stop(self) -> None:
        pass


async def test_a_dialogue(
    opened: Make, report: Report, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kinspect.tui.screens.trials.MessagingChild", lambda *work: _Child())
    async with opened((200, 60), of=replace(report, kernels=(hostile(report),))) as pilot:
        for name in ("failure", "explanation", "recompile", "trials", "list"):
            screen = dialogue(name, pilot.app)
            pilot.app.push_screen(screen)
            await pilot.pause()
            frame = next(iter(screen.children))
            assert frame._border_title is not None
            assert EVIL in frame._border_title.plain
            assert not frame._border_title.spans
            assert await click_on(pilot) >= 1
            assert pilot.app.screen is screen
            pilot.app.pop_screen()
            await pilot.pause()
        assert ran == []


async def test_a_failed_row_and_its_text(opened: Make, report: Report, ran: list[str]) -> None:
    error = ErrorRecord("a.py", EVIL, EVIL, "it failed", EVIL, EVIL)
    async with opened(of=replace(report, kernels=(), errors=(error,))) as pilot:
        assert await click_on(pilot) >= 1
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, FailureScreen)
        assert f"failed to {EVIL}" in text_of(pilot.app)
        await click_on(pilot)
        assert isinstance(pilot.app.screen, FailureScreen)
        assert ran == []


async def test_a_page(opened: Make, report: Report, ran: list[str]) -> None:
    of = replace(report, kernels=(hostile(report),))
    async with opened(of=of) as pilot:
        for page in ("kernels", "findings", "occupancy", "profile", "passes"):
            pilot.app.action_page(page)
            await pilot.pause()
            await click_on(pilot)
        for command in pilot.app.get_system_commands(pilot.app.screen):  # Textual parses these
            assert "@" not in f"{command.title}{command.help}"
        assert ran == []


async def test_the_history(opened: Make, report: Report, ran: list[str], tmp_path: Path) -> None:
    kernel, units = analysed(replace(report.kernels[0], name=EVIL), {"error": 0})
    run = Analysis("2026-01-01T10:30:00+00:00", EVIL, "analyze", EVIL, {}, units, (kernel,))
    History(tmp_path).add_analysis(run)
    opening = Opening(None, "history", history=tmp_path / FILE, remember=False)
    async with opened((200, 60), opening=opening) as pilot:

        async def settle() -> None:
            for _ in range(3):
                await pilot.app.workers.wait_for_complete()
                await pilot.pause()

        await settle()
        assert EVIL in text_of(pilot.app)
        await click_on(pilot)
        await settle()
        pilot.app.screen.query_one("#runs").focus()
        await pilot.press("enter")
        await settle()
        assert isinstance(pilot.app.screen, RunScreen)
        assert await click_on(pilot) >= 2
        assert ran == []


async def test_no_style_is_a_button(opened: Make, ran: list[str]) -> None:
    """What a text parsed by mistake would name is not run either."""
    async with opened() as pilot:
        screen = ExplainScreen("", "")
        pilot.app.push_screen(screen)
        await pilot.pause()
        for event in ("click", "mouse.down", "mouse.up"):
            style = Style.from_meta({f"@{event}": "app.bell()"})
            screen.query_one(Static).update(Content.styled("press here", style))
            await pilot.pause()
            assert await click_on(pilot, "press here") == 1
        assert ran == []


async def test_scrollbars_are_worked_by_the_mouse(opened: Make) -> None:
    async with opened((80, 24)) as pilot:
        screen = HelpScreen(pilot.app.screen)
        pilot.app.push_screen(screen)
        await until(pilot, lambda: screen.query(VerticalScroll) and pilot.app.focused)
        box = screen.query_one(VerticalScroll)
        bar = box.vertical_scrollbar
        await until(pilot, lambda: bar.region in screen.region and bar.size.height > 9)
        await pilot.click(bar, offset=(0, bar.size.height - 1))
        await until(pilot, lambda: box.scroll_y > 0 and box.scroll_y == box.scroll_target_y)
        below = box.scroll_y
        await pilot.mouse_down(bar, offset=(0, bar.size.height // 2))
        await pilot.hover(bar, offset=(0, 0))
        await pilot.mouse_up(bar, offset=(0, 0))
        await until(pilot, lambda: box.scroll_y < below)


def test_a_frame_without_keys_has_no_subtitle() -> None:
    frame = VerticalScroll()
    entitle(frame, "[b]a[/b]")
    assert frame._border_title is not None
    assert frame._border_title.plain == "[b]a[/b]"
    assert frame._border_subtitle is None
