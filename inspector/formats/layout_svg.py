"""Pictures of layouts as SVG, alone or in an HTML page: numbers in cells, the rest as tool tips."""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Sequence
from typing import TextIO
from xml.sax.saxutils import escape

from ..base.printable import one_line
from ..base.version import VERSION
from ..explain import layout_view
from ..explain.layout_values import LayoutDrawing
from ..explain.layout_view import Grid

WIDTH = 920.0
MOST_ROWS = 256
_MARGIN, _LINE = 16.0, 18.0
_HEAD = 54.0  # of row numbers
_CELL_HEIGHT = 20.0
_WIDEST_CELL, _NARROWEST_TEXT = 64.0, 9.0
_WRAP = 118  # characters of a sentence
_MOST_TILES = 64, 32


_PAGE_STYLE = """
body { margin: 0 auto; max-width: 960px; padding: 24px; background: #fff; color: #1c2128;
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 22px; margin: 0 0 12px; }
table { border-collapse: collapse; width: 100%; }
td { padding: 3px 12px 3px 0; border-bottom: 1px solid #d8dee4; vertical-align: top;
  font: 13px ui-monospace, monospace; }
section { margin: 28px 0; border-top: 1px solid #d8dee4; overflow-x: auto; }
svg { max-width: 100%; height: auto; }
a { color: #0b62c4; }
footer { color: #59636e; font-size: 13px; }
"""


def write(drawn: Sequence[LayoutDrawing], stream: TextIO) -> None:
    """Writes pictures one below the other, as one drawing."""
    parts, heights = [], [0.0]
    for item in drawn:
        body, height = _item(item)
        parts.append(f'<g transform="translate(0 {heights[-1]:g})">{body}</g>')
        heights.append(heights[-1] + height)
    stream.write(f"{_open(heights[-1])}\n{chr(10).join(parts)}\n</svg>\n")


def write_page(drawn: Sequence[LayoutDrawing], title: str, stream: TextIO) -> None:
    """Writes pictures as one HTML page: a table of contents, and each picture as inline SVG."""
    heading = escape(one_line(title))
    stream.write(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>Layouts of {heading}</title>\n<style>{_PAGE_STYLE}</style></head><body>\n"
        f"<h1>Layouts of {heading}</h1>\n"
    )
    if len(drawn) > 1:
        stream.write("<table>\n")
        for number, item in enumerate(drawn):
            name = f'<a href="#v{number}">{escape(one_line(item.title))}</a>'
            texts = item.origin, item.alias or item.described[0]
            cells = [name, *(escape(one_line(text)) for text in texts)]
            stream.write(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n")
        stream.write("</table>\n")
    for number, item in enumerate(drawn):
        stream.write(f'<section id="v{number}">{_svg(item)}</section>\n')
    stream.write(f"<footer>kinspect {escape(VERSION)}</footer>\n</body></html>\n")


def _svg(item: LayoutDrawing) -> str:
    """Returns one picture as a drawing of its own."""
    body, height = _item(item)
    return f"{_open(height)}{body}</svg>"


def _open(height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:g} {height:g}" '
        f'width="{WIDTH:g}" height="{height:g}" role="img" font-family="ui-monospace, monospace" '
        f'font-size="12"><rect width="100%" height="100%" fill="#fff"/>'
    )


def _item(item: LayoutDrawing) -> tuple[str, float]:
    """A picture with its words, and its height."""
    parts: list[str] = []
    y = _MARGIN + _LINE
    parts.append(_text(_MARGIN, y, f"{item.title}  {item.origin}", weight="bold"))
    description = "  ".join([*filter(None, [item.alias]), *item.described])

    def tell(*sentences: str) -> None:
        nonlocal y
        for sentence in sentences:
            for line in textwrap.wrap(sentence, _WRAP, break_on_hyphens=False):
                y += _LINE
                parts.append(_text(_MARGIN, y, line))

    tell(description)
    for panel in layout_view.panels(item.picture, MOST_ROWS, _MOST_TILES):
        tell(*panel.sentences, *panel.lines)
        if panel.grid is not None:
            body, height = _grid(panel.grid, y + _LINE / 2)
            parts.append(body)
            y += height + _LINE
        tell(panel.more, panel.ending)
    return "".join(parts), y + _MARGIN


def _grid(grid: Grid, top: float) -> tuple[str, float]:
    """Draws a grid; also returns its height with the numbers above it."""
    head = max(_HEAD, max(map(len, grid.rows)) * 7.5 + 12)
    count = len(grid.columns)
    width = min(_WIDEST_CELL, (WIDTH - 2 * _MARGIN - head) / count)
    left = _MARGIN + head
    longest = max(len(square.text) for row in grid.squares for square in row)
    size = min(12.0, width / max(longest, 1) / 0.62)
    parts = []
    label_interval = max(1, -(-int(max(map(len, grid.columns)) * 7.5 + 4) // max(int(width), 1)))
    for column, text in enumerate(grid.columns):
        if column % label_interval == 0:
            parts.append(_text(left + column * width + 2, top + 12, text, fill="#59636e"))
    y = top + _LINE
    for number, row in zip(grid.rows, grid.squares, strict=True):
        parts.append(_text(left - 8, y + 14, number, fill="#59636e", anchor="end"))
        for column, square in enumerate(row):
            x = left + column * width
            color = number_color(square.number, grid.count)
            parts.append(
                f'<g><title>{escape(square.tip)}</title><rect x="{x:.5g}" y="{y:g}" '
                f'width="{width:.5g}" height="{_CELL_HEIGHT:g}" fill="{color}" '
                f'stroke="#fff"/>'
            )
            if size >= _NARROWEST_TEXT / 2:
                parts.append(
                    f'<text x="{x + width / 2:.5g}" y="{y + 14:g}" text-anchor="middle" '
                    f'font-size="{size:.3g}">{escape(square.text)}</text>'
                )
            parts.append("</g>")
        y += _CELL_HEIGHT
    return "".join(parts), y - top


def _text(
    x: float, y: float, text: str, *, weight: str = "", fill: str = "#1c2128", anchor: str = ""
) -> str:
    extra = f' font-weight="{weight}"' if weight else ""
    extra += f' text-anchor="{anchor}"' if anchor else ""
    clean = escape(one_line(text))
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}"{extra}>{clean}</text>'


def number_color(number: int, count: int) -> str:
    """Returns a light colour for a number below `count`; close numbers look alike."""
    red, green, blue = colorsys.hls_to_rgb(0.85 * number / max(count, 1), 0.8, 0.7)
    return f"#{int(red * 255):02x}{int(green * 255):02x}{int(blue * 255):02x}"
