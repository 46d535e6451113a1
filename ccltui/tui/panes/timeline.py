"""Compute and network of every rank against time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ccltui.draw.lanes import Lane
from ccltui.draw.minimap import put_minimap
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.ruler import put_area, put_hits
from ccltui.draw.timeline import Selected, TimeGrid, rows_per_lane, timeline
from ccltui.tui import area
from ccltui.tui.panes.gutter import gutter
from ccltui.tui.queries import hit_query
from ccltui.tui.scene import Scene, Span, rank_name

_TALL = 30
"""Rows of a pane from which one is left for the whole window."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """As many ranks as fit, the selected one among them."""
    span = scene.findings.span
    if span is None:
        planes = Planes.blank(height, width, Ink.TEXT)
        planes.put(1, 1, "Ranks appear here as they are read.", Ink.DIM)
        return planes
    ranks = scene.ranks
    selection = scene.state.selection
    selected = ranks.index(selection.rank) if selection.rank in ranks else 0
    per_lane = rows_per_lane(merged=scene.state.merged)
    mapped = height >= _TALL or 1 + len(ranks) * per_lane < height
    fitting = max((height - 1 - mapped) // per_lane, 1)
    lanes = [replace(scene.findings.lanes[rank], label=rank_name(rank)) for rank in ranks]
    view = scene.state.time
    planes = timeline(
        lanes,
        TimeGrid(view.k0, view.cell_ns, scene.findings.origin_ns),
        height=height - mapped,
        width=width,
        gutter=gutter(scene),
        first=_first(selected, fitting, len(ranks)),
        selected=Selected(selected, selection.time_ns),
        merged=scene.state.merged,
    )
    if mapped:
        planes = _with_minimap(planes, scene, lanes, span)
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


def _with_minimap(planes: Planes, scene: Scene, lanes: Sequence[Lane], span: Span) -> Planes:
    """The picture with one more row for the whole window."""
    whole = Planes.blank(planes.height + 1, planes.width, Ink.TEXT)
    whole.paste(planes, 0, 0)
    view = scene.state.time
    put_minimap(
        whole,
        planes.height,
        gutter(scene),
        lanes,
        origin_ns=scene.findings.origin_ns,
        span_ns=(span.start_ns, span.end_ns),
        view_ns=(view.left_ns, view.right_ns),
    )
    return whole


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
