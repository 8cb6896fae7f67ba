"""The table of the application's pages, which can be imported without Textual."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class PageSpec(Struct, frozen=True):
    """A page of the application.

    Attributes:
        key: the digit that opens it from any page; "" if only another page can open it.
        module: its folder in `screens/`.
        cls: its class in that folder's `page.py`.
        title: its name in the header and the command palette.
    """

    key: str
    module: str
    cls: str
    title: str
    about: str


PAGES: Mapping[str, PageSpec] = {
    "kernels": PageSpec("1", "kernels", "KernelsPage", "Kernels", "every kernel with its figures"),
    "findings": PageSpec(
        "2", "findings", "FindingsPage", "Findings", "what is wrong, grouped by rule"
    ),
    "compare": PageSpec("3", "compare", "ComparePage", "Compare", "two kernels side by side"),
    "passes": PageSpec("4", "passes", "PassesPage", "Passes", "what each compiler pass changed"),
    "occupancy": PageSpec(
        "5", "occupancy", "OccupancyPage", "Occupancy", "what limits it; what if"
    ),
    "profile": PageSpec("6", "profile", "ProfilePage", "Profile", "what was measured"),
    "history": PageSpec("7", "history", "HistoryPage", "History", "figures over time"),
    "kernel": PageSpec("", "kernel", "KernelPage", "Kernel", "source, TTGIR and assembly, linked"),
}
