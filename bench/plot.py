"""Draw results as one SVG: bars of ratios, one panel per file, and lines of growth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape

from msgspec import Struct

from bench.compare import OURS, Comparison
from bench.growth import Point
from bench.results import Results

_WIDTH = 860
_LEFT, _RIGHT = 230, 90
_ROW, _TITLE, _GAP = 18, 34, 22
_CHART_HEIGHT = 220
_OURS, _OTHER, _BOUND, _INK, _FAINT = "#1b6ca8", "#b9b9b9", "#c0392b", "#222222", "#dddddd"


class _Line(Struct, frozen=True):
    """A line of a chart; points are in its units."""

    points: tuple[tuple[float, float], ...]
    colour: str
    label: str


def svg(results: Results) -> str:
    """Return the SVG document."""
    parts: list[str] = []
    y = _GAP
    for comparison in results.comparisons:
        parts += _bars(comparison, y)
        y += _TITLE + _ROW * len(_shown(comparison)) + _GAP
    for title, unit, lines in _charts(results):
        parts += _chart(title, unit, lines, y)
        y += _TITLE + _CHART_HEIGHT + 2 * _GAP
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{y}"'
            f' font-family="sans-serif" font-size="12" fill="{_INK}">',
            f'<rect width="{_WIDTH}" height="{y}" fill="white"/>',
            *parts,
            "</svg>\n",
        )
    )


def _shown(comparison: Comparison) -> list[tuple[str, float, str]]:
    """Return method, ratio, and label of each bar."""
    rows = []
    for row in comparison.rows:
        if row.cpu_ratio is not None and row.cpu_s is not None and row.cpu_ratio.median > 0:
            ratio = row.cpu_ratio.median
            rows.append((row.method, ratio, f"{ratio:.2g}×  {row.cpu_s.median:.3g} s"))
    return rows


def _bars(comparison: Comparison, top: int) -> Iterator[str]:
    rows = _shown(comparison)
    title = f"CPU seconds against ccltui: {comparison.family} {comparison.layout}"
    yield _text(f"{title}, {comparison.size_bytes / 1e6:.0f} MB", 10, top + 14, weight="bold")
    low = min(0.1, *(ratio for _, ratio, _ in rows)) if rows else 0.1
    high = max(10.0, *(ratio for _, ratio, _ in rows)) if rows else 10.0
    span = math.log(high / low)
    for index, (method, ratio, label) in enumerate(rows):
        y = top + _TITLE + index * _ROW
        length = math.log(ratio / low) / span * (_WIDTH - _LEFT - _RIGHT)
        colour = _OURS if method == OURS else _OTHER
        yield _text(method, _LEFT - 8, y, anchor="end")
        yield (
            f'<rect x="{_LEFT}" y="{y - 10}" width="{max(length, 1):.1f}" height="13"'
            f' fill="{colour}"/>'
        )
        yield _text(label, _LEFT + length + 6, y)


def _charts(results: Results) -> Iterator[tuple[str, str, tuple[_Line, ...]]]:
    if results.events:
        yield "CPU seconds over millions of events", "s", (_cpu(results.events, 1e6),)
        bound = tuple((point.events / 1e6, point.bound_mib) for point in results.events)
        peak = tuple((point.events / 1e6, point.peak_mib.median) for point in results.events)
        lines = (_Line(peak, _OURS, "peak"), _Line(bound, _BOUND, "bound"))
        yield "Peak memory over millions of events", "MiB", lines
    if results.ranks:
        yield "CPU seconds over ranks", "s", (_cpu(results.ranks, 1),)


def _cpu(points: Sequence[Point], unit: float) -> _Line:
    return _Line(
        tuple((point.size / unit, point.cpu_s.median) for point in points), _OURS, "ccltui"
    )


def _chart(title: str, unit: str, lines: Sequence[_Line], top: int) -> Iterator[str]:
    """Draw lines with both axes from zero, so that proportional growth is straight."""
    right = max(x for line in lines for x, _ in line.points)
    highest = max(y for line in lines for _, y in line.points)
    width, left, base = _WIDTH - 260, 70, top + _TITLE + _CHART_HEIGHT

    def place(x: float, y: float) -> tuple[float, float]:
        return left + x / right * width, base - y / highest * (_CHART_HEIGHT - 10)

    yield _text(title, 10, top + 14, weight="bold")
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        x, y = place(right * share, highest * share)
        yield f'<path d="M{left} {y:.1f}H{left + width}" stroke="{_FAINT}"/>'
        yield _text(f"{highest * share:.3g} {unit}", left - 8, y + 4, anchor="end")
        yield _text(f"{right * share:.3g}", x, base + 16, anchor="middle")
    for line in lines:
        places = [place(x, y) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        yield f'<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"/>'
        for x, y in places:
            yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{line.colour}"/>'
        x, y = places[-1]
        yield _text(line.label, x + 8, y + 4, colour=line.colour)


def _text(
    text: str,
    x: float,
    y: float,
    *,
    anchor: str = "start",
    weight: str = "normal",
    colour: str = _INK,
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}"'
        f' fill="{colour}">{escape(text)}</text>'
    )
