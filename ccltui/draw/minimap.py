"""The whole window in a row: how busy networks or devices are, and which part is in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ccltui.draw import glyphs
from ccltui.draw.lanes import Lane, Track
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes

What = Literal["net", "comp"]
_MOST_LANES = 64
"""Of more ranks an even selection stands for all."""


def put_minimap(
    planes: Planes,
    y: int,
    gutter: int,
    lanes: Sequence[Lane],
    *,
    origin_ns: int,
    span_ns: tuple[int, int],
    view_ns: tuple[int, int],
    what: What = "net",
) -> None:
    """Mean share of network or compute time of all lanes; ``span_ns`` is what the row shows.

    Spans count from ``origin_ns``. The part that is in view stands out.
    """
    cells = planes.width - gutter
    start, end = span_ns
    if cells < 1 or end <= start or not lanes:
        return
    edges = start + np.arange(cells + 1, dtype=np.int64) * (end - start) // cells
    chosen = lanes[:: -(-len(lanes) // _MOST_LANES)]
    covered = sum(
        _track(lane, what).sample(lane.own(edges + origin_ns)).covered_ns for lane in chosen
    )
    room = np.maximum(np.diff(edges), 1) * len(chosen)
    planes.put(y, 0, f"{what} %".rjust(gutter - 1), Ink.DIM)
    planes.glyph[y, gutter:] = glyphs.HEIGHTS[np.minimum(-(-covered * 8 // room), 8)]
    shown = (edges[1:] > view_ns[0]) & (edges[:-1] < view_ns[1])
    planes.style[y, gutter:] = np.where(shown, Ink.AREA, Ink.DIM)


def _track(lane: Lane, what: What) -> Track:
    return lane.network if what == "net" else lane.compute
