"""Plots as SVG texts: steps, stacked bars, a roofline. Colours are the page's CSS classes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import ceil, floor, log10

from msgspec import Struct

_WIDTH, _HEIGHT = 460.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 12.0, 12.0, 34.0
COLOURS = 8
"""Classes c0 … c7 of the style sheet."""


class Piece(Struct, frozen=True):
    """A part of a stacked bar."""

    name: str
    count: int
    colour: int


class Bar(Struct, frozen=True):
    """A stacked bar with its label."""

    label: str
    pieces: tuple[Piece, ...]

    @property
    def total(self) -> int:
        return sum(piece.count for piece in self.pieces)


class Point(Struct, frozen=True):
    """A kernel under a roof: operations per byte, operations per second."""

    name: str
    intensity: float
    rate: float


class Roof(Struct, frozen=True):
    """The peak rates of a device: operations and bytes per second."""

    rate: float
    bandwidth: float


def _open(title: str, width: float = _WIDTH, height: float = _HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" class="plot">'
        f"<title>{escape(title)}</title>"
    )


def steps(
    title: str, unit: str, levels: Sequence[tuple[float, int]], current: tuple[float, float] | None
) -> str:
    """Draws occupancy over the use of a resource.

    Args:
        title: the description for screen readers.
        unit: of the resource.
        levels: (waves/EU, the largest use that still reaches it), highest occupancy first.
        current: the kernel's use and waves/EU; None if unknown.
    """
    if not levels:
        return ""
    widest = max([float(use) for _, use in levels] + ([current[0]] if current is not None else []))
    top = max([waves for waves, _ in levels] + ([current[1]] if current is not None else []))
    if widest <= 0 or top <= 0:
        return ""

    def point(use: float, waves: float) -> tuple[float, float]:
        x = _LEFT + (_WIDTH - _LEFT - _RIGHT) * use / widest
        y = _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * waves / top
        return x, y

    out = [_open(title)]
    marks = sorted({waves for waves, _ in levels})
    for waves in _thinned(marks):
        y = point(0, waves)[1]
        out.append(f'<path class="grid" d="M{_LEFT:g} {y:.1f}H{_WIDTH - _RIGHT:g}"/>')
        out.append(f'<text x="{_LEFT - 6:g}" y="{y + 4:.1f}" class="end">{waves:g}</text>')
    previous_use = 0.0
    path = ""
    for waves, use in sorted(levels, key=lambda level: level[1]):
        x0, y = point(previous_use, waves)
        x1, _ = point(use, waves)
        path += f"{'L' if path else 'M'}{x0:.1f} {y:.1f}L{x1:.1f} {y:.1f}"
        out.append(
            f'<rect x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, 0):.1f}" '
            f'height="{max(_HEIGHT - _BOTTOM - y, 0):.1f}" class="under">'
            f"<title>up to {use:,} {escape(unit)}: {waves:g} waves/EU</title></rect>"
        )
        previous_use = float(use)
    out.append(f'<path class="line" d="{path}"/>')
    for _, use in _spaced(sorted(levels, key=lambda level: -level[1]), widest):
        x = point(use, 0)[0]
        anchor = "end" if x > _WIDTH - _RIGHT - 20 else "mid"
        out.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 15:.1f}" class="{anchor}">{use:,}</text>'
        )
    out.append(
        f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.1f}" y="{_HEIGHT - 3:g}" class="mid soft">'
        f"{escape(unit)} → waves/EU</text>"
    )
    if current is not None:
        x, y = point(*current)
        out.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="now">'
            f"<title>this kernel: {current[0]:,.0f} {escape(unit)}, {current[1]:g} waves/EU</title>"
            "</circle>"
        )
    out.append("</svg>")
    return "".join(out)


def _thinned(marks: Sequence[float]) -> list[float]:
    """Returns at most six marks, always with the last one."""
    interval = max(1, ceil(len(marks) / 6))
    return [mark for index, mark in enumerate(reversed(marks)) if index % interval == 0]


def _spaced(levels: Sequence[tuple[float, int]], widest: float) -> list[tuple[float, int]]:
    """Returns the levels whose labels do not overlap, from the right."""
    spaced: list[tuple[float, int]] = []
    for level in levels:
        if not spaced or (spaced[-1][1] - level[1]) / widest > 0.11:
            spaced.append(level)
    return spaced


def bars(title: str, stacks: Sequence[Bar]) -> str:
    """Draws stacked bars of equal width, which show the shares of their pieces."""
    rows = [bar for bar in stacks if bar.total]
    if not rows:
        return ""
    left, height = 120.0, 26.0
    width = _WIDTH + 160
    named = {piece.colour: piece.name for bar in rows for piece in bar.pieces}
    out = [_open(title, width, height * len(rows) + 24)]
    x = left
    for colour, name in named.items():
        y = height * len(rows) + 8
        out.append(
            f'<rect x="{x:.1f}" y="{y:g}" width="9" height="9" class="c{colour % COLOURS}"/>'
        )
        out.append(f'<text x="{x + 13:.1f}" y="{y + 9:g}" class="soft">{escape(name)}</text>')
        x += 7.3 * len(name) + 24
    for index, bar in enumerate(rows):
        y = height * index + 2
        label = escape(bar.label)
        out.append(f'<text x="{left - 8:g}" y="{y + 15:g}" class="end">{label}</text>')
        x = left
        for piece in bar.pieces:
            part = piece.count / bar.total
            wide = (width - left - 4) * part
            tooltip = f"{piece.name}: {piece.count:,} ({100 * part:.0f} %)"
            out.append(
                f'<rect x="{x:.1f}" y="{y:g}" width="{max(wide, 0.5):.1f}" height="{height - 6:g}" '
                f'class="c{piece.colour % COLOURS}"><title>{escape(tooltip)}</title></rect>'
            )
            text = f"{piece.name} {piece.count:,}"
            if wide > 6.3 * len(text) + 8:
                out.append(f'<text x="{x + 5:.1f}" y="{y + 14:g}" class="in">{escape(text)}</text>')
            x += wide
    out.append("</svg>")
    return "".join(out)


def roofline(points: Sequence[Point], roof: Roof | None) -> str:
    """Draws kernels under the roof of their device, on logarithmic axes."""
    if not points:
        return ""
    xs = [log10(point.intensity) for point in points]
    ys = [log10(point.rate) for point in points]
    if roof is not None:
        xs.append(log10(roof.rate / roof.bandwidth))
        ys.append(log10(roof.rate))
    x0, x1 = floor(min(xs) - 0.1), ceil(max(xs) + 0.3)
    y0, y1 = floor(min(ys) - 0.1), ceil(max(ys) + 0.1)
    width, height = 620.0, 320.0

    def position(intensity: float, rate: float) -> tuple[float, float]:
        x = _LEFT + 20 + (width - _LEFT - 20 - _RIGHT) * (intensity - x0) / (x1 - x0)
        y = height - _BOTTOM - (height - _BOTTOM - _TOP) * (rate - y0) / (y1 - y0)
        return x, min(max(y, _TOP), height - _BOTTOM)

    out = [_open("roofline: operations per second over operations per byte", width, height)]
    for power in range(x0, x1 + 1):
        x = position(power, y0)[0]
        out.append(f'<path class="grid" d="M{x:.1f} {_TOP:g}V{height - _BOTTOM:g}"/>')
        y = height - _BOTTOM + 15
        out.append(f'<text x="{x:.1f}" y="{y:g}" class="mid">{_power(power)}</text>')
    for power in range(y0, y1 + 1):
        x, y = position(x0, power)
        out.append(f'<path class="grid" d="M{x:.1f} {y:.1f}H{width - _RIGHT:g}"/>')
        out.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" class="end">{_power(power)}</text>')
    if roof is not None:
        ridge = log10(roof.rate / roof.bandwidth)
        # The slope begins where it enters the picture from below or from the left.
        start = max(float(x0), y0 - log10(roof.bandwidth))
        a, b, c = (
            position(start, start + log10(roof.bandwidth)),
            position(ridge, log10(roof.rate)),
            position(x1, log10(roof.rate)),
        )
        out.append(
            f'<path class="line" d="M{a[0]:.1f} {a[1]:.1f}L{b[0]:.1f} {b[1]:.1f}L{c[0]:.1f} '
            f'{c[1]:.1f}"><title>{roof.rate:.4g} operations/s, {roof.bandwidth:.4g} B/s</title>'
            "</path>"
        )
    for index, point in enumerate(points):
        x, y = position(log10(point.intensity), log10(point.rate))
        tooltip = f"{point.name}: {point.rate:.4g} operations/s at {point.intensity:.3g} per byte"
        out.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" class="c{index % COLOURS}">'
            f"<title>{escape(tooltip)}</title></circle>"
        )
        out.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(point.name[:40])}</text>')
    out.append(
        f'<text x="{width / 2:g}" y="{height - 3:g}" class="mid soft">operations per byte → '
        "operations per second</text></svg>"
    )
    return "".join(out)


_PREFIXES = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}


def _power(power: int) -> str:
    """Returns a power of ten with a prefix: `100 G`."""
    base = power - power % 3
    if base in _PREFIXES:
        return f"{10 ** (power % 3)}{' ' if base else ''}{_PREFIXES[base]}"
    return f"1e{power}"
