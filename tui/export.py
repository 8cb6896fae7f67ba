"""Exports the screen or the report to a file, in the format of its suffix.

`.svg` and `.html` are pictures of the screen; `.json`, `.md` and `.kinspect` are the report.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from rich.console import Console
from rich.terminal_theme import TerminalTheme

from ..inspector.base.errors import KinspectError
from ..inspector.base.printable import printable
from ..inspector.base.streams import no_commands
from ..inspector.base.writing import replacing_text, unwritable
from ..inspector.model import Report

if TYPE_CHECKING:
    from textual.app import App

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
        from ..inspector.report import saved

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
    from ..inspector.present.report import write_markdown
    from ..inspector.report import json_write as json_v1

    stream = io.StringIO()
    if suffix == ".json":
        json_v1.write(_signed(report), stream)
        return stream.getvalue()
    write_markdown(_signed(report), stream)
    return no_commands(stream.getvalue())


def _signed(report: Report) -> Report:
    from ..inspector.pipeline.analysis import tool_versions

    return replace(report, tool=tool_versions())


def _write_text(path: Path, text: str) -> None:
    try:
        with replacing_text(path) as file:
            file.write(printable(text))
    except OSError as error:
        raise unwritable(path, error, "name another place") from None
