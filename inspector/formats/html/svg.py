"""Plots as SVG texts: steps, stacked bars, a roofline. Colours are the page's CSS classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import ceil, floor, log10

from msgspec import Struct

_WIDTH, _HEIGHT = 460.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 12.0, 12.0, 34.0
_CURVE_WIDTH = 2 * _WIDTH
_BARS_WIDTH, _BARS_LEFT, _BAR_HEIGHT = _WIDTH + 160, 120.0, 26.0
_ROOFLINE_WIDTH, _ROOFLINE_HEIGHT = 620.0, 320.0
_LABEL_HEIGHT = 11
"""Between two labels one above the other, so that they do not overlap."""
_LABEL_WIDTH = 0.11
"""Between two labels side by side, as a part of the axis."""
_LETTER, _SMALL_LETTER = 7.3, 6.3
"""Widths of a letter: of a legend, of a bar's piece."""
COLOURS = 8
"""Classes c0 … c7 of the style sheet."""
_PREFIXES = {0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
"""Power of ten -> its prefix."""


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


class RooflinePoint(Struct, frozen=True):
    """A kernel under a roof: operations per byte, operations per second."""

    name: str
    intensity: float
    rate: float


class RooflineRoof(Struct, frozen=True):
    """The peak rates of a device: operations and bytes per second."""

    rate: float
    bandwidth: float


class Stretch(Struct, frozen=True):
    """A part of an axis, from a first value to before a last one, with its name."""

    name: str
    first: int
    stop: int


class Level(Struct, frozen=True):
    """An occupancy and the use of a resource at which it is, or up to which it is reached."""

    waves: float
    use: float


def _open(title: str, width: float = _WIDTH, height: float = _HEIGHT) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" class="plot">'
        f"<title>{escape(title)}</title>"
    )


