"""The table of the application's pages, which can be imported without Textual."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class PageSpec(Struct, frozen=True):
    """A page of the application.

    Attributes:
        key: the digit that opens it from any page; "" if only another page can open it.
        title: its name in the header and the command palette.
        about: a description for the palette.
    """

    key: str
    title: str
    about: str


PAGES: Mapping[str, PageSpec] = {
    "kernels": PageSpec("1", "Kernels", "every kernel with its figures"),
    "findings": PageSpec("2", "Findings", "what is wrong, grouped by rule"),
    "compare": PageSpec("3", "Compare", "two kernels side by side"),
    "passes": PageSpec("4", "Passes", "what each compiler pass changed"),
    "occupancy": PageSpec("5", "Occupancy", "what limits it; what if"),
    "profile": PageSpec("6", "Profile", "what was measured"),
    "history": PageSpec("7", "History", "figures over time"),
    "kernel": PageSpec("", "Kernel", "source, TTGIR and assembly, linked"),
}
"""Name -> the page; the class `NamePage` of `screens/NAME/NAME_page.py`."""
