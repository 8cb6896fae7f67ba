"""The dialogue that asks for a file and exports the screen or the report to it.

Exports the screen or the report to a file, in the format of its suffix.

`.svg` and `.html` are pictures of the screen; `.json`, `.md` and `.kinspect` are the report.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, cast

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input, Static

from ...inspector.base.errors import KinspectError
from ...inspector.base.printable import printable
from ...inspector.base.streams import no_commands
from ...inspector.base.writing import replacing_text, unwritable
from ...inspector.explain import view
from ...inspector.model import Report
from ..pages import Page
from ..session import SessionKernel
from .dialogue import Dialogue, entitle

if TYPE_CHECKING:
    from textual.app import App

    from ..application import Application


_MOST_NAME = 60


class ExportScreen(Dialogue[None]):
    """A field for the file's name, whose suffix chooses the format."""

    DEFAULT_CSS = """
    ExportScreen > Vertical { width: 76; max-width: 100%; max-height: 100%; overflow-y: auto; }
    ExportScreen Input { background: $panel; margin: 0 0 1 0; }
    ExportScreen #message { height: auto; min-height: 1; margin: 1 0 0 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back"),
        Binding("tab,down", "format(1)", "Next format", priority=True),
        Binding("shift+tab,up", "format(-1)", "Format before", priority=True),
    ]

    def __init__(self, picture: Picture, *, reports: bool = False) -> None:
        super().__init__()
        self._of_reports = reports
        self._picture = picture
        self._overwrite: Path | None = None  # an existing file that another Enter overwrites
        self._writing = False

    @property
    def kinspect(self) -> Application:
        return cast("Application", self.app)

    def compose(self) -> ComposeResult:
        box = Vertical()
        entitle(box, "Export to", "Enter writes · Tab changes the format · Esc closes")
        with box:
            yield Input(self._suggested(), id="file", select_on_focus=False, compact=True)
            yield Static(id="formats", markup=False)
            yield Static(id="message", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._show_formats()

    def _suggested(self) -> str:
        """A path made of the last export's folder and suffix and the name of the page or kernel."""
        last_export = self.kinspect.state.export
        last = Path(last_export) if last_export else Path("kinspect.svg")
        suffix = last.suffix if last.suffix in FORMATS else ".svg"
        if self._of_reports and suffix in PICTURES:
            suffix = ".kinspect"
        page = next((s for s in reversed(self.app.screen_stack) if isinstance(s, Page)), None)
        words = [page.NAME if page is not None else "kinspect"]
        if page is not None and page.NAME == "kernel":
            words = [page.crumb().split()[0]] if page.crumb() else words
        name = re.sub(r"[^\w.-]+", "-", "-".join(words)).strip("-.")[:_MOST_NAME] or "kinspect"
        folder = last.parent if str(last.parent) != "." and last.parent.is_dir() else Path()
        return str(folder / f"{name}{suffix}")

    def _show_formats(self) -> None:
        suffix = Path(self.query_one(Input).value).suffix.lower()
        kernels = len(self.kinspect.session.entries)
        text = Text()
        for index, (ending, about) in enumerate(FORMATS.items()):
            current = ending == suffix
            count = "" if ending in PICTURES else f", {view.plural(kernels, 'kernel')}"
            text.append("\n" if index else "")
            text.append(" › " if current else "   ")
            text.append(f"{ending:<10}", "bold" if current else "")
            text.append(f"{about}{count}", "bold" if current else "")
        self.query_one("#formats", Static).update(text)

    def action_close(self) -> None:
        """Closes the dialogue; an export that is being written is finished."""
        self.dismiss()

    def action_format(self, step: int) -> None:
        """Changes the suffix of the name to that of the next (1) or previous (-1) format."""
        field = self.query_one(Input)
        path = Path(field.value or "kinspect")
        suffixes = list(FORMATS)
        suffix = path.suffix.lower()
        if suffix in suffixes:
            new = suffixes[(suffixes.index(suffix) + step) % len(suffixes)]
            field.value = field.value[: -len(suffix)] + new
        else:
            field.value = f"{path}{suffixes[0]}"
        field.cursor_position = len(field.value)

    def on_input_changed(self) -> None:
        """Marks the name's format; another name needs another Enter to overwrite a file."""
        self._overwrite = None
        self._show_formats()
        self._show_message("")

    def on_input_submitted(self) -> None:
        if self._writing:
            return
        name = self.query_one(Input).value.strip()
        if not name:
            self._show_message("a name is needed")
            return
        try:
            path = Path(name).expanduser()
            suffix_of(path)
            check(path)
            exists = path.exists()
        except KinspectError as error:
            self._show_message(str(error))
            return
        except (OSError, ValueError, RuntimeError) as error:  # a name that no file can have
            self._show_message(f"{name[:_MOST_NAME]}: {getattr(error, 'strerror', None) or error}")
            return
        if exists and self._overwrite != path:
            self._overwrite = path
            self._show_message(f"{path.name} exists: Enter again overwrites it", "$warning")
            return
        self._writing = True
        self.kinspect.exporting.add(path)
        self._show_message("writing …", "$foreground")
        session = self.kinspect.session
        # The dialogue may have been closed by the time that the file is written.
        work = partial(self._write, self.kinspect, path, session.report({}), session.tried())
        self.run_worker(work, thread=True, group="export")

    def _write(
        self, app: Application, path: Path, report: Report, recompiled: list[SessionKernel]
    ) -> None:
        """Writes the file; called in a thread, since a report of many kernels takes a while."""
        try:
            size = write(path, report, self._picture)
        except KinspectError as error:
            app.call_from_thread(self._failed, app, path, str(error))
        except BaseException:  # becomes a message elsewhere
            app.call_from_thread(partial(app.export_ended, path, written=False))
            raise
        else:
            saved = [] if suffix_of(path) in PICTURES else recompiled
            app.call_from_thread(self._finish, app, path, size, saved)

    def _failed(self, app: Application, path: Path, message: str) -> None:
        self._writing = False
        app.export_ended(path, written=False)
        if self.is_attached:
            self._show_message(message)
        else:
            app.notify(message, severity="error")

    def _finish(self, app: Application, path: Path, size: int, saved: list[SessionKernel]) -> None:
        self._writing = False
        app.session.exported.extend(saved)
        app.state.export = str(path)
        app.keep_state()
        app.notify(f"{path} ({view.kib(size)})", title="Written")
        if self.is_attached:
            self.dismiss()
        app.export_ended(path, written=True)

    def _show_message(self, message: str, colour: str = "$error") -> None:
        line = self.query_one("#message", Static)
        line.styles.color = self.app.theme_variables[colour.removeprefix("$")]
        line.update(message)