class _Area(Struct, frozen=True):
    """A plotting area with two linear axes."""

    width: float
    height: float
    left: float
    xs: tuple[float, float]
    ys: tuple[float, float]

    @property
    def right(self) -> float:
        return self.width - _RIGHT

    @property
    def bottom(self) -> float:
        return self.height - _BOTTOM

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Returns the place of a point in the drawing; beyond the y axis, it is at its end."""
        (first, last), (lowest, highest) = self.xs, self.ys
        column = self.left + (self.right - self.left) * (x - first) / (last - first)
        row = self.bottom - (self.bottom - _TOP) * (y - lowest) / (highest - lowest)
        return column, min(max(row, _TOP), self.bottom)


def _mark(place: tuple[float, float], radius: int, css_class: str, tooltip: str) -> str:
    return (
        f'<circle cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius}" class="{css_class}">'
        f"<title>{escape(tooltip)}</title></circle>"
    )


def _caption(area: _Area, text: str) -> str:
    """The text below the x axis."""
    return (
        f'<text x="{(area.left + area.right) / 2:.1f}" y="{area.height - 3:g}" class="mid soft">'
        f"{escape(text)}</text>"
    )


def occupancy_steps(title: str, unit: str, levels: Sequence[Level], current: Level | None) -> str:
    """Draws occupancy over the use of a resource.

    Args:
        levels: waves/SIMD, with the largest use that still reaches them.
        current: the kernel's; None if unknown.
    """
    if not levels:
        return ""
    drawn = [*levels, *([current] if current is not None else [])]
    widest, top = max(float(one.use) for one in drawn), max(one.waves for one in drawn)
    if widest <= 0 or top <= 0:
        return ""
    area = _Area(_WIDTH, _HEIGHT, _LEFT, (0.0, widest), (0.0, top))
    parts = [_open(title), *_waves_axis(area, levels), *_staircase(area, unit, levels)]
    parts += _use_axis(area, unit, levels)
    if current is not None:
        tooltip = f"this kernel: {current.use:,.0f} {unit}, {current.waves:g} waves/SIMD"
        parts.append(_mark(area.at(current.use, current.waves), 5, "now", tooltip))
    return "".join([*parts, "</svg>"])


def _waves_axis(area: _Area, levels: Sequence[Level]) -> Iterator[str]:
    for waves in _thinned(sorted({level.waves for level in levels})):
        y = area.at(0, waves)[1]
        yield f'<path class="grid" d="M{area.left:g} {y:.1f}H{area.right:g}"/>'
        yield f'<text x="{area.left - 6:g}" y="{y + 4:.1f}" class="end">{waves:g}</text>'


def _staircase(area: _Area, unit: str, levels: Sequence[Level]) -> Iterator[str]:
    previous_use = 0.0
    path = ""
    for level in sorted(levels, key=lambda level: level.use):
        x0, y = area.at(previous_use, level.waves)
        x1, _ = area.at(level.use, level.waves)
        path += f"{'L' if path else 'M'}{x0:.1f} {y:.1f}L{x1:.1f} {y:.1f}"
        yield (
            f'<rect x="{x0:.1f}" y="{y:.1f}" width="{max(x1 - x0, 0):.1f}" '
            f'height="{max(area.bottom - y, 0):.1f}" class="under">'
            f"<title>up to {level.use:,} {escape(unit)}: {level.waves:g} waves/SIMD</title></rect>"
        )
        previous_use = float(level.use)
    yield f'<path class="line" d="{path}"/>'


def _use_axis(area: _Area, unit: str, levels: Sequence[Level]) -> Iterator[str]:
    for use in _spaced(sorted((level.use for level in levels), reverse=True), area.xs[1]):
        x = area.at(use, 0)[0]
        anchor = "end" if x > area.right - 20 else "mid"
        yield f'<text x="{x:.1f}" y="{area.bottom + 15:.1f}" class="{anchor}">{use:,}</text>'
    yield _caption(area, f"{unit} → waves/SIMD")


def curve(
    title: str,
    values: Sequence[int],
    *,
    budgets: Sequence[tuple[str, int]],
    stretches: Sequence[Stretch],
    most: int,
) -> str:
    """Draws values of instructions along a code, up to `most`, stretches of it shaded.

    Budgets, (label, value), are horizontal lines that the values should stay below.
    """
    top = max((most, *values, *(value for _, value in budgets)), default=0)
    if not values or top <= 0:
        return ""
    area = _Area(_CURVE_WIDTH, _HEIGHT, _LEFT, (0.0, float(len(values))), (0.0, float(top)))
    parts = [_open(title, _CURVE_WIDTH), *_stretches(area, stretches), *_budgets(area, budgets)]
    parts += _values(area, values)
    parts.append(_caption(area, f"{len(values):,} instructions → {title}"))
    return "".join([*parts, "</svg>"])


def _stretches(area: _Area, stretches: Sequence[Stretch]) -> Iterator[str]:
    for stretch in stretches:
        x0, x1 = area.at(stretch.first, 0)[0], area.at(stretch.stop, 0)[0]
        yield (
            f'<rect x="{x0:.1f}" y="{_TOP:g}" width="{max(x1 - x0, 1):.1f}" '
            f'height="{area.bottom - _TOP:.1f}" class="hot"><title>{escape(stretch.name)}</title>'
            "</rect>"
        )


def _budgets(area: _Area, budgets: Sequence[tuple[str, int]]) -> Iterator[str]:
    previous_y = area.bottom + 20
    for label, value in sorted(budgets, key=lambda budget: budget[1]):
        y = area.at(0, value)[1]
        yield f'<path class="budget" d="M{area.left:g} {y:.1f}H{area.right:g}"/>'
        if previous_y - y > _LABEL_HEIGHT:
            yield f'<text x="{area.left - 6:g}" y="{y + 4:.1f}" class="end">{value:,}</text>'
            text = escape(label)
            yield f'<text x="{area.right:g}" y="{y - 3:.1f}" class="end soft">{text}</text>'
            previous_y = y


def _values(area: _Area, values: Sequence[int]) -> Iterator[str]:
    """Yields the line along the values, each pixel's highest, and a mark at the highest of all."""
    columns = min(len(values), int(area.right - area.left))
    path = ""
    for column in range(columns):
        first, stop = column * len(values) // columns, (column + 1) * len(values) // columns
        highest = max(values[first:stop])
        x0, y = area.at(first, highest)
        path += f"{'L' if path else 'M'}{x0:.1f} {y:.1f}L{area.at(stop, 0)[0]:.1f} {y:.1f}"
    yield f'<path class="line" d="{path}"/>'
    peak = max(range(len(values)), key=lambda index: values[index])
    yield _mark(area.at(peak + 0.5, values[peak]), 4, "now", f"most: {values[peak]:,}")


def _thinned(marks: Sequence[float]) -> list[float]:
    """Returns at most six marks, always with the last one."""
    interval = max(1, ceil(len(marks) / 6))
    return [mark for index, mark in enumerate(reversed(marks)) if index % interval == 0]


def _spaced(uses: Sequence[float], widest: float) -> list[float]:
    """Returns the uses whose labels do not overlap, from the right."""
    spaced: list[float] = []
    for use in uses:
        if not spaced or (spaced[-1] - use) / widest > _LABEL_WIDTH:
            spaced.append(use)
    return spaced


