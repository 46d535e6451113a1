"""Draw cumulative distributions of durations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

import numpy as np

from ccltui.draw.glyphs import HEIGHTS
from ccltui.draw.text import clean
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.numbers import duration

_AXIS: Final = 6  # columns left of the picture: "100 % "
_SVG_WIDTH, _SVG_HEIGHT, _SVG_LEFT, _SVG_BOTTOM, _SVG_TOP = 640, 360, 56, 44, 32
_INKS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def share_up_to(values_ns: I64, at_ns: F64) -> F64:
    """Share of the values that are at most each of ``at_ns``, from 0 to 1."""
    ordered = np.sort(values_ns)
    counts: F64 = np.searchsorted(ordered, at_ns, "right") / max(len(ordered), 1)
    return counts


def ecdf_lines(values_ns: I64, *, width: int = 72, height: int = 8) -> list[str]:
    """The curve as filled cells, time on a logarithmic axis, and a line of its ends.

    Each column shows the share of values up to its right edge, in eighths of a cell.
    """
    if not len(values_ns):
        return []
    columns = max(width - _AXIS, 8)
    edges = _edges(values_ns, columns)
    eighths = np.rint(share_up_to(values_ns, edges[1:]) * height * 8).astype(np.int64)
    lines = []
    for row in range(height - 1, -1, -1):
        cells = HEIGHTS[np.clip(eighths - row * 8, 0, 8)].tobytes().decode("utf-32-le")
        lines.append(f"{_percent(row, height):>{_AXIS - 1}} {cells}".rstrip())
    low, middle, high = (duration(round(edges[i])) for i in (0, columns // 2, columns))
    axis = low + middle.rjust(columns // 2 - len(low) + len(middle) // 2)
    return [*lines, " " * _AXIS + axis + high.rjust(columns - len(axis))]


def ecdf_svg(curves: Mapping[str, I64], *, title: str, marks_ns: Sequence[int] = ()) -> str:
    """SVG of step curves, one per name, time on a logarithmic axis; marks are vertical lines."""
    known = {name: values for name, values in curves.items() if len(values)}
    both = np.concatenate([*known.values(), np.empty(0, np.int64)]).astype(np.int64)
    parts = [_svg_frame(title)]
    if len(both):
        edges = _edges(both, 4)
        parts += [_svg_tick(value, edges) for value in edges]
        parts += [_svg_mark(value, edges) for value in marks_ns]
        for index, (name, values) in enumerate(known.items()):
            ink = _INKS[index % len(_INKS)]
            parts += [_svg_curve(values, edges, ink), _svg_legend(name, index, ink)]
    return "\n".join([*parts, "</svg>\n"])


def _edges(values_ns: I64, columns: int) -> F64:
    """Borders of columns, even on a logarithmic axis, from the smallest to the largest."""
    low, high = max(int(values_ns.min()), 1), max(int(values_ns.max()), 2)
    if np.log(high) <= np.log(low):  # also for nearly equal times near 2**53
        low = max(low // 2, 1)
    edges = np.exp(np.linspace(np.log(low), np.log(high), columns + 1))
    edges[-1] = high  # exact, so that the largest value is inside
    return edges


def _percent(row: int, height: int) -> str:
    if row == height - 1:
        return "100 %"
    if row == (height - 1) // 2:
        return f"{100 * (row + 1) // height} %"
    return "0 %" if row == 0 else ""


def _x(value_ns: float, edges: F64) -> float:
    low, high = np.log(edges[0]), np.log(edges[-1])
    share = (np.log(max(value_ns, float(edges[0]))) - low) / (high - low)
    return float(_SVG_LEFT + min(share, 1.0) * (_SVG_WIDTH - _SVG_LEFT - 16))


def _y(share: float) -> float:
    return _SVG_HEIGHT - _SVG_BOTTOM - share * (_SVG_HEIGHT - _SVG_BOTTOM - _SVG_TOP)


def _svg_frame(title: str) -> str:
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_SVG_WIDTH} {_SVG_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<rect width="{_SVG_WIDTH}" height="{_SVG_HEIGHT}" fill="#ffffff"/>',
        f'<text x="{_SVG_LEFT}" y="20" font-size="14">{escape(clean(title))}</text>',
    ]
    for percent in (0, 25, 50, 75, 100):
        y = _y(percent / 100)
        lines.append(
            f'<path d="M{_SVG_LEFT} {y:.1f}H{_SVG_WIDTH - 16}" stroke="#dddddd"/>'
            f'<text x="{_SVG_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{percent} %</text>'
        )
    return "\n".join(lines)


def _svg_tick(value_ns: float, edges: F64) -> str:
    x, y = _x(value_ns, edges), _SVG_HEIGHT - _SVG_BOTTOM + 18
    return f'<text x="{x:.1f}" y="{y}" text-anchor="middle">{duration(round(value_ns))}</text>'


def _svg_mark(value_ns: int, edges: F64) -> str:
    x = _x(value_ns, edges)
    return f'<path d="M{x:.1f} {_y(0):.1f}V{_y(1):.1f}" stroke="#888888" stroke-dasharray="4 3"/>'


def _svg_curve(values_ns: I64, edges: F64, ink: str) -> str:
    found, counts = np.unique(values_ns, return_counts=True)
    shares = np.cumsum(counts) / len(values_ns)
    path = [f"M{_x(float(found[0]), edges):.1f} {_y(0):.1f}"]
    for value, share in zip(found.tolist(), shares.tolist(), strict=True):
        path.append(f"H{_x(value, edges):.1f}V{_y(share):.1f}")
    return f'<path d="{"".join(path)}" fill="none" stroke="{ink}" stroke-width="1.5"/>'


def _svg_legend(name: str, index: int, ink: str) -> str:
    y = _y(0) - 12 - 18 * index
    return (
        f'<text x="{_SVG_WIDTH - 24}" y="{y:.1f}" text-anchor="end" fill="{ink}">'
        f"{escape(clean(name))}</text>"
    )
