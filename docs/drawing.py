"""Drawings of the pages: boxes, lines and labels as SVG, in the colours of the page around them.

Labels and lines have the page's own text colour (`currentColor`), boxes light colours with dark
labels: both are legible on a light and on a dark page.
"""

from __future__ import annotations

from xml.etree import ElementTree

from kinspect.inspector.formats.layout_svg import number_color
from msgspec import Struct

WORK, FLIGHT, IDLE, OTHER, MARK = "#9ec5f0", "#a9dcb3", "#f3a9a0", "#d0d5dc", "#f5cf73"
"""What is computed, what is under way, what is lost, what is there besides, what to look at."""
PAPER, INK = "#ffffff", "#1c2128"
"""The colours of a drawing that no page is around."""
SIZE = 12.0
"""Of a label, in units of the drawing."""
_WIDTHS = {**dict.fromkeys(" .,:;'|ijlft()-", 0.38), **dict.fromkeys("mwMW%@", 0.97)}
_CAPITAL, _OTHER, _MONO = 0.72, 0.62, 0.61
"""Widths of characters over the size of the font: those of a wide sans serif (DejaVu Sans)."""


class Label(Struct, frozen=True):
    """A label and the room that it takes at most."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Label) -> bool:
        """Whether two labels overlap."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class Drawing:
    """A picture that is drawn from left to right and from top to bottom.

    Attributes:
        labels: with the room that they take, for the test that none collide.
    """

    def __init__(self, title: str, width: float, height: float) -> None:
        self.title = title
        self.width, self.height = width, height
        self.labels: list[Label] = []
        self._root = ElementTree.Element(
            "svg",
            {
                "xmlns": "http://www.w3.org/2000/svg",
                "viewBox": f"0 0 {width:g} {height:g}",
                "role": "img",
                "aria-label": title,
                "font-family": "system-ui, sans-serif",
                "font-size": f"{SIZE:g}",
            },
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float = SIZE,
        anchor: str = "start",
        bold: bool = False,
        soft: bool = False,
        mono: bool = False,
        on_box: bool = False,
        upright: bool = False,
    ) -> None:
        """Writes a label.

        Args:
            x: of its start, middle or end.
            y: of its base line.
            text: what it says.
            size: of the font.
            anchor: `start`, `middle` or `end`.
            bold: a heading.
            soft: what matters less.
            mono: code.
            on_box: it stands on a light colour.
            upright: it is read from below.
        """
        attributes = {
            "x": f"{x:.5g}",
            "y": f"{y:.5g}",
            "fill": INK if on_box else "currentColor",
            **({"font-size": f"{size:g}"} if size != SIZE else {}),
            **({"text-anchor": anchor} if anchor != "start" else {}),
            **({"font-weight": "600"} if bold else {}),
            **({"fill-opacity": "0.72"} if soft else {}),
            **({"font-family": "ui-monospace, monospace"} if mono else {}),
            **({"transform": f"rotate(-90 {x:.5g} {y:.5g})"} if upright else {}),
        }
        ElementTree.SubElement(self._root, "text", attributes).text = text
        length = size * (_MONO * len(text) if mono else _sans_width(text)) * (1.08 if bold else 1)
        before = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * length
        up, down = 0.75 * size, 0.2 * size
        if upright:
            box = (x - up, y + before - length, x + down, y + before)
        else:
            box = (x - before, y - up, x - before + length, y + down)
        self.labels.append(Label(text, *box))

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str = "none",
        *,
        tip: str = "",
        dashed: bool = False,
        faint: bool = False,
        edge: bool = True,
    ) -> None:
        """Draws a rectangle.

        Args:
            x: of its left side.
            y: of its upper side.
            width: of it.
            height: of it.
            fill: its colour.
            tip: what a mouse over it shows.
            dashed: its outline is.
            faint: it is what could have been.
            edge: whether it has an outline.
        """
        attributes = {
            "x": f"{x:.5g}",
            "y": f"{y:.5g}",
            "width": f"{width:.5g}",
            "height": f"{height:.5g}",
            "fill": fill,
            **({"stroke": "currentColor", "stroke-width": "0.7"} if edge else {}),
            **({"stroke-opacity": "0.25" if faint else "0.55"} if edge else {}),
            **({"stroke-dasharray": "3 2"} if dashed else {}),
        }
        box = ElementTree.SubElement(self._root, "rect", attributes)
        if tip:
            ElementTree.SubElement(box, "title").text = tip

    def line(
        self,
        *points: tuple[float, float],
        soft: bool = False,
        dashed: bool = False,
        width: float = 1.0,
    ) -> None:
        """Draws a line through points."""
        attributes = {
            "d": "M" + "L".join(f"{x:.5g} {y:.5g}" for x, y in points),
            "fill": "none",
            "stroke": "currentColor",
            "stroke-width": f"{width:g}",
            **({"stroke-opacity": "0.25"} if soft else {}),
            **({"stroke-dasharray": "5 3"} if dashed else {}),
        }
        ElementTree.SubElement(self._root, "path", attributes)

    def dot(self, x: float, y: float, fill: str = MARK, tip: str = "") -> None:
        """Draws a point."""
        attributes = {"cx": f"{x:.5g}", "cy": f"{y:.5g}", "r": "5", "fill": fill}
        attributes |= {"stroke": "currentColor"}
        dot = ElementTree.SubElement(self._root, "circle", attributes)
        if tip:
            ElementTree.SubElement(dot, "title").text = tip

    def legend(self, x: float, y: float, entries: dict[str, str]) -> None:
        """Writes what colours mean, in one row.

        Args:
            x: where it begins.
            y: of the base line.
            entries: meaning -> colour; "none" for an empty box, "dashed" for an empty dashed one.
        """
        for text, fill in entries.items():
            dashed = fill == "dashed"
            self.box(x, y - 10, 12, 12, "none" if dashed else fill, dashed=dashed)
            self.text(x + 18, y, text)
            x = self.labels[-1].right + 16

    def svg(self, *, alone: bool = False) -> str:
        """The drawing as text: for a page, or alone on paper of its own."""
        root = ElementTree.Element(self._root.tag, dict(self._root.attrib))
        if alone:
            root.set("color", INK)
            root.set("width", f"{self.width:g}")
            root.set("height", f"{self.height:g}")
            ElementTree.SubElement(root, "rect", {"width": "100%", "height": "100%", "fill": PAPER})
        else:
            root.set("style", f"width:100%;max-width:{self.width:g}px;height:auto")
        root.extend(self._root)
        return ElementTree.tostring(root, encoding="unicode")


def _sans_width(text: str) -> float:
    """About the width of a text without serifs, over the size of its font."""
    return sum(_WIDTHS.get(char, _CAPITAL if char.isupper() else _OTHER) for char in text)


def lane_color(lane: int, lanes: int) -> str:
    """The colour that pictures of layouts give a lane, or a wave."""
    return number_color(lane, lanes)
