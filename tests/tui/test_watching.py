"""Recompiling on save: which files are watched, when a change is told, and the whole of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kinspect.inspector.model import KernelReport, Report, SourceLoc
from kinspect.inspector.pipeline.jobs import Request
from kinspect.tui.app import KinspectApp
from kinspect.tui.application import Opening
from kinspect.tui.screens.kernels.kernels_page import KernelsPage
from kinspect.tui.watching import Watcher, files_of
from kinspect.tui.widgets.table import Table
from msgspec.structs import replace
from tui_screens import text_of

SMALL = Path(__file__).parent.parent / "data" / "small_gfx942.s"


def until(true: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kernel.py").write_text("import helper\nfrom pack.inner import f\nimport os\n")
    (tmp_path / "helper.py").write_text("import deeper")
    (tmp_path / "deeper.py").write_text("import kernel")  # a circle
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "inner.py").write_text("")
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "other.py").write_text("")
    return tmp_path


def test_a_script_rests_on_the_modules_beside_it(folder: Path) -> None:
    found = files_of(Request((str(folder / "kernel.py") + "::name",)), ())
    assert {path.relative_to(folder).as_posix() for path in found} == {
        "kernel.py",
        "helper.py",
        "deeper.py",
        "pack/inner.py",
    }


def test_a_kernel_rests_on_where_it_comes_from(folder: Path, report: Report) -> None:
    source = SourceLoc(str(folder / "other.py"), 3)
    kernel: KernelReport = replace(report.kernels[0], source=source)
    found = files_of(Request((str(folder / "kernel.py"),)), [kernel])
    assert folder / "other.py" in found
    assert not any(str(path).startswith("/src/") for path in found)  # not on this machine


def test_a_text_rests_on_what_lies_beside_it(tmp_path: Path) -> None:
    for suffix in (".amdgcn", ".ttgir", ".json", ".txt"):
        (tmp_path / f"kernel{suffix}").write_text("{}")
    found = files_of(Request((str(tmp_path / "kernel.amdgcn"),)), ())
    assert {path.suffix for path in found} == {".amdgcn", ".ttgir", ".json"}


@pytest.fixture
def watcher(folder: Path) -> Iterator[Watcher]:
    made = Watcher(Request((str(folder / "kernel.py"),)), seconds=0.02)
    made.start()
    until(lambda: folder / "deeper.py" in made.watched)
    yield made
    made.stop()


def told(watcher: Watcher) -> tuple[Path, ...]:
    found: list[Path] = []
    until(lambda: found.extend(watcher.changed()) or found)
    return tuple(found)


def test_a_saved_file_is_told_once(watcher: Watcher, folder: Path) -> None:
    assert watcher.changed() == ()
    (folder / "deeper.py").write_text("import kernel  # more")
    assert told(watcher) == (folder / "deeper.py",)
    (folder / "kernel.py").write_text("pass")  # the next that is told is this one alone
    assert told(watcher) == (folder / "kernel.py",)


def test_a_file_that_is_replaced_is_told_when_it_is_there(watcher: Watcher, folder: Path) -> None:
    (folder / "kernel.py").unlink()
    (folder / "helper.py").write_text("later = 1")
    assert told(watcher) == (folder / "helper.py",)  # the one that has gone is not
    (folder / "new.py").write_text("import helper")
    os.replace(folder / "new.py", folder / "kernel.py")
    assert told(watcher) == (folder / "kernel.py",)


def test_a_removed_file_is_told_until_it_is_back(watcher: Watcher, folder: Path) -> None:
    helper, text = folder / "helper.py", (folder / "helper.py").read_text()
    helper.unlink()
    until(lambda: watcher.removed == {helper})
    assert watcher.changed() == ()  # there is nothing to analyse
    watcher.watch_sources_of(())  # as after a run, which cannot list it any more
    inner = folder / "pack" / "inner.py"
    inner.write_text("more = 1")
    assert told(watcher) == (inner,)
    assert watcher.removed == {helper}
    helper.write_text(text)
    assert told(watcher) == (helper,)
    assert not watcher.removed


def test_a_new_file_in_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.s").write_text("x")
    watcher = Watcher(Request((str(tmp_path),)), seconds=0.02)
    watcher.start()
    try:
        until(lambda: tmp_path / "a.s" in watcher.watched)
        (tmp_path / "notes.txt").write_text("not a kernel")
        (tmp_path / "b.s").write_text("x")
        assert told(watcher) == (tmp_path,)
    finally:
        watcher.stop()


async def test_the_page_follows_a_save(tmp_path: Path) -> None:
    """The whole of it: a text is saved with other figures, and once more with a fault."""
    text = SMALL.read_text()
    for name in ("one", "two"):
        (tmp_path / f"{name}.s").write_text(text.replace("small", name))
    app = KinspectApp(Opening(Request((str(tmp_path),)), watch=True, remember=False))
    async with app.run_test(size=(120, 40)) as pilot:

        async def shown(true: Callable[[], object]) -> None:
            for _ in range(1000):
                if true():
                    return
                await pilot.pause(0.02)
            raise AssertionError(text_of(app))

        def rows() -> list[str]:
            page = app.screen
            assert isinstance(page, KernelsPage)
            return [node.label for node in page.listing.rows]

        await shown(lambda: rows() == ["one", "two"] and "run 1, watching" in text_of(app))
        await pilot.press("j")
        assert app.watcher is not None
        await shown(lambda: tmp_path / "one.s" in (app.watcher.watched if app.watcher else ()))
        grown = text.replace("small", "one").replace(".vgpr_count:     40", ".vgpr_count:     72")
        assert "72" in grown
        (tmp_path / "one.s").write_text(grown)
        await shown(lambda: "run 2, watching" in text_of(app) and "72✗" in text_of(app))
        table = app.screen.query_one(Table)
        assert rows()[table.cursor] == "two"
        (tmp_path / "one.s").write_bytes(b"\0\1\2 no text")
        await shown(lambda: "run 3, watching" in text_of(app))
        assert "a binary file, not text" in text_of(app)
        assert "two" in rows()
        (tmp_path / "two.s").unlink()  # the folder is analysed again, without it
        await shown(lambda: "run 4, watching" in text_of(app) and "removed two" in text_of(app))
        assert "1 of a removed file" in text_of(app)
        await pilot.press("g", "g", *["j"] * rows().index("two"), "enter")
        await shown(lambda: "Kernel  two.s was removed: last figures  two" in text_of(app))
        (tmp_path / "two.s").write_text(text.replace("small", "two"))
        await shown(lambda: "was removed" not in text_of(app).splitlines()[0])
        await pilot.press("q")
        await shown(lambda: "run 5, watching" in text_of(app))
        assert "removed two" not in text_of(app)
        await pilot.press("ctrl+q")
    assert app.watcher is not None
