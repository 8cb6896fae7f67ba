"""Pictures of layouts as one page: a table of contents, and each picture as inline SVG."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TextIO

from ..explain.layout_drawing import LayoutDrawing
from ..printable import one_line
from ..version import VERSION
from .layout_svg import svg_of

_STYLE = """
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


def write(drawn: Sequence[LayoutDrawing], title: str, stream: TextIO) -> None:
    """Writes the page.

    Args:
        drawn: the pictures.
        title: the kernel and its target.
        stream: where to.
    """
    heading = escape(one_line(title))
    stream.write(
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f"<title>Layouts of {heading}</title>\n<style>{_STYLE}</style></head><body>\n"
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
        stream.write(f'<section id="v{number}">{svg_of(item)}</section>\n')
    stream.write(f"<footer>kinspect {escape(VERSION)}</footer>\n</body></html>\n")
