"""Draw the whole window in one row: busy share of networks or devices, and the visible part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ccltui.draw import glyphs
from ccltui.draw.lanes import Lane, Track
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.parsers.array_types import I64, U32

What = Literal["net", "comp"]
_MOST_LANES = 64
"""Limit of sampled ranks: of more ranks an even selection is drawn."""
_MOST_KEPT = 4


class Minimap:
    """Mean share of network or compute time of all lanes; caches the last drawing.

    The cache pays off because the whole window is the same in every frame, and sampling all lanes
    costs more than the visible ones.
    """

    def __init__(self, lanes: Sequence[Lane]) -> None:
        self._lanes = lanes[:: -(-len(lanes) // _MOST_LANES) or 1]
        self._known: dict[tuple[What, int, int, tuple[int, int]], U32] = {}

    def put(
        self,
        planes: Planes,
        y: int,
        gutter: int,
        *,
        origin_ns: int,
        span_ns: tuple[int, int],
        view_ns: tuple[int, int],
        what: What = "net",
    ) -> None:
        """Draw one row for ``span_ns`` from ``origin_ns``, with the visible part highlighted."""
        cells = planes.width - gutter
        start, end = span_ns
        if cells < 1 or end <= start or not self._lanes:
            return
        edges = start + np.arange(cells + 1, dtype=np.int64) * (end - start) // cells
        key = what, cells, origin_ns, span_ns
        if key not in self._known:
            if len(self._known) >= _MOST_KEPT:
                self._known.clear()
            self._known[key] = self._heights(what, edges, origin_ns)
        planes.put(y, 0, f"{what} %".rjust(gutter - 1), Ink.DIM)
        planes.glyph[y, gutter:] = self._known[key]
        shown = (edges[1:] > view_ns[0]) & (edges[:-1] < view_ns[1])
        planes.style[y, gutter:] = np.where(shown, Ink.AREA, Ink.DIM)

    def _heights(self, what: What, edges: I64, origin_ns: int) -> U32:
        covered = sum(
            _track(lane, what).covered_ns(lane.own(edges + origin_ns)) for lane in self._lanes
        )
        room = np.maximum(np.diff(edges), 1) * len(self._lanes)
        heights: U32 = glyphs.HEIGHTS[np.minimum(-(-covered * 8 // room), 8)]
        return heights


def _track(lane: Lane, what: What) -> Track:
    return lane.network if what == "net" else lane.compute
