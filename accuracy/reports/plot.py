"""Line plots as SVG text: measured points with their intervals, one line per series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = (
    "#2f6fd0",
    "#d9662b",
    "#2a9d6f",
    "#b13a8c",
    "#8a6d1d",
    "#6b52c8",
    "#c33c4a",
    "#2395ad",
    "#7d8a2e",
    "#8f5a3c",
    "#5d6b7a",
    "#d08a9b",
)
_WIDTH, _LEFT, _TOP, _BOTTOM, _LEGEND = 760, 58, 14, 44, 170
_TICKS = 5


@dataclass(frozen=True)
class Point:
    """A value with the ends of its interval; ``label`` is shown when the pointer is over it."""

    x: float
    y: float
    low: float
    high: float
    label: str


@dataclass(frozen=True)
class Plot:
    """Series over common axes.

    Args:
        series: by name; lines connect their points from left to right.
        most: the highest value that can be, which intervals and ticks respect.
        height: in pixels; the width is fixed.
    """

    x_label: str
    y_label: str
    series: Mapping[str, Sequence[Point]]
    most: float = math.inf
    height: int = 380

    def to_svg(self) -> str:
        """The plot as an ``<svg>`` element; empty without points."""
        points = [point for line in self.series.values() for point in line]
        if not points:
            return ""
        x = _Axis.over([p.x for p in points], _LEFT, _WIDTH - _LEGEND, math.inf)
        ends = [end for p in points for end in (p.low, p.high)]
        y = _Axis.over(ends, self.height - _BOTTOM, _TOP, self.most)
        names = sorted(self.series, key=lambda name: -_mean_y(self.series[name]))
        colours = dict(zip(self.series, _COLOURS * len(self.series), strict=False))
        body = [*self._axes(x, y)]
        for name in self.series:
            body += _series(name, self.series[name], colours[name], x, y)
        for place, name in enumerate(names):
            top = _TOP + 8 + place * 20
            left = _WIDTH - _LEGEND + 18
            body.append(
                f'<circle cx="{left}" cy="{top}" r="5" fill="{colours[name]}"/>'
                f'<text x="{left + 12}" y="{top + 4}">{escape(name)}</text>'
            )
        title = escape(f"{self.y_label} over {self.x_label}")
        return (
            f'<svg viewBox="0 0 {_WIDTH} {self.height}" role="img" aria-label="{title}">'
            f"{''.join(body)}</svg>"
        )

    def _axes(self, x: _Axis, y: _Axis) -> list[str]:
        right, bottom = _WIDTH - _LEGEND, self.height - _BOTTOM
        lines = []
        for tick in y.ticks:
            at = y.place(tick)
            lines.append(
                f'<path class="grid" d="M{_LEFT} {at:.1f}H{right}"/>'
                f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        for tick in x.ticks:
            at = x.place(tick)
            lines.append(
                f'<path class="axis" d="M{at:.1f} {bottom}v5"/>'
                f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>'
            )
        middle = (_LEFT + right) / 2
        lines.append(
            f'<path class="axis" d="M{_LEFT} {bottom}H{right}"/>'
            f'<text x="{middle:.0f}" y="{self.height - 6}" text-anchor="middle">'
            f"{escape(self.x_label)}</text>"
            f'<text x="14" y="{bottom / 2:.0f}" text-anchor="middle"'
            f' transform="rotate(-90 14 {bottom / 2:.0f})">{escape(self.y_label)}</text>'
        )
        return lines


@dataclass(frozen=True)
class _Axis:
    """A linear map from values to pixels, with round ticks."""

    low: float
    high: float
    begin: float
    end: float

    @classmethod
    def over(cls, values: Sequence[float], begin: float, end: float, most: float) -> _Axis:
        """An axis with a little room around ``values``."""
        least, greatest = min(values), max(values)
        room = 0.04 * (greatest - least) or max(1.0, 0.1 * abs(greatest))
        low = least if least == 0 else max(least - room, 0.0) if least > 0 else least - room
        return cls(low, max(min(greatest + room, most), low + room), begin, end)

    def place(self, value: float) -> float:
        """The pixel of a value."""
        share = (value - self.low) / (self.high - self.low)
        return self.begin + share * (self.end - self.begin)

    @property
    def ticks(self) -> list[float]:
        """About five round values."""
        rough = (self.high - self.low) / _TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        return [round(number * step, 10) for number in range(first, last + 1)]


def _series(name: str, points: Sequence[Point], colour: str, x: _Axis, y: _Axis) -> list[str]:
    ordered = sorted(points, key=lambda point: point.x)
    path = " ".join(f"{x.place(p.x):.1f},{y.place(p.y):.1f}" for p in ordered)
    marks = [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>']
    for p in ordered:
        at, top, bottom = x.place(p.x), y.place(p.high), y.place(p.low)
        marks.append(
            f'<path d="M{at:.1f} {top:.1f}V{bottom:.1f}" stroke="{colour}" opacity="0.45"/>'
            f'<circle cx="{at:.1f}" cy="{y.place(p.y):.1f}" r="3.6" fill="{colour}">'
            f"<title>{escape(p.label)}</title></circle>"
        )
    return [f"<g><title>{escape(name)}</title>", *marks, "</g>"]


def _mean_y(points: Sequence[Point]) -> float:
    return sum(point.y for point in points) / len(points) if points else -math.inf
