"""The view of code by itself: what stays where it is, what is cut, what is drawn anew."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from kinspect.tui.themes import THEMES
from kinspect.tui.widgets.code import CodeView, Text
from kinspect.tui.widgets.code_rows import VisibleRows
from kinspect.tui.widgets.styled import _changed_rows, _thumb
from rich.segment import Segment, Segments
from textual.app import App, ComposeResult
from textual.geometry import Size
from textual.scrollbar import ScrollBar, ScrollBarRender

LINES = [f"line {number} of them" for number in range(3000)]
FOLDS = {number: number + 4 for number in range(0, 2900, 10)}


class Shown(App[None]):
    """One view."""

    CSS = """
    CodeView { height: 1fr; width: 1fr; scrollbar-size: 0 1; background: $background; }
    CodeView > .code--name { color: $primary; }
    CodeView > .code--cursor { background: $primary 18%; }
    """

    def compose(self) -> ComposeResult:
        yield CodeView()

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.view.focus()

    @property
    def view(self) -> CodeView:
        return self.query_one(CodeView)


def seen(view: CodeView) -> list[str]:
    """The rows as they are drawn."""
    return [view.render_line(y).text.rstrip() for y in range(view.size.height)]


def place(view: CodeView, text: str) -> int:
    return next(y for y, row in enumerate(seen(view)) if row.startswith(text))


async def test_folds_that_come_later_move_nothing_under_the_eyes() -> None:
    app = Shown()
    async with app.run_test(size=(60, 21)) as pilot:
        for cursor in (0, 3, 7, 1502, 1505, 2999):
            view = app.view
            view.show(Text([*LINES]), cursor)
            await pilot.pause()
            before = place(view, f"line {cursor} ")
            view.update_folds(FOLDS, FOLDS)
            await pilot.pause()
            assert view.cursor == cursor
            # What is folded away above the cursor may leave too little to stand above it.
            assert place(view, f"line {cursor} ") == (3 if cursor == 7 else before)
            closed = sum(" ⋯4" in row for row in seen(view))
            assert closed >= 2 or cursor == 2999
            if cursor not in (1502, 3):
                assert len(view.folded) == len(FOLDS)
            else:  # a fold that would hide the cursor stays open
                assert view.folded == set(FOLDS) - {cursor - cursor % 10}
            view.update_folds(FOLDS, FOLDS)
            assert view.cursor == cursor


async def test_what_was_opened_is_not_closed_by_folds_that_come_later() -> None:
    app = Shown()
    async with app.run_test(size=(60, 21)) as pilot:
        view = app.view
        early = {start: last for start, last in FOLDS.items() if start < 100}
        view.show(Text(LINES, folds=early), folded=early)
        await pilot.press("space")
        assert view.folded == set(early) - {0}
        view.update_folds(FOLDS, FOLDS)
        assert view.folded == set(FOLDS) - {0}


async def test_folding_above_leaves_the_cursor_where_it_is() -> None:
    app = Shown()
    async with app.run_test(size=(60, 21)) as pilot:
        view = app.view
        view.show(Text(LINES, folds=FOLDS), 1505)
        await pilot.pause()
        before = place(view, "line 1505 ")
        view.fold(FOLDS)
        await pilot.pause()
        assert place(view, "line 1505 ") == before
        view.fold(FOLDS, False)
        await pilot.pause()
        assert place(view, "line 1505 ") == before


async def test_a_line_that_is_cut_says_so() -> None:
    app = Shown()
    lines = ["short", "x" * 200, "y" * 59, "z" * 60, *["more"] * 40]
    async with app.run_test(size=(60, 10)) as pilot:
        view = app.view
        view.show(Text(lines, folds={1: 2}))
        await pilot.pause()
        width = 59  # one column is the scrollbar's
        assert seen(view)[:4] == ["short", "x" * (width - 1) + "…", "y" * width, "z" * 58 + "…"]
        view.fold([1])
        await pilot.pause()
        assert seen(view)[1] == "x" * (width - 4) + "… ⋯1"
        assert all(view.render_line(y).cell_length == width for y in range(4))


async def test_another_theme_is_drawn_at_once() -> None:
    app = Shown()
    async with app.run_test(size=(60, 10)) as pilot:
        view = app.view
        view.show(Text(LINES, lambda line: [(0, 4, "name")]), 5)
        colors = []
        for theme in THEMES:
            app.theme = theme.name
            await pilot.pause()
            word = view.render_line(0)._segments[0]
            assert word.text == "line"
            assert word.style is not None
            colors.append(word.style.color)
            shown = app.screen._compositor.render_strips()[0]
            assert next(s for s in shown if s.text.startswith("line")).style == word.style
        assert len(set(colors)) == len(THEMES)


async def test_marks_are_drawn_where_they_are() -> None:
    app = Shown()
    async with app.run_test(size=(60, 10)) as pilot:
        view = app.view
        view.show(Text(LINES))
        await pilot.pause()
        plain = view.render_line(3)
        view.mark({3: [(0, 4)]})
        await pilot.pause()
        assert next(s.text for s in view.render_line(3)) == "line"
        assert view.render_line(3) is not plain
        view.mark({})
        assert view.render_line(3) is plain  # drawn before, and not again


# --------------------------------------------------------------------------- pieces


def rows_of(bar: ScrollBar) -> Sequence[Segment]:
    drawn = ScrollBarRender.render_bar(
        bar.size.height, bar.window_virtual_size, bar.window_size, bar.position
    )
    assert isinstance(drawn, Segments)
    return [segment for segment in drawn.segments if segment.text != "\n"]


class Bar(ScrollBar):
    """A scrollbar that is nowhere."""

    size = property(lambda self: self.own)  # type: ignore[assignment]


@given(st.integers(1, 60), st.integers(1, 5000), st.data())
def test_only_rows_of_a_scrollbar_that_stay_alike_are_left_alone(
    height: int, lines: int, data: st.DataObject
) -> None:
    bar = Bar()
    bar.own = Size(1, height)
    most = max(0, lines - height)
    bar.set_reactive(ScrollBar.window_virtual_size, lines)
    bar.set_reactive(ScrollBar.window_size, height)
    looks, thumbs = [], []
    for _ in range(2):
        bar.set_reactive(ScrollBar.position, float(data.draw(st.integers(0, most))))
        looks.append([(s.text, str(s.style)) for s in rows_of(bar)])
        thumbs.append(_thumb(bar))
    changed = {row for row, pair in enumerate(zip(*looks, strict=True)) if pair[0] != pair[1]}
    assert changed <= set(_changed_rows(*thumbs))


@given(st.data())
def test_the_fold_of_a_line_is_the_innermost(data: st.DataObject) -> None:
    folds = {0: 40, 3: 9, 5: 7, 12: 30, 13: 14, 20: 29, 50: 52}
    rows = VisibleRows(60, folds)
    line = data.draw(st.integers(0, 59))
    around = [start for start, last in folds.items() if start <= line <= last]
    assert rows.fold_of(line) == (max(around) if around else None)


async def test_two_letters_lead_to_a_row_that_is_on_the_screen() -> None:
    app = Shown()
    async with app.run_test(size=(60, 21)) as pilot:
        view = app.view
        view.show(Text(LINES), 1000)
        await pilot.pause()
        before = seen(view)
        await pilot.press("semicolon")
        labels = [row[:2] for row in seen(view)]
        assert len(set(labels)) == len(labels) == 21
        assert [row[2:] for row in seen(view)] == [row[2:] for row in before]
        await pilot.press(*labels[17])
        assert seen(view)[17].startswith(f"line {view.cursor} ")
        assert view.cursor != 1000
        there = view.cursor
        for keys in (("semicolon", "escape"), ("semicolon", "a", "1"), ("semicolon", "down")):
            await pilot.press(*keys)
            assert view.cursor == there
            assert seen(view) == before
        await pilot.press("down")
        assert view.cursor == there + 1
