"""The colour themes: dark, light and high contrast."""

from __future__ import annotations

from textual.theme import Theme


def _bars(track: str, thumb: str) -> dict[str, str]:
    """The colours of scrollbars, whose tracks Textual would make darker or bluer than the pages."""
    tracks = ("background", "background-hover", "background-active", "corner-color")
    return {"scrollbar": thumb, **{f"scrollbar-{name}": track for name in tracks}}


THEMES = (
    Theme(
        name="kinspect-dark",
        primary="#6cb6ff",
        secondary="#bd96f5",
        accent="#e0af68",
        warning="#e0af68",
        error="#ff8279",
        success="#6bc46d",
        foreground="#d1d7e0",
        background="#12161c",
        surface="#181d25",
        panel="#222936",
        dark=True,
        variables=_bars("#181d25", "#3b4a61"),
    ),
    Theme(
        name="kinspect-light",
        primary="#0b5cad",
        secondary="#7a3ec8",
        accent="#8a5000",
        warning="#8a5000",
        error="#c1121f",
        success="#146c2e",
        foreground="#0d1116",
        background="#ffffff",
        surface="#f6f8fa",
        panel="#eaeef2",
        dark=False,
        variables=_bars("#eef1f4", "#93a3b5"),
    ),
    Theme(
        name="kinspect-contrast",
        primary="#00d7ff",
        secondary="#ff87ff",
        accent="#ffff00",
        warning="#ffff00",
        error="#ff7575",
        success="#00ff5f",
        foreground="#ffffff",
        background="#000000",
        surface="#000000",
        panel="#2a2a2a",
        dark=True,
        variables=_bars("#2a2a2a", "#00d7ff"),
    ),
)