FORMATS: Mapping[str, str] = {
    ".svg": "this screen as a picture",
    ".html": "this screen as a page with text that can be copied",
    ".json": "the report for machines",
    ".md": "the report to be read, as Markdown",
    ".kinspect": "the report and what was compiled, a TARGET",
}
"""Suffix -> description of the format."""
PICTURES = frozenset({".svg", ".html"})


class Picture(Struct, frozen=True):
    """A screen as it was at one moment.

    Attributes:
        console: has recorded the screen's cells.
        title: of the window that is drawn around the cells.
        theme: the default colours of the cells.
    """

    console: Console
    title: str
    theme: TerminalTheme

    @classmethod
    def of(cls, app: App[int]) -> Picture:
        """Records the screen that an application shows now."""
        width, height = app.size
        console = Console(
            width=width,
            height=height,
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            record=True,
            legacy_windows=False,
            safe_box=False,
        )
        console.print(app.screen._compositor.render_update(full=True), end="")
        return cls(console, app.title, app.ansi_theme)

    def svg(self) -> str:
        """Renders the screen as an SVG image."""
        return self.console.export_svg(title=self.title, clear=False, theme=self.theme)

    def html(self) -> str:
        """Renders the screen as an HTML page."""
        return self.console.export_html(clear=False, inline_styles=True, theme=self.theme)


def suffix_of(path: Path) -> str:
    """A path's suffix in lower case, a key of `FORMATS`.

    Raises:
        KinspectError: there is no such format.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        formats = " ".join(FORMATS)
        problem = f"{path.suffix} is no format" if path.suffix else "the name has no suffix"
        raise KinspectError(problem, f"end it in one of {formats}")
    return suffix


def check(path: Path) -> None:
    """Checks that a path can be that of a regular file in an existing folder.

    Raises:
        KinspectError: it cannot.
    """
    if "\0" in str(path):
        raise KinspectError("a file's name cannot hold a null character", "leave it out")
    if path.is_dir():
        raise KinspectError(f"{path} is a folder", "name a file in it")
    if os.path.lexists(path) and not path.is_file():  # a link to what is not there is no file
        raise KinspectError(f"{path} is not a regular file", "name another")
    if not path.parent.is_dir():
        raise KinspectError(f"{path.parent}: no such folder", "make it, or name another")


def write(path: Path, report: Report, picture: Picture) -> int:
    """Writes a file atomically, replacing one of that name.

    Args:
        path: the file; its suffix chooses the format.
        report: written to `.json`, `.md` and `.kinspect`, signed with this kinspect's version.
        picture: written to `.svg` and `.html`.

    Returns:
        The file's size in bytes.

    Raises:
        KinspectError: it cannot be written; an older file of that name is unchanged.
    """
    suffix = suffix_of(path)
    check(path)
    if suffix == ".kinspect":
        from ...inspector.report import saved

        try:
            saved.save(_signed(report), path)
        except KinspectError as error:
            raise KinspectError(error.message, "name another place, or run again") from None
    else:
        _write_text(path, _text(suffix, report, picture))
    return path.stat().st_size


def _text(suffix: str, report: Report, picture: Picture) -> str:
    if suffix == ".svg":
        return picture.svg()
    if suffix == ".html":
        return picture.html()
    from ...inspector.present.report import write_markdown
    from ...inspector.report import json_write as json_v1

    stream = io.StringIO()
    if suffix == ".json":
        json_v1.write(_signed(report), stream)
        return stream.getvalue()
    write_markdown(_signed(report), stream)
    return no_commands(stream.getvalue())


def _signed(report: Report) -> Report:
    from ...inspector.pipeline.analysis import tool_versions

    return replace(report, tool=tool_versions())


def _write_text(path: Path, text: str) -> None:
    try:
        with replacing_text(path) as file:
            file.write(printable(text))
    except OSError as error:
        raise unwritable(path, error, "name another place") from None
