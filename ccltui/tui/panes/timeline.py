"""Compute and network of every rank against time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import put_area, put_hits
from ccltui.draw.timeline import Selected, TimeGrid, rows_per_lane, timeline
from ccltui.tui import area
from ccltui.tui.panes.gutter import gutter
from ccltui.tui.queries import hit_query
from ccltui.tui.scene import Scene, rank_name


def paint(scene: Scene, height: int, width: int) -> Planes:
    """As many ranks as fit, the selected one among them."""
    if scene.findings.span is None:
        planes = Planes.blank(height, width, Ink.TEXT)
        planes.put(1, 1, "Ranks appear here as they are read.", Ink.DIM)
        return planes
    ranks = scene.ranks
    selection = scene.state.selection
    selected = ranks.index(selection.rank) if selection.rank in ranks else 0
    fitting = max((height - 1) // rows_per_lane(merged=scene.state.merged), 1)
    lanes = [replace(scene.findings.lanes[rank], label=rank_name(rank)) for rank in ranks]
    view = scene.state.time
    planes = timeline(
        lanes,
        TimeGrid(view.k0, view.cell_ns, scene.findings.origin_ns),
        height=height,
        width=width,
        gutter=gutter(scene),
        first=_first(selected, fitting, len(ranks)),
        selected=Selected(selected, selection.time_ns),
        merged=scene.state.merged,
    )
    measured = area.span(scene)
    if measured is not None:
        put_area(
            planes, gutter(scene), view.column(measured.start_ns), view.column(measured.end_ns)
        )
    if scene.hits is not None and scene.hits.query == hit_query(scene):
        edges = TimeGrid(view.k0, view.cell_ns, 0).edges_ns(view.cells)
        passed = scene.hits.places.searchsorted(edges)
        put_hits(planes, gutter(scene), np.flatnonzero(np.diff(passed)))
    return planes


def _first(selected: int, fitting: int, count: int) -> int:
    """First rank in view: whole pages, so that the picture moves only when it must."""
    if count <= fitting:
        return 0
    return min(selected // fitting * fitting, count - fitting)


def shift(before: Scene, after: Scene) -> int:
    """By how many columns the picture moved, 0 when it is another picture."""
    old, new = before.state.time, after.state.time
    if (old.cell_ns, old.cells) != (new.cell_ns, new.cells):
        return 0
    return old.k0 - new.k0