def bars(title: str, stacks: Sequence[Bar]) -> str:
    """Draws stacked bars of equal width, which show the shares of their pieces."""
    rows = [bar for bar in stacks if bar.total]
    if not rows:
        return ""
    legend_y = _BAR_HEIGHT * len(rows) + 8
    parts = [_open(title, _BARS_WIDTH, _BAR_HEIGHT * len(rows) + 24)]
    x = _BARS_LEFT
    names = {piece.colour: piece.name for bar in rows for piece in bar.pieces}
    for colour, name in names.items():
        parts.append(
            f'<rect x="{x:.1f}" y="{legend_y:g}" width="9" height="9" class="c{colour % COLOURS}"/>'
        )
        parts.append(
            f'<text x="{x + 13:.1f}" y="{legend_y + 9:g}" class="soft">{escape(name)}</text>'
        )
        x += _LETTER * len(name) + 24
    for index, bar in enumerate(rows):
        parts += _bar(bar, _BAR_HEIGHT * index + 2)
    return "".join([*parts, "</svg>"])


def _bar(bar: Bar, y: float) -> Iterator[str]:
    label = escape(bar.label)
    yield f'<text x="{_BARS_LEFT - 8:g}" y="{y + 15:g}" class="end">{label}</text>'
    x = _BARS_LEFT
    for piece in bar.pieces:
        share = piece.count / bar.total
        width = (_BARS_WIDTH - _BARS_LEFT - 4) * share
        tooltip = f"{piece.name}: {piece.count:,} ({100 * share:.0f} %)"
        yield (
            f'<rect x="{x:.1f}" y="{y:g}" width="{max(width, 0.5):.1f}" '
            f'height="{_BAR_HEIGHT - 6:g}" class="c{piece.colour % COLOURS}">'
            f"<title>{escape(tooltip)}</title></rect>"
        )
        text = f"{piece.name} {piece.count:,}"
        if width > _SMALL_LETTER * len(text) + 8:
            yield f'<text x="{x + 5:.1f}" y="{y + 14:g}" class="in">{escape(text)}</text>'
        x += width


def roofline(points: Sequence[RooflinePoint], roof: RooflineRoof | None) -> str:
    """Draws kernels under the roof of their device, on logarithmic axes."""
    if not points:
        return ""
    xs = [log10(point.intensity) for point in points]
    ys = [log10(point.rate) for point in points]
    if roof is not None:
        xs.append(log10(roof.rate / roof.bandwidth))
        ys.append(log10(roof.rate))
    area = _Area(
        _ROOFLINE_WIDTH,
        _ROOFLINE_HEIGHT,
        _LEFT + 20,
        (floor(min(xs) - 0.1), ceil(max(xs) + 0.3)),
        (floor(min(ys) - 0.1), ceil(max(ys) + 0.1)),
    )
    title = "roofline: operations per second over operations per byte"
    parts = [_open(title, area.width, area.height), *_powers(area)]
    if roof is not None:
        parts.append(_roof_line(area, roof))
    for index, point in enumerate(points):
        x, y = area.at(log10(point.intensity), log10(point.rate))
        tooltip = f"{point.name}: {point.rate:.4g} operations/s at {point.intensity:.3g} per byte"
        parts.append(_mark((x, y), 5, f"c{index % COLOURS}", tooltip))
        parts.append(f'<text x="{x + 8:.1f}" y="{y + 4:.1f}">{escape(point.name[:40])}</text>')
    parts.append(
        f'<text x="{area.width / 2:g}" y="{area.height - 3:g}" class="mid soft">operations per byte'
        " → operations per second</text></svg>"
    )
    return "".join(parts)


def _powers(area: _Area) -> Iterator[str]:
    (x0, x1), (y0, y1) = area.xs, area.ys
    for power in range(int(x0), int(x1) + 1):
        x = area.at(power, y0)[0]
        yield f'<path class="grid" d="M{x:.1f} {_TOP:g}V{area.bottom:g}"/>'
        yield f'<text x="{x:.1f}" y="{area.bottom + 15:g}" class="mid">{_power(power)}</text>'
    for power in range(int(y0), int(y1) + 1):
        x, y = area.at(x0, power)
        yield f'<path class="grid" d="M{x:.1f} {y:.1f}H{area.right:g}"/>'
        yield f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" class="end">{_power(power)}</text>'


def _roof_line(area: _Area, roof: RooflineRoof) -> str:
    bandwidth, rate = log10(roof.bandwidth), log10(roof.rate)
    # The slope begins where it enters the picture from below or from the left.
    start = max(area.xs[0], area.ys[0] - bandwidth)
    corners = (
        area.at(start, start + bandwidth),
        area.at(log10(roof.rate / roof.bandwidth), rate),
        area.at(area.xs[1], rate),
    )
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    return (
        f'<path class="line" d="M{path}"><title>{roof.rate:.4g} operations/s,'
        f" {roof.bandwidth:.4g} B/s</title></path>"
    )


def _power(power: int) -> str:
    """Returns a power of ten with a prefix: `100 G`."""
    base = power - power % 3
    if base in _PREFIXES:
        return f"{10 ** (power % 3)}{' ' if base else ''}{_PREFIXES[base]}"
    return f"1e{power}"
